"""Build a pool from the names and folders of sources, as ``demur pool build`` takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demur.core.errors import BadInput, UsageError
from demur.curation.pool.counts import PoolCounts
from demur.curation.pool.write import build
from demur.curation.sources import open_source, source_named
from demur.curation.sources.cards import mismatches, read_pins


def build_from_sources(
    sources: Sequence[str],
    out: Path,
    *,
    options: Mapping[str, str] | None = None,
    pins: Mapping[str, str] | None = None,
    **rest: Any,
) -> PoolCounts:
    """Join sources into one pool.

    Args:
        sources: ``NAME=FOLDER`` each, or just the name of one that ships with demur.
        out: the pool's folder.
        options: ``NAME.KEY`` -> value of an adapter's option.
        pins: name -> file with the hashes and counts that the source's files must have.
        rest: further arguments of `demur.curation.pool.write.build`.

    Raises:
        UsageError: an option or pins for a source that is not among them.
        BadInput: files that break their pins, all of them.
    """
    named = [source_named(text) or (text, None) for text in sources]
    given: dict[str, dict[str, str]] = {name: {} for name, _ in named}
    known = ", ".join(given)
    for key, value in (options or {}).items():
        name, _, option = key.rpartition(".")
        if name not in given:
            raise UsageError(
                f"--set {key}: no source {name!r} in this pool",
                cure=f"known: {known}; write NAME.KEY=VALUE",
            )
        given[name][option] = value
    opened = [open_source(name, folder, options=given[name]) for name, folder in named]
    for name, file in (pins or {}).items():
        if name not in given:
            raise UsageError(f"--pins {name}: no such source in this pool", cure=f"known: {known}")
        expected = read_pins(Path(file))
        roots = [source.root for (of, _), source in zip(named, opened, strict=True) if of == name]
        if broken := [f"{name}: {line}" for root in roots for line in mismatches(root, expected)]:
            raise BadInput(broken, cure="fetch the files again, or correct the pins")
    return build(opened, out, **rest)
