"""The ledger of model calls: one SQLite file with every reply, who is asking what, and what was spent.

Every reply is committed before it is handed on. The file is in WAL mode: readers never wait, writers wait for each
other for the time of one commit, and a process killed at any moment leaves every committed reply in place. A reply is
kept raw, with what it cost, and is read back through the same checks as a fresh one. Processes share a file safely:
who asks a key claims it in the file (`claims.py`); what the calls cost is counted there too (`budget.py`).
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import DataError, StorageError
from demur.core.strict_json import parsed_json
from demur.models.claims import Claims

SCHEMA = 1
_CREATE = (
    """CREATE TABLE IF NOT EXISTS reply (
  key BLOB PRIMARY KEY, model TEXT NOT NULL, item TEXT NOT NULL, raw TEXT NOT NULL, crc INTEGER NOT NULL,
  served_by TEXT NOT NULL, finish TEXT NOT NULL, attempts INTEGER NOT NULL, faults TEXT NOT NULL,
  latency_s REAL NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached INTEGER NOT NULL,
  reasoning INTEGER NOT NULL, price REAL, created REAL NOT NULL
)""",
    "CREATE TABLE IF NOT EXISTS claim (key BLOB PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS owner (id TEXT PRIMARY KEY, host TEXT NOT NULL, process TEXT NOT NULL,"
    " pid INTEGER NOT NULL, seen REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS spending (label TEXT PRIMARY KEY, amount INTEGER NOT NULL,"
    " overrun REAL NOT NULL DEFAULT 1) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS spent_log (name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID",
)
WAIT_S = 60.0
"""Seconds to wait for another process's commit."""


class Entry(NamedTuple):
    """One paid reply, as a row of the ledger."""

    key: bytes
    model: str
    item: str
    raw: str
    served_by: str
    finish: str
    attempts: int
    faults: str
    """JSON: kind of fault -> how often, of the attempts that failed before this reply."""
    latency_s: float
    """Of the attempt that succeeded."""
    prompt: int
    completion: int
    cached: int
    reasoning: int
    price: float | None
    """US dollars; None when no price is known for the model."""
    created: float
    """Seconds since 1970."""


class Kept(NamedTuple):
    """What a lookup finds."""

    raw: str
    served_by: str
    latency_s: float


class Stats(NamedTuple):
    """The ledger's sums for one model."""

    model: str
    replies: int
    retries: int
    faults: dict[str, int]
    prompt: int
    completion: int
    cached: int
    reasoning: int
    price: float
    unpriced: int
    """Replies for which no price was known."""
    seconds: float
    """Sum of latencies."""


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All that is written in the block, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    try:
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn a SQLite error into a one-line `StorageError` with its cure."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # a damaged file may hold, and SQLite quote, what is no text
        said = str(error) if isinstance(error, sqlite3.Error) else "database disk image is malformed"
        if "full" in said:
            cure = "free some disk space and run the same command again; every reply already kept is safe"
        elif "readonly" in said or "read-only" in said:
            cure = "choose a ledger in a folder you can write to"
        elif "malformed" in said or "not a database" in said or "disk image" in said:
            cure = f"keep the file, then: demur calls recover {path} NEW.sqlite"
        elif "locked" in said:
            cure = "another process holds the ledger; wait for it (is a backup or gc running?)"
        elif "unable to open" in said:
            cure = "choose a ledger in a folder that exists and that you can write to"
        else:
            cure = "check the file and the disk"
        raise StorageError(f"the ledger cannot be used: {said}", item=str(path), cure=cure) from error


def _open_read_only(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StorageError("no such ledger", item=str(path), cure="check the path")
    # a WAL file needs a helper file beside it; where none can be made and nobody writes, the file is taken as it is
    frozen = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
    with sqlite_errors(path):
        uri = f"{path.resolve().as_uri()}?{'immutable=1' if frozen else 'mode=ro'}"
        db = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)
        try:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name='reply'").fetchone():
                raise StorageError("this SQLite file is not a ledger", item=str(path), cure="choose another path")
        except BaseException:
            db.close()
            raise
    return db


