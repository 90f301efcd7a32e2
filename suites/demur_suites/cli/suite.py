"""`demur suite`: benchmarks that are not the four scenarios."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import TRUST, Parser, add_shared, job, positive
from demur.cli._asking import add_system_arguments, system_options
from demur.cli._output import note, print_json, print_tables, say, show_plan
from demur.core.text import command
from demur.core.untrusted import trusting

if TYPE_CHECKING:
    from demur.reports.tables import Table
    from demur_suites import Loaded, Option, Outputs, Suite
    from demur_suites.outputs import OpenedOutputs

DOES = "run other benchmarks than the four scenarios, such as VB and MM-THEBench"
EXAMPLE = "suite score vb sheet.csv --mode paper"

Configure = Callable[[argparse.ArgumentParser, "Suite[Any, Any]"], None]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the jobs; ``demur suite JOB NAME --help`` explains what a suite adds to one."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    add_shared(job(jobs, "list", "list the suites"), "--json")
    _fill_audit(job(jobs, "audit", "check the arithmetic of published tables"))
    for name, (does, _, _) in JOBS.items():
        parser_of_job = job(
            jobs,
            name,
            does,
            epilog=f"'demur suite {name} NAME --help' explains the suite's own options",
        )
        parser_of_job.add_argument(
            "name",
            metavar="NAME",
            help="name of the suite (see 'demur suite list'), or module:Class",
        )
        parser_of_job.add_argument(
            "rest", nargs=argparse.REMAINDER, metavar="...", help="paths and options of that suite"
        )


def run(args: argparse.Namespace) -> int:
    """Do the job; parses the rest of the command line here, since each suite has its own options."""
    from demur_suites import suite, suites

    if args.job == "list":
        known = [(name, suite(name)) for name in suites()]
        if args.json:
            listed = [{"name": name, "title": s.title, "about": s.about} for name, s in known]
            print_json(listed, 1)
        else:
            say(*(f"{name:<12}  {s.title}\n{'':<12}  {s.about}" for name, s in known))
        return 0
    if args.job == "audit":
        return _audit(args)
    chosen = suite(args.name)
    does, fill, work = JOBS[args.job]
    parser = Parser(
        prog=f"demur suite {args.job} {args.name}",
        description=f"{chosen.title}: {does}.\n\n{chosen.about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fill(parser, chosen)
    add_shared(parser, *TRUST)
    arguments = parser.parse_args(args.rest)
    with trusting(code=arguments.trust_code, hosts=arguments.trust_hosts):
        return work(chosen, arguments)


def _fill_audit(parser: argparse.ArgumentParser) -> None:
    from demur_suites.scenario_tables import LAYOUT

    parser.add_argument(
        "tables", nargs="+", type=Path, metavar="TABLE.csv", help="tables, audited together"
    )
    _skip_bad(parser)
    add_shared(parser, "--json")
    others = "tables of the suites are recognised by their columns"
    parser.epilog = f"{LAYOUT}\n{others}\nexit 1 when a table has a defect"


def _audit(args: argparse.Namespace) -> int:
    from demur.core.store import Problems
    from demur_suites import audit_tables

    problems = Problems()
    findings, n_lines = audit_tables(args.tables, problems)
    problems.settle(skip_bad=args.skip_bad)
    defects = sum(f.severity == "defect" for f in findings)
    if args.json:
        print_json(
            {
                "lines": n_lines,
                "skipped": problems.skipped,
                "defects": defects,
                "findings": [f._asdict() for f in findings],
            }
        )
        return int(defects > 0)
    for f in sorted(findings, key=lambda f: f.severity != "defect"):
        say(f"{f.severity:<6}  {f.kind:<8}  {f.where}: {f.message}")
    skipped = f", {problems.skipped} skipped" if problems.skipped else ""
    say(f"{n_lines} lines{skipped}: {defects} defects, {len(findings) - defects} notes")
    return int(defects > 0)


def _items(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("items", type=Path, help="file or folder of items")
    _skip_bad(parser)


def _skip_bad(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--skip-bad", skip_bad="leave out bad items, and count them")


def _form(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--form", "--json", json="print everything as JSON")
    parser.add_argument(
        "--tables", type=Path, metavar="DIR", help="also write every table in every format there"
    )


def _options(parser: argparse.ArgumentParser, options: tuple[Option, ...]) -> None:
    known = {action.dest for action in parser._actions}
    for option in options:
        if option.name in known:
            continue  # an argument of the job, with the same name
        flag, words = f"--{option.name.replace('_', '-')}", option.help.replace("%", "%%")
        if option.default is False:
            parser.add_argument(flag, action="store_true", help=words)
            continue
        parser.add_argument(
            flag,
            type=type(option.default),
            default=option.default,
            choices=option.choices or None,
            help=f"{words} (default: %(default)s)" if option.default != "" else words,
        )


def _given(options: tuple[Option, ...], args: argparse.Namespace) -> dict[str, Any]:
    """The values of options; a judge's ledger is that of the runs, where there are any."""
    from demur_suites.options import LEDGER

    values = {o.name: v if (v := getattr(args, o.name)) is not None else o.default for o in options}
    beside = [path.parent / "calls.sqlite" for path in getattr(args, "paths", ())]
    if values.get(LEDGER.name) == LEDGER.default and beside and beside[0].is_file():
        values[LEDGER.name] = str(beside[0])
    return values


