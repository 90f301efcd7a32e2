"""Questions and images in, hits out: every retrieval mode that the paper tries (VLM-DeflectionBench, appendix H).

    mode                        searches                      by               finds
    text->text                  passages, dense               the text         documents
    lexical                     passages, BM25                the text         documents
    fused                       both, reciprocal ranks        the text         documents
    image->title                page titles (T)               the image        pages
    image->title+summary        page titles + summaries (T+S) the image        pages
    text->title                 page titles                   the text         pages
    image->image                images by their looks         the image        documents
    image->first-image          the first image of each page  the image        documents
    text->image                 images through the joint space  the text       documents
    FIRST/text->text            passages of the pages that FIRST found, ranked by the text   documents
    FIRST/lexical               the same, ranked by BM25                                      documents

On a command line, where ``>`` has another meaning, ``-to-`` may replace ``->``. Hits are ordered by (score descending,
row ascending) and do not depend on how many queries are searched at once. The first fused hits are the same however
many are wanted: both lists are read to rank 100, and if more than 100 hits are wanted, documents behind that rank in
both lists come last (`demur.retrieval.fuse`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from demur.core import plugins
from demur.core.docstore import Documents, mapped
from demur.core.errors import IndexFileError, UnknownPart, UsageError
from demur.core.records import Hit
from demur.indexing.encoders import Encoder, fingerprint_of
from demur.indexing.exact import norms_of, unit
from demur.indexing.folder import checked_manifest
from demur.retrieval.fuse import DEPTH, reciprocal_ranks, reciprocal_scores

if TYPE_CHECKING:
    from PIL.Image import Image

    from demur.indexing.ray import RayEngine


@dataclass(frozen=True)
class Query:
    """A text, an image, or both. A mode uses the one that it needs."""

    text: str = ""
    image: Image | None = None
    vectors: Mapping[tuple[str, str], NDArray[np.float32]] = field(default_factory=dict, compare=False, repr=False)
    """What is already embedded (`Searcher.embedded`): ("text" or "image", space) -> (d,) float32."""

    @property
    def fault(self) -> str:
        """Why one of its vectors cannot be searched with; "" if all can."""
        bad = [by for (by, _), vector in self.vectors.items() if not (np.isfinite(vector).all() and vector.any())]
        return f"the vector of its {bad[0]} is NaN, infinite or zero" if bad else ""

    def has(self, by: str, space: str) -> bool:
        """Whether it can be searched by its text or its image in a space."""
        return (by, space) in self.vectors or (bool(self.text.strip()) if by == "text" else self.image is not None)


class _Simple(NamedTuple):
    """A mode that searches one part of the index."""

    part: str
    by: Literal["text", "image"]
    finds: Literal["documents", "pages"]


SIMPLE_MODES = {
    "text->text": _Simple("passages", "text", "documents"),
    "lexical": _Simple("lexical", "text", "documents"),
    "image->title": _Simple("titles", "image", "pages"),
    "image->title+summary": _Simple("summaries", "image", "pages"),
    "text->title": _Simple("titles", "text", "pages"),
    "image->image": _Simple("looks", "image", "documents"),
    "image->first-image": _Simple("looks", "image", "documents"),
    "text->image": _Simple("images", "text", "documents"),
}
MODES = (*SIMPLE_MODES, "fused")
FUSED = ("text->text", "lexical")
RANKED = 64
"""Queries whose candidates are ranked at once: the passages of their pages may be many."""


class _Hits(Sequence[Hit]):
    """The hits of one query; each is made when it is read."""

    def __init__(
        self, rows: NDArray[np.int64], scores: NDArray[np.float32], name: Callable[[int], str], index_id: str, mode: str
    ) -> None:
        count = int(np.count_nonzero(rows >= 0))  # empty places are at the end
        self._scored = list(zip(rows[:count].tolist(), scores[:count].tolist(), strict=True))
        self._name, self._index_id, self._mode = name, index_id, mode

    def __len__(self) -> int:
        return len(self._scored)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        row, score = self._scored[place]
        rank = place % len(self) + 1
        return Hit(document=self._name(row), score=score, rank=rank, index_id=self._index_id, mode=self._mode)


class Probes(NamedTuple):
    """How many inverted lists of a part are searched for each query, and why."""

    part: str
    probes: int
    lists: int
    """The number of lists of the part."""
    k: int = 0
    """Neighbours that count; 0 if the number of lists was given, not measured."""
    recall: float = 0.0
    """Wanted share of the exact first k."""
    found: float = 0.0
    """Measured share."""
    least: float = 0.0
    """Lower end of the 95 % interval of that share over all questions, see `demur.indexing.ivf.least_mean`."""
    questions: int = 0
    """Number of questions measured."""

    def __str__(self) -> str:
        searched = f"IVF {self.part}: {self.probes:,} of {self.lists:,} lists"
        if not self.k:
            return f"{searched}, as asked"
        proven = f"for recall@{self.k} {'>=' if self.least >= self.recall else 'short of'} {self.recall:g}"
        return f"{searched} {proven}: {self.found:.4f} on {self.questions:,} questions, {self.least:.4f} or more on all"


def canonical_mode(text: str) -> str:
    """The canonical text of a mode.

    Raises:
        UnknownPart: no such mode; the message lists them.

    >>> canonical_mode("image-to-title/text-to-text")
    'image->title/text->text'
    """
    mode = text.replace("-to-", "->")
    first, slash, then = mode.partition("/")
    if first not in MODES or (slash and then not in ("text->text", "lexical")):
        raise UnknownPart("retrieval mode", text, MODES, hint="or FIRST/text->text, FIRST/lexical")
    return mode


class Searcher:
    """Searches an index folder.

    Args:
        folder: written by `demur.indexing.build.build_index`.
        encoder: the encoder that made it.
        text_encoder: the encoder that made its passages, if that is another.
        verify: check the SHA-256 of every file, not only its size.
        engine: the cluster that searches the parts; None for this process.
        prefix: put before all ids that come back (`demur.core.docstore.Documents`).
        stored: what the ids in the folder begin with.

    Raises:
        IndexFileError: the folder is not an index, a file is truncated or changed, or another encoder made it.
    """

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        *,
        text_encoder: Encoder | None = None,
        verify: bool = False,
        engine: RayEngine | None = None,
        prefix: str = "",
        stored: str = "",
    ) -> None:
        self.folder = folder
        self._engine = engine
        self.manifest: dict[str, Any] = checked_manifest(folder, verify=verify)
        self.id: str = self.manifest["id"]
        self._encoders: dict[str, Encoder] = {space: encoder for space in encoder.dims}
        if text_encoder is not None:
            self._encoders["text"] = text_encoder
        for space, entry in self.manifest["encoders"].items():
            given = self._encoders.get(space)
            if given is None or fingerprint_of(given) != entry["fingerprint"]:
                other = f"not by {given.name!r} ({fingerprint_of(given)[:12]})" if given else "and none is given"
                raise IndexFileError(
                    f"its {space} vectors were made by {entry['name']!r} ({entry['fingerprint'][:12]}), {other}",
                    item=folder,
                    cure="open it with the encoder that made it, or build it again",
                )
        self.documents: Documents = Documents(folder / "documents", prefix=prefix, stored=stored)
        """Every document, by id."""
        self.pages = Documents(folder / "pages", prefix=prefix, stored=stored)
        """Every page: its id, its title, and its summary as text."""
        self._page_of = mapped(folder / "page_of.npy", below=len(self.pages), least=-1)
        self._page_ends = mapped(folder / "page_ends.npy")
        self._page_documents = mapped(folder / "page_documents.npy", below=len(self.documents))
        if (len(self._page_of), len(self._page_ends)) != (len(self.documents), len(self.pages)):
            raise IndexFileError("its tables have different lengths", item=folder)
        self._parts: dict[str, Any] = {}
        self._rows: dict[str, NDArray[np.int64]] = {}
        self.probes: dict[str, Probes] = {}
        """Part -> how many of its lists are searched, if not as many as its manifest says."""

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that this index can be searched in, except for those of two steps."""
        here = [mode for mode, way in SIMPLE_MODES.items() if way.part in self.manifest["parts"]]
        return (*here, *(["fused"] if all(mode in here for mode in FUSED) else []))

    def table(self, mode: str) -> Documents:
        """Where the hits of a mode are found by id: `documents` or `pages`."""
        last = canonical_mode(mode).rpartition("/")[2]
        return self.pages if last in SIMPLE_MODES and SIMPLE_MODES[last].finds == "pages" else self.documents

    @property
    def lists(self) -> dict[str, int]:
        """Part -> its number of inverted lists, for the parts that have them."""
        parts = self.manifest["parts"].items()
        return {name: int(part["lists"]) for name, part in parts if {"lists", "nprobe"} <= part.keys()}

    def probe(self, part: str, probes: int) -> Probes:
        """Search that many lists of a part for each query from now on; all of them if there are fewer.

        Raises:
            UsageError: the part has no inverted lists, or ``probes`` is below 1.
        """
        if part not in self.lists or probes < 1:
            raise UsageError(
                f"{probes} inverted lists of {part!r} cannot be searched",
                item=self.folder,
                cure="give 1 or more, for an index of an ivf kind",
            )
        return self._probe(Probes(part, min(probes, self.lists[part]), self.lists[part]))

    def tune(
        self, mode: str, blocks: Iterable[Sequence[Query]], k: int, *, recall: float = 0.99, asked: float = inf
    ) -> Probes:
        """Search as many lists from now on as a recall needs (`demur.indexing.indexes.Dense.nprobe_for`).

        Args:
            mode: one of `SIMPLE_MODES` whose part has inverted lists.
            blocks: some hundred of the queries to come, and more of them in case these are too few.
            k: neighbours that count.
            recall: the share of the exact first k that the lists must hold, in (0, 1].
            asked: number of queries to come, including these.

        Raises:
            UsageError: the part has no inverted lists that can be tuned, or a query lacks what the mode searches by.
        """
        way = SIMPLE_MODES[canonical_mode(mode)]
        part = self._part(way.part)
        if way.part not in self.lists or not hasattr(part, "nprobe_for"):
            raise UsageError(
                f"{mode} searches no inverted lists that can be tuned", item=self.folder, cure="leave it as it is"
            )
        vectors = (self._asked(queries, way) for queries in blocks)
        tuned = part.nprobe_for(vectors, k, recall=recall, asked=asked)
        return self._probe(
            Probes(way.part, tuned.nprobe, self.lists[way.part], k, recall, tuned.recall, tuned.least, tuned.questions)
        )

    def _probe(self, probes: Probes) -> Probes:
        self.probes[probes.part] = probes
        self._parts.pop(probes.part, None)
        return probes

    def embedded(self, queries: Sequence[Query], modes: Iterable[str]) -> list[Query]:
        """The queries with the vectors that these modes search by, in place of their images.

        A query is then embedded once for all modes, and the images of many need not be in memory together. What a query
        or the index lacks is ignored.
        """
        simple = _simple(one for mode in modes for one in canonical_mode(mode).split("/"))
        parts = self.manifest["parts"]
        ways = {way for way in map(SIMPLE_MODES.__getitem__, simple) if way.part in parts and way.part != "lexical"}
        made = [dict(query.vectors) for query in queries]
        for by, space in sorted({(way.by, parts[way.part]["space"]) for way in ways}):
            todo = [n for n, q in enumerate(queries) if (by, space) not in q.vectors and q.has(by, space)]
            if todo:
                for n, vector in zip(todo, self._vectors([queries[n] for n in todo], by, space), strict=True):
                    made[n][by, space] = vector
        return [replace(query, image=None, vectors=own) for query, own in zip(queries, made, strict=True)]

    def search(self, queries: Sequence[Query], mode: str, k: int, *, pages: int = 10) -> list[list[Hit]]:
        """The first k hits of each query.

        Args:
            k: at least 1; fewer hits come back if there are fewer.
            pages: for ``FIRST/...``, how many pages are searched (the paper: 10 for InfoSeek and ViQuAE, 5 for
                Encyclopedic-VQA).

        Returns:
            Hits by rank. ``Hit.document`` is the id of a document, or of a page if the mode finds pages.

        Raises:
            UnknownPart: no such mode.
            UsageError: k is below 1, the index lacks that part, or a query lacks the text or image that the mode needs.
        """
        return [list(line) for line in self.iter_search(queries, mode, k, pages=pages)]

    def iter_search(self, queries: Sequence[Query], mode: str, k: int, *, pages: int = 10) -> Iterator[Sequence[Hit]]:
        """As `search`. All queries are searched at once, but a hit is made when it is read."""
        mode = canonical_mode(mode)
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}", cure="ask for one hit or more")
        if not queries:
            return iter(())
        k, pages = min(k, max(1, len(self.documents))), min(pages, max(1, len(self.pages)))  # memory is taken for all
        first, slash, then = mode.partition("/")
        if not slash:
            if mode in SIMPLE_MODES:
                found, name = self._found(queries, mode, k), partial(self._name, mode)
                return (_Hits(*line, name, self.id, mode) for line in zip(found.rows, found.scores, strict=True))
            return (self._hits(line, mode) for line in self._scored(queries, mode, k))
        self._complete(queries, SIMPLE_MODES[then])
        queries = self.embedded(queries, [mode])
        opened = self._pages_found(queries, first, pages)

        def ranked(some: slice) -> list[list[Hit]]:
            candidates = [
                [self.documents.id(row) for page in found for row in self._documents_of(page)] for found in opened[some]
            ]
            return self.rerank(queries[some], candidates, k, by=then, mode=mode)

        some = (slice(start, start + RANKED) for start in range(0, len(queries), RANKED))
        return chain.from_iterable(map(ranked, some))

    def _scored(self, queries: Sequence[Query], mode: str, k: int) -> Iterator[list[tuple[str, float]]]:
        """(id, score) of the first k in a mode of one step; all queries are searched at once."""
        if mode == "fused":
            both = [self._scored(queries, one, max(k, DEPTH)) for one in FUSED]
            return (
                reciprocal_ranks([[id for id, _ in line] for line in lines])[:k] for lines in zip(*both, strict=True)
            )
        if mode == "image->first-image":
            return iter(self._by_first_images(queries, k))
        found = self._found(queries, mode, k)
        return (
            [(self._name(mode, row), float(score)) for row, score in zip(line, scores, strict=True) if row >= 0]
            for line, scores in zip(found.rows, found.scores, strict=True)
        )

    def _found(self, queries: Sequence[Query], mode: str, k: int) -> Any:
        """What the part of a simple mode finds: its ``rows``, -1 after the last, and ``scores``; (queries, k)."""
        way = SIMPLE_MODES[mode]
        return self._part(way.part).search(self._asked(queries, way), k)

    def _name(self, mode: str, row: int) -> str:
        """The id of the document or page in a row of the part that a mode searches."""
        way = SIMPLE_MODES[mode]
        return (self.documents if way.finds == "documents" else self.pages).id(int(self._rows[way.part][row]))

    def first_ranks(
        self, queries: Sequence[Query], modes: Sequence[str], k: int, wanted: Sequence[Collection[str]]
    ) -> dict[str, list[int | None]]:
        """The rank of the first wanted hit of each query, in several modes; None if there is none.

        As by `iter_search`, but each part is searched once and no hits are made.

        Args:
            queries: any number.
            modes: of one step.
            k: hits that count.
            wanted: for each query the ids of documents, or of pages if the modes find pages.
        """
        lists: dict[str, Any] = {}
        for one in _simple(modes):
            deep = max(k, DEPTH) if "fused" in modes and one in FUSED else k
            found = self._found(queries, one, min(deep, max(1, len(self.documents))))
            rows = np.asarray(self._rows[SIMPLE_MODES[one].part])
            lists[one] = np.where(found.rows >= 0, rows[np.maximum(found.rows, 0)], -1) if len(rows) else found.rows
        ranks: dict[str, list[int | None]] = {mode: [] for mode in modes}
        for place, ids in enumerate(wanted):
            for mode in modes:
                table = self.table(mode)
                right = {row for row in table.rows(list(ids)) if row is not None}
                if mode == "fused":
                    both = [[row for row in lists[one][place].tolist() if row >= 0] for one in FUSED]
                    first = self._fused_rank(reciprocal_scores(both), right)
                else:
                    line = lists[mode][place, :k].tolist()
                    first = next((rank for rank, row in enumerate(line, 1) if row in right), None)
                ranks[mode].append(first if first is not None and first <= k else None)
        return ranks

    def _fused_rank(self, scores: Mapping[int, float], right: Collection[int]) -> int | None:
        """The first rank of the right rows if all are ordered by score, ties by id."""
        best = max((scores[row] for row in right if row in scores), default=None)
        if best is None:
            return None
        tied = sorted((self.documents.id(row), row) for row, score in scores.items() if score == best)
        before = next(place for place, (_, row) in enumerate(tied) if row in right)
        return 1 + before + sum(score > best for score in scores.values())

    def _by_first_images(self, queries: Sequence[Query], k: int) -> list[list[tuple[str, float]]]:
        """As `_scored` by looks, only of first images of pages: more are searched until k are among them."""
        first, most = self._first_images, max(1, len(self.rows("looks")))
        found: list[list[tuple[str, float]]] = [[] for _ in queries]
        left, wide = list(range(len(queries))), min(most, 4 * k)
        while left:
            lines = self._scored([queries[n] for n in left], "image->image", wide)
            for n, line in zip(left, lines, strict=True):
                rows = self.documents.rows([id for id, _ in line])
                found[n] = [pair for pair, row in zip(line, rows, strict=True) if row is not None and first[row]][:k]
            left = [n for n in left if len(found[n]) < k] if wide < most else []
            wide = min(most, 4 * wide)
        return found

    @cached_property
    def _with_text(self) -> NDArray[np.bool_]:
        """(pages + 1,) whether each page has a passage: only then it is worth searching."""
        part = next((part for part in ("passages", "lexical") if part in self.manifest["parts"]), "")
        there = np.zeros(len(self.pages) + 1, np.bool_)  # the last is for documents without a page (-1)
        if part:
            there[np.asarray(self._page_of[np.asarray(self.rows(part))])] = True
            there[-1] = False
        return there

    @cached_property
    def _first_images(self) -> NDArray[np.bool_]:
        """(documents,) whether each is the first image of its page, in the order of the knowledge base."""
        rows = np.asarray(self.rows("looks"))
        pages = np.asarray(self._page_of[rows])
        rows, pages = rows[pages >= 0], pages[pages >= 0]
        first = np.zeros(len(self.documents), np.bool_)
        first[rows[np.unique(pages, return_index=True)[1]]] = True
        return first

    def rerank(
        self,
        queries: Sequence[Query],
        candidates: Sequence[Sequence[str]],
        k: int,
        *,
        by: str = "text->text",
        mode: str = "",
    ) -> list[list[Hit]]:
        """The first k of each query's own candidates (document ids), scored exactly by the query's text.

        Args:
            queries: Q of them.
            candidates: Q lists of document ids; documents without text and unknown ids are ignored.
            k: at least 1.
            by: ``text->text`` (dense; Contriever in the paper) or ``lexical``.
            mode: becomes ``Hit.mode``; ``by`` if empty.
        """
        by = canonical_mode(by)
        way = SIMPLE_MODES[by]
        part = self._part(way.part)
        rows = self._rows[way.part]
        places = []
        for ids in candidates:
            wanted = np.array(sorted({row for row in self.documents.rows(ids) if row is not None}), dtype=np.int64)
            at = _places(rows, wanted)
            places.append(at[at >= 0])
        found = part.search_subset(self._asked(queries, way), places, k)
        return [
            self._hits([(self._name(by, row), float(s)) for row, s in zip(*line, strict=True) if row >= 0], mode or by)
            for line in zip(found.rows, found.scores, strict=True)
        ]

    def pages_of(self, ids: Sequence[str]) -> list[str]:
        """The pages of documents, each once, in their order; unknown ids and documents without a page are ignored."""
        pages = [int(self._page_of[row]) for row in self.documents.rows(ids) if row is not None]
        return list(dict.fromkeys(self.pages.id(page) for page in pages if page >= 0))

    def on_page(self, page: str) -> list[str]:
        """The ids of the documents on a page, in their order; none if there is no such page."""
        row = self.pages.row(page)
        return [] if row is None else [self.documents.id(int(at)) for at in self._documents_of(row)]

    def rows(self, part: str) -> NDArray[np.int64]:
        """(n,) mapped: the rows of `documents` or `pages` that a part holds."""
        self._part(part)
        return self._rows[part]

    def reached(self, ids: Iterable[str], modes: Iterable[str], *, pages: bool = False) -> set[str]:
        """Those that one of these modes can find at all: an image is no passage, a page without images has no look.

        Args:
            ids: of documents or pages; unknown ones cannot be found.
            modes: of one step, that the index can be searched in.
            pages: the ids are of pages; a mode that finds documents finds the pages that they are on.
        """
        ways = {SIMPLE_MODES[one] for one in _simple(modes)}
        table, found = self.pages if pages else self.documents, set()
        for id in ids:
            row = table.row(id)
            if row is None:
                continue
            own = np.array([row], dtype=np.int64)
            for way in ways:
                if way.finds == "pages" and not pages:
                    continue
                wanted = own if (way.finds == "pages") == pages else self._documents_of(row).astype(np.int64)
                if (_places(self.rows(way.part), wanted) >= 0).any():
                    found.add(id)
                    break
        return found

    def vectors(self, part: str) -> NDArray[np.float32]:
        """(n, d) float32, mapped: the vectors of a dense part, in the order of ``rows(part)``."""
        vectors: NDArray[np.float32] = self._part(part).vectors
        return vectors

    def cosines(self, ids: Sequence[str], part: str) -> NDArray[np.float64]:
        """(n, n) cosines of documents' vectors in a dense part; 0 for a document without a vector there.

        Raises:
            UsageError: the index has no such part.
        """
        vectors = self.vectors(part)
        rows = np.array([-1 if row is None else row for row in self.documents.rows(ids)], dtype=np.int64)
        at = _places(self._rows[part], rows)
        own = np.where(at[:, None] >= 0, vectors[np.maximum(at, 0)].astype(np.float64), 0.0)
        norms = norms_of(own)[:, None]
        own /= np.where(norms > 0, norms, 1.0)
        # no matrix product: its bits may change with the number of rows
        return np.stack([np.add.reduce(own * one, axis=1) for one in own]) if len(own) else np.zeros((0, 0))

    def search_until(
        self, queries: Sequence[Query], mode: str, k: int, short: Callable[[int, list[str]], bool]
    ) -> None:
        """Search the first k, and four times as many for the queries that are still short, until none is.

        Args:
            mode: of one step.
            k: hits wanted at first.
            short: called with the place of a query and the ids it found, best first; whether it should find more. It
                is not called again for a query that has found everything.
        """
        most = max(1, self.manifest["counts"]["documents"])
        asked: Sequence[int] = range(len(queries))
        while asked:
            lines = zip(asked, self._scored([queries[n] for n in asked], mode, k), strict=True)
            # only those that are short: what a query finds must not depend on the others
            asked = [n for n, line in lines if short(n, [id for id, _ in line]) and len(line) == k < most]
            k = min(most, k * 4)

    def _pages_found(self, queries: Sequence[Query], mode: str, pages: int) -> list[list[int]]:
        """The first pages of each query; several of the documents found may be on one page."""
        finds = SIMPLE_MODES[FUSED[0] if mode == "fused" else mode].finds
        table = self.pages if finds == "pages" else self.documents
        found: list[list[int]] = [[] for _ in queries]
        with_text = self._with_text

        def short(n: int, ids: list[str]) -> bool:
            rows = [row for row in table.rows(ids) if row is not None]
            own = [row if finds == "pages" else int(self._page_of[row]) for row in rows]
            own = [page for page in own if with_text[page]]
            found[n] = list(dict.fromkeys(own))[:pages]
            return len(found[n]) < pages

        self.search_until(queries, mode, pages, short)
        return found

    def _documents_of(self, page: int) -> NDArray[np.int64]:
        start = int(self._page_ends[page - 1]) if page else 0
        rows: NDArray[np.int64] = self._page_documents[start : int(self._page_ends[page])]
        return rows

    def _part(self, name: str) -> Any:
        if name not in self._parts:
            if name not in self.manifest["parts"]:
                raise UsageError(
                    f"the index has no part {name!r}; it has {', '.join(self.manifest['parts'])}",
                    item=self.folder,
                    cure=f"search in one of: {', '.join(self.modes)}",
                )
            entry, folder = self.manifest["parts"][name], self.folder / "parts" / name
            if name in self.probes:
                entry = entry | {"nprobe": self.probes[name].probes}
            if self._engine is not None:
                self._parts[name] = self._engine.open_part(folder, entry)
            else:
                kind, _ = plugins.find("indexes", entry["kind"], registered_only=True)
                self._parts[name] = kind.open(folder, entry)
            finds = {way.finds for way in SIMPLE_MODES.values() if way.part == name}
            table = self.pages if "pages" in finds else self.documents
            self._rows[name] = mapped(folder / "rows.npy", below=len(table))
        return self._parts[name]

    def _complete(self, queries: Sequence[Query], way: _Simple) -> None:
        """Raise for the first query that lacks what the mode searches by."""
        space = self.manifest["parts"][way.part]["space"] if way.part in self.manifest["parts"] else ""
        lacking = next((n for n, query in enumerate(queries) if not query.has(way.by, space)), None)
        if lacking is not None:
            raise UsageError(
                f"the mode searches by {way.by}, which the query lacks",
                item=f"query {lacking}",
                cure="choose another mode",
            )

    def _asked(self, queries: Sequence[Query], way: _Simple) -> Any:
        self._complete(queries, way)
        if way.part == "lexical":
            return [q.text for q in queries]
        space = self.manifest["parts"][way.part]["space"]
        todo = [n for n, q in enumerate(queries) if (way.by, space) not in q.vectors]
        if len(todo) == len(queries):
            return self._vectors(queries, way.by, space)
        vectors = dict(zip(todo, self._vectors([queries[n] for n in todo], way.by, space), strict=True) if todo else ())
        return np.stack([vectors[n] if n in vectors else q.vectors[way.by, space] for n, q in enumerate(queries)])

    def _vectors(self, queries: Sequence[Query], by: str, space: str) -> NDArray[np.float32]:
        """(n, d) float32 of queries that have the text or image."""
        encoder = self._encoders[space]
        if by == "text":
            vectors = encoder.texts([q.text for q in queries], space, role="query")
        else:
            vectors = encoder.images([q.image for q in queries if q.image is not None], space)
        if encoder.similarity == "cosine":
            vectors = unit(vectors)
        return vectors

    def _hits(self, scored: Sequence[tuple[str, float]], mode: str) -> list[Hit]:
        return [
            Hit(document=id, score=score, rank=rank, index_id=self.id, mode=mode)
            for rank, (id, score) in enumerate(scored, 1)
        ]


def _places(rows: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each wanted row among the ascending ``rows``; -1 for a row that is not among them."""
    if not len(rows):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(rows, wanted).astype(np.int64)
    return np.where(rows[np.minimum(at, len(rows) - 1)] == wanted, at, -1)


def _simple(modes: Iterable[str]) -> list[str]:
    """The simple modes that modes of one step consist of, each once."""
    return list(dict.fromkeys(one for mode in modes for one in (FUSED if mode == "fused" else (mode,))))
