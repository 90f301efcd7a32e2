"""Rows gathered into cells: which answers belong to one number, and that number by `demur.judge.measures`.

A run may hold a sweep, several strictness levels and a modality grid beside the four scenarios. The headline numbers
use one recipe per scenario under one condition, chosen by the same rule for every system and named in every caption.
Nothing is averaged over recipes or conditions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from demur.core.errors import DataError, UsageError
from demur.core.records import Measure, Row, Scenario
from demur.judge.deflection import ASKS_BACK
from demur.judge.measures.corrected import corrected
from demur.judge.measures.intervals import Auto
from demur.judge.measures.joint import joint
from demur.judge.measures.rates import Rates, rates_where, share
from demur.judge.measures.table import DEFLECTED, FAILED, Flags, Table
from demur.reports.data import ReportData, Run
from demur.scenarios.conditions import STRICTNESS
from demur.scenarios.contexts import Recipe, recipe

SCENARIOS = tuple(Scenario)
DEFAULT_CONDITION = "moderate"
Should = Literal["answer", "deflect"]
"""What is right for a question in a scenario."""


class Headline(NamedTuple):
    """The recipes and the condition of the headline numbers."""

    condition: str
    recipes: Mapping[Scenario, str]
    """Scenario -> canonical recipe text, for scenarios that any run asks."""
    repeats: int = 1
    """Largest number of independent answers to a question."""
    also: tuple[str, ...] = ()
    """Further conditions that count: those of a suite, each of whose questions has its own."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """All conditions that count."""
        return (self.condition, *self.also)

    def holds(self, row: Row) -> bool:
        """Whether a row counts for the headline numbers."""
        return row.condition in self.conditions and self.recipes.get(row.scenario) == row.recipe

    def where(self, rows: Table) -> Table:
        """The rows that count for the headline numbers."""
        return rows.where(
            asked_as(
                rows,
                {
                    (s.value, text, condition)
                    for s, text in self.recipes.items()
                    for condition in self.conditions
                },
            )
        )

    def note(self) -> str:
        """One line for the notes under a table."""
        recipes = "; ".join(
            text for scenario, text in self.recipes.items() if scenario is not Scenario.PARAMETRIC
        )
        repeats = ""
        if self.repeats > 1:
            repeats = f" Up to {self.repeats} repeats per item count as one: rates are means over repeats. "
            repeats += "n: items (graded repeats)."
        return f"Prompt: {', '.join(self.conditions)}. Evidence shown (k: distractors): {recipes or 'none'}.{repeats}"


def labelled_rates(run: Run, rows: Table, place: Flags, level: float = 0.95) -> tuple[Rates, int]:
    """The three rates of some rows; where people labelled enough of them, their labels decide.

    Args:
        run: whose labels count.
        rows: its rows, or some of them.
        place: bool [rows], one scenario, recipe and condition; over several, labels are no random draw, and none count.
        level: of the intervals.

    Returns:
        The rates, and how many labels of `demur annotate` these rows have (`demur.judge.measures.corrected.LEAST`
        decide). Where ``labels`` of a rate says that they did, ``value`` is still the plain count, ``corrected`` is
        what the labels make of it, and the interval is that of ``corrected``.
    """
    counted = rates_where(rows, place, Auto(level))
    one_cell = all(
        len(np.unique(rows.coded(name).codes[place])) == 1
        for name in ("scenario", "recipe", "condition")
    )
    if not run.drawn.codes or not one_cell:
        return counted, 0
    asks = rows.coded("ask")
    code_of_ask = np.array([run.drawn.codes.get(ask, -1) for ask in asks.labels], dtype=np.int64)
    verdict, label = rows.result[place], code_of_ask[asks.codes][place]
    n = int((label[verdict != FAILED] >= 0).sum())
    try:
        people = corrected(verdict, label, level=level, cluster=rows.cluster[place])
    except DataError:  # too few, or none on the answers of one verdict
        return counted, n
    measures = (
        measure.model_copy(
            update={
                "corrected": people.rates[measure.name].value,
                "labels": n,
                "low": people.rates[measure.name].low,
                "high": people.rates[measure.name].high,
                "interval": people.rates[measure.name].interval,
            }
        )
        for measure in counted
    )
    return Rates(*measures), n


def cell(run: Run, rows: Table, place: Flags) -> Rates:
    """The three rates of the rows in ``place`` (bool [rows]), as `labelled_rates` has them."""
    return labelled_rates(run, rows, place)[0]


def asked_as(rows: Table, wanted: Collection[tuple[str, str, str]]) -> Flags:
    """Bool [rows]: (scenario, recipe, condition) is one of ``wanted``."""
    columns = [rows.coded(name) for name in ("scenario", "recipe", "condition")]
    grid = np.zeros([max(1, len(c.labels)) for c in columns], dtype=np.bool_)
    for texts in wanted:
        if all(text in c.labels for text, c in zip(texts, columns, strict=True)):
            grid[tuple(c.labels.index(text) for text, c in zip(texts, columns, strict=True))] = True
    flags: Flags = grid[columns[0].codes, columns[1].codes, columns[2].codes]
    return flags


def recipes_of(rows: Table, scenario: Scenario, condition: str) -> dict[str, int]:
    """Recipe -> rows, of one scenario under one condition, in order of first appearance."""
    rows_of_recipe = rows.tally("scenario", "condition", "recipe")
    return {
        text: n
        for (s, c, text), n in rows_of_recipe.items()
        if (s, c) == (scenario.value, condition)
    }


def repeats_by_item(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """(context, condition) -> the repeats of that item, in order; one where nothing was asked twice."""
    repeats_of_item: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        repeats_of_item[row.context, row.condition].append(row)
    return {
        key: sorted(repeats, key=lambda r: r.repeat) for key, repeats in repeats_of_item.items()
    }


def majority(repeats: Sequence[Row]) -> Row:
    """The representative repeat: the first of the most frequent outcome; graded ones before the others."""
    counts = Counter(r.outcome for r in repeats)
    return max(repeats, key=lambda r: (r.outcome is not None, counts[r.outcome], -r.repeat))


def repeats_text(repeats: Sequence[Row]) -> str:
    """The outcomes of an item's repeats: ``3 repeats: 2 correct, 1 deflected``; "" for a single one."""
    if len(repeats) < 2:
        return ""
    counts = Counter(r.outcome.value if r.outcome is not None else r.status.value for r in repeats)
    return f"{len(repeats)} repeats: " + ", ".join(
        f"{n} {result}" for result, n in sorted(counts.items())
    )


