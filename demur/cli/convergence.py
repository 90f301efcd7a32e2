"""`demur convergence`."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import TRUST, budget_of, money, share
from demur.cli._output import print_json, say, show


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
    share(parser, "--skip-bad", "--concurrency", "--fresh", *TRUST, "--json")
    money(parser)


def run(args: argparse.Namespace) -> int:
    from demur.cli.build import print_estimate
    from demur.core.progress import TerminalProgress
    from demur.curation.build_folder import recipe_at
    from demur.curation.convergence import measure_convergence
    from demur.curation.estimate import estimate_convergence

    plan, base, skip_bad, out = recipe_at(args.recipe, args.out, skip_bad=args.skip_bad)
    if args.plan:
        planned = estimate_convergence(plan, out, base=base, skip_bad=skip_bad, prices=args.prices)
        print_estimate(planned, per_second=args.per_second, as_json=args.json)
        return 0
    with TerminalProgress() as steps:
        found = measure_convergence(
            plan,
            out,
            base=base,
            skip_bad=skip_bad,
            order=args.order,
            threshold=args.threshold / 100,
            steps=steps,
            concurrency=args.concurrency,
            budget=budget_of(args),
            prices=args.prices,
            fresh=args.fresh,
        )
    if args.json:
        print_json(found.model_dump(mode="json"))
        return 0
    from demur.reports.tables import Table, numbers, texts

    monitors = sorted(found.rounds[0].monitors)
    whole = all(one.kept is not None for one in found.rounds[1:])
    held = any(one.undecided for one in found.rounds)
    rates = [f"{m}: right / deflects / wrong %" for m in monitors]
    columns = (
        *texts("last gate"),
        *numbers("left", *["undecided"] * held, "removed %", *["kept in the end"] * whole, *rates),
    )
    rows = tuple(
        (
            one.gates[-1] if one.gates else "none",
            one.size,
            *[one.undecided] * held,
            _percent(one.changed),
            *[one.kept] * whole,
            *(
                " / ".join(map(_percent, (c.accuracy, c.deflection, c.hallucination)))
                for c in (one.monitors[m] for m in monitors)
            ),
        )
        for one in found.rounds
    )
    show(Table("rounds", "Gating models added one by one", columns, rows))
    if found.silent:
        say(f"no information from gates that answered nothing: {', '.join(found.silent)}")
    verdict = f"converged after {found.converged_after} gate(s)"
    if found.converged_after is None:
        verdict = "not converged: the last gate that answers still removes more, or there is no further gate"
    say(f"{verdict} (threshold {100 * found.threshold:g} % of what is left)")
    if whole:
        after = found.kept_converged_after
        when = f"converged after {after} gate(s)" if after is not None else "has not converged yet"
        say(f"the release (samples kept by the whole funnel) {when}")
    else:
        say(
            "samples kept in the end: unknown for some rounds; 'demur build --exhaustive' asks what is missing"
        )
    for p in found.survival:
        say(
            f"  up to strength {_percent(p.strength)} % ({p.gate}): {_percent(p.left)} % of the pool left "
            f"[{_percent(p.low)}, {_percent(p.high)}]"
        )
    say(out / "convergence.json")
    return 0


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
