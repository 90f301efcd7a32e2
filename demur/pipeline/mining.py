"""Samples and an index to distractors: ask in every mode, choose the best for each source, mine, keep provenance.

The route of a text distractor (VLM-DeflectionBench, section 3.2): a question with an image goes image -> pages -> their
passages, ranked by the question; a question without one goes straight to the passages. An image distractor is the
neighbour of the query image, or of the gold image where the question is text. Samples are taken in blocks, so that
memory does not grow with their number; what is mined does not depend on the size of a block. Where the index has
inverted lists, a sample of the questions tells how many of them must be searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from demur.curation.diversity import Diversity
from demur.curation.leaks import Leaks, without_leaks
from demur.curation.mine import CrossEncoder, Mined, Pool, lowest_gold, mine
from demur.curation.mining_options import MiningOptions
from demur.curation.near import REMEMBERED, Look, Looks, showing
from demur.curation.select import Selection
from demur.documents import parts_of
from demur.errors import DataError, MissingExtra, StorageError, UsageError
from demur.indexing.pixels import rgb
from demur.pipeline.steps import QUIET, Steps
from demur.records import Drop, Hit, ImageRef, Modality, Sample
from demur.retrieval.recall import DEPTHS, Choice, Recall, best_mode
from demur.retrieval.search import WAYS, Probes, Query, Searcher, canonical_mode
from demur.store import read_image
from demur.vision_ops import ensure_torchvision

BLOCK_BYTES = 1 << 26
"""Memory of the samples asked together: a matrix product over the index, or one of its lists, pays by their number."""
SAMPLE_BYTES = 1 << 13
"""Of a sample, roughly, without its vectors."""
READ = 64
"""Images held in memory together, and samples with their hits."""
TUNED_ON = 512
"""Questions that the number of inverted lists is measured on."""
TUNED_MOST = 2048
"""And on how many at most, where that is too few and many are asked."""
RECALL = 0.99
"""Of the exact neighbours of all questions, that the lists must hold."""
PAGE_MODES = ("image->title", "image->title+summary", "image->image")
TEXT_MODES = ("text->text", "lexical", "fused")
TRIED = 64
"""Images of the index that are read before anything is mined."""
TRIED_MOST = 1024
"""And how many, where not one of those could be read."""
OWN = 2
"""Hits of something else after which an image is not sought among its neighbours any more: itself is the nearest."""
PASSAGES = 10
"""Passages among which gold counts as found."""


@dataclass(frozen=True)
class MiningPlan:
    """What to mine, and how the index is asked."""

    quotas: Mapping[Pool, int] = field(default_factory=lambda: MiningOptions().quotas)
    selection: Selection = field(default_factory=Selection)
    per_page: int | None = None
    pages: int = field(default_factory=lambda: MiningOptions().pages)
    """Pages opened for a question with an image (10 for InfoSeek and ViQuAE, 5 for Encyclopedic-VQA in the paper)."""
    pages_of: Mapping[str, int] = field(default_factory=dict)
    """Source -> `pages`, where it differs."""
    modes: tuple[str, ...] = (*PAGE_MODES, *TEXT_MODES)
    """Modes to choose from; one of a kind leaves nothing to choose."""
    depth: int = 6
    """Hits fetched, as a multiple of the distractors wanted."""
    native: bool = True
    """Keep the sample's native negatives that do not leak (`demur.curation.leaks`); mined ones come behind them."""
    cross_encoder: CrossEncoder | None = None
    diversity: float | None = None
    """Weight of relevance in maximal marginal relevance, 0 to 1; None picks by rank."""

    @classmethod
    def of(
        cls,
        options: MiningOptions,
        *,
        seed: int = 0,
        pages_of: Mapping[str, int] | None = None,
        cross_encoder: CrossEncoder | None = None,
    ) -> MiningPlan:
        """The plan of options that are checked already.

        Args:
            options: of a recipe or a command.
            seed: for random sampling.
            pages_of: source -> pages, where they differ from ``options.pages``.
            cross_encoder: what `open_cross_encoder` makes of ``options.cross_encoder``.

        Raises:
            UsageError: a mode that finds neither pages by an image nor passages by a text; UnknownPart, no mode.
        """
        modes = (*PAGE_MODES, *TEXT_MODES) if options.modes == "best" else tuple(map(canonical_mode, options.modes))
        return cls(
            quotas=options.quotas,
            selection=options.selection(seed),
            per_page=options.per_page,
            pages=options.pages,
            pages_of=pages_of or {},
            modes=modes,
            native=options.native,
            cross_encoder=cross_encoder,
            diversity=options.diversity,
        )

    def __post_init__(self) -> None:
        for mode in self.modes:
            if canonical_mode(mode) not in (*PAGE_MODES, *TEXT_MODES):
                raise UsageError(
                    f"{mode} finds neither pages by an image nor passages by a text",
                    cure=f"choose from {', '.join((*PAGE_MODES, *TEXT_MODES))}",
                )

    def pages_for(self, source: str) -> int:
        """Pages opened for a question of that source."""
        return self.pages_of.get(source, self.pages)

    def hits(self, pool: Pool) -> int:
        """Hits fetched for that kind of distractors."""
        return self.selection.range_min + max(self.quotas.get(pool, 0) * self.depth, self.selection.range_max or 0)

    def reach(self) -> dict[str, int]:
        """Simple dense mode that is asked in -> the neighbours that count there."""
        pages = max(self.pages, *self.pages_of.values(), 0)
        found = {mode: pages for mode in PAGE_MODES if mode in self.modes}
        if self.quotas.get("visual"):
            found["image->image"] = self.hits("visual")
        if self.quotas.get("text") or {"text->text", "fused"} & set(self.modes):
            found["text->text"] = self.hits("text") if self.quotas.get("text") else PASSAGES
        return found


