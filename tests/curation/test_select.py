import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mining_calls import mine_kind
from stub_encoder import StubEncoder

from demur.core.records import AnswerSpec, Document, Evidence, Hit, Role, Sample
from demur.curation.mining.choose import random_places as draw
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.training import FORMATS, training_rows
from demur.indexing.exact import exact_top, rescore


def picked(rows, scores, positives, positive_scores, wanted, query="q", **options):
    """What `mine_kind` takes for one query: (row, score) by rank."""
    texts = {
        f"p{r}": Document(id=f"p{r}", title="", text=" ".join(f"word{r}x{k}" for k in range(8)))
        for r in {*rows, *positives}
        if r >= 0
    }
    gold = tuple(Evidence.of(texts[f"p{r}"], Role.GOLD) for r in positives)
    sample = Sample(
        id=query, source="x", question="q", answers=AnswerSpec(accepted=(("none",),)), gold=gold
    )
    hits = [
        Hit(document=f"p{row}", score=float(score), rank=rank, index_id="i", mode="text->text")
        for rank, (row, score) in enumerate(zip(rows, scores, strict=True), 1)
        if row >= 0
    ]
    mined = mine_kind(
        "text",
        sample,
        hits,
        texts,
        MiningOptions(**options),
        limit=wanted,
        gold_score=min(positive_scores),
    )
    return [(int(e.id[1:]), e.score) for e in mined.negatives]


def rows_of(*given, **options):
    return [row for row, _ in picked(*given, **options)]


def test_ranks_count_after_removals():
    given = [4, 7, 1, 2, 9, -1], [0.9, 0.8, 0.7, 0.6, 0.5, -np.inf], [7], [0.8]
    assert rows_of(*given, 2, range_min=1) == [1, 2]
    assert rows_of(*given, 3, relative_margin=0.1) == [1, 2, 9]
    assert rows_of(*given, 3, absolute_margin=0.25) == [9]
    assert rows_of(*given, 3, max_score=0.75, min_score=0.55) == [1, 2]


def test_the_margin_is_from_the_lowest_positive():
    given = [1, 2, 3, 4], [0.9, 0.7, 0.5, 0.3], [1, 3], [0.9, 0.5]
    assert rows_of(*given, 2, absolute_margin=0.0) == [4]


@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 99))
def test_random_picks_depend_on_seed_and_query_alone(wanted, count, seed):
    picked = draw(count, wanted, seed, "q")
    assert picked == draw(count, wanted, seed, "q") == sorted(set(picked))
    assert len(picked) == min(wanted, count)
    assert all(0 <= place < count for place in picked)


def test_random_differs_by_query():
    assert len({tuple(draw(50, 3, 0, f"q{i}")) for i in range(20)}) > 10


def test_fewer_ranks_than_wanted_are_all_taken():
    assert rows_of(
        [1, 2, 3, 4, 5], [0.9, 0.8, 0.7, 0.6, 0.5], [9], [1.0], 5, range_min=1, range_max=3
    ) == [2, 3]


class _Model:
    """What `mine_hard_negatives` asks of a SentenceTransformer; a question lies between its positives."""

    def __init__(self, anchors, golds):
        import torch

        self.device = torch.device("cpu")
        self._encoder = StubEncoder(dims={"text": 12})
        self._golds = {}
        for anchor, gold in zip(anchors, golds, strict=True):
            self._golds.setdefault(anchor, []).append(gold)

    def get_embedding_dimension(self):
        return 12

    def encode_query(self, texts, **_):
        vectors = self._encoder.texts(texts, "text")
        for row, text in enumerate(texts):
            if text in self._golds:
                vectors[row] += 1.5 * self._encoder.texts(self._golds[text], "text").mean(axis=0)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    encode_document = encode_query

    def similarity(self, a, b):
        import torch

        return torch.as_tensor(a) @ torch.as_tensor(b).T

    def similarity_pairwise(self, a, b):
        import torch

        return (torch.as_tensor(a) * torch.as_tensor(b)).sum(-1)


GRID = [
    {},
    {"range_min": 2},
    {"range_max": 30, "num_negatives": 5},
    {"relative_margin": 0.05},
    {"absolute_margin": 0.1, "range_min": 1},
    {"absolute_margin": 0.0, "relative_margin": 0.3, "num_negatives": 2},
    {"max_score": 0.6, "min_score": 0.45},
    {"max_score": 0.55, "relative_margin": 0.01, "range_min": 3, "num_negatives": 4},
    {"min_score": 0.45, "num_negatives": 6},
    {"range_max": 400, "num_negatives": 350},
]


