"""`demur calls`: ask a model once, and maintain the ledger of paid replies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import add_money_arguments, add_shared, budget_of, job, positive
from demur.cli._output import note, print_json, say, show, show_plan

if TYPE_CHECKING:
    from demur.models.ledger import Stats
    from demur.reports.tables import Table


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "\n".join(
        [
            "examples:",
            "  $ demur calls ask http://localhost:8000/v1#model 'Which city is this?' --image photo.jpg",
            "  $ demur calls stats calls.sqlite",
            "  $ demur calls export calls.sqlite --out calls.jsonl",
            "  $ demur calls gc calls.sqlite --model old-model --dry-run",
            "  $ demur calls recover damaged.sqlite calls.sqlite",
        ]
    )
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")

    ask = job(jobs, "ask", "ask a model through the whole path: key, endpoint, retries, ledger")
    ask.add_argument(
        "model", help="model string, such as openai/gpt-4o or http://localhost:8000/v1#model"
    )
    ask.add_argument("question", help="the question")
    ask.add_argument(
        "--image", type=Path, action="append", default=[], help="image; may be given several times"
    )
    add_shared(ask, "--ledger", ledger="store the reply here, and reuse it when it is already here")
    ask.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="independent replies (default: 1)"
    )
    ask.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="sampling temperature (default: the server's)",
    )
    ask.add_argument(
        "--max-tokens",
        type=positive,
        default=256,
        metavar="N",
        help="longest answer, in tokens (default: %(default)s)",
    )
    add_shared(ask, "--json", json="print the responses as JSON lines")
    add_money_arguments(ask)

    ledger_help = "ledger: calls.sqlite in the folder of a run or build"
    stats = job(jobs, "stats", "replies, retries, tokens, cost and faults per model")
    export = job(
        jobs, "export", "write every reply as a JSON line, in an order that is the same everywhere"
    )
    gc = job(jobs, "gc", "delete replies of a model, or older than some days, and free the space")
    for parser_of_job in (stats, export, gc):
        parser_of_job.add_argument("ledger", type=Path, help=ledger_help)
    export.add_argument("--model", help="only replies of this model id")
    export.add_argument("--out", type=Path, help="file to write (default: standard output)")
    gc.add_argument("--model", help="delete replies of this model id")
    gc.add_argument(
        "--older-than", type=float, metavar="DAYS", help="delete replies older than this"
    )
    gc.add_argument("--dry-run", action="store_true", help="only count them")
    recover = job(
        jobs,
        "recover",
        "copy the readable replies of a damaged ledger, or of an export, into a ledger",
    )
    recover.add_argument(
        "source", type=Path, help="damaged ledger, or a file of 'demur calls export'"
    )
    recover.add_argument(
        "into", type=Path, help="ledger that receives the replies; created if needed"
    )
    batch = job(
        jobs, "batch", "answer a command's calls elsewhere: in a batch, or with vllm run-batch"
    )
    steps = batch.add_subparsers(dest="step", metavar="STEP", required=True)
    to_file = job(
        steps,
        "export",
        "write the calls that a command would send next, as JSONL of OpenAI's batch API, and exit with 3",
    )
    to_file.add_argument("file", type=Path, help="file to write; one for each model, if several")
    to_file.add_argument(
        "verb", metavar="COMMAND", nargs=argparse.REMAINDER, help="build, rebuild, run or sweep ..."
    )
    read = job(steps, "import", "keep the replies of such a batch in the command's ledger")
    read.add_argument("ledger", type=Path, help=ledger_help)
    read.add_argument("results", type=Path, help="JSONL of results, in any order")
    add_shared(read, "--prices", "--json")
    for parser_of_job in (stats, gc, recover):
        add_shared(parser_of_job, "--json")


def run(args: argparse.Namespace) -> int:
    """Do the job; returns the exit code."""
    work = {"ask": _ask, "stats": _stats, "export": _export, "gc": _gc, "recover": _recover}
    return (work | {"batch": _batch})[args.job](args)


def _ask(args: argparse.Namespace) -> int:
    from demur.api import ModelOptions, ask_model, estimate_calls, requests_of

    requests = requests_of(
        args.model,
        args.question,
        args.image,
        repeat=args.repeat,
        temperature=args.temperature,
        max_tokens=args.max_tokens,
    )
    files = {"ledger": args.ledger, "prices": args.prices}
    if args.plan:
        planned = estimate_calls("ask", args.model, requests, per_second=args.per_second, **files)
        if args.json:
            say(planned.model_dump_json())
        else:
            show_plan(planned)
        return 0
    options = ModelOptions(**files, budget=budget_of(args))
    responses = ask_model(args.model, requests, options)
    for response in responses:
        if args.json:
            say(response.model_dump_json())
        elif response.error:
            note(f"demur: {response.error}")
        else:
            say(response.text)
    return 1 if any(r.error for r in responses) else 0


def _table(stats: Sequence[Stats]) -> Table:
    from demur.reports.tables import Table, numbers, texts

    columns = (
        *texts("model"),
        *numbers("replies", "retries", "prompt", "cached", "completion", "reasoning", "money"),
        *numbers("mean s", decimals=2),
        *texts("faults", wraps=True),
    )
    rows = tuple(
        (
            *(s.model, s.replies, s.retries, s.prompt, s.cached, s.completion, s.reasoning),
            f"${s.price:,.2f}" + (f" + {s.unpriced:,} unpriced" if s.unpriced else ""),
            s.seconds / s.replies,
            ", ".join(f"{n}x {kind}" for kind, n in s.faults.items()) or None,
        )
        for s in stats
    )
    return Table("calls", "Replies in the ledger", columns, rows)


def _stats(args: argparse.Namespace) -> int:
    from demur.api import ledger_stats

    stats_of_models = ledger_stats(args.ledger)
    if args.json:
        print_json([s._asdict() for s in stats_of_models])
    elif stats_of_models:
        show(_table(stats_of_models))
    else:
        say("the ledger holds no replies")
    return 0


def _export(args: argparse.Namespace) -> int:
    from demur.api import export_ledger

    written = export_ledger(args.ledger, args.out or sys.stdout, args.model)
    if args.out is not None:
        say(f"{written:,} replies in {args.out}")
    return 0


def _gc(args: argparse.Namespace) -> int:
    from demur.api import shrink_ledger

    shrinking = shrink_ledger(args.ledger, model=args.model, days=args.older_than, dry=args.dry_run)
    if args.json:
        print_json(
            {
                "replies": shrinking.replies,
                "deleted": not args.dry_run,
                "bytes_before": shrinking.before,
                "bytes_after": shrinking.after,
            }
        )
    elif args.dry_run:
        say(f"would delete {shrinking.replies:,} replies")
    else:
        say(
            f"deleted {shrinking.replies:,} replies; {shrinking.before:,} bytes before, {shrinking.after:,} after"
        )
    return 0


def _recover(args: argparse.Namespace) -> int:
    from demur.api import recover_ledger

    copied, lost = recover_ledger(args.source, args.into)
    if args.json:
        print_json({"copied": copied, "unreadable": lost})
    else:
        say(f"{copied:,} replies copied into {args.into}; {lost:,} could not be read")
    return 0


def _batch(args: argparse.Namespace) -> int:
    if args.step == "export":
        from demur.cli import main

        return main([*args.verb, "--batch-file", str(args.file)])
    from demur.api import import_batch

    imported = import_batch(args.ledger, args.results, args.prices)
    if args.json:
        print_json(imported._asdict())
        return 0
    say(f"{imported.replies:,} replies in {args.ledger}; run the command again")
    note(*(f"demur: {n:,} calls have no reply: {why}" for why, n in imported.failed.items()))
    if imported.unknown:
        note(f"demur: {imported.unknown:,} lines answer no call that this ledger waits for")
    return 0
