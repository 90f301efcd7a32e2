"""Small files that would fill a memory, a disk or a day, or lead out of their folder: refused soon, by name."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from pathlib import Path

import growth
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from errors import raises
from PIL import Image

from demur.core import parquet, store, uris
from demur.core.errors import DataError, DemurError, UsageError
from demur.core.images import open_image
from demur.core.parquet import rows_at_once, whole_table
from demur.core.records import ImageRef
from demur.core.store import Problems, parsed_yaml, read_jsonl, read_text
from demur.core.uris import read_uri
from demur.corpora.formats import archives, json_lines, parquet_rows, unpack
from demur.curation.build.recipe import load_recipe
from demur.judge.measures.table import read_table
from demur.models.prices import Prices
from demur.reports.browse import thumbnail
from demur.sources.cards import read_pins
from demur.sources.field_map import read_map

LEVELS = 12
YAML_BOMBS = {
    "aliases": "a0: &a0 [x]\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, LEVELS)),
    "merges": "a0: &a0 {x: 1}\n"
    + "".join(
        f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, LEVELS)
    ),
    "keys": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{y: *a{i - 1}, z: *a{i - 1}}}\n" for i in range(1, 60)),
    "itself": "a: &a [*a, *a]\n",
    "deep": "[" * 100_000,  # a second
    "long": "a: " + "x" * (store.MOST_YAML + 1),
}
YAML_DOORS = {
    "recipe": load_recipe,
    "field map": read_map,
    "pins": read_pins,
    "prices": Prices,
    "any": lambda path: parsed_yaml(read_text(path), str(path)),
}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("bomb", "door"), [(b, d) for b in YAML_BOMBS for d in YAML_DOORS if b != "deep" or d == "any"]
)
def test_yaml_that_stands_for_more_than_it_is(bomb: str, door: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(YAML_BOMBS[bomb])
    with growth.cpu_limit(5), pytest.raises(DemurError) as caught:
        YAML_DOORS[door](path)
    assert len(str(caught.value)) < 10_000


def test_aliases_and_merges_that_are_meant_still_work() -> None:
    text = "common: &c {a: 1}\nmine: {<<: *c, b: 2}\nlist: [*c, *c]\n"
    assert parsed_yaml(text, "x") == {
        "common": {"a": 1},
        "mine": {"a": 1, "b": 2},
        "list": [{"a": 1}] * 2,
    }
    with raises(UsageError, "os.system", item="x"):
        parsed_yaml("a: !!python/object/apply:os.system [id]", "x")


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end_costs_its_own_line_alone(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LONGEST_LINE", 1 << 16)
    data = (
        b'{"a": 1}\n' + b'{"a": "' + b"x" * (1 << 22) + b'"}\n' + b'{"a": 2}\n' + b"[" * (1 << 20)
    )
    path = tmp_path / ("rows.jsonl.gz" if packed else "rows.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    for read in (json_lines, *(() if packed else (read_jsonl,))):
        problems = Problems()
        assert [row for _, row in read(path, problems)] == [{"a": 1}, {"a": 2}]
        assert problems.summary() == [f"{path.name}:{n}: {store.TOO_LONG}" for n in (2, 4)]


def test_references_to_what_is_no_image_or_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uris, "MOST_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big", b"\0" * (1 << 21))
        archive.writestr("small", b"x")
    (tmp_path / "big").write_bytes(b"\0" * (1 << 21))
    (tmp_path / "t.tsv").write_bytes(b"a\tb\n")
    assert read_uri("zip:a.zip!small", tmp_path) == b"x"
    for uri in (
        "zip:a.zip!big",
        "big",
        "slice:big#0+9999999999",
        "slice:big#0+-1",
        "slice:big#x+1",
        "slice:big",
        "/dev/zero",
        "slice:/dev/zero#0+9",
        "tsv:/dev/zero#0",
        "tsv:t.tsv#x",
        "tsv:t.tsv#-1",
        "zip:t.tsv!x",
        "zip:/dev/zero!x",
        "parquet:t.tsv#0/a",
        "parquet:t.tsv#",
        "parquet:/dev/zero#0/a",
        "a\0b",
        "zip:a\0b!c",
        "zip:",
        "parquet:",
        "",
    ):
        with growth.cpu_limit(2), pytest.raises(DemurError):
            read_uri(uri, tmp_path)


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def _link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def test_archives_that_lead_out_link_out_or_never_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "SMALL", 1 << 20)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    bad = tmp_path / "bad.tar.gz"
    members = [
        (tarfile.TarInfo(n), b"theirs")
        for n in ("../victim", str(victim), "a/../../victim", "ok.txt")
    ]
    members += [
        (_link("link", str(victim)), b""),
        (_link("hard", "../victim", tarfile.LNKTYPE), b""),
    ]
    members += [(_link("pipe", "", tarfile.FIFOTYPE), b""), (tarfile.TarInfo("link/x"), b"theirs")]
    _tar(bad, *members)
    problems = Problems()
    assert unpack(bad, tmp_path / "out", problems) == 2
    assert (victim.read_text(), len(problems)) == ("mine", 6)
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_symlink() or p.is_fifo()]
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * (8 << 20))
    _tar(tmp_path / "bomb.tar.gz", (tarfile.TarInfo("zeros"), b"\0" * (8 << 20)))
    for name in ("bomb.zip", "bomb.tar.gz"):
        with pytest.raises(DataError, match="a bomb"):
            unpack(tmp_path / name, tmp_path / name[5:8], Problems())
        assert sum(p.stat().st_size for p in (tmp_path / name[5:8]).rglob("*")) <= 2 << 20


@pytest.mark.heavy
def test_no_reader_of_images_tries_formats_that_run_programs_or_too_many_pixels() -> None:
    """What a report, a scaled request and a local model decode goes through the same door as everything else."""
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"
    out = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(out, "PNG")
    for data in (program, out.getvalue(), b"", b"\x89PNG\r\n\x1a\n" + b"\0" * 50):
        with pytest.raises(DataError):
            thumbnail(data, 100)
        with pytest.raises(DataError), open_image(data) as (image, _):
            image.load()


def test_an_image_is_named_by_nothing_that_leads_out_of_a_folder() -> None:
    right = {"sha256": "0" * 64, "uri": "", "width": 1, "height": 1}
    ImageRef(**right, media_type="image/vnd.microsoft.icon")
    for wrong in (
        {"sha256": "../" * 21 + "x"},
        {"sha256": "0" * 63},
        {"media_type": "image/../../../x"},
        {"media_type": ""},
        {"media_type": "image/png\n"},
        {"sha256": "0" * 64 + "\n"},
    ):
        with pytest.raises(ValueError, match="pattern"):
            ImageRef(**right | wrong)


def _parquet(path: Path, columns: dict[str, pa.Array]) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd", use_dictionary=False)
    return path


@pytest.mark.heavy
def test_tables_that_unpack_to_any_number_of_gigabytes_are_not_read(tmp_path: Path) -> None:
    zeros = _parquet(
        tmp_path / "zeros.parquet",
        {"text": pa.array(["\0" * (1 << 26)] * 2), "id": pa.array(["a", "b"])},
    )
    run = tmp_path / "run.parquet"
    pq.write_table(pa.table({"ask": pa.array(["x"] * 3_000_000)}), run, compression="zstd")
    assert zeros.stat().st_size < 1 << 16
    assert run.stat().st_size < 3_000_000
    held = pa.total_allocated_bytes()
    problems = Problems()
    assert list(parquet_rows(zeros, problems)) == []
    assert " 134," in problems.lines[0]
    for path in (zeros, run):
        with raises(DataError, " 134," if path is zeros else "", item=path):
            read_table(path)
        with raises(DataError, " 134," if path is zeros else "", item=path):
            whole_table(path)
    with raises(DataError, " 134,"):
        read_uri(f"parquet:{zeros}#0/text")
    assert pa.total_allocated_bytes() - held < 1 << 20
    right = _parquet(tmp_path / "right.parquet", {"id": pa.array(["a", "b"])})
    assert [row["id"] for _, _, row in parquet_rows(right, Problems())] == ["a", "b"]
    assert whole_table(right).num_rows == 2
    (tmp_path / "none.parquet").write_bytes(b"PAR1")
    with raises(DataError, item=tmp_path / "none.parquet"):
        whole_table(tmp_path / "none.parquet")


def test_a_large_value_that_many_rows_share_is_held_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shared.parquet"
    value = random.Random(1).randbytes(1 << 16).hex()
    pq.write_table(pa.table({"text": pa.array([value] * 100)}), path, compression="none")
    with pq.ParquetFile(path) as file:
        assert rows_at_once(file, 0, 64) == 64
        monkeypatch.setattr(parquet, "MAX_GROUP", 1 << 20)
        assert rows_at_once(file, 0, 64) == 7
    assert sum(1 for _ in parquet_rows(path, Problems())) == 100
