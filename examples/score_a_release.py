"""The library without the command: open a release, ask a system in two scenarios, read the measures.

python examples/score_a_release.py demo-out/release
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from demur.evaluation.asking import ask
from demur.evaluation.questions import Questions
from demur.judge.measures.rates import rates
from demur.judge.measures.table import read_table
from demur.release import Release
from demur.scenarios.conditions import condition
from demur.scenarios.contexts import recipe

release = Release.open(Path(sys.argv[1]))
print(release.name, release.version, release.manifest["counts"]["samples"], "samples")

with tempfile.TemporaryDirectory() as folder:
    questions = Questions([recipe("oracle"), recipe("adversarial(k=3)")], [condition("moderate")], limit=25)
    (run,) = ask(release, ["python:examples.my_rag:answer"], Path(folder), questions)
    for measure in rates(read_table(run / "rows.parquet")):
        missing = f"ungraded {measure.ungraded}, failed {measure.failed}"
        print(f"{measure.name:14} {measure.value:.3f}  n={measure.n}, {missing}")
