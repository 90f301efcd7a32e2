"""InfoSeek: exact match after normalisation; numbers by range, with an overlap rule for predicted ranges."""

from __future__ import annotations

import re
import string

from demur.core.records import AnswerSpec

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_DROP = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case, ASCII punctuation deleted (not replaced), a/an/the deleted, spaces squeezed.

    >>> normalise("The Eiffel-Tower!"), normalise("U.S.A.")
    ('eiffeltower', 'usa')
    """
    return " ".join(w for w in text.lower().translate(_DROP).split() if w not in ("a", "an", "the"))


def parse(text: str) -> float | tuple[float, float]:
    """A number or an ascending range; (0, 0) where there is no number - which an answer around 0 counts as right.

    Two descending numbers are the first alone.

    >>> parse("about 1,200 m"), parse("10-12"), parse("12-10"), parse("1.2.3 km"), parse("-5"), parse("no idea")
    (1200.0, (10.0, 12.0), 12.0, (1.2, 3.0), -5.0, (0.0, 0.0))
    """
    spaced = re.sub(r"(?<=\d)-", " - ", re.sub(r"(?<=\d),(?=\d{3})", "", text)).replace("- ", " ")
    numbers = [float(n) for n in _NUMBER.findall(spaced)[:2]]
    if not numbers:
        return 0.0, 0.0
    if len(numbers) == 2 and numbers[0] < numbers[1]:
        return numbers[0], numbers[1]
    return numbers[0]


def in_range(predicted: float | tuple[float, float], low: float, high: float) -> float:
    """1 for a number in [low, high], or a range inside it or overlapping it with IoU of at least 0.5; else 0.

    >>> [in_range(p, 9, 11) for p in (10.0, 11.0, 11.01, (9.5, 10.5), (9.0, 12.0), (8.0, 10.0), (0.0, 0.0))]
    [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    >>> in_range((0.0, 0.0), -1, 1)
    1.0
    """
    if isinstance(predicted, float):
        return float(low <= predicted <= high)
    start, end = predicted
    if low <= start and end <= high:
        return 1.0
    both = max(0.0, min(end, high) - max(start, low))
    union = max(end, high) - min(start, low)
    return float(union > 0 and both / union >= 0.5)


def score(answers: AnswerSpec, prediction: str) -> float:
    """1 or 0. A number where the answer carries a range; else equal to any accepted form after `normalise`."""
    if answers.number is not None:
        return in_range(parse(prediction), *answers.number)
    normal_prediction = normalise(prediction)
    return float(any(normal_prediction == normalise(form[0]) for form in answers.accepted))


def final(unseen_question: float, unseen_entity: float) -> float:
    """The benchmark's one number: the harmonic mean of the two splits, 0 replaced by 1e-12.

    >>> round(final(0.2, 0.3), 2)
    0.24
    """
    a, b = unseen_question or 1e-12, unseen_entity or 1e-12
    return 2 * a * b / (a + b)
