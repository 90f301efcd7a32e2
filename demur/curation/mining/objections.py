"""What speaks against a document as a distractor of a sample (VLM-DeflectionBench, section 3.2, equations 2 and 3).

The first of these that holds is the reason of its `Drop`:

    empty                    a text without words, or of the wrong modality
    gold                     gold evidence, a part of it, or what contains it (`demur.corpora.lineage`)
    native                   a negative that the source ships
    already mined            a distractor that another kind of search found
    unreadable               (images only) the file is missing or has changed
    query image, near-duplicate of gold, near-duplicate of query, holds the answer, may hold the answer
                             a leak (`demur.corpora.leaks`); native negatives are checked by the same rule
    same subject             (images only) the query image of a question of the same cluster
    gold page                an image on a page of gold evidence; with ``own_page: drop`` also its other passages
    page holds the answer    an image on a page that has a passage with the answer
    repeated                 same words or same look as another distractor of the sample
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from demur.core.records import Document, Evidence, ImageRef, Modality, Sample
from demur.corpora.leaks import Leaks
from demur.corpora.lineage import Gold, IndexedDocuments, document_of, page_of
from demur.corpora.near_duplicates import IMAGE_THRESHOLDS, ImageHash, image_matcher, same_text
from demur.curation.mining.diversity import Similarity
from demur.curation.mining.options import MiningOptions, Pool

SUBJECTS = "subjects"
"""Attribute of query images in an index: the clusters of their questions, one per line."""


@dataclass(frozen=True)
class Stock:
    """What the distractors of every sample are chosen from, and how its documents are compared."""

    documents: Mapping[str, Document]
    """Id -> document, of all hits and of gold evidence."""
    pages: IndexedDocuments | None = None
    """The index, which lists the passages of a page; None does not check pages of images for the answer."""
    image_hashes: Callable[[ImageRef], ImageHash | None] = lambda image: None
    """`demur.corpora.near_duplicates.ImageHashes`; without it images are compared by their bytes."""
    similarity: Mapping[Pool, Similarity] = field(default_factory=dict)
    """Kind -> similarity of documents, for ``diversity``; a kind that is missing is picked by rank."""
    seed: int = 0
    """Of ``sampling: random``."""


class Objection(NamedTuple):
    """Why a document cannot be a distractor."""

    reason: str
    detail: str = ""


def objections_of(
    kind: Pool, sample: Sample, options: MiningOptions, stock: Stock, gold: Gold
) -> Objections:
    """The objections to documents of a kind, for one sample."""
    of_kind = ImageObjections if kind == "visual" else Objections
    return of_kind(sample, options, stock, gold)


class Objections:
    """The objections to passages as distractors of one sample.

    Args:
        sample: with its native negatives and the distractors that other kinds of search found.
        gold: its gold evidence among the documents.
    """

    def __init__(self, sample: Sample, options: MiningOptions, stock: Stock, gold: Gold) -> None:
        self.sample, self.options, self.stock, self.gold = sample, options, stock, gold
        self.image_near = IMAGE_THRESHOLDS[options.same_image]
        self._leaks = Leaks(sample, stock.image_hashes, image_near=self.image_near, gold=gold)
        self._use_of_id = {
            e.id: "native" if e.origin == "native" else "already mined" for e in sample.negatives
        }
        self._answer_of_page: dict[str, str] = {}
        self.candidates: list[Document] = []
        """Documents without an objection so far; whoever takes one adds it."""

    def to(self, document: Document) -> Objection | None:
        """The first objection to a document; None if there is none."""
        return (
            self.empty(document)
            or self._known_use(document)
            or self.unreadable(document)
            or self._leak(document)
            or self.same_subject(document)
            or self._gold_page(document)
            or self._answer_on_page(document)
            or self._repeated(document)
        )

    def empty(self, document: Document) -> Objection | None:
        """A passage without words."""
        return None if (document.text or "").strip() else Objection("empty")

    def unreadable(self, document: Document) -> Objection | None:
        """A passage is there already."""
        return None

    def same_subject(self, document: Document) -> Objection | None:
        """A passage is no query image."""
        return None

    def on_gold_page(self) -> bool:
        """Whether documents on a page of gold evidence are left out."""
        return self.options.own_page == "drop"

    def repeats(self, document: Document, other: Document | Evidence) -> bool:
        """Whether two passages have the same words."""
        return bool(other.text) and same_text(str(document.text), str(other.text))

    def _known_use(self, document: Document) -> Objection | None:
        if self.gold.parts(document):
            return Objection("gold")
        use = self._use_of_id.get(document.id) or self._use_of_id.get(document_of(document))
        return Objection(use) if use else None

    def _leak(self, document: Document) -> Objection | None:
        leak = Objection(*self._leaks.of(document))
        return leak if leak.reason else None

    def _gold_page(self, document: Document) -> Objection | None:
        if self.on_gold_page() and self.gold.relation(document) == "gold page":
            return Objection("gold page", page_of(document))
        return None

    def _answer_on_page(self, document: Document) -> Objection | None:
        """A picture is judged by the passages of its page too, that of a passage likewise."""
        if self.options.answer_pages != "drop" or document.image is None:
            return None
        passage = self._passage_with_answer(page_of(document))
        return Objection("page holds the answer", passage) if passage else None

    def _passage_with_answer(self, page: str) -> str:
        """Id of a passage of a page that holds the answer; "" if there is none, or no index."""
        index = self.stock.pages
        if index is None:
            return ""
        if page not in self._answer_of_page:
            passages = (index.documents[id] for id in index.on_page(page))
            self._answer_of_page[page] = next(
                (p.id for p in passages if p.text is not None and self._leaks.answer(p)), ""
            )
        return self._answer_of_page[page]

    def _repeated(self, document: Document) -> Objection | None:
        others: tuple[Document | Evidence, ...] = (
            *self.sample.negatives,
            *self.candidates,
        )
        twin = next((other.id for other in others if self.repeats(document, other)), "")
        return Objection("repeated", twin) if twin else None


class ImageObjections(Objections):
    """The objections to images as distractors of one sample."""

    def empty(self, document: Document) -> Objection | None:
        """A document that is no image."""
        is_image = document.image is not None and document.modality is Modality.IMAGE
        return None if is_image else Objection("empty", "not an image")

    def unreadable(self, document: Document) -> Objection | None:
        """An image whose file is missing or has changed."""
        image = document.image
        if image is None or self.stock.image_hashes(image) is not None:
            return None
        return Objection("unreadable", image.uri)

    def same_subject(self, document: Document) -> Objection | None:
        """The query image of a question of the same cluster."""
        cluster = self.sample.cluster.removeprefix(f"{self.sample.source}:")
        if self.sample.cluster and cluster in subjects_of(document):
            return Objection("same subject")
        return None

    def on_gold_page(self) -> bool:
        """Images on a page of gold evidence are always left out."""
        return True

    def repeats(self, document: Document, other: Document | Evidence) -> bool:
        """Whether two documents show the same picture."""
        if document.image is None or other.image is None:
            return False
        shows = image_matcher([other.image], self.stock.image_hashes, self.image_near)
        return bool(shows(document.image))


def subjects_of(document: Document) -> list[str]:
    """Clusters of the questions that ask about an image (`demur.curation.build.knowledge_bases.query_images`)."""
    return document.attributes.get(SUBJECTS, "").splitlines()
