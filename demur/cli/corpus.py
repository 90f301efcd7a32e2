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
    export.add_argument(
        "--form",
        choices=("jsonl", "parquet", "markdown"),
        default="jsonl",
        help="file format (default: %(default)s)",
    )
    export.add_argument(
        "--folds",
        type=int,
        default=1,
        metavar="K",
        help="K gold-removed corpora, each without the gold of every K-th question (default: one without all gold)",
    )
    export.add_argument(
        "--mix",
        metavar="CORPUS",
        help="add your own documents (a corpus as 'demur index build' reads it)",
    )
    add_shared(export, *TRUST, "--json", json="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    from demur.api import export_corpora

    exported = export_corpora(
        args.release,
        args.out,
        pool=args.pool,
        form=args.form,
        folds=args.folds,
        mix=args.mix,
    )
    if args.json:
        print_json(
            {k: exported[k] for k in ("release", "documents", "form", "counts", "questions")}
        )
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
