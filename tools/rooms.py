"""The size of every room, for docs/design/rooms.md: ``python tools/rooms.py BEFORE [AFTER]``, two git revisions."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

Sizes = dict[str, list[tuple[int, str]]]
BESIDE = "suites, beside"


def sizes(revision: str) -> Sizes:
    """Room -> (lines, file) of its Python files at a revision."""
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", revision, "demur", "suites/demur_suites"],
        capture_output=True,
        text=True,
    )
    found: Sizes = {}
    for file in listed.stdout.split():
        if file.endswith(".py"):
            text = subprocess.run(
                ["git", "show", f"{revision}:{file}"], capture_output=True, text=True
            ).stdout
            room = file.split("/")[1] if file.count("/") > 1 else "(top)"
            if file.startswith("suites/"):
                room = BESIDE
            found.setdefault(room, []).append((text.count("\n"), file))
    return found


def cell(files: list[tuple[int, str]]) -> str:
    """``lines | files | median | largest``."""
    if not files:
        return "- | - | - | -"
    lines, name = max(files)
    short = "/".join(name.split("/")[2:]) or name
    each = [n for n, _ in files]
    return f"{sum(each):,} | {len(each)} | {median(each):.0f} | {short} {lines}"


def main(before: str, after: str = "HEAD") -> None:
    """Print the table."""
    old, new = sizes(before), sizes(after)
    order = sorted({*old, *new} - {BESIDE}, key=lambda room: -sum(n for n, _ in new.get(room, ())))
    heads = " | ".join(("lines", "files", "median", "largest"))
    rows = [f"| room | {heads} | {heads} |", "|---|--:|--:|--:|---|--:|--:|--:|---|"]
    rows += [
        f"| {room} | {cell(old.get(room, []))} | {cell(new.get(room, []))} |" for room in order
    ]
    for name, rooms in (("**all**", order), (BESIDE, [BESIDE])):
        both = [cell([one for room in rooms for one in side.get(room, [])]) for side in (old, new)]
        rows.append(f"| {name} | {both[0]} | {both[1]} |")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
