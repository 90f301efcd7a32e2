"""Estimates what a build will ask and cost before any call: calls, tokens and money per stage and gate.

Samples of the pool are replayed through the funnel with known verdicts: their own, or those of another sample (of this
folder, a pilot, an earlier release). Other labels are drawn by the gate's rate, which is measured if the gate was asked
often enough, else assumed. How much gates know in common is then unknown, so labels are drawn for both extremes:
independent gates, and nested ones, where each gate knows all that a weaker one knows. The interval covers both
extremes, and chance.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from demur.core.errors import UsageError
from demur.core.records import Modality, Record, Request, Sample
from demur.core.spec import split_part
from demur.core.stats import z_of
from demur.core.store import seed_of
from demur.core.uris import read_image
from demur.curation.context import enough_candidates, gate_opener, gates_of
from demur.curation.decisions import FILE as DECISIONS
from demur.curation.decisions import CandidateLine, read_decisions
from demur.curation.gates.askable import Skips, all_can_be_asked, gates_for
from demur.curation.gates.costs import algorithm1_calls, replay
from demur.curation.gates.funnel import (
    MINING,
    GateQuery,
    GatingModel,
    Rules,
    SampleState,
    Stage,
    settling,
)
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import (
    ask_of,
    model_options,
    read_journal,
    skip_reasons,
)
from demur.curation.knowledge_bases import align_gold, open_bases, retrieval_by_source
from demur.curation.recipe import BuildRecipe, GateSpec
from demur.curation.sample_pool import SampledPool, kept_pool, sample_sources
from demur.models.estimate import check_rate
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    import numpy.typing as npt


ASSUMED = {Stage.PARAMETRIC: 0.3, Stage.SOLVABLE: 0.6, Stage.DISTRACTOR: 0.1}
"""Probability of CORRECT where none was measured; the estimate marks it as assumed."""
MEASURED_FROM = 15
"""Answers of a gate in a stage from which its rate counts as measured; known samples from which others are replayed
by them."""
LEARNT_UP_TO = 0.05
"""Largest share of calls with answers drawn by unmeasured rates, of an estimate that counts as learnt."""
STAND_INS = 200
"""Questions that the mean size of distractor questions is estimated from."""
REPLAYS = 1000
"""Number of replayed samples, roughly."""
BUILT_IN = frozenset({"prior", "reader", "answers"})

QUESTIONS = (
    (Stage.PARAMETRIC, None),
    (Stage.SOLVABLE, None),
    *((Stage.DISTRACTOR, kind) for kind in Modality),
)
"""Stages, each with the modality of the distractor or None."""

Labels = Mapping[GateQuery, Label]
"""Known labels of one sample, in the order in which they were asked for."""
Place = tuple[str, Stage]
"""A gate in a stage."""


class Verdicts(NamedTuple):
    """What a build folder holds about one sample."""

    labels: Labels = MappingProxyType({})
    candidates: tuple[CandidateLine, ...] | None = None
    """Its candidate distractors; None of a sample that none were mined for."""


COUNTS = ("naive", "at_most", "expected", "had", "tokens")
"""Fields of `StageEstimate` that are sums of questions or tokens."""


class StageEstimate(Record):
    """One gate in one stage."""

    stage: Stage
    gate: str
    naive: int
    """Questions that Algorithm 1 asks it."""
    at_most: int
    """Questions if every sample reaches the stage and every answer is needed."""
    expected: int
    """Questions that it was asked in the build folder, and those that the funnel still asks it."""
    had: int
    """Verdicts in the journal of the build folder."""
    rate: float
    """Probability of CORRECT, of the questions that the funnel asks it."""
    rate_from: Literal["given", "measured", "assumed"]
    tokens: int
    """Expected prompt tokens; 0 for a gate that calls no model."""
    waits: bool
    """Whether its answers come from a model or the user's code, not from a built-in system."""
    money_expected: float | None
    """US dollars; None if no price is known."""
    money_at_most: float | None

    @property
    def counts(self) -> tuple[int, ...]:
        """The fields of `COUNTS`."""
        return tuple(getattr(self, column) for column in COUNTS)


