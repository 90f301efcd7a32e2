"""Rows of a run, tables, comparison and page show one set of figures, recounted here from the system's own replies."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from strategies import png

import demur
import demur_suites
from demur.cli import main
from demur.core.records import Outcome, Status
from demur.reports.tables import Table, numbers, texts
from demur_suites import read_outputs
from demur_suites.gallery import named_once


def rows_of(folder: Path) -> list[dict]:
    return pq.read_table(folder / "rows.parquet").to_pylist()


def compared(first: Path, second: Path) -> tuple[int, float, float]:
    """(pairs, right of the first, right of the second) over questions to answer and to decline."""
    differences = [
        d for d in demur.compare(first, second).result.differences if d.measure == "right behaviour"
    ]
    n = sum(d.n for d in differences)
    return n, *(
        round(sum(getattr(d, side) * d.n for d in differences), 9) for side in ("first", "second")
    )


def right(row: dict) -> bool:
    return row["outcome"] == ("correct" if row["expected"] == "answer" else "deflected")


def signs(page: Path, system: str) -> Counter:
    """What the page shows of a system's replies, by sign."""
    shown = rf'glyph (\w)" title="[^"]*">[^<]*</span> <b>{system}'
    return Counter(re.findall(shown, page.read_text(encoding="utf-8")))


def signs_of_rows(rows: list[dict]) -> Counter:
    by_outcome = {"deflected": "d", "incorrect": "i", "correct": "i", None: "f"}
    return Counter("c" if right(r) else by_outcome[r["outcome"]] for r in rows)


# --- VB: labels by the question, one reply in prose, one without a label --------------------------


@pytest.fixture
def families(tmp_path: Path) -> Path:
    folder = tmp_path / "vb"
    folder.mkdir()
    (folder / "a.png").write_bytes(png("red"))
    (folder / "b.png").write_bytes(png("blue"))
    (folder / "families.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "id": f"OC-{n:02d}",
                    "category": "OCCLUSION",
                    "base_image": "a.png",
                    "edited_image": "b.png",
                    "base_question": f"Is thing {n} visible?",
                    "edited_question": f"Is thing {n} hidden?",
                    **(
                        {
                            "gold": dict.fromkeys(
                                ("BASE", "TEXT_FLIP", "IMAGE_FLIP", "DOUBLE_FLIP"), "ABSTAIN"
                            )
                        }
                        if n == 5
                        else {}
                    ),
                }
            )
            + "\n"
            for n in range(6)
        )
    )
    return folder


def seer(question: str) -> str:
    n = int(re.search(r"thing (\d)", question)[1])
    if n == 3:
        return "I do not know."
    label = ("VISIBLY_TRUE", "VISIBLY_FALSE", "ABSTAIN", "", "VISIBLY_TRUE", "ABSTAIN")[n]
    reply = json.dumps({"label": label, "reason_code": "NONE", "confidence": 0.75})
    return f"Sure! {reply}" if n == 4 else reply


def false(question: str) -> str:
    return json.dumps({"label": "VISIBLY_FALSE", "reason_code": "NONE", "confidence": 0.5})


def test_vb_counts_one_list(families, tmp_path):
    suite = demur_suites.suite("vb")
    folders = suite.run(families, [seer, false], tmp_path / "runs", parser="lenient")
    rows = rows_of(folders[0])
    headline = [r for r in rows if r["recipe"] == "suite(vb)"]
    # by hand: 5 strict families, three headline cells; gold FALSE, TRUE, TRUE
    assert len(headline) == 15
    assert sum(map(right, headline)) == 2 + 1 + 0 + 0 + 2
    assert Counter(r["outcome"] for r in headline)["deflected"] == 3
    assert Counter(r["status"] for r in headline)["failed"] == 3
    items = suite.open(families).items
    outputs = read_outputs(folders)
    [score, _] = suite.scores(items, outputs, parser="lenient", resamples=0)
    answered = [r for r in headline if r["outcome"] in ("correct", "incorrect")]
    assert score.measures["answered_accuracy"].n == len(answered) == 9
    assert score.measures["answered_accuracy"].value == sum(map(right, answered)) / 9
    assert score.counts["abstained"] == 3
    assert score.measures["caa"].value == (5 * 0.75 + 3 * 0.25) / 15
    # strict, as another run: the reply in prose has no label there
    assert "parser" in json.loads((folders[0] / "manifest.json").read_text())["judge"]
    assert compared(*folders) == (12, 5, 4)  # of 15, three have no label
    page = suite.report(families, outputs, tmp_path / "p.html", parser="lenient", resamples=0)
    assert signs(page, "python:[^<]*seer") == signs_of_rows(rows)


