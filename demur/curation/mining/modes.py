"""Before anything is mined: can the index's images be read, how many lists must be searched, which modes are best?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import ImageRef, Sample
from demur.core.uris import read_image
from demur.corpora.lineage import Gold
from demur.corpora.near import REMEMBERED, ImageHash, ImageHashes, showing
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import (
    LOOK_MODES,
    PAGE_MODES,
    PASSAGES,
    TEXT_MODES,
    Asked,
    blocks_of,
    embedded,
    modes_of,
    picture_of,
    reach,
    shown_of,
)
from demur.retrieval.recall import DEPTHS, Choice, Recall, best_mode
from demur.retrieval.search import WAYS, Probes, Query, Searcher

TUNED_ON = 512
"""Questions that the number of inverted lists is measured on."""
TUNED_MOST = 2048
"""And on how many at most, where that is too few and many are asked."""
RECALL = 0.99
"""Of the exact neighbours of all questions, that the lists must hold."""
TRIED = 64
"""Images of the index that are read before anything is mined."""
TRIED_MOST = 1024
"""And how many, where not one of those could be read."""
OWN = 2
"""Hits of something else after which an image is not sought among its neighbours any more: itself is the nearest."""


@dataclass(frozen=True)
class ChosenModes:
    """The mode chosen for each source: by its recall of gold where there is a choice."""

    pages: Mapping[str, Choice]
    """Source -> how its images find pages."""
    passages: Mapping[str, Choice]
    """Source -> how its questions find passages."""
    asked: int = 0
    """Samples that they were chosen by."""
    pages_of: Mapping[str, int] = field(default_factory=dict)
    """Source -> pages opened, where they differ from the options'."""

    @property
    def choices(self) -> list[Choice]:
        """All of them, for tables."""
        return [*self.pages.values(), *self.passages.values()]


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


def try_images(searcher: Searcher, root: Path | None, options: MiningOptions) -> tuple[int, Counter[str]]:
    """Read `TRIED` images of the index, at equal steps over all: where none can be seen, none can be a distractor.

    Args:
        options: where they want no image distractors nothing is read.

    Returns:
        How many were tried, and how many of them could not be read for which reason.

    Raises:
        UsageError: not one could be read, nor of `TRIED_MOST`.
    """
    if not options.visual or "image->image" not in searcher.modes:
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
        f"none of {len(images):,} images of the index that were tried can be read: {summary_of(why)}",
        item=images[0].uri,
        cure="put the images where the index looks for them, build it again, or ask for none (--visual 0)",
    )


def _why_unread(image: ImageRef, root: Path | None) -> str:
    try:
        read_image(image, root)
    except (DataError, StorageError) as error:
        return error.message.partition(":")[0]  # what stands behind it is of this image alone
    return ""


def summary_of(reasons: Counter[str]) -> str:
    """Reasons with their numbers, most frequent first.

    >>> summary_of(Counter(["gone", "broken", "gone"]))
    'gone (2), broken (1)'
    """
    return ", ".join(f"{reason} ({n:,})" for reason, n in reasons.most_common())


def tune_probes(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    wanted: Collection[MiningOptions],
    steps: Progress = QUIET,
) -> list[Probes]:
    """Set how many inverted lists of each part are searched, by `TUNED_ON` of the questions that ask it, or more.

    They are drawn at equal steps over the whole input, so the same input always gives the same numbers. Parts without
    inverted lists are left alone; where there are none the samples are not even read.

    Args:
        searcher: the index; it searches that many lists from now on.
        wanted: what will be mined; of the neighbours wanted the most count.

    Returns:
        What was set, part by part; a part that no question asks is missing.
    """
    deepest: dict[str, int] = {}
    for options in wanted:
        for mode, k in reach(options).items():
            if WAYS[mode].part in searcher.lists:
                deepest[mode] = max(k, deepest.get(mode, 0))
    if not deepest:
        return []
    steps.stage("measure how many inverted lists must be searched")
    drawn = {mode: _Spread() for mode in deepest}
    for sample in samples:
        for mode, spread in drawn.items():
            image = shown_of(sample) if mode == "image->image" else picture_of(sample)
            if image is not None if mode == "image->image" else bool(image) == (mode in PAGE_MODES):
                spread.add((sample.question, image))
    set_ = []
    for mode, spread in drawn.items():
        made = (embedded(block, searcher, root, [mode]) for block in spread.blocks())
        blocks = filter(None, ([query for query in block if isinstance(query, Query)] for block in made))
        if first := next(blocks, None):
            set_.append(searcher.tune(mode, chain([first], blocks), deepest[mode], recall=RECALL, asked=spread.seen))
    return set_


