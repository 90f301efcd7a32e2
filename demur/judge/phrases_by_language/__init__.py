"""How other languages decline: one file of patterns per language, in our own words.

A file has ``NAME = words`` lines (put in where a later line says ``<NAME>``), then sections of one regular expression
per line. Case, accents, Arabic hamzas and vowel marks, and Chinese character forms do not matter: text and patterns are
folded alike. Every gap is bounded, so that reading takes time in proportion to the text.

    TURN       words after which a sentence turns ("but", "so")
    [refuses]  the speaker will not      [declines]  he cannot tell       [blames]    the evidence does not say
    [asks]     he asks back              [doubts]    he is not sure       [offers]    an answer is coming
    [describes] what evidence shows, courtesies          [more]  what lies beyond an answer that was given
    [corrects] what makes a denial an answer: "not in Paris but in Rome", "not identified until 1990"
    [others]   somebody else cannot or will not: "the witness could not say", "she said that she does not know"
    [whole]    replies that decline and are nothing but this
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from demur.answers.languages import CODES, bare, plain

SECTIONS = ("refuses", "declines", "blames", "asks", "doubts", "offers", "describes", "more", "corrects", "others")

_SPACELESS = frozenset({"zh", "ja", "ko"})
"""Languages in which a turn needs no word boundary."""
_SUFFIXES = {"ar": "(?:ه|ها|هم|ني|ي|نا)?", "hi": ""}
"""What may hang on a word that turns, where letters are not those of the others."""
_COMMA_ONLY = frozenset({"de", "nl"})
"""Languages in which the words that turn stand inside other clauses too."""
_MACRO = re.compile(r"([A-Z]+) = (.*)")


class _Sections(dict[str, re.Pattern[str]]):
    """Patterns by section, compiled when they are first asked for: most replies need one language of eighteen."""

    def __init__(self, written: dict[str, list[str]]) -> None:
        super().__init__()
        self._written = written

    def __missing__(self, name: str) -> re.Pattern[str]:
        # only what is not an escape is folded: patterns are written small
        self[name] = re.compile("|".join(f"(?:{plain(p)})" for p in self._written[name]) or r"(?!)")
        return self[name]


class Language(NamedTuple):
    """The patterns of one language, over folded text."""

    code: str
    turn: re.Pattern[str]
    sections: _Sections
    whole: frozenset[str]


@cache
def language(code: str) -> Language:
    """The patterns of one language."""
    macros: dict[str, str] = {}
    lines: dict[str, list[str]] = {name: [] for name in (*SECTIONS, "whole")}
    section = ""
    for raw in files(__package__).joinpath(f"{code}.txt").read_text(encoding="utf-8").splitlines():
        line = unicodedata.normalize("NFC", raw)
        if line.startswith("#") or not line.strip():
            continue
        if line[0] == "[" and line.rstrip("] \n")[1:] in lines:
            section = line.rstrip("] \n")[1:]
            continue
        for name, words in macros.items():
            line = line.replace(f"<{name}>", words)
        made = _MACRO.fullmatch(line)
        if made and not section:
            macros[made[1]] = made[2]
        else:
            lines[section].append(line)
    written = {name: lines[name] for name in SECTIONS}
    turn = plain(macros.get("TURN", "(?!)"))
    if code in _SPACELESS:
        turned = rf"[,،，、]?\s*(?:{turn})[,،，、]?\s*"
    elif code in _SUFFIXES:
        turned = rf"[,،]?\s*(?<!\w)(?:{turn}){_SUFFIXES[code]}(?![\w\u0900-\u097f])[,،]?\s*"
    elif code in _COMMA_ONLY:
        turned = rf"(?:^\W*|[,;:]\s*)(?:{turn})\b,?\s*"
    else:
        turned = rf"(?:^\W*|[,;:]\s*|\s)(?:{turn})\b,?\s*"
    return Language(
        code, re.compile(turned), _Sections(written),
        frozenset(bare(plain(line)) for line in lines["whole"]),
    )  # fmt: skip


@cache
def wholes() -> frozenset[str]:
    """Replies that decline and are nothing else, of all languages."""
    return frozenset().union(*(language(code).whole for code in CODES))