def open_cross_encoder(name: str) -> CrossEncoder:
    """A sentence-transformers cross-encoder, by name or folder, as a function of (question, passages).

    Raises:
        MissingExtra: sentence-transformers is not installed.
        StorageError: there is no such model, or it cannot be loaded.
    """
    try:
        ensure_torchvision()
        from sentence_transformers import CrossEncoder as Model
    except ModuleNotFoundError as error:
        raise MissingExtra("a cross-encoder", extra="clip", module=str(error.name)) from error
    try:
        model = Model(name)
    except (OSError, ValueError) as error:
        why = (str(error).splitlines() or ["it cannot be loaded"])[0]
        raise StorageError(why, item=name, cure="check the name, or give a local folder") from error

    def scores(question: str, passages: Sequence[str]) -> list[float]:
        found: list[float] = model.predict([(question, passage) for passage in passages]).tolist()
        return found

    return scores


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


Asked = tuple[str, ImageRef | None]
"""A question with the image that is asked with it."""


class _Spread:
    """Some of a stream, at equal steps over the whole of it, which is not held."""

    def __init__(self) -> None:
        self._kept: list[Asked] = []
        self._step = 1
        self.seen = 0

    def add(self, one: Asked) -> None:
        if self.seen % self._step == 0:
            self._kept.append(one)
            if len(self._kept) >= 2 * TUNED_MOST:
                del self._kept[1::2]
                self._step *= 2
        self.seen += 1

    def blocks(self) -> Iterator[list[Asked]]:
        """`TUNED_ON` of them, as many again, and so on; each block lies between what came before, over the whole."""
        most = min(TUNED_MOST, len(self._kept))
        drawn = np.linspace(0, len(self._kept) - 1, most).astype(int).tolist()
        order = sorted(range(most), key=lambda place: f"{place:032b}"[::-1])
        for start in range(0, most, TUNED_ON):
            yield [self._kept[drawn[place]] for place in order[start : start + TUNED_ON]]


