"""`demur rag`: try a RAG service, and see where it fails."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import TRUST, add_shared, job
from demur.cli._output import print_json, print_tables, say


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the jobs and their arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    probe = job(
        jobs,
        "probe",
        "ask a service one question, and print how demur reads the reply",
        epilog="example:\n  $ demur rag probe rag.yaml --release demo-out/release\n\n"
        "A mapping says how a question becomes a request and how a reply becomes an answer; docs/score-your-rag.md has "
        'one to\nstart from. A bare address gets {"question": ...}.',
    )
    probe.add_argument("mapping", metavar="MAPPING", help="rag.yaml, or an address")
    probe.add_argument(
        "--question",
        default="",
        help="question (default: one of the release, or about Vienna's river)",
    )
    probe.add_argument(
        "--image", type=Path, nargs="*", default=[], metavar="FILE", help="images of the question"
    )
    probe.add_argument(
        "--release", type=Path, metavar="DIR", help="release whose question is asked"
    )
    add_shared(probe, *TRUST, "--json")
    table = job(
        jobs,
        "table",
        "show where retrieval or generation fails: was the gold retrieved, was the answer right",
        epilog="example:\n  $ demur rag table rag-runs --release demo-out/release",
    )
    add_shared(table, "runs", "--release", "--form", "--json", json="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Do the job; exit 1 when a probe gets no answer."""
    if args.job == "table":
        return _table(args)
    from demur.api import open_release, probe_service

    release = None if args.release is None else open_release(args.release)
    probe = probe_service(args.mapping, args.question, args.image, release)
    if args.json:
        print_json(probe.as_json())
    else:
        say(probe.text().removesuffix("\n"))
    return 1 if probe.response.error else 0


def _table(args: argparse.Namespace) -> int:
    from demur.api import rag_tables
    from demur.reports.tables import to_records

    tables = rag_tables(args.runs, args.release)
    if args.json:
        print_json({table.name: to_records(table) for table in tables})
    else:
        print_tables(tables, args.form)
    return 0
