"""make bench-indexing: dense search - exactness, rate by batch, kinds of index, and memory by corpus size, in one run.

1. Exactness: ids and score bits against one large batch, for the batch sizes around faiss's BLAS threshold, for shards,
   mapped or read; "faiss" tells how often faiss's own scores keep their bits.
2. Rate of exact search by number of queries, as a share of faiss's own best rate, and that beside the matrix product.
3. Inverted lists: queries per CPU second beside flat, recall@10, build.
4. Peak memory of a whole build with an encoder that costs nothing, for N and 4 N documents.

CPU seconds of one thread. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and faiss: CPU seconds then mean work, not waiting
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import faiss
import numpy as np

from demur.indexing import ivf
from demur.indexing.build import build_index
from demur.indexing.exact import Found, exact_top, merge, unit
from demur.indexing.indexes import Dense
from demur.records import Document

NORM = 1.0001


def clustered(n: int, d: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors in clusters of some sixty, and queries near some of them."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((n // 60, d), dtype=np.float32)
    vectors = unit(centres[rng.integers(0, n // 60, n)] + 0.7 * rng.standard_normal((n, d), dtype=np.float32))
    queries = unit(vectors[rng.choice(n, q)] + 0.03 * rng.standard_normal((q, d), dtype=np.float32))
    return vectors, queries


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds, the better of two."""
    times = []
    for _ in range(2):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def exactness(vectors: np.ndarray, queries: np.ndarray, folder: Path) -> dict[str, Any]:
    """Shares of equal ids and of equal score bits; 1.0 is wanted of ours."""
    whole = exact_top(queries, vectors, 10, largest_norm=NORM)
    raw = faiss.knn(queries, vectors, 10, metric=faiss.METRIC_INNER_PRODUCT)
    threshold = 128_000 // vectors.shape[1]
    rows: dict[str, Any] = {}
    for batch in (1, 2, 64, threshold - 1, threshold, 1024):
        take = min(len(queries), max(64, batch))
        parts = [exact_top(queries[i : i + batch], vectors, 10, largest_norm=NORM) for i in range(0, take, batch)]
        theirs = [
            faiss.knn(queries[i : i + batch], vectors, 10, metric=faiss.METRIC_INNER_PRODUCT)[0]
            for i in range(0, take, batch)
        ]
        rows[f"batch {batch}"] = {
            "ids": float((np.concatenate([p.rows for p in parts])[:take] == whole.rows[:take]).mean()),
            "bits": float((np.concatenate([p.scores for p in parts])[:take] == whole.scores[:take]).mean()),
            "faiss_bits": float((np.concatenate(theirs)[:take] == raw[0][:take]).mean()),
        }
    np.save(folder / "vectors.npy", vectors)
    for shards in (2, 8):
        cuts = np.linspace(0, len(vectors), shards + 1).astype(int)
        found = [exact_top(queries[:256], vectors[a:b], 10, largest_norm=NORM) for a, b in pairwise(cuts)]
        one = merge([Found(f.scores, f.rows + a) for f, a in zip(found, cuts, strict=False)], 10)
        rows[f"{shards} shards"] = {
            "ids": float((one.rows == whole.rows[:256]).mean()),
            "bits": float((one.scores == whole.scores[:256]).mean()),
        }
    entry = {"kind": "flat", "dims": vectors.shape[1], "count": len(vectors), "largest_norm": NORM}
    mapped = Dense.open(folder, entry).search(queries[:256], 10)
    rows["mapped"] = {
        "ids": float((mapped.rows == whole.rows[:256]).mean()),
        "bits": float((mapped.scores == whole.scores[:256]).mean()),
    }
    return rows


def rates(vectors: np.ndarray, queries: np.ndarray) -> dict[str, Any]:
    """Queries per CPU second of exact search by batch, beside faiss at its best batch and the bare matrix product."""
    faiss_best = max(
        len(q) / cpu(lambda q=q: faiss.knn(q, vectors, 10, metric=faiss.METRIC_INNER_PRODUCT))
        for q in (queries[:1024], queries)
    )
    transposed = vectors[:20_000].T
    product = len(queries) / (cpu(lambda: queries @ transposed) * len(vectors) / 20_000)
    rows: dict[str, Any] = {"faiss best": faiss_best, "matrix product": product}
    for n in (1, 3, 4, 16, 64, 256, 1024, 1100, len(queries)):
        rows[f"{n} queries"] = n / cpu(lambda n=n: exact_top(queries[:n], vectors, 10, largest_norm=NORM))
    return rows


