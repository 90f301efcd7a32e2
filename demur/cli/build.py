"""`demur build`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import budget_of, in_flight, money
from demur.cli._shown import aligned, harmless, print_funnel, words
from demur.core.errors import UsageError

if TYPE_CHECKING:
    from demur.curation.build import Built
    from demur.curation.estimate import BuildEstimate


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", type=Path, help="recipe.yaml (docs/recipe.md explains every key)")
    common(parser)
    parser.add_argument(
        "--learn-from", type=Path, metavar="FOLDER",
        help="with --plan: another build (a pilot on part of the pool, an earlier one) whose verdicts give rates",
    )  # fmt: skip
    parser.add_argument(
        "--rate", action="append", default=[], metavar="STAGE=P",
        help="with --plan: probability of a right answer, as parametric=0.4 or gate/solvable=0.9 "
        "(default: what the build folder's journal shows, else an assumption, marked as such)",
    )  # fmt: skip


def common(parser: argparse.ArgumentParser) -> None:
    """What `demur build` and `demur rebuild` share."""
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER",
        help="of the build (default: NAME-VERSION, as the recipe says); one that was stopped goes on. The release goes "
        "to FOLDER/release, each source's index to FOLDER/index/SOURCE: what 'demur index build' made there is used",
    )  # fmt: skip
    parser.add_argument("--exhaustive", action="store_true", help="ask every gate everything; the release is the same")
    parser.add_argument(
        "--hurry", action="store_true", help="keep every endpoint busy, for a few per cent more calls; the same release"
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave bad records out, and count them")
    in_flight(parser)
    parser.add_argument(
        "--fresh", action="store_true", help="ask everything again, and pay again; what is there goes to build/.earlier"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    money(parser, "print calls, money and time by stage and gate")


def run(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.curation.build import curate
    from demur.curation.build_folder import recipe_at
    from demur.curation.estimate import estimate_build

    plan, base, skip_bad, out = recipe_at(args.recipe, args.out, skip_bad=args.skip_bad)
    if args.plan:
        rates = dict(map(_rate, args.rate))
        found = estimate_build(
            plan, out, base=base, skip_bad=skip_bad, rates=rates, prices=args.prices, learn_from=args.learn_from
        )
        print_estimate(found, per_second=args.per_second, as_json=args.json)
        return 0
    with TerminalProgress() as steps:
        built = curate(
            plan, out, base=base, skip_bad=skip_bad, steps=steps, exhaustive=args.exhaustive, hurry=args.hurry,
            budget=budget_of(args), prices=args.prices,
            concurrency=args.concurrency, fresh=args.fresh,
        )  # fmt: skip
    print_built(built, out, as_json=args.json)
    return 0


def _rate(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise UsageError(f"--rate {text!r}", cure="write it as parametric=0.4 or GATE/solvable=0.9") from error


def print_built(built: Built, out: Path, *, as_json: bool) -> None:
    """What a build made: funnel, questions asked, what was held out."""
    release = built.release
    one = release.manifest["stage_one"]
    if as_json:
        result = {
            "release": str(release.folder), "name": release.name, "version": release.version, "sha256": release.sha256,
            "counts": release.manifest["counts"], "stage_one": one, "asked": built.asked, "held": built.held,
            "verdicts_used": built.used, "reused": built.reused, "errors": dict(built.errors),
            "calls_of_algorithm1": built.algorithm1,
            "funnel": [s.model_dump() for s in built.funnel], "retest": release.manifest["retest"],
        }  # fmt: skip
        sys.stdout.write(json.dumps(result, sort_keys=True) + "\n")
        return
    from rich.console import Console

    from demur.release.evidence import telling

    console = Console()
    print_funnel(built.funnel)
    console.print(
        f"Stage I keeps {one['kept']:,} by 'no gate right', {one['kept_by_the_literal_rule']:,} by 'every gate "
        f"asked is wrong' (this build: {one['rule']})", highlight=False,
    )  # fmt: skip
    asked = ", ".join(f"{name} {n:,}" for name, n in sorted(built.asked.items())) or "nobody: every verdict was there"
    reused = f"; reused {built.reused:,} verdicts, the last of {built.since}" if built.reused else ""
    console.print(words(f"asked now: {asked}{reused}"))
    share = f" ({100 * built.used / built.algorithm1:.0f} %)" if built.algorithm1 else ""
    console.print(
        f"verdicts used: {built.used:,}; Algorithm 1 asks {built.algorithm1:,} for the same release{share}",
        highlight=False,
    )
    for line in telling(release.manifest.get("separation") or ()):
        sys.stdout.write(harmless(f"finding: {line}\n"))
    if built.held:
        console.print(
            f"[bold]held out: {built.held:,} samples[/] - ungraded by a gate; where no answer came, the same "
            "command asks again", highlight=False,
        )  # fmt: skip
    for reason, n in built.errors.items():
        console.print(words(f"  {n:,} answers were errors: {reason}"))
    sys.stdout.write(f"{release.folder}\n")
    sys.stderr.write(f"\nnext: demur release show {release.folder}; demur run {release.folder} --system ...\n")


def print_estimate(plan: BuildEstimate, *, per_second: float | None, as_json: bool) -> None:
    """The plan as a table, one line per gate and stage, or as JSON.

    Raises:
        UsageError: the rate of replies is not positive.
    """
    from demur.models.estimate import check_rate, duration

    check_rate(per_second)
    seconds = None if per_second is None else plan.seconds(per_second)
    if as_json:
        totals: dict[str, Any] = {c: plan.total(c) for c in ("naive", "at_most", "expected", "had", "tokens")}
        totals |= {c: plan.dollars(c) for c in ("money_expected", "money_at_most")} | {"seconds": seconds}
        sys.stdout.write(json.dumps(plan.model_dump(mode="json") | {"total": totals}) + "\n")
        return

    def money(value: float | None) -> str:
        return "unknown" if value is None else f"${value:,.2f}"

    head = ["stage", "gate", "P(right)", "", "Algorithm 1", "at most", "expected", "had", "tokens", "money", "at most"]
    rows = [
        [
            line.stage.value, line.gate, f"{line.rate:.2f}", line.rate_from, f"{line.naive:,}", f"{line.at_most:,}",
            f"{line.expected:,}", f"{line.had:,}", f"{line.tokens:,}", money(line.money_expected),
            money(line.money_at_most),
        ]
        for line in plan.lines
    ]  # fmt: skip
    rows.append([
        "total", "", "", "", *(f"{plan.total(c):,}" for c in ("naive", "at_most", "expected", "had", "tokens")),
        money(plan.dollars("money_expected")), money(plan.dollars("money_at_most")),
    ])  # fmt: skip
    lines = [f"{plan.samples:,} samples, up to {plan.candidates} distractors each; questions to gates:"]
    lines += aligned([head, *rows], left=(0, 1, 3))
    how = f"by {plan.verdicts:,} verdicts, 95 %" if plan.basis == "learnt" else "interval, see the note"
    cost = "" if plan.money is None else f"; to pay {money(plan.money[0])} to {money(plan.money[1])}"
    lines.append(f"calls: {plan.calls[0]:,} to {plan.calls[1]:,}{cost} ({how})")
    if seconds is not None:
        rate = f"time: {duration(seconds)} at {per_second:g} answers a second"
        lines.append(f"{rate}, for what models and functions are expected to be asked")
    stay = " to ".join(f"{100 * share:.1f}" for share in plan.kept_range)
    lines.append(f"expected to stay: {100 * plan.kept:.1f} % of the samples ({stay} %)")
    lines += [f"note: {note}" for note in plan.notes]
    sys.stdout.write(harmless("\n".join(lines) + "\n"))
