"""Whether two states of the project differ only in layout: ``python tools/same_ast.py REVISION [FOLDER ...]``.

Compares ``ast.dump`` of every Python file of a git revision with that of the working tree. Comments and layout are not in
an AST, names and docstrings are. Exit code 1 where a file differs, or stands on one side only.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path


def dumped(source: bytes) -> str:
    """The tree of a file, without positions."""
    return ast.dump(ast.parse(source))


def main() -> int:
    """Print the files that differ, and a count."""
    revision, folders = sys.argv[1], sys.argv[2:]
    git = ["git", "ls-tree", "-r", "--name-only", "-z", revision, *folders]
    listed = subprocess.run(git, capture_output=True, check=True).stdout.decode().split("\0")
    paths = [path for path in listed if path.endswith(".py")]
    different = []
    for path in paths:
        show = ["git", "show", f"{revision}:{path}"]
        before = subprocess.run(show, capture_output=True, check=True).stdout
        if not Path(path).exists() or dumped(before) != dumped(Path(path).read_bytes()):
            different.append(path)
    print(f"{len(paths)} files of {revision}: {len(paths) - len(different)} with the same tree")
    print(*different, sep="\n", end="\n" if different else "")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
