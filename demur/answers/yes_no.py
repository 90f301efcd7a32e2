"""Yes or no: the side of the accepted forms, and the side of a reply."""

from __future__ import annotations

import re

from demur.answers.languages import listed, sides
from demur.answers.text import normalise, readable, words
from demur.answers.there_is import SMALL_WORDS, stem, there_is_in_english
from demur.core.records import AnswerSpec

_MORE = SMALL_WORDS | {"i", "we", "because", "since", "as", "not"}
"""What may follow a "no" that stands for itself, without a comma."""
_YES_NO = re.compile(
    r"(?:^|[.!?:]\s*+|(?<!\s)[^\S\n]*+\n\s*+|\bis\s++|,\s*+so\s++)[\"'*]*+(yes|no|true|false|yeah|yep|nope|nah)\b"
    r"(?![ -](?:one|longer|data|information|evidence|mention|other|such|more|way|idea|clue|comment|doubt|"
    r"question|wonder|problem|answer|indication|sign)\b)",
    re.IGNORECASE,
)
"""A word of `SIDES` where a reply says it; "no idea" and "no doubt" say something else."""
SIDES = {
    "yes": "yes",
    "yeah": "yes",
    "yep": "yes",
    "true": "yes",
    "no": "no",
    "nope": "no",
    "nah": "no",
    "false": "no",
}
"""Word -> its side."""


def polarity(spec: AnswerSpec) -> str:
    """The side of the accepted forms, "yes" or "no"; "" if they are something else."""
    sides = {
        SIDES.get(normalise(form[0]).split()[0], "")
        if len(form) == 1 and normalise(form[0])
        else ""
        for form in spec.accepted
    }
    opens = [
        re.match(r"\W*(yes|no|true|false)\b\W*(?:$|,)", form[0], re.IGNORECASE)
        for form in spec.accepted
        if len(form) == 1
    ]
    return sides.pop() if len(sides) == 1 and spec.accepted and all(opens) else ""


def polarities(text: str, question: str = "") -> set[str]:
    """The sides that a reply takes: none, "yes", "no" or both.

    A word at the beginning outweighs a single one of the other side further on.

    >>> polarities("No meat is served.", "Is meat served?"), polarities("No houses, but trees.", "Are there trees?")
    ({'no'}, set())
    """
    plain = readable(text).lstrip()
    found = [
        m for m in _YES_NO.finditer(plain) if not (question and _denies_another(plain, m, question))
    ]
    said = {SIDES[m[1].lower()] for m in found}
    if found and not found[0].start():
        said = {SIDES[found[0][1].lower()]} | ({"yes", "no"} if len(said) == 2 else set())
    return said


