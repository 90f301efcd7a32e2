"""`demur pool build|show`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import TRUST, add_shared, job, positive
from demur.cli._output import say, show

if TYPE_CHECKING:
    from demur.pools.counts import PoolCounts

EXAMPLES = """examples:
  $ demur pool build webqa:/data/webqa mrag:/data/mrag --out pool
  $ demur pool build 'infoseek:/data/infoseek?split=val' --skip-bad --documents --out pool
  $ demur pool build atlas --documents --out pool
  $ demur pool show pool"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="what", required=True, metavar="build|show")
    build = job(verbs, "build", "join sources into one pool: prefixed ids, images, duplicates")
    build.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="NAME:FOLDER?option=value; only the name for a built-in one",
    )
    build.add_argument("--out", type=Path, required=True, help="pool folder")
    add_shared(
        build, "--skip-bad", skip_bad="leave out bad rows and defective samples, and count them"
    )
    build.add_argument(
        "--drop-duplicates", action="store_true", help="keep the first of equal questions"
    )
    build.add_argument("--documents", action="store_true", help="also write the knowledge bases")
    build.add_argument(
        "--limit", type=positive, metavar="N", help="at most N samples and documents per source"
    )
    show = job(verbs, "show", "print the statistics of a pool")
    show.add_argument("folder", type=Path, help="pool folder")
    add_shared(build, *TRUST, "--json")
    add_shared(show, "--json")


def run(args: argparse.Namespace) -> int:
    from demur.api import Pool, build_pool

    if args.what == "show":
        counts = Pool(args.folder).counts
    else:
        counts = build_pool(
            args.sources,
            args.out,
            skip_bad=args.skip_bad,
            drop_duplicates=args.drop_duplicates,
            documents=args.documents,
            limit=args.limit,
        )
    if args.json:
        say(counts.model_dump_json(indent=1))
    else:
        _print(counts)
    return 0


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _print(counts: PoolCounts) -> None:
    from demur.reports.tables import Table, numbers, texts

    columns = (
        *texts("source"),
        *numbers("samples", "share"),
        *texts("query", "context", wraps=True),
        *numbers("gold", "neg.", "left out", "documents"),
    )
    rows = [
        (
            row.source,
            row.samples,
            f"{row.samples / counts.samples:.1%}" if counts.samples else None,
            row.query,
            row.context,
            row.gold,
            row.negatives,
            row.bad + row.duplicates,
            row.documents,
        )
        for row in counts.sources
    ]
    total = ("total", counts.samples, "", "", "", counts.gold, counts.negatives, "", "")
    show(Table("pool", "Samples by source", columns, (*rows, total), frozenset({len(rows)})))
    images = counts.with_image_negatives
    for name, value in (
        ("unique questions", f"{counts.unique_questions:,}"),
        ("unique query images", f"{counts.unique_images:,}"),
        ("mean question length (words)", _mean(counts.question_words)),
        ("samples with an image among their negatives", "-" if images is None else f"{images:.1%}"),
        ("unanswerable", f"{counts.unanswerable:,}"),
        ("duplicate pairs (duplicates.jsonl)", f"{counts.duplicate_pairs:,}"),
    ):
        say(f"  {value:>10}  {name}")
