"""Country profiles of The World Factbook as clean text, cut only where a statement ends."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ABBREVIATIONS = {
    "St",
    "Mt",
    "Dr",
    "Mr",
    "Gen",
    "Col",
    "Lt",
    "No",
    "Jr",
    "vs",
    "ca",
    "c",
    "approx",
    "incl",
    "est",
    "Ste",
}


_MISPRINTS = {
    "from the Ottoman Empire; 13 July": "from the Ottoman Empire); 13 July",
    "Carolinian (official), Chinese 6.8%": "Carolinian (official)), Chinese 6.8%",
    "; (20": " (20",
    "POL POT": "Pol Pot",
}
"""Slips of the profiles, as they stand after cleaning -> as they should."""


def plain(value: Any) -> str:
    """Markup, entities and typographic quotes out; a line break becomes the end of a statement."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    text = html.unescape(html.unescape(text))
    text = re.sub(r"<br\s*/?>|</p>|</li>", "\n", text)
    text = re.sub(r"<[^>]+>", "", text)
    text = text.replace("\u00a0", " ").replace("\u2019", "'").replace("\u2018", "'")
    text = text.replace("\u201c", '"').replace("\u201d", '"')
    text = re.sub(r"[^\S\n]+", " ", text)
    text = re.sub(r"([.;:,!?]) ?(?:\n ?)+", r"\1 ", text.strip())
    text = re.sub(r" ?(?:\n ?)+", "; ", text)
    text = re.sub(r'\("([^"()]*)\)', r"(\1)", text)  # a quotation mark that is never closed
    text = re.sub(r"\s+([,;:.])(?=\s)", r"\1", text)
    for wrong, right in _MISPRINTS.items():
        text = text.replace(wrong, right)
    return text.strip(" ;")


def without_notes(text: str) -> str:
    """The statement without the remarks that follow it (``; note - ...``)."""
    return re.sub(r"(?:^|[;.,(]|\s)\s*notes?\s*(?:\d\s*)?[-:\u2013]\s.*$", "", text).strip(" ;,")


def fit(text: str, limit: int) -> str:
    """The longest run of whole statements that has at most ``limit`` characters; never less than the first one.

    Statements end at a full stop, else at a semicolon, else at a comma, outside brackets and quotations.

    >>> fit("red; green (light, dark); blue", 20)
    'red'
    >>> fit("one, two, three", 9)
    'one, two'
    """
    if len(text) <= limit:
        return text
    first = len(text)
    for joint in (". ", "; ", ", "):
        ends = [
            match.start()
            for match in re.finditer(re.escape(joint), text)
            if _is_end(text, match.start(), joint)
        ]
        inside = [end for end in ends if end <= limit]
        if inside and (inside[-1] > limit * 0.4 or joint != ". "):
            return text[: inside[-1] + (joint == ". ")]
        first = min(first, *ends) if ends else first
    return text[:first]


def _is_end(text: str, at: int, joint: str) -> bool:
    before = text[:at]
    if before.count("(") != before.count(")") or before.count('"') % 2:
        return False
    if joint != ". ":
        return True
    word = re.split(r"[\s(]", before)[-1]
    follows = text[at + 2 : at + 3]
    return (
        word not in _ABBREVIATIONS
        and not re.fullmatch(r"(?:\w\.)*\w", word)
        and (follows.isupper() or follows == '"')
    )


@dataclass(frozen=True)
class Profile:
    """One country's profile."""

    code: str
    """The Factbook's own two-letter code (not ISO)."""
    data: dict[str, Any]

    def text(self, path: str) -> str:
        """The clean text at a path of headings (``Geography/Elevation/highest point``); "" where there is none."""
        node: Any = self.data
        for heading in path.split("/"):
            if not isinstance(node, dict) or heading not in node:
                return ""
            node = node[heading]
        return plain(node.get("text", "") if isinstance(node, dict) else node)

    def statement(self, path: str, limit: int) -> str:
        """The text at a path without remarks, in whole statements of at most ``limit`` characters."""
        return fit(without_notes(self.text(path)), limit)

    def flag(self) -> dict[str, str]:
        """The parts of the description of the flag: description, meaning, history."""
        text = self.text("Government/Flag")
        parts = re.finditer(
            r"(description|meaning|history|note)\s*:\s*(.*?)(?=(?:description|meaning|history|note)\s*:|$)",
            text,
            re.S,
        )
        found: dict[str, str] = {}
        for part in parts:
            found.setdefault(part[1], part[2].strip(" ;"))
        return found


def profiles(folder: Path) -> Iterator[Profile]:
    """Every profile, by continent and code."""
    for path in sorted(folder.glob("*/*.json")):
        yield Profile(path.stem, json.loads(path.read_text(encoding="utf-8")))
