"""`demur sources list|show|check|unpack`."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli._arguments import TRUST, add_shared, job, positive
from demur.cli._output import note, print_json, say

if TYPE_CHECKING:
    from demur.sources.check import Checked

EXAMPLES = """examples:
  $ demur sources show infoseek
  $ demur sources check 'webqa:/data/webqa?split=val'
  $ demur sources check mypackage.adapter:Mine:/data/mine --limit 100"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="what", required=True, metavar="list|show|check|unpack")
    listing = job(
        verbs,
        "list",
        "every installed source: licence, size, modality, pins, what not to give away",
    )
    add_shared(listing, "--json")
    show = job(
        verbs,
        "show",
        "show the card of a source: purpose, licence, files, sizes, known defects, options",
    )
    show.add_argument("name", help="registered name, or module:Class")
    add_shared(show, "--json")
    check = job(
        verbs,
        "check",
        "read a folder once; exit 1 on anything that would silently change a benchmark",
    )
    check.add_argument(
        "source", help="NAME:FOLDER?option=value; NAME is registered, or module:Class"
    )
    check.add_argument(
        "--limit", type=positive, metavar="N", help="read at most N samples and N documents"
    )
    check.add_argument(
        "--pins", type=Path, metavar="FILE", help="YAML list of expected hashes and counts"
    )
    check.add_argument(
        "--no-published-pins",
        action="store_true",
        help="do not compare with the counts of the card",
    )
    add_shared(check, *TRUST, "--json")
    unpack = job(
        verbs, "unpack", "unpack a zip or tar file safely: nothing is written outside the folder"
    )
    unpack.add_argument("archive", type=Path, help=".zip, .tar, .tar.gz and the like")
    unpack.add_argument("folder", type=Path, help="folder to write to; created if needed")


def run(args: argparse.Namespace) -> int:
    return {"list": _list, "show": _show, "check": _check, "unpack": _unpack}[args.what](args)


_LISTED = ("licence", "redistribution", "modality", "sizes")
"""Lines of a card that ``list`` prints."""


def _list(args: argparse.Namespace) -> int:
    from demur.api import list_sources

    listed = list_sources()
    if args.json:
        print_json(
            {
                name: {"place": place, "card": card and card.model_dump(mode="json")}
                for name, (place, card) in listed.items()
            },
            1,
        )
        return 0
    for name, (place, card) in listed.items():
        say(f"{name}  ({place})")
        lines = {label: getattr(card, label) for label in _LISTED} if card else {}
        if card and card.published:
            lines["pins"] = ", ".join(pin.file for pin in card.published)
        say(*(f"  {label:<15} {text}" for label, text in lines.items() if text))
    say("\n'demur sources show NAME' describes one")
    return 0


def _show(args: argparse.Namespace) -> int:
    from demur.api import card_of, options_of
    from demur.core.plugins import find

    factory = find("sources", args.name)[0]
    card, options = card_of(factory), options_of(factory)
    if args.json:
        print_json(
            {"name": args.name, "card": card and card.model_dump(mode="json"), "options": options},
            1,
        )
        return 0
    lines = [f"{args.name}: {card.title if card else factory.__name__}", ""]
    if card is None:
        lines.append("no card: put <module>.yaml beside the adapter, see docs/adding-a-source.md")
    else:
        for name in (
            "purpose",
            "url",
            "licence",
            "redistribution",
            "citation",
            "modality",
            "knowledge_base",
            "gold",
            "negatives",
            "sizes",
            "vlm_deflectionbench",
            "rule",
        ):
            lines.append(f"{name.replace('_', ' '):<20} {getattr(card, name)}")
        lines += ["", "files:"] + [
            f"  {file.name}  ({file.size})  {file.holds}" for file in card.files
        ]
        if card.published:
            lines += ["", "published (checked by 'demur sources check'):"]
            for pin in card.published:
                pin_fields = pin.model_dump(exclude={"file"}, exclude_none=True).items()
                lines.append(
                    f"  {pin.file}  " + ", ".join(f"{key} {value}" for key, value in pin_fields)
                )
        if card.defects:
            lines += ["", "known defects:"] + [f"  - {defect}" for defect in card.defects]
    lines += [
        "",
        "options (NAME:FOLDER?option=value): "
        + (", ".join(f"{k}={v}" for k, v in options.items()) or "none"),
    ]
    if documentation := inspect.getdoc(factory):
        lines += ["", documentation]
    say(*lines)
    return 0


