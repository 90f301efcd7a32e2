"""`demur build`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import (
    TRUST,
    add_batch_arguments,
    add_money_arguments,
    add_shared,
    options_of,
)
from demur.cli._output import note, print_json, say, show, show_funnel, words
from demur.core.errors import UsageError
from demur.core.text import command

if TYPE_CHECKING:
    from demur.curation.build.curate import Built
    from demur.curation.build.estimate import BuildEstimate
    from demur.reports.tables import Table


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", type=Path, help="recipe.yaml (docs/recipe.md explains every key)")
    add_common_arguments(parser)
    parser.add_argument(
        "--learn-from",
        type=Path,
        metavar="FOLDER",
        help="with --plan: another build (a pilot on part of the pool, an earlier one) to estimate rates from",
    )
    parser.add_argument(
        "--index-only",
        action="store_true",
        help="build the indexes alone, while no gating model is up; the same command without it uses them",
    )
    parser.add_argument(
        "--rate",
        action="append",
        default=[],
        metavar="STAGE=P",
        help="with --plan: probability of a right answer, as parametric=0.4 or gate/solvable=0.9 (default: the rate in "
        "the build folder's journal, else an assumption, marked as such); or items of a part of the indexes embedded per "
        "second, as passages=2000",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="with --plan: open the encoders and time them here, for hours and disk of the indexes",
    )


def add_common_arguments(
    parser: argparse.ArgumentParser, default: str = "the recipe's NAME-VERSION"
) -> None:
    """Arguments that `demur build` and `demur rebuild` share; ``default`` is the build folder's."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"build folder (default: {default}); an interrupted build continues. The release is "
        "FOLDER/release; each source's index is FOLDER/index/SOURCE, and one that is already there is used",
    )
    parser.add_argument(
        "--exhaustive",
        action="store_true",
        help="ask every gating model every question; the release stays the same",
    )
    parser.add_argument(
        "--hurry",
        action="store_true",
        help="keep every endpoint busy, for a few per cent more calls; the release stays the same",
    )
    add_shared(parser, "--engine", "--ray-address")
    add_shared(parser, "--skip-bad", "--concurrency", "--fresh", *TRUST, "--json")
    add_money_arguments(parser, "print calls, cost and time by stage and gating model")
    add_batch_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from demur.api import BuildOptions, build, plan_build, recipe_at

    if (args.rate or args.learn_from or args.measure) and not args.plan:
        raise UsageError(
            "--rate, --learn-from and --measure are for estimates",
            cure="add --plan, or leave them out",
        )
    if args.index_only:
        return _build_indexes(args)
    opened = recipe_at(args.recipe, args.out, skip_bad=args.skip_bad)
    if not args.plan:
        return print_built(build(opened, options_of(args, BuildOptions)), as_json=args.json)
    rates = dict(map(_rate, args.rate))
    estimate, lacking = plan_build(
        opened,
        rates=rates,
        learn_from=args.learn_from,
        prices=args.prices,
        batch=bool(args.batch),
        ready=args.recipe.is_file(),  # a folder's recipe may come from somebody else
        measure=args.measure,
    )
    print_plan(estimate, args)
    note(*(f"demur: a build would be refused: {line}" for line in lacking))
    return 2 if lacking else 0


def _build_indexes(args: argparse.Namespace) -> int:
    from demur.api import BuildOptions, build_indexes, recipe_at

    if args.plan:
        raise UsageError("--index-only calls no model", cure="leave --plan out")
    opened = recipe_at(args.recipe, args.out, skip_bad=args.skip_bad)
    say(*build_indexes(opened, options_of(args, BuildOptions)))
    return 0


