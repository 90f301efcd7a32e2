"""Which process is sending which call: claims in the ledger's file, so that two processes never pay for the same call.

A claim is a row that names its owner, one open ledger. An owner is gone when it closed, when its process is dead (the
operating system of the same machine tells), or when it gave no sign of life for `LEASE_S` seconds.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import time

LEASE_S = 60.0
"""Seconds after which the claims of a silent owner are free."""
BEAT_S = 15.0
"""Seconds between two signs of life."""
_PROCESS = uuid.uuid4().hex
"""This process: after a restart, another process may have the same number."""
_CLAIM = (
    "INSERT INTO claim SELECT :key, :owner WHERE NOT EXISTS (SELECT 1 FROM reply WHERE key = :key)"
    " ON CONFLICT (key) DO NOTHING"
)


class Claims:
    """The claims of one open ledger.

    Args:
        db: the ledger's connection, in autocommit.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._id = db, uuid.uuid4().hex
        for owner, *about in db.execute(
            "SELECT id, host, process, pid, seen FROM owner"
        ).fetchall():
            if not _is_alive(*about):
                db.execute("DELETE FROM claim WHERE owner = ?", (owner,))
                db.execute("DELETE FROM owner WHERE id = ?", (owner,))

    def enter(self) -> str:
        """Name this owner in the file, in the transaction of its claims: a ledger that is only read is not changed."""
        about = (self._id, platform.node(), _PROCESS, os.getpid(), time())
        self._db.execute("INSERT OR IGNORE INTO owner VALUES (?, ?, ?, ?, ?)", about)
        return self._id

    def is_other(self, owner: str) -> bool:
        """Whether an owner is alive, and another than this one."""
        about = "SELECT host, process, pid, seen FROM owner WHERE id = ?"
        row = self._db.execute(about, (owner,)).fetchone()
        return owner != self._id and row is not None and _is_alive(*row)

    def take(self, key: bytes) -> bool:
        """Claim a key in an open transaction, after `enter`; False if it has a reply or another living owner."""
        claim = {"key": key, "owner": self._id}
        if self._db.execute(_CLAIM, claim).rowcount == 1:
            return True
        about = "SELECT host, process, pid, seen FROM claim LEFT JOIN owner ON owner.id = owner WHERE key = ?"
        owner_row = self._db.execute(about, (key,)).fetchone()
        if owner_row is None or _is_alive(*owner_row):
            return False
        self._db.execute("DELETE FROM claim WHERE key = ?", (key,))
        return self._db.execute(_CLAIM, claim).rowcount == 1

    def release(self, keys: Iterable[bytes]) -> None:
        """Give up claims."""
        self._db.executemany(
            "DELETE FROM claim WHERE key = ? AND owner = ?", [(key, self._id) for key in keys]
        )

    def renew(self) -> None:
        """Give a sign of life."""
        self._db.execute("UPDATE owner SET seen = ? WHERE id = ?", (time(), self._id))

    def close(self) -> None:
        """Give up all claims."""
        with suppress(sqlite3.Error):  # on a full or broken disk they end with the lease
            self._db.execute("DELETE FROM claim WHERE owner = ?", (self._id,))
            self._db.execute("DELETE FROM owner WHERE id = ?", (self._id,))


def _is_alive(host: str | None, process: str | None, pid: int, seen: float) -> bool:
    if host is None or abs(time() - seen) > LEASE_S:
        return False
    if host != platform.node() or process == _PROCESS:
        return True
    return pid != os.getpid() and _process_runs(pid)


def _process_runs(pid: int) -> bool:
    """Whether a process of this machine runs; True where the operating system does not tell."""
    if sys.platform == "win32":  # there, signal 0 is a Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    with suppress(OSError, IndexError):  # killed, but its parent has not collected it yet
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
