"""make bench-mining: hard negatives beside sentence-transformers' mine_hard_negatives, each in a process of its own.

Generated vectors (a mixture with a decaying spectrum; questions are disturbed passages), the same options for all: 10
negatives from the first 30 at 95 % of the positive's score (NV-Retriever). Encoding is free: vectors are looked up.
CPU seconds; "extra MB" is the peak of resident memory above what the inputs took; "rows" the share of questions with
the same negatives as demur's exact search, "recall" the share of the first 30 candidates found.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from demur.curation.select import Selection, hard_negatives
from demur.indexing import ivf
from demur.indexing.exact import exact_top, rescore, unit
from demur.indexing.indexes import Dense

SELECTION = Selection(num_negatives=10, range_max=30, relative_margin=0.05)
PEERS = ("demur exact", "demur ivf-sq8", "mine_hard_negatives faiss", "mine_hard_negatives torch")


def make(folder: Path, n: int, q: int, d: int) -> None:
    """Passages in clusters of some sixty, with a decaying spectrum, and questions near some of them."""
    rng = np.random.default_rng(0)
    spectrum = (1 / np.sqrt(1 + np.arange(d) / 16)).astype(np.float32)
    centres = rng.standard_normal((n // 60, d), dtype=np.float32) * spectrum
    vectors = centres[rng.integers(0, n // 60, n)] + 0.7 * rng.standard_normal((n, d), dtype=np.float32) * spectrum
    gold = rng.choice(n, q, replace=False)
    queries = vectors[gold] + 0.5 * rng.standard_normal((q, d), dtype=np.float32) * spectrum
    np.save(folder / "vectors.npy", unit(vectors))
    np.save(folder / "queries.npy", unit(queries))
    np.save(folder / "gold.npy", gold.astype(np.int64))


def status(field: str) -> int:
    """A field of this process's status, in bytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(field + ":"))


class Lookup:
    """What `mine_hard_negatives` asks of a model; texts are row numbers."""

    def __init__(self, vectors: np.ndarray, queries: np.ndarray) -> None:
        import torch

        self.device, self._vectors, self._queries = torch.device("cpu"), vectors, queries

    def get_embedding_dimension(self) -> int:
        """Dimensions."""
        return int(self._vectors.shape[1])

    def encode_document(self, texts: list[str], **_: Any) -> np.ndarray:
        """Rows of passages."""
        return self._vectors if len(texts) == len(self._vectors) else self._vectors[[int(t[1:]) for t in texts]]

    def encode_query(self, texts: list[str], **_: Any) -> np.ndarray:
        """Rows of questions, in their order."""
        return self._queries

    def similarity(self, a: Any, b: Any) -> Any:
        """All against all."""
        import torch

        return torch.as_tensor(a) @ torch.as_tensor(b).T

    def similarity_pairwise(self, a: Any, b: Any) -> Any:
        """Row by row."""
        import torch

        return (torch.as_tensor(a) * torch.as_tensor(b)).sum(-1)


