"""Stage II of a build: each source's questions asked of the index by its own part of the recipe, distractors mined.

VLM-DeflectionBench, section 3.2 and appendix H; the asking itself is `demur.pipeline.mining`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from demur.curation.draw import Drawn
from demur.curation.near import looks_of, same_look, same_text
from demur.curation.recipe import BuildRecipe
from demur.pipeline.mining import MiningPlan, choose_routes, mine_samples, open_cross_encoder, tune_probes
from demur.pipeline.steps import Steps
from demur.records import Drop, Evidence, ImageRef, Sample
from demur.retrieval.recall import Choice
from demur.retrieval.search import Searcher


def mine_pool(
    plan: BuildRecipe, pool: Drawn, survivors: Sequence[Sample], searcher: Searcher, steps: Steps
) -> tuple[list[Choice], dict[str, Sample], list[Drop]]:
    """Tune the index and choose the best retrieval modes on the whole pool, then mine for the survivors.

    Args:
        plan: the recipe; a source's own ``retrieval`` goes before the common one (the paper's differ by source).
        pool: all samples: the modes are chosen on them, whoever survived.
        survivors: those that distractors are wanted for.
        searcher: the index; its inverted lists, if it has any, are tuned.
        steps: told how far it is.

    Returns:
        The choice of modes per source and kind of question, the survivors with their candidate distractors by id, and
        what was not taken as one.
    """
    choices: list[Choice] = []
    mined: dict[str, Sample] = {}
    drops: list[Drop] = []
    wanted = {source: spec.retrieval or plan.retrieval for source, spec in pool.specs.items()}
    asked = {name: open_cross_encoder(name) for name in {how.cross_encoder for how in wanted.values()} if name}
    plans = {
        source: MiningPlan.of(how, seed=plan.seed, cross_encoder=asked.get(how.cross_encoder or ""))
        for source, how in wanted.items()
    }
    tune_probes(pool.samples, searcher, pool.root, plans.values(), steps)
    for source, how in plans.items():
        routes = choose_routes([s for s in pool.samples if s.source == source], searcher, pool.root, how, steps)
        choices += routes.choices
        todo = []
        for sample in survivors:
            if sample.source == source:
                cleaned, gone = _without_leaks(sample, pool.root)
                todo.append(cleaned)
                drops += gone if how.native else []
        told = {(d.sample, d.evidence) for d in drops}  # natives left out; a search may find them again
        for sample, found in mine_samples(todo, searcher, pool.root, how, routes, steps):
            mined[sample.id] = sample
            drops += [d for d in found.drops if d.evidence and (d.sample, d.evidence) not in told]
    return choices, mined, drops


def _without_leaks(sample: Sample, root: Path) -> tuple[Sample, list[Drop]]:
    """The sample without native negatives that say or show what its gold evidence does, or show its query image."""
    if not sample.negatives:
        return sample, []
    looks = looks_of(root)

    def alike(one: ImageRef, other: ImageRef) -> bool:
        a, b = looks(one), looks(other)
        return one.sha256 == other.sha256 or (a is not None and b is not None and same_look(a, b))

    def objection(negative: Evidence) -> str:
        for gold in sample.gold:
            if negative.text and gold.text:
                near = same_text(negative.text, gold.text)
            else:
                near = bool(
                    negative.text is None and gold.text is None and negative.image and gold.image
                    and alike(negative.image, gold.image)
                )  # fmt: skip
            if near:
                return "near-duplicate of gold"
        for query in sample.images:
            if negative.image and alike(negative.image, query):
                return "query image" if negative.image.sha256 == query.sha256 else "near-duplicate of query"
        return ""

    gone = {e.id: why for e in sample.negatives if (why := objection(e))}
    left = tuple(e for e in sample.negatives if e.id not in gone)
    drops = [Drop(sample=sample.id, evidence=i, stage="mine", reason=why) for i, why in sorted(gone.items())]
    return sample.model_copy(update={"negatives": left}), drops
