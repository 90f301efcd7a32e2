"""Which gates can be asked what, checked before any call.

A text-only model cannot be asked about an image, nor a prior about a question outside its pool. A gate that was not
asked proves nothing. So a build is refused when a stage has no gate for a kind of sample: nothing would check those
samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Evidence, ImageRef, Modality, Role, Sample
from demur.curation.build.knowledge_bases import retrieval_by_source
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.sample_pool import SampledPool
from demur.curation.build.verdicts import Verdicts
from demur.curation.gates.funnel import HOW_ASKED, GatingModel, Stage
from demur.curation.gates.spec import GateSpec
from demur.curation.mining.options import MiningOptions

Skips = Callable[[Sample, Stage, str], dict[str, str]]
"""(sample, stage, id of its distractor or "") -> gate -> why it cannot be asked this."""

_NO_IMAGE = ImageRef(sha256="0" * 64, uri="", width=1, height=1)
_STAND_INS = {
    Modality.TEXT: Evidence(
        id="\x1ftext", modality=Modality.TEXT, title="", text="-", role=Role.DISTRACTOR
    ),
    Modality.IMAGE: Evidence(
        id="\x1fimage", modality=Modality.IMAGE, title="", image=_NO_IMAGE, role=Role.DISTRACTOR
    ),
}
"""A distractor of each kind, to find out which gates can be asked before any is mined."""


def gates_of(specs: Mapping[str, GateSpec]) -> list[GatingModel]:
    """The gates for the funnel."""
    return [GatingModel(name, frozenset(spec.stages), spec.cost) for name, spec in specs.items()]


def gates_for(
    sample: Sample, stage: Stage, kind: Modality | None, gates: Sequence[GatingModel], skips: Skips
) -> frozenset[str]:
    """Gates of a stage that can be asked about a sample.

    Args:
        kind: modality of the distractor (stage DISTRACTOR), else None.
    """
    names = frozenset(g.name for g in gates if stage in g.stages)
    distractor = ""
    if kind is not None:
        sample, distractor = (
            sample.model_copy(update={"negatives": (_STAND_INS[kind],)}),
            _STAND_INS[kind].id,
        )
    return names.difference(skips(sample, stage, distractor)) if names else names


QUESTIONS = (
    (Stage.PARAMETRIC, None),
    (Stage.SOLVABLE, None),
    *((Stage.DISTRACTOR, kind) for kind in Modality),
)
"""Stages, each with the modality of the distractor or None."""


@dataclass(frozen=True)
class Askable:
    """Which gates can be asked what about the samples of a pool, before any distractor is mined."""

    gates: Sequence[GatingModel]
    able: Mapping[str, Mapping[tuple[Stage, Modality | None], frozenset[str]]]
    """Sample -> stage and modality of the distractor -> gates that can be asked."""
    kinds: Mapping[str, Sequence[Modality]]
    """Source -> modalities of the distractors of its samples, at most."""
    own_verdicts: Mapping[str, Verdicts]
    """Sample -> what the build folder holds."""

    @classmethod
    def of_pool(
        cls,
        recipe: BuildRecipe,
        pool: SampledPool,
        skips: Skips,
        own_verdicts: Mapping[str, Verdicts],
    ) -> Askable:
        """Find out which gates can be asked about each sample."""
        gates = gates_of(recipe.specs())
        able = {
            sample.id: {kind: gates_for(sample, *kind, gates, skips) for kind in QUESTIONS}
            for sample in pool.samples
        }
        retrievals = retrieval_by_source(recipe, pool)
        kinds = {
            source: _candidate_modalities(retrievals[source], pool, source)
            for source in {sample.source for sample in pool.samples}
        }
        return cls(gates, able, kinds, own_verdicts)

    def gates_of(self, sample: Sample, stage: Stage) -> frozenset[str]:
        """The gates that can be asked about a sample in a stage without distractors."""
        return self.able[sample.id][stage, None]

    def most_calls(self, gate: str, stage: Stage, samples: Iterable[Sample]) -> int:
        """Questions of a stage that a gate can be asked."""
        return sum(gate in gates for s in samples for gates in self._questions(s, stage))

    def distractors(self, sample: Sample, verdicts: Verdicts) -> dict[str, frozenset[str]]:
        """Candidate distractor -> gates that can be asked about it: as mined, else as many as the recipe wants."""
        gates_able = self.able[sample.id]
        if verdicts.candidates is not None:
            kinds = ((c, c.modality or Modality.TEXT) for c in verdicts.candidates)
            return {
                c.id: gates_able[Stage.DISTRACTOR, kind].difference(c.skipped) for c, kind in kinds
            }
        recorded = dict.fromkeys(query.distractor for query in verdicts.labels if query.distractor)
        gates_of_each = [gates_able[Stage.DISTRACTOR, kind] for kind in self.kinds[sample.source]]
        names = [*recorded, *(f"#{number}" for number in range(len(recorded), len(gates_of_each)))]
        nobody = [frozenset[str]()] * len(recorded)
        return dict(zip(names, [*gates_of_each, *nobody], strict=False))

    def _questions(self, sample: Sample, stage: Stage) -> Iterable[frozenset[str]]:
        """For each question of a stage, the gates that can be asked."""
        if stage is Stage.DISTRACTOR:
            return self.distractors(sample, self.own_verdicts.get(sample.id, Verdicts())).values()
        return [self.gates_of(sample, stage)]


def _candidate_modalities(
    retrieval: MiningOptions, pool: SampledPool, source: str
) -> list[Modality]:
    """Modalities of the distractors of a sample of a source, at most."""
    samples = [s for s in pool.samples if s.source == source]
    native = (
        Counter(e.modality for s in samples for e in s.negatives)
        if retrieval.adopts
        else Counter[Modality]()
    )
    total = round(native.total() / max(1, len(samples)))
    images = round(native[Modality.IMAGE] / max(1, len(samples)))
    text = retrieval.text + retrieval.lexical + total - images
    return [Modality.TEXT] * text + [Modality.IMAGE] * (retrieval.visual + images)


class _Kind(NamedTuple):
    """Samples and evidence that make no difference to a gate."""

    stage: Stage
    source: str
    query: str
    evidence: str
    alone: Modality | None = None
    """Kind of the distractor; None in the other stages."""


def all_can_be_asked(recipe: BuildRecipe, pool: SampledPool, skips: Skips) -> None:
    """Check that each stage has a gate for each kind of sample and of evidence.

    Raises:
        UsageError: a stage has no gate for some samples; names all such kinds, and the cure.
    """
    gates = gates_of(recipe.specs())
    is_askable: dict[_Kind, bool] = {}
    counted: Counter[_Kind] = Counter()
    hows = retrieval_by_source(recipe, pool)
    for sample in pool.samples:
        for kind in _question_kinds(sample, hows[sample.source]):
            counted[kind] += 1
            if not is_askable.get(kind):
                is_askable[kind] = bool(gates_for(sample, kind.stage, kind.alone, gates, skips))
    lacking = [kind for kind, askable in is_askable.items() if not askable]
    if not lacking:
        return
    problems, cures = [], set()
    for kind in lacking:
        names = [g.name for g in gates if kind.stage in g.stages]
        nobody = f"none of {', '.join(names)} can be asked" if names else "no gate is asked"
        about = ", ".join(filter(None, (kind.source, kind.query, kind.evidence)))
        problems.append(f"{about} ({counted[kind]:,}): {nobody} {HOW_ASKED[kind.stage]}")
        cures.add(f"give the recipe a gate with the stage {kind.stage.value} that takes these")
        if kind.alone is Modality.IMAGE and names:
            cures.add("set retrieval.visual: 0 where no image can be checked")
    raise UsageError(
        f"these would go unchecked: {'; '.join(problems)}",
        item=recipe.name,
        cure=f"{'; '.join(sorted(cures))}; or leave such samples out with --skip-bad",
    )


def _question_kinds(sample: Sample, options: MiningOptions) -> Iterator[_Kind]:
    """The kinds of question that the stages ask about a sample."""
    query = "questions about images" if sample.images else "questions of text alone"
    yield _Kind(Stage.PARAMETRIC, sample.source, query, "")
    gold = " and ".join(sorted({e.modality.value for e in sample.gold}))
    yield _Kind(Stage.SOLVABLE, sample.source, query, f"gold evidence: {gold}")
    modalities = {e.modality for e in sample.negatives} if options.adopts else set()
    modalities |= {Modality.TEXT} if options.text or options.lexical else set()
    modalities |= {Modality.IMAGE} if options.visual else set()
    for alone in sorted(modalities):
        yield _Kind(Stage.DISTRACTOR, sample.source, query, f"distractors: {alone.value}", alone)
