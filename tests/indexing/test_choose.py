import pytest

from demur.indexing import choose as module
from demur.indexing.choose import choose

GB = 10**9
ROOMY = 1000 * GB


@pytest.mark.parametrize(
    ("n", "dims", "queries", "memory", "kind", "why"),
    [
        (10_000, 512, 10**6, ROOMY, "flat", "10,000 vectors"),
        (1_000_000, 512, 1000, ROOMY, "flat", "1,000 queries"),
        (300_000, 256, 10_000, ROOMY, "ivf-flat", "0.3 GB of vectors"),
        (6_000_000, 1024, 10**5, 25 * GB, "ivf-flat", "24.6 GB of vectors"),
        (6_000_000, 1024, 10**5, 24 * GB, "ivf-sq8", "24.0 GB of memory"),
        (
            6_000_000,
            1024,
            1000,
            6 * GB,
            "flat",
            "1,000 queries",
        ),  # passes over the disk; building takes more
    ],
)
def test_what_is_chosen_and_why(n, dims, queries, memory, kind, why):
    chosen = choose(n, dims, queries=queries, memory=memory)
    assert chosen.kind == kind
    assert why in chosen.why


def test_a_gpu_searches_exactly_what_fits(monkeypatch):
    monkeypatch.setattr(module, "cards", lambda: ["a GPU"])
    assert choose(10**6, 64, queries=10**6, memory=GB).kind == "flat"
    assert choose(10**6, 1024, queries=10**6, memory=2 * GB).kind == "ivf-sq8"


def test_what_is_free_counts_where_no_memory_is_given(monkeypatch):
    monkeypatch.setattr(module, "free_memory", lambda: 4 * GB)
    assert choose(1_000_000, 740, queries=10**5).kind == "ivf-flat"  # 2.96 GB of 3
    assert choose(1_000_000, 760, queries=10**5).kind == "ivf-sq8"
