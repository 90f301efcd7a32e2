"""`demur convergence`."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import TRUST, add_money_arguments, add_shared, options_of
from demur.cli._output import print_json, say, show
from demur.cli.build import print_plan


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        type=Path,
        metavar="RECIPE_OR_FOLDER",
        help="recipe.yaml, or a build folder (of 'demur build' or 'demur rebuild') with its own recipe; "
        "measures the recipe's monitors, or its gating models where it names none",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="build folder whose verdicts are reused and extended (default: the given folder, or the recipe's "
        "NAME-VERSION)",
    )
    parser.add_argument(
        "--order",
        nargs="+",
        metavar="GATE",
        help="order in which to add the gating models (default: weakest first)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=2.0,
        metavar="PERCENT",
        help="converged when each further gating model removes less than this share of what is left "
        "(default: %(default)s)",
    )
    add_shared(parser, "--skip-bad", "--concurrency", "--fresh", *TRUST, "--json")
    add_money_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from demur.api import BuildOptions, converge, estimate_convergence, recipe_at
    from demur.reports.tables import Table, numbers, texts

    opened = recipe_at(args.recipe, args.out, skip_bad=args.skip_bad)
    if args.plan:
        recipe, base, skip_bad, out = opened
        planned = estimate_convergence(
            recipe, out, base=base, skip_bad=skip_bad, prices=args.prices
        )
        print_plan(planned, args)
        return 0
    convergence = converge(
        opened, options_of(args, BuildOptions), order=args.order, threshold=args.threshold / 100
    )
    if args.json:
        print_json(convergence.model_dump(mode="json"))
        return 0
    monitors = sorted(convergence.rounds[0].monitors)
    is_kept_known = all(gate_round.kept is not None for gate_round in convergence.rounds[1:])
    has_undecided = any(gate_round.undecided for gate_round in convergence.rounds)
    rates = [f"{m}: right / deflects / wrong %" for m in monitors]
    columns = (
        *texts("last gate"),
        *numbers(
            "left",
            *["undecided"] * has_undecided,
            "removed %",
            *["kept in the end"] * is_kept_known,
            *rates,
        ),
    )
    rows = tuple(
        (
            gate_round.gates[-1] if gate_round.gates else "none",
            gate_round.size,
            *[gate_round.undecided] * has_undecided,
            _percent(gate_round.changed),
            *[gate_round.kept] * is_kept_known,
            *(
                " / ".join(map(_percent, (c.accuracy, c.deflection, c.hallucination)))
                for c in (gate_round.monitors[m] for m in monitors)
            ),
        )
        for gate_round in convergence.rounds
    )
    show(Table("rounds", "Gating models added one by one", columns, rows))
    if convergence.silent:
        say(f"no information from gates that answered nothing: {', '.join(convergence.silent)}")
    verdict = f"converged after {convergence.converged_after} gate(s)"
    if convergence.converged_after is None:
        verdict = "not converged: the last gate that answers still removes more, or there is no further gate"
    say(f"{verdict} (threshold {100 * convergence.threshold:g} % of what is left)")
    if is_kept_known:
        after = convergence.kept_converged_after
        convergence_text = (
            f"converged after {after} gate(s)" if after is not None else "has not converged yet"
        )
        say(f"the release (samples kept by the whole funnel) {convergence_text}")
    else:
        say(
            "samples kept in the end: unknown for some rounds; 'demur build --exhaustive' asks what is missing"
        )
    for p in convergence.survival:
        say(
            f"  up to strength {_percent(p.strength)} % ({p.gate}): {_percent(p.left)} % of the pool left "
            f"[{_percent(p.low)}, {_percent(p.high)}]"
        )
    say(opened.work / "convergence.json")
    return 0


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
