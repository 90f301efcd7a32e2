"""`demur from-docs`: make a release from your own documents and questions."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import TRUST, add_shared
from demur.cli._output import note, print_json, say
from demur.core.text import brief, command

SHOWN = 10
"""Questions printed for each reason to leave them out."""
EPILOG = """\
example:
  $ demur from-docs handbook questions.csv -o mine --accept-found
  $ demur run mine/release --scenarios whole --corpora mine/corpora --system http:rag.yaml

with a review of the passages that become gold:
  $ demur from-docs handbook questions.csv -o mine
    ... confirm or reject what it proposes: demur annotate --out mine/review ...
  $ demur from-docs handbook questions.csv -o mine

documents: a folder of Markdown, text, HTML, PDF (extra: pdf), pictures, or of JSONL, CSV, Parquet rows such as chunks
questions: JSONL, CSV, TSV, Parquet with a column question (or query), and, where known, answer (several: a | b), id,
  topic, gold (ids of documents), unanswerable (true: no document answers it); any other file: one question per line

exit code: 0 the release is written, 1 questions need a review first, 2 usage
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.epilog = EPILOG
    parser.add_argument(
        "docs", type=Path, metavar="DOCS", help="folder or file of documents, or READER:PATH"
    )
    parser.add_argument(
        "questions", type=Path, metavar="QUESTIONS", help="a list or a log of questions"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        required=True,
        metavar="OUT",
        help="folder for release, corpora and review",
    )
    parser.add_argument(
        "--accept-found",
        action="store_true",
        help="skip the review: the likeliest passage that states the answer becomes gold; the card says so",
    )
    parser.add_argument(
        "--chunk",
        default="auto",
        metavar="SIZE:OVERLAP",
        help="words per passage; auto: cut files by 250:32, keep rows; none: cut nothing (default: %(default)s)",
    )
    parser.add_argument(
        "--candidates",
        type=int,
        default=3,
        metavar="N",
        help="passages proposed per question (default: %(default)s)",
    )
    parser.add_argument(
        "--distractors",
        type=int,
        default=5,
        metavar="N",
        help="distractors per question, at most (default: %(default)s)",
    )
    parser.add_argument("--name", default="", help="name of the release (default: the folder's)")
    parser.add_argument(
        "--release-version",
        default="0.1.0",
        metavar="X.Y.Z",
        help="its version (default: %(default)s)",
    )
    parser.add_argument("--licence", default="", metavar="TEXT", help="licence of the documents")
    add_shared(parser, "--skip-bad")
    add_shared(parser, *TRUST, "--json", json="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    """Make the release, or name the questions that need a review."""
    from demur.api import from_docs

    made_release = from_docs(
        args.docs,
        args.questions,
        args.out,
        name=args.name,
        version=args.release_version,
        chunk=args.chunk,
        candidates=args.candidates,
        distractors=args.distractors,
        accept_found=args.accept_found,
        licence=args.licence,
        skip_bad=args.skip_bad,
        progress=True,
    )
    release = made_release.release
    question_count = sum(made_release.kinds.values())
    if args.json:
        print_json(
            made_release._asdict()
            | {name: str(getattr(made_release, name)) for name in ("corpora", "review")}
            | {"release": str(release.folder) if release else None}
        )
        return 0 if release else 1
    say(
        f"{made_release.documents:,} documents: {made_release.passages:,} passages, {made_release.pictures:,} pictures; "
        f"{made_release.proposed:,} proposed as gold"
    )
    if made_release.unused_pictures:
        say(f"{len(made_release.unused_pictures):>6,} pictures cannot be used")
        say(
            *(
                f"        {name}: {why}"
                for name, why in list(made_release.unused_pictures.items())[:SHOWN]
            )
        )
        if len(made_release.unused_pictures) > SHOWN:
            say(
                f"        ... and {len(made_release.unused_pictures) - SHOWN:,} more; --json lists all"
            )
    say(*(f"{n:>6,} {kind}" for kind, n in made_release.kinds.items()))
    for reason, questions in made_release.drops.items():
        say(f"{len(questions):>6,} left out: {reason}")
        say(*(f"        {id}  {brief(text, 90)}" for id, text in list(questions.items())[:SHOWN]))
        if len(questions) > SHOWN:
            say(f"        ... and {len(questions) - SHOWN:,} more; --json lists all")
    if release is not None:
        say(f"{release.folder}: {question_count:,} questions")
        next_command = command(
            "run",
            release.folder,
            "--scenarios",
            "whole",
            "--corpora",
            made_release.corpora,
            "--system",
            "http:rag.yaml",
        )
    else:
        say(
            f"{len(made_release.waiting):,} questions need a yes or no to their passages; no release is written yet"
        )
        next_command = (
            f"{command('annotate', '--out', made_release.review)}   (or by file: demur annotate export, then import), "
            "then this command again; or --accept-found to accept the proposed passages"
        )
    note(f"\nnext: {next_command}")
    return 0 if release else 1
