"""`demur judge`: grade existing answers, and compare, correct, attack or measure judges."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import add_shared, job, options_of, positive, values_of_pairs
from demur.cli._output import note, print_json, print_tables_or_json, say, show, show_data
from demur.core.errors import UsageError
from demur.core.text import brief, command

if TYPE_CHECKING:
    from demur.api.judging import Gradings, JudgeOptions


def configure(parser: argparse.ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    file = job(
        jobs,
        "file",
        "grade rows of a file (JSONL, JSON, CSV, TSV, Parquet): question, answers, response",
    )
    file.add_argument(
        "rows",
        type=Path,
        metavar="ROWS",
        help="may also hold id, answer_type, choices, finish_reason",
    )
    file.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="VERDICTS.jsonl",
        help="file for the verdicts (default: only print them)",
    )
    file.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="COLUMN=FIELD",
        help="a column, or a path such as outputs.answer, that holds question, answers, response, id, choices ...",
    )
    run_ = job(jobs, "run", "grade the stored answers of a run again, without asking the system")
    run_.add_argument("run", type=Path, metavar="RUN", help="run folder")
    add_shared(run_, "--release", release="release of the run (default: the one beside it)")
    run_.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="write a new run folder (default: file the verdicts beside the run's own)",
    )
    run_.add_argument(
        "--name",
        default="",
        help="name of the verdicts, for --verdicts NAME (default: derived from the judge's)",
    )
    compare = job(
        jobs, "compare", "compare judges of the same answers: agreement, biases, repeat variance"
    )
    add_shared(compare, "runs")
    correct = job(jobs, "correct", "correct the judge's rates by people's labels")
    add_shared(correct, "runs")
    correct.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="labelling folder, or lines of ask and label (default: labels.jsonl in the runs)",
    )
    correct.add_argument(
        "--finite",
        action="store_true",
        help="intervals for these answers only, not for similar ones",
    )
    correct.add_argument(
        "--verdicts",
        default="",
        metavar="NAME",
        help="verdicts to correct, by name (default: the runs' own)",
    )
    attack = job(jobs, "attack", "send a judge 280 answers that try to be graded right")
    attack.add_argument("named", nargs="?", metavar="JUDGE", help="the judge to attack, as --judge")
    attack.add_argument(
        "--unmasked",
        action="store_true",
        help="attack its model a second time, with nothing of an answer left out: what the mask blocks",
    )
    attack.add_argument("--show", action="store_true", help="list the answers that flipped it")
    bench = job(jobs, "bench", "measure a judge on answers that people labelled")
    bench.add_argument("judge", metavar="JUDGE", help="as --judge of 'demur judge file'")
    bench.add_argument(
        "--on",
        type=Path,
        metavar="PATH",
        help="file or folder of your labelled answers (default: those of demur)",
    )
    bench.add_argument(
        "--wrong",
        action="store_true",
        help="list the answers on which the judge and people differ",
    )
    for job_parser, where in (
        (file, "in files OUT@2 ..."),
        (run_, "are NAME@2 ..."),
        (bench, "have their own tables"),
    ):
        job_parser.add_argument(
            "--repeat",
            type=positive,
            default=1,
            metavar="N",
            help=f"ask N times, past the ledger; further verdicts {where}",
        )
    for job_parser in (file, run_, attack):
        job_parser.add_argument(
            "--judge",
            default="local",
            metavar="JUDGE",
            help="local, cascade:MODEL, model:MODEL, panel:J1,J2, lave:MODEL, module:Class "
            "(default: %(default)s)",
        )
    add_shared(file, "--skip-bad")
    add_shared(correct, "--release")
    for job_parser in (compare, correct):
        add_shared(job_parser, "--form", "--json")
    for job_parser in (file, run_, attack, bench):
        job_parser.set_defaults(ledger=Path("judge-calls.sqlite"))
        add_shared(job_parser, "--ledger", "--concurrency", "--budget", "--prices", "--json")


def run(args: argparse.Namespace) -> int:
    if args.job in ("compare", "correct"):
        return _print_tables(args)
    from demur.api import JudgeOptions

    if judge_named := getattr(args, "named", None):  # of `attack`
        if args.judge not in ("local", judge_named):
            raise UsageError(
                f"two judges: {judge_named!r} and {args.judge!r}", cure="leave out --judge"
            )
        args.judge = judge_named
    job = {"file": _file, "run": _run, "attack": _attack, "bench": _bench}[args.job]
    return job(args, options_of(args, JudgeOptions))


def _print_tables(args: argparse.Namespace) -> int:
    from demur.api import compare_judges, corrections_of, load

    if args.job == "compare":
        result = compare_judges(args.runs)
    else:
        data = load(args.runs, args.release, verdicts=args.verdicts)
        result = [corrections_of(data, args.labels, finite=args.finite)]
    print_tables_or_json(result, args)
    return 0


def _file(args: argparse.Namespace, options: JudgeOptions) -> int:
    from demur.api import grade_file

    result = grade_file(
        args.rows,
        options,
        out=args.out,
        columns=values_of_pairs(args.map, "--map output=response"),
        skip_bad=args.skip_bad,
    )
    if args.json:
        print_json(result.as_json())
        return 0
    verdicts = result.first.verdicts
    for verdict in verdicts[:20]:
        outcome = (verdict.outcome or verdict.status).value
        say(f"{brief(verdict.id, 24):<24}  {outcome:<10}  {brief(verdict.reason, 90)}")
    if len(verdicts) > 20:
        say(f"... and {len(verdicts) - 20:,} more")
    for grading in (result.first, *result.repeats):
        counts = ", ".join(f"{n:,} {outcome}" for outcome, n in grading.counts.most_common())
        say(f"{len(grading.verdicts):,} answers: {counts}")
        say(*filter(None, [grading.credit]))
        note(*filter(None, [grading.summary]))
    _say_variance(result)
    return 0


def _say_variance(result: Gradings) -> None:
    if result.repeats:
        variance = result.variance
        interval = (
            ""
            if variance.value is None
            else f"{variance.value:.1%} [{variance.low:.1%}, {variance.high:.1%}] "
        )
        say(f"another verdict when asked again: {interval}of n = {variance.n:,}")


def _run(args: argparse.Namespace, options: JudgeOptions) -> int:
    from demur.api import regrade

    result = regrade(
        args.run,
        options,
        out=args.out,
        name=args.name,
        release=args.release,
    )
    if args.json:
        print_json(result.as_json(), 1)
    else:
        show_data(result.data)
        if result.verdicts:
            compare_command, report_command = (
                command("judge", "compare", args.run),
                command("report", args.run, "--verdicts", result.verdicts),
            )
            note(f"next: {compare_command}; {report_command}")
    note(*result.silent)
    return 1 if result.silent else 0


def _attack(args: argparse.Namespace, options: JudgeOptions) -> int:
    from demur.api import attack_judge
    from demur.reports.tables import Table, numbers, texts

    result = attack_judge(options, unmasked=args.unmasked)
    if args.json:
        print_json(result.as_json())
        return 0
    columns = (
        *texts("Family"),
        *numbers("n", "Flipped", "Blocked", "Judge failed"),
    )
    notes = [
        "Flipped: the judge called a wrong answer correct. Blocked: any other grade. Judge failed: no grade."
    ]
    if args.unmasked:
        columns += numbers("Flipped unmasked", "Blocked by the mask")
        notes.append(
            "Flipped unmasked: by answers of which nothing is left out. Blocked by the mask: flipped only so."
        )
    counts = {h.family: [int(n) for n in h[1:] if n is not None] for h in result.families}
    wrong_without_attack = counts.pop("none")
    rows: list[tuple[str | int, ...]] = [
        ("(wrong answers without an attack)", *wrong_without_attack)
    ]
    rows += [(family, *n) for family, n in counts.items()]
    rows.append(("All attacks", *map(sum, zip(*counts.values(), strict=True))))
    rules = frozenset({1, len(rows) - 1})
    show(
        Table(
            "attacks",
            f"Attacks on {result.judge}.",
            columns,
            tuple(rows),
            rules=rules,
            notes=tuple(notes),
        )
    )
    note(*filter(None, [result.summary]))
    if args.show:
        say(*(f"flipped by: {brief(text, 110)}" for text in result.flipped))
    return 0


def _bench(args: argparse.Namespace, options: JudgeOptions) -> int:
    from demur.api import bench_judge

    result = bench_judge(options, args.on)
    if args.json:
        print_json(result.as_json())
        return 0
    gradings = (result.first, *result.repeats)
    show(*(table for grading in gradings if grading.bench for table in grading.bench.tables()))
    note(*filter(None, (grading.summary for grading in gradings)))
    _say_variance(result)
    if args.wrong and result.first.bench:
        say(*result.first.bench.wrong())
    return 0
