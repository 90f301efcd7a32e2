"""What a published table of VB must obey (`demur suite audit`): the composite, means, counts behind shares.

A table has a column ``model`` and any of these, as printed: ``final, caa, i_mefr, t_mefr, mefr, selrank,
tomacc, abs`` (the paper's Table 2) and ``answered, cov`` (per cent), ``ansacc, selrank_raw, mefr_d`` (its Table 3);
``n`` headline cells (300) and ``tom_n`` second-order cells (21) may be given. The printed headers (``Cov (%)``,
``MEFR d``) are known too.
"""

from __future__ import annotations

from collections.abc import Mapping

from demur_suites.published import Printed, PublishedTables, Rule, follows, share_of
from demur_suites.vb.measures import composite

COLUMNS = frozenset(
    "model final caa i_mefr t_mefr mefr selrank tomacc abs answered coverage ansacc selrank_raw d n tom_n cov "
    "mefr_d".split()
)
HEADLINE_CELLS, SECOND_ORDER_CELLS = 300, 21


def fill(row: Mapping[str, str]) -> dict[str, float]:
    """The sizes that the paper states."""
    return {"n": HEADLINE_CELLS, "tom_n": SECOND_ORDER_CELLS}


def _final(caa: float, mefr: float, selrank: float, tom_acc: float | None = None) -> float | None:
    return composite({"caa": caa, "mefr": mefr, "selrank": selrank, "tom_acc": tom_acc})


def _rest(line: Printed) -> float:
    """Cells that are neither answered nor abstained."""
    return line.value["n"] - line.value["answered"] - line.value["abs"]


def _missing(line: Printed) -> str:
    rest = _rest(line)
    return f"{rest:g} of {line.value['n']:g} cells are unusable replies" if rest > 0 else ""


def _too_many(line: Printed) -> str:
    rest = _rest(line)
    return f"{-rest:g} cells more than the {line.value['n']:g} that there are" if rest < 0 else ""


RULES = (
    follows("final", ("caa", "mefr", "selrank", "tomacc"), _final),
    follows("final", ("caa", "mefr", "selrank"), _final, unless="tomacc"),
    follows("mefr", ("i_mefr", "t_mefr"), lambda i, t: (i + t) / 2),
    follows("selrank", ("selrank_raw",), lambda raw: min(1.0, raw), kind="disagree"),
    *(
        follows(coverage, ("answered", "n"), lambda a, n: 100 * a / n if n else None, kind="n")
        for coverage in ("coverage", "cov")
    ),
    Rule("n", ("answered", "abs", "n"), _missing, severity="note"),
    Rule("n", ("answered", "abs", "n"), _too_many),
    share_of("ansacc", "answered", percent=False),
    *(share_of(m, d, percent=False) for m in ("i_mefr", "t_mefr") for d in ("d", "mefr_d")),
    share_of("tomacc", "tom_n", percent=False),
)
COUNTS = frozenset({"answered", "abs", "d", "mefr_d", "n", "tom_n"})
PUBLISHED = PublishedTables(COLUMNS, RULES, counts=COUNTS, fill=fill)
