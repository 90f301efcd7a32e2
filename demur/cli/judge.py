"""`demur judge`: grade existing answers, and compare, correct, attack or measure judges."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demur.cli._arguments import budget_of, job, positive, share
from demur.cli._output import note, print_json, print_tables, say


def configure(parser: argparse.ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    file = job(jobs, "file", "grade rows of a JSONL file: id, question, answers, response")
    file.add_argument("rows", type=Path, metavar="ROWS.jsonl", help="may also hold answer_type, choices, finish_reason")
    file.add_argument(
        "-o", "--out", type=Path, metavar="VERDICTS.jsonl", help="file for the verdicts (default: only print them)"
    )
    run_ = job(jobs, "run", "grade the stored answers of a run again, without asking the system")
    run_.add_argument("run", type=Path, metavar="RUN", help="run folder")
    share(run_, "--release", release="release of the run (default: the one beside it)")
    run_.add_argument(
        "-o", "--out", type=Path, metavar="DIR",
        help="write a new run folder (default: file the verdicts beside the run's own)",
    )  # fmt: skip
    run_.add_argument(
        "--name", default="", help="name of the verdicts, for --verdicts NAME (default: derived from the judge's)"
    )
    run_.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="ask N times; further verdicts are NAME@2 ..."
    )
    compare = job(jobs, "compare", "compare judges of the same answers: agreement, biases, repeat variance")
    share(compare, "runs")
    correct = job(jobs, "correct", "correct the judge's rates by people's labels")
    share(correct, "runs")
    correct.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="labelling folder, or lines of ask and label (default: labels.jsonl in the runs)",
    )  # fmt: skip
    correct.add_argument("--finite", action="store_true", help="intervals for these answers only, not for similar ones")
    correct.add_argument(
        "--verdicts", default="", metavar="NAME", help="verdicts to correct, by name (default: the runs' own)"
    )
    attack = job(jobs, "attack", "send a judge 240 answers that try to grade themselves")
    attack.add_argument("--show", action="store_true", help="list the answers that flipped it")
    bench = job(jobs, "bench", "measure a judge on answers that people labelled")
    bench.add_argument("judge", metavar="JUDGE", help="as --judge of 'demur judge file'")
    bench.add_argument("--on", type=Path, metavar="FOLDER", help="your labelled answers (default: those of demur)")
    bench.add_argument("--wrong", action="store_true", help="list the answers on which the judge and people differ")
    for made in (file, run_, attack):
        made.add_argument(
            "--judge", default="rules", metavar="JUDGE",
            help="rules, cascade:MODEL, model:MODEL, panel:J1,J2, lave:MODEL, paper:MODEL, module:Class "
            "(default: %(default)s)",
        )  # fmt: skip
    share(file, "--skip-bad")
    for made in (compare, correct):
        share(made, "--release", "--form", "--json")
    for made in (file, run_, attack, bench):
        share(made, "--ledger", "--concurrency", "--budget", "--prices", "--json")


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

    from demur.core.text import brief
    from demur.evaluation.rejudge import judge_file

    verdicts = judge_file(
        args.rows, judge, args.out, skip_bad=args.skip_bad, progress=lambda n: steps.count("answers graded", n, 0)
    )
    counts = Counter(v.outcome.value if v.outcome else v.status.value for v in verdicts)
    credit = _mean_credit(v.credit for v in verdicts)
    if args.json:
        print_json({"counts": counts, "verdicts": [v.model_dump(mode="json") for v in verdicts]})
        return 0
    for verdict in verdicts[:20]:
        outcome = verdict.outcome.value if verdict.outcome else verdict.status.value
        say(f"{brief(verdict.id, 24):<24}  {outcome:<10}  {brief(verdict.reason, 90)}")
    if len(verdicts) > 20:
        say(f"... and {len(verdicts) - 20:,} more")
    say(f"{len(verdicts):,} answers: {', '.join(f'{n:,} {k}' for k, n in counts.most_common())}")
    if credit:
        say(credit)
    if summary := getattr(judge, "summary", ""):
        note(summary)
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
        print_json(summarised(data), 1)
    else:
        print_data(data)
    return 0


def _beside(args: argparse.Namespace, judge: Any, steps: Any, release: Any) -> int:
    """File the verdicts in the run itself, once per repeat."""
    import re

    from demur.core.store import Problems, read_jsonl
    from demur.evaluation.rejudge import judge_beside
    from demur.judge.base import JudgeContext, open_judge
    from demur.reports.data import load
    from demur.reports.terminal import print_data, summarised

    name = args.name or re.sub(r"[^\w.+-]+", "-", judge.id).strip("-")[:60]
    for repeat in range(args.repeat):
        one, called = judge, name
        if repeat:
            ledger = args.ledger or Path("judge-calls.sqlite")
            context = JudgeContext(ledger, args.concurrency, budget_of(args), args.prices, repeat, release.read_image)
            one, called = open_judge(args.judge, context), f"{name}@{repeat + 1}"
        file = judge_beside(args.run, release, one, called, progress=lambda n: steps.count("answers graded", n, 0))
        steps.note(f"{file}")
        if credit := _mean_credit(v.get("credit") for _, v in read_jsonl(file, Problems())):
            steps.note(credit)
        if summary := getattr(one, "summary", ""):
            steps.note(summary)
    data = load([args.run], release.folder, verdicts=name)
    if args.json:
        print_json({"verdicts": name} | summarised(data), 1)
    else:
        print_data(data)
        note(f"next: demur judge compare {args.run}; demur report {args.run} --verdicts {name}")
    return 0


def _mean_credit(credits: Iterable[float | None]) -> str:
    """The mean credit of a judge that rates, and how many answers it did not rate; "" for a judge that only labels."""
    given = list(credits)
    rated = [c for c in given if c is not None]
    if not rated:
        return ""
    return f"mean credit {sum(rated) / len(rated):.3f} of n = {len(rated):,}, {len(given) - len(rated):,} not rated"


def _compare(args: argparse.Namespace) -> int:
    from demur.reports.judges import biases, compare_judges, tables
    from demur.reports.tables import to_records

    found = compare_judges(args.runs, args.release)
    made = tables(found)
    if args.json:
        print_json({
            "agreement": to_records(made[0]), "answers": len(found.answers), "ungraded": found.ungraded,
            "reference": found.reference,
            "biases": {j: {k: b._asdict() for k, b in biases(found, j).items()} for j in found.judges},
            "repeat_variance": {j: m.model_dump(mode="json") for j, m in found.repeats.items()},
        }, 1)  # fmt: skip
    else:
        print_tables(made, args.form)
    return 0


def _correct(args: argparse.Namespace) -> int:
    from demur.reports.agree import corrections_of
    from demur.reports.data import load

    data = load(args.runs, args.release, verdicts=args.verdicts)
    tables, found = corrections_of(data, args.labels, finite=args.finite)
    if args.json:
        print_json(found, 1)
    else:
        print_tables(tables, args.form)
    return 0


def _attack(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from demur.core.text import brief
    from demur.evaluation.rejudge import attack
    from demur.reports.tables import Table, titled

    found = attack(judge, lambda n: steps.count("attacks", n, 0))
    if args.json:
        print_json({"families": [h._asdict() for h in found.families], "flipped": found.flipped})
        return 0
    columns = titled("<Family", "n", "Flipped", "Blocked", "Judge failed")
    rows: list[tuple[str | int, ...]] = [
        (h.family if h.family != "none" else "(wrong answers without an attack)", h.n, h.flipped, h.blocked, h.failed)
        for h in found.families
    ]
    under = [h for h in found.families if h.family != "none"]
    rows.append(("All attacks", *(sum(int(h[i]) for h in under) for i in range(1, 5))))
    notes = ("Flipped: the judge called a wrong answer correct. Blocked: any other grade. Judge failed: no grade.",)
    rules = frozenset({1, len(rows) - 1})
    table = Table("attacks", f"Attacks on {judge.id}.", columns, tuple(rows), rules=rules, notes=notes)
    print_tables([table], "terminal")
    if args.show:
        say(*(f"flipped by: {brief(text, 110)}" for text in found.flipped))
    return 0


def _bench(args: argparse.Namespace, judge: Any, steps: Any) -> int:
    from demur.reports.judge_bench import measure_judge

    found = measure_judge(judge, args.on, lambda n: steps.count("answers graded", n, 0))
    if args.json:
        say(found.json())
        return 0
    print_tables(found.tables(), "terminal")
    if args.wrong:
        say(*found.wrong())
    return 0