def open_database(path: Path, *, wait_s: float = WAIT_S) -> sqlite3.Connection:
    """A ledger's file, made with its folder when missing.

    Args:
        path: the file.
        wait_s: how long a statement waits for another one who writes.

    Raises:
        StorageError: it cannot be made or written, is no ledger, or is of a newer demur.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the ledger's folder cannot be made: {error.strerror}", item=str(path), cure="choose another folder"
        ) from error
    with sqlite_errors(path):
        db = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, path)
            db.execute(f"PRAGMA busy_timeout={wait_s * 1000:.0f}")
        except BaseException:
            db.close()
            raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA:
        raise StorageError(
            f"the ledger was written by a newer demur (schema {found}, this one knows {SCHEMA})",
            item=str(path),
            cure="upgrade demur",
        )
    if found == 0:
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and not db.execute("SELECT 1 FROM sqlite_master WHERE name='reply'").fetchone():
            raise StorageError("this SQLite file is not a ledger", item=str(path), cure="choose another path")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    # a checkpoint waits for the disk, and all calls with it: every 16 MB of replies, not every 4
    db.execute("PRAGMA wal_autocheckpoint=4000")
    for table in _CREATE:
        db.execute(table)
    # a write before the first call is paid: a read-only or full disk is told now
    db.execute(f"PRAGMA user_version={SCHEMA}")


def add_spending(db: sqlite3.Connection, label: str, amount: int, overrun: float = 1.0) -> None:
    """Add to what was spent under a label, in billionths of a US dollar; the overrun is the greatest one met."""
    db.execute(
        "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT (label) DO UPDATE"
        " SET amount = amount + excluded.amount, overrun = max(overrun, excluded.overrun)",
        (label, amount, overrun),
    )


def forget_spending(path: Path) -> None:
    """In a copy of a ledger: what the work of the other folder cost is not this one's."""
    with closing(open_database(path)) as db, sqlite_errors(path):
        db.execute("UPDATE spending SET amount = 0")


def _crc(key: bytes, raw: str) -> int:
    return zlib.crc32(raw.encode("utf-8", "surrogatepass"), zlib.crc32(key))


