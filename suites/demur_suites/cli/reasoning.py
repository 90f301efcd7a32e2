"""`demur reasoning`: explain a run's wrong answers; give items of MM-THEBench their steps and rubrics."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demur.cli._arguments import add_shared, budget_of, job, positive
from demur.cli._output import note, print_json, print_tables, say
from demur.core.text import command

DOES = "explain a run's wrong answers, by the evidence shown"
EXAMPLE = "reasoning demo-out/runs/reader --scenario adversarial"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the jobs and their arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    why = job(
        jobs,
        "why",
        "explain wrong answers, linked to the evidence shown; 'demur reasoning RUN' is the same",
    )
    why.add_argument("run", type=Path, metavar="RUN", help="run folder")
    why.add_argument(
        "--judge",
        metavar="MODEL",
        help="model that reads chains and evidence (default: only what rules prove)",
    )
    why.add_argument(
        "--scenario",
        dest="scenarios",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only these scenarios",
    )
    why.add_argument(
        "-n",
        "--limit",
        type=positive,
        metavar="N",
        help="wrong answers per scenario (default: all)",
    )
    why.add_argument(
        "--items",
        type=Path,
        help="reference steps of samples, by id, to judge their chains against",
    )
    add_shared(why, "--release", release="release of the run (default: the one beside it)")
    why.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="PAGE.html",
        help="also write a page of every wrong answer (default: none)",
    )
    draft = job(
        jobs,
        "draft",
        "let a model write the steps and rubrics that items lack, for people to review",
    )
    draft.add_argument(
        "items", type=Path, help="items of MM-THEBench; an item with steps gets only a rubric"
    )
    draft.add_argument(
        "--judge",
        required=True,
        metavar="MODEL",
        help="model that writes; it sees the images unless MODEL?images=no",
    )
    review = job(
        jobs,
        "review",
        "make a labelling task of items with steps, for 'demur annotate page --out DIR'",
    )
    review.add_argument("items", type=Path, help="items of MM-THEBench")
    take = job(jobs, "take", "put reviews back into the items: sound, to be corrected, too complex")
    take.add_argument("items", type=Path, help="items of MM-THEBench")
    take.add_argument("folder", type=Path, help="folder of the labelling task")
    quality = job(jobs, "quality", "audit a tenth of each annotator's reviews")
    quality.add_argument("folder", type=Path, help="folder of the labelling task")
    for made in (take, quality):
        made.add_argument(
            "--auditor", required=made is quality, default="", metavar="NAME", help="who audits"
        )
    frames = job(jobs, "frames", "sample frames of video items, for systems that accept images")
    frames.add_argument("items", type=Path, help="items of MM-THEBench")
    meta = job(
        jobs,
        "meta",
        "make a labelling task of the chain judge's decisions, to see whether people decide alike",
    )
    meta.add_argument(
        "chains",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="runs or outputs, as 'demur suite score'",
    )
    meta.add_argument(
        "--items", type=Path, help="items of MM-THEBench (a run holds only their path)"
    )
    meta.add_argument(
        "--judge", required=True, metavar="MODEL", help="judge whose decisions people review"
    )
    meta.add_argument(
        "--of",
        choices=("steps", "answers", "rubric"),
        default="steps",
        help="which decisions (default: %(default)s)",
    )
    meta.add_argument(
        "-n", "--n", type=positive, default=300, help="decisions to draw (default: %(default)s)"
    )
    add_shared(meta, "--seed")
    for made, what in (
        (meta, "the task"),
        (draft, "the items"),
        (review, "the task"),
        (take, "the items"),
        (frames, "items and frames"),
    ):
        made.add_argument(
            "-o", "--out", type=Path, required=True, metavar="DIR", help=f"folder for {what}"
        )
    for made in (why, draft, meta):
        add_shared(made, "--ledger")
        made.add_argument(
            "--prompts",
            type=Path,
            metavar="DIR",
            help="your own prompts (why.md, rubric.md ...) in place of demur's",
        )
        add_shared(made, "--concurrency", "--budget", "--prices")
    add_shared(why, "--form")
    for made in (why, draft, take, quality):
        add_shared(made, "--json")


def arranged(words: Sequence[str]) -> list[str]:
    """``demur reasoning RUN`` is ``demur reasoning why RUN``."""
    return list(words) if not words or words[0] in (*JOBS, "-h", "--help") else ["why", *words]


def run(args: argparse.Namespace) -> int:
    """Do the job."""
    return JOBS[args.job](args)


def _judge(args: argparse.Namespace, pictures: Path | None = None) -> Any:
    """The judge of ``--judge``, which sees the images of ``pictures`` unless it says otherwise; None without one."""
    from demur.core.uris import read_image
    from demur.judge.base import JudgeContext
    from demur_suites.mm_thebench.judging import ChainJudge

    if not args.judge:
        return None
    context = JudgeContext(
        args.ledger or Path("judge-calls.sqlite"),
        args.concurrency,
        budget_of(args),
        args.prices,
        read_image=lambda ref: read_image(ref, pictures),
    )
    sees = "?images=yes" if pictures is not None and "?images=" not in args.judge else ""
    return ChainJudge(args.judge.removeprefix("model:") + sees, context, args.prompts)


def _loaded(path: Path) -> Any:
    from demur_suites import suite

    return suite("mm_thebench").open(path)


def _why(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.reports.data import open_beside
    from demur_suites.mm_thebench.causes import cause_tables, find_causes, write_causes

    release, judge = open_beside(args.run, args.release), _judge(args)
    items = {i.id: i for i in _loaded(args.items).items} if args.items else None
    with TerminalProgress() as steps:
        steps.stage("reason")
        found = find_causes(
            args.run,
            release,
            judge,
            scenarios=args.scenarios,
            limit=args.limit,
            items=items,
            progress=lambda n: steps.count("wrong answers examined", n, 0),
        )
    path = write_causes(found, args.run, release, judge.model if judge else "local", args.out)
    made = cause_tables(found)
    if args.json:
        value: dict[str, Any] = {t.name: t.records() for t in made}
        print_json(value | {"reasons": [r.model_dump(mode="json") for r in found.reasons]})
        return 0
    print_tables(made, args.form)
    note(f"\neach wrong answer with its cause: {path}")
    return 0


def _draft(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur_suites.mm_thebench.annotation import draft
    from demur_suites.mm_thebench.items import write_items

    loaded = _loaded(args.items)
    with TerminalProgress() as steps:
        steps.stage("draft")
        made = draft(
            _judge(args, loaded.root), loaded.items, lambda n: steps.count("items drafted", n, 0)
        )
    write_items(args.out, made.items, loaded.root)
    if args.json:
        print_json({"items": len(made.items), "failed": made.failed})
    else:
        _list(made.failed, "no draft")
        whole = sum(bool(i.steps and i.rubric) for i in made.items)
        say(f"{whole} of {len(made.items)} items have steps and a rubric")
        note(f"next: {command('reasoning', 'review', args.out, '-o', 'annotation')}")
    return 0


def _list(reasons: dict[str, str], what: str) -> None:
    from demur.core.text import brief

    say(*(f"{what}: {id}: {brief(why, 100)}" for id, why in reasons.items()))


def _review(args: argparse.Namespace) -> int:
    from demur_suites.mm_thebench.annotation import review_task

    loaded = _loaded(args.items)
    say(review_task(loaded.items, args.out, loaded.root))
    note(f"next: {command('annotate', 'page', '--out', args.out, '--as', 'NAME')}")
    return 0


def _take(args: argparse.Namespace) -> int:
    from demur_suites.mm_thebench.annotation import take_reviews
    from demur_suites.mm_thebench.items import write_items

    loaded = _loaded(args.items)
    found = take_reviews(loaded.items, args.folder, args.auditor)
    write_items(args.out, found.items, loaded.root)
    reviewed = [
        i for i in found.items if i.id not in found.open
    ]  # others keep what an earlier task found
    sound = sum(bool(i.reviewed_by) for i in reviewed)
    if args.json:
        print_json(
            {"sound": sound, "to_mend": found.to_mend, "hasty": found.hasty, "open": found.open}
        )
        return 0
    _list(found.to_mend, "to be corrected")
    _list(dict.fromkeys(found.hasty, "marked too complex in less than five minutes"), "too early")
    complex_ = sum(i.too_complex for i in reviewed)
    counts = f"{sound} sound, {len(found.to_mend)} to be corrected, {complex_} too complex, {len(found.open)} open"
    say(f"{len(found.items)} items: {counts}")
    return 0


def _quality(args: argparse.Namespace) -> int:
    from demur_suites.mm_thebench.annotation import quality

    found = quality(args.folder, args.auditor)
    if args.json:
        print_json([q._asdict() for q in found])
        return 0
    for q in found:
        ends = f" [{100 * q.ends[0]:.0f}, {100 * q.ends[1]:.0f}] %" if q.ends else ""
        decided = q.decision or f"{args.auditor} must first audit: {', '.join(q.sampled)}"
        seen = f"{q.unqualified} of {q.looked} unqualified{ends}, {len(q.sampled)} of {q.labelled} sampled"
        say(f"{q.name}: {seen}: {decided}")
    return 0


def _frames(args: argparse.Namespace) -> int:
    from demur_suites.mm_thebench.video import with_frames

    loaded = _loaded(args.items)
    failed = with_frames(loaded.items, loaded.root, args.out)
    say(args.out)
    note(*(f"demur: no frames of {id}: {why}" for id, why in failed.items()))
    return 1 if failed else 0


def _meta(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur_suites import suite
    from demur_suites.mm_thebench.meta_evaluation import meta_task
    from demur_suites.outputs import open_outputs

    found, judge = open_outputs(suite("mm_thebench"), args.chains, args.items), _judge(args)
    with TerminalProgress() as steps:
        steps.stage("judge")
        n, decided = meta_task(
            found,
            judge,
            args.out,
            of=args.of,
            n=args.n,
            seed=args.seed,
            progress=lambda n: steps.count("chains judged", n, 0),
        )
    say(f"{n:,} decisions to review: {args.out}")
    labelled = command("annotate", "page", "--out", args.out, "--as", "NAME")
    note(f"next: {labelled}; {command('agree', args.out, decided)}")
    return 0


JOBS = {
    "why": _why,
    "draft": _draft,
    "review": _review,
    "take": _take,
    "quality": _quality,
    "frames": _frames,
    "meta": _meta,
}
