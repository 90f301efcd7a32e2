"""The funnel of one sample: which answers are still needed, and what they decide.

VLM-DeflectionBench's three stages (sections 3.1-3.3, Algorithm 1) ask every gate everything. The release does not
depend on most of those answers: one CORRECT ends a stage, a sample dropped in Stage I needs no Stage III, and when
fewer than K_min distractors can survive, it does not matter which. `SampleState` asks only for answers that can still
change the outcome, the gate with the best chance to settle it for its cost first (`demur.curation.gates.order`);
``exhaustive`` asks for all. Both reach the same decision for the same labels (a property test checks it), because
decisions are three-valued functions of labels (`demur.curation.gates.rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from demur.core.errors import UsageError
from demur.core.records import Record
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import (
    Label,
    Parametric,
    Solvable,
    misleads,
    none_can_be_asked,
    solvable_with_gold,
    unknown_without_evidence,
)

HELD = "held"
"""Stage of a sample that cannot be decided because an answer is missing."""
MINING = "mining"
"""Stage of a sample with too few mined distractors."""


class Stage(StrEnum):
    """The stages in their order."""

    PARAMETRIC = "parametric"
    SOLVABLE = "solvable"
    DISTRACTOR = "distractor"


HOW_ASKED = {
    Stage.PARAMETRIC: "without evidence",
    Stage.SOLVABLE: "with the gold evidence",
    Stage.DISTRACTOR: "alone",
}
"""How a gate is asked in each stage, for messages."""


WAVES = {Stage.PARAMETRIC: 3, Stage.SOLVABLE: 2, Stage.DISTRACTOR: 2}
"""Where calls go in batches: waves in which the gates of one question are asked, the first ones with fewer gates."""


class GatingModel(NamedTuple):
    """A model that takes part in curation.

    Attributes:
        name: system id.
        stages: where it is asked. A question-only prior cannot use evidence.
        cost: of one answer, in any unit; a cheap gate is asked before an expensive one that settles as much.
    """

    name: str
    stages: frozenset[Stage] = frozenset(Stage)
    cost: float = 1.0


class Rules(Record):
    """What decides; see `demur.curation.gates.rules`."""

    parametric: Parametric = "not_correct"
    """Stage I: ``not_correct`` keeps what no gate answers; ``literal`` what every gate is judged to answer wrongly (eq. 1)."""
    solvable: Solvable = "any_correct"
    """Stage III: ``any_correct``; ``equation4`` and ``algorithm1`` as the paper prints them, to show the difference."""
    k_min: int = Field(default=5, ge=0)
    """Fewest distractors of a kept sample."""
    k_enough: int | None = Field(default=None, ge=1)
    """Check a sample's distractors, best first, until that many have stayed; None checks all."""

    @model_validator(mode="after")
    def _enough_is_no_less(self) -> Self:
        if self.k_enough is not None and self.k_enough < self.k_min:
            raise ValueError(f"k_enough={self.k_enough} is below k_min={self.k_min}")
        return self


DEFAULT_RULES = Rules()


class GateQuery(NamedTuple):
    """One question to one gate: a stage's context for one sample.

    Attributes:
        distractor: id of the distractor shown alone (stage DISTRACTOR), else "".
    """

    gate: str
    stage: Stage
    distractor: str = ""


class Decision(NamedTuple):
    """Whether a sample is kept, and why.

    Attributes:
        kept: whether it is in the release.
        stage: where it was dropped: parametric, solvable, mining (too few candidates), distractors, ``held``; "" when
            kept.
        why: one line, the same for every order of answers.
        survivors: distractors that stay, in the order given (empty unless kept).
        lost: (distractor, why it was dropped), of a kept sample.
    """

    kept: bool
    stage: str
    why: str
    survivors: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()


def settling(stage: Stage, rules: Rules) -> frozenset[Label]:
    """Labels that settle a question of a stage: one gate with such a label is enough."""
    deflection_too = (stage is Stage.PARAMETRIC and rules.parametric == "literal") or (
        stage is Stage.SOLVABLE and rules.solvable == "equation4"
    )
    return frozenset({Label.CORRECT, Label.DEFLECTED} if deflection_too else {Label.CORRECT})


