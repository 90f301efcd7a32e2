"""The page and the verbs: self-contained, deterministic, and harmless whatever the answers say."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from report_factory import HOSTILE

from demur.cli import main
from demur.core.errors import DataError
from demur.core.images import image_ref
from demur.core.records import ImageRef
from demur.reports.browse import payload, thumbnail, thumbnails
from demur.reports.cells import headline
from demur.reports.data import ReportData, load
from demur.reports.html import page, write_report
from demur.reports.terminal import print_data, summarised

Demo = tuple[Path, list[Path]]


class Reader(HTMLParser):
    """Elements, attributes and text of a page, as a browser would split them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._in = tag
            (self.scripts if tag == "script" else self.styles).append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = "" if tag == self._in else self._in

    def handle_data(self, data: str) -> None:
        if self._in:
            (self.scripts if self._in == "script" else self.styles)[-1] += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def unpacked(text: str) -> dict[str, Any]:
    """The data block, decoded as the page's script decodes it."""
    block = json.loads(read(text).scripts[0])
    return dict(json.loads(zlib.decompress(base64.b64decode(block["deflate"]))))


@pytest.mark.slow
def test_the_same_files_give_the_same_bytes(demo: Demo, text: str, tmp_path: Path) -> None:
    release, runs = demo
    moved = Path(shutil.copytree(release.parent, tmp_path / "elsewhere"))
    write_report(
        load([moved / "runs" / r.name for r in runs], moved / "release"), tmp_path / "two.html"
    )
    two = (tmp_path / "two.html").read_bytes()
    assert two == text.encode("utf-8")


def test_it_says_what_was_run(text: str) -> None:
    for words in (
        "tiny-atlas 0.1.0",
        "not CLIP",
        "SmolLM2-135M is a very small model",
        "reader, cautious, small-lm",
    ):
        assert words in text


def test_nothing_is_asked_of_the_network(text: str) -> None:
    outside = re.compile(r"(?:https?:)?//[a-z0-9]", re.I)
    for tag, attributes in read(text).elements:
        for name, value in attributes.items():
            if name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
                assert not outside.match(value or ""), (tag, name, value)
    assert not re.search(r"@import|url\(", "".join(read(text).styles))
    assert not re.search(
        r"\bfetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|insertAdjacent|eval\(",
        read(text).scripts[1],
    )


