"""Margins and limits of score compare dense scores, whatever way the hits were found."""

import json

import pytest
from errors import raises
from stub_encoder import StubEncoder

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Sample
from demur.core.store import Problems, read_records
from demur.curation.mining.mine import mine_samples
from demur.curation.mining.modes import choose_modes
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import Mining
from demur.indexing.build import build_index
from demur.indexing.options import IndexOptions
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher

ENCODER = ["--encoder", "curation_world:quick"]


def dense(searcher, question, id):
    """The cosine of a question and a document's vector."""
    (hits,) = searcher.rerank([Query(question)], [[id]], 1)
    return hits[0].score


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["fused", "lexical"])
def test_limits_hold_for_dense_scores_in_the_order_of_the_search(
    mode, pool, index, tmp_path, capsys
):
    def mined(name, *words, limits=""):
        given = [
            "mine",
            str(pool.root),
            "--index",
            str(index),
            "--out",
            str(tmp_path / name),
            *ENCODER,
        ]
        options = tmp_path / f"{name}.yaml"
        options.write_text(f"range_max: 40\n{limits}")
        wanted = [
            "--modes",
            mode,
            "--visual",
            "0",
            "--negatives",
            "mined",
            "--options",
            str(options),
            *words,
        ]
        assert main([*given, *wanted]) == 0
        capsys.readouterr()
        samples = read_records(tmp_path / name / "samples.jsonl", Sample, Problems())
        return {s.id: s for s in samples if not s.images}

    free = mined("free", "--text", "40")
    held = mined(
        "held",
        "--text",
        "40",
        "--absolute-margin",
        "0.05",
        limits="max_score: 0.3\nmin_score: -0.1\n",
    )
    assert max(e.score for s in held.values() for e in s.negatives) > 0.1, (
        "no reciprocal rank is that high"
    )
    searcher = Searcher(index, StubEncoder())
    drops = [
        json.loads(line) for line in (tmp_path / "held" / "drops.jsonl").read_text().splitlines()
    ]
    told = {
        (d["sample"], d["evidence"]): float(d["detail"])
        for d in drops
        if d["reason"].startswith("scores too")
    }
    assert told
    for id, sample in held.items():
        for evidence in sample.negatives:
            assert evidence.mode == mode
            assert evidence.score == pytest.approx(
                dense(searcher, sample.question, evidence.id), abs=1e-6
            )
        gold = dense(searcher, sample.question, sample.gold[0].id)
        scores = {e.id: dense(searcher, sample.question, e.id) for e in free[id].negatives}
        # `free` and `held` differ by what the limits say and by nothing else: the same ranks in the same order
        right = [
            (e.id, e.rank)
            for e in free[id].negatives
            if -0.1 <= scores[e.id] <= min(0.3, gold - 0.05)
        ]
        assert [(e.id, e.rank) for e in sample.negatives][: len(right)] == right


def test_limits_without_vectors_of_passages_are_refused_before_anything_is_asked(pool, tmp_path):
    words_only = StubEncoder(dims={"joint": 16, "look": 8})
    build_index(
        pool.full_pool.documents(),
        words_only,
        tmp_path / "index",
        IndexOptions(image_root=pool.root),
    )
    searcher = Searcher(tmp_path / "index", words_only)
    assert "lexical" in searcher.modes
    plan = MiningOptions(modes=("lexical",), max_score=0.6)
    for ask in (
        lambda: choose_modes(unread(), Mining(searcher, pool.root, plan)),
        lambda: next(mine_samples(unread(), Mining(searcher, pool.root, plan), None)),
    ):
        with raises(UsageError, "vectors of passages"):
            ask()
    free = MiningOptions(modes=("lexical",))
    questions = [s for s in pool.samples if not s.images]
    assert choose_modes(questions, Mining(searcher, pool.root, free)).choices
    images = MiningOptions(modes=("lexical",), text=0, max_score=0.6)
    assert choose_modes(questions, Mining(searcher, pool.root, images)).choices


def unread():
    """Samples that nobody may ask for."""
    raise AssertionError("a sample was read")
    yield
