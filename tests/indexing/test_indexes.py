import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import faiss
import numpy as np
import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import DataError, IndexFileError, StorageError, UsageError
from demur.indexing import exact, ivf
from demur.indexing.exact import Neighbours, exact_top, merge_shards, rescore, take_best, unit
from demur.indexing.indexes import Dense

DIMS = 512
BLAS = 128_000 // DIMS


def clustered(n, dims, seed=0, clusters=40):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, dims))
    return unit(
        (centres[rng.integers(0, clusters, n)] + 0.6 * rng.standard_normal((n, dims))).astype(
            np.float32
        )
    )


@pytest.fixture(scope="module")
def data():
    vectors = clustered(3000, DIMS)
    vectors[100:140] = vectors[7]  # ties beyond any margin
    vectors[2000] = vectors[8]
    queries = unit(
        vectors[::3]
        + 0.05 * np.random.default_rng(1).standard_normal((1000, DIMS)).astype(np.float32)
    )
    queries[0] = vectors[7]
    return vectors, np.concatenate([queries, queries[:24]])


def truth(queries, vectors, k):
    scores = (queries.astype(np.float64) @ vectors.astype(np.float64).T).astype(np.float32)
    rows = np.broadcast_to(np.arange(len(vectors)), scores.shape)
    return np.lexsort((rows, -scores), axis=-1)[:, :k]


@pytest.mark.heavy
def test_exact_ids_are_the_true_ones(data):
    vectors, queries = data
    found = exact_top(queries, vectors, 20, largest_norm=1.000001)
    assert (
        found.rows == truth(queries, vectors, 20)
    ).mean() > 0.9999  # the reference's own sums differ in bits
    assert found.rows[0, :20].tolist() == [7, *range(100, 119)]  # equal scores: by row
    assert (np.diff(found.scores, axis=1) <= 0).all()


def test_one_query_asked_alone_finds_what_many_find(data):
    vectors = data[0].copy()
    vectors[[50, 70]] = vectors[30]
    asked = unit(vectors[[30, 900, 1500]] + np.float32(0.01))
    many = exact_top(asked, vectors, 5, largest_norm=1.000001)
    assert many.rows[0, :3].tolist() == [
        30,
        50,
        70,
    ]  # equal scores, and nothing as near behind them: by row
    for place in range(3):
        alone = exact_top(asked[place : place + 1], vectors, 5, largest_norm=1.000001)
        assert alone.rows.tolist() == many.rows[place : place + 1].tolist()
        assert alone.scores.tobytes() == many.scores[place].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2, 64, BLAS - 1, BLAS, 333, 1024])
def test_nothing_depends_on_the_batch(data, batch):
    vectors, queries = data
    whole = exact_top(queries, vectors, 10, largest_norm=1.000001)
    some = range(0, len(queries), batch) if batch > 8 else range(0, 60, batch)
    for start in some:
        part = exact_top(queries[start : start + batch], vectors, 10, largest_norm=1.000001)
        assert (part.rows == whole.rows[start : start + batch]).all()
        assert part.scores.tobytes() == whole.scores[start : start + batch].tobytes()


def test_the_last_bits_of_the_fast_kernels_change_nothing(data, monkeypatch):
    """They differ from processor to processor, and on most of them with the number of queries."""
    vectors, queries = data
    whole = exact_top(queries, vectors, 10, largest_norm=1.000001)
    fast, dice, calls = exact._nearest, np.random.default_rng(0), []

    def others(*given):
        found = fast(*given)
        calls.append(len(found.rows))
        scores = found.scores + dice.choice(
            np.array([-1e-6, 0, 1e-6], np.float32), found.scores.shape
        )
        order = np.argsort(-scores, axis=1, kind="stable")
        return Neighbours(
            np.take_along_axis(scores, order, 1), np.take_along_axis(found.rows, order, 1)
        )

    monkeypatch.setattr(exact, "_nearest", others)
    found = exact_top(queries, vectors, 10, largest_norm=1.000001)
    assert sum(calls) >= len(queries)
    assert found.rows.tobytes() == whole.rows.tobytes()
    assert found.scores.tobytes() == whole.scores.tobytes()


@pytest.mark.heavy
@pytest.mark.parametrize("shards", [1, 2, 8])
def test_nothing_depends_on_the_shards(data, shards):
    vectors, queries = data
    whole = exact_top(queries, vectors, 10, largest_norm=1.000001)
    cuts = np.linspace(0, len(vectors), shards + 1).astype(int)
    parts = []
    for start, end in pairwise(cuts):
        found = exact_top(queries, vectors[start:end], 10, largest_norm=1.000001)
        parts.append(Neighbours(found.scores, found.rows + start))
    merged = merge_shards(parts, 10)
    assert (merged.rows == whole.rows).all()
    assert merged.scores.tobytes() == whole.scores.tobytes()


