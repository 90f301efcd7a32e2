"""`demur suite`: benchmarks that are not the four scenarios."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import Parser, budget_of, in_flight, job, positive

if TYPE_CHECKING:
    from demur.report.tables import Table
    from demur.suites import Suite

Configure = Callable[[argparse.ArgumentParser, "Suite[Any, Any]"], None]


def configure(parser: argparse.ArgumentParser) -> None:
    """Jobs; what a suite adds to one is told by ``demur suite JOB NAME --help``."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    job(jobs, "list", "the suites there are").add_argument("--json", action="store_true", help="print as JSON")
    for name, (does, _, _) in JOBS.items():
        made = job(jobs, name, does, epilog=f"demur suite {name} NAME --help tells the suite's own options")
        made.add_argument("name", metavar="NAME", help="of the suite (see 'demur suite list'), or module:Class")
        made.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="paths and options of that suite")


def run(args: argparse.Namespace) -> int:
    """Do the job; the suite's own options are read here, since each suite has its own."""
    from demur.suites import suite, suites

    if args.job == "list":
        found = [(name, suite(name)) for name in suites()]
        if args.json:
            listed = [{"name": name, "title": s.title, "about": s.about} for name, s in found]
            sys.stdout.write(json.dumps(listed, indent=1, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write("".join(f"{name:<12}  {s.title}\n{'':<12}  {s.about}\n" for name, s in found))
        return 0
    chosen = suite(args.name)
    does, fill, work = JOBS[args.job]
    parser = Parser(
        prog=f"demur suite {args.job} {args.name}",
        description=f"{chosen.title}: {does}.\n\n{chosen.about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fill(parser, chosen)
    return work(chosen, parser.parse_args(args.rest))


def _items(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    if needed:
        parser.add_argument("items", type=Path, help="file or folder of items")
    parser.add_argument("--skip-bad", action="store_true", help="leave bad items out, and count them")


def _form(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--form", choices=("terminal", "markdown", "latex", "csv"), default="terminal", help="of tables"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="also write every table, in every form, there")


def _print(tables: list[Table], args: argparse.Namespace) -> None:
    from demur.report.tables import FORMS
    from demur.store import write_atomic

    sys.stdout.write("\n".join(t.render(args.form) for t in tables))
    if args.tables:
        for table in tables:
            for form, suffix in FORMS.items():
                write_atomic(args.tables / f"{table.name}{suffix}", table.render(form))  # type: ignore[arg-type]  # keys of FORMS


# --- jobs: what each takes, what each does ----------------------------------------------------------


def _show(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    sys.stdout.write(f"{chosen.title}\n\n{chosen.about}\n\n")
    for option in chosen.options:
        choice = f" ({', '.join(option.choices)})" if option.choices else ""
        sys.stdout.write(f"  --{option.name.replace('_', '-'):<12} {option.help}{choice}; default {option.default}\n")
    sys.stdout.write(f"\nprompt:\n\n{chosen.prompts().texts['ask']}\n")
    return 0


def _fill_build(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the made items")
    parser.add_argument("--seed", type=int, default=0, help="of whatever is drawn (default: %(default)s)")


def _build(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    made = chosen.build(args.out, seed=args.seed)
    sys.stdout.write(f"{made}\n")
    sys.stderr.write(f"\nnext: demur suite run {chosen.name} {made} --system model:openai/gpt-4o\n")
    return 0


def _fill_check(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _items(parser)
    _form(parser)


def _check(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur.cli._shown import harmless

    loaded = chosen.open(args.items, skip_bad=args.skip_bad)
    tables = chosen.statistics(loaded.items)
    if args.json:
        told = {"items": len(loaded.items), "skipped": loaded.skipped, "notes": dict(loaded.notes)}
        sys.stdout.write(json.dumps(told | {t.name: _rows(t) for t in tables}, indent=1, ensure_ascii=False) + "\n")
        return 0
    _print(tables, args)
    for note, n in loaded.notes.items():
        sys.stdout.write(harmless(f"note: {note}: {n}\n"))
    sys.stdout.write(f"{len(loaded.items)} items, {loaded.skipped} left out: sound\n")
    return 0


def _fill_run(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _items(parser)
    parser.add_argument(
        "--system",
        "--systems",
        dest="systems",
        nargs="+",
        required=True,
        metavar="SYSTEM",
        help="who is asked: model:openai/gpt-4o, model:http://host:8000/v1#name, python:module:function, ...",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="folder of the run folders (default: %(default)s)"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="ask about the first N items alone")
    in_flight(parser)
    model = parser.add_argument_group("models (systems that begin with model:)")
    model.add_argument("--temperature", type=float, help="sampling temperature")
    model.add_argument("--max-tokens", type=int, help="longest reply, in tokens")
    model.add_argument("--extra", type=json.loads, metavar="JSON", help="more body fields")
    money = parser.add_argument_group("money")
    money.add_argument("--budget", type=float, metavar="USD", help="stop before this is passed; run again to go on")
    money.add_argument("--prices", type=Path, metavar="FILE", help="price table that overlays the shipped one")
    for option in chosen.options:
        _option(parser, option)
    _form(parser)


def _run(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur.pipeline.steps import Shown
    from demur.suites import read_outputs

    chosen.check_options({o.name: getattr(args, o.name) for o in chosen.options})
    sampling = {k: getattr(args, k) for k in ("temperature", "max_tokens", "extra") if getattr(args, k) is not None}
    with Shown() as steps:
        steps.stage("ask")
        folders = chosen.run(
            args.items,
            args.systems,
            args.out,
            limit=args.limit,
            skip_bad=args.skip_bad,
            sampling=sampling,
            concurrency=args.concurrency,
            budget=budget_of(args),
            prices=args.prices,
            steps=steps,
        )
    shown = [str(f) for f in folders]
    sys.stderr.write(
        f"\nnext: demur suite report {chosen.name} {' '.join(shown)} --items {args.items} -o report.html\n"
    )
    args.paths, args.models = folders, []
    return _tell(chosen, args, chosen.open(args.items, skip_bad=args.skip_bad), read_outputs(folders))


def _fill_score(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="files that hold items and outputs together, run folders, or outputs (JSONL or CSV: id, output, system)",
    )
    parser.add_argument("--items", type=Path, help="the items, where PATH does not hold them (a run knows its own)")
    parser.add_argument("--model", dest="models", nargs="+", default=[], metavar="NAME", help="score these alone")
    _items(parser, needed=False)
    for option in chosen.options:
        _option(parser, option)
    _form(parser)


def _option(parser: argparse.ArgumentParser, option: Any) -> None:
    parser.add_argument(
        f"--{option.name.replace('_', '-')}",
        type=type(option.default),
        default=option.default,
        choices=option.choices or None,
        help=f"{option.help} (default: %(default)s)",
    )


def _score(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    loaded, outputs = _loaded(chosen, args)
    return _tell(chosen, args, loaded, outputs)


def _loaded(chosen: Suite[Any, Any], args: argparse.Namespace) -> Any:
    from demur.cli._shown import harmless
    from demur.errors import UsageError
    from demur.suites.base import changed_since, items_of_runs, read_outputs

    items = args.items or items_of_runs(args.paths)
    if items is None:  # the files hold items and outputs together
        args.items, *more = args.paths
        loaded = chosen.open(args.items, skip_bad=args.skip_bad)
        outputs = dict(loaded.outputs)
        for path in more:
            for model, said in chosen.open(path, skip_bad=args.skip_bad).outputs.items():
                if outputs.setdefault(model, said) != said:
                    raise UsageError(
                        f"an earlier file holds outputs of {model!r} too",
                        item=str(path),
                        cure="put parts of one set into one folder and give that; score repeats one by one",
                    )
        return loaded, outputs
    args.items = items
    loaded = chosen.open(items, skip_bad=args.skip_bad)
    for line in changed_since(chosen, loaded.items, args.paths):
        sys.stderr.write(harmless(f"note: {line}\n"))
    return loaded, read_outputs(args.paths, skip_bad=args.skip_bad)


def _tell(chosen: Suite[Any, Any], args: argparse.Namespace, loaded: Any, outputs: Any) -> int:
    from demur.cli._shown import harmless

    given = {o.name: getattr(args, o.name) for o in chosen.options}
    scores = chosen.scores(loaded.items, outputs, models=args.models, skip_bad=args.skip_bad, **given)
    tables = chosen.tables(scores, loaded.items)
    if args.json:
        sys.stdout.write(json.dumps({t.name: _rows(t) for t in tables}, indent=1, ensure_ascii=False) + "\n")
        return 0
    _print(tables, args)
    for note, n in loaded.notes.items():
        sys.stderr.write(harmless(f"note: {note}: {n}\n"))
    if loaded.skipped:
        sys.stderr.write(f"note: bad items left out: {loaded.skipped}\n")
    return 0


def _rows(table: Table) -> list[dict[str, Any]]:
    from demur.records import Measure

    names = [" ".join(filter(None, (c.group, c.title))) for c in table.columns]
    return [
        {
            n: cell.model_dump(mode="json") if isinstance(cell, Measure) else cell
            for n, cell in zip(names, row, strict=True)
        }
        for row in table.rows
    ]


def _fill_report(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="as for 'demur suite score'")
    parser.add_argument("--items", type=Path, help="the items, where PATH does not hold them (a run knows its own)")
    _items(parser, needed=False)
    for option in chosen.options:
        _option(parser, option)
    parser.add_argument("-o", "--out", type=Path, default=Path("report.html"), help="the page (default: %(default)s)")


def _report(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    _, outputs = _loaded(chosen, args)
    given = {o.name: getattr(args, o.name) for o in chosen.options}
    sys.stdout.write(f"{chosen.report(args.items, outputs, args.out, skip_bad=args.skip_bad, **given)}\n")
    return 0


JOBS: dict[str, tuple[str, Configure, Callable[[Any, argparse.Namespace], int]]] = {
    "show": ("what it measures, its options, its prompt", lambda parser, chosen: None, _show),
    "build": ("make a set of items", _fill_build, _build),
    "check": ("read items, name every bad one, describe the set", _fill_check, _check),
    "run": ("ask systems, then score what they said", _fill_run, _run),
    "score": ("score outputs, of a run or made elsewhere", _fill_score, _score),
    "report": ("one HTML page: tables, and every item with what was said", _fill_report, _report),
}
