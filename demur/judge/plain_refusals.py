"""Whether a reply is made of nothing but the words of a plain refusal ("I don't know based on the context.").

Such a reply says nothing that could answer a question, so no question changes how it is read
(`demur.judge.deflection`). It is told by its words, not by a list of sentences: each of them is one of
``plain_refusals.txt``, which has those of knowing, saying and evidence (at least one must be there) and the small ones
beside them, in eighteen languages.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from demur.judge.wording import bare, fold, readable

_LONGEST = 400
"""Characters of a plain refusal at most."""
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")
"""Chinese and Japanese: no blanks between words."""
_TELLS, _SMALL, _CONTENT = 2, 1, 0


class _Words(NamedTuple):
    """The words of one of the two lists, folded."""

    whole: frozenset[str]
    beginnings: frozenset[str]
    pieces: frozenset[str]
    """Of Chinese and Japanese."""


def is_plain_refusal(text: str) -> bool:
    """Whether a reply has no word but those of a plain refusal. Whether it denies anything is not looked at.

    >>> is_plain_refusal("Sorry, the retrieved documents don't say."), is_plain_refusal("The vicar doesn't say.")
    (True, False)
    """
    if len(text) > _LONGEST:
        return False
    words = bare(fold(readable(text))).split()
    roles = [_role(word) for word in words]
    for place, word in enumerate(words):  # "none of the 5 documents", "document 3"
        beside = roles[max(0, place - 1) : place] + roles[place + 1 : place + 2]
        if not roles[place] and word.isdigit() and _TELLS in beside:
            roles[place] = _SMALL
    return _TELLS in roles and _CONTENT not in roles


def _role(word: str) -> int:
    tells, small = _lists()
    if _UNSPACED.fullmatch(word):
        pieces = _pieces().findall(word)
        if sum(map(len, pieces)) < len(word):
            return _CONTENT
        return _TELLS if any(piece in tells.pieces for piece in pieces) else _SMALL
    beginnings = {word[:end] for end in range(1, len(word) + 1)}
    for words, role in ((tells, _TELLS), (small, _SMALL)):
        if word in words.whole or not words.beginnings.isdisjoint(beginnings):
            return role
    return _CONTENT


@cache
def _lists() -> tuple[_Words, _Words]:
    """The words that tell, and the small ones."""
    lines = files(__package__).joinpath("plain_refusals.txt").read_text(encoding="utf-8")
    lists: dict[str, tuple[set[str], set[str], set[str]]] = {
        name: (set(), set(), set()) for name in ("tells", "small")
    }
    language = ""
    for line in lines.splitlines():
        if line.startswith("["):
            language = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, words = line.partition(" = ")
            whole, beginnings, pieces = lists[name]
            for word in words.split():
                folded = bare(fold(word)).split()
                if language in ("zh", "ja"):
                    pieces.update(folded)
                elif word.endswith("-"):
                    beginnings.add("".join(folded))
                else:
                    whole.update(folded)
    tells, small = (_Words(*map(frozenset, sets)) for sets in lists.values())
    return tells, small


@cache
def _pieces() -> re.Pattern[str]:
    """The longest piece first."""
    pieces = set().union(*(words.pieces for words in _lists()))
    return re.compile("|".join(sorted(map(re.escape, pieces), key=lambda p: (-len(p), p))))
