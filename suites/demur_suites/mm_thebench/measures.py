"""Judged chains and their measures: answers, steps, rubric, hallucination, thinking length.

Definitions, where the paper leaves them open:

    precision        distinct predicted steps that match a reference step / predicted steps
    recall           matched necessary reference steps / necessary ones; PARTIAL counts ``partial`` (default 0) in both
    F1               the mean of each question's F1 (the F1 of the means is 1 to 1.5 points higher)
    K, P, R          points earned / points possible in a dimension, base items included, over all questions
    H                1 - points lost to hallucination / all points
    thinking length  tokens (words and punctuation marks) of the chain / those of the annotated chain
    accuracy         (MATCH + half of PARTIAL) / graded; NO ANSWER is graded and counts 0

If a judge's reply could not be read, its level is unjudged and not in that level's denominator; a failed call is in
none.
Equation (1) and section 3.3 of "MM-THEBench".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np

from demur.core.records import Measure, Record
from demur.core.stats import percentile, resampled, wilson
from demur_suites.mm_thebench.items import Dimension, Item, RubricItem
from demur_suites.mm_thebench.statistics import (
    Association,
    Correlation,
    association,
    pearson,
    spearman,
)


class Level(StrEnum):
    """How an answer compares with the correct one, or a reference step with its best match in the chain."""

    MATCH = "MATCH"
    PARTIAL = "PARTIAL"
    MISMATCH = "MISMATCH"
    NO_ANSWER = "NO ANSWER"


class StepMatch(Record):
    """One reference step against the whole chain.

    Attributes:
        step: id of the reference step.
        label: MATCH, PARTIAL or MISMATCH; None where the judge's reply could not be read.
        predicted: number of the best predicted step, from 1; None for MISMATCH.
    """

    step: int
    label: Level | None
    predicted: int | None = None


class Mark(Record):
    """One rubric item judged.

    Attributes:
        satisfied: None where the judge's reply could not be read.
        hallucination: whether it is unsatisfied because the chain made something up.
        evidence: numbers of the predicted steps that the judge cites.
    """

    satisfied: bool | None
    hallucination: bool = False
    evidence: tuple[int, ...] = ()


class Judged(Record):
    """One reply to one item, judged at three levels.

    Attributes:
        id: of the item.
        answer: None where it is unjudged, or where there is no reply.
        why: how the answer was graded, or why it was not.
        failed: there is no reply.
        kind: origin of the chain: the model's own thoughts (``native``), or its visible reply (``elicited``).
        steps: the predicted steps; together they are the chain.
        matches: one for each reference step; None where steps were not judged.
        marks: one for each item of the full rubric; None where it was not judged.
        length: thinking length; None without a chain or an annotated one.
        notes: for the reader, such as parts that could not be judged.
    """

    id: str
    answer: Level | None = None
    why: str = ""
    failed: bool = False
    kind: Literal["native", "elicited", "none"] = "none"
    steps: tuple[str, ...] = ()
    matches: tuple[StepMatch, ...] | None = None
    marks: tuple[Mark, ...] | None = None
    length: float | None = None
    notes: tuple[str, ...] = ()


CREDIT = {Level.MATCH: 1.0, Level.PARTIAL: 0.5, Level.MISMATCH: 0.0, Level.NO_ANSWER: 0.0}
"""Equation (1)."""
_TOKEN = re.compile(r"[^\W\u3040-\u9fff\uac00-\ud7af]+|\S")


def tokens(text: str) -> int:
    """Words and punctuation marks of a text; in scripts without spaces each character counts as one.

    >>> tokens("Paris is 2,620 m high.")
    8
    """
    return sum(1 for _ in _TOKEN.finditer(text))


class StepScore(NamedTuple):
    """Step measures of one question."""

    precision: float
    recall: float
    f1: float


def step_score(item: Item, judged: Judged, partial: float = 0.0) -> StepScore | None:
    """Precision, recall and F1 of one question; None without necessary steps, or where a match could not be read."""
    necessary = {s.id for s in item.steps if s.necessary}
    if not judged.matches or not necessary or any(m.label is None for m in judged.matches):
        return None
    worth = {Level.MATCH: 1.0, Level.PARTIAL: partial}
    best: dict[int, float] = {}
    for match in judged.matches:
        if match.predicted is not None and match.label is not None:
            best[match.predicted] = max(best.get(match.predicted, 0.0), worth.get(match.label, 0.0))
    recalled = sum(
        worth.get(m.label, 0.0)
        for m in judged.matches
        if m.label is not None and m.step in necessary
    )
    precision = sum(best.values()) / len(judged.steps) if judged.steps else 0.0
    recall = recalled / len(necessary)
    return StepScore(precision, recall, harmonic(precision, recall))


def harmonic(precision: float, recall: float) -> float:
    """F1; 0 where both are 0.

    >>> round(harmonic(17.83, 42.54), 2)
    25.13
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class Points(NamedTuple):
    """Rubric points of one question, in one dimension or all."""

    earned: int
    hallucinated: int
    total: int


