"""What builds hold about samples: labels of gates, the rates that follow, and whose labels stand in for unknown ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Sample
from demur.curation.build.decisions import FILE as DECISIONS
from demur.curation.build.decisions import CandidateLine, read_decisions
from demur.curation.gates.funnel import MINING, GateQuery, Rules, Stage, settling
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import read_journal
from demur.curation.gates.spec import GateSpec

ASSUMED = {Stage.PARAMETRIC: 0.3, Stage.SOLVABLE: 0.6, Stage.DISTRACTOR: 0.1}
"""Probability of CORRECT where none was measured; the estimate marks it as assumed."""
MEASURED_FROM = 15
"""Answers of a gate in a stage from which its rate counts as measured; known samples from which others are replayed
by them."""
Origin = Literal["given", "measured", "assumed"]
"""Where a rate comes from."""

Labels = Mapping[GateQuery, Label]
"""Known labels of one sample, in the order in which they were asked for."""
Place = tuple[str, Stage]
"""A gate in a stage."""


class Verdicts(NamedTuple):
    """What a build folder holds about one sample."""

    labels: Labels = MappingProxyType({})
    candidates: tuple[CandidateLine, ...] | None = None
    """Its candidate distractors; None of a sample that none were mined for."""


class KnownVerdicts(NamedTuple):
    """The verdicts that an estimate uses."""

    recorded: Mapping[str, Verdicts]
    """Sample -> what the build folder holds."""
    known: Mapping[str, Verdicts]
    """The same, and what another build holds about other samples."""
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Number of labels."""
        return sum(len(verdicts.labels) for verdicts in self.known.values())

    def count_recorded(self, samples: Iterable[Sample]) -> Counter[Place]:
        """Labels of samples in the build folder, by gate and stage."""
        return Counter(
            (query.gate, query.stage)
            for sample in samples
            for query in self.recorded.get(sample.id, Verdicts()).labels
        )


def known_verdicts(out: Path, learn_from: Path | None, places: Sequence[Place]) -> KnownVerdicts:
    """The verdicts of a build folder, and of another build if one is given.

    Args:
        learn_from: another build, or its release.
        places: the gates and stages that count.

    Raises:
        UsageError: ``learn_from`` has no verdicts.
    """
    recorded = _verdicts_in(out / "build", places)
    if learn_from is None:
        return KnownVerdicts(recorded, recorded)
    pilot = build_of(learn_from)
    learnt = KnownVerdicts({}, _verdicts_in(pilot, places))
    notes: tuple[str, ...] = ()
    if not (pilot / DECISIONS).exists():
        count = f"{learnt.total:,} verdicts on {len(learnt.known):,} samples"
        notes = (
            f"{learn_from} has not finished: what its {count} leave open is drawn; finish it to know more",
        )
    return KnownVerdicts(recorded, {**learnt.known, **recorded}, notes)


def build_of(folder: Path) -> Path:
    """The working files of a build folder, or of a release in one.

    Raises:
        UsageError: it holds no verdicts.
    """
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


# --- rates ---------------------------------------------------------------------------------------


class GateRates(NamedTuple):
    """Probability of CORRECT of each gate in each stage, in [0, 1]."""

    rate: Mapping[Place, float]
    origin: Mapping[Place, Origin]


def parse_rates(rates: Mapping[str, float], specs: Mapping[str, GateSpec]) -> dict[Place, float]:
    """Rates by ``stage`` or ``gate/stage``, for every gate of a stage.

    Raises:
        UsageError: a rate names no gate or stage, or is outside [0, 1].
    """
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


def rates_of(
    places: Sequence[Place],
    labels_of_samples: Iterable[Labels],
    given_rates: Mapping[Place, float],
    rules: Rules,
) -> GateRates:
    """The rate at which each gate settles questions of each stage, and its origin.

    Only samples that reach a stage count: an exhaustive build also asks about samples that gates know without evidence.
    """
    answered: Counter[Place] = Counter()
    settled: Counter[Place] = Counter()
    for labels in labels_of_samples:
        for stage in Stage:
            is_settled = {
                query: label in settling(stage, rules)
                for query, label in labels.items()
                if query.stage is stage and label is not Label.MISSING
            }
            answered.update((query.gate, stage) for query in is_settled)
            settled.update((query.gate, stage) for query in is_settled if is_settled[query])
            if any(is_settled.values()) == (stage is Stage.PARAMETRIC):
                break
    rate: dict[Place, float] = {}
    origin: dict[Place, Origin] = {}
    for place in places:
        if place in given_rates:
            rate[place], origin[place] = given_rates[place], "given"
        elif answered[place] >= MEASURED_FROM:
            rate[place], origin[place] = settled[place] / answered[place], "measured"
        else:
            rate[place], origin[place] = ASSUMED[place[1]], "assumed"
    return GateRates(rate, origin)


# --- samples without verdicts --------------------------------------------------------------------


def choose_donors(
    samples: Sequence[Sample], verdicts: KnownVerdicts, rates: GateRates
) -> dict[str, Verdicts]:
    """Sample -> verdicts to replay it with: its own, else those of another sample, of the same source if possible.

    Args:
        rates: those that the user gave replace labels of other samples.
    """
    usable = {
        id: Verdicts(
            {
                query: label
                for query, label in labels.items()
                if rates.origin[query.gate, query.stage] != "given"
            },
            candidates,
        )
        for id, (labels, candidates) in verdicts.known.items()
    }
    if len(usable) < MEASURED_FROM:
        return {s.id: verdicts.recorded.get(s.id, Verdicts()) for s in samples}
    of_source: dict[str, list[Verdicts]] = defaultdict(list)
    for s in samples:
        if s.id in usable:
            of_source[s.source].append(usable[s.id])
    all_verdicts = cycle(usable.values())
    donors = {
        source: cycle(of_samples)
        for source, of_samples in of_source.items()
        if len(of_samples) >= MEASURED_FROM
    }
    return {
        s.id: verdicts.recorded.get(s.id)
        or usable.get(s.id)
        or next(donors.get(s.source, all_verdicts))
        for s in samples
    }
