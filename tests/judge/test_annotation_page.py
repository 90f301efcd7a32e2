"""The labelling page in a real browser, by keyboard alone; the command killed in between; hostile answers stay text."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from demur.judge.annotation.task import Item, Label, Task, default_rubric, last_labels, write_task

pytestmark = pytest.mark.integration
CHROMIUM = (
    os.environ.get("DEMUR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: pip install 'demur[test]'"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium (or set DEMUR_CHROMIUM to its path)")
    with playwright.sync_playwright() as started:
        arguments = [
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ]
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=arguments, timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1280, "height": 860})
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    opened.close()


def started(folder: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "demur", "annotate", "--out", str(folder), "--json", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    with process.stdout as said:
        return process, json.loads(said.readline())["url"]


def at(page: Any, place: str) -> None:
    page.wait_for_selector(f"html[data-at='{place}']")


def test_a_questions_passages_are_shown_together_with_the_answer_marked(
    page: Any, tmp_path: Path
) -> None:
    items = [
        Item(
            id=f"i{n}",
            shown=(("Question", "How long?"), ("Passage", f"{HOSTILE} It is 5 km long ({n}).")),
            marks=(("Passage", "5 km"), ("Passage", HOSTILE), ("Question", "")),
            group="q",
        )
        for n in range(3)
    ]
    labels = (Label(name="yes"), Label(name="no"))
    write_task(tmp_path / "task", Task(name="t", labels=labels, repeats=0.0, closing="yes"), items)
    process, url = started(tmp_path / "task")
    try:
        page.goto(url)
        at(page, "0")
        assert page.locator("#fields h2", has_text="Question").count() == 1
        assert page.locator(".one").count() == 3
        assert set(page.locator(".one mark").all_inner_texts()) == {"5 km", HOSTILE}
        assert page.locator("img[src=x]").count() == 0
        page.keyboard.press("2")
        at(page, "1")
        assert page.locator(".one[aria-current=true]").inner_text().endswith("(1).")
        page.locator(".one").nth(2).click()
        at(page, "2")
        page.keyboard.press("1")
        at(page, "done")
        assert page.inner_text("#count") == "3 of 3"
    finally:
        process.kill()
        process.wait()


def test_labelling_by_keyboard(page: Any, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    (folder / "images").mkdir(parents=True)
    Image.new("RGB", (640, 400), "#d55e00").save(folder / "images" / "one.png")
    texts = ["The Danube.", HOSTILE, "I cannot tell.", "La rivière est le Danube.", "Rhine"]
    items = [
        Item(
            id=f"i{n}",
            shown=(("Question", "Which river flows through Vienna?"), ("Answer", text)),
            images=("one.png",),
            hidden=(("Accepted", "Danube"), ("The judge", f"SECRET-{n}")),
        )
        for n, text in enumerate(texts)
    ]
    labels = (Label(name="correct"), Label(name="incorrect"), Label(name="deflected"))
    write_task(
        folder, Task(name="rivers", labels=labels, rubric=default_rubric(), repeats=0.0), items
    )
    shots = Path(os.environ.get("DEMUR_SHOTS", tmp_path))
    said: list[str] = []
    page.on("console", lambda m: said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    process, url = started(folder, "--as", "maria")
    try:
        page.goto(url)
        at(page, "0")
        assert "SECRET" not in page.content()
        assert re.fullmatch("[0-9A-F]{12}", page.inner_text("#version"))
        for gone in (True, False):
            page.keyboard.press("r")
            page.wait_for_selector("#rubric", state="hidden" if gone else "visible")
        page.screenshot(path=shots / "annotate-1.png")
        page.keyboard.press("1")
        at(page, "1")
        page.keyboard.press("2")
        page.keyboard.press("2")  # pressed before the next item is there: keys wait for one another
        at(page, "3")
        page.keyboard.press("u")
        at(page, "2")
        page.keyboard.press("b")
        at(page, "1")
        assert page.get_attribute("#labels [aria-pressed=true]", "data-label") == "incorrect"
        page.keyboard.press("g")  # after the label
        page.wait_for_selector("#hidden:not([hidden])")
        page.keyboard.press("3")
        at(page, "2")
        page.keyboard.press("s")
        at(page, "3")
        page.keyboard.press("n")
        page.keyboard.type("123 looked twice")
        page.keyboard.press("Enter")
        page.keyboard.press("g")
        page.wait_for_selector("#hidden:not([hidden])")
        assert "SECRET" in page.inner_text("#hidden")
        page.keyboard.press("z")
        page.wait_for_selector("dialog[open] img")
        page.screenshot(path=shots / "annotate-2.png")
        page.keyboard.press("z")
        page.wait_for_selector("dialog:not([open])", state="attached")
        page.screenshot(path=shots / "annotate-3.png")
        page.keyboard.press("0")
        at(page, "4")
        assert "a minute" in page.inner_text("#rate")
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = {i: w.label for i, w in last_labels(folder, "maria").items()}
        assert len(before) == 3
        process, url = started(folder, "--as", "maria")
        page.goto(url)
        at(page, "2")
        assert page.inner_text("#count") == "3 of 5"
        assert page.get_attribute("#bar", "value") == "3"
        page.keyboard.press("1")
        at(page, "4")
        page.keyboard.press("2")
        at(page, "done")
        page.screenshot(path=shots / "annotate-4.png")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        found = last_labels(folder, "maria")
        assert sorted(w.label for w in found.values()) == [
            "cannot_tell",
            "correct",
            "correct",
            "deflected",
            "incorrect",
        ]
        assert [(w.note, w.revealed) for w in found.values() if w.note] == [
            ("123 looked twice", True)
        ]
        put = {i: ("incorrect", "") for i, w in found.items() if w.label == "correct"}
        from demur.judge.annotation.task import put_labels

        put_labels(folder, "bob", put)
        process, url = started(folder, "--adjudicate")
        page.goto(url)
        at(page, "0")
        assert "MARIA" in page.inner_text("#fields").upper()
        page.screenshot(path=shots / "annotate-5.png")
        page.keyboard.press("1")
        at(page, "1")
        page.keyboard.press("2")
        at(page, "done")
        assert page.locator("img[src=x]").count() == 0
        assert not [line for line in said if "pwned" in line or "Refused" in line]
    finally:
        process.kill()
        process.wait()