def try_images(searcher: Searcher, root: Path | None, plan: MiningPlan) -> tuple[int, Counter[str]]:
    """Read `TRIED` images of the index, at equal steps over all: where none can be seen, none can be a distractor.

    Args:
        searcher: the index.
        root: folder that relative image paths start from.
        plan: where it wants no image distractors nothing is read.

    Returns:
        How many were tried, and how many of them could not be read for which reason.

    Raises:
        UsageError: not one could be read, nor of `TRIED_MOST`.
    """
    if not plan.quotas.get("visual") or "image->image" not in searcher.modes:
        return 0, Counter()
    rows = searcher.rows("looks")
    for most in (TRIED, TRIED_MOST):
        places = np.unique(np.linspace(0, max(0, len(rows) - 1), min(most, len(rows))).astype(int))
        images = [image for row in rows[places].tolist() if (image := searcher.documents.at(row).image)]
        found = [_why_unread(image, root) for image in images]
        why = Counter(filter(None, found))
        if why.total() < len(images) or not images:
            return len(images), why
    raise UsageError(
        f"none of {len(images):,} images of the index that were tried can be read: {told(why)}",
        item=images[0].uri,
        cure="put the images where the index looks for them, build it again, or ask for none (--visual 0)",
    )


def _why_unread(image: ImageRef, root: Path | None) -> str:
    try:
        read_image(image, root)
    except (DataError, StorageError) as error:
        return error.message.partition(":")[0]  # what stands behind it is of this image alone
    return ""


def told(reasons: Counter[str]) -> str:
    """Reasons with their numbers, most frequent first.

    >>> told(Counter(["gone", "broken", "gone"]))
    'gone (2), broken (1)'
    """
    return ", ".join(f"{reason} ({n:,})" for reason, n in reasons.most_common())


def tune_probes(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    plans: Collection[MiningPlan],
    steps: Steps = QUIET,
) -> list[Probes]:
    """Set how many inverted lists of each part are searched, by `TUNED_ON` of the questions that ask it, or more.

    They are drawn at equal steps over the whole input, so the same input always gives the same numbers. Parts without
    inverted lists are left alone; where there are none the samples are not even read.

    Args:
        samples: read once.
        searcher: the index; it searches that many lists from now on.
        root: folder that relative image paths start from.
        plans: what will be mined; of the neighbours wanted the most count.
        steps: told how far it is.

    Returns:
        What was set, part by part; a part that no question asks is missing.
    """
    reach: dict[str, int] = {}
    for plan in plans:
        for mode, k in plan.reach().items():
            if WAYS[mode].part in searcher.lists:
                reach[mode] = max(k, reach.get(mode, 0))
    if not reach:
        return []
    steps.stage("measure how many inverted lists must be searched")
    drawn = {mode: _Spread() for mode in reach}
    for sample in samples:
        for mode, spread in drawn.items():
            image = _shown(sample) if mode == "image->image" else _picture(sample)
            if image is not None if mode == "image->image" else bool(image) == (mode in PAGE_MODES):
                spread.add((sample.question, image))
    set_ = []
    for mode, spread in drawn.items():
        made = (_embedded(block, searcher, root, [mode]) for block in spread.blocks())
        blocks = filter(None, ([query for query in block if isinstance(query, Query)] for block in made))
        if first := next(blocks, None):
            set_.append(searcher.tune(mode, chain([first], blocks), reach[mode], recall=RECALL, asked=spread.seen))
    return set_


