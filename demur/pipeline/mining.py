"""Samples and an index to distractors: ask in every mode, choose the best for each source, mine, keep provenance.

The route of a text distractor (VLM-DeflectionBench, section 3.2): a question with an image goes image -> pages -> their
passages, ranked by the question; a question without one goes straight to the passages. An image distractor is the
neighbour of the query image, or of the gold image where the question is text. Samples are taken in blocks, so that
memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from demur.curation.diversity import Diversity
from demur.curation.mine import CrossEncoder, Mined, Pool, mine
from demur.curation.near import looks_of
from demur.curation.select import Selection
from demur.errors import DataError, StorageError, UsageError
from demur.indexing.pixels import rgb
from demur.pipeline.steps import QUIET, Steps
from demur.records import Drop, Hit, ImageRef, Modality, Sample
from demur.retrieval.recall import Choice, best_mode
from demur.retrieval.search import Query, Searcher, canonical_mode
from demur.store import read_image

if TYPE_CHECKING:
    from PIL.Image import Image

BLOCK = 64
"""Samples asked together."""
PAGE_MODES = ("image->title", "image->title+summary", "image->image")
TEXT_MODES = ("text->text", "lexical", "fused")


@dataclass(frozen=True)
class MiningPlan:
    """What to mine, and how the index is asked."""

    quotas: Mapping[Pool, int] = field(default_factory=lambda: {"text": 10, "visual": 10})
    selection: Selection = field(default_factory=Selection)
    per_page: int | None = None
    pages: int = 10
    """Pages opened for a question with an image (10 for InfoSeek and ViQuAE, 5 for Encyclopedic-VQA in the paper)."""
    pages_of: Mapping[str, int] = field(default_factory=dict)
    """Source -> `pages`, where it differs."""
    modes: tuple[str, ...] = (*PAGE_MODES, *TEXT_MODES)
    """Modes to choose from; one of a kind leaves nothing to choose."""
    depth: int = 6
    """Hits fetched, as a multiple of the distractors wanted."""
    native: bool = True
    """Keep the sample's native negatives; mined ones come behind them."""
    cross_encoder: CrossEncoder | None = None
    diversity: float | None = None
    """Weight of relevance in maximal marginal relevance, 0 to 1; None picks by rank."""

    def __post_init__(self) -> None:
        if self.diversity is not None:
            Diversity(self.diversity, lambda ids: np.eye(len(ids)))  # says what is wrong with it
            if self.selection.sampling != "top":
                raise UsageError(
                    "distractors are picked at random or for diversity, not both", cure="leave one of them out"
                )
        for mode in self.modes:
            if canonical_mode(mode) not in (*PAGE_MODES, *TEXT_MODES):
                raise UsageError(
                    f"{mode} finds neither pages by an image nor passages by a text",
                    cure=f"choose from {', '.join((*PAGE_MODES, *TEXT_MODES))}",
                )

    def pages_for(self, source: str) -> int:
        """Pages opened for a question of that source."""
        return self.pages_of.get(source, self.pages)


@dataclass(frozen=True)
class Routes:
    """The mode chosen for each source: by its recall of gold where there is a choice."""

    pages: Mapping[str, Choice]
    """Source -> how its images find pages."""
    passages: Mapping[str, Choice]
    """Source -> how its questions find passages."""

    @property
    def choices(self) -> list[Choice]:
        """All of them, for tables."""
        return [*self.pages.values(), *self.passages.values()]


