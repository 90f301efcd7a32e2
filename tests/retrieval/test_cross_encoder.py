"""A cross-encoder orders passages and leaves out what it takes for an answer; no name in a file lets its code run."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiny_encoders
import tiny_models
from curation_world import folder, quick
from errors import raises

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.progress import QUIET
from demur.core.records import Sample
from demur.core.store import Problems, read_records
from demur.curation.build.distractors import mine_pool
from demur.curation.build.knowledge_bases import align_gold, open_bases
from demur.curation.build.recipe import parse_recipe
from demur.retrieval.cross_encoder import CrossEncoder

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None, reason="needs pip install 'demur[clip]'"
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    return tiny_encoders.cross_encoder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """(source, its index)."""
    root = tmp_path_factory.mktemp("world")
    towns = f"generic:{folder(root / 'towns', n=8)}"
    words = ["--encoder", "curation_world:quick", "--out", str(root / "index")]
    assert main(["index", "build", towns, *words]) == 0
    return towns, root / "index"


def mine(world: tuple[str, Path], out: Path, *words: str) -> tuple[list[dict], list[dict]]:
    """(samples, drops)."""
    towns, index = world
    chosen = ["--encoder", "curation_world:quick", "--text", "3", "--lexical", "2", "--visual", "0"]
    assert main(["mine", towns, "--index", str(index), "--out", str(out), *chosen, *words]) == 0
    return tuple(
        [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]
        for name in ("samples", "drops")
    )


def test_scores_are_the_librarys_in_few_calls(model, monkeypatch):
    from sentence_transformers import CrossEncoder as Model

    pairs = [("Who?", f"passage {'x ' * n}") for n in range(70)]
    ours = CrossEncoder(str(model))
    sizes = []
    real = ours._predict
    monkeypatch.setattr(ours, "_predict", lambda block: sizes.append(len(block)) or real(block))
    expected = Model(str(model), device="cpu").predict(pairs, show_progress_bar=False)
    assert ours.scores(pairs) == pytest.approx(expected.tolist(), abs=2e-5)
    assert sizes == [32, 32, 6]
    assert ours.scores([]) == []


def test_passages_are_ordered_by_it(model, world, tmp_path):
    plain, _ = mine(world, tmp_path / "plain")
    samples, _ = mine(world, tmp_path / "reranked", "--cross-encoder", str(model))
    judge = CrossEncoder(str(model))
    orders = []
    for sample, before in zip(samples, plain, strict=True):
        for kind in ("text->text", "lexical"):
            taken = [e for e in sample["negatives"] if kind in e["mode"] and e["rank"]]
            scores = [e["score"] for e in taken]
            assert scores == sorted(scores, reverse=True)
            assert all(e["mode"].endswith(" reranked") for e in taken)
            texts = [f"{e['title']}\n{e['text']}" for e in taken]
            pairs = [(sample["question"], text) for text in texts]
            assert scores == pytest.approx(judge.scores(pairs), abs=2e-5)
        orders.append(
            [e["id"] for e in sample["negatives"]] != [e["id"] for e in before["negatives"]]
        )
    assert any(orders)


def test_what_scores_above_the_limit_is_no_distractor_of_any_kind(model, world, tmp_path):
    samples, _ = mine(world, tmp_path / "all", "--cross-encoder", str(model))
    scores = sorted(e["score"] for s in samples for e in s["negatives"])
    limit = scores[len(scores) // 2]
    words = ["--cross-encoder", str(model), "--max-score", str(limit)]
    kept, drops = mine(world, tmp_path / "limited", *words)
    assert max(e["score"] for s in kept for e in s["negatives"]) <= limit
    assert {drop["reason"] for drop in drops} >= {"scores too high"}
    kinds = {"lexical" in e["mode"] for s in kept for e in s["negatives"]}
    assert kinds == {True, False}


def test_a_margin_is_measured_from_its_score_of_gold(model, world, tmp_path):
    words = ["--cross-encoder", str(model), "--absolute-margin", "0"]
    samples, _ = mine(world, tmp_path / "margin", *words)
    judge = CrossEncoder(str(model))
    for sample in samples:
        golds = [f"{e['title']}\n{e['text']}" for e in sample["gold"] if e.get("text")]
        bar = min(judge.scores([(sample["question"], text) for text in golds]))
        assert all(e["score"] <= bar + 2e-5 for e in sample["negatives"])


def test_a_recipe_ranks_again_as_the_command_does(model, towns, pool, index, tmp_path):
    quotas = {"text": 3, "lexical": 2, "visual": 2}
    ways = {"encoder": "curation_world:quick", "index": "index", "cross_encoder": str(model)}
    plan = parse_recipe(
        {
            "name": "x",
            "seed": 7,
            "sources": [{"name": "generic", "path": str(towns)}],
            "gates": [{"system": "prior"}],
            "retrieval": {**quotas, **ways, "negatives": "mined", "max_score": 0.55},
        }
    )
    own = pool._replace(specs={name: plan.sources[0] for name in pool.specs})
    bases = open_bases(plan, own, base=index.parent, encoder=quick())
    own = align_gold(own, bases)
    by_recipe = mine_pool(plan, own, own.samples, bases, QUIET)[1]
    words = [str(pool.root), "--index", str(index), "--out", str(tmp_path), "--negatives", "mined"]
    words += [word for name, n in quotas.items() for word in (f"--{name}", str(n))]
    words += ["--encoder", "curation_world:quick", "--max-score", "0.55"]
    assert main(["mine", *words, "--cross-encoder", str(model)]) == 0
    by_command = read_records(tmp_path / "samples.jsonl", Sample, Problems())
    rows = {s.id: [(e.id, e.mode, e.rank, e.score) for e in s.negatives] for s in by_command}
    assert rows == {
        id: [(e.id, e.mode, e.rank, e.score) for e in s.negatives] for id, s in by_recipe.items()
    }
    assert any(mode.endswith("reranked") for row in rows.values() for _, mode, _, _ in row)


def test_consent_to_code_is_no_option_of_a_name(model, world, tmp_path, capsys):
    with raises(UsageError, "'trust_remote_code'", cure="revision"):
        CrossEncoder(f"{model}?trust_remote_code=yes")
    (tmp_path / "o.yaml").write_text(f"cross_encoder: {model}?trust_remote_code=yes\n")
    towns, index = world
    words = ["--encoder", "curation_world:quick", "--options", str(tmp_path / "o.yaml")]
    assert main(["mine", towns, "--index", str(index), "--out", str(tmp_path / "x"), *words]) == 2
    assert "'trust_remote_code'" in capsys.readouterr().err


def test_a_model_without_a_head_for_scores_is_refused(tmp_path):
    transformers = tiny_models.seeded(images=False)
    tiny_models.text_model(tmp_path)
    config = transformers.Qwen2Config.from_pretrained(tmp_path)
    transformers.Qwen2Model(config).save_pretrained(tmp_path)
    with raises(UsageError, item=tmp_path, cure="checkpoint"):  # the head would be random
        CrossEncoder(str(tmp_path))
