"""Measure how often the steps of the judge `local` err, and write demur/judge/data/errors.json.

    python training/errors.py --work DIR

The replies are those that people or reviewers labelled; the equivalence model scores each one as trained without its
question (`equivalence.cross_fitted`). Only replies that a step decides count for that step. DIR keeps what
training/equivalence.py compared.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from multiprocessing import Pool
from pathlib import Path

import equivalence as training
import numpy as np

from demur.core.records import AnswerSpec, Method
from demur.core.thinking import visible
from demur.judge import deflection, equivalence, wording
from demur.judge.exact import exact

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "demur/judge/data/errors.json"
PLAIN = -4.0
"""Log odds of the wording below which a reply is taken to answer."""
USUAL = {"third": "", "usual": "", "hard and usual": "ordinary"}
"""Sets of replies in eighteen languages as systems usually give them, and their part."""


def step_of(row: training.Row) -> str:
    """Which step decides a reply: ``exact right``, ``exact wrong``, ``declined`` or ``equivalence``."""
    spec = AnswerSpec(accepted=tuple((form,) for form in row.accepted))
    if step := exact(row.question, row.reply, spec):
        if step.method is Method.CHOICE and step.outcome == "deflected":
            return "declined"
        return f"exact {'right' if (step.outcome == 'correct') is (row.label == 'correct') else 'wrong'}"
    reply = visible(row.reply)
    plainly_answers = wording.log_odds(reply) < PLAIN  # spares the encoder nine replies in ten
    declines = not plainly_answers and deflection.read(reply, row.question).deflects
    return "declined" if declines else "equivalence"


def reads_declining(row: tuple[str, str]) -> bool:
    """Whether a reply to a question is read as declining."""
    return deflection.read(row[0], row[1]).deflects


def main() -> None:
    """Write the groups of each step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    work: Path = parser.parse_args().work
    labelled = list(training.evouna())
    rows = [*labelled, *training.graded(), *training.pairs(), *training.rewritten(labelled)]
    x = training.matrix(rows, work)
    p = training.cross_fitted(x, rows, np.array([not row.untouched for row in rows]))
    p = np.array([as_judged(*row) for row in zip(p, x, rows, strict=True)])
    names = [
        f"{row.set} {row.system}"
        if row.source == "evouna"
        else f"{row.set} replies"
        if row.untouched and USUAL.get(row.set, "no") in ("", row.system)
        else ""
        for row in rows
    ]
    scored = [i for i, name in enumerate(names) if name]
    with Pool(2) as pool:
        steps = pool.map(step_of, [rows[i] for i in scored], chunksize=100)
        texts = [
            (line["text"], line.get("question", ""), line["language"], line["deflects"])
            for file in sorted((ROOT / "tests/judge/untouched").glob("*.jsonl"))
            for line in training.lines(file)
        ]
        readings = pool.map(reads_declining, [text[:2] for text in texts], chunksize=50)
    groups: defaultdict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for i, step in zip(scored, steps, strict=True):
        if step == "equivalence":
            groups[names[i]][rows[i].label == "correct", bool(p[i] >= equivalence.CUT)] += 1
    declined: defaultdict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for (_, _, language, deflects), reading in zip(texts, readings, strict=True):
        declined[language][deflects, reading] += 1
    exact_wrong: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for i, step in zip(scored, steps, strict=True):
        if step.startswith("exact"):
            exact_wrong[names[i]][step == "exact wrong"] += 1
    tables = {
        "equivalence": [counts(name, c) for name, c in groups.items()],
        "declined": [counts(name, c) for name, c in sorted(declined.items())],
        "exact": [[name, 0, 0, c.total(), c[True]] for name, c in exact_wrong.items()],
    }
    text = ",\n".join(
        f' "{step}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in table) + "\n ]"
        for step, table in tables.items()
    )
    OUT.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def as_judged(chance: float, comparisons: training.Floats, row: training.Row) -> float:
    """What the judge makes of the network's probability (`demur.judge.equivalence.probability_correct`)."""
    values = dict(zip(equivalence.FEATURES, comparisons, strict=True))
    if equivalence.says_something_else(values, [(form,) for form in row.accepted], row.reply):
        return equivalence.NOTHING_SHARED
    return equivalence.sure_enough(chance, values)


def counts(name: str, table: Counter[tuple[bool, bool]]) -> list[str | int]:
    """Name, how many are so, missed of these, how many are not, falsely counted of these."""
    so, not_so = (table[is_so, True] + table[is_so, False] for is_so in (True, False))
    return [name, so, table[True, False], not_so, table[False, True]]


if __name__ == "__main__":
    main()
