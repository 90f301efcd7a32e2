"""Questions and images in, hits out, in every mode of `demur.retrieval.modes`.

Hits are ordered by (score descending, row ascending) and do not depend on how many queries are searched at once. The
first fused hits are the same however many are wanted: both lists are read to rank 100, and if more than 100 hits are
wanted, documents behind that rank in both lists come last (`demur.retrieval.fuse`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import UsageError
from demur.core.records import Hit
from demur.indexing.encoders import Fusing
from demur.indexing.exact import unit
from demur.retrieval.fuse import DEPTH, reciprocal_ranks, reciprocal_scores
from demur.retrieval.modes import (
    FUSED,
    Query,
    SimpleMode,
    canonical_mode,
    mode_named,
    simple_modes,
)
from demur.retrieval.open_index import OpenIndex, Probes

RANKED = 64
"""Queries whose candidates are ranked at once: the passages of their pages may be many."""
Scored = list[tuple[Any, float]]
"""Ids, or rows of a part, with their scores, best first."""


class _Hits(Sequence[Hit]):
    """The hits of one query; each is made when it is read."""

    def __init__(
        self, scored: Scored, mode: str, index_id: str, name: Callable[[Any], str]
    ) -> None:
        self._scored, self._mode, self._index_id, self._name = scored, mode, index_id, name

    def __len__(self) -> int:
        return len(self._scored)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        scored_id, score = self._scored[place]
        rank = place % len(self) + 1
        return Hit(
            document=self._name(scored_id),
            score=score,
            rank=rank,
            index_id=self._index_id,
            mode=self._mode,
        )


class Searcher(OpenIndex):
    """Searches an index folder; opened as `demur.retrieval.open_index.OpenIndex` says."""

    def tune(
        self,
        mode: str,
        blocks: Iterable[Sequence[Query]],
        k: int,
        *,
        recall: float = 0.99,
        queries_to_come: float = inf,
    ) -> Probes:
        """Search as many lists from now on as a recall needs (`demur.indexing.indexes.Dense.nprobe_for`).

        Args:
            mode: of one step (`demur.retrieval.modes.mode_named`), whose part has inverted lists.
            blocks: some hundred of the queries to come, and more of them in case these are too few.
            k: neighbours that count.
            recall: the share of the exact first k that the lists must hold, in (0, 1].
            queries_to_come: number of queries to come, including these.

        Raises:
            UsageError: the part has no inverted lists that can be tuned, or a query lacks what the mode searches by.
        """
        simple_mode = mode_named(canonical_mode(mode))
        part = self._part(simple_mode.part)
        if simple_mode.part not in self.lists or not hasattr(part, "nprobe_for"):
            raise UsageError(
                f"{mode} searches no inverted lists that can be tuned",
                item=self.folder,
                cure="leave it as it is",
            )
        vectors = (self._query_inputs(queries, simple_mode) for queries in blocks)
        tuned = part.nprobe_for(vectors, k, recall=recall, queries_to_come=queries_to_come)
        return self._probe(
            Probes(
                simple_mode.part,
                tuned.nprobe,
                self.lists[simple_mode.part],
                k,
                recall,
                tuned.recall,
                tuned.least,
                tuned.questions,
            )
        )

    def embedded(self, queries: Sequence[Query], modes: Iterable[str]) -> list[Query]:
        """The queries with the vectors that these modes search by, in place of their images.

        A query is then embedded once for all modes, and the images of many need not be in memory together. What a query
        or the index lacks is ignored.
        """
        simple = simple_modes(
            mode_part for mode in modes for mode_part in canonical_mode(mode).split("/")
        )
        parts = self.manifest["parts"]
        mode_of_key = {
            (simple_mode.key, parts[simple_mode.part]["space"]): simple_mode
            for simple_mode in map(mode_named, simple)
            if self.can(simple_mode) and simple_mode.part != "lexical"
        }
        vectors_by_query = [dict(query.vectors) for query in queries]
        for key, simple_mode in sorted(mode_of_key.items(), key=lambda item: item[0]):
            space = key[1]
            unembedded = [
                n
                for n, q in enumerate(queries)
                if key not in q.vectors and q.has(simple_mode, space)
            ]
            if unembedded:
                for n, vector in zip(
                    unembedded,
                    self._vectors([queries[n] for n in unembedded], simple_mode, space),
                    strict=True,
                ):
                    vectors_by_query[n][key] = vector
        return [
            replace(query, image=None, vectors=vectors)
            for query, vectors in zip(queries, vectors_by_query, strict=True)
        ]

    def search(
        self, queries: Sequence[Query], mode: str, k: int, *, pages: int = 10
    ) -> list[list[Hit]]:
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

    def iter_search(
        self, queries: Sequence[Query], mode: str, k: int, *, pages: int = 10
    ) -> Iterator[Sequence[Hit]]:
        """As `search`. All queries are searched at once, but a hit is made when it is read."""
        mode = canonical_mode(mode)
        if k < 1:
            raise UsageError(
                f"must be at least 1, not {k}", item="k", cure="ask for one hit or more"
            )
        if not queries:
            return iter(())
        pages = min(pages, max(1, len(self.pages)))  # memory is taken for all
        page_mode, slash, by = mode.partition("/")
        if not slash:
            lines, name = self._scored(queries, mode, min(k, max(1, len(self.documents))))
            return (_Hits(line, mode, self.id, name) for line in lines)
        self._require_inputs(queries, mode_named(by))
        queries = self.embedded(queries, [mode])
        pages_by_query = self._pages_of_queries(queries, page_mode, pages)

        def ranked(block: slice) -> list[list[Hit]]:
            rows = [
                np.concatenate([np.empty(0, np.int64), *map(self._documents_of, query_pages)])
                for query_pages in pages_by_query[block]
            ]
            return self._rank(queries[block], rows, k, by, mode)

        blocks = (slice(start, start + RANKED) for start in range(0, len(queries), RANKED))
        return chain.from_iterable(map(ranked, blocks))

    def _scored(
        self, queries: Sequence[Query], mode: str, k: int
    ) -> tuple[Iterator[Scored], Callable[[Any], str]]:
        """The first k of each query in a mode of one step, and what gives the id of one; all are searched at once."""
        if mode == "fused":
            ranked_lists = (
                self._search_ids(queries, simple_mode, max(k, DEPTH)) for simple_mode in FUSED
            )
            return (reciprocal_ranks(lists)[:k] for lists in zip(*ranked_lists, strict=True)), str
        search = self._search_first_images if mode == "image->first-image" else self._search_by_part
        return iter(search(queries, mode, k)), partial(self._name, mode)

    def _search_ids(self, queries: Sequence[Query], mode: str, k: int) -> Iterator[list[str]]:
        """As `_scored`, the ids alone."""
        lines, name = self._scored(queries, mode, k)
        return ([name(scored_id) for scored_id, _ in scored] for scored in lines)

    def _search_by_part(self, queries: Sequence[Query], mode: str, k: int) -> Iterator[Scored]:
        return _scored_rows(self._search_part(queries, mode, k))

    def _search_first_images(self, queries: Sequence[Query], mode: str, k: int) -> list[Scored]:
        """Only first images of pages count: more are searched until k are among them."""
        is_first_image, most_rows = self._first_images, max(1, len(self.rows("looks")))
        by_query: list[Scored] = [[] for _ in queries]
        short_queries, searched = list(range(len(queries))), min(most_rows, 4 * k)
        while short_queries:
            for n, scored in zip(
                short_queries,
                self._search_by_part([queries[n] for n in short_queries], mode, searched),
                strict=True,
            ):
                by_query[n] = [(row, score) for row, score in scored if is_first_image[row]][:k]
            short_queries = (
                [n for n in short_queries if len(by_query[n]) < k] if searched < most_rows else []
            )
            searched = min(most_rows, 4 * searched)
        return by_query

    def _search_part(self, queries: Sequence[Query], mode: str, k: int) -> Any:
        """What the part of a simple mode finds: its ``rows``, -1 after the last, and ``scores``; (queries, k)."""
        simple_mode = mode_named(mode)
        return self._part(simple_mode.part).search(self._query_inputs(queries, simple_mode), k)

    def first_ranks(
        self,
        queries: Sequence[Query],
        modes: Sequence[str],
        k: int,
        wanted: Sequence[Collection[str]],
    ) -> dict[str, list[int | None]]:
        """The rank of the first wanted hit of each query, in several modes; None if there is none.

        As by `iter_search`, but each part is searched once and no hits are made.

        Args:
            queries: any number.
            modes: of one step, but for ``image->first-image``.
            k: hits that count.
            wanted: for each query the ids of documents, or of pages if the modes find pages.
        """
        lists: dict[str, Any] = {}
        for simple_mode in simple_modes(modes):
            depth = max(k, DEPTH) if "fused" in modes and simple_mode in FUSED else k
            result = self._search_part(
                queries, simple_mode, min(depth, max(1, len(self.documents)))
            )
            rows = np.asarray(self._rows[mode_named(simple_mode).part])
            lists[simple_mode] = (
                np.where(result.rows >= 0, rows[np.maximum(result.rows, 0)], -1)
                if len(rows)
                else result.rows
            )
        ranks: dict[str, list[int | None]] = {mode: [] for mode in modes}
        for place, ids in enumerate(wanted):
            for mode in modes:
                table = self.table(mode)
                wanted_rows = {row for row in table.rows(list(ids)) if row is not None}
                if mode == "fused":
                    ids_by_mode = [
                        [row for row in lists[simple_mode][place].tolist() if row >= 0]
                        for simple_mode in FUSED
                    ]
                    first = self._fused_rank(reciprocal_scores(ids_by_mode), wanted_rows)
                else:
                    row_ids = lists[mode][place, :k].tolist()
                    first = next(
                        (rank for rank, row in enumerate(row_ids, 1) if row in wanted_rows), None
                    )
                ranks[mode].append(first if first is not None and first <= k else None)
        return ranks

    def _fused_rank(self, scores: Mapping[int, float], wanted_rows: Collection[int]) -> int | None:
        """The first rank of the right rows if all are ordered by score, ties by id."""
        best_score = max((scores[row] for row in wanted_rows if row in scores), default=None)
        if best_score is None:
            return None
        tied_rows = sorted(
            (self.documents.id(row), row) for row, score in scores.items() if score == best_score
        )
        tied_before = next(place for place, (_, row) in enumerate(tied_rows) if row in wanted_rows)
        return 1 + tied_before + sum(score > best_score for score in scores.values())

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
        rows = [
            np.array([row for row in self.documents.rows(ids) if row is not None], dtype=np.int64)
            for ids in candidates
        ]
        return self._rank(queries, rows, k, by, mode or by)

    def _rank(
        self,
        queries: Sequence[Query],
        candidates: Sequence[NDArray[np.int64]],
        k: int,
        by: str,
        mode: str,
    ) -> list[list[Hit]]:
        """As `rerank`, of rows of documents."""
        simple_mode = mode_named(by)
        part = self._part(simple_mode.part)
        places = []
        for rows in candidates:
            places_of_candidates = self._places(simple_mode.part, np.unique(rows))
            places.append(places_of_candidates[places_of_candidates >= 0])
        k = min(k, max([1, *map(len, places)]))
        result = part.search_subset(self._query_inputs(queries, simple_mode), places, k)
        name = partial(self._name, by)
        return [list(_Hits(line, mode, self.id, name)) for line in _scored_rows(result)]

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
        document_count = max(1, self.manifest["counts"]["documents"])
        unfinished: Sequence[int] = range(len(queries))
        while unfinished:
            ids_of_queries = zip(
                unfinished, self._search_ids([queries[n] for n in unfinished], mode, k), strict=True
            )
            # only those that are short: what a query finds must not depend on the others
            unfinished = [
                n for n, ids in ids_of_queries if short(n, ids) and len(ids) == k < document_count
            ]
            k = min(document_count, k * 4)

    def _pages_of_queries(self, queries: Sequence[Query], mode: str, pages: int) -> list[list[int]]:
        """The first pages of each query; several of the documents found may be on one page."""
        finds = mode_named(FUSED[0] if mode == "fused" else mode).finds
        table = self.pages if finds == "pages" else self.documents
        pages_by_query: list[list[int]] = [[] for _ in queries]
        with_text = self._with_text

        def short(n: int, ids: list[str]) -> bool:
            rows = [row for row in table.rows(ids) if row is not None]
            found_pages = [row if finds == "pages" else int(self._page_of[row]) for row in rows]
            found_pages = [page for page in found_pages if with_text[page]]
            pages_by_query[n] = list(dict.fromkeys(found_pages))[:pages]
            return len(pages_by_query[n]) < pages

        self.search_until(queries, mode, pages, short)
        return pages_by_query

    def _require_inputs(self, queries: Sequence[Query], simple_mode: SimpleMode) -> None:
        """Raise for the first query that lacks what the mode searches by, and where no query can be searched so.

        Raises:
            UsageError: a query lacks it, or the encoder does not read a text and an image as one.
        """
        if simple_mode.part in self.manifest["parts"] and not self.can(simple_mode):
            raise UsageError(
                "its encoder does not read a text and an image as one",
                item=self.folder,
                cure=f"search in one of: {', '.join(self.modes)}",
            )
        space = (
            self.manifest["parts"][simple_mode.part]["space"]
            if simple_mode.part in self.manifest["parts"]
            else ""
        )
        lacking = next(
            (n for n, query in enumerate(queries) if not query.has(simple_mode, space)), None
        )
        if lacking is not None:
            raise UsageError(
                f"the mode searches by {simple_mode.by}, which the query lacks",
                item=f"query {lacking}",
                cure="choose another mode",
            )

    def _query_inputs(self, queries: Sequence[Query], simple_mode: SimpleMode) -> Any:
        self._require_inputs(queries, simple_mode)
        if simple_mode.part == "lexical":
            return [q.text for q in queries]
        space = self.manifest["parts"][simple_mode.part]["space"]
        key = (simple_mode.key, space)
        unembedded = [n for n, q in enumerate(queries) if key not in q.vectors]
        if len(unembedded) == len(queries):
            return self._vectors(queries, simple_mode, space)
        vectors = dict(
            zip(
                unembedded,
                self._vectors([queries[n] for n in unembedded], simple_mode, space),
                strict=True,
            )
            if unembedded
            else ()
        )
        rows = [vectors[n] if n in vectors else q.vectors[key] for n, q in enumerate(queries)]
        return rows if self._encoders[space].similarity == "maxsim" else np.stack(rows)

    def _vectors(self, queries: Sequence[Query], mode: SimpleMode, space: str) -> Any:
        """(n, d) float32 of queries that have what the mode searches by; of late interaction a list of (tokens, d)."""
        encoder = self._encoders[space]
        texts, images = [q.text for q in queries], [q.image for q in queries if q.image is not None]
        vectors: Any
        if mode.embed is not None:
            vectors = mode.embed(encoder, queries, space)
        elif mode.by == "text":
            vectors = encoder.texts(texts, space, role="query")
        elif mode.by == "image":
            vectors = encoder.images(images, space)
        else:
            assert isinstance(encoder, Fusing), "OpenIndex.can says so"
            vectors = encoder.together(texts, images, space, role="query")
        if encoder.similarity == "maxsim":
            return [np.asarray(tokens, np.float32) for tokens in vectors]
        rows = np.asarray(vectors, np.float32)
        return unit(rows) if encoder.similarity == "cosine" else rows


def _scored_rows(result: Any) -> Iterator[Scored]:
    """(row, score) of what each query found, without the empty places at its end."""
    for rows, scores in zip(result.rows, result.scores, strict=True):
        count = int(np.count_nonzero(rows >= 0))
        yield list(zip(rows[:count].tolist(), scores[:count].tolist(), strict=True))
