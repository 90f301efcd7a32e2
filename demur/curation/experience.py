"""What answers teach about the gates: which of them is likeliest to settle a question, given who has failed at it.

A question of the funnel is settled by one answer (see `demur.curation.funnel.settling`), so all that ever matters is
P(gate settles it | these gates did not). Gates are not independent: what one model does not know, others seldom know.
`Kinds` says how they hang together, by a latent class model: questions are of a few kinds, and within a kind gates
settle independently. It is fitted by expectation-maximisation to whatever answers were had. Lazy asking leaves
most answers out, but which ones depends on answers that *are* there, so the likelihood of those is all that is needed
("missing at random", Rubin 1976); counting rates per gate would be wrong, because late gates see the hard questions.

The same model orders the work of a build (`Experience`) and draws the samples of its plan
(`demur.curation.costs`). It moves neither a decision nor a byte of a release.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

KINDS = 3
"""Latent classes: with three, conditional rates of correlated gates come out within 0.02 (5,000 questions)."""
OPTIMISM = 3.0
"""Answers that a gate gets on credit: so many times is a gate tried that others seem to outdo."""
REFIT = 1.3
"""The model is fitted anew when there are that many times as many answers."""

Answers = frozenset[tuple[str, bool]]
"""Of one question: (gate, whether its answer settled it)."""


class Asked(Protocol):
    """What the order of work needs of a gate."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def cost(self) -> float:
        """Of one answer."""


class Kinds(NamedTuple):
    """Questions of K kinds, G gates."""

    gates: tuple[str, ...]
    weights: tuple[float, ...]
    """(K,) share of each kind, adding up to 1."""
    rates: tuple[tuple[float, ...], ...]
    """(K, G) probability that a gate settles a question of that kind."""

    def given(self, answers: Answers) -> tuple[float, ...]:
        """(K,) probability of each kind, after these answers."""
        place = {g: i for i, g in enumerate(self.gates)}
        likely = list(self.weights)
        for gate, settled in answers:
            if gate in place:
                at = place[gate]
                likely = [w * (r[at] if settled else 1 - r[at]) for w, r in zip(likely, self.rates, strict=True)]
        total = sum(likely)
        return tuple(w / total for w in likely) if total > 0 else self.weights

    def rate(self, gate: str, answers: Answers = frozenset()) -> float:
        """P(gate settles a question | answers)."""
        at = self.gates.index(gate)
        return sum(w * r[at] for w, r in zip(self.given(answers), self.rates, strict=True))


def fit(answers: Mapping[Answers, int], gates: Sequence[str], *, kinds: int = KINDS, rounds: int = 100) -> Kinds:
    """Fit by expectation-maximisation, from the same start every time.

    Args:
        answers: what was said of a question -> number of such questions.
        gates: G names.
        kinds: K.
        rounds: of the algorithm.
    """
    import numpy as np

    rows = sorted(answers.items(), key=lambda item: sorted(item[0]))
    place = {g: i for i, g in enumerate(gates)}
    hit, miss = np.zeros((len(rows), len(gates))), np.zeros((len(rows), len(gates)))
    for line, (said, _) in enumerate(rows):
        for gate, settled in said:
            if gate in place:
                (hit if settled else miss)[line, place[gate]] = 1
    count = np.array([n for _, n in rows], dtype=float)
    # at the start: kinds from those that nobody settles to those that everybody does, alike for all gates
    weights, share = np.full(kinds, 1 / kinds), (np.arange(kinds) + 0.5) / kinds
    rates = np.repeat(share[:, None], len(gates), axis=1)
    common = ((count @ hit).sum() + 1) / ((count @ (hit + miss)).sum() + 2)
    overall = (count @ hit + common) / (count @ (hit + miss) + 1)  # a gate not asked yet is like the others
    for _ in range(rounds):
        logs = np.log(weights) + hit @ np.log(rates).T + miss @ np.log1p(-rates).T
        of_kind = np.exp(logs - logs.max(axis=1, keepdims=True))
        of_kind = of_kind / of_kind.sum(axis=1, keepdims=True) * count[:, None]
        weights = (of_kind.sum(axis=0) + 0.5) / (count.sum() + 0.5 * kinds)
        # one imagined answer per gate and kind, as the gate does on the whole, and a bit: no rate is 0 or 1
        rates = (of_kind.T @ hit + overall + 0.05) / (of_kind.T @ (hit + miss) + 1.1)
    return Kinds(tuple(gates), tuple(weights.tolist()), tuple(tuple(r) for r in rates.tolist()))


class Experience:
    """Which gate to ask next: the one whose answer settles a question for the least expected money.

    One answer settles a question, so it is settled soonest by asking first where cost over probability is least (the
    optimal order of independent tests, Garey 1973; greedy, within a factor of four of the best for dependent ones,
    Feige, Lovasz and Tetali 2004). The probability is that of `Kinds` given the gates that have failed already,
    separately for each stage and each group of samples (its source), with some credit for a gate seldom tried.

    Args:
        learn: learn; False keeps to cheapest first.
    """

    def __init__(self, *, learn: bool = True) -> None:
        self.learn = learn
        self._seen: dict[tuple[str, str], Counter[Answers]] = defaultdict(Counter)
        self._tried: Counter[tuple[str, str, str]] = Counter()
        self._first: Counter[tuple[str, str, str]] = Counter()
        self._fitted: dict[tuple[str, str], tuple[int, Kinds]] = {}
        self._size: Counter[tuple[str, str]] = Counter()

    def note(self, stage: str, group: str, before: Answers, gate: str, settled: bool) -> None:
        """Learn from one answer.

        Args:
            stage: it was asked in.
            group: of samples.
            before: the other answers to the same question.
            gate: that answered.
            settled: whether its answer is one that settles the question.
        """
        where = (stage, group)
        seen = self._seen[where]
        if before:
            seen[before] -= 1
            if not seen[before]:
                del seen[before]
        else:
            self._first[stage, group, gate] += 1
        seen[before | {(gate, settled)}] += 1
        self._tried[stage, group, gate] += 1
        self._size[where] += 1

    def answers(self, stage: str, group: str | None = None) -> Counter[Answers]:
        """What was said of how many questions, of one group or of all."""
        found: Counter[Answers] = Counter()
        for (at, whose), seen in self._seen.items():
            if at == stage and group in (None, whose):
                found.update(seen)
        return found

    def price(
        self, gate: Asked, stage: str, group: str, answers: Answers, gates: Sequence[Asked]
    ) -> tuple[float, float, str]:
        """(what an answer that settles a question is expected to cost, cost of an answer, name): the least goes first.

        Args:
            gate: to be priced.
            stage: of the question.
            group: of its sample.
            answers: had of it already.
            gates: all that it could go to.
        """
        if not self.learn:
            return gate.cost, gate.cost, gate.name
        tried = (self._tried if answers else self._first)[stage, group, gate.name]
        rate = self._rate(gate.name, stage, group, answers, gates)
        rate += (1 - rate) * OPTIMISM / (OPTIMISM + tried)
        return gate.cost / rate, gate.cost, gate.name

    def _rate(self, gate: str, stage: str, group: str, answers: Answers, gates: Sequence[Asked]) -> float:
        where = (stage, group)
        size = self._size[where]
        fitted = self._fitted.get(where)
        if fitted is None or size > fitted[0] * REFIT or gate not in fitted[1].gates:
            known = {g for said in self._seen[where] for g, _ in said} | {g.name for g in gates}
            fitted = self._fitted[where] = (size + 8, fit(self._seen[where], sorted(known)))
        return fitted[1].rate(gate, answers)
