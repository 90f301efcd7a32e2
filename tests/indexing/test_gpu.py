"""GPUs that are processors: what faiss has for GPUs, with a product behind it whose scores are a little off."""

import importlib.metadata
import importlib.util
import json
import sys
import threading
from pathlib import Path

import faiss
import numpy as np
import pytest
import tiny_clip
from errors import raises
from small_pool import corpus
from stub_encoder import StubEncoder

from demur.core.errors import MissingExtra, StorageError, UsageError
from demur.indexing import exact, gpu
from demur.indexing.build import build_index
from demur.indexing.exact import Exact, unit
from demur.indexing.indexes import Dense
from demur.indexing.options import IndexOptions
from demur.retrieval.search import Searcher

ROWS, DIMS = 3000, 48
NORM = 1.000001


class Config:
    device = -1


class Cards:
    """What faiss and PyTorch have of each GPU, and what was sent to it."""

    def __init__(self, monkeypatch, free):
        self.free = free
        self.sent, self.asked, self.refuses = [], [], None
        cards = self

        class Flat:
            def __init__(self, resources, dims, metric, config):
                assert metric == faiss.METRIC_INNER_PRODUCT
                self.rows, self.device = np.empty((0, dims), np.float32), config.device

            @property
            def ntotal(self):
                return len(self.rows)

            def add(self, vectors):
                if cards.free[self.device] < gpu.SPARE + vectors.nbytes:
                    raise RuntimeError("alloc fail")
                cards.sent.append((self.device, len(vectors)))
                self.rows = np.concatenate([self.rows, vectors])

            def search(self, queries, k):
                assert k <= gpu.MOST
                if self.device == cards.refuses:
                    raise RuntimeError("no memory\nat a line of C++")
                cards.asked.append((self.device, len(queries)))
                scores = queries @ self.rows.T
                scores += np.where(np.arange(self.ntotal) % 3, 1e-6, -1e-6)  # less than the bound
                rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
                return np.take_along_axis(scores, rows, 1), rows

        monkeypatch.setattr(faiss, "get_num_gpus", lambda: len(free))
        monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
        monkeypatch.setattr(faiss, "GpuIndexFlatConfig", Config, raising=False)
        monkeypatch.setattr(faiss, "GpuIndexFlat", Flat, raising=False)
        monkeypatch.setattr(
            "torch.cuda.mem_get_info", lambda number: (self.free[number], 80 << 30), raising=False
        )
        gpu.cards.cache_clear()


@pytest.fixture
def cards(monkeypatch):
    """Makes GPUs with room for that many rows each."""
    pytest.importorskip("torch")
    yield lambda *rows: Cards(monkeypatch, [gpu.SPARE + 4 * DIMS * n for n in rows])
    gpu.cards.cache_clear()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    vectors = unit(rng.standard_normal((ROWS, DIMS), np.float32))
    vectors[100:140] = vectors[7]  # ties beyond any margin
    near = vectors[9] + 1e-7 * rng.standard_normal((60, DIMS), np.float32)
    vectors[500:2900:40] = unit(near)  # in all rounds
    queries = unit(
        vectors[rng.integers(0, ROWS, 2100)] + 0.1 * rng.standard_normal((2100, DIMS), np.float32)
    )
    queries[0], queries[3] = vectors[7], vectors[9]
    return vectors, queries, Exact(vectors, NORM).top(queries, 10)


def same(a, b):
    return (a.rows == b.rows).all() and a.scores.tobytes() == b.scores.tobytes()


