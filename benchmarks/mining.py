"""make bench-mining: `demur mine` beside its own searches and beside sentence-transformers' mine_hard_negatives.

Each peer is a process of its own and does the same job from files to a file: 10 text distractors for each question,
from the first 30 at 95 % of the positive's score (NV-Retriever). The texts are generated words, the vectors a mixture
of three levels (topics, clusters of some 250, passages) with a decaying spectrum, questions are disturbed passages;
encoding is free, vectors are looked up. The index is built before, which is told apart: `mine_hard_negatives` has none.

    demur mine                  reads samples, tunes the lists, tries every mode for recall of gold (dense, BM25,
                                fused), mines: no gold, nothing that holds the answer, no near-duplicate; writes
                                samples and drops
    its searches alone          a process that tunes, searches by vectors twice and by words once, and nothing else
    mine_hard_negatives faiss   exact search, margins, ranks; writes rows

CPU seconds of one thread for the whole process, its start included, the least of the repeats, which take turns; "peak
MB" is resident memory. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # before numpy and faiss: CPU seconds then mean work, not waiting
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.indexing.exact import unit

ENCODER = "mining:looked_up"
FOLDER = "DEMUR_BENCH_MINING"
"""Variable of the environment: where the vectors are."""
PROBES = "DEMUR_BENCH_PROBES"
"""Variable of the environment: inverted lists that the searches alone search; without it they tune it."""
PEERS = ("demur mine", "its searches alone", "mine_hard_negatives faiss")
WANTED, RANGE, MARGIN = 10, 30, 0.05
WORDS = 80
"""Of a passage."""


class LookedUp:
    """An encoder whose texts begin with the number of their vector."""

    name, note, similarity, dims = ENCODER, "looked up", "cosine", {"text": 0}

    def __init__(self, folder: Path) -> None:
        self._vectors = {
            role: np.load(folder / f"{role}.npy", mmap_mode="r") for role in ("passage", "query")
        }
        self.dims = {"text": self._vectors["query"].shape[1]}

    def fingerprint(self) -> str:
        """Of nothing but its name."""
        return "0" * 64

    def texts(self, texts: list[str], space: str = "text", *, role: str = "passage") -> np.ndarray:
        """(n, d) float32."""
        return np.asarray(
            self._vectors[role][[int(text.split(" ", 1)[0][1:]) for text in texts]],
            dtype=np.float32,
        )

    def images(self, images: Any, space: str = "text") -> np.ndarray:
        """None are asked for."""
        raise NotImplementedError


def looked_up(argument: str = "", *, allow_random: bool = False) -> LookedUp:
    """What ``--encoder mining:looked_up`` opens."""
    return LookedUp(Path(os.environ[FOLDER]))


def make(folder: Path, n: int, q: int, d: int) -> None:
    """Passages in clusters of some 250, clusters in topics of some 20; questions near some, of words of theirs."""
    rng = np.random.default_rng(0)
    spectrum = (1 / np.sqrt(1 + np.arange(d) / 16)).astype(np.float32)

    def noise(many: int) -> np.ndarray:
        return rng.standard_normal((many, d), dtype=np.float32) * spectrum

    topics = noise(max(1, n // 5000))
    clusters = topics[rng.integers(0, len(topics), max(1, n // 250))] + 0.8 * noise(
        max(1, n // 250)
    )
    own = rng.integers(0, len(clusters), n)
    vectors = clusters[own] + 0.7 * noise(n)
    gold = rng.choice(n, q, replace=False)
    np.save(folder / "query.npy", unit(vectors[gold] + 0.5 * noise(q)))
    np.save(folder / "passage.npy", unit(vectors))
    often = 1 / np.arange(1, 50_001)
    drawn = rng.choice(len(often), (n, WORDS), p=often / often.sum())
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]

    def word(number: int) -> str:
        return "".join(syllables[number // 70**place % 70] for place in range(3))

    texts = [f"p{i} {' '.join(map(word, line.tolist()))}" for i, line in enumerate(drawn)]
    documents = [
        Document(id=f"p{i}", title="", text=t, page=f"c{own[i]}-{i // 8}")
        for i, t in enumerate(texts)
    ]
    (folder / "documents.jsonl").write_text(
        "".join(f"{document.model_dump_json()}\n" for document in documents)
    )
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as handle:
        for i, g in enumerate(gold.tolist()):
            asked = " ".join(rng.choice(texts[g].split()[1:], 8, replace=False))
            sample = Sample(
                id=f"q{i}",
                source="kb",
                question=f"q{i} {asked}?",
                answers=AnswerSpec(accepted=((f"Answer Of{i}",),)),
                gold=(Evidence.of(documents[g], Role.GOLD),),
            )
            handle.write(f"{sample.model_dump_json()}\n")
    (folder / "pool.json").write_text("{}")


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
        return (
            self._vectors
            if len(texts) == len(self._vectors)
            else self._vectors[[int(t.split(" ", 1)[0][1:]) for t in texts]]
        )

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


def searches(folder: Path) -> None:
    """What `demur mine` searches, and nothing else: lists tuned, dense twice, by words once, to the depths it needs."""
    from mining import (
        LookedUp as Named,
    )  # vectors are kept by the module of their encoder, and here that is __main__

    from demur.curation.mining.modes import tune_probes
    from demur.curation.mining.options import MiningOptions
    from demur.curation.mining.queries import hits_for
    from demur.retrieval.modes import Query
    from demur.retrieval.search import Searcher

    searcher = Searcher(folder / "index", Named(folder))
    probes = int(os.environ.get(PROBES, 0))
    options = MiningOptions(text=WANTED, visual=0, range_max=RANGE, relative_margin=MARGIN)
    lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    samples = [Sample.model_validate_json(line) for line in lines]
    if probes:
        searcher.probe("passages", probes)
    else:
        tune_probes(samples, searcher, None, [options])
    queries = searcher.embedded([Query(sample.question) for sample in samples], ["text->text"])
    searcher.first_ranks(queries, ["text->text", "lexical"], 100, [()] * len(queries))
    searcher.iter_search(queries, "text->text", hits_for(options, "text"))


def peer_rows(folder: Path) -> None:
    """`mine_hard_negatives` from the same files, its rows written as JSON Lines."""
    from datasets import Dataset

    from demur.core.vision_ops import ensure_torchvision

    ensure_torchvision()
    from sentence_transformers.util import mine_hard_negatives

    corpus = [
        json.loads(line)["text"] for line in (folder / "documents.jsonl").open(encoding="utf-8")
    ]
    samples = [json.loads(line) for line in (folder / "samples.jsonl").open(encoding="utf-8")]
    pairs = {"a": [s["question"] for s in samples], "p": [s["gold"][0]["text"] for s in samples]}
    model = Lookup(*(np.load(folder / f"{name}.npy") for name in ("passage", "query")))
    made = mine_hard_negatives(
        Dataset.from_dict(pairs),
        model,
        corpus=corpus,
        num_negatives=WANTED,
        range_max=RANGE,  # type: ignore[arg-type]
        relative_margin=MARGIN,
        output_format="labeled-list",
        use_faiss=True,
        faiss_batch_size=2048,
        verbose=False,
    )
    with (folder / "peer.jsonl").open("w", encoding="utf-8") as handle:
        for row in made:
            handle.write(json.dumps({"question": row["a"], "negatives": row["p"][1:]}) + "\n")


def timed(command: list[str], folder: Path) -> dict[str, float]:
    """CPU and wall seconds, and peak memory, of a process."""
    path = os.pathsep.join(
        [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    began = time.perf_counter()
    child = subprocess.Popen(
        command,
        env={**os.environ, FOLDER: str(folder), "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = child.stderr.read() if child.stderr else b""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{errors.decode()}")
    wall = time.perf_counter() - began
    return {"cpu_s": used.ru_utime + used.ru_stime, "wall_s": wall, "peak_mb": used.ru_maxrss / 1e3}


def index_command(folder: Path, questions: int) -> list[str]:
    """Builds the index of a folder's passages."""
    out = ["--out", str(folder / "index"), "--queries", str(questions)]
    return [
        sys.executable,
        "-m",
        "demur",
        "index",
        "build",
        str(folder),
        "--encoder",
        ENCODER,
        *out,
    ]


