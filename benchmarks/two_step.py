"""make bench-two_step: passages of found pages (VLM-DeflectionBench, appendix H) beside an index of all passages.

A generated base of articles (about five passages each) and questions that find ten pages by title are indexed and
searched in processes of their own, which take the same base from one file:

    pages      titles and summaries alone: what both ways need
    all        the build of before: every passage cut, embedded and indexed, with BM25
    two steps  `demur.retrieval.found`: the passages of found pages alone, then the same questions again

The encoder is a table of vectors, so that CPU seconds are those of bookkeeping; embeddings are counted. Everything is a
sixth of its size in the paper (40 tokens a passage for 250, 128 dimensions for 768), so that shares of disk hold. "of
passages" is what a way takes beyond ``pages``. Both ways must find the same passages with the same scores.

The second table is the arithmetic of `demur build --plan` (`demur.curation.build.base_plan`): for this base, whose disk
was measured above, and for bases of the paper's size at the rates of an encoder that are given. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

os.environ.setdefault("OMP_NUM_THREADS", "1")  # CPU seconds then mean work, not waiting
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from demur.core.records import Document
from demur.core.store import digest
from demur.curation.build.base_plan import Base, Speed, Survey, estimate_base
from demur.curation.build.recipe import RetrievalSpec
from demur.indexing.build import build_index
from demur.indexing.chunk import Chunker, uncut
from demur.indexing.exact import unit
from demur.indexing.options import IndexOptions
from demur.retrieval.found import FoundSearcher, PassageCache
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher

WAYS = ("pages", "all", "two steps")
DIMENSIONS = 128
SIZE, OVERLAP = 40, 5
WORDS = 175
"""Of an article, in the mean."""
VOCABULARY = 30_000
OPENED = 10
"""Pages of a question."""
HITS = 72
"""Passages of a question."""
BLOCK = 2_000
"""Questions searched at once."""


class Table:
    """An encoder that looks vectors up by a checksum, and counts them by space."""

    name, note, similarity = "table", "looked up by checksum", "cosine"

    def __init__(self) -> None:
        self.dims = {"joint": DIMENSIONS, "text": DIMENSIONS}
        self.batch = 1024
        rng = np.random.default_rng(0)
        self._halves = rng.standard_normal((2, 1 << 16, DIMENSIONS), dtype=np.float32)
        self.counts: Counter[str] = Counter()

    def fingerprint(self) -> str:
        """Of nothing but its name."""
        return "0" * 64

    def texts(self, texts: list[str], space: str = "text", *, role: str = "passage") -> np.ndarray:
        """(n, d) float32."""
        self.counts[space] += len(texts) if role == "passage" else 0
        sums = np.fromiter((crc32(text.encode()) for text in texts), np.int64, len(texts))
        return unit(self._halves[0, sums & 0xFFFF] + self._halves[1, sums >> 16])

    def images(self, images: Any, space: str = "joint") -> np.ndarray:
        """None are asked for."""
        raise NotImplementedError


def write_base(path: Path, pages: int) -> None:
    """Articles of generated words in sentences of ten."""
    rng = np.random.default_rng(1)
    stems = ["".join(row) for row in rng.choice(list("abcdefghiklmnoprstuvwy"), (VOCABULARY, 6))]
    words = np.array(stems, dtype=object)
    lengths = np.maximum(10, rng.lognormal(np.log(WORDS) - 0.18, 0.6, pages)).astype(int)
    with path.open("w", encoding="utf-8") as handle:
        for number, length in enumerate(lengths.tolist()):
            chosen = words[(VOCABULARY * rng.random(length) ** 2).astype(int)].tolist()
            sentences = [" ".join(chosen[at : at + 10]) for at in range(0, length, 10)]
            text = ". ".join(sentence.capitalize() for sentence in sentences)
            document = Document(
                id=f"Q{number}",
                title=f"{chosen[0]} {number}",
                text=f"{text}.",
                attributes={"summary": sentences[0]},
            )
            handle.write(document.model_dump_json() + "\n")


def read_base(path: Path) -> Iterator[Document]:
    """The articles, parsed as a build does."""
    with path.open("rb") as handle:
        yield from map(Document.model_validate_json, handle)


def ask(searcher: Searcher, questions: int) -> str:
    """Search with every question; the hash of all hits."""
    rng = np.random.default_rng(2)
    hashed = ""
    for start in range(0, questions, BLOCK):
        size = min(BLOCK, questions - start)
        by_image = unit(rng.standard_normal((size, DIMENSIONS), dtype=np.float32))
        queries = [
            Query(f"question {start + n}", vectors={("image", "joint"): by_image[n]})
            for n in range(size)
        ]
        lines = searcher.iter_search(queries, "image->title/text->text", HITS, pages=OPENED)
        hashed = digest([hashed, [[(h.document, h.score) for h in line] for line in lines]])
    return hashed


def work(way: str, folder: Path, questions: int) -> dict[str, Any]:
    """Index and search in one way."""
    encoder, chunker = Table(), Chunker(SIZE, OVERLAP)
    base, out = read_base(folder / "base.jsonl"), folder / "index"
    steps: dict[str, float] = {}

    def step(name: str) -> None:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        steps[name] = sum(u.ru_utime + u.ru_stime for u in used) - sum(steps.values())

    step("start")
    facts: dict[str, Any] = {}
    if way == "all":
        parts = ("passages", "titles", "summaries", "lexical")
        manifest = build_index(chunker.documents(base), encoder, out, IndexOptions(parts=parts))
        step("index")
        facts["hits"] = ask(Searcher(out, encoder), questions)
        step("questions")
    else:
        parts = ("titles", "summaries", *(("passages",) if way == "two steps" else ()))
        options = IndexOptions(parts=parts, cut_later=chunker)
        manifest = build_index(uncut(base), encoder, out, options)
        step("index")
    if way == "two steps":
        cache = PassageCache(folder / "passages.sqlite")
        found = {"chunker": chunker, "cache": cache, "text_encoder": None}
        facts["hits"] = ask(FoundSearcher(out, encoder, **found), questions)
        step("questions")
        embedded = encoder.counts["text"]
        facts["again"] = ask(FoundSearcher(out, encoder, **found), questions)
        facts["embedded again"] = encoder.counts["text"] - embedded
        step("questions again")
    return facts | {"steps": steps, "embedded": dict(encoder.counts), "counts": manifest["counts"]}


WIKI6M = Base("Wiki6M", 6_000_000, 6_000_000, 6_000_000, 0, 28_000_000, 27 * 10**9, 36 * 10**8, 120)
"""About 28 million passages of 250 tokens; 4.4 bytes a token, 600 of a summary."""
EVQA = Base(
    "E-VQA", 16 * 10**6, 2 * 10**6, 14 * 10**6, 2 * 10**6, 2 * 10**7, 12 * 10**9, 10**9, 120
)
"""Seven sections and the first image of a page."""
BY_TITLE = ("image->title", "image->title+summary", "text->text")
BY_IMAGE = ("image->first-image", "text->text")
PAPER = {"chunk": "250:32", "text": 12, "lexical": 0, "visual": 0, "negatives": "mined"}


def print_plans(folder: Path, questions: int, rates: dict[str, float]) -> list[dict[str, Any]]:
    """The table of `demur build --plan`, of this base and of the paper's."""
    survey = Survey()
    for document in read_base(folder / "base.jsonl"):
        survey.add(document)
    generated = Base.of("generated", survey, Chunker(SIZE, OVERLAP))
    ours = {part: Speed(None, DIMENSIONS) for part in rates}
    speeds = {
        part: Speed(rate, 768 if part == "passages" else 1536) for part, rate in rates.items()
    }
    cases = [
        (generated, {**PAPER, "chunk": f"{SIZE}:{OVERLAP}", "modes": BY_TITLE}, questions, ours),
        (WIKI6M, {**PAPER, "modes": BY_TITLE}, 30_000, speeds),
        (EVQA, {**PAPER, "modes": BY_IMAGE, "pages": 5}, 4_000, speeds),
    ]
    print("\nat " + ", ".join(f"{rate:,.0f} {part}" for part, rate in rates.items()) + " a second")
    heads = ("documents", "passages", "embedded", "of them", "GB", "hours")
    print(f"{'':24}" + "".join(f"{head:>14}" for head in heads))
    rows = []
    for base, how, asked, known in cases:
        for passages in ("all", "found"):
            retrieval = RetrievalSpec.model_validate({**how, "passages": passages})
            plan = estimate_base(base, retrieval, asked, known)
            rows.append(plan.model_dump() | {"way": passages, "questions": asked})
            cells = [
                f"{plan.documents:,}",
                f"{plan.passages:,}",
                f"{sum(plan.embedded.values()):,}",
            ]
            cells += [f"{plan.embedded['passages']:,}", f"{plan.gigabytes:,.2f}"]
            cells += ["-" if plan.hours is None else f"{plan.hours:,.1f}"]
            print(f"{base.source + ', ' + passages:24}" + "".join(f"{cell:>14}" for cell in cells))
    return rows


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder that is being written."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() and path.name != "base.jsonl" else 0
        except OSError:  # gone since
            continue
    return total


