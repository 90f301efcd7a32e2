"""Numbers among the words of a page: which words are numeric, and another value written in the same manner."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from demur.suites.mm_aqa.transforms import Given, Infeasible, Word

_NUMBER = re.compile(r"(?P<head>[^\d\w]*[$€£¥]?)(?P<digits>\d[\d,. ]*)(?P<tail>\D*)")


def numeric(word: Word) -> bool:
    """Whether a word of a page is a number: more of it digits than letters."""
    digits = sum(c.isdigit() for c in word.text)
    return digits > 0 and digits >= sum(c.isalpha() for c in word.text)


def split(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """Numeric words and the others."""
    return [w for w in words if numeric(w)], [w for w in words if not numeric(w)]


def other_value(text: str, rng: random.Random, low: float = 0.2, high: float = 0.5) -> tuple[str, float] | None:
    """A number of 20 to 50 % more or less, in the same manner, and by how much; None where no such one can be written.

    The change is that of what is written, after rounding to as many decimals; single digits of small numbers that
    cannot move by so little are left to be erased.

    >>> other_value("59,700", random.Random(1))[0].count(",")
    1
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    plain = found["digits"].rstrip("., ")
    rest = found["digits"][len(plain) :]
    grouped = bool(re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain))
    if not grouped and not re.fullmatch(r"\d+(?:\.\d+)?", plain):
        return None
    value = float(plain.replace(",", ""))
    decimals = len(plain.partition(".")[2])
    if value == 0:
        return None
    for _ in range(40):
        by = rng.uniform(low, high) * rng.choice((-1, 1))
        written = f"{value * (1 + by):,.{decimals}f}" if grouped else f"{value * (1 + by):.{decimals}f}"
        real = float(written.replace(",", "")) / value - 1
        if low - 1e-9 <= abs(real) <= high + 1e-9:
            return found["head"] + written + rest + found["tail"], real
    return None


def read_pages(given: Given) -> list[list[Word]]:
    """The words of each page; `Infeasible` where none holds a number."""
    pages = [given.words(image) for image in given.images]
    if not any(numeric(w) for page in pages for w in page):
        raise Infeasible("no number can be read off the evidence pages")
    return pages


def drawn(words: Sequence[Word], share: float, rng: random.Random) -> list[Word]:
    """That share of the words, at least one where there are any, in their order."""
    many = min(len(words), max(1, round(share * len(words)))) if words and share > 0 else 0
    chosen = set(rng.sample(range(len(words)), many))
    return [w for place, w in enumerate(words) if place in chosen]
