"""`demur judge`: grade existing answers, and compare, correct, attack or measure judges."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import add_shared, budget_of, job, positive, values_of_pairs
from demur.cli._output import note, print_json, print_tables, print_tables_or_json, say
from demur.core.text import command

if TYPE_CHECKING:
    from demur.core.records import Verdict


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
        add_shared(job_parser, "--ledger", "--concurrency", "--budget", "--prices", "--json")


def run(args: argparse.Namespace) -> int:
    if args.job in ("compare", "correct"):
        return {"compare": _compare, "correct": _correct}[args.job](args)
    from demur.core.errors import UsageError
    from demur.core.progress import TerminalProgress

    if judge_named := getattr(args, "named", None):  # of `attack`
        if args.judge not in ("local", judge_named):
            raise UsageError(
                f"two judges: {judge_named!r} and {args.judge!r}", cure="leave out --judge"
            )
        args.judge = judge_named
    args.ledger = args.ledger or Path("judge-calls.sqlite")
    args.budget = budget_of(args)  # one for all repeats
    with TerminalProgress() as steps:
        steps.stage("grade")
        return {"file": _file, "run": _run, "attack": _attack, "bench": _bench}[args.job](
            args, steps
        )


def _open_judge(args: argparse.Namespace, repeat: int = 0, *, unmasked: bool = False) -> Any:
    """The judge of ``--judge``."""
    from demur.judge.base import JudgeContext, open_judge

    context = JudgeContext(
        args.ledger, args.concurrency, args.budget, args.prices, repeat, unmasked
    )
    return open_judge(args.judge, context)


def _progress(
    args: argparse.Namespace,
    judge: Any,
    steps: Any,
    counted: str = "answers graded",
    total: int = 0,
) -> Any:
    """A function of the number done, which tells it; with where the calls are that a killed command made."""
    where_calls_are = f"calls kept in {args.ledger}" if getattr(judge, "asks_models", False) else ""
    return lambda n: steps.count(counted, n, total, where_calls_are)


def _file(args: argparse.Namespace, steps: Any) -> int:
    from demur.core.text import brief
    from demur.evaluation.rejudge import judge_file

    judges = [_open_judge(args, repeat) for repeat in range(args.repeat)]
    verdicts_of_repeats = []
    for repeat, judge in enumerate(judges):
        out = (
            args.out.with_stem(f"{args.out.stem}@{repeat + 1}") if args.out and repeat else args.out
        )
        progress = _progress(args, judge, steps)
        verdicts_of_repeats.append(
            judge_file(
                args.rows,
                judge,
                out,
                columns=values_of_pairs(args.map, "--map output=response"),
                skip_bad=args.skip_bad,
                progress=progress,
            )
        )
    for verdict in () if args.json else verdicts_of_repeats[0][:20]:
        say(f"{brief(verdict.id, 24):<24}  {_outcome(verdict):<10}  {brief(verdict.reason, 90)}")
    if len(verdicts_of_repeats[0]) > 20 and not args.json:
        say(f"... and {len(verdicts_of_repeats[0]) - 20:,} more")
    summaries = []
    for judge, verdicts in zip(judges, verdicts_of_repeats, strict=True):
        counts = Counter(map(_outcome, verdicts))
        summaries.append(
            _summary(judge)
            | {"counts": counts, "verdicts": [v.model_dump(mode="json") for v in verdicts]}
        )
        if not args.json:
            say(
                f"{len(verdicts):,} answers: {', '.join(f'{n:,} {k}' for k, n in counts.most_common())}"
            )
            say(*filter(None, [_mean_credit(v.credit for v in verdicts)]))
            note(*_summary(judge).values())
    _print_repeats(args, summaries, verdicts_of_repeats)
    return 0


def _summary(judge: Any) -> dict[str, Any]:
    """What a cascade saved, or how far the members of a panel agree, as an entry of JSON; {} of other judges."""
    return {"summary": summary} if (summary := getattr(judge, "summary", "")) else {}


def _outcome(verdict: Verdict) -> str:
    return verdict.outcome.value if verdict.outcome else verdict.status.value


def _print_repeats(
    args: argparse.Namespace, summaries: list[dict[str, Any]], verdicts: Sequence[Sequence[Verdict]]
) -> None:
    """Print as JSON what is told of the first verdicts and of each repeat, or how often a repeat differs from them."""
    from demur.judge.measures.agreement import repeat_variance

    variance = repeat_variance(verdicts[0], verdicts[1:])
    if args.json:
        repeats_record = (
            {"repeats": summaries[1:], "repeat_variance": variance.model_dump(mode="json")}
            if summaries[1:]
            else {}
        )
        print_json(summaries[0] | repeats_record)
    elif verdicts[1:]:
        interval = (
            ""
            if variance.value is None
            else f"{variance.value:.1%} [{variance.low:.1%}, {variance.high:.1%}] "
        )
        say(f"another verdict when asked again: {interval}of n = {variance.n:,}")


def _run(args: argparse.Namespace, steps: Any) -> int:
    from demur.core.errors import UsageError
    from demur.evaluation.rejudge import judge_run
    from demur.evaluation.run_folder import all_failed
    from demur.reports.data import load, open_beside
    from demur.reports.terminal import print_data, summarised

    release = open_beside(args.run, args.release)
    if args.out is None:
        return _judge_beside(args, steps, release)
    if args.name or args.repeat > 1:
        raise UsageError(
            "--name and --repeat are of verdicts beside the run's own", cure="leave out --out"
        )
    judge = _open_judge(args)
    judge_run(
        args.run, release, judge, args.out, progress=_progress(args, judge, steps), note=steps.note
    )
    data = load([args.out], release.folder)
    if args.json:
        print_json(_summary(judge) | summarised(data), 1)
    else:
        print_data(data)
    for line in (silent := all_failed([args.out])):
        note(line)
    return 1 if silent else 0


def _judge_beside(args: argparse.Namespace, steps: Any, release: Any) -> int:
    """File the verdicts in the run itself, once per repeat."""
    import re

    from demur.core.store import Problems, read_jsonl
    from demur.evaluation.rejudge import judge_beside
    from demur.reports.data import load
    from demur.reports.terminal import print_data, summarised

    name = args.name
    first_summary: dict[str, Any] = {}
    for repeat in range(args.repeat):
        judge = _open_judge(args, repeat)
        name = name or re.sub(r"[^\w.+-]+", "-", judge.id).strip("-")[:60]
        verdicts_name = f"{name}@{repeat + 1}" if repeat else name
        file = judge_beside(
            args.run, release, judge, verdicts_name, progress=_progress(args, judge, steps)
        )
        steps.note(f"{file}")
        if credit := _mean_credit(v.get("credit") for _, v in read_jsonl(file, Problems())):
            steps.note(credit)
        for summary in (judge_summary := _summary(judge)).values():
            steps.note(summary)
        first_summary = first_summary or judge_summary
    data = load([args.run], release.folder, verdicts=name)
    if args.json:
        print_json({"verdicts": name} | first_summary | summarised(data), 1)
    else:
        print_data(data)
        compare_command, report_command = (
            command("judge", "compare", args.run),
            command("report", args.run, "--verdicts", name),
        )
        note(f"next: {compare_command}; {report_command}")
    return 0


def _mean_credit(credits: Iterable[float | None]) -> str:
    """The mean credit of a judge that rates, and how many answers it did not rate; "" for a judge that only labels."""
    all_credits = list(credits)
    rated = [c for c in all_credits if c is not None]
    if not rated:
        return ""
    return f"mean credit {sum(rated) / len(rated):.3f} of n = {len(rated):,}, {len(all_credits) - len(rated):,} not rated"


def _compare(args: argparse.Namespace) -> int:
    from demur.reports.judges import compare_judges, tables

    print_tables_or_json(tables(compare_judges(args.runs)), args)
    return 0


def _correct(args: argparse.Namespace) -> int:
    from demur.reports.agree import corrections_of
    from demur.reports.data import load

    data = load(args.runs, args.release, verdicts=args.verdicts)
    print_tables_or_json([corrections_of(data, args.labels, finite=args.finite)], args)
    return 0


def _attack(args: argparse.Namespace, steps: Any) -> int:
    from demur.core.errors import UsageError
    from demur.core.text import brief
    from demur.evaluation.rejudge import put_attacks
    from demur.judge.attacks import attacks
    from demur.reports.tables import Table, numbers, texts

    judge = _open_judge(args)
    unmasked_judge = _open_judge(args, unmasked=True) if args.unmasked else None
    if unmasked_judge is not None and not getattr(unmasked_judge, "asks_models", False):
        raise UsageError(
            "it asks no model, and nothing is masked", item=judge.id, cure="leave out --unmasked"
        )
    total = sum(1 for _ in attacks()) * (2 if unmasked_judge else 1)
    attack_results = put_attacks(
        judge, _progress(args, judge, steps, "attacks", total), unmasked_judge
    )
    if args.json:
        families = [h._asdict() for h in attack_results.families]
        print_json(_summary(judge) | {"families": families, "flipped": attack_results.flipped})
        return 0
    columns = (
        *texts("Family"),
        *numbers("n", "Flipped", "Blocked", "Judge failed"),
    )
    notes = [
        "Flipped: the judge called a wrong answer correct. Blocked: any other grade. Judge failed: no grade."
    ]
    if unmasked_judge:
        columns += numbers("Flipped unmasked", "Blocked by the mask")
        notes.append(
            "Flipped unmasked: by answers of which nothing is left out. Blocked by the mask: flipped only so."
        )
    counts = {h.family: [int(n) for n in h[1:] if n is not None] for h in attack_results.families}
    wrong_without_attack = counts.pop("none")
    rows: list[tuple[str | int, ...]] = [
        ("(wrong answers without an attack)", *wrong_without_attack)
    ]
    rows += [(family, *n) for family, n in counts.items()]
    rows.append(("All attacks", *map(sum, zip(*counts.values(), strict=True))))
    rules = frozenset({1, len(rows) - 1})
    table = Table(
        "attacks", f"Attacks on {judge.id}.", columns, tuple(rows), rules=rules, notes=tuple(notes)
    )
    print_tables([table], "terminal")
    note(*_summary(judge).values())
    if args.show:
        say(*(f"flipped by: {brief(text, 110)}" for text in attack_results.flipped))
    return 0


def _bench(args: argparse.Namespace, steps: Any) -> int:
    from demur.reports.judge_bench import measure_judge

    judges = [_open_judge(args, repeat) for repeat in range(args.repeat)]
    benches = [measure_judge(judge, args.on, _progress(args, judge, steps)) for judge in judges]
    if not args.json:
        print_tables([table for bench in benches for table in bench.tables()], "terminal")
        note(*(line for judge in judges for line in _summary(judge).values()))
    summaries = [
        _summary(judge) | bench.as_dict() for judge, bench in zip(judges, benches, strict=True)
    ]
    _print_repeats(args, summaries, [bench.verdicts for bench in benches])
    if args.wrong and not args.json:
        say(*benches[0].wrong())
    return 0
