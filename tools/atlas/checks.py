"""What every copy of Atlas must hold, whoever built it: one line for each thing that does not."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

from tools.atlas.entities import norm

NOTICES = (
    "LICENSES.md",
    "WORDNET-LICENSE.txt",
    "FLAG-ICONS-LICENSE.txt",
    "WORLD-ATLAS-LICENSE.txt",
)
_NAMED_BY_CAPTION = {"landmark_name", "landmark_place", "species_name"}


def rows(folder: Path, file: str) -> list[dict[str, Any]]:
    """Rows of a JSONL file of the corpus."""
    return [json.loads(line) for line in (folder / file).read_text(encoding="utf-8").splitlines()]


def check(folder: Path) -> list[str]:
    """Everything that is wrong with the corpus in ``folder``; empty when nothing is."""
    texts = {row["id"]: row for row in rows(folder, "kb_text.jsonl")}
    pictures = {row["id"]: row for row in rows(folder, "kb_images.jsonl")}
    queries = {row["file"]: row for row in rows(folder, "query_images.jsonl")}
    questions = rows(folder, "questions.jsonl")
    found = _ids(folder)
    found += [f"{name}: notice missing" for name in NOTICES if not (folder / name).is_file()]
    for row in (*texts.values(), *pictures.values(), *queries.values(), *questions):
        name = row.get("id") or row["file"]
        licence = row.get("licence", "")
        if not licence:
            found.append(f"{name}: no licence")
        if re.search(r"\b[AL]?GPL|CC-BY|NC\b", licence):
            found.append(f"{name}: licence {licence!r} may not be shipped")
    for question in questions:
        found += [
            f"{question['id']}: {why}" for why in _question(question, texts, pictures, queries)
        ]
    for text in texts.values():
        found += [f"{text['id']}: {why}" for why in _passage(text["text"])]
    found += _images(folder, [row["file"] for row in pictures.values()], list(queries))
    return found


def _ids(folder: Path) -> list[str]:
    files = ("kb_text.jsonl", "kb_images.jsonl", "questions.jsonl")
    counted = Counter(row["id"] for file in files for row in rows(folder, file))
    return [f"{name}: id stands {count} times" for name, count in counted.items() if count > 1]


def _question(
    question: dict[str, Any],
    texts: dict[str, Any],
    pictures: dict[str, Any],
    queries: dict[str, Any],
) -> list[str]:
    found = []
    answers, asked = question["answers"], norm(question["question"])
    if not asked:
        found.append("empty question")
    if not answers or not all(answer.strip() for answer in answers):
        return [*found, "no answer"]
    missing = [gold for gold in question["gold_text"] if gold not in texts]
    missing += [gold for gold in question["gold_images"] if gold not in pictures]
    if missing or not (question["gold_text"] or question["gold_images"]):
        return [*found, f"gold evidence missing: {missing}"]
    if question["query_image"] and question["query_image"] not in queries:
        found.append("query image is not listed in query_images.jsonl")
    if bool(question["query_image"]) != question["style"].startswith("image"):
        found.append("style and query image disagree")
    if any(holds(asked, norm(answer)) for answer in answers):
        found.append("the question tells the answer")
    if question["gold_text"]:
        held = " ".join(texts[gold]["text"] for gold in question["gold_text"])
    elif question["kind"] in _NAMED_BY_CAPTION:
        held = " ".join(pictures[gold]["title"] for gold in question["gold_images"])
    else:
        held = question["support"]
    if not holds(norm(held), norm(answers[0])):
        found.append(f"first answer {answers[0]!r} does not stand in its evidence")
    if question["answer_kind"] == "number":
        value = float(re.sub(r"[^\d.]", "", re.split(r"[a-z]", answers[-1])[0]) or "nan")
        low, high = question["number"]
        written = float(re.sub(r"[^\d.]", "", answers[0]))
        if not low <= written <= high or not (low <= value <= high or "million" in answers[-1]):
            found.append(f"answer {answers[0]!r} lies outside [{low}, {high}]")
    return found


def holds(text: str, answer: str) -> bool:
    """Whether the answer stands in the text as whole words."""
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) is not None


def _passage(text: str) -> list[str]:
    found = []
    unnumbered = re.sub(r"\b\d\)", "", text)
    if " ..." in text or unnumbered.count("(") != unnumbered.count(")"):
        found.append("passage cut inside a statement")
    if not re.search(r'[.!?]["\')]?$', text):
        found.append("passage does not end a sentence")
    if re.search(r"<[a-z/]|&\w+;|\s[.,;:]\s|[,;]\.", text):
        found.append("passage has left-over markup or punctuation")
    return found


def _images(folder: Path, kept: list[str], queries: list[str]) -> list[str]:
    found: list[str] = []
    seen: dict[str, str] = {}
    for file in (*kept, *queries):
        try:
            with Image.open(folder / file) as image:
                pixels = hashlib.sha256(
                    f"{image.size}".encode() + image.convert("RGB").tobytes()
                ).hexdigest()
        except OSError as error:
            found.append(f"{file}: {error}")
            continue
        if pixels in seen:
            found.append(f"{file}: same pixels as {seen[pixels]}")
        seen[pixels] = file
    shipped = {
        path.relative_to(folder).as_posix()
        for top in ("images", "queries")
        for path in (folder / top).rglob("*.*")
    }
    found += [f"{file}: no row names it" for file in sorted(shipped - {*kept, *queries})]
    return found
