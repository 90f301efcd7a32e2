"""Calls that were sent in a batch, or written for one: rows of the ledger's file, so that no other command sends them too.

A batch is recorded before its file is uploaded, with the money that was reserved for each call. The next command on the
same ledger adopts it: it waits for that batch instead of sending its calls again. A call's row goes with its reply.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from time import time
from typing import Any, NamedTuple

TABLES = (
    "CREATE TABLE IF NOT EXISTS batch (id TEXT PRIMARY KEY, owner TEXT NOT NULL, model TEXT NOT NULL,"
    " address TEXT NOT NULL, file TEXT NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL, created REAL NOT NULL)"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_call (key BLOB PRIMARY KEY, batch TEXT NOT NULL, item TEXT NOT NULL,"
    " reserved INTEGER NOT NULL) WITHOUT ROWID",
)
_ADD = (
    "INSERT INTO batch_call SELECT :key, :batch, :item, :reserved"
    " WHERE NOT EXISTS (SELECT 1 FROM reply WHERE key = :key)"
    " AND NOT EXISTS (SELECT 1 FROM claim WHERE key = :key AND owner != :owner)"
    " ON CONFLICT (key) DO NOTHING"
)

_FORGET_EMPTY = "DELETE FROM batch WHERE address = '' AND id NOT IN (SELECT batch FROM batch_call)"
_FORGET_WRITTEN = (
    "DELETE FROM batch_call WHERE key = ? AND batch IN (SELECT id FROM batch WHERE address = '')"
)


class SentBatch(NamedTuple):
    """One batch, as a row of the ledger."""

    id: str
    """Ours, given before anything is sent."""
    owner: str
    """The open ledger that recorded it (`demur.models.claims`)."""
    model: str
    """Model id."""
    address: str
    """Of the server; "" of calls that were written to a file for the user to send."""
    file: str = ""
    """The server's name of the uploaded file; "" before it is uploaded."""
    name: str = ""
    """The server's name of the batch; "" before it is known."""
    label: str = ""
    """What its cost is counted under (`demur.models.budget`)."""
    created: float = 0.0
    """Seconds since 1970."""


class SentCall(NamedTuple):
    """One call of a batch."""

    key: bytes
    item: str
    reserved: int
    """Billionths of a US dollar."""


class SentCalls:
    """The batches and their calls in one open ledger.

    Args:
        execute: runs one statement on the ledger's file.
    """

    def __init__(self, execute: Callable[[str, Any], sqlite3.Cursor]) -> None:
        self._execute = execute

    def add(self, batch: SentBatch, calls: Iterable[SentCall]) -> set[bytes]:
        """Record a batch and those of its calls that nobody has asked; returns their keys. Call it in a transaction."""
        self._execute(_FORGET_EMPTY, ())
        self._execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*batch[:-1], time()))
        place = {"batch": batch.id, "owner": batch.owner}
        added = set()
        for call in calls:
            self._execute(_FORGET_WRITTEN, (call.key,))
            if self._execute(_ADD, {**call._asdict(), **place}).rowcount == 1:
                added.add(call.key)
        return added

    def update(self, batch: str, *, file: str = "", name: str = "") -> None:
        """Record what the server calls the file, or the batch."""
        self._execute(
            "UPDATE batch SET file = iif(:file = '', file, :file), name = iif(:name = '', name, :name)"
            " WHERE id = :batch",
            {"file": file, "name": name, "batch": batch},
        )

    def batches(self, model: str) -> list[SentBatch]:
        """The batches of a model that were sent, oldest first."""
        query = "SELECT * FROM batch WHERE model = ? AND address != '' ORDER BY created, id"
        return [SentBatch(*row) for row in self._execute(query, (model,))]

    def calls(self, batch: str) -> dict[bytes, SentCall]:
        """The calls of a batch without a reply, by key."""
        query = "SELECT key, item, reserved FROM batch_call WHERE batch = ?"
        return {row[0]: SentCall(*row) for row in self._execute(query, (batch,))}

    def find(self, key: bytes) -> tuple[SentBatch, SentCall] | None:
        """The batch of a call that was sent or written, and the call."""
        query = (
            "SELECT batch.*, key, item, reserved FROM batch_call JOIN batch ON batch.id = batch"
            " WHERE key = ?"
        )
        row = self._execute(query, (key,)).fetchone()
        return None if row is None else (SentBatch(*row[:-3]), SentCall(*row[-3:]))

    def remove_calls(self, batch: str, keys: Iterable[bytes]) -> set[bytes]:
        """Remove calls of a batch; returns the keys of those that were there."""
        delete = "DELETE FROM batch_call WHERE key = ? AND batch = ?"
        return {key for key in keys if self._execute(delete, (key, batch)).rowcount == 1}

    def remove(self, batch: str) -> None:
        """Forget a batch and its calls."""
        self._execute("DELETE FROM batch_call WHERE batch = ?", (batch,))
        self._execute("DELETE FROM batch WHERE id = ?", (batch,))
