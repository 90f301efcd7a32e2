"""What published tables of MM-AQA must obey (`demur suite audit`).

A table is known by its columns: shares in per cent ``aac`` ``uac`` ``ar`` with their standard errors ``aac_se`` ...,
``mcc``, ``answerable`` and ``unanswerable`` (numbers of items; by default those that the paper states for ``subset``),
and ``category`` with its ``n``. Some whole numbers of items must give the shares, and standard errors and MCC follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from demur_suites.mm_aqa.measures import possible, rebuilt, se
from demur_suites.published import Printed, PublishedTables, Rule, follows, share_of

SHARES = ("aac", "uac", "ar")
SIZES_COLUMNS = ("answerable", "unanswerable", "total")
TEXTS = tuple("model subset system cond condition clause baseline variant category tau".split())
SIZES = {"images": (300, 253), "documents": (837, 689), "a-mmmu": (300, 253), "a-mmlbd": (837, 689)}
"""Subset -> answerable and unanswerable items that the paper states."""
SE_SLACK = 0.1


def fill(row: Mapping[str, str]) -> dict[str, float]:
    """The sizes that the paper states."""
    sizes = SIZES.get(row.get("subset", "").lower())
    return dict(zip(SIZES_COLUMNS, (*sizes, sum(sizes)), strict=True)) if sizes else {}


def _no_matrix(line: Printed) -> str:
    v = line.value
    aac, uac, ar = (v[c] / 100 for c in SHARES)
    answerable, unanswerable = int(v["answerable"]), int(v["unanswerable"])
    half = max(line.half[c] for c in SHARES) / 100
    if possible(aac, uac, ar, answerable, unanswerable, half=half):
        return ""
    shares = ", ".join(f"{c.upper()} {v[c]:g}" for c in SHARES)
    return f"{shares}: no whole counts of {answerable} and {unanswerable} items give this"


def _mcc(aac: float, uac: float, ar: float, answerable: float, unanswerable: float) -> float | None:
    a, u, r = (min(max(share / 100, 0.0), 1.0) for share in (aac, uac, ar))
    return rebuilt(a, u, r, int(answerable), int(unanswerable)).mcc_ext


def _error(share: float, n: float) -> float | None:
    error = se(min(max(share / 100, 0.0), 1.0), n)
    return None if error is None else 100 * error


RULES = (
    Rule("count", (*SHARES, *SIZES_COLUMNS[:2]), _no_matrix),
    share_of("aac", "answerable")._replace(unless="ar"),
    share_of("uac", "unanswerable")._replace(unless="ar"),
    share_of("uac", "n"),
    *(
        follows(f"{share}_se", (share, n), _error, kind="se", slack=SE_SLACK)
        for share, n in (*zip(SHARES, SIZES_COLUMNS, strict=True), ("uac", "n"))
    ),
    follows("mcc", (*SHARES, *SIZES_COLUMNS[:2]), _mcc, kind="mcc"),
    follows("total", SIZES_COLUMNS[:2], lambda a, u: a + u, kind="count"),
)
PUBLISHED = PublishedTables(
    frozenset(
        {*SHARES, *(f"{s}_se" for s in SHARES), *SIZES_COLUMNS, "n", "mcc", "best_mcc", *TEXTS}
    ),
    RULES,
    TEXTS,
    frozenset({*SIZES_COLUMNS, "n"}),
    fill=fill,
)
