"""The data of the sample browser: records of its questions, samples, context sets and evidence, and thumbnails.

A row of the browser is one question (a context set under a condition), with the verdict of every system asked, so that
users can filter by disagreement.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from demur.core.errors import DemurError
from demur.core.images import open_image
from demur.core.records import Evidence, ImageRef, Outcome, Row, Scenario, Status
from demur.reports.cells import Headline, majority, recipe_or_none, repeats_by_item, repeats_text
from demur.reports.data import ReportData
from demur.scenarios.conditions import STRICTNESS

CODES = {Outcome.CORRECT: "c", Outcome.DEFLECTED: "d", Outcome.INCORRECT: "i"}
EVIDENCE_CHARACTERS = 1600
"""The page cuts longer passages; the release holds them whole."""
SIZES = (320, 224, 160, 112)
"""Longest side of a thumbnail in pixels; all thumbnails get the largest size that fits the budget."""


def outcome_letter(row: Row) -> str:
    """One letter for the outcome: c, d, i when graded, u unjudged, f failed."""
    if row.outcome is not None:
        return CODES[row.outcome]
    return "u" if row.status is Status.UNJUDGED else "f"


Shared = TypeVar("Shared")


class _Pool(Generic[Shared]):
    """What several records refer to by its number, in order of first use."""

    def __init__(self) -> None:
        self.values: list[Shared] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, value: Callable[[], Shared]) -> int:
        """The number of a value; it is made when its key is first seen."""
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value())
        return self._numbers[key]


def thumbnail(data: bytes, side: int) -> bytes:
    """A WebP of the image, at most ``side`` pixels on its longer side, on white; without metadata.

    Raises:
        DataError: the bytes are not an image that can be decoded.
    """
    from PIL import Image

    with open_image(data) as packed:
        packed.draft("RGB", (side, side))
        image = packed.convert("RGBA")
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    ground = Image.new("RGBA", image.size, (255, 255, 255, 255))
    ground.alpha_composite(image)
    out = io.BytesIO()
    ground.convert("RGB").save(out, "WEBP", quality=72, method=2)
    return out.getvalue()


def thumbnails(
    refs: list[ImageRef], read: Callable[[ImageRef], bytes], budget: int
) -> list[str | None]:
    """A data URI per image, within ``budget`` bytes in total; None for an image that is unreadable or does not fit.

    Args:
        refs: images, the most important first: those that do not fit at the smallest size are left out from the end.
        read: the encoded bytes of an image.
    """
    import base64

    def encode(side: int, byte_limit: int) -> tuple[list[str | None], bool]:
        uris: list[str | None] = []
        spent = 0
        for ref in refs:
            uri: str | None = None
            with suppress(
                OSError, ValueError, DemurError
            ):  # a broken image must not break the report
                uri = (
                    "data:image/webp;base64,"
                    + base64.b64encode(thumbnail(read(ref), side)).decode()
                )
            if uri is not None and spent + len(uri) > byte_limit:
                return uris + [None] * (len(refs) - len(uris)), False
            spent += len(uri or "")
            uris.append(uri)
        return uris, True

    fitted: list[str | None] = []
    for side in SIZES:
        fitted, whole = encode(side, budget)
        if whole:
            break
    return fitted


def payload(data: ReportData, head: Headline, *, image_budget: int) -> dict[str, Any]:
    """The contents of the browser, JSON-safe.

    Args:
        data: runs and, if any, their release; only the samples in ``data.samples_shown`` of large ones.
        head: recipes of the headline numbers, which the browser shows first.
        image_budget: maximum bytes of all thumbnails.

    Returns:
        ``items``, a record a question: its scenario, condition and recipe, the verdict of each of the ``systems``, and
        the numbers of its sample and context set among ``samples`` and ``contexts``; these have the numbers of their
        ``evidence`` and ``images``.
    """
    browser = _Browser(data, head)
    items = [browser.item(row) for row in browser.questions()]
    images: list[str | None] = []
    if browser.images.values and data.release is not None:
        images = thumbnails(browser.images.values, data.release.read_image, image_budget)
    conditions = {item["condition"] for item in items}
    recipes = sorted({item["recipe"] for item in items}, key=_recipe_order)
    return {
        "systems": [run.name for run in data.runs],
        "scenarios": [s.value for s in Scenario if any(i["scenario"] == s.value for i in items)],
        "conditions": sorted(conditions, key=_prompt_order),
        "recipes": [{"text": text, "short": _short_recipe(text, head)} for text in recipes],
        "items": items,
        "samples": browser.samples.values,
        "contexts": browser.contexts.values,
        "evidence": browser.evidence.values,
        "images": images,
    }


class _Browser:
    """The records of the browser; each is made when the first question refers to it."""

    def __init__(self, data: ReportData, head: Headline) -> None:
        self.data, self.head = data, head
        samples = data.samples_shown
        self.repeats = [
            repeats_by_item(
                run.rows if samples is None else run.rows.where(run.rows.is_in("sample", samples))
            )
            for run in data.runs
        ]
        self.context_sets = {c.id: c for run in data.runs for c in run.contexts.values()}
        self.samples, self.contexts, self.evidence = (_Pool[dict[str, Any]]() for _ in range(3))
        self.images = _Pool[ImageRef]()

    def questions(self) -> list[Row]:
        """One row of every question, by sample, scenario, recipe and condition."""
        rows: dict[tuple[str, str], Row] = {}
        for repeats in self.repeats:
            for key, rows_of_item in repeats.items():
                rows.setdefault(key, rows_of_item[0])
        scenarios = list(Scenario)
        questions = sorted(
            rows.values(),
            key=lambda r: (r.sample, scenarios.index(r.scenario), r.recipe, r.condition, r.context),
        )
        self._number_images(questions)
        return questions

    def _number_images(self, questions: Sequence[Row]) -> None:
        """Number images in the order in which a release stores them: of queries by sample, of evidence by document."""
        samples = [
            self.data.samples[name]
            for name in dict.fromkeys(row.sample for row in questions)
            if name in self.data.samples
        ]
        evidence = sorted((e for s in samples for e in (*s.gold, *s.negatives)), key=lambda e: e.id)
        ids_used = {e for c in self.context_sets.values() for e in c.evidence}
        for sample in samples:
            self._images(sample.images)
        for e in evidence:
            if e.image is not None and e.id in ids_used:
                self._images([e.image])

    def _images(self, refs: Sequence[ImageRef]) -> list[int]:
        return [self.images.number(ref.sha256, lambda ref=ref: ref) for ref in refs]  # type: ignore[misc]

    def item(self, row: Row) -> dict[str, Any]:
        """One question."""
        key = row.context, row.condition
        return {
            "sample": self.samples.number(row.sample, lambda: self._sample(row)),
            "context": self.contexts.number(row.context, lambda: self._context(row)),
            "scenario": row.scenario.value,
            "condition": row.condition,
            "recipe": row.recipe,
            "main": self.head.holds(row),
            "verdicts": [_verdict(repeats.get(key, [])) for repeats in self.repeats],
        }

    def _sample(self, row: Row) -> dict[str, Any]:
        sample = self.data.samples.get(row.sample)
        return {
            "id": row.sample,
            "question": sample.question_with_turns if sample else row.sample,
            "answer": sample.answers.display_form if sample else "",
            "source": row.source,
            "topic": row.topic,
            "images": self._images(sample.images) if sample else [],
        }

    def _context(self, row: Row) -> dict[str, Any]:
        record: dict[str, Any] = {"id": row.context, "expected": row.expected, "evidence": None}
        context_set, sample = (
            self.context_sets.get(row.context),
            self.data.samples.get(row.sample),
        )
        if context_set is None:
            return record
        known = {e.id: e for e in (*sample.gold, *sample.negatives)} if sample else {}
        record["evidence"] = [
            {"number": self._evidence(e, known.get(e)), "gold": e in context_set.gold}
            for e in context_set.evidence
        ]
        return record

    def _evidence(self, identifier: str, evidence: Evidence | None) -> int:
        note = _origin_note(evidence) if evidence else ""
        return self.evidence.number(
            (identifier, note), lambda: self._evidence_record(identifier, evidence, note)
        )

    def _evidence_record(
        self, identifier: str, evidence: Evidence | None, note: str
    ) -> dict[str, Any]:
        if evidence is None:
            return {"title": identifier, "text": "", "image": None, "note": note}
        text = evidence.text or ""
        if len(text) > EVIDENCE_CHARACTERS:
            text = text[:EVIDENCE_CHARACTERS] + " …"
        image = None if evidence.image is None else self._images([evidence.image])[0]
        return {"title": evidence.title or identifier, "text": text, "image": image, "note": note}


def _verdict(repeats: Sequence[Row]) -> dict[str, Any] | None:
    """One system's answer to a question: of several repeats the representative one; None where it was not asked."""
    if not repeats:
        return None
    row = majority(repeats)
    return {
        "code": outcome_letter(row),
        "answer": row.answer,
        "reason": "; ".join(filter(None, (repeats_text(repeats), row.reason))),
        "error": row.error,
        "confidence": None if row.confidence is None else round(row.confidence, 4),
    }


