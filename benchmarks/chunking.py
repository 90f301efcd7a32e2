"""make bench-chunking: passages of 250 tokens with 32 shared, beside chonkie and a naive loop, on Atlas's articles.

One WordPiece tokenizer for all. Wall and CPU seconds are the least of repeats that take turns. "over" counts passages
above the limit, "ends" the share that ends where a sentence does (by our rule), "overlap" the mean number of tokens
shared with the passage before and the share of joints without any.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from demur.indexing.chunk import Chunker, sentences, tokenizer_offsets
from demur.indexing.encoders.minilm import tokenizer
from demur.sample import atlas

Cut = list[list[tuple[int, int]]]


def articles() -> list[str]:
    """The passages of Atlas, joined page by page."""
    pages: dict[str, list[str]] = {}
    for line in (atlas() / "kb_text.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        pages.setdefault(row["page"], []).append(row["text"])
    return ["\n\n".join(texts) for texts in pages.values()]


def naive(texts: Sequence[str], encode: Callable[[str], Any], size: int, overlap: int) -> Cut:
    """Whole sentences until the next would pass the limit, one tokenizer call per sentence."""
    cut: Cut = []
    for text in texts:
        spans = [(a, b, len(encode(text[a:b]).ids)) for a, b in sentences(text)]
        chunks, start = [], 0
        while start < len(spans):
            stop, total = start, 0
            while stop < len(spans) and (stop == start or total + spans[stop][2] <= size):
                total += spans[stop][2]
                stop += 1
            chunks.append((spans[start][0], spans[stop - 1][1]))
            back, shared = stop, 0
            while stop < len(spans) and back - 1 > start and shared + spans[back - 1][2] <= overlap:
                back -= 1
                shared += spans[back][2]
            start = back
        cut.append(chunks)
    return cut


def quality(texts: Sequence[str], cut: Cut, size: int) -> dict[str, float]:
    """What the passages are like, by the tokenizer's own offsets."""
    offsets = tokenizer_offsets(tokenizer())(texts)
    tokens, ends, shared = [], [], []
    for text, spans, chunks in zip(texts, offsets, cut, strict=True):
        stops = {b for _, b in sentences(text)}
        inside = [
            {i for i, (a, b) in enumerate(spans) if a >= start and b <= end}
            for start, end in chunks
        ]
        tokens += [len(i) for i in inside]
        ends += [start + len(text[start:end].rstrip()) in stops for start, end in chunks]
        shared += [len(one & other) for one, other in pairwise(inside)]
    return {
        "passages": len(tokens),
        "longest": max(tokens),
        "over": sum(t > size for t in tokens),
        "ends": sum(ends) / len(ends),
        "overlap": statistics.fmean(shared),
        "without": sum(s == 0 for s in shared) / len(shared),
    }


def main() -> None:
    """Cut by turns, then look at the passages."""
    from chonkie import SentenceChunker

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    texts = articles()
    size = sum(len(t.encode()) for t in texts) / 1e6
    model = tokenizer()
    model.no_padding()
    model.no_truncation()
    ours = Chunker(250, 32)

    def cut_ours() -> Cut:
        ours.offsets = tokenizer_offsets(model)  # nothing is remembered from the repeat before
        return [[(p.start, p.end) for p in ps] for ps in ours.cut(texts)]

    chonkie = SentenceChunker(model, chunk_size=250, chunk_overlap=32)
    work: dict[str, Callable[[], Cut]] = {
        "demur": cut_ours,
        "naive loop": lambda: naive(
            texts, lambda t: model.encode(t, add_special_tokens=False), 250, 32
        ),
        "chonkie SentenceChunker": lambda: [
            [(c.start_index, c.end_index) for c in chonkie(t)] for t in texts
        ],
    }
    walls: dict[str, list[float]] = {name: [] for name in work}
    cpus: dict[str, list[float]] = {name: [] for name in work}
    cut: dict[str, Cut] = {}
    for _ in range(args.repeats):
        for name, job in work.items():
            wall, cpu = time.perf_counter(), time.process_time()
            cut[name] = job()
            walls[name].append(time.perf_counter() - wall)
            cpus[name].append(time.process_time() - cpu)
    rows = {}
    print(f"{len(texts)} articles, {size:.2f} MB; least of {args.repeats}")
    print(
        f"{'':<24} {'wall s':>7} {'MB/s':>6} {'CPU s':>7} {'passages':>9} {'longest':>8} {'over':>5} {'ends':>5} {'overlap':>8} {'none':>5}"
    )
    for name in work:
        wall, cpu = min(walls[name]), min(cpus[name])
        row = {
            "wall_s": wall,
            "cpu_s": cpu,
            "median_wall_s": statistics.median(walls[name]),
            **quality(texts, cut[name], 250),
        }
        rows[name] = row
        print(
            f"{name:<24} {wall:>7.2f} {size / wall:>6.2f} {cpu:>7.2f} {row['passages']:>9,} {row['longest']:>8} {row['over']:>5} "
            f"{row['ends']:>5.0%} {row['overlap']:>8.1f} {row['without']:>5.0%}"
        )
    ratio, of_medians, of_cpu = (
        rows["chonkie SentenceChunker"][key] / rows["demur"][key]
        for key in ("wall_s", "median_wall_s", "cpu_s")
    )
    print(
        f"demur is {ratio:.2f} times as fast as chonkie by the clock ({of_medians:.2f} by the medians), with "
        f"{of_cpu:.2f} times less CPU; {ours.counts.cut_sentences // args.repeats} cuts in long sentences; load "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(
        json.dumps(
            {
                "benchmark": "chunking",
                "megabytes": size,
                "repeats": args.repeats,
                "x_chonkie_wall": ratio,
                "x_chonkie_median_wall": of_medians,
                "x_chonkie_cpu": of_cpu,
                "results": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
