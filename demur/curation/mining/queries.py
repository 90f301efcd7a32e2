"""How mining searches an index: in which modes, how deep, and with which queries.

Samples are embedded in blocks of bounded memory; each image is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from demur.core.errors import DataError, StorageError, UnknownPart, UsageError
from demur.core.images import rgb
from demur.core.progress import QUIET, Progress
from demur.core.records import ImageRef, Modality, Sample
from demur.core.uris import read_image
from demur.corpora.near_duplicates import HASHES_IN_MEMORY, ImageHash, ImageHashes
from demur.curation.mining.options import MiningOptions, Pool
from demur.retrieval.cross_encoder import CrossEncoder
from demur.retrieval.modes import Query, every_mode, mode_named, simple_modes
from demur.retrieval.search import Searcher

PAGE_MODES = ("image->title", "image->title+summary", "image->image", "image->first-image")
TEXT_MODES = ("text->text", "lexical", "fused")
PASSAGES = 10
"""Depth at which gold passages count as found."""
DEPTH = 6
"""Hits fetched per wanted distractor."""
BLOCK_BYTES = 1 << 26
"""Bytes of a block of samples: large blocks share each pass over the index."""
SAMPLE_BYTES = 1 << 13
"""Bytes of a sample, roughly, without its vectors."""
READ = 64
"""Images, and samples with their hits, that are in memory at once."""


Options = TypeVar("Options", bound=MiningOptions)
"""Mining options of a command or a recipe."""
Asked = tuple[str, ImageRef | None]
"""A question and its query image."""


@dataclass(frozen=True)
class Mining:
    """An open index, and how distractors are mined from it."""

    searcher: Searcher
    root: Path | None
    """The folder that image uris of the samples start from."""
    options: MiningOptions
    steps: Progress = QUIET
    cross_encoder: CrossEncoder | None = None
    """That of the options, open."""
    known_hashes: Callable[[ImageRef], ImageHash | None] | None = None
    """Known hashes of images; None: a new `ImageHashes` of ``root``."""

    @cached_property
    def image_hashes(self) -> Callable[[ImageRef], ImageHash | None]:
        """Image -> its hash, for comparing looks."""
        return self.known_hashes or ImageHashes(self.root, most=HASHES_IN_MEMORY)


class Unsearchable(NamedTuple):
    """Why a question and its image cannot be searched with."""

    reason: str
    detail: str


def page_modes() -> tuple[str, ...]:
    """The modes that find pages by a query image: `PAGE_MODES` before those by image and text, and of other packages."""
    return tuple(
        dict.fromkeys((*PAGE_MODES, *(n for n, mode in every_mode().items() if mode.by != "text")))
    )


def text_modes() -> tuple[str, ...]:
    """The modes that find passages by a question: `TEXT_MODES` before those of other packages."""
    others = [
        name
        for name, mode in every_mode().items()
        if (mode.part, mode.by) == ("passages", "text") and mode.finds == "documents"
    ]
    return tuple(dict.fromkeys((*TEXT_MODES, *others)))


def modes_of(options: MiningOptions) -> tuple[str, ...]:
    """The modes to choose from, by their canonical names.

    Raises:
        UsageError: a mode finds neither pages by an image nor passages by a text.
        UnknownPart: there is no such mode.
    """
    known_modes = (*page_modes(), *text_modes())
    if options.modes == "best":
        return known_modes
    modes = tuple(mode.replace("-to-", "->") for mode in options.modes)
    for mode in modes:
        if mode not in (
            *known_modes,
            *every_mode(),
        ):  # the options may be a stranger's: nothing is imported
            raise UnknownPart("retrieval mode", mode, known_modes)
        if mode not in known_modes:
            raise UsageError(
                f"{mode} finds neither pages by an image nor passages by a text",
                cure=f"choose from {', '.join(known_modes)}",
            )
    return modes


def supported_options(
    options: Options, modes: Collection[str], *, pictured: bool = False
) -> tuple[Options, list[str]]:
    """The options without what an index with these modes cannot give, and messages about what it cannot.

    Args:
        pictured: whether some questions have an image that could find pages.
    """
    needs: dict[Pool, tuple[set[str], str]] = {
        "text": ({"text->text", "lexical"}, "texts"),
        "lexical": ({"lexical"}, "texts"),
        "visual": ({"image->image"}, "images, or the encoder embeds none"),
    }
    lacking = {
        pool: f"{options.quotas[pool]} {pool} distractors per sample are wanted, but its knowledge base has no {need}"
        for pool, (is_wanted, need) in needs.items()
        if options.quotas[pool] and is_wanted.isdisjoint(modes)
    }
    options, messages = options.model_copy(update=dict.fromkeys(lacking, 0)), list(lacking.values())
    by_image = [mode for mode in page_modes() if mode in modes_of(options)]
    if (
        pictured
        and by_image
        and (options.text or options.lexical)
        and not set(by_image) & set(modes)
    ):
        messages.append(
            f"its knowledge base cannot be searched by {' or '.join(by_image)}; "
            "passages are searched by the question alone"
        )
    return options, messages


def hits_for(options: MiningOptions, pool: Pool) -> int:
    """Number of hits to fetch for a kind of distractors."""
    return options.range_min + max(options.quotas[pool] * DEPTH, options.range_max or 0)


def neighbours_needed(options: MiningOptions) -> dict[str, int]:
    """Simple dense mode -> number of neighbours that mining uses from it."""
    modes = modes_of(options)
    needed = {mode: options.pages for mode in page_modes() if mode in modes}
    if needed.pop(
        "image->first-image", 0
    ):  # some of the nearest images are not the first of their page
        needed["image->image"] = 4 * options.pages
    if options.visual:
        needed["image->image"] = max(hits_for(options, "visual"), needed.get("image->image", 0))
    if options.text or {"text->text", "fused"} & set(modes):
        needed["text->text"] = hits_for(options, "text") if options.text else PASSAGES
    return needed


def parts_needed(options: MiningOptions) -> set[str]:
    """The parts of an index that mining with these options may search."""
    modes = {*simple_modes(modes_of(options))}
    if options.text or (options.lexical and options.diversity is not None):
        modes.add("text->text")
    if options.lexical:
        modes.add("lexical")
    if options.visual:
        modes.add("image->image")
    return {mode_named(mode).part for mode in modes}


def blocks_of(
    samples: Iterable[Sample], searcher: Searcher, options: MiningOptions
) -> Iterator[list[Sample]]:
    """Blocks of as many samples as fit into `BLOCK_BYTES` with their vectors and hits."""
    vectors = sum(4 * int(encoder["dims"]) for encoder in searcher.manifest["encoders"].values())
    hit_bytes = sum(12 * hits_for(options, pool) for pool, quota in options.quotas.items() if quota)
    remaining = iter(samples)
    while block := list(
        islice(remaining, max(1, BLOCK_BYTES // (SAMPLE_BYTES + vectors + hit_bytes)))
    ):
        yield block


def embed_questions(
    questions: Sequence[Asked], searcher: Searcher, root: Path | None, modes: Iterable[str]
) -> list[Query | Unsearchable]:
    """Queries with vectors for these modes, or why a question cannot be searched with."""
    simple = sorted({simple_mode for mode in modes for simple_mode in mode.split("/")})
    by_image = [mode for mode in simple if mode in page_modes()]
    outcomes: list[Query | Unsearchable] = []
    for start in range(0, len(questions), READ):
        block = [_read_query(text, image, root) for text, image in questions[start : start + READ]]
        outcomes += _each_query(block, lambda queries: _with_vectors(queries, searcher, by_image))
    return [
        Unsearchable("cannot be embedded", outcome.fault)
        if isinstance(outcome, Query) and outcome.fault
        else outcome
        for outcome in _each_query(outcomes, lambda queries: searcher.embedded(queries, simple))
    ]


def _read_query(text: str, image: ImageRef | None, root: Path | None) -> Query | Unsearchable:
    try:
        return Query(text, None if image is None else rgb(read_image(image, root), image.uri))
    except (DataError, StorageError) as error:
        return Unsearchable("image cannot be read", str(error) or "unreadable")


def _each_query(
    outcomes: Sequence[Query | Unsearchable],
    embed: Callable[[list[Query]], Iterable[Query | Unsearchable]],
) -> list[Query | Unsearchable]:
    """The outcomes with what ``embed`` makes of the queries among them."""
    embedded = iter(embed([outcome for outcome in outcomes if isinstance(outcome, Query)]))
    return [next(embedded) if isinstance(outcome, Query) else outcome for outcome in outcomes]


def _with_vectors(
    queries: Sequence[Query], searcher: Searcher, modes: Sequence[str]
) -> list[Query | Unsearchable]:
    """As `Searcher.embedded`; an image that the encoder refuses (too thin to be resized) becomes an `Unsearchable`."""
    try:
        return list(searcher.embedded(queries, modes))
    except DataError as error:
        if len(queries) == 1:
            return [Unsearchable("cannot be embedded", str(error))]
    return [outcome for query in queries for outcome in _with_vectors([query], searcher, modes)]


def query_image(sample: Sample) -> ImageRef | None:
    """The query image."""
    return sample.images[0] if sample.images else None


def image_to_match(sample: Sample) -> ImageRef | None:
    """The image whose neighbours become distractors: the query image, or that of the gold evidence."""
    gold = (e.image for e in sample.gold if e.modality is Modality.IMAGE and e.image is not None)
    return query_image(sample) or next(gold, None)
