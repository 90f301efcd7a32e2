"""Ask every gate and monitor the whole pool without evidence, and see whether the filter converges.

How many samples the whole funnel would keep with some of the gates follows from the labels that a build noted, where it
was exhaustive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from demur.calls.run import run_sync
from demur.curation.convergence import Convergence, converge, first_to_know
from demur.curation.funnel import Gate, Life, Probe, Stage
from demur.curation.gate import Label
from demur.curation.recipe import BuildRecipe
from demur.indexing.encoders import Encoder
from demur.pipeline.curate import ask_all, gates_of, opened
from demur.pipeline.decisions import FILE as DECISIONS
from demur.pipeline.decisions import Decision
from demur.pipeline.made_by import same_recipe
from demur.pipeline.panel import last_told
from demur.pipeline.steps import QUIET, Steps
from demur.records import Record
from demur.store import Problems, locked, read_records, write_json, write_records

if TYPE_CHECKING:
    from demur.calls import Budget

FILE = "convergence.json"
"""Beside ``release``: `demur report` draws Fig. 5 from it."""


class FirstKnew(Record):
    """One line of ``first_knew.jsonl``."""

    sample: str
    gate: str
    """The first to answer it without evidence, in the order of the rounds; "" where none does."""


def convergence(
    plan: BuildRecipe,
    out: Path,
    *,
    base: Path = Path(),
    skip_bad: bool = False,
    order: Sequence[str] | None = None,
    threshold: float = 0.02,
    steps: Steps = QUIET,
    encoder: Encoder | None = None,
    concurrency: int | None = None,
    budget: Budget | None = None,
    prices: Path | None = None,
) -> Convergence:
    """Write ``out/convergence.json`` and ``out/first_knew.jsonl``; verdicts of a build in ``out`` are used again.

    Args:
        plan: the recipe; without ``monitors`` the gates are watched themselves.
        out: a build folder, old or new.
        base: folder that the recipe's relative paths start from.
        skip_bad: leave bad records out.
        order: in which gates are added; weakest first when None.
        threshold: see `demur.curation.convergence.converge`.
        steps: told what happens.
        encoder: opened already; by the recipe's name when None.
        concurrency: calls at once, of each endpoint and function; None for 8, and 1 of a plain function.
        budget: stops it, resumable, before its money is passed; what builds spent on the same folder counts.
        prices: price table that overlays the shipped one.

    Raises:
        BudgetReached: the budget leaves no room for another call.
        UsageError: ``order`` is not one of the gates, ``out`` was built by another recipe, or another build is at work
            there.
    """
    same_recipe(plan, out, base=base)

    async def work() -> Convergence:
        async with opened(
            plan, out, base=base, skip_bad=skip_bad, steps=steps, encoder=encoder, concurrency=concurrency,
            budget=budget, prices=prices,
        ) as shop:  # fmt: skip
            steps.stage("ask everybody everything without evidence")
            gates = [n for n, spec in plan.specs().items() if Stage.PARAMETRIC in spec.stages]
            watched = [m.name or m.system for m in plan.monitors]
            asked = [Gate(n, frozenset({Stage.PARAMETRIC})) for n in (*gates, *watched)]
            samples = {s.id: s for s in shop.pool.samples}
            lives = {i: Life(asked, (), plan.rules.rules(), exhaustive=True) for i in samples}
            await ask_all(shop.panel, samples, lives, frozenset({Stage.PARAMETRIC}), steps)
            table = {
                i: {g: label or Label.UNGRADED for g, label in life.of(Stage.PARAMETRIC).items()}
                for i, life in sorted(lives.items())
            }
            whole = _whole(plan, out / "build", table)
            found = converge(
                table, gates, watched or gates, whole=whole, order=order, rule=plan.rules.parametric,
                threshold=threshold, seed=plan.seed,
            )  # fmt: skip
            first = first_to_know(table, found.gates)
            write_records(out / "first_knew.jsonl", (FirstKnew(sample=s, gate=g) for s, g in first.items()))
            write_json(out / FILE, found.model_dump(mode="json") | {"name": plan.name, "version": plan.version})
            return found

    with locked(out / "build" / "lock", "building there"):
        return run_sync(work())


def _whole(
    plan: BuildRecipe, build: Path, table: Mapping[str, Mapping[str, Label]]
) -> Callable[[Sequence[str]], list[str] | None]:
    """Gates -> samples that a build with these alone (and those that are asked with evidence only) would keep.

    Args:
        plan: the recipe.
        build: its build folder; where what it decided is missing, or not all was asked, the answer is None.
        table: labels without evidence.
    """
    labels: dict[str, dict[Probe, Label]] = {}
    candidates: dict[str, list[str]] = {}
    told = last_told(build / "journal.jsonl")
    for decided in read_records(build / DECISIONS, Decision, Problems()) if (build / DECISIONS).exists() else ():
        mine = candidates[decided.sample] = [str(d["id"]) for d in decided.distractors]
        known = {p: said.label for p, said in told.get(decided.sample, {}).items()}
        for gate in decided.skipped.get(Stage.SOLVABLE.value, ()):
            known[Probe(gate, Stage.SOLVABLE)] = Label.SKIPPED
        for d in decided.distractors:
            known |= {Probe(gate, Stage.DISTRACTOR, str(d["id"])): Label.SKIPPED for gate in d["skipped"]}
        labels[decided.sample] = {p: v for p, v in known.items() if p.stage is Stage.SOLVABLE or p.distractor in mine}
    everyone = gates_of(plan.specs())

    def kept(added: Sequence[str]) -> list[str] | None:
        taking_part = [g for g in everyone if g.name in added or Stage.PARAMETRIC not in g.stages]
        stay = []
        for sample, by_gate in table.items():
            without = {Probe(g, Stage.PARAMETRIC): label for g, label in by_gate.items()}
            known = without | labels.get(sample, {})
            life = Life(taking_part, candidates.get(sample, []), plan.rules.rules(), labels=known)
            fate = life.fate() if sample in candidates else None
            if fate is None:
                return None
            if fate.kept:
                stay.append(sample)
        return stay

    return kept
