"""What a build will ask and cost, before anybody is asked: calls, tokens and money per stage and gate.

Gates are not independent: what one model does not know, others seldom know, so more samples reach Stage III than
independent gates would leave. How much they have in common is fitted to verdicts that are there (the build's own, a
pilot's, an earlier release's); where there are none, the estimate is an interval, from
independent gates to gates of which each knows all that a weaker one knows.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import pvariance
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Ask, Modality, Record, Request, Sample
from demur.core.stats import z_of
from demur.core.store import seed_of
from demur.core.uris import read_image
from demur.curation.bases import gold_at_the_cut, open_bases, settled
from demur.curation.context import enough_candidates, gate_opener, gates_of
from demur.curation.gates.askable import Askable, Skips, all_can_be_asked, askable
from demur.curation.gates.costs import Answers, GateRates, expected, fit
from demur.curation.gates.funnel import GateQuery, Rules, Stage, settling
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import ask_of, judge_key, key_of, model_options, read_journal, skip_reasons
from demur.curation.recipe import BuildRecipe, GateSpec
from demur.curation.sample_pool import SampledPool, sample_sources
from demur.judge.base import open_judge
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import System, SystemContext
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.models import Estimate

ASSUMED = {Stage.PARAMETRIC: 0.3, Stage.SOLVABLE: 0.6, Stage.DISTRACTOR: 0.1}
"""Probability of CORRECT where nothing was measured; the estimate says that it is assumed."""
MEASURED_FROM = 15
"""Questions of a stage from which its rates count as measured."""
STAND_INS = 200
"""Questions that the size of distractor questions is estimated from."""
TOGETHER = (0.0, 0.5, 1.0)
"""How much gates have in common, where nothing was measured: both ends, and the estimate between them."""
REFITS = 8
"""Resamples of the verdicts, for what they leave open."""
BUILT_IN = frozenset({"prior", "reader", "answers"})
PLAYS = 2000
"""Samples played for the estimate; a fifth of that for each resample."""


class StageEstimate(Record):
    """One gate in one stage."""

    stage: Stage
    gate: str
    naive: int
    """Questions that Algorithm 1 would put to it, stage after stage, by the rates."""
    at_most: int
    """Questions if every sample reached the stage and every answer were needed."""
    expected: int
    """Questions by the rates, when only what can matter is asked."""
    had: int
    """Verdicts that the journal of the build folder has, for this gate and stage."""
    rate: float
    """Probability of CORRECT that the estimate reckons with."""
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
    """Questions in all, from and to: 95 %, or what independent gates and gates that know the same would need."""
    money: tuple[float, float] | None
    """The same of the US dollars still to pay; None when a price is not known."""
    kept: float
    """Share of the pool expected to stay."""
    kept_range: tuple[float, float]
    verdicts: int
    """That the estimate learnt from."""
    basis: Literal["learnt", "assumed"]
    """``learnt``: every stage is reckoned by verdicts. ``assumed``: some stage by assumed or given rates."""
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


class _Verdicts(NamedTuple):
    """What journals know, as the funnel would have met it."""

    had: Counter[tuple[str, Stage]]
    """Verdicts by gate and stage."""
    patterns: dict[tuple[str, Stage], Counter[Answers]]
    """(source, stage) -> what was said of how many questions; source "" for all."""

    def enough(self, source: str, stage: Stage) -> bool:
        """Whether the rates of a stage count as measured."""
        return self.patterns[source, stage].total() >= MEASURED_FROM


class _Outcome(NamedTuple):
    """One way in which a build may go."""

    calls: dict[tuple[str, Stage], float]
    algorithm1: dict[tuple[str, Stage], float]
    variance: float
    """Of the sum of calls, from the draw of the pool's samples alone."""
    kept: float


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
    """Reckon a build through; the sources are read, nothing is embedded and nobody is asked.

    Args:
        out: its build folder; verdicts and replies that it has are not paid again, and give the rates.
        rates: ``stage`` or ``gate/stage`` -> probability of CORRECT, in [0, 1], before what was measured.
        learn_from: another build, or its release, whose verdicts give the rates too: a pilot on part of the pool, an
            earlier version. Gates are the same when they have the same name.

    Raises:
        UsageError: a rate names no gate or stage, or lies outside [0, 1]; ``learn_from`` has no verdicts.
        BadInput: problems of the sources.
    """
    specs = recipe.specs()
    given = _rates(rates or {}, specs)
    pool = sample_sources(recipe.sources, out / "build" / "pool", base=base, seed=recipe.seed, skip_bad=skip_bad)
    enough_candidates(recipe, pool)
    pool = gold_at_the_cut(pool, open_bases(recipe, pool, base=base, without_encoders=True))
    gates, skips = gates_of(specs), _skips(recipe, pool)
    if not skip_bad:
        all_can_be_asked(recipe, pool, gates, skips)
    n = len(pool.samples)
    rules = recipe.rules.rules()
    journals = [out / "build" / "journal.jsonl"]
    if learn_from is not None:
        journals += [_journal_of(learn_from)]
    sources = {s.id: s.source for s in pool.samples}
    known = _verdicts(journals, sources, rules)
    own = _verdicts(journals[:1], sources, rules).had
    of_stage = {stage: [g for g, spec in specs.items() if stage in spec.stages] for stage in Stage}
    rate: dict[tuple[str, Stage], float] = {}
    origin: dict[tuple[str, Stage], Literal["given", "measured", "assumed"]] = {}
    for stage, names in of_stage.items():
        seen = known.patterns["", stage]
        fitted = fit(seen, names) if seen and names else None
        for name in names:
            if (name, stage) in given:
                rate[name, stage], origin[name, stage] = given[name, stage], "given"
            elif fitted is not None and known.enough("", stage):
                rate[name, stage], origin[name, stage] = fitted.rates[name], "measured"
            else:
                rate[name, stage], origin[name, stage] = ASSUMED[stage], "assumed"
    learnt = {s for s, names in of_stage.items() if names and all(origin[g, s] == "measured" for g in names)}
    basis: Literal["learnt", "assumed"] = "learnt" if learnt == {s for s in Stage if of_stage[s]} else "assumed"

    # Samples of a source about which the same gates can be asked are played together.
    sizes = Counter((s.source, askable(s, gates, skips)) for s in pool.samples)
    shown = {source: _candidates(recipe, pool, source) for source in set(sources.values())}

    def outcome(
        patterns: Mapping[tuple[str, Stage], Counter[Answers]], together: float, seed: int, plays: int
    ) -> _Outcome:
        calls: Counter[tuple[str, Stage]] = Counter()
        naive: Counter[tuple[str, Stage]] = Counter()
        variance = kept = 0.0
        for (source, able), size in sizes.items():
            if not able.parametric:  # they leave unasked
                continue
            guesses: dict[Stage, GateRates] = {}
            for stage, names in of_stage.items():
                if stage in learnt:
                    whose = source if known.enough(source, stage) else ""
                    guesses[stage] = fit(patterns[whose, stage], names)
                else:
                    guesses[stage] = GateRates({g: rate[g, stage] for g in names}, together)
            played = expected(
                able.gates(gates),
                [able.image if kind is Modality.IMAGE else able.text for kind in shown[source]],
                rules,
                guesses,
                plays=max(100, round(plays * size / n)),
                seed=seed,
            )
            for key, value in played.calls.items():
                calls[key] += size * value  # type: ignore[assignment]  # a Counter counts fractions as well
            for key, value in played.algorithm1.items():
                naive[key] += size * value  # type: ignore[assignment]
            variance += size * played.spread**2
            kept += size * played.kept
        return _Outcome(dict(calls), dict(naive), variance, kept / n)

    if basis == "learnt":
        dice = random.Random(seed_of(recipe.seed, "recipe"))
        likely = outcome(known.patterns, 0.5, recipe.seed, PLAYS)
        around = [outcome(_resampled(known.patterns, dice), 0.5, i, PLAYS // 5) for i in range(REFITS)]
    else:
        around = [outcome(known.patterns, t, recipe.seed, PLAYS) for t in TOGETHER]
        likely = around[TOGETHER.index(0.5)]

    lines = []
    per_call: dict[tuple[str, Stage], float | None] = {}
    for stage in Stage:
        for name in of_stage[stage]:
            key = (name, stage)
            most = sum(size * _questions(name, stage, able, shown[source]) for (source, able), size in sizes.items())
            expects = min(most, round(likely.calls.get(key, 0.0)))
            tokens, price = _per_call(recipe, specs[name], name, stage, pool, out, prices)
            per_call[key] = price
            todo = max(0, expects - own[key])
            lines.append(StageEstimate(
                stage=stage, gate=name, naive=round(likely.algorithm1.get(key, 0.0)), at_most=most,
                expected=expects, had=own[key], rate=round(rate[key], 4), rate_from=origin[key],
                tokens=round(todo * tokens), waits=specs[name].system.partition(":")[0] not in BUILT_IN,
                money_expected=None if price is None else todo * price,
                money_at_most=None if price is None else max(0, most - own[key]) * price,
            ))  # fmt: skip

    def between(values: Sequence[float], middle: float, noise: float) -> tuple[float, float]:
        if basis == "learnt":
            # of the spread of the resamples a part is that of playing few samples: ``noise`` scaled to their number
            verdicts = max(0.0, pvariance(values) - noise * n / (PLAYS // 5))
            half = z_of() * math.sqrt(verdicts + noise * (1 + n / PLAYS))
            return max(0.0, middle - half), middle + half
        return max(0.0, min(values) - z_of() * math.sqrt(noise)), max(values) + z_of() * math.sqrt(noise)

    low, high = between([sum(o.calls.values()) for o in around], sum(likely.calls.values()), likely.variance)
    k_low, k_high = between([o.kept for o in around], likely.kept, likely.kept * (1 - likely.kept) / n)
    dollars = None
    if None not in per_call.values():

        def to_pay(o: _Outcome) -> float:
            return sum(max(0.0, o.calls.get(k, 0.0) - own[k]) * (price or 0.0) for k, price in per_call.items())

        dear = max((price or 0.0 for price in per_call.values()), default=0.0)
        dollars = between([to_pay(o) for o in around], to_pay(likely), likely.variance * dear * dear)
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
        samples=n, candidates=max(map(len, shown.values())), lines=tuple(lines), calls=(round(low), round(high)),
        money=dollars, kept=round(likely.kept, 4), kept_range=(round(k_low, 4), round(min(1.0, k_high), 4)),
        verdicts=sum(known.had.values()), basis=basis, notes=tuple(notes),
    )  # fmt: skip


def _candidates(recipe: BuildRecipe, pool: SampledPool, source: str) -> list[Modality]:
    """The kinds of the distractors that a sample of a source will have, on the whole and at most."""
    how = settled(recipe, pool)[source]
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
        import numpy as np

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


def _resampled(
    patterns: Mapping[tuple[str, Stage], Counter[Answers]], dice: random.Random
) -> dict[tuple[str, Stage], Counter[Answers]]:
    """As many questions of each source and stage, resampled from those that were asked."""
    found: dict[tuple[str, Stage], Counter[Answers]] = defaultdict(Counter)
    for (source, stage), seen in patterns.items():
        if source:
            resampled = Counter(dice.choices(sorted(seen, key=sorted), [seen[a] for a in sorted(seen, key=sorted)],
                                         k=seen.total()))  # fmt: skip
            found[source, stage] = resampled
            found["", stage].update(resampled)
    return found


def _journal_of(folder: Path) -> Path:
    for path in (folder / "build" / "journal.jsonl", folder.resolve().parent / "build" / "journal.jsonl"):
        if path.exists():
            return path
    raise UsageError("no verdicts there to learn from", item=folder, cure="name a build folder, or the release in one")


def _verdicts(journals: Sequence[Path], sources: Mapping[str, str], rules: Rules) -> _Verdicts:
    """Read verdicts; of solvable and distractor questions those about samples that came so far.

    An exhaustive build asks them about all samples; what gates know without evidence would then pass for what they
    read.
    """
    labels_of: dict[str, dict[Stage, dict[str, dict[str, Label]]]] = {}
    had: Counter[tuple[str, Stage]] = Counter()
    seen: set[str] = set()
    for line in (line for path in journals for line in read_journal(path)):
        if line.repeat or line.key in seen or not line.final or line.answer.label in (Label.UNGRADED, Label.SKIPPED):
            continue
        seen.add(line.key)
        gate, stage, evidence = line.query
        had[gate, stage] += 1
        of_sample = labels_of.setdefault(line.sample, {s: {} for s in Stage})
        of_sample[stage].setdefault(evidence, {})[gate] = line.answer.label
    patterns: dict[tuple[str, Stage], Counter[Answers]] = defaultdict(Counter)
    for sample, stages in labels_of.items():
        for stage in Stage:
            enough = settling(stage, rules)
            settled = False
            for labels in stages[stage].values():
                answers = frozenset((g, v in enough) for g, v in labels.items())
                settled = settled or any(v for _, v in answers)
                for source in ("", sources.get(sample, "?")):
                    patterns[source, stage][answers] += 1
            if settled == (stage is Stage.PARAMETRIC):
                break
    return _Verdicts(had, patterns)


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