def peer_commands(folder: Path, *more: str) -> dict[str, list[str]]:
    """What each peer runs; ``more`` are further arguments of `demur mine`."""
    (folder / "options.yaml").write_text(f"range_max: {RANGE}\n")
    options = {
        "index": folder / "index",
        "encoder": ENCODER,
        "text": WANTED,
        "visual": 0,
        "options": folder / "options.yaml",
        "relative-margin": MARGIN,
        "out": folder / "mined",
    }
    words = (text for key, value in options.items() for text in (f"--{key}", str(value)))
    commands = {
        peer: [sys.executable, __file__, "--peer", peer, "--folder", str(folder)] for peer in PEERS
    }
    commands[PEERS[0]] = [sys.executable, "-m", "demur", "mine", str(folder), *words, *more]
    return commands


def growth(sizes: list[int], questions: int, dims: int, probes: int) -> list[dict[str, float]]:
    """Index and mine more and more passages: with the same number of lists, then with as many passages compared."""
    rows: list[dict[str, float]] = []
    compared = 0.0
    for n in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, n, questions, dims)
            by_lists = [*index_command(folder, questions), "--kind", "ivf-flat"]
            built = timed(by_lists, folder)["cpu_s"]
            parts = json.loads((folder / "index" / "manifest.json").read_text())["parts"]
            lists = parts["passages"].get("lists", 1)
            compared = compared or min(probes, lists) * n / lists
            for searched in sorted({min(probes, lists), round(compared * lists / n)}, reverse=True):
                os.environ[PROBES] = str(searched)
                commands = peer_commands(folder, "--probes", str(searched))
                took = [timed(commands[peer], folder)["cpu_s"] for peer in PEERS[:2]]
                verb, alone = (1000 * seconds / questions for seconds in took)
                row = {"passages": n, "lists": lists, "searched": searched, "index_s": built}
                row |= {"compared": searched * n / lists, "mine_ms": verb, "searches_ms": alone}
                rows.append(row)
                print(
                    f"{n:>9,} passages, {searched:>4} of {lists:>5} lists ({row['compared']:>9,.0f} compared): index "
                    f"{built:6.1f} s; a question {verb:6.2f} ms, its searches alone {alone:6.2f} ms: {verb / alone:.2f}"
                )
    return rows