def work(peer: str, folder: Path) -> dict[str, Any]:
    """One peer's job, with imports and inputs read before it."""
    vectors, queries, gold = (np.load(folder / f"{name}.npy") for name in ("vectors", "queries", "gold"))
    result: dict[str, Any] = {}
    if peer.startswith("mine"):
        from datasets import Dataset

        from demur.vision_ops import ensure_torchvision

        ensure_torchvision()
        from sentence_transformers.util import mine_hard_negatives

        corpus = [f"p{i}" for i in range(len(vectors))]
        pairs = Dataset.from_dict({"a": [f"q{i}" for i in range(len(queries))], "p": [corpus[g] for g in gold]})
        model = Lookup(vectors, queries)
    else:
        import faiss

        faiss.knn(queries[:100], vectors[:1000], 5)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    before, cpu, wall = status("VmRSS"), time.process_time(), time.perf_counter()
    if peer.startswith("mine"):
        made = mine_hard_negatives(
            pairs, model, corpus=corpus, num_negatives=10, range_max=30, relative_margin=0.05,  # type: ignore[arg-type]
            output_format="labeled-list", use_faiss="faiss" in peer, faiss_batch_size=2048, verbose=False,
        )  # fmt: skip
        rows = {int(r["a"][1:]): [int(p[1:]) for p in r["p"][1:]] for r in made}
    else:
        index = None
        if peer != "demur exact":
            entry = {"dims": vectors.shape[1], "count": len(vectors), "largest_norm": 1.0001}
            entry |= ivf.build_ivf("ivf-sq8", vectors, folder / "index.faiss")
            result["build_cpu_s"] = time.process_time() - cpu
            index = Dense.open(folder, entry)
        rows, found_all = {}, []
        depth = SELECTION.depth(1)
        for start in range(0, len(queries), 1024):
            block, own = queries[start : start + 1024], gold[start : start + 1024, None]
            if index is None:
                found = exact_top(block, vectors, depth, largest_norm=1.0001)
            else:
                found = index.search(block, depth)
            scores = rescore(block, vectors, own)
            chosen = hard_negatives(
                found.rows, found.scores, own.tolist(), scores.tolist(), SELECTION, most_positives=1
            )
            rows |= {start + i: [r for r in line if r >= 0] for i, line in enumerate(chosen.rows.tolist())}
            found_all.append(found.rows[:, :30])
        np.save(folder / f"{peer}.npy", np.concatenate(found_all))
    result |= {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    result["extra_mb"] = (status("VmHWM") - before) / 1e6
    (folder / f"{peer}.json").write_text(json.dumps({str(k): v for k, v in rows.items() if v}))
    return result


def main() -> None:
    """Make the data, run each peer, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=12_000)
    parser.add_argument("--dims", type=int, default=256)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        print(json.dumps(work(args.peer, args.folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, args.passages, args.questions, args.dims)
        results = {}
        for peer in PEERS:
            command = [sys.executable, __file__, "--peer", peer, "--folder", name]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            results[peer] = json.loads(done.stdout.splitlines()[-1])
        reference = json.loads((folder / "demur exact.json").read_text())
        exact, near = (np.load(folder / f"demur {kind}.npy") for kind in ("exact", "ivf-sq8"))
        results["demur ivf-sq8"]["recall"] = float(
            np.mean([np.isin(a, b).mean() for a, b in zip(exact, near, strict=True)])
        )
        for peer in PEERS:
            rows = json.loads((folder / f"{peer}.json").read_text())
            results[peer]["same_rows"] = sum(rows.get(q) == line for q, line in reference.items()) / len(reference)
    print(f"{args.passages:,} passages x {args.dims}, {args.questions:,} questions; one repeat")
    print(f"{'':<27} {'CPU s':>7} {'of it build':>11} {'wall s':>7} {'extra MB':>9} {'rows':>6} {'recall':>7}")
    for peer, row in results.items():
        build = f"{row['build_cpu_s']:.1f}" if "build_cpu_s" in row else "-"
        recall = f"{row['recall']:.4f}" if "recall" in row else "-"
        print(
            f"{peer:<27} {row['cpu_s']:>7.1f} {build:>11} {row['wall_s']:>7.1f} {row['extra_mb']:>9.0f} {row['same_rows']:>6.1%} {recall:>7}"  # noqa: E501  # one row of a table
        )
    peer, exact_, ann = (results[p] for p in ("mine_hard_negatives faiss", "demur exact", "demur ivf-sq8"))
    ratios = {
        "cpu_exact": exact_["cpu_s"] / peer["cpu_s"],
        "memory": exact_["extra_mb"] / peer["extra_mb"],
        "x_ivf": peer["cpu_s"] / ann["cpu_s"],
        "x_ivf_search": peer["cpu_s"] / (ann["cpu_s"] - ann["build_cpu_s"]),
    }
    print(
        f"of mine_hard_negatives with faiss: exact {ratios['cpu_exact']:.2f} of its CPU, {ratios['memory']:.2f} of its extra "  # noqa: E501  # one row of a table
        f"memory; IVF {ratios['x_ivf']:.1f}x less CPU with its build, {ratios['x_ivf_search']:.1f}x without"
    )
    print(json.dumps({"benchmark": "mining", "results": results, "ratios": ratios}))


if __name__ == "__main__":
    main()
