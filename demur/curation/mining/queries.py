"""How mining asks an index: in which modes, how far down, and with which queries.

Samples are taken in blocks of bounded memory, embedded together, each image read once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import rgb
from demur.core.records import ImageRef, Modality, Sample
from demur.core.uris import read_image
from demur.curation.mining.options import MiningOptions, Pool
from demur.retrieval.search import Query, Searcher, canonical_mode

LOOK_MODES = ("image->image", "image->first-image")
PAGE_MODES = ("image->title", "image->title+summary", *LOOK_MODES)
TEXT_MODES = ("text->text", "lexical", "fused")
PASSAGES = 10
"""Passages among which gold counts as found."""
DEPTH = 6
"""Hits fetched, as a multiple of the distractors wanted."""
BLOCK_BYTES = 1 << 26
"""Memory of the samples asked together: a matrix product over the index, or one of its lists, pays by their number."""
SAMPLE_BYTES = 1 << 13
"""Of a sample, roughly, without its vectors."""
READ = 64
"""Images held in memory together, and samples with their hits."""


Options = TypeVar("Options", bound=MiningOptions)
"""Those of a command, or those of a recipe with the index they are for."""
Asked = tuple[str, ImageRef | None]
"""A question with the image that is asked with it."""


class Unasked(NamedTuple):
    """Why nothing is asked with a text and its image."""

    reason: str
    detail: str


def modes_of(options: MiningOptions) -> tuple[str, ...]:
    """The modes to choose from, by their canonical names; one of a kind leaves nothing to choose.

    Raises:
        UsageError: a mode that finds neither pages by an image nor passages by a text; UnknownPart, no mode.
    """
    known = (*PAGE_MODES, *TEXT_MODES)
    modes = known if options.modes == "best" else tuple(map(canonical_mode, options.modes))
    for mode in modes:
        if mode not in known:
            raise UsageError(
                f"{mode} finds neither pages by an image nor passages by a text", cure=f"choose from {', '.join(known)}"
            )
    return modes


def within(options: Options, modes: Collection[str], *, pictured: bool = False) -> tuple[Options, list[str]]:
    """What of the options an index can give that is asked in these modes, and what it cannot, in words.

    Args:
        pictured: whether some questions have an image, by which pages could be found.
    """
    needs: dict[Pool, tuple[set[str], str]] = {
        "text": ({"text->text", "lexical"}, "texts"),
        "lexical": ({"lexical"}, "texts"),
        "visual": ({"image->image"}, "images, or the encoder none of their looks"),
    }
    lacking = {
        pool: f"{options.quotas[pool]} {pool} distractors each are asked for, and its knowledge base holds no {what}"
        for pool, (some, what) in needs.items()
        if options.quotas[pool] and some.isdisjoint(modes)
    }
    options, told = options.model_copy(update=dict.fromkeys(lacking, 0)), list(lacking.values())
    by_image = [mode for mode in PAGE_MODES if mode in modes_of(options)]
    if pictured and by_image and (options.text or options.lexical) and not set(by_image) & set(modes):
        told.append(
            f"pages cannot be found by {' or '.join(by_image)}: its knowledge base holds nothing that is asked so; "
            "passages are searched by the question alone"
        )
    return options, told


def hits_for(options: MiningOptions, pool: Pool) -> int:
    """Hits fetched for that kind of distractors."""
    return options.range_min + max(options.quotas[pool] * DEPTH, options.range_max or 0)


def reach(options: MiningOptions) -> dict[str, int]:
    """Simple dense mode that is asked in -> the neighbours that count there."""
    modes = modes_of(options)
    found = {mode: options.pages for mode in PAGE_MODES if mode in modes}
    if found.pop("image->first-image", 0):  # of the nearest images some are not the first of their page
        found["image->image"] = 4 * options.pages
    if options.visual:
        found["image->image"] = max(hits_for(options, "visual"), found.get("image->image", 0))
    if options.text or {"text->text", "fused"} & set(modes):
        found["text->text"] = hits_for(options, "text") if options.text else PASSAGES
    return found


def blocks_of(samples: Iterable[Sample], searcher: Searcher, options: MiningOptions) -> Iterator[list[Sample]]:
    """As many samples as `BLOCK_BYTES` hold with their vectors and the rows and scores found."""
    vectors = sum(4 * int(encoder["dims"]) for encoder in searcher.manifest["encoders"].values())
    found = sum(12 * hits_for(options, pool) for pool, wanted in options.quotas.items() if wanted)
    left = iter(samples)
    while block := list(islice(left, max(1, BLOCK_BYTES // (SAMPLE_BYTES + vectors + found)))):
        yield block


def embedded(
    wanted: Sequence[Asked], searcher: Searcher, root: Path | None, modes: Iterable[str]
) -> list[Query | Unasked]:
    """Texts with their images as queries that hold vectors for these modes, or why they cannot be asked."""
    simple = sorted({one for mode in modes for one in mode.split("/")})
    by_image = [mode for mode in simple if mode in PAGE_MODES]
    made: list[Query | Unasked] = []
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
        made += [Unasked("image cannot be read", why) if why else next(vectors) for why in read]
    whole = iter(searcher.embedded([query for query in made if isinstance(query, Query)], simple))
    made = [one if isinstance(one, Unasked) else next(whole) for one in made]
    return [Unasked("cannot be embedded", one.fault) if isinstance(one, Query) and one.fault else one for one in made]


def _with_vectors(queries: Sequence[Query], searcher: Searcher, modes: Sequence[str]) -> list[Query | Unasked]:
    """As `Searcher.embedded`, but for an image that the encoder refuses (it is too thin to be resized): it is told."""
    try:
        return list(searcher.embedded(queries, modes))
    except DataError as error:
        if len(queries) == 1:
            return [Unasked("cannot be embedded", str(error))]
    return [one for query in queries for one in _with_vectors([query], searcher, modes)]


def picture_of(sample: Sample) -> ImageRef | None:
    """The image that is asked about."""
    return sample.images[0] if sample.images else None


def shown_of(sample: Sample) -> ImageRef | None:
    """The image whose neighbours are sought: that of the question, or that of its gold evidence."""
    gold = (e.image for e in sample.gold if e.modality is Modality.IMAGE and e.image is not None)
    return picture_of(sample) or next(gold, None)
