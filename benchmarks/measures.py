"""A million verdicts: rates, intervals, breakdowns, right behaviour and a paired comparison; seconds and peak memory.

Peers: pandas for the counting (the same rates by source and scenario with ``groupby``), a plain NumPy loop for the
cluster bootstrap (resampling cluster indices, the usual way), and statsmodels for McNemar. Each figure is the best of
``--repeats`` runs; peak memory is the largest resident set of a process of its own.

Run: ``make bench-measures`` or ``python benchmarks/measures.py --rows 1000000``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from demur.judge.measures.behaviour import behaviour
from demur.judge.measures.rates import rates, rates_where
from demur.judge.measures.table import Table

DRAWS = 2000
SOURCES = ["infoseek", "webqa", "evqa", "mmdocrag", "mragbench", "viquae"]


def rows(n: int, seed: int) -> pa.Table:
    """A run's columns: n rows over n / 4 samples in four scenarios, clusters of about five samples, 3 % unjudged."""
    rng = np.random.default_rng(seed)
    i = np.arange(n)
    sample, scenario = i // 4, i % 4
    outcome = rng.choice(["correct", "incorrect", "deflected"], n, p=[0.45, 0.3, 0.25])
    unjudged = rng.random(n) < 0.03

    def pick(names: list[str], codes: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(
            pa.array(codes.astype(np.int32)), pa.array(names)
        ).cast(pa.string())

    return pa.table(
        {
            "sample": pa.array(np.char.add("s", sample.astype(str))),
            "source": pick(SOURCES, rng.integers(0, len(SOURCES), n // 4 + 1)[sample]),
            "cluster": pa.array(np.char.add("e", (sample // 5).astype(str))),
            "scenario": pick(["parametric", "oracle", "realistic", "adversarial"], scenario),
            "expected": pick(["answer", "deflect"], (scenario % 3 == 0).astype(int)),
            "status": pick(["graded", "unjudged"], unjudged.astype(int)),
            "outcome": pa.array(outcome, mask=unjudged),
            "confidence": pa.array(rng.random(n)),
        }
    )


def ours_rates(a: pa.Table, b: pa.Table) -> object:
    """Three rates with a cluster bootstrap of 2,000 draws."""
    return rates(a, f"cluster-bootstrap(0.95,{DRAWS})")


def ours_breakdown(a: pa.Table, b: pa.Table) -> object:
    """Rates by source and scenario with Wilson intervals."""
    found = Table(a)
    return [rates_where(found, place, "wilson") for _, place in found.groups("source", "scenario")]


def ours_behaviour(a: pa.Table, b: pa.Table) -> object:
    """The right-behaviour summary, five shares with cluster bootstraps."""
    return behaviour(a, f"cluster-bootstrap(0.95,{DRAWS})")


def pandas_breakdown(a: pa.Table, b: pa.Table) -> object:
    """Peer: pandas groupby for the same rates by source and scenario, without intervals."""
    frame = a.select(["source", "scenario", "status", "outcome"]).to_pandas()
    graded = frame[frame["status"] == "graded"]
    return graded.groupby(["source", "scenario"])["outcome"].value_counts(normalize=True)


def numpy_bootstrap(a: pa.Table, b: pa.Table) -> object:
    """Peer: the plain cluster bootstrap, indices drawn per resample; 20 draws timed, scaled to 2,000."""
    table = Table(a)
    keep = table.graded
    _, cluster = np.unique(table.cluster[keep], return_inverse=True)
    hits = np.bincount(cluster, weights=(table.result[keep] == 0).astype(float))
    sizes = np.bincount(cluster).astype(float)
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, len(sizes), len(sizes)) for _ in range(20)]
    return [hits[i].sum() / sizes[i].sum() for i in drawn]


WORK: dict[str, tuple[Callable[[pa.Table, pa.Table], object], float]] = {
    "demur rates + cluster bootstrap": (ours_rates, 1.0),
    "numpy loop, one rate, same bootstrap": (numpy_bootstrap, DRAWS / 20),
    "demur breakdown source x scenario + Wilson": (ours_breakdown, 1.0),
    "pandas groupby source x scenario": (pandas_breakdown, 1.0),
    "demur right behaviour + cluster bootstrap": (ours_behaviour, 1.0),
}


def measured(name: str, folder: Path, repeats: int) -> tuple[float, float, float]:
    """(seconds, best of repeats, for the whole job; peak MB of the process; MB with both tables read)."""
    work, scale = WORK[name]
    a, b = (pq.read_table(folder / f"{i}.parquet") for i in range(2))
    work(rows(1000, 0), rows(1000, 1))  # imports are not measured
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work(a, b)
        times.append(time.perf_counter() - start)
    return min(times) * scale, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, before


def main() -> None:
    """Measure every line in a process of its own and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print(f"{args.rows:,} rows, best of {args.repeats}")
    print(f"{'':<44} {'seconds':>9} {'peak MB':>9} {'with input':>12}")
    results = {}
    with TemporaryDirectory() as folder:
        for i in range(2):
            pq.write_table(rows(args.rows, i), Path(folder) / f"{i}.parquet")
        for name in WORK:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                seconds, peak, before = pool.apply(measured, (name, Path(folder), args.repeats))
            results[name] = {
                "seconds": round(seconds, 3),
                "peak_mb": round(peak),
                "input_mb": round(before),
            }
            print(f"{name:<44} {seconds:>9.2f} {peak:>9,.0f} {before:>12,.0f}", flush=True)
    print(
        json.dumps(
            {
                "benchmark": "measures",
                "rows": args.rows,
                "repeats": args.repeats,
                "results": results,
            }
        )
    )


if __name__ == "__main__":
    main()