def _prompt_order(condition: str) -> tuple[int, str]:
    """Sort key of prompts: strictness, then name."""
    level = condition.partition("+")[0]
    return STRICTNESS.index(level) if level in STRICTNESS else len(STRICTNESS), condition


def _recipe_order(text: str) -> tuple[int, bool, bool, int, str]:
    """Sort key of recipes: by scenario; plain ones by number of distractors, then other orders, then by modality."""
    recipe = recipe_or_none(text)
    if recipe is None:
        return len(Scenario), False, False, 0, text
    return (
        list(Scenario).index(recipe.scenario),
        recipe.gold != "any",
        recipe.order != "shuffled",
        recipe.k,
        text,
    )


def _short_recipe(text: str, head: Headline) -> str:
    """A recipe as its differences from the headline's: ``realistic, k=5``."""
    recipe = recipe_or_none(text)
    if recipe is None:
        return text
    base = recipe_or_none(head.recipes.get(recipe.scenario, "")) or recipe
    differences = [
        f"{k}={v}" for (k, v), w in zip(recipe._asdict().items(), base, strict=True) if v != w
    ]
    return ", ".join((recipe.scenario.value, *differences))


def _origin_note(distractor: Evidence) -> str:
    """The origin of a distractor: ``mined by image->image, rank 3``."""
    if distractor.origin == "native":
        return "native to the source" if distractor.role == "distractor" else ""
    origin = f"mined by {distractor.mode}" if distractor.mode else "mined"
    return origin + (f", rank {distractor.rank}" if distractor.rank is not None else "")
