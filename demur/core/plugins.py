"""Parts by name: encoders, systems, judges, sources, indexes, retrieval modes; verbs and suites of other packages.

A registered part is named as `demur.core.spec` says, one that is not packaged by ``module:Attribute``. demur registers
its own parts through the same entry-point groups as other packages do. Listing names imports none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from demur.core.errors import UnknownPart, UsageError
from demur.core.spec import split_part

Kind = Literal["sources", "encoders", "indexes", "modes", "systems", "judges", "suites", "verbs"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@cache
def _registered(kind: Kind) -> dict[str, EntryPoint]:
    point_of_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"demur.{kind}"):
        if point.name in point_of_name and point_of_name[point.name].value != point.value:
            both_targets = f"{point_of_name[point.name].value} and {point.value}"
            raise UsageError(
                f"two packages register a {kind[:-1]} named {point.name!r}: {both_targets}",
                cure="uninstall one of them",
            )
        point_of_name[point.name] = point
    return point_of_name


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


def find(kind: Kind, text: str) -> tuple[Any, str]:
    """The factory that ``text`` names, and the argument that follows its name.

    A name that comes from a file goes through `demur.core.untrusted.check` first.

    Args:
        kind: the entry-point group, without ``demur.``.
        text: ``NAME``, ``NAME:ARGUMENT`` or ``module:Attribute``.

    Returns:
        (factory, argument); the argument is "" if none is given.

    Raises:
        UnknownPart: no part has that name; the message lists those that exist.
        UsageError: the module cannot be imported, or lacks that attribute.
    """
    name, argument = split_part(text)
    points = _registered(kind)
    if name in points:
        return points[name].load(), argument
    if argument.isidentifier() and name.replace(".", "").replace("_", "").isalnum():
        module = imported(name)
        if module is not None:
            try:
                return getattr(module, argument), ""
            except AttributeError as error:
                raise UsageError(
                    f"module {name!r} has no {argument!r}", cure="check the spelling"
                ) from error
    raise UnknownPart(kind[:-1], text, list(points))


def imported(name: str, item: str = "", *, here: bool = True) -> ModuleType | None:
    """The module of a user; None if there is none of that name.

    Args:
        name: of the module.
        item: what names it, for messages.
        here: search the current folder too, as ``python -m`` does: for names that the user wrote. A file's names are
            searched in what is installed and in PYTHONPATH, and must be there.

    Raises:
        UsageError: importing it fails, with whatever error; or it must be there and is not.
    """
    if here and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        if here:
            return import_module(name)
        with _elsewhere():
            return import_module(name)
    except (Exception, SystemExit) as error:
        missing = (
            isinstance(error, ModuleNotFoundError)
            and error.name
            and f"{name}.".startswith(f"{error.name}.")
        )
        if missing and here:
            return None
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        cure = (
            "install it, or add its folder to PYTHONPATH" if missing else "fix the module's error"
        )
        raise UsageError(
            f"module {name!r} cannot be imported: {text}", item=item, cure=cure
        ) from error


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Import nothing from the current folder, unless PYTHONPATH names it."""
    before, here = sys.path, Path.cwd()
    stated = {Path(p).resolve() for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    sys.path = [
        p for p in before if Path(p).resolve() != here.resolve() or here.resolve() in stated
    ]
    try:
        yield
    finally:
        sys.path = before