def recipe_or_none(text: str) -> Recipe | None:
    """The recipe of a row; None when demur cannot parse it (rows made elsewhere)."""
    try:
        return recipe(text)
    except UsageError:
        return None


def headline(runs: Sequence[Run]) -> Headline:
    """The condition and recipes that most runs share; ties go to the defaults, then the most rows, then the text."""
    conditions: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for run in runs:
        for (condition,), n in run.rows.tally("condition").items():
            conditions[condition] += n
            shared[condition] += 1
    condition = min(
        conditions, key=lambda c: (-shared[c], c != DEFAULT_CONDITION, -conditions[c], c)
    )
    candidates = {scenario: _shared_recipes(runs, scenario, condition) for scenario in SCENARIOS}
    chosen = {scenario: texts[0] for scenario, texts in candidates.items() if texts}
    # Realistic and Adversarial with the same distractors, where any two recipes allow it.
    twins = [
        (text, str(recipe_read._replace(scenario=Scenario.ADVERSARIAL)))
        for text in candidates[Scenario.REALISTIC]
        if (recipe_read := recipe_or_none(text)) is not None
    ]
    matching = [(r, a) for r, a in twins if a in candidates[Scenario.ADVERSARIAL]]
    if matching:
        chosen[Scenario.REALISTIC], chosen[Scenario.ADVERSARIAL] = matching[0]
    of_suites = all(run.manifest.get("suite") for run in runs)
    also = tuple(sorted(conditions.keys() - {condition})) if of_suites else ()
    return Headline(condition, chosen, max((run.rows.repeats for run in runs), default=1), also)