def kinds(vectors: np.ndarray, queries: np.ndarray, folder: Path) -> dict[str, Any]:
    """Every kind of inverted lists: build, rate beside flat, recall@10 after exact re-ranking, size on disk."""
    queries = queries[:500]
    right = exact_top(queries, vectors, 10, largest_norm=NORM).rows
    flat = len(queries) / cpu(lambda: exact_top(queries, vectors, 10, largest_norm=NORM))
    rows: dict[str, Any] = {"flat": {"rate": flat, "x_flat": 1.0, "recall": 1.0}}
    base = {"dims": vectors.shape[1], "count": len(vectors), "largest_norm": NORM}
    for kind in ivf.KINDS[1:]:
        start = time.process_time()
        entry = base | ivf.build_ivf(kind, vectors, folder / "index.faiss")
        build = time.process_time() - start
        index = Dense.open(folder, entry)
        found = index.search(queries, 10).rows
        rate = len(queries) / cpu(lambda index=index: index.search(queries, 10))
        recall = float(np.mean([np.isin(a, b).mean() for a, b in zip(right, found, strict=True)]))
        size = (folder / "index.faiss").stat().st_size / 1e6
        rows[kind] = {"rate": rate, "x_flat": rate / flat, "recall": recall, "build_s": build, "mb": size}
    return rows


class Free:
    """An encoder that costs nothing: vectors by counting."""

    name, note, similarity, dims = "free", "for measuring", "dot", {"text": 32, "joint": 32}

    def fingerprint(self) -> str:
        """A constant."""
        return "f" * 64

    def texts(self, texts: list[str], space: str = "joint", *, role: str = "passage") -> np.ndarray:
        """Rows that differ."""
        rows = np.ones((len(texts), 32), np.float32)
        rows[:, 0] = [len(t) for t in texts]
        return rows

    def images(self, images: list[Any], space: str = "joint") -> np.ndarray:
        """None are given."""
        return np.zeros((len(images), 32), np.float32)


def peak(n: int) -> None:
    """In a process of its own: build an index of n documents and print the peak growth of memory in MB."""
    words = [f"word{i}" for i in range(20_000)]

    def documents() -> Any:
        for i in range(n):
            text = " ".join(words[(i * 31 + j * j * 7) % 20_000] for j in range(40))
            yield Document(id=f"d{i}", title=f"Page {i // 5}", text=text, page=f"p{i // 5}")

    def status(field: str) -> int:
        text = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(field + ":"))

    anonymous: list[int] = []
    before = status("RssAnon")
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()

        def watch(what: str, done: int, total: int) -> None:
            anonymous.append(status("RssAnon"))

        build_index(documents(), Free(), Path(folder) / "index", kind="flat", progress=watch)  # type: ignore[arg-type]
        took = time.process_time() - start
    anonymous.append(status("RssAnon"))
    print(json.dumps({"mb": (max(anonymous) - before) / 1e3, "cpu_s": took}))


def main() -> None:
    """Measure all four."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=60_000)
    parser.add_argument("--dims", type=int, default=256)
    parser.add_argument("--queries", type=int, default=2048)
    parser.add_argument("--documents", type=int, default=25_000, help="N of the memory measurement")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        peak(args.peak)
        return
    vectors, queries = clustered(args.vectors, args.dims, args.queries)
    result: dict[str, Any] = {"benchmark": "indexing", "vectors": args.vectors, "dims": args.dims}
    with tempfile.TemporaryDirectory() as name:
        result["exactness"] = exactness(vectors, queries, Path(name))
        print(f"{args.vectors:,} x {args.dims}; share equal to one batch of {args.queries:,}")
        print(f"{'':<12} {'ids':>6} {'bits':>6} {'bits of faiss':>14}")
        for key, row in result["exactness"].items():
            print(f"{key:<12} {row['ids']:>6.3f} {row['bits']:>6.3f} {row.get('faiss_bits', float('nan')):>14.3f}")
        result["rates"] = rates(vectors, queries)
        best = result["rates"]["faiss best"]
        print(f"\n{'exact search':<16} {'q/CPU s':>9} {'of faiss best':>14}")
        for key, rate in result["rates"].items():
            print(f"{key:<16} {rate:>9.0f} {rate / best:>14.2f}")
        result["kinds"] = kinds(vectors, queries, Path(name))
        print(f"\n{'kind':<12} {'q/CPU s':>9} {'x flat':>7} {'recall@10':>10} {'build CPU s':>12} {'MB':>7}")
        for key, row in result["kinds"].items():
            build, size = row.get("build_s", 0.0), row.get("mb", vectors.nbytes / 1e6)
            print(
                f"{key:<12} {row['rate']:>9.0f} {row['x_flat']:>7.1f} {row['recall']:>10.4f} {build:>12.1f} {size:>7.0f}"  # noqa: E501  # one row of a table
            )
    result["memory"] = {}
    for n in (args.documents, 4 * args.documents):
        done = subprocess.run([sys.executable, __file__, "--peak", str(n)], check=True, capture_output=True, text=True)
        result["memory"][n] = json.loads(done.stdout.splitlines()[-1])
        print(
            f"build of {n:>9,} documents: {result['memory'][n]['mb']:.0f} MB above the start, {result['memory'][n]['cpu_s']:.1f} CPU s"  # noqa: E501  # one row of a table
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
