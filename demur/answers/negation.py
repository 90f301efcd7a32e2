"""Whether a reply in another language denies its answer, or offers another beside it.

English has its own patterns (`demur.answers.assertion`). Of the other languages we know the words that deny and join;
where one stands in the same clause as the answer, the answer is not taken for stated.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from demur.answers.languages import LETTER, listed, spellings, word_lists
from demur.answers.spans import Span
from demur.answers.text import normalise, readable

DENIED, DOUBTFUL = "denies", "may deny"

_CLAUSE = re.compile(r"[.;:!?,\n。，；：！？、،؛؟।—]|(?<=\s)-(?=\s)")
_SENTENCE = re.compile(r"[.!?;\n。！？；।]")
_REACH = 80
"""Characters before and after an answer in which a word may deny it."""
VERB_LAST = frozenset({"eu", "tr", "hi", "ja", "ko"})
"""Languages in which a verb follows what it denies, or dates."""


class _Words(NamedTuple):
    tight: re.Pattern[str]
    """Before the answer, with nothing but small words between."""
    loose: re.Pattern[str]
    """In its clause before the answer."""
    later: re.Pattern[str]
    """In its clause after the answer."""
    behind: re.Pattern[str]
    """Right after the answer."""
    joined: re.Pattern[str]
    """"and not": what follows is denied, not what stands before."""
    harmless: re.Pattern[str]
    doubts: re.Pattern[str]
    """What tells of others, or of something near: anywhere in the sentence before the answer."""
    or_after: re.Pattern[str]
    or_before: re.Pattern[str]
    back: re.Pattern[str]


@cache
def _words(code: str) -> _Words:
    own = word_lists()[code]
    nots, small = listed(code, "not"), spellings(listed(code, "filler"))
    joined, back, doubts, first_no = (
        spellings(words)
        for words in (
            listed(code, "and"),
            listed(code, "back"),
            listed(code, "doubts"),
            listed(code, "no")[:1],
        )
    )
    either = spellings([*listed(code, "or"), *listed(code, "perhaps")])
    spaceless = code in ("zh", "ja", "ko")
    whole, follows = (
        rf"(?<!{LETTER})(?:{spellings(words)})(?:(?<=')|(?!{LETTER}))"
        for words in ([*nots, *listed(code, "without")], nots)  # "14 Tage ohne" denies nothing
    )
    loose = own.get("denies_in_clause", whole)
    tight = own.get("denies_before", rf"{whole}(?:\s*(?:{small})(?:(?<=')|(?!{LETTER})))*")
    edge = "" if spaceless else rf"(?!{LETTER})"
    start = "" if spaceless else rf"(?<!{LETTER})"
    flags = re.IGNORECASE
    return _Words(
        re.compile(rf"{tight}[\s\"'«„“(*]*$", flags),
        re.compile(loose, flags),
        re.compile(own.get("denies_in_clause", follows), flags),
        re.compile(rf"[\"'»“”)*\s]*(?:{own.get('denies_behind', follows)})", flags),
        re.compile(rf"{start}(?:{joined}){edge}\s*(?:{loose})", flags),
        re.compile(own.get("harmless", "(?!)")),
        re.compile(rf"{start}(?:{doubts}){'' if code in ('tr', 'eu') else edge}", flags),
        re.compile(
            rf"(?:'\w{{1,5}})?[\"'»“”)*]*,?\s*(?:(?:{joined}){edge}\s)?{start}(?:{either}){edge}\s*(?P<other>[^,.;?!\n。，；？！]{{1,80}})",
            flags,
        ),
        re.compile(
            rf"(?P<other>[^,.;:?!\n。，；：？！]{{1,80}}?),?\s*{start}(?:{either}){edge}\s*[\"'«„“(*]*$",
            flags,
        ),
        re.compile(
            rf"(?:^|[.!?;,\n。！？，、…]|\s[-—])\s{{0,3}}(?:(?:{first_no})[,，、\s]\s?)?(?:{back})(?:[,:，、.!\s]|$)"
            rf"|(?:\.\.|…)\s{{0,3}}(?:\w{{1,3}}\s)?(?:{first_no}){edge}|[.!?。！？।]\s{{0,3}}(?:{first_no})[,，、،]",
            flags,
        ),
    )


def denies(text: str, span: Span, code: str) -> str:
    """`DENIED` or `DOUBTFUL` if a word in the clause around ``span`` denies it, or may; "" if none does.

    >>> answer = "No es París, sino Londres."
    >>> denies(answer, (6, 11), "es"), denies(answer, (18, 25), "es")
    ('denies', '')
    """
    text, words = readable(text), _words(code)
    before = words.harmless.sub("", _CLAUSE.split(text[max(0, span[0] - _REACH) : span[0]])[-1])
    after = _CLAUSE.split(text[span[1] : span[1] + _REACH], maxsplit=1)[0]
    if words.tight.search(before) or words.behind.match(after):
        return DENIED
    if code == "ko":  # the particle is a part of the word
        after = text[max(0, span[1] - 2) : span[1]] + after
    told = _SENTENCE.split(text[max(0, span[0] - _REACH) : span[0]])[-1]
    if words.doubts.search(told) or (code in (*VERB_LAST, "zh") and words.doubts.search(after)):
        return DOUBTFUL
    after = words.harmless.sub("", after)
    after = after[: found.start()] if (found := words.joined.search(after)) else after
    return DOUBTFUL if words.loose.search(before) or words.later.search(after) else ""


def negates(text: str, code: str) -> bool:
    """Whether a text has a word that denies something."""
    words = _words(code)
    return words.loose.search(words.harmless.sub("", text)) is not None


def other_candidate(text: str, span: Span, code: str) -> str:
    """What a reply offers with "or" beside the answer at ``span``; "" if nothing.

    >>> other_candidate("Cervantes o Lope de Vega", (0, 9), "es")
    'Lope de Vega'
    """
    text, words = readable(text), _words(code)
    after = words.or_after.match(text[span[1] : span[1] + 120])
    if after and normalise(after["other"]):
        return str(after["other"].strip())
    clause = text[max(0, span[0] - _REACH) : span[0]]
    before = words.or_before.search(clause)
    return str(before["other"].strip()) if before and normalise(before["other"]) else ""


def taking_back(code: str) -> re.Pattern[str]:
    """What begins a withdrawal ("Perdón, ...")."""
    return _words(code).back


# --- scripts without spaces --------------------------------------------------------------------------

_HAN_OR_KANA = re.compile("[\u30a0-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_MAY_PRECEDE = frozenset(
    "是在为為于於叫由的了与與和或向从從到至即乃指作做成名称稱姓个個位座の中将把被让說说答案ーは"
)
_MAY_FOLLOW = frozenset(
    "是的了和与與或在也说說，。等人市省县縣国國年月日号號们這这先岁歳语語教氏様"
)


def part_of_a_word(text: str, span: Span, question: str) -> bool:
    """Whether a short Chinese or Japanese answer may be a piece of a longer word ("东" of "东京").

    Args:
        text: the reply.
        span: one or two characters; a longer answer is taken as it stands.
        question: its characters may stand beside the answer ("首都" before "北京").
    """
    text = readable(text)
    own = text[span[0] : span[1]]
    if len(own) > 2 or not _HAN_OR_KANA.match(own):
        return False
    before, after = text[span[0] - 1 : span[0]] if span[0] else "", text[span[1] : span[1] + 1]
    led = bool(_HAN_OR_KANA.match(before)) and before not in _MAY_PRECEDE and before not in question
    if len(own) == 2:
        return led
    return led or (
        bool(_HAN_OR_KANA.match(after)) and after not in _MAY_FOLLOW and after not in question
    )