def test_what_lies_within_the_rounding_error_is_told_apart():
    """Vectors one unit in the last place from each other: a fast kernel cannot order them, float64 sums can."""
    rng = np.random.default_rng(3)
    vectors = np.repeat(unit(rng.standard_normal((20, 64)).astype(np.float32)), 30, axis=0)
    near = vectors.copy()
    near[np.arange(600), rng.integers(0, 64, 600)] *= np.float32(1 + 2.0**-23)
    queries = vectors[::20] + np.float32(0.01)
    whole = exact_top(queries, near, 7, largest_norm=1.001)
    assert (whole.rows == truth(queries, near, 7)).mean() > 0.98
    for batch in (1, 5):
        parts = [
            exact_top(queries[i : i + batch], near, 7, largest_norm=1.001)
            for i in range(0, len(queries), batch)
        ]
        assert np.concatenate([p.rows for p in parts]).tobytes() == whole.rows.tobytes()


def test_scores_do_not_depend_on_memory_layout(data, monkeypatch):
    vectors, queries = data
    rows = np.random.default_rng(0).integers(-1, len(vectors), (50, 33))
    whole = rescore(queries[:50], vectors, rows)
    monkeypatch.setattr(exact, "RESCORE_BYTES", 16 * DIMS * 7)
    assert rescore(queries[:50], vectors, rows).tobytes() == whole.tobytes()
    assert (whole[rows < 0] == -np.inf).all()


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_small_integer_vectors_with_many_ties(n, dims, k, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, (n, dims)).astype(np.float32)
    queries = rng.integers(-2, 3, (5, dims)).astype(np.float32)
    found = exact_top(queries, vectors, k, largest_norm=10.0)
    assert (found.rows == truth(queries, vectors, min(k, n))).all()


def written(folder, vectors, kind="flat", **extra):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", vectors)
    norm = float(np.linalg.norm(vectors.astype(np.float64), axis=1).max(initial=0))
    part = {"kind": kind, "dims": vectors.shape[1], "count": len(vectors), "largest_norm": norm}
    if kind != "flat":
        part |= ivf.build_ivf(kind, vectors, folder / "index.faiss", **extra)
    return part


def test_threads_search_different_numbers_of_lists(tmp_path):
    """One that needs more lists must not change how many another one reads."""
    rng = np.random.default_rng(0)
    vectors = unit(rng.standard_normal((4000, 16), dtype=np.float32))
    index = Dense(tmp_path, written(tmp_path, vectors, "ivf-flat", lists=100) | {"nprobe": 1})
    asked = [(vectors[first : first + 4], k) for first in range(0, 200, 4) for k in (5, 300)] * 10
    alone = [index.search(*one).rows for one in asked[:100]] * 10
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda one: index.search(*one).rows, asked))
    finally:
        sys.setswitchinterval(before)
    assert all((ours == right).all() for ours, right in zip(found, alone, strict=True))


def test_mapped_or_read(data, tmp_path):
    vectors, queries = data
    index = Dense(tmp_path, written(tmp_path, vectors))
    assert isinstance(index.vectors, np.memmap)
    assert (
        index.search(queries, 10).rows
        == exact_top(queries, vectors, 10, largest_norm=1.000001).rows
    ).all()


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [k for k in ivf.KINDS if k != "flat"])
def test_inverted_lists(data, tmp_path, kind):
    vectors, queries = data
    part = written(tmp_path, vectors, kind, lists=32)
    index = Dense(tmp_path, part)
    found = index.search(queries, 10)
    right = exact_top(queries, vectors, 10, largest_norm=1.000001)
    # ties are as many as the lists give; leave them out of the recall
    recall = np.mean(
        [len(set(a) & set(b)) / 10 for a, b in zip(found.rows[1:], right.rows[1:], strict=True)]
    )
    assert recall > 0.97
    same = found.rows == right.rows
    assert found.scores[same].tobytes() == right.scores[same].tobytes()  # re-ranked exactly
    for batch in (1, 3, 250):
        part_found = index.search(queries[5 : 5 + batch], 10)
        assert (part_found.rows == found.rows[5 : 5 + batch]).all()


