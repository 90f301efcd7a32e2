"""What a release costs in calls to gates: by three ways of asking, at least, and as expected beforehand."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple, Protocol

from demur.curation.experience import Experience, Kinds
from demur.curation.funnel import MINING, Gate, Life, Probe, Rules, Stage, settling
from demur.curation.gate import Label
from demur.errors import UsageError
from demur.store import seed_of


class Naive(Life):
    """Algorithm 1 as printed: stage after stage, each time every gate about everything."""

    def wanted(self) -> tuple[Probe, ...]:
        """Everything of the stage that the sample is in."""
        open_ones = [p for p in self.all_probes() if p not in self.labels]
        for stage in Stage:
            if now := tuple(p for p in open_ones if p.stage is stage):
                return now
            if stage is not Stage.DISTRACTOR and not self.passed(stage):
                return ()
        return ()

    def choices(self, probe: Probe, within: float = 1.0) -> list[str]:
        """All are asked."""
        return [probe.gate]


def naive_calls(life: Life) -> int:
    """Calls that Algorithm 1 makes about a sample whose fate is known; a gate that cannot be asked makes none."""
    calls = _callable(life, Stage.PARAMETRIC)
    if life.passed(Stage.PARAMETRIC):
        calls += _callable(life, Stage.SOLVABLE)
        if life.passed(Stage.SOLVABLE):
            calls += sum(_callable(life, Stage.DISTRACTOR, d) for d in life.distractors)
    return calls


def _callable(life: Life, stage: Stage, distractor: str = "") -> int:
    """Gates that can be asked a question, asked or not."""
    return sum(v is not Label.SKIPPED for v in life.of(stage, distractor).values())


class Costs(NamedTuple):
    """Calls about one sample, by three ways of asking."""

    exhaustive: int
    """Every gate everything."""
    algorithm1: int
    """Algorithm 1 as printed: stage after stage, every gate of a stage (`Naive`)."""
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
        return _callable(life, stage, distractor)

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
    if fate.stage in ("distractors", MINING):
        candidates = sum(calls(Stage.DISTRACTOR, d) > 0 for d in distractors)
        return Costs(everything, staged, least + max(0, candidates - rules.k_min + 1))
    gone = set(lost)
    needed = sum(1 if d in gone else calls(Stage.DISTRACTOR, d) for d in life.considered())
    return Costs(everything, staged, least + needed)


# --- expected ------------------------------------------------------------------------------------

Question = Callable[[str], bool]
"""Gate -> whether its answer settles this question."""


class Guess(Protocol):
    """How a question of a stage may turn out."""

    def question(self, dice: random.Random) -> Question:
        """Draw one; a gate is asked at most once."""


class Learnt(NamedTuple):
    """As the questions asked before."""

    kinds: Kinds

    def question(self, dice: random.Random) -> Question:
        """A kind, then each gate by its rate there."""
        (kind,) = dice.choices(range(len(self.kinds.weights)), self.kinds.weights)
        rates = dict(zip(self.kinds.gates, self.kinds.rates[kind], strict=True))
        return lambda gate: dice.random() < rates.get(gate, 0.5)


class Assumed(NamedTuple):
    """By a rate for each gate, and how much gates have in common."""

    rates: Mapping[str, float]
    """Gate -> probability that its answer settles a question, in [0, 1]."""
    together: float
    """Correlation of what lies behind two gates' answers (a one-factor probit): 0, they are independent; 1, a better
    gate settles all that a worse one does."""

    def question(self, dice: random.Random) -> Question:
        """How hard it is, for all gates and for each."""
        common = math.sqrt(self.together) * dice.gauss(0, 1)

        def settles(gate: str) -> bool:
            rate = self.rates.get(gate, 0.5)
            own = math.sqrt(1 - self.together) * dice.gauss(0, 1)
            return rate > 0 and (rate >= 1 or common + own < NormalDist().inv_cdf(rate))

        return settles


class Expected(NamedTuple):
    """Mean calls about one sample, per gate and stage."""

    calls: dict[tuple[str, Stage], float]
    algorithm1: dict[tuple[str, Stage], float]
    spread: float
    """Standard deviation of one sample's calls, over samples."""
    kept: float
    """Share of samples that stay."""


def expected(
    gates: Sequence[Gate],
    candidates: Sequence[frozenset[str]] | int,
    rules: Rules,
    guesses: Mapping[Stage, Guess],
    *,
    draws: int = 400,
    seed: int = 0,
) -> Expected:
    """What asking is expected to cost, by playing ``draws`` samples through the funnel with labels drawn at random.

    Args:
        gates: that take part, each in the stages in which it can be asked about these samples.
        candidates: distractors per sample; or for each of them, best first, the gates that can be asked about it.
        rules: what decides.
        guesses: how questions of each stage turn out.
        draws: samples played.
        seed: of the draws.
    """
    dice = random.Random(seed_of(seed, "expected"))
    if isinstance(candidates, int):
        candidates = [frozenset(g.name for g in gates)] * candidates
    ids = {f"d{i}": who for i, who in enumerate(candidates)}
    cannot = {
        Probe(g.name, Stage.DISTRACTOR, d): Label.SKIPPED
        for g in gates if Stage.DISTRACTOR in g.stages for d, who in ids.items() if g.name not in who
    }  # fmt: skip
    lazy: Counter[tuple[str, Stage]] = Counter()
    naive: Counter[tuple[str, Stage]] = Counter()
    experience = Experience()
    kept, squares, total = 0, 0, 0
    for _ in range(draws):
        life = Life(gates, list(ids), rules, experience=experience, labels=dict(cannot))
        questions: dict[tuple[Stage, str], Question] = {}
        asked = 0
        while wanted := life.wanted():
            for probe in wanted:
                where = (probe.stage, probe.distractor)
                if where not in questions:
                    questions[where] = guesses[probe.stage].question(dice)
                lazy[probe.gate, probe.stage] += 1
                asked += 1
                yes = next(iter(sorted(settling(probe.stage, rules))))
                life.tell(probe, yes if questions[where](probe.gate) else Label.INCORRECT)
        squares, total = squares + asked * asked, total + asked
        fate = life.fate()
        kept += fate is not None and fate.kept
        for gate in gates:
            for stage in gate.stages:
                if stage is Stage.PARAMETRIC or life.passed(Stage.PARAMETRIC):
                    if stage is Stage.DISTRACTOR and not life.passed(Stage.SOLVABLE):
                        continue
                    naive[gate.name, stage] += (
                        sum(gate.name in who for who in candidates) if stage is Stage.DISTRACTOR else 1
                    )
    mean = total / draws
    return Expected(
        {k: v / draws for k, v in lazy.items()}, {k: v / draws for k, v in naive.items()},
        math.sqrt(max(0.0, squares / draws - mean * mean)), kept / draws,
    )  # fmt: skip
