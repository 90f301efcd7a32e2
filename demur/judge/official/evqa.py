"""Encyclopedic-VQA: exact match after normalisation, sets by overlap; best over the references.

The source goes on to ask BEM, a BERT model of answer equivalence, where exact match fails; that part needs the model
and is not here, so this number is a lower bound of the published one.
"""

from __future__ import annotations

import re
import string

from demur.core.errors import DataError
from demur.core.records import AnswerSpec

_DROP = str.maketrans("", "", string.punctuation + "\u2018\u2019\u201c\u201d\u00b4`_")
_WORDS = {
    "none": "0",
    "zero": "0",
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "true": "yes",
    "entailment": "yes",
    "false": "no",
    "contradiction": "no",
}


def normalise(text: str) -> str:
    """Lower case; punctuation, "the answer is" and articles deleted; number words to digits, true/false to yes/no.

    The source also restores the apostrophes of contractions, which it has just deleted: the same change on both sides
    of every comparison, so it is left out.

    >>> normalise("The answer is Two."), normalise("true"), normalise("none"), normalise("The  U.S.")
    ('2', 'yes', '0', 'us')
    """
    text = (
        text.lower()
        .replace("\n", " ")
        .replace("\t", " ")
        .removeprefix("<extra_id_0> ")
        .translate(_DROP)
    )
    text = re.sub(r"\b(?:the answer is|a|an|the)\b", " ", text)
    return " ".join(_WORDS.get(word, word) for word in text.split())


def overlap(reference: tuple[str, ...], candidate: str) -> float:
    """Intersection over union of two sets of parts; the candidate is split at commas, "and" and "&".

    >>> [round(overlap(("red", "blue", "green"), c), 2) for c in ("red, blue", "red")]
    [0.67, 0.33]
    """
    parts = candidate.replace(" and ", ",").replace(" & ", ",").split(",")
    answer_parts, reference_parts = {normalise(p) for p in parts}, {_checked(p) for p in reference}
    return len(answer_parts & reference_parts) / len(answer_parts | reference_parts)


def _checked(reference: str) -> str:
    normal_reference = normalise(reference)
    if not normal_reference:
        raise DataError(
            "nothing is left of the reference after normalisation",
            item=repr(reference),
            cure="mend the answer",
        )
    return normal_reference


def score(answers: AnswerSpec, prediction: str) -> float:
    """1 or 0, best over the accepted forms; several parts are right from an overlap of 0.5.

    Raises:
        DataError: a reference of nothing but articles or punctuation (the source raises too).
    """
    return max(
        float(overlap(form, prediction) >= 0.5)
        if len(form) > 1
        else float(normalise(prediction) == _checked(form[0]))
        for form in answers.accepted
    )
