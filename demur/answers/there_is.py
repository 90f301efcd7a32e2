"""Whether there is what a question asks for: "No mug is visible." says no, "There is no picture." neither."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from demur.answers.languages import CODES, bare, fold, listed, plain, spellings, word_lists
from demur.answers.text import readable, words

_EXISTS = re.compile(
    r"^\W*(?:is|are|was|were)\s+there\b|\b(?:do|does|can|could|did)\s+(?:you|the (?:image|picture|photo)|it|this)\s+"
    r"(?:see|show|contain|include|have|depict)\b",
    re.IGNORECASE,
)
_LEAD = r"(?:^\W*|[,;]\s*(?:(?:but|and)\s+)?|\b(?:but|and)\s+)"
_NONE = re.compile(
    rf"{_LEAD}(?:there(?:'s| is| are| was| were)\s+(?:no|not any|not an?)\b|there\s+(?:is|are|was|were)n't\b"
    r"|(?:i|we)\s+(?:don't|do not|cannot|can't|didn't|did not)\s+see\s+(?:any|an?)\b|i\s+see\s+no\b|(?:no|not an?)\b)"
    r"|\b(?:with no|without(?: any| an?)?)\b",
    re.IGNORECASE,
)
_SOME = re.compile(
    rf"{_LEAD}(?:there(?:'s| is| are| was| were)\s+(?:(?:a|an|one|some|two|three|several|many|indeed)\b"
    r"|(?!always|perhaps|sometimes)(?=[a-z]+s\b))"
    r"|(?:i|we)\s+(?:can\s+)?see\s+(?:a|an|some|two|three|several|many|the)\b)",
    re.IGNORECASE,
)
_BREAK = re.compile(
    r"[,;:()]|n't\b|\b(?:but|no|not|with|without|on|in|at|under|near|behind|beside|next|by|from|to|for|"
    r"is|are|was|were|can|that|which|who|there|here)\b|$",
    re.IGNORECASE,
)
"""What ends the name of a thing."""
_PLACED = re.compile(r"\b(?:on|in|at|under|near|behind|beside|next|by)\b", re.IGNORECASE)
_COUNTS = re.compile(
    r"\b(?:or|than|only|most|least|fewer|less|more|other|else|no|not|without)\b", re.IGNORECASE
)
_LACKING = re.compile(
    r"\b(?:information|info|evidence|mention|data|details?|indication|context|way|answer|reference|clue|sign|idea)\b",
    re.IGNORECASE,
)
SMALL_WORDS = frozenset(listed("en", "small"))
"""English words that name nothing."""
_UNTOLD = SMALL_WORDS | {"image", "picture", "photo", "visible", "present", "shown"}
_ENDING = re.compile(r"(?<=\w\w)(?:ing|ies|ed|es|(?<!s)s|e|y)$")


def stem(word: str) -> str:
    """A word without the ending of a verb or a plural.

    >>> stem("stops"), stem("lived"), stem("passed"), stem("pass"), stem("Austria")
    ('stop', 'liv', 'pass', 'pass', 'Austria')
    """
    return _ENDING.sub("", word)


def there_is_in_english(text: str, question: str) -> str:
    """The side of a reply that says whether there is what a question asks for; "" where either does not.

    >>> said = ["I don't see a mug.", "There is a mug.", "There is no image."]
    >>> [there_is_in_english(text, "Is there a mug?") for text in said]
    ['no', 'yes', '']
    """
    asks = _EXISTS.search(readable(question))
    if not asks:
        return ""
    sentence = re.split(r"[.!?\n]", readable(text).strip(), maxsplit=1)[0][:300]
    what, where = _thing(readable(question)[asks.end() :])
    thing, place = {stem(w) for w in _told(what)}, {stem(w) for w in _told(where)}
    if not thing or _LACKING.search(sentence) or _COUNTS.search(what):
        return ""
    stems = [stem(w) for w in _told(sentence)]
    twice = any(stems.count(word) > 1 for word in thing)
    found = set()
    for side, pattern in (("no", _NONE), ("yes", _SOME)):
        for match in pattern.finditer(sentence):
            named, rest = _thing(sentence[match.end() :])
            if (not place <= set(stems) and _PLACED.search(rest)) or (
                twice and match[0].startswith("with")
            ):
                continue  # a cup on the floor, for one on the table; a man without a hat and a woman with a hat
            if any(_is(thing, _told(item), side) for item in re.split(r"\band\b", named)):
                found.add(side)
    return found.pop() if len(found) == 1 else ""


def _thing(text: str) -> tuple[str, str]:
    """What a text names at its beginning, and the rest."""
    end = next(_BREAK.finditer(text)).start()
    return text[:end], text[end:]


def _told(text: str) -> list[str]:
    return [w.norm for w in words(text) if w.norm not in _UNTOLD]


def _is(thing: set[str], item: list[str], side: str) -> bool:
    """Whether words name a thing: "a brown dog lying there" a dog, "a dog house" none; "no brown dog" denies no dog."""
    same = [stem(word) in thing for word in item]
    if side == "no":
        return bool(item) and all(same)
    after = item[len(item) - same[::-1].index(True) :][:1] if any(same) else []
    return thing <= {stem(word) for word in item} and all(
        word.endswith(("ing", "ed")) for word in after
    )


_LONGEST = 300
"""Characters of a question or of a reply's first sentence that are read."""
NEITHER = "neither"
"""Of a reply that denies something else: that there is information, a picture, another thing."""


