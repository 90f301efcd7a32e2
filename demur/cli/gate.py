"""`demur gate`: pass or fail a run in CI."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared, positive
from demur.cli._output import print_json, say
from demur.core.errors import UsageError

EXAMPLE = "demur gate runs/mine --min-declined gold-removed=0.85 --min-accuracy full=0.6"
_LIMITS = {
    "--min-declined": "lowest share declined of the questions that it is right to decline, as in adversarial=85%%",
    "--max-hallucination": "highest hallucination allowed, as in full=60%% or 0.6",
    "--min-accuracy": "lowest accuracy allowed, as in full=60%% or 0.6",
    "--max-deflection": "highest deflection allowed, as in full=60%% or 0.6",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        f"example:\n  $ {EXAMPLE}\n  $ demur gate mine/release --plan --questions 40 --scenarios whole --min-declined gold-removed=0.85\n\n"
        "exit code: 0 pass, 1 fail, 2 usage, 4 undecided (0 with --allow-undecided), 5 the system is down"
    )
    parser.add_argument("run", type=Path, help="run folder; with --plan the release")
    for option, does in _LIMITS.items():
        parser.add_argument(option, nargs="+", default=[], metavar="SCENARIO=SHARE", help=does)
    parser.add_argument(
        "--min-joint",
        metavar="SHARE",
        help="lowest share of questions that are right in all scenarios of the run",
    )
    parser.add_argument(
        "--baseline", type=Path, metavar="RUN", help="fail when significantly worse than this run"
    )
    add_shared(parser, "--release", release="release of the run (default: the one beside it)")
    parser.add_argument(
        "--max-failed",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="share of failed answers above which the system counts as down (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-undecided",
        action="store_true",
        help="exit 0 where the limits cannot be decided; else that is red",
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="ask nothing: say which limits the questions of a release cannot decide",
    )
    parser.add_argument(
        "--questions",
        type=positive,
        metavar="N",
        help="with --plan: questions of each scenario (default: all of the release)",
    )
    parser.add_argument(
        "--scenarios",
        nargs="+",
        metavar="RECIPE",
        help="with --plan: what 'demur run' will ask; a limit on anything else is refused",
    )
    parser.add_argument(
        "--judge", default="local", help="with --plan: who will grade (default: %(default)s)"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write Markdown for a pull request"
    )
    add_shared(parser, "--json")


def run(args: argparse.Namespace) -> int:
    from demur.api import gate, open_release, plan_gate

    names = [option.removeprefix("--").replace("-", "_") for option in (*_LIMITS, "--min-joint")]
    demands = {name: getattr(args, name) for name in names}
    if args.plan:
        result = plan_gate(
            open_release(args.run),
            scenarios=args.scenarios,
            questions=args.questions,
            judge=args.judge,
            allow_undecided=args.allow_undecided,
            **demands,
        )
    elif args.questions or args.scenarios:
        raise UsageError("--questions and --scenarios are of --plan", cure="add --plan")
    else:
        result = gate(
            args.run,
            baseline=args.baseline,
            release=args.release,
            max_failed=args.max_failed,
            allow_undecided=args.allow_undecided,
            **demands,
        )
    result.write(junit=args.junit, markdown=args.markdown)
    if args.json:
        print_json(result.as_json())
    elif args.plan and not result.checks:
        say("plan: every limit can be decided")
    else:
        say(result.text().removesuffix("\n"))
    return result.exit_code
