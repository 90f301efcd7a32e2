"""The remote-code encoder on a tiny local repository that carries its own model code."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from errors import raises
from PIL import Image

from demur.core.errors import DataError, MissingExtra, UsageError
from demur.core.untrusted import trusting
from demur.indexing.encoders import Encoder, Preparing, open_encoder

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(find_spec("transformers") is None, reason="needs pip install 'demur[clip]'"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning"
    ),  # of packages that transformers imports
]

CONFIGURATION = """
from transformers import PretrainedConfig


class VisionConfig(PretrainedConfig):
    model_type = "tiny_evaclip_vision"

    def __init__(self, image_size=16, **kwargs):
        self.image_size = image_size
        super().__init__(**kwargs)


class TinyConfig(PretrainedConfig):
    model_type = "tiny_evaclip"
    sub_configs = {"vision_config": VisionConfig}

    def __init__(self, vision_config=None, width=24, vocab_size=600, **kwargs):
        vision_config = vision_config or {}
        self.vision_config = VisionConfig(**vision_config) if isinstance(vision_config, dict) else vision_config
        self.width, self.vocab_size = width, vocab_size
        super().__init__(**kwargs)
"""
MODELING = """
import torch
from transformers import PreTrainedModel

from .configuration_tiny import TinyConfig


