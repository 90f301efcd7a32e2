"""Does a small number in a text count what the question asks for, or something else?

"2" answers "How many rings has it?". But "2-methoxyphenol" (a locant), "2 methyl groups" and "step 2" hold a 2 as well,
and none of them counts rings. So if the answer is a small bare number, the question decides what it must count:

* "How many oxygen atoms ...", "the number of oxygen atoms": the noun or its modifier follows the number ("2 atoms",
  "two oxygens", "a two-atom ..."), or precedes it with only linking words between ("oxygen atoms: 2").
* Any other question: a number joined to a word by a hyphen ("2-methoxy") must be joined to a word of the question.

Numbers from `LARGE` on are specific enough by themselves.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from demur.answers.numbers import Quantity
from demur.answers.text import Word, readable, words

LARGE = 100
"""Whole numbers from here on rarely occur by chance."""
_BEHIND = 4
"""The noun is among so many words after a number: "50 white, five-pointed stars"."""
_ASKS = re.compile(
    r"\b(?:how many|(?:number|count|quantity|total) of(?: the)?(?: different)?)\s+", re.IGNORECASE
)
_ENDS = frozenset(
    """
is are was were be been do does did has have had can could will would should must may might in on at of to for
from by with that which who there this these those it its and or per make makes appear appears contain
contains show shown exist stand stands the an
""".split()
)
"""Words that end the noun phrase after "how many"."""
_LINKS = frozenset(
    """
is are was were be being count counts number numbers numbered total totals totalled totaled amount amounts
equal equals to at of in all exactly about only just the it has have had there per molecule altogether
""".split()
)
"""Only these words, and words of the question, may stand between a noun and the number after it."""
_OF_THEM = re.compile(
    r" (?:of (?:them|these|those|which|it)|in all|in total|altogether)(?![^\W_])", re.IGNORECASE
)
_TIED = re.compile(r"-(?=[^\W\d_])")
_TIED_COMPOUND = re.compile(r"(?<!\d)(?<!\d,)\d++(?:,\d++)*+[-–]\w++")


class CountedThing(NamedTuple):
    """What a question asks to be counted."""

    head: str
    """The counted noun, folded, in the singular ("atom"); "" if nothing is counted."""
    modifiers: frozenset[str]
    """Its modifiers ("oxygen"), in the singular."""
    words: frozenset[str]
    """All words of the question in the singular, except those joined to a digit."""


def _singular(word: str) -> str:
    """A noun without its plural ending, good enough to compare two spellings.

    >>> [_singular(w) for w in ("atoms", "bodies", "boxes", "bus", "gas")]
    ['atom', 'body', 'box', 'bus', 'gas']
    """
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    return (
        word[:-1]
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
        else word
    )


@lru_cache(maxsize=4096)
def counted_thing(question: str) -> CountedThing:
    """What a question asks to be counted, if anything.

    >>> counted_thing("How many oxygen atoms does it have?")[:2]
    ('atom', frozenset({'oxygen'}))
    >>> counted_thing("Which group is it in?").head
    ''
    """
    text = readable(question)
    question_words = frozenset(_singular(w.norm) for w in words(_TIED_COMPOUND.sub(" ", text)))
    count_question = _ASKS.search(text)
    phrase: list[str] = []
    for word in (
        words(text[count_question.end() : count_question.end() + 80])[:5] if count_question else ()
    ):
        if word.norm in _ENDS or word.norm.isdigit():
            break
        phrase.append(_singular(word.norm))
    return CountedThing(phrase[-1] if phrase else "", frozenset(phrase[:-1]), question_words)


def is_small(number: Quantity) -> bool:
    """Whether it is a whole number below `LARGE` without a unit, which any text may hold by chance."""
    return (
        not number.unit
        and not number.ordinal
        and not number.is_range
        and 0 <= number.low < LARGE
        and number.low == int(number.low)
    )


def counts(thing: CountedThing, text: str, start: int, end: int) -> bool:
    """Whether the number at a place of ``readable(text)`` counts what the question asks for."""
    text = readable(text)
    text_behind = text[end : end + 80]
    tied = _TIED.match(text_behind)
    if not thing.head:
        return not tied or _singular(words(text_behind[1:])[0].norm) in thing.words
    following = words(re.split(r"[.;:!?()\[\]|\n]", text_behind, maxsplit=1)[0])
    if tied:
        return bool(following) and _singular(following[0].norm) == thing.head
    if _noun_follows(thing, text_behind, following):
        return True
    if _OF_THEM.match(text_behind):
        return thing.head in {_singular(w.norm) for w in words(text[max(0, start - 200) : start])}
    text_before = re.split(r"[.;!?\n]\s", text[max(0, start - 120) : start])[-1]
    if following and text_behind[:1].isspace() and following[0].norm not in _ENDS:
        return False  # it counts something else
    return _noun_precedes(thing, text_before)


def _noun_follows(thing: CountedThing, text_behind: str, following: tuple[Word, ...]) -> bool:
    if not text_behind.startswith(" ") or text_behind[1:2].isdigit():
        return False
    between: list[str] = []
    for word in following[:_BEHIND]:
        stem = _singular(word.norm)
        if stem == thing.head:
            after = [_singular(w.norm) for w in following[len(between) + 1 : len(between) + 3]]
            of = after[1] if len(after) > 1 and after[0] == "of" else ""
            return not thing.modifiers or not between or bool(thing.modifiers & {*between, of})
        if stem.isdigit() or word.norm in _ENDS:
            return False
        between.append(stem)
    return (
        len(thing.modifiers) > 0 and bool(between) and between[0] in thing.modifiers
    )  # two oxygens


def _noun_precedes(thing: CountedThing, text_before: str) -> bool:
    """Whether the noun precedes the number, with only a colon or linking words between ("ring 2" is a label)."""
    linked = not text_before[-2:].strip(" ").isalnum()
    for word in reversed(words(text_before)[-10:]):
        stem = _singular(word.norm)
        if stem == thing.head:
            return linked
        if word.norm not in _LINKS and stem not in thing.modifiers and stem not in thing.words:
            return False
        linked = True
    return False
