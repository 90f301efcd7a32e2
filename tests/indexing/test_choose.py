import pytest

from demur.indexing import choose as module
from demur.indexing.choose import BATCH, NEAR, choose, costs_of
from demur.indexing.indexes import SHARED
from demur.indexing.ivf import PROBES, lists_for

GB = 10**9
ROOMY = 1000 * GB


@pytest.mark.parametrize(
    ("n", "dims", "queries", "batch", "memory", "kind"),
    [
        (10_000, 512, 10**6, BATCH, ROOMY, "flat"),  # few vectors
        (1_000_000, 512, 1000, BATCH, ROOMY, "flat"),  # few queries
        (300_000, 256, 10_000, BATCH, ROOMY, "ivf-flat"),
        (500_000, 384, 20_000, 20_000, ROOMY, "ivf-flat"),
        (1_000_000, 512, 10**6, 10_000, ROOMY, "ivf-flat"),  # queries that share lists
        (1_000_000, 512, 10**6, 1024, ROOMY, "ivf-sq8"),  # queries that hardly share any
        (300_000, 256, 10_000, 1, ROOMY, "ivf-sq8"),  # one by one
        (6_000_000, 1024, 10**5, 10_000, 25 * GB, "ivf-flat"),
        (6_000_000, 1024, 10**5, 10_000, 24 * GB, "ivf-sq8"),  # 24.6 GB do not fit, 6.1 do
        (6_000_000, 1024, 10**5, 10_000, 6 * GB, "ivf-rabitq"),
        (6_000_000, 1024, 1000, BATCH, 6 * GB, "flat"),  # one pass over the disk; building takes two
        (6_000_000, 1024, 3000, BATCH, 6 * GB, "ivf-rabitq"),
    ],
)  # fmt: skip
def test_what_is_chosen(n, dims, queries, batch, memory, kind):
    assert choose(n, dims, queries=queries, batch=batch, memory=memory).kind == kind


def test_a_gpu_searches_exactly_what_fits(monkeypatch):
    monkeypatch.setattr(module, "gpus", lambda: 1)
    assert choose(10**6, 64, queries=10**6, memory=GB).kind == "flat"
    assert "GPU" in choose(10**6, 64, queries=10**6, memory=GB).why
    assert choose(10**6, 1024, queries=10**6, memory=2 * GB).kind == "ivf-sq8"


def test_the_reason_has_the_numbers():
    why = choose(1_000_000, 512, queries=5_000, memory=8 * GB).why
    costs = costs_of(1_000_000, queries=5_000)
    assert "5,000 queries, up to 4,096 at once" in why
    assert all(f"{512 * cost:.1e} by {kind}" in why for kind, cost in costs.items())
    beyond = choose(6_000_000, 1024, memory=16 * GB)
    assert beyond.why.startswith("24.6 GB of vectors do not fit 16.0 GB of memory")


def test_what_is_free_counts_where_no_memory_is_given(monkeypatch):
    monkeypatch.setattr(module, "free_memory", lambda: 4 * GB)
    assert choose(1_000_000, 740, queries=10**5, batch=10_000).kind == "ivf-flat"  # 2.96 GB of 3
    assert choose(1_000_000, 760, queries=10**5, batch=10_000).kind == "ivf-sq8"


def test_an_exact_kind_is_taken_where_it_costs_little_more():
    for n in (60_000, 300_000, 10**6, 10**7):
        for queries in (10, 1000, 10**4, 10**5, 10**6):
            costs = costs_of(n, queries=queries)
            chosen = costs[choose(n, 256, queries=queries, memory=ROOMY).kind]
            assert chosen <= NEAR * min(costs.values())


@pytest.mark.parametrize("n", [10**5, 10**6])
def test_the_model_turns_to_whole_lists_where_the_search_does(n):
    """Below `SHARED` queries a list the search scans, and the model has the same cost for any batch."""
    lists = lists_for(n)

    def each(batch):
        """Of one query in a list, besides what being alone costs."""
        many = costs_of(n, queries=10**9, batch=batch)
        return (many["ivf-flat"] - many["ivf-sq8"]) / (10**9 * n * PROBES / lists) + module.CODES

    least = SHARED * lists // PROBES
    assert each(least // 2) == pytest.approx(module.SCAN)
    assert module.SCAN * 0.85 < each(least) < module.SCAN
    assert each(100 * least) == pytest.approx(module.PRODUCT, rel=0.05)
