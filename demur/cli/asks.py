"""`demur asks`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demur.cli._asking import (
    conditions_of,
    named_recipes,
    opened,
    questions_of,
    scenarios,
    sweeps,
    swept_recipes,
    what_is_asked,
)

EXAMPLES = """examples:
  $ demur asks demo-out/release -o asks.jsonl --images pictures
  $ demur asks demo-out/release -o asks.jsonl --distractors 0:6
  $ demur asks demo-out/release -o asks.jsonl --scenarios whole --corpora corpora
    ... your system adds "answer" to each line, and saves them as answers.jsonl ...
  $ demur run demo-out/release --system answers:answers.jsonl
  $ demur sweep demo-out/release --system answers:answers.jsonl --distractors 0:6"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    what_is_asked(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="where to: .jsonl, or .csv (lists as JSON)"
    )
    parser.add_argument("--images", type=Path, metavar="DIR", help="write the images there; without it they are named")
    scenarios(parser)
    sweeps(parser)
    parser.add_argument("--json", action="store_true", help="print counts as JSON")


def run(args: argparse.Namespace) -> int:
    import json

    from demur.evaluation.asks import write_asks

    recipes = list(dict.fromkeys((*named_recipes(args), *swept_recipes(args))))
    release = opened(args, args.output.parent)
    written = write_asks(release, args.output, questions_of(args, recipes, conditions_of(args)), args.images)
    if args.json:
        sys.stdout.write(json.dumps(written._asdict(), sort_keys=True) + "\n")
        return 0
    sys.stdout.write(f"{args.output}\n")
    pictures = f", {written.images:,} images{f' in {args.images}' if args.images else ''}" if written.images else ""
    sys.stderr.write(f"{written.asks:,} questions about {written.samples:,} samples{pictures}\n")
    if written.images and not args.images:
        sys.stderr.write("the images are named by their SHA-256 and not written: add --images DIR\n")
    sys.stderr.write('\nnext: add "answer" (and "confidence", 0 to 1) to each row; then the same options and ')
    sys.stderr.write("--system answers:FILE to 'demur run' or 'demur sweep'\n")
    return 0
