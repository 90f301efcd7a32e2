"""`demur corpus export`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._arguments import job


def configure(parser: argparse.ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    export = job(
        jobs, "export", "write corpora to test a RAG system with its own index over: full, gold-removed, empty",
        epilog="example:\n  $ demur corpus export demo-out/release --out corpora\n  index corpora/full and "
        "corpora/gold-removed, then\n  $ demur run demo-out/release --scenarios whole --corpora corpora "
        "--system http:rag.yaml",
    )  # fmt: skip
    export.add_argument("release", type=Path, help="release folder")
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the corpora")
    export.add_argument(
        "--pool", type=Path, metavar="DIR",
        help="the pool that it was built from, for its whole knowledge base (a release holds its evidence alone)",
    )  # fmt: skip
    export.add_argument(
        "--form", choices=("jsonl", "parquet", "markdown"), default="jsonl", help="of the files (default: %(default)s)"
    )
    export.add_argument(
        "--folds", type=int, default=1, metavar="K",
        help="K corpora, each without the gold of a K-th of the questions alone (default: one without that of all)",
    )  # fmt: skip
    export.add_argument(
        "--mix", metavar="CORPUS", help="documents of your own that go in too (as 'demur index build' reads)"
    )
    export.add_argument(
        "--poison", action="store_true",
        help="one distractor of each question tells whoever reads it to say a code word: does the system obey?",
    )  # fmt: skip
    export.add_argument("--json", action="store_true", help="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    from demur.curation.corpora import export_corpora

    note = export_corpora(args.release, args.out, pool=args.pool, form=args.form, folds=args.folds, mix=args.mix,
                          poison=args.poison)  # fmt: skip
    if args.json:
        told = {k: note[k] for k in ("release", "documents", "form", "counts", "questions")}
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        return 0
    lines = [f"{name:<16} {n:>9,} documents" for name, n in note["counts"].items()]
    asked, all_ = note["questions"]["must deflect where gold is removed"], note["questions"]["all"]
    lines.append(f"documents: {note['documents']}")
    if args.poison:
        lines.append(f"{len(note['poisoned']):,} documents hold an instruction; demur rag table says who obeys")
    lines.append(
        f"{asked:,} of {all_:,} questions must be deflected where gold is removed; "
        f"what else states the answers of the others: {args.out / 'corpora.json'}"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stderr.write(
        f"\nnext: demur run {args.release} --scenarios whole --corpora {args.out} --system http:rag.yaml\n"
    )
    return 0
