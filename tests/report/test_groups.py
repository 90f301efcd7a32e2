"""Sections of Table 4: those that the user states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from demur.cli import main
from demur.core.errors import UsageError
from demur.reports import cells, paper_tables
from demur.reports.data import ReportData
from demur.reports.paper_tables import OTHER, check_groups


def test_sections_of_table_4(data: ReportData) -> None:
    head = cells.headline(data.runs)
    whole = paper_tables.table4(data, head)
    assert "Group" not in [column.title for column in whole.columns]
    stated = replace(data, groups={"small-lm": "open", "cautious": "closed"})
    table = paper_tables.table4(stated, head)
    assert [row[:2] for row in table.rows] == [
        ("small-lm", "open"),
        ("cautious", "closed"),
        ("reader", OTHER),
    ]
    assert table.rules == {1, 2}
    assert {(row[0], *row[2:]) for row in table.rows} == set(whole.rows)
    for form in ("terminal", "markdown", "latex", "csv"):
        assert "open" in table.render(form, width=200)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="reader"):
        check_groups({"raeder": "open"}, data.runs)


@pytest.mark.heavy
def test_from_the_command(
    demo: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "report",
        *map(str, demo[1]),
        "--release",
        str(demo[0]),
        "-o",
        str(tmp_path / "r.html"),
        "--tables",
        str(tmp_path),
    ]
    assert main([*words, "--group", "reader=open", "--group", "small-lm=closed"]) == 0
    assert "| small-lm | closed |" in (tmp_path / "table4.md").read_text()
    assert main([*words, "--group", "reader"]) == 2
    assert "RUN=open" in capsys.readouterr().err
