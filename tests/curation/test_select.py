import hashlib
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_encoder import StubEncoder

from demur.curation.select import Selection, hard_negatives
from demur.curation.training import FORMATS, Scored, training_rows
from demur.errors import UsageError
from demur.indexing.exact import exact_top, rescore


def test_ranks_count_after_removals():
    rows = np.array([[4, 7, 1, 2, 9, -1]])
    scores = np.array([[0.9, 0.8, 0.7, 0.6, 0.5, -np.inf]], np.float32)
    picked = hard_negatives(rows, scores, [[7]], [[0.8]], Selection(2, range_min=1), most_positives=1)
    assert picked.rows.tolist() == [[1, 2]]
    picked = hard_negatives(rows, scores, [[7]], [[0.8]], Selection(3, relative_margin=0.1), most_positives=1)
    assert picked.rows.tolist() == [[1, 2, 9]]
    picked = hard_negatives(rows, scores, [[7]], [[0.8]], Selection(3, absolute_margin=0.25), most_positives=1)
    assert picked.rows.tolist() == [[9, -1, -1]]
    assert picked.scores[0, 1] == -np.inf
    limits = Selection(3, max_score=0.75, min_score=0.55)
    assert hard_negatives(rows, scores, [[7]], [[0.8]], limits, most_positives=1).rows.tolist() == [[1, 2, -1]]


def test_the_margin_is_from_the_lowest_positive():
    rows, scores = np.array([[1, 2, 3, 4]]), np.array([[0.9, 0.7, 0.5, 0.3]], np.float32)
    selection = Selection(2, absolute_margin=0.0)
    assert hard_negatives(rows, scores, [[1, 3]], [[0.9, 0.5]], selection, most_positives=2).rows.tolist() == [[4, -1]]


@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 99))
def test_random_picks_depend_on_seed_and_query_alone(wanted, count, seed):
    selection = Selection(wanted, sampling="random", seed=seed)
    picked = selection.pick(count, "q")
    assert picked == selection.pick(count, "q") == sorted(set(picked))
    assert len(picked) == min(wanted, count)
    assert all(0 <= place < count for place in picked)


def test_random_differs_by_query():
    selection = Selection(3, sampling="random")
    assert len({tuple(selection.pick(50, f"q{i}")) for i in range(20)}) > 10


def test_blocks_do_not_matter():
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.random((40, 20), dtype=np.float32), axis=1)
    rows = np.stack([rng.permutation(100)[:20] for _ in range(40)])
    positives = [[int(r[3])] for r in rows]
    selection = Selection(4, relative_margin=0.1, sampling="random")
    names = [f"q{i}" for i in range(40)]
    given = (rows, scores, positives, [[0.9]] * 40)
    whole = hard_negatives(*given, selection, most_positives=1, queries=names)
    for i in range(40):
        part = [part[i : i + 1] for part in given]
        one = hard_negatives(*part, selection, most_positives=1, queries=names[i : i + 1])
        assert one.rows.tolist() == whole.rows[i : i + 1].tolist()


@pytest.mark.parametrize(
    "options",
    [{"num_negatives": 0}, {"range_min": -1}, {"num_negatives": 5, "range_max": 4}, {"sampling": "best"}],
)
def test_impossible_selections(options):
    with pytest.raises(UsageError):
        Selection(**options)


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


