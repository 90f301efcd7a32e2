"""Parts by name: encoders, systems, judges, sources, indexes; verbs, suites and audits of other packages.

``NAME`` or ``NAME:ARGUMENT`` names a registered part, ``module:Attribute`` one that is not packaged. demur registers
its own parts through the same entry-point groups as other packages do. Listing names imports none of them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Literal

from demur.core.errors import UnknownPart, UsageError

Kind = Literal["sources", "encoders", "indexes", "systems", "judges", "suites", "verbs", "audits"]


@cache
def _registered(kind: Kind) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"demur.{kind}"):
        if point.name in found and found[point.name].value != point.value:
            both = f"{found[point.name].value} and {point.value}"
            raise UsageError(
                f"two packages register a {kind[:-1]} named {point.name!r}: {both}",
                cure="uninstall one of them",
            )
        found[point.name] = point
    return found


def names(kind: Kind) -> tuple[str, ...]:
    """Sorted names of the registered parts of one kind; imports nothing."""
    return tuple(sorted(_registered(kind)))


def where(kind: Kind) -> dict[str, str]:
    """Name -> ``module:Attribute`` of the registered parts of one kind; imports nothing."""
    return {name: point.value for name, point in sorted(_registered(kind).items())}


def spelled(kind: Kind, part: type, name: str) -> str:
    """How a command names a part: by its own name where that is registered, else as ``module:Class``."""
    if name in names(kind) and find(kind, name)[0] is part:
        return name
    return f"{part.__module__}:{part.__qualname__}"


def find(kind: Kind, text: str, *, registered_only: bool = False) -> tuple[Any, str]:
    """The factory that ``text`` names, and the argument that follows its name.

    Args:
        kind: the entry-point group, without ``demur.``.
        text: ``NAME``, ``NAME:ARGUMENT`` or ``module:Attribute``.
        registered_only: refuse ``module:Attribute``, for names that come from a file: a manifest must not choose what
            demur imports.

    Returns:
        (factory, argument); the argument is "" if none is given.

    Raises:
        UnknownPart: no part has that name; the message lists those that exist.
        UsageError: the module cannot be imported, or lacks that attribute.
    """
    name, _, argument = text.partition(":")
    if "?" in name:  # options without an argument: local?phrases=own.txt
        name, mark, options = text.partition("?")
        argument = mark + options
    points = _registered(kind)
    if name in points:
        return points[name].load(), argument
    if (
        not registered_only
        and argument
        and name.replace(".", "").replace("_", "").isalnum()
        and argument.isidentifier()
    ):
        module = imported(name)
        if module is not None:
            try:
                return getattr(module, argument), ""
            except AttributeError as error:
                raise UsageError(
                    f"module {name!r} has no {argument!r}", cure="check the spelling"
                ) from error
    hint = (
        "or name it in the command yourself: a file may not choose what is imported"
        if registered_only
        else ""
    )
    raise UnknownPart(kind[:-1], text, list(points), hint=hint)


def imported(name: str, item: str = "") -> ModuleType | None:
    """The module of a user; None if there is none of that name.

    Raises:
        UsageError: importing it fails, with whatever error.
    """
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        if (
            isinstance(error, ModuleNotFoundError)
            and error.name
            and f"{name}.".startswith(f"{error.name}.")
        ):
            return None
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UsageError(
            f"module {name!r} cannot be imported: {text}",
            item=item,
            cure="fix the error in the module",
        ) from error
