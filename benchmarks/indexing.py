"""make bench-indexing: dense search - exactness, rate by batch, kinds of index, and memory by corpus size, in one run.

1. Exactness: ids and score bits against one large batch, for the batch sizes around faiss's BLAS threshold, for shards,
   mapped or read; "faiss" tells how often faiss's own scores keep their bits.
2. Rate of exact search by number of queries, as a share of the best rate that faiss reaches for those queries over its
   kernels and any cut of them into batches; the bare matrix product of the same shapes (numpy's), and where all queries
   share one pass through memory, what memory can stream. Options take turns, each round beginning with another; the
   median of each counts, for the least of many would favour faiss, which has more options and so more draws.
3. Inverted lists, searched as far as recall@10 of 0.99 needs on a sample: rates beside flat and beside faiss's own
   index of the kind (its factory's defaults, as many lists, probes and re-ranked candidates); what `auto` takes, by the
   queries of an index's life. The data are those of bench-mining.
4. Peak memory (RssAnon: mapped files do not count) of ``demur index build`` by number of generated documents, with an
   encoder that costs nothing and, for fewer of them, with the offline one; dense and BM25 parts included.

CPU seconds of one thread. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # before numpy and faiss: CPU seconds then mean work, not waiting
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import faiss
import numpy as np
from mining import make

from demur.indexing import ivf
from demur.indexing.choose import choose
from demur.indexing.exact import Neighbours, exact_top, merge_shards, unit
from demur.indexing.indexes import Dense

NORM = 1.0001
ASKED = (1, 2, 16, 64, 249, 250, 1024, 4096)
"""Numbers of queries."""
K = 10
BATCH = 4096
"""Queries asked at once, about as many as `demur mine` asks."""
SAMPLE = 512
"""Queries that the number of lists is tuned on."""
ROUNDS = 7
"""In which kinds of index are asked in turn."""
LIVES = (100, 1000, 10_000, 100_000, 1_000_000)
"""Queries in the life of an index, for `auto`."""


def clustered(n: int, d: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors in clusters of some sixty, and queries near some of them."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((n // 60, d), dtype=np.float32)
    vectors = unit(
        centres[rng.integers(0, n // 60, n)] + 0.7 * rng.standard_normal((n, d), dtype=np.float32)
    )
    queries = unit(vectors[rng.choice(n, q)] + 0.03 * rng.standard_normal((q, d), dtype=np.float32))
    return vectors, queries


def cpu(work: Callable[[], object], repeats: int = 2) -> float:
    """CPU seconds, the least of the repeats."""
    times = []
    for _ in range(repeats):
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
        parts = [
            exact_top(queries[i : i + batch], vectors, 10, largest_norm=NORM)
            for i in range(0, take, batch)
        ]
        theirs = [
            faiss.knn(queries[i : i + batch], vectors, 10, metric=faiss.METRIC_INNER_PRODUCT)[0]
            for i in range(0, take, batch)
        ]
        rows[f"batch {batch}"] = {
            "ids": float(
                (np.concatenate([p.rows for p in parts])[:take] == whole.rows[:take]).mean()
            ),
            "bits": float(
                (np.concatenate([p.scores for p in parts])[:take] == whole.scores[:take]).mean()
            ),
            "faiss_bits": float((np.concatenate(theirs)[:take] == raw[0][:take]).mean()),
        }
    np.save(folder / "vectors.npy", vectors)
    for shards in (2, 8):
        cuts = np.linspace(0, len(vectors), shards + 1).astype(int)
        found = [
            exact_top(queries[:256], vectors[a:b], 10, largest_norm=NORM) for a, b in pairwise(cuts)
        ]
        one = merge_shards(
            [Neighbours(f.scores, f.rows + a) for f, a in zip(found, cuts, strict=False)], 10
        )
        rows[f"{shards} shards"] = {
            "ids": float((one.rows == whole.rows[:256]).mean()),
            "bits": float((one.scores == whole.scores[:256]).mean()),
        }
    entry = {"kind": "flat", "dims": vectors.shape[1], "count": len(vectors), "largest_norm": NORM}
    mapped = Dense(folder, entry).search(queries[:256], 10)
    rows["mapped"] = {
        "ids": float((mapped.rows == whole.rows[:256]).mean()),
        "bits": float((mapped.scores == whole.scores[:256]).mean()),
    }
    return rows


def faiss_options(n: int) -> dict[str, tuple[int, int, int]]:
    """Ways to ask faiss for n queries: name -> (batch, distance_compute_blas_threshold, database block)."""
    block = faiss.cvar.distance_compute_blas_database_bs
    options = {"as it is": (n, faiss.cvar.distance_compute_blas_threshold, block)}
    for batch in sorted({n, *(b for b in (1, 16, 64, 256, 1024) if n / 64 <= b < n)}):
        if n <= 64:
            options[f"by query, in {batch}s"] = (batch, 1 << 30, block)
        options[f"product, in {batch}s"] = (batch, 0, block)
    if n >= 249:
        options |= {f"product, rows in {rows}s": (n, 0, rows) for rows in (256, 8192)}
    return options


def ask_faiss(queries: np.ndarray, vectors: np.ndarray, option: tuple[int, int, int]) -> None:
    """The first K by faiss in one of its ways."""
    batch, threshold, rows = option
    before = (
        faiss.cvar.distance_compute_blas_threshold,
        faiss.cvar.distance_compute_blas_database_bs,
    )
    faiss.cvar.distance_compute_blas_threshold, faiss.cvar.distance_compute_blas_database_bs = (
        threshold,
        rows,
    )
    for start in range(0, len(queries), batch):
        faiss.knn(queries[start : start + batch], vectors, K, metric=faiss.METRIC_INNER_PRODUCT)
    faiss.cvar.distance_compute_blas_threshold, faiss.cvar.distance_compute_blas_database_bs = (
        before
    )


def product(queries: np.ndarray, vectors: np.ndarray) -> None:
    """The bare matrix product, in blocks that stay in the cache."""
    width = max(1024, (1 << 21) // len(queries))
    room = np.empty((len(queries), width), np.float32)
    for start in range(0, len(vectors), width):
        block = vectors[start : start + width]
        np.matmul(queries, block.T, out=room[:, : len(block)])


def rotated(items: list[Any], by: int) -> list[Any]:
    """The same items in turn, beginning with another."""
    return items[by % len(items) :] + items[: by % len(items)]


def rates(vectors: np.ndarray, queries: np.ndarray) -> dict[str, Any]:
    """Queries per CPU second of exact search by number of queries, beside faiss's best and the machine's limits."""
    passes = [lambda: vectors.max(), lambda: vectors @ queries[0]]
    stream = vectors.nbytes / min(cpu(one, 5) for one in passes)
    result: dict[str, Any] = {"stream_bytes_s": stream, "asked": {}}
    for n in ASKED:
        some = queries[:n]
        options = faiss_options(n)
        work: dict[str, Callable[[], object]] = {
            "ours": lambda some=some: exact_top(some, vectors, K, largest_norm=NORM),
            "matrix product": lambda some=some: product(some, vectors),
        }
        work |= {
            name: lambda some=some, o=option: ask_faiss(some, vectors, o)
            for name, option in options.items()
        }
        taken: dict[str, list[float]] = {name: [] for name in work}
        rounds = max(7, min(200, 2000 // n))
        late: set[str] = set()  # ways of faiss that are far from its best
        for number in range(rounds):
            if number == 3:
                late = {
                    o
                    for o in options
                    if median(taken[o]) > 1.3 * min(median(taken[p]) for p in options)
                }
            for name, job in rotated(list(work.items()), number):
                if name in late:
                    continue
                start = time.process_time_ns()
                job()
                taken[name].append((time.process_time_ns() - start) / 1e9)
        times = {name: median(row) for name, row in taken.items()}
        best = min(options, key=lambda name: times[name])
        flops = 2e-9 * n * vectors.size
        result["asked"][n] = {
            "rate": n / times["ours"],
            "faiss": n / times[best],
            "faiss_way": best,
            "x_faiss": times[best] / times["ours"],
            "faiss_as_it_is": n / times["as it is"],
            "gflops": flops / times["ours"],
            "gflops_product": flops / times["matrix product"],
            "of_product": times["matrix product"] / times["ours"],
            "of_stream": vectors.nbytes / stream / times["ours"],
            "rounds": rounds,
        }
    return result


def share(found: np.ndarray, right: np.ndarray) -> float:
    """Recall."""
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(right, found, strict=True)]))


def asked(
    searches: dict[str, Callable[[np.ndarray], object]], queries: np.ndarray
) -> dict[str, dict[str, float]]:
    """Queries per CPU second, asked one by one and in blocks; searches take turns, the median of each counts."""
    rates: dict[str, dict[str, float]] = {name: {} for name in searches}
    for batch, many in ((1, 200), (BATCH, len(queries))):
        some = [queries[i : min(i + batch, many)] for i in range(0, many, batch)]
        taken: dict[str, list[float]] = {name: [] for name in searches}
        for number in range(ROUNDS):
            for name, search in rotated(list(searches.items()), number):
                taken[name].append(
                    cpu(lambda some=some, search=search: [search(q) for q in some], 1)
                )
        for name, row in taken.items():
            rates[name]["singly" if batch == 1 else "in_batches"] = many / median(row)
    return rates


def faiss_own(kind: ivf.Kind, vectors: np.ndarray, lists: int, probes: int) -> Any:
    """The index of that kind that faiss's factory makes, re-ranking as many candidates as ours does."""
    made = {"ivf-flat": "Flat", "ivf-sq8": "SQ8"}[kind]
    refine = ivf.REFINE[kind]
    name = f"IVF{lists},{made}" + (",RFlat" if refine > 1 else "")
    index = faiss.index_factory(vectors.shape[1], name, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    if refine > 1:
        index.k_factor = refine
    faiss.extract_index_ivf(index).nprobe = probes
    return index


def kinds(n: int, d: int, folder: Path) -> dict[str, Any]:
    """Every kind: build, rates, recall@10 at lists tuned on other queries; faiss's own; and what `auto` takes."""
    make(folder, n, max(ASKED), d)
    (folder / "passage.npy").rename(folder / "vectors.npy")
    vectors, queries = np.load(folder / "vectors.npy"), np.load(folder / "query.npy")
    tuned, queries = queries[:SAMPLE], queries[SAMPLE:]
    right = exact_top(queries, vectors, K, largest_norm=NORM).rows
    rows: dict[str, Any] = {"flat": {"recall": 1.0, "build_s": 0.0, "mb": vectors.nbytes / 1e6}}
    plain = faiss.IndexFlatIP(vectors.shape[1])
    plain.add(vectors)
    searches = {
        "ours": lambda some: exact_top(some, vectors, K, largest_norm=NORM),
        "faiss": lambda some: plain.search(some, K),
    }
    rates = asked(searches, queries)
    rows["flat"] |= rates["ours"] | {"faiss": rates["faiss"] | {"recall": 1.0, "build_s": 0.0}}
    base = {"dims": d, "count": n, "largest_norm": NORM}
    for kind in ivf.KINDS[1:]:
        start = time.process_time()
        entry = base | ivf.build_ivf(kind, vectors, folder / "index.faiss")
        row: dict[str, Any] = {"build_s": time.process_time() - start, "lists": entry["lists"]}
        index = Dense(folder, entry)
        row["nprobe"] = index.nprobe = index.nprobe_for([tuned], K).nprobe
        row["recall"] = share(index.search(queries, K).rows, right)
        row["mb"] = (folder / "lists.bin").stat().st_size / 1e6
        start = time.process_time()
        own = faiss_own(kind, vectors, row["lists"], row["nprobe"])
        row["faiss"] = {
            "build_s": time.process_time() - start,
            "recall": share(own.search(queries, K)[1], right),
        }
        searches = {
            "ours": lambda some, index=index: index.search(some, K),
            "faiss": lambda some, own=own: own.search(some, K),
        }
        rates = asked(searches, queries)
        row |= rates["ours"]
        row["faiss"] |= rates["faiss"]
        rows[kind] = row
    return {"kinds": rows, "auto": [auto(rows, vectors.shape, n) for n in LIVES]}


def auto(rows: dict[str, Any], shape: tuple[int, ...], queries: int) -> dict[str, Any]:
    """What is chosen for that many queries in an index's life, and CPU seconds of every kind, building included.

    Of the kinds at which `auto` looks where memory is no matter.
    """
    cost = {
        kind: rows[kind]["build_s"] + queries / rows[kind]["in_batches"]
        for kind in ("flat", "ivf-flat", "ivf-sq8")
    }
    kind, why = choose(*shape, queries=queries, memory=1 << 50)
    return {
        "queries": queries,
        "kind": kind,
        "why": why,
        "of_cheapest": cost[kind] / min(cost.values()),
        "cpu_s": cost,
    }


class Free:
    """An encoder that costs nothing: vectors by counting."""

    name, note, similarity, dims = (
        "indexing:Free",
        "for measuring",
        "dot",
        {"text": 32, "joint": 32},
    )

    def __init__(self, *_: Any, **__: Any) -> None:
        """As a factory of encoders is called."""

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


def write_documents(path: Path, n: int) -> None:
    """As many documents of 40 words by Zipf's law over 60,000, five to a page; titles are of the same words.

    BM25 holds its vocabulary in memory, some 150 bytes a word: a corpus of more words takes that much more, however
    many documents they stand in.
    """
    random, words = Random(0), [f"w{i}" for i in range(60_000)]
    weights = list(accumulate(1 / (i + 1) for i in range(60_000)))
    with path.open("w", encoding="utf-8") as handle:
        for i in range(n):
            text = " ".join(random.choices(words, cum_weights=weights, k=40))
            page = i // 5
            title = f"{words[page % 60_000]} {words[page // 60_000]}"
            row = {"id": f"d{i}", "title": title, "text": text, "page": f"p{page}"}
            handle.write(json.dumps(row) + "\n")


def peak(documents: Path, encoder: str, out: Path) -> dict[str, float]:
    """``demur index build`` in a process of its own: the peak of RssAnon, looked at every 50 ms, and CPU seconds."""
    command = [
        sys.executable,
        "-m",
        "demur",
        "index",
        "build",
        f"jsonl:{documents}",
        "--kind",
        "flat",
    ]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*command, "--encoder", encoder, "--out", str(out)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
    )
    status, stat = Path(f"/proc/{process.pid}/status"), Path(f"/proc/{process.pid}/stat")
    most, ticks = 0, 0
    while process.poll() is None:
        lines = status.read_text(encoding="ascii").splitlines()
        most = max(
            most, *(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0
        )
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    return {"peak_mb": most * 1024 / 1e6, "cpu_s": ticks / os.sysconf("SC_CLK_TCK")}


def memory(counts: Sequence[int], offline: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """Peak memory by number of documents; files are removed as soon as they are measured."""
    rows: list[dict[str, Any]] = []
    for encoder, sizes in (("indexing:Free", counts), ("offline", offline)):
        before: dict[str, Any] | None = None
        for n in sizes:
            documents = folder / "documents.jsonl"
            write_documents(documents, n)
            row = {"encoder": encoder, "documents": n, "corpus_mb": documents.stat().st_size / 1e6}
            row |= peak(documents, encoder, folder / "index")
            manifest = json.loads((folder / "index" / "manifest.json").read_text(encoding="utf-8"))
            row["words"] = manifest["parts"]["lexical"]["words"]
            if before is not None:
                row["bytes_per_document"] = (
                    1e6 * (row["peak_mb"] - before["peak_mb"]) / (n - before["documents"])
                )
            before = before or row
            rows.append(row)
            shutil.rmtree(folder / "index")
            documents.unlink()
    return rows


def main() -> None:
    """Measure all four."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=384, help="those of MiniLM")
    parser.add_argument(
        "--documents", type=int, nargs="*", default=[100_000, 300_000, 1_000_000], help="of part 4"
    )
    parser.add_argument(
        "--offline", type=int, nargs="*", default=[5_000, 20_000], help="of part 4, offline encoder"
    )
    parser.add_argument(
        "--only", choices=("exactness", "rates", "kinds", "memory"), action="append"
    )
    args = parser.parse_args()
    parts = args.only or ["exactness", "rates", "kinds", "memory"]
    result: dict[str, Any] = {"benchmark": "indexing", "vectors": args.vectors, "dims": args.dims}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if parts != ["memory"]:
            vectors, queries = clustered(args.vectors, args.dims, max(ASKED))
            print(f"{args.vectors:,} x {args.dims}")
        if "exactness" in parts:
            result["exactness"] = exactness(vectors, queries[:1024], folder)
            print(
                f"\nshare equal to one large batch\n{'':<14} {'ids':>6} {'bits':>6} {'bits of faiss':>14}"
            )
            for key, row in result["exactness"].items():
                print(
                    f"{key:<14} {row['ids']:>6.3f} {row['bits']:>6.3f} {row.get('faiss_bits', float('nan')):>14.3f}"
                )
        if "rates" in parts:
            result["rates"] = rates(vectors, queries)
            print(f"\none pass through memory: {result['rates']['stream_bytes_s'] / 1e9:.1f} GB/s")
            print(
                f"{'queries':>7} {'ours q/s':>9} {'faiss q/s':>10} {'of faiss':>9} {'GFLOP/s':>8} {'product':>8} "
                f"{'of it':>6} {'of stream':>10}   faiss at its best"
            )
            for n, row in result["rates"]["asked"].items():
                print(
                    f"{n:>7} {row['rate']:>9.0f} {row['faiss']:>10.0f} {row['x_faiss']:>9.2f} {row['gflops']:>8.1f} "
                    f"{row['gflops_product']:>8.1f} {row['of_product']:>6.2f} {row['of_stream']:>10.2f}   "
                    f"{row['faiss_way']}"
                )
        if "kinds" in parts:
            result |= kinds(args.vectors, args.dims, folder)
            print(
                f"\nlists tuned to recall 0.99 on {SAMPLE} other queries; per CPU second one by one | in {BATCH}s\n"
                f"{'kind':<12} {'lists':>6} {'probed':>6} {'ours':>15} {'x flat':>13} {'recall':>7} {'build s':>8} "
                f"{'MB':>6}   faiss's own: {'q/s':>13} {'recall':>7} {'build s':>8}"
            )
            first = result["kinds"]["flat"]
            for key, row in result["kinds"].items():
                ours, theirs = row, row["faiss"]
                ratios = f"{ours['singly'] / first['singly']:.1f} | {ours['in_batches'] / first['in_batches']:.1f}"
                print(
                    f"{key:<12} {row.get('lists', '-'):>6} {row.get('nprobe', '-'):>6} "
                    f"{ours['singly']:>7.0f} | {ours['in_batches']:>5.0f} {ratios:>13} {ours['recall']:>7.4f} "
                    f"{ours['build_s']:>8.1f} {ours['mb']:>6.0f}   {'':<12} "
                    f"{theirs['singly']:>5.0f} | {theirs['in_batches']:>5.0f} {theirs['recall']:>7.4f} "
                    f"{theirs['build_s']:>8.1f}"
                )
            for row in result["auto"]:
                costs = ", ".join(f"{kind} {cost:.1f}" for kind, cost in row["cpu_s"].items())
                print(
                    f"auto, {row['queries']:>9,} queries: {row['kind']:<9} {row['of_cheapest']:.2f} of the cheapest "
                    f"({costs} CPU s)"
                )
        if "memory" in parts:
            result["memory"] = memory(args.documents, args.offline, folder)
            print(
                f"\n{'index build with':<18} {'documents':>10} {'corpus MB':>10} {'peak MB':>8} {'grown B/doc':>12} "
                f"{'words':>7} {'CPU s':>7}"
            )
            for row in result["memory"]:
                grown = f"{row['bytes_per_document']:.0f}" if "bytes_per_document" in row else "-"
                print(
                    f"{row['encoder']:<18} {row['documents']:>10,} {row['corpus_mb']:>10.0f} {row['peak_mb']:>8.0f} "
                    f"{grown:>12} {row['words']:>7,} {row['cpu_s']:>7.0f}"
                )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
