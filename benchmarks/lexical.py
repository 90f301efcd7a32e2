"""make bench-lexical: BM25 beside rank-bm25 and bm25s on generated passages (Zipf words), in one run.

Rates are queries per CPU second, so that a busy machine disturbs them little; ours and bm25s's hold the top 10 too,
rank-bm25's its scores alone.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from demur.indexing import bm25
from demur.indexing.bm25 import BM25, build_bm25, words


def passages(n: int, seed: int = 0) -> list[str]:
    """Passages of 41 words on average, words by Zipf's law over 60,000."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 60_001)
    drawn = rng.choice(60_000, size=41 * n, p=weights / weights.sum())
    cuts = np.sort(rng.choice(41 * n, n - 1, replace=False))
    return [" ".join(f"w{w}" for w in part) for part in np.split(drawn, cuts)]


def rate(work: Callable[[], object], n: int) -> float:
    """Items per CPU second."""
    start = time.process_time()
    work()
    return n / (time.process_time() - start)


def main() -> None:
    """Index, ask, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--slow-queries", type=int, default=8, help="asked of rank-bm25")
    args = parser.parse_args()
    texts = passages(args.passages)
    rng = np.random.default_rng(1)
    weights = 1 / np.arange(1, 60_001)
    drawn = rng.choice(60_000, size=(args.queries, 8), p=weights / weights.sum())
    queries = [" ".join(f"w{w}" for w in line) for line in drawn]
    rows: dict[str, dict[str, float]] = {}

    tokens = [words(t) for t in texts]
    start = time.process_time()
    reference = BM25Okapi(tokens)
    rows["rank-bm25"] = {"index_s": time.process_time() - start}
    slow = [words(q) for q in queries[: args.slow_queries]]
    rows["rank-bm25"]["rate"] = rate(lambda: [reference.get_scores(q) for q in slow], len(slow))

    start = time.process_time()
    peer = bm25s.BM25(method="lucene", backend="numba")
    peer.index(tokens, show_progress=False)
    rows["bm25s lucene numba"] = {"index_s": time.process_time() - start}
    split = [words(q) for q in queries]
    peer.retrieve(split[:8], k=10, show_progress=False)  # compiles
    rows["bm25s lucene numba"]["rate"] = rate(
        lambda: peer.retrieve(split, k=10, show_progress=False), len(split)
    )
    del tokens

    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        part = build_bm25(texts, Path(folder) / "lucene")
        took = time.process_time() - start
        bm25.RANK_BM25_MOST = 0  # its scores by bm25s
        start = time.process_time()
        okapi = build_bm25(texts, Path(folder) / "okapi", method="okapi")
        okapi_took = time.process_time() - start
        for method, backend, least, entry, seconds in (
            ("lucene", "numba", 0, part, took),
            ("lucene", "numpy", 1 << 60, part, took),
            ("okapi", "numba", 0, okapi, okapi_took),
        ):
            bm25.NUMBA_FROM = least
            index = BM25(Path(folder) / method, entry)
            index.search(queries[:8], 10)  # compiles
            rows[f"demur {method} {backend}"] = {
                "index_s": seconds,
                "rate": rate(lambda index=index: index.search(queries, 10), len(queries)),
            }
    base = rows["rank-bm25"]["rate"]
    print(
        f"{args.passages:,} passages; {len(queries)} queries of 8 words ({len(slow)} for rank-bm25); one repeat"
    )
    print(f"{'':<22} {'index CPU s':>12} {'queries/CPU s':>14} {'x rank':>12}")
    for name, row in rows.items():
        print(
            f"{name:<22} {row['index_s']:>12.1f} {row['rate']:>14.1f} {row['rate'] / base:>12.0f}"  # one row of a table
        )
    print(
        json.dumps(
            {
                "benchmark": "lexical",
                "passages": args.passages,
                "queries": len(queries),
                "results": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
