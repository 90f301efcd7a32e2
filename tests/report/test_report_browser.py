"""The report in a real browser, opened from a file: plots, filters, keyboard, names, phone, 50,000 rows.

Needs Chromium and Playwright's Python package; without them these tests alone are skipped, with the command
that enables them. DEMUR_CHROMIUM names another executable.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_report_numbers import run

from demur.core.records import Outcome, Row, Scenario, Status
from demur.reports.data import ReportData, load
from demur.reports.html import page as html
from demur.reports.html import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.integration
Demo = tuple[Path, list[Path]]

CHROMIUM = (
    os.environ.get("DEMUR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


PATIENCE_MS = 180_000
"""Tells what comes late, on a slow and busy machine, from what never comes."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: pip install 'demur[test]'"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium (or set DEMUR_CHROMIUM to its path)")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE_MS
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "report.html"
    write_report(load(demo[1], demo[0]), out)
    return out


class Opened:
    """A page with everything it complained about."""

    def __init__(self, page: Page, path: Path, hash_: str = "") -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda m: self.said.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.said.append(f"error: {e}"))
        page.on("request", lambda r: self.asked.append(r.url))
        page.set_default_timeout(PATIENCE_MS)
        page.goto(path.as_uri() + hash_)
        page.wait_for_selector("html[data-ready=yes]")

    def shown(self) -> int:
        """How many asks match, as the page says."""
        return int(self.page.inner_text("#count strong").replace(",", ""))

    def wait(self, holds: Callable[[int], bool]) -> None:
        """Until the number shown is as wanted (the page's policy forbids Playwright's own waiting by expression)."""
        for _ in range(PATIENCE_MS // 50):
            if holds(self.shown()):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{self.shown()} shown")

    def choose(self, field: str, label: str) -> None:
        self.page.select_option(f"#f-{field}", label=label)

    def codes(self) -> list[str]:
        """The outcome letters of the rows drawn, one string a row."""
        script = (
            "es => es.map(e => [...e.querySelectorAll('.glyph')].map(g => g.classList[1]).join(''))"
        )
        found: list[str] = self.page.locator("#list .item").evaluate_all(script)
        return found


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    one = Opened(page, report)
    yield one
    page.close()
    assert one.said == []
    assert [url for url in one.asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.slow
def test_plots_are_drawn(opened: Opened) -> None:
    marks = opened.page.locator("svg .mark").count()
    assert (
        opened.page.locator("#overview svg .mark").count() == 4 * 3 * 3
    )  # scenarios, systems, outcomes
    curves = opened.page.locator("#sweep svg polyline.curve")
    assert (
        curves.count() == 3 * 2 * 2
    )  # grey up to k=2: at k=1 some lack a distractor of gold's kinds
    assert marks > 100
    boxes = opened.page.locator("#overview svg .o-accuracy").evaluate_all(
        "es => es.map(e => e.getBBox().width)"
    )
    assert max(boxes) > 200


def test_scenario_source_topic_prompt_and_recipe_filters(opened: Opened) -> None:
    assert opened.shown() == 192  # the main results; sweeps are one click away
    opened.choose("scenario", "realistic")
    assert opened.shown() == 48
    opened.choose("source", "flags")
    assert opened.shown() == 24
    opened.choose("topic", "capital")
    assert opened.shown() == 6
    opened.page.uncheck("#f-main")
    assert opened.shown() > 6
    opened.choose("condition", "severe")
    assert opened.shown() == 6
    opened.page.click("#f-reset")
    opened.wait(lambda n: n == 192)
    opened.page.uncheck("#f-main")
    opened.choose("recipe", "realistic, k=5")
    assert opened.shown() == 48


def test_outcome_and_system_filters(opened: Opened) -> None:
    opened.choose("system", "small-lm")
    opened.choose("outcome", "failed")
    assert opened.shown() == 16
    assert {c[2] for c in opened.codes()} == {"f"}
    opened.choose("outcome", "unjudged")
    assert opened.shown() == 4
    opened.choose("system", "reader")
    opened.choose("outcome", "deflected")
    assert opened.shown() == 0
    assert opened.page.locator("#list").inner_text() == "No sample matches these filters."


def test_disagreement_filter_counts_graded_answers_alone(opened: Opened) -> None:
    opened.page.check("#f-disagree")
    assert 0 < opened.shown() < 192
    for codes in opened.codes():
        assert len(set(codes) & set("cdi")) > 1


def test_free_text_finds_questions_and_answers(opened: Opened) -> None:
    opened.page.fill("#f-text", "kenya CURRENCY")
    opened.wait(
        lambda n: n == 8
    )  # a flag question (found by its id) and a text question, in four scenarios
    assert "What is the currency of Kenya?" in opened.page.locator("#list .item").last.inner_text()
    opened.page.fill("#f-text", "cannot tell from the evidence")
    opened.wait(lambda n: n > 50)
    opened.page.fill("#f-text", "no such words")
    opened.wait(lambda n: n == 0)


def test_one_sample_shows_image_evidence_in_order_answers_and_reasons(
    opened: Opened, data: ReportData
) -> None:
    opened.choose("scenario", "realistic")
    opened.choose("source", "flags")
    opened.page.locator("#list .item").first.click()
    detail = opened.page.locator("#detail")
    ids = detail.locator(".mono").inner_text().split()
    sample, context = data.samples[ids[1]], data.runs[0].contexts[ids[3]]
    assert detail.locator("h3").inner_text() == sample.question
    assert detail.locator(".shots img").evaluate("i => i.complete && i.naturalWidth") > 100
    titles = {e.id: e.title for e in (*sample.gold, *sample.negatives)}
    assert detail.locator(".ev .t").all_inner_texts() == [titles[e] for e in context.evidence]
    gold = detail.locator(".ev").evaluate_all("es => es.map(e => e.classList.contains('gold'))")
    assert gold == [e in context.gold for e in context.evidence]
    answers = {
        r.answer
        for x in data.runs
        for r in x.rows
        if r.context == context.id and r.condition == "moderate"
    }
    assert set(detail.locator(".said").all_inner_texts()) >= {a for a in answers if a}
    assert "Why: " in detail.inner_text()
    assert "should answer" in detail.inner_text()


def test_the_keyboard_is_enough(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "f-text"
    for _ in range(12):  # through the other filters to the list
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "list":
            break
    assert page.evaluate("document.activeElement.id") == "list"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # focus can be seen
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    active = page.locator("#list").get_attribute("aria-activedescendant")
    assert active == "item-2"
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    page.keyboard.press("End")
    assert page.locator("#list").get_attribute("aria-activedescendant") == "item-191"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "detail"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"


def test_everything_has_a_name(opened: Opened) -> None:
    tree = opened.page.locator("body").aria_snapshot()
    for expected in (
        'navigation "Sections"',
        'searchbox "Text in question or answers"',
        'combobox "Scenario"',
        'combobox "Outcome"',
        'combobox "System"',
        'combobox "Source"',
        'combobox "Topic"',
        'combobox "Prompt"',
        'combobox "Context recipe"',
        'checkbox "Systems disagree"',
        'checkbox "Main results only"',
        'listbox "Samples"',
        'button "Dark theme"',
        'heading "What the systems did" [level=2]',
        'table "Results by scenario, in per cent of the answers (n)"',
        'img "Parametric. reader',
    ):
        assert expected in tree, expected
    for control in opened.page.locator("button, input, select, a[href], [tabindex='0']").all():
        name = control.evaluate(
            "e => e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels[0].textContent.trim())"
            " || (e.getAttribute('aria-labelledby') || '').split(' ').map(i => document.getElementById(i)?.textContent).join('')"
        )
        assert name, control


def test_a_regression_links_to_its_sample(opened: Opened) -> None:
    link = opened.page.locator("#compare details[open] a").first
    question = link.locator("xpath=ancestor::tr").locator("td").nth(2).inner_text()
    link.click()
    opened.page.locator("#detail h3", has_text=question).wait_for()
    assert "#ask=" in opened.page.url


def test_themes_change_and_text_stays_readable(opened: Opened) -> None:
    script = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(script)
    opened.page.click("#theme")
    assert opened.page.evaluate(script) != light
    assert opened.page.inner_text("#theme") == "Light theme"


def test_print_leaves_out_what_paper_cannot_do(opened: Opened) -> None:
    opened.page.emulate_media(media="print")
    for gone in ("nav.jump", "#filters", "#list"):
        assert not opened.page.locator(gone).is_visible(), gone
    assert opened.page.locator("#overview svg").first.is_visible()


@pytest.mark.parametrize("width", [900, 1400])
def test_nothing_is_cut_on_a_screen(browser: Browser, report: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    Opened(page, report)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for details in page.locator("summary").all():
        details.click()
    script = "es => es.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.querySelector('table').className)"
    cut = page.locator(".scroll").evaluate_all(script)
    assert cut == [] if width >= 1400 else set(cut) <= {"topics"}
    verdict = page.locator("table.compare-0 th", has_text="Verdict").bounding_box()
    assert verdict is not None
    assert verdict["x"] + verdict["width"] <= width
    page.close()


def test_print_cuts_no_table(opened: Opened) -> None:
    opened.page.set_viewport_size({"width": 718, "height": 1000})  # A4 between Chromium's margins
    opened.page.emulate_media(media="print")
    opened.page.locator("summary").evaluate_all(
        "es => es.forEach(e => { e.parentElement.open = true })"
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 718
    sizes = opened.page.locator("table").evaluate_all(
        "es => es.map(e => e.getBoundingClientRect().right)"
    )
    assert max(sizes) <= 718.5
    lines = """es => es.filter(e => /^\\w+$/.test(e.textContent)).filter(e => {
        const range = document.createRange();
        range.selectNodeContents(e);
        return new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1;
    }).map(e => e.textContent)"""
    assert (
        opened.page.locator("tbody td.l:not(.long)").evaluate_all(lines) == []
    )  # no word is broken
    answers = opened.page.locator("table.changed-0 td:nth-child(4)")
    assert min(answers.evaluate_all("es => es.map(e => e.offsetWidth)")) >= 64


def test_equal_questions_are_told_apart_by_picture_answer_and_id(opened: Opened) -> None:
    opened.choose("source", "flags")
    opened.choose("topic", "capital")
    opened.choose("scenario", "oracle")
    items = opened.page.locator("#list .item")
    assert len({t.splitlines()[0] for t in items.all_inner_texts()}) == 1  # equal words
    told = items.evaluate_all(
        "es => es.map(e => [...e.querySelectorAll('.w')].map(w => w.textContent).join('|'))"
    )
    assert len(set(told)) == len(told) == 6
    assert all(len(t.split("|")) == 2 for t in told)
    assert len(set(items.locator("img.thumb").evaluate_all("es => es.map(e => e.src)"))) >= 5
    assert items.locator("img.thumb").evaluate_all("es => es.every(e => e.naturalWidth > 0)")


def test_the_first_screen_is_the_answer_and_one_line_that_opens_to_every_caveat(
    browser: Browser, report: Path
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(report.as_uri())
    answer, more = page.locator("table.answers"), page.locator("header details.caveats")
    table, line = answer.bounding_box(), more.bounding_box()
    assert table is not None
    assert line is not None
    assert table["y"] + table["height"] < line["y"]
    assert line["y"] + line["height"] < 900
    assert line["height"] < 60
    assert "things to know before you quote these figures" in more.inner_text()
    assert not more.locator("li").first.is_visible()
    more.locator("summary").click()
    assert all(item.is_visible() for item in more.locator("li").all())
    # what makes a figure unusable stays beside it
    assert "of 48" in answer.locator("tr", has_text="small-lm").inner_text()
    assert answer.evaluate("e => e.parentElement.scrollWidth <= e.parentElement.clientWidth")
    page.close()


def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, report: Path) -> None:
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True
    )
    one = Opened(context.new_page(), report)
    assert one.page.evaluate("document.documentElement.scrollWidth") == 360
    for details in one.page.locator("summary").all():
        details.click()
    assert one.page.evaluate("document.documentElement.scrollWidth") == 360
    one.page.locator("#list .item").nth(2).tap()
    assert one.page.locator("#detail").is_visible()
    assert one.page.evaluate("document.querySelector('#detail').scrollWidth") <= 360
    one.page.locator(".back").tap()
    assert not one.page.locator("#detail").is_visible()
    assert one.said == []
    context.close()


@pytest.mark.parametrize("name", ["reader", "Qwen2.5-VL-72B-Instruct-AWQ" * 4])
def test_on_a_phone_the_first_table_scrolls_in_itself_beside_its_names(
    browser: Browser, demo: Demo, tmp_path: Path, name: str
) -> None:
    shutil.copytree(demo[1][0], tmp_path / name)
    shutil.copytree(demo[1][1], tmp_path / "other")
    write_report(load([tmp_path / name, tmp_path / "other"], demo[0]), tmp_path / "r.html")
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
    )
    page = Opened(context.new_page(), tmp_path / "r.html").page
    box = page.locator(".scroll").first
    assert box.evaluate("e => e.scrollWidth > e.clientWidth + 100 && e.clientWidth <= 390")
    names = page.locator(".answers tbody td:first-child").first
    before = names.bounding_box()
    box.evaluate("e => { e.scrollLeft = e.scrollWidth }")
    assert names.bounding_box() == before  # still beside its figures
    assert before is not None
    assert before["width"] <= 390 / 2.5
    last = page.locator(".answers tbody tr").first.locator("td").last.bounding_box()
    assert last is not None
    assert before["x"] + before["width"] <= last["x"] + 1
    assert last["x"] + last["width"] <= 391
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_without_scripts_the_numbers_are_still_there(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("#overview svg .mark").count() == 36
    assert "needs JavaScript" in page.inner_text("#samples")
    context.close()


@pytest.mark.slow
def test_hostile_text_does_nothing(browser: Browser, hostile: Demo, tmp_path: Path) -> None:
    write_report(load(hostile[1], hostile[0]), tmp_path / "report.html")
    one = Opened(browser.new_page(), tmp_path / "report.html")
    for _ in range(6):
        one.page.locator("#list").press("ArrowDown")
    assert "<script>" in one.page.locator("#detail .said").first.inner_text()
    assert one.page.evaluate("window.pwned") is None
    assert one.said == []
    assert all(url.startswith(("file:", "data:")) for url in one.asked)
    one.page.close()


def big(rows: int) -> ReportData:
    """One run of many asks, without a release."""
    outcomes: list[Any] = [Outcome.CORRECT, Outcome.DEFLECTED, Outcome.INCORRECT, None]
    made = [
        Row(
            ask=f"a{i}",
            context=f"c{i}",
            sample=f"sample {i // 4:05}",
            source=f"source {i // 4 % 6}",
            topic=f"topic {i // 4 % 40}",
            scenario=list(Scenario)[i % 4],
            condition="moderate",
            recipe=list(Scenario)[i % 4].value,
            k_used=0,
            expected="deflect",
            status=Status.GRADED if i % 7 else Status.FAILED,
            outcome=outcomes[i % 3] if i % 7 else None,
            answer=f"answer number {i} of the system under test",
        )
        for i in range(rows)
    ]
    return ReportData((run("system", made),))


@pytest.mark.slow
def test_fifty_thousand_rows_are_filtered_searched_and_scrolled(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "big.html"
    path.write_text(html(big(50_000)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    one = Opened(page, path)
    assert one.shown() == 50_000
    assert page.locator("#list .item").count() < 60  # only what is in view is in the document

    page.evaluate(
        "() => { const f = document.getElementById('f-source'); f.value = '2'; f.dispatchEvent(new Event('change')) }"
    )
    one.wait(lambda n: n < 9_000)
    page.fill("#f-text", "number 44456 of")
    one.wait(lambda n: n == 1)
    page.click("#f-reset")
    one.wait(lambda n: n == 50_000)
    page.evaluate("() => { document.getElementById('list').scrollTop = 1500000 }")
    page.locator("#list .item", has_text="sample 0604").first.wait_for()
    assert one.said == []
    page.close()
