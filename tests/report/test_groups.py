"""Open and closed weights apart in Table 4."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from demur.cli import main
from demur.core.errors import UsageError
from demur.reports import cells, paper_tables
from demur.reports.data import ReportData
from demur.reports.paper_tables import CLOSED, OPEN, OTHER, checked_groups, weights


@pytest.mark.parametrize(
    ("system", "found"),
    [
        ("model:openai/gpt-4o", CLOSED),
        ("model:openai/o3", CLOSED),
        ("model:anthropic/claude-opus-4", CLOSED),
        ("model:gemini/gemini-2.5-pro", CLOSED),
        ("model:openai/gpt-oss-120b", ""),
        ("model:google/gemma-3-27b-it", OPEN),
        ("model:Qwen/Qwen2.5-VL-32B-Instruct", OPEN),
        ("model:hf:mine", OPEN),
        ("model:SmolLM2-135M", ""),
        ("model:EleutherAI/gpt-neox-20b", OPEN),
        ("model:allenai/olmo-2", OPEN),
        ("model:python:m:f", ""),
        ("reader?min=0.5", ""),
        ("python:m:f", ""),
        ("answers:gpt-4o.jsonl", ""),
        ("small-lm", ""),
    ],
)
def test_what_a_name_says_of_the_weights(system: str, found: str) -> None:
    assert weights(system) == found


def systems(data: ReportData, **names: str) -> ReportData:
    runs = tuple(
        replace(r, manifest={**r.manifest, "system": names.get(r.name.replace("-", "_"), "x")})
        for r in data.runs
    )
    return replace(data, runs=runs)


def test_sections_of_table_4(data: ReportData) -> None:
    head = cells.headline(data.runs)
    whole = paper_tables.table4(data, head)
    assert [c.title for c in whole.columns][:2] != [
        "System",
        "Weights",
    ]  # nobody can tell: as it was
    known = systems(
        data, reader="model:openai/gpt-5", cautious="model:Qwen/Qwen2.5-VL-7B", small_lm="reader"
    )
    table = paper_tables.table4(known, head)
    assert [row[:2] for row in table.rows] == [
        ("cautious", OPEN),
        ("reader", CLOSED),
        ("small-lm", OTHER),
    ]
    assert table.rules == {1, 2}
    assert {(row[0], *row[2:]) for row in table.rows} == {row[:1] + row[1:] for row in whole.rows}
    assert table.columns[1].title == "Weights"
    for form in ("terminal", "markdown", "latex", "csv"):
        assert OPEN in table.render(form, width=200)  # type: ignore[arg-type]
    given = replace(
        known, groups=checked_groups({"small-lm": "Ours", "cautious": "closed"}, known.runs)
    )
    assert [row[:2] for row in paper_tables.table4(given, head).rows] == [
        ("reader", CLOSED),
        ("cautious", CLOSED),
        ("small-lm", "Ours"),
    ]
    with pytest.raises(UsageError, match="reader"):
        checked_groups({"raeder": "open"}, known.runs)


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
