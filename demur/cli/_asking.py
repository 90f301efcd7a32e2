"""What `demur run`, `demur sweep`, `demur asks` and `demur export` share: arguments, and the printing of results."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import budget_of, money, settings, share
from demur.cli._output import note, print_json, say
from demur.core.errors import UsageError
from demur.core.text import whole_number

if TYPE_CHECKING:
    from demur.evaluation.questions import Questions
    from demur.release import Release
    from demur.scenarios.conditions import Condition
    from demur.scenarios.contexts import Recipe


def what_is_asked(parser: argparse.ArgumentParser) -> None:
    """Arguments for the release and its samples."""
    parser.add_argument(
        "release", metavar="RELEASE",
        help="release folder (see 'demur demo' or 'demur build'), hf:OWNER/NAME, or SOURCE=FOLDER: a source's native "
        "files, such as simpleqa=/data/simpleqa",
    )  # fmt: skip
    share(
        parser, "--set", "--skip-bad", "--seed", set="with SOURCE=FOLDER: option of its adapter",
        skip_bad="with SOURCE=FOLDER: leave out bad records, and count them",
    )  # fmt: skip
    parser.add_argument(
        "--limit", "--sample", type=int, metavar="N", help="ask only N samples, drawn at random by the seed"
    )
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N",
        help="ask every question N times independently; reports take the mean, and count an item once (default: 1)",
    )  # fmt: skip
    parser.add_argument("--text-only", action="store_true", help="ask only questions that need no images")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="your own prompt files in place of demur's")


def opened(args: argparse.Namespace, out: Path) -> Release:
    """Open the release; from a source, one is made in ``out``."""
    from demur.api import open_release

    return open_release(args.release, out=out, options=settings(args.set), skip_bad=args.skip_bad)


def scenarios(parser: argparse.ArgumentParser) -> None:
    """Arguments for scenarios and conditions."""
    parser.add_argument(
        "--scenarios", nargs="+", default=["all"], metavar="RECIPE",
        help="all, or recipes: parametric, oracle, 'realistic(k=3,pick=random)', 'adversarial(k=5,order=gold-last)' "
        "(default: all four, with --k distractors). For a system with its own retriever: whole, which is full, "
        "gold-removed and empty",
    )  # fmt: skip
    parser.add_argument(
        "--corpora", type=Path, metavar="DIR",
        help="folder of 'demur corpus export', for the scenarios full, gold-removed and empty",
    )  # fmt: skip
    parser.add_argument(
        "--k",
        type=int,
        default=2,
        metavar="N",
        help="distractors, where a recipe gives no number (default: %(default)s)",
    )
    parser.add_argument(
        "--strictness", nargs="+", default=["moderate"], metavar="CONDITION",
        help="none, soft, moderate, severe, or all; add +strict, +confidence or +reasoning (default: moderate)",
    )  # fmt: skip


def sweeps(parser: argparse.ArgumentParser) -> None:
    """Arguments for sweeps."""
    parser.add_argument(
        "--distractors", metavar="LOW:HIGH",
        help="Realistic with LOW to HIGH distractors (0:10 is Figure 3 of VLM-DeflectionBench)",
    )  # fmt: skip
    parser.add_argument("--modality", choices=("grid",), help="Realistic by gold and distractor modality (its Table 5)")
    parser.add_argument("--positions", metavar="LOW:HIGH", help="gold at each position among the distractors")


def named_recipes(args: argparse.Namespace) -> list[Recipe]:
    """The recipes of ``--scenarios``."""
    from demur.scenarios.contexts import WHOLE, recipe, standard

    if args.scenarios == ["all"]:
        return list(standard(args.k))
    texts = [one for text in args.scenarios for one in (WHOLE if text == "whole" else (text,))]
    return [recipe(text, k=args.k) for text in texts]


def swept_recipes(args: argparse.Namespace) -> list[Recipe]:
    """The recipes of ``--distractors``, ``--modality`` and ``--positions``."""
    from demur.scenarios.contexts import grid, positions, sweep

    found: list[Recipe] = []
    if args.distractors:
        found += sweep(*_span(args.distractors, "--distractors"))
    if args.modality:
        found += grid(args.k)
    if args.positions:
        found += positions(*_span(args.positions, "--positions"), args.k)
    return found


def conditions_of(args: argparse.Namespace) -> list[Condition]:
    """The conditions of ``--strictness``."""
    from demur.scenarios.conditions import STRICTNESS, condition

    return [condition(text) for text in (STRICTNESS if args.strictness == ["all"] else args.strictness)]


def questions_of(args: argparse.Namespace, recipes: Sequence[Recipe], conditions: Sequence[Condition]) -> Questions:
    """The questions of a command."""
    from demur.evaluation.questions import Questions
    from demur.scenarios.conditions import Prompts

    return Questions(
        recipes, conditions, args.seed, args.limit, args.text_only, args.repeat, args.corpora, Prompts(args.prompts)
    )


def _span(text: str, option: str) -> tuple[int, int]:
    low, high = map(whole_number, text.partition(":")[::2])
    if low is None or high is None:
        raise UsageError(f"{option} {text[:80]!r}", cure="write LOW:HIGH, as in 0:10")
    return low, high


def arguments(parser: argparse.ArgumentParser) -> None:
    """All arguments of a verb that asks systems."""
    what_is_asked(parser)
    parser.add_argument(
        "--system", "--systems", "--models", dest="systems", nargs="+", required=True, metavar="SYSTEM",
        help="systems to ask: reader, reader:min=0.55, model:openai/gpt-4o, model:http://host:8000/v1#name, "
        "answers:FILE, http:rag.yaml, python:module:function, module:Class; NAME=SYSTEM gives one a name; several "
        "get the same questions",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="folder for the run folders (default: %(default)s)"
    )
    parser.add_argument(
        "--judge", default="rules",
        help="who grades: rules, cascade:MODEL (rules where they can prove, the model for the rest), model:MODEL, "
        "paper:MODEL, module:Class; a MODEL is openai/gpt-4o, http://host:8000/v1#name ...; to add sentences with "
        "which your product declines: rules?phrases=FILE, cascade:MODEL,phrases=FILE (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--encoder", default="", help="for systems that read with embeddings (default: the release's)")
    share(
        parser, "--concurrency", "--fresh",
        fresh="ask everything again, and pay again; the earlier runs move to OUT/.earlier",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="ask nothing new after M minutes (exit 3); run again to continue"
    )
    model = parser.add_argument_group("models (systems that begin with model:)")
    model.add_argument("--temperature", type=float, help="sampling temperature")
    model.add_argument("--top-p", type=float, help="nucleus sampling")
    model.add_argument("--max-tokens", type=int, help="maximum length of an answer, in tokens")
    model.add_argument("--sampling-seed", type=int, help="seed sent to the server")
    model.add_argument("--extra", type=json.loads, metavar="JSON", help="""more body fields, e.g. '{"top_k": 20}'""")
    model.add_argument(
        "--images",
        choices=("many", "one", "none"),
        default="many",
        help="images the model accepts at once (default: %(default)s)",
    )
    model.add_argument(
        "--captions",
        choices=("with", "without", "only"),
        default="with",
        help="show image evidence with its caption, without, or the caption only (default: %(default)s)",
    )
    model.add_argument("--max-side", type=int, metavar="PIXELS", help="scale images down to this longest side")
    model.add_argument("--prompt-tokens", type=int, metavar="N", help="limit of the whole prompt; cuts are recorded")
    money(parser)
    share(parser, "--json", json="print the results as JSON")


def _model_options(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Name of a system that is a model -> its sampling and layout."""
    from demur.scenarios.render import Layout
    from demur.scenarios.systems import name_of, split_name

    sampling = {
        "temperature": args.temperature, "top_p": args.top_p, "max_tokens": args.max_tokens,
        "seed": args.sampling_seed, "extra": args.extra,
    }  # fmt: skip
    options = {k: v for k, v in sampling.items() if v is not None}
    layout = Layout(args.images, args.captions, args.prompt_tokens, max_side=args.max_side)
    parts = {name_of(s): str(split_name(s)[1]) for s in args.systems}
    return {name: {**options, "layout": layout} for name, spec in parts.items() if spec.startswith("model:")}


