"""The open_clip encoder on a tiny EVA02-style model, beside bare calls of open_clip."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tiny_clip
from errors import raises
from PIL import Image

from demur.core.errors import DataError, MissingExtra, UnknownPart, UsageError
from demur.indexing.embed import Item, embed
from demur.indexing.encoders import Encoder, Preparing, open_encoder
from demur.testing import check_encoder

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(find_spec("open_clip") is None, reason="needs pip install 'demur[clip]'"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of packages that open_clip imports
]
TEXTS = ["a photo of a dog", "", "Zürich 東京 3.5 km", "very long " * 100]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import torch

    torch.set_num_threads(1)  # threads that wait by spinning are slower than none on a busy machine
    return tiny_clip.make(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def encoder(folder):
    return open_encoder(f"open_clip:tiny-eva02/{folder}/weights.pt")


def pictures(count: int = 5) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    sizes = [(32, 32), (50, 40), (33, 90), (200, 31), (1, 1)]
    return [
        Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in sizes[:count]
    ]


def test_it_keeps_the_contract_of_encoders(encoder):
    check_encoder(encoder)


def test_vectors_equal_bare_calls(encoder, folder):
    import open_clip
    import torch

    model, _, preprocess = open_clip.create_model_and_transforms(
        "tiny-eva02", pretrained=str(folder / "weights.pt")
    )
    model.eval()
    with torch.inference_mode():
        texts = model.encode_text(
            open_clip.get_tokenizer("tiny-eva02")(TEXTS), normalize=True
        ).numpy()
        images = model.encode_image(
            torch.stack([preprocess(p) for p in pictures()]), normalize=True
        ).numpy()
    assert np.abs(encoder.texts(TEXTS) - texts).max() < 1e-6
    assert np.abs(encoder.images(pictures()) - images).max() < 1e-6
    assert np.abs(texts[0] - texts[2]).max() > 0.01  # the model tells them apart
    assert np.abs(images[0] - images[1]).max() > 0.001


def test_what_goes_through_the_pipeline_is_the_same(encoder, tmp_path):
    import io

    def png(picture: Image.Image) -> bytes:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        return buffer.getvalue()

    made = embed(
        (Item(str(i), image=png(p)) for i, p in enumerate(pictures())),
        encoder,
        "look",
        tmp_path / "i",
        progress=False,
    )
    assert np.abs(made.vectors - encoder.images(pictures())).max() < 1e-6
    made = embed(
        [Item(str(i), t) for i, t in enumerate(TEXTS) if t],
        encoder,
        "joint",
        tmp_path / "t",
        progress=False,
    )
    assert np.abs(made.vectors - encoder.texts([t for t in TEXTS if t])).max() < 1e-6
    assert made.manifest["fingerprint"] == encoder.fingerprint()


@pytest.mark.parametrize("size", [(1_000_000, 1), (1, 1_000_000)])
def test_an_image_that_would_grow_beyond_all_bounds_is_refused(encoder, size):
    with raises(DataError, f"{size[0]}x{size[1]}", item="image"):
        encoder.prepared(Image.new("RGB", size))


def test_weights_from_any_kind_of_file_are_the_same_encoder(encoder, folder):
    for text in (
        f"open_clip:tiny-eva02/{folder}/weights.safetensors",
        f"open_clip:local-dir:{folder}/whole",
    ):
        other = open_encoder(text)
        assert other.name == text
        assert np.array_equal(other.texts(TEXTS), encoder.texts(TEXTS))
        assert np.array_equal(other.images(pictures()), encoder.images(pictures()))
        assert other.fingerprint() == encoder.fingerprint()


def test_other_weights_are_another_encoder(encoder, tmp_path):
    other = open_encoder(f"open_clip:tiny-eva02/{tiny_clip.make(tmp_path, seed=1)}/weights.pt")
    assert other.fingerprint() != encoder.fingerprint()
    assert not np.allclose(other.texts(TEXTS), encoder.texts(TEXTS), atol=1e-3)


def test_other_preprocessing_is_another_encoder(folder, encoder, tmp_path):
    import shutil

    shutil.copytree(folder / "whole", tmp_path / "w")
    config = json.loads((tmp_path / "w" / "open_clip_config.json").read_text())
    config["preprocess_cfg"]["mean"] = [0.5, 0.5, 0.5]
    (tmp_path / "w" / "open_clip_config.json").write_text(json.dumps(config))
    assert open_encoder(f"open_clip:local-dir:{tmp_path}/w").fingerprint() != encoder.fingerprint()


def test_half_precision_is_the_same_encoder_to_about_three_digits(encoder, folder):
    half = open_encoder(f"open_clip:tiny-eva02/{folder}/weights.pt?precision=bf16")
    assert half.fingerprint() != encoder.fingerprint()
    assert "bf16" in half.note
    assert (half.texts(TEXTS) * encoder.texts(TEXTS)).sum(axis=1).min() > 0.99
    assert half.texts(TEXTS).dtype == np.float32
    fp16 = open_encoder(f"open_clip:tiny-eva02/{folder}/weights.pt?precision=fp16")
    assert fp16.fingerprint() == encoder.fingerprint()


def test_it_says_what_it_is(encoder, folder):
    assert isinstance(encoder, Encoder)
    assert isinstance(encoder, Preparing)
    assert encoder.dims == {"joint": 48, "text": 48, "look": 48}
    assert encoder.similarity == "cosine"
    assert "tiny-eva02" in encoder.note
    assert encoder.texts([]).shape == encoder.images([]).shape == (0, 48)
    assert np.allclose(np.linalg.norm(encoder.texts(TEXTS), axis=1), 1, atol=1e-6)
    with raises(UsageError, "'text'", cure="joint"):
        encoder.images(pictures(1), "text")


def test_batches_do_not_change_vectors(folder, encoder):
    small = open_encoder(f"open_clip:tiny-eva02/{folder}/weights.pt?batch=2")
    assert small.batch == 2
    assert np.abs(small.images(pictures()) - encoder.images(pictures())).max() < 1e-6
    assert np.abs(small.texts(TEXTS) - encoder.texts(TEXTS)).max() < 1e-6


def test_a_batch_that_does_not_fit_is_halved_and_remembered(folder, encoder, monkeypatch):
    import torch

    tight = open_encoder(f"open_clip:tiny-eva02/{folder}/weights.pt?batch=16")
    real, sizes = tight._model.encode_image, []

    def encode(pixels):
        sizes.append(len(pixels))
        if len(pixels) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return real(pixels)

    monkeypatch.setattr(tight._model, "encode_image", encode)
    many = pictures() * 4
    assert np.abs(tight.images(many) - np.tile(encoder.images(pictures()), (4, 1))).max() < 1e-6
    assert sizes[:4] == [16, 8, 4, 2]
    assert set(sizes[3:]) == {2}
    assert tight.batch == 2

    def never(pixels):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(tight._model, "encode_image", never)
    with raises(UsageError, cure="CUDA_VISIBLE_DEVICES"):
        tight.images(many)

    def broken(pixels):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(tight._model, "encode_image", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        tight.images(many)


@pytest.mark.parametrize(
    ("argument", "kind", "why"),
    [
        ("tiny-eva02", UsageError, "random"),
        ("EVA02-B-16", UsageError, r"random - open_clip:EVA02-B-16/merged2b_s8b_b131k"),
        ("EVA02-B-16/nope", UsageError, "tags: merged2b_s8b_b131k"),
        ("EVA02-B-61/x", UnknownPart, "'EVA02-B-61'"),
        ("local-dir:/nowhere", UsageError, "no open_clip_config.json"),
        (
            "EVA02-B-16/merged2b_s8b_b131k",
            UsageError,
            "network",
        ),
        ("hf-hub:timm/not-there", UsageError, "network"),
        ("tiny-eva02?size=1", UsageError, "'size'"),
        ("tiny-eva02?batch=0", UsageError, "batch='0'"),
        ("tiny-eva02?precision=int8", UsageError, "precision='int8'.*bf16"),
    ],
)
def test_what_cannot_be_opened_says_why_and_what_to_do(folder, argument, kind, why):
    with pytest.raises(kind, match=why):
        open_encoder(f"open_clip:{argument}")


def test_random_weights_are_had_only_when_asked_for_and_say_so(folder):
    made = open_encoder("open_clip:tiny-eva02", allow_random=True)
    assert "RANDOM" in made.note
    bare = folder / "bare"
    bare.mkdir()
    (bare / "open_clip_config.json").write_text(
        (folder / "whole" / "open_clip_config.json").read_text()
    )
    with raises(UsageError, str(bare), cure="open_clip_model.safetensors"):
        open_encoder(f"open_clip:local-dir:{bare}")
    assert "RANDOM" in open_encoder(f"open_clip:local-dir:{bare}", allow_random=True).note


def test_foreign_torn_and_hostile_weights_are_refused_and_run_nothing(folder, tmp_path, capfd):
    import torch

    class Evil:
        def __reduce__(self):
            return print, ("the checkpoint ran code",)

    torch.save({"state_dict": Evil()}, tmp_path / "evil.pt")
    (tmp_path / "torn.safetensors").write_bytes(
        (folder / "weights.safetensors").read_bytes()[:-100]
    )
    (tmp_path / "torn.pt").write_bytes((folder / "weights.pt").read_bytes()[:-100])
    (tmp_path / "text.pt").write_text("hello")
    torch.save({"a": torch.zeros(1)}, tmp_path / "foreign.pt")
    for name in ("evil.pt", "torn.safetensors", "torn.pt", "text.pt", "foreign.pt"):
        with raises(DataError, item=name):
            open_encoder(f"open_clip:tiny-eva02/{tmp_path}/{name}")
    assert "ran code" not in capfd.readouterr().out


def test_a_configuration_of_another_image_size_is_told(folder, tmp_path):
    whole = tmp_path / "other"
    whole.mkdir()
    for file in (folder / "whole").iterdir():
        (whole / file.name).write_bytes(file.read_bytes())
    config = json.loads((whole / "open_clip_config.json").read_text())
    config["model_cfg"]["vision_cfg"]["image_size"] = 48
    (whole / "open_clip_config.json").write_text(json.dumps(config))
    with raises(DataError, cure="image_size"):
        open_encoder(f"open_clip:local-dir:{whole}").images(pictures(1))


@pytest.mark.parametrize(("module", "name"), [("torch", "torch"), ("open_clip", "open_clip")])
def test_missing_packages_name_the_extra_that_brings_them(monkeypatch, module, name):
    monkeypatch.setitem(sys.modules, module, None)
    with raises(MissingExtra, name, cure="demur[clip]"):
        open_encoder("open_clip:EVA02-B-16/merged2b_s8b_b131k")


def test_torchvision_is_mended_only_where_it_is_broken():
    """In a process of its own: the mended import works, and a second mend changes nothing."""
    code = (
        "from demur.core.vision_ops import ensure_torchvision, _declared\n"
        "ensure_torchvision(); first = len(_declared); ensure_torchvision()\n"
        "import torch, torchvision\n"
        "from torchvision.transforms import Resize\n"
        "print(first, len(_declared), torch.__version__.endswith('+cpu'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    first, second, cpu = result.stdout.split()
    assert first == second
    assert first == "0" or cpu == "True"


def test_the_page_names_models_that_the_library_has(folder):
    import open_clip

    page = (Path(__file__).parents[2] / "docs" / "encoders.md").read_text(encoding="utf-8")
    section = page.partition("## open_clip")[2].partition("\n## ")[0]
    names = {*re.findall(r"`(?:open_clip:)?([\w-]+/\w+)`", section)}
    assert len(names) == 7
    assert names <= {f"{model}/{tag}" for model, tag in open_clip.list_pretrained()}


def test_texts_beyond_the_context_are_counted(folder):
    """As the tokenizer cuts them: 77 tokens with the marks of begin and end."""
    encoder = open_encoder(f"open_clip:tiny-eva02/{folder}/weights.pt")
    words = ["cat " * n for n in (1, 74, 75, 76, 200)]
    assert [encoder.cut([text]) for text in words] == [0, 0, 0, 1, 1]
    assert encoder.cut(words) == 2
    assert encoder.cut([]) == 0
