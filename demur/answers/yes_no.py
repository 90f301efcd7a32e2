"""Yes or no: the side of the accepted forms, and the side of a reply."""

from __future__ import annotations

import re

from demur.answers.languages import listed, sides
from demur.answers.text import normalise, readable, words
from demur.answers.there_is import there_is_in_english
from demur.core.records import AnswerSpec

_YES_NO = re.compile(
    r"(?:^|[.!?:]\s*+|(?<!\s)[^\S\n]*+\n\s*+|\bis\s++)[\"'*]*+(yes|no|true|false|yeah|nope)\b"
    r"(?![ -](?:one|longer|data|information|evidence|mention|other|such|more|way|idea|clue|comment|doubt|"
    r"question|wonder|problem|answer|indication|sign)\b)",
    re.IGNORECASE,
)
"""A word of `SIDES` where a reply says it; "no idea" and "no doubt" say something else."""
SIDES = {"yes": "yes", "yeah": "yes", "true": "yes", "no": "no", "nope": "no", "false": "no"}
"""Word -> its side."""


def polarity(spec: AnswerSpec) -> str:
    """The side of the accepted forms, "yes" or "no"; "" if they are something else."""
    sides = {
        SIDES.get(normalise(form[0]).split()[0], "") if len(form) == 1 and normalise(form[0]) else ""
        for form in spec.accepted
    }
    opens = [
        re.match(r"\W*(yes|no|true|false)\b\W*(?:$|,)", form[0], re.IGNORECASE)
        for form in spec.accepted
        if len(form) == 1
    ]
    return sides.pop() if len(sides) == 1 and spec.accepted and all(opens) else ""


def polarities(text: str) -> set[str]:
    """The sides that a reply takes: none, "yes", "no" or both.

    A word at the beginning outweighs a single one of the other side further on.
    """
    said = {SIDES[m.group(1).lower()] for m in _YES_NO.finditer(readable(text))}
    first = _YES_NO.match(readable(text).lstrip())
    if first:
        said = {SIDES[first.group(1).lower()]} | ({"yes", "no"} if len(said) == 2 else set())
    return said


def is_side(text: str) -> bool:
    """Whether a reply is a word for yes or no and nothing else, in any language.

    >>> is_side("No."), is_side("नहीं।"), is_side("No idea.")
    (True, True, False)
    """
    return (word := text.strip(" .,!。！।،*\"'").casefold()) in SIDES or word in sides()


_FIRST = re.compile(r"\W*([^\s,.;:!?。，、！？；：।]+)(?=[\s,.;:!?。，、！？；：।]|$)")


def side_of(text: str, question: str) -> str:
    """The side of a reply, "yes" or "no"; "" if it takes none or both.

    "There is a mug" and "There is no mug" take a side if the question asks whether something is there.

    >>> side_of("There is no mug.", "Is there a mug?"), side_of("Sí, claro.", "¿Es rojo?"), side_of("Perhaps", "Is it?")
    ('no', 'yes', '')
    """
    said = polarities(text)
    if said:
        return said.pop() if len(said) == 1 else ""
    first = _FIRST.match(text)
    if first and first[1].casefold() not in SIDES and (side := sides().get(first[1].casefold())):
        return side
    plain = readable(text)
    opening = _AGREES.match(plain)
    if opening:
        return "no" if opening["no"] else "yes"
    return there_is_in_english(text, question) or _restated(plain, readable(question))


_THIS_IS = r"(?:it|that|this|(?:the|that|this) (?:statement|claim))(?:'s| is) "
_AGREES = re.compile(
    rf"\W*(?:(?P<no>not (?:really|at all|quite|true|correct)|(?:absolutely|definitely|certainly|of course) not|"
    rf"{_THIS_IS}(?:not (?:true|correct|right|the case)|false|incorrect|wrong|untrue)|incorrect|wrong|negative)"
    rf"|{_THIS_IS}(?:true|correct|right)|absolutely|correct|certainly|definitely|indeed|of course|affirmative)"
    r"(?=[.,;:!]|$|\s(?:it|he|she|they|there|that|this)\b)",
    re.IGNORECASE,
)
"""Other openings that take a side."""
_ASKS_WHETHER = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)(?:n't)?\s", re.IGNORECASE
)
_NEGATED = re.compile(r"n't\b|\b(?:not|never|no|none|nobody|neither|nor|without|hardly)\b", re.IGNORECASE)
_PERHAPS = re.compile(
    r"\b(?:may|might|could|would|perhaps|maybe|possibly|probably|likely|if|whether|unless|or|only|some|sometimes|partly|"
    r"unclear|unknown|unsure|sure|asked?|claim\w*|said|says?|think|thought|believe\w*|suppos\w*|alleged\w*|reported\w*|"
    r"apparent\w*|most|mostly|nearly|almost|barely|rarely|usually|generally|occasionally|long)\b|\?",
    re.IGNORECASE,
)
_SMALL = frozenset(listed("en", "small"))


def _restated(text: str, question: str) -> str:
    """The side of a reply whose first sentence says again what the question asks, with or without a "not"."""
    if not _ASKS_WHETHER.match(question) or _PERHAPS.search(question.rstrip("? ")[3:]) or _NEGATED.search(question):
        return ""
    sentence = re.split(
        r"[.!;\n](?:\s|$)|, (?:but|however|though|although|so|because|since|as)\b", text.strip(), maxsplit=1
    )[0]
    asked = [w.norm[:5] for w in words(question) if w.norm not in _SMALL]
    said = iter([w.norm[:5] for w in words(sentence)])
    if not asked or not all(word in said for word in asked):  # in this order: "B is taller than A" is something else
        return ""
    if len(sentence.split()) > 20 or _PERHAPS.search(sentence) or sentence[:3].lower() == "of ":  # Dutch: whether
        return ""
    return {0: "yes", 1: "no"}.get(len(_NEGATED.findall(sentence)), "")