def _print(tables: list[Table], args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Print tables without what is empty in them, or with ``--json`` the result and all their rows.

    Write them where ``--tables`` says.
    """
    from demur.reports.tables import write_tables
    from demur_suites.gallery import named_once
    from demur_suites.tables import pruned

    if args.tables:
        write_tables(pruned(tables), args.tables)
    if args.json:
        print_json(result | {t.name: t.records() for t in tables}, 1)
    else:
        pruned_tables = pruned(tables)
        print_tables([t if args.form == "csv" else named_once(t) for t in pruned_tables], args.form)


# --- jobs: their arguments and their work ----------------------------------------------------------


def _show(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    say(f"{chosen.title}\n\n{chosen.about}\n")
    for option in chosen.options:
        choice = f" ({', '.join(option.choices)})" if option.choices else ""
        default = f"; default {option.default}" if option.default != "" else ""
        say(f"  --{option.name.replace('_', '-'):<12} {option.help}{choice}{default}")
    texts = chosen.prompts().texts
    for role, name in chosen.prompt_files.items():
        say(f"\n{name}:\n\n{texts[role]}")
    if chosen.errata:
        say(f"\nknown errors of the paper's tables:\n\n{chosen.errata.strip()}")
    return 0


def _fill_build(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the items"
    )
    add_shared(parser, "--seed")
    _options(parser, chosen.build_options)


def _build(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur.core.store import read_json
    from demur.judge.annotation.task import settle_labels

    folder = chosen.build(args.out, seed=args.seed, **_given(chosen.build_options, args))
    if folder.name == "plan.json":
        from demur.models import Estimate

        show_plan(Estimate.model_validate(read_json(folder)))
        say(folder)
        return 0
    say(folder)
    manifest = read_json(folder / "manifest.json") if (folder / "manifest.json").is_file() else {}
    left_out = manifest.get("dropped") or manifest.get("left_out") or {}
    note(*(f"left out: {n}: {reason}" for reason, n in left_out.items()))
    note(*(f"{status}: {n}" for status, n in sorted(manifest.get("decisions", {}).items())))
    queue = folder / "queue"
    if queue.is_dir():
        came = settle_labels(queue)
        for n, more in ((came.unlabelled, ()), (len(came.open), ("--adjudicate",))):
            if n:
                do = f"{command('annotate', '--out', queue, *more)}, then run the same build again"
                note(f"people must {'settle' if more else 'label'} {n} item(s): {do}")
    note(
        f"\nview the items: {command('suite', 'report', chosen.spelled, folder, '-o', 'items.html')}",
        f"next: {command('suite', 'run', chosen.spelled, folder, '--system', 'model:openai/gpt-4o')}",
    )
    return 0


def _fill_check(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _items(parser)
    _form(parser)


def _check(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    loaded = chosen.open(args.items, skip_bad=args.skip_bad)
    tables = chosen.statistics(loaded.items)
    _print(
        tables,
        args,
        {"items": len(loaded.items), "skipped": loaded.skipped, "notes": dict(loaded.notes)},
    )
    if args.json:
        return 0
    say(*(f"note: {what}: {n}" for what, n in loaded.notes.items()))
    say(f"{len(loaded.items)} items are sound, {loaded.skipped} were left out")
    return 0


def _fill_run(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _items(parser)
    add_system_arguments(parser)
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="ask only about the first N items"
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="PATH",
        help=f"your own prompts: a file, or a folder of {', '.join(chosen.prompt_files.values())}",
    )
    _options(parser, chosen.options)
    _form(parser)


def _run(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.evaluation.run_folder import all_failed
    from demur_suites import read_outputs
    from demur_suites.running import ASKING

    options = _given(chosen.options, args) | {n: vars(args)[n] for n in ASKING if n in vars(args)}
    options |= {"system_options": system_options(args), "skip_bad": args.skip_bad}
    if args.plan:
        plan = chosen.plan(
            args.items, args.systems, args.out, per_second=args.per_second, **options
        )
        print_json(plan.model_dump(mode="json")) if args.json else show_plan(plan)
        return 0
    with TerminalProgress() as steps:
        steps.stage("ask")
        folders = chosen.run(args.items, args.systems, args.out, steps=steps, **options)
    next_command = command(
        "suite", "report", chosen.spelled, *folders, "--items", args.items, "-o", "report.html"
    )
    note(f"\nnext: {next_command}")
    silent = all_failed(folders)
    note(*(f"demur: {line}" for line in silent))
    args.paths = folders
    _print_scores(
        chosen, args, chosen.open(args.items, skip_bad=args.skip_bad), read_outputs(folders)
    )
    return 1 if silent else 0


def _fill_score(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _outputs(
        parser,
        chosen,
        "files that hold items and outputs together, run folders, or outputs (JSONL or CSV: id, output, system)",
    )
    parser.add_argument(
        "--model", dest="models", nargs="+", default=[], metavar="NAME", help="score only these"
    )
    _form(parser)


def _outputs(parser: argparse.ArgumentParser, chosen: Suite[Any, Any], paths: str) -> None:
    """Arguments of the jobs that read outputs."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=paths)
    parser.add_argument(
        "--items",
        type=Path,
        help="the items, where PATH does not hold them (a run holds only their path)",
    )
    _skip_bad(parser)
    _options(parser, chosen.options)


def _opened(chosen: Suite[Any, Any], args: argparse.Namespace) -> OpenedOutputs:
    from demur_suites.outputs import open_outputs

    opened = open_outputs(chosen, args.paths, args.items, skip_bad=args.skip_bad)
    note(*(f"note: {line}" for line in opened.changed))
    return opened


def _score(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    opened = _opened(chosen, args)
    _print_scores(chosen, args, opened.loaded, opened.outputs, args.models)
    return 0


def _print_scores(
    chosen: Suite[Any, Any],
    args: argparse.Namespace,
    loaded: Loaded[Any],
    outputs: Outputs,
    models: Sequence[str] = (),
) -> None:
    options = _given(chosen.options, args)
    scores = chosen.scores(loaded.items, outputs, models=models, skip_bad=args.skip_bad, **options)
    tables = chosen.tables(scores, loaded.items)
    _print(tables, args, {})
    if args.json:
        return
    note(*(f"note: {what}: {n}" for what, n in loaded.notes.items()))
    if loaded.skipped:
        note(f"note: bad items left out: {loaded.skipped}")


def _fill_report(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _outputs(parser, chosen, "as for 'demur suite score'; or only items, to view them")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("report.html"),
        help="HTML file (default: %(default)s)",
    )


def _report(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    opened = _opened(chosen, args)
    options = _given(chosen.options, args)
    say(chosen.report(opened.items, opened.outputs, args.out, skip_bad=args.skip_bad, **options))
    return 0


def _fill_export(parser: argparse.ArgumentParser, chosen: Suite[Any, Any]) -> None:
    _items(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--outputs",
        nargs="+",
        type=Path,
        default=[],
        metavar="PATH",
        help="run folders or outputs, where the export needs them",
    )
    add_shared(parser, "--seed")
    _options(parser, chosen.export_options)


def _export(chosen: Suite[Any, Any], args: argparse.Namespace) -> int:
    from demur_suites import read_outputs

    options = _given(chosen.export_options, args)
    outputs = read_outputs(args.outputs, skip_bad=args.skip_bad) if args.outputs else {}
    say(
        chosen.export(
            args.items, args.out, outputs=outputs, seed=args.seed, skip_bad=args.skip_bad, **options
        )
    )
    return 0


JOBS: dict[str, tuple[str, Configure, Callable[[Any, argparse.Namespace], int]]] = {
    "show": (
        "show what it measures, its options and its prompts",
        lambda parser, chosen: None,
        _show,
    ),
    "build": ("make a set of items", _fill_build, _build),
    "check": ("check items: name every bad one, describe the set", _fill_check, _check),
    "run": ("ask systems, then score their answers", _fill_run, _run),
    "score": ("score outputs of a run, or made elsewhere", _fill_score, _score),
    "report": (
        "write one HTML page: tables, and every item with its answers",
        _fill_report,
        _report,
    ),
    "export": ("write items for other uses, such as training", _fill_export, _export),
}
