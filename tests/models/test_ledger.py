"""The ledger: what is kept, checked, shared, damaged and recovered."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from errors import raises

from demur.core.errors import StorageError
from demur.models.budget import Budget
from demur.models.ledger import Entry, Ledger, entry_line, recover_ledger


def entry(n: int, *, model="m", raw="{}", created=100.0, **fields) -> Entry:
    values = {
        "key": n.to_bytes(32, "little"),
        "model": model,
        "item": f"i{n}",
        "raw": raw,
        "served_by": "here",
        "finish": "stop",
        "attempts": 1,
        "faults": "{}",
        "latency_s": 0.5,
        "prompt": 10,
        "completion": 2,
        "cached": 4,
        "reasoning": 0,
        "price": 0.25,
        "created": created,
    }
    return Entry(**values | fields)


def rows(path: Path) -> int:
    with Ledger(path, read_only=True) as ledger:
        return sum(1 for _ in ledger.entries())


def test_a_reply_is_there_for_whoever_opens_the_file_next(tmp_path):
    path = tmp_path / "deep" / "calls.sqlite"
    with Ledger(path) as ledger:
        ledger.put(entry(1, raw='{"a": "é"}'))
        with Ledger(path) as other:  # at once, not at close
            kept = other.get(entry(1).key)
    assert kept is not None
    assert kept.raw == '{"a": "é"}'
    with Ledger(path) as ledger:
        assert ledger.get(entry(2).key) is None
        assert set(ledger.get_many([entry(n).key for n in range(1200)])) == {entry(1).key}


def test_the_first_reply_of_a_key_stays(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        ledger.put(entry(1, raw="first"))
        ledger.put(entry(1, raw="second"))
        assert ledger.get(entry(1).key).raw == "first"


def test_a_reply_that_was_tampered_with_counts_as_missing(tmp_path):
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        ledger.put(entry(1, raw="true"))
        ledger.put(entry(2, raw="true"))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE reply SET raw='fals' WHERE item='i1'")
    db.close()
    with Ledger(path) as ledger:
        assert ledger.get(entry(1).key) is None
        assert ledger.get_many([entry(1).key, entry(2).key]).keys() == {entry(2).key}
    assert rows(path) == 1  # dropped, so that it can be asked again


def test_stats_add_up_per_model(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        ledger.put(entry(1, attempts=3, faults='{"429": 2}'))
        ledger.put(entry(2, attempts=2, faults='{"reset": 1}', price=None))
        ledger.put(entry(3, model="other"))
        one, other = ledger.stats()
    assert (one.model, one.replies, one.retries, one.faults) == ("m", 2, 3, {"429": 2, "reset": 1})
    assert (one.prompt, one.cached, one.completion, one.price, one.unpriced) == (20, 8, 4, 0.25, 1)
    assert (other.model, other.replies, other.faults) == ("other", 1, {})


def test_gc_deletes_what_it_is_told_and_gives_space_back(tmp_path):
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        for n in range(1200):
            ledger.put(
                entry(n, raw="x" * 500, model="old" if n < 1100 else "new", created=float(n))
            )
    size = path.stat().st_size
    with Ledger(path) as ledger:
        assert ledger.gc(model="old", dry=True) == 1100
        assert ledger.gc(model="old", before=50.0) == 50
        assert ledger.gc(model="old") == 1050
        assert ledger.gc() == 0  # nothing named, nothing deleted
        assert [s.replies for s in ledger.stats()] == [100]
    assert path.stat().st_size < size / 2


def test_export_is_the_same_in_whatever_order_replies_came(tmp_path):
    lines = []
    for order in ((1, 2, 3), (3, 1, 2)):
        with Ledger(tmp_path / f"l{order[0]}") as ledger:
            for n in order:
                ledger.put(entry(n))
            lines.append([entry_line(e) for e in ledger.entries()])
    assert lines[0] == lines[1]
    assert json.loads(lines[0][0])["key"] == entry(1).key.hex()


# --- who is asking


def test_a_key_is_claimed_by_one_and_freed(tmp_path):
    key, other = entry(1).key, entry(2).key
    with Ledger(tmp_path / "l") as one, Ledger(tmp_path / "l") as two:
        assert one.claim(key)
        assert not two.claim(key)
        assert two.claim(other)
        one.release(key)
        assert two.claim(key)
        two.release(key)


def test_replies_and_claims_are_written_together_and_an_answered_key_cannot_be_claimed(tmp_path):
    with Ledger(tmp_path / "l") as one, Ledger(tmp_path / "l") as two:
        assert one.claim(entry(1).key)
        one.unsaved += [entry(1), entry(2)]
        one.wanted |= {entry(2).key, entry(3).key}
        assert one.write()
        assert (one.unsaved, one.wanted, one.claimed) == ([], set(), {entry(3).key})
        assert not two.claim(entry(1).key)
        assert not two.claim(entry(3).key)
        two.release(entry(3).key)  # nobody waits for it: it must not be claimed with the next write
        two.put(entry(4))
        one.release(entry(3).key)
        assert two.claimed == set()
        assert two.claim(entry(3).key)


def test_closing_one_ledger_keeps_the_claims_of_another(tmp_path):
    with Ledger(tmp_path / "l") as one:
        assert one.claim(entry(1).key)
        Ledger(tmp_path / "l").close()
        with Ledger(tmp_path / "l") as two:
            assert not two.claim(entry(1).key)


@pytest.mark.heavy
def test_a_killed_process_leaves_no_claim(tmp_path):
    code = f"""
        import pathlib, time
        from demur.models.ledger import Ledger
        ledger = Ledger(pathlib.Path({str(tmp_path / "l")!r}))
        print(ledger.claim((1).to_bytes(32, "little")), flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "True"
        with Ledger(tmp_path / "l") as ledger:
            assert not ledger.claim(entry(1).key)
            process.kill()
            process.wait()
            assert ledger.claim(
                entry(1).key
            )  # what a process held is free when it has been waited for
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# --- disks and damage


def put_all(ledger, numbers):
    for n in numbers:
        ledger.put(entry(n, raw="x" * 1000))


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = tmp_path / "l"
    ledger = Ledger(path)
    ledger.put(entry(1, raw="x" * 1000))
    ledger._db.execute("PRAGMA max_page_count=8")  # SQLite's own "database or disk is full"
    with raises(StorageError, item=path):
        put_all(ledger, range(2, 100))
    kept, waiting = (
        ledger._db.execute("SELECT count(*) FROM reply").fetchone()[0],
        len(ledger.unsaved),
    )
    with raises(StorageError, item=path) as caught:
        ledger.close()
    spill = next(tmp_path.glob("demur-unsaved-*.jsonl"))
    assert str(spill) in caught.value.cure
    assert rows(path) == kept
    copied, lost = recover_ledger(spill, path)  # the disk has space again
    assert (copied, lost) == (waiting, 0)
    assert rows(path) == kept + waiting


def test_space_that_comes_back_is_used(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        ledger._db.execute("PRAGMA max_page_count=4")
        with pytest.raises(StorageError):
            put_all(ledger, range(100))
        tried = ledger._db.execute("SELECT count(*) FROM reply").fetchone()[0] + len(ledger.unsaved)
        ledger._db.execute("PRAGMA max_page_count=1000000")
    assert rows(tmp_path / "l") == tried


def test_a_folder_that_cannot_be_written_is_told_at_once():
    with pytest.raises(StorageError, match="folder"):
        Ledger(Path("/proc/demur/calls.sqlite"))


@pytest.fixture
def open_folder():
    """A folder that every user may enter: pytest's own are for their owner alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.geteuid() == 0 and not all(
            above.stat().st_mode & stat.S_IXOTH for above in folder.parents
        ):
            pytest.skip(
                "root can be nobody only where nobody may enter the folder of temporary files"
            )
        yield folder


@pytest.mark.heavy
def test_a_read_only_ledger_is_told_at_once_and_can_be_read(open_folder):
    path = open_folder / "l"
    with Ledger(path) as ledger:
        ledger.put(entry(1))
    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    code = textwrap.dedent(f"""
        import os, pathlib, sys
        from demur.models.ledger import Ledger
        from demur.core.errors import StorageError
        if os.geteuid() == 0:
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        with Ledger(pathlib.Path({str(path)!r}), read_only=True) as ledger:
            print(len(list(ledger.entries())))
        try:
            Ledger(pathlib.Path({str(path)!r}))
        except StorageError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    out = done.stdout.splitlines()
    assert out[:1] == ["1"], done.stderr
    assert "ledger" in out[1]


@pytest.mark.parametrize("damage", ["header", "pages", "text"])
def test_a_corrupt_ledger_is_told_and_recovered(tmp_path, damage):
    path, new = tmp_path / "l", tmp_path / "new"
    with Ledger(path) as ledger:
        for n in range(400):
            ledger.put(entry(n, raw=json.dumps({"n": n, "pad": "x" * 300})))
    data = bytearray(path.read_bytes())
    if damage == "header":
        path.write_bytes(b"not a database at all" * 100)
    elif damage == "pages":
        data[4096 * 12 : 4096 * 20] = random.Random(8).randbytes(4096 * 8)
        path.write_bytes(data)
    else:
        place = data.index(b'"n": 77,')
        data[place : place + 8] = b'"n": 78,'
        path.write_bytes(data)
    if damage == "header":
        with raises(StorageError, item=path, cure="demur calls recover"):
            Ledger(path)
        with raises(StorageError, item=path):
            recover_ledger(path, new)
        return
    if damage == "pages":
        with (
            raises(StorageError, item=path, cure="demur calls recover"),
            Ledger(path) as ledger,
        ):
            [ledger.get(entry(n).key) for n in range(400)]
    copied, lost = recover_ledger(path, new)
    assert copied + lost == 400
    assert lost == 1 if damage == "text" else 0 < lost < 150
    with Ledger(new) as ledger:
        good = [n for n in range(400) if ledger.get(entry(n).key)]
        assert len(good) == copied
        assert all(json.loads(ledger.get(entry(n).key).raw)["n"] == n for n in good)


def test_foreign_and_newer_files_are_refused(tmp_path):
    foreign = tmp_path / "foreign.sqlite"
    db = sqlite3.connect(foreign)
    db.execute("CREATE TABLE users (name TEXT)")
    db.commit()
    db.close()
    with raises(StorageError, item="foreign.sqlite", cure="demur calls recover"):
        Ledger(foreign)
    with raises(StorageError, item="foreign.sqlite", cure="demur calls recover"):
        Ledger(foreign, read_only=True)
    newer = tmp_path / "newer"
    Ledger(newer).close()
    db = sqlite3.connect(newer)
    db.execute("ALTER TABLE reply ADD COLUMN mood TEXT")
    db.close()
    for options in ({}, {"read_only": True}):
        with pytest.raises(StorageError) as caught:
            Ledger(newer, **options)
        assert caught.value.item == str(newer)
        assert "demur calls recover" in caught.value.cure
    with raises(StorageError, item=tmp_path / "missing"):
        Ledger(tmp_path / "missing", read_only=True)


def changed(path, *statements):
    """A ledger with one reply that somebody changed."""
    with Ledger(path) as ledger:
        ledger.put(entry(1))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)
    return path


TRIGGER = "CREATE TRIGGER t BEFORE INSERT ON reply BEGIN SELECT RAISE(IGNORE); END"
VIEW = (
    "ALTER TABLE reply RENAME TO held",
    "CREATE VIEW reply AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM held, r",
)
SPENDING_VIEW = (
    "DROP TABLE spending",
    "CREATE VIEW spending AS SELECT '' AS label, -9 AS amount, 0 AS unreported, 1 AS overrun",
)
CHECKED = (
    "DROP TABLE claim",
    "CREATE TABLE claim (key BLOB PRIMARY KEY, owner TEXT NOT NULL CHECK (owner = '')) WITHOUT ROWID",
)


@pytest.mark.parametrize(
    "statements",
    [
        (TRIGGER,),
        VIEW,
        SPENDING_VIEW,
        CHECKED,
        ("CREATE INDEX i ON reply (hex(raw))",),
        ("CREATE VIEW other AS SELECT 1",),
    ],
)
def test_a_ledger_that_somebody_changed_is_refused(tmp_path, statements):
    """A trigger drops a paid reply without an error."""
    path = changed(tmp_path / "l", *statements)
    for use in (Ledger, lambda p: Ledger(p, read_only=True), lambda p: Budget(1.0, p).spent):
        with pytest.raises(StorageError) as caught:
            use(path)
        assert caught.value.item == str(path)


@pytest.mark.parametrize("statements", [(TRIGGER,), VIEW, SPENDING_VIEW])
def test_nothing_is_recovered_from_what_would_run(tmp_path, statements):
    with pytest.raises(StorageError) as caught:
        recover_ledger(changed(tmp_path / "l", *statements), tmp_path / "new")
    assert caught.value.item == str(tmp_path / "l")


def test_the_replies_of_another_schema_are_recovered(tmp_path):
    path = changed(tmp_path / "l", "ALTER TABLE reply ADD COLUMN mood TEXT", "DROP TABLE spending")
    assert recover_ledger(path, tmp_path / "new") == (1, 0)


def test_a_commit_that_keeps_less_than_was_written_is_an_error(tmp_path):
    """The reply stays with the ledger, which writes it elsewhere when it closes."""
    ledger = Ledger(tmp_path / "l")
    ledger.put(entry(1))
    ledger.put(entry(1))  # again: its reply is there
    ledger._db.execute(TRIGGER)
    with pytest.raises(StorageError) as caught:
        ledger.put(entry(2))
    assert caught.value.item == str(tmp_path / "l")
    assert [e.key for e in ledger.unsaved] == [entry(2).key]
    with pytest.raises(StorageError) as caught:
        ledger.close()
    assert "demur calls recover" in caught.value.cure
