"""What `demur run`, `demur sweep`, `demur asks` and `demur export` share: arguments, and the printing of results."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import (
    TRUST,
    add_money_arguments,
    add_shared,
    budget_of,
    json_object,
    positive,
)
from demur.cli._output import note, print_json, say, show_plan
from demur.core.errors import UsageError
from demur.core.text import command, whole_number

if TYPE_CHECKING:
    from demur.evaluation.questions import Questions
    from demur.release import Release
    from demur.scenarios.contexts import Recipe


def add_question_arguments(parser: argparse.ArgumentParser, *, sweeps: bool = False) -> None:
    """Arguments for the release, its samples, scenarios and conditions; with ``sweeps`` also for sweeps."""
    parser.add_argument(
        "release",
        metavar="RELEASE",
        help="release folder (see 'demur demo' or 'demur build'), hf:OWNER/NAME, or a source's native files, such as "
        "'mmmu:/data/mmmu?split=dev'",
    )
    add_shared(
        parser,
        "--skip-bad",
        "--seed",
        *TRUST,
        skip_bad="of a source: leave out bad records, and count them",
    )
    parser.add_argument(
        "--limit",
        "--sample",
        type=int,
        metavar="N",
        help="ask only N samples, drawn at random by the seed",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        metavar="N",
        help="ask every question N times independently; reports take the mean, and count an item once (default: 1)",
    )
    parser.add_argument(
        "--text-only", action="store_true", help="ask only questions that need no images"
    )
    parser.add_argument(
        "--prompts", type=Path, metavar="DIR", help="your own prompt files in place of demur's"
    )
    parser.add_argument(
        "--scenarios",
        nargs="+",
        default=["all"],
        metavar="RECIPE",
        help="all, or recipes: parametric, oracle, 'realistic(k=3,pick=random)', 'adversarial(k=5,order=gold-last)' "
        "(default: all four, with --k distractors). For a system with its own retriever: whole, which is full, "
        "gold-removed and empty",
    )
    parser.add_argument(
        "--corpora",
        type=Path,
        metavar="DIR",
        help="folder of 'demur corpus export', for the scenarios full, gold-removed and empty",
    )
    parser.add_argument(
        "--k",
        type=int,
        default=2,
        metavar="N",
        help="distractors, where a recipe gives no number (default: %(default)s)",
    )
    parser.add_argument(
        "--strictness",
        nargs="+",
        default=["moderate"],
        metavar="CONDITION",
        help="none, soft, moderate, severe, or all; add +strict, +confidence or +reasoning (default: moderate)",
    )
    if not sweeps:
        return
    parser.add_argument(
        "--distractors",
        metavar="LOW:HIGH",
        help="Realistic with LOW to HIGH distractors (0:10 is Figure 3 of VLM-DeflectionBench)",
    )
    parser.add_argument(
        "--modality",
        choices=("grid",),
        help="Realistic by gold and distractor modality (its Table 5)",
    )
    parser.add_argument(
        "--positions", metavar="LOW:HIGH", help="gold at each position among the distractors"
    )


def open_release_of_command(args: argparse.Namespace, out: Path) -> Release:
    """Open the release; from a source, one is made in ``out``."""
    from demur.api import open_release

    return open_release(args.release, out=out, skip_bad=args.skip_bad)


def questions_of(args: argparse.Namespace) -> Questions:
    """The questions of a command."""
    from demur.evaluation.questions import Questions
    from demur.scenarios.conditions import Prompts, conditions
    from demur.scenarios.contexts import recipes

    recipes_asked = dict.fromkeys((*recipes(args.scenarios, k=args.k), *_swept_recipes(args)))
    return Questions(
        list(recipes_asked),
        conditions(args.strictness),
        args.seed,
        args.limit,
        args.text_only,
        args.repeat,
        args.corpora,
        Prompts(args.prompts),
    )


def _swept_recipes(args: argparse.Namespace) -> list[Recipe]:
    from demur.scenarios.contexts import grid, positions, sweep

    if "distractors" not in args:
        return []  # of a verb that sweeps nothing
    swept = list(
        sweep(*_low_and_high(args.distractors, "--distractors")) if args.distractors else ()
    )
    swept += grid(args.k) if args.modality else ()
    swept += (
        positions(*_low_and_high(args.positions, "--positions"), args.k) if args.positions else ()
    )
    return swept


def _low_and_high(text: str, option: str) -> tuple[int, int]:
    low, high = map(whole_number, text.partition(":")[::2])
    if low is None or high is None:
        raise UsageError(f"{option} {text[:80]!r}", cure="write LOW:HIGH, as in 0:10")
    return low, high


def add_run_arguments(parser: argparse.ArgumentParser, *, sweeps: bool = False) -> None:
    """All arguments of a verb that asks systems."""
    add_question_arguments(parser, sweeps=sweeps)
    parser.add_argument(
        "--system",
        "--systems",
        "--models",
        dest="systems",
        nargs="+",
        required=True,
        metavar="SYSTEM",
        help="systems to ask: reader, reader?min=0.55, model:openai/gpt-4o, model:http://host:8000/v1#name, "
        "answers:FILE, http:rag.yaml, python:module:function, module:Class; NAME=SYSTEM gives one a name; several "
        "get the same questions",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs"),
        help="folder for the run folders (default: %(default)s)",
    )
    parser.add_argument(
        "--judge",
        default="local",
        help="who grades: local (offline), cascade:MODEL (the model for what local is unsure of), model:MODEL, "
        "module:Class; a MODEL is openai/gpt-4o, http://host:8000/v1#name ...; to add sentences with "
        "which your product declines: local?phrases=FILE, cascade:MODEL?phrases=FILE (default: %(default)s)",
    )
    parser.add_argument(
        "--encoder",
        default="",
        help="for systems that read with embeddings (default: the release's)",
    )
    add_shared(
        parser,
        "--concurrency",
        "--fresh",
        fresh="ask everything again, and pay again; the earlier runs move to OUT/.earlier",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="ask nothing new after M minutes (exit 3); run again to continue",
    )
    model = parser.add_argument_group("models (systems such as model: and multi_agent:)")
    model.add_argument("--temperature", type=float, help="sampling temperature")
    model.add_argument("--top-p", type=float, help="nucleus sampling")
    model.add_argument("--max-tokens", type=positive, help="maximum length of an answer, in tokens")
    model.add_argument("--sampling-seed", type=int, help="seed sent to the server")
    model.add_argument(
        "--service-tier",
        choices=("flex",),
        help="flex: slower, and for half the price where the vendor has it (OpenAI)",
    )
    model.add_argument(
        "--extra",
        type=json_object,
        metavar="JSON",
        help="""more body fields, e.g. '{"top_k": 20}'""",
    )
    model.add_argument(
        "--images",
        choices=("many", "one", "none"),
        default="many",
        help="images the model accepts at once (default: %(default)s)",
    )
    add_money_arguments(parser)
    add_shared(parser, "--json", json="print the results as JSON")


def _model_options(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Name of a system that calls models -> its sampling and layout."""
    from demur.scenarios.render import Layout
    from demur.scenarios.systems import calls_models, name_of

    sampling = {
        "temperature": args.temperature,
        "top_p": args.top_p,
        "max_tokens": args.max_tokens,
        "seed": args.sampling_seed,
        "service_tier": args.service_tier,
        "extra": args.extra,
    }
    options = {k: v for k, v in sampling.items() if v is not None}
    options["layout"] = Layout(args.images)
    return {name_of(s): options for s in args.systems if calls_models(s)}


