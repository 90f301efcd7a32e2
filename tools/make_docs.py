"""Regenerates the pages that are made from the code: ``docs/cli.md`` and ``docs/api.md``.

Run by ``make docs``; a test finds them stale.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from make_api import api_page

ROOT = Path(__file__).resolve().parents[1]


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._subparsers._group_actions if parser._subparsers else []:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def cli_page() -> str:
    """Every help page of the command, 100 columns wide."""
    from demur.cli import VERBS, overview, parser_of

    os.environ["COLUMNS"] = "100"
    os.environ["NO_COLOR"] = "1"
    parts = [
        "# The `demur` command\n\nMade from the code by `make docs`; do not edit.\n",
        f"```text\n{overview()}```\n",
    ]
    for verb in VERBS:
        module = import_module(f"demur.cli.{verb.name.replace('-', '_')}")
        parser = parser_of(verb)
        module.configure(parser)
        parts.append(f"## demur {verb.name}\n\n```text\n{parser.format_help()}```\n")
        for name, sub in _subparsers(parser).items():
            parts.append(f"### demur {verb.name} {name}\n\n```text\n{sub.format_help()}```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the pages; with ``--check`` say which are stale instead."""
    try:
        pages = {ROOT / "docs" / "cli.md": cli_page(), ROOT / "docs" / "api.md": api_page()}
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
