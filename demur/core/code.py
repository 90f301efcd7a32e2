"""Functions and classes of a user by name, and a digest of their code.

An answer of a function is valid for the code that gave it. `code_digest` covers the function's file and every file of
the same project that its import statements reach. It does not cover installed packages, data files and services: for
these the user gives a revision, any text, as ``module:function@REVISION``.
"""

from __future__ import annotations

import ast
import inspect
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from demur.core.errors import UsageError
from demur.core.plugins import imported
from demur.core.store import digest, file_digest
from demur.core.version import __version__

SHORT = 16
"""Hex digits of a digest: enough for all revisions of one project."""

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_SUFFIXES = (".py", *(s for s in (sysconfig.get_config_var("EXT_SUFFIX"), ".so") if s))


def function_named(text: str) -> tuple[Callable[..., Any], str]:
    """The function or class that ``module:name`` names, and the revision after ``@``.

    The current folder is searched too, as by ``python -m``.

    Args:
        text: ``module:name``, ``module:name.of.attribute`` or either with ``@REVISION``.

    Returns:
        (callable, revision); the revision is "" if none is given.

    Raises:
        UsageError: there is no such module or name, the module cannot be imported, or the name is not callable.
    """
    place, _, revision = text.partition("@")
    module, _, name = place.partition(":")
    item = f"python:{text}"
    if not module or not name:
        raise UsageError("this names no function", item=item, cure="write python:module:function")
    target: Any = imported(module, item)
    if target is None:
        raise UsageError(
            f"there is no module {module!r}",
            item=item,
            cure="check the name, the current folder and PYTHONPATH",
        )
    members = vars(target).items()
    try:
        for step in name.split("."):
            target = getattr(target, step)
    except AttributeError as error:
        functions = sorted(n for n, v in members if callable(v) and not n.startswith("_"))
        raise UsageError(
            f"module {module!r} has no {name!r}",
            item=item,
            cure=f"it has {', '.join(functions[:8]) or 'no function'}",
        ) from error
    if not callable(target):
        raise UsageError(
            f"{name!r} in {module!r} is not a function", item=item, cure="name a function"
        )
    return target, revision


_PARSING = threading.Lock()
"""Two threads that parse at once may fail with `SystemError`: Python 3.11 adds up the depths of both trees."""


def code_digest(thing: object, revision: str = "") -> str:
    """Digest of the code of a function, class or instance: equal for equal code on every machine.

    Args:
        thing: function, class, instance, bound method or `functools.partial`.
        revision: of the user; part of the digest.

    Returns:
        `SHORT` hex digits.
    """
    parts: list[object] = [revision]
    while isinstance(thing, partial):
        parts += [_identifying_value(v) for v in (*thing.args, *sorted(thing.keywords.items()))]
        thing = thing.func
    thing = inspect.unwrap(thing) if inspect.isfunction(thing) else thing
    if inspect.isfunction(thing):
        parts += [
            _identifying_value(cell.cell_contents)
            for cell in thing.__closure__ or ()
            if _has_value(cell)
        ]
    owner = thing if inspect.isroutine(thing) or inspect.isclass(thing) else type(thing)
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    name = getattr(owner, "__qualname__", "")
    if isinstance(thing, FunctionType) and name.endswith("<lambda>"):
        # Several in a file, or in a line, have one name and one source.
        parts += [_compiled(thing.__code__), _identifying_value(thing.__defaults__)]
    file = getattr(module, "__file__", None)
    if module is None or file is None or not Path(file).is_file():  # a notebook cell, the prompt
        parts += [name, _source_text(owner)]
    elif module.__name__.partition(".")[0] == "demur":
        parts += [name, __version__]
    else:
        spec = getattr(module, "__spec__", None)
        module_name = spec.name if spec is not None else module.__name__
        parts += [
            name,
            {
                module: file_digest(path)
                for module, path in _project_modules(module_name, Path(file)).items()
            },
        ]
    return digest(parts, SHORT)


def _has_value(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises if the cell is empty
    except ValueError:
        return False
    return True


def _identifying_value(value: object) -> object:
    """A value that code is bound to, if its text identifies it; else its type."""
    if value is None or isinstance(value, str | int | float | bool):
        return repr(value)
    if isinstance(value, tuple | list):
        return [_identifying_value(v) for v in value]
    return getattr(value, "__qualname__", type(value).__qualname__)


def _compiled(code: CodeType) -> list[object]:
    """The instructions of a function and of those inside it."""

    def constant(value: object) -> object:
        if isinstance(value, CodeType):
            return _compiled(value)
        return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)

    return [code.co_code.hex(), list(code.co_names), [constant(c) for c in code.co_consts]]


def _source_text(owner: object) -> str:
    code = getattr(owner, "__code__", None)
    if (
        code is None or code.co_filename != "<string>"
    ):  # for "<string>", getsource reads the text of ``python -c``
        with suppress(OSError, TypeError):
            return inspect.getsource(owner)  # type: ignore[arg-type]  # raises for anything without source
    return "" if code is None else repr((code.co_code, code.co_names, code.co_consts))


def _project_modules(name: str, file: Path) -> dict[str, Path]:
    """Module -> file, for a module and all modules of its project that it imports, directly or not."""
    file_of_module: dict[str, Path] = {}
    top = name.partition(".")[0]
    unvisited = [(name, file)]
    while unvisited:
        module, path = unvisited.pop()
        if module in file_of_module:
            continue
        file_of_module[module] = path
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        for imported_module in (*_parent_modules(module), *_imported_modules(path, package)):
            if imported_module not in file_of_module:
                unvisited += _project_files(imported_module, top)
    return file_of_module


def _parent_modules(module: str) -> Iterator[str]:
    while module := module.rpartition(".")[0]:
        yield module


def _imported_modules(path: Path, package: str) -> Iterator[str]:
    """Modules that any import statement of a file may import; some of them are names, not modules."""
    if path.suffix != ".py":
        return
    try:
        data = path.read_bytes()
        with _PARSING:
            try:
                tree = ast.parse(data)
            except SystemError:  # another thread, without the lock
                tree = ast.parse(data)
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".") if package else []
                above = above[: len(above) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _project_files(module: str, top: str) -> list[tuple[str, Path]]:
    """(module, file) of a module that belongs to the project, without importing it; [] for any other."""
    first, *submodules = module.split(".")
    if first == "demur" or first in sys.stdlib_module_names or first in sys.builtin_module_names:
        return []
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    places = [Path(p) for p in spec.submodule_search_locations or ()]
    file = Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else None
    places_of_top = [file] if file is not None else places
    if not places_of_top or (
        first != top and any(_INSTALLED & set(p.parts) for p in places_of_top)
    ):
        return []
    for step in submodules:
        inner = [p / step for p in places]
        file = next((f for p in inner for f in _possible_files(p) if f.is_file()), None)
        places = [p for p in inner if p.is_dir()]
        if file is None and not places:
            return []
    return [(module, file)] if file is not None else []


def _possible_files(path: Path) -> Iterator[Path]:
    yield path / "__init__.py"
    yield from (path.with_name(path.name + suffix) for suffix in _SUFFIXES)
