"""`demur export`: a release's questions as tasks of another evaluation framework."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._arguments import job
from demur.cli._asking import conditions_of, named_recipes, opened, questions_of, scenarios, what_is_asked

NEXT = {
    "inspect": "pip install {out}; inspect eval {package}/{task} --model MODEL\n"
    "its log as a run:  demur run {release} --system answers:logs/....eval",
    "lmms-eval": "python -m lmms_eval --include_path {out} --tasks {package} --model MODEL --log_samples "
    "--output_path logs\n"
    "its log as a run:  demur run {release} --system answers:logs/..._samples_{package}_{task}.jsonl",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Frameworks and their arguments."""
    jobs = parser.add_subparsers(dest="job", required=True, metavar="FRAMEWORK")
    for name, does in (
        ("inspect", "a package of tasks for inspect (UK AISI), one for each scenario"),
        ("lmms-eval", "task files for lmms-eval, one for each scenario"),
    ):
        one = job(jobs, name, does)
        what_is_asked(one)
        scenarios(one)
        one.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of what is written")
        one.add_argument("--judge", default="rules", help="who grades there (default: %(default)s)")
        one.add_argument("--json", action="store_true", help="print counts as JSON")


def run(args: argparse.Namespace) -> int:
    """Write them, and say how they are run."""
    from demur.evaluation.for_inspect import export_inspect
    from demur.evaluation.for_lmms_eval import export_lmms_eval

    release = opened(args, args.out)
    write = export_inspect if args.job == "inspect" else export_lmms_eval
    questions = questions_of(args, named_recipes(args), conditions_of(args))
    made = write(release, args.out, questions, judge=args.judge)
    if args.json:
        sys.stdout.write(json.dumps(made._asdict(), sort_keys=True) + "\n")
        return 0
    sys.stdout.write("".join(f"{made.package}/{task:<24} {n:>7,} questions\n" for task, n in made.tasks.items()))
    told = NEXT[args.job].format(out=args.out, package=made.package, task=next(iter(made.tasks)), release=args.release)
    sys.stderr.write(f"\nnext: {told}\n")
    return 0
