"""The measures of VB as pure functions over cells, and a model's score with intervals.

How incomplete replies count, by mode:

    reply              measured (default)                                  paper (as the printed tables were made)
    ABSTAIN            alpha in CAA; wrong in MEFR, ToMAcc, DFAcc          the same
    no confidence      (of true or false) label counts, leaves CAA and     leaves every denominator
                       SelRank
    unparsable         0 in CAA, wrong elsewhere                           leaves every denominator
    invalid label      0 in CAA, wrong elsewhere                           the same
    no output          leaves every denominator (the call failed)          the same
    not asked          in no figure                                        the same

Families of which no cell was asked (a run with a limit) are left out and counted. Only strict families (gold follows
the XOR pattern) are in these figures; ABSTAIN families are counted apart. Source: "VB: Visibility Benchmark", section
5; where the paper is silent, the docstring of each function gives the definition.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from demur.core.records import Measure
from demur.core.stats import Codes, Floats, percentile, wilson
from demur.judge.measures.table import Flags
from demur_suites.vb.items import CELLS, HEADLINE, Cell, Family, Label
from demur_suites.vb.replies import NOT_ASKED, PROBLEMS, Parser, Reply, breaks_rules

Mode = Literal["measured", "paper"]
Ties = Literal["expected", "worst", "best", "stable"]

TIES: dict[Mode, Ties] = {"measured": "expected", "paper": "stable"}
"""How SelRank orders equal confidences; stable: by the families' ids."""
TIE_BOUNDS: tuple[Ties, ...] = ("expected", "worst", "best")
"""Ways to order equal confidences whose SelRank stands beside the one that counts."""
ALPHA = 0.25
"""Credit of an abstention in CAA."""
ALPHAS = (0.0, 0.25, 0.5)
"""Credits of an abstention under which the ranking is shown."""
WEIGHTS = {"caa": 0.70, "mefr": 0.15, "selrank": 0.10, "tom_acc": 0.05}
"""Of the composite (equation of section 5.7)."""
BASE, TEXT, IMAGE, DOUBLE = range(4)
N_HEADLINE = len(HEADLINE)
HEAD = np.s_[:, :N_HEADLINE]
"""The headline cells of `Cells`' arrays."""


