"""Whether two states of the project differ only in layout: ``python tools/same_ast.py [--renamed] REVISION [FOLDER ...]``.

Compares ``ast.dump`` of every Python file of a git revision with that of the working tree. Comments and layout are not in
an AST, names and docstrings are. ``--renamed`` lets names differ: each name of a file counts as the number of its first
use, so that a name that became another everywhere is the same, and two names that became one are not; docstrings are
left out. Exit code 1 where a file differs, or stands on one side only.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path


class _Numbered(ast.NodeTransformer):
    """Replaces each name by the number of its first use; removes docstrings."""

    def __init__(self) -> None:
        self.numbers: dict[str, str] = {}

    def generic_visit(self, node: ast.AST) -> ast.AST:
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                part
                for part in body
                if not (
                    isinstance(part, ast.Expr)
                    and isinstance(part.value, ast.Constant)
                    and isinstance(part.value.value, str)
                )
            ]
        for field, value in ast.iter_fields(node):
            if (
                isinstance(value, str)
                and not isinstance(node, ast.Constant)
                and value.isidentifier()
            ):
                setattr(node, field, self.numbers.setdefault(value, f"n{len(self.numbers)}"))
        return super().generic_visit(node)


def dumped(source: bytes, renamed: bool = False) -> str:
    r"""The tree of a file, without positions.

    >>> dumped(b"found = 1\nprint(found)", renamed=True) == dumped(b"rows = 1\nprint(rows)", renamed=True)
    True
    """
    tree: ast.AST = ast.parse(source)
    return ast.dump(_Numbered().visit(tree) if renamed else tree)


def main() -> int:
    """Print the files that differ, and a count."""
    words = sys.argv[1:]
    renamed = "--renamed" in words
    revision, *folders = [word for word in words if word != "--renamed"]
    git = ["git", "ls-tree", "-r", "--name-only", "-z", revision, *folders]
    listed = subprocess.run(git, capture_output=True, check=True).stdout.decode().split("\0")
    paths = [path for path in listed if path.endswith(".py")]
    different = []
    for path in paths:
        show = ["git", "show", f"{revision}:{path}"]
        before = subprocess.run(show, capture_output=True, check=True).stdout
        after = Path(path).read_bytes() if Path(path).exists() else b"None"
        if dumped(before, renamed) != dumped(after, renamed):
            different.append(path)
    print(f"{len(paths)} files of {revision}: {len(paths) - len(different)} with the same tree")
    print(*different, sep="\n", end="\n" if different else "")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
