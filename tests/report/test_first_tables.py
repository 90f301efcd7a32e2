"""The tables that a newcomer reads first, and the line on the judge: recounted, readable, and honest about errors."""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from demur.core.records import Method, Outcome, Row, Scenario, Status
from demur.reports import compare, compare_tables
from demur.reports.cells import headline, labelled_rates
from demur.reports.data import ReportData, Run
from demur.reports.html import page
from demur.reports.judged import judge_line, notes_under
from demur.reports.labels import HumanLabel
from demur.reports.paper_tables import table4
from demur.reports.tables import Column, cell_text, print_table
from demur.reports.terminal import first_tables, print_data, summarised

LETTERS = {"c": Outcome.CORRECT, "d": Outcome.DEFLECTED, "i": Outcome.INCORRECT}
SHOULD = {"parametric": "d", "oracle": "c", "realistic": "c", "adversarial": "d"}


def rows(letters: str, scenario: str = "oracle", how: Method | None = Method.EQUIVALENCE) -> list:
    """A letter an answer: correct, deflected, incorrect, f failed, u unjudged."""
    return [
        Row(
            ask=f"{scenario}{n}",
            context=f"{scenario}{n}",
            sample=f"s{n}",
            source="atlas",
            scenario=Scenario(scenario),
            condition="moderate",
            recipe=scenario,
            k_used=0,
            expected="answer" if SHOULD[scenario] == "c" else "deflect",
            outcome=LETTERS.get(letter),
            status={"f": Status.FAILED, "u": Status.UNJUDGED}.get(letter, Status.GRADED),
            method=how.value if how and letter in LETTERS else "",
        )
        for n, letter in enumerate(letters)
    ]


def run(name: str, *parts: list, labels: str = "", judge: str = "local", drawn: bool = True) -> Run:
    """A run; ``labels`` are of its first oracle answers."""
    given = {
        f"oracle{n}": HumanLabel(LETTERS[letter], drawn=drawn) for n, letter in enumerate(labels)
    }
    every = [row for part in parts for row in part]
    return Run(name, Path(name), {}, tuple(every), judges=(judge,), labels=given)


def said(data: ReportData, width: int) -> str:
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    for table in first_tables(data, headline(data.runs)):
        print_table(console, table)
    return out.getvalue()


def test_every_value_is_the_plain_count(demo: tuple[Path, list[Path]], data: ReportData) -> None:
    head = headline(data.runs)
    counts: dict[tuple[str, str], defaultdict[str, int]] = {}
    for folder in demo[1]:
        for row in pq.read_table(folder / "rows.parquet").to_pylist():
            if (row["condition"], row["recipe"]) != ("moderate", head.recipes[row["scenario"]]):
                continue
            cell = counts.setdefault((row["scenario"], folder.name), defaultdict(int))
            cell[row["outcome"] or row["status"]] += 1
    asked = 0
    for table in first_tables(data, head)[:2]:
        names = [column.title for column in table.columns]
        for line in table.rows:
            one, cell = counts[line[0], line[1]], dict(zip(names, line, strict=True))
            n = one["correct"] + one["incorrect"] + one["deflected"]
            want = {
                "Hallucinated": one["incorrect"],
                "Declined": one["deflected"],
                "Right": one["correct"],
                "Answered": one["correct"] + one["incorrect"],
            }
            assert cell["n"] == n
            for name in want.keys() & cell.keys():
                assert cell[name].value == pytest.approx(want[name] / n), (line[:2], name)
            if one["failed"]:
                first = want["Declined" if "Answered" in cell else "Right"]
                worst = first / (n + one["failed"] + one["unjudged"])
                assert cell["At worst"].value == pytest.approx(worst)
            asked += 1
    assert asked == len(counts) == 12
    results = {(r["scenario"], r["system"]): r for r in summarised(data)["results"]}
    for key, one in counts.items():
        n = one["correct"] + one["incorrect"] + one["deflected"]
        assert results[key]["accuracy"]["value"] == pytest.approx(one["correct"] / n)
        assert (results[key]["failed"], results[key]["unjudged"]) == (
            one["failed"],
            one["unjudged"],
        )


def test_joint_success_is_recounted(demo: tuple[Path, list[Path]], data: ReportData) -> None:
    head, found = headline(data.runs), {one["system"]: one for one in summarised(data)["joint"]}
    for folder in demo[1]:
        by: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
        for row in pq.read_table(folder / "rows.parquet").to_pylist():
            if (row["condition"], row["recipe"]) == ("moderate", head.recipes[row["scenario"]]):
                by[row["sample"]][row["scenario"]] = row["outcome"]
        whole = [o for o in by.values() if len(o) == 4 and None not in o.values()]
        right = sum(
            all(o == LETTERS[SHOULD[s]].value for s, o in outcomes.items()) for outcomes in whole
        )
        one = found[folder.name]
        assert (one["n"], one["left_out"]) == (len(whole), len(by) - len(whole))
        assert one["value"] == pytest.approx(right / len(whole))
        assert one["scenarios"] == ["parametric", "oracle", "realistic", "adversarial"]
    assert {name for name, one in found.items() if one["left_out"]} == {"small-lm"}


