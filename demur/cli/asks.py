"""`demur asks`."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from demur.cli._arguments import add_shared
from demur.cli._asking import add_question_arguments, run_options
from demur.cli._output import note, print_json, say

EXAMPLES = """examples:
  $ demur asks demo-out/release -o asks.jsonl --images pictures
  $ demur asks demo-out/release -o asks.jsonl --distractors 0:6
  $ demur asks demo-out/release -o asks.jsonl --scenarios whole --corpora corpora
    ... your system adds "answer" to each line, and saves them as answers.jsonl ...
  $ demur run demo-out/release --system answers:answers.jsonl
  $ demur sweep demo-out/release --system answers:answers.jsonl --distractors 0:6"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    add_question_arguments(parser, sweeps=True)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="file to write: .jsonl, or .csv (lists as JSON)",
    )
    parser.add_argument(
        "--images",
        type=Path,
        metavar="DIR",
        help="also write the images there (default: only name them)",
    )
    add_shared(parser, "--json", json="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    from demur.api import open_release, write_asks

    with TemporaryDirectory() as folder:  # the release of SOURCE=FOLDER is needed for a moment only
        release = open_release(args.release, out=folder, skip_bad=args.skip_bad)
        written = write_asks(release, args.output, run_options(args), args.images)
    if args.json:
        print_json(written._asdict())
        return 0
    say(args.output)
    pictures = (
        f", {written.images:,} images{f' in {args.images}' if args.images else ''}"
        if written.images
        else ""
    )
    note(f"{written.asks:,} questions about {written.samples:,} samples{pictures}")
    if written.images and not args.images:
        note("the images are only named, by their SHA-256: add --images DIR to write them")
    note(
        "\nnext: add \"answer\" (and \"confidence\", 0 to 1) to each row; then run 'demur run' or 'demur sweep' with "
        "the same options and --system answers:FILE"
    )
    return 0
