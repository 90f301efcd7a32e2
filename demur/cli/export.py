"""`demur export`: a release's questions as tasks of another evaluation framework."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from demur.cli._arguments import job, share
from demur.cli._asking import conditions_of, named_recipes, opened, questions_of, scenarios, what_is_asked
from demur.cli._output import note, print_json, say

NEXT = {
    "inspect": "pip install {out}; inspect eval {package}/{task} --model MODEL\n"
    "then turn its log into a run:  demur run {release} --system answers:logs/....eval",
    "lmms-eval": "python -m lmms_eval --include_path {out} --tasks {package} --model MODEL --log_samples "
    "--output_path logs\n"
    "then turn its log into a run:  demur run {release} --system answers:logs/..._samples_{package}_{task}.jsonl",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the frameworks and their arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="FRAMEWORK")
    for name, does in (
        ("inspect", "a package of tasks for inspect (UK AISI), one for each scenario"),
        ("lmms-eval", "task files for lmms-eval, one for each scenario"),
    ):
        one = job(jobs, name, does)
        what_is_asked(one)
        scenarios(one)
        one.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
        one.add_argument("--judge", default="rules", help="judge of the answers there (default: %(default)s)")
        share(one, "--json", json="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the tasks, and print how to run them."""
    from demur.evaluation.for_inspect import export_inspect
    from demur.evaluation.for_lmms_eval import export_lmms_eval

    release = opened(args, args.out)
    write = export_inspect if args.job == "inspect" else export_lmms_eval
    questions = questions_of(args, named_recipes(args), conditions_of(args))
    made = write(release, args.out, questions, judge=args.judge)
    if args.json:
        print_json(made._asdict())
        return 0
    say(*(f"{made.package}/{task:<24} {n:>7,} questions" for task, n in made.tasks.items()))
    out, source = shlex.quote(str(args.out)), shlex.quote(str(args.release))
    following = NEXT[args.job].format(out=out, package=made.package, task=next(iter(made.tasks)), release=source)
    note(f"\nnext: {following}")
    return 0
