"""The way of a command through the rooms: which functions it enters, and where a lower room calls a higher one.

    python tools/stations.py run simpleqa:FOLDER --system reader --out runs

A room may use those below it alone, so a call up the staircase is work that was handed down: a coroutine, a stream.
"""

from __future__ import annotations

import sys
import threading
import tomllib
from collections import Counter
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def rooms() -> dict[str, int]:
    """Room -> its floor, from below, as import-linter holds it."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ][0]
    return {
        layer.removeprefix("demur."): floor
        for floor, layer in enumerate(reversed(contract["layers"]))
    }


def main(words: list[str]) -> int:
    """Run the command, then print where it went."""
    import demur.cli

    floors, entered, climbs = rooms(), dict[tuple[str, str], None](), Counter[str]()
    home = str(Path(demur.cli.__file__).parents[1]) + "/"

    def station(code: CodeType) -> tuple[str, str] | None:
        file = code.co_filename.removeprefix(home).removesuffix(".py")
        known = (
            code.co_filename.startswith(home)
            and file.partition("/")[0] in floors
            and code.co_flags & CO_OPTIMIZED
        )
        return (file, code.co_qualname) if known else None

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (here := station(frame.f_code)) is None:
            return
        entered.setdefault(here)
        caller = frame.f_back
        while caller is not None and station(caller.f_code) is None:
            caller = caller.f_back
        there = here if caller is None else station(caller.f_code) or here
        if floors[here[0].partition("/")[0]] > floors[there[0].partition("/")[0]]:
            climbs[f"{':'.join(there)} -> {':'.join(here)}"] += 1

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        code = demur.cli.main(words)
    finally:
        sys.setprofile(None)
    files = {file for file, _ in entered}
    sys.stdout.write(f"\n{len(entered)} functions in {len(files)} files; calls up the staircase:\n")
    sys.stdout.write(
        "".join(f"  {n:>5} x {what}\n" for what, n in climbs.most_common()) or "  none\n"
    )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
