"""What indexing the knowledge bases of a build will take: passages, disk, hours of encoders.

Counts of documents and pages are exact where a page's documents follow each other; passages are counted on a sample of
the texts. Disk is the arithmetic of `demur.indexing.build` and `demur.retrieval.found`, with the bytes per row that
``benchmarks/two_step.py`` measures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import DataError, StorageError
from demur.core.images import rgb
from demur.core.records import Document, ImageRef, Record
from demur.corpora.lineage import page_of
from demur.curation.build.recipe import RetrievalSpec
from demur.curation.mining.queries import parts_needed
from demur.indexing.choose import choose
from demur.indexing.chunk import Chunker
from demur.indexing.encoders import Encoder
from demur.indexing.options import IndexOptions

if TYPE_CHECKING:
    from demur.indexing.encoders import Vectors

SAMPLED = 256
"""Texts, and images, of a base that encoders are timed on; passages are counted on up to twice as many."""
ROW, PART_ROW, SPAN, POSTING = 250, 20, 12, 8
"""Bytes beside the texts and vectors: of a document or page in its table; of a row in a part; of a cut; of a word of a
passage in BM25."""


@dataclass
class Survey:
    """A knowledge base, counted while it is read; its documents come one by one."""

    documents: int = 0
    pages: int = 0
    texts: int = 0
    images: int = 0
    text_bytes: int = 0
    summary_bytes: int = 0
    without_summary: int = 0
    """Pages that their first passage stands for."""
    with_text: list[Document] = field(default_factory=list)
    """Some of them, at equal steps."""
    with_image: list[Document] = field(default_factory=list)
    _page: str = ""

    def add(self, document: Document) -> None:
        """Count a document."""
        self.documents += 1
        if document.text is not None:
            self.texts += 1
            self.text_bytes += len(document.text.encode())
            _sample(self.with_text, document, self.texts)
        if document.image is not None:
            self.images += 1
            _sample(self.with_image, document, self.images)
        if (page := page_of(document)) != self._page:
            self._page = page
            self.pages += 1
            summary = document.attributes.get("summary") or ""
            self.summary_bytes += len(summary.encode())
            self.without_summary += not summary


def _sample(sampled: list[Document], document: Document, number: int) -> None:
    """Keep `SAMPLED` documents or more at equal steps: every second goes when there are twice as many."""
    step = 1
    while step * 2 * SAMPLED < number:
        step *= 2
    if (number - 1) % step == 0:
        if len(sampled) >= 2 * SAMPLED:
            del sampled[1::2]
        sampled.append(document)


class Speed(NamedTuple):
    """How fast an encoder makes the vectors of a part."""

    per_second: float | None = None
    dimensions: int | None = None


class BaseEstimate(Record):
    """The knowledge base of one source."""

    source: str
    documents: int
    pages: int
    passages: int
    """That the base has, cut as the recipe says."""
    embedded: dict[str, int]
    """Part of the index -> what is embedded for it; passages of found pages at most."""
    gigabytes: float | None
    """Of pool and index at the end; None if the dimensions of an encoder are not known."""
    hours: float | None
    """Of encoders; None if the rate of one is not known."""


class Base(NamedTuple):
    """What an estimate of a base follows from; sizes are bytes."""

    source: str
    documents: int
    pages: int
    texts: int
    images: int
    passages: int
    text_bytes: int
    lead_bytes: int
    """Of the summaries of pages, or what stands for them."""
    words: int
    """Different words of a passage, in the mean."""

    @classmethod
    def of(cls, source: str, survey: Survey, chunker: Chunker | None) -> Base:
        """A base that was read."""
        cut = survey.with_text if chunker is None else chunker.documents(survey.with_text)
        passages = [document.text for document in cut if document.text is not None]
        words = sum(len({*passage.casefold().split()}) for passage in passages)
        passage_bytes = sum(map(len, passages)) / max(1, len(passages))
        return cls(
            source,
            survey.documents,
            survey.pages,
            survey.texts,
            survey.images,
            round(survey.texts * len(passages) / max(1, len(survey.with_text))),
            survey.text_bytes,
            survey.summary_bytes + round(survey.without_summary * passage_bytes),
            round(words / max(1, len(passages))),
        )


def estimate_base(
    base: Base, retrieval: RetrievalSpec, questions: int, speeds: Mapping[str, Speed]
) -> BaseEstimate:
    """The estimate of one base.

    Args:
        base: its counts.
        retrieval: how it is searched; ``passages`` is resolved.
        questions: that open pages in it, at most.
        speeds: part -> how fast its vectors are made.
    """
    parts = parts_needed(retrieval)
    in_two_steps = retrieval.passages == "found"
    per_page = base.passages / max(1, base.pages)
    opened = round(questions * retrieval.pages * per_page)
    sizes = {
        "passages": min(base.passages, opened) if in_two_steps else base.passages,
        "titles": base.pages,
        "summaries": base.pages,
        "looks": base.images,
    }
    embedded = {part: size for part, size in sizes.items() if part in parts and size}
    rates = [speeds.get(part, Speed()).per_second for part in embedded]
    seconds = [size / rate for size, rate in zip(embedded.values(), rates, strict=True) if rate]
    cut_bytes = base.text_bytes * (1 + _overlap(retrieval))
    rows = base.documents if in_two_steps else base.documents - base.texts + base.passages
    disk: float = base.text_bytes + ROW * base.documents  # of the pool
    disk += (base.text_bytes if in_two_steps else cut_bytes) + ROW * rows
    disk += base.lead_bytes + ROW * base.pages
    disk += POSTING * base.words * base.passages if "lexical" in parts else 0
    vector_bytes = [
        _vector_bytes(part, size, speeds.get(part, Speed()).dimensions, in_two_steps)
        for part, size in embedded.items()
    ]
    known = [size for size in vector_bytes if size is not None]
    return BaseEstimate(
        source=base.source,
        documents=base.documents,
        pages=base.pages,
        passages=base.passages,
        embedded=embedded,
        gigabytes=(disk + sum(known)) / 1e9 if len(known) == len(vector_bytes) else None,
        hours=sum(seconds) / 3600 if len(seconds) == len(rates) else None,
    )


def _overlap(retrieval: RetrievalSpec) -> float:
    """Share of the texts that stands in two passages."""
    size, _, overlap = (retrieval.chunk or "1:0").partition(":")
    return int(overlap) / int(size)


def _vector_bytes(
    part: str, count: int, dimensions: int | None, in_two_steps: bool
) -> float | None:
    """Bytes of the vectors of a part and of its lists; None if its dimensions are not known."""
    if dimensions is None:
        return None
    if part == "passages" and in_two_steps:
        return count * (4.0 * dimensions + SPAN)
    kind = choose(count, dimensions, queries=IndexOptions().queries).kind
    in_lists = {"flat": 0, "ivf-flat": 4 * dimensions + 8}.get(kind, dimensions + 8)
    return count * (4.0 * dimensions + PART_ROW + in_lists)


def measure_speeds(
    survey: Survey,
    chunker: Chunker | None,
    encoder: Encoder,
    text_encoder: Encoder | None,
    read_image: Callable[[ImageRef], bytes],
) -> dict[str, Speed]:
    """Part -> how fast its vectors are made on this machine, timed on the sampled texts and images of a base."""
    documents = survey.with_text[:SAMPLED]
    texts = [document.text or "" for document in documents]
    passages = texts if chunker is None else list(map(chunker.first, texts))
    pictures = []
    for image in (document.image for document in survey.with_image[:SAMPLED]):
        with suppress(DataError, StorageError):  # the build says what is wrong with one
            pictures += [] if image is None else [rgb(read_image(image), image.uri)]
    timed = {
        "titles": _time(encoder.texts, [d.title for d in documents], encoder, "joint"),
        "summaries": _time(encoder.texts, passages, encoder, "joint"),
        "looks": _time(encoder.images, pictures, encoder, "look"),
    }
    of_text = text_encoder or encoder
    return timed | {"passages": _time(of_text.texts, passages, of_text, "text")}


def _time(
    embed: Callable[[Sequence[Any], str], Vectors],
    items: Sequence[object],
    encoder: Encoder,
    space: str,
) -> Speed:
    """The rate of the second of two runs, for the first loads and compiles; nothing for a space that is not served."""
    if space not in encoder.dims or not items:
        return Speed()
    embed(items, space)
    start = time.perf_counter()
    embed(items, space)
    return Speed(len(items) / (time.perf_counter() - start), encoder.dims[space])
