"""What `demur run` and `demur sweep` share: the arguments about systems, and the printing of results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import budget_of, in_flight, money, settings
from demur.cli._shown import harmless
from demur.core.errors import UsageError
from demur.core.text import whole_number

if TYPE_CHECKING:
    from demur.evaluation.questions import Questions
    from demur.release import Release
    from demur.scenarios.conditions import Condition
    from demur.scenarios.contexts import Recipe


def what_is_asked(parser: argparse.ArgumentParser) -> None:
    """Release, and which of its samples."""
    parser.add_argument(
        "release", metavar="RELEASE",
        help="release folder (see 'demur demo' or 'demur build'), hf:OWNER/NAME, or SOURCE=FOLDER: a source's own "
        "files, such as simpleqa=/data/simpleqa",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="with SOURCE=FOLDER: option of its adapter"
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="with SOURCE=FOLDER: leave out what cannot be read, and count it"
    )
    parser.add_argument("--seed", type=int, default=0, help="of every draw and order (default: %(default)s)")
    parser.add_argument(
        "--limit", "--sample", type=int, metavar="N", help="ask N samples drawn by the seed instead of all"
    )
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N",
        help="ask everything in N independent repeats; reports take their mean, and count an item once (default: 1)",
    )  # fmt: skip
    parser.add_argument("--text-only", action="store_true", help="ask only what a model without images can be asked")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="your own prompt files in place of demur's")


def opened(args: argparse.Namespace, out: Path) -> Release:
    """The release that was named; of a source, the one made of it in ``out``."""
    from demur.api import open_release

    return open_release(args.release, out=out, options=settings(args.set), skip_bad=args.skip_bad)


def scenarios(parser: argparse.ArgumentParser) -> None:
    """Scenarios and conditions, as `demur run` takes them."""
    parser.add_argument(
        "--scenarios", nargs="+", default=["all"], metavar="RECIPE",
        help="all, or recipes: parametric, oracle, 'realistic(k=3,pick=random)', 'adversarial(k=5,order=gold-last)' "
        "(default: the four with --k distractors). Of a system with a retriever of its own: whole, for full, "
        "gold-removed and empty",
    )  # fmt: skip
    parser.add_argument(
        "--corpora", type=Path, metavar="DIR",
        help="what 'demur corpus export' wrote, for the scenarios full, gold-removed and empty",
    )  # fmt: skip
    parser.add_argument(
        "--k", type=int, default=2, metavar="N", help="distractors where a recipe does not say (default: %(default)s)"
    )
    parser.add_argument(
        "--strictness", nargs="+", default=["moderate"], metavar="CONDITION",
        help="none, soft, moderate, severe, or all; add +strict, +confidence or +reasoning (default: moderate)",
    )  # fmt: skip


def sweeps(parser: argparse.ArgumentParser) -> None:
    """What is varied."""
    parser.add_argument(
        "--distractors",
        metavar="LOW:HIGH",
        help="Realistic with LOW to HIGH distractors (0:10 is Figure 3 of VLM-DeflectionBench)",
    )
    parser.add_argument("--modality", choices=("grid",), help="gold x distractor modality, Realistic (its Table 5)")
    parser.add_argument("--positions", metavar="LOW:HIGH", help="gold at each of these positions among the distractors")


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
    """What is asked, systems, judge, sampling, layout, folders."""
    what_is_asked(parser)
    parser.add_argument(
        "--system", "--systems", "--models", dest="systems", nargs="+", required=True, metavar="SYSTEM",
        help="who is asked: reader, reader:min=0.55, model:openai/gpt-4o, model:http://host:8000/v1#name, "
        "answers:FILE, http:rag.yaml, python:module:function, module:Class; NAME=SYSTEM says what to call "
        "it; several take the same questions",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="folder of the run folders (default: %(default)s)"
    )
    parser.add_argument(
        "--judge",
        default="rules",
        help="who grades: rules, cascade:MODEL (rules where they can prove, the model for the rest), model:MODEL, "
        "paper:MODEL, module:Class; a MODEL is openai/gpt-4o, http://host:8000/v1#name ...; sentences by which your "
        "product declines: rules?phrases=FILE, cascade:MODEL,phrases=FILE (default: %(default)s)",
    )
    parser.add_argument("--encoder", default="", help="for systems that read with embeddings (default: the release's)")
    in_flight(parser)
    parser.add_argument(
        "--fresh", action="store_true",
        help="ask everything again, and pay for it again; runs that are there are moved to OUT/.earlier",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="ask nothing new after M minutes (exit 3); run again to go on"
    )
    model = parser.add_argument_group("models (systems that begin with model:)")
    model.add_argument("--temperature", type=float, help="sampling temperature")
    model.add_argument("--top-p", type=float, help="nucleus sampling")
    model.add_argument("--max-tokens", type=int, help="longest answer, in tokens")
    model.add_argument("--sampling-seed", type=int, help="seed sent to the server")
    model.add_argument("--extra", type=json.loads, metavar="JSON", help="""more body fields, e.g. '{"top_k": 20}'""")
    model.add_argument(
        "--images", choices=("many", "one", "none"), default="many", help="images the model takes at once"
    )
    model.add_argument(
        "--captions", choices=("with", "without", "only"), default="with", help="image evidence with its caption or not"
    )
    model.add_argument("--max-side", type=int, metavar="PIXELS", help="scale images down to this longest side")
    model.add_argument("--prompt-tokens", type=int, metavar="N", help="budget of the whole prompt; cuts are recorded")
    money(parser)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def _model_options(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Sampling and layout of every system that is a model, by its name."""
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
    """Plan or run, then print; with ``sweeps`` the tables of what was swept as well."""
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
        sys.stdout.write((found.model_dump_json() if args.json else found.text()) + "\n")
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
        sys.stdout.write(json.dumps(summarised(data), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    else:
        print_data(data, sweeps=sweeps)
        if (own := labels_table(data)).rows:
            sys.stdout.write(own.render("terminal"))
        sys.stdout.write("\n".join(str(f) for f in folders) + "\n")
        sys.stderr.write(
            f"\nnext: demur report {' '.join(map(str, folders))} --release {release.folder} -o report.html\n"
        )
    silent = all_failed(folders)
    sys.stderr.write(harmless("".join(f"demur: {line}\n" for line in silent)))
    return 1 if silent else 0
