"""Calls from a lower room into a higher one: ``python tools/climbs.py run DEMO --system reader --out runs``.

Runs the command, and prints each pair of functions of which the lower calls the higher, callbacks and iterators among
them, with how often. A call through another library counts as its nearest caller's in demur; imports are no calls, and
what other processes do is not seen.
"""

from __future__ import annotations

import sys
import threading
import tomllib
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "demur"


def rooms() -> list[str]:
    """The rooms from the lowest to the highest, as import-linter holds them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [layer.removeprefix("demur.") for layer in reversed(layers)]


class Function(NamedTuple):
    """A function of a room."""

    height: int
    """Place of its room in `rooms`."""
    name: str


class Climbs:
    """The calls seen so far."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Function, Function]] = Counter()
        self._rooms = rooms()
        self._functions: dict[CodeType, Function | None] = {}

    def function_of(self, code: CodeType) -> Function | None:
        """The function of some code; None where it is none of demur's rooms."""
        if code not in self._functions:
            path = Path(code.co_filename)
            inside = path.is_relative_to(HOME) and code.co_name != "<module>"
            place = path.relative_to(HOME).with_suffix("").parts if inside else ("",)
            is_room = place[0] in self._rooms
            name = f"{'/'.join(place)}.{code.co_qualname}"
            function = Function(self._rooms.index(place[0]), name) if is_room else None
            self._functions[code] = function
        return self._functions[code]

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call, if it climbs."""
        callee = self.function_of(frame.f_code) if event == "call" else None
        if callee is None:
            return
        below = frame.f_back
        while below is not None and below.f_code.co_name != "<module>":  # of an import
            if caller := self.function_of(below.f_code):
                if caller.height < callee.height:
                    self.counts[caller, callee] += 1
                return
            below = below.f_back


def main(words: list[str]) -> int:
    """Run a command of demur under trace, and print the table."""
    from demur.cli import main as demur

    climbs = Climbs()
    threading.setprofile(climbs.see)
    sys.setprofile(climbs.see)
    try:
        code = demur(words)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    edges = sorted(climbs.counts.items(), key=lambda edge: edge[0])
    width = max((len(caller.name) for (caller, _), _ in edges), default=0)
    lines = [f"{n:>8,}  {caller.name:<{width}}  ->  {callee.name}" for (caller, callee), n in edges]
    sys.stdout.write("\n".join(["", *lines, f"{len(edges)} climbs"]) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
