"""`demur reasoning`: why a run's wrong answers are wrong; and how items of MM-THEBench get their steps and rubrics."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demur.cli._arguments import budget_of, in_flight, job, positive

JOBS = ("why", "draft", "review", "take", "quality", "frames", "meta")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    why = job(
        jobs, "why", "why wrong answers are wrong, linked to the evidence shown; 'demur reasoning RUN' is the same"
    )
    why.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    why.add_argument("--judge", metavar="MODEL", help="reads chains and evidence (default: what rules prove, no model)")
    why.add_argument("--scenario", dest="scenarios", nargs="+", default=[], metavar="NAME", help="look at these alone")
    why.add_argument("-n", "--limit", type=positive, metavar="N", help="wrong answers of each scenario (default: all)")
    why.add_argument("--items", type=Path, help="reference steps of samples, by id, to judge their chains against")
    why.add_argument("--release", type=Path, metavar="DIR", help="of the run (default: the one beside it)")
    why.add_argument(
        "-o", "--out", type=Path, metavar="PAGE.html", help="also write a page of every wrong answer (default: none)"
    )
    why.add_argument("--form", choices=("terminal", "markdown", "latex", "csv"), default="terminal", help="of tables")
    draft = job(jobs, "draft", "a model writes the steps and rubrics that items lack; people review them then")
    draft.add_argument("items", type=Path, help="items of MM-THEBench; of one with steps the rubric alone is written")
    draft.add_argument(
        "--judge", required=True, metavar="MODEL", help="who writes, shown the pictures (MODEL,images=no: text alone)"
    )
    review = job(jobs, "review", "a labelling task of items with steps, for 'demur annotate page --out DIR'")
    review.add_argument("items", type=Path, help="items of MM-THEBench")
    take = job(jobs, "take", "reviews back into the items: sound, to be mended, too complex")
    take.add_argument("items", type=Path, help="items of MM-THEBench")
    take.add_argument("folder", type=Path, help="of the labelling task")
    quality = job(jobs, "quality", "what a second look at a tenth of each annotator's reviews comes to")
    quality.add_argument("folder", type=Path, help="of the labelling task")
    for made in (take, quality):
        made.add_argument("--auditor", required=made is quality, default="", metavar="NAME", help="who looked again")
    frames = job(jobs, "frames", "sample frames of video items, so that systems which take pictures can be asked")
    frames.add_argument("items", type=Path, help="items of MM-THEBench")
    meta = job(jobs, "meta", "what the judge of chains decided, as a labelling task: do people decide alike?")
    meta.add_argument("chains", nargs="+", type=Path, metavar="PATH", help="runs or outputs, as 'demur suite score'")
    meta.add_argument("--items", type=Path, help="of MM-THEBench (a run knows its own)")
    meta.add_argument("--judge", required=True, metavar="MODEL", help="whose decisions people shall look at")
    meta.add_argument(
        "--of", choices=("steps", "answers", "rubric"), default="steps", help="which decisions (default: %(default)s)"
    )
    meta.add_argument("-n", "--n", type=positive, default=300, help="decisions that are drawn (default: %(default)s)")
    meta.add_argument("--seed", type=int, default=0, help="of the draw and the order (default: %(default)s)")
    for made, what in (
        (meta, "the task"),
        (draft, "the items"),
        (review, "the task"),
        (take, "the items"),
        (frames, "items and frames"),
    ):
        made.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help=f"folder of {what}")
    for made in (why, draft, meta):
        made.add_argument("--ledger", type=Path, metavar="FILE", help="the model's calls (default: judge-calls.sqlite)")
        made.add_argument(
            "--prompts", type=Path, metavar="DIR", help="prompts in place of ours (why.md, rubric.md ...)"
        )
        in_flight(made)
        made.add_argument("--budget", type=float, metavar="USD", help="stop before this is passed; run again to go on")
        made.add_argument("--prices", type=Path, metavar="FILE", help="price table that overlays the shipped one")
    for made in (why, draft, take, quality):
        made.add_argument("--json", action="store_true", help="print JSON")


def arranged(words: Sequence[str]) -> list[str]:
    """``demur reasoning RUN`` is ``demur reasoning why RUN``."""
    return list(words) if not words or words[0] in (*JOBS, "-h", "--help") else ["why", *words]


def run(args: argparse.Namespace) -> int:
    """Do the job."""
    work = {"why": _why, "draft": _draft, "review": _review, "take": _take, "quality": _quality, "frames": _frames,
            "meta": _meta}  # fmt: skip
    return work[args.job](args)


def _judge(args: argparse.Namespace, pictures: Path | None = None) -> Any:
    """The model that is named; shown the pictures of that folder unless it says otherwise."""
    from demur.core.uris import read_image
    from demur.judge.base import JudgeContext
    from demur.suites.mm_thebench.judging import ChainJudge

    if not args.judge:
        return None
    context = JudgeContext(
        args.ledger or Path("judge-calls.sqlite"), args.concurrency, budget_of(args), args.prices,
        read_image=lambda ref: read_image(ref, pictures),
    )  # fmt: skip
    sees = ",images=yes" if pictures is not None and ",images=" not in args.judge else ""
    return ChainJudge(args.judge.removeprefix("model:") + sees, context, args.prompts)


def _loaded(path: Path) -> Any:
    from demur.suites import suite

    return suite("mm_thebench").open(path)


def _why(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.reports.data import open_beside
    from demur.suites.mm_thebench.causes import cause_tables, find_causes, write_causes

    release, judge = open_beside(args.run, args.release), _judge(args)
    items = {i.id: i for i in _loaded(args.items).items} if args.items else None
    with TerminalProgress() as steps:
        steps.stage("reason")
        found = find_causes(
            args.run, release, judge, scenarios=args.scenarios, limit=args.limit, items=items,
            progress=lambda n: steps.count("wrong answers looked at", n, 0),
        )  # fmt: skip
    path = write_causes(found, args.run, release, judge.model if judge else "rules", args.out)
    made = cause_tables(found)
    if args.json:
        value: dict[str, Any] = {t.name: t.records() for t in made}
        value["reasons"] = [r.model_dump(mode="json") for r in found.reasons]
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        return 0
    sys.stdout.write("\n".join(t.render(args.form) for t in made))
    sys.stderr.write(f"\neach wrong answer with its cause: {path}\n")
    return 0


def _draft(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.suites.mm_thebench.annotation import draft, write_items

    loaded = _loaded(args.items)
    with TerminalProgress() as steps:
        steps.stage("draft")
        made = draft(_judge(args, loaded.root), loaded.items, lambda n: steps.count("items drafted", n, 0))
    write_items(args.out, made.items, loaded.root)
    if args.json:
        sys.stdout.write(json.dumps({"items": len(made.items), "failed": made.failed}, ensure_ascii=False) + "\n")
    else:
        _told(made.failed, "no draft")
        whole = sum(bool(i.steps and i.rubric) for i in made.items)
        sys.stdout.write(f"{whole} of {len(made.items)} items have steps and a rubric\n")
        sys.stderr.write(f"next: demur reasoning review {args.out} -o annotation\n")
    return 0


def _told(rows: dict[str, str], what: str) -> None:
    from demur.cli._shown import harmless
    from demur.core.text import brief

    sys.stdout.write("".join(harmless(f"{what}: {id}: {brief(why, 100)}\n") for id, why in rows.items()))


def _review(args: argparse.Namespace) -> int:
    from demur.suites.mm_thebench.annotation import review_task

    loaded = _loaded(args.items)
    sys.stdout.write(f"{review_task(loaded.items, args.out, loaded.root)}\n")
    sys.stderr.write(f"next: demur annotate page --out {args.out} --as NAME\n")
    return 0


def _take(args: argparse.Namespace) -> int:
    from demur.suites.mm_thebench.annotation import take_reviews, write_items

    loaded = _loaded(args.items)
    found = take_reviews(loaded.items, args.folder, args.auditor)
    write_items(args.out, found.items, loaded.root)
    sound = sum(bool(i.reviewed_by) for i in found.items)
    if args.json:
        value = {"sound": sound, "to_mend": found.to_mend, "hasty": found.hasty, "open": found.open}
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        return 0
    _told(found.to_mend, "to be mended")
    _told(dict.fromkeys(found.hasty, "called too complex before five minutes had passed"), "too early")
    complex_ = sum(i.too_complex for i in found.items)
    counts = f"{sound} sound, {len(found.to_mend)} to be mended, {complex_} too complex, {len(found.open)} open"
    sys.stdout.write(f"{len(found.items)} items: {counts}\n")
    return 0


def _quality(args: argparse.Namespace) -> int:
    from demur.cli._shown import harmless
    from demur.suites.mm_thebench.annotation import quality

    found = quality(args.folder, args.auditor)
    if args.json:
        sys.stdout.write(json.dumps([q._asdict() for q in found], ensure_ascii=False) + "\n")
        return 0
    for q in found:
        ends = f" [{100 * q.ends[0]:.0f}, {100 * q.ends[1]:.0f}] %" if q.ends else ""
        decided = q.decision or f"{args.auditor} looks at these first: {', '.join(q.sampled)}"
        seen = f"{q.unqualified} of {q.looked} unqualified{ends}, {len(q.sampled)} of {q.labelled} sampled"
        sys.stdout.write(harmless(f"{q.name}: {seen}: {decided}\n"))
    return 0


def _frames(args: argparse.Namespace) -> int:
    from demur.cli._shown import harmless
    from demur.suites.mm_thebench.video import with_frames

    loaded = _loaded(args.items)
    made = with_frames(loaded.items, loaded.root, args.out)
    sys.stdout.write(f"{made.folder}\n")
    sys.stderr.write(harmless("".join(f"demur: no frames of {id}: {why}\n" for id, why in made.failed.items())))
    return 1 if made.failed else 0


def _meta(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.suites import suite
    from demur.suites.mm_thebench.meta_evaluation import meta_task
    from demur.suites.outputs import open_outputs

    found, judge = open_outputs(suite("mm_thebench"), args.chains, args.items), _judge(args)
    with TerminalProgress() as steps:
        steps.stage("judge")
        made = meta_task(
            found, judge, args.out, of=args.of, n=args.n, seed=args.seed,
            progress=lambda n: steps.count("chains judged", n, 0),
        )  # fmt: skip
    sys.stdout.write(f"{made.decisions:,} decisions to be looked at: {args.out}\n")
    told = f"demur annotate page --out {args.out} --as NAME; demur agree {args.out} {made.judge}"
    sys.stderr.write(f"next: {told}\n")
    return 0
