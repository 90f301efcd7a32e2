"""Measure how often each rule of the judge `rules` is right, and write it to demur/judge/data/rules_measured.json.

    python tools/measure_rules.py

The labelled replies are those of tests/judge that nothing was tuned on, and the untouched part of the answers that come
with demur. `demur judge file` shows the figures beside its verdicts. To be run after a change of the rules.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from demur.judge.bench import MEASURED, asked, by_rule, load, shipped
from demur.judge.local import LocalJudge

ROOT = Path(__file__).resolve().parent.parent
LABELLED = ROOT / "tests/judge"


def main() -> None:
    """Measure, print, write."""
    graded = [shipped(), *sorted(LABELLED.glob("graded_by_language*.jsonl"))]
    items = [one for file in graded for one in load(file) if one.part == "untouched"] + load(
        LABELLED / "untouched"
    )
    judge = LocalJudge()
    rules = by_rule(items, [judge.grade(*item) for item in asked(items)])
    for rule in rules:
        sys.stdout.write(
            f"{rule.outcome:10} {rule.kind:20} {rule.share.hits:5} of {rule.share.n:5}\n"
        )
    told = {
        "version": judge.version,
        "replies": len(items),
        "rules": [[r.outcome, r.kind, *r.share[:]] for r in rules],
    }
    MEASURED.write_text(json.dumps(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
