"""Stage II of a build: mine distractors for each source from its own index, with its own options.

VLM-DeflectionBench, section 3.2 and appendix H: negatives that a source ships are adopted, else distractors are mined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from demur.core.progress import Progress
from demur.core.records import Drop, Sample
from demur.curation.build.knowledge_bases import KnowledgeBase, nothing_to_mine
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.sample_pool import SampledPool
from demur.curation.mining.mine import adopt_own_negatives, mine_samples
from demur.curation.mining.modes import check_images, choose_modes, tune_probes
from demur.curation.mining.queries import Mining, supported_options
from demur.retrieval.found import FoundSearcher
from demur.retrieval.recall import Choice


def mine_pool(
    recipe: BuildRecipe,
    pool: SampledPool,
    survivors: Sequence[Sample],
    bases: Mapping[str, KnowledgeBase],
    steps: Progress,
) -> tuple[list[Choice], dict[str, Sample], list[Drop]]:
    """Tune the indexes and choose the best retrieval modes on the whole pool, then mine for the survivors.

    Args:
        pool: all samples; the modes are chosen on them, so that the choice does not depend on the survivors.
        bases: source -> its knowledge base, with its index if it is mined (`demur.curation.build.knowledge_bases`).

    Returns:
        The chosen modes per source and kind of question, the survivors with their candidate distractors by id, and the
        drops; a `Drop` without evidence says why a sample could not be mined for.

    Raises:
        UsageError: nothing can be mined from a source as the recipe asks.
    """
    choices: list[Choice] = []
    mined: dict[str, Sample] = {}
    drops: list[Drop] = []
    for source, base in bases.items():
        todo = [s for s in survivors if s.source == source]
        if base.searcher is None:
            for sample in todo:
                mined[sample.id], leaking = adopt_own_negatives(
                    sample, base.retrieval_spec, pool.image_hashes, recipe.seed
                )
                drops += leaking
            continue
        pool_samples = [s for s in pool.samples if s.source == source]
        mining = _open_mining(base, pool_samples, todo, pool, steps)
        check_images(base.searcher, pool.root, mining.options, steps, f"{source}: ")
        tune_probes(pool_samples, base.searcher, pool.root, [mining.options], steps)
        chosen = choose_modes(pool_samples, mining, total=len(pool_samples))
        choices += chosen.choices
        for sample, outcome in mine_samples(
            todo, mining, chosen, total=len(todo), seed=recipe.seed
        ):
            mined[sample.id] = base.placed(sample)
            drops += outcome.drops
        if isinstance(base.searcher, FoundSearcher) and (left_out := base.searcher.found.left_out):
            steps.warn(
                f"{source}: {len(left_out):,} passages cannot be embedded: {min(left_out)} ..."
            )
    return choices, mined, drops


def _open_mining(
    base: KnowledgeBase,
    pool_samples: Sequence[Sample],
    survivors: Sequence[Sample],
    pool: SampledPool,
    steps: Progress,
) -> Mining:
    """The index of a source and the options that it supports; what it does not becomes a note and a warning.

    Raises:
        UsageError: nothing can be mined.
    """
    assert base.searcher is not None
    options, lacking = supported_options(
        base.retrieval_spec, base.searcher.modes, pictured=any(s.images for s in pool_samples)
    )
    base.notes += [line for line in lacking if line not in base.notes]
    has_negatives = options.adopts and any(s.negatives for s in survivors)
    if lacking and not options.wanted and not has_negatives:
        raise nothing_to_mine(base.source, lacking)
    for line in base.notes:
        steps.warn(f"{base.source}: {line}")
    return Mining(base.searcher, pool.root, options, steps, base.cross_encoder, pool.image_hashes)
