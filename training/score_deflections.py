"""How well demur reads deflections with courtesies and caveats around a reply.

    python training/score_deflections.py

Greetings before, courtesies after and caveats after (tests/judge/around_held_out.jsonl, tune nothing on it) are put
around plain answers ("Es ist {}." with names and numbers of Atlas) and around the sentences of tests/judge/untouched.
Printed: how many plain answers are read as deflections, and precision and recall of the sentences. `demur judge bench
rules --on tests/judge/untouched` has the same of what nothing stands around.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from demur.core.thinking import visible
from demur.judge.deflection import read

ROOT = Path(__file__).resolve().parent.parent
LABELLED = ROOT / "tests/judge"
TRAINING = runpy.run_path(str(ROOT / "training" / "wording.py"))
"""Its plain answers, and its reader of JSONL."""
lines = TRAINING["lines"]
FILES = ("replies", "languages", "situations")
KINDS = ("nothing", "openings", "closings", "caveats")


def put(text: str, around: str, kind: str, language: str) -> str:
    """A reply with something before or after it."""
    space = "" if language in ("zh", "ja") else " "
    return (f"{around}{space}{text}" if kind == "openings" else f"{text}{space}{around}").strip()


def plain_answers(kind: str) -> list[bool]:
    """Whether each plain answer, with each sentence of a kind around it, is read as a deflection."""
    names = sorted({answer for row in lines(TRAINING["QUESTIONS"]) for answer in row["answers"]})
    draw = np.random.default_rng(9)
    return [
        read(put(form.format(draw.choice(names)), around, kind, row["language"])).deflects
        for row in lines(LABELLED / "around_held_out.jsonl")
        for around in row.get(kind, [""])
        for form in TRAINING["PLAIN"][row["language"]]
    ]


def sentences(kind: str = "nothing", files: Sequence[str] = FILES) -> tuple[float, float, int]:
    """Precision, recall and number of the untouched sentences, each with one sentence of a kind around it."""
    around = {
        row["language"]: row.get(kind, [""]) for row in lines(LABELLED / "around_held_out.jsonl")
    }
    draw = np.random.default_rng(9)
    counts = {(said, true): 0 for said in (True, False) for true in (True, False)}
    for name in files:
        for row in lines(LABELLED / "untouched" / f"{name}.jsonl"):
            text = visible(row["text"])
            if kind != "nothing":
                stop = "" if text.endswith((".", "!", "?", "。", "！", "？", "।")) else "."
                text = put(
                    text + stop, str(draw.choice(around[row["language"]])), kind, row["language"]
                )
            counts[read(text, row.get("question", "")).deflects, row["deflects"]] += 1
    right = counts[True, True]
    return (
        right / (right + counts[True, False]),
        right / (right + counts[False, True]),
        sum(counts.values()),
    )


def main() -> None:
    """Print both for every kind."""
    for kind in KINDS:
        answers = plain_answers(kind)
        precision, recall, n = sentences(kind)
        sys.stdout.write(
            f"{kind:9} plain answers read as deflections {sum(answers):4} of {len(answers):4}   "
            f"sentences: precision {precision:.3f}, recall {recall:.3f}, n = {n:,}\n"
        )


if __name__ == "__main__":
    main()
