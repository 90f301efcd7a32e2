"""Whether a reply says its answer of something else than was asked: the opposite, somebody beside it, another subject.

"Born in Lyon, died in Paris" holds Paris, which is wrong where the question asks for the birth. The words are in
``languages.toml``, for every language: opposites, and what makes a name next to it another's ("a pupil of").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from demur.answers.languages import LETTER, fold, listed, spellings, word_lists
from demur.answers.negation import VERB_LAST, negates
from demur.answers.spans import Span
from demur.answers.text import readable, words

_INSIDE = frozenset({"ar", "hi", "zh", "ja", "ko"})  # a listed word is also found inside of words
_REACH, _LONG = 120, 300
"""Characters beside an answer that are read; of a sentence whose parts are compared."""
_CLAUSE = re.compile(r"[.,;:!?](?!\d)|[\n。、،؛؟।—()]|\s-\s|\sو(?!لد)(?=\w)")
_SENTENCE = re.compile(r"[.!?]\s|[\n。؟।]")
_NOT = re.compile(r"n't\b|\b(?:not|never|no)\b", re.IGNORECASE)
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]{2}")


class _Words(NamedTuple):
    """Patterns of a language; of pairs, the first stands before the answer and the second behind it."""

    opposites: list[list[re.Pattern[str]]]  # groups of sides
    joints: re.Pattern[str]
    parts: re.Pattern[str]  # of a sentence; at a comma where languages say "and" with one
    beside: list[re.Pattern[str]]
    limits: list[re.Pattern[str]]  # of a figure: "before 1990"
    ends: list[re.Pattern[str]]  # from, to


@cache
def _words(code: str) -> _Words:
    lists, inside = word_lists()[code], code in _INSIDE
    start, close = ("", "") if inside else (rf"(?<!{LETTER})", rf"(?!{LETTER})")
    hangs = r"\w{0,2}?\s?" if code == "ko" else r"\s?" if inside else r"['\"»“”)]{0,2}\w{0,4}\s?"
    comma = r"|[,،、](?!\d)" if code in VERB_LAST or code in ("zh", "ru", "pl", "ar") else ""
    joints = rf"(?<!{LETTER})(?:{spellings(lists.get('joints', '').split())})(?!{LETTER})"

    def side(words: str) -> re.Pattern[str]:
        stems = (fold(word).replace("_", " ") for word in words.split())
        either = (
            re.escape(stem.removesuffix("-")) + ("" if stem[-1] == "-" else close) for stem in stems
        )
        return re.compile(f"{start}(?:{'|'.join(either) or '(?!)'})")

    def around(before: str, after: str) -> list[re.Pattern[str]]:
        led = rf"{start}(?:{spellings(listed(code, before))})(?:\s[\w']{{1,5}})?[\s\"'«„“(*]*$"
        return [
            re.compile(p, re.IGNORECASE)
            for p in (led, f"{hangs}(?:{spellings(listed(code, after))})")
        ]

    return _Words(
        [[side(words) for words in group.split("/")] for group in lists["opposites"].split(";")],
        re.compile(joints, re.IGNORECASE),
        re.compile(rf"[;؛]{comma}|\sو(?!لد)(?=\w)|{joints}", re.IGNORECASE),
        around("before", "after"),
        around("limits", "limits"),
        [side(lists.get(name, "")) for name in ("from", "to")],
    )


def contrasted(text: str, span: Span, question: str, languages: Sequence[str]) -> str:
    """Why what stands at ``span`` may answer another question; "" without a reason.

    >>> contrasted("Nació en Lyon y murió en París.", (25, 30), "¿Dónde nació?", ("es",))
    'tells the opposite'
    """
    text, asked = readable(text), fold(question)
    whole, beside = fold(text), ""
    own, before = text[slice(*span)], text[max(0, span[0] - _REACH) : span[0]]
    after, led = text[span[1] : span[1] + _REACH], fold(before).rstrip()
    for code in languages or ("en",):
        words = _words(code)
        for one, other in (words.beside, words.limits)[: 1 + own[0].isdigit()]:
            found = one.search(before) or other.match(own[-2:] * (code == "ko") + after)
            if found and fold(found[0]).strip(" \"'«„“(*") not in asked:
                beside = "says what is beside it"
        here, there = words.ends
        if (
            here.search(asked)
            and here.search(led)
            and any(m.end() == len(led) for m in there.finditer(led))
        ):
            beside = beside or "says where it went"
        ends = (_CLAUSE, words.joints)
        rest = after[: min((m.start() for end in ends if (m := end.search(after))), default=None)]
        begins = max((m.end() for end in ends for m in end.finditer(before)), default=0)
        clause, behind = (
            fold(f"{before[begins:]}{own}{rest}"),
            fold(rest) if code in VERB_LAST else "",
        )
        for group in words.opposites:
            sides = [side for side in group if side.search(asked)]
            told = sorted((m for side in group if (m := side.search(behind))), key=re.Match.start)[
                :1
            ]
            told = told or [m for side in group if (m := side.search(clause))]
            if len(sides) == 1 and told and all(m.re is not sides[0] for m in told):
                alone = not sides[0].search(whole)  # nothing in the reply says what is asked
                return "takes it for the opposite" if alone else "tells the opposite"
    return (
        beside
        or _beats(text, span, question, languages)
        or _other_subject(text, span, question, languages)
    )


def _beats(text: str, span: Span, question: str, languages: Sequence[str]) -> str:
    """Whether another name does what is asked, and the answer stands behind ("Feyenoord won de finale van Ajax")."""
    said, asked = words(text[: span[0]]), {w.norm[:5] for w in words(question)}
    first = next((i for i, w in enumerate(said[:2]) if len(w.norm) > 3), len(said))
    if not languages or not text[span[0]].isupper() or len(said) < first + 3:
        return ""
    known = (
        asked
        | {w.norm[:5] for w in words(text[slice(*span)])}
        | {w[:5] for w in common(tuple(languages))}
    )
    name, does = said[first], said[first + 1].norm
    other = (
        name.raw[0].isupper() and name.norm[:5] not in known and len(does) > 2 and does[:5] in asked
    )
    return f"says it of {name.raw}" if other else ""


def _other_subject(text: str, span: Span, question: str, languages: Sequence[str]) -> str:
    """Whether another part of the sentence has the question's words and a candidate: "It is Lyon; Paris is too far"."""
    own = text[slice(*span)]
    begin = max((m.end() for m in _SENTENCE.finditer(text, 0, span[0])), default=0)
    end = min((m.start() for m in _SENTENCE.finditer(text, span[1])), default=len(text))
    if any(c.isdigit() for c in own) or end - begin > _LONG:
        return ""
    text, span = text[begin:end], (span[0] - begin, span[1] - begin)
    joints = _words((languages or ("en",))[0]).parts.finditer(text)
    cuts = [0, *(cut for m in joints for cut in m.span()), len(text)]
    parts = list(zip(cuts[::2], cuts[1::2], strict=True))
    at = next((i for i, (start, close) in enumerate(parts) if start <= span[0] < close), -1)
    told, known = (
        told_places(text, question, languages),
        {w.norm for w in (*words(question), *words(own))},
    )
    asked = [any(start <= t[0] < close for t in told) for start, close in parts]
    if at < 0 or asked[at]:
        return ""
    known |= {word.norm for t in told for word in words(text[slice(*t)])}
    new = [[w for w in words(text[slice(*part)]) if w.norm not in known] for part in parts]
    leads = len(text[parts[at][0] : span[0]].strip()) <= 4 and words(text[span[1] : parts[at][1]])
    for i, (start, close) in enumerate(parts):
        part, can = text[start:close], leads if i < at else new[at]
        like = [
            w
            for w in new[i]
            if (w.raw[:1].isupper() if own[:1].isupper() else len(w.norm) > 3 or w.norm > "z")
        ]
        if (
            can
            and asked[i]
            and like
            and not _NOT.search(part)
            and not any(negates(part, code) for code in languages)
        ):
            return "says something else of what is asked"
    return ""


def told_places(text: str, question: str, languages: Sequence[str]) -> list[Span]:
    """Where a text has the question's own words."""
    least, stem = (2, 2) if "ko" in languages else (4, 5)
    asked = {
        w.norm[:stem]
        for w in words(question)
        if len(w.norm) >= least and w.norm not in common(tuple(languages))
    }
    told = [(w.start, w.end) for w in words(text) if w.norm[:stem] in asked]
    if {"zh", "ja"} & set(languages):  # two signs are a word there, more or less
        pairs = {question[i : i + 2] for i in range(len(question) - 1) if _HAN.match(question, i)}
        told += [(i, i + 2) for i in range(len(text) - 1) if text[i : i + 2] in pairs]
    return told


@cache
def common(languages: tuple[str, ...]) -> frozenset[str]:
    """Folded words that say little: those of English too."""
    lists = ("common", "asks", "openers")
    return frozenset(
        fold(word) for code in ("en", *languages) for name in lists for word in listed(code, name)
    )
