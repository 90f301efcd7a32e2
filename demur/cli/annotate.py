"""`demur annotate`: responses for people to label, and their labels taken back."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._shown import harmless


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("draw", help="a blind sheet of responses, as many of each scenario")
    one.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs")
    one.add_argument("-n", "--n", type=int, default=100, help="responses per system (default: %(default)s)")
    one.add_argument("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
    one.add_argument(
        "-o", "--out", type=Path, default=Path("annotate.csv"), metavar="FILE",
        help="sheet: .csv, or .jsonl; its key and images stand beside it (default: %(default)s)",
    )  # fmt: skip
    one.add_argument("--release", type=Path, metavar="DIR", help="the release (default: the one beside the first run)")
    other = verbs.add_parser("take", help="write the labels into the runs; agreement with the judge, Cohen's kappa")
    other.add_argument("sheet", type=Path, help="sheet whose column label says correct, incorrect or deflected")
    for sub in (one, other):
        sub.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Draw a sheet, or take its labels."""
    return _draw(args) if args.verb == "draw" else _take(args)


def _draw(args: argparse.Namespace) -> int:
    from demur.report.annotate import balance, draw_items, write_sheet
    from demur.report.data import load

    data = load(args.runs, args.release)
    items = draw_items(data, args.n, seed=args.seed)
    key = write_sheet(data, items, args.out)
    counts = balance(items)
    if args.json:
        sys.stdout.write(json.dumps({"sheet": str(args.out), "key": str(key), "items": counts}) + "\n")
        return 0
    for name, scenarios in counts.items():
        told = ", ".join(f"{scenario} {n}" for scenario, n in scenarios.items())
        sys.stdout.write(harmless(f"{name}: {sum(scenarios.values())} responses ({told})\n"))
        if max(scenarios.values()) - min(scenarios.values()) > 1:
            sys.stderr.write(harmless(f"note: {name} has too few graded answers of some scenario for a balance\n"))
    sys.stdout.write(f"{args.out}\n")
    sys.stderr.write(
        f"\nnext: fill in the column label (correct, incorrect or deflected), then: demur annotate take {args.out}\n"
        f"keep {key.name} beside it, unseen by whoever labels\n"
    )
    return 0


def _take(args: argparse.Namespace) -> int:
    from demur.records import Measure
    from demur.report.annotate import take_labels
    from demur.report.paper_tables import table7

    taken = take_labels(args.sheet)
    table = table7(taken.data)
    if args.json:
        rows = [
            {"system": name, "agreement": share.value, "kappa": kappa, "n": share.n}
            for name, share, kappa, _ in table.rows
            if isinstance(share, Measure)
        ]
        sys.stdout.write(json.dumps({"labels": taken.labels, "blank": taken.blank, "agreement": rows}) + "\n")
        return 0
    for path, n in taken.labels.items():
        sys.stdout.write(harmless(f"{n:,} labels to {path}/labels.jsonl\n"))
    if taken.blank:
        sys.stdout.write(f"{taken.blank:,} items have no label yet\n")
    sys.stdout.write(harmless(table.render("terminal")))
    return 0
