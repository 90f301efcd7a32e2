"""Is a published table of the four scenarios possible? Arithmetic that its own figures must obey.

A table is CSV with one line per model, condition, part and scenario; see `LAYOUT`. Found are

    sum         accuracy, deflection and hallucination that do not make 100 %
    total       a Total that is not the mean of its parts weighted by n, an Average that is not their plain mean
    n           a Total whose n is not the sum of its parts'
    disagree    one model under one condition with different figures in different tables
    count       a percentage that no whole number of n items gives
    kappa       a kappa that no table of labels with the stated agreement can have: too high, or too low

A *defect* cannot be explained by rounding. A *note* can: a last figure that is 100 minus the two others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor
from pathlib import Path
from typing import Any, Literal, NamedTuple

from demur.core.errors import DataError
from demur.core.store import Problems
from demur.judge.measures.totals import macro
from demur_suites.published import Finding, csv_lower

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
_TEXTS = ("table", "model", "condition", "part", "scenario")
_NUMBERS = ("n", *RATES, "agreement", "kappa", "labels")
TOTAL, AVERAGE = "total", "average"


class Line(NamedTuple):
    """One line of a published table."""

    place: str
    """File and line, for messages."""
    table: str
    model: str
    condition: str
    part: str
    scenario: str
    n: int | None
    accuracy: float | None
    deflection: float | None
    hallucination: float | None
    agreement: float | None
    kappa: float | None
    labels: int | None
    digits: int
    """Decimals of the most exact percentage printed."""

    @property
    def name(self) -> str:
        """What the line is about, for people."""
        words = (f"table {self.table}", self.model, self.condition, self.part, self.scenario)
        return ", ".join(w for w in words if w)

    @property
    def is_total(self) -> bool:
        """Whether it sums up other lines."""
        return self.part.lower() in (TOTAL, AVERAGE)

    def rates(self) -> dict[str, float]:
        """The rates that are given."""
        return {name: v for name in RATES if (v := getattr(self, name)) is not None}


ROWS = 0.2 + 1e-9
"""Percentage points that rounding may explain: three rates against 100."""
TOTALS = 0.15 + 1e-9
"""A total against its parts: both are rounded, and the parts' n may hide items without a verdict."""
SAME = 0.1 + 1e-9
"""The same figure in two tables."""
SHARE = 0.1 + 1e-9
"""A rate against the nearest share of n items that exists."""
KAPPA = 0.005 + 1e-9
"""Kappa (not in points) as printed with two decimals."""


def read_lines(path: Path, problems: Problems) -> list[Line]:
    """The lines of one CSV file; what cannot be read goes to ``problems`` with file and line.

    Raises:
        DataError: two columns have one name.
        StorageError: the file cannot be read.
    """
    before = len(problems)
    rows = csv_lower(path, problems)
    names = set(rows[0][1]) if rows else {"model"}
    unknown = sorted(names - {*_TEXTS, *_NUMBERS})
    if unknown or "model" not in names:
        what = f"unknown column {unknown[0]!r}" if unknown else "no column named 'model'"
        known = ", ".join((*_TEXTS, *_NUMBERS))
        problems.add(
            path.name,
            f"{what}; known: {known} (demur suite audit --help; tables that demur writes have others)",
        )
        return []
    lines = [line for place, row in rows if (line := _line(place, path.stem, row, problems))]
    if not lines and len(problems) == before:
        problems.add(path.name, "no lines below the header")
    return lines


