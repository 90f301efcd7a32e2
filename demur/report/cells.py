"""Rows gathered into cells: which asks belong to one number, and that number by `demur.judge.measures`.

A run may hold a sweep, several strictness levels and a modality grid beside the four scenarios. The headline
numbers are those of one recipe per scenario under one condition, chosen by the same rule for every system
and named in every caption; nothing is averaged over recipes or conditions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from demur.errors import UsageError
from demur.judge.measures.rates import rates
from demur.records import Measure, Row, Scenario
from demur.report.data import ReportData, Run
from demur.report.tables import Count, counted
from demur.scenarios.conditions import STRICTNESS
from demur.scenarios.contexts import Recipe, recipe

K = TypeVar("K", bound=Hashable)

SCENARIOS = tuple(Scenario)
DEFAULT_CONDITION = "moderate"


class Cell(NamedTuple):
    """Accuracy, deflection and hallucination over the same graded asks; they sum to 1."""

    accuracy: Measure
    deflection: Measure
    hallucination: Measure

    @property
    def n(self) -> int:
        """Graded items."""
        return self.accuracy.n

    @property
    def counted(self) -> int | Count:
        """Graded items, with their draws where they were asked several times: what a table shows as n."""
        return counted(self.n, self.accuracy.draws)


class Headline(NamedTuple):
    """What the headline numbers are taken from."""

    condition: str
    recipes: Mapping[Scenario, str]
    """Canonical recipe text per scenario that any run asks."""
    draws: int = 1
    """Independent answers to each question, at most."""

    def holds(self, row: Row) -> bool:
        """Whether a row is part of the headline numbers."""
        return row.condition == self.condition and self.recipes.get(row.scenario) == row.recipe

    def told(self) -> str:
        """One line for the notes under a table."""
        recipes = "; ".join(text for scenario, text in self.recipes.items() if scenario is not Scenario.PARAMETRIC)
        repeats = f" Up to {self.draws} draws per item count as one: rates are means over draws."
        repeats = f"{repeats} n: items (graded draws)." if self.draws > 1 else ""
        return f"Prompt: {self.condition}. Contexts: {recipes or 'none shown'}.{repeats}"


def cell(rows: Iterable[Row]) -> Cell:
    """The three rates of some rows, with intervals clustered by what samples share."""
    return Cell(*rates(tuple(rows)))


def by_item(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """(context, condition) -> the draws of that item, in order; one where nothing was asked twice."""
    found = grouped(rows, lambda r: (r.context, r.condition))
    return {key: sorted(draws, key=lambda r: r.draw) for key, draws in found.items()}


def majority(draws: Sequence[Row]) -> Row:
    """The draw that stands for all: the first of the most frequent outcome; graded ones before the others."""
    counts = Counter(r.outcome for r in draws)
    return max(draws, key=lambda r: (r.outcome is not None, counts[r.outcome], -r.draw))


def told_draws(draws: Sequence[Row]) -> str:
    """What the draws of an item came to: ``3 draws: 2 correct, 1 deflected``; "" for a single one."""
    if len(draws) < 2:
        return ""
    counts = Counter(r.outcome.value if r.outcome is not None else r.status.value for r in draws)
    return f"{len(draws)} draws: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))


def grouped(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, list[Row]]:
    """Rows by key, keys in order of first appearance."""
    found: defaultdict[K, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(found)


def parsed(text: str) -> Recipe | None:
    """The recipe behind a row; None when it is not one that demur can parse (rows made elsewhere)."""
    try:
        return recipe(text)
    except UsageError:
        return None


def headline(runs: Sequence[Run]) -> Headline:
    """The condition and the recipes that most runs share; at a tie the defaults, then the most rows, then the text."""
    conditions: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for run in runs:
        for condition, rows in grouped(run.rows, lambda r: r.condition).items():
            conditions[condition] += len(rows)
            shared[condition] += 1
    condition = min(conditions, key=lambda c: (-shared[c], c != DEFAULT_CONDITION, -conditions[c], c))
    candidates = {scenario: _shared_recipes(runs, scenario, condition) for scenario in SCENARIOS}
    chosen = {scenario: texts[0] for scenario, texts in candidates.items() if texts}
    # Realistic and Adversarial with the same distractors, where any two recipes allow it.
    twins = [
        (text, str(one._replace(scenario=Scenario.ADVERSARIAL)))
        for text in candidates[Scenario.REALISTIC]
        if (one := parsed(text)) is not None
    ]
    matching = [(r, a) for r, a in twins if a in candidates[Scenario.ADVERSARIAL]]
    if matching:
        chosen[Scenario.REALISTIC], chosen[Scenario.ADVERSARIAL] = matching[0]
    return Headline(condition, chosen, 1 + max((r.draw for run in runs for r in run.rows), default=0))


def _shared_recipes(runs: Sequence[Run], scenario: Scenario, condition: str) -> list[str]:
    """Recipes of a scenario that most runs ask under a condition: the default first, then those with most rows."""
    asked: Counter[str] = Counter()
    systems: Counter[str] = Counter()
    for run in runs:
        mine = Counter(r.recipe for r in run.rows if r.scenario is scenario and r.condition == condition)
        asked.update(mine)
        systems.update(mine.keys())
    default, most = str(recipe(scenario.value)), max(systems.values(), default=0)
    return sorted((t for t in asked if systems[t] == most), key=lambda t: (t != default, -asked[t], t))


def main_cells(data: ReportData, head: Headline) -> dict[tuple[str, Scenario], Cell]:
    """(system, scenario) -> the headline cell, for every pair that was asked."""
    found: dict[tuple[str, Scenario], Cell] = {}
    for run in data.runs:
        for scenario, rows in grouped(filter(head.holds, run.rows), lambda r: r.scenario).items():
            found[run.name, scenario] = cell(rows)
    return found


def part_cells(data: ReportData, head: Headline, part: Callable[[Row], str]) -> dict[tuple[str, str, Scenario], Cell]:
    """(system, part, scenario) -> headline cell of one part (source, topic, modality)."""
    found: dict[tuple[str, str, Scenario], Cell] = {}
    for run in data.runs:
        for (name, scenario), rows in grouped(filter(head.holds, run.rows), lambda r: (part(r), r.scenario)).items():
            found[run.name, name, scenario] = cell(rows)
    return found


def sweep_cells(data: ReportData, head: Headline) -> dict[str, dict[int, Cell]]:
    """System -> distractors asked for -> cell, in the Realistic scenario under the headline condition.

    The sweep is the family of recipes that differ from the headline's realistic recipe in k alone; 0 distractors
    is the Oracle where no ``realistic(k=0)`` was asked (VLM-DeflectionBench, Figure 3). Systems with fewer than
    two points are left out.
    """
    base = parsed(head.recipes.get(Scenario.REALISTIC, ""))
    if base is None:
        return {}
    found: dict[str, dict[int, Cell]] = {}
    for run in data.runs:
        rows = [r for r in run.rows if r.condition == head.condition]
        points: dict[int, Cell] = {}
        for text, mine in grouped((r for r in rows if r.scenario is Scenario.REALISTIC), lambda r: r.recipe).items():
            one = parsed(text)
            if one is not None and one._replace(k=base.k) == base:
                points[one.k] = cell(mine)
        oracle = [r for r in rows if r.scenario is Scenario.ORACLE and r.recipe == head.recipes.get(Scenario.ORACLE)]
        if points and 0 not in points and oracle:
            points[0] = cell(oracle)
        if len(points) > 1:
            found[run.name] = dict(sorted(points.items()))
    return {name: points for name, points in found.items() if set(points) - {0, base.k}}


def position_cells(data: ReportData, head: Headline) -> dict[str, dict[int, Cell]]:
    """System -> place of the gold evidence (distractors before it) -> cell, Realistic, under the headline condition.

    From recipes with ``order=gold@I`` that are alike in everything else; those with most rows when there are several.
    """
    found: dict[str, dict[int, Cell]] = {}
    for run in data.runs:
        families: defaultdict[Recipe, dict[int, list[Row]]] = defaultdict(dict)
        mine = (r for r in run.rows if r.scenario is Scenario.REALISTIC and r.condition == head.condition)
        for text, rows in grouped(mine, lambda r: r.recipe).items():
            one = parsed(text)
            if one is not None and one.order.startswith("gold@"):
                families[one._replace(order="gold@0")][int(one.order.removeprefix("gold@"))] = rows
        if families:
            largest = max(families.values(), key=lambda places: sum(map(len, places.values())))
            if len(largest) > 1:
                found[run.name] = {at: cell(rows) for at, rows in sorted(largest.items())}
    return found


def strictness_cells(data: ReportData, head: Headline) -> dict[tuple[str, str, Scenario], Cell]:
    """(system, strictness level, scenario) -> cell, headline recipes, for systems asked at two levels or more."""
    found: dict[tuple[str, str, Scenario], Cell] = {}
    for run in data.runs:
        mine = [r for r in run.rows if r.condition in STRICTNESS and head.recipes.get(r.scenario) == r.recipe]
        if len({r.condition for r in mine}) < 2:
            continue
        by = grouped(mine, lambda r: (r.condition, r.scenario))
        for level in STRICTNESS:
            for scenario in SCENARIOS:
                if (level, scenario) in by:
                    found[run.name, level, scenario] = cell(by[level, scenario])
    return found


def grid_cells(data: ReportData, head: Headline) -> dict[tuple[str, str, str], Cell]:
    """(system, modality of gold, modality of distractors) -> Realistic cell, from recipes that fix both sides."""
    found: dict[tuple[str, str, str], Cell] = {}
    for run in data.runs:
        for text, rows in grouped(
            (r for r in run.rows if r.scenario is Scenario.REALISTIC and r.condition == head.condition),
            lambda r: r.recipe,
        ).items():
            one = parsed(text)
            if one is not None and one.gold != "any" and one.negatives != "any":
                found[run.name, one.gold, one.negatives] = cell(rows)
    return found
