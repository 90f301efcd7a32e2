"""Samples as queries: taken in blocks of bounded memory, embedded together, each image read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from demur.errors import DataError, StorageError
from demur.indexing.pixels import rgb
from demur.pipeline.mining_plan import PAGE_MODES, MiningPlan
from demur.records import ImageRef, Modality, Sample
from demur.retrieval.search import Query, Searcher
from demur.store import read_image

BLOCK_BYTES = 1 << 26
"""Memory of the samples asked together: a matrix product over the index, or one of its lists, pays by their number."""
SAMPLE_BYTES = 1 << 13
"""Of a sample, roughly, without its vectors."""
READ = 64
"""Images held in memory together, and samples with their hits."""


Asked = tuple[str, ImageRef | None]
"""A question with the image that is asked with it."""


class Unasked(NamedTuple):
    """Why nothing is asked with a text and its image."""

    reason: str
    detail: str


def blocks_of(samples: Iterable[Sample], searcher: Searcher, plan: MiningPlan) -> Iterator[list[Sample]]:
    """As many samples as `BLOCK_BYTES` hold with their vectors and the rows and scores found."""
    vectors = sum(4 * int(encoder["dims"]) for encoder in searcher.manifest["encoders"].values())
    found = sum(12 * plan.hits(pool) for pool, wanted in plan.quotas.items() if wanted)
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
