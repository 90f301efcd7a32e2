"""What the two engines of BM25 share: the words of a text, and the first k among candidates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.core.text import stream_safe
from demur.indexing.exact import Found

_PLAIN = re.compile(r"\w+", re.ASCII)


def words(text: str) -> list[str]:
    """Words of a text, in the form that is compared: NFKC, case folded; nothing is stemmed or stopped.

    A word is a letter, digit or underscore and what follows of these and of combining marks, without which vowels of
    Indic scripts and points of Arabic and Hebrew would cut words. The dot that folding leaves over the Turkish capital
    i goes.

    >>> words("The Eiffel Tower, 330\u00a0m; हिन्दी, İstanbul, Straße")
    ['the', 'eiffel', 'tower', '330', 'm', 'हिन्दी', 'istanbul', 'strasse']
    """
    if text.isascii():
        return _PLAIN.findall(text.lower())
    folded = unicodedata.normalize("NFKC", stream_safe(text)).casefold().replace("i\u0307", "i")
    return _word().findall(unicodedata.normalize("NFKC", folded))


@cache
def _word() -> re.Pattern[str]:
    r"""``\w`` followed by any number of ``\w`` and combining marks, for which `re` has no class.

    The look ahead spares most words the search through all marks, which takes longer than all the rest.
    """
    planes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))  # those that hold marks
    marks = "".join(chr(code) for code in planes if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"\w+(?:(?=[^\0-\u02ff])[{marks}]+\w*)*")


def first_among(
    scores: Callable[[str], NDArray[np.floating[Any]]],
    texts: Sequence[str],
    candidates: Sequence[NDArray[np.int64]],
    k: int,
) -> Found:
    """The first k for each query among its own candidate rows, of those that ``scores`` (n,) puts above 0."""
    found = Found(np.full((len(texts), k), -np.inf, np.float32), np.full((len(texts), k), -1, np.int64))
    for place, (text, rows) in enumerate(zip(texts, candidates, strict=True)):
        rows = np.unique(rows)
        near = scores(text)[rows]
        hit = near > 0
        order = np.lexsort((rows[hit], -near[hit]))[:k]
        found.scores[place, : len(order)] = near[hit][order]
        found.rows[place, : len(order)] = rows[hit][order]
    return found
