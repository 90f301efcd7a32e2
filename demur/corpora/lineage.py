"""Where evidence comes from: passage -> document -> page. Mining, recall, leaks and checks all ask here.

A **document** is an entry of a knowledge base; a **passage** was cut from one, by a source (the paragraph of an article
that holds the answer, ``Q1#p3``; a quotation from a section, ``url#2#q0123abcd``) or by an index (``--chunk``:
``Q1#0``, ``Q1#1`` ..., and ``Q1#image`` for its picture). A **page** groups documents: an article, a file. Ids are
never parsed: every `Document` and `Evidence` names its ``document`` and ``page``; one that names none is its own.

Two passages of one document are the same evidence if they overlap, whoever cut them. So gold that a source cut is found
in an index that cuts the same document elsewhere, or not at all:

    gold            an item that is        stands to it as
    Q1#p3           Q1#p3                  gold: itself
    Q1#p3           Q1                     gold: it holds the passage
    Q1#p3           Q1#7, sharing words    gold: they overlap
    Q1#p3           Q1#9, sharing none     gold page
    Q1              Q1#9, Q1#image         gold: cut from it
    url (article)   url#2                  gold: a whole article is every section of it
    url#2           url#5, url#image0      gold page
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, Protocol

from demur.core.records import Document, Evidence, Modality, Piece, with_ids
from demur.core.text import whole_number

Item = Document | Evidence
Relation = Literal["gold", "gold page", ""]
"""How an item relates to a sample's gold evidence: it is gold (or a part of gold, or holds it), it lies elsewhere on a
gold page, or neither."""
SHARED_WORDS = 8
"""Consecutive words that two overlapping passages of one document have in common; a shorter passage must lie within the
other. The overlap of an index's own passages is longer, and phrases that recur in an article are shorter."""


def document_of(item: Item) -> str:
    """The id of the document that an item is, or was cut from.

    >>> document_of(Document(id="Q1#0", title="", text="a", document="Q1")), document_of(
    ...     Document(id="Q1", title="", text="a"))
    ('Q1', 'Q1')
    """
    return item.document or item.id


def page_of(item: Item) -> str:
    """The page that an item lies on; its document if it names no page."""
    return item.page or document_of(item)


def is_whole(item: Item) -> bool:
    """Whether an item is a document, not a passage of one."""
    return document_of(item) == item.id


def passage_id(document: str, number: int) -> str:
    """The id of a paragraph that a source cut from a document, by its number."""
    return f"{document}#p{number}"


def quotation_id(document: str, key: str) -> str:
    """The id of a quotation from a document, by a hash of its text."""
    return f"{document}#q{key}"


def chunk_id(document: str, place: int | str) -> str:
    """The id of what an index cut from a document: the number of a passage, or ``image`` for its picture."""
    return f"{document}#{place}"


def document_of_chunk(id: str) -> tuple[str, int] | None:
    """The inverse of `chunk_id` for passages: document and number; None for an id that it does not make.

    >>> document_of_chunk("Q1#7"), document_of_chunk("Q1#image"), document_of_chunk("Q1")
    (('Q1', 7), None, None)
    """
    document, _, place = id.rpartition("#")
    number = whole_number(place)
    return None if number is None or chunk_id(document, number) != id else (document, number)


def prefixed(item: Piece, prefix: str) -> Piece:
    """The item with a prefix before the ids of itself, its document and its page."""
    return with_ids(item, lambda id: f"{prefix}{id}")


def unprefixed(item: Piece, prefix: str) -> Piece:
    """The inverse of `prefixed`."""
    return with_ids(item, lambda id: id.removeprefix(prefix))


def _is_part(gold: Evidence, item: Item, words: _Words | None) -> bool:
    """Whether an item is this piece of gold evidence, was cut from it, holds it, or overlaps with it."""
    if item.id == gold.id:
        return True
    if document_of(item) != document_of(gold):
        return (
            gold.level == "article"
            and is_whole(gold)
            and item.modality is Modality.TEXT
            and page_of(item) == gold.id
        )
    if is_whole(gold) or is_whole(item):
        return True
    return (words or _Words(gold.text)).overlap(item.text)


