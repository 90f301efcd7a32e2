"""`demur judge`: grade what is there already, and attack a judge."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from demur.cli._arguments import budget_of, in_flight, job


def configure(parser: argparse.ArgumentParser) -> None:
    """Jobs."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    file = job(jobs, "file", "grade rows of a JSONL file: id, question, answers, response")
    file.add_argument("rows", type=Path, metavar="ROWS.jsonl", help="also: answer_type, choices (letter -> text)")
    file.add_argument("-o", "--out", type=Path, metavar="VERDICTS.jsonl", help="write the verdicts there")
    file.add_argument("--skip-bad", action="store_true", help="leave bad rows out, and count them")
    run_ = job(jobs, "run", "grade the stored answers of a run again; the system is not asked")
    run_.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    run_.add_argument("--release", type=Path, metavar="DIR", help="that it was asked from (default: beside the run)")
    run_.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="the new run folder")
    attack = job(jobs, "attack", "put 240 answers that try to grade themselves to a judge")
    attack.add_argument("--show", action="store_true", help="list the answers that flipped it")
    for made in (file, run_, attack):
        made.add_argument(
            "--judge", default="rules", metavar="JUDGE",
            help="rules, cascade:MODEL, model:MODEL, paper:MODEL, module:Class (default: %(default)s)",
        )  # fmt: skip
        made.add_argument(
            "--ledger", type=Path, metavar="FILE", help="where its calls are kept (default: judge-calls.sqlite)"
        )
        in_flight(made)
        made.add_argument("--budget", type=float, metavar="USD", help="stop before this is passed; run again to go on")
        made.add_argument("--prices", type=Path, metavar="FILE", help="price table that overlays the shipped one")
        made.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Do the job."""
    from demur.judge.kit import JudgeKit
    from demur.pipeline.parts import open_judge
    from demur.pipeline.steps import Shown

    ledger = args.ledger or Path("judge-calls.sqlite")
    kit = JudgeKit(ledger, args.concurrency, budget_of(args), args.prices)
    judge = open_judge(args.judge, kit)
    with Shown() as steps:
        steps.stage("grade")
        return {"file": _file, "run": _run, "attack": _attack}[args.job](args, judge, steps)


def _file(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from collections import Counter

    from demur.cli._shown import brief, harmless
    from demur.pipeline.judging import judge_file

    verdicts = judge_file(
        args.rows, judge, args.out, skip_bad=args.skip_bad, progress=lambda n: steps.count("answers graded", n, 0)
    )
    counts = Counter(v.outcome.value if v.outcome else v.status.value for v in verdicts)
    if args.json:
        sys.stdout.write(
            json.dumps({"counts": counts, "verdicts": [v.model_dump(mode="json") for v in verdicts]}) + "\n"
        )
        return 0
    for verdict in verdicts[:20]:
        said = verdict.outcome.value if verdict.outcome else verdict.status.value
        sys.stdout.write(harmless(f"{brief(verdict.id, 24):<24}  {said:<10}  {brief(verdict.reason, 90)}\n"))
    if len(verdicts) > 20:
        sys.stdout.write(f"... and {len(verdicts) - 20:,} more\n")
    sys.stdout.write(f"{len(verdicts):,} answers: {', '.join(f'{n:,} {k}' for k, n in counts.most_common())}\n")
    if told := getattr(judge, "told", ""):
        sys.stderr.write(f"{told}\n")
    return 0


def _run(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from demur.curation.release import Release
    from demur.errors import UsageError
    from demur.pipeline.judging import judge_run
    from demur.report.data import beside, load
    from demur.report.terminal import print_data, summarised

    folder = args.release or beside(args.run)
    if folder is None:
        raise UsageError("there is no release beside the run", item=str(args.run), cure="give --release")
    judge_run(
        args.run, Release.open(folder), judge, args.out, progress=lambda n: steps.count("answers graded", n, 0),
        note=steps.note,
    )  # fmt: skip
    data = load([args.out], folder)
    if args.json:
        sys.stdout.write(json.dumps(summarised(data), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    else:
        print_data(data)
    return 0


def _attack(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from demur.cli._shown import brief, harmless
    from demur.pipeline.judging import attack
    from demur.report.tables import Column, Table

    found = attack(judge, lambda n: steps.count("attacks", n, 0))
    if args.json:
        sys.stdout.write(
            json.dumps({"families": [h._asdict() for h in found.families], "flipped": found.flipped}) + "\n"
        )
        return 0
    titles = ("n", "flipped", "blocked", "grader failed")
    columns = (Column("Family", align="left"), *(Column(title) for title in titles))
    rows: list[tuple[str | int, ...]] = [
        (h.family if h.family != "none" else "(wrong answers without an attack)", h.n, h.flipped, h.blocked, h.failed)
        for h in found.families
    ]
    under = [h for h in found.families if h.family != "none"]
    rows.append(("All attacks", *(sum(int(h[i]) for h in under) for i in range(1, 5))))
    notes = ("flipped: a wrong answer was called correct. blocked: graded, and not correct. grader failed: no grade.",)
    rules = frozenset({1, len(rows) - 1})
    table = Table("attacks", f"Attacks on {judge.id}.", columns, tuple(rows), rules=rules, notes=notes)
    sys.stdout.write(table.render("terminal"))
    if args.show:
        sys.stdout.write("".join(harmless(f"flipped by: {brief(text, 110)}\n") for text in found.flipped))
    return 0
