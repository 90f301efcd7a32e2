"""How often the exact step is right, by method, on labelled replies; writes ``demur/judge/data/exact.json``.

    python tools/measure_exact.py FILE.jsonl ... [--show METHOD] [--write]

A row has question, answers, response and a label: ``label`` or ``human``, of which *not_correct* is incorrect or deflected.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections import Counter
from pathlib import Path

from demur.core.records import AnswerSpec, Outcome
from demur.core.thinking import visible
from demur.judge.exact import exact

OUT = Path(__file__).resolve().parents[1] / "demur/judge/data/exact.json"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--show", default="", help="print what this method decided wrongly")
    parser.add_argument("--write", action="store_true", help="write the rates that demur ships")
    args = parser.parse_args()
    total: Counter[tuple[str, str, bool]] = Counter()
    for file in args.files:
        packed = file.suffix == ".xz"
        with lzma.open(file, "rt", encoding="utf-8") if packed else file.open("rt") as lines:
            rows = [json.loads(line) for line in lines]
        here: Counter[tuple[str, str, bool]] = Counter()
        for row in rows:
            if not all(form.strip() for form in row["answers"]):
                continue
            label = row.get("human") or row["label"]
            spec = AnswerSpec(accepted=tuple((form,) for form in row["answers"]))
            decided = exact(row["question"], visible(row["response"]), spec)
            if decided is None:
                continue
            right = (
                decided.outcome is not Outcome.CORRECT
                if label == "not_correct"
                else decided.outcome.value == label
            )
            here[decided.method.value, decided.outcome.value, right] += 1
            if args.show == decided.method.value and not right:
                shown = (row["question"], row["answers"], row["response"])
                print(label, "read as", decided.outcome.value, *map(repr, shown))
        total += here
        print(f"{file.name}: {sum(here.values())} of {len(rows)} decided; {table(here)}")
    print(f"all: {table(total)}")
    if args.write:
        methods = sorted({method for method, _, _ in total})
        rates = {
            method: {
                "decided": sum(n for (m, _, _), n in total.items() if m == method),
                "right": sum(n for (m, _, right), n in total.items() if m == method and right),
            }
            for method in methods
        }
        OUT.write_text(json.dumps(rates, indent=1) + "\n", encoding="utf-8")


def table(counts: Counter[tuple[str, str, bool]]) -> str:
    """Right of decided for each method and outcome."""
    pairs = sorted({(method, outcome) for method, outcome, _ in counts})
    return ", ".join(
        f"{m} {o} {counts[m, o, True]}/{counts[m, o, True] + counts[m, o, False]}" for m, o in pairs
    )


if __name__ == "__main__":
    main()
