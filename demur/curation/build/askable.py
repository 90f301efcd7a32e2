"""Which gates can be asked what, checked before any call.

A text-only model cannot be asked about an image, nor a prior about a question outside its pool. A gate that was not
asked proves nothing. So a build is refused when a stage has no gate for a kind of sample: nothing would check those
samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Evidence, ImageRef, Modality, Role, Sample
from demur.curation.build.knowledge_bases import retrieval_by_source
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.sample_pool import SampledPool
from demur.curation.gates.funnel import HOW_ASKED, GatingModel, Stage
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


class _Kind(NamedTuple):
    """Samples and evidence that make no difference to a gate."""

    stage: Stage
    source: str
    query: str
    evidence: str
    alone: Modality | None = None
    """Kind of the distractor; None in the other stages."""


def all_can_be_asked(
    recipe: BuildRecipe, pool: SampledPool, gates: Sequence[GatingModel], skips: Skips
) -> None:
    """Check that each stage has a gate for each kind of sample and of evidence.

    Raises:
        UsageError: a stage has no gate for some samples; names all such kinds, and the cure.
    """
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
