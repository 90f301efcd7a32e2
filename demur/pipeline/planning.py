"""What a build will ask and cost, before anybody is asked: calls, tokens and money per stage and gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from demur.curation.funnel import Probe, Stage, expected
from demur.curation.recipe import BuildRecipe, GateSpec
from demur.errors import UsageError
from demur.pipeline.curate import gates_of
from demur.pipeline.panel import ask_of, model_options
from demur.pipeline.pool import Pool, load_pool
from demur.records import Record, Request, Sample
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import Kit
from demur.scenarios.systems.model import ModelSystem
from demur.store import Problems, read_image, read_jsonl

ASSUMED = {Stage.PARAMETRIC: 0.3, Stage.SOLVABLE: 0.6, Stage.DISTRACTOR: 0.1}
"""Probability of CORRECT where nothing was measured; the plan says that it is assumed."""
MEASURED_FROM = 20
"""Verdicts from which a rate counts as measured."""
STAND_INS = 200
"""Questions that the size of distractor questions is estimated from."""


class PlannedStage(Record):
    """One gate in one stage."""

    stage: Stage
    gate: str
    naive: int
    """Questions that Algorithm 1 would put to it, stage after stage, by the rates."""
    at_most: int
    """Questions if every sample reached the stage and every answer were needed."""
    expected: int
    """Questions by the rates, when only what can matter is asked."""
    had: int
    """Verdicts that the journal of the build folder has, for this gate and stage."""
    rate: float
    """Probability of CORRECT that the plan reckons with."""
    rate_from: Literal["given", "measured", "assumed"]
    tokens: int
    """Prompt tokens expected, estimated; 0 for a gate that calls no model."""
    money_expected: float | None
    """US dollars; None when no price is known."""
    money_at_most: float | None


class BuildPlan(Record):
    """The whole plan."""

    samples: int
    candidates: int
    """Distractors per sample, at most."""
    lines: tuple[PlannedStage, ...]
    kept: float
    """Share of the pool expected to stay."""
    notes: tuple[str, ...]

    def total(self, column: Literal["naive", "at_most", "expected", "had", "tokens"]) -> int:
        """Sum of a column."""
        return sum(getattr(line, column) for line in self.lines)

    def money(self, column: Literal["money_expected", "money_at_most"]) -> float | None:
        """Sum of a column of money; None when a part of it is unknown."""
        values = [getattr(line, column) for line in self.lines]
        return None if None in values else sum(values)


def plan_build(
    plan: BuildRecipe,
    out: Path,
    *,
    base: Path = Path(),
    skip_bad: bool = False,
    rates: Mapping[str, float] | None = None,
    prices: Path | None = None,
) -> BuildPlan:
    """Reckon a build through; the sources are read, nothing is embedded and nobody is asked.

    Args:
        plan: the recipe.
        out: its build folder; verdicts and replies that it has are not paid again, and give the rates.
        base: folder that the recipe's relative paths start from.
        skip_bad: leave bad records out.
        rates: ``stage`` or ``gate/stage`` -> probability of CORRECT, in [0, 1], before what was measured.
        prices: price table that overlays the shipped one.

    Raises:
        UsageError: a rate names no gate or stage, or lies outside [0, 1].
        BadInput: problems of the sources.
    """
    specs = plan.specs()
    given = _rates(rates or {}, specs)
    pool = load_pool(plan.sources, base=base, links=out / "build" / "images", seed=plan.seed, skip_bad=skip_bad)
    n = len(pool.samples)
    native = sum(len(s.negatives) for s in pool.samples) if plan.retrieval.native else 0
    candidates = plan.retrieval.text + plan.retrieval.visual + round(native / n)
    had, right = _journal(out / "build" / "journal.jsonl")
    used: dict[tuple[str, Stage], float] = {}
    origin: dict[tuple[str, Stage], Literal["given", "measured", "assumed"]] = {}
    for name, spec in specs.items():
        for stage in spec.stages:
            key = (name, stage)
            if key in given:
                used[key], origin[key] = given[key], "given"
            elif had[key] >= MEASURED_FROM:
                used[key], origin[key] = right[key] / had[key], "measured"
            else:
                used[key], origin[key] = ASSUMED[stage], "assumed"
    reckoned = expected(gates_of(specs), candidates, plan.rules.rules(), used, seed=plan.seed)
    lines = []
    for stage in Stage:
        for name, spec in specs.items():
            if stage not in spec.stages:
                continue
            key = (name, stage)
            most = n * (candidates if stage is Stage.DISTRACTOR else 1)
            likely = min(most, round(n * reckoned.calls.get(key, 0.0)))
            tokens, price = _per_call(plan, spec, name, stage, pool, out, prices)
            todo = max(0, likely - had[key])
            lines.append(PlannedStage(
                stage=stage, gate=name, naive=round(n * reckoned.algorithm1.get(key, 0.0)), at_most=most,
                expected=likely, had=had[key], rate=round(used[key], 4), rate_from=origin[key],
                tokens=round(todo * tokens),
                money_expected=None if price is None else todo * price,
                money_at_most=None if price is None else max(0, most - had[key]) * price,
            ))  # fmt: skip
    notes = ["gates are reckoned as independent of each other; gates that know the same cost less in Stage III"]
    if plan.judge != "rules":
        notes.append(f"what the judge {plan.judge} costs is not in it")
    if plan.retest:
        notes.append(f"the re-test of {plan.retest} kept samples is not in it")
    if any(line.money_expected is None for line in lines):
        notes.append("a price is not known: give it with --prices")
    return BuildPlan(
        samples=n, candidates=candidates, lines=tuple(lines), kept=round(reckoned.kept, 4), notes=tuple(notes)
    )


def _rates(rates: Mapping[str, float], specs: Mapping[str, GateSpec]) -> dict[tuple[str, Stage], float]:
    found: dict[tuple[str, Stage], float] = {}
    stages = [s.value for s in Stage]
    for text, rate in sorted(rates.items(), key=lambda item: "/" in item[0]):  # a gate's own rate goes last, and wins
        gate, _, stage = text.rpartition("/")
        if stage not in stages or (gate and gate not in specs):
            raise UsageError(
                f"no gate or stage {text!r}",
                item="rates",
                cure=f"gates: {', '.join(specs)}; stages: {', '.join(stages)}",
            )
        if not 0 <= rate <= 1:
            raise UsageError(f"{rate} is not a probability", item=f"rate {text}", cure="give a number from 0 to 1")
        for name in [gate] if gate else specs:
            found[name, Stage(stage)] = rate
    return found


def _journal(path: Path) -> tuple[Counter[tuple[str, Stage]], Counter[tuple[str, Stage]]]:
    """(verdicts, CORRECT ones) by gate and stage."""
    had: Counter[tuple[str, Stage]] = Counter()
    right: Counter[tuple[str, Stage]] = Counter()
    if path.exists():
        for _, line in read_jsonl(path, Problems()):
            if line.get("draw", 0) == 0 and line.get("stage") in [s.value for s in Stage]:
                key = (str(line.get("gate")), Stage(line["stage"]))
                had[key] += 1
                right[key] += line.get("label") == "correct"
    return had, right


def _per_call(
    plan: BuildRecipe, spec: GateSpec, name: str, stage: Stage, pool: Pool, out: Path, prices: Path | None
) -> tuple[float, float | None]:
    """(prompt tokens, US dollars) of a mean question of a stage to a gate; the ledger's replies count as free."""
    if spec.system.partition(":")[0] != "model" or not spec.system.partition(":")[2]:
        return 0.0, 0.0
    from demur.calls import plan as plan_calls

    prompts = Prompts()
    options: dict[str, Any] = {**model_options(spec.options), "name": name}
    kit = Kit(read_image=lambda ref: read_image(ref, pool.root), prompts=prompts, options=options)
    system = ModelSystem(spec.system.partition(":")[2], kit)

    def probes(sample: Sample) -> Probe:
        return Probe(name, stage, sample.gold[0].id if stage is Stage.DISTRACTOR else "")

    def requests() -> Iterator[Request]:
        for sample in pool.samples:
            ask = ask_of(sample, probes(sample), plan.seed, spec.condition, prompts)
            if not system.takes(ask):
                yield system.request(ask)

    several = islice(requests(), STAND_INS) if stage is Stage.DISTRACTOR else requests()
    ledger = None if stage is Stage.DISTRACTOR else out / "build" / "calls.sqlite"
    line = plan_calls(stage.value, system.addresses[0], several, ledger=ledger, prices=prices).lines[0]
    taken = line.calls / max(1, min(STAND_INS, len(pool.samples)) if stage is Stage.DISTRACTOR else len(pool.samples))
    if not line.to_pay:
        return 0.0, 0.0
    return taken * line.prompt / line.to_pay, None if line.money is None else taken * line.money / line.to_pay
