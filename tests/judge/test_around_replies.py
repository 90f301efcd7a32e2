"""What stands around a reply (bold type, quotation marks, a courtesy, a caveat) does not change how it is read."""

import runpy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from demur.judge import wording
from demur.judge.courtesies import without_courtesies

HERE = Path(__file__).parent


@cache
def tool() -> dict[str, Any]:
    return runpy.run_path(str(HERE.parents[1] / "tools" / "score_deflections.py"))


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
    for row in tool()["lines"](HERE / "deflections_ordinary.jsonl")[::200]:
        text = " ".join(row["text"].split())
        if not any(c in text for c in '*_`#~|{}"“”«»「」[]<>'):
            assert set(wording.buckets(laid_out(text))) == set(wording.buckets(text)), text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "share"), [("nothing", 0.0), ("openings", 0.02), ("closings", 0.01), ("caveats", 0.02)]
)
def test_what_is_around_an_answer_rarely_makes_it_a_deflection(kind: str, share: float) -> None:
    """Sentences that nobody tuned on. Before 24 November 2026 (evening): 0.13, 0.24, 0.24."""
    read = tool()["plain_answers"](kind)
    assert sum(read) / len(read) <= share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "precision", "recall"),
    [("openings", 0.90, 0.89), ("closings", 0.92, 0.94), ("caveats", 0.89, 0.94)],
)
def test_sentences_with_something_around_them(kind: str, precision: float, recall: float) -> None:
    measured = tool()["sentences"](kind, files=("replies",))
    assert measured[0] >= precision
    assert measured[1] >= recall


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
