"""What of a reply is its answer: without layout, a lead ("The answer is"), a source line, or the question's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category

from demur.answers.formulas import symbols
from demur.answers.text import normalise, readable, unformatted, words
from demur.core.strict_json import loose_json

_FINAL = re.compile(
    r"(?:^|(?<=\w))(?P<gap>\W*+)(?:final answer|short answer|answer)\s*+(?:(?:\*++\s*+)?+[:=]\**+|\bis\b:?)\s*+",
    re.IGNORECASE,
)
_NEW_SENTENCE = re.compile(r"\n|[.!?]\s")
_BOXED = re.compile(r"\\boxed\s?\{((?:[^{}]|\{[^{}]*\})*)\}")
_SOURCE = re.compile(
    r"(?:\n|(?<=[.!?)]) )\W{0,3}(?:sources?|references?|citations?|quelles?n?|fuentes?|fontes?)\b[^\n]*(?:\n[^\n]*)?\s*$"
    r"|\s[(\[](?:source|ref|see|from|according)\b[^()\[\]\n]{0,80}[)\]]\.?$"
    r"|\s\[(?:\d{1,3}|[\w .-]{1,40}\.(?:pdf|txt|md|html?))\]\.?$",
    re.IGNORECASE,
)
_KEYS = ("final_answer", "answer", "final answer", "response", "result", "output")


def final_part(answer: str) -> str:
    """The part that the reply marks as its answer ("Final answer: ..."), else all of it.

    >>> final_part("Lyon is large. Final answer: **Paris**")
    'Paris**'
    """
    boxed = _BOXED.findall(answer)
    if boxed and boxed[-1].strip():
        return str(boxed[-1])
    marks = [m for m in _FINAL.finditer(answer) if m.start() == 0 or _NEW_SENTENCE.search(m["gap"])]
    for mark in marks[:-3:-1]:  # the text after the last but one includes that after the last
        after = answer[mark.end() :].strip().lstrip("*").strip()
        if normalise(after):
            return after
    return answer


def unwrapped(reply: str) -> str:
    """The answer in a reply that is JSON: a value, or an object with a key such as ``answer``; else the reply.

    Returns:
        "" for ``null``, ``{"answer": null}``, ``{}`` and ``[]``, which are no usable answers.

    >>> unwrapped('{"answer": "Paris"}'), unwrapped("null"), unwrapped("Paris")
    ('Paris', '', 'Paris')
    """
    text = re.sub(r"^```(?:json)?", "", reply.strip()).removesuffix("```").strip()
    if text != "null" and not (
        (text[:1] in "{[" and text[-1:] in "}]" and '"' in text) or text in ("{}", "[]")
    ):
        return reply
    try:
        value = loose_json(text)
    except ValueError:
        return reply
    if isinstance(value, dict):
        keys = {str(key).casefold(): key for key in value}
        key = next((keys[name] for name in _KEYS if name in keys), None)
        if key is None:
            return "" if not value else reply
        value = value[key]
    if isinstance(value, list):
        return (
            ", ".join(map(str, value))
            if all(isinstance(v, str | int | float) for v in value)
            else reply
        )
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else reply


def is_answer(text: str) -> bool:
    """Whether a text has words, figures or a sign that can be an answer ("+", "?"); "..." and "**" have not.

    >>> is_answer("Paris"), is_answer("+"), is_answer("..."), is_answer("")
    (True, True, False, False)
    """
    if normalise(text):
        return True
    signs = symbols(text)
    return (len(signs) == 1 and signs not in ".,;:\u2026") or any(
        category(c)[0] == "S" for c in signs
    )


_LEAD = re.compile(
    r"(?:(?:so|thus|therefore|hence|well|based on (?:the|this)[^,.:\n]{0,40}|according to (?:the|this)[^,.:\n]{0,40}),? )?"
    r"(?:(?:the |my )?(?:final |short |correct |right )?answer(?: (?:is|would be|should be)|\s?[:=])|a:|"
    r"it(?: is|'s| was|s)|that(?: is|'s| was|'d be)|this is|these are|they(?: are|'re| were)|there(?: are|'s| is| were| was)|"
    r"he(?: is|'s| was)|she(?: is|'s| was)|"
    r"es (?:ist|sind|war)|das ist|c'est|ce sont|il y a|es|son|hay|fue|è|sono|é|são|há|это)(?: called| named)?:?(?:\s|$)",
    re.IGNORECASE,
)
_AROUND = " \t\n.\"'\u201c\u201d\u2018\u2019\u00ab\u00bb*`\u3002\u0964\u061f,;"


def bodies(reply: str, question: str) -> Iterator[str]:
    """The whole answer of a reply, then what is left of it without each lead, and without the question's words.

    >>> list(bodies("It is Lima.", "Which city?"))
    ['It is Lima', 'Lima']
    >>> list(bodies("The capital of Chad is Lima.", "What is the capital of Chad?"))
    ['The capital of Chad is Lima', 'Lima']
    """
    text = final_part(unformatted(unwrapped(reply)))
    text = _trim(_SOURCE.sub("", text))
    if not text:
        return
    yield text
    for _ in range(3):  # "So, the answer is: it is"
        if not (lead := _LEAD.match(text)) or not text[lead.end() :].strip():
            break
        text = _trim(text[lead.end() :])
        yield text
    if own_part := _without_question(text, question):
        yield own_part


def _trim(text: str) -> str:
    text = text.strip()
    bare = text.strip(_AROUND)
    before, _, after = text.partition(bare) if bare else ("", "", "")
    if bare[:1].isdigit() and (before.endswith(".") or (before.endswith("'") and "'" not in after)):
        bare = f"{before[-1]}{bare}"  # .5, '50
    return bare or text


_COPULA = re.compile(r" (?:is|was|are|were|has|have|had|equals)(?= )|:(?= )", re.IGNORECASE)
_SMALL = frozenset(
    "the a an of in on at to for by with from this that it its is was are were has have had be been as and there does do did "
    "which what who when where how many much picture image photo shown called named name number total exactly about s".split()
)


def _without_question(text: str, question: str) -> str:
    """What a sentence says beyond the question, around the first copula; "" if that is not one side of it."""
    if len(text) > _SENTENCE or re.search(r"[.!?;\n] ", text):
        return ""
    question_words = {w.norm for w in words(question)}
    plain = readable(text)
    for copula in list(_COPULA.finditer(plain))[:3]:
        sides = plain[: copula.start()], plain[copula.end() :]
        for side, other in (sides, sides[::-1]):
            side_words = [w.norm for w in words(side)]
            if set(side_words) - _SMALL and set(side_words) <= question_words | _SMALL:
                own_part = _trim(other)
                return (
                    own_part
                    if not {"not", "n't", "never", "no"} & set(own_part.lower().split())
                    else ""
                )
    return ""


_SENTENCE = 200
"""Characters of a sentence whose words are held against the question's."""
