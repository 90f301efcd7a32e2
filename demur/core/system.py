"""Services of the operating system, each with a fallback: nothing here needs Linux."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCKS = fcntl is not None
"""Whether files can be locked."""


def lock_file(file: IO[Any] | int, *, wait: bool = False) -> None:
    """Lock an open file against other processes until it is closed or this process ends.

    Args:
        file: the file, or its descriptor.
        wait: wait for another process's lock.

    Raises:
        BlockingIOError: another process has a lock.
        OSError: the system or the file system has no locks.
    """
    if fcntl is None:
        raise OSError("files cannot be locked here")
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def cores() -> int:
    """Cores that this process may use; all cores if the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def allocate(file: IO[bytes], size: int, used: int = 0) -> None:
    """Reserve the disk space of a file: writing to a memory-mapped file on a full disk kills the process.

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


def release_memory() -> None:
    """Return free memory from glibc to the system: the next stage needs other sizes, and the peaks would add up."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
