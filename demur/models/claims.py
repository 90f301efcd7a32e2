"""Who is asking what: claims on keys, in the ledger's file, so that two processes never pay for the same call.

A claim is a row of its owner. An owner is gone when it closed, when its process is dead (told at once on the same
machine, where the system tells), or when it was not heard of for `LEASE_S` seconds.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from time import time

LEASE_S = 60.0
"""Seconds after which a silent owner's claims are free."""
BEAT_S = 15.0
"""Seconds between two signs of life."""
_PROCESS = uuid.uuid4().hex
"""Of this process: another one of the same number, before a restart, had another name."""


class Claims:
    """The claims of one open ledger.

    Args:
        db: the ledger's connection, in autocommit.
        hasty: another one, which waits for nobody who writes.
    """

    def __init__(self, db: sqlite3.Connection, hasty: sqlite3.Connection) -> None:
        self.held: set[bytes] = set()
        self._db, self._hasty, self._id = db, hasty, ""

    def take(self, key: bytes) -> bool:
        """Whether the key is claimed now; False while somebody else has it, or is writing just now."""
        try:
            if not self._id:
                self._register()
            new = "INSERT INTO claim VALUES (?, ?) ON CONFLICT (key) DO "
            done = self._hasty.execute(new + "NOTHING", (key, self._id))
            if done.rowcount != 1:
                about = "SELECT owner, host, process, pid, seen FROM claim LEFT JOIN owner ON owner.id = owner"
                found = self._hasty.execute(f"{about} WHERE key = ?", (key,)).fetchone()
                if found is not None and _alive(*found[1:]):
                    return False
                done = self._hasty.execute(
                    new + "UPDATE SET owner = excluded.owner WHERE owner = ?",
                    (key, self._id, "" if found is None else found[0]),
                )
            if done.rowcount == 1:
                self.held.add(key)
            return done.rowcount == 1
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                return False
            raise

    def give_back(self, key: bytes) -> None:
        """Give up a claim."""
        self.forget(key, self._db)
        self.held.discard(key)

    def forget(self, key: bytes, db: sqlite3.Connection) -> None:
        """Delete the row of a claim, as a part of what is being written through a connection."""
        db.execute("DELETE FROM claim WHERE key = ? AND owner = ?", (key, self._id))

    def _register(self) -> None:
        for owner, *about in self._hasty.execute("SELECT id, host, process, pid, seen FROM owner").fetchall():
            if not _alive(*about):
                self._hasty.execute("DELETE FROM claim WHERE owner = ?", (owner,))
                self._hasty.execute("DELETE FROM owner WHERE id = ?", (owner,))
        name = uuid.uuid4().hex
        self._hasty.execute(
            "INSERT INTO owner VALUES (?, ?, ?, ?, ?)", (name, platform.node(), _PROCESS, os.getpid(), time())
        )
        self._id = name

    def renew(self) -> None:
        """A sign of life."""
        if self._id:
            self._db.execute("UPDATE owner SET seen = ? WHERE id = ?", (time(), self._id))

    def close(self) -> None:
        """Give up all claims."""
        if self._id:
            with suppress(sqlite3.Error):  # a full or broken disk: the lease ends them
                self._db.execute("DELETE FROM claim WHERE owner = ?", (self._id,))
                self._db.execute("DELETE FROM owner WHERE id = ?", (self._id,))


def _alive(host: str | None, process: str | None, pid: int, seen: float) -> bool:
    if host is None or abs(time() - seen) > LEASE_S:
        return False
    if host != platform.node() or process == _PROCESS:
        return True
    return pid != os.getpid() and _runs(pid)


def _runs(pid: int) -> bool:
    """Whether a process of this machine runs; True where the system does not tell."""
    if sys.platform == "win32":  # there, signal 0 is a Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    with suppress(OSError, IndexError):  # killed, and nobody waited for it yet
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
