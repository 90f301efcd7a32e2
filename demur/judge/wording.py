"""How likely a reply declines to answer, by its letters alone: a linear model.

It has seen labelled sentences, and goes by runs of two to five letters, by words, pairs of neighbours and pairs with
one word between; runs of the first and of the last sentence count once more as such, since what a reply ends in
outweighs what it tells before.

Weights: ``data/wording.npz`` (``roots`` int8, one per bucket of hashes: a weight is its square with its sign, times
``scale``; ``bias``), made by ``training/wording.py`` from 171,599 sentences, with openings, courtesies and
caveats around some of them.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from functools import cache
from importlib.resources import as_file, files
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from demur.core.text import stream_safe

_MARKS = re.compile("[\u0300-\u036f\u064b-\u065f\u0670\u0640\u093c]")
_TRADITIONAL = (
    "無法確認識別斷觀資訊圖們沒關說讀應該個這為從據問題顯內數檢繪頁後於難請給並當實與時結論對來誰記載猜測細節絡線"
    "證細詳義處傷類協評發報導權辦聽見過還額補傳澄開護選擇願質獲達標註寫歸僅關係顏顧務優麼嗎裡裏臺歡滿號將會長東萬"
)
_SIMPLIFIED = (
    "无法确认识别断观资讯图们没关说读应该个这为从据问题显内数检绘页后于难请给并当实与时结论对来谁记载猜测细节络线"
    "证细详义处伤类协评发报导权办听见过还额补传澄开护选择愿质获达标注写归仅关系颜顾务优么吗里里台欢满号将会长东万"
)
"""The commonest Chinese letters of deflections, in both spellings, in the same order."""
_LETTERS = str.maketrans(
    {
        "ı": "i",
        "ł": "l",
        "ß": "ss",
        "ى": "ي",
        "ة": "ه",
        "\u2019": "'",
        "\u02bc": "'",
        "ё": "е",
    }
    | dict(zip(_TRADITIONAL, _SIMPLIFIED, strict=True))
)

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


def fold(text: str) -> str:
    """Text as patterns see it: no case, no accents, one form of each letter.

    >>> fold("No está CLARO."), fold("無法確定")
    ('no esta claro.', '无法确定')
    """
    return plain(unicodedata.normalize("NFKC", stream_safe(text)).casefold())


def plain(text: str) -> str:
    """Small letters without accents, in one form each."""
    return unicodedata.normalize(
        "NFC", _MARKS.sub("", unicodedata.normalize("NFD", text))
    ).translate(_LETTERS)


def bare(folded: str) -> str:
    """Folded text as words and single spaces."""
    return " ".join(re.sub(r"[^\w\u0900-\u0963\u0966-\u097f]+|_", " ", folded).split())


def buckets(text: str) -> npt.NDArray[np.int64]:
    """The buckets of a text's runs of letters and words, each once, in order.

    Args:
        text: any text; its first `_LONGEST` characters are read, folded.

    Returns:
        shape (n,), 0 <= bucket < `BUCKETS`.
    """
    folded_text = fold(readable(text))
    sentences = [part for part in _STOP.split(folded_text) if _WORD.search(part)]
    runs = _runs(folded_text, RUNS)
    if sentences:
        runs |= {f"first {run}" for run in _runs(sentences[0], RUNS[1:])}
        runs |= {f"last {run}" for run in _runs(sentences[-1], RUNS[1:])}
    words = _WORD.findall(folded_text)
    runs |= {f"word {word}" for word in words}
    runs |= {f"pair {first_word} {next_word}" for first_word, next_word in pairwise(words)}
    runs |= {
        f"over {first_word} {next_word}"
        for first_word, next_word in zip(words, words[2:], strict=False)
    }
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
    bucket_numbers = buckets(text)
    if not len(bucket_numbers):
        return -np.inf
    roots, scale, bias = _weights()
    root = roots[bucket_numbers].astype(np.int64)
    return float(scale * (root * np.abs(root)).sum() / np.sqrt(len(bucket_numbers)) + bias)


@cache
def _weights() -> tuple[npt.NDArray[np.int8], float, float]:
    with (
        as_file(files(__package__) / "data" / "wording.npz") as path,
        np.load(path, allow_pickle=False) as stored,
    ):
        return stored["roots"], float(stored["scale"]), float(stored["bias"])
