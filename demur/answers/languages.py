"""Which language a text is in, and the words of each that say what kind of answer it is (``languages.toml``)."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TypeVar

from demur.core.records import AnswerSpec
from demur.core.text import stream_safe

T = TypeVar("T")

LATIN = ("en", "es", "ca", "gl", "pt", "it", "fr", "de", "nl", "pl", "tr", "eu")
CODES = (*LATIN, "ru", "ar", "hi", "zh", "ja", "ko")
"""The languages that are read."""

_MARKS = re.compile("[\u0300-\u036f\u064b-\u065f\u0670\u0640\u093c]")
_LETTERS = {
    "ı": "i",
    "ł": "l",
    "ß": "ss",
    "ى": "ي",
    "ة": "ه",
    "\u2019": "'",
    "\u02bc": "'",
    "ё": "е",
}


@cache
def word_lists() -> dict[str, dict[str, str]]:
    """The file ``languages.toml``: code of a language -> name of a list -> its words."""
    return tomllib.loads(files(__package__).joinpath("languages.toml").read_text(encoding="utf-8"))


_TABLE = str.maketrans(
    _LETTERS
    | dict(zip(word_lists()["zh"]["traditional"], word_lists()["zh"]["simplified"], strict=True))
)
_SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7a3]"),
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"),
    "ru": re.compile("[\u0400-\u04ff]"),
    "ar": re.compile("[\u0600-\u06ff]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
_FOREIGN = {
    "ru": re.compile(r"[іїєґўђјљњћџѓќѕәғқңөұүһ]|\b(?:не е|са|през|че|няма|като|който|беше|ще)\b"),
    "ar": re.compile("[\u067e\u0686\u06af\u0698\u06cc\u06a9\u06d2]"),
}
"""Letters and words of other languages in the same script: Ukrainian, Bulgarian, Serbian, Kazakh; Persian, Urdu."""
LETTERS_OF = {
    "es": "ñ¿¡",
    "gl": "ñ",
    "ca": "·çò",
    "pt": "ãõç",
    "it": "òì",
    "fr": "çœêûî",
    "de": "ßäü",
    "pl": "łąężśćń",
    "tr": "ışğ",
}
"""Letters that few of the languages have."""
_LETTERS_OF_OTHERS = re.compile("[åøæőűșțăđơưěřůľŋþð\u1ea0-\u1ef9]")
"""Latin letters that no language has which is read."""
_SEEN = 4_000
"""Characters by which a language is told."""


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
    ).translate(_TABLE)


def bare(folded: str) -> str:
    """Folded text as words and single spaces."""
    return " ".join(re.sub(r"[^\w\u0900-\u0963\u0966-\u097f]+|_", " ", folded).split())


def listed(code: str, name: str) -> list[str]:
    """The words of a list, as they stand there; those of `_PHRASES` may have spaces."""
    found = word_lists()[code].get(name, "")
    return (
        [" ".join(part.split()) for part in found.split(",")]
        if name in _PHRASES and found
        else found.split()
    )


_PHRASES = frozenset({"or", "back", "doubts", "perhaps", "before", "after", "limits"})


def spellings(words: Iterable[str]) -> str:
    """A pattern of any of some words, with or without accents, the longest first."""
    forms = {form for word in words for form in (word, plain(word))}
    return (
        "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
        or r"(?!)"
    )


def table(entries: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Small words -> what they stand for, each with and without its accents."""
    found: dict[str, T] = {}
    for word, meaning in entries:
        for spelling in (
            word.lower(),
            word.casefold(),
            plain(word.casefold()),
        ):  # dreißig, dreissig
            found.setdefault(" ".join(spelling.split()), meaning)
    return found


def look_up(table: dict[str, T], said: str) -> T | None:
    """What a word of a text stands for; None for letters that only a pattern without case takes for a word's."""
    found = table.get(said.casefold())
    return table.get(plain(said.casefold())) if found is None else found


