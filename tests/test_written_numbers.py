"""Whole numbers that others write, in options, file names, EVQA's rows, cards and manifests: each is read or told, none ends it."""

from __future__ import annotations

import argparse
from pathlib import Path

import mini_sources as mini
import pytest

from demur.cli._arguments import low_and_high
from demur.core.errors import UsageError
from demur.core.store import Problems
from demur.corpora.formats import in_numeric_order
from demur.curation.mining.folder import Samples
from demur.indexing.chunk import open_chunker
from demur.release.card import recall_lines
from demur.sources import open_source

NONE = ["\u00b2", "\u0663", "9" * 5_000, "-1", "1e3", "0x1", "1 2", "\u2467"]
"""No plain digits, or more of them than `int` reads."""


@pytest.mark.parametrize("number", [*NONE, ""], ids=lambda n: ascii(n)[:8])
def test_of_options(number: str) -> None:
    for read in (
        lambda: open_chunker(f"{number}:3", "", Path()),
        lambda: open_chunker(f"30:{number}", "", Path()),
        lambda: Samples.pages(None, f"10,evqa={number}"),  # type: ignore[arg-type]  # reads nothing of it before
    ):
        with pytest.raises(UsageError) as told:
            read()
        assert len(str(told.value)) < 400


def test_of_file_names() -> None:
    names = [
        "a-9.parquet",
        "a-\u0663.parquet",
        "a-10.parquet",
        "a-\u00b2.parquet",
        "a-\u2467.parquet",
        "a.parquet",
    ]
    names.append(f"a-{'9' * 200}.parquet")
    found = [path.name for path in in_numeric_order(map(Path, names))]
    assert sorted(found) == sorted(names)
    assert (
        found.index("a-\u0663.parquet") < found.index("a-9.parquet") < found.index("a-10.parquet")
    )


def test_of_rows_of_evqa(tmp_path: Path) -> None:
    rows = [mini.evqa_row(evidence_section_id=number) for number in NONE]
    problems = Problems()
    source = open_source("evqa", mini.evqa(tmp_path, rows), problems, mini.OPTIONS.get("evqa", {}))
    assert len(list(source.samples())) == len(problems) == len(NONE)
    assert all("gold section missing" in line for line in problems.lines)


def test_of_a_card() -> None:
    heads, rows = recall_lines(
        [{"queries": "q", "recall@10": 0.5, "recall@2": 0.25, **{f"recall@{n}": 0 for n in NONE}}]
    )
    assert heads[0] == "queries"
    assert heads[-2:] == ["recall@2", "recall@10"]
    assert len(heads) == len(rows[0]) == 3 + len(NONE)


@pytest.mark.parametrize("number", [*NONE, ""], ids=lambda n: ascii(n)[:8])
def test_of_a_range_of_distractors(number: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        low_and_high(f"0:{number}")
