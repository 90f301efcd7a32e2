"""`demur corpus export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import TRUST, add_shared, job
from demur.cli._output import note, print_json, say
from demur.core.text import command


def configure(parser: argparse.ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    export = job(
        jobs,
        "export",
        "write corpora for the index of a RAG system: full, gold-removed, empty",
        epilog="example:\n  $ demur corpus export demo-out/release --out corpora\n  index corpora/full and "
        "corpora/gold-removed, then\n  $ demur run demo-out/release --scenarios whole --corpora corpora "
        "--system http:rag.yaml",
    )
    export.add_argument("release", type=Path, help="release folder")
    export.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the corpora"
    )
    export.add_argument(
        "--pool",
        type=Path,
        metavar="DIR",
        help="pool that the release was built from, for its whole knowledge base (a release holds only its evidence)",
    )
    add_shared(export, *TRUST, "--json", json="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    from demur.api import export_corpora

    exported = export_corpora(args.release, args.out, pool=args.pool)
    if not exported["counts"]["gold-removed"]:
        note(
            "gold-removed holds 0 documents, like empty: every document is some question's gold; index full alone, and "
            "let the system leave out {exclude} (docs/score-your-rag.md)"
        )
    if args.json:
        print_json({k: exported[k] for k in ("release", "documents", "counts", "questions")})
        return 0
    must_deflect, all_ = (
        exported["questions"]["must deflect where gold is removed"],
        exported["questions"]["all"],
    )
    say(
        *(f"{name:<16} {n:>9,} documents" for name, n in exported["counts"].items()),
        f"documents: {exported['documents']}",
    )
    say(
        f"{must_deflect:,} of {all_:,} questions require a deflection where the gold is removed; for the others, "
        f"{args.out / 'corpora.json'} names the documents that still state the answer"
    )
    run_command = command(
        "run",
        args.release,
        "--scenarios",
        "whole",
        "--corpora",
        args.out,
        "--system",
        "http:rag.yaml",
    )
    note(f"\nnext: {run_command}")
    return 0
