"""The sentence encoder: what it says of replies, and when it is asked."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from demur.cli import main
from demur.core.records import AnswerSpec, Ask, Response, Scenario
from demur.core.vision_ops import ensure_torchvision
from demur.judge import encoder, wording
from demur.judge.cascade import Cascade
from demur.judge.deflection import CLEAR, read
from demur.judge.local import LocalJudge

ROOT = Path(__file__).resolve().parents[2]
REPLY = "Sobre las tarifas, la ficha guarda silencio absoluto."
"""The wording is not clear about it."""


def test_local_and_cascade_ask_the_encoder(monkeypatch) -> None:
    for odds in (20.0, -20.0):
        monkeypatch.setattr(encoder, "declines", lambda text, question="", odds=odds: odds)
        for judge in (LocalJudge(), Cascade("http://127.0.0.1:1/v1#m?share=0").local):
            assert judge.phrases.read(REPLY).deflects == (odds > 0)


def test_what_the_wording_is_clear_about_does_not_wait_for_the_encoder(monkeypatch) -> None:
    clear = "I'm sorry, but I cannot answer this question, as the passages do not mention it."
    assert abs(wording.log_odds(clear)) > CLEAR > abs(wording.log_odds(REPLY))
    monkeypatch.setattr(encoder, "declines", lambda text, question="": pytest.fail("asked"))
    assert read(clear).deflects


ASK = Ask(
    id="a",
    sample="s",
    context="c",
    scenario=Scenario.ORACLE,
    question="Which planet is nearest to the Sun?",
)


def graded(
    judge: LocalJudge, text: str, spec: AnswerSpec, question: str = ASK.question
) -> tuple[str, str]:
    verdict = judge.grade(ASK.model_copy(update={"question": question}), Response(text=text), spec)
    return (verdict.outcome.value if verdict.outcome else verdict.status.value), verdict.kind


@pytest.mark.heavy
def test_the_road_of_a_file(tmp_path: Path) -> None:
    """Rows as a user has them, from the command line; the verdicts are those that a person would give."""
    replies = {
        "right": "Venus is next; the nearest is Mercury.",
        "mention": "Venus; Mercury comes right after.",
        "declines": "On that point the leaflet keeps its silence.",
    }
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps(
                {"id": name, "question": ASK.question, "answers": ["Mercury"], "response": reply}
            )
            + "\n"
            for name, reply in replies.items()
        )
    )
    assert main(["judge", "file", str(rows), "-o", str(tmp_path / "verdicts.jsonl")]) == 0
    verdicts = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()]
    assert {v["id"]: v["outcome"] for v in verdicts} == {
        "right": "correct",
        "mention": "incorrect",
        "declines": "deflected",
    }


def test_what_is_passed_to_the_next_layer_is_that_of_the_error_function() -> None:
    x = np.linspace(-9, 9, 2001, dtype=np.float32)
    wanted = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x.tolist()]
    assert np.abs(encoder.gelu(x) - wanted).max() < 2e-6


def test_weights_are_a_step_times_four_bits() -> None:
    draw = np.random.default_rng(0)
    whole, steps = (
        draw.integers(-8, 8, (3, 5, encoder.BLOCK)),
        draw.random((3, 5)).astype(np.float16),
    )
    half = encoder.BLOCK // 2
    pairs = ((whole[..., :half] + 8) | (whole[..., half:] + 8) << 4).astype(np.uint8)
    wanted = (whole * steps[..., None].astype(np.float64)).reshape(3, -1)
    np.testing.assert_allclose(encoder.rounded(steps, pairs), wanted, rtol=1e-6)


def test_the_shipped_vocabulary_reads_every_language() -> None:
    """Hardly a letter of a sentence in a language that is read is unknown to it (3)."""
    unknown: Counter[str] = Counter()
    for line in (ROOT / "tests/judge/untouched/languages.jsonl").read_text().splitlines():
        row = json.loads(line)
        unknown[row["language"]] += 3 in encoder.base().tokenizer.encode(row["text"]).ids
    assert sum(unknown.values()) <= 20, unknown  # of 683


@given(
    st.text(max_size=60)
    | st.text("a\u0301\ufb01 \t\u0928\u092e\u8d28\u200d\U0001f600", max_size=600)
)
def test_any_text_is_read(text: str) -> None:
    assert abs(encoder.declines(text)) < 30
    assert abs(encoder.commits(text, text, text)) < 30
    for parts in ((text * 40,), (text * 40, text * 40, text * 40)):
        assert len(encoder.ids(encoder.base().tokenizer, *parts)) <= encoder.LONGEST


@pytest.mark.heavy
def test_it_needs_no_pytorch_and_no_hub() -> None:
    """In a process in which they cannot be imported; and `import demur` does not wait for it."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers', 'sentence_transformers',"
        " 'huggingface_hub')))\n"
        "import demur; early = 'tokenizers' in sys.modules\n"
        "from demur.judge.local import LocalJudge\n"
        "judge = LocalJudge()\n"
        "print(early, judge.phrases.read('Sobre las tarifas, la ficha guarda silencio absoluto.')"
        ".deflects, judge.phrases.read('La ficha dice que la entrada cuesta doce euros.').deflects)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]


