"""Whether two states of the project differ only in layout: ``python tools/same_ast.py [--renamed] REVISION [FOLDER ...]``.

Compares ``ast.dump`` of every Python file of a git revision with that of the working tree. Comments and layout are not in
an AST, names and docstrings are. ``--renamed`` lets names differ: each name counts as the number of its first use in its
scope (a function, a comprehension, else the file), so that a name that became another everywhere there is the same, and
two names that became one are not; docstrings are left out. Exit code 1 where a file differs, or stands on one side only.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Numbered(ast.NodeTransformer):
    """Replaces each name by the number of its first use in its scope; removes docstrings.

    A function and a comprehension are scopes of what they bind: `found` may become `rows` in one and `pages` in
    another. All other names (globals, attributes, keywords) have one scope, the file.
    """

    def __init__(self) -> None:
        self.scopes: list[dict[str, str]] = [{}]
        """From the file to the innermost function; "" is a local name that was not used yet."""

    def _number(self, name: str, local: bool) -> str:
        scopes = self.scopes if local else self.scopes[:1]
        depth = max(i for i, scope in enumerate(scopes) if i == 0 or name in scope)
        scope = scopes[depth]
        if not scope.get(name):
            scope[name] = f"n{depth}_{sum(map(bool, scope.values()))}"
        return scope[name]

    def visit_Module(self, node: ast.Module) -> ast.AST:
        """Imports last and sorted by the numbers of the names: another name may stand in another place."""
        imports = [part for part in node.body if isinstance(part, ast.Import | ast.ImportFrom)]
        node.body = [part for part in node.body if part not in imports]
        self.generic_visit(node)
        for part in imports:
            self.generic_visit(part)
            part.names.sort(key=ast.dump)
        node.body += sorted(imports, key=ast.dump)
        return node

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
        local = not isinstance(node, ast.Attribute | ast.keyword | ast.alias | ast.ImportFrom)
        for field, value in ast.iter_fields(node):
            if (
                isinstance(value, str)
                and not isinstance(node, ast.Constant)
                and value.isidentifier()
            ):
                setattr(node, field, self._number(value, local or field == "asname"))
        if isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [self._number(name, local=True) for name in node.names]
        if not isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS)):
            return super().generic_visit(node)
        self.scopes.append(dict.fromkeys(_bound(node), ""))
        super().generic_visit(node)
        self.scopes.pop()
        return node


def _bound(scope: ast.AST) -> list[str]:
    """The names that a function or a comprehension binds itself."""
    names: list[str] = []
    outer: set[str] = set()

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, _COMPREHENSIONS):  # it binds in the function only by :=
            walrus = [n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
            names.extend(walrus)
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.append(node.name)
        elif isinstance(node, ast.alias) and node.asname:
            names.append(node.asname)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outer.update(node.names)
        for child in ast.iter_child_nodes(node):
            look(child)

    if isinstance(scope, _COMPREHENSIONS):
        for generator in scope.generators:
            look(generator.target)
    else:
        for child in ast.iter_child_nodes(scope):
            look(child)
    return [name for name in names if name not in outer]


def dumped(source: bytes, renamed: bool = False) -> str:
    r"""The tree of a file, without positions.

    >>> dumped(b"found = 1\nprint(found)", renamed=True) == dumped(b"rows = 1\nprint(rows)", renamed=True)
    True
    >>> before = b"def f(found): return found\ndef g(found): return [one for one in found]"
    >>> after = b"def f(rows): return rows\ndef g(pages): return [page for page in pages]"
    >>> dumped(before, renamed=True) == dumped(after, renamed=True)
    True
    >>> dumped(b"def g(a, b): return a + b", renamed=True) == dumped(b"def g(a, b): return a + a", renamed=True)
    False
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
