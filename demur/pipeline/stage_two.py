"""Stage II for a whole pool: choose how each source's knowledge base is asked, then mine distractors.

VLM-DeflectionBench, section 3.2 and appendix H: native negatives where the source has them, and what is mined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from demur.curation.mine import mine_text, mine_visual
from demur.curation.near import looks_of, same_text
from demur.curation.recipe import BuildRecipe, RetrievalSpec
from demur.indexing.pixels import rgb
from demur.pipeline.pool import Pool
from demur.pipeline.steps import Steps
from demur.records import Document, Drop, Evidence, Hit, ImageRef, Modality, Sample
from demur.retrieval.recall import Choice, best_mode
from demur.retrieval.search import Query, Searcher
from demur.store import read_image

IMAGE_MODES = ("image->title", "image->title+summary", "image->image")
"""How a query image may find pages (001, appendix H: titles, titles and summaries, page images)."""
TEXT_MODES = ("text->text", "lexical", "fused")
"""How a text question may find passages."""


def mine_pool(
    plan: BuildRecipe,
    pool: Pool,
    survivors: Sequence[Sample],
    documents: Mapping[str, Document],
    searcher: Searcher,
    steps: Steps,
) -> tuple[list[Choice], dict[str, Sample], list[Drop]]:
    """Choose the best retrieval modes on the whole pool, then mine for the survivors.

    Returns:
        The choice of modes per source and kind of question, the survivors with their candidate distractors by id, and
        what was not taken as one.
    """
    spec = plan.retrieval
    looks = looks_of(pool.root)
    choices: list[Choice] = []
    mined: dict[str, Sample] = {}
    drops: list[Drop] = []
    for source in dict.fromkeys(s.source for s in pool.samples):
        mine = [s for s in pool.samples if s.source == source]
        by_image = _choose(source, "image", [s for s in mine if s.images], spec, documents, searcher, pool.root)
        by_text = _choose(
            source,
            "text",
            [s for s in mine if not s.images and _gold(s, Modality.TEXT)],
            spec,
            documents,
            searcher,
            pool.root,
        )
        choices += [c for c in (by_image, by_text) if c is not None]
        todo = [s for s in survivors if s.source == source]
        done = 0
        for batch in _batches(todo, 64):
            text_hits = _text_hits(batch, by_image, by_text, spec.pages, spec.text * 4, searcher, pool.root)
            look_hits = _look_hits(batch, spec.visual * 6, searcher, pool.root)
            for sample in batch:
                taken = [e for e in sample.negatives if spec.native and not _is_gold(e, sample)]
                drops += [
                    Drop(sample=sample.id, evidence=e.id, stage="mine", reason="near-duplicate of gold")
                    for e in sample.negatives
                    if spec.native and _is_gold(e, sample)
                ]
                base = sample.model_copy(update={"negatives": tuple(taken)})
                for found in (
                    mine_text(base, text_hits.get(sample.id, ()), documents, limit=spec.text) if spec.text else None,
                    mine_visual(base, look_hits.get(sample.id, ()), documents, looks=looks, limit=spec.visual)
                    if spec.visual
                    else None,
                ):
                    if found is not None:
                        taken += found.negatives
                        drops += found.drops
                mined[sample.id] = sample.model_copy(update={"negatives": tuple(taken)})
            done += len(batch)
            steps.count("samples mined", done, len(todo))
    return choices, mined, drops


def _is_gold(negative: Evidence, sample: Sample) -> bool:
    """Whether a native negative says or shows what gold evidence does."""
    return any(
        bool(negative.text and gold.text and same_text(negative.text, gold.text))
        or (negative.text is None and negative.image is not None and gold.image is not None
            and negative.image.sha256 == gold.image.sha256)
        for gold in sample.gold
    )  # fmt: skip


def _gold(sample: Sample, modality: Modality) -> bool:
    return any(e.modality is modality for e in sample.gold)


def _batches(items: Sequence[Sample], size: int) -> Iterable[Sequence[Sample]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _query(sample: Sample, root: Path) -> Query:
    image = rgb(read_image(sample.images[0], root), sample.images[0].uri) if sample.images else None
    return Query(text=sample.question, image=image)


def _choose(
    source: str,
    kind: str,
    samples: Sequence[Sample],
    spec: RetrievalSpec,
    documents: Mapping[str, Document],
    searcher: Searcher,
    root: Path,
) -> Choice | None:
    """Recall of gold for every mode that this kind of question can be asked in; the best is chosen."""
    modes: tuple[str, ...] = IMAGE_MODES if kind == "image" else TEXT_MODES
    if spec.modes != "best":
        modes = tuple(m for m in modes if m in spec.modes) or modes
    modes = tuple(m for m in modes if m in searcher.modes)
    if not samples or not modes:
        return None
    found: dict[str, list[list[str]]] = {m: [] for m in modes}
    for batch in _batches(samples, 64):
        queries = [_query(s, root) for s in batch]
        for mode in modes:
            hits = searcher.search(queries, mode, 40 if mode == "image->image" else 20)
            ids = [[h.document for h in line] for line in hits]
            found[mode] += [searcher.pages_of(line) for line in ids] if mode == "image->image" else ids
    if kind == "image":
        gold = [{documents[e.id].page or e.id for e in s.gold if e.id in documents} for s in samples]
    else:
        gold = [{e.id for e in s.gold} for s in samples]
    label = f"{source}: {'pages by query image' if kind == 'image' else 'passages by question'}"
    return best_mode(label, found, gold, at=spec.pages if kind == "image" else 10)


def _text_hits(
    batch: Sequence[Sample],
    by_image: Choice | None,
    by_text: Choice | None,
    pages: int,
    k: int,
    searcher: Searcher,
    root: Path,
) -> dict[str, list[Hit]]:
    """Passages for each sample: image -> pages -> passages by the question; or the question -> passages."""
    if k < 1:
        return {}
    hits: dict[str, list[Hit]] = {}
    with_image = [s for s in batch if s.images and by_image is not None]
    if with_image and by_image is not None:
        queries = [_query(s, root) for s in with_image]
        found = searcher.search(queries, f"{by_image.mode}/text->text", k, pages=pages)
        hits |= dict(zip((s.id for s in with_image), found, strict=True))
    rest = [s for s in batch if s.id not in hits]
    if rest:
        found = searcher.search([Query(text=s.question) for s in rest], by_text.mode if by_text else "text->text", k)
        hits |= dict(zip((s.id for s in rest), found, strict=True))
    return hits


def _look_hits(batch: Sequence[Sample], k: int, searcher: Searcher, root: Path) -> dict[str, list[Hit]]:
    """Images that look like the query image; like the gold image, where the question is text."""
    if k < 1 or "image->image" not in searcher.modes:
        return {}
    asked: list[tuple[str, ImageRef]] = []
    for sample in batch:
        gold = [e.image for e in sample.gold if e.image is not None]
        image = sample.images[0] if sample.images else gold[0] if gold else None
        if image is not None:
            asked.append((sample.id, image))
    queries = [Query(image=rgb(read_image(image, root), image.uri)) for _, image in asked]
    found = searcher.search(queries, "image->image", k)
    return dict(zip((i for i, _ in asked), found, strict=True))
