"""Stage II of a build: each source's questions asked of the index by its own part of the recipe, distractors mined.

VLM-DeflectionBench, section 3.2 and appendix H; the asking itself is in `routes` and `mining` beside this.
"""

from __future__ import annotations

from collections.abc import Sequence

from demur.curation.draw import Drawn
from demur.curation.recipe import BuildRecipe
from demur.pipeline.mining import mine_samples
from demur.pipeline.mining_plan import MiningPlan, open_cross_encoder
from demur.pipeline.routes import choose_routes, tune_probes
from demur.pipeline.steps import Steps
from demur.records import Drop, Sample
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
        what was not taken as one; a `Drop` without evidence says why a sample could not be mined for as asked.
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
        asked_of = [s for s in pool.samples if s.source == source]
        routes = choose_routes(asked_of, searcher, pool.root, how, steps, pool.looks)
        choices += routes.choices
        for choice in routes.choices:
            if choice.warning:
                steps.warn(choice.warning)
        todo = [s for s in survivors if s.source == source]
        for sample, found in mine_samples(todo, searcher, pool.root, how, routes, steps, pool.looks):
            mined[sample.id] = sample
            drops += found.drops
    return choices, mined, drops
