"""How likely a reply declines to answer, by its letters alone: a linear model beside the rules of `deflection`.

Rules know the words that somebody wrote down; they miss four deflections in ten. This model has
seen the same labelled sentences and takes what it learnt from runs of two to five letters to words that no rule has,
and from words, pairs of neighbours and pairs with one word between; runs of the first and of the last sentence count
once more as such, since what a reply ends in outweighs what it tells before. It reads no clauses: what a rule says
goes before it, save where it is sure of the opposite (`DOUBTS`).

Weights: ``data/wording.npz`` (``weights`` int8, one per bucket of hashes, times ``scale``; ``bias``), made by
``tools/train_wording.py`` from ``tests/judge/*deflections*.jsonl``.
"""

from __future__ import annotations

import re
import zlib
from functools import cache
from importlib.resources import as_file, files
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from demur.answers.languages import fold

BUCKETS = 1 << 21
"""Hashes of runs and words fall into so many buckets."""
RUNS = (2, 3, 4, 5)
"""Lengths of the runs of letters, in characters of folded text, spaces included."""
DECLINES, DECLINES_LONG = 0.55, 0.75
"""From this probability on a reply, or a long one, declines though no rule says so."""
OFFERS = 0.6
"""The same where a rule reads a part of it as offering an answer."""
DOUBTS, DOUBTS_LONG = 0.1, 0.5
"""Up to this probability a reply, or a long one, answers though a rule reads a part of it as declining."""
LONG = 200
"""Letters (a Chinese, Japanese or Korean one is two) from which on a reply is long: one of its many clauses may
look like a deflection in the middle of an explanation."""
SHORT = 20
"""Bytes of UTF-8 (20 Latin letters, 10 Cyrillic, 7 Chinese) below which a reply has too few runs to go by."""
_STOP = re.compile(r"(?<=[.!?\u061f\u3002\uff01\uff1f\u0964])\s*|\n")
_WORD = re.compile(r"\w+")
_LONGEST = 1_200
"""Characters that are read: untrusted text must not cost more than a little."""


def buckets(text: str) -> npt.NDArray[np.int64]:
    """The buckets of a text's runs of letters and words, each once, in order.

    Args:
        text: any text; its first `_LONGEST` characters are read, folded as the rules fold them.

    Returns:
        shape (n,), 0 <= bucket < `BUCKETS`.
    """
    read = fold(text[:_LONGEST])
    sentences = [part for part in _STOP.split(read) if part.strip()]
    runs = _runs(read, RUNS)
    if sentences:
        runs |= {f"first {run}" for run in _runs(sentences[0], RUNS[1:])}
        runs |= {f"last {run}" for run in _runs(sentences[-1], RUNS[1:])}
    words = _WORD.findall(read)
    runs |= {f"word {word}" for word in words}
    runs |= {f"pair {one} {other}" for one, other in pairwise(words)}
    runs |= {f"over {one} {other}" for one, other in zip(words, words[2:], strict=False)}
    return np.unique(
        np.fromiter((zlib.crc32(run.encode(errors="replace")) % BUCKETS for run in runs), np.int64, len(runs))
    )


def _runs(text: str, lengths: tuple[int, ...]) -> set[str]:
    padded = f" {' '.join(text.split())} "
    return {padded[i : i + n] for n in lengths for i in range(len(padded) - n + 1)}


def is_long(text: str) -> bool:
    """Whether a reply has more than `LONG` letters.

    >>> is_long("Tickets cost 12 francs.")
    False
    """
    return len(text) > LONG or len(text) + sum(letter >= "\u2e80" for letter in text) > LONG


def likelihood(text: str) -> float:
    """Probability that a reply declines, in [0, 1]; 0.0 where it has no letters.

    >>> likelihood("The leaflet keeps silent about ticket prices.") > likelihood("Tickets cost 12 francs.")
    True
    """
    found = buckets(text)
    if not len(found):
        return 0.0
    weights, scale, bias = _weights()
    total = scale * int(weights[found].sum(dtype=np.int64))
    return float(1 / (1 + np.exp(-(total / np.sqrt(len(found)) + bias))))


@cache
def _weights() -> tuple[npt.NDArray[np.int8], float, float]:
    with as_file(files(__package__) / "data" / "wording.npz") as path, np.load(path, allow_pickle=False) as stored:
        return stored["weights"], float(stored["scale"]), float(stored["bias"])
