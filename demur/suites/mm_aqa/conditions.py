"""How a question is put: three conditions, each under two abstention clauses, and a prompt that has evidence weighed.

    base    an answer with a brief explanation      | std    nothing is said of abstaining
    vconf   and a confidence from 1 to 5            | exabs  wrong answers are said to cost dearly; unsure: say so
    cot     step-by-step reasoning first            |
    cotabs  what evidence is there, what is missing, then answer or abstain (a baseline; standard clause alone)

They ride on the conditions of `demur.scenarios.conditions`, with texts of this suite. Source: section 5, appendix I.
"""

from __future__ import annotations

from importlib.resources import files

from demur.core.errors import UsageError, did_you_mean
from demur.core.store import digest
from demur.scenarios.conditions import Condition, Prompts

CONDITIONS: dict[str, Condition] = {
    "base": Condition("none"),
    "base+exabs": Condition("severe"),
    "vconf": Condition("none", ("confidence",)),
    "vconf+exabs": Condition("severe", ("confidence",)),
    "cot": Condition("none", ("reasoning",)),
    "cot+exabs": Condition("severe", ("reasoning",)),
    "cotabs": Condition("moderate", ("reasoning",)),
}
"""Name -> the condition that it is asked under; the first six are the paper's 3 x 2 design."""
SIX = tuple(CONDITIONS)[:6]
FILES = {
    "system": "system.v1.md", "ask": "ask.v1.md", "severe": "exabs.v1.md", "confidence": "vconf.v1.md",
    "reasoning": "cot.v1.md", "moderate": "cotabs.v1.md",
}  # fmt: skip
"""What a part of the prompt is for -> its file; a folder of ``--prompt`` has files of these names."""


def text(name: str) -> str:
    """A prompt of this suite."""
    return files("demur.suites.mm_aqa").joinpath("prompts", name).read_text(encoding="utf-8").strip()


def prompts() -> Prompts:
    """The texts of all conditions."""
    made = Prompts()
    made.texts |= {role: text(name) for role, name in FILES.items()}
    made.sha256 = {role: digest(words.encode()) for role, words in made.texts.items()}
    return made


def chosen(argument: str) -> tuple[str, ...]:
    """The conditions that a text names, joined by commas; all of them when it is empty, ``six`` for the 3 x 2 design.

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
                f"mm_aqa has no condition {name!r}", cure=f"{near} one of {', '.join(CONDITIONS)}, six".strip()
            )
    return tuple(c for c in CONDITIONS if c in names) if names else tuple(CONDITIONS)


def question_id(item: str, condition: str) -> str:
    """Id of an item under a condition: ``q7@cot+exabs``."""
    return f"{item}@{condition}"
