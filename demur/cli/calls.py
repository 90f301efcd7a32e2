"""``demur calls``: ask a model once, and look after the ledger of paid replies."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import budget_of, job, money
from demur.cli._shown import aligned, harmless

if TYPE_CHECKING:
    from demur.models.ledger import Stats


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

    ask = job(jobs, "ask", "ask a model, through the whole path: key, endpoint, retries, ledger")
    ask.add_argument("model", help="model string, such as openai/gpt-4o or http://localhost:8000/v1#model")
    ask.add_argument("question", help="what to ask")
    ask.add_argument(
        "--image", type=Path, action="append", default=[], help="show an image; may be given several times"
    )
    ask.add_argument("--ledger", type=Path, help="keep the reply here, and take it from here when it is there")
    ask.add_argument("--repeat", type=int, default=1, metavar="N", help="independent draws (default: 1)")
    ask.add_argument("--temperature", type=float, metavar="T", help="sampling temperature (default: the server's)")
    ask.add_argument(
        "--max-tokens", type=int, default=256, metavar="N", help="longest answer, in tokens (default: %(default)s)"
    )
    ask.add_argument("--json", action="store_true", help="print the responses as JSON lines")
    money(ask)

    stats = job(jobs, "stats", "replies, retries, tokens, money and faults per model")
    stats.add_argument("ledger", type=Path, help="the ledger: calls.sqlite in a run's or build's folder")
    stats.add_argument("--json", action="store_true", help="print JSON")

    export = job(jobs, "export", "every reply as a JSON line, in an order that is the same everywhere")
    export.add_argument("ledger", type=Path, help="the ledger: calls.sqlite in a run's or build's folder")
    export.add_argument("--model", help="only of this model id")
    export.add_argument("--out", type=Path, help="file to write (default: standard output)")

    gc = job(jobs, "gc", "delete replies of a model or older than some days, and give the space back")
    gc.add_argument("ledger", type=Path, help="the ledger: calls.sqlite in a run's or build's folder")
    gc.add_argument("--model", help="of this model id")
    gc.add_argument("--older-than", type=float, metavar="DAYS", help="older than that many days")
    gc.add_argument("--dry-run", action="store_true", help="count only")
    gc.add_argument("--json", action="store_true", help="print JSON")

    recover = job(jobs, "recover", "copy what can be read of a damaged ledger, or an export, into a ledger")
    recover.add_argument("source", type=Path, help="a damaged ledger, or what 'demur calls export' wrote")
    recover.add_argument("into", type=Path, help="the ledger that takes the replies; made when it is not there")
    recover.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Do the job; returns the exit code."""
    return {"ask": _ask, "stats": _stats, "export": _export, "gc": _gc, "recover": _recover}[args.job](args)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _ask(args: argparse.Namespace) -> int:
    from demur.models.ask import ask, question
    from demur.models.estimate import estimate_calls

    requests = question(
        args.model, args.question, args.image, repeat=args.repeat, temperature=args.temperature,
        max_tokens=args.max_tokens,
    )  # fmt: skip
    if args.plan:
        planned = estimate_calls(
            "ask", args.model, requests, ledger=args.ledger, prices=args.prices, per_second=args.per_second
        )
        _print(planned.model_dump_json() if args.json else planned.text())
        return 0
    responses = ask(args.model, requests, ledger=args.ledger, prices=args.prices, budget=budget_of(args))
    for response in responses:
        if args.json:
            _print(response.model_dump_json())
        elif response.error:
            sys.stderr.write(harmless(f"demur: {response.error}\n"))
        else:
            _print(harmless(response.text))
    return 1 if any(r.error for r in responses) else 0


def _table(stats: Sequence[Stats]) -> str:
    head = ["model", "replies", "retries", "prompt", "cached", "completion", "reasoning", "money", "mean s", "faults"]
    rows = [
        [
            s.model,
            *(f"{n:,}" for n in (s.replies, s.retries, s.prompt, s.cached, s.completion, s.reasoning)),
            f"${s.price:,.2f}" + (f" + {s.unpriced:,} unpriced" if s.unpriced else ""),
            f"{s.seconds / s.replies:.2f}",
            ", ".join(f"{n}x {kind}" for kind, n in s.faults.items()) or "-",
        ]
        for s in stats
    ]
    return "\n".join(aligned([head, *rows], left=(0, len(head) - 1)))


def _stats(args: argparse.Namespace) -> int:
    from demur.models.ask import ledger_stats

    found = ledger_stats(args.ledger)
    if args.json:
        _print(json.dumps([s._asdict() for s in found]))
    else:
        _print(_table(found) if found else "the ledger holds no replies")
    return 0


def _export(args: argparse.Namespace) -> int:
    from demur.models.ask import export_ledger

    written = export_ledger(args.ledger, args.out or sys.stdout, args.model)
    if args.out is not None:
        _print(f"{written:,} replies in {args.out}")
    return 0


def _gc(args: argparse.Namespace) -> int:
    from demur.models.ask import shrink_ledger

    found = shrink_ledger(args.ledger, model=args.model, days=args.older_than, dry=args.dry_run)
    if args.json:
        _print(json.dumps({
            "replies": found.replies, "deleted": not args.dry_run, "bytes_before": found.before,
            "bytes_after": found.after,
        }))  # fmt: skip
    elif args.dry_run:
        _print(f"would delete {found.replies:,} replies")
    else:
        _print(f"deleted {found.replies:,} replies; {found.before:,} bytes before, {found.after:,} after")
    return 0


def _recover(args: argparse.Namespace) -> int:
    from demur.models import recover

    copied, lost = recover(args.source, args.into)
    if args.json:
        _print(json.dumps({"copied": copied, "unreadable": lost}))
    else:
        _print(f"{copied:,} replies copied into {args.into}; {lost:,} could not be read")
    return 0
