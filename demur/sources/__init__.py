"""Sources: the folders that datasets publish, read as documents and samples.

One file per source, with its card (``<name>.yaml``) beside it. An adapter is a class with the members of `Source`,
registered in the entry-point group ``demur.sources``; ``docs/adding-a-source.md`` shows how to write one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

from demur.core import spec
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


class NamedSource(NamedTuple):
    """A source as everything takes it: ``NAME``, ``NAME:FOLDER`` or ``NAME:FOLDER?option=value&option=value``."""

    name: str
    """Registered, or ``module:Class``."""
    folder: Path | None = None
    """None for one that ships with demur."""
    options: Mapping[str, str] = MappingProxyType({})

    def open(self, problems: Problems | None = None) -> Source:
        """As `open_source`."""
        return open_source(self.name, self.folder, problems, self.options)


_OF_A_MODULE = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*):(.*)", re.DOTALL)


def source_named(text: str) -> NamedSource | None:
    """The source that a text names; None for a path (what exists is one, whatever its name) and for any other text.

    Raises:
        UsageError: there is no folder after the colon, a wrong option, or ``NAME=FOLDER``, which is written otherwise.
    """
    if Path(text.partition("?")[0]).exists():
        return None
    known_sources = names("sources")
    name, colon, folder_text = text.partition(":")
    module_match = _OF_A_MODULE.fullmatch(text) if name not in {*known_sources, *READERS} else None
    if module_match is not None:
        name, folder_text = module_match.groups()
    name, _, tail = (name, "", "") if colon else name.partition("?")
    if name.partition("=")[0] in known_sources and "=" in name:
        name, _, folder_text = text.partition("=")
        raise UsageError(
            f"NAME=FOLDER does not name a source: {text}", cure=f"write {name}:{folder_text}"
        )
    if name not in known_sources and module_match is None:
        return None
    if colon and not folder_text.partition("?")[0]:
        raise UsageError(f"no folder after {text}", cure="write NAME:FOLDER")
    options: Mapping[str, str] = {}
    folder = folder_text
    if not Path(folder_text).exists() or tail:
        parts = options_of(find("sources", name)[0])
        meanings = {key: f"{default or 'TEXT'}" for key, default in parts.items()}
        folder, options = spec.named(name, folder_text or f"?{tail}", meanings)
    return NamedSource(name, Path(folder) if colon else None, options)


def source_at(text: str) -> NamedSource:
    """As `source_named`, where nothing but a source can stand.

    Raises:
        UnknownPart: it names none.
    """
    if source := source_named(text):
        return source
    name = text.partition(":")[0].partition("?")[0]
    find("sources", name)  # names the nearest
    return NamedSource(name)


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
    if folder is None and not ships_data(factory):
        raise UsageError(
            "this source needs a folder", item=name, cure="give the folder that holds its files"
        )
    if folder is not None and not folder.is_dir():
        raise UsageError(
            f"no folder {str(folder)!r}", cure="give the folder that holds the source's files"
        )
    texts = {key: str(value) for key, value in options.items()}
    return cast(Source, factory(folder, Problems() if problems is None else problems, **texts))


def ships_data(factory: Any) -> bool:
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