def choose_routes(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    plan: MiningPlan,
    steps: Steps = QUIET,
    looks: Callable[[ImageRef], Look | None] | None = None,
) -> Routes:
    """Recall of gold for every mode, source by source, and the best of them.

    A question with an image counts as found when a page of its gold evidence is among the first `plan.pages`; one
    without when gold evidence itself, or a passage cut from it, is among the first 10 passages. Where the very image
    that is asked about lies in the index (the same bytes, or the same look: `demur.curation.near.same_look`), finding
    it is no merit of a mode: the hit is passed over, and the `Choice` counts the question.

    Args:
        samples: read once; those without gold in the index are in no denominator.
        searcher: the index.
        root: folder that relative image paths start from.
        plan: its modes are compared, as far as the index can be asked in them.
        steps: told how far it is.
        looks: what is known of images already; a new `Looks` of ``root`` when None.

    Raises:
        UsageError: the plan has limits of score for texts, and the index has no dense vectors that give scores.
    """
    _can_score(plan, searcher)
    found: dict[tuple[str, str], dict[str, Recall]] = {}
    own: Counter[tuple[str, str]] = Counter()
    looks = looks or Looks(root, most=REMEMBERED)
    done = 0
    depth = max(*DEPTHS, plan.pages, *plan.pages_of.values())
    for block in _blocks(samples, searcher, plan):
        for kind, modes in (("pages", PAGE_MODES), ("passages", TEXT_MODES)):
            here = [mode for mode in modes if mode in plan.modes and mode in searcher.modes]
            mine_ = [s for s in block if bool(s.images) == (kind == "pages")]
            made = _embedded([(s.question, _picture(s)) for s in mine_], searcher, root, here)
            asked = [(s, query) for s, query in zip(mine_, made, strict=True) if isinstance(query, Query)]
            gold = []
            for sample, _ in asked:
                parts = _gold_parts(sample, searcher)
                gold.append(set(searcher.pages_of(parts) if kind == "pages" else parts))
            for mode in here if asked else ():
                if mode == "image->image":
                    lines = iter(_pages_by_look(asked, searcher, looks, depth))
                else:
                    hits = searcher.each([query for _, query in asked], mode, depth)
                    lines = (([hit.document for hit in line], False) for line in hits)
                for (sample, _), right, (ids, itself) in zip(asked, gold, lines, strict=True):
                    own[kind, sample.source] += itself
                    found.setdefault((kind, sample.source), {}).setdefault(mode, Recall()).add(ids, right)
        done += len(block)
        steps.count("questions asked in every mode", done, 0)
    chosen: dict[str, dict[str, Choice]] = {"pages": {}, "passages": {}}
    for (kind, source), by_mode in found.items():
        label = f"{source}: {'pages by image' if kind == 'pages' else 'passages by question'}"
        at = plan.pages_for(source) if kind == "pages" else PASSAGES
        chosen[kind][source] = best_mode(label, by_mode, at=at)._replace(own=own[kind, source])
    return Routes(chosen["pages"], chosen["passages"])


def _pages_by_look(
    asked: Sequence[tuple[Sample, Query]], searcher: Searcher, looks: Callable[[ImageRef], Look | None], depth: int
) -> list[tuple[list[str], bool]]:
    """The first pages with other images like the one asked about, and whether that one was found too."""
    found: list[tuple[list[str], bool]] = [([], False)] * len(asked)

    def short(n: int, ids: list[str]) -> bool:
        others = _without_own(ids, asked[n][0], searcher, looks)
        found[n] = searcher.pages_of(others)[:depth], len(others) < len(ids)
        return len(found[n][0]) < depth

    searcher.widening([query for _, query in asked], "image->image", 4 * depth, short)
    return found


def _without_own(
    ids: Sequence[str], sample: Sample, searcher: Searcher, looks: Callable[[ImageRef], Look | None]
) -> list[str]:
    """The hits but for those that show the image asked about, which stand before all others but `OWN`."""
    shown = showing(sample.images, looks)
    left: list[str] = []
    for place, id in enumerate(ids):
        if len(left) == OWN:
            return left + list(ids[place:])
        image = searcher.documents[id].image
        if image is None or not shown(image):
            left.append(id)
    return left