def marked(item: Item, judged: Judged) -> list[tuple[RubricItem, Mark]] | None:
    """The full rubric with its marks; None where it was not judged, or a mark could not be read."""
    if judged.marks is None or any(m.satisfied is None for m in judged.marks):
        return None
    return list(zip(item.full_rubric, judged.marks, strict=True))


def points(item: Item, judged: Judged, dimension: Dimension | None = None) -> Points | None:
    """Points of the full rubric; None where `marked` is, or where it has no item of the dimension."""
    marks = [
        (r.points, m) for r, m in marked(item, judged) or () if dimension in (None, r.dimension)
    ]
    if not marks:
        return None
    earned, lost = (
        sum(p for p, m in marks if getattr(m, name)) for name in ("satisfied", "hallucination")
    )
    return Points(earned, lost, sum(p for p, _ in marks))


# --- hallucination by kind -------------------------------------------------------------------------

KINDS = ("perception only", "reasoning only", "reasoning and perception", "knowledge only", "other")
"""Of Fig. 3, in its order."""


def hallucination_kind(item: Item, judged: Judged) -> str | None:
    """One of `KINDS`, "none" without a hallucination; None where the rubric was not judged."""
    marks = marked(item, judged)
    if marks is None:
        return None
    dimensions = {r.dimension for r, m in marks if m.hallucination}
    if not dimensions:
        return "none"
    alone = {
        Dimension.PERCEPTION: KINDS[0],
        Dimension.REASONING: KINDS[1],
        Dimension.KNOWLEDGE: KINDS[3],
    }
    if len(dimensions) == 1:
        return alone[dimensions.pop()]
    return KINDS[2] if dimensions == {Dimension.PERCEPTION, Dimension.REASONING} else KINDS[4]


def kinds_by_answer(pairs: Sequence[tuple[Item, Judged]]) -> dict[str, Counter[str]]:
    """Fig. 3: "correct" and "incorrect" -> kind ("none" included) -> questions; partial answers are left out."""
    kinds: dict[str, Counter[str]] = {"correct": Counter(), "incorrect": Counter()}
    for item, judged in pairs:
        kind = hallucination_kind(item, judged)
        if kind is not None and judged.answer not in (None, Level.PARTIAL):
            kinds["correct" if judged.answer is Level.MATCH else "incorrect"][kind] += 1
    return kinds


def reasoning_against_perception(pairs: Sequence[tuple[Item, Judged]]) -> Association:
    """Table 9: wrong answers where only the reasoning, and where only the perception, is hallucinated."""
    by = kinds_by_answer(pairs)
    perception, reasoning = ((by["incorrect"][kind], by["correct"][kind]) for kind in KINDS[:2])
    return association(reasoning, perception)


def subcategory_shares(
    pairs: Sequence[tuple[Item, Judged]],
) -> dict[tuple[str, str], tuple[int, float]]:
    """Fig. 4: (dimension, subcategory) -> points lost to hallucination, and their share; "base" for base items."""
    lost: Counter[tuple[str, str]] = Counter()
    for item, judged in pairs:
        for r, m in marked(item, judged) or ():
            if m.hallucination:
                lost[r.dimension.value, r.subcategory or "base"] += r.points
    total = lost.total()
    return {key: (n, n / total) for key, n in lost.most_common()}


def by_length(
    pairs: Sequence[tuple[Item, Judged]], dimension: Dimension
) -> tuple[Correlation | None, Correlation | None]:
    """Table 4 (Pearson, Spearman): share of a dimension's points lost to hallucination against thinking length."""
    points_by_length = [
        (j.length, p.hallucinated / p.total)
        for i, j in pairs
        if (p := points(i, j, dimension)) and j.length
    ]
    lengths, shares = [x for x, _ in points_by_length], [y for _, y in points_by_length]
    return pearson(lengths, shares), spearman(lengths, shares)


# --- a model's score -------------------------------------------------------------------------------


