"""Conditions of a question: three, each under two abstention clauses, and a prompt that weighs the evidence.

    base    an answer with a brief explanation      | std    no word of abstaining
    vconf   and a confidence from 1 to 5            | exabs  wrong answers cost more than abstaining
    cot     step-by-step reasoning first            |
    cotabs  which evidence is there, which is missing, then answer or abstain (a baseline; standard clause only)

They use the conditions of `demur.scenarios.conditions` with texts of this suite. Source: section 5, appendix I.
"""

from __future__ import annotations

from string import Template

from demur.core.errors import UsageError, did_you_mean
from demur.scenarios.conditions import Condition
from demur_suites.files import prompt_text

CONDITIONS: dict[str, Condition] = {
    "base": Condition("none"),
    "base+exabs": Condition("severe"),
    "vconf": Condition("none", ("confidence",)),
    "vconf+exabs": Condition("severe", ("confidence",)),
    "cot": Condition("none", ("reasoning",)),
    "cot+exabs": Condition("severe", ("reasoning",)),
    "cotabs": Condition("moderate", ("reasoning",)),
}
"""Name -> condition; the first six are the paper's 3 x 2 design."""
SIX = tuple(CONDITIONS)[:6]
FILES = {
    "system": "system.v1.md",
    "ask": "ask.v1.md",
    "severe": "exabs.v1.md",
    "confidence": "vconf.v1.md",
    "reasoning": "cot.v1.md",
    "moderate": "cotabs.v1.md",
}
"""Role of a part of the prompt -> its file; a folder of ``--prompts`` has files of these names."""


def text(name: str) -> str:
    """A prompt of this suite."""
    return prompt_text("demur_suites.mm_aqa", name)


def filled(name: str, **words: str) -> str:
    """A prompt of this suite with its fields filled; the words cannot break it."""
    return Template(text(name)).safe_substitute(words)


def chosen(argument: str) -> tuple[str, ...]:
    """The conditions that a text names, joined by commas; all when it is empty; ``six`` is the 3 x 2 design.

    >>> chosen("cot+exabs, base")
    ('base', 'cot+exabs')

    Raises:
        UsageError: there is no such condition.
    """
    names = [n.strip() for n in argument.split(",") if n.strip()]
    names = [c for n in names for c in (SIX if n == "six" else (n.removesuffix("+std"),))]
    for name in names:
        if name not in CONDITIONS:
            near = did_you_mean(name, tuple(CONDITIONS))
            raise UsageError(
                f"mm_aqa has no condition {name!r}",
                cure=f"{near} one of {', '.join(CONDITIONS)}, six".strip(),
            )
    return tuple(c for c in CONDITIONS if c in names) if names else tuple(CONDITIONS)


def question_id(item: str, condition: str) -> str:
    """Id of an item under a condition: ``q7@cot+exabs``."""
    return f"{item}@{condition}"
