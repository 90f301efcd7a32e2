"""How good a judge is, on answers that people labelled: ``demur judge bench local --on FILE``.

Each line has question, answers, response and label (correct | incorrect | deflected | not_correct), and may have id,
part, language, choices, answer_type and finish_reason. Where only declining is known, text and deflects (true | false)
stand for the last three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from demur.core.cells import options_in
from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, Outcome, Response, Scenario, Verdict
from demur.core.stats import wilson
from demur.core.store import Problems, read_jsonl, why_invalid
from demur.judge.base import answer_spec
from demur.judge.measures.calibration import ece

NOT_CORRECT, ANSWERED = "not_correct", "answered"
"""Labels of people who did not tell a wrong answer from none, or a right answer from a wrong one."""
_EXCLUDED = {NOT_CORRECT: "correct", ANSWERED: "deflected"}
"""A label that two outcomes agree with -> the third."""
_LABELS = {*(outcome.value for outcome in Outcome), NOT_CORRECT}


class Labelled(NamedTuple):
    """One answer with what people say of it."""

    id: str
    question: str
    answers: AnswerSpec
    response: Response
    label: str
    """correct, incorrect, deflected, `NOT_CORRECT` or `ANSWERED`."""
    part: str = ""
    language: str = ""


class Share(NamedTuple):
    """A share of answers, with its Wilson interval."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """None of nothing."""
        return self.hits / self.n if self.n else None

    @property
    def ends(self) -> tuple[float, float] | None:
        """95 %."""
        return wilson(self.hits, self.n)


class BenchRow(NamedTuple):
    """How a judge did on one part of the labelled answers; failed and unjudged ones count nowhere but in ``without``."""

    part: str
    agreement: Share
    """Verdicts that people's labels agree with, of all verdicts."""
    precision: dict[str, Share]
    """Outcome -> how many of the judge's people's labels agree with."""
    recall: dict[str, Share]
    """Outcome, or `NOT_CORRECT` -> how many of people's the judge agrees with."""
    accuracy: Share
    """Correct by the judge; of nothing where some labels tell only whether a reply declines."""
    accuracy_of_people: Share
    """Of the same answers."""
    calibration_error: float | None
    """Mean distance of a verdict's probability from how often it is right, over ten ranges that hold equally many
    (`demur.judge.measures.calibration.ece`); None for a judge without probabilities."""
    without: int
    """Answers without an outcome."""


def shipped() -> Path:
    """The labelled answers that come with demur."""
    return Path(str(files("demur.judge").joinpath("data", "labelled.jsonl")))


def load(path: Path) -> list[Labelled]:
    """The labelled answers of a file, or of every ``.jsonl`` of a folder.

    Raises:
        BadInput: rows that cannot be read, all of them named.
        UsageError: there are none.
    """
    folder = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    problems = Problems()
    items: list[Labelled] = []
    for file in folder:
        for place, row in read_jsonl(file, problems):
            try:
                labelled = _parse_labelled(str(place), row)
            except ValidationError as error:
                problems.add(str(place), why_invalid(error))
                continue
            if labelled is not None:
                items.append(labelled)
            else:
                problems.add(str(place), "no labelled answer: it lacks answers, response or label")
    problems.settle()
    if not items:
        raise UsageError(
            "holds no labelled answers",
            item=str(path),
            cure="give a .jsonl file, or a folder of them",
        )
    return items


def _parse_labelled(place: str, row: dict[str, Any]) -> Labelled | None:
    id_, question = str(row.get("id", place)), str(row.get("question") or "")
    part, language = str(row.get("part", "")), str(row.get("language", ""))
    if isinstance(row.get("text"), str) and isinstance(row.get("deflects"), bool):
        label = Outcome.DEFLECTED.value if row["deflects"] else ANSWERED
        unknown, response = AnswerSpec(kind="unknown"), Response(text=row["text"])
        return Labelled(id_, question, unknown, response, label, part, language)
    golds = row.get("answers") or []
    golds = [str(gold) for gold in ([golds] if isinstance(golds, str) else golds)]
    golds = [gold for gold in golds if gold.strip()]
    label = str(row.get("label") or "").strip().lower()
    if not golds or label not in _LABELS or not isinstance(row.get("response"), str):
        return None
    choices = options_in(row.get("choices") or None, "choices").pairs
    spec = answer_spec(golds, str(row.get("answer_type") or "string"), choices)
    response = Response(text=row["response"], finish_reason=str(row.get("finish_reason", "")))
    return Labelled(id_, question, spec, response, label, part, language)