def test_the_policy_names_the_one_script_and_the_one_style(text: str) -> None:
    reader = read(text)
    (policy,) = [a["content"] for t, a in reader.elements if t == "meta" and "http-equiv" in a]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for kind, content in (("script-src", reader.scripts[1]), ("style-src", reader.styles[0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert not [a for _, a in reader.elements if "style" in a], (
        "inline styles are refused by the policy"
    )


def test_controls_are_labelled_and_ids_are_unique(text: str) -> None:
    ids = [a["id"] for _, a in read(text).elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in read(text).elements:
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids
    for figure in re.findall(r"<svg[^>]*>", text):
        assert 'role="img"' in figure
        assert re.search(r'aria-label="[^"]{5,}"', figure)


@pytest.mark.slow
def test_hostile_text_stays_text(hostile: Demo) -> None:
    data = load(hostile[1], hostile[0])
    text = page(data)
    reader = read(text)
    assert len(reader.scripts) == 2
    assert HOSTILE not in text
    assert "onerror=" not in text.replace("onerror=&#34;", "").replace("onerror=&quot;", "")
    assert not [t for t, a in reader.elements if t == "img"]
    shown = unpacked(text)
    answers = [v["answer"] for item in shown["items"] for v in item["verdicts"] if v]
    assert any(HOSTILE in answer for answer in answers)  # it is shown, as text
    assert any(HOSTILE in sample["question"] for sample in shown["samples"])


@pytest.mark.heavy
def test_system_names_from_folders_are_escaped(demo: Demo, tmp_path: Path) -> None:
    name = "<b onmouseover=alert(1)>&amp;"
    run = Path(shutil.copytree(demo[1][2], tmp_path / "runs" / name))
    text = page(load([run], demo[0]), image_budget=0)
    assert "<b onmouseover" not in text
    assert "&lt;b onmouseover" in text


@pytest.mark.heavy
def test_without_a_release_the_page_says_so(demo: Demo, tmp_path: Path) -> None:
    run = Path(shutil.copytree(demo[1][0], tmp_path / "alone"))
    text = page(load([run]))
    assert "No release given" in text
    assert 'id="curation"' not in text
    assert unpacked(text)["images"] == []


def test_one_run_of_one_scenario_is_enough(data: ReportData) -> None:
    one = data.runs[0]
    rows = tuple(
        r for r in one.rows if r.scenario == "oracle" and r.recipe == "oracle(order=shuffled)"
    )
    text = page(
        ReportData(
            (type(one)(one.name, one.path, one.manifest, rows, one.contexts),),
            data.release,
            data.samples,
        )
    )
    for gone in ("sweep", "prompts", "modality", "compare", "confidence"):
        assert f'id="{gone}"' not in text
    assert text.count('class="panel"') >= 2


# --- the browser's data --------------------------------------------------------------------------


@pytest.mark.heavy
def test_evidence_stands_in_the_order_shown_with_gold_marked(data: ReportData) -> None:
    found = payload(data, headline(data.runs), image_budget=10**7)
    sets = {c.id: c for run in data.runs for c in run.contexts.values()}
    titles = {e.id: e.title for s in data.samples.values() for e in (*s.gold, *s.negatives)}
    assert len(found["contexts"]) == len(sets)
    for context in found["contexts"]:
        shown = sets[context["id"]]
        told = [found["evidence"][e["number"]]["title"] for e in context["evidence"]]
        assert told == [titles[e] for e in shown.evidence]
        assert [e["gold"] for e in context["evidence"]] == [e in shown.gold for e in shown.evidence]


@pytest.mark.heavy
def test_every_row_is_in_the_browser_once(data: ReportData) -> None:
    found = payload(data, headline(data.runs), image_budget=0)
    for number, run in enumerate(data.runs):
        verdicts = [item["verdicts"][number] for item in found["items"]]
        codes = [verdict["code"] for verdict in verdicts if verdict]
        assert len(codes) == len(run.rows)
        assert codes.count("f") == sum(r.status == "failed" for r in run.rows)
        assert codes.count("u") == sum(r.status == "unjudged" for r in run.rows)
    assert sum(item["main"] for item in found["items"]) == 48 * 4


@pytest.mark.heavy
def test_pictures_keep_to_their_budget(data: ReportData) -> None:
    head = headline(data.runs)
    whole = payload(data, head, image_budget=10**8)["images"]
    assert all(whole)
    tight = payload(data, head, image_budget=12_000)["images"]
    assert sum(len(i) for i in tight if i) <= 12_000
    assert any(tight)
    assert None in tight
    assert not any(payload(data, head, image_budget=0)["images"])


def test_a_smaller_size_is_tried_before_pictures_are_left_out() -> None:
    noise = Image.effect_noise((400, 300), 80)
    out = io.BytesIO()
    noise.save(out, "PNG")
    refs = [image_ref(out.getvalue(), "x")]
    large = len(thumbnails(refs, lambda _: out.getvalue(), 10**8)[0] or "")
    (small,) = thumbnails(refs, lambda _: out.getvalue(), large - 1)
    assert small is not None
    assert len(small) < large


def test_thumbnails_are_small_and_lie_on_white() -> None:
    clear = Image.new("RGBA", (900, 300), (255, 0, 0, 0))
    out = io.BytesIO()
    clear.save(out, "PNG")
    with Image.open(io.BytesIO(thumbnail(out.getvalue(), 320))) as made:
        assert made.size == (320, 107)
        assert made.convert("RGB").getpixel((5, 5)) == (255, 255, 255)


def test_a_broken_picture_is_left_out_and_the_rest_stays() -> None:
    out = io.BytesIO()
    Image.new("RGB", (9, 9), "red").save(out, "PNG")
    ref = image_ref(out.getvalue(), "x")
    broken = ref.model_copy(update={"sha256": "0" * 64})

    def bytes_of(asked: ImageRef) -> bytes:
        if asked == ref:
            return out.getvalue()
        raise DataError("gone", item=asked.sha256)

    assert [bool(i) for i in thumbnails([broken, ref], bytes_of, 10**6)] == [False, True]


# --- terminal and verbs --------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_summary_holds_every_scenario_and_system(demo: Demo) -> None:
    stream = io.StringIO()
    print_data(load(demo[1], demo[0]), times={"index": 1.25, "mine": 2.5}, file=stream)
    text = stream.getvalue()
    for words in (
        "parametric",
        "adversarial",
        "reader",
        "small-lm",
        "fewer than K_min distractors: 3",
        "3.8",
        "not CLIP",
    ):
        assert words in text
    assert "\x1b[" not in text
    value = summarised(load(demo[1], demo[0]))
    assert len(value["results"]) == 12
    assert value["release"] == {"name": "tiny-atlas", "version": "0.1.0", "samples": 48}
    failed = sum(r["failed"] for r in value["results"] if r["system"] == "small-lm")
    assert failed == 16
    for one in value["results"]:
        assert sum(
            one[m]["value"] for m in ("accuracy", "deflection", "hallucination")
        ) == pytest.approx(1)
    json.dumps(value, allow_nan=False)


@pytest.mark.heavy
def test_report_verb(demo: Demo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.html"
    assert (
        main(["report", str(demo[0].parent), "-o", str(out), "--tables", str(tmp_path / "t")]) == 0
    )
    assert capsys.readouterr().out.splitlines()[-1] == str(out)
    assert out.stat().st_size > 100_000
    assert (tmp_path / "t" / "table4.tex").exists()
    assert main(["report", str(demo[1][0]), "-o", str(out), "--json", "--image-budget", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(out)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["report", "{release}"], 2, "demo-out/runs/SYSTEM"),
        (["report", "nowhere"], 2, "nowhere: "),
        (["report", "{run}", "-o", "{tmp}"], 2, "is a folder"),
        (
            ["report", "{run}", "--release", "{run}", "-o", "x.html"],
            1,
            "manifest.json",
        ),
        (["report", "{run}", "--image-budget", "-1"], 2, "image budget"),
        (["report", "{run}", "--image-budget", "inf"], 2, "image budget"),
        (
            ["gate", "{run}", "--min-accuracy", "oracle=0.5", "--max-failed", "10"],
            2,
            "failed answers: 10",
        ),
        (["compare", "{run}", "{run}"], 2, "reader: "),
        (["compare", "{run}", "{release}"], 2, "not a run"),
    ],
)
def test_mistakes_are_told_in_one_line(
    demo: Demo,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    places = {"release": str(demo[0]), "run": str(demo[1][0]), "tmp": str(tmp_path)}
    assert main([w.format(**places) for w in words]) == code
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.heavy
def test_compare_verb_fails_a_build_that_got_worse(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, cautious, _ = map(str, demo[1])
    assert main(["compare", cautious, reader]) == 0
    told = capsys.readouterr().out
    assert "WORSE" in told
    assert "reader behaves worse" in told
    assert "parametric" in told
    assert main(["compare", cautious, reader, "--fail-if-worse", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["worse"]
    assert value["pairs"] == 192
    assert {"sample", "question", "before", "after"} <= set(value["lost"][0])
