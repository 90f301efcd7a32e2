"""`demur explain`."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from demur.cli._arguments import add_shared
from demur.cli._output import print_json, say, show, words

UNASKABLE = "cannot be asked"
"""Prefix of the label of a gate that could not be asked (`demur.curation.build.explain.Explained`)."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "release", type=Path, help="release folder; its build folder beside it adds detail"
    )
    parser.add_argument("sample", help="id of a sample, kept or dropped")
    add_shared(parser, "--json")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from demur.api import explain
    from demur.reports.tables import Table, texts

    story = explain(args.release, args.sample)
    if args.json:
        print_json(story.model_dump(mode="json") | {"way_out": story.way_out})
        return 0
    console = Console()
    console.print(words(story.sample), style="bold", highlight=False)
    if story.question:
        console.print(words(story.question), highlight=False)
    decision = (
        "kept"
        if story.kept
        else f"dropped: {story.why}" + (f" ({story.stage})" if story.stage else "")
    )
    console.print(words(decision), style="bold", highlight=False)
    if story.way_out:
        console.print(words(f"to keep it: {story.way_out}"), highlight=False)
    if story.parametric or story.solvable:
        gates = tuple(
            (stage, gate, label, story.answers.get(f"{stage}/{gate}", ""))
            for stage, labels in (("parametric", story.parametric), ("solvable", story.solvable))
            for gate, label in labels.items()
        )
        columns = (*texts("stage", "gate", "label"), *texts("answer", wraps=True))
        show(Table("gates", "Gating models", columns, gates))
    if story.distractors:
        rows = []
        unasked_reasons: Counter[str] = Counter()  # printed once, not beside every distractor
        for d in story.distractors:
            origin = ", ".join(
                filter(None, (d.origin, d.mode, "" if d.rank is None else f"rank {d.rank}"))
            )
            verdicts = {
                gate: label for gate, label in d.labels.items() if not label.startswith(UNASKABLE)
            }
            unasked_reasons.update(f"{g} {v}" for g, v in d.labels.items() if g not in verdicts)
            rows.append(
                (d.id, origin, ", ".join(f"{g} {v}" for g, v in verdicts.items()), d.decision)
            )
        columns = (*texts("id", "found by"), *texts("labels", "decision", wraps=True))
        show(Table("distractors", "Distractors", columns, tuple(rows)))
        for reason, n in unasked_reasons.items():
            console.print(
                words(f"{reason} ({n} of {len(story.distractors)} distractors)"), highlight=False
            )
    say(*(f"note: {line}" for line in story.notes))
    return 0
