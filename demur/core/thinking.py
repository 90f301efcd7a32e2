"""Thoughts that models write into their replies: the one list of their tags, and a reply without them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


class Tags(NamedTuple):
    """What opens a stretch of thoughts, and what closes it."""

    opening: str
    closing: str

    @classmethod
    def of(cls, text: str) -> Tags:
        """Tags as an option writes them: a name, or opening and closing with a blank between.

        >>> Tags.of("plan"), Tags.of("[PLAN] [/PLAN]")
        (Tags(opening='<plan>', closing='</plan>'), Tags(opening='[PLAN]', closing='[/PLAN]'))
        """
        opening, blank, closing = text.strip().partition(" ")
        return cls(opening, closing.strip()) if blank else cls(f"<{opening}>", f"</{opening}>")


THINKING = (
    *map(
        Tags.of,
        "think thinking thought thoughts reasoning reason reflection reflect analysis scratchpad "
        "seed:think internal_thought inner_monologue antThinking cot".split(),
    ),
    Tags("[THINK]", "[/THINK]"),  # Magistral
    Tags("[REASONING]", "[/REASONING]"),
    Tags("◁think▷", "◁/think▷"),  # Kimi
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),  # Command
    Tags("<|begin_of_thought|>", "<|end_of_thought|>"),
    Tags("<|think|>", "<|/think|>"),
    Tags("<unused94>", "<unused95>"),  # MedGemma
    Tags("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),  # Harmony
)
"""Tags of the models that are known to leave them in a reply; upper and lower case are the same."""


def visible(text: str, tags: Iterable[Tags] = THINKING) -> str:
    """The answer without thoughts, wherever they stand; "" when only unfinished thoughts are there.

    A closing tag without an opening one ends thoughts too: some chat templates open the tag in the prompt.

    >>> visible("<think>Lyon? No.</think> Paris"), visible("<think>Let me see")
    ('Paris', '')
    """
    known = tuple(tags)
    marks = _marks(text, known)
    ends: dict[int, list[_Mark]] = {}
    for mark in reversed(marks):
        if mark.closes:
            ends.setdefault(mark.tags, []).append(mark)
    text_outside: list[str] = []
    at = 0
    for mark in marks:
        later = ends.get(mark.tags, [])
        while later and later[-1].start < mark.end:
            later.pop()
        if not mark.closes and mark.start >= at and later:
            text_outside.append(text[at : mark.start])
            at = later[-1].end
    text = "".join(text_outside) + text[at:]
    unpaired = _marks(text, known)
    text = text[max((mark.end for mark in unpaired if mark.closes), default=0) :].strip()
    unclosed_marks = _marks(text, known)
    return (
        ""
        if unclosed_marks and not unclosed_marks[0].start and not unclosed_marks[0].closes
        else text
    )


def split_thinking(text: str) -> tuple[str, str]:
    r"""Thoughts with which a reply begins, and the answer behind them; tags further on are text.

    If the chat template opens the tag in the prompt, the reply has only the closing one; a reply that was cut off while
    thinking has only the opening one.

    >>> split_thinking("<think>two and two</think>\n4")
    ('two and two', '4')
    >>> split_thinking("two and two</think>4")
    ('two and two', '4')
    >>> split_thinking("<think>two and")
    ('two and', '')
    >>> split_thinking("write <think> and </think> around it")
    ('', 'write <think> and </think> around it')
    """
    text, marks = text.strip(), _marks(text.strip(), THINKING)
    if not marks:
        return "", text
    first = marks[0]
    if first.closes:
        return text[: first.start].strip(), text[first.end :].strip()
    if first.start:
        return "", text
    end = next((m for m in marks if m.closes and m.tags == first.tags), None)
    if end is None:
        return text[first.end :].strip(), ""
    return text[first.end : end.start].strip(), text[end.end :].strip()


class _Mark(NamedTuple):
    """A tag in a text."""

    tags: int
    """Which of the known tags."""
    closes: bool
    start: int
    end: int


def _marks(text: str, tags: tuple[Tags, ...]) -> list[_Mark]:
    pattern, names = _compiled(tags)
    return [
        _Mark(*names[match.group().casefold()], *match.span()) for match in pattern.finditer(text)
    ]


@lru_cache(maxsize=64)
def _compiled(
    tags: tuple[Tags, ...],
) -> tuple[re.Pattern[str], dict[str, tuple[int, bool]]]:
    names = {
        written.casefold(): (i, closes)
        for i, pair in enumerate(tags)
        for written, closes in zip(pair, (False, True), strict=True)
    }
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE), names
