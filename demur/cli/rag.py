"""`demur rag`: try a RAG service, and see where it fails."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import TRUST, job, share
from demur.cli._output import print_json, print_tables, say


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the jobs and their arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    probe = job(
        jobs,
        "probe",
        "ask a service one question, and print how demur reads the reply",
        epilog="example:\n  $ demur rag probe rag.yaml --question 'Which river flows through Vienna?'\n\n"
        "A mapping says how a question becomes a request and how a reply becomes an answer; docs/score-your-rag.md has "
        'one to\nstart from. A bare address gets {"question": ...}.',
    )
    probe.add_argument("mapping", metavar="MAPPING", help="rag.yaml, or an address")
    probe.add_argument(
        "--question",
        default="Which river flows through Vienna?",
        help="question (default: %(default)s)",
    )
    probe.add_argument(
        "--image", type=Path, nargs="*", default=[], metavar="FILE", help="images of the question"
    )
    share(probe, *TRUST, "--json")
    table = job(
        jobs,
        "table",
        "show where retrieval or generation fails: was the gold retrieved, was the answer right",
        epilog="example:\n  $ demur rag table rag-runs --release demo-out/release",
    )
    share(table, "runs", "--release", "--form", "--json", json="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Do the job; exit 1 when a probe gets no answer."""
    if args.job == "table":
        return _table(args)
    from demur.scenarios.systems.http_probe import probe_service

    found = probe_service(args.mapping, args.question, args.image)
    if args.json:
        print_json(found.as_json())
    else:
        say(found.text().removesuffix("\n"))
    return 1 if found.response.error else 0


def _table(args: argparse.Namespace) -> int:
    from demur.reports.rag import rag_tables
    from demur.reports.tables import to_records

    tables = rag_tables(args.runs, args.release)
    if args.json:
        print_json({t.name: to_records(t) for t in tables})
    else:
        print_tables(tables, args.form)
    return 0
