"""Estimates what a build will ask and cost before any call: calls, tokens and money per stage and gate.

The recipe is read as by a build (`demur.curation.build.inputs`). Verdicts of the build folder and of other builds
(`demur.curation.build.verdicts`) stand for what gates would answer; what they leave open is drawn
(`demur.curation.build.replays`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np

from demur.core.errors import UsageError
from demur.core.records import Record, Request, Sample
from demur.core.spec import split_part
from demur.core.uris import read_image
from demur.curation.build.askable import Askable, Skips, all_can_be_asked
from demur.curation.build.base_plan import (
    Base,
    BaseEstimate,
    Speed,
    estimate_base,
    measure_speeds,
)
from demur.curation.build.context import gate_opener
from demur.curation.build.folder import FolderRecipe
from demur.curation.build.inputs import read_inputs
from demur.curation.build.knowledge_bases import KnowledgeBase
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.replays import ALGORITHM1, DRAWN, LEFT, Projection, project
from demur.curation.build.sample_pool import SampledPool, kept_pool
from demur.curation.build.verdicts import (
    MEASURED_FROM,
    GateRates,
    KnownVerdicts,
    Origin,
    Place,
    build_of,
    known_verdicts,
    parse_rates,
    rates_of,
)
from demur.curation.gates.funnel import GateQuery, Stage
from demur.curation.gates.runner import GateQuestions, ask_of, model_options, read_journal
from demur.curation.gates.spec import GateSpec
from demur.indexing.encoders import open_encoder
from demur.indexing.options import PARTS
from demur.judge.base import asking_judges, open_judge
from demur.models.estimate import check_rate, estimate_calls
from demur.models.ledger import Ledger
from demur.models.names import addresses_of, model_id
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    import numpy.typing as npt

LEARNT_UP_TO = 0.05
"""Largest share of calls with answers drawn by unmeasured rates, of an estimate that counts as learnt."""
STAND_INS = 200
"""Questions that the mean size of distractor questions is estimated from."""
BUILT_IN = frozenset({"prior", "reader", "answers"})


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
    rate_from: Origin
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
    bases: tuple[BaseEstimate, ...] = ()
    """What indexing takes, of each knowledge base that is mined and has no index of the user's own."""

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


class PlanOptions(TypedDict, total=False):
    """What an estimate is based on."""

    base: Path
    """Folder that the recipe's relative paths start from; default: the current one."""
    skip_bad: bool
    """Leave bad records out."""
    rates: Mapping[str, float] | None
    """``stage`` or ``gate/stage`` -> probability of CORRECT, in [0, 1]; a part of an index (``titles``, ``passages`` ...)
    -> items that its encoder embeds in a second. They override measured rates."""
    measure: bool
    """Open the encoders, and time them on a sample of each knowledge base."""
    prices: Path | None
    """Price table that overlays the shipped one."""
    batch: bool
    """Calls go in batches, at their price."""
    learn_from: Path | None
    """Another build, or its release, whose verdicts count as well: a pilot on part of the pool, an earlier version.
    Gates are the same when they have the same name."""