class _Words:
    """The words of a passage, to compare with other passages of the same document."""

    def __init__(self, text: str | None) -> None:
        self._words = _words(text)
        self._runs = set(_runs(self._words, SHARED_WORDS))

    def overlap(self, text: str | None) -> bool:
        other = _words(text)
        short = min(len(self._words), len(other))
        if not short:
            return False
        if short >= SHARED_WORDS:
            return not self._runs.isdisjoint(_runs(other, SHARED_WORDS))
        return not set(_runs(self._words, short)).isdisjoint(_runs(other, short))


def _words(text: str | None) -> list[str]:
    return re.findall(r"\w+", (text or "").casefold())


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + length]) for at in range(len(words) - length + 1))


class IndexedDocuments(Protocol):
    """The documents of an index by id and by page (`demur.retrieval.search.Searcher`)."""

    @property
    def documents(self) -> Mapping[str, Document]:
        """By id."""
        ...

    def on_page(self, page: str) -> Sequence[str]:
        """The ids of the documents on a page; none if there is no such page."""
        ...


class Gold:
    """The gold evidence of one sample, and how other items relate to it.

    Args:
        documents: of the index that items come from. If gold lies there, the page that the index names counts too.
    """

    def __init__(
        self, evidence: Iterable[Evidence], documents: Mapping[str, Document] | None = None
    ) -> None:
        self.evidence = tuple(evidence)
        self._documents: Mapping[str, Document] = {} if documents is None else documents

    @cached_property
    def _words(self) -> dict[str, _Words]:
        return {e.id: _Words(e.text) for e in self.evidence if not is_whole(e)}

    @cached_property
    def pages(self) -> frozenset[str]:
        """The pages that gold evidence lies on."""
        return frozenset(page for e in self.evidence for page in self._pages(e))

    def _pages(self, gold: Evidence) -> list[str]:
        pages, whole = [page_of(gold)], document_of(gold)
        for id in (gold.id, whole, chunk_id(whole, 0), chunk_id(whole, "image")):
            document = self._documents.get(id)
            if document is not None and document_of(document) in (whole, gold.id):
                pages.append(page_of(document))
        return list(dict.fromkeys(pages))

    def parts(self, item: Item) -> list[Evidence]:
        """The pieces of gold evidence that an item is, is a part of, holds, or overlaps with."""
        return [e for e in self.evidence if _is_part(e, item, self._words.get(e.id))]

    def relation(self, item: Item) -> Relation:
        """How an item relates to gold."""
        if self.parts(item):
            return "gold"
        return "gold page" if page_of(item) in self.pages else ""

    def parts_in(self, index: IndexedDocuments) -> list[str]:
        """The ids of gold evidence in an index, whole or in parts; none if it is not there."""
        return list(dict.fromkeys(id for e in self.evidence for id in self._parts_in(index, e)))

    def _parts_in(self, index: IndexedDocuments, gold: Evidence) -> list[str]:
        for id in (gold.id, document_of(gold)):
            if id in index.documents:
                return [id]
        words = self._words.get(gold.id)
        on_pages = [id for page in self._pages(gold) for id in index.on_page(page)]
        return [id for id in on_pages if _is_part(gold, index.documents[id], words)]

    def scored_in(self, index: IndexedDocuments, *, by_image: bool) -> list[list[str]]:
        """The ids whose best score counts as that of gold in a search: a list for each piece of gold.

        Args:
            by_image: the search is among images. A piece without a picture there scores by the pictures of its page.
        """
        ids_by_piece = []
        for e in self.evidence:
            ids = self._parts_in(index, e)
            if by_image:
                pictured = [id for id in ids if index.documents[id].image is not None]
                ids = pictured or [
                    id
                    for page in self._pages(e)
                    for id in index.on_page(page)
                    if index.documents[id].image is not None
                ]
            ids_by_piece.append(ids)
        return ids_by_piece

    def pages_in(self, index: IndexedDocuments) -> list[str]:
        """The pages of an index that gold evidence lies on, whether the gold text itself is there or not."""
        return sorted(page for page in self.pages if index.on_page(page))