def _shared_recipes(runs: Sequence[Run], scenario: Scenario, condition: str) -> list[str]:
    """The recipes of a scenario that most runs ask under a condition: the default first, then by number of rows."""
    rows_of_recipe: Counter[str] = Counter()
    systems: Counter[str] = Counter()
    for run in runs:
        recipes_of_run = recipes_of(run.rows, scenario, condition)
        rows_of_recipe.update(recipes_of_run)
        systems.update(recipes_of_run.keys())
    default, most_systems = str(recipe(scenario.value)), max(systems.values(), default=0)
    return sorted(
        (t for t in rows_of_recipe if systems[t] == most_systems),
        key=lambda t: (t != default, -rows_of_recipe[t], t),
    )


def main_cells(data: ReportData, head: Headline) -> dict[tuple[str, Scenario], Rates]:
    """(system, scenario) -> the headline cell, for every pair that was asked."""
    cells: dict[tuple[str, Scenario], Rates] = {}
    for run in data.runs:
        rows = head.where(run.rows)
        place_of = {scenario: place for (scenario,), place in rows.groups("scenario")}
        cells |= {(run.name, s): cell(run, rows, place_of[s]) for s in SCENARIOS if s in place_of}
    return cells


def should_cells(data: ReportData, head: Headline) -> dict[tuple[str, Scenario, Should], Rates]:
    """(system, scenario, what is right) -> headline cell; questions that nothing answers are declined everywhere."""
    cells: dict[tuple[str, Scenario, Should], Rates] = {}
    for run in data.runs:
        rows = head.where(run.rows)
        for (scenario,), place in rows.groups("scenario"):
            for should in get_args(Should):
                in_cell = place & (rows.should_deflect == (should == "deflect"))
                if in_cell.any():
                    cells[run.name, Scenario(scenario), should] = cell(run, rows, in_cell)
    return cells


def joint_cells(data: ReportData, head: Headline) -> dict[str, Measure]:
    """System -> share of its questions that it handles right in all its scenarios, where it was asked in several."""
    shares = {}
    for run in data.runs:
        rows = head.where(run.rows)
        scenarios = [s for s in SCENARIOS if s.value in rows.coded("scenario").labels]
        if len(scenarios) > 1:
            shares[run.name] = joint(rows, scenarios)
    return shares


def shares_asking_back(data: ReportData, head: Headline) -> dict[tuple[str, Scenario], Measure]:
    """(system, scenario) -> the share of graded answers that ask back; empty where none does.

    Asking back neither answers nor declines: the share is a part of the deflections, shown beside them.
    """
    shares: dict[tuple[str, Scenario], Measure] = {}
    for run in data.runs:
        rows = head.where(run.rows)
        asks = (rows.result == DEFLECTED) & rows.is_in("kind", [ASKS_BACK])
        for (scenario,), place in rows.groups("scenario"):
            shares[run.name, Scenario(scenario)] = share("asks back", asks, place, rows)
    return shares if any(m.value for m in shares.values()) else {}


ASKED_BACK = "Asks back: the deflections in which the system asks for more information and does not say that it cannot answer."


def part_cells(
    data: ReportData, head: Headline, part: str
) -> dict[tuple[str, str, Scenario], Rates]:
    """(system, part, scenario) -> headline cell of one part (``source``, ``topic``, or another column)."""
    cells: dict[tuple[str, str, Scenario], Rates] = {}
    for run in data.runs:
        rows = head.where(run.rows)
        for (name, scenario), place in rows.groups(part, "scenario"):
            cells[run.name, name, Scenario(scenario)] = cell(run, rows, place)
    return cells


class SweepPoint(NamedTuple):
    """One point of a sweep: the rates of the items that show as many distractors as the point says."""

    cell: Rates
    items_shown: int
    """Items that show as many distractors as the point says; the rates do not count samples with fewer."""
    items_in_all: int
    """Largest number of items at any point of the system's sweep."""

    @property
    def partial(self) -> bool:
        """Whether some samples are missing, so that the point is not comparable with the others."""
        return self.items_shown < self.items_in_all


def _count_items(rows: Table, place: Flags) -> int:
    return len(np.unique(rows.context_condition[place]))


