"""What a recipe names, read and checked before any call: by this code for a build and for its estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.curation.build.folder import FolderRecipe
from demur.curation.build.knowledge_bases import (
    KnowledgeBase,
    align_gold,
    open_bases,
    retrieval_by_source,
)
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.sample_pool import SampledPool, sample_sources
from demur.curation.mining.queries import modes_of
from demur.indexing.encoders import Encoder

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine


class Inputs(NamedTuple):
    """The samples and knowledge bases of a recipe."""

    pool: SampledPool
    """Its text gold is chunks of the knowledge bases, where these are mined."""
    bases: Mapping[str, KnowledgeBase]
    """Source -> its knowledge base."""


def read_inputs(
    stated: FolderRecipe,
    *,
    encoder: Encoder | None = None,
    engine: RayEngine | None = None,
    keep_pool: bool = True,
    steps: Progress = QUIET,
) -> Inputs:
    """Read the sources of a recipe, open its knowledge bases and align gold with them.

    Args:
        encoder: the recipe's, open; None embeds nothing, and opens no encoder and no index.
        engine: the cluster that embeds and searches; None is this process.
        keep_pool: leave the pool in the build folder; else it goes when this process ends.

    Raises:
        BadInput: problems of the sources, all at once.
        UsageError: the recipe names parts that do not exist, or no sample can have enough distractors.
    """
    recipe, base = stated.recipe, stated.base
    pool = sample_sources(
        recipe.sources,
        stated.work / "build" / "pool",
        base=base,
        seed=recipe.seed,
        skip_bad=stated.skip_bad,
        keep=keep_pool,
    )
    enough_candidates(recipe, pool)
    bases = open_bases(recipe, pool, base=base, encoder=encoder, engine=engine)
    return Inputs(align_gold(pool, bases, steps), bases)


def enough_candidates(recipe: BuildRecipe, pool: SampledPool) -> None:
    """Check that enough distractors can be mined.

    Raises:
        UsageError: no sample can have ``k_min`` candidates, or a retrieval mode does not exist.
    """
    most_candidates = 0
    for source, retrieval in retrieval_by_source(recipe, pool).items():
        own_negatives = (
            max((len(s.negatives) for s in pool.samples if s.source == source), default=0)
            if retrieval.adopts
            else 0
        )
        most_candidates = max(
            most_candidates, (retrieval.wanted if retrieval.mines else 0) + own_negatives
        )
        modes_of(retrieval)  # raises for a wrong mode
    if most_candidates < recipe.rules.k_min:
        raise UsageError(
            f"k_min={recipe.rules.k_min} distractors per sample, but no sample has more than {most_candidates} candidates",
            item=recipe.name,
            cure="lower rules.k_min, or raise retrieval.text, lexical and visual",
        )
