"""`demur convergence`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._arguments import budget_of, in_flight, money
from demur.cli._shown import add_row, words
from demur.core.text import plain


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe", type=Path, metavar="RECIPE_OR_FOLDER",
        help="recipe.yaml, or a build folder (of 'demur build' or 'demur rebuild'), which goes by its own recipe; "
        "the recipe's monitors are watched (else the gates themselves)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path,
        help="build folder: verdicts that it has are used, new ones are added (default: the folder that RECIPE is, or "
        "NAME-VERSION, as the recipe says)",
    )  # fmt: skip
    parser.add_argument("--order", nargs="+", metavar="GATE", help="in which gates are added (default: weakest first)")
    parser.add_argument(
        "--threshold", type=float, default=2.0, metavar="PERCENT",
        help="it has converged when each further gate takes less than this of what is left (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--skip-bad", action="store_true", help="leave bad records out, and count them")
    in_flight(parser)
    parser.add_argument(
        "--fresh", action="store_true", help="ask everything again, and pay again; what is there goes to build/.earlier"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    money(parser)


def run(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.curation.build_folder import recipe_at
    from demur.curation.convergence import measure_convergence
    from demur.curation.estimate import estimate_convergence

    plan, base, skip_bad, out = recipe_at(args.recipe, args.out, skip_bad=args.skip_bad)
    if args.plan:
        planned = estimate_convergence(
            plan, out, base=base, skip_bad=skip_bad, prices=args.prices, per_second=args.per_second
        )
        sys.stdout.write((planned.model_dump_json() if args.json else planned.text()) + "\n")
        return 0
    with TerminalProgress() as steps:
        found = measure_convergence(
            plan, out, base=base, skip_bad=skip_bad, order=args.order, threshold=args.threshold / 100, steps=steps,
            concurrency=args.concurrency, budget=budget_of(args),
            prices=args.prices, fresh=args.fresh,
        )  # fmt: skip
    if args.json:
        sys.stdout.write(json.dumps(found.model_dump(mode="json")) + "\n")
        return 0
    from rich.console import Console
    from rich.table import Table

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f}"

    console = Console()
    monitors = sorted(found.rounds[0].monitors)
    whole = all(one.kept is not None for one in found.rounds[1:])
    table = Table(title="Gates added one by one", title_justify="left")
    held = any(one.undecided for one in found.rounds)
    for head in (
        "last gate",
        "left",
        *(["undecided"] if held else []),
        "taken %",
        *(["kept in the end"] if whole else []),
        *(f"{m}: right / declines / wrong %" for m in monitors),
    ):
        table.add_column(words(head), justify="left" if head == "last gate" else "right")
    for one in found.rounds:
        cells = [one.monitors[m] for m in monitors]
        add_row(
            table, one.gates[-1] if one.gates else "none", f"{one.size:,}", *([f"{one.undecided:,}"] if held else []),
            percent(one.changed),
            *([] if not whole else ["-" if one.kept is None else f"{one.kept:,}"]),
            *(f"{percent(c.accuracy)} / {percent(c.deflection)} / {percent(c.hallucination)}" for c in cells),
        )  # fmt: skip
    console.print(table)
    if found.silent:
        console.print(
            words(f"answered nothing, and so shows nothing: {', '.join(found.silent)}"), style="bold", highlight=False
        )
    after = found.converged_after
    verdict = f"converged after {after} gate(s)"
    if after is None:
        verdict = "not converged: the last gate that answers still takes more, or there is no other"
    console.print(f"{verdict} (threshold {100 * found.threshold:g} % of what is left)", highlight=False)
    if whole:
        after = found.kept_converged_after
        when = f"after {after} gate(s)" if after is not None else "not yet"
        console.print(f"the release (samples kept by the whole funnel) converged: {when}", highlight=False)
    else:
        console.print(
            "samples kept in the end: not known for every round; 'demur build --exhaustive' asks what is missing"
        )
    for point in found.survival:
        console.print(
            f"  up to strength {percent(point.strength)} % ({plain(point.gate)}): {percent(point.left)} % of the pool "
            f"left [{percent(point.low)}, {percent(point.high)}]", highlight=False, markup=False,
        )  # fmt: skip
    for f in found.forecasts:
        who = (
            f"one more gate {f.kind}"
            if f.strength is None
            else f"one as strong as the strongest ({percent(f.strength)} %)"
        )
        console.print(
            f"{who} would take {f.taken:.0f} samples ({percent(f.share)} %), 95 % interval {f.low:.0f} to {f.high:.0f}",
            highlight=False,
        )  # fmt: skip
    sys.stdout.write(f"{out / 'convergence.json'}\n")
    return 0
