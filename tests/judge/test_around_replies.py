"""What stands around a reply (bold type, quotation marks, a courtesy, a caveat) does not change how it is read."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from demur.judge import wording
from demur.judge.courtesies import without_courtesies
from demur.judge.deflection import read

HERE = Path(__file__).parent


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "laid_out",
    [
        "**{}**".format,
        '"{}"'.format,
        "- {}".format,
        "### {}".format,
        "<p>{}</p>".format,
        "<answer>{}</answer>".format,
        "{} [1, 2]".format,
        "{} 😊".format,
        "{}\n\nSource: https://example.org/a_b".format,
        "{}\nConfidence: 0.85".format,
        "Final: {}".format,
    ],
)
def test_layout_changes_no_wording(laid_out: Callable[[str], str]) -> None:
    for row in rows("untouched/usual.jsonl")[::12]:
        text = " ".join(row["text"].split())
        if not any(c in text for c in '*_`#~|{}"“”«»「」[]<>'):
            assert set(wording.buckets(laid_out(text))) == set(wording.buckets(text)), text


@pytest.mark.heavy
def test_a_closing_rarely_makes_a_deflection_of_an_answer() -> None:
    """Closings that nobody tuned on, around short answers that nobody tuned on."""
    closings = {row["language"]: row["closings"] for row in rows("around_held_out.jsonl")}
    answers = [
        row
        for row in rows("untouched/usual.jsonl")
        if not row["deflects"] and len(row["text"]) < 60 and row["text"].endswith((".", "。", "।"))
    ][::6]
    misread = 0
    for place, row in enumerate(answers):
        closing = closings[row["language"]][place % len(closings[row["language"]])]
        text = f"{row['text']} {closing}"
        misread += read(text, row["question"]).deflects
    assert len(answers) >= 40
    assert misread / len(answers) <= 0.1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("It opened in 1901. I hope this helps!", "It opened in 1901."),
        ("It is a heron.\n\nLet me know if you need anything else.", "It is a heron."),
        ("Which Springfield do you mean? Let me know which one.", None),
        ("The tower has 12 floors. If you want to see more, take stairs 2 and 3.", None),
        ("How can I help you today?", None),
        ("", None),
        ("...", None),
    ],
)
def test_what_is_a_courtesy(text: str, kept: str | None) -> None:
    assert without_courtesies(text) == (text if kept is None else kept)
