"""Partial credit of answers, where a judge rates them (``--judge lave:MODEL``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from demur.judge.measures.rates import share
from demur.reports.cells import SCENARIOS, Headline, asked_as
from demur.reports.data import ReportData
from demur.reports.tables import Table, numbers, texts, without_zeros


def credit_table(data: ReportData, head: Headline) -> Table | None:
    """Mean credit and share of partly right answers by system and scenario; None without ratings."""
    lines: list[tuple[Any, ...]] = []
    for run in data.runs:
        if not run.credit:
            continue
        rows = head.where(run.rows)
        asks = rows.coded("ask")
        ratings = np.array([run.credit.get(ask, np.nan) for ask in asks.labels] or [np.nan])[
            asks.codes
        ]
        credit = np.nan_to_num(ratings)
        for scenario in SCENARIOS:
            recipe = head.recipes.get(scenario)
            in_scenario = asked_as(rows, {(scenario.value, recipe or "", head.condition)})
            if not in_scenario.any():
                continue
            rated = in_scenario & ~(
                rows.graded & np.isnan(ratings)
            )  # graded without a rating: by another judge
            mean = share("credit", credit, rated, rows)
            partly_right = share("partly right", (credit > 0) & (credit < 1), rated, rows)
            lines.append(
                (scenario.value, run.name, mean, partly_right, mean.n, mean.unjudged, mean.failed)
            )
    if not lines:
        return None
    order = [scenario.value for scenario in SCENARIOS]
    lines.sort(key=lambda line: order.index(line[0]))
    table = Table(
        "credit",
        "Partial credit: 1 for a right answer, 0.5 for a partly right one, else 0",
        (
            *texts("Scenario", "System"),
            *numbers("Mean credit", interval=True, decimals=3, percent=False),
            *numbers("Partly right", interval=True),
            *numbers("n", "Unjudged", "Failed"),
        ),
        tuple(lines),
        notes=(
            "Means and shares of the rated answers (n). Elsewhere partly right counts as incorrect.",
        ),
    )
    return without_zeros(table, "Unjudged", "Failed")