def estimate_build(
    recipe: BuildRecipe,
    out: Path,
    *,
    keep_pool: bool = True,
    all_asked: bool = True,
    **options: Unpack[PlanOptions],
) -> BuildEstimate:
    """Estimate a build. This reads the sources, embeds nothing but samples to ``measure``, and makes no call.

    Args:
        out: its build folder; its verdicts and replies cost nothing.
        keep_pool: leave the sources' pool in ``out`` for the build if it has none; else nothing is written.
        all_asked: every question of the funnel must have a gate, as in a build.
        options: see `PlanOptions`.

    Raises:
        UsageError: a rate names no gate, stage or part, or is no probability or speed; ``learn_from`` has no verdicts.
        BadInput: problems of the sources.
    """
    specs = recipe.specs()
    rates_by_name = options.get("rates") or {}
    speeds = {name: Speed(rate) for name, rate in rates_by_name.items() if name in PARTS}
    for name in speeds:
        if not rates_by_name[name] > 0:
            raise UsageError(
                f"{rates_by_name[name]:g} items in a second",
                item=f"rate {name}",
                cure="give a number above 0",
            )
    given_rates = parse_rates({n: r for n, r in rates_by_name.items() if n not in PARTS}, specs)
    stated = FolderRecipe(recipe, options.get("base", Path()), options.get("skip_bad", False), out)
    # that of a build is needed by explain and rebuild
    keep_pool = keep_pool and kept_pool(out / "build" / "pool") is None
    pool, knowledge_bases = read_inputs(stated, keep_pool=keep_pool)
    skips = _find_skips(recipe, pool)
    if all_asked and not stated.skip_bad:
        all_can_be_asked(recipe, pool, skips)
    places = [
        (name, stage) for stage in Stage for name, spec in specs.items() if stage in spec.stages
    ]
    verdicts = known_verdicts(out, options.get("learn_from"), places)
    labels = [each.labels for each in verdicts.known.values()]
    rates = rates_of(places, labels, given_rates, recipe.rules)
    ledger, prices = out / "build" / "calls.sqlite", options.get("prices")
    money = _Money(prices, _ledger_of_lengths(ledger, options), options.get("batch", False))
    judging = _cost_of_judging(recipe, pool.samples, money)
    costs = {
        place: _cost_of_call(recipe, place, pool, ledger, money).plus(judging) for place in places
    }
    askable = Askable.of_pool(recipe, pool, skips, verdicts.recorded)
    projection = project(recipe, pool.samples, askable, verdicts, rates)
    recorded = verdicts.count_recorded(pool.samples)
    plan = _Plan(recipe, pool.samples, askable, rates, costs, recorded, projection, judging)
    measure = options.get("measure", False)
    bases = _estimate_bases(pool, knowledge_bases, speeds, measure=measure)
    estimate = plan.estimate(verdicts)
    notes = (*_drawn_notes(pool), *estimate.notes)
    return estimate.model_copy(update={"notes": notes, "bases": bases})


def _estimate_bases(
    pool: SampledPool,
    bases: Mapping[str, KnowledgeBase],
    speeds: Mapping[str, Speed],
    *,
    measure: bool,
) -> tuple[BaseEstimate, ...]:
    """What indexing takes, of each base that was read: those that a build indexes."""
    opened = cache(open_encoder)
    estimates = []
    for source, base in bases.items():
        retrieval, survey, measured = base.retrieval_spec, base.survey, dict[str, Speed]()
        if not survey.documents:
            continue
        if measure:
            of_text = opened(retrieval.text_encoder) if retrieval.text_encoder else None
            measured = measure_speeds(
                survey,
                base.chunker,
                opened(retrieval.encoder),
                of_text,
                lambda image: read_image(image, pool.root),
            )
        known = {
            part: Speed(
                speeds.get(part, Speed()).per_second or measured.get(part, Speed()).per_second,
                measured.get(part, Speed()).dimensions,
            )
            for part in PARTS
        }
        questions = sum(sample.source == source for sample in pool.samples)
        counted = Base.of(source, survey, base.chunker)
        estimates.append(estimate_base(counted, retrieval, questions, known))
    return tuple(estimates)


def _drawn_notes(pool: SampledPool) -> Iterator[str]:
    """How many samples of each source are drawn, where not all are."""
    for source, size in pool.sizes.items():
        drawn = sum(sample.source == source for sample in pool.samples)
        if drawn < size:
            yield f"{source}: {drawn:,} of {size:,} samples are drawn"


