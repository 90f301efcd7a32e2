"""A balanced set of MM-AQA on the sample corpus: how many twins of each kind, and what a real rewriting model is worth.

    python suites/benchmarks/mm_aqa.py OUT                           320 pairs, a script in the place of the rewriter
    python suites/benchmarks/mm_aqa.py OUT --model MODEL --real 6    no set: six rewritings of each kind by a real model

The script answers by template, so that what is tested is the pipeline; `decisions.jsonl` tells every attempt. What a
real model writes passes the same three gates or is refused: both are counted by transformation, and
OUT/rewritings.jsonl has every text, to be read: gates say that it is another question, not that nobody can answer it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import demur_suites
from demur.core.images import rgb
from demur.core.records import Request, TextPart
from demur_suites.mm_aqa.build import meaning_by
from demur_suites.mm_aqa.items import CATALOGUE, category_of
from demur_suites.mm_aqa.models import Models
from demur_suites.mm_aqa.pool import open_pool
from demur_suites.mm_aqa.transforms import Given, Infeasible, transform

REWRITTEN = (
    "image-question-mismatch",
    "missing-context",
    "impossible-visual-task",
    "nonexistent-reference",
    "multiple-correct-answers",
    "ambiguous-reference",
    "contradictory-premise",
    "contradictory-caption",
)
"""What a model writes: M7 to M13, and D7."""
SCRIPT = {
    "outside the picture": "How has this changed since the earlier picture?",
    "no eye can take": "What is the exact weight of this in grams?",
    "is not in this one": "What is written on the blue sign here?",
    "two standard ways": "Which part of this is the better one?",
    "made-up parts": "Which of its two grey parts is the upper part?",
    "premise that contradicts": "Since nothing is shown here, which one is it?",
    "different phenomenon": "At what rate does the enzyme react here?",
}


def rewriter(request: Request) -> str:
    """By template; every picture is essential."""
    words = " ".join(p.text for m in request.messages for p in m.parts if isinstance(p, TextPart))
    if "LEVEL:" in words:
        return "LEVEL: ESSENTIAL"
    if words.rstrip().endswith("Note:"):
        return "a later edition of this report withdraws this value and gives another one."
    return next(
        (text for key, text in SCRIPT.items() if key in words),
        "What stands behind the thing shown here?",
    )


def by_model(out: Path, model: str, each: int) -> None:
    """Rewrite the first questions of the pool in every way; print how many pass, and what refuses the rest."""
    out.mkdir(parents=True, exist_ok=True)
    pool = open_pool("", 0, work=out).questions
    models = Models(model, ledger=out / "calls.sqlite", concurrency=1)
    _, similar = meaning_by("")
    with models, (out / "rewritings.jsonl").open("w", encoding="utf-8") as file:
        for name in REWRITTEN:
            subset = "documents" if name == "contradictory-caption" else "images"
            why: Counter[str] = Counter()
            for a in [a for a in pool if a.subset == subset][:each]:
                replies: list[str] = []
                ask = models.rewriter_of(a.id)

                def kept(
                    prompt: str,
                    words: dict[str, str],
                    ask: Any = ask,
                    replies: list[str] = replies,
                ) -> str:
                    replies.append(ask(prompt, words))
                    return replies[-1]

                images = tuple(rgb(p.data, a.id) for p in a.pictures())
                try:
                    transform(name).apply(
                        Given(a.question, images, a.answers, rewrite=kept, similar=similar)
                    )
                    said = "passed"
                except Infeasible as error:
                    said = error.message
                why[
                    said.removeprefix("the rewritten question did not pass: ").partition(":")[0]
                ] += 1
                row = {
                    "transform": name,
                    "question": a.question,
                    "reply": replies[-1:],
                    "gates": said,
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
            sys.stdout.write(
                f"{CATALOGUE[name][0]:<4}{name:<26}{why.pop('passed', 0):>3} of {each} {dict(why)}\n"
            )
            sys.stdout.flush()


def main() -> None:
    """Build, or rewrite, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=320)
    parser.add_argument("--model", default="")
    parser.add_argument("--real", type=int, default=6)
    given = parser.parse_args()
    if given.model:
        by_model(given.out, given.model, given.real)
        return
    sys.modules["mm_aqa_rewriter"] = sys.modules[__name__]
    start = time.perf_counter()
    suite = demur_suites.suite("mm_aqa")
    suite.build(given.out, pairs=given.pairs, ocr="no", rewriter="python:mm_aqa_rewriter:rewriter")
    seconds = time.perf_counter() - start
    items = suite.open(given.out).items
    made = Counter(i.transform for i in items if i.transform)
    attempts = [
        t
        for line in (given.out / "decisions.jsonl").read_text().splitlines()
        for t in json.loads(line)["attempts"]
    ]
    refused = Counter(t["why"].partition(":")[0] for t in attempts if "why" in t)
    for name, (number, category) in CATALOGUE.items():
        sys.stdout.write(f"{number:<4}{name:<26}{category:<28}{made[name]:>4}\n")
    by = Counter(category_of(t) for t in made.elements())
    sys.stdout.write(
        f"{sum(i.answerable for i in items)} answerable, {sum(made.values())} twins; "
        + ", ".join(f"{c} {n}" for c, n in sorted(by.items()))
        + "\n"
    )
    sys.stdout.write(
        f"{len(attempts)} attempts, {sum(refused.values())} passed over {dict(refused)}; "
        f"{seconds:.0f} s\n"
    )


if __name__ == "__main__":
    main()
