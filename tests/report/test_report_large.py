"""Large runs: numbers over all rows, examples drawn by hash, and repeats that are one item each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_factory import write_run

from demur.core.records import Outcome, Row, Scenario, Status
from demur.judge.measures.rates import rates
from demur.judge.measures.table import Table
from demur.reports import compare, compare_tables
from demur.reports.browse import payload
from demur.reports.cells import headline, main_cells
from demur.reports.data import ReportData, Run, drawn_samples, load, read_rows, read_run
from demur.reports.html import page
from demur.reports.release import caveats

Demo = tuple[Path, list[Path]]


@pytest.mark.slow
def test_samples_are_drawn_by_hash_and_whole_where_a_run_is_too_large_to_browse(
    data: ReportData, text: str
) -> None:
    rows = [run.rows for run in data.runs]
    assert data.samples_shown is None
    few = drawn_samples(rows, 300)
    more = drawn_samples(rows, 600)
    assert few is not None
    assert more is not None
    assert few < more  # drawn by hash: a smaller page shows a part of the larger one
    assert drawn_samples([*reversed(rows)], 300) == few
    cut = replace(
        data,
        samples_shown=few,
        runs=tuple(
            read_run(run.path, run.name, rows=run.rows, samples_shown=few) for run in data.runs
        ),
    )
    assert {c.sample for run in cut.runs for c in run.contexts.values()} == few
    head = headline(cut.runs)
    assert main_cells(cut, head) == main_cells(data, head)
    found = payload(cut, head, image_budget=0)
    whole = payload(data, head, image_budget=0)
    assert {sample["id"] for sample in found["samples"]} == few
    assert 200 < len(found["items"]) <= 300
    asked = [whole["samples"][item["sample"]]["id"] for item in whole["items"]]
    assert len(found["items"]) == sum(s in few for s in asked)  # each with all that it was asked
    said = next(line for line in caveats(cut) if "sample browser" in line)
    assert f"shows {len(few)} of 48 samples" in said
    small = page(cut, image_budget=0)
    assert "#ask=" in small or all(i.sample not in few for i in _lost(cut))
    assert text.count("#ask=") > small.count("#ask=")


def _lost(data: ReportData) -> tuple[compare.Changed, ...]:
    return compare.compare(data.runs[0], data.runs[1], most_items=12).lost


def test_one_sample_is_shown_even_if_it_alone_is_too_large(data: ReportData) -> None:
    assert len(drawn_samples([data.runs[0].rows], 1) or ()) == 1


def test_rows_are_columns_that_read_like_records(demo: Demo) -> None:
    columns = read_rows(demo[1][2] / "rows.parquet")
    records = list(columns)
    assert len(columns) == len(records)
    assert all(isinstance(r, Row) for r in records)
    by_hand = Table(records)
    for name in ("scenario", "recipe", "outcome", "error"):
        assert columns.tally(name) == by_hand.tally(name)
    assert columns.tally("scenario", "condition") == by_hand.tally("scenario", "condition")
    assert rates(columns) == rates(by_hand)
    some = [records[i].ask for i in (5, 1)]
    assert columns.is_in("ask", some).tolist() == by_hand.is_in("ask", some).tolist()
    import numpy as np

    places = np.array([7, 2, 2])
    assert columns.take(places) == by_hand.take(places) == [records[7], records[2], records[2]]
    assert columns.texts("outcome", places) == by_hand.texts("outcome", places)


def test_the_worst_items_are_the_first_of_all(data: ReportData) -> None:
    every = compare.compare(*data.runs[:2])
    few = compare.compare(*data.runs[:2], most_items=3)
    assert few.lost == every.lost[:3]
    assert few.gained == every.gained[:3]
    assert (few.lost_in_all, few.gained_in_all) == (len(every.lost), len(every.gained))
    assert few.differences == every.differences


def row(item: int, repeat: int, outcome: Outcome | None) -> Row:
    return Row(
        ask=f"{item}-{repeat}",
        context=f"c{item}",
        sample=f"s{item}",
        source="x",
        scenario=Scenario.ORACLE,
        condition="moderate",
        recipe="oracle",
        repeat=repeat,
        k_used=0,
        expected="answer",
        status=Status.GRADED if outcome else Status.FAILED,
        outcome=outcome,
        answer=f"{item}-{repeat}",
    )


def test_compared_draws_are_one_pair_with_their_mean() -> None:
    """By hand: item 0 1/3 -> 1, item 1 1 -> 1/2, item 2 has no verdict on one side."""
    c, i, d = Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED
    first = [
        row(0, 0, d),
        row(0, 1, c),
        row(0, 2, d),
        row(1, 0, c),
        row(1, 1, None),
        row(2, 0, c),
        row(3, 0, c),
    ]
    second = [row(1, 1, c), row(0, 0, c), row(1, 0, i), row(2, 0, None)]
    found = compare.compare(
        Run("a", Path("a"), {}, Table(first)), Run("b", Path("b"), {}, Table(second))
    )
    (right,) = [x for x in found.differences if x.measure == compare.PRIMARY]
    assert (found.pairs, found.unjudged, found.only_first, found.only_second) == (2, 1, 1, 0)
    assert (found.repeats, found.answers) == (3, (4, 3))
    assert (right.first, right.second) == (pytest.approx(2 / 3), pytest.approx(3 / 4))
    assert right.spread == pytest.approx(((2 / 3) ** 2 + (1 / 2) ** 2) / 2)
    assert [(s.first, s.second, s.lost, s.gained) for s in found.slices] == [
        (pytest.approx(2 / 3), pytest.approx(3 / 4), 1, 1)
    ]
    assert [(x.said_before, x.said_after) for x in found.gained] == [
        ("0-0", "0-0")
    ]  # deflected in two of three
    assert [(x.said_before, x.said_after) for x in found.lost] == [
        ("1-0", "1-0")
    ]  # a tie: the first repeat
    assert "(with 4 and 3 repeats)" in compare_tables.table(found).notes[2]


def test_a_run_that_is_too_large_is_cut_as_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(i, 0, Outcome.CORRECT) for i in range(60)]
    write_run(tmp_path / "many", rows)
    assert load([tmp_path / "many"]).samples_shown is None
    monkeypatch.setattr("demur.reports.data.MOST_ITEMS", 20)
    found = load([tmp_path / "many"])
    assert found.samples_shown is not None
    assert len(found.samples_shown) == 20
    assert main_cells(found, headline(found.runs))["many", Scenario.ORACLE].n == 60
