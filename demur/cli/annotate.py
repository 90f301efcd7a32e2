"""`demur annotate`: people label responses in a local page, or in a spreadsheet; their labels taken back."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from demur.cli._arguments import job
from demur.cli._shown import harmless

_FOLDER = Path("annotation")


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="JOB")
    page = job(verbs, "page", "a local page to label in, by keyboard; 'demur annotate RUN' is the same")
    page.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders; none: go on with --out")
    page.add_argument("-n", "--n", type=int, default=100, help="responses per system (default: %(default)s)")
    page.add_argument("--as", dest="name", default="me", metavar="NAME", help="who labels (default: %(default)s)")
    page.add_argument("--adjudicate", action="store_true", help="settle what annotators disagree on")
    page.add_argument(
        "-o", "--out", type=Path, default=_FOLDER, metavar="DIR", help="the task's folder (default: %(default)s)"
    )
    page.add_argument("--items", type=Path, metavar="FILE.jsonl", help="label these instead of a run's responses")
    page.add_argument("--labels", default="yes,no", metavar="A,B", help="with --items: keys 1, 2 ... (default: yes,no)")
    page.add_argument("--rubric", type=Path, metavar="FILE", help="shown beside the items (default: the shipped one)")
    page.add_argument("--repeats", type=float, default=0.05, metavar="SHARE", help="hidden repeats (default: 0.05)")
    page.add_argument("--seed", type=int, default=0, help="of the draw and the order (default: %(default)s)")
    page.add_argument("--release", type=Path, metavar="DIR", help="the release (default: the one beside the first run)")
    page.add_argument("--port", type=int, default=0, metavar="PORT", help="on 127.0.0.1 (default: any that is free)")
    export = job(verbs, "export", "labels of a page's folder for other tools")
    export.add_argument("folder", type=Path, help="of the task")
    export.add_argument("--form", choices=("csv", "label-studio", "inspect"), default="csv", help="(default: csv)")
    export.add_argument("-o", "--out", type=Path, metavar="FILE", help="(default: standard output)")
    into = job(verbs, "import", "labels that were given elsewhere: .csv, Label Studio's .json, inspect's scores")
    into.add_argument("folder", type=Path, help="of the task")
    into.add_argument("file", type=Path, help="as 'export' writes it, labelled")
    into.add_argument(
        "--as", dest="name", default="", metavar="NAME", help="whose they are (default: as the file says)"
    )
    one = job(verbs, "draw", "a blind sheet of responses, as many of each scenario")
    one.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs")
    one.add_argument("-n", "--n", type=int, default=100, help="responses per system (default: %(default)s)")
    one.add_argument("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
    one.add_argument(
        "-o", "--out", type=Path, default=Path("annotate.csv"), metavar="FILE",
        help="sheet: .csv, or .jsonl; its key and images stand beside it (default: %(default)s)",
    )  # fmt: skip
    one.add_argument("--release", type=Path, metavar="DIR", help="the release (default: the one beside the first run)")
    other = job(verbs, "take", "write the labels into the runs; agreement with the judge, Cohen's kappa")
    other.add_argument(
        "sheet", type=Path, help="a page's folder, or a sheet whose column label says correct, incorrect or deflected"
    )
    for sub in (page, into, one, other):
        sub.add_argument("--json", action="store_true", help="print JSON")


def arranged(words: Sequence[str]) -> list[str]:
    """``demur annotate RUN`` is ``demur annotate page RUN``."""
    jobs = ("page", "export", "import", "draw", "take", "-h", "--help")
    return list(words) if words and words[0] in jobs else ["page", *words]


def run(args: argparse.Namespace) -> int:
    return {"page": _page, "export": _export, "import": _import, "draw": _draw, "take": _take}[args.verb](args)


def _page(args: argparse.Namespace) -> int:
    from demur.judge.annotation.server import serve
    from demur.judge.annotation.task import about_folder
    from demur.reports.annotate import open_task

    open_task(
        args.out, args.runs, items=args.items, labels=args.labels, rubric=args.rubric, n=args.n, seed=args.seed,
        repeats=args.repeats, release=args.release,
    )  # fmt: skip

    def ready(url: str) -> None:
        if args.json:
            sys.stdout.write(json.dumps({"url": url, "folder": str(args.out)}) + "\n")
        else:
            sys.stdout.write(f"{url}\n")
            sys.stderr.write(harmless(f"{about_folder(args.out)}\nopen the address; Ctrl-C ends; every key is saved\n"))
        sys.stdout.flush()

    session = serve(args.out, args.name, port=args.port, adjudicate=args.adjudicate, ready=ready)
    sys.stderr.write(f"\n{session.done:,} of {len(session.places):,} labelled, kept in {args.out}\n")
    sys.stderr.write(f"next: demur agree {args.out}; demur annotate take {args.out}\n")
    return 0


def _export(args: argparse.Namespace) -> int:
    from demur.judge.annotation.exchange import exported

    text = exported(args.folder, args.form, args.out)
    if args.out:
        sys.stdout.write(f"{args.out}\n")
    else:
        sys.stdout.write(harmless(text))
    return 0


def _import(args: argparse.Namespace) -> int:
    from demur.judge.annotation.exchange import imported

    filed = imported(args.folder, args.file, args.name)
    if args.json:
        sys.stdout.write(json.dumps({"filed": filed}) + "\n")
        return 0
    for name, n in filed.items():
        sys.stdout.write(harmless(f"{n:,} labels of {name}\n"))
    return 0


def _draw(args: argparse.Namespace) -> int:
    from demur.reports.annotate import balance, draw_items, write_sheet
    from demur.reports.data import load

    data = load(args.runs, args.release)
    items = draw_items(data, args.n, seed=args.seed)
    key = write_sheet(data, items, args.out)
    counts = balance(items)
    if args.json:
        sys.stdout.write(json.dumps({"sheet": str(args.out), "key": str(key), "items": counts}) + "\n")
        return 0
    for name, scenarios in counts.items():
        told = ", ".join(f"{scenario} {n}" for scenario, n in scenarios.items())
        sys.stdout.write(harmless(f"{name}: {sum(scenarios.values())} responses ({told})\n"))
        if max(scenarios.values()) - min(scenarios.values()) > 1:
            sys.stderr.write(harmless(f"note: {name} has too few graded answers of some scenario for a balance\n"))
    sys.stdout.write(f"{args.out}\n")
    sys.stderr.write(
        f"\nnext: fill in the column label (correct, incorrect or deflected), then: demur annotate take {args.out}\n"
        f"keep {key.name} beside it, unseen by whoever labels\n"
    )
    return 0


def _take(args: argparse.Namespace) -> int:
    from demur.core.records import Measure
    from demur.reports.annotate import take
    from demur.reports.paper_tables import table7

    taken = take(args.sheet)
    table = table7(taken.data)
    if args.json:
        rows = [
            {"system": name, "agreement": share.value, "kappa": kappa, "n": share.n}
            for name, share, kappa, _ in table.rows
            if isinstance(share, Measure)
        ]
        sys.stdout.write(json.dumps({"labels": taken.labels, "blank": taken.blank, "agreement": rows}) + "\n")
        return 0
    for path, n in taken.labels.items():
        sys.stdout.write(harmless(f"{n:,} labels to {path}/labels.jsonl\n"))
    if taken.blank:
        sys.stdout.write(f"{taken.blank:,} items have no label yet\n")
    sys.stdout.write(harmless(table.render("terminal")))
    return 0
