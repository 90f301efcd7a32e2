"""Sources: the folders that datasets publish, read as documents and samples.

One file per source, with its card (``<name>.yaml``) beside it. An adapter is a class with the members of `Source`,
registered in the entry-point group ``demur.sources``; ``docs/adding-a-source.md`` shows how to write one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from demur.core.errors import UsageError, did_you_mean
from demur.core.plugins import find, names
from demur.core.records import Document, Sample
from demur.core.store import Problems
from demur.corpora import READERS

DEFECT = "defect"
"""Attribute of a defective sample: what it lacks, such as ``query image missing: a.jpg``, joined by ``; ``.

Adapters yield defective samples too, so that nothing disappears silently; `demur pool build` leaves them out.
"""


class Source(Protocol):
    """An adapter, constructed as ``Adapter(folder, problems=None, **options)``; options are texts.

    It notes a bad row in the given `demur.core.store.Problems` with file, line and id, and leaves it out. It notes a
    missing or unreadable image too and records it in the sample's ``defect`` attribute: no exception, no placeholder.
    """

    name: str
    """Short name; ids are prefixed with it when sources are joined."""
    root: Path
    """The folder that relative image uris start from."""
    problems: Problems
    """Where bad rows are noted."""

    # An adapter that reads anything outside its folder sets ``elsewhere = True``, and a build reads it every time.

    def documents(self) -> Iterator[Document]:
        """The knowledge base, streamed; empty if the source has none."""
        ...

    def samples(self) -> Iterator[Sample]:
        """The samples, streamed, in the order of their files."""
        ...


def source_named(text: str) -> tuple[str, Path | None] | None:
    """What ``NAME=FOLDER``, or just the name of a source, names: (name, folder or None).

    The name is registered or ``module:Class``; None for a path (what exists is one, whatever its name) and for the
    ``READER:PATH`` of a corpus.

    Raises:
        UsageError: there is nothing after the equals sign.
    """
    name, equals, folder = text.partition("=")
    of_corpus = name.partition(":")[0] in READERS and ":" in name
    if of_corpus or set(name) & set("/\\?") or Path(text.partition("?")[0]).exists():
        return None
    if equals and not folder:
        raise UsageError(f"no folder after {text}", cure="write NAME=FOLDER")
    return (name, Path(folder) if equals else None) if equals or name in names("sources") else None


def open_source(
    name: str,
    folder: Path | None,
    problems: Problems | None = None,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """The adapter of that name over a folder.

    Args:
        name: registered name, or ``module:Class``.
        folder: what the source published, unpacked as its card says; None for a source that ships with demur.
        problems: where bad rows are noted.
        options: passed to the adapter; ``demur sources show NAME`` lists them.

    Raises:
        UnknownPart: no source of that name.
        UsageError: the folder does not exist, or is not given and does not ship with demur; the adapter knows no such
            option.
    """
    factory, _ = find("sources", name)
    options = options or {}
    unknown = sorted(set(options) - set(options_of(factory)))
    if unknown:
        near = did_you_mean(unknown[0], list(options_of(factory)))
        raise UsageError(
            f"source {name!r} has no option {', '.join(unknown)}; it knows {', '.join(options_of(factory)) or 'none'}",
            cure=f"{near} see 'demur sources show {name}'".lstrip(),
        )
    if folder is None and not ships(factory):
        raise UsageError(
            "this source needs a folder", item=name, cure="give the folder that holds its files"
        )
    if folder is not None and not folder.is_dir():
        raise UsageError(
            f"no folder {str(folder)!r}", cure="give the folder that holds the source's files"
        )
    texts = {key: str(value) for key, value in options.items()}
    return cast(Source, factory(folder, Problems() if problems is None else problems, **texts))


def ships(factory: Any) -> bool:
    """Whether an adapter ships with its data, so that ``folder`` may be left out."""
    from inspect import Parameter, signature

    parameter = signature(factory).parameters.get("folder")
    return parameter is not None and parameter.default is not Parameter.empty


def options_of(factory: Any) -> dict[str, str]:
    """Names of an adapter's options with their defaults as text."""
    from inspect import Parameter, signature

    return {
        name: "" if parameter.default in (Parameter.empty, None) else str(parameter.default)
        for name, parameter in signature(factory).parameters.items()
        if name not in ("folder", "problems") and parameter.kind is not Parameter.VAR_KEYWORD
    }
