"""The library without the command: open a release, ask a system in two scenarios, read the rates.

python examples/score_a_release.py demo-out/release
"""

from __future__ import annotations

import sys
import tempfile

import demur

release = demur.open_release(sys.argv[1])
print(release)

with tempfile.TemporaryDirectory() as folder:
    system, scenarios = "python:examples.my_rag:answer", ["oracle", "adversarial(k=3)"]
    run = demur.evaluate(release, system, scenarios=scenarios, limit=25, out=folder)
    for row in run.rates().records:
        for name in ("accuracy", "deflection", "hallucination"):
            rate = row[name]  # a share of n graded answers; None without any
            missing = f"failed {rate['failed']}, unjudged {rate['unjudged']}"
            print(f"{row['scenario']:12} {name:14} {rate['value']}  n={rate['n']}, {missing}")