def measured(way: str, folder: Path, questions: int) -> dict[str, Any]:
    """A way in a process of its own, with the peak of its disk."""
    peak, running = [0], threading.Event()

    def watch() -> None:
        while not running.wait(1):
            peak[0] = max(peak[0], size_of(folder))

    watcher = threading.Thread(target=watch)
    watcher.start()
    command = [sys.executable, __file__, "--way", way, "--folder", str(folder)]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "--questions", str(questions)], check=True, stdout=subprocess.PIPE, text=True
    )
    running.set()
    watcher.join()
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    facts |= {"disk": size_of(folder), "wall": time.perf_counter() - start}
    facts["peak disk"] = max(peak[0], facts["disk"])
    for path in folder.iterdir():
        if path.name != "base.jsonl":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return facts


def print_ways(facts: dict[str, Any]) -> dict[str, Any]:
    """The table of the ways; returns the shares."""
    totals = {
        way: {
            "cpu s": sum(v for n, v in f["steps"].items() if n not in ("start", "questions again")),
            "peak MB": f["peak disk"] / 1e6,
            "disk MB": f["disk"] / 1e6,
            "embedded": sum(f["embedded"].values()),
            "passages": f["embedded"].get("text", 0),
        }
        for way, f in facts.items()
    }
    print(f"{'':24}" + "".join(f"{column:>12}" for column in totals["all"]))
    for way, row in totals.items():
        print(f"{way:24}" + "".join(f"{value:12,.0f}" for value in row.values()))
    whole, ours, pages = totals["all"], totals["two steps"], totals["pages"]
    shares = {
        "two steps / all": {c: ours[c] / whole[c] for c in whole},
        "of passages": {
            c: (ours[c] - pages[c]) / (whole[c] - pages[c]) for c in whole if c != "peak MB"
        },
    }
    for name, row in shares.items():  # the peak of all pages is that of their lists
        cells = (f"{row[c]:.3f}" if c in row else "-" for c in whole)
        print(f"{name:24}" + "".join(f"{cell:>12}" for cell in cells))
    return {"totals": totals, "shares": shares}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=500_000)
    parser.add_argument("--questions", type=int, default=5_000)
    for part, rate in (("titles", 2000), ("summaries", 2000), ("looks", 45), ("passages", 2000)):
        parser.add_argument(f"--{part}", type=float, default=rate, help="embedded per second")
    parser.add_argument("--quick", action="store_true", help="20,000 pages, 200 questions")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(work(args.way, args.folder, args.questions)))
        return
    pages, questions = (20_000, 200) if args.quick else (args.pages, args.questions)
    with tempfile.TemporaryDirectory(prefix="two_step") as name:
        folder = Path(name)
        write_base(folder / "base.jsonl", pages)
        facts = {way: measured(way, folder, questions) for way in WAYS}
        assert facts["all"]["hits"] == facts["two steps"]["hits"] == facts["two steps"]["again"]
        assert facts["two steps"]["embedded again"] == 0
        print(f"{pages:,} pages, {questions:,} questions of {OPENED} pages\n")
        shares = print_ways(facts)
        rates = {part: vars(args)[part] for part in ("titles", "summaries", "looks", "passages")}
        plans = print_plans(folder, questions, rates)
    print(
        json.dumps(
            {"pages": pages, "questions": questions, "ways": facts, "plans": plans, **shares}
        )
    )


if __name__ == "__main__":
    main()
