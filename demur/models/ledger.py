"""The ledger of model calls: one SQLite file with every reply, the calls in progress, and the money spent.

A reply is committed before its caller sees it. The file is in WAL mode: readers never wait, writers wait for each other
for the time of one commit, and a process killed at any moment leaves every committed reply in place. The ledger keeps
the raw reply with its cost, and reads it back through the same checks as a fresh one. Processes share a file safely:
a process claims a key before it sends the call (`claims.py`), and counts the cost of its calls in the same file
(`budget.py`).
"""

from __future__ import annotations

import codecs
import json
import os
import sqlite3
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from time import time
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from demur.core.errors import DataError, StorageError
from demur.core.records import Response
from demur.core.strict_json import parsed_json
from demur.core.text import command
from demur.models.claims import Claims
from demur.models.sent import TABLES, SentBatch, SentCall, SentCalls

SPENDING = (
    "CREATE TABLE IF NOT EXISTS spending (label TEXT PRIMARY KEY, amount INTEGER NOT NULL,"
    " unreported INTEGER NOT NULL, overrun REAL NOT NULL) WITHOUT ROWID"
)
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
    SPENDING,
    *TABLES,
)
_INSERT = f"INSERT OR IGNORE INTO reply VALUES ({','.join('?' * 16)})"
WAIT_S = 60.0
"""Seconds to wait for another process's commit."""

Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Entry(NamedTuple):
    """One paid reply, as a row of the ledger."""

    key: bytes
    model: str
    item: str
    raw: str
    served_by: str
    finish: str
    attempts: Whole
    faults: str
    """JSON object: kind of fault -> number of attempts that failed with it before this reply."""
    latency_s: Finite
    """Of the attempt that succeeded."""
    prompt: Whole
    completion: Whole
    cached: Whole
    reasoning: Whole
    price: Finite | None
    """US dollars; None when the model's price is unknown."""
    created: Finite
    """Seconds since 1970."""

    @classmethod
    def of(
        cls,
        key: bytes,
        model: str,
        item: str,
        raw: str,
        answer: Response,
        cost: float | None,
        faults: Mapping[str, int] = MappingProxyType({}),
    ) -> Entry:
        """The entry of a reply that comes just now.

        Args:
            answer: ``raw`` as it was read.
            cost: US dollars; None if unknown.
            faults: attempts that failed before it.
        """
        usage = answer.usage
        return cls(
            key=key,
            model=model,
            item=item,
            raw=raw,
            served_by=answer.served_by,
            finish=answer.finish_reason,
            attempts=1 + sum(faults.values()),
            faults=json.dumps(dict(faults), sort_keys=True),
            latency_s=answer.latency_s,
            prompt=usage.prompt,
            completion=usage.completion,
            cached=usage.cached,
            reasoning=usage.reasoning,
            price=cost,
            created=time(),
        )


_ENTRY = TypeAdapter(Entry)


class Kept(NamedTuple):
    """A reply as a lookup returns it."""

    raw: str
    served_by: str
    latency_s: float


class Stats(NamedTuple):
    """Totals of the ledger for one model."""

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
    """Replies whose price is unknown."""
    seconds: float
    """Sum of latencies."""


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit all writes of the block, or none."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def sqlite_errors(path: Path | None) -> Iterator[None]:
    """Turn a SQLite error into a one-line `StorageError` with its cure."""
    try:
        yield
    except (
        sqlite3.Error,
        UnicodeDecodeError,
    ) as error:  # SQLite may quote a damaged file's bytes, which are not UTF-8
        message = (
            str(error) if isinstance(error, sqlite3.Error) else "database disk image is malformed"
        )
        if "full" in message:
            cure = "free some disk space and run the same command again; every reply already kept is safe"
        elif "readonly" in message or "read-only" in message:
            cure = "choose a ledger in a folder you can write to"
        elif "malformed" in message or "not a database" in message or "disk image" in message:
            cure = f"keep the file, then: {command('calls', 'recover', path, 'NEW.sqlite')}"
        elif "locked" in message:
            cure = "another process holds the ledger; wait for it (a backup, or demur calls gc?)"
        elif "unable to open" in message:
            cure = "choose a ledger in a folder that exists and that you can write to"
        else:
            cure = "check the file and the disk"
        raise StorageError(
            f"the ledger cannot be used: {message}", item=str(path), cure=cure
        ) from error


_OBJECTS = "SELECT type, name, sql FROM sqlite_master"


