"""Prepares mining: check that images of the index can be read, tune inverted lists, choose the best modes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import ImageRef, Sample
from demur.core.uris import read_image
from demur.corpora.lineage import Gold
from demur.corpora.near_duplicates import image_matcher
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import (
    PASSAGES,
    Asked,
    Mining,
    blocks_of,
    embed_questions,
    image_to_match,
    modes_of,
    neighbours_needed,
    page_modes,
    query_image,
    text_modes,
)
from demur.retrieval.modes import Query, mode_named
from demur.retrieval.open_index import Probes
from demur.retrieval.recall import DEPTHS, Choice, Recall, best_mode
from demur.retrieval.search import Searcher

TUNED_ON = 512
"""Questions, at a time, that the number of inverted lists is measured on."""
TUNED_MOST = 2048
"""Questions that it is measured on at most."""
RECALL = 0.99
"""Share of the exact neighbours that the searched lists must hold."""
TRIED = 64
"""Images of the index that are read first."""
TRIED_MOST = 1024
"""Images that are read if none of those can be."""
OWN = 2
"""Other hits after which the query image itself is no longer expected: it is its own nearest neighbour."""


@dataclass(frozen=True)
class ChosenModes:
    """The mode chosen for each source, by its recall of gold."""

    pages: Mapping[str, Choice]
    """Source -> the mode that finds pages by an image."""
    passages: Mapping[str, Choice]
    """Source -> the mode that finds passages by a question."""
    question_count: int = 0
    """Samples that the choice is based on."""
    pages_of: Mapping[str, int] = field(default_factory=dict)
    """Source -> pages opened, where they differ from the options."""

    @property
    def choices(self) -> list[Choice]:
        """All of them, for tables."""
        return [*self.pages.values(), *self.passages.values()]


def check_images(
    searcher: Searcher,
    root: Path | None,
    options: MiningOptions,
    steps: Progress = QUIET,
    whose: str = "",
) -> None:
    """Read `TRIED` images of the index, at equal steps, and warn of those that cannot be read.

    Args:
        options: if they want no image distractors, nothing is read.
        whose: begins the warning.

    Raises:
        UsageError: none of `TRIED_MOST` images can be read.
    """
    if not options.visual or "image->image" not in searcher.modes:
        return
    rows = searcher.rows("looks")
    for tried in (TRIED, TRIED_MOST):
        places = np.unique(np.linspace(0, max(0, len(rows) - 1), min(tried, len(rows))).astype(int))
        images = [
            image for row in rows[places].tolist() if (image := searcher.documents.at(row).image)
        ]
        reasons = [_why_unread(image, root) for image in images]
        reason_counts = Counter(filter(None, reasons))
        if reason_counts.total() < len(images) or not images:
            if reason_counts:
                why_not = f"{reason_counts.total():,} of {len(images):,} sampled images cannot be read: {summary_of(reason_counts)}"
                steps.warn(f"{whose}{why_not}")
            return
    raise UsageError(
        f"none of {len(images):,} sampled images of the index can be read: {summary_of(reason_counts)}",
        item=images[0].uri,
        cure="put the images where the index expects them, build it again, or mine none (--visual 0)",
    )


def _why_unread(image: ImageRef, root: Path | None) -> str:
    try:
        read_image(image, root)
    except (DataError, StorageError) as error:
        return error.message.partition(":")[0]  # the rest of the message is about this image alone
    return ""


def summary_of(reasons: Counter[str]) -> str:
    """Reasons with their counts, most frequent first.

    >>> summary_of(Counter(["gone", "broken", "gone"]))
    'gone (2), broken (1)'
    """
    return ", ".join(f"{reason} ({n:,})" for reason, n in reasons.most_common())


def tune_probes(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    searches: Collection[MiningOptions],
    steps: Progress = QUIET,
) -> list[Probes]:
    """Set how many inverted lists of each part of the index are searched, measured on sampled questions.

    The same input always gives the same numbers. Parts without inverted lists do not change; if there are none, the
    samples are not read.

    Args:
        searcher: the index; it searches that many lists from now on.
        searches: the options that it will be searched with; the largest number of neighbours counts.

    Returns:
        The setting of each part; a part that no question searches is missing.
    """
    deepest: dict[str, int] = {}
    for options in searches:
        for mode, k in neighbours_needed(options).items():
            if mode_named(mode).part in searcher.lists and mode in searcher.modes:
                deepest[mode] = max(k, deepest.get(mode, 0))
    if not deepest:
        return []
    steps.stage("measure how many inverted lists must be searched")
    questions_of_mode: dict[str, list[Asked]] = {mode: [] for mode in deepest}
    seen: Counter[str] = Counter()
    dice = random.Random(0)
    for sample in samples:
        for mode, drawn_questions in questions_of_mode.items():
            image = image_to_match(sample) if mode == "image->image" else query_image(sample)
            if image is None if mode == "image->image" else bool(image) != (mode in page_modes()):
                continue
            seen[mode] += 1
            place = dice.randrange(seen[mode])  # a reservoir: each question has the same chance
            if len(drawn_questions) < TUNED_MOST:
                drawn_questions.append((sample.question, image))
            elif place < TUNED_MOST:
                drawn_questions[place] = (sample.question, image)
    probes = []
    for mode, drawn_questions in questions_of_mode.items():
        dice.shuffle(drawn_questions)
        blocks = (
            drawn_questions[start : start + TUNED_ON]
            for start in range(0, len(drawn_questions), TUNED_ON)
        )
        embedded_blocks = (embed_questions(block, searcher, root, [mode]) for block in blocks)
        query_blocks = filter(
            None,
            ([query for query in block if isinstance(query, Query)] for block in embedded_blocks),
        )
        if first := next(query_blocks, None):
            probes.append(
                searcher.tune(
                    mode,
                    chain([first], query_blocks),
                    deepest[mode],
                    recall=RECALL,
                    queries_to_come=seen[mode],
                )
            )
    return probes


def choose_modes(
    samples: Iterable[Sample],
    mining: Mining,
    *,
    total: int = 0,
    pages_of: Mapping[str, int] | None = None,
) -> ChosenModes:
    """Recall of gold for every mode, source by source, and the best of them.

    For a question with an image, gold counts as found if a page of its gold evidence is among the first
    ``options.pages``; for one without, if gold evidence or a passage cut from it is among the first 10 passages. A hit
    that is the query image itself (same bytes or look: `demur.corpora.near_duplicates.same_picture`) is ignored, and
    the `Choice` counts the question.

    Args:
        samples: read once. Samples whose gold no mode can find (it is not in the index, or is an image where passages
            are searched) are in no denominator.
        mining: the modes of its options are compared, if the index has them.
        total: number of samples, for the progress; 0 if unknown.
        pages_of: source -> pages, where they differ from ``options.pages``.

    Raises:
        UsageError: a mode cannot be used for mining; or the options limit scores of texts, and the index has no dense
            vectors that give scores. UnknownPart: there is no such mode.
    """
    searcher, options, pages_of = mining.searcher, mining.options, pages_of or {}
    can_score(options, searcher)
    depth = max(*DEPTHS, options.pages, *pages_of.values())
    by_image, by_text = _PageRecall(mining, depth), _PassageRecall(mining, depth)
    done = 0
    for block in blocks_of(samples, searcher, options):
        by_image.count([sample for sample in block if sample.images])
        by_text.count([sample for sample in block if not sample.images])
        done += len(block)
        mining.steps.count("questions asked in every mode", done, total)
    pages = by_image.choices(lambda source: pages_of.get(source, options.pages))
    passages = by_text.choices(lambda source: PASSAGES)
    for choice in (*pages.values(), *passages.values()):
        if choice.warning:
            mining.steps.warn(choice.warning)
    return ChosenModes(pages, passages, done, pages_of)


@dataclass
class _PassageRecall:
    """Recall of gold for the modes that find passages by a question, source by source."""

    mining: Mining
    depth: int
    """Hits that are looked at."""
    recalls: dict[str, dict[str, Recall]] = field(default_factory=dict)
    """Source -> mode -> recall, in the order of modes, which decides between equals."""
    self_hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(source, mode) -> questions whose own image was found."""

    label: ClassVar[str] = "passages by question"

    def count(self, samples: Sequence[Sample]) -> None:
        """Search with the questions in every mode, and count the gold that is found."""
        searcher, modes = self.mining.searcher, self._usable_modes()
        questions = [(sample.question, query_image(sample)) for sample in samples]
        queries_or_faults = embed_questions(questions, searcher, self.mining.root, modes)
        searched = [
            (sample, query)
            for sample, query in zip(samples, queries_or_faults, strict=True)
            if isinstance(query, Query)
        ]
        if not searched:
            return
        gold = [self.gold_in_reach(sample, modes) for sample, _ in searched]
        for sample, _ in searched:
            for mode in modes:
                self.recalls.setdefault(sample.source, {}).setdefault(mode, Recall())
        # what finds documents by an image finds the query image itself, too
        by_image = [
            mode for mode in modes if mode in page_modes() and mode_named(mode).finds == "documents"
        ]
        by_rank = [mode for mode in modes if mode not in by_image]
        queries = [query for _, query in searched]
        for mode, ranks in searcher.first_ranks(queries, by_rank, self.depth, gold).items():
            for (sample, _), right, rank in zip(searched, gold, ranks, strict=True):
                self.recalls[sample.source][mode].count(rank, known=bool(right))
        for mode in by_image:
            pages = _pages_by_image(searched, self.mining, self.depth, mode)
            for (sample, _), right, (ids, itself) in zip(searched, gold, pages, strict=True):
                self.self_hits[sample.source, mode] += itself
                self.recalls[sample.source][mode].add(ids, right)

    def gold_in_reach(self, sample: Sample, modes: Sequence[str]) -> set[str]:
        """The passages of gold that one of these modes can find."""
        searcher = self.mining.searcher
        return searcher.reached(Gold(sample.gold, searcher.documents).parts_in(searcher), modes)

    def choices(self, cutoff: Callable[[str], int]) -> dict[str, Choice]:
        """Source -> the mode with the best recall.

        Args:
            cutoff: source -> how many hits count.
        """
        return {
            source: best_mode(
                f"{source}: {self.label}", recall_of_mode, at=cutoff(source)
            )._replace(
                own_images_indexed=max(self.self_hits[source, mode] for mode in recall_of_mode)
            )
            for source, recall_of_mode in self.recalls.items()
        }

    def known_modes(self) -> tuple[str, ...]:
        """The modes that are compared, if the index has them."""
        return text_modes()

    def _usable_modes(self) -> list[str]:
        wanted, indexed = modes_of(self.mining.options), self.mining.searcher.modes
        return [mode for mode in self.known_modes() if mode in wanted and mode in indexed]


