"""The funnel of one sample: which answers are still needed, and what they decide.

VLM-DeflectionBench's three stages (sections 3.1-3.3, Algorithm 1) ask every gate everything. The release does
not depend on most of those answers: one CORRECT ends a stage, a sample dropped in Stage I needs no Stage III,
and when fewer than K_min distractors can survive nobody has to know which. `Life` knows which answers can
still change the outcome and asks for those alone, the gate that is likeliest to settle it for its cost first
(`Experience`); ``exhaustive`` asks for all.
Both end in the same decision for the same labels (a property test holds them to it), because decisions are
three-valued functions of labels (`demur.curation.gate`) and none depends on an answer that was not needed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from demur.curation.gate import (
    Label,
    Parametric,
    Solvable,
    misleads,
    solvable_with_gold,
    unknown_without_evidence,
)
from demur.errors import UsageError
from demur.store import seed_of

HELD = "held"
"""Fate of what cannot be decided because a verdict could not be had."""


class Stage(StrEnum):
    """The stages in their order."""

    PARAMETRIC = "parametric"
    SOLVABLE = "solvable"
    DISTRACTOR = "distractor"


class Gate(NamedTuple):
    """A model that takes part in curation.

    Attributes:
        name: system id.
        stages: where it is asked. A question-only prior has nothing to say about evidence.
        cost: what one answer costs, in any one unit; a cheap gate is asked before a dear one that settles as much.
    """

    name: str
    stages: frozenset[Stage] = frozenset(Stage)
    cost: float = 1.0


class Rules(NamedTuple):
    """What decides. The defaults are the paper's prose; see `demur.curation.gate` for the literal variants.

    Attributes:
        k_min: fewest distractors a kept sample has (001: 5).
        k_enough: stop checking a sample's distractors when that many have survived; None to check all.
    """

    parametric: Parametric = "not_correct"
    solvable: Solvable = "any_correct"
    k_min: int = 5
    k_enough: int | None = None


DEFAULT_RULES = Rules()


class Probe(NamedTuple):
    """One question to one gate: a stage's context for one sample.

    Attributes:
        gate: its name.
        stage: what it is asked for.
        distractor: id of the distractor shown alone (stage DISTRACTOR), else "".
    """

    gate: str
    stage: Stage
    distractor: str = ""


class Fate(NamedTuple):
    """What became of a sample.

    Attributes:
        kept: whether it is in the release.
        stage: the stage that dropped it ("" when kept): parametric, solvable, distractors; or ``held``.
        why: one line, the same for every order in which answers were had.
        survivors: distractors that stay, in the order given (empty unless kept).
        lost: distractor -> why it left, of a kept sample.
    """

    kept: bool
    stage: str
    why: str
    survivors: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()


class Experience:
    """Which gate to ask next: the one whose answer settles a question for the least expected money.

    A question that one CORRECT ends is settled soonest by asking first where cost over the probability of a settling
    answer is least (the optimal order of independent tests, Garey 1973). The probability is learnt from the answers
    had so far, per gate and stage, from one success in two as a start: hopeful enough that every gate is tried until
    it has shown otherwise. What is learnt moves the order of work alone, never a decision.

    Args:
        learn: learn; False keeps to cheapest first.
    """

    def __init__(self, *, learn: bool = True) -> None:
        self.learn = learn
        self._asked: Counter[tuple[str, Stage]] = Counter()
        self._settled: Counter[tuple[str, Stage]] = Counter()

    def note(self, probe: Probe, label: Label, rules: Rules) -> None:
        """Learn from one answer."""
        if label is Label.SKIPPED:
            return
        self._asked[probe.gate, probe.stage] += 1
        self._settled[probe.gate, probe.stage] += label in settling(probe.stage, rules)

    def rate(self, gate: str, stage: Stage) -> float:
        """Estimated probability that an answer of this gate settles a question of this stage."""
        return (self._settled[gate, stage] + 1) / (self._asked[gate, stage] + 2)

    def key(self, gate: Gate, stage: Stage) -> tuple[float, float, str]:
        """Sorts gates: ask the least first."""
        return (gate.cost / self.rate(gate.name, stage) if self.learn else gate.cost, gate.cost, gate.name)


def settling(stage: Stage, rules: Rules) -> frozenset[Label]:
    """Labels of which one is enough to settle a question of a stage."""
    deflection_too = (stage is Stage.PARAMETRIC and rules.parametric == "literal") or (
        stage is Stage.SOLVABLE and rules.solvable == "equation4"
    )
    return frozenset({Label.CORRECT, Label.DEFLECTED} if deflection_too else {Label.CORRECT})


@dataclass
class Life:
    """One sample on its way through the stages.

    Args:
        gates: all that take part, in any order.
        distractors: ids of its candidate distractors, best first.
        rules: what decides.
        exhaustive: ask every gate everything (needed for the convergence figure), decide the same.
        experience: shared by the lives of a build, so that each learns from the others.
    """

    gates: Sequence[Gate]
    distractors: Sequence[str]
    rules: Rules = DEFAULT_RULES
    exhaustive: bool = False
    experience: Experience = field(default_factory=Experience)
    labels: dict[Probe, Label] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(Stage.PARAMETRIC in g.stages for g in self.gates):
            raise UsageError("no gate is asked without evidence", cure="name at least one gate")
        if self.rules.k_enough is not None and self.rules.k_enough < self.rules.k_min:
            raise UsageError(f"k_enough={self.rules.k_enough} is below k_min={self.rules.k_min}", cure="raise k_enough")
        self._of_stage = {stage: [g for g in self.gates if stage in g.stages] for stage in Stage}

    def tell(self, probe: Probe, label: Label) -> None:
        """Learn one label."""
        self.labels[probe] = label
        self.experience.note(probe, label, self.rules)

    def wanted(self) -> tuple[Probe, ...]:
        """The next probes to ask, all at once; empty when the fate is known.

        For each undecided question only the gate that is best asked next is named (see `Experience`), and of the
        distractors as many as must be asked whatever they turn out to be.
        """
        if self.exhaustive:
            return tuple(p for p in self.all_probes() if p not in self.labels)
        if self.rules.parametric == "literal" and self._parametric() is False:
            # The literal rule exists to be compared with the default: that one's count must be known too.
            if unknown_without_evidence(self.of(Stage.PARAMETRIC)) is None:
                return self._next(Stage.PARAMETRIC)
            return ()
        for stage, keep in ((Stage.PARAMETRIC, self._parametric()), (Stage.SOLVABLE, self._solvable())):
            if keep is False:
                return ()
            if keep is None:
                return self._next(stage)
        return self._wanted_distractors()

    def all_probes(self) -> Iterable[Probe]:
        """Everything that could be asked about this sample."""
        for stage in Stage:
            for shown in self.distractors if stage is Stage.DISTRACTOR else ("",):
                for gate in self._of_stage[stage]:
                    yield Probe(gate.name, stage, shown)

    def fate(self) -> Fate | None:
        """What became of the sample; None while an answer that matters is missing."""
        rules = self.rules
        checks = (
            (Stage.PARAMETRIC, self._parametric(), "a gate answers it without evidence"
             if rules.parametric == "not_correct" else "not every gate answers wrongly without evidence"),
            (Stage.SOLVABLE, self._solvable(), "no gate answers it with the gold evidence"
             if rules.solvable == "any_correct" else f"the {rules.solvable} rule calls it unsolvable"),
        )  # fmt: skip
        for stage, keep, why in checks:
            if keep is None:
                return self._held(stage) if not self._next(stage) else None
            if not keep:
                return Fate(False, stage.value, why)
        if self._possible() < rules.k_min:
            return Fate(False, "distractors", f"fewer than {rules.k_min} distractors leave it unanswerable")
        considered = self._considered()
        verdicts = {d: self._misleads(d) for d in considered}
        if any(v is None and self._next(Stage.DISTRACTOR, d) for d, v in verdicts.items()):
            return None
        sure = [d for d, v in verdicts.items() if v is True]
        if len(sure) < rules.k_min:  # with the verdicts that could not be had it might have been enough
            return self._held(Stage.DISTRACTOR)
        lost = [
            (d, "alone it lets a gate answer" if v is False else "a verdict on it could not be had")
            for d, v in verdicts.items()
            if v is not True
        ]
        lost += [(d, f"{rules.k_enough} better ones stay already") for d in self.distractors[len(considered) :]]
        return Fate(True, "", "kept", tuple(sure), tuple(lost))

    def passed(self, stage: Stage) -> bool:
        """Whether the sample is known to pass Stage I, or to be solvable."""
        return (self._parametric() if stage is Stage.PARAMETRIC else self._solvable()) is True

    def of(self, stage: Stage, distractor: str = "") -> dict[str, Label | None]:
        """What each gate of a stage said, in the order of the recipe; None where it was not asked."""
        return {g.name: self.labels.get(Probe(g.name, stage, distractor)) for g in self._of_stage[stage]}

    # --- the stages

    def _parametric(self) -> bool | None:
        return unknown_without_evidence(self.of(Stage.PARAMETRIC), self.rules.parametric)

    def _solvable(self) -> bool | None:
        return solvable_with_gold(self.of(Stage.SOLVABLE), self.rules.solvable)

    def _misleads(self, distractor: str) -> bool | None:
        return misleads(self.of(Stage.DISTRACTOR, distractor))

    def _next(self, stage: Stage, distractor: str = "") -> tuple[Probe, ...]:
        """The probe of a question that is best asked next; none when every gate has been asked."""
        silent = [g for g in self._of_stage[stage] if Probe(g.name, stage, distractor) not in self.labels]
        if not silent:
            return ()
        best = min(silent, key=lambda g: self.experience.key(g, stage))
        return (Probe(best.name, stage, distractor),)

    def _held(self, stage: Stage) -> Fate:
        return Fate(False, HELD, f"a verdict of the {stage.value} stage could not be had")

    def _possible(self) -> int:
        """Distractors that may still stay: all but those known to help."""
        return sum(self._misleads(d) is not False for d in self.distractors)

    def _considered(self) -> list[str]:
        """The distractors that the outcome depends on: all, or the first ones up to ``k_enough`` survivors."""
        if self.rules.k_enough is None:
            return list(self.distractors)
        out, sure = [], 0
        for d in self.distractors:
            if sure >= self.rules.k_enough:
                break
            out.append(d)
            sure += self._misleads(d) is True
        return out

    def _wanted_distractors(self) -> tuple[Probe, ...]:
        possible = self._possible()
        if possible < self.rules.k_min:
            return ()
        considered = self._considered()
        undecided = [d for d in considered if self._misleads(d) is None and self._next(Stage.DISTRACTOR, d)]
        sure = sum(self._misleads(d) is True for d in considered)
        if self.rules.k_enough is not None:
            undecided = undecided[: max(1, self.rules.k_enough - sure)]
        if sure < self.rules.k_min:
            # Until it is certain that the sample can stay: the losses that would end it, and no more.
            undecided = undecided[: possible - self.rules.k_min + 1]
        return tuple(p for d in undecided for p in self._next(Stage.DISTRACTOR, d))


# --- what it costs -------------------------------------------------------------------------------


class Costs(NamedTuple):
    """Calls about one sample, by three ways of asking."""

    exhaustive: int
    """Every gate everything."""
    algorithm1: int
    """Algorithm 1 as printed: stage after stage, every gate of a stage."""
    least: int
    """The fewest that any order could do with: the smallest set of answers from which the fate follows."""


def costs_of(gates: Sequence[Gate], distractors: Sequence[str], rules: Rules, truth: Mapping[Probe, Label]) -> Costs:
    """Count calls offline, from every label that could be had (`Label.SKIPPED` is no call).

    ``least`` is a bound that no order of asking can pass, because it knows the labels beforehand; it holds for the
    default rules and is not computed for the literal ones.

    Raises:
        UsageError: the rules are not the default ones.
    """
    if (rules.parametric, rules.solvable) != ("not_correct", "any_correct"):
        raise UsageError("the bound is for the default rules", cure="leave rules.parametric and rules.solvable out")
    life = Life(gates, distractors, rules, exhaustive=True, labels=dict(truth))
    fate = life.fate()
    if fate is None:
        raise UsageError("a label is missing", cure="give every label of the sample")

    def calls(stage: Stage, distractor: str = "") -> int:
        return sum(v is not Label.SKIPPED for v in life.of(stage, distractor).values())

    everything = sum(v is not Label.SKIPPED for v in truth.values())
    staged = least = calls(Stage.PARAMETRIC)
    if Label.CORRECT in life.of(Stage.PARAMETRIC).values():
        return Costs(everything, staged, 1)
    if not life.passed(Stage.PARAMETRIC):
        return Costs(everything, staged, least)
    staged += calls(Stage.SOLVABLE)
    if not life.passed(Stage.SOLVABLE):
        return Costs(everything, staged, least + calls(Stage.SOLVABLE))
    least += 1
    staged += sum(calls(Stage.DISTRACTOR, d) for d in distractors)
    lost = [d for d in distractors if Label.CORRECT in life.of(Stage.DISTRACTOR, d).values()]
    if fate.stage == "distractors":
        return Costs(everything, staged, least + max(0, len(distractors) - rules.k_min + 1))
    gone = set(lost)
    needed = sum(1 if d in gone else calls(Stage.DISTRACTOR, d) for d in life._considered())
    return Costs(everything, staged, least + needed)


class Expected(NamedTuple):
    """Mean calls about one sample, per gate and stage."""

    calls: dict[tuple[str, Stage], float]
    algorithm1: dict[tuple[str, Stage], float]
    kept: float
    """Share of samples that stay."""


def expected(
    gates: Sequence[Gate],
    candidates: int,
    rules: Rules,
    rates: Mapping[tuple[str, Stage], float],
    *,
    draws: int = 400,
    seed: int = 0,
) -> Expected:
    """What asking is expected to cost, by playing ``draws`` samples through the funnel with labels drawn at random.

    Args:
        gates: that take part.
        candidates: distractors per sample.
        rules: what decides.
        rates: (gate, stage) -> probability of CORRECT, in [0, 1]; gates are taken as independent of each other.
        draws: samples played.
        seed: of the draws.
    """
    dice = random.Random(seed_of(seed, "expected"))
    ids = [f"d{i}" for i in range(candidates)]
    lazy: Counter[tuple[str, Stage]] = Counter()
    naive: Counter[tuple[str, Stage]] = Counter()
    experience = Experience()
    kept = 0
    for _ in range(draws):
        life = Life(gates, ids, rules, experience=experience)
        while wanted := life.wanted():
            for probe in wanted:
                lazy[probe.gate, probe.stage] += 1
                hit = dice.random() < rates.get((probe.gate, probe.stage), 0.5)
                life.tell(probe, Label.CORRECT if hit else Label.INCORRECT)
        fate = life.fate()
        kept += fate is not None and fate.kept
        for gate in gates:
            for stage in gate.stages:
                if stage is Stage.PARAMETRIC or life.passed(Stage.PARAMETRIC):
                    if stage is Stage.DISTRACTOR and not life.passed(Stage.SOLVABLE):
                        continue
                    naive[gate.name, stage] += candidates if stage is Stage.DISTRACTOR else 1
    return Expected({k: v / draws for k, v in lazy.items()}, {k: v / draws for k, v in naive.items()}, kept / draws)