LETTER = r"(?:[^\W_]|[\u0900-\u0963])"
"""A letter or digit; the vowel signs of Hindi are neither to ``\\w``."""


@cache
def sides() -> dict[str, str]:
    """Small word by which any language other than English says yes or no -> "yes" or "no"."""
    return {
        word.casefold(): side
        for code in CODES
        if code != "en"
        for side in ("yes", "no")
        for word in listed(code, side)
    }


def evidence(question: str, spec: AnswerSpec) -> str:
    """What tells the language of a reply beside it: the question; without one the accepted forms ("tak" for "Nie.")."""
    return (
        question if question.strip() else " ".join(part for form in spec.accepted for part in form)
    )


def spoken(text: str) -> tuple[str, ...]:
    """The languages that a text may be in, likeliest first; () where it is in none of `CODES`.

    >>> spoken("No lo sé, la verdad"), spoken("Δεν ξέρω"), spoken("分かりません")
    (('es', 'it', 'en'), (), ('ja',))
    """
    seen = text[:_SEEN]
    letters = sum(c.isalpha() for c in seen)
    counts = {code: len(script.findall(seen)) for code, script in _SCRIPTS.items()}
    if not letters:
        return ("en",)
    if sum(counts.values()) < letters / 2:
        return ()
    if counts["ja"] * 10 >= counts["zh"] > 0 or counts["ja"] > counts["latin"]:
        counts["ja"] += counts["zh"]
        counts["zh"] = 0
    top = max(counts, key=lambda code: counts[code] * (3 if code in ("zh", "ja", "ko") else 1))
    if counts[top] * (3 if top in ("zh", "ja", "ko") else 1) < letters / 3:
        return ()
    if top == "zh" and letters <= 8:
        return ("zh", "ja")  # too short for a kana
    if top != "latin":
        foreign = _FOREIGN.get(top)
        return () if foreign and foreign.search(seen.casefold()) else (top,)
    said = bare(fold(seen)).split()
    scores = _likeness(said, seen.casefold())
    best = max(scores.values())
    if _of_another(said, seen) > best:
        return ()
    if best < 1 and len(seen.split()) <= 8:
        return tuple(sorted(LATIN, key=lambda c: -scores[c]))  # too short to tell: tried in all
    if not best:
        return ()
    near = [c for c in LATIN if scores[c] >= 0.65 * best or (c == "en" and scores[c] and best < 3)]
    return tuple(sorted(near, key=lambda c: -scores[c]))


def _likeness(said: list[str], seen: str) -> dict[str, float]:
    """Latin language -> how much of a text is its own: a small word counts for less the more languages share it."""
    scores = dict.fromkeys(LATIN, 0.0)
    shared = _shared()
    for word in said:
        for code in shared.get(word, ()):
            scores[code] += 1 / len(shared[word])
    for code, letters in LETTERS_OF.items():
        scores[code] += 0.5 * min(2, sum(seen.count(letter) for letter in letters))
    return scores


def _of_another(said: list[str], seen: str) -> float:
    """How much of a text is of the likeliest language in Latin letters that is not read, as in `_likeness`."""
    shared, scores = _shared(), dict.fromkeys(_others(), 0.0)
    for code, words in _others().items():
        scores[code] = sum(1 / (1 + len(shared.get(word, ()))) for word in said if word in words)
    return max(scores.values()) + 0.5 * min(2, len(_LETTERS_OF_OTHERS.findall(seen.casefold())))


@cache
def _others() -> dict[str, frozenset[str]]:
    return {
        code: frozenset(bare(fold(words)).split()) for code, words in word_lists()["others"].items()
    }


@cache
def _shared() -> dict[str, tuple[str, ...]]:
    """Small word -> the languages that have it."""
    found: dict[str, tuple[str, ...]] = {}
    for code in LATIN:
        for word in {bare(fold(word)) for word in listed(code, "common")}:
            found[word] = (*found.get(word, ()), code)
    return found