@dataclass
class SampleState:
    """One sample on its way through the stages.

    Args:
        gates: all gates, in any order.
        distractors: ids of its candidate distractors, best first.
        exhaustive: ask every gate everything (the convergence figure needs it); the decision is the same.
        order: chooses the gate to ask next; the states of a build share it, so that each learns from the others.
        group: samples that are alike, such as a source; successes are counted per group.

    Note gates that cannot be asked a question beforehand, as `Label.SKIPPED`: no count of calls includes them.
    """

    gates: Sequence[GatingModel]
    distractors: Sequence[str]
    rules: Rules = DEFAULT_RULES
    exhaustive: bool = False
    order: SuccessCounter = field(default_factory=SuccessCounter)
    group: str = ""
    labels: dict[GateQuery, Label] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(Stage.PARAMETRIC in g.stages for g in self.gates):
            raise UsageError("no gate is asked without evidence", cure="name at least one gate")
        self._of_stage = {stage: [g for g in self.gates if stage in g.stages] for stage in Stage}

    def tell(self, query: GateQuery, label: Label) -> None:
        """Record one label."""
        if label not in (Label.SKIPPED, Label.MISSING):
            self.order.note(
                query.stage, self.group, query.gate, label in settling(query.stage, self.rules)
            )
        self.labels[query] = label

    def choices(self, query: GateQuery, within: float = 1.0) -> list[str]:
        """Gates that can answer a wanted question, the best first; the decision is the same with any of them.

        Args:
            query: from `wanted`.
            within: leave out gates whose expected cost of a settling answer is more than this many times the least; at
                least 1.
        """
        if self.exhaustive:
            return [query.gate]
        unasked = self._unasked_gates(query.stage, query.distractor)
        prices = sorted(self.order.price(g.name, g.cost, query.stage, self.group) for g in unasked)
        return [name for price, _, name in prices if price <= within * prices[0][0]]

    def wanted(self) -> tuple[GateQuery, ...]:
        """The next queries to ask, all at once; empty when the decision is known.

        Each undecided question names only the best gate to ask next (see `SuccessCounter`). Distractors are limited to
        those that must be asked whatever the answers are.
        """
        if self.exhaustive:
            return tuple(p for p in self.all_queries() if p not in self.labels)
        if self.rules.parametric == "literal" and self._passes_parametric() is False:
            # The literal rule is reported beside the default, whose count must be known too.
            if unknown_without_evidence(self.labels_of(Stage.PARAMETRIC)) is None:
                return self._next_queries(Stage.PARAMETRIC)
            return ()
        for stage, keep in (
            (Stage.PARAMETRIC, self._passes_parametric()),
            (Stage.SOLVABLE, self._is_solvable()),
        ):
            if keep is False:
                return ()
            if keep is None:
                return self._next_queries(stage)
        open_distractors = self._open_distractors()
        return tuple(p for d in open_distractors for p in self._next_queries(Stage.DISTRACTOR, d))

    def wave(self) -> tuple[GateQuery, ...]:
        """The queries of the next wave: as `wanted`, but so many at once that all are asked within `WAVES`."""
        queries = self.wanted()
        if self.exhaustive or not queries:
            return queries
        stage, questions = queries[0].stage, [query.distractor for query in queries]
        if stage is Stage.DISTRACTOR:
            questions = self._open_distractors(until_sure=False)
        return tuple(query for question in questions for query in self._in_wave(stage, question))

    def _in_wave(self, stage: Stage, distractor: str) -> Iterator[GateQuery]:
        """Some of the gates that a question was not asked of, the best first; of equals the one asked least."""
        labels = [v for v in self.labels_of(stage, distractor).values() if v is not Label.SKIPPED]
        answered, waves = sum(label is not None for label in labels), WAVES[stage]
        upto = next(n for w in range(1, waves + 1) if (n := len(labels) * w // waves) > answered)

        def rank(gate: GatingModel) -> tuple[float, int, float, str]:
            price, cost, name = self.order.price(gate.name, gate.cost, stage, self.group)
            return price, self.order.planned[stage, self.group, name], cost, name

        for gate in sorted(self._unasked_gates(stage, distractor), key=rank)[: upto - answered]:
            self.order.planned[stage, self.group, gate.name] += 1
            yield GateQuery(gate.name, stage, distractor)

    def all_queries(self) -> Iterable[GateQuery]:
        """Every query about this sample."""
        for stage in Stage:
            for distractor in self.distractors if stage is Stage.DISTRACTOR else ("",):
                for gate in self._of_stage[stage]:
                    yield GateQuery(gate.name, stage, distractor)

    def decision(self) -> Decision | None:
        """The decision; None while an answer that matters is missing."""
        rules = self.rules
        checks = (
            (
                Stage.PARAMETRIC,
                self._passes_parametric(),
                "a gate answers it without evidence"
                if rules.parametric == "not_correct"
                else "not every gate's answer without evidence was judged wrong",
            ),
            (
                Stage.SOLVABLE,
                self._is_solvable(),
                "no gate answers it with the gold evidence"
                if rules.solvable == "any_correct"
                else f"the {rules.solvable} rule calls it unsolvable",
            ),
        )
        for stage, keep, why in checks:
            if keep is None:
                if self._unasked_gates(stage):
                    return None
                if none_can_be_asked(self.labels_of(stage)):
                    return Decision(
                        False, stage.value, f"no gate can be asked about it {HOW_ASKED[stage]}"
                    )
                return self._hold(stage)
            if not keep:
                return Decision(False, stage.value, why)
        if len(self.distractors) < rules.k_min:
            return Decision(False, MINING, f"fewer than {rules.k_min} distractors were found")
        if sum(map(self._can_be_asked, self.distractors)) < rules.k_min:
            return Decision(
                False,
                "distractors",
                f"gates can be asked about fewer than {rules.k_min} of its distractors",
            )
        if self._count_possible() < rules.k_min:
            return Decision(
                False, "distractors", f"fewer than {rules.k_min} distractors leave it unanswerable"
            )
        considered = self.considered()
        verdicts = {d: self._misleads(d) for d in considered}
        if any(v is None and self._unasked_gates(Stage.DISTRACTOR, d) for d, v in verdicts.items()):
            return None
        sure = [d for d, v in verdicts.items() if v is True]
        if len(sure) < rules.k_min:  # graded, the others might have been enough
            return self._hold(Stage.DISTRACTOR)
        lost = [(d, self._why_lost(d, v)) for d, v in verdicts.items() if v is not True]
        lost += [
            (d, f"{rules.k_enough} better ones stay already")
            for d in self.distractors[len(considered) :]
        ]
        return Decision(True, "", "kept", tuple(sure), tuple(lost))

    def passed(self, stage: Stage) -> bool:
        """Whether the sample is known to pass Stage I (``PARAMETRIC``) or the solvable check (any other stage)."""
        return (
            self._passes_parametric() if stage is Stage.PARAMETRIC else self._is_solvable()
        ) is True

    def labels_of(self, stage: Stage, distractor: str = "") -> dict[str, Label | None]:
        """Each gate's label in a stage, in the order of the recipe; None where it was not asked."""
        return {
            g.name: self.labels.get(GateQuery(g.name, stage, distractor))
            for g in self._of_stage[stage]
        }

    def considered(self) -> list[str]:
        """The distractors that the outcome depends on: all, or the first ones until ``k_enough`` survive."""
        if self.rules.k_enough is None:
            return list(self.distractors)
        out, sure = [], 0
        for d in self.distractors:
            if sure >= self.rules.k_enough:
                break
            out.append(d)
            sure += self._misleads(d) is True
        return out

    # --- the stages

    def _passes_parametric(self) -> bool | None:
        return unknown_without_evidence(self.labels_of(Stage.PARAMETRIC), self.rules.parametric)

    def _is_solvable(self) -> bool | None:
        return solvable_with_gold(self.labels_of(Stage.SOLVABLE), self.rules.solvable)

    def _misleads(self, distractor: str) -> bool | None:
        return misleads(self.labels_of(Stage.DISTRACTOR, distractor))

    def _unasked_gates(self, stage: Stage, distractor: str = "") -> list[GatingModel]:
        """Gates that have not been asked a question yet."""
        return [
            g
            for g in self._of_stage[stage]
            if GateQuery(g.name, stage, distractor) not in self.labels
        ]

    def _next_queries(self, stage: Stage, distractor: str = "") -> tuple[GateQuery, ...]:
        """The best query to ask next about a question; none when every gate has been asked."""
        prices = [
            self.order.price(g.name, g.cost, stage, self.group)
            for g in self._unasked_gates(stage, distractor)
        ]
        return (GateQuery(min(prices)[-1], stage, distractor),) if prices else ()

    def _hold(self, stage: Stage) -> Decision:
        return Decision(False, HELD, f"an answer is missing in stage {stage.value}")

    def _can_be_asked(self, distractor: str) -> bool:
        """Whether some gate can be asked about a distractor; a distractor that nobody can check never stays."""
        return not none_can_be_asked(self.labels_of(Stage.DISTRACTOR, distractor))

    def _why_lost(self, distractor: str, misleading: bool | None) -> str:
        if misleading is False:
            return "alone it lets a gate answer"
        if self._can_be_asked(distractor):
            return "an answer is missing"
        return f"no gate can be asked about it {HOW_ASKED[Stage.DISTRACTOR]}"

    def _count_possible(self) -> int:
        """Number of distractors that may still stay: not known to help, and some gate can be asked about them."""
        return sum(
            self._misleads(d) is not False and self._can_be_asked(d) for d in self.distractors
        )

    def _open_distractors(self, *, until_sure: bool = True) -> list[str]:
        """The distractors that must be asked about whatever the answers are; those likeliest to end the sample first.

        Args:
            until_sure: until the sample is sure to stay, only as many as would end it if all were lost.
        """
        possible = self._count_possible()
        if possible < self.rules.k_min:
            return []
        considered = self.considered()
        undecided = [
            d
            for d in considered
            if self._misleads(d) is None and self._unasked_gates(Stage.DISTRACTOR, d)
        ]
        sure = sum(self._misleads(d) is True for d in considered)
        if self.rules.k_enough is not None:
            undecided = undecided[: max(1, self.rules.k_enough - sure)]
        if until_sure and sure < self.rules.k_min:
            # A distractor that few gates have failed with is likelier to help the next one.
            undecided.sort(key=lambda d: -len(self._unasked_gates(Stage.DISTRACTOR, d)))
            undecided = undecided[: possible - self.rules.k_min + 1]
        return undecided
