"""`demur mine`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import TRUST, add_shared, open_engine, positive
from demur.cli._output import note, print_json, say, show

if TYPE_CHECKING:
    from demur.retrieval.recall import Choice

EPILOG = """examples:
  $ demur mine pool --index index --encoder offline --out mined
  $ demur mine atlas --index index --text 10 --lexical 5 --relative-margin 0.05 --out mined
  $ demur mine pool --index index --modes image-to-title+summary,text-to-text --pages 5 --out mined

The folder holds samples.jsonl (with their distractors), drops.jsonl (what was left out, and why) and mining.json. A
recipe uses it like any source: {name: pool, path: mined}, with --trust-code where
its samples come from another folder; it keeps these distractors and mines no others."""

FLAGS = (
    "text",
    "lexical",
    "visual",
    "same_image",
    "diversity",
    "absolute_margin",
    "relative_margin",
    "max_score",
    "cross_encoder",
    "sampling",
)
"""Arguments with the same name in `demur.curation.mining.options.MiningOptions`, which holds their defaults."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "samples", help="a pool folder, or a source: NAME:FOLDER?option=value, or atlas"
    )
    parser.add_argument(
        "--index", type=Path, required=True, help="index folder ('demur index build')"
    )
    parser.add_argument(
        "--encoder", help="encoder of the index (default: the one its manifest names)"
    )
    parser.add_argument("--text-encoder", help="encoder of its passages, where that is another one")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument(
        "--text", type=int, metavar="N", help="text distractors per sample, by vectors (default: 8)"
    )
    parser.add_argument(
        "--lexical", type=int, metavar="N", help="text distractors per sample, by BM25 (default: 0)"
    )
    parser.add_argument(
        "--visual", type=int, metavar="N", help="image distractors per sample (default: 4)"
    )
    parser.add_argument(
        "--pages",
        default="",
        metavar="N[,SOURCE=N]",
        help="pages retrieved for an image (default: 10; VLM-DeflectionBench: 10,evqa=5)",
    )
    parser.add_argument(
        "--modes",
        help="retrieval modes to choose from, separated by commas (default: all that find pages or passages)",
    )
    parser.add_argument(
        "--same-image",
        choices=("look", "bytes"),
        help="treat images as the same when they look alike, or when their bytes are equal (default: look)",
    )
    parser.add_argument(
        "--diversity",
        type=float,
        metavar="LAMBDA",
        help="select by maximal marginal relevance: 1 keeps the plain order, 0.5 is common",
    )
    parser.add_argument(
        "--options",
        type=Path,
        metavar="FILE",
        help="YAML of further options, as under retrieval: in a recipe (see 'demur build --help'): per_page, own_page, "
        "answer_pages, range_min, range_max, min_score, max_score",
    )
    parser.add_argument(
        "--rows",
        choices=("triplet", "n-tuple", "labeled-pair", "labeled-list"),
        help="also write rows.jsonl: training texts, as mine_hard_negatives makes them",
    )
    parser.add_argument(
        "--negatives",
        choices=("both", "mined"),
        default="both",
        help="both: the samples' own negatives before the mined ones; mined: only those (default: %(default)s)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="use only the first N samples")
    add_shared(parser, "--skip-bad")
    choice = parser.add_argument_group("filters, as in sentence-transformers' mine_hard_negatives")
    choice.add_argument(
        "--absolute-margin", type=float, metavar="M", help="score at least M below the gold's"
    )
    choice.add_argument(
        "--relative-margin",
        type=float,
        metavar="M",
        help="score at most (1 - M) of the gold's; NV-Retriever: 0.05",
    )
    choice.add_argument(
        "--max-score", type=float, metavar="S", help="leave out passages that score higher"
    )
    choice.add_argument(
        "--cross-encoder",
        metavar="MODEL",
        help="order the passages found by a cross-encoder, whose scores the filters here are then about",
    )
    choice.add_argument(
        "--sampling",
        choices=("top", "random"),
        help="take the best candidates, or draw among them (default: top)",
    )
    add_shared(parser, "--seed", seed="seed of --sampling random (default: %(default)s)")
    parser.add_argument(
        "--probes",
        type=positive,
        metavar="N",
        help="inverted lists searched per question, where the index has any (default: as many as find 99 %% of the "
        "exact neighbours of 512 questions or more)",
    )
    add_shared(
        parser,
        "--engine",
        "--ray-address",
        *TRUST,
        "--json",
        json="print the contents of mining.json",
    )


def run(args: argparse.Namespace) -> int:
    from demur.api import Samples, mine_folder, mining_options
    from demur.core.progress import TerminalProgress

    samples = Samples(args.samples)
    pages = samples.pages(args.pages)
    flags = {name: getattr(args, name) for name in FLAGS}
    options = mining_options(
        args.options,
        modes=tuple(args.modes.split(",")) if args.modes else None,
        pages=pages.pop("", None),
        negatives=args.negatives,
        **flags,
    )
    with TerminalProgress() as steps:
        mined = mine_folder(
            samples,
            args.index,
            args.out,
            options,
            pages=pages,
            encoder=args.encoder,
            text_encoder=args.text_encoder,
            engine=open_engine(args),
            probes=args.probes,
            limit=args.limit,
            skip_bad=args.skip_bad,
            rows=args.rows,
            seed=args.seed,
            steps=steps,
        )
    if args.json:
        print_json(mined.summary, 1)
        return 0
    for choice in mined.choices:
        print_recall(choice)
    say(*mined.probes)
    _print(mined.summary)
    say(*(args.out / f"{name}.jsonl" for name in ("samples", *(["rows"] if args.rows else []))))
    return 0


def print_recall(choice: Choice) -> None:
    """Print the recall of each retrieval mode, the chosen one marked."""
    from demur.reports.tables import Cell, Table, numbers, texts

    heads = [f"{m.name} (n={m.n})" for m in (choice.table[0][1] if choice.table else ())]
    columns = (*texts("mode"), *numbers(*heads, interval=True, decimals=2, percent=False))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"* {mode}" if mode == choice.mode else f"  {mode}", *measures)
        for mode, measures in choice.table
    )
    caption = f"{choice.source}: recall of gold, 95 % intervals; *: the chosen mode"
    show(Table("recall", caption, columns, rows))
    if choice.own_images_indexed:
        say(
            f"{choice.own_images_indexed:,} query images are in the index themselves: not counted as found"
        )


def _print(summary: dict[str, Any]) -> None:
    from demur.reports.tables import Table, numbers, texts

    say(f"{summary['samples']} samples, index {summary['index']}")
    for caption, key in (("Distractors by mode", "distractors"), ("Hits left out", "left_out")):
        columns = (*texts("mode" if key == "distractors" else "reason"), *numbers("n"))
        show(Table(key, caption, columns, tuple(summary[key].items())))
    if summary["without_distractors"]:
        say(f"{len(summary['without_distractors'])} sample(s) got none; mining.json names them")
    note(*(f"skipped: {line}" for line in summary["skipped"]))
