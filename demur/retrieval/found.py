"""Two-step retrieval as in VLM-DeflectionBench, appendix H: pages are found, and only their passages are made.

An index of articles (`IndexOptions.cut_later`) finds pages by title, by title and summary, or by image. The passages of
a page are cut and embedded when the page is first found, and stay in a `PassageCache`. Their rows have the order of an
index of all passages: ids, scores and ranks are those of such an index, searched on the same pages.
"""

from __future__ import annotations

import json
import sqlite3
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from demur.core.docstore import Documents, map_integers
from demur.core.errors import StorageError, UsageError
from demur.core.records import Document
from demur.core.store import Problems, digest, storage_errors
from demur.core.strict_json import loose_json
from demur.corpora.lineage import document_of_chunk
from demur.indexing.chunk import Chunker, pieces_of
from demur.indexing.embed import Item, make_shard
from demur.indexing.encoders import Encoder, fingerprint_of
from demur.indexing.exact import Neighbours
from demur.indexing.indexes import Dense
from demur.indexing.parts import passage_text
from demur.retrieval.open_index import places_in
from demur.retrieval.search import Searcher

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine

FIRST, MOST = 1 << 40, 1 << 20
"""Row of a passage: ``FIRST`` + ``MOST`` times the row of its article + its number."""
HELD = 1024
"""Pages in memory at once."""


@dataclass
class CutPage:
    """The passages of a page."""

    key: str
    """Hash of all that they depend on."""
    spans: list[list[tuple[int, int]]]
    """Of each article with text: (start, end) of its passages."""
    passages: dict[int, Document]
    """Row -> passage, ascending."""
    vectors: NDArray[np.float32] | None = None
    """(n, d); zeros for one that cannot be embedded. None: not made or read yet."""


