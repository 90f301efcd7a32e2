"""A balanced set of MM-AQA on the sample corpus: how many twins of each kind, and what a rewriting model costs.

    python benchmarks/mm_aqa.py OUT                              320 pairs, a script in the place of the rewriter
    python benchmarks/mm_aqa.py OUT --model MODEL --real 12      the first so many rewritings by a real model

The script answers by template, so that what is tested is the pipeline; what a real model writes passes the same three
gates or is passed over for the next transformation. `decisions.jsonl` tells every attempt.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import demur
from demur.core.records import Request, TextPart
from demur.models import complete_sync
from demur.suites.mm_aqa.items import CATALOGUE, category_of

MODEL, REAL = "", 0
tally: Counter[str] = Counter()
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
    """The real model for the first `REAL` rewritings, then the script; levels of dependency are always scripted."""
    words = " ".join(p.text for m in request.messages for p in m.parts if isinstance(p, TextPart))
    if "LEVEL:" in words:
        return "LEVEL: ESSENTIAL"
    if MODEL and tally["real"] < REAL:
        tally["real"] += 1
        [reply] = complete_sync(MODEL, [request.model_copy(update={"model": MODEL.partition("#")[2] or MODEL})])
        if reply.text:
            return reply.text
    tally["scripted"] += 1
    if words.rstrip().endswith("Note:"):
        return "a later edition of this report withdraws this value and gives another one."
    return next((text for key, text in SCRIPT.items() if key in words), "What stands behind the thing shown here?")


def main() -> None:
    """Build, and print the figures."""
    global MODEL, REAL
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=320)
    parser.add_argument("--model", default="")
    parser.add_argument("--real", type=int, default=12)
    given = parser.parse_args()
    MODEL, REAL = given.model, given.real
    sys.modules["mm_aqa_rewriter"] = sys.modules[__name__]
    start = time.perf_counter()
    suite = demur.suite("mm_aqa")
    suite.build(given.out, pairs=given.pairs, ocr="no", rewriter="python:mm_aqa_rewriter:rewriter")
    seconds = time.perf_counter() - start
    items = suite.open(given.out).items
    made = Counter(i.transform for i in items if i.transform)
    attempts = [t for line in (given.out / "decisions.jsonl").read_text().splitlines()
                for t in json.loads(line)["attempts"]]  # fmt: skip
    refused = Counter(t["why"].partition(":")[0] for t in attempts if "why" in t)
    for name, (number, category) in CATALOGUE.items():
        sys.stdout.write(f"{number:<4}{name:<26}{category:<28}{made[name]:>4}\n")
    by = Counter(category_of(t) for t in made.elements())
    sys.stdout.write(f"{sum(i.answerable for i in items)} answerable, {sum(made.values())} twins; " + ", ".join(
        f"{c} {n}" for c, n in sorted(by.items())) + "\n")  # fmt: skip
    sys.stdout.write(f"{len(attempts)} attempts, {sum(refused.values())} passed over {dict(refused)}; rewritings: "
                     f"{tally['real']} by the model, {tally['scripted']} by script; {seconds:.0f} s\n")  # fmt: skip


if __name__ == "__main__":
    main()
