"""Partial credit of answers, where a judge rates them (``--judge lave:MODEL``): its mean and how it is made up."""

from __future__ import annotations

from typing import Any

import numpy as np

from demur.judge.measures.rates import share
from demur.reports.cells import SCENARIOS, Headline, among
from demur.reports.data import ReportData
from demur.reports.tables import Column, Table, titled


def credit_table(data: ReportData, head: Headline) -> Table | None:
    """Mean credit and the share of answers that are partly right, by system and scenario; None where nobody rated."""
    lines: list[tuple[Any, ...]] = []
    for run in data.runs:
        if not run.credit:
            continue
        rows = head.where(run.rows)
        asks = rows.coded("ask")
        known = np.array([run.credit.get(ask, np.nan) for ask in asks.labels] or [np.nan])[asks.codes]
        credit = np.nan_to_num(known)
        for scenario in SCENARIOS:
            recipe = head.recipes.get(scenario)
            place = among(rows, {(scenario.value, recipe or "", head.condition)})
            if not place.any():
                continue
            rated = place & ~(rows.graded & np.isnan(known))  # graded without a rating: by another judge
            mean = share("credit", credit, rated, rows)
            partly = share("partly right", (credit > 0) & (credit < 1), rated, rows)
            lines.append((scenario.value, run.name, mean, partly, mean.n, mean.ungraded, mean.failed))
    if not lines:
        return None
    order = [scenario.value for scenario in SCENARIOS]
    lines.sort(key=lambda line: order.index(line[0]))
    return Table(
        "credit", "Partial credit: 1 for a right answer, 0.5 for one that is partly right, else 0",
        titled(
            "<Scenario", "<System", Column("Mean credit", interval=True, percent=False, decimals=3),
            Column("Partly right", interval=True), "n", "not rated", "failed",
        ),
        tuple(lines),
        notes=("Means and shares of the rated answers; n counts them. Partly right counts as incorrect elsewhere.",),
    )  # fmt: skip
