"""The funnel of one sample: which answers are still needed, and what they decide.

VLM-DeflectionBench's three stages (sections 3.1-3.3, Algorithm 1) ask every gate everything. The release does
not depend on most of those answers: one CORRECT ends a stage, a sample dropped in Stage I needs no Stage III,
and when fewer than K_min distractors can survive nobody has to know which. `Life` knows which answers can
still change the outcome and asks for those alone, in waves, cheapest gate first; ``exhaustive`` asks for all.
Both end in the same decision for the same labels (a property test holds them to it), because decisions are
three-valued functions of labels (`demur.curation.gate`) and none depends on an answer that was not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        cost: what one answer costs, in any one unit; cheaper gates are asked first.
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


@dataclass
class Life:
    """One sample on its way through the stages.

    Args:
        gates: all that take part, in any order.
        distractors: ids of its candidate distractors, best first.
        rules: what decides.
        exhaustive: ask every gate everything (needed for the convergence figure), decide the same.
    """

    gates: Sequence[Gate]
    distractors: Sequence[str]
    rules: Rules = DEFAULT_RULES
    exhaustive: bool = False
    labels: dict[Probe, Label] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(Stage.PARAMETRIC in g.stages for g in self.gates):
            raise UsageError("no gate is asked without evidence", cure="name at least one gate")
        if self.rules.k_enough is not None and self.rules.k_enough < self.rules.k_min:
            raise UsageError(f"k_enough={self.rules.k_enough} is below k_min={self.rules.k_min}", cure="raise k_enough")
        self._ordered = sorted(self.gates, key=lambda g: (g.cost, g.name))

    def tell(self, probe: Probe, label: Label) -> None:
        """Learn one label."""
        self.labels[probe] = label

    def wanted(self) -> tuple[Probe, ...]:
        """The next probes to ask, all at once; empty when the fate is known.

        For each undecided question only the cheapest gate not yet asked is named, and of the distractors as many
        as may still be needed, so that a wave is wide enough to keep endpoints busy and no wider.
        """
        if self.exhaustive:
            return tuple(p for p in self.all_probes() if p not in self.labels)
        for stage, keep in ((Stage.PARAMETRIC, self._parametric()), (Stage.SOLVABLE, self._solvable())):
            if keep is False:
                return ()
            if keep is None:
                return self._next(stage)
        return self._wanted_distractors()

    def all_probes(self) -> Iterable[Probe]:
        """Everything that could be asked about this sample: what Algorithm 1 asks when run naively."""
        for stage in Stage:
            for shown in self.distractors if stage is Stage.DISTRACTOR else ("",):
                for gate in self._ordered:
                    if stage in gate.stages:
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
        verdicts = {d: misleads(self.of(Stage.DISTRACTOR, d)) for d in self._considered()}
        open_ones = [d for d, v in verdicts.items() if v is None and self._next(Stage.DISTRACTOR, d)]
        sure = [d for d, v in verdicts.items() if v is True]
        possible = len(sure) + len(open_ones)
        if possible < rules.k_min:
            return Fate(False, "distractors", f"fewer than {rules.k_min} distractors leave it unanswerable")
        if open_ones:
            return None
        lost = tuple(
            (d, "alone it lets a gate answer" if v is False else "a verdict on it could not be had")
            for d, v in verdicts.items()
            if v is not True
        )
        return Fate(True, "", "kept", tuple(sure), lost)

    def passed(self, stage: Stage) -> bool:
        """Whether the sample is known to pass Stage I, or to be solvable."""
        return (self._parametric() if stage is Stage.PARAMETRIC else self._solvable()) is True

    def of(self, stage: Stage, distractor: str = "") -> dict[str, Label | None]:
        """What each gate of a stage said; None where it was not asked."""
        return {g.name: self.labels.get(Probe(g.name, stage, distractor)) for g in self._ordered if stage in g.stages}

    # --- the stages

    def _parametric(self) -> bool | None:
        return unknown_without_evidence(self.of(Stage.PARAMETRIC), self.rules.parametric)

    def _solvable(self) -> bool | None:
        return solvable_with_gold(self.of(Stage.SOLVABLE), self.rules.solvable)

    def _next(self, stage: Stage, distractor: str = "") -> tuple[Probe, ...]:
        """The cheapest probe of a question that has no label yet."""
        for name, label in self.of(stage, distractor).items():
            if label is None:
                return (Probe(name, stage, distractor),)
        return ()

    def _held(self, stage: Stage) -> Fate:
        return Fate(False, HELD, f"a verdict of the {stage.value} stage could not be had")

    def _considered(self) -> list[str]:
        """The distractors that the outcome depends on: all, or the first ones up to ``k_enough`` survivors."""
        if self.rules.k_enough is None:
            return list(self.distractors)
        out, sure = [], 0
        for d in self.distractors:
            if sure >= self.rules.k_enough:
                break
            out.append(d)
            sure += misleads(self.of(Stage.DISTRACTOR, d)) is True
        return out

    def _wanted_distractors(self) -> tuple[Probe, ...]:
        verdicts = {d: misleads(self.of(Stage.DISTRACTOR, d)) for d in self.distractors}
        undecided = [d for d in self.distractors if verdicts[d] is None and self._next(Stage.DISTRACTOR, d)]
        sure = sum(v is True for v in verdicts.values())
        if not undecided or sure + len(undecided) < self.rules.k_min:
            return ()
        if self.rules.k_enough is not None:
            if sure >= self.rules.k_enough:
                return ()
            undecided = undecided[: self.rules.k_enough - sure]
        elif sure + len(undecided) > self.rules.k_min > sure:
            # While it is open whether the sample can be kept at all, ask no more than decides that first.
            spare = sure + len(undecided) - self.rules.k_min + 1
            undecided = undecided[: max(spare, self.rules.k_min - sure)]
        return tuple(p for d in undecided for p in self._next(Stage.DISTRACTOR, d))