@dataclass(frozen=True)
class Cells:
    """Replies of one model to F strict families, as arrays; row f holds the cells in the order of `items.CELLS`.

    Attributes:
        asked: bool [F, 4].
        failed: bool [F, 4], asked, and the call failed.
        kept: bool [F, 4], in denominators about labels.
        right: bool [F, 4], the label is the gold one; False without a label.
        abstained: bool [F, 4].
        answered: bool [F, 4], the label is true or false, and kept.
        confidence: float64 [F, 4] in [0, 1], NaN where none is given.
        scored: bool [F, 4], in CAA's denominator.
        second_order: bool [F].
    """

    asked: Flags
    failed: Flags
    kept: Flags
    right: Flags
    abstained: Flags
    answered: Flags
    confidence: Floats
    scored: Flags
    second_order: Flags

    def take(self, rows: Codes) -> Cells:
        """The cells of these families, which may repeat (a resample)."""
        return Cells(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def kept(reply: Reply, mode: Mode) -> bool:
    """Whether a reply stays in denominators about labels; see the module's table."""
    if mode == "paper":
        return reply.problem in ("", "invalid label")
    return reply.problem not in ("no output", "not asked")


def cells_of(
    families: Sequence[Family], replies: Mapping[str, Reply], mode: Mode = "measured"
) -> Cells:
    """The arrays of the strict families among ``families``.

    Args:
        families: any; those outside the strict subset are ignored.
        replies: cell id -> reply; a cell without one was not asked.
        mode: see the module.
    """
    strict = [f for f in families if f.strict]
    grid = [[replies.get(f.cell_id(cell), NOT_ASKED) for cell in CELLS] for f in strict]

    def array(of: Callable[[Reply, Label], Any], dtype: Any = bool) -> Any:
        rows = [
            [of(r, gold) for r, gold in zip(line, f.gold, strict=True)]
            for line, f in zip(grid, strict, strict=True)
        ]
        return np.array(rows, dtype=dtype).reshape(len(strict), 4)

    keep = array(lambda reply, gold: kept(reply, mode))
    answered = array(lambda reply, gold: reply.answered)
    confidence = array(
        lambda reply, gold: math.nan if reply.confidence is None else reply.confidence, np.float64
    )
    return Cells(
        asked=array(lambda reply, gold: reply.problem != "not asked"),
        failed=array(lambda reply, gold: reply.problem == "no output"),
        kept=keep,
        right=keep & array(lambda reply, gold: reply.label is gold),
        abstained=keep & array(lambda reply, gold: reply.label is Label.ABSTAIN),
        answered=keep & answered,
        confidence=confidence,
        scored=keep & ~(answered & np.isnan(confidence)),
        second_order=np.array([f.second_order for f in strict], dtype=bool),
    )


# --- measures, one function each; None where the denominator is zero ------------------------------


def caa(cells: Cells, alpha: float = ALPHA) -> float | None:
    """Confidence-aware accuracy with abstention (section 5.2), over the headline cells.

    Mean over cells of: alpha when abstained, the confidence when right, else 0. In [0, 1].
    """
    scored = cells.scored[HEAD]
    credit = np.where(
        cells.abstained[HEAD], alpha, np.where(cells.right[HEAD], cells.confidence[HEAD], 0.0)
    )
    return float(credit[scored].sum() / scored.sum()) if scored.any() else None


Share: TypeAlias = tuple[float | None, int]
"""(value, n); None where n is 0."""


def _share(hits: Flags, used: Flags) -> Share:
    """(share of hits among the used cells, n)."""
    n = int(used.sum())
    return (float((hits & used).sum() / n) if n else None), n


def flips(cells: Cells) -> tuple[Share, Share, Share]:
    """I_MEFR, T_MEFR and their mean, MEFR (section 5.3): of families with BASE right, those whose edited cell is too.

    ABSTAIN is wrong. An edited cell that was left out leaves only its own n; the n of MEFR is that of families with
    BASE right. MEFR is None when either rate is undefined.
    """
    base = cells.right[:, BASE]
    image, text = (
        _share(cells.right[:, child], base & cells.kept[:, child]) for child in (IMAGE, TEXT)
    )
    mean = None if image[0] is None or text[0] is None else (image[0] + text[0]) / 2
    return image, text, (mean, int(base.sum()))


def _ranked(cells: Cells) -> tuple[Flags, Floats]:
    """(right, confidence) of the answered headline cells that state a confidence."""
    used = cells.answered[HEAD] & ~np.isnan(cells.confidence[HEAD])
    return cells.right[HEAD][used], cells.confidence[HEAD][used]


def selrank(
    right: Flags, confidence: Floats, ties: Ties = "expected", *, cap: bool = True
) -> float | None:
    """Confidence-ranked selective prediction (section 5.4): min(1, (A - p) / (1 - p)).

    A is the area (trapezoids, from coverage 1/n to 1, no point at 0) under the accuracy of the k most confident
    answers over coverage k/n; p is the accuracy of all. 1 when p is 1. The paper does not say how equal
    confidences are ordered, and models state few distinct ones, so that this alone decides much of the value.

    Args:
        right: bool [n].
        confidence: float64 [n].
        ties: ``expected``: within equal confidences each answer counts the block's mean; ``worst``, ``best``: wrong
            or right ones first, the bounds of any order; ``stable``: in the order that they stand in.
        cap: False gives the value before capping at 1.

    Returns:
        None for n = 0. Small n is biased down: 4 answers in perfect order with one wrong give -0.125.
    """
    n = len(right)
    if n == 0:
        return None
    p = float(right.mean())
    if p == 1.0:
        return 1.0
    hits = right.astype(np.float64)
    if ties == "stable":
        order = np.argsort(-confidence, kind="stable")
    else:
        second = hits if ties == "worst" else -hits
        order = np.lexsort((second, -confidence))
    hits = hits[order]
    if ties == "expected":
        _, block = np.unique(-confidence[order], return_inverse=True)
        hits = (np.bincount(block, weights=hits) / np.bincount(block))[block]
    accuracy = np.cumsum(hits) / np.arange(1, n + 1)
    area = float((accuracy[1:] + accuracy[:-1]).sum() / (2 * n))
    value = (area - p) / (1 - p)
    return min(1.0, value) if cap else value


def tom_acc(cells: Cells) -> Share:
    """(accuracy, n) on the headline cells of second-order families (section 5.5); ABSTAIN is wrong."""
    return _share(cells.right[HEAD], cells.kept[HEAD] & cells.second_order[:, None])


def df_acc(cells: Cells, *, given_base: bool = False) -> Share:
    """(accuracy, n) on DOUBLE_FLIP (section 5.6): of all families, or as the released code of those with BASE right."""
    used = cells.kept[:, DOUBLE] & (cells.right[:, BASE] if given_base else True)
    return _share(cells.right[:, DOUBLE], used)


def composite(
    parts: Mapping[str, float | None], weights: Mapping[str, float] = WEIGHTS
) -> float | None:
    """FINALSCORE (section 5.7): the weighted mean of the components that are defined, weights renormalised.

    >>> round(composite({"caa": 0.5, "mefr": 0.6, "selrank": None, "tom_acc": 0.4}), 4)
    0.5111
    """
    known = {
        k: v
        for k, v in parts.items()
        if v is not None and not math.isnan(v) and weights.get(k, 0) > 0
    }
    total = sum(weights[k] for k in known)
    return sum(weights[k] * v for k, v in known.items()) / total if total else None


# --- a model's score ------------------------------------------------------------------------------


class Score(NamedTuple):
    """Everything measured of one model.

    Attributes:
        measures: by name; each with its n, what it leaves out of its own cells (``failed``: no output; ``unjudged``:
            unusable replies), and a 95 % interval (bootstrap over families; Wilson for ToMAcc and DFAcc).
        counts: strict families asked about, and those not; of the former, headline cells, answered, abstained, and by
            `replies.PROBLEMS` (all four cells with ``all_``).
        selrank_by_ties: SelRank by each way in `TIE_BOUNDS` to order equal confidences.
        abstain: families outside the strict subset: cells, right, abstained, wrong.
        categories: category -> (right, n) over the headline cells of strict families.
        reason_rules: breach of the reason-code rules -> how often; "" counts replies that keep them.
        by_alpha: credit of an abstention -> the composite, for `ALPHAS`.
        mode: see the module.
        parser: of the replies.
    """

    model: str
    measures: dict[str, Measure]
    counts: dict[str, int]
    selrank_by_ties: dict[Ties, float | None]
    abstain: dict[str, int]
    categories: dict[str, tuple[int, int]]
    reason_rules: dict[str, int]
    by_alpha: dict[float, float | None]
    mode: Mode
    parser: Parser


SHARES = ("i_mefr", "t_mefr", "coverage", "answered_accuracy")


def values(cells: Cells, alpha: float, mode: Mode) -> dict[str, Share]:
    """Every measure by name, with its n; the composite last."""
    image, text, mefr = flips(cells)
    (right, confidence), ties = _ranked(cells), TIES[mode]
    answered, scored = cells.answered[HEAD], int(cells.scored[HEAD].sum())
    shares = {
        "caa": (caa(cells, alpha), scored),
        "i_mefr": image,
        "t_mefr": text,
        "mefr": mefr,
        "selrank": (selrank(right, confidence, ties), len(right)),
        "selrank_raw": (selrank(right, confidence, ties, cap=False), len(right)),
        "tom_acc": tom_acc(cells),
        "df_acc": df_acc(cells),
        "df_acc_given_base": df_acc(cells, given_base=True),
        "coverage": _share(answered, (cells.asked if mode == "paper" else cells.kept)[HEAD]),
        "answered_accuracy": _share(cells.right[HEAD], answered),
    }
    return {**shares, "final": (composite({name: shares[name][0] for name in WEIGHTS}), scored)}


def left_out(cells: Cells) -> dict[str, tuple[int, int]]:
    """Measure -> what is not in its n: (failed calls, unusable replies), of its own cells.

    For flip rates: families of which BASE, or the edited cell where BASE is right, is out.
    """
    head = np.zeros_like(cells.asked)
    head[HEAD] = True
    double = np.zeros_like(head)
    double[:, DOUBLE] = True
    base = cells.right[:, [BASE]]

    def of(within: Flags, used: Flags) -> tuple[int, int]:
        within = within & cells.asked & ~used
        return int((within & cells.failed).sum()), int((within & ~cells.failed).sum())

    def flip(*children: int) -> tuple[int, int]:
        needed = np.zeros_like(cells.asked)
        needed[:, children], needed[:, BASE] = base, True
        out = needed & cells.asked & ~cells.kept
        failed = (out & cells.failed).any(axis=1)
        return int(failed.sum()), int((out.any(axis=1) & ~failed).sum())

    scored, answered = of(head, cells.scored), of(head, cells.answered | cells.abstained)
    ranked = of(head, (cells.answered & ~np.isnan(cells.confidence)) | cells.abstained)
    return {
        "final": scored,
        "caa": scored,
        "i_mefr": flip(IMAGE),
        "t_mefr": flip(TEXT),
        "mefr": flip(IMAGE, TEXT),
        "selrank": ranked,
        "selrank_raw": ranked,
        "tom_acc": of(head & cells.second_order[:, None], cells.kept),
        "df_acc": of(double, cells.kept),
        "df_acc_given_base": of(double & base, cells.kept),
        "coverage": of(head, cells.kept),
        "answered_accuracy": answered,
    }


def score(
    model: str,
    families: Sequence[Family],
    replies: Mapping[str, Reply],
    *,
    mode: Mode = "measured",
    parser: Parser = "strict",
    alpha: float = ALPHA,
    resamples: int = 1000,
    seed: int = 0,
) -> Score:
    """Score one model.

    Args:
        model: its name.
        families: of the set.
        replies: cell id -> reply.
        mode: see the module.
        parser: how the replies were read; recorded.
        alpha: credit of an abstention in CAA, in [0, 1].
        resamples: bootstrap resamples of families for the intervals; 0 for none.
        seed: of the resamples.
    """
    every_family = families
    families = sorted(  # neither intervals nor stable ties depend on the order of rows
        (f for f in families if any(f.cell_id(c) in replies for c in CELLS)), key=lambda f: f.id
    )
    cells = cells_of(families, replies, mode)
    shares = values(cells, alpha, mode)
    ends = _intervals(cells, alpha, mode, resamples, seed)
    strict = [f for f in families if f.strict]

    def reply(family: Family, cell: Cell) -> Reply:
        return replies.get(family.cell_id(cell), NOT_ASKED)

    of = np.array([f.category.value for f in strict])
    headline = Counter(reply(f, c).problem for f in strict for c in HEADLINE)
    everywhere = Counter(reply(f, c).problem for f in strict for c in CELLS)
    counts = {
        "families": len(strict),
        "families_not_asked": sum(f.strict for f in every_family) - len(strict),
        "headline": len(strict) * N_HEADLINE,
        "answered": int(cells.answered[HEAD].sum()),
        "abstained": int(cells.abstained[HEAD].sum()),
        "base_right": int(cells.right[:, BASE].sum()),
        **{p.replace(" ", "_"): headline[p] for p in PROBLEMS},
        **{f"all_{p.replace(' ', '_')}": everywhere[p] for p in PROBLEMS},
    }
    lost = left_out(cells)
    if mode == "paper":
        lost["coverage"] = (0, 0)  # it is over all that was asked
    measures = {}
    for name, (value, n) in shares.items():
        low, high, method = _ends(name, value, n, ends)
        failed, unjudged = lost[name]
        measures[name] = Measure(
            name=name,
            value=value,
            n=n,
            unjudged=unjudged,
            failed=failed,
            low=low,
            high=high,
            interval=method,
        )
    right, confidence = _ranked(cells)
    others = [
        (f.gold[i], reply(f, c)) for f in families if not f.strict for i, c in enumerate(CELLS)
    ]
    return Score(
        model=model,
        measures=measures,
        counts=counts,
        selrank_by_ties={way: selrank(right, confidence, way) for way in TIE_BOUNDS},
        abstain={
            "cells": len(others),
            "no_output": sum(r.problem == "no output" for _, r in others),
            "right": sum(r.label is gold for gold, r in others),
            "abstain_gold": sum(gold is Label.ABSTAIN for gold, _ in others),
            "abstain_right": sum(gold is Label.ABSTAIN is r.label for gold, r in others),
            "abstained": sum(r.label is Label.ABSTAIN for _, r in others),
        },
        categories={
            c: (int(cells.right[of == c][HEAD].sum()), int(cells.kept[of == c][HEAD].sum()))
            for c in dict.fromkeys(of)
        },
        reason_rules=dict(
            Counter(
                breaks_rules(r)
                for f in families
                for c in CELLS
                if (r := reply(f, c)).label is not None
            )
        ),
        by_alpha={a: values(cells, a, mode)["final"][0] for a in ALPHAS},
        mode=mode,
        parser=parser,
    )


def _intervals(
    cells: Cells, alpha: float, mode: Mode, resamples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """95 % percentile intervals of every measure over resampled families."""
    families = len(cells.second_order)
    if resamples < 1 or families < 2:
        return {}
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(resamples):
        again = cells.take(rng.integers(0, families, families))
        for name, (value, _n) in values(again, alpha, mode).items():
            drawn[name].append(math.nan if value is None else value)
    return {
        name: ends
        for name, line in drawn.items()
        if (ends := percentile(np.array(line), 0.95)) is not None
    }


def _ends(
    name: str, value: float | None, n: int, ends: Mapping[str, tuple[float, float]]
) -> tuple[float | None, float | None, str]:
    """(low, high, method) of a measure; without an interval where the resamples say nothing."""
    low, high = ends.get(name, (0.0, 0.0))
    spread = low != high
    of_share = name in ("tom_acc", "df_acc", "df_acc_given_base") or (
        name in SHARES and name in ends and not spread
    )
    if value is not None and of_share and (pair := wilson(value * n, n)):
        return (
            *pair,
            "wilson(0.95)",
        )  # also of a share of exactly 0 or 1: its resamples do not differ
    return (
        (low, high, "family-bootstrap(0.95)") if value is not None and spread else (None, None, "")
    )


# --- how far the ranking depends on weights and alpha ---------------------------------------------


class Sensitivity(NamedTuple):
    """The ranking under other weights.

    Attributes:
        settings: weightings tried.
        first: model -> share of them in which its composite is the highest (ties share).
        ranks: model -> (best, worst) rank over all of them, from 1.
        swaps: pairs of models whose order depends on the weights.
    """

    settings: int
    first: dict[str, float]
    ranks: dict[str, tuple[int, int]]
    swaps: tuple[tuple[str, str], ...]


def sensitivity(
    parts: Mapping[str, Mapping[str, float | None]], *, step: float = 0.1
) -> Sensitivity:
    """The ranking under every weighting on a grid of the simplex over the components that any model has.

    Args:
        parts: model -> component (a name of `WEIGHTS`) -> value.
        step: grid width; 0.1 gives 286 weightings of four components.
    """
    names = [n for n in WEIGHTS if any(line.get(n) is not None for line in parts.values())]
    models, units = sorted(parts), round(1 / step)
    if not names:
        return Sensitivity(0, dict.fromkeys(models, 0.0), {}, ())
    grid = [split for split in product(range(units + 1), repeat=len(names)) if sum(split) == units]
    weights = np.array(grid, dtype=np.float64).reshape(-1, len(names)) / units
    components = np.array(
        [[parts[m].get(n) for n in names] for m in models], dtype=np.float64
    ).reshape(len(models), -1)
    known = ~np.isnan(components)
    with np.errstate(invalid="ignore"):  # 0 / 0: no component with a weight is defined
        composites = (weights @ np.where(known, components, 0.0).T / (weights @ known.T)).round(
            12
        )  # [weightings, models]
    composites = composites[~np.isnan(composites).all(axis=1)]
    n = len(composites)
    tied = (
        composites == np.nanmax(composites, axis=1, keepdims=True)
        if n
        else composites == composites
    )
    first = (tied / tied.sum(axis=1, keepdims=True)).sum(axis=0)
    rank = np.where(
        np.isnan(composites),
        np.nan,
        1 + (composites[:, None, :] > composites[:, :, None]).sum(axis=2),
    )
    ranked = {m: rank[~np.isnan(rank[:, i]), i] for i, m in enumerate(models)}
    above = {
        (i, j): bool((composites[:, i] > composites[:, j]).any())
        for i, j in permutations(range(len(models)), 2)
    }
    return Sensitivity(
        n,
        {m: float(first[i]) / n if n else 0.0 for i, m in enumerate(models)},
        {m: (int(of.min()), int(of.max())) for m, of in ranked.items() if len(of)},
        tuple((models[i], models[j]) for i, j in above if i < j and above[i, j] and above[j, i]),
    )
