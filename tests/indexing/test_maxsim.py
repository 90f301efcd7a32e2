"""Late interaction: exact scores in one order, whatever the batch, k and block; damaged files are named."""

from __future__ import annotations

import numpy as np
import pytest
from errors import raises

from demur.core.errors import DataError, IndexFileError, UsageError
from demur.indexing import maxsim
from demur.indexing.maxsim import MaxSim
from demur.testing import check_index

DIMS = 16


def index_of(folder, documents):
    """An index of documents given as (tokens, d) each."""
    tokens = np.concatenate(documents)
    np.save(folder / "vectors.npy", tokens)
    np.array([*map(len, documents)], "<i4").tofile(folder / "lengths.i32")
    norm = float(np.sqrt((tokens.astype(np.float64) ** 2).sum(1)).max())
    part = {
        "dims": DIMS,
        "count": len(documents),
        "tokens": len(tokens),
        "largest_norm": norm,
    }
    return MaxSim(folder, part)


@pytest.fixture
def world(tmp_path):
    """(documents, queries): some documents are equal, some differ from one in a last bit."""
    dice = np.random.default_rng(0)
    documents = [
        dice.standard_normal((int(dice.integers(1, 9)), DIMS)).astype(np.float32)
        for _ in range(300)
    ]
    for n in range(0, 300, 10):
        documents[n] = documents[3]
        documents[n + 1] = np.nextafter(documents[3], np.float32(9))
    queries = [
        dice.standard_normal((int(dice.integers(1, 7)), DIMS)).astype(np.float32) for _ in range(20)
    ]
    queries[0] = documents[3]
    return documents, queries


def by_definition(query, documents):
    """Rows by (MaxSim descending, row ascending)."""
    scores = [
        np.float32(
            sum(max(float(np.dot(q.astype("f8"), t.astype("f8"))) for t in d) for q in query)
        )
        for d in documents
    ]
    return sorted(range(len(documents)), key=lambda row: (-scores[row], row)), scores


def test_it_is_the_definition(world, tmp_path):
    documents, queries = world
    result = index_of(tmp_path, documents).search(queries, 25)
    for query, rows, scores in zip(queries, result.rows, result.scores, strict=True):
        order, expected = by_definition(query, documents)
        assert np.allclose(scores, [expected[row] for row in order[:25]], rtol=1e-6)
        # where float64 sums of another order round to another float32, neighbours may swap
        assert {*rows.tolist()} == {*order[:25]} or np.isclose(scores[-1], expected[order[25]])


def test_neither_batch_nor_k_nor_block_changes_a_bit(world, tmp_path, monkeypatch):
    documents, queries = world
    index = index_of(tmp_path, documents)
    whole = index.search(queries, 40)
    for k in (1, 7, 39, 400):
        other = index.search(queries, k)
        shared = min(k, 40)
        assert other.rows[:, :shared].tolist() == whole.rows[:, :shared].tolist()
        assert other.scores[:, :shared].tobytes() == whole.scores[:, :shared].tobytes()
    monkeypatch.setattr(maxsim, "PRODUCTS", 40)  # a few documents at once
    monkeypatch.setattr(maxsim, "RESCORED", 30)  # a token of the query at once
    monkeypatch.setattr(maxsim, "TOKENS", 5)
    monkeypatch.setattr(maxsim, "SCORES", 1)
    for number, query in enumerate(queries):
        alone = index.search([query], 40)
        assert alone.rows[0].tolist() == whole.rows[number].tolist()
        assert alone.scores[0].tobytes() == whole.scores[number].tobytes()
    subset = index.search_subset(queries, [np.arange(300)] * len(queries), 40)
    assert subset.rows.tolist() == whole.rows.tolist()
    assert subset.scores.tobytes() == whole.scores.tobytes()


def test_documents_that_differ_in_last_bits_are_told_apart_exactly(tmp_path):
    """Float32 products cannot order them: whatever could belong to the first k is scored again."""
    dice = np.random.default_rng(1)
    base = dice.standard_normal((5, DIMS)).astype(np.float32)
    documents = [
        np.where(dice.random(base.shape) < 0.3, np.nextafter(base, np.float32(9)), base)
        for _ in range(200)
    ]
    queries = [dice.standard_normal((6, DIMS)).astype(np.float32) for _ in range(20)]
    index = index_of(tmp_path, documents)
    for k in (1, 3, 20):
        exact = index.search_subset(queries, [np.arange(200)] * 20, k)
        assert index.search(queries, k).rows.tolist() == exact.rows.tolist()


def test_equal_documents_come_in_the_order_of_their_rows(world, tmp_path):
    documents, queries = world
    rows = index_of(tmp_path, documents).search(queries[:1], 300).rows[0].tolist()
    equal = [row for row in rows if documents[row] is documents[3]]
    assert equal == sorted(equal)
    assert len(equal) == 31


def test_it_keeps_the_contract_of_an_index(world, tmp_path):
    documents, queries = world
    check_index(index_of(tmp_path, documents), queries[:4])


def test_documents_are_compared_by_their_means(world, tmp_path):
    documents, _ = world
    vectors = index_of(tmp_path, documents).vectors
    assert np.allclose(vectors, [d.mean(0) for d in documents], atol=1e-5)


def test_an_index_of_nothing_finds_nothing(world, tmp_path):
    np.save(tmp_path / "vectors.npy", np.zeros((0, DIMS), np.float32))
    (tmp_path / "lengths.i32").write_bytes(b"")
    part = {"dims": DIMS, "count": 0, "tokens": 0, "largest_norm": 0.0}
    index = MaxSim(tmp_path, part)
    assert (index.search(world[1], 3).rows == -1).all()
    assert (index.search_subset(world[1], [np.arange(0)] * 20, 3).rows == -1).all()
    assert index.vectors.shape == (0, DIMS)


def test_what_cannot_be_searched_is_named(world, tmp_path):
    documents, queries = world
    index = index_of(tmp_path, documents)
    with raises(UsageError, "(3, 7)", item=tmp_path, cure="encoder"):
        index.search([queries[0], np.zeros((3, 7), np.float32)], 3)
    with raises(DataError, item="query 1"):
        index.search([queries[0], np.full((3, DIMS), np.nan, np.float32)], 3)


@pytest.mark.parametrize("damage", ["vectors", "short", "zero", "sum"])
def test_a_damaged_file_is_named(damage, world, tmp_path):
    documents, _ = world
    index_of(tmp_path, documents)
    lengths = np.array([*map(len, documents)], "<i4")
    if damage == "vectors":
        np.save(tmp_path / "vectors.npy", np.zeros((5, DIMS), np.float32))
    elif damage == "short":
        lengths[:-1].tofile(tmp_path / "lengths.i32")
    else:
        lengths[0] += {"zero": -lengths[0], "sum": 1}[damage]
        lengths.tofile(tmp_path / "lengths.i32")
    part = {"dims": DIMS, "count": 300, "tokens": sum(map(len, documents)), "largest_norm": 9.0}
    name = "vectors.npy" if damage == "vectors" else "lengths.i32"
    with raises(IndexFileError, item=tmp_path / name):
        MaxSim(tmp_path, part)
