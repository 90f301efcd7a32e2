"""Every table of the reports and verbs can be read at 60 columns and up: no number, no name and no first cell is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from read_back import WIDTHS, check_terminal, check_words, tables_made

from demur.cli import main
from demur.core.records import Measure
from demur.reports.data import ReportData
from demur.reports.tables import Column, Count, Table, numbers, texts
from demur.reports.terminal import print_data

NAMES = (
    "http:https://rag.example.org/v2/answer",
    "Qwen/Qwen2.5-VL-72B-Instruct-AWQ",
    "検索システム",
)


def test_every_table_of_runs_and_releases(
    demo: tuple[Path, list[Path]], data: ReportData, tmp_path: Path, monkeypatch, capsys
) -> None:
    release, runs = demo
    reader, cautious, *_ = map(str, sorted(runs))
    with tables_made(monkeypatch.setattr) as made:
        print_data(data, sweeps=True, times={"index": 12.5})
        words = (
            ["report", *map(str, runs), "--release", release, "-o", tmp_path / "r.html"],
            ["compare", reader, cautious],
            ["rag", "table", *map(str, runs), "--release", release],
            ["release", "show", release],
            ["release", "diff", release, release],
            ["explain", release, next(iter(data.samples))],
        )
        for line in (*words, [*words[0], "--tables", tmp_path / "tables"]):
            assert main(list(map(str, line))) == 0, line
    assert len(made) >= 25, sorted(made)
    for table in made.values():
        check_words(table)
        for width in WIDTHS:
            check_terminal(table, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("wide", [2, 4, 8, 16])
@pytest.mark.parametrize("rows", [1, 3, 12])
def test_long_names_and_many_numbers(wide: int, rows: int, width: int) -> None:
    """Also where whole groups of columns, a correction and an interval are shown."""
    columns = (
        *texts("System", "Scenario"),
        *(
            Column(title, f"Group {group}", interval=True)
            for group in range(wide // 2)
            for title in ("Accuracy", "Repeats")
        ),
        *texts("Why", wraps=True),
    )
    lines = tuple(
        (
            NAMES[n % 3],
            ("parametric", "oracle", "realistic", "adversarial")[n // 3],
            *[
                Measure(name="a", value=n / 97, corrected=n / 89, low=0.01, high=0.99, n=20),
                Count(12_345 + n, 67_890),
            ]
            * (wide // 2),
            "the evidence names another river than the question does, 48 % of the time",
        )
        for n in range(rows)
    )
    check_terminal(Table("t", "c", columns, lines), width)


def test_what_is_too_wide_is_divided_by_its_names() -> None:
    """Scenarios stay together under each system's name; a table that fits stays whole."""
    rows = tuple((s, name, 20, 0.5) for s in ("oracle", "realistic") for name in NAMES[:2] * 2)
    table = Table("t", "", (*texts("Scenario", "System"), *numbers("n", "Gain")), rows)
    assert table.render("terminal", width=100).count("Scenario") == 1
    narrow = table.render("terminal", width=50)
    assert [line for line in narrow.splitlines() if line.startswith("System: ")] == [
        f"System: {name}" for name in NAMES[:2]
    ]


def test_the_width_is_that_of_the_terminal(
    demo: tuple[Path, list[Path]], monkeypatch, capsys
) -> None:
    for width in (60, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(["rag", "table", *map(str, demo[1]), "--release", str(demo[0])]) == 0
        longest = max(map(len, map(str.rstrip, capsys.readouterr().out.splitlines())))
        assert width - 20 < longest <= width