class PassageCache:
    """Cuts and vectors of pages on disk, by the texts, the cut and the encoder: an SQLite file, for one process.

    A page is whole in it or absent, whenever the process is killed; one that is not as it was written is made again.

    Args:
        path: the file; created if missing.

    Raises:
        StorageError: it cannot be written, or is no such file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._table = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            weakref.finalize(self, self._table.close)
            self._table.executescript(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE IF NOT EXISTS "
                "pages (key TEXT PRIMARY KEY, sha256 TEXT, spans TEXT, vectors BLOB) WITHOUT ROWID"
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with storage_errors(self.path):
            try:
                yield
            except sqlite3.Error as error:
                raise StorageError(
                    f"SQLite: {error}",
                    item=self.path,
                    cure="free some disk space, or delete the file: its passages are made again",
                ) from error

    def get(self, key: str) -> tuple[list[list[tuple[int, int]]], bytes] | None:
        """The cuts of a page, and its vectors as bytes; None if it is not there as it was written."""
        with self._errors():
            row = self._table.execute(
                "SELECT sha256, spans, vectors FROM pages WHERE key = ?", [key]
            ).fetchone()
        if row is None or row[0] != digest([key, row[1], digest(row[2])]):
            return None
        return loose_json(row[1]), row[2]

    def put(self, page: CutPage, vectors: bytes) -> None:
        """Write the cuts of a page and its vectors."""
        spans = json.dumps(page.spans)
        with self._errors():
            self._table.execute(
                "INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?)",
                [page.key, digest([page.key, spans, digest(vectors)]), spans, vectors],
            )


class FoundDocuments(Documents):
    """Articles as the passages that they are cut into; what has no text stays as it is."""

    pages: FoundPages

    def at(self, row: int) -> Document:
        """The passage, or the document without text, in a row."""
        return super().at(row) if row < FIRST else self.pages.of_row(row).passages[row]

    def id(self, row: int) -> str:
        """The id of the passage, or of the document without text, in a row."""
        return super().id(row) if row < FIRST else self.at(row).id

    def row(self, id: str) -> int | None:
        """The row of a passage or of a document without text; None if no such has that id."""
        article = super().row(id)
        if article is not None and not self.pages.is_cut(article):
            return article
        number = 0  # an article without tokens is a passage itself
        if article is None and (chunk := document_of_chunk(id)):
            article, number = super().row(chunk[0]), chunk[1]
        row = -1 if article is None else FIRST + MOST * article + number
        if article is None or not self.pages.is_cut(article):
            return None
        passage = self.pages.of_row(row).passages.get(row)
        return row if passage is not None and passage.id == id else None


@dataclass
class FoundPages:
    """Cuts pages, and embeds their passages."""

    articles: Documents
    """Whole, as they are indexed."""
    page_of: NDArray[np.int64]
    """(n,) article -> page."""
    cut_rows: NDArray[np.int64]
    """Ascending rows of the articles with text."""
    rows_of: Any
    """Page -> rows of its articles."""
    chunker: Chunker
    encoder: Encoder
    space: str
    cache: PassageCache
    skip_bad: bool
    left_out: set[str] = field(default_factory=set)
    """Passages that cannot be embedded."""
    _held: OrderedDict[int, CutPage] = field(default_factory=OrderedDict)

    @cached_property
    def _maker(self) -> list[str]:
        encoder = self.encoder
        return [self.chunker.setting, encoder.note, fingerprint_of(encoder), self.space]

    def is_cut(self, article: int) -> bool:
        """Whether an article has a text, which is cut."""
        return bool(places_in(self.cut_rows, np.array([article]))[0] >= 0)

    def of_row(self, row: int) -> CutPage:
        """The page of a passage."""
        return self.page(int(self.page_of[(row - FIRST) // MOST]))

    def page(self, page: int) -> CutPage:
        """A page, cut."""
        if page in self._held:
            self._held.move_to_end(page)
            return self._held[page]
        rows = [row for row in map(int, self.rows_of(page)) if self.is_cut(row)]
        articles = [self.articles.at(row) for row in rows]
        key = digest([self._maker, [[article.title, article.text] for article in articles]])
        recorded = self.cache.get(key)
        spans = (
            recorded[0]
            if recorded
            else [
                [(passage.start, passage.end) for passage in passages]
                for passages in self.chunker.cut([article.text or "" for article in articles])
            ]
        )
        passages = {
            FIRST + MOST * row + number: piece
            for row, article, cut in zip(rows, articles, spans, strict=True)
            for number, piece in enumerate(pieces_of(article, cut))
        }
        vectors = self._as_rows(recorded[1]) if recorded else None
        if vectors is not None and not self.skip_bad and not vectors.any(axis=1).all():
            vectors = None  # kept by a run that could skip: this one says what is wrong
        cut_page = CutPage(key, spans, passages, vectors)
        self._held[page] = cut_page
        if len(self._held) > HELD:
            self._held.popitem(last=False)
        return cut_page

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """(n, d) float32 of passages; zeros for one that cannot be embedded.

        Args:
            rows: (n,) of passages; all passages of their pages are embedded.

        Raises:
            BadInput: passages cannot be embedded, unless ``skip_bad``.
        """
        wanted = dict.fromkeys(int(self.page_of[row]) for row in ((rows - FIRST) // MOST).tolist())
        pages = {page: self.page(page) for page in wanted}
        problems = Problems()
        vector_of_row: dict[int, NDArray[np.float32]] = {}
        for cut_page in pages.values():
            if cut_page.vectors is None:
                cut_page.vectors = self._embed(cut_page, problems)
                if self.skip_bad or not problems:
                    self.cache.put(cut_page, cut_page.vectors.tobytes())
            vector_of_row |= zip(cut_page.passages, cut_page.vectors, strict=True)
        problems.settle(skip_bad=self.skip_bad)
        return self._as_rows(b"".join(vector_of_row[row].tobytes() for row in rows.tolist()))

    def _as_rows(self, vectors: bytes) -> NDArray[np.float32]:
        return np.frombuffer(vectors, np.float32).reshape(-1, self.encoder.dims[self.space])

    def _embed(self, page: CutPage, problems: Problems) -> NDArray[np.float32]:
        """(n, d) float32. A page is embedded by itself: the last bits of a row may depend on its neighbours."""
        items = [
            Item(passage.id, text=passage_text(passage.title, passage.text or ""))
            for passage in page.passages.values()
        ]
        shard = make_shard(items, self.encoder, self.space, workers=1)
        failed = {
            error["id"]: error["error"] for error in map(loose_json, shard.errors.splitlines())
        }
        for id, why in failed.items():
            problems.add(id, why)
        vectors = np.zeros((len(items), self.encoder.dims[self.space]), np.float32)
        vectors[[item.id not in failed for item in items]] = self._as_rows(shard.vectors)
        return vectors


class FoundPassages(Dense):
    """The passages of found pages, as a part of the index: its rows are those of the passages."""

    def __init__(self, folder: Path, entry: dict[str, Any], pages: FoundPages) -> None:
        self.folder, self.kind, self.dims, self.pages = folder, entry["kind"], entry["dims"], pages

    def search(self, queries: NDArray[np.float32], k: int) -> Neighbours:
        """Always an error: the passages of the other pages do not exist.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "only passages of found pages are there to search",
            item=self.folder,
            cure="write 'passages: all' in the recipe's retrieval",
        )

    def search_subset(
        self, queries: NDArray[np.float32], candidates: Sequence[NDArray[np.int64]], k: int
    ) -> Neighbours:
        """The first k for each query among its own candidate passages, exactly."""
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *candidates]))
        vectors = self.pages.vectors(rows)
        is_embedded = vectors.any(axis=1)
        self.pages.left_out |= {self.pages.of_row(r).passages[r].id for r in rows[~is_embedded]}
        rows, self.vectors = rows[is_embedded], vectors[is_embedded]
        places = [places_in(rows, of_query) for of_query in candidates]
        found = super().search_subset(queries, [each[each >= 0] for each in places], k)
        if not len(rows):
            return found
        return Neighbours(
            found.scores, np.where(found.rows >= 0, rows[np.maximum(found.rows, 0)], -1)
        )


