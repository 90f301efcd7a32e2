"""Reading runs: what is wrong is named, with the file and the cure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from errors import raises

from demur.core.errors import BadInput, DataError, UsageError
from demur.reports.data import find_runs, load, read_rows

Demo = tuple[Path, list[Path]]


@pytest.fixture
def run(demo: Demo, tmp_path: Path) -> Path:
    """A copy of one run that a test may spoil."""
    return Path(shutil.copytree(demo[1][0], tmp_path / "spoilt"))


def test_a_folder_stands_for_the_runs_in_it(demo: Demo) -> None:
    release, runs = demo
    assert find_runs([release.parent]) == find_runs([release.parent / "runs"]) == sorted(runs)


def test_the_release_beside_the_runs_is_found(demo: Demo) -> None:
    data = load([demo[1][0]])
    assert data.release is not None
    assert data.release.manifest["name"] == "tiny-atlas"
    assert len(data.samples) == 48


def test_without_a_release_there_are_still_numbers(run: Path) -> None:
    data = load([run])
    assert data.release is None
    assert not data.samples
    assert data.runs[0].judges == ("local",)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("release", "demo-out/runs/SYSTEM"),
        ("empty", "demo-out/runs/SYSTEM"),
        ("nowhere", "demur run"),
    ],
)
def test_what_is_no_run_is_refused(demo: Demo, tmp_path: Path, name: str, cure: str) -> None:
    (tmp_path / "empty").mkdir()
    path = demo[0] if name == "release" else tmp_path / name
    with raises(UsageError, item=path, cure=cure):
        find_runs([path])


def test_the_same_run_twice_is_refused(demo: Demo) -> None:
    with raises(UsageError, item=demo[1][0]):
        find_runs([demo[1][0], demo[1][0] / "." / ""])


def test_runs_of_one_name_are_told_apart(demo: Demo, tmp_path: Path) -> None:
    other = Path(shutil.copytree(demo[1][0], tmp_path / "later" / demo[1][0].name))
    names = [r.name for r in load([demo[1][0], other], demo[0]).runs]
    assert len(set(names)) == 2
    assert all(n.endswith("/reader") for n in names)


def test_a_file_that_is_no_parquet(run: Path) -> None:
    (run / "rows.parquet").write_bytes(b"PAR1 not really")
    with raises(DataError, item=run / "rows.parquet"):
        load([run])


def test_other_columns_are_named(run: Path) -> None:
    table = pq.read_table(run / "rows.parquet")
    pq.write_table(
        table.drop_columns(["cluster"]).append_column("extra", table["ask"]), run / "rows.parquet"
    )
    with raises(DataError, "cluster", "extra", item="rows.parquet"):
        read_rows(run / "rows.parquet")


def test_all_invalid_rows_are_told_with_their_place(run: Path) -> None:
    table = pq.read_table(run / "rows.parquet")
    rows = table.to_pylist()
    rows[0]["scenario"], rows[2]["status"] = "dream", "maybe"
    pq.write_table(type(table).from_pylist(rows, schema=table.schema), run / "rows.parquet")
    with pytest.raises(BadInput) as caught:
        read_rows(run / "rows.parquet")
    assert [p.split(" ")[0] for p in caught.value.problems] == ["rows.parquet:1", "rows.parquet:3"]


def test_no_rows(run: Path) -> None:
    table = pq.read_table(run / "rows.parquet")
    pq.write_table(table.slice(0, 0), run / "rows.parquet")
    with raises(DataError, item="rows.parquet"):
        load([run])


def test_a_torn_context_line_is_named(run: Path) -> None:
    with (run / "contexts.jsonl").open("a") as handle:
        handle.write('{"id": "x"')
    with pytest.raises(BadInput, match=r"contexts\.jsonl:\d+"):
        load([run])


def test_a_run_on_another_release_is_refused(demo: Demo, run: Path) -> None:
    table = pq.read_table(run / "rows.parquet")
    rows = table.to_pylist()
    rows[0]["sample"] = "q-elsewhere"
    pq.write_table(type(table).from_pylist(rows, schema=table.schema), run / "rows.parquet")
    with pytest.raises(DataError, match="q-elsewhere"):
        load([run], demo[0])


def test_a_manifest_that_is_no_object(run: Path) -> None:
    (run / "manifest.json").write_text(json.dumps([1]))
    with raises(DataError, item=run / "manifest.json"):
        load([run])


def test_human_labels_are_read_and_checked(run: Path) -> None:
    (run / "labels.jsonl").write_text(
        '{"ask": "a", "label": "NOT_ATTEMPTED"}\n{"ask": "b", "label": "correct"}\n'
    )
    assert {ask: one.label for ask, one in load([run]).runs[0].labels.items()} == {
        "a": "deflected",
        "b": "correct",
    }
    (run / "labels.jsonl").write_text(
        '{"ask": "a", "label": "good"}\n{"ask": "b", "label": "correct"}\n' * 2
    )
    with pytest.raises(BadInput) as caught:
        load([run])
    assert len(caught.value.problems) == 3
    assert "labelled twice" in caught.value.problems[2]