def ask_and_print(args: argparse.Namespace, *, sweeps: bool = False) -> int:
    """Plan or run, then print the results; with ``sweeps`` also the tables of the sweeps."""
    from demur.core.progress import TerminalProgress
    from demur.evaluation.asking import ask, planned
    from demur.evaluation.run_folder import all_failed
    from demur.reports.data import load
    from demur.reports.official import labels_table
    from demur.reports.terminal import print_data, summarised

    questions = questions_of(args)
    kinds = {r.scenario for r in questions.recipes}
    if sweeps and len(questions.recipes) == len(kinds) and len(questions.conditions) == 1:
        cure = "add --distractors 0:4, --positions 0:4, --modality grid or --strictness all; or use 'demur run'"
        raise UsageError("nothing varies in this sweep", cure=cure)
    release = open_release_of_command(args, args.out)
    common: dict[str, Any] = {"options": _model_options(args), "prices": args.prices}
    if args.plan:
        ledger = args.out / "calls.sqlite"
        plan = planned(
            release, args.systems, questions, ledger=ledger, per_second=args.per_second, **common
        )
        limits = _limits_not_decidable(questions, release, args.judge)
        if args.json:
            say(plan.model_copy(update={"notes": (*plan.notes, limits)}).model_dump_json())
        else:
            show_plan(plan, limits)
        return 0
    with TerminalProgress() as steps:
        steps.stage("ask")
        folders = ask(
            release,
            args.systems,
            args.out,
            questions,
            judge=args.judge,
            encoder_name=args.encoder,
            steps=steps,
            concurrency=args.concurrency,
            budget=budget_of(args),
            fresh=args.fresh,
            minutes=args.minutes,
            **common,
        )
        steps.stage("sum up")
        data = load(folders, release.folder)
    if args.json:
        print_json(summarised(data), 1)
    else:
        print_data(data, sweeps=sweeps)
        if (source_figures := labels_table(data)).rows:
            say(source_figures.render("terminal").removesuffix("\n"))
        say(*folders)
        note(
            f"\nnext: {command('report', *folders, '--release', release.folder, '-o', 'report.html')}"
        )
    silent_runs = all_failed(folders)
    note(*(f"demur: {line}" for line in silent_runs))
    return 1 if silent_runs else 0


def _limits_not_decidable(questions: Questions, release: Release, judge: str) -> str:
    """Which limits of `demur gate` the questions of a run cannot decide."""
    from demur.reports.gate import tightest_limits

    tasks = questions.tasks(list(release.samples()), release.sha256)
    questions_of_cell = Counter((t.ask.scenario, t.ask.recipe, t.ask.condition) for t in tasks)
    fewest = min(questions_of_cell.values()) // questions.repeat
    limits = ", ".join(
        f"--{side}-{rate} {'above' if side == 'min' else 'below'} {100 * share:.0f}%"
        for side, rate, _, share in tightest_limits(fewest, judge)
    )
    return (
        f"{fewest:,} questions of a scenario cannot decide {limits}; "
        "how many can: demur gate RELEASE --plan"
    )
