"""Nothing of the machine, its user or their keys stands in what others are given: every byte is searched for canaries.

One walk from a source folder to a release and a report, with canaries in the key, the user's name, the home,
the host's name and the environment. What is packed (Parquet, gzip, SQLite, ZIP) is unpacked before it is searched.
"""

from __future__ import annotations

import gzip
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import curation_world as world
import pyarrow.parquet as pq
import pytest
import yaml

from demur.testing.fake import running

pytestmark = pytest.mark.integration

KEY = "sk-canary-7f3a9c51d2"
CANARIES = {
    "key": KEY,
    "user": "canaryuser77",
    "host": "canaryhost88",
    "secret": "canarysecret99",
    "home": "canaryhome66",
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the walk, and all that its commands printed."""
    home = tmp_path_factory.mktemp("host") / CANARIES["home"]
    root = home / "work"
    (home / "bin").mkdir(parents=True)
    (home / "bin/sitecustomize.py").write_text(
        f"import os, socket\nsocket.gethostname = lambda: {CANARIES['host']!r}\n"
    )
    env = {
        **os.environ,
        "HOME": str(home),
        "USER": CANARIES["user"],
        "LOGNAME": CANARIES["user"],
        "HOSTNAME": CANARIES["host"],
        "DB_PASSWORD": CANARIES["secret"],
        "DEMUR_API_KEY": KEY,
        "OPENAI_API_KEY": KEY,
        "PYTHONPATH": os.pathsep.join([str(home / "bin"), str(Path(world.__file__).parent)]),
    }
    said: list[str] = []

    def demur(*words: object, ok: tuple[int, ...] = (0,), **other: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "demur", *map(str, words)],
            env=env | other,
            cwd=root,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        said.extend([done.stdout, done.stderr])
        assert done.returncode in ok, done.stderr[-3000:]

    with running("500*1", key=KEY, reply=lambda body: "Zorbik Aundrel") as server:
        plan = world.recipe(world.folder(root / "towns"), world.GATES).model_dump(mode="json")
        plan["sources"][0]["path"] = "towns"
        (root / "recipe.yaml").write_text(yaml.safe_dump(plan))
        demur("build", "recipe.yaml", "--out", "built")
        system = f"model:http://127.0.0.1:{server.port}/v1#tiny"
        wrong = {
            "DEMUR_API_KEY": f"{KEY}-old",
            "OPENAI_API_KEY": f"{KEY}-old",
        }  # the server says it back
        demur(
            "run",
            "built/release",
            "--system",
            system,
            "--limit",
            "3",
            "--out",
            "runs",
            ok=(1, 2),
            **wrong,
        )
        demur("run", "built/release", "--system", system, "--limit", "3", "--out", "runs")
        (ran,) = (p.parent.relative_to(root) for p in root.glob("runs/*/rows.parquet"))
        judge = [
            "--judge",
            f"model:http://127.0.0.1:{server.port}/v1#tiny",
            "--release",
            "built/release",
        ]
        demur("judge", "run", ran, *judge, ok=(0, 1))  # what the server says is no verdict
        demur("report", "runs", "--release", "built/release", "-o", "report.html")
        demur("release", "verify", "built/release")
    return root, "\n".join(said)


def texts(path: Path) -> Iterator[bytes]:
    """A file as it is, and what is packed in it."""
    data = path.read_bytes()
    yield data
    if path.suffix == ".parquet":
        yield repr(pq.read_table(path).to_pylist()).encode()
        yield repr(pq.read_schema(path).metadata).encode()
    if data.startswith(b"\x1f\x8b"):
        yield gzip.decompress(data)
    if data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    if data.startswith(b"SQLite format 3\0"):
        with sqlite3.connect(path) as db:
            tables = [
                name
                for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            for table in tables:
                for row in db.execute(f'SELECT * FROM "{table}"'):
                    yield repr(row).encode()
                    yield from (
                        gzip.decompress(cell)
                        for cell in row
                        if isinstance(cell, bytes) and cell[:2] == b"\x1f\x8b"
                    )
        db.close()


def found(root: Path, *sought: str) -> list[str]:
    pattern = re.compile("|".join(map(re.escape, sought)).encode())
    return sorted(
        f"{path.relative_to(root)}: {hit[0].decode()}"
        for path in root.rglob("*")
        if path.is_file()
        for text in texts(path)
        if (hit := pattern.search(text))
    )


@pytest.mark.slow
def test_no_key_user_host_or_environment_is_in_any_file_or_message(
    walked: tuple[Path, str],
) -> None:
    root, said = walked
    assert len([p for p in root.rglob("*") if p.is_file()]) > 40
    hidden = [CANARIES[name] for name in ("key", "user", "host", "secret")]
    assert found(root, *hidden) == []
    assert [word for word in hidden if word in said] == []


def test_no_path_of_the_machine_is_in_what_others_are_given(walked: tuple[Path, str]) -> None:
    root, _ = walked
    assert (
        found(root / "built/release", *CANARIES.values(), "/tmp/", "/home/", "/root/", str(root))
        == []
    )
    page = (root / "report.html").read_text()
    assert [word for word in (*CANARIES.values(), str(root)) if word in page] == []


def test_the_search_finds_what_is_packed(tmp_path: Path) -> None:
    import pyarrow as pa

    pq.write_table(pa.table({"a": [KEY]}), tmp_path / "x.parquet", compression="zstd")
    (tmp_path / "x.gz").write_bytes(gzip.compress(KEY.encode()))
    with sqlite3.connect(tmp_path / "x.sqlite") as db:
        db.execute("CREATE TABLE t (a)")
        db.execute("INSERT INTO t VALUES (?)", (gzip.compress(KEY.encode()),))
    db.close()
    assert len({line.partition(":")[0] for line in found(tmp_path, KEY)}) == 3