def go(args: argparse.Namespace, recipes: Sequence[Any], conditions: Sequence[Any], *, sweeps: bool = False) -> int:
    """Plan or run, then print the results; with ``sweeps`` also the tables of the sweeps."""
    from demur.core.progress import TerminalProgress
    from demur.evaluation.asking import ask, planned
    from demur.evaluation.run_folder import all_failed
    from demur.reports.data import load
    from demur.reports.official import labels_table
    from demur.reports.terminal import print_data, summarised

    release = opened(args, args.out)
    questions = questions_of(args, recipes, conditions)
    common: dict[str, Any] = {"options": _model_options(args), "prices": args.prices}
    if args.plan:
        ledger = args.out / "calls.sqlite"
        found = planned(release, args.systems, questions, ledger=ledger, per_second=args.per_second, **common)
        say(found.model_dump_json() if args.json else found.text())
        return 0
    with TerminalProgress() as steps:
        steps.stage("ask")
        folders = ask(
            release, args.systems, args.out, questions, judge=args.judge, encoder_name=args.encoder, steps=steps,
            concurrency=args.concurrency, budget=budget_of(args), fresh=args.fresh, minutes=args.minutes, **common,
        )  # fmt: skip
        steps.stage("sum up")
        data = load(folders, release.folder)
    if args.json:
        print_json(summarised(data), 1)
    else:
        print_data(data, sweeps=sweeps)
        if (own := labels_table(data)).rows:
            say(own.render("terminal").removesuffix("\n"))
        say(*folders)
        words = ["demur", "report", *map(str, folders), "--release", str(release.folder), "-o", "report.html"]
        note(f"\nnext: {shlex.join(words)}")
    silent = all_failed(folders)
    note(*(f"demur: {line}" for line in silent))
    return 1 if silent else 0
