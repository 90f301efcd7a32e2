"""`demur judge`: grade what is there already, and attack a judge."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demur.cli._arguments import budget_of, in_flight, job, positive


def configure(parser: argparse.ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    file = job(jobs, "file", "grade rows of a JSONL file: id, question, answers, response")
    file.add_argument("rows", type=Path, metavar="ROWS.jsonl", help="also: answer_type, choices, finish_reason")
    file.add_argument(
        "-o", "--out", type=Path, metavar="VERDICTS.jsonl", help="write the verdicts there (default: print them only)"
    )
    file.add_argument("--skip-bad", action="store_true", help="leave bad rows out, and count them")
    run_ = job(jobs, "run", "grade the stored answers of a run again; the system is not asked")
    run_.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    run_.add_argument("--release", type=Path, metavar="DIR", help="that it was asked from (default: beside the run)")
    run_.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="a run folder of its own (default: file the verdicts beside the run's own)",
    )
    run_.add_argument(
        "--name", default="", help="of the verdicts, for --verdicts NAME (default: made from the judge's)"
    )
    run_.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="ask N times; further ones are NAME@2 ..."
    )
    compare = job(jobs, "compare", "judges of the same answers: agreement, self-preference, length, position, repeats")
    compare.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs")
    correct = job(jobs, "correct", "rates as people's labels correct them, beside the judge's own")
    correct.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs")
    correct.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="a labelling folder, or lines of ask and label (default: labels.jsonl in the runs)",
    )  # fmt: skip
    correct.add_argument("--finite", action="store_true", help="intervals for these answers, not for others like them")
    correct.add_argument("--verdicts", default="", metavar="NAME", help="of which judge (default: the runs' own)")
    for made in (compare, correct):
        made.add_argument("--release", type=Path, metavar="DIR", help="of the runs (default: the one beside the first)")
        made.add_argument(
            "--form", choices=("terminal", "markdown", "latex", "csv"), default="terminal", help="of tables"
        )
        made.add_argument("--json", action="store_true", help="print JSON")
    attack = job(jobs, "attack", "put 240 answers that try to grade themselves to a judge")
    attack.add_argument("--show", action="store_true", help="list the answers that flipped it")
    bench = job(jobs, "bench", "measure a judge on answers that people labelled")
    bench.add_argument("judge", metavar="JUDGE", help="as --judge of judge file takes it")
    bench.add_argument("--on", type=Path, metavar="FOLDER", help="labelled answers of yours (default: those of demur)")
    bench.add_argument("--wrong", action="store_true", help="list the answers on which the judge and people differ")
    for made in (file, run_, attack, bench):
        if made is not bench:
            made.add_argument(
                "--judge", default="rules", metavar="JUDGE",
                help="rules, cascade:MODEL, model:MODEL, panel:J1,J2, lave:MODEL, paper:MODEL, module:Class "
                "(default: %(default)s)",
            )  # fmt: skip
        made.add_argument(
            "--ledger", type=Path, metavar="FILE", help="where its calls are kept (default: judge-calls.sqlite)"
        )
        in_flight(made)
        made.add_argument("--budget", type=float, metavar="USD", help="stop before this is passed; run again to go on")
        made.add_argument("--prices", type=Path, metavar="FILE", help="price table that overlays the shipped one")
        made.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if args.job in ("compare", "correct"):
        return {"compare": _compare, "correct": _correct}[args.job](args)
    from demur.core.progress import TerminalProgress
    from demur.judge.base import JudgeContext, open_judge

    ledger = args.ledger or Path("judge-calls.sqlite")
    context = JudgeContext(ledger, args.concurrency, budget_of(args), args.prices)
    judge = open_judge(args.judge, context)
    with TerminalProgress() as steps:
        steps.stage("grade")
        if args.job == "run":
            return _run(args, judge, steps, context)
        return {"file": _file, "attack": _attack, "bench": _bench}[args.job](args, judge, steps)


def _file(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from collections import Counter

    from demur.cli._shown import harmless
    from demur.core.text import brief
    from demur.evaluation.rejudge import judge_file

    verdicts = judge_file(
        args.rows, judge, args.out, skip_bad=args.skip_bad, progress=lambda n: steps.count("answers graded", n, 0)
    )
    counts = Counter(v.outcome.value if v.outcome else v.status.value for v in verdicts)
    credit = _mean_credit(v.credit for v in verdicts)
    if args.json:
        sys.stdout.write(
            json.dumps({"counts": counts, "verdicts": [v.model_dump(mode="json") for v in verdicts]}) + "\n"
        )
        return 0
    for verdict in verdicts[:20]:
        outcome = verdict.outcome.value if verdict.outcome else verdict.status.value
        sys.stdout.write(harmless(f"{brief(verdict.id, 24):<24}  {outcome:<10}  {brief(verdict.reason, 90)}\n"))
    if len(verdicts) > 20:
        sys.stdout.write(f"... and {len(verdicts) - 20:,} more\n")
    sys.stdout.write(f"{len(verdicts):,} answers: {', '.join(f'{n:,} {k}' for k, n in counts.most_common())}\n")
    if credit:
        sys.stdout.write(f"{credit}\n")
    if summary := getattr(judge, "summary", ""):
        sys.stderr.write(f"{summary}\n")
    return 0


def _run(args: argparse.Namespace, judge: Any, steps: Any, context: Any) -> int:
    from demur.evaluation.rejudge import judge_run
    from demur.reports.data import load, open_beside
    from demur.reports.terminal import print_data, summarised

    release = open_beside(args.run, args.release)
    context.read_image = release.read_image  # for a judge that is asked to see the questions' images
    if args.out is None:
        return _beside(args, judge, steps, release)
    judge_run(
        args.run, release, judge, args.out, progress=lambda n: steps.count("answers graded", n, 0), note=steps.note,
    )  # fmt: skip
    data = load([args.out], release.folder)
    if args.json:
        sys.stdout.write(json.dumps(summarised(data), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    else:
        print_data(data)
    return 0


def _beside(args: argparse.Namespace, judge: Any, steps: Any, release: Any) -> int:
    """File the verdicts in the run itself, once for each repeat."""
    import re

    from demur.evaluation.rejudge import judge_beside
    from demur.judge.base import JudgeContext, open_judge
    from demur.reports.data import load
    from demur.reports.terminal import print_data, summarised

    name = args.name or re.sub(r"[^\w.+-]+", "-", judge.id).strip("-")[:60]
    for repeat in range(args.repeat):
        one, called = judge, name
        if repeat:
            ledger = args.ledger or Path("judge-calls.sqlite")
            context = JudgeContext(
                ledger, args.concurrency, budget_of(args), args.prices, repeat, release.read_image
            )  # fmt: skip
            one, called = open_judge(args.judge, context), f"{name}@{repeat + 1}"
        file = judge_beside(
            args.run, release, one, called, progress=lambda n: steps.count("answers graded", n, 0)
        )  # fmt: skip
        steps.note(f"{file}")
        if told := _mean_credit(v.get("credit") for v in _lines(file)):
            steps.note(told)
        if summary := getattr(one, "summary", ""):
            steps.note(summary)
    data = load([args.run], release.folder, verdicts=name)
    if args.json:
        found = {"verdicts": name} | summarised(data)
        sys.stdout.write(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    else:
        print_data(data)
        sys.stderr.write(f"next: demur judge compare {args.run}; demur report {args.run} --verdicts {name}\n")
    return 0


def _lines(file: Path) -> list[dict[str, Any]]:
    from demur.core.store import Problems, read_jsonl

    return [line for _, line in read_jsonl(file, Problems())]


def _mean_credit(credits: Iterable[float | None]) -> str:
    """The mean of a rating judge's credits, with how many answers it left unrated; "" of a judge that only labels."""
    given = list(credits)
    rated = [c for c in given if c is not None]
    if not rated:
        return ""
    return f"mean credit {sum(rated) / len(rated):.3f} of n = {len(rated):,}, {len(given) - len(rated):,} not rated"


