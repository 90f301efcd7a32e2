"""How likely a reply declines to answer, by its letters alone: a linear model.

It has seen labelled sentences, and goes by runs of two to five letters, by words, pairs of neighbours and pairs with
one word between; runs of the first and of the last sentence count once more as such, since what a reply ends in
outweighs what it tells before.

Weights: ``data/wording.npz`` (``roots`` int8, one per bucket of hashes: a weight is its square with its sign, times
``scale``; ``bias``), made by ``tools/train_wording.py`` from sentences of ``tests/judge``, with
openings, courtesies and caveats around some of them.
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
_STOP = re.compile(r"(?<=[.!?\u061f\u3002\uff01\uff1f\u0964])\s*|\n")
_WORD = re.compile(r"\w+")
_MARKUP = re.compile(
    r"[*_`#~|{}\"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]"
    r"|</?\w[^<>\n]{0,80}>|\[[\d, ]{1,12}\]|https?://\S+|^[ \t]*(?:[-\u2022\u2013>]|\d{1,2}[.)])[ \t]+",
    re.MULTILINE,
)
"""Markdown, HTML, quotation marks, emojis, numbers of sources, addresses, bullets."""
_LABEL = re.compile(
    r"^\W*(?:final|answer|final answer|response|output|reply|text|result)\s*:", re.IGNORECASE
)
_SOURCES = re.compile(
    r"\n[ \t]{0,9}(?:sources?|references?|confidence|citations?)\b[^\n]{0,200}$", re.IGNORECASE
)
_LONGEST = 1_200
"""Characters that are read: untrusted text must not cost more than a little."""


def buckets(text: str) -> npt.NDArray[np.int64]:
    """The buckets of a text's runs of letters and words, each once, in order.

    Args:
        text: any text; its first `_LONGEST` characters are read, folded (`demur.answers.languages.fold`).

    Returns:
        shape (n,), 0 <= bucket < `BUCKETS`.
    """
    read = fold(readable(text))
    sentences = [part for part in _STOP.split(read) if _WORD.search(part)]
    runs = _runs(read, RUNS)
    if sentences:
        runs |= {f"first {run}" for run in _runs(sentences[0], RUNS[1:])}
        runs |= {f"last {run}" for run in _runs(sentences[-1], RUNS[1:])}
    words = _WORD.findall(read)
    runs |= {f"word {word}" for word in words}
    runs |= {f"pair {one} {other}" for one, other in pairwise(words)}
    runs |= {f"over {one} {other}" for one, other in zip(words, words[2:], strict=False)}
    return np.unique(
        np.fromiter(
            (zlib.crc32(run.encode(errors="replace")) % BUCKETS for run in runs),
            np.int64,
            len(runs),
        )
    )


def readable(text: str) -> str:
    """The beginning of a text without what only lays it out: the same words weigh the same in bold or as a list."""
    return _SOURCES.sub("", _LABEL.sub("", _MARKUP.sub("", text[:_LONGEST])).rstrip())


def _runs(text: str, lengths: tuple[int, ...]) -> set[str]:
    padded = f" {' '.join(text.split())} "
    return {padded[i : i + n] for n in lengths for i in range(len(padded) - n + 1)}


def log_odds(text: str) -> float:
    """Log odds that a reply declines, by its wording alone; -inf where it has no letters.

    >>> log_odds("The leaflet keeps silent about ticket prices.") > log_odds("Tickets cost 12 francs.")
    True
    """
    found = buckets(text)
    if not len(found):
        return -np.inf
    roots, scale, bias = _weights()
    root = roots[found].astype(np.int64)
    return float(scale * (root * np.abs(root)).sum() / np.sqrt(len(found)) + bias)


@cache
def _weights() -> tuple[npt.NDArray[np.int8], float, float]:
    with (
        as_file(files(__package__) / "data" / "wording.npz") as path,
        np.load(path, allow_pickle=False) as stored,
    ):
        return stored["roots"], float(stored["scale"]), float(stored["bias"])
