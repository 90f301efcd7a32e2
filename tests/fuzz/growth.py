"""How the time of a text function grows with its text: tools for tests, in CPU time and by ratios.

`attacks` derives texts from a pattern's own parse tree: what makes each of its repetitions go round, in front of
something that makes it fail. `worst` measures one function on one family of texts.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import itertools
import pkgutil
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import demur

ROOM = 8
"""How many times as much as what is linear a text may take, for noise."""
SHORT = (1_000, 16_000)
"""Sizes of texts."""


class TooSlow(Exception):
    """A call that used up the CPU time it was given."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """At most so much CPU time for what is inside; a pattern that is matching is interrupted too."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    gc.disable()  # what is raised in a callback of the collector is lost
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        gc.enable()


class Growth(NamedTuple):
    """CPU seconds at growing sizes of one family of texts; infinite where a call was stopped."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Seconds per character at the largest size against the smallest: about 1 when linear."""
        return (self.seconds[-1] / self.sizes[-1]) / (max(self.seconds[0], _TICK) / self.sizes[0])


def measure(
    call: Callable[[str], object], text: Callable[[int], str], sizes: tuple[int, int], room: float
) -> Growth:
    """The CPU time of ``call`` on a text of each size, stopped where ``room`` times what is linear is used up."""
    small, large = sizes
    patience = _PATIENCE * max(small, 1_000)
    first = _seconds(call, text(small), patience)
    if first == float("inf"):
        return Growth(sizes, (0.0, first))
    if first < 20 * _TICK:
        first = min(first, _seconds(call, text(small), patience))
    first = max(first, _TICK)
    limit = room * first * large / small
    last = float("inf")
    for _ in range(4):  # a collection of garbage may fall into one
        last = min(last, _seconds(call, text(large), 2 * limit))
        if last < limit / 2:
            break
    return Growth(sizes, (first, last))


_TICK = 1e-3
"""Seconds below which the clock says nothing."""
_PATIENCE = 0.5e-3
"""Seconds a character of the smallest text, far more than any takes that does not grow exponentially."""


_NEW = itertools.count()


def _seconds(call: Callable[[str], object], text: str, limit: float) -> float:
    text = f"{text}q{next(_NEW)}"  # no cache knows it
    start = time.process_time()
    try:
        with cpu_limit(limit):
            call(text)
    except TooSlow:
        return float("inf")
    return time.process_time() - start


# --- attacks on a pattern --------------------------------------------------------------------------

GENERIC = (
    " ",
    "\n",
    "0",
    "a",
    "A",
    ",",
    ".",
    "-",
    "or ",
    ", ",
    "A.",
    "1,",
    "1,000",
    "1.000",
    "(",
    "[",
    '"',
    "'",
    "*",
    "$",
    "é",
    "\u0301",
    "中",
    "_",
    "<",
    "/",
    ":",
)


