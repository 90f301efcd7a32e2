"""As many neighbours as are asked for, also where the lists that are searched hold fewer."""

import numpy as np
import pytest

from demur.indexing.indexes import Dense
from demur.indexing.ivf import KINDS, build_ivf


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flat"])
@pytest.mark.parametrize("batch", [1, 40])
def test_more_lists_are_searched_until_there_are_enough(tmp_path, kind, batch):
    made = np.random.default_rng(7)
    vectors = made.standard_normal((1200, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[:batch] + np.float32(0.1)
    np.save(tmp_path / "vectors.npy", vectors)
    entry = build_ivf(kind, vectors, tmp_path / "index.faiss", lists=24) | {"nprobe": 1}
    index = Dense(tmp_path, entry | {"dims": 16, "count": 1200, "largest_norm": 1.001})
    few = index.search(queries, 5)
    for k in (300, 1200, 1300):
        found = index.search(queries, k)
        assert found.rows.shape == (batch, k)
        assert all(len(set(line[line >= 0].tolist())) == min(k, 1200) for line in found.rows)
        assert (np.diff(found.scores[:, : min(k, 1200)], axis=1) <= 0).all()
    assert np.array_equal(
        index.search(queries, 5).rows, few.rows
    )  # which search one list, as before
    lonely = [index.search(queries[[n]], 300).rows[0] for n in range(0, batch, 13)]
    assert np.array_equal(index.search(queries, 300).rows[::13], lonely)
