"""`demur release show|verify|diff|push`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import job
from demur.cli._shown import print_funnel, show_table, words
from demur.core.text import brief, plain

if TYPE_CHECKING:
    from demur.release import Release


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="show|verify|diff|push")
    for name, does in (
        ("show", "what a release holds: counts, funnel, models, licences"),
        ("verify", "check hashes, ids, evidence, leaks and counts; exit 1 when something is wrong"),
        ("diff", "what left, came and changed between two releases, and why"),
        ("push", "send a release to a folder, or to the hub as hf:OWNER/NAME"),
    ):
        sub = job(verbs, name, does)
        sub.add_argument("folder", type=Path, help="the release folder")
        if name == "diff":
            sub.add_argument("new", type=Path, help="the release to compare it with")
        if name == "push":
            sub.add_argument("target", help="a folder, or hf:OWNER/NAME")
            sub.add_argument("--dry-run", action="store_true", help="say what would be sent, send nothing")
            sub.add_argument("--private", action="store_true", help="a hub repository that is made is private")
        sub.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from demur.release import Release

    release = Release.open(args.folder)
    if args.what == "verify":
        return _verify(release, args)
    if args.what == "diff":
        return _diff(release, Release.open(args.new), as_json=args.json)
    if args.what == "push":
        return _push(release, args)
    return _show(release, as_json=args.json)


def _verify(release: Release, args: argparse.Namespace) -> int:
    from demur.release import verify
    from demur.release.evidence import telling

    wrong = verify(release)
    findings = [] if wrong else telling(release.manifest.get("separation") or ())
    if args.json:
        result = {"release": str(args.folder), "sound": not wrong, "problems": wrong, "findings": findings}
        sys.stdout.write(json.dumps(result) + "\n")
    elif wrong:
        sys.stdout.write("\n".join(map(plain, wrong)) + "\n")
        sys.stderr.write(f"demur: {args.folder}: {len(wrong)} problem(s) - fetch or build the release again\n")
    else:
        n = len(release.manifest["files"])
        sys.stdout.write(
            f"{plain(release.name)} {plain(release.version)} is sound: {n} files, "
            f"{release.manifest['counts']['samples']} samples, "
            f"sha256 {release.sha256[:16]}\n"
        )
        for line in findings:
            sys.stdout.write(f"finding: {plain(line)}\n")
    return 1 if wrong else 0


def _diff(old: Release, new: Release, *, as_json: bool) -> int:
    from demur.release.diff import difference

    found = difference(old, new)
    if as_json:
        sys.stdout.write(json.dumps(found.model_dump(mode="json"), ensure_ascii=False) + "\n")
        return 0
    from rich.console import Console

    console = Console()
    console.print(
        words(f"{found.old} -> {found.new}:", style="bold"),
        f"{len(found.left):,} left, {len(found.came):,} came, {len(found.changed):,} changed, {found.same:,} the same",
        highlight=False,
    )
    if old.name != new.name:
        console.print("[bold]these are two benchmarks, not two versions of one[/]", highlight=False)
    for what, reasons in (("left", found.why_left), ("came", found.why_came)):
        for why, n in reasons.items():
            tail = f"the old release said: {why}" if what == "came" else why
            sys.stdout.write(f"  {n:>6,} {what}: {plain(tail)}\n")
    lost = sum(len(c.distractors_left) for c in found.changed)
    came = sum(len(c.distractors_came) for c in found.changed)
    if lost or came:
        console.print(f"  of samples in both: {lost:,} distractors left, {came:,} came", highlight=False)
    for head, table_of in (("source", found.by_source), ("topic", found.by_topic)):
        kinds = ("left", "came", "changed", "same")
        rows = ((key or "(none)", *(f"{n.get(c, 0):,}" for c in kinds)) for key, n in table_of.items())
        show_table(f"By {head}", (head, *kinds), rows, left=(head,))
    for key, pair in {**{f"recipe {k}": v for k, v in found.recipe.items()}, **found.made}.items():
        sys.stdout.write(f"{plain(key)}: {_change(*pair)}\n")
    return 0


def _change(old: object, new: object) -> str:
    """What differs between two values; of lists of named things, which came, left and changed."""
    if isinstance(old, list) and isinstance(new, list):
        one, other = ({_name(x): x for x in values} for values in (old, new))
        parts = [f"+ {brief(k)}" for k in other if k not in one] + [f"- {brief(k)}" for k in one if k not in other]
        parts += [f"{brief(k)} changed" for k in one if k in other and one[k] != other[k]]
        return ", ".join(parts) or "another order"
    if old is None:
        return f"+ {brief(new)}"
    return f"- {brief(old)}" if new is None else f"{brief(old)} -> {brief(new)}"


def _name(value: object) -> str:
    return str((value.get("name") or value.get("system") or value) if isinstance(value, dict) else value)


def _push(release: Release, args: argparse.Namespace) -> int:
    from demur.release.push import push

    sent = push(release, args.target, dry_run=args.dry_run, private=args.private)
    if args.json:
        result = {
            "target": sent.target, "dry_run": args.dry_run, "files": sent.files, "there": list(sent.there),
            "revision": sent.revision, "note": sent.note,
        }  # fmt: skip
        sys.stdout.write(json.dumps(result) + "\n")
        return 0
    for name, size in sent.files.items():
        sys.stdout.write(f"{'would send' if args.dry_run else 'sent'} {name} ({size:,} bytes)\n")
    verb = "would be sent" if args.dry_run else "sent"
    where = f"{sent.target} at {sent.revision}" if sent.revision else sent.target
    note = f" - {sent.note}" if sent.note else ""
    sys.stdout.write(f"{where}: {len(sent.files)} files {verb}, {len(sent.there)} there already{note}\n")
    return 0


def _show(release: Release, *, as_json: bool) -> int:
    from demur.release.card import recall_lines
    from demur.release.evidence import evidence_by_source, evidence_table

    evidence = evidence_by_source(list(release.samples()), release.recall)
    if as_json:
        result = {
            "manifest": release.manifest, "funnel": release.funnel, "recall": release.recall,
            "evidence": [one.model_dump(mode="json") for one in evidence],
        }  # fmt: skip
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
        return 0
    from rich.console import Console

    console = Console()
    manifest = release.manifest
    made = words(f"made by demur {manifest['demur']}")
    name = words(release.name, release.version, style="bold")
    console.print(name, f"sha256 {release.sha256[:16]}", made, sep="  ", highlight=False)
    for key, value in manifest["counts"].items():
        if isinstance(value, int):
            sys.stdout.write(f"  {value:>7,}  {plain(key).replace('_', ' ')}\n")
    print_funnel(release.steps)
    heads, tried = recall_lines(release.recall, intervals=False)  # the card has them
    columns_of_evidence, rows = evidence_table(evidence)
    for title, columns, lines in (
        ("Retrieval modes by recall of gold", heads, tried),
        ("Evidence", columns_of_evidence, rows),
    ):
        if lines:
            heads = [column.replace("recall@", "@") for column in columns]
            show_table(title, heads, lines, left=heads)
    for source, result in sorted((manifest.get("sources") or {}).items()):
        for licence in result.get("licences", ()) if isinstance(result, dict) else ():
            sys.stdout.write(f"  licence of {plain(str(source))}: {plain(str(licence))}\n")
    for name, note in sorted((manifest.get("models") or {}).items()):
        sys.stdout.write(f"  {plain(name)}: {plain(str(note))}\n")
    for line in manifest.get("limits") or ():
        sys.stdout.write(f"  limit: {plain(str(line))}\n")
    return 0
