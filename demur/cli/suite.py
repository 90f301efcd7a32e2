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
    from demur.reports.tables import Table
    from demur.suites import Option, Suite
    from demur.suites.outputs import Scored

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
    from demur.reports.tables import write_tables

    sys.stdout.write("\n".join(t.render(args.form) for t in tables))
    if args.tables:
        write_tables(tables, args.tables)


# --- jobs: what each takes, what each does ----------------------------------------------------------


def _show(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    sys.stdout.write(f"{chosen.title}\n\n{chosen.about}\n\n")
    for option in chosen.options:
        choice = f" ({', '.join(option.choices)})" if option.choices else ""
        default = f"; default {option.default}" if option.default != "" else ""
        sys.stdout.write(f"  --{option.name.replace('_', '-'):<12} {option.help}{choice}{default}\n")
    texts = chosen.prompts().texts
    for role, name in chosen.prompt_files.items():
        sys.stdout.write(f"\n{name}:\n\n{texts[role]}\n")
    return 0


def _fill_build(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the made items")
    parser.add_argument("--seed", type=int, default=0, help="of random choices (default: %(default)s)")
    for option in chosen.build_options:
        _option(parser, option)


def _build(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur.cli._shown import harmless
    from demur.core.store import read_json

    given = _given(chosen.build_options, args)
    chosen.check_options(given, chosen.build_options)
    made = chosen.build(args.out, seed=args.seed, **given)
    if made.name == "plan.json":
        from demur.models import Estimate

        sys.stdout.write(f"{Estimate.model_validate(read_json(made)).text()}\n{made}\n")
        return 0
    sys.stdout.write(f"{made}\n")
    told = read_json(made / "manifest.json") if (made / "manifest.json").is_file() else {}
    said = [f"left out: {n}: {reason}" for reason, n in (told.get("dropped") or told.get("left_out") or {}).items()]
    said += [f"{status}: {n}" for status, n in sorted(told.get("decisions", {}).items())]
    sys.stderr.write(harmless("".join(f"{line}\n" for line in said)))
    if told.get("decisions", {}).get("human"):
        sys.stderr.write(harmless(f"for people: demur annotate --out {made}/queue, then the same build again\n"))
    sys.stderr.write(f"\nlook at them: demur suite report {chosen.name} {made} -o items.html\n")
    sys.stderr.write(f"next: demur suite run {chosen.name} {made} --system model:openai/gpt-4o\n")
    return 0


def _fill_check(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _items(parser)
    _form(parser)


def _check(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur.cli._shown import harmless

    loaded = chosen.open(args.items, skip_bad=args.skip_bad)
    tables = chosen.statistics(loaded.items)
    if args.json:
        result = {"items": len(loaded.items), "skipped": loaded.skipped, "notes": dict(loaded.notes)}
        sys.stdout.write(
            json.dumps(result | {t.name: t.records() for t in tables}, indent=1, ensure_ascii=False) + "\n"
        )
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
    parser.add_argument(
        "--prompt",
        type=Path,
        metavar="PATH",
        help=f"your own in place of the suite's: a file, or a folder of {', '.join(chosen.prompt_files.values())}",
    )
    parser.add_argument("--fresh", action="store_true", help="reuse nothing: ask everything again (and pay for it)")
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
    from demur.cli._shown import harmless
    from demur.core.progress import TerminalProgress
    from demur.evaluation.run_folder import all_failed
    from demur.suites import read_outputs

    chosen.check_options(_given(chosen.options, args))
    sampling = {k: getattr(args, k) for k in ("temperature", "max_tokens", "extra") if getattr(args, k) is not None}
    with TerminalProgress() as steps:
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
            fresh=args.fresh,
            prompt=args.prompt,
        )
    shown = [str(f) for f in folders]
    sys.stderr.write(
        f"\nnext: demur suite report {chosen.name} {' '.join(shown)} --items {args.items} -o report.html\n"
    )
    args.models = []
    silent = all_failed(folders)
    sys.stderr.write(harmless("".join(f"demur: {line}\n" for line in silent)))
    _print_scores(chosen, args, chosen.open(args.items, skip_bad=args.skip_bad), read_outputs(folders))
    return 1 if silent else 0


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
        help=f"{option.help} (default: %(default)s)" if option.default != "" else option.help,
    )


def _score(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    found = _opened(chosen, args)
    return _print_scores(chosen, args, found.loaded, found.outputs)


def _opened(chosen: Suite[Any, Any], args: argparse.Namespace) -> Scored:
    from demur.cli._shown import harmless
    from demur.suites.outputs import open_outputs

    found = open_outputs(chosen, args.paths, args.items, skip_bad=args.skip_bad)
    sys.stderr.write(harmless("".join(f"note: {line}\n" for line in found.changed)))
    return found


def _given(options: tuple[Option, ...], args: argparse.Namespace) -> dict[str, Any]:
    return {option.name: getattr(args, option.name) for option in options}


def _print_scores(chosen: Suite[Any, Any], args: argparse.Namespace, loaded: Any, outputs: Any) -> int:
    from demur.cli._shown import harmless

    scores = chosen.scores(
        loaded.items, outputs, models=args.models, skip_bad=args.skip_bad, **_given(chosen.options, args)
    )
    tables = chosen.tables(scores, loaded.items)
    if args.json:
        sys.stdout.write(json.dumps({t.name: t.records() for t in tables}, indent=1, ensure_ascii=False) + "\n")
        return 0
    _print(tables, args)
    for note, n in loaded.notes.items():
        sys.stderr.write(harmless(f"note: {note}: {n}\n"))
    if loaded.skipped:
        sys.stderr.write(f"note: bad items left out: {loaded.skipped}\n")
    return 0


def _fill_report(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="as for 'demur suite score'; or items alone, to look at them",
    )
    parser.add_argument("--items", type=Path, help="the items, where PATH does not hold them (a run knows its own)")
    _items(parser, needed=False)
    for option in chosen.options:
        _option(parser, option)
    parser.add_argument("-o", "--out", type=Path, default=Path("report.html"), help="the page (default: %(default)s)")


def _report(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    found = _opened(chosen, args)
    given = _given(chosen.options, args)
    sys.stdout.write(f"{chosen.report(found.items, found.outputs, args.out, skip_bad=args.skip_bad, **given)}\n")
    return 0


def _fill_export(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _items(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--outputs",
        nargs="+",
        type=Path,
        default=[],
        metavar="PATH",
        help="run folders or outputs, where it needs them",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random choices (default: %(default)s)")
    for option in chosen.export_options:
        _option(parser, option)


def _export(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur.suites import read_outputs

    given = _given(chosen.export_options, args)
    chosen.check_options(given, chosen.export_options)
    outputs = read_outputs(args.outputs, skip_bad=args.skip_bad) if args.outputs else {}
    made = chosen.export(args.items, args.out, outputs=outputs, seed=args.seed, skip_bad=args.skip_bad, **given)
    sys.stdout.write(f"{made}\n")
    return 0


JOBS: dict[str, tuple[str, Configure, Callable[[Any, argparse.Namespace], int]]] = {
    "show": ("what it measures, its options, its prompts", lambda parser, chosen: None, _show),
    "build": ("make a set of items", _fill_build, _build),
    "check": ("read items, name every bad one, describe the set", _fill_check, _check),
    "run": ("ask systems, then score their answers", _fill_run, _run),
    "score": ("score outputs, of a run or made elsewhere", _fill_score, _score),
    "report": ("one HTML page: tables, and every item with its answers", _fill_report, _report),
    "export": ("write items for another use, such as training", _fill_export, _export),
}
