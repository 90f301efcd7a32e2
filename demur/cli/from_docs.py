"""`demur from-docs`: documents and questions of one's own to a release."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._shown import harmless
from demur.core.progress import TerminalProgress

EPILOG = """\
example:
  $ demur from-docs handbook questions.csv -o mine
    ... say yes or no to the passages that it proposes: demur annotate --out mine/review ...
  $ demur from-docs handbook questions.csv -o mine
  $ demur run mine/release --scenarios whole --corpora mine/corpora --system http:rag.yaml

documents: a folder of Markdown, text, HTML, PDF (extra: pdf), and of JSONL, CSV, Parquet rows as a store has its chunks
questions: JSONL, CSV, TSV, Parquet with a column question (or query), and, where known, answer (several: a | b), id,
  topic, gold (ids of documents), unanswerable (true: no document answers it); any other file: a question a line

exit code: 0 the release is there, 1 questions wait for a look, 2 usage
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.epilog = EPILOG
    parser.add_argument("docs", type=Path, metavar="DOCS", help="folder or file of documents, or READER:PATH")
    parser.add_argument("questions", type=Path, metavar="QUESTIONS", help="a list or a log of questions")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="gets release, corpora and review")
    parser.add_argument(
        "--accept-found", action="store_true",
        help="wait for no look: the likeliest passage that states the answer is gold; the card says so",
    )  # fmt: skip
    parser.add_argument(
        "--chunk", default="auto", metavar="SIZE:OVERLAP",
        help="words of a passage; auto: files by 250:32, rows as they are; none: nothing is cut (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--candidates", type=int, default=3, metavar="N", help="passages proposed a question (default: %(default)s)"
    )
    parser.add_argument(
        "--distractors", type=int, default=5, metavar="N", help="of a question, at most (default: %(default)s)"
    )
    parser.add_argument("--name", default="", help="of the release (default: the folder's)")
    parser.add_argument("--release-version", default="0.1.0", metavar="X.Y.Z", help="(default: %(default)s)")
    parser.add_argument("--licence", default="", metavar="TEXT", help="of the documents")
    parser.add_argument("--skip-bad", action="store_true", help="leave out what cannot be read, and count it")
    parser.add_argument(
        "--poison", action="store_true", help="documents of the corpora get instructions (demur corpus export --help)"
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    """Make it, or say what waits for a look."""
    from demur.curation.from_docs.make import from_docs

    with TerminalProgress() as steps:
        made = from_docs(
            args.docs, args.questions, args.out, name=args.name, version=args.release_version, chunk=args.chunk,
            candidates=args.candidates, distractors=args.distractors, accept_found=args.accept_found,
            licence=args.licence, skip_bad=args.skip_bad, poison=args.poison, steps=steps,
        )  # fmt: skip
    kept = sum(made.kinds.values())
    if args.json:
        told = {
            "release": str(made.release.folder) if made.release else None, "corpora": str(made.corpora),
            "review": str(made.review), "waiting": list(made.waiting), "documents": made.documents,
            "passages": made.passages, "proposed": made.proposed, "kinds": made.kinds, "drops": made.drops,
        }  # fmt: skip
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        return 0 if made.release else 1
    lines = [f"{made.documents:,} documents, {made.passages:,} passages; {made.proposed:,} proposed as gold"]
    lines += [f"{n:>6,} {kind}" for kind, n in made.kinds.items()]
    lines += [f"{n:>6,} left: {why}" for why, n in made.drops.items()]
    if made.release is not None:
        lines.append(f"{made.release.folder}: {kept:,} questions")
        following = f"demur run {made.release.folder} --scenarios whole --corpora {made.corpora} --system http:rag.yaml"
    else:
        lines.append(f"{len(made.waiting):,} questions wait for a yes or no to their passages; there is no release yet")
        following = (
            f"demur annotate --out {made.review}   (or by file: demur annotate export, then import), "
            "then this command again; --accept-found takes what was found"
        )
    sys.stdout.write(harmless("\n".join(lines) + "\n"))
    sys.stderr.write(harmless(f"\nnext: {following}\n"))
    return 0 if made.release else 1
