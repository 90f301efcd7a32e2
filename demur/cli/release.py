"""`demur release show|verify`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="show|verify")
    for name, does in (
        ("show", "what a release holds: counts, funnel, models, licences"),
        ("verify", "check hashes, ids, evidence, leaks and counts; exit 1 when something is wrong"),
    ):
        sub = verbs.add_parser(name, help=does, description=does[0].upper() + does[1:] + ".")
        sub.add_argument("folder", type=Path, help="the release folder")
        sub.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Show or verify."""
    from demur.answers import holds
    from demur.curation.release import Release, verify

    release = Release.open(args.folder)
    if args.what == "verify":
        wrong = verify(release, holds=holds)
        if args.json:
            sys.stdout.write(json.dumps({"release": str(args.folder), "sound": not wrong, "problems": wrong}) + "\n")
        elif wrong:
            sys.stdout.write("\n".join(wrong) + "\n")
            sys.stderr.write(f"demur: {args.folder}: {len(wrong)} problem(s) - fetch or build the release again\n")
        else:
            n = len(release.manifest["files"])
            sys.stdout.write(
                f"{release.name} {release.version} is sound: {n} files, "
                f"{release.manifest['counts']['samples']} samples, "
                f"sha256 {release.sha256[:16]}\n"
            )
        return 1 if wrong else 0
    if args.json:
        sys.stdout.write(
            json.dumps({"manifest": release.manifest, "funnel": release.funnel, "recall": release.recall}, indent=1)
            + "\n"
        )
        return 0
    from rich.console import Console
    from rich.table import Table

    console = Console()
    manifest = release.manifest
    console.print(
        f"[bold]{release.name} {release.version}[/]  sha256 {release.sha256[:16]}  made by demur {manifest['demur']}"
    )
    for key, value in manifest["counts"].items():
        if not isinstance(value, dict):
            console.print(f"  {value:>7,}  {key.replace('_', ' ')}", highlight=False)
    table = Table(title="Funnel", title_justify="left")
    for head in ("stage", "entered", "kept", "left because"):
        table.add_column(head, justify="right" if head in ("entered", "kept") else "left")
    for step in release.funnel:
        why = "; ".join(f"{reason} ({n})" for reason, n in sorted(step["dropped"].items()))
        table.add_row(step["stage"], str(step["entered"]), str(step["kept"]), why)
    console.print(table)
    for name, note in sorted(manifest.get("models", {}).items()):
        console.print(f"  {name}: {note}", highlight=False, markup=False)
    for line in manifest.get("limits", []):
        console.print(f"  limit: {line}", highlight=False, markup=False)
    return 0
