"""How likely a reply gives an accepted answer: three dozen comparisons, weighed by a small network.

The comparisons are of words, letters and numbers, which any language has, and what the encoder makes of question,
accepted form and reply (`demur.judge.encoder.commits`). A logistic layer weighs them and, beside it, sixteen hidden
units what they mean together. Weights and cut are in ``data/equivalence.json``, made by ``training/equivalence.py``
from replies of real systems that people labelled, labelled replies in eighteen languages, and rewritings made by program.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from demur.answers import normalise
from demur.answers.text import words
from demur.judge import wording

ENDS = (800, 400)
"""Characters of a longer reply that are read, from its beginning and from its end."""
FORMS = 200
"""Accepted answers that are compared: sources list the usual names of a thing first."""
WORDS = 60
"""New words of a form, and of a reply, that are weighed."""
SHARED = ("contained", "letters", "new letters", "near")
"""Comparisons that are 0 where a reply has no word and no run of letters of a form."""
NOTHING_SHARED = 0.058
"""How likely such a reply is right where words or digits would show it: 62 of 1,074 were that people labelled. What else
it says (the names and numbers of an attack) is not weighed."""
SURE = 0.65
"""What the network must give a reply that shares nothing with a number: below it, six of ten such replies in the training
rows were right, and hardly any where a system names something else ("Switzerland" for 66)."""
UNDECIDED = 0.5
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_GROUPED = re.compile(r"[.,](?=\d{3}(?!\d))")
_NAME = re.compile(r"(?<=[^.!?\s]\s)(?![a-z])[^\W\d_]\w+")
"""A word inside a sentence that does not begin with a small Latin letter."""
_YES_WORDS = ["yes", "sí", "sim", "oui", "ja", "sì", "tak", "да", "так", "evet", "نعم", "bai"]
_YES_WORDS += ["是", "はい", "예", "네", "हाँ", "हां"]
_NO_WORDS = ["no", "non", "não", "nein", "nee", "nie", "нет", "ні", "hayır", "لا", "ez", "不"]
_NO_WORDS += ["否", "いいえ", "아니요", "아니오", "नहीं"]
_YES, _NO = (frozenset(map(normalise, words)) for words in (_YES_WORDS, _NO_WORDS))


class Text(NamedTuple):
    """A text as it is compared."""

    words: tuple[str, ...]
    letters: frozenset[str]
    """Runs of three, blanks left out."""
    pairs: frozenset[str]
    """Runs of two."""
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
    complete = [parts for parts in accepted if not _lacks_a_part(question, parts, reply)]
    if accepted and not complete:
        return NOTHING_SHARED
    values, form, reply = _letter_features(question, complete, reply)
    if says_something_else(values, complete, reply):
        return NOTHING_SHARED  # and the encoder is spared
    commitment = _commitment_features(question, form, reply, values["contained"])
    return sure_enough(probability(values | commitment), values)


def _lacks_a_part(question: str, parts: Sequence[str], reply: str) -> bool:
    """Whether a form has several parts, and a reply shares nothing with one of them: "46" for 46 and 27."""
    return len(parts) > 1 and any(
        says_something_else(_letter_features(question, [(part,)], reply)[0], [(part,)], reply)
        for part in parts
    )


def says_something_else(
    values: Mapping[str, float], accepted: Sequence[Sequence[str]], reply: str
) -> bool:
    """Whether a reply shares no letter and no digit with a form, and a right one would.

    A right reply may share none where it says yes or no, a number in words, or in digits what the form says in words.
    """
    if any(values[name] for name in SHARED):
        return False
    digits = any(map(str.isdigit, reply))
    reads_otherwise = not digits if values["number"] else digits or bool(values["yes or no"])
    return all(map(_is_name, accepted[:FORMS])) or not reads_otherwise


def sure_enough(chance: float, values: Mapping[str, float]) -> float:
    """What the network gives, but no more than `UNDECIDED` where nothing is shared with a number and it is not `SURE`."""
    if chance >= SURE or values["yes or no"] or any(values[name] for name in SHARED):
        return chance
    return min(chance, UNDECIDED)


def probability(values: Mapping[str, float]) -> float:
    """What the network makes of `features`. It is rounded, so that all machines decide alike."""
    x = np.array([values[name] for name in FEATURES])
    hidden = np.tanh(_weights("hidden") @ x + _weights("hidden_bias"))
    odds = _weights("linear") @ x + _weights("out") @ hidden + _NETWORK["bias"]
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, float(odds))))), 3)


def features(question: str, accepted: Sequence[Sequence[str]], reply: str) -> dict[str, float]:
    """The comparisons, with the accepted answer to which the reply comes nearest in words and letters."""
    values, form, reply = _letter_features(question, accepted, reply)
    return values | _commitment_features(question, form, reply, values["contained"])


def _commitment_features(question: str, form: str, reply: str, inside: float) -> dict[str, float]:
    """Whether the reply gives the form as its answer, as the encoder reads them together."""
    from demur.judge import encoder  # its libraries take longer to import than all of demur's own

    odds = encoder.commits(question, form, reply)
    return {
        "commits, contained": max(odds, 0.0) * inside,
        "does not commit, contained": min(odds, 0.0) * inside,
        "commits, absent": max(odds, 0.0) * (1 - inside),
        "does not commit, absent": min(odds, 0.0) * (1 - inside),
    }


def _letter_features(
    question: str, accepted: Sequence[Sequence[str]], reply: str
) -> tuple[dict[str, float], str, str]:
    """What words, letters and numbers say; the nearest form; the reply as it is read."""
    if not accepted:
        raise ValueError("no answer is accepted: name at least one")
    if len(reply) > sum(ENDS):
        reply = f"{reply[: ENDS[0]]}\n{reply[-ENDS[1] :]}"
    text, query = compared(wording.readable(reply)), compared(question)
    padded = _padded(text.words)
    answers = [tuple(parts) for parts in accepted[:FORMS]]
    contained = {
        parts: all(_padded(compared(part).words) in padded for part in parts) for parts in answers
    }
    nearest = max(
        answers, key=lambda parts: (contained[parts], *_nearness(" ".join(parts), text, query))
    )
    form = compared(" ".join(nearest))
    values = {
        "contained": float(contained[nearest]),
        "accepted": math.log1p(len(answers)),
        "accepted contained": math.log1p(sum(contained.values())),
        "letters": _shared_runs(form, text),
        "new letters": _shared_runs(
            compared("".join(_words_beyond_question(form.words, query.words))), text
        ),
        **_word_features(form.words, text.words, query.words),
        **_number_features(form.numbers, text.numbers, query.numbers),
        **_polarity_features(form.words, text.words),
        "position": math.log1p(padded[: max(0, padded.find(_padded(form.words)))].count(" ")),
        "names": math.log1p(
            len({*map(normalise, _NAME.findall(reply))} - {*form.words, *query.words})
        ),
        "asks": float(reply.rstrip().endswith(("?", "\uff1f", "\u061f"))),
        "declines": max(-10.0, min(10.0, wording.log_odds(reply))),
    }
    return values, " ".join(nearest), reply


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


@lru_cache(1 << 16)
def rarity(word: str) -> float:
    """How rare a word is: minus the log probability of its pieces in the encoder's vocabulary, at least 1."""
    from demur.judge import encoder

    base = encoder.base()
    pieces = base.tokenizer.encode(word, add_special_tokens=False).ids
    return max(1.0, -float(base.log_probabilities[pieces].sum(dtype=np.float64)))


