"""What stands around a reply (bold type, quotation marks, a courtesy, a caveat) does not change how it is read."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from demur.judge import deflection, wording
from demur.judge.courtesies import without_courtesies
from demur.judge.rules import visible

HERE = Path(__file__).parent
ANSWERS = {
    "en": "It is {}.", "es": "Es {}.", "ca": "És {}.", "gl": "É {}.", "eu": "Erantzuna {} da.", "fr": "C'est {}.",
    "de": "Es ist {}.", "it": "La risposta è {}.", "pt": "É {}.", "nl": "Het is {}.", "pl": "To {}.",
    "ru": "Это {}.", "tr": "Cevap {}.", "ar": "الجواب هو {}.", "hi": "उत्तर {} है।", "zh": "答案是{}。",
    "ja": "答えは{}です。", "ko": "정답은 {}입니다.",
}  # fmt: skip
NAMES = ("Lake Como", "Rotterdam", "444", "Maria Sklodowska")


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def around() -> list[tuple[str, list[str], list[str]]]:
    return [(row["language"], row["closings"], row["caveats"]) for row in lines("around_replies.jsonl")]  # type: ignore[misc]


def declines(text: str) -> bool:
    return deflection.read(visible(text)).deflects


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
    for row in lines("deflections_ordinary.jsonl")[::200]:
        text = " ".join(row["text"].split())
        if not any(c in text for c in '*_`#~|{}"“”«»「」[]<>'):
            assert set(wording.buckets(laid_out(text))) == set(wording.buckets(text)), text


def test_a_closing_makes_no_deflection_of_an_answer() -> None:
    flagged = []
    for language, closings, _ in around():
        for closing in closings:
            for name in NAMES:
                text = f"{ANSWERS[language].format(name)} {closing}"
                flagged += [text] if declines(text) else []
    assert not flagged


def test_a_caveat_rarely_makes_a_deflection_of_an_answer() -> None:
    texts = [
        f"{ANSWERS[language].format(name)} {caveat}"
        for language, _, caveats in around()
        for caveat in caveats
        for name in NAMES
    ]
    assert sum(map(declines, texts)) / len(texts) <= 0.1, [text for text in texts if declines(text)]


def test_a_deflection_with_a_closing_stays_one() -> None:
    of = {row["language"]: row["text"] for row in lines("deflections_by_language.jsonl") if row["deflects"]}
    for language, closings, _ in around():
        text = of[language]
        assert [declines(f"{text} {closing}") for closing in closings] == [declines(text)] * len(closings), text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Sure! It opened in 1901. I hope this helps!", "It opened in 1901."),
        ("Great question! It is a heron.\n\nLet me know if you need anything else.", "It is a heron."),
        ("Which Springfield do you mean? Let me know which one.", None),
        ("The tower has 12 floors. If you want to see more, take stairs 2 and 3.", None),
        ("How can I help you today?", None),
        ("", None),
        ("...", None),
    ],
)
def test_what_is_a_courtesy(text: str, kept: str | None) -> None:
    assert without_courtesies(text) == (text if kept is None else kept)
