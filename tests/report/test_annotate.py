"""Responses for people to label: balanced, blind, and taken back from a spreadsheet with every mistake told."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from errors import raises

from demur.cli import main
from demur.core.errors import BadInput, UsageError
from demur.judge.annotation.task import read_task
from demur.reports.annotate import draw_balanced, open_task, take, write_sheet
from demur.reports.data import ReportData, load


def copied(demo: tuple[Path, list[Path]], where: Path) -> list[Path]:
    return [Path(shutil.copytree(run, where / run.name)) for run in demo[1]]


def rows_of(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(newline="") as handle:
        return list(csv.DictReader(handle))


def filled(sheet: Path, label: object, delimiter: str = ",") -> None:
    """Put ``label(row)`` into every line, as a spreadsheet would save it."""
    rows = rows_of(sheet)
    with sheet.open("w", newline="", encoding="utf-8-sig") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(row | {"label": label(row)} for row in rows)  # type: ignore[operator]


def test_as_many_of_each_scenario_the_same_every_time(data: ReportData) -> None:
    items = draw_balanced(data, 41)
    counts = Counter((i.run.name, i.row.scenario) for i in items)
    assert set(counts.values()) == {10, 11}
    again, other = draw_balanced(data, 41), draw_balanced(data, 41, seed=1)
    assert [i.id for i in items] == [i.id for i in again] != [i.id for i in other]
    assert len({i.id for i in items}) == len(items)
    with pytest.raises(UsageError):
        draw_balanced(data, 0)


def test_the_sheet_is_blind(demo: tuple[Path, list[Path]], tmp_path: Path) -> None:
    folder = tmp_path / "task"
    open_task(folder, demo[1], n=12, release=demo[0])
    sheet = write_sheet(folder)
    text = sheet.read_text()
    hidden = (
        "reader",
        "cautious",
        "small-lm",
        "adversarial",
        "parametric",
        "incorrect",
        "no match",
    )
    for name in hidden:
        assert name not in text
    rows = rows_of(sheet)
    _, items = read_task(folder)
    assert Counter(row["item"] for row in rows) == Counter(item.id for item in items)
    assert all(row["Accepted"] and row["Answer"] and not row["label"] for row in rows)
    shown = [name for row in rows for name in row["images"].split("; ") if name]
    assert shown
    assert all((folder / "images" / name).stat().st_size for name in shown)
    with raises(UsageError):
        write_sheet(folder)


@pytest.mark.heavy
def test_labels_come_back_and_agree_as_counted_by_hand(
    demo: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person who calls every fifth item incorrect, in a spreadsheet that writes semicolons; kappa recounted."""
    runs = copied(demo, tmp_path / "runs")
    task = tmp_path / "task"
    words = [str(tmp_path / "runs"), "-n", "40", "-o", str(task), "--release", str(demo[0])]
    assert main(["annotate", "draw", *words]) == 0
    data = load(runs, demo[0])
    drawn = draw_balanced(data, 40)
    truth = {i.id: i.row.outcome.value for i in drawn if i.row.outcome}
    said = {
        item.id: "incorrect" if n % 5 == 0 else truth.get(item.id, "deflected").upper()
        for n, item in enumerate(drawn)
    }
    filled(task / "sheet.csv", lambda row: said[row["item"]], ";")
    words = ["annotate", "import", str(task), str(task / "sheet.csv"), "--as", "maria"]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["annotate", "take", str(task), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["blank"] == 0
    assert sorted(found["labels"].values()) == [40, 40, 40]
    cells = {
        i.id: (i.run.name, i.row.scenario, i.row.condition, i.row.recipe, i.row.outcome)
        for i in drawn
        if i.row.outcome
    }
    counts = Counter(cells.values())
    graded = Counter(
        (run.name, r.scenario, r.condition, r.recipe, r.outcome)
        for run in data.runs
        for r in run.rows
        if r.outcome
    )
    for row in found["agreement"][:3]:  # each label counts for the answers that it stands for
        pairs = [
            (truth[i], said[i].lower(), graded[cell] / counts[cell])
            for i, cell in cells.items()
            if cell[0] == row["system"]
        ]
        every = sum(weight for *_, weight in pairs)
        share = sum(weight for a, b, weight in pairs if a == b) / every
        one, other = Counter[str](), Counter[str]()
        for a, b, weight in pairs:
            one[a] += weight / every  # type: ignore[assignment]
            other[b] += weight / every  # type: ignore[assignment]
        chance = sum(one[x] * other[x] for x in one)
        assert row["agreement"] == pytest.approx(share)
        assert row["kappa"] == pytest.approx((share - chance) / (1 - chance))
        assert row["n"] == len(pairs)
    before = {run.name: (run / "labels.jsonl").read_bytes() for run in runs}
    assert main(["annotate", "take", str(task)]) == 0
    assert "kappa" in capsys.readouterr().out
    assert {run.name: (run / "labels.jsonl").read_bytes() for run in runs} == before


@pytest.mark.heavy
def test_answers_that_changed_since_are_told_and_nothing_is_written(
    demo: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    runs = copied(demo, tmp_path / "runs")
    folder = tmp_path / "task"
    open_task(folder, runs, n=8, release=demo[0])
    sheet = write_sheet(folder)
    filled(sheet, lambda row: "correct")
    assert main(["annotate", "import", str(folder), str(sheet), "--as", "maria"]) == 0
    lines = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    lines[0]["about"]["answer"] = "0" * 16
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadInput) as told:
        take(folder)
    assert lines[0]["id"] in str(told.value)
    assert not any((run / "labels.jsonl").exists() for run in runs)


def test_responses_that_are_formulas_stay_text(
    hostile: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    open_task(tmp_path / "task", hostile[1], n=8, release=hostile[0])
    for row in rows_of(write_sheet(tmp_path / "task")):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())
        assert "\x1b" not in row["Answer"]
