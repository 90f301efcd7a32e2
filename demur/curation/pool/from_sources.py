"""Build a pool from the names and folders of sources, as ``demur pool build`` takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demur.core.errors import BadInput, UsageError
from demur.curation.pool.counts import PoolCounts
from demur.curation.pool.write import build
from demur.curation.sources import source_at
from demur.curation.sources.cards import mismatches, read_pins


def build_from_sources(
    sources: Sequence[str],
    out: Path,
    *,
    pins: Mapping[str, str] | None = None,
    **rest: Any,
) -> PoolCounts:
    """Join sources into one pool.

    Args:
        sources: ``NAME:FOLDER?option=value`` each, or just the name of one that ships with demur.
        out: the pool's folder.
        pins: name -> file with the hashes and counts that the source's files must have.
        rest: further arguments of `demur.curation.pool.write.build`.

    Raises:
        UsageError: pins for a source that is not among them.
        BadInput: files that break their pins, all of them.
    """
    named = [source_at(text) for text in sources]
    opened = [source.open() for source in named]
    for name, file in (pins or {}).items():
        if name not in (known := [source.name for source in named]):
            raise UsageError(
                f"--pins {name}: no such source in this pool", cure=f"known: {', '.join(known)}"
            )
        expected = read_pins(Path(file))
        roots = [one.root for one, of in zip(opened, known, strict=True) if of == name]
        if broken := [f"{name}: {line}" for root in roots for line in mismatches(root, expected)]:
            raise BadInput(broken, cure="fetch the files again, or correct the pins")
    return build(opened, out, **rest)
