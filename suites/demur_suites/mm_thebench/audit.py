"""What published tables of MM-THEBench must obey (`demur suite audit`).

Table 9 has columns ``model, chi2, or, err_p, err_r``: the odds ratio must follow from the two error rates. Table 7 has
a column a source: an accuracy must be a number of half points of its questions.
"""

from __future__ import annotations

from demur_suites.mm_thebench.statistics import odds_of_rates
from demur_suites.published import PublishedTables, follows, share_of

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


def _odds(err_p: float, err_r: float) -> float | None:
    within = 0 < err_p < 100 and 0 < err_r < 100
    return odds_of_rates(err_p / 100, err_r / 100) if within else None


RULES = (
    follows("or", ("err_p", "err_r"), _odds, kind="odds"),
    *(share_of(source, n, unit=0.5) for source, n in QUESTIONS.items()),
)
COLUMNS = frozenset({"model", "chi2", "or", "err_p", "err_r", *QUESTIONS})
PUBLISHED = PublishedTables(COLUMNS, RULES)
