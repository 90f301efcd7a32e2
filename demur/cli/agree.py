"""`demur agree`: agreement of labellers and judges."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared, values_of_pairs
from demur.cli._output import print_json, print_tables, say


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="labelling folders, run folders, .jsonl or .csv files of item, label, annotator; files of verdicts",
    )
    parser.add_argument(
        "--stated",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="check published figures; exit 1 if they are impossible: agreement=0.911 kappa=0.9 n=100 labels=3 "
        "first=0.6,0.3,0.1 second=0.5,0.3,0.2",
    )
    add_shared(
        parser, "--seed", "--form", "--json", seed="seed of the resampling (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print figures; exit 1 where stated ones are impossible."""
    from demur.core.errors import UsageError
    from demur.reports.agree import agreement_of

    if not args.files and not args.stated:
        raise UsageError(
            "no labels given", cure="give a labelling folder, a run or a file; or --stated figures"
        )
    impossible_figures = _impossible(args.stated) if args.stated else []
    if impossible_figures or not args.files:
        if args.json:
            print_json({"impossible": impossible_figures})
        else:
            say(*(impossible_figures or ["nothing impossible"]))
        return int(bool(impossible_figures))
    tables, record = agreement_of(args.files, seed=args.seed)
    if args.json:
        print_json(record, 1)
    else:
        print_tables(tables, args.form)
    return 0


def _impossible(pairs: list[str]) -> list[str]:
    from demur.core.errors import UsageError
    from demur.judge.measures.agreement import Stated, impossible

    values = values_of_pairs(pairs, "NAME=VALUE")
    if len(values) < len(pairs):
        keys = [pair.partition("=")[0] for pair in pairs]
        raise UsageError(
            f"--stated: {max(keys, key=keys.count)} is given twice", cure="give each figure once"
        )
    allowed = {"agreement", "kappa", "n", "labels", "first", "second"}
    if values.keys() - allowed or "agreement" not in values:
        raise UsageError(
            f"--stated {' '.join(values)}",
            cure=f"give agreement, and any of: {', '.join(sorted(allowed - {'agreement'}))}",
        )
    try:
        rates = {
            k: tuple(float(v) for v in values[k].split(","))
            for k in ("first", "second")
            if k in values
        }
        rounding = _half_of_last(values["agreement"])
        rounding_shown = max(
            (min(map(_half_of_last, values[k].split(","))) for k in rates), default=0.0
        )
        stated = Stated(
            float(values["agreement"]),
            float(values["kappa"]) if "kappa" in values else None,
            int(values["n"]) if "n" in values else None,
            int(values["labels"]) if "labels" in values else None,
            rounding=rounding,
            rates_rounding=min(rounding_shown, max(rounding, 0.005)),
            **rates,
        )
    except ValueError as error:
        raise UsageError(
            f"--stated: {error}", cure="give shares between 0 and 1, such as agreement=0.911"
        ) from error
    return impossible(stated)


def _half_of_last(share: str) -> float:
    """Half of the last figure that is shown: what rounding may have taken."""
    return 0.5 * 10.0 ** -len(share.partition(".")[2])