class Ledger:
    """An open ledger. Use it from one thread at a time.

    Args:
        path: the SQLite file; it and its folder are made when missing.
        read_only: look only; the file must exist, and nothing is written beside it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.unsaved: list[Entry] = []
        """Replies that could not be written (a full disk); tried again with the next one and at close."""
        self._claims: Claims | None = None
        if read_only:
            self._db = _open_read_only(path)
            return
        self._db = open_database(path)
        # on an event loop nobody may wait for another process: what is written there goes through this one
        self._hasty = open_database(path, wait_s=0)
        self._claims = Claims(self._db, self._hasty)

    # --- replies

    def get(self, key: bytes) -> Kept | None:
        """The reply kept under a key. One that does not match its checksum is dropped and counts as missing."""
        with sqlite_errors(self.path):
            row = self._db.execute("SELECT raw, served_by, latency_s, crc FROM reply WHERE key=?", (key,)).fetchone()
        return None if row is None else self._checked(key, row)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Kept]:
        """Those of the keys that are kept, at most a few hundred keys at a time for SQLite's sake."""
        found: dict[bytes, Kept] = {}
        with sqlite_errors(self.path):
            for start in range(0, len(keys), 500):
                part = keys[start : start + 500]
                marks = ",".join("?" * len(part))
                rows = self._db.execute(
                    f"SELECT key, raw, served_by, latency_s, crc FROM reply WHERE key IN ({marks})", part
                )
                for key, *row in rows.fetchall():
                    kept = self._checked(key, tuple(row))
                    if kept is not None:
                        found[key] = kept
        return found

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of the keys that are kept, without reading the replies."""
        found: set[bytes] = set()
        with sqlite_errors(self.path):
            for start in range(0, len(keys), 500):
                part = keys[start : start + 500]
                marks = ",".join("?" * len(part))
                found.update(k for (k,) in self._db.execute(f"SELECT key FROM reply WHERE key IN ({marks})", part))
        return found

    def _checked(self, key: bytes, row: tuple[Any, ...]) -> Kept | None:
        raw, served_by, latency_s, crc = row
        if not isinstance(raw, str) or _crc(key, raw) != crc:
            if self._claims is not None:
                self.drop(key)
            return None
        return Kept(raw, served_by, latency_s)

    def put(self, entry: Entry) -> None:
        """Keep a reply: committed when this returns. A key that is already kept stays as it was.

        Raises:
            StorageError: it cannot be written; the reply waits in ``unsaved``.
        """
        self.unsaved.append(entry)
        self._save(self._db)

    def offer(self, entry: Entry) -> bool:
        """Keep a reply if nobody else is writing just now: whoever asks on an event loop must not wait in it.

        Returns:
            False while another process writes; the reply is in ``unsaved``, for `saved` to try again.

        Raises:
            StorageError: as `put`.
        """
        self.unsaved.append(entry)
        return self.saved()

    def saved(self, *, last: bool = False) -> bool:
        """Whether nothing is ``unsaved`` any more, after another try that does not wait; the last one raises."""
        try:
            self._save(self._hasty)
        except StorageError as error:
            if not last and isinstance(error.__cause__, sqlite3.OperationalError) and "locked" in str(error.__cause__):
                return False
            raise
        return True

    def _save(self, db: sqlite3.Connection) -> None:
        marks = ",".join("?" * 16)
        with sqlite_errors(self.path):
            while self.unsaved:
                e = self.unsaved[0]
                values = (*e[:4], _crc(e.key, e.raw), *e[4:])
                if self._claims is None or e.key not in self._claims.held:
                    db.execute(f"INSERT OR IGNORE INTO reply VALUES ({marks})", values)
                else:  # the reply takes the place of the claim, in one commit
                    with transaction(db):
                        db.execute(f"INSERT OR IGNORE INTO reply VALUES ({marks})", values)
                        self._claims.forget(e.key, db)
                    self._claims.held.discard(e.key)
                self.unsaved.pop(0)

    def drop(self, key: bytes) -> None:
        """Forget a reply."""
        with sqlite_errors(self.path):
            self._db.execute("DELETE FROM reply WHERE key=?", (key,))

    def drop_items(self, items: Collection[str], models: Collection[str]) -> None:
        """Forget all replies of some models about some items."""
        several, of = list(items), list(models)
        with sqlite_errors(self.path):
            for start in range(0, len(several), 500):  # in short transactions: others go on writing between them
                part = several[start : start + 500]
                marks, whose = (", ".join("?" * len(some)) for some in (part, of))
                self._db.execute(f"DELETE FROM reply WHERE item IN ({marks}) AND model IN ({whose})", [*part, *of])

    # --- who is asking

    def claim(self, key: bytes) -> bool:
        """Claim the right to ask a key, among all processes; False while somebody else is asking it."""
        with sqlite_errors(self.path):
            return self._claims is None or self._claims.take(key)

    def release(self, key: bytes) -> None:
        """Give up a claim."""
        if self._claims is not None and key in self._claims.held:
            with sqlite_errors(self.path):
                self._claims.give_back(key)

    def renew(self) -> None:
        """Tell others that this process is still there; to be called every `demur.models.claims.BEAT_S` seconds."""
        if self._claims is not None:
            with sqlite_errors(self.path):
                self._claims.renew()

    # --- housekeeping

    def stats(self) -> list[Stats]:
        """Sums per model, by name."""
        with sqlite_errors(self.path):
            rows = self._db.execute(
                "SELECT model, count(*), sum(attempts - 1), sum(prompt), sum(completion), sum(cached), sum(reasoning),"
                " coalesce(sum(price), 0.0), sum(price IS NULL), sum(latency_s) FROM reply"
                " GROUP BY model ORDER BY model"
            ).fetchall()
            faults: dict[str, dict[str, int]] = {}
            for model, text, times in self._db.execute(
                "SELECT model, faults, count(*) FROM reply WHERE faults != '{}' GROUP BY model, faults"
            ):
                sums = faults.setdefault(model, {})
                for kind, n in _counts(text).items():
                    sums[kind] = sums.get(kind, 0) + n * times
        return [Stats(r[0], r[1], r[2], dict(sorted(faults.get(r[0], {}).items())), *r[3:]) for r in rows]

    def entries(self, model: str | None = None) -> Iterator[Entry]:
        """Every reply, ordered by key (the same order on every machine); one at a time."""
        where, values = ("WHERE model=?", (model,)) if model is not None else ("", ())
        columns = ", ".join(Entry._fields)
        with sqlite_errors(self.path):
            for row in self._db.execute(f"SELECT {columns} FROM reply {where} ORDER BY key", values):
                yield Entry(*row)

    def gc(self, *, model: str | None = None, before: float | None = None, dry: bool = False) -> int:
        """Delete replies of one model, older than a time, or both; and give the space back. Returns how many.

        Args:
            model: only of this model.
            before: only those created before this time, in seconds since 1970.
            dry: count only.
        """
        where = "1"
        values: list[object] = []
        if model is not None:
            where, values = where + " AND model=?", [*values, model]
        if before is not None:
            where, values = where + " AND created<?", [*values, before]
        with sqlite_errors(self.path):
            n = int(self._db.execute(f"SELECT count(*) FROM reply WHERE {where}", values).fetchone()[0])
            if not dry and (model is not None or before is not None):
                deleted = 1
                while deleted:  # in short transactions: others go on writing between them
                    deleted = self._db.execute(
                        f"DELETE FROM reply WHERE rowid IN (SELECT rowid FROM reply WHERE {where} LIMIT 500)", values
                    ).rowcount
            if not dry:
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return n if (model is not None or before is not None) else 0

    def _add_spending(self, source: Path) -> int:
        """Count what another ledger says was spent; returns 1 where that cannot be read, else 0."""
        try:
            with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, timeout=WAIT_S)) as other:
                if not other.execute("SELECT 1 FROM sqlite_master WHERE name='spending'").fetchone():
                    return 0
                rows = other.execute("SELECT label, amount, overrun FROM spending").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return 1
        with sqlite_errors(self.path):
            for label, amount, overrun in rows:
                add_spending(self._db, str(label), int(amount), float(overrun))
        return 0

    def close(self) -> None:
        """Close the file. Replies that still cannot be written go to a file of the temporary folder.

        Raises:
            StorageError: some replies could not be written; it names the file they are in.
        """
        try:
            if self.unsaved:
                self._save(self._db)
        except StorageError as error:
            spill = _spill(self.unsaved)
            raise StorageError(
                f"{len(self.unsaved)} paid replies could not be kept: {error.message}",
                item=str(self.path),
                cure=f"they are in {spill}; once there is space: demur calls recover {spill} {self.path}",
            ) from error
        finally:
            if self._claims is not None:
                self._claims.close()
                self._hasty.close()
            self._db.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- as text, and back from ruins ----------------------------------------------------------------


def entry_line(entry: Entry) -> str:
    """One line of ``demur calls export``: an object with the entry's fields, the key in hex."""
    return json.dumps(entry._asdict() | {"key": entry.key.hex()}, ensure_ascii=False, sort_keys=True) + "\n"


