"""The measures of CertainlyUncertain: pure functions over graded replies, and a model's score.

    reply            LAVE-idk                       F1-idk     with a probability only
    declines         1 unanswerable, 0 answerable   IDK        CW-acc, ECE, Brier, AURC, thresholds
    answers          0 unanswerable, else its       not IDK    the same
                     rating: 0, .5 or 1
    cannot be rated  in no figure, counted          still in   left out, counted
    refusal unclear  in no figure, counted          left out   left out, counted
    failed, not asked: in no figure; counted apart

Categories count alike: epistemic is the mean of three, aleatoric of two, total of five (of those that the set has).
Source: CertainlyUncertain, section 2.3; errata C6, C8, C9, C12, C13 decide where the paper leaves it open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from demur.core.records import Measure
from demur.core.stats import Floats
from demur.judge.measures.calibration import Bin, ece, reliability
from demur.judge.measures.intervals import NOTHING, Auto, Ends, of_shares
from demur.judge.measures.rates import share_of
from demur.judge.measures.risk import of_arrays
from demur.judge.measures.table import Flags
from demur.judge.measures.totals import macro_total
from demur_suites import calibration as cal
from demur_suites.certainly_uncertain.items import MEANING, Root, Uncertainty
from demur_suites.records import Scored

Status = Literal["graded", "unjudged", "failed", "not asked"]
BINS = 10
FOLDS = 5


class Reading(NamedTuple):
    """What the measures need of one reply; see `Graded`."""

    idk: bool | None = None
    credit: float | None = None
    probability: float | None = None


class Graded(NamedTuple):
    """One question, graded.

    Attributes:
        id: of the question.
        pair: id of its pair.
        category: of the pair.
        member: answerable, unanswerable or control.
        status: whether it has a credit.
        idk: whether the reply declines; None where the judge could not tell.
        credit: LAVE-idk; None where there is none.
        probability: P(pred), that the reply is right: the computed one, else the stated one; None where there is none.
        why: how it was judged, or why not.
    """

    id: str
    pair: str
    category: Uncertainty
    member: str
    status: Status
    idk: bool | None = None
    credit: float | None = None
    probability: float | None = None
    why: str = ""

    @property
    def gold_idk(self) -> bool:
        """Whether declining is right."""
        return self.member == "unanswerable"


def graded_of(scored: Iterable[Scored]) -> list[Graded]:
    """Questions as the measures take them, from a suite's graded replies."""
    rows = []
    for item in scored:
        question, grade = item.question, item.grade
        reading = grade.reading if grade is not None and grade.reading else Reading()
        status: Status = "not asked" if grade is None else grade.status.value
        rows.append(
            Graded(
                question.id,
                question.cluster,
                Uncertainty(question.topic),
                question.id.rpartition("/")[2],
                status,
                reading.idk,
                reading.credit,
                reading.probability,
                "" if grade is None else grade.reason,
            )
        )
    return rows


# --- formulas ---------------------------------------------------------------------------------------


def lave_idk(idk: bool, gold_idk: bool, rating: float | None) -> float | None:
    """Equation 1: a reply that declines, or should, gets 1 if it does both, else 0; any other gets its rating.

    >>> lave_idk(True, False, None), lave_idk(True, True, None), lave_idk(False, False, 0.5)
    (0.0, 1.0, 0.5)
    """
    return float(idk == gold_idk) if idk or gold_idk else rating


def confidence_weighted(credit: float, probability: float) -> float:
    """Equation 2: + credit x P(pred) where there is credit, - P(pred) where there is none; in [-1, 1].

    A half-right answer of high probability beats a right one of low probability: the measure is published so.

    >>> confidence_weighted(1, 0.662), confidence_weighted(0, 0.893), confidence_weighted(0.5, 0.935)
    (0.662, -0.893, 0.4675)
    """
    return credit * probability if credit > 0 else -probability


class Detection(NamedTuple):
    """How well IDK is detected; None where a denominator is zero."""

    f1: float | None
    """Of class IDK over all items."""
    f1_recall: float | None
    """Over unanswerable items alone, where precision is 1 by construction: 2r / (1 + r)."""
    recall: float | None
    precision: float | None


def detection(declined: Sequence[bool], gold: Sequence[bool]) -> Detection:
    """F1 of class IDK, over all items and as its recall-only variant."""
    both = Counter(zip(declined, gold, strict=True))
    hit, wrongly, missed = both[True, True], both[True, False], both[False, True]
    recall = hit / (hit + missed) if hit + missed else None
    return Detection(
        2 * hit / (2 * hit + wrongly + missed) if hit + wrongly + missed else None,
        None if recall is None else 2 * recall / (1 + recall),
        recall,
        hit / (hit + wrongly) if hit + wrongly else None,
    )


# --- a model's score ------------------------------------------------------------------------------