@pytest.fixture(scope="module")
def mined():
    """Their rows and ours for the same options: positives each, selection, format and the rest by their names."""
    from datasets import Dataset

    from demur.core.vision_ops import ensure_torchvision

    ensure_torchvision()
    from sentence_transformers.util import mine_hard_negatives

    def both(positives_each, options, format="labeled-list", **more):
        rng = np.random.default_rng(3)
        corpus = [f"passage {i}" for i in range(300)]
        anchors, golds = [], []
        for query in range(40):
            for gold in rng.choice(300, size=1 + query % positives_each, replace=False):
                anchors.append(f"question {query}")
                golds.append(corpus[gold])
        model = _Model(anchors, golds)
        pairs = {"anchor": anchors, "positive": golds}
        theirs = mine_hard_negatives(
            Dataset.from_dict(pairs),
            model,
            corpus=corpus,
            output_format=format,
            verbose=False,
            **options,
            **more,
        )
        given = {
            "sampling" if key == "sampling_strategy" else key: value
            for key, value in options.items()
        }
        wanted = given.pop("num_negatives", 3)
        vectors = model.encode_query(corpus)
        names = list(dict.fromkeys(anchors))
        queries = model.encode_query(names)
        positives = [
            [corpus.index(g) for a, g in zip(anchors, golds, strict=True) if a == name]
            for name in names
        ]
        most = max(map(len, positives))
        times = 10 if given.keys() & {"absolute_margin", "relative_margin", "max_score"} else 1
        last = given.setdefault(
            "range_max", given.get("range_min", 0) + wanted * times + most
        )  # as theirs
        found = exact_top(queries, vectors, min(300, last + most), largest_norm=1.0001)
        wide = [np.array(own, dtype=np.int64)[None] for own in positives]
        gold_scores = [
            rescore(queries[i : i + 1], vectors, own)[0].tolist() for i, own in enumerate(wide)
        ]
        ours = [
            picked(line.tolist(), scored.tolist(), own, own_scores, wanted, name, **given)
            for name, line, scored, own, own_scores in zip(
                names, found.rows, found.scores, positives, gold_scores, strict=True
            )
        ]
        rows = []
        for name, own, line in zip(names, positives, ours, strict=True):
            rows += training_rows(
                name, [corpus[r] for r in own], [corpus[r] for r, _ in line], format, wanted=wanted
            )
        return list(theirs), rows

    return both


def same_rows(theirs, ours):
    assert len(theirs) == len(ours) > 0
    for their, our in zip(theirs, ours, strict=True):
        assert our == their


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use_faiss", [False, True])
@pytest.mark.parametrize(
    "options", GRID, ids=lambda o: "-".join(f"{k}={v}" for k, v in o.items()) or "defaults"
)
@pytest.mark.parametrize("positives_each", [1, 3])
def test_rows_equal_those_of_sentence_transformers(mined, options, use_faiss, positives_each):
    same_rows(*mined(positives_each, options, use_faiss=use_faiss))


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "options",
    [{}, {"max_score": 0.5, "relative_margin": 0.2, "min_score": 0.3}],
    ids=["all", "few"],
)
def test_every_format_has_their_rows(mined, options, format):
    same_rows(*mined(3, options, format))


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [{"range_max": 20}, {"relative_margin": 0.05}, {"min_score": 0.2}, {"max_score": 0.4}],
)
def test_random_draws_are_from_their_candidates(mined, options, monkeypatch):
    """Their generator is Python's own, in the order of the queries; with our draws in its place the rows are equal."""
    seen = iter(range(40))
    drawn = []

    def sample(population, k):
        own = draw(len(population), k, 0, f"question {next(seen)}")
        drawn.append(len(population) > k)
        return own

    with monkeypatch.context() as patch:
        patch.setattr(
            random, "sample", sample
        )  # the module's; ours draws by a generator of its own
        theirs, ours = mined(3, {**options, "sampling_strategy": "random"})
    same_rows(theirs, ours)
    assert any(drawn), "there was something to choose from"
