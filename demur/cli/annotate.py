"""`demur annotate`: people label responses on a local page or in a spreadsheet; their labels go back into the runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from demur.cli._arguments import add_shared, job
from demur.cli._output import note, print_json, say
from demur.core.text import command


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="JOB")
    page = job(
        verbs, "page", "label on a local page, by keyboard; 'demur annotate RUN' is the same"
    )
    page.add_argument(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="run folders; none: continue the task in --out",
    )
    page.add_argument(
        "-n", "--n", type=int, default=100, help="responses per system (default: %(default)s)"
    )
    page.add_argument(
        "--as",
        dest="name",
        default="me",
        metavar="NAME",
        help="annotator's name (default: %(default)s)",
    )
    page.add_argument(
        "--adjudicate", action="store_true", help="decide the items on which annotators disagree"
    )
    page.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("annotation"),
        metavar="DIR",
        help="task folder (default: %(default)s)",
    )
    page.add_argument(
        "--items", type=Path, metavar="FILE.jsonl", help="label these items, not a run's responses"
    )
    page.add_argument(
        "--labels",
        default="yes,no",
        metavar="A,B",
        help="with --items: keys 1, 2 ... (default: yes,no)",
    )
    page.add_argument(
        "--rubric",
        type=Path,
        metavar="FILE",
        help="rubric beside the items (default: the shipped one)",
    )
    page.add_argument(
        "--repeats",
        type=_share_of_repeats,
        default=0.05,
        metavar="SHARE",
        help="share of hidden repeats (default: %(default)s)",
    )
    add_shared(page, "--seed", "--release")
    page.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="PORT",
        help="port on 127.0.0.1 (default: any free one)",
    )
    export = job(verbs, "export", "write the labels of a task for other tools")
    export.add_argument("folder", type=Path, help="task folder")
    export.add_argument(
        "--form", choices=("csv", "label-studio", "inspect"), default="csv", help="(default: csv)"
    )
    export.add_argument("-o", "--out", type=Path, metavar="FILE", help="(default: standard output)")
    into = job(
        verbs, "import", "read labels made elsewhere: .csv, Label Studio's .json, inspect's scores"
    )
    into.add_argument("folder", type=Path, help="task folder")
    into.add_argument("file", type=Path, help="labelled file, as 'export' writes it")
    into.add_argument(
        "--as",
        dest="name",
        default="",
        metavar="NAME",
        help="annotator (default: as the file states)",
    )
    draw = job(verbs, "draw", "draw responses and write their sheet, to label in a spreadsheet")
    add_shared(draw, "runs")
    draw.add_argument(
        "-n", "--n", type=int, default=100, help="responses per system (default: %(default)s)"
    )
    add_shared(draw, "--seed")
    draw.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("annotation"),
        metavar="DIR",
        help="task folder (default: %(default)s)",
    )
    add_shared(draw, "--release")
    take = job(
        verbs,
        "take",
        "write the labels into the runs; print agreement with the judge and Cohen's kappa",
    )
    take.add_argument("folder", type=Path, help="task folder")
    for sub in (page, into, draw, take):
        add_shared(sub, "--json")


def _share_of_repeats(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.5:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 0.5, got {text[:40]!r}")
    return share


def arranged(words: Sequence[str]) -> list[str]:
    """``demur annotate RUN`` is ``demur annotate page RUN``."""
    jobs = ("page", "export", "import", "draw", "take", "-h", "--help")
    return list(words) if words and words[0] in jobs else ["page", *words]


def run(args: argparse.Namespace) -> int:
    return {"page": _page, "export": _export, "import": _import, "draw": _draw, "take": _take}[
        args.verb
    ](args)


def _page(args: argparse.Namespace) -> int:
    from demur.api import open_task, serve

    task = open_task(
        args.out,
        args.runs,
        items=args.items,
        labels=args.labels,
        rubric=args.rubric,
        n=args.n,
        seed=args.seed,
        repeats=args.repeats,
        release=args.release,
    )

    next_job = "take" if task.of_runs else "export"
    next_commands = f"next: {command('agree', args.out)}; {command('annotate', next_job, args.out)}"
    if not args.adjudicate:
        note(*task.too_few)
    elif not task.disagreements:
        if args.json:
            print_json({"url": None, "folder": str(args.out), "disagreements": 0})
        else:
            say("no disagreements to decide")
        note(task.about, next_commands)
        return 0

    def ready(url: str) -> None:
        if args.json:
            print_json({"url": url, "folder": str(args.out)})
        else:
            say(url)
            note(task.about, "open the address; Ctrl-C ends; every label is saved at once")
        sys.stdout.flush()

    session = serve(args.out, args.name, port=args.port, adjudicate=args.adjudicate, ready=ready)
    note(
        f"\n{session.done:,} of {len(session.places):,} labelled, saved in {args.out}",
        next_commands,
    )
    return 0


def _export(args: argparse.Namespace) -> int:
    from demur.api import export_labels

    text = export_labels(args.folder, args.form, args.out)
    say(args.out if args.out else text.removesuffix("\n"))
    return 0


def _import(args: argparse.Namespace) -> int:
    from demur.api import import_labels

    filed = import_labels(args.folder, args.file, args.name)
    if args.json:
        print_json({"filed": filed})
    else:
        say(*(f"{n:,} labels of {name}" for name, n in filed.items()))
    return 0


def _draw(args: argparse.Namespace) -> int:
    from demur.api import draw_sheet

    sheet, notes = draw_sheet(args.runs, args.out, n=args.n, seed=args.seed, release=args.release)
    if args.json:
        print_json({"folder": str(args.out), "sheet": str(sheet)})
        return 0
    note(*notes)
    say(sheet)
    note(
        "fill in the columns 'annotator' and 'label' (correct, incorrect, deflected or cannot_tell)",
        f"then: {command('annotate', 'import', args.out, sheet)}",
        f"then: {command('annotate', 'take', args.out)}",
    )
    return 0


def _take(args: argparse.Namespace) -> int:
    from demur.api import take

    taken = take(args.folder)
    if args.json:
        print_json(taken.as_json())
        return 0
    say(*(f"{n:,} labels written to {path}/labels.jsonl" for path, n in taken.labels.items()))
    counts = (
        (taken.withdrawn, "labels that were taken back removed from the runs"),
        (taken.blank, "items have no label yet"),
        (taken.cannot, "items are left out of all figures: people could not tell"),
        (taken.looked, "labels were given after a look at what is right"),
    )
    say(*(f"{n:,} {sentence}" for n, sentence in counts if n))
    say(taken.agreement.render("terminal").removesuffix("\n"))
    return 0