def _line(place: str, stem: str, row: Mapping[str, str], problems: Problems) -> Line | None:
    texts = {name: (row.get(name) or "").strip() for name in _TEXTS}
    values: dict[str, Any] = {}
    digits = 0
    for name in _NUMBERS:
        cell = (
            (row.get(name) or "")
            .strip()
            .rstrip("% ")
            .replace(",", "" if name in ("n", "labels") else ".")
        )
        try:
            values[name] = float(cell) if cell else None
        except ValueError:
            problems.add(place, f"{name} is {cell!r}, expected a number")
            return None
        value, top = values[name], {"n": 1e12, "labels": 1e6, "kappa": 1.0}.get(name, 100.0)
        lowest = {"kappa": -1.0, "labels": 2.0}.get(name, 0.0)
        if value is not None and not lowest <= value <= top:
            problems.add(place, f"{name} is {cell}, expected {lowest:g} to {top:g}")
            return None
        if name in (*RATES, "agreement"):
            digits = max(digits, len(cell.partition(".")[2]))
    if not texts["model"]:
        problems.add(place, "model is empty")
        return None
    values |= texts | {
        name: int(values[name]) for name in ("n", "labels") if values[name] is not None
    }
    return Line(place=place, digits=digits, **values | {"table": texts["table"] or stem})


def audit(lines: Iterable[Line]) -> list[Finding]:
    """Every impossibility among the lines, in the order that `Finding.kind` lists."""
    all_lines = list(lines)
    sum_findings = [f for line in all_lines if (f := _row_sum_finding(line))]
    lines_with_wrong_sum = {f.where for f in sum_findings}
    return [
        *sum_findings,
        *_total_findings(all_lines),
        *_disagreement_findings(all_lines),
        # a row that does not sum is told once: its wrong figure need not be a possible count as well
        *(
            f
            for line in all_lines
            if line.name not in lines_with_wrong_sum
            for f in _count_findings(line)
        ),
        *(f for line in all_lines if (f := _kappa_finding(line))),
    ]


def _row_sum_finding(line: Line) -> Finding | None:
    rates = line.rates()
    total = sum(rates.values())
    if len(rates) < 3 or abs(total - 100) <= ROWS:
        return None
    sum_text = " + ".join(f"{v:g}" for v in rates.values())
    return Finding("sum", "defect", line.name, f"{sum_text} = {total:.1f}, not 100")


def _total_findings(lines: Sequence[Line]) -> list[Finding]:
    groups: defaultdict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in lines:
        # an average of agreements runs over models, a total of rates over the parts of one model
        over_models = line.agreement is not None
        key = (line.table, "" if over_models else line.model, line.condition, line.scenario)
        groups[key].append(line)
    findings = []
    for group in groups.values():
        parts = [line for line in group if not line.is_total]
        for line in (line for line in group if line.is_total and parts):
            findings += _findings_of_total(line, parts)
    return findings


def _findings_of_total(line: Line, parts: Sequence[Line]) -> list[Finding]:
    is_mean = line.part.lower() == AVERAGE
    findings = []
    sizes = [p.n for p in parts]
    if (
        not is_mean
        and line.n is not None
        and None not in sizes
        and sum(s or 0 for s in sizes) != line.n
    ):
        findings.append(
            Finding(
                "n",
                "defect",
                line.name,
                f"n is {line.n}, its parts have {sum(s or 0 for s in sizes)}",
            )
        )
    wrong_figures = []
    for name in (*RATES, "agreement", "kappa"):
        printed = getattr(line, name)
        values = [(getattr(p, name), float(p.n or 0)) for p in parts]
        computed = macro(v for v, _ in values) if is_mean else weighted(values)
        slack = KAPPA if name == "kappa" else TOTALS
        if printed is not None and computed is not None and abs(printed - computed) > slack:
            wrong_figures.append(
                f"{name} {printed:g} is printed, {computed:.{2 if name == 'kappa' else 1}f} follows"
            )
    if wrong_figures:
        kind = "plain mean" if is_mean else "mean weighted by n"
        findings.append(
            Finding(
                "total",
                "defect",
                line.name,
                f"not the {kind} of its {len(parts)} parts: " + "; ".join(wrong_figures),
            )
        )
    return findings