class BuildEstimate(Record):
    """The whole recipe."""

    samples: int
    candidates: int
    """Most distractors per sample."""
    lines: tuple[StageEstimate, ...]
    calls: tuple[int, int]
    """Total questions: 95 % interval, from independent to nested gates."""
    money: tuple[float, float] | None
    """The same for US dollars to pay; None if a price is not known."""
    kept: float
    """Share of the pool that is expected to be kept."""
    kept_range: tuple[float, float]
    verdicts: int
    """Verdicts that the estimate uses."""
    basis: Literal["learnt", "assumed"]
    """``assumed`` if more than `LEARNT_UP_TO` of the answers are drawn by assumed or given rates."""
    notes: tuple[str, ...]

    def seconds(self, per_second: float | None) -> float | None:
        """Time for the expected questions to models and the user's code, at that many answers per second.

        Raises:
            UsageError: the rate is not positive.
        """
        check_rate(per_second)
        if per_second is None:
            return None
        waiting = sum(max(0, line.expected - line.had) for line in self.lines if line.waits)
        return waiting / per_second

    def as_json(self, seconds: float | None = None) -> dict[str, Any]:
        """For ``--json``."""
        totals: dict[str, Any] = dict(self.totals)
        totals |= {column: self.dollars(column) for column in ("money_expected", "money_at_most")}
        return self.model_dump(mode="json") | {"total": totals | {"seconds": seconds}}

    @property
    def totals(self) -> dict[str, int]:
        """Sums of the columns of `COUNTS`."""
        return {column: sum(getattr(line, column) for line in self.lines) for column in COUNTS}

    def dollars(self, column: Literal["money_expected", "money_at_most"]) -> float | None:
        """Sum of a column of money; None if a value is unknown."""
        values = [getattr(line, column) for line in self.lines]
        return None if None in values else sum(values)