def _rate(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise UsageError(
            f"--rate {text!r}", cure="write it as parametric=0.4 or GATE/solvable=0.9"
        ) from error


def print_built(built: Built, *, as_json: bool) -> int:
    """Print the result of a build: funnel, questions asked, samples left open; exit code 0."""
    release = built.release
    stage_one = release.manifest["stage_one"]
    if as_json:
        print_json(
            {
                "release": str(release.folder),
                "name": release.name,
                "version": release.version,
                "sha256": release.sha256,
                "counts": release.manifest["counts"],
                "stage_one": stage_one,
                "asked": built.questions_to_gate,
                "held": built.held,
                "verdicts_used": built.used,
                "reused": built.reused,
                "errors": dict(built.errors),
                "calls_of_algorithm1": built.algorithm1,
                "funnel": [s.model_dump() for s in built.funnel],
                "retest": release.manifest["retest"],
                "findings": release.findings,
            }
        )
        return 0
    from rich.console import Console

    console = Console()
    show_funnel(release)
    console.print(
        words(
            f"Stage I keeps {stage_one['kept']:,} by 'no gate right', {stage_one['kept_by_the_literal_rule']:,} by 'every gate "
            f"asked is wrong' (this build: {stage_one['rule']})"
        )
    )
    questions_asked = (
        ", ".join(f"{name} {n:,}" for name, n in sorted(built.questions_to_gate.items()))
        or "nobody: every verdict was there"
    )
    reused = (
        f"; reused {built.reused:,} verdicts, the latest from {built.since}" if built.reused else ""
    )
    console.print(words(f"asked in this build: {questions_asked}{reused}"))
    share = f" ({100 * built.used / built.algorithm1:.0f} %)" if built.algorithm1 else ""
    console.print(
        words(
            f"verdicts used: {built.used:,}; Algorithm 1 asks {built.algorithm1:,} for the same release{share}"
        )
    )
    say(*(f"finding: {line}" for line in release.findings))
    if built.held:
        console.print(
            words(f"left open: {built.held:,} samples", style="bold"),
            "of which a gating model's answer is missing; the same command asks again",
            highlight=False,
        )
    for reason, n in built.errors.items():
        console.print(words(f"  {n:,} answers were errors: {reason}"))
    say(release.folder)
    show_command, run_command = (
        command("release", "show", release.folder),
        command("run", release.folder, "--system", "..."),
    )
    note(f"\nnext: {show_command}; {run_command}")
    return 0


def print_plan(plan: BuildEstimate, args: argparse.Namespace) -> None:
    """Print the plan of a build, one line per gate and stage.

    Raises:
        UsageError: the rate of replies is not positive.
    """
    seconds = plan.seconds(args.per_second)
    if args.json:
        print_json(plan.as_json(seconds))
    else:
        _print_estimate(plan, seconds, args.per_second)


def _bases_table(plan: BuildEstimate) -> Table:
    from demur.reports.tables import Table, numbers, texts

    parts = list(dict.fromkeys(part for base in plan.bases for part in base.embedded))
    columns = (
        *texts("source"),
        *numbers("documents", "pages", "passages", *(f"embed {part}" for part in parts)),
        *numbers("GB", decimals=2),
        *numbers("hours", decimals=2),
    )
    rows = tuple(
        (
            base.source,
            base.documents,
            base.pages,
            base.passages,
            *(base.embedded.get(part) for part in parts),
            base.gigabytes,
            base.hours,
        )
        for base in plan.bases
    )
    caption = "Knowledge bases: what they hold, what is embedded at most, disk, hours of encoders"
    return Table("bases", caption, columns, rows)


def _print_estimate(plan: BuildEstimate, seconds: float | None, per_second: float | None) -> None:
    from demur.core.text import duration
    from demur.reports.tables import Cell, Table, numbers, texts

    def money_text(value: float | None) -> str:
        return "unknown" if value is None else f"${value:,.2f}"

    columns = (
        *texts("stage", "gate"),
        *numbers("P(right)", decimals=2),
        *texts("by"),
        *numbers("Algorithm 1", "at most", "expected", "had", "tokens", "money", "money at most"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            line.stage.value,
            line.gate,
            line.rate,
            line.rate_from,
            *line.counts,
            money_text(line.money_expected),
            money_text(line.money_at_most),
        )
        for line in plan.lines
    ]
    paid = plan.dollars("money_expected"), plan.dollars("money_at_most")
    rows.append(("total", "", None, "", *plan.totals.values(), *map(money_text, paid)))
    caption = f"{plan.samples:,} samples, up to {plan.candidates} distractors each; questions to the gating models"
    show(Table("plan", caption, columns, tuple(rows), frozenset({len(plan.lines)})))
    if plan.bases:
        show(_bases_table(plan))
    basis = (
        f"from {plan.verdicts:,} verdicts, 95 %"
        if plan.basis == "learnt"
        else "interval, see the note"
    )
    cost = (
        ""
        if plan.money is None
        else f"; to pay {money_text(plan.money[0])} to {money_text(plan.money[1])}"
    )
    lines = [f"calls: {plan.calls[0]:,} to {plan.calls[1]:,}{cost} ({basis})"]
    if seconds is not None:
        rate = f"time: {duration(seconds)} at {per_second:g} answers per second"
        lines.append(f"{rate}, for the questions expected to go to models and functions")
    kept_shares = " to ".join(f"{100 * share:.1f}" for share in plan.kept_range)
    lines.append(f"expected to stay: {100 * plan.kept:.1f} % of the samples ({kept_shares} %)")
    lines += [f"note: {note}" for note in plan.notes]
    say(*lines)
