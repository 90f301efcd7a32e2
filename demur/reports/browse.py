"""The data of the sample browser: columns, pools of shared strings, and thumbnails within a size budget.

A row of the browser is one question (a context set under a condition), with the verdict of every system asked, so that
users can filter by disagreement.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

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


K = TypeVar("K")


class _Pool(dict[K, int]):
    """Numbers for values, in order of first use."""

    def of(self, value: K) -> int:
        return self.setdefault(value, len(self))


def _pool(values: Iterable[str]) -> _Pool[str]:
    return _Pool({value: number for number, value in enumerate(dict.fromkeys(values))})


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
    """The contents of the browser, as JSON-safe columns.

    Args:
        data: runs and, if any, their release; only the samples in ``data.samples_shown`` of large ones.
        head: recipes of the headline numbers, which the browser shows first.
        image_budget: maximum bytes of all thumbnails.

    Returns:
        ``items`` (sample, scenario, condition, recipe, context: parallel arrays), ``verdicts`` (per system: a string
        of one letter per item, and indices into ``pool``), ``samples``, ``contexts``, ``evidence``, ``images``.
    """
    rows = [
        list(
            run.rows
            if data.samples_shown is None
            else run.rows.where(run.rows.is_in("sample", data.samples_shown))
        )
        for run in data.runs
    ]
    all_rows = [row for rows_of_run in rows for row in rows_of_run]
    scenarios = [s.value for s in Scenario if any(r.scenario is s for r in all_rows)]
    conditions = _pool(sorted({r.condition for r in all_rows}, key=_prompt_order))
    recipes = _pool(sorted({r.recipe for r in all_rows}, key=_recipe_order))
    sources = _pool(sorted({r.source for r in all_rows}))
    topics = _pool(sorted({r.topic for r in all_rows}))
    pool = _pool([""])
    pictures: _Pool[str] = _Pool()
    refs: dict[str, ImageRef] = {}

    def picture(ref: ImageRef) -> int:
        refs.setdefault(ref.sha256, ref)
        return pictures.of(ref.sha256)

    of_sample: dict[str, Row] = {}
    first_row_of_item: dict[tuple[str, str], Row] = {}
    for row in all_rows:
        first_row_of_item.setdefault((row.context, row.condition), row)
        of_sample.setdefault(row.sample, row)
    order = {s: i for i, s in enumerate(Scenario)}
    keys = sorted(
        first_row_of_item,
        key=lambda k: (
            first_row_of_item[k].sample,
            order[first_row_of_item[k].scenario],
            first_row_of_item[k].recipe,
            k[1],
            k[0],
        ),
    )

    sample_ids = sorted(of_sample)
    sample_at = {s: i for i, s in enumerate(sample_ids)}
    samples: dict[str, list[Any]] = {
        k: [] for k in ("id", "question", "answer", "source", "topic", "images")
    }
    evidence_of_sample: dict[str, dict[str, Evidence]] = {}
    for sample_id in sample_ids:
        sample, row = data.samples.get(sample_id), of_sample[sample_id]
        samples["id"].append(sample_id)
        samples["question"].append(sample.question_with_turns if sample else sample_id)
        samples["answer"].append(sample.answers.display_form if sample else "")
        samples["source"].append(sources.of(row.source))
        samples["topic"].append(topics.of(row.topic))
        samples["images"].append([picture(ref) for ref in sample.images] if sample else [])
        evidence_of_sample[sample_id] = (
            {e.id: e for e in (*sample.gold, *sample.negatives)} if sample else {}
        )

    # Images are read in the order in which a release stores them: query images by sample, evidence by document.
    context_sets = {c.id: c for run in data.runs for c in run.contexts.values()}
    evidence_used = {
        e: evidence_of_sample[c.sample][e]
        for c in context_sets.values()
        for e in c.evidence
        if e in evidence_of_sample.get(c.sample, {})
    }
    for _, evidence_shown in sorted(evidence_used.items()):
        if evidence_shown.image is not None:
            picture(evidence_shown.image)

    evidence: dict[str, list[Any]] = {k: [] for k in ("title", "text", "image", "note")}
    evidence_at: dict[tuple[str, str], int] = {}

    def evidence_number(evidence_shown: Evidence | None, missing: str) -> int:
        note = "" if evidence_shown is None else _origin_note(evidence_shown)
        key = (missing if evidence_shown is None else evidence_shown.id, note)
        if key not in evidence_at:
            evidence_at[key] = len(evidence["title"])
            text = "" if evidence_shown is None else evidence_shown.text or ""
            evidence["title"].append(
                missing if evidence_shown is None else evidence_shown.title or evidence_shown.id
            )
            evidence["text"].append(
                text if len(text) <= EVIDENCE_CHARACTERS else text[:EVIDENCE_CHARACTERS] + " …"
            )
            evidence["image"].append(
                -1
                if evidence_shown is None or evidence_shown.image is None
                else picture(evidence_shown.image)
            )
            evidence["note"].append(note)
        return evidence_at[key]

    contexts: dict[str, list[Any]] = {k: [] for k in ("id", "evidence", "gold", "expected")}
    context_at: dict[str, int] = {}
    items: dict[str, list[int]] = {
        k: [] for k in ("sample", "scenario", "condition", "recipe", "context", "main")
    }
    for context_id, condition in keys:
        row = first_row_of_item[context_id, condition]
        if context_id not in context_at:
            context_at[context_id] = len(contexts["id"])
            context_set = context_sets.get(context_id)
            contexts["id"].append(context_id)
            contexts["expected"].append(row.expected)
            gold = set(context_set.gold) if context_set else set()
            evidence_ids = context_set.evidence if context_set else ()
            contexts["evidence"].append(
                [evidence_number(evidence_of_sample[row.sample].get(e), e) for e in evidence_ids]
                if context_set
                else None
            )
            contexts["gold"].append("".join("1" if e in gold else "0" for e in evidence_ids))
        items["sample"].append(sample_at[row.sample])
        items["scenario"].append(scenarios.index(row.scenario.value))
        items["condition"].append(conditions.of(condition))
        items["recipe"].append(recipes.of(row.recipe))
        items["context"].append(context_at[context_id])
        items["main"].append(int(head.holds(row)))

    verdicts = []
    for rows_of_run in rows:
        repeats = repeats_by_item(rows_of_run)
        majority_rows = [majority(repeats[key]) if key in repeats else None for key in keys]
        counts = [repeats_text(repeats.get(key, ())) for key in keys]
        verdicts.append(
            {
                "code": "".join("n" if r is None else outcome_letter(r) for r in majority_rows),
                "answer": [0 if r is None else pool.of(r.answer) for r in majority_rows],
                "reason": [
                    0 if r is None else pool.of("; ".join(filter(None, (t, r.reason))))
                    for r, t in zip(majority_rows, counts, strict=True)
                ],
                "error": [0 if r is None else pool.of(r.error) for r in majority_rows],
                "confidence": [
                    None if r is None or r.confidence is None else round(r.confidence, 4)
                    for r in majority_rows
                ],
            }
        )
    images: list[str | None] = []
    if refs and data.release is not None:
        images = thumbnails(list(refs.values()), data.release.read_image, image_budget)
    return {
        "systems": [run.name for run in data.runs],
        "scenarios": scenarios,
        "conditions": list(conditions),
        "recipes": list(recipes),
        "told": [_short_recipe(text, head) for text in recipes],
        "sources": list(sources),
        "topics": list(topics),
        "pool": list(pool),
        "samples": samples,
        "evidence": evidence,
        "contexts": contexts,
        "items": items,
        "verdicts": verdicts,
        "images": images,
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