# --- CertainlyUncertain: answers, declines, a control -------------------------------------------


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    folder = tmp_path / "cu"
    folder.mkdir()
    for n, colour in enumerate(("red", "green", "blue")):
        (folder / f"{n}.png").write_bytes(png(colour))
    lines = [
        {
            "id": f"c{n}",
            "category": "temporal",
            "question": f"What colour is bench {n}?",
            "answer": "red",
            "image": "0.png",
            "idk_question": f"Who painted bench {n}?",
        }
        for n in range(4)
    ]
    lines.append(
        {
            "id": "x",
            "category": "extraneous",
            "question": "What stands on the shelf?",
            "answer": "a jug",
            "image": "0.png",
            "idk_image": "1.png",
            "control_image": "2.png",
            "route": "image",
        }
    )
    (folder / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


SAID = {
    "What colour is bench 0?": "red",
    "What colour is bench 1?": "It is green.",
    "What colour is bench 2?": "I don't know.",
    "Who painted bench 0?": "Nobody can tell from this picture.",
    "Who painted bench 1?": "I cannot know that.",
    "Who painted bench 2?": "Bob",
    "What stands on the shelf?": "Nothing",
}


def painter(question: str) -> dict:
    text = next((said for asked, said in SAID.items() if asked in question), "red")
    return {"answer": text, "confidence": 0.8}


def test_certainly_uncertain_counts_one_list(pairs, tmp_path):
    suite = demur_suites.suite("certainly_uncertain")
    folders = suite.run(pairs, [painter, lambda question: "I don't know"], tmp_path / "runs")
    rows = [r for r in rows_of(folders[0]) if r["recipe"] == "suite(certainly_uncertain)"]
    assert len(rows) == 10
    items = suite.open(pairs).items
    [score, _] = suite.scores(items, read_outputs(folders))
    # by hand, with the default judge
    credit = {
        "c0/answerable": 1,
        "c0/unanswerable": 1,
        "c1/answerable": 0,
        "c1/unanswerable": 1,
        "c2/answerable": 0,
        "c2/unanswerable": 0,
        "c3/answerable": 1,
        "c3/unanswerable": 0,
        "x/answerable": 0,
        "x/unanswerable": 1,
    }
    assert {r["sample"]: int(right(r)) for r in rows} == credit
    assert {g.id: g.credit for g in score.graded if g.member != "control"} == credit
    by = score.by["temporal"]
    temporal = [id for id in credit if id.startswith("c")]
    assert by["accuracy"].value == sum(credit[id] for id in temporal) / 8
    declined = {r["sample"] for r in rows if r["outcome"] == "deflected"}
    assert declined == {
        "c0/unanswerable",
        "c1/unanswerable",
        "c2/answerable",
        "x/answerable",
        "x/unanswerable",
    }
    hits, wrongly, missed = 2, 1, 2
    assert by["f1_idk"].value == 2 * hits / (2 * hits + wrongly + missed)
    assert by["cw"].value == pytest.approx(sum(0.8 if credit[id] else -0.8 for id in temporal) / 8)
    assert compared(*folders) == (
        10,
        sum(credit.values()),
        5,
    )  # the control is in no headline figure
    [check] = demur.gate(folders[0], min_declined={"parametric": 0.99}).checks
    assert (check.state, "3 of 5" in check.why or "60.0" in check.why) == ("fail", True), check.why
    total = (score.by["temporal"]["accuracy"].value + score.by["extraneous"]["accuracy"].value) / 2
    assert score.by["total"]["accuracy"].value == total


def test_an_option_that_decides_verdicts_grades_a_run_again_and_asks_nobody(pairs, tmp_path):
    suite = demur_suites.suite("vb")
    assert {o.name for o in suite.options if o.grades} == {"parser"}
    log = tmp_path / "asked.txt"

    def reply(question: str) -> str:
        with log.open("a") as handle:
            handle.write("x")
        return "I don't know"

    suite = demur_suites.suite("certainly_uncertain")
    [folder] = suite.run(pairs, reply, tmp_path / "runs")
    n = log.stat().st_size
    [again] = suite.run(pairs, reply, tmp_path / "runs", bins=5)
    assert (again, log.stat().st_size) == (folder, n)
    suite.run(pairs, reply, tmp_path / "runs", judge=f"{__name__}:Strict")
    assert log.stat().st_size == n
    assert {r["status"] for r in rows_of(folder)} == {"graded"}


class Strict:
    """A judge to whom nothing is right."""

    id = "strict"

    def grade(self, ask, response, answers):
        from demur.core.records import Verdict

        return Verdict(id=ask.id, status=Status.GRADED, outcome=Outcome.INCORRECT, judge=self.id)


# --- MM-AQA: replies without the confidence that was asked for -----------------------------------


def test_mm_aqa_counts_one_list(tmp_path):
    suite = demur_suites.suite("mm_aqa:base,vconf")
    folder = tmp_path / "set"
    folder.mkdir()
    lines = []
    for n in range(3):
        shared = {"pair": f"q{n}", "subset": "images", "answers": {"accepted": [["a rose"]]}}
        lines.append({"id": f"q{n}", "question": f"Which flower is in vase {n}?", **shared})
        twin = {"id": f"q{n}~t", "question": f"Which was in vase {n}?"}
        lines.append({**twin, "transform": "missing-context", **shared})
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def shown(question: str, sure: str = "") -> str:
        return "EXPLANATION - seen\nFINAL ANSWER - a rose"

    def declines(question: str) -> str:
        return "EXPLANATION - no\nFINAL ANSWER - I don't know\nCONFIDENCE - 5"

    def as_well(question: str) -> str:
        return "EXPLANATION - no\nFINAL ANSWER - I don't know\nCONFIDENCE - 4"

    folders = suite.run(folder, [shown, declines, as_well], tmp_path / "runs")
    items = suite.open(folder).items
    rows = rows_of(folders[0])
    vconf = [r for r in rows if r["sample"].endswith("@vconf")]
    assert {r["status"] for r in vconf} == {"failed"}  # no confidence was stated: malformed
    [score, other, _] = suite.scores(items, read_outputs(folders))
    assert {row.fell for row in score.rows["vconf"]} == {"malformed"}
    subsets = {item.subset for item in items}
    for s, path in ((score, folders[0]), (other, folders[1])):
        graded = [r for r in rows_of(path) if r["status"] == "graded"]
        cells = [s.matrix(subset, c) for subset in subsets for c in ("base", "vconf")]
        assert sum(m.tp + m.tn for m in cells) == sum(map(right, graded))
        assert sum(m.n for m in cells) == len(graded)
    both = sum(r["status"] == "graded" for r in rows)
    assert compared(*folders[:2])[0] == both == len(items)
    assert compared(folders[1], folders[2])[0] == 2 * len(items)  # both conditions
    page = suite.report(folder, read_outputs(folders), tmp_path / "p.html")
    for name, path in zip(("shown", "declines", "as_well"), folders, strict=True):
        assert signs(page, f"python:[^<]*{name}, ") == signs_of_rows(rows_of(path))


# --- MM-THEBench: right, wrong, no answer, a failed call -----------------------------------------


def test_mm_thebench_counts_one_list(tmp_path):
    suite = demur_suites.suite("mm_thebench")
    folder = tmp_path / "set"
    folder.mkdir()
    lines = [
        {
            "id": f"t{n}",
            "source": "sums",
            "question": f"What is {n} and {n}?",
            "answers": [str(2 * n)],
        }
        for n in range(1, 9)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def adds(question: str) -> str:
        n = int(re.search(r"is (\d) and", question)[1])
        if n == 8:
            raise RuntimeError("the machine is off")
        return {6: "I add.\nAnswer: 7", 7: "I don't know."}.get(n, f"I add.\nAnswer: {2 * n}")

    def sixes(question: str) -> str:
        return "Answer: 6"

    folders = suite.run(folder, [adds, sixes], tmp_path / "runs")
    rows = rows_of(folders[0])
    assert Counter(r["outcome"] for r in rows) == {
        "correct": 5,
        "incorrect": 1,
        "deflected": 1,
        None: 1,
    }
    outputs = read_outputs(folders)
    [score, other] = suite.scores(suite.open(folder).items, outputs)
    accuracy = score.image["accuracy"]
    assert (accuracy.value, accuracy.n, accuracy.failed) == (5 / 7, 7, 1)
    assert other.image["accuracy"].value == 1 / 8
    assert compared(*folders) == (7, 5, 1)  # over what both have a reply to
    page = suite.report(folder, outputs, tmp_path / "p.html")
    for name, path in zip(("adds", "sixes"), folders, strict=True):
        assert signs(page, f"python:[^<]*{name}<") == signs_of_rows(rows_of(path))


# --- whose figures they are ----------------------------------------------------------------------


def test_a_system_has_the_name_that_it_was_given(families, tmp_path, monkeypatch, capsys):
    reply = false("")
    (tmp_path / "blind.py").write_text(f"def see(question):\n    return {reply!r}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    system = "Claude-4.1=python:blind:see"
    argv = ["suite", "run", "vb", str(families), "--system", system, "--out", "runs", "--json"]
    assert main(argv) == 0
    assert {row["Model"] for row in json.loads(capsys.readouterr().out)["vb-headline"]} == {
        "Claude-4.1"
    }
    assert main(["suite", "report", "vb", "runs", "-o", "p.html", "--trust-code"]) == 0
    assert signs(tmp_path / "p.html", "Claude-4.1<") == {"c": 10, "i": 14}


def test_a_name_that_a_row_leaves_to_the_one_above_stands_in_each_part_of_a_narrow_terminal():
    rows = [(f"system-{n}", c, 10.0, 20.0) for n in range(3) for c in ("base", "vconf")]
    columns = (*texts("Model", "Condition"), *numbers("a long heading", "another long heading"))
    table = named_once(Table("t", "Both.", columns, tuple(rows)))
    assert [row[0] for row in table.rows] == ["system-0", "", "system-1", "", "system-2", ""]
    wide, narrow = (table.render("terminal", width=width) for width in (100, 30))
    assert [wide.count(f"system-{n}") for n in range(3)] == [1, 1, 1]
    assert [narrow.count(f"system-{n}") for n in range(3)] == [2, 2, 2]