def attacks(pattern: re.Pattern[str], most: int = 60) -> list[tuple[str, str, str]]:
    """Families (prefix, what is repeated, suffix) that make the pattern's repetitions go round and then fail."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    found: dict[tuple[str, str], None] = {}
    _walk(tree, "", found)
    pumps = dict.fromkeys([*found, *(("", g) for g in GENERIC)])
    return [(head, pump, tail) for head, pump in list(pumps)[:most] for tail in ("", "\x00")]


def _walk(tree: Any, before: str, found: dict[tuple[str, str], None]) -> None:
    for node in tree:
        kind, value = node
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, getattr(op, "POSSESSIVE_REPEAT", None)):
            _, high, inner = value
            if high is op.MAXREPEAT or high > 3:
                for pump in _examples(inner):
                    if pump:
                        found[(before, pump)] = None
                        found[("", before + pump)] = None
            _walk(inner, before, found)
        elif kind is op.BRANCH:
            for branch in value[1]:
                _walk(branch, before, found)
        elif kind is op.SUBPATTERN:
            _walk(value[-1], before, found)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            _walk(value[1], before, found)
        elif kind is op.ATOMIC_GROUP:
            _walk(value, before, found)
        before += next(iter(_examples([node])), "")


def _examples(tree: Any, most: int = 6) -> list[str]:
    """A few texts that a part of a pattern may match."""
    texts = [""]
    for kind, value in tree:
        here: list[str]
        if kind is op.LITERAL:
            here = [chr(value)]
        elif kind is op.NOT_LITERAL:
            here = [c for c in "a 0,." if ord(c) != value][:2]
        elif kind is op.ANY:
            here = ["a", " "]
        elif kind is op.IN:
            here = _members(value)
        elif kind is op.BRANCH:
            here = [t for branch in value[1] for t in _examples(branch, 1)]
        elif kind is op.SUBPATTERN:
            here = _examples(value[-1], most)
        elif kind is op.ATOMIC_GROUP:
            here = _examples(value, most)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, getattr(op, "POSSESSIVE_REPEAT", None)):
            low, _, inner = value
            here = [t * max(low, 1) for t in _examples(inner, most)]
            here += [""] if low == 0 else []
        else:
            here = [""]
        texts = [t + h for t in texts for h in here[:most] or [""]][: most * 2]
    return list(dict.fromkeys(texts))[:most]


_CATEGORIES = {
    "CATEGORY_DIGIT": "0",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_WORD": " ",
    "CATEGORY_UNI_DIGIT": "0",
    "CATEGORY_UNI_WORD": "a",
}


def _members(items: Any) -> list[str]:
    inside = [
        chr(v) if k is op.LITERAL else chr(v[0]) if k is op.RANGE else _CATEGORIES.get(str(v), "a")
        for k, v in items
        if k is not op.NEGATE
    ]
    if items and items[0][0] is op.NEGATE:
        source = _parser.SubPattern(_parser.State(), [(op.IN, items)])
        del source
        wanted = []
        for c in " a0,.-\n(A":
            hit = any(
                (k is op.LITERAL and chr(v) == c)
                or (k is op.RANGE and v[0] <= ord(c) <= v[1])
                or (k is op.CATEGORY and _in_category(str(v), c))
                for k, v in items
                if k is not op.NEGATE
            )
            if not hit:
                wanted.append(c)
        return wanted[:3]
    return inside[:4]


def _in_category(name: str, c: str) -> bool:
    wanted = {"DIGIT": c.isdigit(), "SPACE": c.isspace(), "WORD": c.isalnum() or c == "_"}
    base = name.rsplit("_", 1)[-1]
    return wanted[base] != ("_NOT_" in name)


# --- every pattern of the package --------------------------------------------------------------------


def modules(package: ModuleType = demur) -> list[ModuleType]:
    """Every module of a package."""
    found = []
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.name.endswith("__main__"):
            continue
        found.append(importlib.import_module(info.name))
    return found


class Use(NamedTuple):
    """A pattern of the package."""

    where: str
    pattern: re.Pattern[str]
    anchored: bool
    """Only ever matched at one place, never searched for."""


@cache
def uses(package: ModuleType = demur) -> list[Use]:
    """Every pattern that a package keeps under a name of a module or writes in a call of ``re``."""
    found: dict[tuple[str, int, bool], Use] = {}
    for module in modules(package):
        kept = [(name, p) for name, value in vars(module).items() for p in _patterns_in(value)]
        methods = _methods(module) if kept else {}
        for name, pattern in kept:
            if isinstance(pattern.pattern, str):
                anchored = bool(methods.get(name)) and methods[name] <= {"match", "fullmatch"}
                use = Use(f"{module.__name__}.{name}", pattern, anchored)
                found.setdefault((pattern.pattern, pattern.flags, anchored), use)
        for line, pattern, anchored in _inline(module):
            found.setdefault(
                (pattern.pattern, pattern.flags, anchored),
                Use(f"{module.__name__}:{line}", pattern, anchored),
            )
    return list(found.values())


def _methods(module: ModuleType) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def _patterns_in(value: object) -> list[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        return [value]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [p for v in value for p in _patterns_in(v)]
    if isinstance(value, dict):
        return [p for v in (*value.values(), *value) for p in _patterns_in(v)]
    return []


def _source(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except OSError:
        return ""


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(_source(module))


_WORDS = ("compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn")


def _calls(module: ModuleType) -> Iterator[tuple[str, ast.Call]]:
    """Calls of ``re`` inside functions; what a module compiles is met under its name."""
    if not re.search(rf"\bre\.({'|'.join(_WORDS)})\(", _source(module)):
        return
    inside = [
        n
        for f in ast.walk(_tree(module))
        if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
        for n in ast.walk(f)
    ]
    for node in inside:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in _WORDS
        ):
            yield node.func.attr, node


def _value(module: ModuleType, node: ast.AST) -> Any:
    return eval(compile(ast.Expression(node), module.__file__ or "", "eval"), vars(module))  # type: ignore[arg-type]


def _inline(module: ModuleType) -> Iterator[tuple[int, re.Pattern[str], bool]]:
    for word, call in _calls(module):
        try:
            text = _value(module, call.args[0])
            at = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(word, 2)
            flags = [_value(module, w.value) for w in call.keywords if w.arg == "flags"]
            flags += [_value(module, a) for a in call.args[at : at + 1]]
        except NameError:
            continue  # made at run time: `made_at_run_time`
        if isinstance(text, str):
            yield call.lineno, re.compile(text, sum(flags)), word in ("match", "fullmatch")


def made_at_run_time(package: ModuleType = demur) -> list[str]:
    """Calls of ``re`` whose pattern depends on more than its module: where they stand."""
    out = []
    for module in modules(package):
        for _, call in _calls(module):
            try:
                _value(module, call.args[0])
            except NameError:
                out.append(f"{module.__name__}: {ast.unparse(call.args[0])}")
    return out


def slow(use: Use, sizes: tuple[int, int], most: int) -> Iterator[tuple[str, str, str]]:
    """Families of texts that a pattern is worse than linear on."""

    def read(text: str) -> object:
        return (
            use.pattern.match(text) if use.anchored else deque(use.pattern.finditer(text), maxlen=0)
        )

    for family in attacks(use.pattern, most):
        if measure(read, partial(repeated, *family), sizes, ROOM).ratio > ROOM:
            yield family


def repeated(head: str, pump: str, tail: str, size: int) -> str:
    """A text of a family, of about so many characters."""
    return head + pump * (size // len(pump)) + tail