@pytest.mark.parametrize("width", [60, 80, 100])
def test_it_can_be_read_in_a_narrow_terminal(data: ReportData, width: int) -> None:
    one = run("mine", rows("c" * 40 + "i" * 8), rows("d" * 30 + "i" * 18, "parametric"))
    several = ReportData(data.runs[:2], data.release, data.samples)
    for what in (ReportData((one,)), several):
        text = said(what, width)
        lines = text.splitlines()
        assert max(map(len, map(str.rstrip, lines))) <= width
        for name in [s for run in what.runs for s in run.rows.coded("scenario").labels]:
            assert re.search(rf"^ {name} ", text, re.MULTILINE), name  # not broken over lines
        for run_ in what.runs:
            assert run_.name in text
        for title in ("Right ", "Hallucinated", "Declined", "Answered", "Right in all"):
            assert title in text


def test_a_newcomer_reads_what_is_right_and_what_is_made_up() -> None:
    one = run("mine", rows("c" * 30 + "i" * 10), rows("d" * 30 + "i" * 9 + "c", "parametric"))
    answer, decline, joint = first_tables(ReportData((one,)), headline([one]))
    assert [c.title for c in answer.columns[2:]] == ["n", "Right", "Hallucinated", "Declined"]
    assert [c.title for c in decline.columns[2:]] == [
        "n",
        "Declined",
        "Answered",
        "Right",
        "Hallucinated",
    ]
    assert [m.value for m in decline.rows[0][3:]] == [0.75, 0.25, 0.025, 0.225]
    assert (joint.rows[0][1], joint.rows[0][2].value) == (40, 0.75)


def test_a_question_that_nothing_answers_is_to_be_declined_everywhere() -> None:
    mixed = [
        row.model_copy(update={"expected": "deflect"} if n < 5 else {})
        for n, row in enumerate(rows("ddddi" + "c" * 15))
    ]
    answer, decline = first_tables(
        ReportData((run("mine", mixed),)), headline([run("mine", mixed)])
    )
    assert (answer.rows[0][2], answer.rows[0][3].value) == (15, 1.0)
    assert (decline.rows[0][2], decline.rows[0][3].value) == (5, 0.8)


def test_whole_per_cents_do_not_hide_the_rare() -> None:
    column = Column("x", decimals=0)
    one = run("mine", rows("i" + "c" * 299)).rows
    cell = labelled_rates(run("mine"), one, one.graded)[0]
    assert cell_text(cell.hallucination.model_copy(update={"corrected": None}), column) == "<1"
    assert cell_text(cell.accuracy.model_copy(update={"corrected": None}), column) == ">99"
    assert cell_text(cell.deflection, column) == "0"


def test_unjudged_and_failed_are_told_only_where_there_are_any(data: ReportData) -> None:
    clean = run("a", rows("cdi" * 10))
    notes = " ".join(
        notes_under([clean], [labelled_rates(clean, clean.rows, clean.rows.graded)[0]])
    )
    assert "unjudged" not in notes
    assert "failed" not in notes
    out = io.StringIO()
    print_data(ReportData((clean,)), file=out)
    assert "njudged" not in out.getvalue()
    assert "ailed" not in out.getvalue()
    assert any("4 unjudged" in note for note in table4(data, headline(data.runs)).notes)


@pytest.mark.parametrize(
    ("judge", "methods", "holds"),
    [
        ("local", [Method.EQUIVALENCE, Method.EQUIVALENCE, Method.DECLINED], "of right answers"),
        ("local", [Method.DECLINED, Method.DECLINED, Method.MATCH], "of declines"),
        ("model:openai/gpt-4o-2024-08-06" * 3, [Method.MODEL] * 3, "unknown without labels"),
        ("mine", [None] * 3, "unknown without labels"),
        (
            "cascade:openai/some-long-name?below=0.9",
            [Method.NUMBER, Method.DECLINED, Method.EQUIVALENCE, Method.EQUIVALENCE, Method.MODEL],
            "% of right.",
        ),
    ],
)
def test_one_line_says_which_judge_and_how_good_it_is(judge, methods, holds) -> None:
    parts = [row for how in methods for row in rows("c", how=how)]
    line = judge_line([run("a", parts, judge=judge)])
    assert len(line) <= 98
    assert judge[:6] in line
    assert holds in line
    assert (" %" in line) == (methods[0] is not None)


# --- labels, and comparisons -----------------------------------------------------------------------

CALLED, TRUE = ("c" * 3 + "i") * 100, ("c" * 2 + "ii") * 100