def mine_samples(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    plan: MiningPlan,
    routes: Routes,
    steps: Steps = QUIET,
    looks: Callable[[ImageRef], Look | None] | None = None,
) -> Iterator[tuple[Sample, Mined]]:
    """Each sample with its distractors, and what was mined for it.

    Args:
        samples: read once, in order.
        searcher: the index.
        root: folder that relative image paths start from.
        plan: what to mine.
        routes: from `choose_routes`.
        steps: told how far it is.
        looks: as for `choose_routes`.

    Yields:
        (sample with native negatives, where they stay, then mined ones; what was mined). A native negative that leaks
        has left with a `Drop`, as hits that leak do. A sample whose image cannot be read, or that the encoder gives a
        vector for that is NaN, infinite or zero, gets none that need it, with a `Drop` of the sample that says so.

    Raises:
        UsageError: as `choose_routes`; or diversity is wanted of passages that have no vectors.
    """
    _can_score(plan, searcher)
    looks = looks or Looks(root, most=REMEMBERED)
    diversity = _diversity(plan, searcher)
    done = 0
    for block in _blocks(samples, searcher, plan):
        cases = _cases(block, searcher, root, plan, routes)
        for pool, wanted in plan.quotas.items():
            if wanted and pool == "visual":
                _ask_looks(cases, searcher, plan)
            elif wanted:
                _ask_passages(cases, pool, searcher, plan, routes)
        for case in _with_hits(cases, searcher, plan, routes):
            sample = case.sample
            base, gone = (
                without_leaks(sample, Leaks(sample, looks))
                if plan.native
                else (sample.model_copy(update={"negatives": ()}), [])
            )
            mined = mine(
                base,
                case.hits,
                searcher.documents,
                quotas=plan.quotas,
                looks=looks,
                selection=plan.selection,
                per_page=plan.per_page,
                cross_encoder=plan.cross_encoder,
                diversity=diversity,
                gold_scores=case.golds,
                dense_scores=case.dense,
            )
            if gone:  # each is told once, though a search may have found it again
                told = {drop.evidence for drop in gone}
                mined = mined._replace(drops=(*gone, *(drop for drop in mined.drops if drop.evidence not in told)))
            if plan.selection.by_margin and not _margin_holds(case):
                why = Drop(sample=sample.id, stage="mine", reason="no margin: the score of gold is not known")
                mined = mined._replace(drops=(why, *mined.drops))
            if case.unasked is not None:
                why = Drop(sample=sample.id, stage="mine", reason=case.unasked.reason, detail=case.unasked.detail)
                mined = mined._replace(drops=(why, *mined.drops))
            yield base.model_copy(update={"negatives": (*base.negatives, *mined.negatives)}), mined
            done += 1
            if done % READ == 0:
                steps.count("samples mined", done, 0)
    steps.count("samples mined", done, 0)


def _can_score(plan: MiningPlan, searcher: Searcher) -> None:
    """Limits of score are about dense scores: without vectors of passages they say nothing of passages by words."""
    by_words = "lexical" in plan.modes and "lexical" in searcher.modes
    if plan.selection.by_score and plan.quotas.get("text") and by_words and "text->text" not in searcher.modes:
        raise UsageError(
            "margins and limits of score compare dense scores, and the index has no vectors of passages",
            item=str(searcher.folder),
            cure="build it with a --text-encoder, ask for no text distractors (--text 0), or leave the limits out",
        )


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


@dataclass
class _Case:
    """A sample while it is mined for."""

    sample: Sample
    query: Query | None = None
    """None where it cannot be asked."""
    shown: Query | None = None
    """What neighbours of its image are sought with: that image, or that of its gold evidence."""
    found: dict[Pool, Iterator[list[Hit]]] = field(default_factory=dict)
    """What gives its hits next, after those of the cases before it."""
    hits: dict[Pool, Sequence[Hit]] = field(default_factory=dict)
    golds: dict[Pool, float] = field(default_factory=dict)
    """The lowest dense score of its gold evidence, by what the hits were sought with, found among them or not."""
    dense: Mapping[str, float] | None = None
    """Document -> dense score of the text hits, where the score they were found by is another."""
    unasked: _Unasked | None = None
    """Why it, or the image of its gold evidence, is not asked about."""


