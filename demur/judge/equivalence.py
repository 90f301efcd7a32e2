"""How likely a reply gives an accepted answer: a few dozen comparisons, weighed by one logistic layer.

The comparisons are of words, letters and numbers, which any language has, and what the encoder makes of question,
accepted form and reply (`demur.judge.encoder.commits`). Weights and cut are in ``data/equivalence.json``, made by
``training/equivalence.py`` from replies of real systems that people labelled, labelled replies in eighteen languages,
and rewritings made by program.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import as_file, files
from os.path import commonprefix
from typing import Any, NamedTuple

import numpy as np

from demur.answers import normalise
from demur.judge import encoder, wording

ENDS = (800, 400)
"""Characters of a longer reply that are read, from its beginning and from its end."""
FORMS = 200
"""Accepted answers that are compared: sources list the usual names of a thing first."""
_WORDS = 60
"""Words of a form, and new words of a reply, that are weighed."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_GROUPED = re.compile(r"[.,](?=\d{3}(?!\d))")
_NAME = re.compile(r"(?<=[^.!?\s]\s)(?![a-z])[^\W\d_]\w+")
"""A word inside a sentence that does not begin with a small Latin letter."""
_YES = frozenset("yes si sim oui ja tak да так evet نعم 是 はい 예 네 हाँ हां bai".split())
_NO = frozenset(
    "no non nao nein nee nie нет ні hayir لا 不 否 いいえ 아니요 아니오 नहीं नहीं ez".split()
)


class Text(NamedTuple):
    """A text as it is compared."""

    words: tuple[str, ...]
    runs: frozenset[str]
    """Of three letters each, blanks left out."""
    pairs: frozenset[str]
    """Of two letters: what a shorter text has."""
    numbers: frozenset[float]


def probability_correct(question: str, accepted: Sequence[Sequence[str]], reply: str) -> float:
    """How likely a reply is right, from 0 to 1 in steps of .001; one pass of the encoder.

    Args:
        question: what it replies to.
        accepted: accepted answers, as in `demur.core.records.AnswerSpec`: each has parts that must all be there.
        reply: without hidden thoughts. Untrusted: it is read as text only, without its middle where it is long.

    Raises:
        ValueError: no answer is accepted.

    >>> question, accepted = "Which lake is Bellagio on?", [("Lake Como",)]
    >>> right = probability_correct(question, accepted, "Bellagio lies on Lake Como.")
    >>> right > CUT > probability_correct(question, accepted, "It is on Lake Garda.")
    True
    """
    return probability(features(question, accepted, reply))


def probability(values: Mapping[str, float]) -> float:
    """What the logistic layer makes of `features`. It is rounded, so that all machines decide alike."""
    weights: dict[str, float] = _LAYER["weights"]
    odds = math.fsum(weight * values[name] for name, weight in weights.items())
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, odds + _LAYER["bias"])))), 3)


def features(question: str, accepted: Sequence[Sequence[str]], reply: str) -> dict[str, float]:
    """What is compared: with the accepted answer that the reply comes nearest to in words and letters."""
    if len(reply) > sum(ENDS):
        reply = f"{reply[: ENDS[0]]}\n{reply[-ENDS[1] :]}"
    text, query = compared(wording.readable(reply)), compared(question)
    padded = f" {' '.join(text.words)} "
    answers = [tuple(parts) for parts in accepted[:FORMS]]
    contained = {parts: _contains(padded, parts) for parts in answers}
    nearest = max(
        answers, key=lambda parts: (contained[parts], *_nearness(" ".join(parts), text, query))
    )
    form = " ".join(nearest)
    words = compared(form).words
    values = {
        "contained": float(contained[nearest]),
        "accepted": math.log1p(len(answers)),
        "accepted contained": math.log1p(sum(contained.values())),
        "letters": _letters(compared(form), text),
        "new letters": _letters(compared("".join(_new(words, query.words))), text),
        **_of_words(words, text.words, query.words),
        **_of_numbers(compared(form).numbers, text.numbers, query.numbers),
        **_yes_or_no(words, text.words),
        "position": math.log1p(padded[: max(0, padded.find(f" {' '.join(words)} "))].count(" ")),
        "names": math.log1p(len({*map(normalise, _NAME.findall(reply))} - {*words, *query.words})),
        "asks": float(reply.rstrip().endswith(("?", "\uff1f", "\u061f"))),
        "declines": max(-10.0, min(10.0, wording.log_odds(reply))),
    }
    odds = encoder.commits(question, form, reply)
    where = "contained" if contained[nearest] else "absent"
    for name in ("contained", "absent"):
        values[f"commits, {name}"] = max(odds, 0.0) if name == where else 0.0
        values[f"does not commit, {name}"] = min(odds, 0.0) if name == where else 0.0
    return values


