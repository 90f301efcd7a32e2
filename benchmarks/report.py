"""`demur report` on large runs: seconds, and the largest resident set of a process of its own.

A run of N rows is generated (4 scenarios and a sweep of 21, each under four prompts; answers, reasons, confidences and
context sets as a run has them; no release) and reported with the page and all tables. Nothing else is measured: a
release's samples are held whole, and take what they take. The rate of growth is told per row, over the smallest run.

Run: ``make bench-report`` or ``python benchmarks/report.py --rows 50000 500000 1000000``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from demur.core.records import Row
from demur.scenarios.contexts import standard, sweep

CONDITIONS = ("none", "soft", "moderate", "severe")


def make_run(folder: Path, n: int) -> None:
    """A run folder with ``n`` rows, a block of 50,000 at a time."""
    folder.mkdir(parents=True)
    recipes = [str(r) for r in dict.fromkeys([*standard(2), *sweep(0, 20)])]
    kinds = {"k_used": pa.int32(), "repeat": pa.int32(), "confidence": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in Row.model_fields])
    empty = {name: "" for name in Row.model_fields if name not in kinds}
    each = len(recipes) * len(CONDITIONS)
    rng = np.random.default_rng(0)
    with (
        pq.ParquetWriter(folder / "rows.parquet", schema, compression="zstd") as writer,
        (folder / "contexts.jsonl").open("w") as contexts,
    ):
        for start in range(0, n, 50_000):
            block = []
            said = rng.choice(["correct", "incorrect", "deflected"], 50_000, p=[0.45, 0.3, 0.25])
            sure = rng.random(50_000).round(3)
            for i in range(start, min(start + 50_000, n)):
                sample, rest = divmod(i, each)
                at, condition = divmod(rest, len(CONDITIONS))
                recipe = recipes[at]
                scenario = recipe.partition("(")[0]
                context = f"{sample:08x}{at:08x}"
                expected = "answer" if scenario in ("oracle", "realistic") else "deflect"
                outcome = str(said[i - start])
                block.append(
                    empty
                    | {
                        "ask": f"{i:016x}",
                        "context": context,
                        "sample": f"question-{sample:07d}",
                        "source": f"source-{sample % 6}",
                        "topic": f"topic-{sample % 30}",
                        "cluster": f"entity-{sample // 3}",
                        "query_modality": "text+image",
                        "gold_modality": "text",
                        "negative_modality": "both",
                        "scenario": scenario,
                        "condition": CONDITIONS[condition],
                        "recipe": recipe,
                        "repeat": 0,
                        "k_used": 2,
                        "expected": expected,
                        "status": "graded",
                        "outcome": outcome,
                        "reason": f"rule of {outcome}",
                        "answer": f"It is the answer number {i % 997} to question {sample}, as the passage says.",
                        "confidence": float(sure[i - start]),
                        "error": "",
                    }
                )
                if condition == 0:
                    shown = [f"d{sample}-{k}" for k in range(2)]
                    record = {
                        "id": context,
                        "sample": f"question-{sample:07d}",
                        "scenario": scenario,
                        "evidence": shown,
                        "gold": shown[:1],
                        "expected": expected,
                        "k_asked": 2,
                        "k_used": 2,
                        "recipe": recipe,
                        "seed": 0,
                    }
                    contexts.write(json.dumps(record) + "\n")
            writer.write_table(pa.Table.from_pylist(block, schema=schema))
    (folder / "manifest.json").write_text(
        json.dumps({"system": "made", "judge": "local", "seed": 0})
    )


def report(run: Path, out: Path) -> tuple[float, float, float]:
    """(wall seconds, CPU seconds, peak MB) of `demur report` with page and tables, in a process of its own."""
    code = (
        "import json, resource, sys; from demur.cli import main; code = main(sys.argv[1:]); "
        "u = resource.getrusage(resource.RUSAGE_SELF); "
        "sys.stderr.write(json.dumps([u.ru_utime + u.ru_stime, u.ru_maxrss / 1024])); sys.exit(code)"
    )
    words = ["report", str(run), "-o", str(out / "report.html"), "--tables", str(out / "tables")]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    cpu, peak = json.loads(done.stderr.splitlines()[-1])
    return time.perf_counter() - start, cpu, peak


def main() -> None:
    """Make each run, report it, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 500_000, 1_000_000])
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(f"{'rows':>12} {'seconds':>9} {'CPU s':>9} {'peak MB':>9} {'page MB':>9}")
    results = []
    for n in args.rows:
        with TemporaryDirectory() as folder:
            make_run(Path(folder) / "made", n)
            seconds, cpu, peak = report(Path(folder) / "made", Path(folder))
            size = (Path(folder) / "report.html").stat().st_size / 1e6
        results.append(
            {"rows": n, "seconds": round(seconds, 1), "cpu": round(cpu, 1), "peak_mb": round(peak)}
        )
        print(f"{n:>12,} {seconds:>9.1f} {cpu:>9.1f} {peak:>9,.0f} {size:>9.1f}", flush=True)
    print(json.dumps({"benchmark": "report", "results": results}))


if __name__ == "__main__":
    main()
