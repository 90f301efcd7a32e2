"""What a build will ask and cost, before anybody is asked: calls, tokens and money per stage and gate.

Samples of the pool are replayed through the funnel with the verdicts that there are: their own, or those of another
sample that was asked already (in this folder, a pilot, an earlier release). A label that nobody knows is drawn by the
gate's rate, measured where it was asked often enough and assumed otherwise. How much gates know in common is then open,
so it is drawn in both extremes: gates that know things independently of each other, and gates of which each knows all
that a weaker one knows. The interval covers both, and the chance of the draw.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from demur.core.errors import UsageError
from demur.core.records import Ask, Modality, Record, Request, Sample
from demur.core.stats import z_of
from demur.core.store import seed_of
from demur.core.uris import read_image
from demur.curation.context import enough_candidates, gate_opener, gates_of
from demur.curation.gates.askable import Askable, Skips, all_can_be_asked, askable
from demur.curation.gates.costs import algorithm1_calls, replay
from demur.curation.gates.funnel import Gate, GateQuery, Rules, SampleState, Stage, settling
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import ask_of, judge_key, key_of, model_options, read_journal, skip_reasons
from demur.curation.knowledge_bases import align_gold, open_bases, retrieval_by_source
from demur.curation.recipe import BuildRecipe, GateSpec
from demur.curation.sample_pool import SampledPool, sample_sources
from demur.judge.base import open_judge
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import System, SystemContext
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    import numpy.typing as npt

    from demur.models import Estimate

ASSUMED = {Stage.PARAMETRIC: 0.3, Stage.SOLVABLE: 0.6, Stage.DISTRACTOR: 0.1}
"""Probability of CORRECT where nothing was measured; the estimate says that it is assumed."""
MEASURED_FROM = 15
"""Questions of a gate in a stage from which its rate counts as measured; samples from which others are like them."""
LEARNT_UP_TO = 0.05
"""Share of calls, at most, whose answers are drawn by rates that nobody measured, of an estimate that is learnt."""
STAND_INS = 200
"""Questions that the size of distractor questions is estimated from."""
REPLAYS = 1000
"""Samples that are replayed, about."""
BUILT_IN = frozenset({"prior", "reader", "answers"})

Labels = dict[GateQuery, Label]
"""What gates said about one sample."""
Place = tuple[str, Stage]
"""A gate in a stage."""


class StageEstimate(Record):
    """One gate in one stage."""

    stage: Stage
    gate: str
    naive: int
    """Questions that Algorithm 1 would put to it, stage after stage."""
    at_most: int
    """Questions if every sample reached the stage and every answer were needed."""
    expected: int
    """Questions when only what can matter is asked."""
    had: int
    """Verdicts that the journal of the build folder has, for this gate and stage."""
    rate: float
    """Probability of CORRECT, of the questions that the funnel puts to it."""
    rate_from: Literal["given", "measured", "assumed"]
    tokens: int
    """Prompt tokens expected, estimated; 0 for a gate that calls no model."""
    waits: bool
    """Whether its answers come from elsewhere, a model or the user's own code; the built-in systems compute them."""
    money_expected: float | None
    """US dollars; None when no price is known."""
    money_at_most: float | None