class Score(NamedTuple):
    """The results of one model.

    Attributes:
        model: its name.
        judge: the judge; "local" where rules graded only the answers.
        pairs: items that were asked, without those that are too complex, each with its judged reply.
        image: measures on text and pictures: Table 2.
        video: measures on videos: Table 3; None without any.
        sources: source -> accuracy: Table 7.
        left_out: items marked too complex.
        not_asked: items without a reply.
    """

    model: str
    judge: str
    pairs: tuple[tuple[Item, Judged], ...]
    image: dict[str, Measure]
    video: dict[str, Measure] | None
    sources: dict[str, Measure]
    left_out: int
    not_asked: int

    @property
    def group(self) -> str:
        """Origin of the chains: ``native``, ``elicited``, or how many of each."""
        kinds = Counter(j.kind for _, j in self.pairs if j.kind != "none")
        both = f"native {kinds['native']}, elicited {kinds['elicited']}"
        return both if len(kinds) == 2 else next(iter(kinds), "none")


def score(
    model: str,
    items: Sequence[Item],
    judged: Mapping[str, Judged],
    *,
    judge: str = "local",
    partial: float = 0.0,
    resamples: int = 1000,
    seed: int = 0,
) -> Score:
    """The score of one model from its judged replies (item id -> reply)."""
    fit = [i for i in items if not i.too_complex]
    pairs = tuple((i, judged[i.id]) for i in fit if i.id in judged)

    def measured(of: Sequence[tuple[Item, Judged]]) -> dict[str, Measure]:
        return measures(of, partial=partial, resamples=resamples, seed=seed)

    videos = [p for p in pairs if p[0].modality == "video"]
    by_source = {s: [p for p in pairs if p[0].source == s] for s in sorted({i.source for i in fit})}
    sources = {s: measured(pairs_of_source)["accuracy"] for s, pairs_of_source in by_source.items()}
    return Score(
        model,
        judge,
        pairs,
        measured([p for p in pairs if p[0].modality != "video"]),
        measured(videos) if videos else None,
        sources,
        len(items) - len(fit),
        len(fit) - len(pairs),
    )


Pairs = Sequence[tuple[Item, Judged]]
Ratio = Callable[[Item, Judged], tuple[float, float] | None]
"""What one question adds to a measure's numerator and denominator; None where it is unjudged."""


def measures(
    pairs: Pairs, *, partial: float = 0.0, resamples: int = 1000, seed: int = 0
) -> dict[str, Measure]:
    """Accuracy, step measures, K, P, R, H and thinking length, each with n questions and a bootstrap interval."""

    def one(value: float | None) -> tuple[float, float] | None:
        return None if value is None else (value, 1.0)

    def step(part: str) -> Ratio:
        return lambda item, j: one(getattr(step_score(item, j, partial), part, None))

    def earned(dimension: Dimension) -> Ratio:
        return lambda item, j: (p.earned, p.total) if (p := points(item, j, dimension)) else None

    stepped = [p for p in pairs if any(s.necessary for s in p[0].steps)]
    every: dict[str, tuple[Ratio, Pairs]] = {
        "accuracy": (lambda item, j: one(None if j.answer is None else CREDIT[j.answer]), pairs),
        "h": (
            lambda item, j: (p.total - p.hallucinated, p.total) if (p := points(item, j)) else None,
            pairs,
        ),
        "length": (lambda item, j: one(j.length), stepped),
        **{part: (step(part), stepped) for part in StepScore._fields},
    }
    for dimension in Dimension:
        tested = [p for p in pairs if any(r.dimension is dimension for r in p[0].full_rubric)]
        every[dimension.value] = earned(dimension), tested
    return {name: _measure(name, of, among, resamples, seed) for name, (of, among) in every.items()}


def _measure(name: str, of: Ratio, among: Pairs, resamples: int, seed: int) -> Measure:
    """The ratio of two sums over questions, with a bootstrap interval over them; Wilson's where they are all alike."""
    ratios = [
        parts
        for item, judged in among
        if not judged.failed and (parts := of(item, judged)) is not None
    ]
    failed = sum(judged.failed for _, judged in among)
    rows = np.array(ratios, dtype=np.float64).reshape(-1, 2)
    total = rows[:, 1].sum()
    ends = None
    if resamples and len(rows) > 1 and total:
        drawn = resampled(rows.round(9), resamples, seed)
        with np.errstate(invalid="ignore", divide="ignore"):
            ends = percentile(drawn[:, 0] / drawn[:, 1], 0.95)
    value, method = float(rows[:, 0].sum() / total) if total else None, "bootstrap"
    if value is not None and ends and ends[0] == ends[1]:  # questions that do not differ
        alike = None if name == "length" else wilson(value * len(rows), len(rows))
        ends, method = alike, "wilson"
    low, high = ends or (None, None)
    return Measure(
        name=name,
        value=value,
        n=len(rows),
        unjudged=len(among) - failed - len(rows),
        failed=failed,
        low=low,
        high=high,
        interval=f"{method}(0.95)" if ends else "",
    )
