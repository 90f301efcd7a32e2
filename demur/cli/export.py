"""`demur export`: a release's questions as tasks of another evaluation framework."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared, job
from demur.cli._asking import add_question_arguments, run_options
from demur.cli._output import note, print_json, say
from demur.core.text import command


def _next_commands(framework: str, out: Path, package: str, task: str) -> tuple[str, str]:
    """The commands that run the tasks, and where the framework then writes its log."""
    if framework == "inspect":
        command_line = command("eval", f"{package}/{task}", "--model", "MODEL", program="inspect")
        return f"{command('install', out, program='pip')}; {command_line}", "logs/....eval"
    command_line = command(
        "-m",
        "lmms_eval",
        "--include_path",
        out,
        "--tasks",
        package,
        "--model",
        "MODEL",
        "--log_samples",
        "--output_path",
        "logs",
        program="python",
    )
    return command_line, f"logs/..._samples_{package}_{task}.jsonl"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the frameworks and their arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="FRAMEWORK")
    for name, description in (
        ("inspect", "write a package of tasks for inspect (UK AISI), one for each scenario"),
        ("lmms-eval", "write task files for lmms-eval, one for each scenario"),
    ):
        job_parser = job(jobs, name, description)
        add_question_arguments(job_parser)
        job_parser.add_argument(
            "--out", type=Path, required=True, metavar="DIR", help="folder to write to"
        )
        job_parser.add_argument(
            "--judge", default="local", help="judge of the answers there (default: %(default)s)"
        )
        add_shared(job_parser, "--json", json="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the tasks, and print how to run them."""
    from demur.api import export, open_release

    release = open_release(args.release, out=args.out, skip_bad=args.skip_bad)
    exported = export(release, args.job, run_options(args))
    if args.json:
        print_json(exported._asdict())
        return 0
    say(*(f"{exported.package}/{task:<24} {n:>7,} questions" for task, n in exported.tasks.items()))
    command_line, log = _next_commands(
        args.job, args.out, exported.package, next(iter(exported.tasks))
    )
    run_command = command("run", args.release, "--system", f"answers:{log}")
    note(f"\nnext: {command_line}", f"then turn its log into a run:  {run_command}")
    return 0
