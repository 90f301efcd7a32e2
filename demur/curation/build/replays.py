"""Replays samples of a pool through the funnel with known or drawn labels, and counts what would be asked.

Samples are replayed with known verdicts: their own, or those of another sample. Other labels are drawn by the gate's
rate. How much gates know in common is then unknown, so labels are drawn for both extremes: independent gates, and
nested ones, where each gate knows all that a weaker one knows. Intervals cover both extremes, and chance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.core.records import Sample
from demur.core.stats import z_of
from demur.core.store import seed_of
from demur.curation.build.askable import Askable
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.verdicts import (
    GateRates,
    KnownVerdicts,
    Labels,
    Place,
    Verdicts,
    choose_donors,
)
from demur.curation.gates.costs import algorithm1_calls, replay
from demur.curation.gates.funnel import GateQuery, Rules, SampleState, settling
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label

if TYPE_CHECKING:
    import numpy.typing as npt

REPLAYS = 1000
"""Number of replayed samples, roughly."""
LEFT, DRAWN, ALGORITHM1, BEFORE = range(4)
"""Counts of a replayed sample: its questions without a verdict in the build folder; those whose answer was drawn by a
rate; the questions of Algorithm 1; those put before the one that settled the same question."""


class Replayed(NamedTuple):
    """Counts of S replayed samples."""

    questions: npt.NDArray[np.float64]
    """(S, 4, places)."""
    is_kept: npt.NDArray[np.float64]
    """(S,) 1 for a kept sample."""


@dataclass(frozen=True)
class Projection:
    """What replayed samples say about a pool of ``pool_size`` samples."""

    pool_size: int
    known_size: int
    """Samples with known verdicts."""
    outcomes: tuple[Replayed, Replayed]
    """With independent and with nested gates."""
    is_own: npt.NDArray[np.bool_]
    """(S,) whether a sample was replayed with all verdicts that are known of it, and no others."""

    def mean(self, column: int) -> npt.NDArray[np.float64]:
        """(places,) expected number of questions of a kind in the whole pool."""
        means = [outcome.questions[:, column].mean(axis=0) for outcome in self.outcomes]
        total: npt.NDArray[np.float64] = (self.pool_size * sum(means) / 2).round(9)
        return total

    @property
    def kept_share(self) -> float:
        """Expected share of the pool that is kept."""
        return float(np.mean([outcome.is_kept for outcome in self.outcomes]))

    def questions_interval(self, weights: npt.NDArray[np.float64]) -> tuple[float, float]:
        """Interval of the weighted number of questions in the whole pool.

        Where verdicts of another build answer all questions of a sample, only the order of gates is open: it may
        spare, or add, answers like those before one that settled.

        Args:
            weights: (places,) of a question.
        """
        rows = [outcome.questions[:, LEFT] @ weights for outcome in self.outcomes]
        return self._interval(rows, [self._variance_of_order(o, weights) for o in self.outcomes])

    def kept_interval(self) -> tuple[float, float]:
        """Interval of the share of the pool that is kept."""
        low, high = self._interval([outcome.is_kept for outcome in self.outcomes], [0.0, 0.0])
        return low / self.pool_size, high / self.pool_size

    def _interval(
        self, rows: Sequence[npt.NDArray[np.float64]], more_variance: Sequence[float]
    ) -> tuple[float, float]:
        """Interval of a sum over the pool that covers both extremes and chance.

        The variance of open samples is that of new ones, of the known ones that they are replayed by, and of the
        replays.

        Args:
            rows: (S,) for each outcome.
            more_variance: for each outcome.
        """
        sums, spreads = [], []
        for outcome, values, variance in zip(self.outcomes, rows, more_variance, strict=True):
            is_open, replays = self._open(outcome)[1], len(values)
            open_count = self.pool_size * is_open.mean()
            if open_count:
                shares = open_count / (self.known_size or self.pool_size)
                chance = 1 + shares + self.pool_size / replays
                variance += values[is_open].var() * open_count * chance
            sums.append(self.pool_size * float(values.mean()))
            spreads.append(z_of() * math.sqrt(variance))
        return max(0.0, min(sums) - max(spreads)), max(sums) + max(spreads)

    def _open(self, outcome: Replayed) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """(S,) which samples have questions, and which have some that their own verdicts do not answer."""
        has_questions, has_guesses = (
            outcome.questions[:, column].sum(axis=1) > 0 for column in (LEFT, DRAWN)
        )
        return has_questions, has_questions & (has_guesses | ~self.is_own)

    def _variance_of_order(self, outcome: Replayed, weights: npt.NDArray[np.float64]) -> float:
        has_questions, is_open = self._open(outcome)
        by_order = outcome.questions[:, BEFORE] @ weights
        squares = (by_order[has_questions & ~is_open] ** 2).sum()
        return 2 * self.pool_size * float(squares) / len(by_order)


def project(
    recipe: BuildRecipe,
    samples: Sequence[Sample],
    askable: Askable,
    verdicts: KnownVerdicts,
    rates: GateRates,
) -> Projection:
    """Replay about `REPLAYS` samples of a pool, or the pool several times, with independent and with nested gates."""
    n = len(samples)
    replayed = samples[:: n // REPLAYS] if n >= REPLAYS else [*samples] * -(-REPLAYS // n)
    donated = choose_donors(samples, verdicts, rates)
    replays = _Replays(recipe, askable, verdicts.recorded, rates.rate)
    outcomes = (
        replays.replay_samples(replayed, donated, nested=False),
        replays.replay_samples(replayed, donated, nested=True),
    )
    is_own = np.array([donated[s.id] == verdicts.known.get(s.id) for s in replayed])
    return Projection(n, len(verdicts.known), outcomes, is_own)


@dataclass(frozen=True)
class _Replays:
    """Replays samples: from the start, or from where the build folder's own verdicts end."""

    recipe: BuildRecipe
    askable: Askable
    own_verdicts: Mapping[str, Verdicts]
    """Sample -> what the build folder holds."""
    rate: Mapping[Place, float]
    """For unknown labels; its keys are the places."""

    def replay_samples(
        self, samples: Sequence[Sample], donated: Mapping[str, Verdicts], *, nested: bool
    ) -> Replayed:
        """Replay samples through the funnel.

        Args:
            donated: sample -> verdicts to replay it with.
            nested: draw other labels for nested gates; else for independent ones.
        """
        dice, order = random.Random(seed_of(self.recipe.seed, "estimate")), SuccessCounter()
        questions = np.zeros((len(samples), 4, len(self.rate)))
        is_kept = np.zeros(len(samples))
        for row, sample in enumerate(samples):
            verdicts = donated[sample.id]
            state = self._fresh_state(sample, verdicts, order)
            labels = verdicts.labels
            if sample.id in self.own_verdicts:
                for query, label in labels.items():
                    state.tell(query, label)
                labels = {}
            self._replay(state, labels, questions[row], _Draw(self.rate, dice, nested=nested))
            decision = state.decision()
            is_kept[row] = decision is not None and decision.kept
        return Replayed(questions, is_kept)

    def _replay(
        self,
        state: SampleState,
        labels: Labels,
        counts: npt.NDArray[np.float64],
        draw: _Draw,
    ) -> None:
        """Take one sample through the funnel and count its questions.

        Args:
            counts: (4, places), to be increased.
        """
        at = {place: i for i, place in enumerate(self.rate)}
        rules = self.recipe.rules

        def drawn_label(query: GateQuery) -> Label:
            counts[DRAWN, at[query.gate, query.stage]] += 1
            return draw.label(query, state)

        # By price, labels of a build that asked no more than it had to would spare it calls in hindsight.
        as_asked = _was_asked_lazily(labels, rules)
        settled = set()
        for query in reversed(replay(state, labels, drawn_label, as_asked=as_asked)):
            column, question = at[query.gate, query.stage], query[1:]
            counts[LEFT, column] += 1
            counts[BEFORE, column] += question in settled
            if state.labels[query] in settling(query.stage, rules):
                settled.add(question)
        for place, n in algorithm1_calls(state).items():
            counts[ALGORITHM1, at[place]] = n

    def _fresh_state(
        self, sample: Sample, verdicts: Verdicts, order: SuccessCounter
    ) -> SampleState:
        """A sample before the funnel, with gates that cannot be asked marked."""
        gates_of_distractor = self.askable.distractors(sample, verdicts)
        state = SampleState(
            self.askable.gates,
            list(gates_of_distractor),
            self.recipe.rules,
            order=order,
            group=sample.source,
        )
        for query in state.all_queries():
            askable_gates = (
                gates_of_distractor[query.distractor]
                if query.distractor
                else self.askable.gates_of(sample, query.stage)
            )
            if query not in verdicts.labels and query.gate not in askable_gates:
                state.tell(query, Label.SKIPPED)
        return state


@dataclass(frozen=True)
class _Draw:
    """Draws unknown labels by the rates of the gates."""

    rate: Mapping[Place, float]
    dice: random.Random
    nested: bool

    def label(self, query: GateQuery, state: SampleState) -> Label:
        """The label of a query: of nested gates, one is never right where a better one was not."""
        rate, below = self.rate[query.gate, query.stage], 0.0
        if self.nested:
            answers = state.labels_of(query.stage, query.distractor).items()
            below = max(
                (
                    self.rate[gate, query.stage]
                    for gate, label in answers
                    if label not in (None, Label.SKIPPED)
                ),
                default=0.0,
            )
        is_right = rate > below and self.dice.random() < (rate - below) / (1 - below)
        return Label.CORRECT if is_right else Label.INCORRECT


def _was_asked_lazily(labels: Labels, rules: Rules) -> bool:
    """Whether no question was asked again after an answer that settled it."""
    settled = set()
    for query, label in labels.items():
        if query[1:] in settled:
            return False
        if label in settling(query.stage, rules):
            settled.add(query[1:])
    return True