class BuildEstimate(Record):
    """The whole recipe."""

    samples: int
    candidates: int
    """Distractors per sample, at most."""
    lines: tuple[StageEstimate, ...]
    calls: tuple[int, int]
    """Questions in all, from and to: 95 %, from independent gates to gates that know the same."""
    money: tuple[float, float] | None
    """The same of the US dollars still to pay; None when a price is not known."""
    kept: float
    """Share of the pool expected to stay."""
    kept_range: tuple[float, float]
    verdicts: int
    """That the estimate learnt from."""
    basis: Literal["learnt", "assumed"]
    """``learnt``: by verdicts. ``assumed``: more than a few answers are drawn by assumed or given rates."""
    notes: tuple[str, ...]

    def seconds(self, per_second: float) -> float:
        """Time for what models and the user's own code are expected to be asked, at that many answers a second."""
        return sum(max(0, line.expected - line.had) for line in self.lines if line.waits) / per_second

    def total(self, column: Literal["naive", "at_most", "expected", "had", "tokens"]) -> int:
        """Sum of a column."""
        return sum(getattr(line, column) for line in self.lines)

    def dollars(self, column: Literal["money_expected", "money_at_most"]) -> float | None:
        """Sum of a column of money; None when a part of it is unknown."""
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
) -> BuildEstimate:
    """Estimate a build; the sources are read, nothing is embedded and nobody is asked.

    Args:
        out: its build folder; verdicts and replies that it has are not paid again.
        rates: ``stage`` or ``gate/stage`` -> probability of CORRECT, in [0, 1], before what was measured.
        learn_from: another build, or its release, whose verdicts count as well: a pilot on part of the pool, an
            earlier version. Gates are the same when they have the same name.

    Raises:
        UsageError: a rate names no gate or stage, or lies outside [0, 1]; ``learn_from`` has no verdicts.
        BadInput: problems of the sources.
    """
    specs = recipe.specs()
    given = _rates(rates or {}, specs)
    pool = sample_sources(recipe.sources, out / "build" / "pool", base=base, seed=recipe.seed, skip_bad=skip_bad)
    enough_candidates(recipe, pool)
    pool = align_gold(pool, open_bases(recipe, pool, base=base, without_encoders=True))
    gates, skips = gates_of(specs), _skips(recipe, pool)
    if not skip_bad:
        all_can_be_asked(recipe, pool, gates, skips)
    samples, n = pool.samples, len(pool.samples)
    kinds = {source: _candidates(recipe, pool, source) for source in {s.source for s in samples}}
    able = {s.id: askable(s, gates, skips) for s in samples}
    own = _labels_in(out / "build" / "journal.jsonl")
    known = own if learn_from is None else {**_labels_in(_journal_of(learn_from)), **own}
    had = Counter((query.gate, query.stage) for labels in own.values() for query in labels)
    places = [(name, stage) for stage in Stage for name, spec in specs.items() if stage in spec.stages]
    rate, rate_from = _rates_of(places, known, given, recipe.rules.rules())
    per_call = {place: _per_call(recipe, specs[place[0]], *place, pool, out, prices) for place in places}

    replayed = samples * -(-REPLAYS // n) if n < REPLAYS else samples[:: n // REPLAYS]
    donated = _donated(samples, own, known, given)
    replays = _Replays(recipe, gates, able, kinds, own, rate)
    both = [replays.of(replayed, donated, nested=nested) for nested in (False, True)]
    calls, unpaid, drawn, algorithm1 = (n * sum(one.questions.mean(axis=0) for one in both) / 2).round(9)
    new = sum(s.id not in known for s in samples)

    def interval(rows: Sequence[npt.NDArray[np.float64]]) -> tuple[float, float]:
        """Interval of a sum over the pool, from both extremes.

        Each has the chance of the pool's samples, of those that they are replayed by, and of the number of replays.
        """
        spread = max(row.std() for row in rows) * math.sqrt(new * (1 + new / (len(known) or n) + n / len(replayed)))
        sums = [n * float(row.mean()) for row in rows]
        return max(0.0, min(sums) - z_of() * spread), max(sums) + z_of() * spread

    lines = []
    for i, (name, stage) in enumerate(places):
        most = sum(_questions(name, stage, able[s.id], kinds[s.source]) for s in samples)
        tokens, money = per_call[name, stage]
        lines.append(StageEstimate(
            stage=stage, gate=name, naive=round(algorithm1[i]), at_most=most, expected=min(most, round(calls[i])),
            had=had[name, stage], rate=round(rate[name, stage], 4), rate_from=rate_from[name, stage],
            tokens=round(unpaid[i] * tokens), waits=specs[name].system.partition(":")[0] not in BUILT_IN,
            money_expected=None if money is None else unpaid[i] * money,
            money_at_most=None if money is None else max(0, most - had[name, stage]) * money,
        ))  # fmt: skip
    low, high = interval([one.questions[:, CALLS].sum(axis=1) for one in both])
    kept_low, kept_high = (share / n for share in interval([one.kept for one in both]))
    prices_of = np.array([money for _, money in per_call.values()], dtype=np.float64)  # None becomes NaN
    dollars = interval([one.questions[:, UNPAID] @ prices_of for one in both])
    guessed = sum(share for share, place in zip(drawn, places, strict=True) if rate_from[place] != "measured")
    basis: Literal["learnt", "assumed"] = "learnt" if guessed <= LEARNT_UP_TO * calls.sum() else "assumed"
    notes = []
    if basis == "assumed":
        notes.append(
            "rates are assumed where it says so; the interval is from independent gates to gates of which each knows "
            "all that a weaker one knows. Build a pilot on a few samples per topic, then plan with --learn-from it"
        )
    if recipe.judge != "rules":
        notes.append(f"what the judge {recipe.judge} costs is not in it")
    if recipe.topic_names is not None and recipe.topics != "none":
        notes.append(f"naming the topics by {recipe.topic_names.system}, a call for each of at most 30, is not in it")
    if recipe.retest:
        notes.append(f"the re-test of {recipe.retest} kept samples is not in it")
    others = [name for name, spec in specs.items() if spec.system.partition(":")[0] not in {*BUILT_IN, "model"}]
    if others:
        notes.append(f"what {', '.join(others)} may pay for is not known here")
    notes += _price_notes(specs.values(), prices)
    return BuildEstimate(
        samples=n, candidates=max(map(len, kinds.values())), lines=tuple(lines), calls=(round(low), round(high)),
        money=None if np.isnan(prices_of).any() else dollars, kept=round(float(np.mean([one.kept for one in both])), 4),
        kept_range=(round(kept_low, 4), round(min(1.0, kept_high), 4)),
        verdicts=sum(map(len, known.values())), basis=basis, notes=tuple(notes),
    )  # fmt: skip


CALLS, UNPAID, DRAWN, ALGORITHM1 = range(4)
"""What is counted of a replayed sample: its questions; those that the build folder has no verdict for; those whose
answer was drawn by a rate; the questions of Algorithm 1."""


class _Replayed(NamedTuple):
    """What replaying S samples came to."""

    questions: npt.NDArray[np.float64]
    """(S, 4, places): the counts of each sample, by gate and stage."""
    kept: npt.NDArray[np.float64]
    """(S,) 1 for a sample that stays."""


class _Replays(NamedTuple):
    """What samples are replayed by."""

    recipe: BuildRecipe
    gates: Sequence[Gate]
    able: Mapping[str, Askable]
    """Sample -> gates that can be asked about it."""
    kinds: Mapping[str, Sequence[Modality]]
    """Source -> kinds of the distractors that its samples will have."""
    own: Mapping[str, Labels]
    """Sample -> labels that the build folder has."""
    rate: Mapping[Place, float]
    """Of answers that are not known; its keys are the places."""

    def of(self, samples: Sequence[Sample], donated: Mapping[str, Labels], *, nested: bool) -> _Replayed:
        """Replay samples through the funnel.

        Args:
            donated: sample -> labels that it is replayed with.
            nested: draw other labels as if each gate knew all that a weaker one knows; else independently.
        """
        dice, order = random.Random(seed_of(self.recipe.seed, "estimate")), SuccessCounter()
        at = {place: i for i, place in enumerate(self.rate)}
        questions, kept = np.zeros((len(samples), 4, len(at))), np.zeros(len(samples))
        for row, sample in enumerate(samples):
            labels = donated[sample.id]
            state = self._state(sample, labels, order)

            def draw(query: GateQuery, state: SampleState = state, row: int = row) -> Label:
                place = query.gate, query.stage
                questions[row, DRAWN, at[place]] += 1
                answers = state.of(query.stage, query.distractor).items()
                failed = [self.rate[g, query.stage] for g, label in answers if label not in (None, Label.SKIPPED)]
                below = max(failed, default=0.0) if nested else 0.0
                right = self.rate[place] > below and dice.random() < (self.rate[place] - below) / (1 - below)
                return Label.CORRECT if right else Label.INCORRECT

            for query in replay(state, labels, draw):
                questions[row, CALLS, at[query.gate, query.stage]] += 1
                questions[row, UNPAID, at[query.gate, query.stage]] += query not in self.own.get(sample.id, {})
            for place, n in algorithm1_calls(state).items():
                questions[row, ALGORITHM1, at[place]] = n
            decision = state.decision()
            kept[row] = decision is not None and decision.kept
        return _Replayed(questions, kept)

    def _state(self, sample: Sample, labels: Labels, order: SuccessCounter) -> SampleState:
        """A sample before the funnel; gates that cannot be asked are noted."""
        able = self.able[sample.id]
        asked: dict[str, set[str]] = defaultdict(set)
        for query in labels:
            if query.stage is Stage.DISTRACTOR:
                asked[query.distractor].add(query.gate)
        left = [able.image if kind is Modality.IMAGE else able.text for kind in self.kinds[sample.source]]
        left.sort(key=len)
        distractors = {}  # -> gates that can be asked about it
        for distractor, by in asked.items():
            distractors[distractor] = next((some for some in left if by <= some), frozenset(by))
            if distractors[distractor] in left:
                left.remove(distractors[distractor])

        def state() -> SampleState:
            skipped = {}
            new = SampleState(
                self.gates, list(distractors), self.recipe.rules.rules(), order=order, group=sample.source
            )
            for query in new.all_queries():
                of_stage = able.parametric if query.stage is Stage.PARAMETRIC else able.solvable
                if query not in labels and query.gate not in distractors.get(query.distractor, of_stage):
                    skipped[query] = Label.SKIPPED
            return replace(new, labels=skipped)

        known = replace(found := state(), labels=found.labels | labels).decision()
        if known is None or not known.kept:  # else all its distractors are known
            distractors |= {f"#{number}": some for number, some in enumerate(left)}
            found = state()
        return found


def _donated(
    samples: Sequence[Sample], own: Mapping[str, Labels], known: Mapping[str, Labels], given: Mapping[Place, float]
) -> dict[str, Labels]:
    """Sample -> labels to replay it with: what is known of it, or of another sample, of its source if there are some.

    Args:
        own: labels of the build folder.
        known: these and those of another folder.
        given: rates that the user gave, which hold instead of the labels of others.
    """
    usable = {id: {q: v for q, v in labels.items() if (q.gate, q.stage) not in given} for id, labels in known.items()}
    if len(usable) < MEASURED_FROM:
        return {s.id: own.get(s.id, {}) for s in samples}
    of_source: dict[str, list[Labels]] = defaultdict(list)
    for s in samples:
        if s.id in usable:
            of_source[s.source].append(usable[s.id])
    anybody = cycle(usable.values())
    donors = {source: cycle(some) for source, some in of_source.items() if len(some) >= MEASURED_FROM}
    return {s.id: own.get(s.id) or usable.get(s.id) or next(donors.get(s.source, anybody)) for s in samples}


def _rates_of(
    places: Sequence[Place], known: Mapping[str, Labels], given: Mapping[Place, float], rules: Rules
) -> tuple[dict[Place, float], dict[Place, Literal["given", "measured", "assumed"]]]:
    """How often each gate settles a question of each stage, and how that is known.

    Of solvable and distractor questions those about samples that came so far count: an exhaustive build asks them about
    all samples, and what gates know without evidence would pass for what they read.
    """
    asked: Counter[Place] = Counter()
    settled: Counter[Place] = Counter()
    for labels in known.values():
        for stage in Stage:
            right = [(q.gate, label in settling(stage, rules)) for q, label in labels.items() if q.stage is stage]
            asked.update((gate, stage) for gate, _ in right)
            settled.update((gate, stage) for gate, yes in right if yes)
            if any(yes for _, yes in right) == (stage is Stage.PARAMETRIC):
                break
    rate: dict[Place, float] = {}
    origin: dict[Place, Literal["given", "measured", "assumed"]] = {}
    for place in places:
        rate[place], origin[place] = ASSUMED[place[1]], "assumed"
        if place in given:
            rate[place], origin[place] = given[place], "given"
        elif asked[place] >= MEASURED_FROM:
            rate[place], origin[place] = settled[place] / asked[place], "measured"
    return rate, origin


def _candidates(recipe: BuildRecipe, pool: SampledPool, source: str) -> list[Modality]:
    """The kinds of the distractors that a sample of a source will have, on the whole and at most."""
    how = retrieval_by_source(recipe, pool)[source]
    mine = [s for s in pool.samples if s.source == source]
    native = Counter(e.modality for s in mine for e in s.negatives) if how.adopts else Counter[Modality]()
    total = round(native.total() / max(1, len(mine)))
    images = round(native[Modality.IMAGE] / max(1, len(mine)))
    text = how.text + how.lexical + total - images
    return [Modality.TEXT] * text + [Modality.IMAGE] * (how.visual + images)


def _questions(gate: str, stage: Stage, able: Askable, shown: Sequence[Modality]) -> int:
    """Most questions of a stage that a gate can be asked about a sample."""
    if stage is Stage.DISTRACTOR:
        return sum(gate in (able.image if kind is Modality.IMAGE else able.text) for kind in shown)
    return int(gate in (able.parametric if stage is Stage.PARAMETRIC else able.solvable))


def _skips(recipe: BuildRecipe, pool: SampledPool) -> Skips:
    """What gates cannot be asked; they are opened for that, and nothing is embedded or sent."""
    specs, prompts = recipe.specs(), Prompts()

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.zeros((len(texts), 1), np.float32)

    context = SystemContext(
        read_image=lambda ref: read_image(ref, pool.root), embed=embed, recognise=lambda ref: [], pool=pool.samples,
        prompts=prompts,
    )  # fmt: skip
    opened = cache(gate_opener(specs, context, {}))
    for name in specs:  # one that cannot be opened is told now
        opened(name, 0).revision  # noqa: B018 - of a model that is a function: it is imported

    def skips(sample: Sample, stage: Stage, distractor: str) -> dict[str, str]:
        return skip_reasons(specs, lambda name: opened(name, 0), sample, stage, distractor, recipe.seed, prompts)

    return skips


def _journal_of(folder: Path) -> Path:
    for path in (folder / "build" / "journal.jsonl", folder.resolve().parent / "build" / "journal.jsonl"):
        if path.exists():
            return path
    raise UsageError("no verdicts there to learn from", item=folder, cure="name a build folder, or the release in one")


def _labels_in(journal: Path) -> dict[str, Labels]:
    """Sample -> final labels that a journal has."""
    found: dict[str, Labels] = defaultdict(dict)
    seen: set[str] = set()
    for line in read_journal(journal):
        graded = line.answer.label not in (Label.UNGRADED, Label.SKIPPED)
        if graded and line.final and not line.repeat and line.key not in seen:
            seen.add(line.key)
            found[line.sample][line.query] = line.answer.label
    return found


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


def _price_notes(specs: Iterable[GateSpec], prices: Path | None) -> list[str]:
    """How old each model gate's price is."""
    from demur.models import Prices, model_id
    from demur.models.estimate import price_notes

    table = Prices(prices)
    named = [spec.system.partition(":")[2] for spec in specs if spec.system.startswith("model:")]
    ids = sorted({model_id(re.split(r",(?=[a-z-]+:|[a-z-]+/)", name)[0]) for name in named if name})
    return [note for name in ids for note in price_notes(name, table.find(name))]


def _per_call(
    recipe: BuildRecipe, spec: GateSpec, name: str, stage: Stage, pool: SampledPool, out: Path, prices: Path | None
) -> tuple[float, float | None]:
    """(prompt tokens, US dollars) of a mean question of a stage that a gate can be asked and has no reply to yet."""
    if spec.system.partition(":")[0] != "model" or not spec.system.partition(":")[2]:
        return 0.0, 0.0
    from demur.models.estimate import estimate_calls

    prompts = Prompts()
    options: dict[str, Any] = {**model_options(spec.options), "name": name}
    context = SystemContext(read_image=lambda ref: read_image(ref, pool.root), prompts=prompts, options=options)
    system = ModelSystem(spec.system.partition(":")[2], context)

    def requests() -> Iterator[Request]:
        for sample in pool.samples:
            # its gold evidence stands in for the distractors that nobody has found yet
            for shown in (e.id for e in sample.gold) if stage is Stage.DISTRACTOR else ("",):
                ask = ask_of(sample, GateQuery(name, stage, shown), recipe.seed, spec.condition, prompts)
                if not system.skip_reason(ask):
                    yield system.request(ask)
                    break

    several = islice(requests(), STAND_INS) if stage is Stage.DISTRACTOR else requests()
    ledger = None if stage is Stage.DISTRACTOR else out / "build" / "calls.sqlite"
    line = estimate_calls(stage.value, system.addresses[0], several, ledger=ledger, prices=prices).lines[0]
    if not line.to_pay:
        return 0.0, 0.0
    return line.prompt / line.to_pay, None if line.money is None else line.money / line.to_pay


def estimate_convergence(
    recipe: BuildRecipe,
    out: Path,
    *,
    base: Path = Path(),
    skip_bad: bool = False,
    prices: Path | None = None,
    per_second: float | None = None,
) -> Estimate:
    """What `demur.curation.convergence.measure_convergence` would ask: a line per model or function.

    Verdicts that the folder's journal has count as cached, like replies of its ledger. An answer that cannot be graded
    is asked for once more, which no estimate can foresee.
    """
    from demur.models import Estimate, EstimateLine
    from demur.models.estimate import estimate_calls

    folder = out / "build"
    pool = sample_sources(recipe.sources, folder / "pool", base=base, seed=recipe.seed, skip_bad=skip_bad)
    judge, prompts = open_judge(recipe.judge), Prompts()
    known = {line.key for line in read_journal(folder / "journal.jsonl") if line.final}
    total = Estimate()
    specs = {
        s.name or s.system: s for s in (*(g for g in recipe.gates if Stage.PARAMETRIC in g.stages), *recipe.monitors)
    }  # fmt: skip
    context = SystemContext(read_image=lambda ref: read_image(ref, pool.root), pool=pool.samples, prompts=prompts)
    for gate, spec in specs.items():
        kind, _, name = spec.system.partition(":")
        if kind in BUILT_IN or (kind == "model" and not name):
            continue
        system = gate_opener(specs, context, {})(gate, 0)
        had = 0

        def missing(system: System = system, spec: GateSpec = spec) -> Iterator[Ask]:
            nonlocal had
            for sample in pool.samples:
                ask = ask_of(sample, GateQuery(system.id, Stage.PARAMETRIC), recipe.seed, spec.condition, prompts)
                if system.skip_reason(ask):
                    continue
                if key_of(system, ask, sample, judge_key(judge), 0) in known:
                    had += 1
                else:
                    yield ask

        if isinstance(system, ModelSystem):
            found = estimate_calls(
                gate, system.addresses[0], map(system.request, missing()), ledger=folder / "calls.sqlite",
                prices=prices, per_second=per_second,
            )  # fmt: skip
            (line,) = found.lines
            line = line.model_copy(update={"calls": line.calls + had, "cached": line.cached + had})
            total += Estimate(lines=(line,), notes=found.notes)
        else:
            todo = sum(1 for _ in missing())
            seconds = None if per_second is None else todo / per_second
            line = EstimateLine(stage=gate, model=system.id, calls=todo + had, cached=had, money=0.0, seconds=seconds)
            total += Estimate(lines=(line,), notes=(f"what {gate} may pay for is not known here",))
    return total
