"""make bench-gpu: exact search and an encoder on a GPU, beside faiss's and the model's own speed.

1. Hits: ids and score bits of some of the queries, beside those that the processors find. If they differ, exit 1.
2. Time of all queries, beside a bare `GpuIndexFlat` that holds the same vectors and gives its own float32 scores.
3. Images per second of EVA02-L-14-336 with random weights through demur's encoder, beside the bare model on pixels
   that lie on the card already.

Rivals take turns; medians count. It needs CUDA, PyTorch and faiss-gpu, and for 3 open_clip and demur's core packages;
without them it says what it skips, and why. One card is used. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a bare machine has no demur

import numpy as np

from demur.core.errors import DemurError
from demur.indexing import gpu
from demur.indexing.exact import Exact, Neighbours, unit

K = 10
NORM = 1.000001
BLOCK = 100_000
TARGET = 1.3
"""Most seconds for each second of the bare index."""


def why_not() -> str:
    """Why nothing can be measured here; "" if it can."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    try:
        return "" if gpu.load_faiss().get_num_gpus() else "the faiss installed sees no GPU"
    except DemurError as error:
        return str(error)


def in_turns(rivals: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, after one round that does not count."""
    took: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(repeats + 1):
        for name, work in rivals.items():
            start = time.perf_counter()
            work()
            took[name].append(time.perf_counter() - start)
    return {name: statistics.median(times[1:]) for name, times in took.items()}


def generated(rows: int, dims: int, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors, and queries that each lie near one of them."""
    dice = np.random.default_rng(0)
    vectors = np.empty((rows, dims), np.float32)
    for start in range(0, rows, BLOCK):
        part = vectors[start : start + BLOCK]
        part[:] = unit(dice.standard_normal(part.shape, np.float32))
    near = vectors[dice.integers(0, rows, queries)]
    noise = dice.standard_normal((queries, dims), np.float32) / np.float32(dims**0.5)
    return vectors, unit(near + noise)


def by_processors(vectors: np.ndarray, queries: np.ndarray) -> Neighbours:
    """The hits where there is no GPU."""
    cards, gpu.cards = gpu.cards, tuple
    try:
        return Exact(vectors, NORM).top(queries, K)
    finally:
        gpu.cards = cards


def measure_search(
    rows: int, dims: int, queries: int, checked: int, repeats: int
) -> dict[str, Any]:
    """Parts 1 and 2."""
    vectors, asked = generated(rows, dims, queries)
    ours = Exact(vectors, NORM)
    start = time.perf_counter()
    ours.top(asked[:1], K)
    sent = time.perf_counter() - start
    bare = gpu.cards()[0].hold(vectors)
    seconds = in_turns(
        {"ours": lambda: ours.top(asked, K), "bare": lambda: bare.search(asked, K)}, repeats
    )
    some = np.linspace(0, queries - 1, checked).astype(np.int64)
    hits = ours.top(asked, K)
    right = by_processors(vectors, asked[some])
    return {
        "rows": rows,
        "dims": dims,
        "queries": queries,
        "k": K,
        "checked": checked,
        "same_ids": float((hits.rows[some] == right.rows).mean()),
        "same_bits": float(
            (hits.scores[some].view(np.int32) == right.scores.view(np.int32)).mean()
        ),
        "sent_s": sent,
        "ours_s": seconds["ours"],
        "bare_s": seconds["bare"],
        "x_bare": seconds["ours"] / seconds["bare"],
    }


def measure_encoder(name: str, images: int, repeats: int) -> dict[str, Any]:
    """Part 3.

    Args:
        name: of the encoder, as open_clip's follows ``open_clip:``.
    """
    try:
        import torch
        from PIL import Image

        from demur.indexing.encoders.open_clip import OpenClipEncoder

        encoder = OpenClipEncoder(name, allow_random=True)
    except (ImportError, DemurError) as error:
        return {"skipped": str(error)}
    dice = np.random.default_rng(0)
    side = 336
    noise = dice.integers(0, 256, (images, side, side, 3), np.uint8)
    prepared = [encoder.prepared(Image.fromarray(each)) for each in noise]
    model, device, dtype = encoder._model, encoder._device, encoder._dtype
    batches = [
        torch.from_numpy(np.stack(prepared[start : start + encoder.batch])).to(device, dtype)
        for start in range(0, images, encoder.batch)
    ]

    def bare() -> None:
        with torch.inference_mode():
            rows = [model.encode_image(batch) for batch in batches]
            rows[-1].cpu()  # waits for all

    seconds = in_turns({"ours": lambda: encoder.images_prepared(prepared), "bare": bare}, repeats)
    return {
        "encoder": encoder.name,
        "note": encoder.note,
        "images": images,
        "batch": encoder.batch,
        "ours_per_s": images / seconds["ours"],
        "bare_per_s": images / seconds["bare"],
        "of_bare": seconds["bare"] / seconds["ours"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dims", type=int, default=1024)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--checked", type=int, default=2000, help="queries asked of the processors")
    parser.add_argument("--encoder", default="EVA02-L-14-336", help="of open_clip; '' for none")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args(arguments)
    if reason := why_not():
        print(f"skipped: {reason}")
        print(json.dumps({"skipped": reason}))
        return 0
    search = measure_search(args.rows, args.dims, args.queries, args.checked, args.repeats)
    print(
        f"{search['queries']:,} queries on {search['rows']:,} x {search['dims']:,}: ours {search['ours_s']:.2f} s, bare "
        f"GpuIndexFlat {search['bare_s']:.2f} s: {search['x_bare']:.2f} times (at most {TARGET} wanted); sent in "
        f"{search['sent_s']:.1f} s\nthe processors' hits for {search['checked']:,} of them: {search['same_ids']:.4f} of the "
        f"ids, {search['same_bits']:.4f} of the scores to the bit",
        flush=True,
    )
    results: dict[str, Any] = {"search": search}
    if args.encoder:
        results["encoder"] = measured = measure_encoder(args.encoder, args.images, args.repeats)
        print(
            f"{args.encoder}: skipped: {measured['skipped']}"
            if "skipped" in measured
            else f"{args.encoder}: {measured['ours_per_s']:.0f} images a second, the bare model "
            f"{measured['bare_per_s']:.0f}: {measured['of_bare']:.2f} of it"
        )
    print(json.dumps(results))
    return 0 if search["same_ids"] == search["same_bits"] == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