def _padded(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "


def _nearness(form: str, text: Text, query: Text) -> tuple[float, int]:
    """How near a reply comes to a form, and the form's length in words."""
    whole = compared(form)
    new = _words_beyond_question(whole.words, query.words)
    near = (
        _share_within(new, text.words)
        + _shared_runs(whole, text)
        + _shared_runs(compared("".join(new)), text)
    )
    return near, len(whole.words)


def _words_beyond_question(words: tuple[str, ...], question: tuple[str, ...]) -> tuple[str, ...]:
    """The words that the question does not have; all, where it has them all."""
    return tuple(word for word in words if word not in question)[:WORDS] or words[:WORDS]


def _shared_runs(part: Text, whole: Text) -> float:
    """Share of a text's runs of letters that another has."""
    return _share_within(
        part.letters, whole.letters if len(part.letters) > 1 else whole.letters | whole.pairs
    )


def _is_name(parts: Sequence[str]) -> bool:
    """Whether all words of a form begin with a capital letter, and it is neither a number nor yes or no."""
    name_words = [word for part in parts for word in words(part)]
    return (
        bool(name_words)
        and all(word.raw[:1].isupper() for word in name_words)
        and not any(character.isdigit() for part in parts for character in part)
        and not _polarity([word.norm for word in name_words])
    )


def _share_within(pieces: Collection[str], whole: Collection[str]) -> float:
    whole_set = frozenset(whole)
    return sum(piece in whole_set for piece in pieces) / max(1, len(pieces))


def _word_features(
    form: tuple[str, ...], reply: tuple[str, ...], question: tuple[str, ...]
) -> dict[str, float]:
    """Of words that the question does not have; rare ones weigh more."""
    new_words, reply_words, question_words = (
        _words_beyond_question(form, question),
        frozenset(reply),
        frozenset(question),
    )
    weight = sum(map(rarity, new_words))
    near_weight = sum(rarity(word) * _likeness(word, reply_words) for word in new_words)
    own_words = [word for word in reply if word not in question_words]
    rarities_beside = [rarity(word) for word in dict.fromkeys(own_words) if word not in form][
        :WORDS
    ]
    recall = _share_within(new_words, reply_words)
    return {
        "recall": recall,
        "all words": float(recall == 1),
        "some words": float(0 < recall < 1),
        "near": near_weight / weight,
        "missing": math.log1p(weight - near_weight),
        "covers": _share_within(own_words, form),
        "nothing else": float(reply == form),
        "begins": float(_padded(form) in _padded(reply[: max(8, len(question) + 6)])),
        "beside": math.log1p(sum(rarities_beside)),
        "rarest beside": math.log1p(max(rarities_beside, default=0.0)),
        "reply's length": math.log1p(len(reply)),
        "form's length": math.log1p(len(new_words)),
        "in question": float(question_words.issuperset(form)),
        "question's words": _share_within(question_words, reply_words),
    }


def _likeness(word: str, others: Collection[str]) -> float:
    """1 for a word that is there, less for one that begins like another, 0 where less than .4 of it is shared."""
    shared = (
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
        / max(len(word), len(other))
        for other in others
        if other[:1] == word[:1]
    )
    return max(0.0, max(shared, default=0.0) - 0.4) / 0.6


def _number_features(
    form: frozenset[float], reply: frozenset[float], question: frozenset[float]
) -> dict[str, float]:
    gold_numbers, reply_numbers = form - question, reply - question
    return {
        "number": float(bool(gold_numbers)),
        "same number": float(bool(gold_numbers & reply)),
        "other number": float(bool(gold_numbers and reply_numbers) and not gold_numbers & reply),
        "some numbers": float(
            bool(gold_numbers & reply and gold_numbers - reply and reply_numbers - form)
        ),
        "no number": float(bool(gold_numbers) and not reply_numbers),
        "numbers beside": math.log1p(len(reply_numbers - form)),
    }


def _polarity_features(form: tuple[str, ...], reply: tuple[str, ...]) -> dict[str, float]:
    """Of a form that says yes or no, and what the reply begins with: one to three words, as scripts have it."""
    gold_polarity = _polarity(form)
    reply_polarity = next(filter(None, (_polarity(reply[:n]) for n in (1, 2, 3))), 0)
    return {
        "yes or no": float(gold_polarity != 0),
        "same yes or no": float(gold_polarity * reply_polarity > 0),
        "other yes or no": float(gold_polarity * reply_polarity < 0),
    }


def _polarity(words: Sequence[str]) -> int:
    text = " ".join(words)
    return (text in _YES) - (text in _NO)


@cache
def _weights(name: str) -> npt.NDArray[np.float64]:
    return np.array(_NETWORK[name])


_NETWORK: dict[str, Any] = json.loads(
    (files(__package__) / "data" / "equivalence.json").read_text(encoding="utf-8")
)
FEATURES: tuple[str, ...] = tuple(_NETWORK["features"])
"""Names of the comparisons, in the order of the network."""
CUT: float = _NETWORK["cut"]
"""From this probability on a reply counts as correct: at it, counts are unbiased."""
