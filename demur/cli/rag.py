"""`demur rag`: try a RAG service, and see where it fails."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._arguments import job
from demur.cli._shown import harmless


def configure(parser: argparse.ArgumentParser) -> None:
    """Jobs and their arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    probe = job(
        jobs, "probe", "ask a service one question, and print how demur reads the reply",
        epilog="example:\n  $ demur rag probe rag.yaml --question 'Which river flows through Vienna?'\n\n"
        "A mapping says how a question becomes your request and your reply an answer; the page docs/score-your-rag.md "
        "has one\nfor a start. An address alone is asked with {\"question\": ...}.",
    )  # fmt: skip
    probe.add_argument("mapping", metavar="MAPPING", help="rag.yaml, or an address")
    probe.add_argument(
        "--question", default="Which river flows through Vienna?", help="what is asked (default: %(default)s)"
    )
    probe.add_argument("--image", type=Path, nargs="*", default=[], metavar="FILE", help="images that go with it")
    probe.add_argument("--json", action="store_true", help="print it as JSON")
    table = job(jobs, "table", "was the gold retrieved, and was the answer right: what to mend")
    table.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs")
    table.add_argument(
        "--release", type=Path, metavar="DIR", help="the release (default: the one beside the first run)"
    )
    table.add_argument("--form", choices=("terminal", "markdown", "latex", "csv"), default="terminal", help="of tables")
    table.add_argument("--json", action="store_true", help="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Do the job; a probe that got no answer exits with 1."""
    if args.job == "table":
        return _table(args)
    from demur.scenarios.systems.http_probe import probed

    found = probed(args.mapping, args.question, args.image)
    if args.json:
        sys.stdout.write(json.dumps(found.as_json(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(harmless(found.text()))
    return 1 if found.response.error else 0


def _table(args: argparse.Namespace) -> int:
    from demur.reports.rag import rag_tables
    from demur.reports.tables import to_records

    tables = rag_tables(args.runs, args.release)
    if args.json:
        rows = {t.name: to_records(t) for t in tables}
        sys.stdout.write(json.dumps(rows, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(t.render(args.form) for t in tables))
    return 0