def _cases(
    block: Sequence[Sample], searcher: Searcher, root: Path | None, plan: MiningPlan, routes: Routes
) -> list[_Case]:
    """Samples with their questions embedded, each image read once."""
    cases = [_Case(sample) for sample in block]
    visual = bool(plan.quotas.get("visual")) and "image->image" in searcher.modes
    pools = [pool for pool, wanted in plan.quotas.items() if wanted and pool != "visual"]
    by_modes: dict[tuple[str, ...], list[_Case]] = {}
    for case in cases:
        modes = [_mode(case.sample, pool, routes) for pool in pools]
        if visual and case.sample.images:
            modes.append("image->image")
        if modes:
            by_modes.setdefault(tuple(modes), []).append(case)
    for asked_in, group in by_modes.items():
        wanted = [(case.sample.question, _picture(case.sample)) for case in group]
        for case, made in zip(group, _embedded(wanted, searcher, root, asked_in), strict=True):
            if isinstance(made, _Unasked):
                case.unasked = made
            else:
                case.query = made
                case.shown = made if visual and case.sample.images else None
    if visual:
        group = [case for case in cases if not case.sample.images and _shown(case.sample)]
        wanted = [(case.sample.question, _shown(case.sample)) for case in group]
        for case, made in zip(group, _embedded(wanted, searcher, root, ["image->image"]), strict=True):
            if isinstance(made, _Unasked):
                case.unasked = made
            else:
                case.shown = made
    return cases


def _mode(sample: Sample, pool: Pool, routes: Routes) -> str:
    """How a sample finds passages: through pages where it has an image, straight where it has none."""
    by = "lexical" if pool == "lexical" else "text->text"
    page_route, text_route = routes.pages.get(sample.source), routes.passages.get(sample.source)
    if sample.images and page_route is not None:
        return f"{page_route.mode}/{by}"
    return by if pool == "lexical" or text_route is None else text_route.mode


def _ask_passages(cases: Sequence[_Case], pool: Pool, searcher: Searcher, plan: MiningPlan, routes: Routes) -> None:
    """Seek passages for every sample."""
    by_mode: dict[tuple[str, int], list[tuple[_Case, Query]]] = {}
    for case in cases:
        if case.query is not None:
            key = _mode(case.sample, pool, routes), plan.pages_for(case.sample.source)
            by_mode.setdefault(key, []).append((case, case.query))
    for (mode, pages), asked in by_mode.items():
        if mode.partition("/")[0] in searcher.modes:
            found = searcher.each([query for _, query in asked], mode, plan.hits(pool), pages=pages)
            for case, _ in asked:
                case.found[pool] = found


def _ask_looks(cases: Sequence[_Case], searcher: Searcher, plan: MiningPlan) -> None:
    """Seek images near the query image; near the gold image where the question is text."""
    asked = [(case, case.shown) for case in cases if case.shown is not None]
    found = searcher.each([query for _, query in asked], "image->image", plan.hits("visual"))
    for case, _ in asked:
        case.found["visual"] = found


def _with_hits(cases: Sequence[_Case], searcher: Searcher, plan: MiningPlan, routes: Routes) -> Iterator[_Case]:
    """Each case with its hits, and the scores that limits and margins compare; made for `READ` of them at a time."""
    for start in range(0, len(cases), READ):
        some = cases[start : start + READ]
        for case in some:
            case.hits = {pool: next(lines) for pool, lines in case.found.items()}
        texts = [(case, case.query) for case in some if case.query is not None and case.hits.get("text")]
        if plan.selection.by_score:
            by_words = [both for both in texts if not _mode(both[0].sample, "text", routes).endswith("text->text")]
            _score_hits(by_words, "text", searcher)
        if plan.selection.by_margin:
            looks = [(case, case.shown) for case in some if case.shown is not None and "visual" in case.hits]
            _score_gold(texts, "text", "text->text", searcher)
            _score_gold(looks, "visual", "image->image", searcher)
        for case in some:
            yield case
            case.hits, case.dense = {}, None


def _score_hits(asked: Sequence[tuple[_Case, Query]], pool: Pool, searcher: Searcher) -> None:
    """Dense scores for hits found by words or fused: no margin is to be measured in reciprocal ranks."""
    lists = [[hit.document for hit in case.hits[pool]] for case, _ in asked]
    if not asked:
        return
    found = searcher.rerank([query for _, query in asked], lists, max(map(len, lists)) or 1)
    for (case, _), line in zip(asked, found, strict=True):
        case.dense = {hit.document: hit.score for hit in line}


