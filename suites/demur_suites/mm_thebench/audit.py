"""Arithmetic checks of published tables of MM-THEBench (`demur suite audit`).

Table 9 has columns ``model, chi2, or, err_p, err_r``: the odds ratio must follow from the two error rates, and counts
must exist that give the rates and, with Yates's correction, the statistic. Table 7 has a column a source (``math,
mm-vet, mmmu, hallusion, spatial, charxiv, gui, video``): an accuracy must be a number of half points of its questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from demur_suites.mm_thebench.statistics import TwoByTwo, chi_square, odds_of_rates
from demur_suites.published import Finding, PublishedRow, printed_lines

QUESTIONS = {
    "math": 288,
    "mm-vet": 150,
    "mmmu": 184,
    "hallusion": 200,
    "spatial": 199,
    "charxiv": 100,
    "gui": 99,
    "video": 119,
}
"""Questions a source; 184 where Table 5 prints 185: every value of Table 7 is a multiple of half a point of 184."""
COLUMNS = frozenset({"model", "chi2", "or", "err_p", "err_r", *QUESTIONS})


def audit(rows: Sequence[PublishedRow]) -> list[Finding]:
    """The findings, row by row."""
    lines, found = printed_lines(rows)
    for line in lines:
        found += _association(line.who, line.values) + _halves(line.who, line.values)
    return found


def _association(who: str, v: Mapping[str, float]) -> list[Finding]:
    if not {"err_p", "err_r"} <= set(v) or not all(0 < v[k] < 100 for k in ("err_p", "err_r")):
        return []
    found = []
    if "or" in v:
        low, high = (
            odds_of_rates((v["err_p"] + x) / 100, (v["err_r"] - x) / 100) for x in (0.05, -0.05)
        )
        if not low - 0.05 <= v["or"] <= high + 0.05:
            follows = f"of rates {v['err_p']:g} and {v['err_r']:g} it is {(low + high) / 2:.2f}"
            found.append(
                Finding("odds", "defect", who, f"the odds ratio is {v['or']:g}; {follows}")
            )
    if "chi2" in v and not counts_behind(v["err_p"], v["err_r"], v["chi2"], first=True):
        message = f"no counts up to 200 give rates {v['err_p']:g} and {v['err_r']:g} and chi2 {v['chi2']:g} (with Yates)"
        found.append(Finding("chi2", "defect", who, message))
    return found


def counts_behind(
    err_p: float,
    err_r: float,
    chi: float,
    *,
    yates: bool = True,
    most: int = 200,
    first: bool = False,
) -> list[TwoByTwo]:
    """Tables ((wrong, right) of reasoning, (wrong, right) of perception) that round to a printed row.

    Args:
        err_p: per cent, one decimal.
        err_r: likewise.
        chi: one decimal.
        yates: whether the statistic is corrected.
        most: questions of each kind at the most.
        first: stop at the first.
    """
    found: list[TwoByTwo] = []
    sides = [
        [
            (wrong, n - wrong)
            for n in range(1, most + 1)
            if abs(100 * (wrong := round(rate * n / 100)) / n - rate) <= 0.05 + 1e-9
        ]
        for rate in (err_r, err_p)
    ]
    for table in product(sides[0], sides[1]):
        tested = chi_square(table, yates=yates)
        if tested is not None and abs(tested[0] - chi) <= 0.05 + 1e-9:
            found.append(table)
            if first:
                break
    return found


def _halves(who: str, v: Mapping[str, float]) -> list[Finding]:
    found = []
    for source, n in QUESTIONS.items():
        if source in v:
            half = round(2 * n * v[source] / 100)
            if abs(50 * half / n - v[source]) > 0.0051:
                nearest = f"the nearest possible is {50 * half / n:.2f}"
                message = f"{source} {v[source]:g} is no whole number of half points over {n} questions; {nearest}"
                found.append(Finding("share", "defect", who, message))
    return found