@pytest.mark.heavy
def test_threads_read_alike_and_leave_the_products_of_others_alone() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before, texts = (
        threads(),
        [f"The leaflet has {n} pages and does not say when it opened." for n in range(24)],
    )
    reads = encoder.Encoder(encoder.DEFLECTION)
    alone = [reads.log_odds(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(reads.log_odds, texts)) == alone
    assert threads() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that transformers imports
@pytest.mark.skipif(find_spec("transformers") is None, reason="needs pip install 'demur[hf]'")
@pytest.mark.slow
@pytest.mark.reference
def test_numpy_gives_the_vectors_of_transformers() -> None:
    import torch

    torch.set_num_threads(1)
    ensure_torchvision()  # which transformers imports
    from transformers import BertConfig, BertModel

    plain = encoder.Encoder()
    words = torch.from_numpy(plain.words(np.arange(plain.tokenizer.get_vocab_size())))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=encoder.WIDTH,
        num_hidden_layers=encoder.LAYERS,
        num_attention_heads=encoder.HEADS,
        intermediate_size=4 * encoder.WIDTH,
        max_position_embeddings=encoder.LONGEST,
        type_vocab_size=1,
        layer_norm_eps=1e-12,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    state = model.state_dict()
    state["embeddings.word_embeddings.weight"].copy_(words)
    for name, values in plain.weights.items():
        state[name].copy_(torch.from_numpy(values).view_as(state[name]))
    long = [
        "x " * 700,
        "",
        "रिपोर्ट में यह नहीं बताया गया।",
        "a\u0301 \ufb01  \t tabs",
        "質問にはお答えできません。",
    ]
    for parts in [
        *((text,) for text in (REPLY, *long)),
        ("How long is it?", "5 km", "It is 5 km long."),
    ]:
        ids = encoder.ids(plain.tokenizer, *parts)
        assert len(ids) <= encoder.LONGEST
        with torch.inference_mode():
            mean = model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0).numpy()
        assert np.abs(plain.vector(ids) - mean / np.linalg.norm(mean)).max() < 1e-5


PAIRS = [
    (
        "Does the will mention the piano?",
        "Who inherits the piano?",
        "The will does not mention the piano.",
    ),
    ("Was steht im Feld Religion?", "Welche Religion hatte er?", "Da steht nur ein Strich."),
    (
        "Jusqu'à quand va le tableau ?",
        "Quelle était la température le 12 août ?",
        "Le tableau s'arrête au 10 août.",
    ),
    (
        "¿Menciona el testamento el piano?",
        "¿Quién hereda el piano?",
        "El testamento no menciona el piano.",
    ),
]


@pytest.mark.parametrize(("answered", "declined", "reply"), PAIRS)
def test_the_question_decides_what_a_reply_does(answered: str, declined: str, reply: str) -> None:
    assert not read(reply, answered).deflects
    assert read(reply, declined).deflects
    verdicts = [
        graded(LocalJudge(), reply, AnswerSpec(accepted=(("Ada",),)), asked)[0]
        for asked in (answered, declined)
    ]
    assert verdicts[0] != "deflected"
    assert verdicts[1] == "deflected"


def test_the_question_decides_from_the_command_line(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    rows.write_text(
        "".join(
            json.dumps(
                {"id": f"{pair}/{side}", "question": asked, "answers": ["1371"], "response": reply}
            )
            + "\n"
            for pair, (*both, reply) in enumerate(PAIRS)
            for side, asked in zip(("answered", "declined"), both, strict=True)
        )
    )
    assert main(["judge", "file", str(rows), "--judge", "local", "-o", str(out)]) == 0
    for line in out.read_text().splitlines():
        verdict = json.loads(line)
        assert (verdict["outcome"] == "deflected") == verdict["id"].endswith("/declined"), verdict


@pytest.mark.slow
@pytest.mark.integration
def test_replies_that_nothing_was_tuned_on(capsys) -> None:
    """The road of a user, from a file of labelled replies to the figures of a bench; each counted again here."""
    file = ROOT / "tests/judge/untouched/languages.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert main(["judge", "bench", "local", "--on", str(file), "--json"]) == 0
    every = next(row for row in json.loads(capsys.readouterr().out)["rows"] if row["part"] == "all")
    said = np.array([read(row["text"]).deflects for row in rows])
    true = np.array([row["deflects"] for row in rows])
    precision, recall = (said & true).sum() / said.sum(), (said & true).sum() / true.sum()
    assert every["precision"]["deflected"]["value"] == pytest.approx(precision, abs=0.01)
    assert every["recall"]["deflected"]["value"] == pytest.approx(recall, abs=0.01)
    assert precision >= 0.95
    assert recall >= 0.95
    alone = np.array([wording.log_odds(row["text"]) > 0 for row in rows])
    assert (said == true).sum() > (alone == true).sum()
