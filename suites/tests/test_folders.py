"""Folders of suites from a stranger, damaged as in tests/fuzz/test_folders.py: a result, or a `DemurError`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from demur.core.store import Problems
from tests.fuzz.test_folders import TEXTS, Doors, attempts, broken


def _sheets(folder: Path) -> None:
    from demur_suites.vb.build import build

    build(folder)
    (folder / "csv").mkdir()
    said = '"{""label"": ""VISIBLE"", ""confidence"": 1}"'
    rows = [
        f"{id},Done,Is it seen?,Is it hidden?,moved,./Images/a.jpg,m,{said}"
        for id in ("GD-01", "OC-02")
    ]
    head = "ID,Status,base_question,flip_question,flip_change,pic_base,indoor_outdoor,m_Base_json"
    (folder / "csv/sheet.csv").write_text("\n".join([head, *rows]) + "\n")


def _read_sheets(folder: Path) -> None:
    from demur_suites.vb.items import read

    for path in (folder, folder / "csv"):
        problems = Problems()
        read(path, problems)
        "\n".join(problems.summary()).encode()


def _run_of_a_suite(folder: Path) -> None:
    from demur_suites import suite

    _sheets(folder)
    suite("vb").run(folder, lambda given: '{"label": "ABSTAIN"}', folder / "out", limit=2)


def _read_run_of_a_suite(folder: Path) -> None:
    from demur_suites import suite
    from demur_suites.outputs import open_outputs

    vb = suite("vb")
    found = open_outputs(vb, sorted((folder / "out").iterdir())[:1], folder)
    vb.tables(
        vb.scores(found.loaded.items, found.outputs, skip_bad=True, resamples=9), found.loaded.items
    )


DOORS: Doors = {
    "suite's run": (_run_of_a_suite, _read_run_of_a_suite, ()),
    "suite's run's texts": (_run_of_a_suite, _read_run_of_a_suite, TEXTS),
    "suite's sheets": (_sheets, _read_sheets, (".csv", ".jsonl")),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_damaged_folder_is_a_result_or_one_of_our_errors(tmp_path: Path) -> None:
    assert broken(list(DOORS), tmp_path, 1e9, 10, __file__) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", DOORS)
def test_for_long(name: str, tmp_path: Path) -> None:
    seconds = float(os.environ.get("DEMUR_SOAK_S", "30"))
    assert broken([name], tmp_path, seconds, 10**9, __file__) == []


if __name__ == "__main__":
    attempts(DOORS, *sys.argv[1:])