@cache
def _expected_schema() -> frozenset[tuple[str, str, str | None]]:
    """What a ledger holds: type, name and SQL of each table and index."""
    with closing(sqlite3.connect(":memory:")) as db:
        for table in _CREATE:
            db.execute(table)
        return frozenset(db.execute(_OBJECTS))


def _check_schema(db: sqlite3.Connection, path: Path, *, empty: bool) -> None:
    """Check that a file holds what demur makes, and nothing else.

    A file that somebody sent may hold triggers, views, checks or generated columns: they would run with our statements,
    and a trigger can drop a paid reply without an error.

    Args:
        db: the file.
        path: its name.
        empty: whether it may hold nothing.

    Raises:
        StorageError: it is not a ledger of this demur.
    """
    db.execute("PRAGMA trusted_schema=OFF")
    objects = set(db.execute(_OBJECTS))
    foreign = [f"{kind} {name[:60]!r}" for kind, name, _ in objects - _expected_schema()]
    if foreign or not (objects or empty):
        raise StorageError(
            f"this SQLite file is not a ledger of this demur: {', '.join(sorted(foreign)) or 'it is empty'}",
            item=str(path),
            cure=f"choose another path, or copy its replies: {command('calls', 'recover', path, 'NEW.sqlite')}",
        )


def _open_read_only(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StorageError("no such ledger", item=str(path), cure="check the path")
    # a WAL file needs a helper file beside it; in a read-only folder without one, nobody writes: read the file alone
    frozen = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
    with sqlite_errors(path):
        uri = f"{path.resolve().as_uri()}?{'immutable=1' if frozen else 'mode=ro'}"
        db = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)
        try:
            _check_schema(db, path, empty=False)
        except BaseException:
            db.close()
            raise
    return db