def _compare(args: argparse.Namespace) -> int:
    from demur.cli.agree import write
    from demur.reports.judges import biases, compare_judges, tables
    from demur.reports.tables import to_records

    found = compare_judges(args.runs, args.release)
    made = tables(found)
    value = None
    if args.json:
        value = {
            "agreement": to_records(made[0]), "answers": len(found.answers), "ungraded": found.ungraded,
            "reference": found.reference,
            "biases": {j: {k: b._asdict() for k, b in biases(found, j).items()} for j in found.judges},
            "repeat_variance": {j: m.model_dump(mode="json") for j, m in found.repeats.items()},
        }  # fmt: skip
    write(made, args.form, value)
    return 0


def _correct(args: argparse.Namespace) -> int:
    from demur.cli.agree import corrections, write

    tables, found = corrections(args.runs, args.labels, args.release, args.finite, args.verdicts)
    write(tables, args.form, found if args.json else None)
    return 0


def _attack(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from demur.cli._shown import harmless
    from demur.core.text import brief
    from demur.evaluation.rejudge import attack
    from demur.reports.tables import Column, Table

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


def _bench(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from demur.cli._shown import harmless
    from demur.reports.judge_bench import measure_judge

    found = measure_judge(judge, args.on, lambda n: steps.count("answers graded", n, 0))
    if args.json:
        sys.stdout.write(found.json() + "\n")
        return 0
    sys.stdout.write("".join(table.render("terminal") for table in found.tables()))
    if args.wrong:
        sys.stdout.write("".join(harmless(f"{line}\n") for line in found.wrong()))
    return 0
