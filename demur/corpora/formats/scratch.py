"""Keys and values of files too large for memory, in a temporary SQLite database that ends with its object."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import weakref
from collections.abc import Collection, Iterable
from typing import Any

from demur.core.errors import StorageError


class _Scratch:
    """A temporary database with one table; SQLite moves it from memory to disk as it grows."""

    def __init__(self, table: str) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._database.close)
        self._run("PRAGMA journal_mode = OFF")
        self._run("BEGIN")
        self._run(f"CREATE TABLE {table}")

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise StorageError(
                f"SQLite: {error}",
                item="a temporary database",
                cure="free some space where temporary files lie",
            ) from error


class Seen(_Scratch):
    """Which of many millions of keys were met before.

    Keys are compared by 64 bits of BLAKE2b. Two of six million keys share their 64 bits with a probability of one in a
    million.

    >>> seen = Seen()
    >>> seen.add("Q1"), seen.add("Q1"), "Q1" in seen, "Q2" in seen, len(seen)
    (True, False, True, False, 1)
    """

    def __init__(self) -> None:
        super().__init__("seen (hash INTEGER PRIMARY KEY)")

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM seen").fetchone()[0])

    def __contains__(self, key: str) -> bool:
        return self._run("SELECT 1 FROM seen WHERE hash = ?", _hash(key)).fetchone() is not None

    def add(self, key: str) -> bool:
        """Remember a key; True when it is new."""
        return self._run("INSERT OR IGNORE INTO seen VALUES (?)", _hash(key)).rowcount == 1


def _hash(key: str) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class Lookup(_Scratch):
    """The few wanted values of a huge keyed file, put aside in one pass.

    A key that occurs again keeps its first value and is counted in ``repeated``.

    Args:
        entries: (key, value that JSON can hold) of the whole file, streamed.
        wanted: the keys to keep.
    """

    def __init__(self, entries: Iterable[tuple[str, Any]], wanted: Collection[str]) -> None:
        super().__init__("entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        self.repeated = 0
        for key, value in entries:
            if key in wanted:
                text = json.dumps(value, ensure_ascii=False)
                added = self._run("INSERT OR IGNORE INTO entries VALUES (?, ?)", key, text).rowcount
                self.repeated += not added

    def get(self, key: str) -> Any:
        """The value of a key, or None."""
        row = self._run("SELECT value FROM entries WHERE key = ?", key).fetchone()
        return None if row is None else json.loads(row[0])
