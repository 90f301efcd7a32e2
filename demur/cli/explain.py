"""`demur explain`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from demur.answers.text import plain
from demur.cli._shown import add_row, words

UNASKABLE = "cannot be asked"
"""How the label of a gate begins that could not be asked (`demur.pipeline.explain.Explained`)."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    parser.add_argument("release", type=Path, help="release folder; with its build folder beside it, more is known")
    parser.add_argument("sample", help="id of a sample, kept or dropped")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Tell the whole life of one sample."""
    from demur.pipeline.explain import explain

    life = explain(args.release, args.sample)
    if args.json:
        sys.stdout.write(json.dumps(life.model_dump(mode="json"), ensure_ascii=False) + "\n")
        return 0
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(words(life.sample), style="bold", highlight=False)
    if life.question:
        console.print(words(life.question), highlight=False)
    fate = "kept" if life.kept else f"dropped: {life.why}" + (f" ({life.stage})" if life.stage else "")
    console.print(words(fate), style="bold", highlight=False)
    if life.parametric or life.solvable:
        table = Table(title="Gates", title_justify="left")
        for head in ("stage", "gate", "label", "answer"):
            table.add_column(head)
        for stage, labels in (("parametric", life.parametric), ("solvable", life.solvable)):
            for gate, label in labels.items():
                add_row(table, stage, gate, label, life.answers.get(f"{stage}/{gate}", ""))
        console.print(table)
    if life.distractors:
        table = Table(title="Distractors", title_justify="left")
        for head in ("id", "found by", "labels", "fate"):
            table.add_column(head)
        unasked: Counter[str] = Counter()  # said once, not beside every distractor
        for d in life.distractors:
            found = ", ".join(filter(None, (d["origin"], d["mode"], "" if d["rank"] is None else f"rank {d['rank']}")))
            verdicts = {gate: label for gate, label in d["labels"].items() if not label.startswith(UNASKABLE)}
            unasked.update(f"{g} {v}" for g, v in d["labels"].items() if g not in verdicts)
            add_row(table, d["id"], found, ", ".join(f"{g} {v}" for g, v in verdicts.items()), d["fate"])
        console.print(table)
        for said, n in unasked.items():
            console.print(words(f"{said} ({n} of {len(life.distractors)} distractors)"), highlight=False)
    for line in life.notes:
        sys.stdout.write(f"note: {plain(line)}\n")
    return 0