def _spill(entries: Iterable[Entry]) -> Path:
    handle, name = tempfile.mkstemp(prefix="demur-unsaved-", suffix=".jsonl")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(map(entry_line, entries))
    return Path(name)


def recover(source: Path, into: Path) -> tuple[int, int]:
    """Copy every readable reply of a damaged ledger, or of an exported file, into a ledger.

    Args:
        source: a SQLite file, however damaged, or JSONL as ``demur calls export`` writes it.
        into: an existing or a new ledger; what it holds stays.

    Returns:
        (replies copied, entries that could not be read).

    Raises:
        StorageError: the source cannot be opened, or the target not written.
        DataError: the source is neither.
    """
    try:
        with source.open("rb") as handle:
            head = handle.read(16)
    except OSError as error:
        raise StorageError(error.strerror or str(error), item=str(source), cure="check the path") from error
    lost = 0
    with Ledger(into) as ledger:
        before = ledger._db.total_changes
        if head.startswith(b"{"):
            with source.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    try:
                        row = parsed_json(line)
                        entry = Entry(**row | {"key": bytes.fromhex(row["key"])})
                    except (ValueError, TypeError, KeyError):
                        lost += 1
                        continue
                    if _sound(entry):
                        ledger.put(entry)
                    else:
                        lost += 1
        elif head.startswith(b"SQLite format 3") or source.stat().st_size > 0:
            lost += ledger._add_spending(source)
            for found in _readable(source):
                if found is None or not _sound(found):
                    lost += 1
                else:
                    ledger.put(found)
        else:
            raise DataError("an empty file holds no replies", item=str(source), cure="check the path")
        return ledger._db.total_changes - before, lost


def _counts(text: str) -> dict[str, int]:
    """Faults by kind as a row has them; {} where it has something else (a stranger's ledger)."""
    try:
        found = parsed_json(text)
    except (ValueError, TypeError):
        return {}
    return {k: n for k, n in found.items() if isinstance(n, int)} if isinstance(found, dict) else {}


def _sound(entry: Entry) -> bool:
    """Whether every field is of its kind, so that it can be kept."""
    return all(_fits(value, kind) for value, kind in zip(entry, _KINDS, strict=True))


_KINDS = (bytes, str, str, str, str, str, int, str, float, int, int, int, int, float, float)
"""Of the fields of `Entry`; the price may be missing."""


def _fits(value: object, kind: type) -> bool:
    if kind is float:
        return value is None or (isinstance(value, int | float) and math.isfinite(value))
    if kind is int:
        return isinstance(value, int) and abs(value) < 2**63
    return isinstance(value, kind)


def _readable(source: Path) -> Iterator[Entry | None]:
    """Entries of a damaged ledger by row number, None for each that cannot be read."""
    columns = ", ".join(Entry._fields)
    with sqlite_errors(source):
        opened = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, timeout=WAIT_S)
    with closing(opened) as db:
        try:
            last = db.execute("SELECT max(rowid) FROM reply").fetchone()[0] or 0
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # its message may quote what is no text
            raise StorageError(
                f"too damaged to read: {error}",
                item=str(source),
                cure="recover from an export or a copy, if there is one",
            ) from error
        for row_id in range(1, last + 1):
            try:
                row = db.execute(f"SELECT {columns}, crc FROM reply WHERE rowid=?", (row_id,)).fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                yield None
                continue
            if row is not None:
                entry = Entry(*row[:-1])
                sound = isinstance(entry.raw, str) and isinstance(entry.key, bytes)
                yield entry if sound and _crc(entry.key, entry.raw) == row[-1] else None
