"""Regenerates the pages that are made from the code: ``docs/cli.md``, ``docs/api.md`` and ``suites/docs/cli.md``.

Run by ``make docs``; a test finds them stale.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from make_api import api_page

if TYPE_CHECKING:
    from demur.cli import Verb

ROOT = Path(__file__).resolve().parents[1]


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._subparsers._group_actions if parser._subparsers else []:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def cli_page(title: str, verbs: Sequence[Verb], text: str) -> str:
    """Every help page of some verbs, 100 columns wide, below a text."""
    from demur.cli import parser_of

    os.environ["COLUMNS"] = "100"
    os.environ["NO_COLOR"] = "1"
    parts = [f"# {title}\n\nMade from the code by `make docs`; do not edit.\n{text}"]
    for verb in verbs:
        module = import_module(verb.module)
        parser = parser_of(verb)
        module.configure(parser)
        parts.append(f"## demur {verb.name}\n\n```text\n{parser.format_help()}```\n")
        for name, sub in _subparsers(parser).items():
            parts.append(f"### demur {verb.name} {name}\n\n```text\n{sub.format_help()}```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the pages; with ``--check`` say which are stale instead."""
    try:
        from demur.cli import VERBS, overview, verbs_elsewhere

        listed = f"\n```text\n{overview(VERBS)}```\n"
        pages = {
            ROOT / "docs" / "cli.md": cli_page("The `demur` command", VERBS, listed),
            ROOT / "docs" / "api.md": api_page(),
        }
        if beside := [v for v in verbs_elsewhere() if v.module.startswith("demur_suites.")]:
            page = cli_page("`demur suite` and `demur reasoning`", beside, "")
            pages[ROOT / "suites" / "docs" / "cli.md"] = page
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"make_docs: {error.name} is not installed for {sys.executable} - "
            "run 'make docs', which makes the environment first, or .venv/bin/python tools/make_docs.py\n"
        )
        return 2
    stale = [
        p for p, text in pages.items() if not p.exists() or p.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale: run make docs\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(pages[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
