"""A small number in a text: does it count what a question asks for, or does the digit stand there for something else?

"2" answers "How many rings has it?"; it stands in "2-methoxyphenol" (a locant), in "2 methyl groups" and in "step 2"
too, and none of them says how many rings there are. So where the answer is a small bare number, the question says what
it must be a number of:

* "How many oxygen atoms ...", "the number of oxygen atoms": the noun, or what is said of it, stands behind the number
  ("2 atoms", "two oxygens", "a two-atom ..."), or before it with nothing but linking words between ("oxygen atoms: 2").
* Any other question: a number that a hyphen ties to a word ("2-methoxy") must be tied to a word of the question.

From `LARGE` on a number is telling enough by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from demur.answers.numbers import Quantity, quantities
from demur.answers.text import Word, readable, words

LARGE = 100
"""From here on a whole number is hardly met by chance."""
_BEHIND = 4
"""Words behind a number among which the noun stands: "50 white, five-pointed stars"."""
_ASKS = re.compile(r"\b(?:how many|(?:number|count|quantity|total) of(?: the)?(?: different)?)\s+", re.IGNORECASE)
_ENDS = frozenset({
    "is", "are", "was", "were", "be", "been", "do", "does", "did", "has", "have", "had", "can", "could", "will",
    "would", "should", "must", "may", "might", "in", "on", "at", "of", "to", "for", "from", "by", "with", "that",
    "which", "who", "there", "this", "these", "those", "it", "its", "and", "or", "per", "make", "makes", "appear",
    "appears", "contain", "contains", "show", "shown", "exist", "stand", "stands", "the", "an",
})  # fmt: skip
"""They end the noun phrase behind "how many"."""
_LINKS = frozenset({
    "is", "are", "was", "were", "be", "being", "count", "counts", "number", "numbers", "numbered", "total", "totals",
    "totalled", "totaled", "amount", "amounts", "equal", "equals", "to", "at", "of", "in", "all", "exactly", "about",
    "only", "just", "the", "it", "has", "have", "had", "there", "per", "molecule", "altogether",
})  # fmt: skip
"""Nothing but these, and nouns of the question, may stand between a noun and the number behind it."""
_OF_THEM = re.compile(r" (?:of (?:them|these|those|which|it)|in all|in total|altogether)(?![^\W_])", re.IGNORECASE)
_TIED = re.compile(r"-(?=[^\W\d_])")
_TIED_COMPOUND = re.compile(r"(?<!\d)(?<!\d,)\d++(?:,\d++)*+[-–]\w++")


class Asked(NamedTuple):
    """What a question asks for, as far as it bears on numbers."""

    head: str
    """The noun that is counted, folded, without its plural ("atom"); "" where nothing is."""
    more: frozenset[str]
    """What is said of it ("oxygen"), each without its plural."""
    words: frozenset[str]
    """All words of the question, those tied to a digit aside, without their plurals."""


def _stem(word: str) -> str:
    """A noun without the ending of its plural, as far as comparing two spellings needs.

    >>> [_stem(w) for w in ("atoms", "bodies", "boxes", "bus", "gas")]
    ['atom', 'body', 'box', 'bus', 'gas']
    """
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@lru_cache(maxsize=4096)
def asked(question: str) -> Asked:
    """What a question asks to be counted, if anything.

    >>> asked("How many oxygen atoms does it have?")[:2]
    ('atom', frozenset({'oxygen'}))
    >>> asked("Which group is it in?").head
    ''
    """
    text = readable(question)
    told = frozenset(_stem(w.norm) for w in words(_TIED_COMPOUND.sub(" ", text)))
    found = _ASKS.search(text)
    phrase: list[str] = []
    for word in words(text[found.end() : found.end() + 80])[:5] if found else ():
        if word.norm in _ENDS or word.norm.isdigit():
            break
        phrase.append(_stem(word.norm))
    return Asked(phrase[-1] if phrase else "", frozenset(phrase[:-1]), told)


def is_small(number: Quantity) -> bool:
    """Whether it is a whole number below `LARGE` without a unit: what is met by chance in any text."""
    return (
        not number.unit and not number.ordinal and not number.is_range
        and 0 <= number.low < LARGE and number.low == int(number.low)
    )  # fmt: skip


def counts(what: Asked, text: str, start: int, end: int) -> bool:
    """Whether the number at a place of ``readable(text)`` is one of what is asked for."""
    text = readable(text)
    behind = text[end : end + 80]
    tied = _TIED.match(behind)
    if not what.head:
        return not tied or _stem(words(behind[1:])[0].norm) in what.words
    following = words(re.split(r"[.;:!?()\[\]|\n]", behind, maxsplit=1)[0])
    if tied:
        return bool(following) and _stem(following[0].norm) == what.head
    if _behind(what, behind, following):
        return True
    if _OF_THEM.match(behind):
        return what.head in {_stem(w.norm) for w in words(text[max(0, start - 200) : start])}
    before = re.split(r"[.;!?\n]\s", text[max(0, start - 120) : start])[-1]
    if following and behind[:1].isspace() and following[0].norm not in _ENDS:
        return False  # it counts something else
    return _before(what, before)


def _behind(what: Asked, behind: str, following: tuple[Word, ...]) -> bool:
    if not behind.startswith(" ") or behind[1:2].isdigit():
        return False
    between: list[str] = []
    for word in following[:_BEHIND]:
        stem = _stem(word.norm)
        if stem == what.head:
            after = [_stem(w.norm) for w in following[len(between) + 1 : len(between) + 3]]
            of = after[1] if len(after) > 1 and after[0] == "of" else ""
            return not what.more or not between or bool(what.more & {*between, of})
        if stem.isdigit() or word.norm in _ENDS:
            return False
        between.append(stem)
    return len(what.more) > 0 and bool(between) and between[0] in what.more  # two oxygens


def _before(what: Asked, before: str) -> bool:
    """Whether the noun stands before the number, with a colon or linking words alone between ("ring 2" is a label)."""
    linked = not before[-2:].strip(" ").isalnum()
    for word in reversed(words(before)[-10:]):
        stem = _stem(word.norm)
        if stem == what.head:
            return linked
        if word.norm not in _LINKS and stem not in what.more and stem not in what.words:
            return False
        linked = True
    return False


def answering(question: str, text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of the places where a reply has a small number, those that can be its answer.

    Where the reply counts what was asked for, no other number does ("It has 2 methyl groups and 3 rings."); where it
    does not ("There are two."), every number may that is tied to no other word.
    """
    what = asked(question)
    if what.head and any(is_small(q) and counts(what, text, q.start, q.end) for q in quantities(text)):
        return [place for place in places if counts(what, text, *place)]
    free = what._replace(head="")
    return [place for place in places if counts(free, text, *place)]
