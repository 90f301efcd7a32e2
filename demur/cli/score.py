"""`demur score`: the sources' own metrics over runs, beside the judge's verdicts."""

from __future__ import annotations

import argparse

from demur.cli._arguments import add_shared
from demur.cli._output import print_json, print_tables


def configure(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "runs", "--release")
    parser.add_argument(
        "--metric",
        default="",
        help="infoseek, evqa, webqa, mmdocrag, mragbench, viquae-em, viquae-f1 (default: each source's own)",
    )
    add_shared(parser, "--form", "--json", json="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the table; exit code 0."""
    from demur.reports.data import load
    from demur.reports.official import labels_table, official_table
    from demur.reports.tables import Count

    data = load(args.runs, args.release)
    table = labels_table(data) if not args.metric else official_table(data, args.metric)
    table = table if table.rows else official_table(data, args.metric)
    if args.json:
        names = [c.title.lower() for c in table.columns]
        records = [dict(zip(names, row, strict=True)) for row in table.rows]
        for row in records:
            if isinstance(n := row["n"], Count):
                row |= {"n": n.items, "repeats": n.repeats}
        print_json(records, 1)
    else:
        print_tables([table], args.form)
    return 0
