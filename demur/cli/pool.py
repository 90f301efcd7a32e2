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
    from demur.core.store import read_json
    from demur.curation.pool import Pool, PoolCounts

    if args.what == "show":
        counts = PoolCounts.model_validate(read_json(Pool(args.folder).root / "pool.json")["counts"])
    else:
        counts = _build(args)
    if args.json:
        sys.stdout.write(counts.model_dump_json(indent=1) + "\n")
    else:
        _print(counts)
    return 0


def _build(args: argparse.Namespace) -> PoolCounts:
    from demur.core.errors import BadInput, UsageError
    from demur.curation.pool import build
    from demur.curation.sources import open_source
    from demur.curation.sources.cards import mismatches, read_pins

    folders: dict[str, Path | None] = {}
    for word in args.sources:
        name, mark, folder = word.partition("=")
        folders[name] = Path(folder) if mark else None
    options: dict[str, dict[str, str]] = {name: {} for name in folders}
    for key, value in settings(args.set).items():
        name, _, option = key.rpartition(".")
        if name not in options:
            raise UsageError(
                f"--set {key}: no source {name!r} in this pool",
                cure=f"known: {', '.join(options)}; write NAME.KEY=VALUE",
            )
        options[name][option] = value
    sources = {name: open_source(name, folder, options=options[name]) for name, folder in folders.items()}
    for name, file in settings(args.pins).items():
        if name not in folders:
            raise UsageError(f"--pins {name}: no such source in this pool", cure=f"known: {', '.join(folders)}")
        broken = mismatches(sources[name].root, read_pins(Path(file)))
        if broken:
            raise BadInput([f"{name}: {line}" for line in broken], cure="fetch the files again, or correct the pins")
    return build(
        list(sources.values()),
        args.out,
        skip_bad=args.skip_bad,
        drop_duplicates=args.drop_duplicates,
        documents=args.documents,
        limit=args.limit,
    )


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
            table, row.source, f"{row.samples:,}", share, row.query, row.context, f"{row.gold:.1f}",
            f"{row.negatives:.1f}", f"{left:,}", f"{row.documents:,}",
        )  # fmt: skip
    table.add_row("total", f"{counts.samples:,}", "", "", "", f"{counts.gold:.1f}", f"{counts.negatives:.1f}", "", "")
    console.print(table)
    images = counts.with_image_negatives
    for name, value in (
        ("unique questions", f"{counts.unique_questions:,}"),
        ("unique query images", f"{counts.unique_images:,}"),
        ("mean question length (words)", f"{counts.question_words:.1f}"),
        ("samples whose negatives hold a picture", "-" if images is None else f"{images:.1%}"),
        ("unanswerable", f"{counts.unanswerable:,}"),
        ("duplicate pairs (duplicates.jsonl)", f"{counts.duplicate_pairs:,}"),
    ):
        console.print(f"  {value:>10}  {name}", highlight=False)