def asks(items: Iterable[Labelled]) -> list[tuple[Ask, Response, AnswerSpec]]:
    """The answers as judges take them."""
    return [
        (
            Ask(
                id=item.id,
                sample=item.id,
                context="bench",
                # where nobody wrote an answer down, whether it declines is what people told
                scenario=Scenario.ADVERSARIAL
                if item.answers.kind == "unknown"
                else Scenario.ORACLE,
                question=item.question,
                choices=item.answers.choices,
            ),
            item.response,
            item.answers,
        )
        for item in items
    ]


def agrees(outcome: str, label: str) -> bool:
    """Whether a verdict is what people say; a label that tells less agrees with all that it may mean."""
    return outcome == label or (label in _EXCLUDED and outcome != _EXCLUDED[label])


def bench(items: Sequence[Labelled], verdicts: Sequence[Verdict]) -> list[BenchRow]:
    """One row for each part and each language, and one for all.

    Args:
        items: labelled answers.
        verdicts: of the judge, in their order.
    """
    pairs = list(zip(items, verdicts, strict=True))
    parts = sorted({item.part for item in items} - {""})
    languages = sorted({item.language for item in items} - {"", *parts})
    rows = [
        _bench_row(name, [p for p in pairs if name in (p[0].part, p[0].language)])
        for name in (*parts, *languages)
    ]
    return [*rows, _bench_row("all", pairs)]


def _bench_row(part: str, pairs: Sequence[tuple[Labelled, Verdict]]) -> BenchRow:
    graded = [(v.outcome.value, item.label, v) for item, v in pairs if v.outcome is not None]
    outcomes = [outcome.value for outcome in Outcome]

    def agreeing(rows: Iterable[tuple[str, str, Verdict]]) -> Share:
        hits = [agrees(outcome, label) for outcome, label, _ in rows]
        return Share(sum(hits), len(hits))

    precision = {name: agreeing(row for row in graded if row[0] == name) for name in outcomes}
    recall = {
        name: agreeing(row for row in graded if row[1] == name) for name in (*outcomes, NOT_CORRECT)
    }
    labels = {label for _, label, _ in graded}
    # where people told only whether replies decline, there is no accuracy
    rated = [] if ANSWERED in labels else graded
    by_judge, by_people = (
        Share(sum(row[at] == Outcome.CORRECT for row in rated), len(rated)) for at in (0, 1)
    )
    return BenchRow(
        part,
        agreeing(graded),
        {name: share for name, share in precision.items() if share.n},
        {name: share for name, share in recall.items() if share.n},
        by_judge,
        by_people,
        _calibration_error(graded),
        len(pairs) - len(graded),
    )


def _calibration_error(graded: Iterable[tuple[str, str, Verdict]]) -> float | None:
    stated = [
        (v.probability, agrees(o, label)) for o, label, v in graded if v.probability is not None
    ]
    if not stated:
        return None
    probability, right = np.array(stated, dtype=np.float64).T
    return ece(probability, right, adaptive=True)


def as_dict(rows: Sequence[BenchRow]) -> dict[str, Any]:
    """Rows for JSON."""

    def share(s: Share) -> dict[str, Any]:
        return {"value": s.value, "hits": s.hits, "n": s.n, "ends": s.ends}

    return {
        "rows": [
            row._asdict()
            | {
                name: share(getattr(row, name))
                for name in ("agreement", "accuracy", "accuracy_of_people")
            }
            | {
                name: {label: share(s) for label, s in getattr(row, name).items()}
                for name in ("precision", "recall")
            }
            for row in rows
        ]
    }