class _PageRecall(_PassageRecall):
    """Recall of gold for the modes that find pages by an image, source by source."""

    label = "pages by image"

    def known_modes(self) -> tuple[str, ...]:
        """The modes that are compared, if the index has them."""
        return page_modes()

    def gold_in_reach(self, sample: Sample, modes: Sequence[str]) -> set[str]:
        """The pages of gold that one of these modes can find."""
        searcher = self.mining.searcher
        pages = Gold(sample.gold, searcher.documents).pages_in(searcher)
        return searcher.reached(pages, modes, pages=True)


def _pages_by_image(
    samples_and_queries: Sequence[tuple[Sample, Query]], mining: Mining, depth: int, mode: str
) -> list[tuple[list[str], bool]]:
    """The first pages with images like the query image, itself left out, and whether it was found too."""
    searcher = mining.searcher
    pages_and_itself: list[tuple[list[str], bool]] = [([], False)] * len(samples_and_queries)

    def needs_more(n: int, ids: list[str]) -> bool:
        others = _without_own(ids, samples_and_queries[n][0], mining)
        pages_and_itself[n] = searcher.pages_of(others)[:depth], len(others) < len(ids)
        return len(pages_and_itself[n][0]) < depth

    searcher.search_until([query for _, query in samples_and_queries], mode, 4 * depth, needs_more)
    return pages_and_itself


def _without_own(ids: Sequence[str], sample: Sample, mining: Mining) -> list[str]:
    """The hits without those that show the query image, which come before all but `OWN` of the others."""
    shows_query_image = image_matcher(sample.images, mining.image_hashes)
    other_ids: list[str] = []
    for place, id in enumerate(ids):
        if len(other_ids) == OWN:
            return other_ids + list(ids[place:])
        image = mining.searcher.documents[id].image
        if image is None or not shows_query_image(image):
            other_ids.append(id)
    return other_ids


def can_score(options: MiningOptions, searcher: Searcher) -> None:
    """Check that limits of scores can be applied: they are about dense scores, which need vectors of passages."""
    if options.cross_encoder:
        return
    by_words = "lexical" in modes_of(options) and "lexical" in searcher.modes
    if options.by_score and options.text and by_words and "text->text" not in searcher.modes:
        raise UsageError(
            "margins and score limits need dense scores, but the index has no vectors of passages",
            item=searcher.folder,
            cure="build it with a --text-encoder, ask for no text distractors (--text 0), or leave the limits out",
        )
