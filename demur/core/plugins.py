"""Parts by name: encoders, systems, judges, sources, indexes, suites.

A part is named by text that parses back: ``NAME`` or ``NAME:ARGUMENT`` for a registered part,
``module:Attribute`` for one that is not packaged. demur's own parts are registered through the same
entry-point groups as a stranger's, and listing names imports none of them.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from demur.core.errors import UnknownPart, UsageError

Kind = Literal["sources", "encoders", "indexes", "systems", "judges", "suites"]


@cache
def _registered(kind: Kind) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"demur.{kind}"):
        if point.name in found and found[point.name].value != point.value:
            both = f"{found[point.name].value} and {point.value}"
            raise UsageError(
                f"two packages register a {kind[:-1]} named {point.name!r}: {both}", cure="uninstall one of them"
            )
        found[point.name] = point
    return found


def names(kind: Kind) -> tuple[str, ...]:
    """Names of the registered parts of one kind, sorted; nothing is imported."""
    return tuple(sorted(_registered(kind)))


def where(kind: Kind) -> dict[str, str]:
    """Name -> ``module:Attribute`` of every registered part of one kind; nothing is imported."""
    return {name: point.value for name, point in sorted(_registered(kind).items())}


def find(kind: Kind, text: str, *, registered_only: bool = False) -> tuple[Any, str]:
    """The factory that ``text`` names, and the argument that follows its name.

    Args:
        kind: the entry-point group, without ``demur.``.
        text: ``NAME``, ``NAME:ARGUMENT`` or ``module:Attribute``.
        registered_only: refuse ``module:Attribute``. For names that come from a file: a manifest must not choose
            what is imported.

    Returns:
        (factory, argument); the argument is "" when none was given.

    Raises:
        UnknownPart: no such name; the message lists those that exist.
        UsageError: the module cannot be imported, or has no such name.
    """
    name, _, argument = text.partition(":")
    if not argument and "?" in name:  # options without an argument: rules?guess=yes
        name, mark, options = name.partition("?")
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
        try:
            return getattr(import_module(name), argument), ""
        except AttributeError as error:
            if name in sys.modules:
                raise UsageError(f"module {name!r} has no {argument!r}", cure="check the spelling") from error
            raise _cannot_be_imported(name, error) from error
        except (Exception, SystemExit) as error:  # a stranger's module may raise anything while it is imported
            missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
            if missing is None or not f"{name}.".startswith(f"{missing}."):
                raise _cannot_be_imported(name, error) from error
    hint = "or name it in the command yourself: a file may not choose what is imported" if registered_only else ""
    raise UnknownPart(kind[:-1], text, list(points), hint=hint)


def _cannot_be_imported(name: str, error: BaseException) -> UsageError:
    told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return UsageError(f"module {name!r} cannot be imported: {told}", cure="mend the module")
