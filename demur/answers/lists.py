"""What a reply lists beside the parts of an answer: "red, blue and green" where red and blue is right.

A list may go on, begin earlier, or have more between. Told from a sentence that goes on ("..., and it is old") by its
small words, capitals and commas; in doubt of a list, the answer is not proven right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise

from demur.answers.languages import LETTER, fold, listed, sides, word_lists
from demur.answers.numbers import quantities
from demur.answers.spans import Span
from demur.answers.text import Word, readable, words

_COMMA = r"(?P<{}>,(?!\d)|[;،，、；])"
_AND_EN = "and also|and|as well as|along with|together with|plus"
_SPACELESS = {
    "zh": "[和与及跟]",
    "ja": "と(?![言思考呼答い])",
    "ko": r"[와과](?=\s)|그리고",
    "ar": r"\bو\s?(?=\w)",
}
_STOP = re.compile(r"[.!?:](?=\s|$)|[\n。！？؟।()（）]|\s-\s")
_HAN_OR_KANA = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_REACH = 160
_ARTICLES = frozenset({"the", "a", "an", "its", "his", "her", "their", "two", "three", "some"})
_ENDS = frozenset(
    {
        "which",
        "who",
        "where",
        "when",
        "we",
        "i",
        "not",
        "no",
        "never",
        "without",
        "but",
        "rather",
        "respectively",
        "after",
        "before",
        "during",
        "since",
        "until",
        "than",
        "between",
    }
)
_OPENERS = frozenset(listed("en", "openers")) | {"both", "correct", "right", "answer", "indeed"}
_OTHERS = frozenset(
    {"others", "another", "other", "one", "more", "several", "many", "two", "three", "some"}
)
_LINKS = frozenset({"is", "are", "was", "were", "be", "include", "includes", "included", "by"})


@cache
def _joints(languages: tuple[str, ...]) -> re.Pattern[str]:
    """A comma, a word for "and", or both."""
    ands = [rf"(?<!{LETTER})(?:{_AND_EN})(?!{LETTER})"]
    for code in languages:
        said = word_lists()[code].get("joined_by", "(?!)").strip()
        ands.append(_SPACELESS.get(code, rf"(?<!{LETTER})(?:{said})(?!{LETTER})"))
    return re.compile(
        rf"\s{{0,3}}(?:{_COMMA.format('before')}?\s{{0,3}}(?P<and>{'|'.join(ands)})|{_COMMA.format('only')})\s{{0,3}}",
        re.I,
    )


@cache
def _small(languages: tuple[str, ...]) -> frozenset[str]:
    """Words that end an item of a list."""
    english = {*listed("en", "small"), *listed("en", "function"), *_ENDS} - _ARTICLES
    lists = ((code, name) for code in languages for name in ("common", "not"))
    return frozenset(
        english.union(fold(word) for code, name in lists for word in listed(code, name))
    )


@lru_cache(maxsize=4096)
def is_list(form: str, languages: tuple[str, ...] = ()) -> bool:
    """Whether an accepted form has a word for "and" between its parts; a part has two signs: 太和殿 is one thing."""
    joints = _joints(languages).finditer(form)
    return not quantities(form) and any(
        m["and"] and m.start() > 1 and m.end() < len(form) - 1 for m in joints
    )


def further_item(
    text: str, parts: Sequence[Span], question: str, languages: Sequence[str] = ()
) -> str:
    """What a reply lists beside the parts of an answer; "" if nothing.

    Args:
        text: the reply.
        parts: where it states them, in ``readable(text)``.
        question: its words are no items ("Colours: red and blue").
        languages: others than English that the reply may be in.

    >>> further_item("Red, blue and green.", [(0, 3), (5, 9)], "Which colours?")
    'green'
    >>> further_item("It is red and blue, and it is old.", [(6, 9), (14, 18)], "Which colours?")
    ''
    """
    text, joints, small = readable(text), _joints(tuple(languages)), _small(tuple(languages))
    parts = sorted(parts)
    first, last = parts[0][0], max(end for _, end in parts)
    if "ko" in languages and text[last - 1] in "와과":  # the particle is a part of the word
        last -= 1
    inner = text[first:last]
    if (
        len(inner) > 2 * _REACH
        or _STOP.search(inner)
        or len({any(c.isdigit() for c in text[slice(*part)]) for part in parts}) > 1
    ):
        return ""  # they are no list
    begin = max(
        (m.end() for m in _STOP.finditer(text, max(0, first - _REACH), first)),
        default=max(0, first - _REACH),
    )
    stop = _STOP.search(text, last, last + _REACH)
    before, after = text[begin:first], text[last : stop.start() if stop else last + _REACH]
    names = all(text[start].isupper() for start, _ in parts) and words(inner)[-1].raw[0].isupper()
    closed = any(m["and"] for m in joints.finditer(inner))
    known = {w.norm for w in words(question)}
    for item in (
        _between(text, parts, joints, small),
        _behind(after, joints, small, names=names, closed=closed),
        _ahead(before, joints, small, names=names),
    ):
        if item and not {w.norm for w in item} <= known:
            return " ".join(w.raw for w in item)
    return ""


def _item(piece: str, small: frozenset[str]) -> tuple[list[Word], bool]:
    """The first words of a piece, to the first small one, without articles; and whether they are all of it."""
    said = [w for w in words(piece) if w.norm not in _ARTICLES]
    said = said[
        len(said) > 1
        and said[0].norm in small
        and len(said[0].norm) <= 3
        and said[0].norm not in _small(()) :
    ]
    most = 8 if _HAN_OR_KANA.search(piece) else 3
    ends = next((i for i, w in enumerate(said) if w.norm in small), len(said))
    return said[: min(ends, most)], len(said) <= most and ends == len(said)


def _between(
    text: str, parts: Sequence[Span], joints: re.Pattern[str], small: frozenset[str]
) -> list[Word]:
    for (_, end), (start, _) in pairwise(parts):
        cuts = [m.span() for m in joints.finditer(text, end, max(end, start))]
        for (_, opens), (closes, _) in pairwise(cuts):
            item, whole = _item(text[opens:closes], small)
            if item and whole:
                return item
    return []


def _behind(
    after: str, joints: re.Pattern[str], small: frozenset[str], *, names: bool, closed: bool
) -> list[Word]:
    """The item with which the list goes on behind the last part: after an "and", or after commas alone."""
    cuts = list(joints.finditer(after))
    tail = words(after[: cuts[0].start()]) if cuts else ()
    if not cuts or len(tail) > 2 or any(w.norm in small for w in tail):
        return []
    first: list[Word] = []
    for cut, following in zip(cuts, [*cuts[1:], None], strict=True):
        piece = after[cut.end() : following.start() if following else len(after)]
        item, whole = _item(piece, small)
        if not item:
            return []
        first, named = first or item, not (names and item[0].raw[:1].islower())
        if cut["and"]:
            if closed and cut["before"] and (not whole or len(words(piece)) > len(item)):
                return []  # "red and blue, and green fields surround it"
            return first if named or not closed or words(piece)[0].norm in _OTHERS else []
        if not whole or not named or any(w.raw[0].isdigit() for w in item):
            return []
    return [] if closed else first


def _ahead(
    before: str, joints: re.Pattern[str], small: frozenset[str], *, names: bool
) -> list[Word]:
    """The item that stands in the list before the first part."""
    cuts = list(joints.finditer(before))
    own = words(before[cuts[-1].end() :]) if cuts else ()
    if not cuts or len(own) > 2 or any(w.norm in small for w in own):
        return []
    led = words(before[cuts[-2].end() if len(cuts) > 1 else 0 : cuts[-1].start()])
    at = next((i for i in range(len(led), 0, -1) if led[i - 1].norm in small), 0)
    item = [w for w in led[at:] if w.norm not in _ARTICLES]
    opens = (
        not item
        or item[0].norm in _OPENERS
        or item[0].norm in sides()
        or item[0].norm.endswith("ly")
    )
    if opens or len(item) > 3 or (names and not item[-1].raw[0].isupper()):
        return []
    if cuts[-1]["and"]:
        return [] if cuts[-1]["before"] else item
    return item if not at or led[at - 1].norm in _LINKS else []