class FoundSearcher(Searcher):
    """Searches an index of articles for pages, and the passages of these.

    Args:
        folder: built with `IndexOptions.cut_later`.
        encoder: the encoder that made it.
        text_encoder: of passages, if that is another.
        chunker: that of the index.
        cache: of passages.
        skip_bad: passages that cannot be embedded are not found; otherwise they are an error.
        engine: the cluster that searches the other parts; None for this process.
        prefix: see `OpenIndex`.
    """

    documents: FoundDocuments

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        *,
        text_encoder: Encoder | None,
        chunker: Chunker,
        cache: PassageCache,
        skip_bad: bool = False,
        engine: RayEngine | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__(folder, encoder, text_encoder=text_encoder, engine=engine, prefix=prefix)
        entry = self.manifest["parts"]["passages"]
        articles = self.documents
        part = folder / "parts" / "passages"
        self.documents = FoundDocuments(folder / "documents", prefix=prefix)
        self.found = FoundPages(
            articles,
            self._page_of,
            map_integers(part / "rows.npy", below=len(articles)),
            super()._documents_of,
            chunker,
            self._encoders[entry["space"]],
            entry["space"],
            cache,
            skip_bad,
        )
        self.documents.pages = self.found
        self._rows["passages"] = self.found.cut_rows
        self._parts["passages"] = FoundPassages(part, entry, self.found)

    def pages_of(self, ids: Sequence[str]) -> list[str]:
        """The pages of documents, each once, in their order; unknown ids are ignored."""
        rows = [row for row in self.documents.rows(ids) if row is not None]
        articles = [row if row < FIRST else (row - FIRST) // MOST for row in rows]
        pages = dict.fromkeys(int(self._page_of[article]) for article in articles)
        return [self.pages.id(page) for page in pages if page >= 0]

    def _documents_of(self, page: int) -> NDArray[np.int64]:
        """The rows of what a page is cut into."""
        passages: dict[int, list[int]] = {}
        for row in self.found.page(page).passages:
            passages.setdefault((row - FIRST) // MOST, []).append(row)
        rows = [passages.get(int(row), [int(row)]) for row in super()._documents_of(page)]
        return np.array([row for each in rows for row in each], dtype=np.int64)

    def _places(self, part: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of a passage is its place."""
        if part != "passages":
            return super()._places(part, rows)
        return np.where(rows >= FIRST, rows, -1)

    def _row_at(self, part: str, place: int) -> int:
        return place if part == "passages" else super()._row_at(part, place)

    def _vectors_of_rows(self, part: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if part != "passages":
            return super()._vectors_of_rows(part, rows)
        vectors = np.zeros((len(rows), self.found.encoder.dims[self.found.space]), np.float32)
        vectors[rows >= FIRST] = self.found.vectors(rows[rows >= FIRST])
        return vectors