class TinyModel(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        side = config.vision_config.image_size
        self.visual = torch.nn.Linear(3 * side * side, config.width)
        self.words = torch.nn.Embedding(config.vocab_size, config.width)
        self.post_init()

    def _init_weights(self, module):
        if hasattr(module, "weight"):
            module.weight.data.normal_(0, 0.5)

    def encode_image(self, pixels):
        return self.visual(pixels.flatten(1))

    def encode_text(self, ids):
        ends = ids.argmax(dim=-1)
        rows = self.words(ids)
        return torch.stack([row[: end + 1].mean(0) for row, end in zip(rows, ends)])
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A folder as the hub would hold it: config, code, weights, tokenizer."""
    from demur.core.vision_ops import ensure_torchvision

    ensure_torchvision()
    import torch
    from safetensors.torch import save_file
    from transformers import dynamic_module_utils

    torch.set_num_threads(1)
    # Code of repositories is copied into a cache of modules: one of this test's own.
    dynamic_module_utils.HF_MODULES_CACHE = str(tmp_path_factory.mktemp("modules"))
    folder = tmp_path_factory.mktemp("hub") / "tiny"
    folder.mkdir()
    (folder / "configuration_tiny.py").write_text(CONFIGURATION)
    (folder / "modeling_tiny.py").write_text(MODELING)
    config = {
        "model_type": "tiny_evaclip",
        "architectures": ["TinyModel"],
        "auto_map": {
            "AutoConfig": "configuration_tiny.TinyConfig",
            "AutoModel": "modeling_tiny.TinyModel",
        },
        "vision_config": {"image_size": 16},
        "width": 24,
        "vocab_size": 600,
    }
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(0)

    def values(*shape):
        return torch.randn(*shape, generator=generator) / 4

    state = {
        "visual.weight": values(24, 768),
        "visual.bias": values(24),
        "words.weight": values(600, 24),
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    letters = [chr(c) for c in range(33, 127)] + [chr(c) for c in range(161, 323)]
    words = [*letters, *(f"{c}</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({w: n for n, w in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder


def opened(repository: Path, more: str = "", **options):
    with pytest.warns(UserWarning, match=str(repository)):
        return open_encoder(f"evaclip:{repository}?trust_remote_code=yes{more}", **options)


def picture(size=(30, 20), seed=0) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    )


def test_nothing_is_run_unless_it_is_asked_for(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"auto_map": {"AutoConfig": "configuration.Config"}, "model_type": "x"})
    )
    (tmp_path / "configuration.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for text in (
        f"evaclip:{tmp_path}",
        f"evaclip:{tmp_path}?trust_remote_code=no",
        "evaclip:BAAI/EVA-CLIP-8B",
    ):
        with raises(UsageError, cure="trust_remote_code=yes&revision=COMMIT"):
            open_encoder(text)
    assert not (tmp_path / "ran").exists()


def test_consent_is_not_part_of_the_name(repository):
    """Else the manifest of an index from elsewhere could give it."""
    encoder = opened(repository, "&batch=2")
    assert encoder.name == f"evaclip:{repository}?batch=2"
    with pytest.raises(UsageError, match="--trust-code"):
        open_encoder(encoder.name)
    with trusting(code=True), pytest.warns(UserWarning, match=str(repository)):
        assert open_encoder(encoder.name).fingerprint() == encoder.fingerprint()


def test_what_is_run_is_warned_about(repository):
    with pytest.warns(UserWarning, match=f" {repository}$"):
        open_encoder(f"evaclip:{repository}?trust_remote_code=yes")


def test_vectors_are_those_of_the_repositorys_code(repository):
    import torch
    from safetensors.torch import load_file

    encoder = opened(repository)
    assert isinstance(encoder, Encoder)
    assert isinstance(encoder, Preparing)
    assert encoder.dims == {"joint": 24, "text": 24, "look": 24}
    state = load_file(repository / "model.safetensors")
    pictures = [picture(), picture((16, 16), 1), picture((9, 40), 2)]
    pixels = torch.from_numpy(np.stack([encoder.prepared(p) for p in pictures]))
    raw = pixels.flatten(1) @ state["visual.weight"].T + state["visual.bias"]
    expected = torch.nn.functional.normalize(raw, dim=-1).numpy()
    assert np.abs(encoder.images(pictures) - expected).max() < 1e-5
    texts = ["a dog", "", "a very long text " * 50]
    rows = encoder.texts(texts)
    assert rows.shape == (3, 24)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.abs(encoder.texts(texts[::-1])[::-1] - rows).max() < 1e-6
    assert np.abs(rows[0] - rows[1]).max() > 0.01


def test_its_preprocessing_is_clips(repository):
    from transformers import CLIPImageProcessor

    encoder = opened(repository)
    processor = CLIPImageProcessor(
        size={"shortest_edge": 16},
        crop_size={"height": 16, "width": 16},
        image_mean=list(MEAN),
        image_std=list(STD),
    )
    for size in ((16, 16), (30, 20), (17, 40), (50, 50)):
        ours = encoder.prepared(picture(size))
        theirs = np.asarray(processor(picture(size), return_tensors="np")["pixel_values"][0])
        # The library resizes tensors where it can, which rounds otherwise: one grey level is 1/255/std = 0.015.
        assert np.abs(ours - theirs).mean() < 0.03


@pytest.mark.parametrize("size", [(1_000_000, 1), (1, 1_000_000)])
def test_an_image_that_would_grow_beyond_all_bounds_is_refused(repository, size):
    with raises(DataError, f"{size[0]}x{size[1]}", item="image"):
        opened(repository).prepared(Image.new("RGB", size))


MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def test_fingerprints_follow_weights_and_code(repository, tmp_path):
    import shutil

    first = opened(repository).fingerprint()
    assert opened(repository, "&batch=2").fingerprint() == first
    assert opened(repository, "&precision=fp16").fingerprint() == first
    changed = tmp_path / "changed"
    shutil.copytree(repository, changed)
    (changed / "modeling_tiny.py").write_text(MODELING.replace("flatten(1))", "flatten(1)) * 2"))
    assert opened(changed).fingerprint() != first


def test_random_weights_are_refused(repository, tmp_path):
    import shutil

    from safetensors.torch import load_file, save_file

    lacking = tmp_path / "lacking"
    shutil.copytree(repository, lacking)
    state = load_file(repository / "model.safetensors")
    save_file(
        {"words.weight": state["words.weight"]},
        lacking / "model.safetensors",
        metadata={"format": "pt"},
    )
    with (
        pytest.warns(UserWarning, match="running"),
        raises(UsageError, " 2 "),
    ):
        open_encoder(f"evaclip:{lacking}?trust_remote_code=yes")
    assert "RANDOM" in opened(lacking, allow_random=True).note


@pytest.mark.parametrize(
    ("argument", "kind", "why"),
    [
        ("", UsageError, "evaclip:BAAI/"),
        (
            "no-one/nothing?trust_remote_code=yes",
            UsageError,
            "network",
        ),
        ("x?trust_remote_code=yes&batch=0", UsageError, "batch='0'"),
        ("x?trust_remote_code=yes&precision=int8", UsageError, "precision='int8'"),
        ("x?trust=yes", UsageError, "'trust'"),
    ],
)
@pytest.mark.filterwarnings("ignore:running Python code")
def test_what_cannot_be_opened_says_why_and_what_to_do(argument, kind, why):
    with pytest.raises(kind, match=why):
        open_encoder(f"evaclip:{argument}")


@pytest.mark.filterwarnings("ignore:running Python code")
def test_code_that_does_not_run_or_is_of_something_else_is_named(repository, tmp_path):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(repository, broken)
    (broken / "modeling_tiny.py").write_text("from transformers import gone_since_version_4\n")
    with raises(DataError, "transformers", cure="transformers<5"):
        open_encoder(f"evaclip:{broken}?trust_remote_code=yes")
    other = tmp_path / "other"
    shutil.copytree(repository, other)
    (other / "modeling_tiny.py").write_text(
        MODELING.replace("def encode_text", "def something_else")
    )
    with pytest.raises(DataError, match="no encode_image and encode_text"):
        open_encoder(f"evaclip:{other}?trust_remote_code=yes")


@pytest.mark.filterwarnings("ignore:running Python code")
def test_missing_packages_name_the_extra_that_brings_them(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with raises(MissingExtra, "transformers", cure="demur[clip]"):
        open_encoder(f"evaclip:{tmp_path}?trust_remote_code=yes")


@pytest.mark.filterwarnings("ignore:running Python code")
def test_texts_beyond_the_context_are_counted(repository):
    encoder = opened(repository)
    texts = ["a", "a " * 400]
    assert [encoder.cut([text]) for text in texts] == [0, 1]
    assert encoder.cut(texts) == 1