def choose_modes(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    options: MiningOptions,
    steps: Progress = QUIET,
    image_hashes: Callable[[ImageRef], ImageHash | None] | None = None,
    total: int = 0,
    *,
    pages_of: Mapping[str, int] | None = None,
) -> ChosenModes:
    """Recall of gold for every mode, source by source, and the best of them.

    A question with an image counts as found when a page of its gold evidence is among the first ``options.pages``; one
    without when gold evidence itself, or a passage cut from it, is among the first 10 passages. Where the very image
    that is asked about lies in the index (the same bytes, or the same look: `demur.corpora.near.same_picture`), finding
    it is no merit of a mode: the hit is passed over, and the `Choice` counts the question.

    Args:
        samples: read once; those whose gold none of the modes can find (it is not in the index, or an image where
            passages are sought) are in no denominator.
        options: their modes are compared, as far as the index can be asked in them.
        image_hashes: what is known of images already; a new `ImageHashes` of ``root`` when None.
        total: how many samples there are, for `steps`; 0 where that is not known.
        pages_of: source -> pages, where they differ from ``options.pages``.

    Raises:
        UsageError: a mode is none to mine by; or there are limits of score for texts, and the index has no dense
            vectors that give scores. UnknownPart: there is no such mode.
    """
    can_score(options, searcher)
    wanted, pages_of = modes_of(options), pages_of or {}
    found: dict[tuple[str, str], dict[str, Recall]] = {}
    found_itself: Counter[tuple[str, str, str]] = Counter()
    image_hashes = image_hashes or ImageHashes(root, most=REMEMBERED)
    done = 0
    depth = max(*DEPTHS, options.pages, *pages_of.values())
    for block in blocks_of(samples, searcher, options):
        for kind, modes in (("pages", PAGE_MODES), ("passages", TEXT_MODES)):
            here = [mode for mode in modes if mode in wanted and mode in searcher.modes]
            mine_ = [s for s in block if bool(s.images) == (kind == "pages")]
            made = embedded([(s.question, picture_of(s)) for s in mine_], searcher, root, here)
            asked = [(s, query) for s, query in zip(mine_, made, strict=True) if isinstance(query, Query)]
            gold = []
            for sample, _ in asked:
                own = Gold(sample.gold, searcher.documents)
                ids = own.pages_in(searcher) if kind == "pages" else own.parts_in(searcher)
                gold.append(searcher.reached(ids, here, pages=kind == "pages"))
            if not asked:
                continue
            for source in {sample.source for sample, _ in asked}:
                for mode in here:  # in their order, which decides where no gold does
                    found.setdefault((kind, source), {}).setdefault(mode, Recall())
            others = [mode for mode in here if mode not in LOOK_MODES]
            ranks = searcher.first_ranks([query for _, query in asked], others, depth, gold)
            for mode, line in ranks.items():
                for (sample, _), right, rank in zip(asked, gold, line, strict=True):
                    found[kind, sample.source][mode].count(rank, known=bool(right))
            for mode in (one for one in here if one in LOOK_MODES):
                pages = _pages_by_look(asked, searcher, image_hashes, depth, mode)
                for (sample, _), right, (ids, itself) in zip(asked, gold, pages, strict=True):
                    found_itself[kind, sample.source, mode] += itself
                    found[kind, sample.source][mode].add(ids, right)
        done += len(block)
        steps.count("questions asked in every mode", done, total)
    chosen: dict[str, dict[str, Choice]] = {"pages": {}, "passages": {}}
    for (kind, source), by_mode in found.items():
        label = f"{source}: {'pages by image' if kind == 'pages' else 'passages by question'}"
        at = pages_of.get(source, options.pages) if kind == "pages" else PASSAGES
        own_found = max(found_itself[kind, source, mode] for mode in by_mode)
        chosen[kind][source] = best_mode(label, by_mode, at=at)._replace(own=own_found)
    return ChosenModes(chosen["pages"], chosen["passages"], done, pages_of)


def _pages_by_look(
    asked: Sequence[tuple[Sample, Query]],
    searcher: Searcher,
    image_hashes: Callable[[ImageRef], ImageHash | None],
    depth: int,
    mode: str,
) -> list[tuple[list[str], bool]]:
    """The first pages with other images like the one asked about, and whether that one was found too."""
    found: list[tuple[list[str], bool]] = [([], False)] * len(asked)

    def short(n: int, ids: list[str]) -> bool:
        others = _without_own(ids, asked[n][0], searcher, image_hashes)
        found[n] = searcher.pages_of(others)[:depth], len(others) < len(ids)
        return len(found[n][0]) < depth

    searcher.search_until([query for _, query in asked], mode, 4 * depth, short)
    return found


def _without_own(
    ids: Sequence[str], sample: Sample, searcher: Searcher, image_hashes: Callable[[ImageRef], ImageHash | None]
) -> list[str]:
    """The hits but for those that show the image asked about, which stand before all others but `OWN`."""
    shown = showing(sample.images, image_hashes)
    left: list[str] = []
    for place, id in enumerate(ids):
        if len(left) == OWN:
            return left + list(ids[place:])
        image = searcher.documents[id].image
        if image is None or not shown(image):
            left.append(id)
    return left


def can_score(options: MiningOptions, searcher: Searcher) -> None:
    """Limits of score are about dense scores: without vectors of passages they say nothing of passages by words."""
    by_words = "lexical" in modes_of(options) and "lexical" in searcher.modes
    if options.by_score and options.text and by_words and "text->text" not in searcher.modes:
        raise UsageError(
            "margins and limits of score compare dense scores, and the index has no vectors of passages",
            item=searcher.folder,
            cure="build it with a --text-encoder, ask for no text distractors (--text 0), or leave the limits out",
        )