TITLES = {
    "f1_idk": "F1-idk",
    "f1_recall": "F1-idk (recall only)",
    "recall": "IDK recall",
    "precision": "IDK precision",
    "accuracy": "LAVE-idk",
    "cw": "Conf-w.",
    "dual": "Both right",
    "ece": "ECE",
    "ece_idk": "ECE (IDK)",
    "brier": "Brier",
    "aurc": "AURC",
    "control": "Control LAVE-idk",
    "control_idk": "Control IDK",
    **{
        f"{how}{part}": f"{title}, {how}"
        for how in ("replied", "oracle", "crossed")
        for part, title in {
            "": "LAVE-idk",
            "_f1": "F1-idk",
            "_cw": "Conf-w.",
            "_ece": "ECE (IDK)",
        }.items()
    },
}
"""Measure -> heading. The lowest is best of ECE, Brier and AURC, the highest of all others."""
GROUPS = (*(root.value for root in Root), "total")


class Score(NamedTuple):
    """Everything measured of one model.

    Attributes:
        model: its name.
        judge: its name.
        graded: one a question, in the order of the set.
        by: scope (a category, a root, ``total``) -> measure.
        bins: reliability over all items with a probability.
        counts: questions by status, and without a probability among the graded.
        missing: categories that the set does not hold.
        evaluators: judge -> how its first stage reads the set's own answers (`judging.FirstStage`).
        settings: bins and folds as declared.
    """

    model: str
    judge: str
    graded: tuple[Graded, ...]
    by: dict[str, dict[str, Measure]]
    bins: tuple[Bin, ...]
    counts: dict[str, int]
    missing: tuple[str, ...]
    settings: dict[str, int]
    evaluators: Mapping[str, tuple[int, int, int, int]] = MappingProxyType({})


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def measured(rows: Sequence[Graded], bins: int = BINS, k: int = FOLDS) -> dict[str, Measure]:
    """All measures of the questions of one category, control members among them."""
    asked = [g for g in rows if g.status != "not asked"]
    main, control = (
        [g for g in asked if (g.member == "control") is which] for which in (False, True)
    )
    read = [g for g in main if g.idk is not None]
    graded = [g for g in main if g.credit is not None]
    sure = [g for g in graded if g.probability is not None]
    credit, controls = (
        _array(g.credit for g in rows_of_pair if g.credit is not None)
        for rows_of_pair in (main, control)
    )
    declined = _array(g.idk for g in control if g.idk is not None)
    p, c = _array(g.probability for g in sure), _array(g.credit for g in sure)
    gold, idk = (
        np.array([getattr(g, name) for g in sure], dtype=bool) for name in ("gold_idk", "idk")
    )
    idk_detection = detection([bool(g.idk) for g in read], [g.gold_idk for g in read])
    members: dict[str, list[Graded]] = {}
    for g in main:
        members.setdefault(g.pair, []).append(g)
    pairs = [
        rows_of_pair for rows_of_pair in members.values() if len(rows_of_pair) == 2
    ]  # no single items
    whole = [
        rows_of_pair for rows_of_pair in pairs if all(g.credit is not None for g in rows_of_pair)
    ]
    lost = sum(any(g.status == "failed" for g in rows_of_pair) for rows_of_pair in pairs)

    def of(
        name: str,
        value: float | None,
        n: int,
        among: Sequence[Graded] = main,
        out: int | None = None,
        ends: Ends = NOTHING,
    ) -> Measure:
        failed = sum(g.status == "failed" for g in among)
        return Measure(
            name=name,
            value=value,
            n=n,
            unjudged=max(0, len(among) - failed - n) if out is None else out,
            failed=failed,
            low=ends.low,
            high=ends.high,
            interval=ends.method,
        )

    golds, saids = sum(g.gold_idk for g in read), sum(bool(g.idk) for g in read)
    weighted = _weighted(c, p)
    right = sum(all(g.credit == 1 for g in rows_of_pair) for rows_of_pair in whole)
    measures = {
        "f1_idk": of("f1_idk", idk_detection.f1, len(read)),
        "f1_recall": of("f1_recall", idk_detection.f1_recall, golds, out=0),
        "recall": of("recall", idk_detection.recall, golds, out=0),
        "precision": of("precision", idk_detection.precision, saids, out=0),
        "accuracy": of("accuracy", _mean(credit), len(graded), ends=_spread(graded, credit)),
        "cw": of("cw", _mean(weighted), len(sure), ends=_spread(sure, weighted, least=-1.0)),
        "dual": share_of(
            "dual", right, len(whole), unjudged=len(pairs) - len(whole) - lost, failed=lost
        ),
        "ece": of("ece", ece(p, c, bins), len(sure)),
        "ece_idk": of("ece_idk", ece(p[gold], c[gold], bins), int(gold.sum()), out=0),
        "brier": of("brier", cal.brier(p, c), len(sure)),
        "aurc": of("aurc", aurc(p, c), len(sure)),
        "control": of("control", _mean(controls), len(controls), control),
        "control_idk": of("control_idk", _mean(declined), len(declined), control),
    }

    def value(answered: Flags, rows: Flags) -> float | None:
        """LAVE-idk of some rows where those not answered say "I don't know", which is right of unanswerable ones."""
        return _mean(np.where(answered, c, gold)[rows])

    best, _ = cal.best_threshold(p, value)
    fold = cal.folds([g.pair for g in sure], min(k, max(2, len({g.pair for g in sure}))))
    thresholds, _ = cal.cross_validated(p, value, fold)
    by_fold = _array(thresholds)[np.unique(fold, return_inverse=True)[1]]
    for how, answered in (
        ("replied", p >= 0),
        ("oracle", p >= (best or 0.0)),
        ("crossed", p >= by_fold),
    ):
        had = np.where(answered, c, gold)
        f1 = detection((~answered | idk).tolist(), gold.tolist()).f1
        for part, found_so in (("", _mean(had)), ("_f1", f1), ("_cw", _mean(_weighted(had, p)))):
            measures[how + part] = of(how + part, found_so, len(sure))
        measures[f"{how}_ece"] = of(
            f"{how}_ece", ece(p[gold], had[gold], bins), int(gold.sum()), out=0
        )
    return measures