def choose_routes(
    samples: Iterable[Sample], searcher: Searcher, root: Path | None, plan: MiningPlan, steps: Steps = QUIET
) -> Routes:
    """Recall of gold for every mode, source by source, and the best of them.

    A question with an image counts as found when a page of its gold evidence is among the first `plan.pages`; one
    without when gold evidence itself is among the first 10 passages.

    Args:
        samples: read once; those without gold in the index are in no denominator.
        searcher: the index.
        root: folder that relative image paths start from.
        plan: its modes are compared, as far as the index can be asked in them.
        steps: told how far it is.
    """
    found: dict[tuple[str, str], dict[str, list[list[str]]]] = {}
    gold: dict[tuple[str, str], list[set[str]]] = {}
    done = 0
    images = 4 * max(plan.pages, *plan.pages_of.values(), 0)  # several of them may lie on one page
    for block in _blocks(samples):
        for kind, modes in (("pages", PAGE_MODES), ("passages", TEXT_MODES)):
            mine_ = [s for s in block if bool(s.images) == (kind == "pages")]
            asked = _readable(mine_, root)
            for mode in modes:
                if mode not in plan.modes or mode not in searcher.modes or not asked:
                    continue
                lines = searcher.search(
                    [query for _, query in asked], mode, images if mode == "image->image" else max(20, images // 4)
                )
                for (sample, _), hits in zip(asked, lines, strict=True):
                    ids = [hit.document for hit in hits]
                    ids = searcher.pages_of(ids) if mode == "image->image" else ids
                    found.setdefault((kind, sample.source), {}).setdefault(mode, []).append(ids)
            for sample, _ in asked:
                ids = [e.id for e in sample.gold]
                right = (
                    set(searcher.pages_of(ids)) if kind == "pages" else {id for id in ids if id in searcher.documents}
                )
                gold.setdefault((kind, sample.source), []).append(right)
        done += len(block)
        steps.count("questions asked in every mode", done, 0)
    chosen: dict[str, dict[str, Choice]] = {"pages": {}, "passages": {}}
    for (kind, source), by_mode in found.items():
        label = f"{source}: {'pages by image' if kind == 'pages' else 'passages by question'}"
        at = plan.pages_for(source) if kind == "pages" else 10
        chosen[kind][source] = best_mode(label, by_mode, gold[kind, source], at=at)
    return Routes(chosen["pages"], chosen["passages"])


def mine_samples(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    plan: MiningPlan,
    routes: Routes,
    steps: Steps = QUIET,
) -> Iterator[tuple[Sample, Mined]]:
    """Each sample with its distractors, and what was mined for it.

    Args:
        samples: read once, in order.
        searcher: the index.
        root: folder that relative image paths start from.
        plan: what to mine.
        routes: from `choose_routes`.
        steps: told how far it is.

    Yields:
        (sample with native negatives, where they stay, then mined ones; what was mined). A sample whose image cannot be
        read gets none that need it, with a `Drop` of the sample that says so.
    """
    looks = looks_of(root)
    diversity = _diversity(plan, searcher)
    done = 0
    for block in _blocks(samples):
        hits: dict[str, dict[Pool, Sequence[Hit]]] = {s.id: {} for s in block}
        unread: dict[str, str] = {}
        golds: dict[str, dict[Pool, float]] = {s.id: {} for s in block}
        for pool, wanted in plan.quotas.items():
            if not wanted:
                continue
            k = plan.selection.range_min + max(wanted * plan.depth, plan.selection.range_max or 0)
            if pool == "visual":
                _ask_visual(block, searcher, root, k, hits, unread, golds if plan.selection.by_margin else None)
            elif pool == "lexical":
                _ask(block, "lexical", searcher, root, plan, k, routes, pool, hits, unread)
            else:
                _ask(block, "text->text", searcher, root, plan, k, routes, pool, hits, unread)
                if plan.selection.by_margin:
                    _score_gold(block, searcher, hits, golds)
        for sample in block:
            base = sample if plan.native else sample.model_copy(update={"negatives": ()})
            mined = mine(
                base,
                hits[sample.id],
                searcher.documents,
                quotas=plan.quotas,
                looks=looks,
                selection=plan.selection,
                per_page=plan.per_page,
                cross_encoder=plan.cross_encoder,
                diversity=diversity,
                gold_scores=golds[sample.id],
            )
            if plan.selection.by_margin and not _margin_holds(sample, hits[sample.id], golds[sample.id]):
                why = Drop(sample=sample.id, stage="mine", reason="no margin: the score of gold is not known")
                mined = mined._replace(drops=(why, *mined.drops))
            if sample.id in unread:
                why = Drop(sample=sample.id, stage="mine", reason="image cannot be read", detail=unread[sample.id])
                mined = mined._replace(drops=(why, *mined.drops))
            yield base.model_copy(update={"negatives": (*base.negatives, *mined.negatives)}), mined
        done += len(block)
        steps.count("samples mined", done, 0)


def _diversity(plan: MiningPlan, searcher: Searcher) -> dict[Pool, Diversity]:
    """How each kind is picked for variety: texts by the vectors of passages, images by those of looks."""
    if plan.diversity is None:
        return {}
    parts: dict[Pool, str] = {"text": "passages", "lexical": "passages", "visual": "looks"}
    here = searcher.manifest["parts"]
    if plan.quotas.get("lexical") and "passages" not in here:
        raise UsageError(
            "the index has no vectors of passages that tell how alike they are",
            item=str(searcher.folder),
            cure="build it with a --text-encoder, or leave --diversity out",
        )
    return {
        pool: Diversity(plan.diversity, partial(searcher.cosines, part=part))
        for pool, part in parts.items()
        if part in here
    }


def _ask(
    block: Sequence[Sample],
    by: str,
    searcher: Searcher,
    root: Path | None,
    plan: MiningPlan,
    k: int,
    routes: Routes,
    pool: Pool,
    hits: dict[str, dict[Pool, Sequence[Hit]]],
    unread: dict[str, str],
) -> None:
    """Passages for every sample of the block: through pages where there is an image, straight where there is none."""
    by_mode: dict[tuple[str, int], list[tuple[Sample, Query]]] = {}
    for sample, query in _readable(block, root, unread):
        page_route, text_route = routes.pages.get(sample.source), routes.passages.get(sample.source)
        if sample.images and page_route is not None:
            mode = f"{page_route.mode}/{by}"
        else:
            mode = by if pool == "lexical" or text_route is None else text_route.mode
        by_mode.setdefault((mode, plan.pages_for(sample.source)), []).append((sample, query))
    for (mode, pages), asked in by_mode.items():
        if mode.partition("/")[0] in searcher.modes:
            found = searcher.search([query for _, query in asked], mode, k, pages=pages)
            for (sample, _), line in zip(asked, found, strict=True):
                hits[sample.id][pool] = line


def _ask_visual(
    block: Sequence[Sample],
    searcher: Searcher,
    root: Path | None,
    k: int,
    hits: dict[str, dict[Pool, Sequence[Hit]]],
    unread: dict[str, str],
    golds: dict[str, dict[Pool, float]] | None,
) -> None:
    """Images near the query image; near the gold image where the question is text."""
    if "image->image" not in searcher.modes:
        return
    asked: list[tuple[Sample, Query]] = []
    for sample in block:
        gold = next((e.image for e in sample.gold if e.modality is Modality.IMAGE and e.image is not None), None)
        image = sample.images[0] if sample.images else gold
        if image is None:
            continue
        try:
            asked.append((sample, Query(sample.question, rgb(read_image(image, root), image.uri))))
        except (DataError, StorageError) as error:
            unread[sample.id] = str(error)
    queries = [query for _, query in asked]
    for (sample, _), line in zip(asked, searcher.search(queries, "image->image", k), strict=True):
        hits[sample.id]["visual"] = line
    if golds is not None:
        lists = [[e.id for e in sample.gold] for sample, _ in asked]
        found = searcher.rerank(queries, lists, max(map(len, lists), default=1) or 1, by="image->image")
        for (sample, _), line in zip(asked, found, strict=True):
            if line:
                golds[sample.id]["visual"] = min(hit.score for hit in line)


def _margin_holds(sample: Sample, hits: Mapping[Pool, Sequence[Hit]], golds: Mapping[Pool, float]) -> bool:
    """Whether the score of gold is known in every search by scores that found something."""
    gold = {e.id for e in sample.gold}
    by_score: tuple[Pool, ...] = ("text", "visual")
    return all(pool in golds or any(hit.document in gold for hit in hits[pool]) for pool in by_score if hits.get(pool))


def _score_gold(
    block: Sequence[Sample],
    searcher: Searcher,
    hits: Mapping[str, Mapping[Pool, Sequence[Hit]]],
    golds: dict[str, dict[Pool, float]],
) -> None:
    """The lowest score of each sample's gold passages in the search that found its hits, found among them or not."""
    asked = [s for s in block if (found := hits[s.id].get("text")) and found[0].mode.endswith("text->text")]
    lists = [[e.id for e in sample.gold] for sample in asked]
    queries = [Query(sample.question) for sample in asked]
    for sample, line in zip(
        asked, searcher.rerank(queries, lists, max(map(len, lists), default=1) or 1) if asked else (), strict=True
    ):
        if line:
            golds[sample.id]["text"] = min(hit.score for hit in line)


def _readable(
    samples: Sequence[Sample], root: Path | None, unread: dict[str, str] | None = None
) -> list[tuple[Sample, Query]]:
    """Samples as queries; one whose image cannot be read is left out and noted."""
    asked = []
    for sample in samples:
        try:
            asked.append((sample, Query(sample.question, _picture(sample.images, root))))
        except (DataError, StorageError) as error:
            if unread is not None:
                unread[sample.id] = str(error)
    return asked


def _picture(images: Sequence[ImageRef], root: Path | None) -> Image | None:
    return rgb(read_image(images[0], root), images[0].uri) if images else None


def _blocks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    left = iter(samples)
    while block := list(islice(left, BLOCK)):
        yield block