@pytest.mark.slow
def test_lists_enough_for_a_recall_of_questions_that_are_all_measured(data, tmp_path):
    vectors, queries = data
    index = Dense(tmp_path, written(tmp_path, vectors, "ivf-flat", lists=32))
    right = exact_top(queries, vectors, 10, largest_norm=1.000001).rows
    for recall in (0.6, 0.9, 0.99, 1.0):
        tuned = index.nprobe_for(
            [queries[:500], queries[500:]], 10, recall=recall, queries_to_come=len(queries)
        )
        if tuned.questions < len(queries):  # another block would not have cost less than it saved
            assert tuned.least >= recall
            tuned = index.nprobe_for([queries], 10, recall=recall, queries_to_come=len(queries))
        index.nprobe = tuned.nprobe
        assert tuned.recall == pytest.approx(share(index.search(queries, 10).rows, right))
        assert tuned.recall >= recall
        if index.nprobe > 1:  # and not more than enough
            index.nprobe -= 1
            assert share(index.search(queries, 10).rows, right) < recall
    assert (
        Dense(tmp_path / "flat", written(tmp_path / "flat", vectors))
        .nprobe_for([queries], 5)
        .nprobe
        == 1
    )


def share(found, right):
    return np.mean([np.isin(a, b).mean() for a, b in zip(right, found, strict=True)])


def test_few_of_many_questions_prove_nothing(data, tmp_path):
    vectors, queries = data
    index = Dense(tmp_path, written(tmp_path, vectors, "ivf-flat", lists=32))
    assert index.nprobe_for([queries[:280]], 10) == (32, 1.0, 1.0, 280)
    assert index.nprobe_for([queries[:280]], 10, queries_to_come=280).nprobe < 32
    assert index.nprobe_for([], 10).questions == 0


@pytest.mark.slow
@pytest.mark.parametrize("lost", [10, 5, 1])
def test_recall_holds_where_neighbours_miss_together(lost):
    """Of some questions that many neighbours lie in a far list; how many such questions a sample has is chance."""
    rng = np.random.default_rng(0)

    def needed(many):
        ranks = rng.integers(1, 4, (many, 10))
        far = np.flatnonzero(
            rng.random(many) < 0.12 / lost
        )  # 1.2 % of all neighbours: near lists alone are too few
        ranks[far, :lost] = rng.integers(20, 200, len(far))[:, None]
        return ranks

    fresh = needed(200_000)
    tuned = [ivf.lists_enough(needed(512), 0.99, 400) for _ in range(200)]
    recalls = np.array([(fresh <= one.nprobe).mean() for one in tuned])
    assert (recalls >= 0.99).mean() >= 0.95
    assert all(one.least >= 0.99 for one in tuned)
    at_hand = [ivf.lists_enough(needed(512), 0.99, 400, queries_to_come=512) for _ in range(200)]
    assert (
        np.mean([(fresh <= one.nprobe).mean() >= 0.99 for one in at_hand]) < 0.8
    )  # by what was found alone


def test_the_interval_holds_whatever_is_missed():
    rng = np.random.default_rng(1)
    mean = 0.985
    kinds = {
        "all": lambda size: rng.random(size) < mean,
        "half": lambda size: 1 - 0.5 * (rng.random(size) < 2 * (1 - mean)),
        "each": lambda size: rng.binomial(10, mean, size) / 10,
    }
    for values in kinds.values():
        for many in (200, 512, 2000):
            drawn = values((1000, many)).astype(np.float64)
            least = np.array([ivf.least_mean(row) for row in drawn])
            assert (least <= mean).mean() >= 0.94
            assert np.mean(mean - least) < 5 / many**0.5 * 0.13 + 3 / many
            assert ivf.least_mean(drawn[0], queries_to_come=many) == pytest.approx(drawn[0].mean())
            assert least[0] < ivf.least_mean(drawn[0], queries_to_come=2 * many) < drawn[0].mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ivf-flat", "ivf-sq8"])
def test_a_corpus_whose_neighbours_lie_elsewhere_together(tmp_path, kind):
    """Some questions are near a cluster that was cut off from their own by the lists; fresh ones must find theirs."""
    wanted, had = 0.95, []
    vectors = clustered(6000, 24, clusters=30)
    index = Dense(tmp_path, written(tmp_path, vectors, kind, lists=60))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        near = vectors[rng.integers(0, 6000, 2400)]
        far = (
            rng.random(2400) < 0.06
        )  # between two clusters: whose lists are nearest does not tell the neighbours'
        noise = rng.standard_normal((2400, 24)).astype(np.float32)
        near = unit(near + np.where(far[:, None], 0.6, 0.05).astype(np.float32) * noise)
        tuned = index.nprobe_for([near[:400]], 10, recall=wanted)
        index.nprobe = tuned.nprobe
        right = exact_top(near[400:], vectors, 10, largest_norm=1.001).rows
        had.append(share(index.search(near[400:], 10).rows, right))
        assert tuned.least >= wanted
        assert tuned.nprobe < 60
    assert sorted(had)[1] >= wanted