def main() -> None:
    """Make the data, run each peer, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=4_000)
    parser.add_argument("--dims", type=int, default=384, help="those of MiniLM")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument(
        "--growth", type=int, nargs="+", metavar="PASSAGES", help="cost by size, instead"
    )
    parser.add_argument("--probes", type=int, default=409, help="lists searched with --growth")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        (searches if args.peer == PEERS[1] else peer_rows)(args.folder)
        return
    if args.growth:
        rows = growth(args.growth, args.questions, args.dims, args.probes)
        print(json.dumps({"benchmark": "mining growth", "results": rows}))
        return
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, args.passages, args.questions, args.dims)
        built = timed(index_command(folder, args.questions), folder)
        commands = peer_commands(folder)
        for _ in range(args.repeats):
            for peer, command in commands.items():
                row: dict[str, Any] = dict(timed(command, folder))
                repeats = [*results.get(peer, {}).get("repeats_cpu_s", []), row["cpu_s"]]
                if row["cpu_s"] > min(repeats):
                    row = results[peer]
                results[peer] = row | {"repeats_cpu_s": repeats}
        ours = {
            s["question"]: [e["text"] for e in s["negatives"]]
            for s in map(json.loads, (folder / "mined" / "samples.jsonl").open(encoding="utf-8"))
        }
        theirs = {
            r["question"]: r["negatives"]
            for r in map(json.loads, (folder / "peer.jsonl").open("rb"))
        }
        same = sum(theirs.get(question) == line for question, line in ours.items()) / len(ours)
        probes = json.loads((folder / "mined" / "mining.json").read_text())["probes"]
    lists = f"{probes[0]['probes']} of {probes[0]['lists']} lists" if probes else "every vector"
    print(
        f"{args.passages:,} passages x {args.dims}, {args.questions:,} questions; the least of {args.repeats}; 1 thread"
    )
    print(f"{'':<27} {'CPU s':>7} {'ms a question':>14} {'wall s':>7} {'peak MB':>9}")
    for peer, row in results.items():
        each = 1000 * row["cpu_s"] / args.questions
        print(
            f"{peer:<27} {row['cpu_s']:>7.1f} {each:>14.2f} {row['wall_s']:>7.1f} {row['peak_mb']:>9.0f}   of each "
            f"repeat {[round(s, 1) for s in row['repeats_cpu_s']]}"
        )
    verb, alone, peer_row = (results[peer]["cpu_s"] for peer in PEERS)
    ratios = {
        "of_its_searches": verb / alone,
        "of_mine_hard_negatives": verb / peer_row,
        "same_rows": same,
    }
    print(
        f"demur mine: {ratios['of_its_searches']:.2f} of the CPU of its searches alone, "
        f"{ratios['of_mine_hard_negatives']:.2f} of that of mine_hard_negatives; {same:.2%} of the questions with the "
        f"same negatives; {lists}; the index took {built['cpu_s']:.1f} s of CPU before"
    )
    facts = {
        "passages": args.passages,
        "questions": args.questions,
        "dims": args.dims,
        "repeats": args.repeats,
    }
    print(
        json.dumps(
            {"benchmark": "mining", **facts, "results": results, "ratios": ratios, "index": built}
        )
    )


if __name__ == "__main__":
    main()
