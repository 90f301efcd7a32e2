"""ViQuAE: exact match and token F1 of SQuAD, best over the aliases."""

from __future__ import annotations

from collections import Counter

from demur.core.records import AnswerSpec
from demur.judge.official.infoseek import normalise


def exact(answers: AnswerSpec, prediction: str) -> float:
    """1 when the prediction equals an alias after `normalise`, else 0."""
    return float(any(normalise(prediction) == normalise(form[0]) for form in answers.accepted))


def f1(answers: AnswerSpec, prediction: str) -> float | None:
    """Token F1, the best over the aliases: harmonic mean of the shares of shared tokens. None without an alias.

    >>> round(f1(AnswerSpec(accepted=(("City of Springfield",),)), "the Springfield"), 3)
    0.5
    """
    prediction_words = normalise(prediction).split()
    return max(
        (token_f1(normalise(form[0]).split(), prediction_words) for form in answers.accepted),
        default=None,
    )


def token_f1(reference: list[str], candidate: list[str]) -> float:
    """2PR/(P+R) over tokens with their counts; two empty lists agree, one empty list never does."""
    if not reference or not candidate:
        return float(reference == candidate)
    shared = sum((Counter(reference) & Counter(candidate)).values())
    return 2 * shared / (len(reference) + len(candidate))