def _score_gold(asked: Sequence[tuple[_Case, Query]], pool: Pool, by: str, searcher: Searcher) -> None:
    lists = [_gold_parts(case.sample, searcher) for case, _ in asked]
    if not asked:
        return
    found = searcher.rerank([query for _, query in asked], lists, max(map(len, lists)) or 1, by=by)
    for (case, _), line in zip(asked, found, strict=True):
        lowest = lowest_gold(case.sample, {hit.document: hit.score for hit in line}, searcher.documents)
        if lowest is not None:
            case.golds[pool] = lowest


def _gold_parts(sample: Sample, searcher: Searcher) -> list[str]:
    """The documents of the index that are gold evidence, or cut from it."""
    return [part for e in sample.gold for part in parts_of(searcher.documents, e.id)]


def _margin_holds(case: _Case) -> bool:
    """Whether the score of gold is known in every search by scores that found something."""
    by_score: tuple[Pool, ...] = ("text", "visual")
    return all(pool in case.golds for pool in by_score if case.hits.get(pool))


class _Unasked(NamedTuple):
    """Why nothing is asked with a text and its image."""

    reason: str
    detail: str


def _embedded(
    wanted: Sequence[Asked], searcher: Searcher, root: Path | None, modes: Iterable[str]
) -> list[Query | _Unasked]:
    """Texts with their images as queries that hold vectors for these modes, or why they cannot be asked."""
    simple = sorted({one for mode in modes for one in mode.split("/")})
    by_image = [mode for mode in simple if mode in PAGE_MODES]
    made: list[Query | _Unasked] = []
    for start in range(0, len(wanted), READ):
        queries: list[Query] = []
        read: list[str] = []
        for text, image in wanted[start : start + READ]:
            try:
                queries.append(Query(text, rgb(read_image(image, root), image.uri) if image is not None else None))
                read.append("")
            except (DataError, StorageError) as error:
                read.append(str(error) or "unreadable")
        vectors = iter(_with_vectors(queries, searcher, by_image))
        made += [_Unasked("image cannot be read", why) if why else next(vectors) for why in read]
    whole = iter(searcher.embedded([query for query in made if isinstance(query, Query)], simple))
    made = [one if isinstance(one, _Unasked) else next(whole) for one in made]
    return [_Unasked("cannot be embedded", one.fault) if isinstance(one, Query) and one.fault else one for one in made]


def _with_vectors(queries: Sequence[Query], searcher: Searcher, modes: Sequence[str]) -> list[Query | _Unasked]:
    """As `Searcher.embedded`, but for an image that the encoder refuses (it is too thin to be resized): it is told."""
    try:
        return list(searcher.embedded(queries, modes))
    except DataError as error:
        if len(queries) == 1:
            return [_Unasked("cannot be embedded", str(error))]
    return [one for query in queries for one in _with_vectors([query], searcher, modes)]


def _picture(sample: Sample) -> ImageRef | None:
    """The image that is asked about."""
    return sample.images[0] if sample.images else None


def _shown(sample: Sample) -> ImageRef | None:
    """The image whose neighbours are sought: that of the question, or that of its gold evidence."""
    gold = (e.image for e in sample.gold if e.modality is Modality.IMAGE and e.image is not None)
    return _picture(sample) or next(gold, None)


def _blocks(samples: Iterable[Sample], searcher: Searcher, plan: MiningPlan) -> Iterator[list[Sample]]:
    """As many samples as `BLOCK_BYTES` hold with their vectors and the rows and scores found."""
    vectors = sum(4 * int(encoder["dims"]) for encoder in searcher.manifest["encoders"].values())
    found = sum(12 * plan.hits(pool) for pool, wanted in plan.quotas.items() if wanted)
    left = iter(samples)
    while block := list(islice(left, max(1, BLOCK_BYTES // (SAMPLE_BYTES + vectors + found)))):
        yield block