@lru_cache(4096)
def compared(text: str) -> Text:
    """The words, runs of letters and numbers of a text."""
    words = tuple(normalise(text).split()) or (text.strip().lower(),)
    letters = "".join(words)
    decimal = "".join(str(unicodedata.decimal(c, c)) for c in text)
    numbers = (_GROUPED.sub("", number).replace(",", ".") for number in _NUMBER.findall(decimal))
    return Text(
        words,
        frozenset(letters[i : i + 3] for i in range(max(1, len(letters) - 2))),
        frozenset(letters[i : i + 2] for i in range(max(1, len(letters) - 1))),
        frozenset(float(number) for number in numbers if number.count(".") < 2),
    )


def _contains(padded: str, parts: Iterable[str]) -> bool:
    return all(f" {' '.join(compared(part).words)} " in padded for part in parts)


def _nearness(form: str, text: Text, query: Text) -> tuple[float, int]:
    """How near a reply comes to a form, and the form's length in words."""
    words = compared(form).words
    new = _new(words, query.words)
    near = _share(frozenset(new), frozenset(text.words)) + _letters(compared(form), text)
    return near + _letters(compared("".join(new)), text), len(words)


def _letters(part: Text, whole: Text) -> float:
    """Share of a text's runs of letters that another has."""
    return _share(part.runs, whole.runs | whole.pairs if len(part.runs) == 1 else whole.runs)


def _new(words: tuple[str, ...], question: tuple[str, ...]) -> tuple[str, ...]:
    """The words that the question does not have; all, where it has them all."""
    return tuple(word for word in words if word not in question)[:_WORDS] or words[:_WORDS]


def _share(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part & whole) / max(1, len(part))


def _of_words(
    words: tuple[str, ...], reply: tuple[str, ...], question: tuple[str, ...]
) -> dict[str, float]:
    """Of the form's words, those that the question does not have: rare ones weigh more."""
    there, known = frozenset(reply), frozenset(question)
    new = _new(words, question)
    beside = [w for w in dict.fromkeys(reply) if w not in known and w not in words][:_WORDS]
    alike = {
        word: max(0.0, max((_alike(word, other) for other in there), default=0.0) - 0.4) / 0.6
        for word in new
    }
    weight = sum(map(rarity, new))
    near = sum(rarity(word) * alike[word] for word in new)
    recall = sum(word in there for word in new) / len(new)
    first = reply[: max(8, len(question) + 6)]
    return {
        "recall": recall,
        "all words": float(recall == 1),
        "some words": float(0 < recall < 1),
        "near": near / weight,
        "missing": math.log1p(weight - near),
        "covers": sum(w in words for w in reply if w not in known)
        / max(1, sum(w not in known for w in reply)),
        "nothing else": float(reply == words),
        "begins": float(f" {' '.join(words)} " in f" {' '.join(first)} "),
        "beside": math.log1p(sum(map(rarity, beside))),
        "rarest beside": math.log1p(max(map(rarity, beside), default=0.0)),
        "reply's length": math.log1p(len(reply)),
        "form's length": math.log1p(len(new)),
        "in question": float(known >= frozenset(words)),
        "question's words": _share(known, there),
    }


def _of_numbers(
    form: frozenset[float], reply: frozenset[float], question: frozenset[float]
) -> dict[str, float]:
    wanted, new = form - question, reply - question
    return {
        "number": float(bool(wanted)),
        "same number": float(bool(wanted & reply)),
        "other number": float(bool(wanted and new) and not wanted & reply),
        "some numbers": float(bool(wanted & reply and wanted - reply and new - form)),
        "no number": float(bool(wanted) and not new),
        "numbers beside": math.log1p(len(new - form)),
    }


def _yes_or_no(form: tuple[str, ...], reply: tuple[str, ...]) -> dict[str, float]:
    wanted, first = _polarity(" ".join(form)), max(map(_polarity, _beginnings(reply)), key=abs)
    return {
        "yes or no": float(wanted != 0),
        "same yes or no": float(wanted * first > 0),
        "other yes or no": float(wanted * first < 0),
    }


def _beginnings(words: tuple[str, ...]) -> Iterable[str]:
    return (" ".join(words[:n]) for n in (1, 2, 3))


def _polarity(words: str) -> int:
    return (words in _YES) - (words in _NO)


def _alike(word: str, other: str) -> float:
    return len(commonprefix((word, other))) / max(len(word), len(other))


@lru_cache(1 << 16)
def rarity(word: str) -> float:
    """How rare a word is: minus the log probability of its pieces in the encoder's vocabulary."""
    pieces = encoder.base().tokenizer.encode(word, add_special_tokens=False).ids
    return max(1.0, -float(_scores()[pieces].sum()))


@cache
def _scores() -> Any:
    with (
        as_file(files(__package__) / "data" / "encoder.npz") as path,
        np.load(path, allow_pickle=False) as arrays,
    ):
        return arrays["scores"]


_LAYER: dict[str, Any] = json.loads(
    (files(__package__) / "data" / "equivalence.json").read_text(encoding="utf-8")
)
CUT: float = _LAYER["cut"]
"""From this probability on a reply counts as correct: at it, counts are unbiased."""