class _There(NamedTuple):
    """How a language asks whether there is something, and says it (``there_...`` in ``languages.toml``)."""

    asks: re.Pattern[str]
    none: re.Pattern[str]
    some: re.Pattern[str]
    where: re.Pattern[str]
    small: re.Pattern[str]
    """Words that stand beside the thing and say nothing of it."""
    no: frozenset[str]
    """Words for not, without, except."""
    unread: frozenset[str]
    """Words of questions that "no mug" does not answer with a no: "a mug or a glass", "fewer than three mugs"."""
    lacking: re.Pattern[str]
    endings: re.Pattern[str]
    least: int
    """Letters of a word before an ending."""

    def things(self, said: str) -> list[set[str]]:
        """The words for things, each with what it is without an ending."""
        return [
            {
                word,
                *(
                    word[:i]
                    for i in range(self.least, len(word))
                    if self.endings.fullmatch(word, i)
                ),
            }
            for word in (
                part.removeprefix("ال") for part in self.small.sub(" ", said).split()
            )  # the Arabic article
        ]


@cache
def _theres() -> dict[str, _There]:
    """Language other than English -> its patterns."""
    found = {}
    for code in CODES:
        if code == "en":
            continue
        lists = word_lists()[code]
        begin, end = ("", "") if code in ("zh", "ja") else (r"(?<!\S)", r"(?!\S)")
        small = [
            bare(fold(word)) for name in ("filler", "there_small") for word in listed(code, name)
        ]
        names = {
            "asks": "there_asks",
            "none": "there_is_none",
            "some": "there_is_some",
            "where": "there_where",
        }
        patterns = {short: lists[name] for short, name in names.items()} | {
            "small": spellings(small)
        }
        found[code] = _There(
            **{
                name: re.compile(f"{begin}(?:{plain(pattern)}){end}")
                for name, pattern in patterns.items()
            },
            no=_folded(code, "not", "without"),
            unread=_folded(code, "or", "there_fewer"),
            lacking=re.compile(f"{begin}(?:ال)?(?:{spellings(listed(code, 'lacking'))})"),
            endings=re.compile(plain(lists.get("endings", "(?!)"))),
            least={"ko": 1, "hi": 2, "ar": 2}.get(code, 3),
        )
    return found


def _folded(code: str, *names: str) -> frozenset[str]:
    return frozenset(fold(word) for name in names for word in listed(code, name))


@lru_cache(maxsize=1024)
def _asked(question: str) -> tuple[tuple[str, str], ...]:
    """(language, what is asked for) of a question in another language whether there is something."""
    if len(question) > _LONGEST or _EXISTS.search(readable(question)):
        return ()
    said, found = bare(fold(question)), []
    for code, there in _theres().items():
        here = " ".join(there.where.sub(" ", said).split())
        if asks := there.asks.search(here):
            what = f"{here[: asks.start()]} {here[asks.end() :]}"
            if not (there.no | there.unread) & set(what.split()):
                found.append((code, what))
    return tuple(found)


def asks_whether_there_is(question: str) -> bool:
    """Whether a question in another language than English asks if something is there.

    >>> asks_whether_there_is("桌子上有杯子吗？"), asks_whether_there_is("这是杯子吗？")
    (True, False)
    """
    return bool(_asked(question))


_SENTENCE = re.compile(r"([^.!?;。।؟\n]*)([?؟]?)")
_PAUSE = re.compile(r"[,،、:]|\s[-\u2013\u2014]\s")


def there_is(text: str, question: str) -> str:
    """What a reply says of the thing that a question asks for, in a language other than English.

    Args:
        text: the reply as it was given, with the "No" at its beginning.
        question: "Is there a mug?", "Do you see a mug?", in the same language.

    Returns:
        "yes": it is there; "no": it is not; `NEITHER`; "": it does not say, or the question asks something else.

    The reply must name the thing and no other: "No hay platos en la mesa" says nothing of a mug on the table. A "yes"
    must name all that is asked for. One word more, such as "I think", leaves it open.

    >>> said = ["No hay ninguna taza.", "Hay una taza.", "No hay ninguna imagen.", "No hay limpieza."]
    >>> [there_is(text, "¿Hay una taza?") for text in said]
    ['no', 'yes', 'neither', 'neither']
    """
    asked_in = _asked(question)
    sentence = _SENTENCE.match(fold(text[:_LONGEST]).strip()) if asked_in else None
    if not sentence or sentence[2]:
        return ""
    for code, what in asked_in:
        there = _theres()[code]
        parts = [
            " ".join(there.where.sub(" ", bare(part)).split()) for part in _PAUSE.split(sentence[1])
        ]
        clause, *more = [part for part in parts if part] or [""]
        none = there.none.search(clause)
        stated = none or there.some.search(clause)
        if not stated:
            continue
        rest = f"{clause[: stated.start()]} {clause[stated.end() :]}"
        if there.lacking.search(rest):
            return NEITHER if none else ""
        asked, said = there.things(what), there.things(rest)
        named, covered = _all_among(said, asked), _all_among(asked, said)
        later = [word for part in more for word in there.things(part)]
        if any(
            word & there.no or _all_among([word], asked) for word in later
        ):  # "No veo una taza, veo tres tazas"
            continue
        if said and named and (none or covered):
            return "no" if none else "yes"
        other = there.things(clause[none.end() :] if code == "zh" else rest) if none else []
        if other and not _alike(set().union(*other), set().union(*asked)):
            return NEITHER
    return ""


def _all_among(these: list[set[str]], those: list[set[str]]) -> bool:
    return all(any(word & other for other in those) for word in these)


def _alike(some: set[str], others: set[str]) -> bool:
    """Whether a word of some is a part of one of the others, or the other way round: compounds, 手套 and 戴手套."""
    return any(one in other or other in one for one in some for other in others)