def _disagreement_findings(lines: Sequence[Line]) -> list[Finding]:
    """One finding per model and condition: which tables say one thing, which another."""
    cells: defaultdict[tuple[str, str, str], dict[str, list[Line]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for line in lines:
        if line.rates():
            cells[line.model, line.condition, line.part][line.scenario].append(line)
    findings = []
    for (model, condition, part), scenarios in cells.items():
        worst, pairs_of_tables, differing_scenarios = 0.0, set(), []
        for scenario, lines_of_scenario in scenarios.items():
            gaps = [
                (abs(value - later.rates()[name]), {earlier.table, later.table})
                for i, earlier in enumerate(lines_of_scenario)
                for later in lines_of_scenario[i + 1 :]
                for name, value in earlier.rates().items()
                if name in later.rates()
            ]
            differing = [(gap, tables) for gap, tables in gaps if gap > SAME]
            if differing:
                differing_scenarios.append(scenario)
                worst = max(worst, *(gap for gap, _ in differing))
                pairs_of_tables |= {frozenset(tables) for _, tables in differing}
        if differing_scenarios:
            findings.append(
                _disagreement(
                    ", ".join(w for w in (model, condition, part) if w),
                    pairs_of_tables,
                    differing_scenarios,
                    worst,
                )
            )
    return findings


def _disagreement(
    name: str, pairs_of_tables: set[frozenset[str]], scenarios: list[str], worst: float
) -> Finding:
    tables = sorted({t for pair in pairs_of_tables for t in pair})
    # the table that stands in every disagreement is the odd one out, when there are others to agree
    odd_tables = (
        [t for t in tables if all(t in pair for pair in pairs_of_tables)] if len(tables) > 2 else []
    )
    who_differs = (
        f"table {odd_tables[0]} against {', '.join(t for t in tables if t != odd_tables[0])}"
        if odd_tables
        else f"tables {' and '.join(tables)}"
    )
    scenario_names = ", ".join(s or "all" for s in scenarios)
    return Finding(
        "disagree",
        "defect",
        name,
        f"{who_differs} differ in {scenario_names}, by up to {worst:.1f} points",
    )


def _count_findings(line: Line) -> list[Finding]:
    findings = []
    rates = line.rates()
    if line.agreement is not None and not line.is_total:
        rates["agreement"] = line.agreement
    for name, value in rates.items():
        if not line.n or line.n > 10 ** (line.digits + 2):
            continue  # every percentage of that many decimals is possible
        count = round(value * line.n / 100)
        gap = abs(100 * count / line.n - value)
        half_digit = 0.5 * 10.0**-line.digits
        if gap <= half_digit + 1e-9:
            continue
        # three rounded shares need not make 100, and some tables force them to
        severity: Literal["defect", "note"] = "note" if name in RATES and gap <= SHARE else "defect"
        nearest_share = f"{count} of {line.n} is {100 * count / line.n:.{line.digits + 1}f}"
        findings.append(
            Finding(
                "count",
                severity,
                line.name,
                f"{name} {value:g} is no share of {line.n}: {nearest_share}",
            )
        )
    return findings


def _kappa_finding(line: Line) -> Finding | None:
    if line.kappa is None or line.agreement is None or line.is_total:
        return None
    agreement, slack = line.agreement / 100, 0.5 * 10.0**-line.digits / 100
    # an agreement that is no share of n has a finding of its own
    least, most = (
        unrounded(agreement, slack, line.n) or unrounded(agreement, slack) or (agreement, agreement)
    )
    why = ""
    if line.labels and line.kappa - KAPPA > (bound := highest_kappa(most, line.labels)):
        why = f"{line.labels} labels allow {bound:.3f} at most"
    elif line.kappa + KAPPA < (bound := lowest_kappa(least)):
        why = f"no table has less than {bound:.3f}"
    figures_text = f"kappa {line.kappa:g} with agreement {line.agreement:g} %"
    return Finding("kappa", "defect", line.name, f"{figures_text}: {why}") if why else None


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