def open_database(path: Path) -> sqlite3.Connection:
    """Open a ledger's file; create it and its folder if they are missing.

    Raises:
        StorageError: the file cannot be created or written, or is not a ledger of this demur.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the ledger's folder cannot be made: {error.strerror}",
            item=str(path),
            cure="choose another folder",
        ) from error
    with sqlite_errors(path):
        db = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            _prepare_tables(db, path)
        except BaseException:
            db.close()
            raise
    return db


def _prepare_tables(db: sqlite3.Connection, path: Path) -> None:
    _check_schema(db, path, empty=True)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    # a checkpoint waits for the disk, and all calls wait for it: run one every 16 MB of replies, not every 4
    db.execute("PRAGMA wal_autocheckpoint=4000")
    for table in _CREATE:
        db.execute(table)
    # write before the first call is paid, so that a read-only or full disk is an error now
    db.execute("PRAGMA user_version=1")


def add_spending(
    db: sqlite3.Connection, label: str, amount: int, unreported: int, overrun: float = 1.0
) -> None:
    """Add to a label's spending; the table keeps the greatest overrun.

    Args:
        db: of a ledger.
        label: what the money was spent on.
        amount: in billionths of a US dollar; negative to return some.
        unreported: how much of it no server reported.
        overrun: times that a reply cost more than its request allows.
    """
    written = db.execute(
        "INSERT INTO spending VALUES (?, ?, ?, ?) ON CONFLICT (label) DO UPDATE"
        " SET amount = amount + excluded.amount, unreported = unreported + excluded.unreported,"
        " overrun = max(overrun, excluded.overrun)",
        (label, amount, unreported, overrun),
    ).rowcount
    if written != 1:
        raise sqlite3.DatabaseError("it did not keep what was spent")


def forget_spending(path: Path) -> None:
    """Reset the spending in a copy of a ledger: the other folder paid for it."""
    with closing(open_database(path)) as db, sqlite_errors(path):
        db.execute("UPDATE spending SET amount = 0, unreported = 0")


def _crc(key: bytes, raw: str) -> int:
    return zlib.crc32(raw.encode("utf-8", "surrogatepass"), zlib.crc32(key))


class Ledger:
    """An open ledger. Use it from one thread at a time.

    Args:
        path: the SQLite file; created with its folder if missing.
        read_only: the file must exist; nothing is written, not even beside it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.unsaved: list[Entry] = []
        """Replies to write; those that a full disk refused stay here and are tried again, at the latest by `close`."""
        self.wanted: set[bytes] = set()
        """Keys to claim with the next write."""
        self.claimed: set[bytes] = set()
        """Keys that this ledger may ask."""
        self._claims: Claims | None = None
        self._db = _open_read_only(path) if read_only else open_database(path)
        self.sent = SentCalls(self._execute)
        """Calls that were sent in batches."""
        if read_only:
            return
        with sqlite_errors(path):
            self._claims = Claims(self._db)

    # --- replies

    def get(self, key: bytes) -> Kept | None:
        """The reply under a key; None if there is none, or if its checksum is wrong (that row is deleted)."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Kept]:
        """Replies of those keys that have one (at most 32,000 keys at a time); as for `get`."""
        reply_of_key: dict[bytes, Kept] = {}
        marks = ",".join("?" * len(keys))
        with sqlite_errors(self.path):
            rows = self._db.execute(
                f"SELECT key, raw, crc, served_by, latency_s FROM reply WHERE key IN ({marks})",
                keys,
            ).fetchall()
        for key, raw, crc, served_by, latency_s in rows:
            if isinstance(raw, str) and _crc(key, raw) == crc:
                reply_of_key[key] = Kept(raw, served_by, latency_s)
            elif self._claims is not None:
                self.drop(key)
        return reply_of_key

    def put(self, *entries: Entry) -> None:
        """Commit replies. The first reply of a key stays.

        Raises:
            StorageError: they cannot be written, and stay in ``unsaved``.
        """
        self.unsaved += entries
        self._write()

    def write(self, *, last: bool = False) -> bool:
        """Write ``unsaved`` and ``wanted`` in one transaction, without waiting for another process.

        Args:
            last: raise where another process is writing, instead of returning False.

        Returns:
            Whether everything is written; False while another process writes.

        Raises:
            StorageError: as `put`.
        """
        if not (self.unsaved or self.wanted):
            return True
        self._db.execute("PRAGMA busy_timeout=0")
        try:
            self._write()
        except StorageError as error:
            if (
                not last
                and isinstance(error.__cause__, sqlite3.OperationalError)
                and "locked" in str(error.__cause__)
            ):
                return False
            raise
        finally:
            self._db.execute(f"PRAGMA busy_timeout={WAIT_S * 1000:.0f}")
        return True

    def _write(self) -> None:
        replies = [(*e[:4], _crc(e.key, e.raw), *e[4:]) for e in self.unsaved]
        answered = {e.key for e in self.unsaved} & self.claimed
        granted: set[bytes] = set()
        with sqlite_errors(self.path), transaction(self._db):
            written = self._db.executemany(_INSERT, replies).rowcount if replies else 0
            if written < len(replies):  # a key may have its reply already; none may be missing
                keys = list({e.key for e in self.unsaved})
                count = f"SELECT count(*) FROM reply WHERE key IN ({','.join('?' * len(keys))})"
                if self._db.execute(count, keys).fetchone()[0] < len(keys):
                    raise sqlite3.DatabaseError("it did not keep a reply")
            if self._claims is not None:
                self._claims.release(answered)
                if self.wanted:
                    self._claims.enter()
                granted = {key for key in self.wanted if self._claims.take(key)}
        del self.unsaved[: len(replies)]
        self.claimed = self.claimed - answered | granted
        self.wanted.clear()

    def drop(self, key: bytes) -> None:
        """Delete a reply."""
        with sqlite_errors(self.path):
            self._db.execute("DELETE FROM reply WHERE key=?", (key,))

    def drop_items(self, items: Collection[str], models: Collection[str]) -> None:
        """Delete all replies of some models about some items."""
        chosen = "SELECT value FROM json_each(?)"
        with sqlite_errors(self.path):
            self._db.execute(
                f"DELETE FROM reply WHERE item IN ({chosen}) AND model IN ({chosen})",
                (json.dumps(list(items)), json.dumps(list(models))),
            )

    # --- claims

    def claim(self, key: bytes) -> bool:
        """Whether this ledger may ask a key: it has no reply, and no other owner is asking it."""
        if key not in self.claimed:
            self.wanted.add(key)
            self.write()
        return key in self.claimed

    def release(self, key: bytes) -> None:
        """Give up a claim, or the wish for one."""
        self.wanted.discard(key)
        if self._claims is not None and key in self.claimed:
            with sqlite_errors(self.path):
                self._claims.release((key,))
            self.claimed.discard(key)

    def renew(self) -> None:
        """Show other processes that this one is alive; call it every `demur.models.claims.BEAT_S` seconds."""
        if self._claims is not None:
            with sqlite_errors(self.path):
                self._claims.renew()

    # --- batches

    def _execute(self, statement: str, values: Any) -> sqlite3.Cursor:
        with sqlite_errors(self.path):
            return self._db.execute(statement, values)

    def record_batch(self, batch: SentBatch, calls: Collection[SentCall]) -> set[bytes]:
        """Record a batch before it is sent, with those of its calls that nobody has asked; returns their keys."""
        with sqlite_errors(self.path), transaction(self._db):
            batch = batch._replace(owner="" if self._claims is None else self._claims.enter())
            return self.sent.add(batch, calls)

    def is_being_sent(self, batch: SentBatch) -> bool:
        """Whether the process that recorded a batch is another one that still runs."""
        return self._claims is not None and self._claims.is_other(batch.owner)

    def batch_address(self, key: bytes) -> str:
        """The server that a call was sent to in a batch, or is just being sent to; "" of any other call."""
        batch, _ = self.sent.find(key) or (None, None)
        is_sent = batch is not None and (batch.file or self.is_being_sent(batch))
        return batch.address if batch is not None and is_sent else ""

    # --- housekeeping

    def stats(self) -> list[Stats]:
        """Totals for each model, sorted by its id."""
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
                for kind, n in _parse_counts(text).items():
                    sums[kind] = sums.get(kind, 0) + n * times
        return [
            Stats(r[0], r[1], r[2], dict(sorted(faults.get(r[0], {}).items())), *r[3:])
            for r in rows
        ]

    def entries(self, model: str | None = None) -> Iterator[Entry]:
        """Replies one at a time, ordered by key: the same order on every machine."""
        where, values = ("WHERE model=?", (model,)) if model is not None else ("", ())
        columns = ", ".join(Entry._fields)
        with sqlite_errors(self.path):
            for row in self._db.execute(
                f"SELECT {columns} FROM reply {where} ORDER BY key", values
            ):
                yield Entry(*row)

    def gc(
        self, *, model: str | None = None, before: float | None = None, dry: bool = False
    ) -> int:
        """Delete replies of one model, older than a time, or both, and shrink the file; returns their number.

        Args:
            model: only of this model.
            before: only those created before this time, in seconds since 1970.
            dry: count only.
        """
        value_of_test = {"model = ?": model, "created < ?": before}
        values = [value for value in value_of_test.values() if value is not None]
        condition = (
            " AND ".join(test for test, value in value_of_test.items() if value is not None)
            or "FALSE"
        )
        with sqlite_errors(self.path):
            n = int(
                self._db.execute(
                    f"SELECT count(*) FROM reply WHERE {condition}", values
                ).fetchone()[0]
            )
            if not dry:
                batch = f"SELECT rowid FROM reply WHERE {condition} LIMIT 500"
                while self._db.execute(
                    f"DELETE FROM reply WHERE rowid IN ({batch})", values
                ).rowcount:
                    pass  # short transactions let other processes write in between
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return n

    def _add_spending(self, source: Path) -> int:
        """Add another ledger's spending; returns 1 if it cannot be read, else 0."""
        try:
            with closing(_open_damaged(source)) as other:
                if not other.execute(
                    "SELECT 1 FROM sqlite_master WHERE name='spending'"
                ).fetchone():
                    return 0
                columns = "label, amount, unreported, overrun"
                rows = other.execute(f"SELECT {columns} FROM spending").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return 1
        with sqlite_errors(self.path):
            for label, amount, unreported, overrun in rows:
                add_spending(self._db, str(label), int(amount), int(unreported), float(overrun))
        return 0

    def close(self) -> None:
        """Close the file. Replies that still cannot be written go to a file in the temporary folder.

        Raises:
            StorageError: some replies could not be written; it names that file.
        """
        self.wanted.clear()
        try:
            if self.unsaved:
                self._write()
        except StorageError as error:
            spill = _spill(self.unsaved, (None, self.path.parent, Path()))
            raise StorageError(
                f"{len(self.unsaved)} paid replies could not be written: {error.message}",
                item=str(self.path),
                cure=f"they are in {spill}; when there is space: {command('calls', 'recover', spill, self.path)}"
                if spill
                else "no other folder takes them either, they are lost; free some disk space",
            ) from error
        finally:
            if self._claims is not None:
                self._claims.close()
            self._db.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- export and recovery -------------------------------------------------------------------------


