"""`demur release show|verify|diff|push|qrels`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import TRUST, add_shared, job
from demur.cli._output import note, print_json, say, show, show_funnel, show_recall, words
from demur.core.text import brief, plain

if TYPE_CHECKING:
    from demur.release import Release


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="show|verify|diff|push|qrels")
    for name, does in (
        ("show", "show what a release holds: counts, funnel, models, licences"),
        (
            "verify",
            "check hashes, ids, evidence, leaks, counts, and that gold is not told without reading; exit 1 on any problem",
        ),
        ("diff", "list the samples removed, added and changed between two releases, and why"),
        ("push", "send a release to the Hugging Face hub, as hf:OWNER/NAME"),
        (
            "qrels",
            "write the gold evidence of every question as TREC qrels, which ir_measures reads",
        ),
    ):
        sub = job(verbs, name, does)
        sub.add_argument("release", help="release folder, or hf:OWNER/NAME@VERSION")
        if name == "diff":
            sub.add_argument("new", help="release to compare it with")
        if name == "push":
            sub.add_argument("target", help="hf:OWNER/NAME")
            sub.add_argument(
                "--dry-run", action="store_true", help="list what would be sent, and send nothing"
            )
            sub.add_argument(
                "--private", action="store_true", help="create the hub repository as private"
            )
        if name == "verify":
            sub.add_argument(
                "--submission",
                action="store_true",
                help="also list what a venue asks of a benchmark and only people know; exit 1 where any is missing",
            )
        if name == "qrels":
            sub.add_argument(
                "-o", "--out", type=Path, required=True, help="file to write; .tsv: as BEIR's"
            )
            sub.add_argument(
                "--index", type=Path, help="index folder whose passages of gold are named instead"
            )
            add_shared(sub, *TRUST)
        add_shared(sub, "--json")


def run(args: argparse.Namespace) -> int:
    from demur.api import open_release

    release = open_release(args.release)
    job = {"show": _show, "verify": _verify, "diff": _diff, "push": _push, "qrels": _qrels}[
        args.what
    ]
    return job(release, args)


def _verify(release: Release, args: argparse.Namespace) -> int:
    from demur.api import missing_facts, verify

    wrong = verify(release)
    missing = dict(missing_facts(release.manifest)) if args.submission else {}
    if args.json:
        state = {"release": args.release, "sound": not wrong, "problems": wrong}
        print_json(state | {"missing": missing})
    elif wrong:
        say(*map(plain, wrong))
        note(f"demur: {args.release}: {len(wrong)} problem(s) - fetch or build the release again")
    else:
        n, samples = len(release.manifest["files"]), release.manifest["counts"]["samples"]
        say(
            f"{release.name} {release.version} is sound: {n} files, {samples} samples, sha256 {release.sha256[:16]}",
            *(f"missing: {key} - {question}" for key, question in missing.items()),
        )
        if missing:
            note(
                f"demur: {args.release}: a submission needs {len(missing)} facts more - "
                "write them into the recipe and build again; no call is paid twice"
            )
    return 1 if wrong or missing else 0


def _diff(old: Release, args: argparse.Namespace) -> int:
    from demur.api import difference, open_release
    from demur.reports.tables import Cell, Table, numbers, texts

    new = open_release(args.new)
    change = difference(old, new)
    if args.json:
        print_json(change.model_dump(mode="json"))
        return 0
    say(
        f"{change.old} -> {change.new}: {len(change.left):,} removed, {len(change.came):,} added, "
        f"{len(change.changed):,} changed, {change.same:,} unchanged"
    )
    if old.name != new.name:
        say("these are two benchmarks, not two versions of one")
    say(*(f"  {n:>6,} removed: {why}" for why, n in change.why_left.items()))
    say(
        *(
            f"  {n:>6,} added: dropped from the old release: {why}"
            for why, n in change.why_came.items()
        )
    )
    distractors_removed = sum(len(c.distractors_left) for c in change.changed)
    distractors_added = sum(len(c.distractors_came) for c in change.changed)
    if distractors_removed or distractors_added:
        say(
            f"  samples in both releases: {distractors_removed:,} distractors removed, {distractors_added:,} added"
        )
    for head, table_of in (("source", change.by_source), ("topic", change.by_topic)):
        kinds = {"left": "removed", "came": "added", "changed": "changed", "same": "unchanged"}
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (key or "(none)", *(n.get(c, 0) for c in kinds)) for key, n in table_of.items()
        )
        columns = (*texts(head), *numbers(*kinds.values()))
        show(Table(head, f"Samples by {head}", columns, rows))
    for key, pair in {
        **{f"recipe {k}": v for k, v in change.recipe.items()},
        **change.made,
    }.items():
        say(f"{key}: {_change_text(*pair)}")
    return 0


def _change_text(old: object, new: object) -> str:
    """How two values differ; for lists of named things, which were added, removed or changed."""
    if isinstance(old, list) and isinstance(new, list):
        old_members, new_members = ({_member_name(x): x for x in values} for values in (old, new))
        parts = [f"+ {brief(k)}" for k in new_members if k not in old_members] + [
            f"- {brief(k)}" for k in old_members if k not in new_members
        ]
        parts += [
            f"{brief(k)} changed"
            for k in old_members
            if k in new_members and old_members[k] != new_members[k]
        ]
        return ", ".join(parts) or "another order"
    if old is None:
        return f"+ {brief(new)}"
    return f"- {brief(old)}" if new is None else f"{brief(old)} -> {brief(new)}"


def _member_name(value: object) -> str:
    return str(
        (value.get("name") or value.get("system") or value) if isinstance(value, dict) else value
    )


def _push(release: Release, args: argparse.Namespace) -> int:
    from demur.api import push

    pushed = push(release, args.target, dry_run=args.dry_run, private=args.private)
    if args.json:
        print_json(pushed._asdict() | {"dry_run": args.dry_run})
        return 0
    sends = "would send" if args.dry_run else "sent"
    say(*(f"{sends} {name} ({size:,} bytes)" for name, size in pushed.files.items()))
    verb = "would be sent" if args.dry_run else "sent"
    remark = f" - {pushed.note}" if pushed.note else ""
    say(
        f"{pushed.target} at {pushed.revision}: {len(pushed.files)} files {verb}, {len(pushed.there)} there already{remark}"
    )
    return 0


def _qrels(release: Release, args: argparse.Namespace) -> int:
    from demur.api import write_qrels

    count = write_qrels(release, args.out, args.index)
    if args.json:
        print_json({"file": str(args.out), "lines": count})
    else:
        say(plain(f"{args.out}: {count:,} pieces of gold evidence"))
    return 0


def _show(release: Release, args: argparse.Namespace) -> int:
    from rich.console import Console

    from demur.api import evidence_by_source, evidence_table
    from demur.reports.tables import Table, texts

    evidence = evidence_by_source(list(release.samples()), release.recall)
    if args.json:
        print_json(
            {
                "manifest": release.manifest,
                "funnel": release.funnel,
                "recall": release.recall,
                "evidence": [
                    source_evidence.model_dump(mode="json") for source_evidence in evidence
                ],
            },
            1,
        )
        return 0
    console = Console()
    manifest = release.manifest
    made_by = words(f"made by demur {manifest['demur']}")
    name = words(release.name, release.version, style="bold")
    console.print(name, f"sha256 {release.sha256[:16]}", made_by, sep="  ", highlight=False)
    for key, value in manifest["counts"].items():
        if isinstance(value, int):
            say(f"  {value:>7,}  {key.replace('_', ' ')}")
    show_funnel(release)
    if release.recall:
        show_recall(release)
    heads, rows = evidence_table(evidence)
    columns = (*texts(heads[0]), *texts(*heads[1:], wraps=True))
    show(Table("evidence", "Evidence by source", columns, tuple(map(tuple, rows))))
    for source, result in sorted((manifest.get("sources") or {}).items()):
        for licence in result.get("licences", ()) if isinstance(result, dict) else ():
            say(f"  licence of {source}: {plain(str(licence))}")
    for name, remark in sorted((manifest.get("models") or {}).items()):
        say(f"  {plain(name)}: {plain(str(remark))}")
    for line in manifest.get("limits") or ():
        say(f"  limit: {plain(str(line))}")
    return 0
