"""Hostile words in everything that a report shows: nothing runs, nothing breaks out, in the page and in every export.

The page and the figures are opened in Chromium; Markdown is first read by a reader of another hand that lets HTML
through; CSV is split as spreadsheets split it; of LaTeX every command must be one of ours.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_factory import make_demo
from test_report_browser import Opened, browser

from demur.core.errors import ReleaseError
from demur.core.records import Evidence
from demur.release import FunnelStep, Release
from demur.reports import paper_figures, paper_tables
from demur.reports.data import ReportData, Run, load
from demur.reports.html import page
from demur.reports.paper_figures import write_paper
from demur.reports.release import funnel_table, recall_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]

NASTY = (
    "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'> \"><svg/onload=window.pwned=1> "
    "<a href='javascript:window.pwned=1'>a</a> [x](javascript:window.pwned=1) ![p](http://evil.example/p.png) "
    "https://evil.example \\input{/etc/passwd}\\write18{id} ^^5cinput $csp ${js} $$x$$ %c | & \u202e\x00\x1b[31m --> ]]>"
)
"""Every way out at once: of HTML, attributes, SVG, Markdown, LaTeX, templates, terminals."""
FORMULA = '=HYPERLINK("http://evil.example";"x")'


def nasty(label: str) -> str:
    """Both, and what tells the places apart."""
    return f"{FORMULA} {label} {NASTY}"


def spoilt_evidence(one: Evidence) -> Evidence:
    """With a title and a text of an enemy's."""
    return one.model_copy(
        update={"title": nasty("title"), "text": None if one.text is None else nasty("text")}
    )


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """The demo with hostile words wherever a release or a run brings words."""
    release, runs = make_demo(tmp_path_factory.mktemp("spoilt"))
    data = load(runs, release)

    def row(one: Any) -> Any:
        kind = "topic" if one.topic == "capital" else "other topic"
        update = {k: nasty(k) for k in ("reason", "answer", "error", "source") if getattr(one, k)}
        return one.model_copy(update=update | {"topic": nasty(kind)})

    def run(one: Run, name: str) -> Run:
        manifest = {k: nasty(k) if isinstance(v, str) else v for k, v in one.manifest.items()}
        more = {
            "system": nasty("gate"),
            "not_asked": {nasty("why"): 3},
            "reads_prompt": False,
            "limit": 3,
        }
        return replace(
            one,
            name=name,
            manifest=manifest | more,
            rows=[row(r) for r in one.rows],
            judges=(nasty("judge"),),  # type: ignore[arg-type]
            prompts=(nasty("prompt"),),
        )

    assert data.release is not None
    manifest = data.release.manifest
    drift = {
        "rows": [
            {"topic": nasty("t"), "before": 9, "after": 4},
            {"topic": FORMULA, "before": 5, "after": 5},
        ]
    }
    rounds = [
        {"gates": [nasty("g")] * n, "size": 9 - n, "monitors": {nasty("m"): {"accuracy": 0.1}}}
        for n in (0, 1)
    ]
    manifest |= {
        "name": nasty("name"),
        "version": nasty("version"),
        "note": nasty("note"),
        "limits": [nasty("limit")],
        "encoder": {"name": nasty("encoder"), "note": nasty("note")},
        "pools": {nasty("pool"): 9},
        "gate_rounds": rounds,
        "gate_models": {nasty("gate"): {"system": nasty("gate"), "model": nasty("model")}},
        "topics": [drift | {"by": nasty("by")}],
    }

    class Spoilt:
        def __init__(self, one: Any) -> None:
            self.manifest, self.read_image = one.manifest, one.read_image
            self.funnel = [
                s | {"stage": nasty("stage"), "dropped": {nasty("why"): 2}} for s in one.funnel
            ]
            self.steps = [FunnelStep.model_validate(s) for s in self.funnel]
            self.recall = [
                r | {"queries": nasty("queries"), "mode": nasty("mode")} for r in one.recall
            ]

    samples = {
        id: s.model_copy(
            update={
                "question": nasty("question"),
                "source": nasty("source"),
                "topic": nasty("topic"),
                "answers": s.answers.model_copy(update={"canonical": nasty("accepted")}),
                "gold": tuple(map(spoilt_evidence, s.gold)),
                "negatives": tuple(map(spoilt_evidence, s.negatives)),
            }
        )
        for id, s in data.samples.items()
    }
    named = tuple(run(one, nasty(f"system {n}")) for n, one in enumerate(data.runs))
    return ReportData(named, Spoilt(data.release), samples)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def exports(spoilt: ReportData, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every table in every form, every figure."""
    return write_paper(spoilt, tmp_path_factory.mktemp("exports"))


@pytest.mark.slow
def test_the_page_has_the_elements_of_a_harmless_one(spoilt: ReportData) -> None:
    text = page(spoilt)
    assert "<script>window" not in text
    assert text.count("<script") == 2
    assert not re.search(r"<[^>]*\son\w+\s*=", re.sub(r'"[^"]*"', '""', text))
    links = re.findall(r"<a [^>]*?href=\"([^\"]*)\"", text)
    assert links
    assert all(link.startswith("#") for link in links)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("funnel.json", {"entered": "\u00b2"}),
        ("funnel.json", {"entered": "9" * 5_000}),
        ("funnel.json", {"kept": None}),
        ("funnel.json", {"dropped": {"x": "y"}}),
        ("funnel.json", {"stage": {}}),
        ("recall.json", {"recall@1 low": "y"}),
        ("recall.json", {"recall@1 high": {}}),
        ("topics", [{"by": "x", "rows": [{"topic": "a", "before": "\u00b2", "after": 1}]}]),
        ("topics", ["x"]),
        ("gate_rounds", [{"gates": ["a"], "size": "many", "monitors": {}}]),
        ("gate_rounds", [{"size": 1, "monitors": {"m": 3}}]),
        ("gate_rounds", 3),
    ],
    ids=lambda v: ascii(v)[:40],
)
def test_figures_of_a_release_that_are_none_are_told(
    data: ReportData, tmp_path: Path, file: str, change: Any
) -> None:
    assert data.release is not None
    folder = shutil.copytree(data.release.folder, tmp_path / "release")
    if file.endswith(".json"):
        rows = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps([rows[0] | change, *rows[1:]]))
    release = Release.open(folder)
    if not file.endswith(".json"):
        release.manifest[file] = change
    of_it = replace(data, release=release)
    made = (
        funnel_table,
        recall_table,
        paper_tables.table2,
        paper_figures.figure4,
        paper_figures.figure5,
    )
    with pytest.raises(ReleaseError):
        [one(of_it) for one in made]


@pytest.mark.heavy
def test_latex_has_no_command_but_ours(exports: list[Path]) -> None:
    ours = {
        "begin",
        "end",
        "centering",
        "footnotesize",
        "parbox",
        "small",
        "setlength",
        "tabcolsep",
        "resizebox",
        "ifdim",
        "width",
        "linewidth",
        "else",
        "fi",
        "toprule",
        "midrule",
        "bottomrule",
        "cmidrule",
        "multicolumn",
        "textbf",
        "caption",
        "label",
        "textbackslash",
        "textasciitilde",
        "textbar",
        "textasciicircum",
        "textless",
        "textgreater",
        "usepackage",
        "rightarrow",
        "times",
        "cdot",
        "dagger",
    }
    written = [p for p in exports if p.suffix == ".tex"]
    assert any("textbackslash" in p.read_text() for p in written)
    for path in written:
        text = path.read_text()
        body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
        assert set(re.findall(r"\\([a-zA-Z]+)", body)) <= ours, path
        assert "^^" not in body
        assert not re.search(
            r"(?<!\\)\$", re.sub(r"\$\\(rightarrow|times|cdot|dagger)\$", "", body)
        )
        assert not re.search(
            r"(?<!\\)%(?!$)", body, re.MULTILINE
        )  # one ends a line of ours; none hides a text
        assert text.count("\n") == len(text.splitlines())


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_has_no_formula_however_it_is_split(exports: list[Path], separator: str) -> None:
    seen = 0
    for path in (p for p in exports if p.suffix == ".csv"):
        for row in csv.reader(io.StringIO(path.read_text()), delimiter=separator):
            for field in row:
                seen += "HYPERLINK" in field
                assert not re.match(r"\s*[=+@]|\s*-(?![\d.])", field), (path, field)
    assert seen


def test_text_files_hold_no_control_characters(exports: list[Path]) -> None:
    for path in exports:
        assert not re.search(
            r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", path.read_text(encoding="utf-8")
        ), path


@pytest.mark.slow
@pytest.mark.integration
def test_the_page_runs_nothing_in_a_browser(
    browser: Browser, spoilt: ReportData, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(spoilt), encoding="utf-8")
    one = Opened(browser.new_page(), path)
    dialogs: list[str] = []
    one.page.on("dialog", lambda d: dialogs.append(d.message))
    for summary in one.page.locator("summary").all():
        summary.click()
    for link in one.page.locator("#compare a:visible").all()[:3]:
        link.click()
    for _ in range(12):
        one.page.locator("#list").press("ArrowDown")
    detail = one.page.locator("#detail").inner_text()
    assert "<script>window.pwned=1</script>" in detail  # it is shown, as text
    assert one.page.evaluate("window.pwned") is None
    strange = one.page.evaluate(
        "document.querySelectorAll('iframe, object, embed, svg script, foreignObject').length"
    )
    assert strange == 0
    assert one.page.evaluate("document.scripts.length") == 2
    assert (one.said, dialogs) == ([], [])
    assert all(url.startswith(("file:", "data:")) for url in one.asked)
    one.page.set_viewport_size({"width": 400, "height": 900})
    assert one.page.evaluate("document.documentElement.scrollWidth") == 400
    one.page.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[tuple[Any, list[str]]]:
    """A page, and what it asked for."""
    opened = browser.new_page()
    asked: list[str] = []
    opened.on("request", lambda r: asked.append(r.url))
    opened.on("dialog", lambda d: asked.append(f"dialog: {d.message}"))
    yield opened, asked
    opened.close()


@pytest.mark.integration
def test_figures_run_nothing_in_a_browser(
    watched: tuple[Any, list[str]], exports: list[Path]
) -> None:
    opened, asked = watched
    figures = [p for p in exports if p.suffix == ".svg"]
    assert len(figures) >= 4
    for path in figures:
        opened.goto(path.as_uri())
        assert (
            opened.evaluate("document.documentElement.tagName") == "svg"
        )  # whole: an error would be a page of HTML
        found = "document.querySelectorAll('script, a, image, foreignObject, iframe, style').length"
        assert opened.evaluate(found) == 0
        assert opened.evaluate("window.pwned") is None
    assert all(url.startswith("file:") for url in asked)


@pytest.mark.integration
def test_markdown_runs_nothing_in_a_browser(
    watched: tuple[Any, list[str]], exports: list[Path]
) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    reader = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    opened, asked = watched
    for path in (p for p in exports if p.suffix == ".md"):
        opened.set_content(reader.render(path.read_text(encoding="utf-8")))
        assert (
            opened.evaluate("document.querySelectorAll('script, a, img, svg, iframe').length") == 0
        ), path
        assert opened.evaluate("window.pwned") is None
        assert "http://" not in path.read_text()
    assert asked == []