def entry_line(entry: Entry) -> str:
    """One line of ``demur calls export``: a JSON object with the entry's fields, the key in hex."""
    return (
        json.dumps(entry._asdict() | {"key": entry.key.hex()}, ensure_ascii=False, sort_keys=True)
        + "\n"
    )


def _spill(entries: Sequence[Entry], folders: Iterable[Path | None]) -> Path | None:
    """Write entries to a new file in the first folder (None: the temporary one) that takes them; None if none does."""
    for folder in folders:
        with suppress(OSError):
            handle, name = tempfile.mkstemp(prefix="demur-unsaved-", suffix=".jsonl", dir=folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.writelines(map(entry_line, entries))
            except OSError:
                Path(name).unlink()
                raise
            return Path(name)
    return None


def recover_ledger(source: Path, target: Path) -> tuple[int, int]:
    """Copy every readable reply of a damaged ledger, or of an exported file, into a ledger.

    Args:
        source: a SQLite file, however damaged, or JSONL from ``demur calls export``.
        target: an existing or a new ledger; it keeps its own replies.

    Returns:
        (replies copied, entries that could not be read).

    Raises:
        StorageError: the source cannot be opened, or the target cannot be written.
        DataError: the source is an empty file.
    """
    try:
        with source.open("rb") as handle:
            head = handle.read(16).removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise StorageError(
            error.strerror or str(error), item=str(source), cure="check the path"
        ) from error
    if not head:
        raise DataError(
            "the file is empty: it holds no replies", item=str(source), cure="check the path"
        )
    with Ledger(target) as ledger:
        before = ledger._db.total_changes
        exported = head.startswith(b"{")
        lost = 0 if exported else ledger._add_spending(source)
        for entry in _read_exported(source) if exported else _read_damaged(source):
            if entry is None:
                lost += 1
            else:
                ledger.put(entry)
        return ledger._db.total_changes - before, lost


def _parse_counts(text: str) -> dict[str, int]:
    """Faults by kind from a row; {} if it holds anything else (somebody else's ledger)."""
    try:
        counts = parsed_json(text)
    except (ValueError, TypeError):
        return {}
    return (
        {k: n for k, n in counts.items() if isinstance(n, int)} if isinstance(counts, dict) else {}
    )


def _entry_if_sound(fields: object) -> Entry | None:
    """The fields as an entry; None if one is of the wrong type or too large for its column."""
    try:
        return _ENTRY.validate_python(fields, strict=True)
    except ValidationError:
        return None


def _read_exported(source: Path) -> Iterator[Entry | None]:
    """Entries of an exported file, None for each line that is not one."""
    with source.open(encoding="utf-8-sig", errors="replace") as lines:
        for line in lines:
            try:
                row = parsed_json(line)
                yield _entry_if_sound(row | {"key": bytes.fromhex(row["key"])})
            except (ValueError, TypeError, KeyError):
                yield None


def _open_damaged(source: Path) -> sqlite3.Connection:
    """A ledger of whatever schema, to copy from.

    Raises:
        StorageError: it holds views or triggers, which would run with our statements.
    """
    with sqlite_errors(source):
        db = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, timeout=WAIT_S)
    db.execute("PRAGMA trusted_schema=OFF")
    code = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')"
    with suppress(sqlite3.DatabaseError, UnicodeDecodeError):  # the caller's statements meet it too
        if db.execute(code).fetchone():
            db.close()
            raise StorageError(
                "it holds views or triggers, which no ledger has: somebody changed it",
                item=str(source),
                cure="recover from an export or a copy, if there is one",
            )
    return db


def _read_damaged(source: Path) -> Iterator[Entry | None]:
    """Entries of a damaged ledger by row number, None for each row that cannot be read."""
    columns = ", ".join(Entry._fields)
    with closing(_open_damaged(source)) as db:
        try:
            last = db.execute("SELECT max(rowid) FROM reply").fetchone()[0] or 0
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise StorageError(
                f"too damaged to read: {error}",
                item=str(source),
                cure="recover from an export or a copy, if there is one",
            ) from error
        for row_id in range(1, last + 1):
            try:
                row = db.execute(
                    f"SELECT {columns}, crc FROM reply WHERE rowid=?", (row_id,)
                ).fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                yield None
                continue
            if row is not None:
                entry = _entry_if_sound(row[:-1])
                yield entry if entry is not None and _crc(entry.key, entry.raw) == row[-1] else None
