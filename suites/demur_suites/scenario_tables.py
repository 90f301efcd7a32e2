"""Published tables of the four scenarios: sums, totals, agreement between tables, shares of n, and kappas.

A table is CSV with one line per model, condition, part and scenario; see `LAYOUT`. A *defect* cannot be explained by
rounding. A *note* can: a last figure that is 100 minus the two others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor

from demur.core.errors import DataError
from demur.judge.measures.totals import macro
from demur_suites.published import EPS, Finding, Printed, PublishedTables, Rule, share_of

LAYOUT = """\
columns (any order; those a line does not need stay empty or are left out):
  table         where it was printed; default: the file's name
  model         whose figures they are
  condition     what they were measured under (prompt strictness ...); tables are compared within one condition
  part          the subset (a source); 'Total' is checked against the n-weighted parts, 'Average' against their mean
  n             items behind the line
  scenario      parametric, oracle, realistic, adversarial, or any other name
  accuracy, deflection, hallucination   percentages; when all three are given they must make 100
  agreement, kappa, labels              raw agreement in percent, Cohen's kappa, number of labels

example:
  table,model,condition,part,n,scenario,accuracy,deflection,hallucination
  8,Some-VLM,moderate,WebQA,826,oracle,79.5,4.4,16.1
  8,Some-VLM,moderate,ViQuAE,15,oracle,46.7,40.0,13.3
  8,Some-VLM,moderate,Total,841,oracle,78.9,5.0,16.1