def test_most_lists_may_be_empty(tmp_path):
    vectors = np.repeat(np.eye(40, dtype=np.float32)[:4], 100, axis=0)
    part = written(tmp_path, vectors, "ivf-flat", lists=40)
    assert (
        Dense(tmp_path, part).search(vectors[::100], 3).rows
        == [[a, a + 1, a + 2] for a in range(0, 400, 100)]
    ).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ivf-flat", "ivf-sq8"])
def test_building_holds_a_block_of_the_lists(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(ivf, "FILL_BYTES", 1 << 20)
    np.save(tmp_path / "vectors.npy", clustered(120_000, 128))  # 61 MB; 15 MB in 8 bits
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    ivf.build_ivf(
        kind, vectors[:5000], tmp_path / "first.faiss", lists=16
    )  # what is imported at the first use
    assert (
        _most(lambda: ivf.build_ivf(kind, vectors, tmp_path / "built.faiss", lists=16)) < 10 << 20
    )
    assert ivf.open_lists(tmp_path / "built.faiss", kind, 128, 120_000).ntotal == 120_000


def _most(work):
    """The most memory of this process's own during the work, beyond what it had, looked at every millisecond."""
    before, ended = _resident(), threading.Event()
    seen = [before]

    def watch():
        while not ended.wait(0.001):
            seen.append(_resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        ended.set()
        watcher.join()
    return max(seen) - before


@pytest.mark.heavy
def test_lists_are_mapped(tmp_path):
    vectors = clustered(80_000, 64)
    part = written(tmp_path, vectors, "ivf-flat", lists=32)
    Dense(tmp_path, part).search(vectors[:50], 5)  # threads, and what they keep
    before = _resident()
    found = Dense(tmp_path, part).search(vectors[:50], 5)
    assert (found.rows[:, 0] == np.arange(50)).all()
    assert _resident() - before < 9 << 20  # of 20 MB; a copy would show


def _resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


@pytest.mark.slow
def test_flat_search_needs_little_memory_beside_the_map(tmp_path, monkeypatch):
    monkeypatch.setattr(
        faiss, "omp_get_max_threads", lambda: 1
    )  # each thread holds a block of its own, when it may
    vectors = clustered(40_000, 256)  # 41 MB
    index = Dense(tmp_path, written(tmp_path, vectors))
    for queries, most in ((8, 1 << 20), (100, 12 << 20), (2000, 16 << 20)):
        index.search(vectors[:queries], 10)
        tracemalloc.start()
        index.search(vectors[:queries], 10)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most


def test_more_neighbours_than_vectors(tmp_path):
    vectors = clustered(5, 8)
    index = Dense(tmp_path, written(tmp_path, vectors))
    found = index.search(vectors[:2], 9)
    assert found.rows.shape == (2, 9)
    assert sorted(found.rows[0, :5]) == [0, 1, 2, 3, 4]
    assert (found.rows[:, 5:] == -1).all()
    assert (found.scores[:, 5:] == -np.inf).all()
    assert index.search(vectors[:0], 3).rows.shape == (0, 3)


def test_an_index_of_nothing(tmp_path):
    index = Dense(tmp_path, written(tmp_path, np.zeros((0, 8), np.float32)))
    assert (index.search(np.ones((2, 8), np.float32), 3).rows == -1).all()


def test_search_of_a_subset(data, tmp_path):
    vectors, queries = data
    index = Dense(tmp_path, written(tmp_path, vectors))
    candidates = [np.array([5, 3, 3, 900]), np.array([], dtype=np.int64)]
    found = index.search_subset(queries[:2], candidates, 5)
    scores = rescore(queries[:1], vectors, np.array([[3, 5, 900]]))
    assert (
        found.rows[0, :3].tolist() == take_best(scores, np.array([[3, 5, 900]]), 3).rows[0].tolist()
    )
    assert (found.rows[0, 3:] == -1).all()
    assert (found.rows[1] == -1).all()


def test_bad_queries_and_files(tmp_path):
    vectors = clustered(50, 8)
    part = written(tmp_path, vectors)
    index = Dense(tmp_path, part)
    for spoiled in (np.nan, np.inf, 0.0):
        queries = vectors[:3].copy()
        queries[2] = spoiled
        with raises(DataError, item="query 2"):
            index.search(queries, 1)
    with raises(UsageError, "8", "7"):
        index.search(np.ones((1, 7), np.float32), 1)
    with raises(UsageError, "0", item="k"):
        index.search(vectors[:1], 0)
    with pytest.raises(IndexFileError, match="expected 51x8"):
        Dense(tmp_path, part | {"count": 51})
    whole = (tmp_path / "vectors.npy").read_bytes()
    (tmp_path / "vectors.npy").write_bytes(whole[:300])
    with raises(IndexFileError, item="vectors.npy"):
        Dense(tmp_path, part)
    part = written(tmp_path / "ivf", vectors, "ivf-flat", lists=1)
    lists = tmp_path / "ivf" / "index.faiss"
    blob = (tmp_path / "ivf" / "lists.bin").read_bytes()
    (tmp_path / "ivf" / "lists.bin").write_bytes(blob[: len(blob) // 2])
    with pytest.raises(IndexFileError, match=r"lists\.bin"):
        Dense(tmp_path / "ivf", part)
    lists.write_bytes(lists.read_bytes()[:100])
    with raises(IndexFileError, item=lists):
        Dense(tmp_path / "ivf", part)
    lists.write_bytes(b"no index at all")
    with raises(IndexFileError, "ivf-flat", item="index.faiss"):
        Dense(tmp_path / "ivf", part)
    with raises(UsageError, "'hnsw'"):
        ivf.train("hnsw", vectors, tmp_path / "trained")


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="/dev/full"):
        ivf.write_faiss(faiss.IndexFlatIP(64), Path("/dev/full"))
    monkeypatch.setattr(
        ivf.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000)
    )  # lists are written by a map
    with raises(StorageError, "1,000"):
        ivf.build_ivf("ivf-flat", clustered(5000, 64), tmp_path / "index.faiss")
    assert not list(tmp_path.iterdir())


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [k for k in ivf.KINDS if k != "flat"])
def test_lists_do_not_depend_on_the_shards(data, tmp_path, kind, monkeypatch):
    vectors, found = np.ascontiguousarray(data[0][:, :24]), []
    for block in (64, 700, 1 << 16):
        monkeypatch.setattr(ivf, "FILL_BYTES", 4 * 24 * block)
        folder = tmp_path / str(block)
        written(folder, vectors, kind, lists=32)
        assert sorted(path.name for path in folder.iterdir()) == [
            "index.faiss",
            "lists.bin",
            "vectors.npy",
        ]
        found.append([(folder / name).read_bytes() for name in ("index.faiss", "lists.bin")])
    assert found[0] == found[1] == found[2]


def test_norms_and_unit():
    vectors = np.array([[3, 4], [0, 0], [np.nan, 1], [1e-45, 0]], np.float32)
    norms = exact.norms_of(vectors)
    assert norms[:2].tolist() == [5, 0]
    assert np.isnan(norms[2])
    assert norms[3] > 0
    assert unit(vectors[:2]).tolist() == [[np.float32(0.6), np.float32(0.8)], [0, 0]]


@pytest.mark.parametrize("queries", [1, 100])
def test_dimensions_that_differ_are_refused_before_memory_is_read(queries):
    with pytest.raises(ValueError, match=r"8.*16"):
        exact.exact_top(
            np.ones((queries, 8), np.float32), np.ones((50, 16), np.float32), 3, largest_norm=4
        )


SPOILED = """
import sys
from pathlib import Path
import numpy as np
from demur.core.errors import IndexFileError
from demur.indexing import ivf
from demur.indexing.indexes import Dense

root, kind = Path(sys.argv[1]), sys.argv[2]
vectors = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
np.save(root / "vectors.npy", vectors)
part = ivf.build_ivf(kind, vectors, root / "index.faiss", lists=3)
part |= {"dims": 8, "count": 60, "largest_norm": 10.0, "nprobe": 3}
whole, refused = (root / "index.faiss").read_bytes(), 0
for at in range(0, len(whole) - 8, 4):
    for value in (0, 1, 7, 1 << 40, (1 << 64) - 1):
        (root / "index.faiss").write_bytes(whole[:at] + value.to_bytes(8, "little") + whole[at + 8:])
        try:
            Dense(root, part).search(vectors[:2], 60)
        except IndexFileError:
            refused += 1
print(refused)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["ivf-flat", "ivf-sq8"])
def test_no_damaged_file_of_lists_ends_the_process(tmp_path, kind):
    """Sizes that lie made faiss read beyond its lists: a list of capacity 0 that claims vectors, others."""
    done = subprocess.run(
        [sys.executable, "-c", SPOILED, str(tmp_path), kind], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 100