@dataclass(frozen=True)
class _Plan:
    """What an estimate follows from."""

    recipe: BuildRecipe
    samples: Sequence[Sample]
    askable: Askable
    rates: GateRates
    costs: Mapping[Place, CallCost]
    recorded: Counter[Place]
    """Labels that the build folder holds."""
    projection: Projection
    judging: CallCost

    def estimate(self, verdicts: KnownVerdicts) -> BuildEstimate:
        """The estimate.

        Args:
            verdicts: that it is based on.
        """
        low, high = self.projection.questions_interval(np.ones(len(self.costs)))
        kept_low, kept_high = self.projection.kept_interval()
        basis = self._basis()
        to_ask = float(self.projection.mean(LEFT).sum())
        price_notes = dict.fromkeys(note for cost in self.costs.values() for note in cost.notes)
        return BuildEstimate(
            samples=len(self.samples),
            candidates=max(map(len, self.askable.kinds.values())),
            lines=tuple(self._lines()),
            calls=(round(self.recorded.total() + low), round(self.recorded.total() + high)),
            money=self._money_interval(),
            kept=round(self.projection.kept_share, 4),
            kept_range=(round(kept_low, 4), round(min(1.0, kept_high), 4)),
            verdicts=verdicts.total,
            basis=basis,
            notes=(
                *verdicts.notes,
                *_notes(self.recipe, basis),
                *_note_on_judge(self.recipe, self.judging, to_ask),
                *price_notes,
            ),
        )

    def _lines(self) -> Iterator[StageEstimate]:
        specs, projection = self.recipe.specs(), self.projection
        for place, to_ask, naive in zip(
            self.costs, projection.mean(LEFT), projection.mean(ALGORITHM1), strict=True
        ):
            (name, stage), cost, had = place, self.costs[place], self.recorded[place]
            most_calls = self.askable.most_calls(name, stage, self.samples)
            yield StageEstimate(
                stage=stage,
                gate=name,
                naive=round(naive),
                at_most=most_calls,
                expected=min(most_calls, had + round(to_ask)),
                had=had,
                rate=round(self.rates.rate[place], 4),
                rate_from=self.rates.origin[place],
                tokens=round(to_ask * cost.tokens),
                waits=split_part(specs[name].system)[0] not in BUILT_IN,
                money_expected=None if cost.expected is None else to_ask * cost.expected,
                money_at_most=None if cost.most is None else max(0, most_calls - had) * cost.most,
            )

    def _basis(self) -> Literal["learnt", "assumed"]:
        """Whether most answers are known or drawn by measured rates."""
        drawn = zip(self.rates.origin.values(), self.projection.mean(DRAWN), strict=True)
        guessed = sum(count for origin, count in drawn if origin != "measured")
        total = self.recorded.total() + self.projection.mean(LEFT).sum()
        return "learnt" if guessed / max(1, total) <= LEARNT_UP_TO else "assumed"

    def _money_interval(self) -> tuple[float, float] | None:
        """Interval of the US dollars to pay; None if a price is not known."""
        prices = [(cost.expected, cost.most) for cost in self.costs.values()]
        usual, most = np.array(prices, dtype=np.float64).T  # None becomes NaN
        if np.isnan(usual).any() or np.isnan(most).any():
            return None
        return (
            self.projection.questions_interval(usual)[0],
            self.projection.questions_interval(most)[1],
        )


def _notes(recipe: BuildRecipe, basis: Literal["learnt", "assumed"]) -> Iterator[str]:
    """What the figures do not include, a line each."""
    if basis == "assumed":
        yield (
            "some rates are assumed, as marked; the interval is from independent gates to gates where each knows all "
            "that a weaker one knows. Build a pilot on a few samples per topic, then plan with --learn-from PILOT"
        )
    if recipe.topic_names is not None and recipe.topics != "none":
        yield f"naming at most 30 topics, one call each to {recipe.topic_names.system}, is not included"
    if recipe.retest:
        yield f"the re-test of {recipe.retest} kept samples is not included"
    others = [
        name
        for name, spec in recipe.specs().items()
        if split_part(spec.system)[0] not in {*BUILT_IN, "model"}
    ]
    if others:
        yield f"costs of {', '.join(others)} are unknown"


def _note_on_judge(recipe: BuildRecipe, judging: CallCost, to_ask: float) -> Iterator[str]:
    """What the judge has of the cost."""
    if not judging.calls:
        if recipe.judge != "local":
            yield f"the cost of the judge {recipe.judge} is not included"
        return
    money = "unknown" if judging.expected is None else f"about ${judging.expected * to_ask:,.2f}"
    yield f"included: about {judging.calls * to_ask:,.0f} calls of the judge {recipe.judge}, {money}"


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

    questions = GateQuestions(specs, recipe.seed, prompts)

    def skips(sample: Sample, stage: Stage, distractor: str) -> dict[str, str]:
        return questions.skip_reasons(lambda name: opened(name, 0), sample, stage, distractor)

    return skips


class CallCost(NamedTuple):
    """A mean question of a stage to a gate, of those without a reply yet."""

    tokens: float = 0.0
    """Of the prompt."""
    expected: float | None = 0.0
    """US dollars; None if no price is known."""
    most: float | None = 0.0
    notes: Sequence[str] = ()
    """On the price."""
    calls: float = 0.0
    """Of a judge: calls per answer."""

    def plus(self, other: CallCost) -> CallCost:
        """The money of both; the rest is this one's."""
        unknown = None in (self.expected, other.expected)
        return self._replace(
            expected=None if unknown else (self.expected or 0.0) + (other.expected or 0.0),
            most=None if unknown else (self.most or 0.0) + (other.most or 0.0),
            notes=(*self.notes, *other.notes),
        )


