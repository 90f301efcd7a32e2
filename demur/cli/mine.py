"""`demur mine`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import add_engine, open_engine, positive, settings
from demur.cli._shown import add_row, harmless, words

if TYPE_CHECKING:
    from demur.retrieval.recall import Choice

EPILOG = """examples:
  $ demur mine pool --index index --encoder offline --out mined
  $ demur mine atlas --index index --text 10 --lexical 5 --relative-margin 0.05 --out mined
  $ demur mine pool --index index --modes image-to-title+summary,text-to-text --pages 5 --per-page 2 --out mined

The folder holds samples.jsonl (with their distractors), drops.jsonl (what was left out, and why) and mining.json. A
recipe builds from it as from any source: {name: pool, path: mined}; what was mined is kept, nothing is mined again."""

SHARED = (
    "text", "lexical", "visual", "per_page", "own_page", "answer_pages", "same_image", "diversity", "range_min",
    "range_max", "max_score", "min_score", "absolute_margin", "relative_margin", "sampling", "cross_encoder",
)  # fmt: skip
"""Arguments that are `demur.curation.mining.options.MiningOptions` by the same name, which holds their defaults."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("samples", help="a pool folder, NAME=FOLDER (a source and its folder), or atlas")
    parser.add_argument("--index", type=Path, required=True, help="an index folder ('demur index build')")
    parser.add_argument("--encoder", help="the encoder that made it (default: the one its manifest names)")
    parser.add_argument("--text-encoder", help="the encoder of its passages, where that is another")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="option of the source of NAME=FOLDER; may be given several times")  # fmt: skip
    parser.add_argument("--text", type=int, metavar="N", help="text distractors per sample, by vectors (default: 8)")
    parser.add_argument("--lexical", type=int, metavar="N", help="text distractors per sample, by BM25 (default: 0)")
    parser.add_argument("--visual", type=int, metavar="N", help="image distractors per sample (default: 4)")
    parser.add_argument("--pages", default="", metavar="N[,SOURCE=N]",
                        help="pages opened for an image (default: 10; VLM-DeflectionBench: 10,evqa=5)")  # fmt: skip
    parser.add_argument("--modes", help="modes to choose from, with commas (default: all that find pages or passages)")
    parser.add_argument("--per-page", type=positive, metavar="N", help="at most N of a kind from one page, for variety")
    parser.add_argument("--own-page", choices=("keep", "drop"),
                        help="other passages of gold's own page, the hardest distractors (default: keep)")  # fmt: skip
    parser.add_argument("--answer-pages", choices=("keep", "drop"),
                        help="pictures of a page whose passages hold the answer (default: drop)")  # fmt: skip
    parser.add_argument("--same-image", choices=("look", "bytes"),
                        help="pictures are the same that look alike, or have equal bytes (default: look)")  # fmt: skip
    parser.add_argument("--diversity", type=float, metavar="LAMBDA",
                        help="pick by maximal marginal relevance: 1 is the plain order, 0.5 usual")  # fmt: skip
    parser.add_argument("--rows", choices=("triplet", "n-tuple", "labeled-pair", "labeled-list"),
                        help="also write rows.jsonl: texts to train with, as by mine_hard_negatives")  # fmt: skip
    parser.add_argument(
        "--negatives",
        choices=("both", "mined"),
        default="both",
        help="both: the samples' own before the mined ones (the default); mined: without their own",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="the first N samples only")
    parser.add_argument("--skip-bad", action="store_true", help="leave bad rows out, and count them")
    choice = parser.add_argument_group("which candidates, as in sentence-transformers' mine_hard_negatives")
    choice.add_argument("--range-min", type=int, metavar="R", help="pass over the first R")
    choice.add_argument("--range-max", type=int, metavar="R", help="take none behind rank R")
    choice.add_argument("--max-score", type=float, metavar="S", help="score at most S")
    choice.add_argument("--min-score", type=float, metavar="S", help="score at least S")
    choice.add_argument("--absolute-margin", type=float, metavar="M", help="score at least M less than gold")
    choice.add_argument(
        "--relative-margin", type=float, metavar="M", help="score at most (1 - M) of gold's; NV-Retriever: 0.05"
    )
    choice.add_argument(
        "--sampling", choices=("top", "random"), help="take the best candidates, or draw among them (default: top)"
    )
    choice.add_argument("--cross-encoder", metavar="MODEL", help="leave out passages that it scores like gold evidence")
    parser.add_argument("--seed", type=int, default=0, help="of --sampling random (default: 0)")
    parser.add_argument("--probes", type=positive, metavar="N",
                        help="inverted lists searched for each question, where the index has any (default: as many as "
                        "finding 99 %% of the exact neighbours takes, by 512 questions or more)")  # fmt: skip
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="print what mining.json holds")


def run(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.curation.mining.folder import Samples, mine_folder
    from demur.curation.mining.options import mining_options

    samples = Samples(args.samples, settings(args.set))
    pages = samples.pages(args.pages)
    options = mining_options(
        modes=tuple(args.modes.split(",")) if args.modes else None,
        pages=pages.pop("", None),
        negatives=args.negatives,
        **{name: getattr(args, name) for name in SHARED},
    )
    with TerminalProgress() as steps:
        mined = mine_folder(
            samples, args.index, args.out, options, pages=pages, encoder=args.encoder, text_encoder=args.text_encoder,
            engine=open_engine(args), probes=args.probes, limit=args.limit, skip_bad=args.skip_bad, rows=args.rows,
            seed=args.seed, steps=steps,
        )  # fmt: skip
    if args.json:
        sys.stdout.write(json.dumps(mined.summary, indent=1, ensure_ascii=False) + "\n")
        return 0
    for choice in mined.choices:
        print_recall(choice)
    sys.stdout.write("".join(f"{line}\n" for line in mined.probes))
    _print(mined.summary)
    sys.stdout.write("".join(f"{args.out / name}.jsonl\n" for name in ("samples", *(["rows"] if args.rows else []))))
    return 0


def print_recall(choice: Choice) -> None:
    """The table of a choice of modes, on the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=words(f"{choice.source} - recall of gold, 95 % intervals"), title_justify="left")
    table.add_column("mode", overflow="fold")
    for measure in choice.table[0][1] if choice.table else ():
        table.add_column(f"{measure.name} (n={measure.n})", justify="right")
    for mode, measures in choice.table:
        cells = ["-" if m.value is None else f"{m.value:.2f} ({m.low:.2f}-{m.high:.2f})" for m in measures]
        table.add_row(words(mode, style="bold" if mode == choice.mode else ""), *cells)
    Console().print(table)
    if choice.own:
        sys.stdout.write(
            f"{choice.own:,} of the images asked about lie in the index themselves: not counted as found\n"
        )


def _print(summary: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=words(f"{summary['samples']} samples, index {summary['index']}"), title_justify="left")
    table.add_column("distractors by mode / hits left out by reason")
    table.add_column("n", justify="right")
    for group in ("distractors", "left_out"):
        for name, n in summary[group].items():
            add_row(table, name, f"{n:,}")
        table.add_section()
    console.print(table)
    if summary["without_distractors"]:
        console.print(f"{len(summary['without_distractors'])} sample(s) got none; mining.json names them")
    for line in summary["skipped"]:
        sys.stderr.write(harmless(f"skipped: {line}\n"))
