"""What the operating system gives, and what is done where it does not: nothing here needs Linux."""

from __future__ import annotations

import os
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCKS = fcntl is not None
"""Whether files can be held against other processes."""


def hold(file: IO[Any] | int, *, shared: bool = False, wait: bool = False) -> None:
    """Hold an open file against other processes until it is closed, however this process ends.

    Args:
        file: the file, or its descriptor.
        shared: others may hold it in the same way.
        wait: wait for whoever holds it.

    Raises:
        BlockingIOError: another process holds it.
        OSError: the system or the file system has no such locks.
    """
    if fcntl is None:
        raise OSError("files cannot be held here")
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, kind if wait or shared else kind | fcntl.LOCK_NB)


def cores() -> int:
    """Cores that this process may use; where the system does not tell, all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def allocate(file: IO[bytes], size: int, used: int = 0) -> None:
    """Take the room of a file at once: a mapped write to a full disk kills the process.

    Args:
        file: open for writing.
        size: bytes of the whole file.
        used: bytes at its beginning that are written already.

    Raises:
        OSError: the disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    file.seek(used)
    for start in range(used, size, 1 << 20):
        file.write(bytes(min(1 << 20, size - start)))