def _sweep_points(
    run: Run, asked_at: Mapping[int, Flags], shows_all: Callable[[int], Flags]
) -> dict[int, SweepPoint]:
    """The points of one system's sweep.

    Args:
        asked_at: point -> bool [rows]: asked at the point.
        shows_all: point -> bool [rows]: shows as many distractors as the point says.
    """
    most_items = max(_count_items(run.rows, place) for place in asked_at.values())
    return {
        point: SweepPoint(
            cell(run, run.rows, place & shows_all(point)),
            _count_items(run.rows, place & shows_all(point)),
            most_items,
        )
        for point, place in sorted(asked_at.items())
    }


def sweep_cells(data: ReportData, head: Headline) -> dict[str, dict[int, SweepPoint]]:
    """System -> distractors shown -> point, in the Realistic scenario under the headline condition.

    The sweep is the family of recipes that differ from the headline's realistic recipe in k alone; 0 distractors
    is the Oracle where no ``realistic(k=0)`` was asked (VLM-DeflectionBench, Figure 3), over samples that have
    distractors. A sample with fewer than k distractors shows all it has when asked with k, so the point does not count
    it. Systems with fewer than two points are left out.
    """
    base = recipe_or_none(head.recipes.get(Scenario.REALISTIC, ""))
    if base is None:
        return {}
    points: dict[str, dict[int, SweepPoint]] = {}
    for run in data.runs:
        rows, asked_at = run.rows, dict[int, Flags]()
        for text in recipes_of(rows, Scenario.REALISTIC, head.condition):
            recipe_read = recipe_or_none(text)
            if recipe_read is not None and recipe_read._replace(k=base.k) == base:
                asked_at[recipe_read.k] = asked_as(rows, {("realistic", text, head.condition)})
        if not set(asked_at) - {0, base.k}:
            continue
        samples, used = rows.coded("sample").codes, rows.numbers("k_used")
        reached = samples[np.logical_or.reduce([place for k, place in asked_at.items() if k])]
        oracle = asked_as(rows, {("oracle", head.recipes.get(Scenario.ORACLE, ""), head.condition)})
        asked_at[0] = asked_at.get(0, oracle) & np.isin(samples, reached)
        if not asked_at[0].any():
            del asked_at[0]
        if len(asked_at) > 1:
            points[run.name] = _sweep_points(run, asked_at, lambda k, used=used: used == k)  # type: ignore[misc]
    return points


def position_cells(data: ReportData, head: Headline) -> dict[str, dict[int, SweepPoint]]:
    """System -> position of the gold (distractors before it) -> point, Realistic, under the headline condition.

    From recipes that differ only in ``order=gold@I``; of several such families the one with most rows. A sample with
    too few distractors to place before its gold is not counted at that point.
    """
    points: dict[str, dict[int, SweepPoint]] = {}
    for run in data.runs:
        families: defaultdict[Recipe, dict[int, str]] = defaultdict(dict)
        rows_of_recipe = recipes_of(run.rows, Scenario.REALISTIC, head.condition)
        for text in rows_of_recipe:
            recipe_read = recipe_or_none(text)
            if recipe_read is not None and recipe_read.order.startswith("gold@"):
                families[recipe_read._replace(order="gold@0")][
                    int(recipe_read.order.removeprefix("gold@"))
                ] = text
        if families:
            largest = max(
                families.values(),
                key=lambda places: sum(rows_of_recipe[text] for text in places.values()),
            )
            used = run.rows.numbers("k_used")
            asked_at = {
                position: asked_as(run.rows, {("realistic", text, head.condition)})
                for position, text in largest.items()
            }
            if len(asked_at) > 1:
                points[run.name] = _sweep_points(run, asked_at, lambda at, used=used: used >= at)  # type: ignore[misc]
    return points


def note_on_fewer_distractors(data: ReportData, head: Headline) -> str:
    """How many headline questions show fewer distractors than their recipe says, as a sentence; "" for none."""
    parts = []
    for scenario in (Scenario.REALISTIC, Scenario.ADVERSARIAL):
        recipe_read = recipe_or_none(head.recipes.get(scenario, ""))
        items_short, items_in_all = 0, 0
        for run in data.runs:
            asked_so = asked_as(
                run.rows, {(scenario.value, head.recipes.get(scenario, ""), head.condition)}
            )
            items_in_all += _count_items(run.rows, asked_so)
            items_short += (
                _count_items(run.rows, asked_so & (run.rows.numbers("k_used") < recipe_read.k))
                if recipe_read is not None
                else 0
            )
        if recipe_read is not None and items_short:
            parts.append(
                f"{items_short:,} of {items_in_all:,} {scenario.value} questions show fewer than {recipe_read.k}"
            )
    return f"Distractors: {'; '.join(parts)}, because their samples have no more." if parts else ""