def _denies_another(text: str, match: re.Match[str], question: str) -> bool:
    """Whether a "no" stands before the name of a thing that is not asked for."""
    noun = re.match(r"[^\S\n]+([^\W\d_]+)(?:[^\S\n]+([^\W\d_]+))?", text[match.end(1) :])
    if match[1].lower() != "no" or not noun or normalise(noun[1]) in _MORE:
        return False
    if match[0][:2].lower() == "is":  # "There is no dog house": see `there_is_in_english`
        return True
    return not {stem(w.norm) for w in words(noun[0])} & {
        stem(w.norm) for w in words(question) if w.norm not in SMALL_WORDS
    }


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
    said = polarities(text, question)
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
    rf"\W*(?:(?P<no>(?:unfortunately|(?:i'm )?afraid) not|not (?:really|at all|quite|true|correct)|"
    rf"(?:absolutely|definitely|certainly|of course) not|"
    rf"{_THIS_IS}(?:not (?:true|correct|right|the case)|false|incorrect|wrong|untrue)|incorrect|wrong|negative)"
    rf"|{_THIS_IS}(?:true|correct|right)|absolutely|correct|certainly|definitely|indeed|of course|affirmative)"
    r"(?=[.,;:!]|$|\s(?:it|he|she|they|there|that|this)\b)",
    re.IGNORECASE,
)
"""Other openings that take a side."""
_ASKS_WHETHER = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)(?:n't)?\s",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"n't\b|\b(?:not|never|no|none|nobody|neither|nor|without|hardly)\b", re.IGNORECASE
)
_PERHAPS = re.compile(
    r"\b(?:may|might|could|would|perhaps|maybe|possibly|probably|likely|if|whether|unless|or|only|some|sometimes|partly|"
    r"unclear|unknown|unsure|sure|asked?|claim\w*|said|says?|think|thought|believe\w*|suppos\w*|alleged\w*|reported\w*|"
    r"apparent\w*|most|mostly|nearly|almost|barely|rarely|usually|generally|occasionally|long)\b|\?",
    re.IGNORECASE,
)
_DENIED_LATER = re.compile(
    r"\b(?:false|wrong|incorrect|untrue|myth|(?:no|any) ?(?:longer|more)|"
    r"(?:not|n't) (?:true|so|correct|right|the case))\b",
    re.IGNORECASE,
)
"""What makes no restatement of a sentence that has all its words."""
_IN_PICTURE = re.compile(r"\b(?:in|on) (?:the|this) (?:picture|image|photo)\b,?", re.IGNORECASE)
_SPELT_OUT = (
    (re.compile(r"\b(?:cannot|can't)\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"n't\b", re.IGNORECASE), " not"),
    (re.compile(r"\bno longer\b", re.IGNORECASE), "not"),
    (re.compile(r"\b(it|he|she|that|there)'s\b", re.IGNORECASE), r"\1 is"),
)
_PART = re.compile(r"[,:()]|\s[-\u2013\u2014]|\b(?:and|but)\b|$", re.IGNORECASE)
"""What ends the part of a sentence that restates."""
_NOT = frozenset({"not", "no", "never"})
_BE = frozenset({"is", "are", "was", "were", "be", "been", "being"})
_PRESENT = frozenset({"is", "are", "do", "does", "can", "has", "have"})
_PAST = frozenset({"was", "were", "had", "did", "used", "could"})
_PREPOSITIONS = frozenset({"in", "on", "of", "to", "at", "for", "with", "by", "from", "you"})
_BESIDE = frozenset(listed("en", "beside"))
_FOLLOWS = _PREPOSITIONS | frozenset(listed("en", "goes_on"))
_UNLESS = _NOT | {"except", "until", "instead", "rather", "without", "outside", "near"}


def _restated(text: str, question: str) -> str:
    """The side of a reply whose first sentence says again what the question asks, with or without one "not".

    Small words aside, nothing else may stand before its last word, or it might say something else with these words:
    "The phone lacks a camera", "Lisbon is in Portugal, west of Spain", "The cat is under the table".
    """
    if (
        not _ASKS_WHETHER.match(question)
        or _PERHAPS.search(question.rstrip("? ")[3:])
        or _NEGATED.search(question)
    ):
        return ""
    sentence = re.split(
        r"[.!;\n](?:\s|$)|, (?:however|though|although|so|because|since|as)\b",
        text.strip(),
        maxsplit=1,
    )[0]
    if len(sentence.split()) > 20:
        return ""
    if not _IN_PICTURE.search(question):
        sentence = _IN_PICTURE.sub("", sentence)
    for pattern, spelt in _SPELT_OUT:
        sentence = pattern.sub(spelt, sentence)
    asked, said = [w.norm for w in words(question)], words(sentence)
    here, rest = [], iter(enumerate(said))
    for word in asked:
        if word not in SMALL_WORDS:
            place = next((i for i, w in rest if stem(w.norm) == stem(word)), -1)
            if place < 0:
                return ""  # in this order: "B is taller than A" is something else
            here.append((place, word))
    if not here or _PERHAPS.search(sentence) or _DENIED_LATER.search(sentence):
        return ""
    last = here[-1][0]
    core = {w.norm for w in said[: last + 1]}
    if bool(core & _BE) != bool(_BE & set(asked)):
        return ""  # "Rome was defeated" of "Did Rome defeat ...?"
    if asked[0] in _PRESENT and (
        core & _PAST
        or any(said[i].norm.endswith("ed") and not word.endswith("ed") for i, word in here)
    ):
        return ""
    tail = sentence[said[last].end :]
    tail = tail[: next(_PART.finditer(tail)).start()]
    after = [w.norm for w in words(tail)]
    nots = [i for i, w in enumerate(said[:last]) if w.norm in _NOT]
    more = [
        (i, w.norm)
        for i, w in enumerate(said[:last])
        if i not in dict(here)
        and i not in nots
        and w.norm not in (SMALL_WORDS - _PREPOSITIONS) | set(asked)
    ]
    if not nots:
        follows = not after or (
            (after[0] in _FOLLOWS or after[0].endswith("ly")) and not set(after) & _UNLESS
        )
        return "yes" if follows and all(word in _BESIDE for _, word in more) else ""
    before = sentence[: said[nots[0]].start]
    other = re.search(r"(?:,|\bbut|\band)\s*$", before)  # "born in Salzburg, not in Vienna"
    since = here[-2][0] if len(here) > 1 else -1
    plain = not more or (other and all(since < i < nots[0] for i, _ in more))
    return "no" if len(nots) == 1 and not after and plain else ""