class _Money(NamedTuple):
    """How calls are priced, as `estimate_calls` takes it."""

    prices: Path | None
    lengths: Path
    batch: bool


def _ledger_of_lengths(ledger: Path, options: PlanOptions) -> Path:
    """The ledger that tells how long replies are: that of the build folder, else of the pilot."""
    pilot = options.get("learn_from")
    return ledger if ledger.is_file() or pilot is None else build_of(pilot) / "calls.sqlite"


def _calls_per_verdict(recipe: BuildRecipe, judge: str, ledger: Path) -> float | None:
    """Calls of a judge's model for each verdict in the build of a ledger: equal answers are graded once, and a cascade
    grades some by itself. None where too few are known, or the model is a gate too.
    """
    systems = (split_part(gate.system) for gate in recipe.gates)
    models = {model_id(addresses_of(name)[0]) for kind, name in systems if kind == "model" and name}
    if not ledger.is_file() or model_id(judge) in models:
        return None
    with Ledger(ledger, read_only=True) as replies:
        calls = sum(s.replies for s in replies.stats() if s.model == model_id(judge))
    lines = read_journal(ledger.with_name("journal.jsonl"))
    verdicts = len({line.key for line in lines if line.final})
    return calls / verdicts if min(calls, verdicts) >= MEASURED_FROM else None


def _cost_of_judging(recipe: BuildRecipe, samples: Sequence[Sample], money: _Money) -> CallCost:
    """The mean cost of grading an answer; of a judge that asks no model, or tells not what it asks, nothing."""
    total = CallCost()
    asks = [
        (ask_of(sample, GateQuery("", Stage.PARAMETRIC), recipe.seed, "none", Prompts()), sample)
        for sample in samples[:STAND_INS]
    ]
    for judge in asking_judges(open_judge(recipe.judge)):
        requests = [r for ask, sample in asks for r in judge.would_ask(ask, None, sample.answers)]
        estimate = estimate_calls("judge", judge.addresses[0], requests, **money._asdict())
        (line,) = estimate.lines
        if line.to_pay:
            share = _calls_per_verdict(recipe, judge.addresses[0], money.lengths)
            if share is None:
                share = judge.expected_share * len(requests) / len(asks)
            expected, most = line.per_call()
            total = total.plus(
                CallCost(
                    expected=None if expected is None else share * expected,
                    most=most,
                    notes=estimate.notes,
                )
            )._replace(calls=total.calls + share)
    return total


def _cost_of_call(
    recipe: BuildRecipe, place: Place, pool: SampledPool, ledger: Path, money: _Money
) -> CallCost:
    """The cost of a question of a stage to a gate."""
    name, stage = place
    spec = recipe.specs()[name]
    kind, address = split_part(spec.system)
    if kind != "model" or not address:
        return CallCost()
    options: dict[str, Any] = {**model_options(spec.options), "name": name}
    context = SystemContext(
        read_image=lambda ref: read_image(ref, pool.root), prompts=Prompts(), options=options
    )
    system = ModelSystem(address, context)
    requests = _requests(system, spec, GateQuery(name, stage), pool.samples, recipe.seed)
    of_distractors = stage is Stage.DISTRACTOR
    estimate = estimate_calls(
        stage.value,
        system.addresses[0],
        islice(requests, STAND_INS) if of_distractors else requests,
        ledger=None if of_distractors else ledger,
        **money._asdict(),
    )
    (line,) = estimate.lines
    if not line.to_pay:
        return CallCost()
    return CallCost(line.prompt / line.to_pay, *line.per_call(), estimate.notes)


def _requests(
    system: ModelSystem, spec: GateSpec, query: GateQuery, samples: Sequence[Sample], seed: int
) -> Iterator[Request]:
    """One request for each sample; gold evidence has about the size of distractors, which are not mined yet."""
    prompts = Prompts()
    for sample in samples:
        of_distractors = query.stage is Stage.DISTRACTOR
        for evidence_id in [e.id for e in sample.gold] if of_distractors else [""]:
            question = query._replace(distractor=evidence_id)
            ask = ask_of(sample, question, seed, spec.condition, prompts)
            if not system.skip_reason(ask):
                yield system.request(ask)
                break


def estimate_convergence(recipe: BuildRecipe, out: Path, **options: Any) -> BuildEstimate:
    """Estimate `demur.curation.build.convergence.measure_convergence`; writes nothing.

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
