"""Arithmetic checks of a published table of VB (`demur suite audit`): the composite, means, counts behind shares.

A table has a column ``model`` and any of these, as printed: ``final, caa, i_mefr, t_mefr, mefr, selrank,
tomacc, abs`` (the paper's Table 2) and ``answered, coverage`` (per cent), ``ansacc, selrank_raw, d`` (its Table 3);
``n`` headline cells (300) and ``tom_n`` second-order cells (21) may be given. The printed headers (``Cov (%)``,
``MEFR d``) are known too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from demur_suites.published import Finding, PublishedRow, printed_lines
from demur_suites.vb.measures import WEIGHTS, composite

COLUMNS = frozenset(
    {
        "model",
        "final",
        "caa",
        "i_mefr",
        "t_mefr",
        "mefr",
        "selrank",
        "tomacc",
        "abs",
        "answered",
        "coverage",
        "ansacc",
        "selrank_raw",
        "d",
        "n",
        "tom_n",
        "cov",
        "mefr_d",
    }
)
PRINTED = {"cov": "coverage", "mefr_d": "d"}
"""Headers of the paper's tables -> our names."""
HEADLINE_CELLS, SECOND_ORDER_CELLS = 300, 21
HALF = 0.0005
"""Half a unit of the third decimal."""
EPS = 1e-9


def audit(rows: Sequence[PublishedRow]) -> list[Finding]:
    """The findings; what several tables print of one model is checked together."""
    lines, found = printed_lines(rows, fits=_fits)
    models: dict[str, dict[str, float]] = {}
    for line in lines:
        values = models.setdefault(line.who, {})
        for column, value in line.values.items():
            name = PRINTED.get(column, column)
            if values.setdefault(name, value) != value:
                message = f"{name} is {values[name]:g} and, in {line.place}, {value:g}"
                found.append(Finding("disagree", "defect", line.who, message))
    for who, values in models.items():
        found += _row(who, values)
    return found


def _fits(column: str, value: float) -> bool:
    """Whether a column can hold a value: counts are not negative, and n is not 0."""
    least = {"n": 1, "tom_n": 1, "answered": 0, "abs": 0, "d": 0, "mefr_d": 0}.get(
        column, -math.inf
    )
    return math.isfinite(value) and value >= least


def counts(d: float, share: float) -> int:
    """The count behind a share of ``d``: the nearest whole number."""
    return round(share * d)


def _row(who: str, v: Mapping[str, float]) -> list[Finding]:
    found: list[Finding] = []

    def tell(kind: str, message: str, severity: Literal["defect", "note"] = "defect") -> None:
        found.append(Finding(kind, severity, who, message))

    parts = {
        "caa": v.get("caa"),
        "mefr": v.get("mefr"),
        "selrank": v.get("selrank"),
        "tom_acc": v.get("tomacc"),
    }
    if (
        "final" in v
        and parts["caa"] is not None
        and parts["mefr"] is not None
        and parts["selrank"] is not None
    ):
        follows = composite(parts)
        slack = HALF + sum(w * HALF for w in WEIGHTS.values())
        if follows is not None and abs(follows - v["final"]) > slack + EPS:
            tell(
                "total",
                f"final {v['final']:g} is printed, {follows:.4f} follows from its components",
            )
    if {"i_mefr", "t_mefr", "mefr"} <= set(v) and abs(
        (v["i_mefr"] + v["t_mefr"]) / 2 - v["mefr"]
    ) > 2 * HALF + EPS:
        tell(
            "total",
            f"mefr {v['mefr']:g} is printed, the mean of both is {(v['i_mefr'] + v['t_mefr']) / 2:.4f}",
        )
    n = v.get("n", HEADLINE_CELLS)
    if {"answered", "coverage"} <= set(v) and abs(
        100 * v["answered"] / n - v["coverage"]
    ) > 0.05 + EPS:
        tell(
            "n",
            f"coverage {v['coverage']:g} is printed, {v['answered']:g} of {n:g} is {100 * v['answered'] / n:.1f}",
        )
    if {"answered", "abs"} <= set(v) and (left := n - v["answered"] - v["abs"]):
        what = (
            "more than there are"
            if left < 0
            else "neither answered nor abstained: unusable replies"
        )
        tell("n", f"{abs(left):g} of {n:g} cells are {what}", "defect" if left < 0 else "note")
    for share, over, of in (
        ("ansacc", "answered", v.get("answered")),
        ("i_mefr", "d", v.get("d")),
        ("t_mefr", "d", v.get("d")),
        ("tomacc", "tom_n", v.get("tom_n", SECOND_ORDER_CELLS)),
    ):
        if share in v and of:
            count = counts(of, v[share])
            if abs(count / of - v[share]) > HALF + EPS:
                tell(
                    "count",
                    f"{share} {v[share]:g} is not a share of {over} {of:g}: {count} of {of:g} is {count / of:.4f}",
                )
    if "selrank" in v and v["selrank"] > 1:
        tell("total", f"selrank {v['selrank']:g} is above 1")
    if {"selrank", "selrank_raw"} <= set(v) and abs(
        min(1.0, v["selrank_raw"]) - v["selrank"]
    ) > 2 * HALF:
        tell("disagree", f"selrank {v['selrank']:g}, but {v['selrank_raw']:g} before capping at 1")
    return found