class _CrossEncoder:
    """Scores of its own for each pair, 0 to 1."""

    @staticmethod
    def score(anchor, passage):
        return int(hashlib.sha256(f"{anchor}|{passage}".encode()).hexdigest()[:6], 16) / 16**6

    def predict(self, pairs, **_):
        import torch

        return torch.tensor([self.score(*pair) for pair in pairs])


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

    from demur.vision_ops import ensure_torchvision

    ensure_torchvision()
    from sentence_transformers.util import mine_hard_negatives

    def both(positives_each, options, format="labeled-list", scores=True, columns=None, **more):
        rng = np.random.default_rng(3)
        corpus = [f"passage {i}" for i in range(300)]
        anchors, golds = [], []
        for query in range(40):
            for gold in rng.choice(300, size=1 + query % positives_each, replace=False):
                anchors.append(f"question {query}")
                golds.append(corpus[gold])
        model = _Model(anchors, golds)
        first, second = columns or ("anchor", "positive")
        pairs = {"unused": ["x"] * len(anchors), second: golds, first: anchors} if columns else {
            first: anchors, second: golds}  # fmt: skip
        named = {"anchor_column_name": first, "positive_column_name": second} if columns else {}
        theirs = mine_hard_negatives(
            Dataset.from_dict(pairs), model, corpus=corpus, output_format=format, output_scores=scores,
            verbose=False, **named, **options, **more,
        )  # fmt: skip
        given = {"sampling" if key == "sampling_strategy" else key: value for key, value in options.items()}
        selection = Selection(**given)
        rescored = "cross_encoder" in more and (selection.by_margin or {"max_score", "min_score"} & set(options))
        vectors = model.encode_query(corpus)
        names = list(dict.fromkeys(anchors))
        queries = model.encode_query(names)
        positives = [[corpus.index(g) for a, g in zip(anchors, golds, strict=True) if a == name] for name in names]
        most = max(map(len, positives))
        depth = selection.depth(most, rescored="cross_encoder" in more)
        found = exact_top(queries, vectors, min(300, depth), largest_norm=1.0001)
        wide = [np.array(own, dtype=np.int64)[None] for own in positives]
        gold_scores = [rescore(queries[i : i + 1], vectors, own)[0].tolist() for i, own in enumerate(wide)]
        by_search = found.scores
        if rescored:
            by_search = np.array(
                [[_CrossEncoder.score(n, corpus[r]) for r in line] for n, line in zip(names, found.rows, strict=True)],
                dtype=np.float32,
            )
            gold_scores = [
                [_CrossEncoder.score(n, corpus[r]) for r in own] for n, own in zip(names, positives, strict=True)
            ]
        ours = hard_negatives(
            found.rows, by_search, [[]] * 40 if more.get("include_positives") else positives, gold_scores, selection,
            most_positives=most, queries=names, rescored="cross_encoder" in more,
        )  # fmt: skip
        rows = []
        for name, own, own_scores, line, line_scores in zip(
            names, positives, gold_scores, ours.rows, ours.scores, strict=True
        ):
            rows += training_rows(
                name,
                [Scored(corpus[r], s) for r, s in zip(own, own_scores, strict=True)],
                [Scored(corpus[r], float(s)) for r, s in zip(line, line_scores, strict=True) if r >= 0],
                format, wanted=selection.num_negatives, scores=scores, columns=(first, second),
            )  # fmt: skip
        return list(theirs), rows

    return both


def same_rows(theirs, ours):
    assert len(theirs) == len(ours) > 0
    for their, our in zip(theirs, ours, strict=True):
        assert set(their) == set(our)
        for key, value in their.items():
            assert our[key] == (pytest.approx(value, abs=1e-5) if key in ("score", "scores") else value), key


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use_faiss", [False, True])
@pytest.mark.parametrize("options", GRID, ids=lambda o: "-".join(f"{k}={v}" for k, v in o.items()) or "defaults")
@pytest.mark.parametrize("positives_each", [1, 3])
def test_rows_equal_those_of_sentence_transformers(mined, options, use_faiss, positives_each):
    same_rows(*mined(positives_each, options, use_faiss=use_faiss))


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "options", [{}, {"max_score": 0.5, "relative_margin": 0.2, "min_score": 0.3}], ids=["all", "few"]
)
def test_every_format_has_their_rows(mined, options, format, scores):
    same_rows(*mined(3, options, format, scores))
    same_rows(*mined(3, options, format, scores, columns=("question", "answer")))


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"range_min": 1}, {"max_score": 0.7}, {"relative_margin": 0.1}])
def test_positives_among_the_candidates(mined, options):
    theirs, ours = mined(3, options, "n-tuple", include_positives=True)  # they know no other format then
    same_rows(theirs, ours)
    if not options:
        assert any(row["positive"] in (row["negative_1"], row["negative_2"], row["negative_3"]) for row in ours)


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"relative_margin": 0.05},
        {"absolute_margin": 0.2, "range_min": 1},
        {"max_score": 0.8},
        {"min_score": 0.3, "num_negatives": 4},
    ],
)
def test_scores_of_a_cross_encoder(mined, options):
    same_rows(*mined(3, options, cross_encoder=_CrossEncoder()))


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options", [{"range_max": 20}, {"relative_margin": 0.05}, {"min_score": 0.2}, {"max_score": 0.4}]
)
def test_random_draws_are_from_their_candidates(mined, options, monkeypatch):
    """Their generator is Python's own, in the order of the queries; with our draws in its place the rows are equal."""
    seen = iter(range(40))
    drawn = []

    def sample(population, k):
        own = Selection(k, sampling="random").pick(len(population), f"question {next(seen)}")
        drawn.append(len(population) > k)
        return own

    with monkeypatch.context() as patch:
        patch.setattr(random, "sample", sample)  # the module's; ours draws by a generator of its own
        theirs, ours = mined(3, {**options, "sampling_strategy": "random"})
    same_rows(theirs, ours)
    assert any(drawn), "there was something to choose from"
