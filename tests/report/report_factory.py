"""A small synthetic release and three runs on it, made of real files: what every test of the report reads.

Outcomes are drawn by hashing, so the numbers are the same everywhere; pictures are drawn with Pillow.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from demur.core.images import image_ref
from demur.core.records import (
    AnswerSpec,
    ContextSet,
    Drop,
    Evidence,
    ImageRef,
    Method,
    Modality,
    Outcome,
    Response,
    Role,
    Row,
    Sample,
    Scenario,
    Status,
    Usage,
    Verdict,
)
from demur.core.store import digest, seed_of, write_json, write_records
from demur.release import Draft, FunnelStep, freeze
from demur.scenarios.contexts import Recipe, contexts, grid, standard, sweep

COUNTRIES = [
    "Algeria",
    "Angola",
    "Benin",
    "Botswana",
    "Chad",
    "Egypt",
    "Gabon",
    "Ghana",
    "Guinea",
    "Kenya",
    "Lesotho",
    "Liberia",
    "Libya",
    "Malawi",
    "Mali",
]
COUNTRIES += [
    "Morocco",
    "Namibia",
    "Niger",
    "Nigeria",
    "Rwanda",
    "Senegal",
    "Togo",
    "Uganda",
    "Zambia",
]
TOPICS = ("capital", "currency", "export_commodity", "longest_border")
COLOURS = ("#006233", "#d21034", "#ffffff", "#fcd116", "#007a5e", "#000000", "#0033a0", "#75aadb")
HOSTILE = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'


def flag(name: str) -> bytes:
    """A made-up flag of three bands."""
    image = Image.new("RGB", (240, 160))
    draw = ImageDraw.Draw(image)
    for band in range(3):
        draw.rectangle(
            (0, band * 54, 240, band * 54 + 54), fill=COLOURS[seed_of(name, band) % len(COLOURS)]
        )
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def outline(name: str) -> bytes:
    """A made-up country outline."""
    image = Image.new("RGB", (220, 220), "#dbeafe")
    points = [
        (40 + seed_of(name, "x", i) % 140, 40 + seed_of(name, "y", i) % 140) for i in range(7)
    ]
    ImageDraw.Draw(image).polygon(points, fill="#84a98c", outline="#354f52")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


class Pictures:
    """Bytes by hash."""

    def __init__(self) -> None:
        self.bytes: dict[str, bytes] = {}

    def ref(self, data: bytes) -> ImageRef:
        one = image_ref(data, "drawn")
        self.bytes[one.sha256] = data
        return one

    def read(self, ref: ImageRef) -> bytes:
        return self.bytes[ref.sha256]


def make_samples(
    pictures: Pictures, countries: Sequence[str] = COUNTRIES, *, hostile: bool = False
) -> list[Sample]:
    """Two samples a country: a flag or outline question with text gold, and a text question with image gold too."""

    def passage(country: str, topic: str, role: Role, **rest: Any) -> Evidence:
        return Evidence(
            id=f"t-{country}-{topic}",
            modality=Modality.TEXT,
            title=f"{country}: {topic.replace('_', ' ')}",
            role=role,
            text=f"The {topic.replace('_', ' ')} of {country} is {value(country, topic)}. " * 3,
            **rest,
        )

    def map_of(country: str, role: Role, **rest: Any) -> Evidence:
        return Evidence(
            id=f"i-{country}",
            modality=Modality.IMAGE,
            title=f"Outline of {country}",
            role=role,
            level="image",
            image=pictures.ref(outline(country)),
            **rest,
        )

    def value(country: str, topic: str) -> str:
        return f"{topic[:3].title()}{country[:4].lower()}a"

    made = []
    for number, country in enumerate(countries):
        topic = TOPICS[number % len(TOPICS)]
        others = [c for c in countries if c != country]
        for kind in ("flag", "text"):
            text_gold, image_gold = kind == "flag" or number % 3, kind == "text" and number % 2
            gold = ([passage(country, topic, Role.GOLD)] if text_gold or not image_gold else []) + (
                [map_of(country, Role.GOLD)] if image_gold else []
            )
            negatives = [
                passage(
                    others[(number + i) % len(others)],
                    topic,
                    Role.DISTRACTOR,
                    origin="mined",
                    index_id="text-1",
                    mode="text->text",
                    rank=2 * i + 1,
                    score=round(0.9 - i / 20, 4),
                )
                for i in range(4)
            ] + [
                map_of(
                    others[(number + i) % len(others)],
                    Role.DISTRACTOR,
                    origin="mined",
                    index_id="image-1",
                    mode="image->image",
                    rank=2 * i + 2,
                    score=round(0.8 - i / 20, 4),
                )
                for i in range(4)
            ]
            subject = "the country whose flag is shown" if kind == "flag" else country
            question = f"What is the {topic.replace('_', ' ')} of {subject}?"
            if hostile and number == 0:
                question = f"{HOSTILE} {question}"
            made.append(
                Sample(
                    id=f"q-{kind}-{country.lower()}-{topic}",
                    source="flags" if kind == "flag" else "facts",
                    question=question,
                    answers=AnswerSpec(accepted=((value(country, topic),),)),
                    images=(pictures.ref(flag(country)),) if kind == "flag" else (),
                    gold=tuple(gold),
                    negatives=tuple(negatives),
                    topic=topic,
                    cluster=country,
                    licence="CC0-1.0",
                )
            )
    return made


def make_release(
    out: Path, *, hostile: bool = False, countries: Sequence[str] = COUNTRIES
) -> tuple[Path, list[Sample]]:
    """A release folder, written by `demur.release.freeze`."""
    pictures = Pictures()
    samples = make_samples(pictures, countries, hostile=hostile)
    n = len(samples)
    freeze(
        out,
        Draft(
            name="tiny-atlas",
            version="0.1.0",
            samples=samples,
            read_image=pictures.read,
            drops=[
                Drop(sample=f"gone-{i}", stage="parametric", reason="answered without evidence")
                for i in range(9)
            ]
            + [
                Drop(sample=f"weak-{i}", stage="solvable", reason="not solvable with gold")
                for i in range(4)
            ],
            funnel=[
                FunnelStep(stage="pool", entered=n + 18, kept=n + 18),
                FunnelStep(
                    stage="parametric",
                    entered=n + 18,
                    kept=n + 9,
                    dropped={"answered without evidence": 9},
                ),
                FunnelStep(
                    stage="solvable",
                    entered=n + 9,
                    kept=n + 5,
                    dropped={"not solvable with gold": 4},
                ),
                FunnelStep(
                    stage="distractor",
                    entered=n + 5,
                    kept=n,
                    dropped={"fewer than K_min distractors": 3, HOSTILE if hostile else "held": 2},
                ),
            ],
            recall=[
                {
                    "queries": "flags: pages by image",
                    "mode": "image->image",
                    "n": 24,
                    "recall@1": 0.71,
                    "recall@1 low": 0.508,
                    "recall@1 high": 0.852,
                    "recall@10": 0.96,
                    "recall@10 low": 0.797,
                    "recall@10 high": 0.993,
                    "recall@5": 0.88,
                    "recall@5 low": 0.690,
                    "recall@5 high": 0.961,
                    "gold out of reach": 0,
                    "chosen": "yes",
                },
                {
                    "queries": "facts: passages by question",
                    "mode": "text->text",
                    "n": 0,
                    "recall@1": None,
                    "recall@1 low": None,
                    "recall@1 high": None,
                    "recall@10": None,
                    "recall@10 low": None,
                    "recall@10 high": None,
                    "recall@5": None,
                    "recall@5 low": None,
                    "recall@5 high": None,
                    "gold out of reach": 24,
                    "chosen": "by default",
                },
            ],
            about={
                "note": "encoder: ConSE demo embedder, not CLIP",
                "seed": 7,
                "recipe": {"rules": {"k_min": 5}},
                "prompts": {"ask": digest("ask"), "system": digest("system")},
            },
        ),
    )
    return out, samples


SKILL = {  # scenario -> chance of (correct, deflected) in per cent; the rest is hallucinated
    "reader": {
        "parametric": (4, 0),
        "oracle": (78, 0),
        "realistic": (58, 0),
        "adversarial": (3, 0),
    },
    "cautious": {
        "parametric": (1, 82),
        "oracle": (62, 29),
        "realistic": (47, 38),
        "adversarial": (1, 80),
    },
    "small-lm": {
        "parametric": (5, 12),
        "oracle": (41, 14),
        "realistic": (30, 16),
        "adversarial": (2, 22),
    },
}
HOW = {
    Outcome.CORRECT: Method.EQUIVALENCE,
    Outcome.DEFLECTED: Method.DECLINED,
    Outcome.INCORRECT: Method.EQUIVALENCE,
}
"""How verdicts came about: as the local judge decides most answers."""
STRICT = {"none": -18, "soft": -8, "moderate": 0, "severe": 30}


def _row(system: str, sample: Sample, context: ContextSet, condition: str, *, hostile: bool) -> Row:
    by_id = {e.id: e for e in (*sample.gold, *sample.negatives)}
    right, away = SKILL[system][context.scenario.value]
    if context.scenario is Scenario.REALISTIC:
        right -= 3 * (context.k_used - 2)
    away = min(max(away + (STRICT[condition] if away else 0), 0), 97)
    right = max(min(right, 100 - away), 0)
    draw = seed_of(system, sample.id, context.scenario) % 100
    status, outcome, error = Status.GRADED, None, ""
    if system == "small-lm" and seed_of("fault", sample.id, context.scenario) % 17 == 0:
        status, error = Status.FAILED, "timed out after 60 s"
    elif system == "small-lm" and seed_of("judge", sample.id, context.scenario) % 23 == 0:
        status = Status.UNJUDGED
    else:
        outcome = (
            Outcome.CORRECT
            if draw < right
            else Outcome.DEFLECTED
            if draw < right + away
            else Outcome.INCORRECT
        )
    answer = {
        Outcome.CORRECT: sample.answers.display_form,
        Outcome.DEFLECTED: "I cannot tell from the evidence given.",
        Outcome.INCORRECT: f"It is {sample.id[-4:]}ville.",
        None: "" if error else "Perhaps; perhaps not.",
    }[outcome]
    if hostile:
        answer += HOSTILE

    def kinds(evidence: Sequence[Evidence]) -> str:
        held = {e.modality.value for e in evidence}
        return "none" if not held else "both" if len(held) == 2 else held.pop()

    return Row(
        ask=digest([context.id, condition], 16),
        context=context.id,
        sample=sample.id,
        source=sample.source,
        topic=sample.topic,
        cluster=sample.cluster,
        query_modality="text+image" if sample.images else "text",
        gold_modality=kinds(sample.gold),  # type: ignore[arg-type]
        negative_modality=kinds([by_id[e] for e in context.evidence if e not in context.gold]),  # type: ignore[arg-type]
        scenario=context.scenario,
        condition=condition,
        recipe=context.recipe,
        k_used=context.k_used,
        expected=context.expected,
        status=status,
        outcome=outcome,
        reason={
            Outcome.CORRECT: "alias",
            Outcome.DEFLECTED: "deflection phrase",
            Outcome.INCORRECT: "no match",
        }.get(
            outcome,
            "the judge's call failed" if status is Status.UNJUDGED else "no answer",  # type: ignore[arg-type]
        ),
        answer=answer,
        confidence=round(0.35 + (draw % 60) / 100, 3) if system == "cautious" else None,
        error=error,
        method=HOW[outcome].value if outcome else "",
    )


def write_run(
    folder: Path,
    rows: Sequence[Row],
    context_sets: Sequence[ContextSet] = (),
    *,
    note: str = "",
    manifest: dict[str, Any] | None = None,
) -> Path:
    """A run folder as `demur run` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / "manifest.json",
        {
            "command": f"demur run release --system {folder.name}",
            "system": folder.name,
            "judge": "local",
            "seed": 7,
            "versions": {"demur": "0.1.0"},
            "prompts": {"ask": digest("ask"), "system": digest("system")},
            **({"note": note} if note else {}),
            **(manifest or {}),
        },
    )
    if context_sets:
        write_records(folder / "contexts.jsonl", context_sets)
        with (folder / "responses.jsonl").open("w", encoding="utf-8") as handle:
            for row in rows:
                response = Response(
                    text=row.answer,
                    error=row.error,
                    usage=Usage(prompt=210, completion=9),
                    latency_s=0.25,
                )
                handle.write(
                    json.dumps({"ask": row.ask, "response": response.model_dump(mode="json")})
                    + "\n"
                )
        write_records(
            folder / "verdicts.jsonl",
            [
                Verdict(
                    id=r.ask, status=r.status, outcome=r.outcome, reason=r.reason, judge="local"
                )
                for r in rows
            ],
        )
    pq.write_table(rows_table(rows), folder / "rows.parquet")
    return folder


