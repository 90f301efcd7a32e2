"""Whether a system that reads nothing can tell that gold is there: the sets that are asked, by their shallow features.

Realistic shows gold beside the k distractors of Adversarial (VLM-DeflectionBench, section 3.5). For each sample both
sets are described by features that need no reading, and a logistic regression learns from other samples which of the
two holds gold (five folds; the two sets of a sample are never parted). Chance is right in half of the sets.

    pictures    a picture is shown; a text is shown
    length      mean log words of the texts
    title       the title of a piece stands in the question
    origin      share of pieces from the knowledge base, the others shipped beside the question
    place       log words of the first piece and of the last; a picture has none
    number      pieces and pictures, how many

Number is measured apart and has no limit: by the paper's definition k pieces are distractors alone, and more hold gold.
It tells the same of Parametric and Oracle, which show nothing and gold alone, so these two are not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from demur.core.records import Evidence, Modality, Sample
from demur.core.stats import Floats, wilson
from demur.core.store import seed_of
from demur.release import Release
from demur.release import verify as verify_files
from demur.release.evidence import ToldApart
from demur.scenarios.contexts import context, recipe

HEADLINE = 2
"""Distractors of the scenarios that a report leads with (Table 4)."""
FOLDS = 5
RIDGE = 1.0
"""Penalty on squared weights of standardised features."""
Pair = tuple[list[float], list[float]]
"""The values of a feature in Realistic and in Adversarial."""
UNDECIDED = 1e-6
"""Log odds that decide nothing: such a set is half right."""


def verify(release: Release) -> list[str]:
    """Everything that is wrong with a release, one line each; empty if it is sound.

    As `demur.release.verify`; in sound files also what the manifest says of `measure` and the tables do not, and each
    source whose sets are told apart: the lower end of its interval is above `demur.release.evidence.LIMIT`.
    """
    if faults := verify_files(release):
        return faults
    rows = measure(list(release.samples()))
    stated = release.manifest.get("told_apart")
    if stated is not None and stated != [row.model_dump(mode="json") for row in rows]:
        return ["manifest.json: told_apart does not follow from the tables"]
    return [str(row) for row in rows if row.telling]


def measure(samples: Sequence[Sample], k: int = HEADLINE) -> list[ToldApart]:
    """How well shallow features tell Realistic from Adversarial: of all sources if there are several, then of each."""
    sources = sorted({s.source for s in samples})
    pairs = {s.id: pair for s in samples if (pair := _pair(s, k)) is not None}
    return [
        _row(source, [s for s in samples if source in ("", s.source)], pairs, k)
        for source in (*([""] if len(sources) > 1 else []), *sources)
    ]


def _row(
    source: str, samples: Sequence[Sample], pairs: Mapping[str, Mapping[str, Pair]], k: int
) -> ToldApart:
    asked = sorted(
        (s.id for s in samples if s.id in pairs), key=lambda id: seed_of("told apart", id)
    )
    left_out = {str(few): _count_left_out(samples, few) for few in (1, k)}
    if len(asked) < 2:
        return ToldApart(source=source, n=len(asked), left_out=left_out)
    sets = {feature: np.array([pairs[id][feature] for id in asked]) for feature in FEATURES}
    together = [values for feature, values in sets.items() if feature != "number"]
    right = _right(np.concatenate(together, axis=2))
    low, high = wilson(right * len(asked), len(asked)) or (0.0, 1.0)
    return ToldApart(
        source=source,
        n=len(asked),
        left_out=left_out,
        right=round(right, 4),
        low=round(low, 4),
        high=round(high, 4),
        by={feature: round(_right(values), 4) for feature, values in sets.items()},
    )


def _count_left_out(samples: Sequence[Sample], k: int) -> int:
    """Samples with distractors, k of which would give gold away."""
    return sum(bool(s.negatives) and _shown(s, f"adversarial(k={k})") is None for s in samples)


def _shown(sample: Sample, text: str) -> list[Evidence] | None:
    """The evidence of a context, in its order."""
    asked = context(sample, recipe(text))
    by_id = {e.id: e for e in (*sample.gold, *sample.negatives)}
    return None if asked is None else [by_id[id] for id in asked.evidence]


def _pair(sample: Sample, k: int) -> dict[str, Pair] | None:
    """The features of both sets of a sample; None if it is not asked both, or has no gold."""
    realistic, adversarial = (
        _shown(sample, f"{scenario}(k={k})") for scenario in ("realistic", "adversarial")
    )
    if realistic is None or adversarial is None or not sample.gold:
        return None
    return {
        feature: (values(sample, realistic), values(sample, adversarial))
        for feature, values in FEATURES.items()
    }


def _log_words(e: Evidence) -> float:
    return float(np.log1p(len((e.text or "").split())))


def _pictures(sample: Sample, pieces: Sequence[Evidence]) -> list[float]:
    kinds = {e.modality for e in pieces}
    return [float(kind in kinds) for kind in Modality]


def _length(sample: Sample, pieces: Sequence[Evidence]) -> list[float]:
    texts = [_log_words(e) for e in pieces if e.text is not None]
    return [sum(texts) / max(len(texts), 1)]


def _title(sample: Sample, pieces: Sequence[Evidence]) -> list[float]:
    question = sample.question.casefold()
    return [float(any(e.title and e.title.casefold() in question for e in pieces))]


def _origin(sample: Sample, pieces: Sequence[Evidence]) -> list[float]:
    return [sum(bool(e.index_id) for e in pieces) / len(pieces)]


def _place(sample: Sample, pieces: Sequence[Evidence]) -> list[float]:
    return [_log_words(pieces[0]), _log_words(pieces[-1])]


def _number(sample: Sample, pieces: Sequence[Evidence]) -> list[float]:
    return [float(len(pieces)), float(sum(e.modality is Modality.IMAGE for e in pieces))]


FEATURES: Mapping[str, Callable[[Sample, Sequence[Evidence]], list[float]]] = MappingProxyType(
    {
        "pictures": _pictures,
        "length": _length,
        "title": _title,
        "origin": _origin,
        "place": _place,
        "number": _number,
    }
)


# --- the classifier --------------------------------------------------------------------------------


def _right(pairs: Floats) -> float:
    """Share of sets that the regression decides rightly when it has not seen their samples.

    Args:
        pairs: float64 [n >= 2, 2, features]: of each sample the set with gold, then the set without.
    """
    fold = np.arange(len(pairs)) % min(FOLDS, len(pairs))
    right = 0.0
    for each in range(int(fold.max()) + 1):
        seen, unseen = pairs[fold != each], pairs[fold == each]
        centre, scale = seen.mean(axis=(0, 1)), seen.std(axis=(0, 1))
        scale[scale == 0] = 1
        weights = _fit((seen - centre) / scale)
        odds = _with_constant((unseen - centre) / scale) @ weights * np.array([1, -1])
        right += float(((odds > UNDECIDED) + 0.5 * (abs(odds) <= UNDECIDED)).sum())
    return right / (2 * len(pairs))


def _with_constant(values: Floats) -> Floats:
    ones = np.ones((*values.shape[:-1], 1))
    return np.concatenate([values, ones], axis=-1)


def _fit(pairs: Floats) -> Floats:
    """Weights of a ridge logistic regression, the constant last, by Newton's method (Hastie et al., The Elements of
    Statistical Learning, section 4.4.1).
    """
    rows = _with_constant(pairs).reshape(-1, pairs.shape[-1] + 1)
    holds_gold = np.tile([1.0, 0.0], len(pairs))
    weights = np.zeros(rows.shape[1])
    for _ in range(20):
        chance = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (holds_gold - chance) - RIDGE * weights
        bend = (rows.T * (chance * (1 - chance))) @ rows + RIDGE * np.eye(len(weights))
        weights = weights + np.linalg.solve(bend, slope)
    return weights
