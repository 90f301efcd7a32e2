"""What `demur run`, `demur sweep`, `demur asks` and `demur export` share: arguments, and the printing of results."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import (
    TRUST,
    add_batch_arguments,
    add_money_arguments,
    add_shared,
    json_object,
    low_and_high,
    positive,
)
from demur.cli._output import note, print_json, say, show_plan
from demur.core.errors import UsageError
from demur.core.text import command

if TYPE_CHECKING:
    from demur.evaluation.options import RunOptions


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
        type=low_and_high,
        metavar="LOW:HIGH",
        help="Realistic with LOW to HIGH distractors (0:10 is Figure 3 of VLM-DeflectionBench)",
    )
    parser.add_argument(
        "--modality",
        type=_grid,
        metavar="grid",
        help="Realistic by gold and distractor modality (its Table 5)",
    )
    parser.add_argument(
        "--positions",
        type=low_and_high,
        metavar="LOW:HIGH",
        help="gold at each position among the distractors",
    )


def _grid(text: str) -> bool:
    if text != "grid":
        raise argparse.ArgumentTypeError(f"expected grid, got {text[:40]!r}")
    return True


def run_options(args: argparse.Namespace, **values: Any) -> RunOptions:
    """The options of a command: of its arguments those that have a name of theirs, and these values."""
    from demur.evaluation.options import RunOptions

    names = RunOptions.model_fields.keys() & vars(args).keys()
    return RunOptions.of({**{name: getattr(args, name) for name in names}, **values})


def add_run_arguments(parser: argparse.ArgumentParser, *, sweeps: bool = False) -> None:
    """All arguments of a verb that asks systems the questions of a release."""
    add_question_arguments(parser, sweeps=sweeps)
    add_system_arguments(parser)
    add_batch_arguments(parser)
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
    add_shared(parser, "--json", json="print the results as JSON")


def add_system_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of every verb that asks systems: which ones, how, and what that may cost."""
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
    model.add_argument(
        "--decoding",
        choices=("vlm-deflectionbench",),
        help="that paper's decoding, in vLLM: temperature .2, top-p 1, repetition penalty 1.05; other options override it",
    )
    model.add_argument("--temperature", type=_temperature, help="sampling temperature")
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


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number from 0, got {text[:40]!r}")
    return value


def system_options(args: argparse.Namespace) -> dict[str, Any]:
    """Sampling and layout of models, as far as they were given."""
    from demur.scenarios.render import Layout

    options = {
        "decoding": args.decoding,
        "temperature": args.temperature,
        "top_p": args.top_p,
        "max_tokens": args.max_tokens,
        "seed": args.sampling_seed,
        "service_tier": args.service_tier,
        "extra": args.extra,
        "layout": None if args.images == "many" else Layout(args.images),
    }
    return {name: value for name, value in options.items() if value is not None}


def ask_and_print(args: argparse.Namespace, *, sweeps: bool = False) -> int:
    """Plan or run, then print the results; with ``sweeps`` also the tables of the sweeps."""
    from demur.api import evaluate_all, open_release, plan_evaluation
    from demur.core.progress import TerminalProgress

    options = run_options(args, system_options=system_options(args))
    if sweeps and not options.varies:
        cure = "add --distractors 0:4, --positions 0:4, --modality grid or --strictness all; or use 'demur run'"
        raise UsageError("nothing varies in this sweep", cure=cure)
    release = open_release(args.release, out=args.out, skip_bad=args.skip_bad)
    if args.plan:
        plan = plan_evaluation(release, args.systems, options, per_second=args.per_second)
        say(plan.model_dump_json()) if args.json else show_plan(plan)
        return 0
    with TerminalProgress() as steps:
        steps.stage("ask")
        runs = evaluate_all(release, args.systems, options, progress=steps)
        steps.stage("sum up")
        summary = runs.summary
    if args.json:
        print_json(summary, 1)
    else:
        runs.print(sweeps=sweeps)
        say(*runs.folders)
        report = command("report", *runs.folders, "--release", release.folder, "-o", "report.html")
        note(f"\nnext: {report}")
    note(*(f"demur: {line}" for line in runs.all_failed))
    return 1 if runs.all_failed else 0