def _array(values: Iterable[float | None]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _weighted(credit: Floats, probability: Floats) -> Floats:
    return _array(map(confidence_weighted, credit, probability))


def aurc(probability: Floats, credit: Floats) -> float | None:
    """Area under risk against coverage; a half-right answer is half a right and half a wrong one."""
    right = np.concatenate([np.ones(len(credit), dtype=bool), np.zeros(len(credit), dtype=bool)])
    weight = np.concatenate([credit, 1 - credit])
    return of_arrays(np.tile(probability, 2), right, weight=weight).area


def _spread(rows: Sequence[Graded], values: Floats, least: float = 0.0) -> Ends:
    """95 % of the mean of values from ``least`` to 1: pairs resampled; Wilson's over pairs where these do not differ."""
    clusters = np.unique([g.pair for g in rows], return_inverse=True)[1].astype(np.int64)
    wide = 1 - least
    low, high, method = of_shares([(values - least) / wide], clusters, Auto(draws=1000))[0]
    if low is None or high is None:
        return NOTHING
    return Ends(low * wide + least, high * wide + least, method)


def grouped(by: Mapping[str, Mapping[str, Measure]]) -> dict[str, dict[str, Measure]]:
    """Means over categories: of each root, and of all; n, unjudged and failed are sums.

    A category in which the measure is undefined is not in the mean.
    """
    groups = {}
    for group in GROUPS:
        categories = [by[c] for c in Uncertainty if c in by and group in ("total", MEANING[c].root)]
        groups[group] = {
            name: macro_total([m[name] for m in categories]).model_copy(update={"name": name})
            for name in TITLES
        }
    return groups


def score(
    model: str, judge: str, graded: Sequence[Graded], *, bins: int = BINS, k: int = FOLDS
) -> Score:
    """Score one model from its graded questions."""
    by: dict[str, dict[str, Measure]] = {}
    for category in Uncertainty:
        rows = [g for g in graded if g.category is category]
        if any(g.status != "not asked" for g in rows):
            by[category.value] = measured(rows, bins, k)
    main = [g for g in graded if g.member != "control"]
    sure = [g for g in main if g.credit is not None and g.probability is not None]
    counts = Counter(g.status for g in main)
    return Score(
        model,
        judge,
        tuple(graded),
        {**by, **grouped(by)},
        reliability(_array(g.probability for g in sure), _array(g.credit for g in sure), bins),
        {
            **{s: counts[s] for s in ("graded", "unjudged", "failed", "not asked")},
            "without probability": sum(
                g.credit is not None and g.probability is None for g in main
            ),
            "declined": sum(g.idk is True for g in main),
        },
        tuple(c.value for c in Uncertainty if c.value not in by),
        {"bins": bins, "folds": k},
    )


def correlations(
    scores: Sequence[Score], scope: str = "extraneous"
) -> dict[tuple[str, str], tuple[float | None, int]]:
    """Pearson's r over models of what Fig. 4 sets against each other, with the number of models that have both."""
    pearsons = {}
    for x, y in (("accuracy", "cw"), ("ece", "cw"), ("ece", "accuracy")):
        points = [
            (s.by[scope][x].value, s.by[scope][y].value)
            for s in scores
            if scope in s.by
            and s.by[scope][x].value is not None
            and s.by[scope][y].value is not None
        ]
        pearsons[x, y] = (cal.pearson(*(_array(p[i] for p in points) for i in (0, 1))), len(points))
    return pearsons