@pytest.mark.parametrize("rooms", [(ROWS,), (2 * ROWS, ROWS), (40, 5 * ROWS, 0)])
def test_vectors_are_sent_once_and_hits_are_those_of_processors(cards, data, rooms):
    vectors, queries, right = data
    there = cards(*rooms)
    searched = Exact(vectors, NORM)
    for _ in range(3):
        assert same(searched.top(queries, 10), right)
    assert sum(rows for _, rows in there.sent) == ROWS
    for card, rows in there.sent:
        assert rows <= rooms[card]
    asked = {card for card, _ in there.sent}
    assert {card for card, _ in there.asked} == asked
    blocks = -(-len(queries) // exact.BLOCK)
    assert len(there.asked) >= 3 * blocks * len(asked)


@pytest.mark.parametrize("rooms", [(700,), (300, 500)])
def test_what_does_not_fit_is_searched_in_rounds(cards, data, rooms):
    vectors, queries, right = data
    there = cards(*rooms)
    searched = Exact(vectors, NORM)
    assert same(searched.top(queries, 10), right)
    rounds = -(-ROWS // sum(rooms))
    assert len(there.sent) == rounds * len(rooms), "once for each round, not for each block"
    assert all(rows <= rooms[card] for card, rows in there.sent)
    assert set(searched.top(queries[:9], 10, ordered=False).rows[3]) == set(right.rows[3])


def test_neighbours_beyond_a_cards_most_are_found_by_processors(cards, data, monkeypatch):
    vectors, queries, _ = data
    right = Exact(vectors, NORM).top(queries[:3], 2500)
    cards(ROWS)
    assert same(Exact(vectors, NORM).top(queries[:3], 2500), right)


def test_without_room_or_vectors_no_card_is_asked(cards, data):
    vectors, queries, right = data
    there = cards(0, 0)
    assert same(Exact(vectors, NORM).top(queries, 10), right)
    assert Exact(vectors[:0], NORM).top(queries, 10).rows.shape == (len(queries), 0)
    assert not there.sent


def test_a_card_that_refuses_is_named(cards, data, monkeypatch):
    vectors, queries, _ = data
    there = cards(ROWS, ROWS)
    monkeypatch.setattr(gpu.Card, "room", lambda card: 4 * DIMS * ROWS)
    there.free[1] = 0  # another process has taken it meanwhile
    with raises(StorageError, item="GPU 1", cure="CUDA_VISIBLE_DEVICES"):
        Exact(vectors, NORM).top(queries, 10)
    there.free[1] = there.free[0]
    searched = Exact(vectors, NORM)
    searched.top(queries[:2], 10)
    there.refuses = 1
    with raises(StorageError, "no memory", item="GPU 1", cure="CUDA_VISIBLE_DEVICES"):
        searched.top(queries, 10)


def test_an_index_keeps_its_vectors_on_the_cards(cards, data, tmp_path):
    vectors, queries, right = data
    np.save(tmp_path / "vectors.npy", vectors)
    entry = {"kind": "flat", "dims": DIMS, "count": ROWS, "largest_norm": NORM}
    there = cards(ROWS)
    index = Dense(tmp_path, entry)
    for _ in range(2):
        assert same(index.search(queries, 10), right)
    assert there.sent == [(0, ROWS)]


def test_one_thread_works_on_a_card(cards):
    cards(ROWS, ROWS)
    names = [
        {card.start(lambda: threading.current_thread().name).result() for _ in range(9)}
        for card in gpu.cards()
    ]
    assert [len(each) for each in names] == [1, 1]
    assert names[0] != names[1]


# --- the benchmark --------------------------------------------------------------------------------


@pytest.fixture
def bench(monkeypatch):
    """``benchmarks/gpu.py``."""
    path = Path(__file__).parents[2] / "benchmarks/gpu.py"
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    spec = importlib.util.spec_from_file_location("bench_gpu", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def last_line(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_benchmark_says_why_it_measures_nothing(bench, capsys):
    pytest.importorskip("torch")
    if not bench.why_not():
        pytest.skip("there is a GPU")
    assert bench.main([]) == 0
    assert "CUDA" in last_line(capsys)["skipped"]


@pytest.mark.heavy
def test_the_benchmark_compares_hits_and_times(bench, cards, capsys, monkeypatch, tmp_path):
    cards(ROWS)
    monkeypatch.setattr(bench, "why_not", str)
    sizes = ["--rows", "3000", "--dims", "48", "--queries", "2100", "--checked", "100"]
    few = [*sizes, "--repeats", "1", "--images", "3"]
    assert bench.main([*few, "--encoder", f"local-dir:{tmp_path}"]) == 0
    results = last_line(capsys)
    assert results["search"]["same_ids"] == results["search"]["same_bits"] == 1
    assert results["search"]["x_bare"] > 0
    assert str(tmp_path) in results["encoder"]["skipped"]
    top = Exact.top
    monkeypatch.setattr(
        Exact,
        "top",
        lambda own, queries, k: top(own, queries if gpu.cards() else -queries, k),
    )
    assert bench.main([*few, "--encoder", ""]) == 1
    assert last_line(capsys)["search"]["same_ids"] < 1


@pytest.mark.heavy
def test_the_benchmark_measures_an_encoder_beside_its_bare_model(bench, tmp_path):
    pytest.importorskip("open_clip")
    tiny_clip.make(tmp_path)
    measured = bench.measure_encoder(f"local-dir:{tmp_path}/whole", images=5, repeats=1)
    assert measured["images"] == 5
    assert measured["ours_per_s"] > 0
    assert measured["of_bare"] == pytest.approx(measured["ours_per_s"] / measured["bare_per_s"])


# --- which faiss is installed ---------------------------------------------------------------------


@pytest.fixture
def reloaded():
    gpu.load_faiss.cache_clear()
    yield
    gpu.load_faiss.cache_clear()


def test_without_faiss_both_install_lines_are_given_before_work(reloaded, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "faiss", None)

    def unread():
        raise AssertionError("a document was read")
        yield

    with raises(MissingExtra, cure="pip install 'demur[cpu]', or pip install 'demur[gpu]'"):
        build_index(unread(), StubEncoder(), tmp_path / "index")
    monkeypatch.undo()
    build_index(
        corpus(tmp_path), StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path)
    )
    gpu.load_faiss.cache_clear()
    monkeypatch.setitem(sys.modules, "faiss", None)
    with raises(MissingExtra, cure="demur[gpu]"):
        Searcher(tmp_path / "index", StubEncoder())


def test_two_faiss_in_one_folder_are_refused(reloaded, monkeypatch, tmp_path):
    """Two wheels unpacked into one folder, as pip does it without a word."""
    for name in ("faiss_cpu", "faiss_gpu"):
        info = tmp_path / f"{name}-1.15.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: 1.15.1\n")
    monkeypatch.setattr(faiss, "__file__", str(tmp_path / "faiss" / "__init__.py"))
    with raises(
        UsageError,
        "faiss-cpu",
        "faiss-gpu",
        item=tmp_path,
        cure="pip uninstall faiss-cpu faiss-gpu",
    ):
        gpu.load_faiss()
    (tmp_path / "faiss_cpu-1.15.1.dist-info" / "METADATA").unlink()
    (tmp_path / "faiss_cpu-1.15.1.dist-info").rmdir()
    importlib.metadata.MetadataPathFinder().invalidate_caches()
    assert gpu.load_faiss() is faiss