def strictness_cells(data: ReportData, head: Headline) -> dict[tuple[str, str, Scenario], Rates]:
    """(system, strictness level, scenario) -> cell, headline recipes, for systems asked at two levels or more."""
    cells: dict[tuple[str, str, Scenario], Rates] = {}
    for run in data.runs:
        wanted = {
            (s.value, text, level) for s, text in head.recipes.items() for level in STRICTNESS
        }
        rows = run.rows.where(asked_as(run.rows, wanted))
        if len(rows.tally("condition")) < 2:
            continue
        place_of = dict(rows.groups("condition", "scenario"))
        for level in STRICTNESS:
            for scenario in SCENARIOS:
                if (level, scenario.value) in place_of:
                    cells[run.name, level, scenario] = cell(
                        run, rows, place_of[level, scenario.value]
                    )
    return cells


class Grid(NamedTuple):
    """The modality grid of Table 5."""

    cells: Mapping[tuple[str, str, str], Rates]
    """(system, modality of gold, modality of distractors) -> cell; one system and gold use the same samples."""
    recipe: str
    """The settings that all share; "" without any cell."""
    left_out: Mapping[tuple[str, str], int]
    """(system, modality of gold) -> samples asked with some, but not all of the distractors' modalities."""
    short: int = 0
    """Items that show fewer distractors than asked for."""


def grid_cells(data: ReportData, head: Headline) -> Grid:
    """The Realistic scenario by modality, from recipes that differ only in the modalities of gold and distractors.

    The cells of one system and gold use one set of samples: those with distractors of every modality asked. Otherwise
    the cells would compare samples that have images with samples that have none.
    """
    base = recipe_or_none(head.recipes.get(Scenario.REALISTIC, ""))
    families: Counter[Recipe] = Counter()
    texts_of_family: dict[tuple[int, Recipe], dict[tuple[str, str], str]] = defaultdict(dict)
    for number, run in enumerate(data.runs):
        for text, n in recipes_of(run.rows, Scenario.REALISTIC, head.condition).items():
            recipe_read = recipe_or_none(text)
            if (
                recipe_read is not None
                and recipe_read.gold != "any"
                and recipe_read.negatives != "any"
            ):
                family = recipe_read._replace(gold="any", negatives="any")
                families[family] += n
                texts_of_family[number, family][recipe_read.gold, recipe_read.negatives] = text
    if not families:
        return Grid({}, "", {})
    chosen = max(families, key=lambda f: (f == base, families[f], str(f)))
    cells: dict[tuple[str, str, str], Rates] = {}
    left_out: dict[tuple[str, str], int] = {}
    short = 0
    for number, run in enumerate(data.runs):
        recipe_of_cell = texts_of_family.get((number, chosen), {})
        samples, used = run.rows.coded("sample").codes, run.rows.numbers("k_used")
        for gold in dict.fromkeys(g for g, _ in recipe_of_cell):
            places = {
                side: asked_as(run.rows, {("realistic", text, head.condition)})
                for (g, side), text in recipe_of_cell.items()
                if g == gold
            }
            samples_of_side = [np.unique(samples[place]) for place in places.values()]
            shared_samples = np.flatnonzero(
                np.bincount(np.concatenate(samples_of_side), minlength=1) == len(samples_of_side)
            )
            left_out[run.name, gold] = len(np.unique(np.concatenate(samples_of_side))) - len(
                shared_samples
            )
            for side, place in places.items():
                in_cell = place & np.isin(samples, shared_samples)
                cells[run.name, gold, side] = cell(run, run.rows, in_cell)
                short += _count_items(run.rows, in_cell & (used < chosen.k))
    return Grid(cells, str(chosen), {k: n for k, n in left_out.items() if n}, short)
