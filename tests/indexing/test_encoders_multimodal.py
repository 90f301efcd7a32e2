"""Models of random weights that read images: CLIP through sentence-transformers, and one that fuses text and image."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
import tiny_encoders
from errors import raises
from PIL import Image

from demur.core.errors import DataError, UsageError
from demur.core.untrusted import trusting
from demur.indexing.encoders import Cutting, Fusing, Preparing, open_encoder
from demur.testing import check_encoder

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None, reason="needs pip install 'demur[clip]'"
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

RED, BLUE = (Image.new("RGB", (60, 40), colour) for colour in ("red", "blue"))


@pytest.fixture(scope="module", params=["clip", "fused"])
def model(request, tmp_path_factory):
    """(what it is, its folder)."""
    import torch

    torch.set_num_threads(1)
    folder = getattr(tiny_encoders, request.param)(tmp_path_factory.mktemp("m") / request.param)
    return request.param, folder


@pytest.fixture(scope="module")
def encoder(model):
    return open_encoder(f"sentence-transformers:{model[1]}")


def test_it_keeps_the_contract_and_serves_images(encoder):
    check_encoder(encoder)
    assert isinstance(encoder, Preparing)
    assert isinstance(encoder, Cutting)
    assert set(encoder.dims) == {"text", "look", "joint"}
    assert encoder.same_spaces == ("joint", "look", "text")
    assert encoder.similarity == "cosine"


def test_vectors_equal_bare_calls(model, encoder):
    from sentence_transformers import SentenceTransformer

    bare = SentenceTransformer(str(model[1]), device="cpu")
    for items, rows in (
        (["a red fox", "b"], encoder.texts(["a red fox", "b"], "joint")),
        ([RED, BLUE], encoder.images([RED, BLUE])),
    ):
        expected = bare.encode(items, normalize_embeddings=True, show_progress_bar=False)
        assert np.abs(rows - expected).max() < 1e-5


def test_a_text_and_an_image_are_one_where_the_model_reads_them_so(model, encoder):
    assert isinstance(encoder, Fusing)
    assert encoder.fuses == (model[0] == "fused")
    if not encoder.fuses:
        with raises(UsageError, item=encoder.name, cure="mode"):
            encoder.together(["x"], [RED])
        return
    rows = encoder.together(["what is it?", "what is it?", "who?"], [RED, BLUE, RED])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.abs(rows[0] - rows[1]).max() > 1e-4  # another image
    assert np.abs(rows[0] - rows[2]).max() > 1e-4  # another text
    with raises(DataError, item=encoder.name, cure="shorten"):
        encoder.together(["word " * 2000], [RED])
    alone = encoder.together(["who?"], [RED])
    assert np.abs(alone[0] - rows[2]).max() < 1e-4


def test_a_text_that_looks_like_an_address_is_a_text(encoder):
    """The library opens such a text as an image, from the disk or the network."""
    address = "http://127.0.0.1:9/secret.png"
    assert encoder.texts([address, "/etc/photo.jpg"]).shape == (2, encoder.dims["text"])


def test_texts_that_are_longer_than_the_context_are_cut_and_counted(model, encoder):
    """The tokenizer of the CLIP here states no length; its model has 77 positions."""
    longest = {"clip": 77, "fused": 1024}[model[0]]
    texts = ["word " * 2000, "a fox", "x" * (longest + 9)]
    assert np.isfinite(encoder.texts(texts)).all()
    count = [len(ids) for ids in encoder._model.tokenizer(texts, verbose=False)["input_ids"]]
    assert encoder.cut(texts) == sum(n > longest for n in count) >= 1


def test_an_image_without_breadth_is_a_fault_of_the_image(encoder):
    with raises(DataError, cure="crop"):
        encoder.prepared(Image.new("RGB", (2000, 3)))


def test_the_format_it_runs_in_is_no_part_of_what_it_is(model, encoder):
    """An index made on a card in bf16 is searched on a machine without."""
    half = open_encoder(f"sentence-transformers:{model[1]}?dtype=bf16&device=cpu")
    assert half.fingerprint() == encoder.fingerprint()
    assert half.name == f"sentence-transformers:{model[1]}?dtype=bf16"  # where it runs: nor that
    rows = half.texts(["a red fox", "the Danube"])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert 1e-5 < np.abs(rows - encoder.texts(["a red fox", "the Danube"])).max() < 0.1


def test_vectors_can_be_shortened(model, encoder):
    short = open_encoder(f"sentence-transformers:{model[1]}?truncate_dim=8")
    assert short.dims == dict.fromkeys(("text", "look", "joint"), 8)
    whole = encoder.images([RED])[0, :8]
    assert np.abs(short.images([RED])[0] - whole / np.linalg.norm(whole)).max() < 1e-5
    assert short.fingerprint() != encoder.fingerprint()


def test_a_card_that_is_not_there_is_named(model):
    with raises(UsageError, "cuda:99", item=model[1]):
        open_encoder(f"sentence-transformers:{model[1]}?device=cuda:99")
    with raises(UsageError, "'nonsense'", cure="bf16"):
        open_encoder(f"sentence-transformers:{model[1]}?dtype=nonsense")


@pytest.mark.parametrize("given", ["", "?trust_remote_code=yes&revision=abc", "--trust-code"])
def test_code_that_comes_with_weights_runs_by_consent_alone(given, tmp_path, monkeypatch):
    """A folder whose config names a class of its own: refused, and run only if the user says so."""
    folder = tiny_encoders.clip(tmp_path / "m")
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(
        "from transformers import CLIPConfig, CLIPModel\n"
        f"open({str(ran)!r}, 'w').close()\n"
        "class OwnConfig(CLIPConfig):\n    model_type = 'own'\n"
        "class OwnModel(CLIPModel):\n    config_class = OwnConfig\n"
    )
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "own"}
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    name = f"sentence-transformers:{folder}" + given.replace("--trust-code", "")
    if not given:
        with raises(DataError, item=folder, cure="trust_remote_code=yes"):
            open_encoder(name)
        assert not ran.exists()
        return
    with trusting(code=given == "--trust-code"):
        if given.startswith("?"):
            with pytest.warns(UserWarning, match=str(folder)):
                encoder = open_encoder(name)
            assert encoder.name == f"sentence-transformers:{folder}?revision=abc"
        else:
            encoder = open_encoder(name)
    assert ran.exists()
    assert encoder.runs_code