def test_labels_that_decide_stand_in_the_table_with_what_they_are() -> None:
    one = run("mine", rows(CALLED), labels=TRUE[:80])
    table = table4(ReportData((one,)), headline([one]))
    accuracy = table.rows[0][1]
    assert accuracy.value == 0.75
    assert f"75.0 ({100 * accuracy.corrected:.1f})" in table.render("terminal")
    assert any("80 labels of people" in note for note in table.notes)
    few = run("mine", rows(CALLED), labels=TRUE[:12])
    notes = table4(ReportData((few,)), headline([few])).notes
    assert any(": 40" in note for note in notes)
    chosen = run("mine", rows(CALLED), labels=TRUE[:80], drawn=False)
    table = table4(ReportData((chosen,)), headline([chosen]))
    assert any("80 labels correct nothing" in note for note in table.notes)
    assert table.rows[0][1].labels == 0


def test_a_comparison_is_by_labels_of_both_or_of_none() -> None:
    first = run("a", rows(CALLED), labels=TRUE[:120])
    second = run("b", rows("c" * 400), labels=("c" * 3 + "i") * 30)
    both = compare.compare(first, second)
    [main] = [d for d in both.differences if d.measure == compare.PRIMARY]
    assert main.labels == (120, 120)
    assert (main.first, main.second) == pytest.approx((0.5, 0.75), abs=0.05)
    assert main.delta == pytest.approx(main.second - main.first)
    assert (main.p < 0.05) == (main.low > 0 or main.high < 0)
    assert main.verdict == "better"
    assert "by labels of people: oracle 120 and 120" in compare_tables.table(both).notes[0]
    for other in (run("b", rows("c" * 400)), run("b", rows("c" * 400), labels="c" * 20)):
        mixed = compare.compare(first, other)
        [main] = [d for d in mixed.differences if d.measure == compare.PRIMARY]
        assert main.labels == (0, 0)
        assert (main.first, main.second) == (0.75, 1.0)
        assert mixed.unused_labels == (120, len(other.labels))
        assert "correct nothing" in compare_tables.table(mixed).notes[0]


def test_a_comparison_says_by_how_much_unequal_errors_could_shift_it() -> None:
    found = compare.compare(run("a", rows(CALLED)), run("b", rows("c" * 400)))
    shifts = {d.measure: d.judge_shift for d in found.differences}
    assert 0 < shifts.pop(compare.PRIMARY) < 0.5
    assert set(shifts.values()) == {None}
    assert "errs unequally" in compare_tables.table(found).notes[0]
    unknown = compare.compare(run("a", rows(CALLED, how=None)), run("b", rows("c" * 400)))
    assert unknown.differences[0].judge_shift is None
    assert "unknown without labels" in compare_tables.table(unknown).notes[0]


def test_joint_success_is_compared_over_the_questions_of_both() -> None:
    first = run("a", rows("c" * 20 + "i" * 10 + "f"), rows("d" * 31, "parametric"))
    second = run("b", rows("c" * 31), rows("d" * 12 + "i" * 18 + "d", "parametric"))
    found = compare.compare(first, second)
    assert found.joint is not None
    assert (found.joint.n, found.joint.lost, found.joint.gained) == (30, 8, 0)
    assert (found.joint.first, found.joint.second) == pytest.approx((20 / 30, 12 / 30))
    assert found.joint.p == found.joint.p_holm == pytest.approx(2 * 0.5**8)
    assert found.joint.verdict == "WORSE"
    told = json.loads(json.dumps(compare_tables.as_json(found)))
    assert told["differences"][-1]["measure"] == compare.JOINT
    assert compare.compare(run("a", rows("cc")), run("b", rows("ci"))).joint is None


def test_the_page_begins_with_what_is_right(text: str) -> None:
    start = text[: text.index('id="overview"')]
    for head in ("Parametric", "Oracle", "Declined", "Right", "Made up", "In all"):
        assert f">{head}</th>" in start
    assert [start.count(f">{name}") for name in ("cautious<", "small-lm against")] == [1, 1]
    assert "Judge local" in start


def test_the_page_compares_the_pools_that_its_columns_show() -> None:
    """In oracle five of twenty questions have no answer; each pool has its own rate and its own difference."""

    def mixed(name: str, letters: str) -> Run:
        asked = enumerate(rows(letters))
        return run(
            name,
            [row.model_copy(update={"expected": "deflect"} if n < 5 else {}) for n, row in asked],
            rows("d" * 20, "parametric"),
        )

    start = page(ReportData((mixed("a", "d" * 5 + "c" * 15), mixed("b", "i" * 5 + "c" * 15))))
    answers, differences = (
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", table)
        for table in re.findall(r"<table.*?</table>", start, re.DOTALL)[:2]
    )
    groups = ["Parametric", "Oracle", "Oracle, to deflect", "In all"]
    assert [cell for cell in answers if cell in groups] == groups
    assert [cell for cell in differences if cell in groups] == groups
    points = [re.sub(r"<.*", "", cell.removeprefix("<b>")).strip() for cell in differences[-8:]]
    assert points == ["0.0", "20", "0.0", "15", "-100.0", "5", "-25.0", "20"]