"""
RATES = ("accuracy", "deflection", "hallucination")
TEXTS = ("table", "model", "condition", "part", "scenario")
TOTAL, AVERAGE = "total", "average"
SUMMARY = "summary"
"""Column that is filled in for a line that sums up others."""
ROWS, TOTALS, SAME, SHARE = 0.2, 0.15, 0.1, 0.1
"""Percentage points that rounding may explain: of three rates against 100; of a total against its parts, whose n may
hide items without a verdict; of one figure in two tables; of a rate against the nearest share of n that exists."""
KAPPA = 0.005
"""Kappa (not in points) as printed with two decimals."""


def _sum_fault(line: Printed) -> str:
    rates = [line.value[name] for name in RATES]
    if abs(sum(rates) - 100) <= ROWS + EPS:
        return ""
    return f"{' + '.join(f'{v:g}' for v in rates)} = {sum(rates):.1f}, not 100"


def _count(rate: str, off: tuple[float, float]) -> Rule:
    """A rate is a share of n; of a line that does not sum one figure is wrong already, and that is told once."""
    rule = share_of(rate, "n", off=off)

    def fault(line: Printed) -> str:
        whole = set(RATES) <= set(line.value)
        return "" if whole and _sum_fault(line) else rule.fault(line)

    return rule._replace(fault=fault)


def _kappa_fault(line: Printed) -> str:
    kappa, agreement = line.value["kappa"], line.value["agreement"] / 100
    slack, n = line.half["agreement"] / 100, int(line.value.get("n", 0))
    # an agreement that is no share of n has a finding of its own
    ends = unrounded(agreement, slack, n) or unrounded(agreement, slack) or (agreement, agreement)
    labels = int(line.value.get("labels", 0))
    if labels and kappa - KAPPA - EPS > (bound := highest_kappa(ends[1], labels)):
        why = f"{labels} labels allow {bound:.3f} at most"
    elif kappa + KAPPA + EPS < (bound := lowest_kappa(ends[0])):
        why = f"no table has less than {bound:.3f}"
    else:
        return ""
    return f"kappa {kappa:g} with agreement {line.value['agreement']:g} %: {why}"


def _across(lines: Sequence[Printed]) -> Iterator[Finding]:
    """Totals against their parts, and one figure in several tables."""
    groups: defaultdict[tuple[str, ...], list[Printed]] = defaultdict(list)
    cells: defaultdict[tuple[str, ...], list[Printed]] = defaultdict(list)
    for line in lines:
        # an average of agreements runs over models, a total of rates over the parts of one model
        over = (
            "table",
            "condition",
            "scenario",
            *(() if "agreement" in line.value else ("model",)),
        )
        groups[tuple(line.texts.get(c, "") for c in over)].append(line)
        cells[tuple(line.texts.get(c, "") for c in ("model", "condition", "part"))].append(line)
    for group in groups.values():
        parts = [line for line in group if SUMMARY not in line.value]
        for line in group:
            if SUMMARY in line.value and parts:
                yield from _total(line, parts)
    for where, several in cells.items():
        yield from _disagreement(", ".join(filter(None, where)), several)


def _total(line: Printed, parts: Sequence[Printed]) -> Iterator[Finding]:
    mean = line.texts.get("part", "").lower() == AVERAGE
    sizes = [p.value.get("n") for p in parts]
    size = sum(s for s in sizes if s is not None)
    if not mean and None not in sizes and line.value.get("n", size) != size:
        message = f"n is {line.value['n']:g}, its parts have {size:g}"
        yield Finding("n", "defect", line.who, message)
    wrong = []
    for name in (*RATES, "agreement", "kappa"):
        values = [(p.value.get(name), p.value.get("n", 0.0)) for p in parts]
        computed = macro(v for v, _ in values) if mean else weighted(values)
        slack = KAPPA if name == "kappa" else TOTALS
        printed = line.value.get(name)
        if printed is not None and computed is not None and abs(printed - computed) > slack + EPS:
            wrong.append(f"{name} {printed:g} is printed, {computed:.3g} follows")
    if wrong:
        kind = "plain mean" if mean else "mean weighted by n"
        message = f"not the {kind} of its {len(parts)} parts: {'; '.join(wrong)}"
        yield Finding("total", "defect", line.who, message)


def _disagreement(where: str, several: Sequence[Printed]) -> Iterator[Finding]:
    """One finding per model and condition: which tables say one thing, which another."""
    gaps: list[tuple[float, set[str]]] = []
    for place, first in enumerate(several):
        for second in several[place + 1 :]:
            if first.texts.get("scenario") == second.texts.get("scenario"):
                tables = {first.texts["table"], second.texts["table"]}
                shared = [n for n in RATES if n in first.value and n in second.value]
                gaps += [(abs(first.value[n] - second.value[n]), tables) for n in shared]
    off = [(gap, tables) for gap, tables in gaps if gap > SAME + EPS]
    if off:
        every = set.union(*(tables for _, tables in off))
        # the table that stands in every disagreement is the odd one out, when there are others to agree
        odd = set.intersection(*(tables for _, tables in off)) if len(every) > 2 else set()
        names = " and ".join(sorted(every - odd))
        who = f"{', '.join(odd)} against {names}" if odd else names
        worst = max(gap for gap, _ in off)
        message = f"{who} differ by up to {worst:.1f} points"
        yield Finding("disagree", "defect", where, message)


def _fill(row: Mapping[str, str]) -> dict[str, float]:
    return {SUMMARY: 1.0} if row.get("part", "").strip().lower() in (TOTAL, AVERAGE) else {}


SCENARIOS = PublishedTables(
    columns=frozenset({*TEXTS, *RATES, "n", "agreement", "kappa", "labels"}),
    rules=(
        Rule("sum", RATES, _sum_fault),
        # three rounded shares need not make 100, and some tables force them to
        *(_count(rate, (SHARE, 100.0)) for rate in RATES),
        *(_count(rate, (0.0, SHARE))._replace(severity="note") for rate in RATES),
        share_of("agreement", "n")._replace(unless=SUMMARY),
        Rule("kappa", ("kappa", "agreement"), _kappa_fault, SUMMARY),
    ),
    texts=TEXTS,
    counts=frozenset({"n", "labels"}),
    bounds={
        **dict.fromkeys((*RATES, "agreement"), (0.0, 100.0)),
        "kappa": (-1.0, 1.0),
        "labels": (2.0, 1e6),
    },
    fill=_fill,
    across=_across,
)


# --- bounds -----------------------------------------------------------------------------------------


def highest_kappa(agreement: float, labels: int) -> float:
    """The largest kappa that any table of ``labels`` x ``labels`` with this raw agreement can have.

    With e = 1 - agreement, chance agreement is least when the agreeing items spread evenly and all disagreements stand
    in one cell: 1/k - e²/2 (minimise the product of the marginals with their diagonal given). Beyond e = 2/k the two
    labels of that cell have no agreeing items left, and the other k - 2 share them: (1 - e)²/(k - 2). A printed kappa
    above this bound is an error of arithmetic.

    >>> [round(highest_kappa(a, 3), 3) for a in (0.911, 0.924, 0.94, 0.93)]
    [0.867, 0.886, 0.91, 0.895]
    """
    if not 0 <= agreement <= 1 or labels < 2:
        raise DataError(
            f"agreement {agreement} of {labels} labels",
            cure="agreement lies in [0, 1], labels are two or more",
        )
    error = 1 - agreement
    chance = agreement**2 / (labels - 2) if error > 2 / labels else 1 / labels - error * error / 2
    return (agreement - chance) / (1 - chance)


def lowest_kappa(agreement: float) -> float:
    """The smallest kappa that any table with this raw agreement can have; its number of labels does not matter.

    With e = 1 - agreement, chance agreement is most when one label has all agreeing items and the disagreements stand
    half and half in the two cells between it and one other: 1 - e + e²/2. Kappa is then -e/(2 - e). Without
    disagreements it is 1, the only other value that it takes.

    >>> [round(lowest_kappa(a), 3) for a in (0, 0.5, 0.95, 1)]
    [-1.0, -0.333, -0.026, 1.0]
    """
    return 1.0 if agreement >= 1 else -(1 - agreement) / (1 + agreement)


def unrounded(agreement: float, slack: float, n: int | None = None) -> tuple[float, float] | None:
    """The least and the most raw agreement that a printed one stands for.

    Args:
        agreement: as printed.
        slack: half of its last figure.
        n: items, which allow whole shares only.

    Returns:
        Both; None where no share of ``n`` items is printed so.

    >>> unrounded(1.0, 0.005), unrounded(1.0, 0.005, 100), unrounded(0.911, 0.0005, 100)
    ((0.995, 1.0), (1.0, 1.0), None)
    """
    if (
        agreement in (0, 1) and slack >= 0.05
    ):  # nobody rounds to so few figures: "1" and "1.0" are meant exactly
        slack = 0.0
    lowest, highest = max(0.0, agreement - slack), min(1.0, agreement + slack)
    if not n:
        return lowest, highest
    fewest, largest = ceil((lowest - 1e-9) * n), floor((highest + 1e-9) * n)
    return (max(0, fewest) / n, min(n, largest) / n) if fewest <= largest else None


def weighted(parts: Sequence[tuple[float | None, float]]) -> float | None:
    """Mean of (value, weight) pairs, weighted; parts without a value are left out. None when no weight remains.

    >>> round(weighted([(62.8, 1646), (80.0, 826)]), 2)
    68.55
    """
    weighted_values = [(v, w) for v, w in parts if v is not None and w > 0]
    total = sum(w for _, w in weighted_values)
    return sum(v * w for v, w in weighted_values) / total if total else None