def _check(args: argparse.Namespace) -> int:
    from demur.api import check_source

    checked = check_source(
        args.source,
        limit=args.limit,
        pins=args.pins,
        published=not args.no_published_pins,
    )
    if args.json:
        print_json(checked.model_dump(mode="json"), 1)
    else:
        say(*_lines(checked))
        if checked.findings:
            note(
                f"demur: {args.source}: {len(checked.findings)} finding(s) would change a benchmark"
            )
    return 1 if checked.findings else 0


def _counts_text(counts: dict[str, int], most: int = 12) -> str:
    counts_shown = [f"{name} {count:,}" for name, count in list(counts.items())[:most]]
    return (
        ", ".join(counts_shown) + (f", ... {len(counts) - most} more" if len(counts) > most else "")
        or "none"
    )


def _lines(checked: Checked) -> list[str]:
    out = [
        f"{checked.source} in {checked.folder}"
        + ("  (limited reading)" if checked.limited else ""),
        f"  samples      {checked.samples:,} ({checked.unanswerable:,} unanswerable, {checked.defective:,} defective, "
        f"{checked.without_gold:,} without gold)",
        f"  splits       {_counts_text(checked.splits)}",
        f"  topics       {_counts_text(checked.topics)}",
        f"  answers      {_counts_text(checked.answers)}",
        f"  gold         {_counts_text(checked.gold)}",
        f"  negatives    {_counts_text(checked.negatives)}",
        f"  documents    {checked.documents:,}",
        f"  pictures     {checked.images:,} read",
    ]
    if checked.not_for_a_release:
        out.append(
            f"  unusable     {checked.not_for_a_release:,} of them cannot enter a release: they have no gold evidence"
        )
    if checked.named:
        out += ["", "samples counted above:"]
    for flaw, ids in checked.named.items():
        more = int(getattr(checked, flaw)) - len(ids[:8])
        out.append(
            f"  {flaw.replace('_', ' ')}: {', '.join(ids[:8])}"
            + (f", and {more:,} more" if more else "")
        )
    if checked.notes:
        out += ["", "notes:"] + [f"  {count:>8,}  {note}" for note, count in checked.notes.items()]
    out += ["", "items:"]
    for item in checked.shown:
        out += [f"  {item.id}  ({item.place})", f"    question  {item.question}"]
        out += [f"    picture   {picture}" for picture in item.images]
        out.append(
            f"    answer    {item.answer}   accepted: {' | '.join(' & '.join(form) for form in item.accepted)}"
        )
        out += [f"    gold      {line}" for line in item.gold] + [
            f"    negative  {line}" for line in item.negatives
        ]
    if checked.findings:
        out += ["", f"findings ({len(checked.findings):,}):"]
        out += [f"  {line}" for line in checked.findings[:50]]
        if len(checked.findings) > 50:
            out.append(f"  ... and {len(checked.findings) - 50:,} more, which --json prints")
        if checked.untold:
            out.append(f"  ... and {checked.untold:,} more rows with problems")
    else:
        out += ["", "sound: nothing found that would silently change a benchmark"]
    return out


def _unpack(args: argparse.Namespace) -> int:
    from demur.api import unpack
    from demur.core.store import Problems

    problems = Problems()
    written = unpack(args.archive, args.folder, problems)
    say(f"{written} files in {args.folder}")
    note(*(f"demur: {line}" for line in problems.summary()))
    return 1 if problems else 0
