"""Responses for people to label: balanced, blind, and taken back with every mistake told."""

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
from demur.reports.annotate import count_by_system, draw_items, take_labels, write_sheet
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


def test_as_many_of_each_scenario_the_same_every_time_and_shuffled(data: ReportData) -> None:
    items = draw_items(data, 41)
    assert {n for scenarios in count_by_system(items).values() for n in scenarios.values()} == {
        10,
        11,
    }
    assert all(sum(scenarios.values()) == 41 for scenarios in count_by_system(items).values())
    assert (
        [i.id for i in items]
        == [i.id for i in draw_items(data, 41)]
        != [i.id for i in draw_items(data, 41, seed=1)]
    )
    assert len({i.id for i in items}) == len(items)
    assert len({i.run.name for i in items[:12]}) > 1
    assert all(i.row.outcome is not None for i in items)
    with pytest.raises(UsageError):
        draw_items(data, 0)


def test_the_sheet_is_blind(data: ReportData, tmp_path: Path) -> None:
    items = draw_items(data, 12)
    key = write_sheet(data, items, tmp_path / "sheet.csv")
    text = (tmp_path / "sheet.csv").read_text()
    for name in (
        "reader",
        "cautious",
        "small-lm",
        "adversarial",
        "parametric",
        "incorrect",
        "no match",
    ):
        assert name not in text
    rows = rows_of(tmp_path / "sheet.csv")
    assert Counter(row["item"] for row in rows) == Counter(i.id for i in items)
    assert all(row["accepted"] and row["response"] and not row["label"] for row in rows)
    shown = [name for row in rows for name in row["images"].split("; ") if name]
    assert shown
    assert all((tmp_path / name).stat().st_size for name in shown)
    assert len(key.read_text().splitlines()) == len(items)
    with raises(UsageError, item=tmp_path / "sheet.csv", cure="--out"):
        write_sheet(data, items, tmp_path / "sheet.csv")


@pytest.mark.heavy
def test_labels_come_back_and_agree_as_counted_by_hand(
    demo: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person who calls every fifth item incorrect, in a spreadsheet that writes semicolons; kappa recounted."""
    runs = copied(demo, tmp_path / "runs")
    sheet = tmp_path / "sheet.csv"
    assert (
        main(
            [
                "annotate",
                "draw",
                str(tmp_path / "runs"),
                "-n",
                "40",
                "-o",
                str(sheet),
                "--release",
                str(demo[0]),
            ]
        )
        == 0
    )
    truth = {i.id: str(i.row.outcome) for i in draw_items(load(runs, demo[0]), 40)}
    said = {
        item: "incorrect"
        if n % 5 == 0
        else "NOT ATTEMPTED"
        if label == "deflected"
        else label.upper()
        for n, (item, label) in enumerate(truth.items())
    }
    filled(sheet, lambda row: said[row["item"]], ";")
    capsys.readouterr()
    assert main(["annotate", "take", str(sheet), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["blank"] == 0
    assert sorted(found["labels"].values()) == [40, 40, 40]
    key = {
        line["item"]: Path(line["run"]).name
        for line in map(json.loads, (tmp_path / "sheet.key.jsonl").read_text().splitlines())
    }
    names = {"NOT ATTEMPTED": "deflected"}
    data = load(runs, demo[0])
    cells = {
        i.id: (i.run.name, i.row.scenario, i.row.condition, i.row.recipe, i.row.outcome)
        for i in draw_items(data, 40)
    }
    drawn = Counter(cells.values())
    graded = Counter(
        (run.name, r.scenario, r.condition, r.recipe, r.outcome)
        for run in data.runs
        for r in run.rows
        if r.outcome
    )
    for row in found["agreement"][
        :3
    ]:  # each label counts for the graded answers of its scenario and verdict
        pairs = [
            (truth[i], names.get(said[i], said[i].lower()), graded[cells[i]] / drawn[cells[i]])
            for i in truth
            if key[i] == row["system"]
        ]
        every = sum(weight for *_, weight in pairs)
        share = sum(weight for a, b, weight in pairs if a == b) / every
        one, other = Counter(), Counter()
        for a, b, weight in pairs:
            one[a] += weight / every
            other[b] += weight / every
        chance = sum(one[x] * other[x] for x in one)
        assert row["agreement"] == pytest.approx(share)
        assert row["kappa"] == pytest.approx((share - chance) / (1 - chance))
        assert row["n"] == 40
    before = {run.name: (run / "labels.jsonl").read_bytes() for run in runs}
    assert main(["annotate", "take", str(sheet)]) == 0
    assert "kappa" in capsys.readouterr().out
    assert {run.name: (run / "labels.jsonl").read_bytes() for run in runs} == before


@pytest.mark.heavy
def test_every_mistake_in_a_sheet_is_told_and_nothing_is_written(
    demo: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    runs = copied(demo, tmp_path / "runs")
    data = load(runs, demo[0])
    sheet = tmp_path / "sheet.jsonl"
    write_sheet(data, draw_items(data, 8), sheet)
    rows = [json.loads(line) for line in sheet.read_text().splitlines()]
    for row in rows:
        row["label"] = "correct"
    rows[0]["label"] = "right"
    rows[1]["item"] = "foreign"
    rows[2]["item"] = rows[3]["item"]
    key = tmp_path / "sheet.key.jsonl"
    lines = [json.loads(line) for line in key.read_text().splitlines()]
    changed = next(line for line in lines if line["item"] == rows[4]["item"])
    changed["answer"] = "0" * 16
    key.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sheet.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadInput) as told:
        take_labels(sheet)
    for part in ("'right'", "foreign", "twice", "changed"):
        assert part in str(told.value)
    assert not any((run / "labels.jsonl").exists() for run in runs)
    rows[0]["label"], rows[1]["item"], rows[2]["item"], rows[4]["label"] = "", "", "", ""
    sheet.write_text("".join(json.dumps(row) + "\n" for row in rows[3:4]))
    taken = take_labels(sheet)
    assert sum(taken.labels.values()) == 1
    assert taken.blank == len(lines) - 1
    key.unlink()
    with pytest.raises(UsageError, match="key"):
        take_labels(sheet)


def test_responses_that_are_formulas_stay_text(
    hostile: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    data = load(hostile[1], hostile[0])
    write_sheet(data, draw_items(data, 8), tmp_path / "sheet.csv")
    for row in rows_of(tmp_path / "sheet.csv"):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())
        assert "\x1b" not in row["response"]
