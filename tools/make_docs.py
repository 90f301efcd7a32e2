"""Writes the reference pages of the site from the code: the help of every verb, every public name of `demur`.

Run by ``make docs``, into ``build/docs``. They are not committed: ``demur VERB --help`` and ``help(demur.evaluate)`` are
the reference that readers of the repository have.
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
    parts = [f"# {title}\n{text}"]
    for verb in verbs:
        module = import_module(verb.module)
        parser = parser_of(verb)
        module.configure(parser)
        parts.append(f"## demur {verb.name}\n\n```text\n{parser.format_help()}```\n")
        for name, sub in _subparsers(parser).items():
            parts.append(f"### demur {verb.name} {name}\n\n```text\n{sub.format_help()}```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the pages."""
    parser = argparse.ArgumentParser(description="Write the reference pages of the site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="folder")
    out = parser.parse_args().out
    try:
        from demur.cli import VERBS, overview, verbs_elsewhere

        overview_text = f"\n```text\n{overview(VERBS)}```\n"
        pages = {
            "cli.md": cli_page("The `demur` command", VERBS, overview_text),
            "api.md": api_page(),
        }
        if verbs := [v for v in verbs_elsewhere() if v.module.startswith("demur_suites.")]:
            pages["suites-cli.md"] = cli_page("`demur suite`", verbs, "")
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"make_docs: {error.name} is not installed for {sys.executable} - "
            "run 'make docs', which makes the environment first, or .venv/bin/python tools/make_docs.py\n"
        )
        return 2
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (out / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