def estimate_build(
    recipe: BuildRecipe,
    out: Path,
    *,
    base: Path = Path(),
    skip_bad: bool = False,
    rates: Mapping[str, float] | None = None,
    prices: Path | None = None,
    learn_from: Path | None = None,
    keep_pool: bool = True,
    all_asked: bool = True,
) -> BuildEstimate:
    """Estimate a build. This reads the sources, embeds nothing and makes no call.

    Args:
        out: its build folder; its verdicts and replies cost nothing.
        rates: ``stage`` or ``gate/stage`` -> probability of CORRECT, in [0, 1]; overrides measured rates.
        learn_from: another build, or its release, whose verdicts count as well: a pilot on part of the pool, an
            earlier version. Gates are the same when they have the same name.
        keep_pool: leave the sources' pool in ``out`` for the build if it has none; else nothing is written.
        all_asked: every question of the funnel must have a gate, as in a build.

    Raises:
        UsageError: a rate names no gate or stage, or is outside [0, 1]; ``learn_from`` has no verdicts.
        BadInput: problems of the sources.
    """
    specs = recipe.specs()
    given_rates = _parse_rates(rates or {}, specs)
    pools = out / "build" / "pool"
    keep_pool = (
        keep_pool and kept_pool(pools) is None
    )  # that of a build is needed by explain and rebuild
    pool = sample_sources(
        recipe.sources, pools, base=base, seed=recipe.seed, skip_bad=skip_bad, keep=keep_pool
    )
    enough_candidates(recipe, pool)
    pool = align_gold(pool, open_bases(recipe, pool, base=base, without_encoders=True))
    gates, skips = gates_of(specs), _find_skips(recipe, pool)
    if all_asked and not skip_bad:
        all_can_be_asked(recipe, pool, gates, skips)
    samples, n = pool.samples, len(pool.samples)
    rules = recipe.rules
    kinds = {
        source: _candidate_modalities(recipe, pool, source)
        for source in {s.source for s in samples}
    }
    gates_able = {
        s.id: {kind: gates_for(s, *kind, gates, skips) for kind in QUESTIONS} for s in samples
    }
    places = [
        (name, stage) for stage in Stage for name, spec in specs.items() if stage in spec.stages
    ]
    notes: list[str] = []
    known_verdicts = own_verdicts = _verdicts_in(out / "build", places)
    if learn_from is not None:
        learnt = _verdicts_in(pilot := _build_of(learn_from), places)
        known_verdicts = {**learnt, **own_verdicts}
        if not (pilot / DECISIONS).exists():
            count = f"{sum(len(verdicts.labels) for verdicts in learnt.values()):,} verdicts on {len(learnt):,} samples"
            notes.append(
                f"{learn_from} has not finished: what its {count} leave open is drawn; finish it to know more"
            )
    recorded = Counter(
        (query.gate, query.stage)
        for s in samples
        for query in own_verdicts.get(s.id, Verdicts()).labels
    )
    rate, rate_from = _rates_of(
        places, [verdicts.labels for verdicts in known_verdicts.values()], given_rates, rules
    )
    per_call = {
        place: _per_call(recipe, specs[place[0]], *place, pool, out, prices) for place in places
    }

    replayed = samples * -(-REPLAYS // n) if n < REPLAYS else samples[:: n // REPLAYS]
    donated = _choose_donors(samples, own_verdicts, known_verdicts, given_rates)
    replays = _Replays(recipe, gates, gates_able, kinds, own_verdicts, rate)
    outcomes = [
        replays.replay_samples(replayed, donated, nested=nested) for nested in (False, True)
    ]
    to_ask, drawn, algorithm1, _ = (
        n * sum(outcome.questions.mean(axis=0) for outcome in outcomes) / 2
    ).round(9)
    is_own = np.array([donated[s.id] == known_verdicts.get(s.id) for s in replayed])

    def interval(weights: npt.NDArray[np.float64] | None) -> tuple[float, float]:
        """Interval of a sum over the pool that covers both extremes and chance.

        Open are samples whose questions are not all answered by their own verdicts. Their variance is that of new
        samples, of the known ones that they are replayed by, and of the replays. Where verdicts of another build answer
        all, only the order of gates is open: it may spare, or add, answers like those before one that settled.

        Args:
            weights: of a question to each place; None counts kept samples instead.
        """
        sums, spreads = [], []
        for outcome in outcomes:
            rows = outcome.kept if weights is None else outcome.questions[:, LEFT] @ weights
            has_questions, has_guesses = (
                outcome.questions[:, column].sum(axis=1) > 0 for column in (LEFT, DRAWN)
            )
            open_rows = has_questions & (has_guesses | ~is_own)
            open_count = n * open_rows.mean()
            variance = (
                rows[open_rows].var()
                * open_count
                * (1 + open_count / (len(known_verdicts) or n) + n / len(replayed))
                if open_count
                else 0.0
            )
            if weights is not None:
                by_order = outcome.questions[:, BEFORE] @ weights
                variance += (
                    2 * n * (by_order[has_questions & ~open_rows] ** 2).sum() / len(replayed)
                )
            sums.append(n * float(rows.mean()))
            spreads.append(z_of() * math.sqrt(variance))
        return max(0.0, min(sums) - max(spreads)), max(sums) + max(spreads)

    lines = []
    for i, (name, stage) in enumerate(places):
        most_calls, recorded_here = (
            sum(name in can for s in samples for can in replays.askable(s, stage)),
            recorded[name, stage],
        )
        tokens, usual_price, most_price, _ = per_call[name, stage]
        lines.append(
            StageEstimate(
                stage=stage,
                gate=name,
                naive=round(algorithm1[i]),
                at_most=most_calls,
                expected=min(most_calls, recorded_here + round(to_ask[i])),
                had=recorded_here,
                rate=round(rate[name, stage], 4),
                rate_from=rate_from[name, stage],
                tokens=round(to_ask[i] * tokens),
                waits=split_part(specs[name].system)[0] not in BUILT_IN,
                money_expected=None if usual_price is None else to_ask[i] * usual_price,
                money_at_most=None
                if most_price is None
                else max(0, most_calls - recorded_here) * most_price,
            )
        )
    low, high = (recorded.total() + count for count in interval(np.ones(len(places))))
    kept_low, kept_high = (share / n for share in interval(None))
    prices_of = np.array(
        [prices for _, *prices, _ in per_call.values()], dtype=np.float64
    )  # None becomes NaN
    dollars = interval(prices_of[:, 0])[0], interval(prices_of[:, 1])[1]
    guessed = sum(
        share for share, place in zip(drawn, places, strict=True) if rate_from[place] != "measured"
    )
    guessed_share = guessed / max(1, recorded.total() + to_ask.sum())
    basis: Literal["learnt", "assumed"] = "learnt" if guessed_share <= LEARNT_UP_TO else "assumed"
    if basis == "assumed":
        notes.append(
            "some rates are assumed, as marked; the interval is from independent gates to gates where each knows all "
            "that a weaker one knows. Build a pilot on a few samples per topic, then plan with --learn-from PILOT"
        )
    if recipe.judge != "local":
        notes.append(f"the cost of the judge {recipe.judge} is not included")
    if recipe.topic_names is not None and recipe.topics != "none":
        notes.append(
            f"naming at most 30 topics, one call each to {recipe.topic_names.system}, is not included"
        )
    if recipe.retest:
        notes.append(f"the re-test of {recipe.retest} kept samples is not included")
    others = [
        name
        for name, spec in specs.items()
        if split_part(spec.system)[0] not in {*BUILT_IN, "model"}
    ]
    if others:
        notes.append(f"costs of {', '.join(others)} are unknown")
    notes += dict.fromkeys(note for *_, price_notes in per_call.values() for note in price_notes)
    return BuildEstimate(
        samples=n,
        candidates=max(map(len, kinds.values())),
        lines=tuple(lines),
        calls=(round(low), round(high)),
        money=None if np.isnan(prices_of).any() else dollars,
        kept=round(float(np.mean([outcome.kept for outcome in outcomes])), 4),
        kept_range=(round(kept_low, 4), round(min(1.0, kept_high), 4)),
        verdicts=sum(len(verdicts.labels) for verdicts in known_verdicts.values()),
        basis=basis,
        notes=tuple(notes),
    )


LEFT, DRAWN, ALGORITHM1, BEFORE = range(4)
"""Counts of a replayed sample: its questions without a verdict in the build folder; those whose answer was drawn by a
rate; the questions of Algorithm 1; those put before the one that settled the same question."""


class _Replayed(NamedTuple):
    """Counts of S replayed samples."""

    questions: npt.NDArray[np.float64]
    """(S, 4, places)."""
    kept: npt.NDArray[np.float64]
    """(S,) 1 for a kept sample."""


class _Replays(NamedTuple):
    """Replays samples of a pool."""

    recipe: BuildRecipe
    gates: Sequence[GatingModel]
    able: Mapping[str, Mapping[tuple[Stage, Modality | None], frozenset[str]]]
    """Sample -> stage and modality of the distractor -> gates that can be asked."""
    kinds: Mapping[str, Sequence[Modality]]
    """Source -> modalities of the distractors of its samples."""
    own_verdicts: Mapping[str, Verdicts]
    """Sample -> what the build folder holds."""
    rate: Mapping[Place, float]
    """For unknown labels; its keys are the places."""

    def replay_samples(
        self, samples: Sequence[Sample], donated: Mapping[str, Verdicts], *, nested: bool
    ) -> _Replayed:
        """Replay samples through the funnel: from the start, or from where the build folder's own verdicts end.

        Args:
            donated: sample -> verdicts to replay it with.
            nested: draw other labels for nested gates; else for independent ones.
        """
        dice, order = random.Random(seed_of(self.recipe.seed, "estimate")), SuccessCounter()
        at = {place: i for i, place in enumerate(self.rate)}
        rules = self.recipe.rules
        questions, is_kept = np.zeros((len(samples), 4, len(at))), np.zeros(len(samples))
        for row, sample in enumerate(samples):
            labels = donated[sample.id].labels
            state = self._fresh_state(sample, donated[sample.id], order)
            if sample.id in self.own_verdicts:
                for query, label in labels.items():
                    state.tell(query, label)
                labels = {}

            def draw(query: GateQuery, state: SampleState = state, row: int = row) -> Label:
                place = query.gate, query.stage
                questions[row, DRAWN, at[place]] += 1
                answers = state.labels_of(query.stage, query.distractor).items()
                failed = [
                    self.rate[g, query.stage]
                    for g, label in answers
                    if label not in (None, Label.SKIPPED)
                ]
                below = max(failed, default=0.0) if nested else 0.0
                right = self.rate[place] > below and dice.random() < (self.rate[place] - below) / (
                    1 - below
                )
                return Label.CORRECT if right else Label.INCORRECT

            # By price, labels of a build that asked no more than it had to would spare it calls in hindsight.
            settled = set()
            for query in reversed(
                replay(state, labels, draw, as_asked=_was_asked_lazily(labels, rules))
            ):
                column, question = at[query.gate, query.stage], query[1:]
                questions[row, LEFT, column] += 1
                questions[row, BEFORE, column] += question in settled
                if state.labels[query] in settling(query.stage, rules):
                    settled.add(question)
            for place, n in algorithm1_calls(state).items():
                questions[row, ALGORITHM1, at[place]] = n
            decision = state.decision()
            is_kept[row] = decision is not None and decision.kept
        return _Replayed(questions, is_kept)

    def _fresh_state(
        self, sample: Sample, verdicts: Verdicts, order: SuccessCounter
    ) -> SampleState:
        """A sample before the funnel, with gates that cannot be asked marked."""
        gates_able, gates_of_distractor = self.able[sample.id], self.distractors(sample, verdicts)
        state = SampleState(
            self.gates,
            list(gates_of_distractor),
            self.recipe.rules,
            order=order,
            group=sample.source,
        )
        for query in state.all_queries():
            askable_gates = (
                gates_of_distractor[query.distractor]
                if query.distractor
                else gates_able[query.stage, None]
            )
            if query not in verdicts.labels and query.gate not in askable_gates:
                state.tell(query, Label.SKIPPED)
        return state

    def askable(self, sample: Sample, stage: Stage) -> Iterable[frozenset[str]]:
        """For each question of a stage, the gates that can be asked."""
        if stage is Stage.DISTRACTOR:
            return self.distractors(sample, self.own_verdicts.get(sample.id, Verdicts())).values()
        return [self.able[sample.id][stage, None]]

    def distractors(self, sample: Sample, verdicts: Verdicts) -> dict[str, frozenset[str]]:
        """Candidate distractor -> gates that can be asked about it: as mined, else as many as the recipe wants."""
        gates_able = self.able[sample.id]
        if verdicts.candidates is not None:
            kinds = ((c, c.modality or Modality.TEXT) for c in verdicts.candidates)
            return {
                c.id: gates_able[Stage.DISTRACTOR, kind].difference(c.skipped) for c, kind in kinds
            }
        recorded_distractors = dict.fromkeys(
            query.distractor for query in verdicts.labels if query.distractor
        )
        gates_of_each = [gates_able[Stage.DISTRACTOR, kind] for kind in self.kinds[sample.source]]
        names = [
            *recorded_distractors,
            *(f"#{number}" for number in range(len(recorded_distractors), len(gates_of_each))),
        ]
        return dict(
            zip(
                names,
                [*gates_of_each, *[frozenset[str]()] * len(recorded_distractors)],
                strict=False,
            )
        )


def _was_asked_lazily(labels: Labels, rules: Rules) -> bool:
    """Whether no question was asked again after an answer that settled it."""
    settled = set()
    for query, label in labels.items():
        if query[1:] in settled:
            return False
        if label in settling(query.stage, rules):
            settled.add(query[1:])
    return True


def _choose_donors(
    samples: Sequence[Sample],
    own_verdicts: Mapping[str, Verdicts],
    known_verdicts: Mapping[str, Verdicts],
    given_rates: Mapping[Place, float],
) -> dict[str, Verdicts]:
    """Sample -> verdicts to replay it with: its own, else those of another sample, of the same source if possible.

    Args:
        own_verdicts: in the build folder.
        known_verdicts: these and those of another folder.
        given_rates: the user's rates, which replace labels of other samples.
    """
    usable = {
        id: Verdicts(
            {q: v for q, v in labels.items() if (q.gate, q.stage) not in given_rates}, candidates
        )
        for id, (labels, candidates) in known_verdicts.items()
    }
    if len(usable) < MEASURED_FROM:
        return {s.id: own_verdicts.get(s.id, Verdicts()) for s in samples}
    of_source: dict[str, list[Verdicts]] = defaultdict(list)
    for s in samples:
        if s.id in usable:
            of_source[s.source].append(usable[s.id])
    all_verdicts = cycle(usable.values())
    donors = {
        source: cycle(verdicts)
        for source, verdicts in of_source.items()
        if len(verdicts) >= MEASURED_FROM
    }
    return {
        s.id: own_verdicts.get(s.id) or usable.get(s.id) or next(donors.get(s.source, all_verdicts))
        for s in samples
    }


def _rates_of(
    places: Sequence[Place],
    labels_of_samples: Iterable[Labels],
    given_rates: Mapping[Place, float],
    rules: Rules,
) -> tuple[dict[Place, float], dict[Place, Literal["given", "measured", "assumed"]]]:
    """The rate at which each gate settles questions of each stage, and its origin.

    Only samples that reach a stage count: an exhaustive build also asks about samples that gates know without evidence.
    """
    answered: Counter[Place] = Counter()
    settled: Counter[Place] = Counter()
    for labels in labels_of_samples:
        for stage in Stage:
            graded = (
                (q, label)
                for q, label in labels.items()
                if q.stage is stage and label is not Label.MISSING
            )
            outcomes = [(q.gate, label in settling(stage, rules)) for q, label in graded]
            answered.update((gate, stage) for gate, _ in outcomes)
            settled.update((gate, stage) for gate, is_settled in outcomes if is_settled)
            if any(is_settled for _, is_settled in outcomes) == (stage is Stage.PARAMETRIC):
                break
    rate: dict[Place, float] = {}
    origin: dict[Place, Literal["given", "measured", "assumed"]] = {}
    for place in places:
        rate[place], origin[place] = ASSUMED[place[1]], "assumed"
        if place in given_rates:
            rate[place], origin[place] = given_rates[place], "given"
        elif answered[place] >= MEASURED_FROM:
            rate[place], origin[place] = settled[place] / answered[place], "measured"
    return rate, origin


def _candidate_modalities(recipe: BuildRecipe, pool: SampledPool, source: str) -> list[Modality]:
    """Modalities of the distractors of a sample of a source, at most."""
    retrieval = retrieval_by_source(recipe, pool)[source]
    samples_of_source = [s for s in pool.samples if s.source == source]
    native = (
        Counter(e.modality for s in samples_of_source for e in s.negatives)
        if retrieval.adopts
        else Counter[Modality]()
    )
    total = round(native.total() / max(1, len(samples_of_source)))
    images = round(native[Modality.IMAGE] / max(1, len(samples_of_source)))
    text = retrieval.text + retrieval.lexical + total - images
    return [Modality.TEXT] * text + [Modality.IMAGE] * (retrieval.visual + images)


def _find_skips(recipe: BuildRecipe, pool: SampledPool) -> Skips:
    """Which gates cannot be asked what. Opens the gates, but embeds and sends nothing."""
    specs, prompts = recipe.specs(), Prompts()

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.zeros((len(texts), 1), np.float32)

    context = SystemContext(
        read_image=lambda ref: read_image(ref, pool.root),
        embed=embed,
        recognise=lambda ref: [],
        pool=pool.samples,
        prompts=prompts,
    )
    opened = cache(gate_opener(specs, context, {}))
    for name in specs:  # raises now for a gate that cannot be opened
        opened(name, 0).revision  # noqa: B018 - of a model that is a function: it is imported

    def skips(sample: Sample, stage: Stage, distractor: str) -> dict[str, str]:
        return skip_reasons(
            specs, lambda name: opened(name, 0), sample, stage, distractor, recipe.seed, prompts
        )

    return skips


def _build_of(folder: Path) -> Path:
    for path in (folder / "build", folder.resolve().parent / "build"):
        if (path / "journal.jsonl").exists():
            return path
    raise UsageError(
        "there are no verdicts to learn from",
        item=folder,
        cure="give a build folder, or the release in one",
    )


def _verdicts_in(build: Path, places: Sequence[Place]) -> dict[str, Verdicts]:
    """Sample -> what a build holds of these gates and stages; samples without any label are left out."""
    labels: dict[str, dict[GateQuery, Label]] = defaultdict(dict)
    for line in read_journal(build / "journal.jsonl"):
        if not line.repeat and (line.query.gate, line.query.stage) in places:
            if line.key.startswith("-"):  # an error, which the next run asks for again
                labels[line.sample].pop(line.query, None)
            else:
                labels[line.sample][line.query] = line.answer.label
    mined = {
        d.sample: d.distractors for d in read_decisions(build) if d.distractors or d.stage == MINING
    }
    return {
        sample: Verdicts(labels_of_sample, mined.get(sample))
        for sample, labels_of_sample in labels.items()
        if labels_of_sample
    }


def _parse_rates(
    rates: Mapping[str, float], specs: Mapping[str, GateSpec]
) -> dict[tuple[str, Stage], float]:
    rate_of_place: dict[tuple[str, Stage], float] = {}
    stages = [s.value for s in Stage]
    # The rate of a single gate overrides that of its stage.
    for text, rate in sorted(rates.items(), key=lambda item: "/" in item[0]):
        gate, _, stage = text.rpartition("/")
        if stage not in stages or (gate and gate not in specs):
            raise UsageError(
                f"no gate or stage {text!r}",
                item="rates",
                cure=f"gates: {', '.join(specs)}; stages: {', '.join(stages)}",
            )
        if not 0 <= rate <= 1:
            raise UsageError(
                f"{rate} is not a probability",
                item=f"rate {text}",
                cure="give a number from 0 to 1",
            )
        for name in [gate] if gate else specs:
            rate_of_place[name, Stage(stage)] = rate
    return rate_of_place


def _per_call(
    recipe: BuildRecipe,
    spec: GateSpec,
    name: str,
    stage: Stage,
    pool: SampledPool,
    out: Path,
    prices: Path | None,
) -> tuple[float, float | None, float | None, Sequence[str]]:
    """(prompt tokens, expected US dollars, most of them, notes on the price) of a mean question of a stage to a gate
    without a reply yet.
    """
    if split_part(spec.system)[0] != "model" or not split_part(spec.system)[1]:
        return 0.0, 0.0, 0.0, ()
    from demur.models.estimate import estimate_calls

    prompts = Prompts()
    options: dict[str, Any] = {**model_options(spec.options), "name": name}
    context = SystemContext(
        read_image=lambda ref: read_image(ref, pool.root), prompts=prompts, options=options
    )
    system = ModelSystem(split_part(spec.system)[1], context)

    def requests() -> Iterator[Request]:
        for sample in pool.samples:
            # gold evidence has about the size of distractors, which are not mined yet
            for evidence_id in (e.id for e in sample.gold) if stage is Stage.DISTRACTOR else ("",):
                ask = ask_of(
                    sample,
                    GateQuery(name, stage, evidence_id),
                    recipe.seed,
                    spec.condition,
                    prompts,
                )
                if not system.skip_reason(ask):
                    yield system.request(ask)
                    break

    several = islice(requests(), STAND_INS) if stage is Stage.DISTRACTOR else requests()
    ledger = None if stage is Stage.DISTRACTOR else out / "build" / "calls.sqlite"
    estimate = estimate_calls(
        stage.value, system.addresses[0], several, ledger=ledger, prices=prices
    )
    (line,) = estimate.lines
    if not line.to_pay:
        return 0.0, 0.0, 0.0, ()
    usual_price, most_price = (
        None if m is None else m / line.to_pay for m in (line.expected, line.money)
    )
    return line.prompt / line.to_pay, usual_price, most_price, estimate.notes


def estimate_convergence(recipe: BuildRecipe, out: Path, **options: Any) -> BuildEstimate:
    """Estimate `demur.curation.convergence.measure_convergence`; writes nothing.

    It is Stage I of an exhaustive build with the monitors among the gates.

    Args:
        options: as of `estimate_build`.
    """
    watched = (g.model_copy(update={"stages": (Stage.PARAMETRIC,)}) for g in recipe.monitors)
    plan = recipe.model_copy(update={"gates": (*recipe.gates, *watched), "monitors": ()})
    whole_build = estimate_build(plan, out, keep_pool=False, all_asked=False, **options)
    lines = tuple(
        line.model_copy(update={"expected": line.at_most, "money_expected": line.money_at_most})
        for line in whole_build.lines
        if line.stage is Stage.PARAMETRIC
    )
    estimate = whole_build.model_copy(update={"lines": lines})
    calls, money = estimate.totals["at_most"], estimate.dollars("money_at_most")
    exact = {"calls": (calls, calls), "money": None if money is None else (money, money)}
    return estimate.model_copy(update=exact)
