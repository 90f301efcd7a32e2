"""Every door for files: whatever stands in them, there is a result or a `DemurError`, soon.

Each door gets a file that is right, damaged at random: bytes changed, cut out, repeated, and pieces put in that have
broken readers before. ``make soak`` goes on for DEMUR_SOAK_S seconds a door; the core tier tries a few dozen.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sqlite3
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import growth
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from damage import damaged
from PIL import Image

from demur.core.errors import DemurError
from demur.core.images import image_ref
from demur.core.records import Document, Sample
from demur.core.store import Problems, read_json, read_records, unstorable
from demur.corpora.formats import csv_rows, json_lines
from demur.corpora.formats.json_streams import json_elements, json_items, json_rows
from demur.corpora.formats.tables import parquet_rows
from demur.corpora.near_duplicates import image_hash
from demur.curation.build.recipe import load_recipe
from demur.models import wire
from demur.models.ledger import Ledger, recover_ledger
from demur.models.prices import Prices
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.answers import AnswersFile


def _json_lines() -> bytes:
    rows = [
        {"ask": f"a{i}", "answer": "Paris", "confidence": 0.5, "sample": "s", "scenario": "oracle"}
        for i in (1, 2)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _records() -> bytes:
    document = Document(id="d1", title="t", text="A text.", source="x", licence="CC0-1.0")
    return (document.model_dump_json() + "\n").encode()


def _image() -> bytes:
    out = io.BytesIO()
    Image.effect_noise((24, 16), 50).convert("RGB").save(out, "PNG")
    return out.getvalue()


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b"], "n": [1, 2], "t": [["x"], []]}), out)
    return out.getvalue()


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.jsonl", _json_lines())
    return out.getvalue()


def _ledger(path: Path) -> bytes:
    with Ledger(path):
        pass
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=DELETE")
    db.close()
    return path.read_bytes()


def _every(read: Callable[[Path, Problems], object]) -> Callable[[Path], object]:
    def door(path: Path) -> object:
        problems = Problems()
        found = list(read(path, problems))  # type: ignore[call-overload]
        "\n".join(problems.summary()).encode()  # a finding goes into files too
        return found

    return door


def _kept(path: Path) -> None:
    found = wire.read_response(path.read_bytes().decode("utf-8", "replace"))
    assert not unstorable(found)


def _asked(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.get_many([b"1" * 32])
        ledger.stats()


def _recovered(path: Path) -> None:
    new = path.with_name("new.sqlite")
    new.unlink(missing_ok=True)
    recover_ledger(path, new)


REPLY = json.dumps(
    {
        "choices": [{"message": {"content": "Paris", "confidence": 0.5}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }
).encode()
RECIPE = yaml.safe_dump(
    {"name": "mine", "version": "1.0.0", "sources": [{"name": "atlas"}], "seed": 0}
).encode()

DOORS: dict[str, tuple[str, Callable[[Path], bytes] | bytes, Callable[[Path], object]]] = {
    "wire": ("reply.json", REPLY, _kept),
    "error body": (
        "error.json",
        b'{"error": {"message": "no", "code": "x"}}',
        lambda p: wire.error_message(p.read_bytes().decode("utf-8", "replace")),
    ),
    "answers": (
        "answers.jsonl",
        _json_lines(),
        lambda p: AnswersFile(str(p), SystemContext(read_image=lambda _: b"")),
    ),
    "answers csv": (
        "answers.csv",
        b"ask,answer,confidence\na1,Paris,0.5\na2,,\n",
        lambda p: AnswersFile(str(p), SystemContext(read_image=lambda _: b"")),
    ),
    "json": ("manifest.json", b'{"files": {"a": "b"}, "n": [1, 2.5, null]}', read_json),
    "jsonl": ("rows.jsonl", _json_lines(), _every(json_lines)),
    "jsonl.gz": ("rows.jsonl.gz", gzip.compress(_json_lines(), mtime=0), _every(json_lines)),
    "json rows": ("rows.json", b'[{"a": 1}, {"a": "x"}]', _every(json_rows)),
    "json items": ("items.json", b'{"a": {"x": 1}, "b": {"x": [2]}}', _every(json_items)),
    "json elements": (
        "rows.json",
        b'{"data": [1, {"a": 2}, "x"]}',
        _every(lambda p, q: json_elements(p, q, "data")),
    ),
    "csv": (
        "rows.csv",
        b'id,text\n1,"a, b"\n2,c\n',
        _every(lambda p, q: csv_rows(p, q, delimiter=",", required=["id"])),
    ),
    "parquet": ("rows.parquet", _parquet(), _every(parquet_rows)),
    "documents": ("kb.jsonl", _records(), _every(lambda p, q: read_records(p, Document, q))),
    "samples": ("samples.jsonl", _records(), _every(lambda p, q: read_records(p, Sample, q))),
    "recipe": ("recipe.yaml", RECIPE, load_recipe),
    "prices": ("prices.json", b'{"models": {"m": {"prompt": 1.0, "completion": 2.0}}}', Prices),
    "image": (
        "image.png",
        _image(),
        lambda p: (image_ref(p.read_bytes(), str(p)), image_hash(p.read_bytes())),
    ),
    "zip": ("rows.zip", _zip(), _every(lambda p, q: json_lines(p / "rows.jsonl", q))),
    "ledger": ("calls.sqlite", _ledger, _asked),
    "ledger recovered": ("calls.sqlite", _ledger, _recovered),
}
"""Name -> (file name, what is right, what reads it)."""


def _broken(name: str, folder: Path, seconds: float, tries: int) -> list[str]:
    file, made, read = DOORS[name]
    path = folder / file
    right = made if isinstance(made, bytes) else made(path)
    until, found = time.monotonic() + seconds, []
    for seed in range(tries):
        for beside in folder.iterdir():
            beside.unlink()
        data = damaged(right, random.Random(f"{name} {seed}"))
        path.write_bytes(data)
        try:
            with growth.cpu_limit(5):
                read(path)
        except DemurError as error:
            str(error).encode()
        except Exception as error:
            found.append(
                f"seed {seed}: {type(error).__name__}: {str(error)[:150]} in {data[:80]!r}"
            )
        if time.monotonic() > until or len(found) >= 5:
            break
    return found


@pytest.mark.parametrize(("name", "seed"), [("answers", 3366)])  # a scenario that is a list
def test_what_once_got_through(name: str, seed: int, tmp_path: Path) -> None:
    file, made, read = DOORS[name]
    assert isinstance(made, bytes)
    (tmp_path / file).write_bytes(damaged(made, random.Random(f"{name} {seed}")))
    with pytest.raises(DemurError):
        read(tmp_path / file)


def test_a_table_whose_statistics_do_not_fit_does_not_end_the_process(tmp_path: Path) -> None:
    data = damaged(
        _parquet(), random.Random("parquet 101675")
    )  # pyarrow 26 dies of the sizes of its columns
    (tmp_path / "rows.parquet").write_bytes(data)
    assert len(list(parquet_rows(tmp_path / "rows.parquet", Problems()))) <= 2


@pytest.mark.heavy
@pytest.mark.parametrize("name", DOORS)
def test_a_damaged_file_is_a_result_or_one_of_our_errors(name: str, tmp_path: Path) -> None:
    assert _broken(name, tmp_path, 5, 60) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", DOORS)
def test_for_long(name: str, tmp_path: Path) -> None:
    assert _broken(name, tmp_path, float(os.environ.get("DEMUR_SOAK_S", "30")), 10**9) == []
