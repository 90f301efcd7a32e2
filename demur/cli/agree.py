"""`demur agree`: agreement of labellers, and rates as labels correct them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from demur.cli._arguments import settings
from demur.cli._shown import harmless


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE",
        help="labelling folders, run folders, .jsonl or .csv files of item, label, annotator; files of verdicts",
    )  # fmt: skip
    parser.add_argument(
        "--correct", action="append", default=[], type=Path, metavar="RUN",
        help="also: rates of this run as the labels of the first FILE correct them",
    )  # fmt: skip
    parser.add_argument("--release", type=Path, metavar="DIR", help="of the run (default: the one beside it)")
    parser.add_argument("--finite", action="store_true", help="intervals for these answers, not for others like them")
    parser.add_argument(
        "--stated", nargs="+", default=[], metavar="KEY=VALUE",
        help="check figures that somebody states, exit 1 if they cannot be: agreement=0.911 kappa=0.9 n=100 labels=3 "
        "first=0.6,0.3,0.1 second=0.5,0.3,0.2",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the resamples (default: %(default)s)")
    parser.add_argument(
        "--form", choices=("terminal", "markdown", "latex", "csv"), default="terminal", help="of tables"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print figures; exit 1 where stated ones are impossible."""
    from demur.core.errors import UsageError
    from demur.reports.agree import agreement_of

    if not args.files and not args.stated:
        raise UsageError("no labels named", cure="give a labelling folder, a run or a file; or --stated figures")
    if args.stated and (wrong := _impossible(settings(args.stated))):
        sys.stdout.write(json.dumps({"impossible": wrong}) + "\n" if args.json else "".join(f"{w}\n" for w in wrong))
        return 1
    if args.stated and not args.files:
        sys.stdout.write(json.dumps({"impossible": []}) + "\n" if args.json else "nothing impossible\n")
        return 0
    tables, found = agreement_of(args.files, seed=args.seed)
    if args.correct:
        more, corrected = corrections(args.correct, args.files[0], args.release, args.finite)
        tables, found = tables + more, found | corrected
    write(tables, args.form, found if args.json else None)
    return 0


def corrections(
    runs: list[Path], labels: Path | None, release: Path | None, finite: bool, verdicts: str = ""
) -> tuple[list[Any], dict[str, Any]]:
    """Tables of corrected rates, and the same as JSON."""
    from demur.reports.agree import corrections_of
    from demur.reports.data import load

    return corrections_of(load(runs, release, verdicts=verdicts), labels, finite=finite)


def write(tables: list[Any], form: Any, found: dict[str, Any] | None) -> None:
    """Print tables, or ``found`` as JSON."""
    if found is not None:
        sys.stdout.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        return
    for table in tables:
        if table.missing:
            sys.stdout.write(harmless(f"{table.caption}: not filled. It takes {table.missing}.\n"))
        else:
            sys.stdout.write(harmless(table.render(form)))


def _impossible(given: dict[str, str]) -> list[str]:
    from demur.core.errors import UsageError
    from demur.judge.measures.agreement import Stated, impossible

    known = {"agreement", "kappa", "n", "labels", "first", "second"}
    if given.keys() - known or "agreement" not in given:
        raise UsageError(f"--stated {' '.join(given)}", cure=f"agreement, and of: {', '.join(sorted(known))}")
    try:
        rates = {k: tuple(float(v) for v in given[k].split(",")) for k in ("first", "second") if k in given}
        decimals = len(given["agreement"].partition(".")[2])
        stated = Stated(
            float(given["agreement"]), float(given["kappa"]) if "kappa" in given else None,
            int(given["n"]) if "n" in given else None, int(given.get("labels", 3)), rounding=0.5 * 10.0**-decimals,
            **rates,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(f"--stated: {error}", cure="shares between 0 and 1, such as agreement=0.911") from error
    return impossible(stated)
