"""`demur pool build|show`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import job, positive, settings
from demur.cli._shown import add_row

if TYPE_CHECKING:
    from demur.curation.pool import PoolCounts

EXAMPLES = """examples:
  $ demur pool build webqa=/data/webqa mrag=/data/mrag --out pool
  $ demur pool build infoseek=/data/infoseek --set infoseek.split=val --skip-bad --documents --out pool
  $ demur pool build atlas --documents --out pool
  $ demur pool show pool"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="what", required=True, metavar="build|show")
    build = job(verbs, "build", "join sources into one pool: prefixed ids, images beside them, duplicates")
    build.add_argument(
        "sources", nargs="+", metavar="NAME[=FOLDER]", help="a source and its folder; the name alone for one that ships"
    )
    build.add_argument("--out", type=Path, required=True, help="the pool's folder")
    build.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME.KEY=VALUE",
        help="option of an adapter; may be given several times",
    )
    build.add_argument("--pins", action="append", default=[], metavar="NAME=FILE", help="expected hashes and counts")
    build.add_argument("--skip-bad", action="store_true", help="leave bad rows and defective samples out, and count")
    build.add_argument("--drop-duplicates", action="store_true", help="keep the first of samples that ask the same")
    build.add_argument("--documents", action="store_true", help="write the knowledge bases too")
    build.add_argument("--limit", type=positive, metavar="N", help="at most N samples and documents per source")
    build.add_argument("--json", action="store_true", help="print JSON")
    show = job(verbs, "show", "the statistics of a pool")
    show.add_argument("folder", type=Path, help="the pool's folder")
    show.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from demur.curation.pool import Pool
    from demur.curation.pool.named import build_named

    if args.what == "show":
        counts = Pool(args.folder).counts
    else:
        counts = build_named(
            args.sources, args.out, options=settings(args.set), pins=settings(args.pins), skip_bad=args.skip_bad,
            drop_duplicates=args.drop_duplicates, documents=args.documents, limit=args.limit,
        )  # fmt: skip
    if args.json:
        sys.stdout.write(counts.model_dump_json(indent=1) + "\n")
    else:
        _print(counts)
    return 0


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _print(counts: PoolCounts) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for name in ("source", "samples", "share", "query", "context", "gold", "neg.", "left out", "documents"):
        table.add_column(name, justify="left" if name in ("source", "query", "context") else "right")
    for row in counts.sources:
        share = f"{row.samples / counts.samples:.1%}" if counts.samples else "-"
        left = row.bad + row.duplicates
        add_row(
            table, row.source, f"{row.samples:,}", share, row.query, row.context, _mean(row.gold),
            _mean(row.negatives), f"{left:,}", f"{row.documents:,}",
        )  # fmt: skip
    table.add_row("total", f"{counts.samples:,}", "", "", "", _mean(counts.gold), _mean(counts.negatives), "", "")
    console.print(table)
    images = counts.with_image_negatives
    for name, value in (
        ("unique questions", f"{counts.unique_questions:,}"),
        ("unique query images", f"{counts.unique_images:,}"),
        ("mean question length (words)", _mean(counts.question_words)),
        ("samples whose negatives hold a picture", "-" if images is None else f"{images:.1%}"),
        ("unanswerable", f"{counts.unanswerable:,}"),
        ("duplicate pairs (duplicates.jsonl)", f"{counts.duplicate_pairs:,}"),
    ):
        console.print(f"  {value:>10}  {name}", highlight=False)
