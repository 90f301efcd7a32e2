"""Prompting conditions: the strictness of the deflection clause, and add-ons.

A condition's text parses back: ``moderate``, ``severe+strict``, ``moderate+confidence``. Its words are versioned files
in ``prompts/``; ``--prompts DIR`` replaces them by a user's own, and the manifest holds the SHA-256 of each text used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple, Self

from demur.core.errors import DataError, UsageError
from demur.core.store import digest, read_text, storage_errors

STRICTNESS = ("none", "soft", "moderate", "severe")
"""From no clause to an order to refuse at any doubt (VLM-DeflectionBench, section 4.4); the default is ``moderate``."""

ADDONS = ("strict", "confidence", "reasoning")
"""strict: use only the evidence (a system prompt). confidence: state it from 1 to 5. reasoning: think first."""

_FILES = {
    "system": "system.v1.md",
    "strict": "system-strict.v1.md",
    "ask": "ask.v1.md",
    "soft": "clause-soft.v1.md",
    "moderate": "clause-moderate.v1.md",
    "severe": "clause-severe.v1.md",
    "confidence": "addon-confidence.v1.md",
    "reasoning": "addon-reasoning.v1.md",
}


class Condition(NamedTuple):
    """A strictness level and its add-ons."""

    strictness: str = "moderate"
    addons: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Canonical text: the level, then the add-ons in their fixed order."""
        return "+".join((self.strictness, *self.addons))


def condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        UsageError: unknown level or add-on; lists the known ones.

    >>> str(condition("confidence+severe"))
    'severe+confidence'
    """
    words = [w.strip() for w in text.split("+")]
    unknown = [w for w in words if w not in STRICTNESS and w not in ADDONS]
    levels = [w for w in words if w in STRICTNESS]
    if unknown or len(levels) > 1 or len(set(words)) != len(words):
        raise UsageError(
            f"not a condition: {text!r}",
            cure=f"one of {', '.join(STRICTNESS)}, with + and any of {', '.join(ADDONS)}",
        )
    return Condition(levels[0] if levels else "moderate", tuple(a for a in ADDONS if a in words))


def conditions(texts: Iterable[str]) -> list[Condition]:
    """Parse conditions, each once; ``all`` stands for every level of `STRICTNESS`."""
    return list(
        dict.fromkeys(
            condition(name) for text in texts for name in (STRICTNESS if text == "all" else (text,))
        )
    )


def _check_ask(text: str, item: str = "") -> None:
    """Raise DataError where the text with the question has a $ that stands for nothing."""
    template = Template(text)
    if not (template.is_valid() and {*template.get_identifiers()} <= {"question", "clause"}):
        raise DataError(
            "the prompt has a $ that is not a placeholder",
            item=item,
            cure="write $$ for a dollar; its placeholders are $question and $clause",
        )


class Prompts:
    """The texts of all conditions, from the package or from a user's folder.

    Args:
        folder: its files replace those of the same names in ``demur/scenarios/prompts``; see `replace`.

    Raises:
        DataError: a file has an unknown name, is empty, or lacks a placeholder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.texts: dict[str, str] = {
            role: files("demur.scenarios")
            .joinpath("prompts", name)
            .read_text(encoding="utf-8")
            .strip()
            for role, name in _FILES.items()
        }
        self.sha256 = {role: digest(text.encode()) for role, text in self.texts.items()}
        if folder is not None:
            self.replace(folder)

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Self:
        """Texts of one's own by their roles; without ``system`` there is no system prompt.

        Raises:
            DataError: the text of the role ``ask`` lacks ``$question``, or has another ``$``.
        """
        if "question" not in Template(texts["ask"]).get_identifiers():
            raise DataError("the prompt lacks $question", cure="put it where the question belongs")
        _check_ask(texts["ask"])
        prompts = cls()
        prompts.texts |= {"system": "", **{role: text.strip() for role, text in texts.items()}}
        prompts.sha256 = {role: digest(text.encode()) for role, text in prompts.texts.items()}
        return prompts

    def replace(self, folder: Path, names: Mapping[str, str] = _FILES) -> None:
        """Replace texts by a user's own.

        Args:
            folder: files with these names; or one file, which replaces the text with the question.
            names: role -> file name.

        Raises:
            DataError: a file has an unknown name, is empty, or lacks a placeholder.
        """
        roles: dict[str, str] = {name: role for role, name in names.items()}
        with storage_errors(folder):
            single = folder.is_file()
            prompt_files = (
                [folder] if single else sorted(p for p in folder.iterdir() if p.suffix == ".md")
            )
        for path in prompt_files:
            if not single and path.name not in roles:
                raise DataError(
                    "no prompt has that name",
                    item=str(path),
                    cure=f"names are {', '.join(sorted(roles))}",
                )
            role = "ask" if single else roles[path.name]
            text = read_text(path).strip()
            needed = set(Template(self.texts[role]).get_identifiers())
            missing = needed - set(Template(text).get_identifiers())
            if not text or missing:
                fault = f"lacks ${', $'.join(sorted(missing))}" if missing else "is empty"
                raise DataError(
                    f"the prompt {fault}",
                    item=str(path),
                    cure="keep the placeholders of the original",
                )
            if role == "ask":
                _check_ask(text, str(path))
            self.texts[role] = text
            self.sha256[role] = digest(text.encode())
        if not prompt_files:
            raise DataError(
                "no prompt files (*.md) in the folder",
                item=str(folder),
                cure=f"name them {', '.join(sorted(roles))}",
            )

    def system(self, condition: Condition) -> str:
        """The system prompt of a condition."""
        return self.texts["strict" if "strict" in condition.addons else "system"]

    def ask(self, question: str, condition: Condition) -> str:
        """The question with a condition's clause and add-ons. Nothing in the question is read as a placeholder."""
        clauses = [self.texts[condition.strictness]] if condition.strictness != "none" else []
        clauses += [self.texts[a] for a in condition.addons if a != "strict"]
        return (
            Template(self.texts["ask"])
            .substitute(question=question, clause="\n".join(clauses))
            .strip()
        )

    def used(self, condition: Condition) -> dict[str, str]:
        """Role -> SHA-256 of every text that a condition uses."""
        roles = {"ask", "strict" if "strict" in condition.addons else "system", *condition.addons}
        roles |= {condition.strictness} - {"none"}
        return {role: self.sha256[role] for role in sorted(roles)}