def rows_table(rows: Sequence[Row]) -> pa.Table:
    """Rows as Parquet holds them, with every column typed even when all its values are null."""
    text = {name: pa.string() for name in Row.model_fields} | {
        "k_used": pa.int64(),
        "repeat": pa.int64(),
        "confidence": pa.float64(),
        "probability": pa.float64(),
    }
    return pa.Table.from_pylist(
        [r.model_dump(mode="json") for r in rows], schema=pa.schema(list(text.items()))
    )


def make_run(
    folder: Path,
    samples: Sequence[Sample],
    recipes: Sequence[Recipe],
    conditions: Sequence[str] = ("moderate",),
    *,
    extra: Sequence[tuple[Recipe, str]] = (),
    note: str = "",
    hostile: bool = False,
) -> Path:
    """Ask every sample in every recipe under every condition, and ``extra`` pairs on top."""
    rows, sets = [], {}
    pairs = [(r, c) for r in recipes for c in conditions] + list(extra)
    for recipe, condition in dict.fromkeys(pairs):
        for sample, context in contexts(samples, [recipe], seed=7):
            sets[context.id] = context
            rows.append(_row(folder.name, sample, context, condition, hostile=hostile))
    return write_run(folder, rows, list(sets.values()), note=note)


def make_demo(root: Path, *, hostile: bool = False) -> tuple[Path, list[Path]]:
    """``root/release`` and three runs: all four scenarios, a sweep, strictness levels, the modality grid."""
    release, samples = make_release(root / "release", hostile=hostile)
    four = standard(2)
    runs = [
        make_run(
            root / "runs" / "reader", samples, [*four, *sweep(0, 6), *grid(2)], hostile=hostile
        ),
        make_run(
            root / "runs" / "cautious",
            samples,
            [*four, *sweep(0, 6)],
            extra=[(r, c) for r in four for c in STRICT] + [(r, "moderate") for r in grid(2)],
            hostile=hostile,
        ),
        make_run(
            root / "runs" / "small-lm",
            samples,
            four,
            extra=[(r, c) for r in four for c in STRICT],
            note="SmolLM2-135M is a very small model: it shows that the plumbing works, not what models can do",
            hostile=hostile,
        ),
    ]
    return release, runs
