"""An index folder, opened: its documents and pages, the parts that are searched, and how far lists are searched."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core import plugins
from demur.core.docstore import Documents, map_integers
from demur.core.errors import IndexFileError, UsageError
from demur.indexing.encoders import Encoder, Fusing, fingerprint_of
from demur.indexing.exact import norms_of
from demur.indexing.folder import checked_manifest
from demur.indexing.gpu import load_faiss
from demur.indexing.ivf import KINDS
from demur.indexing.options import FOUND
from demur.retrieval.modes import (
    FUSED,
    SIMPLE_MODES,
    SimpleMode,
    canonical_mode,
    every_mode,
    mode_named,
    simple_modes,
)

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine

_OPENING = threading.RLock()
"""Parts are opened one at a time: CPython 3.11 may fail to parse the headers of two arrays at once."""


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


class OpenIndex:
    """What `demur.retrieval.search.Searcher` searches.

    Args:
        folder: written by `demur.indexing.build.build_index`.
        encoder: the encoder that made it.
        text_encoder: the encoder that made its passages, if that is another.
        engine: the cluster that searches the parts; None for this process.
        prefix: put before all ids that come back (`demur.core.docstore.Documents`).
        stored: what the ids in the folder begin with.

    Raises:
        IndexFileError: the folder is not an index, a file is truncated or changed, or another encoder made it.
        MissingExtra: it has vectors, and faiss is not installed.
    """

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        *,
        text_encoder: Encoder | None = None,
        engine: RayEngine | None = None,
        prefix: str = "",
        stored: str = "",
    ) -> None:
        self.folder = folder
        self._engine = engine
        self.manifest: dict[str, Any] = checked_manifest(folder)
        self.id: str = self.manifest["id"]
        if any(part["kind"] in KINDS for part in self.manifest["parts"].values()):
            load_faiss()
        self._encoders: dict[str, Encoder] = {space: encoder for space in encoder.dims}
        if text_encoder is not None:
            self._encoders["text"] = text_encoder
        for space, entry in self.manifest["encoders"].items():
            encoder_given = self._encoders.get(space)
            if encoder_given is None or fingerprint_of(encoder_given) != entry["fingerprint"]:
                other = (
                    f"not by {encoder_given.name!r} ({fingerprint_of(encoder_given)[:12]})"
                    if encoder_given
                    else "and none is given"
                )
                raise IndexFileError(
                    f"its {space} vectors were made by {entry['name']!r} ({entry['fingerprint'][:12]}), {other}",
                    item=folder,
                    cure="open it with the encoder that made it, or build it again (--fresh)",
                )
        self.documents: Documents = Documents(folder / "documents", prefix=prefix, stored=stored)
        """Every document, by id."""
        self.pages = Documents(folder / "pages", prefix=prefix, stored=stored)
        """Every page: its id, its title, and its summary as text."""
        self._page_of = map_integers(folder / "page_of.npy", below=len(self.pages), least=-1)
        self._page_ends = map_integers(folder / "page_ends.npy")
        self._page_documents = map_integers(
            folder / "page_documents.npy", below=len(self.documents)
        )
        if (len(self._page_of), len(self._page_ends)) != (len(self.documents), len(self.pages)):
            raise IndexFileError("its tables have different lengths", item=folder)
        self._parts: dict[str, Any] = {}
        self._rows: dict[str, NDArray[np.int64]] = {}
        self.probes: dict[str, Probes] = {}
        """Part -> how many of its lists are searched, if not as many as its manifest says."""

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that this index can be searched in, except for those of two steps."""
        simple = [mode for mode, simple_mode in every_mode().items() if self.can(simple_mode)]
        return (*simple, *(["fused"] if all(mode in simple for mode in FUSED) else []))

    def can(self, mode: SimpleMode) -> bool:
        """Whether it has the part that a mode searches, and an encoder that embeds what it is searched by."""
        part = self.manifest["parts"].get(mode.part)
        if part is None or (part["kind"] == FOUND and mode.by != "text"):
            return False  # where passages are those of found pages, they cannot find these
        if mode.by != "both" or mode.embed is not None:
            return True
        encoder = self._encoders[part["space"]]
        # only there a text and an image lie together with what was embedded
        return part["space"] == "joint" and isinstance(encoder, Fusing) and encoder.fuses

    def table(self, mode: str) -> Documents:
        """Where the hits of a mode are found by id: `documents` or `pages`."""
        last = canonical_mode(mode).rpartition("/")[2]
        finds_pages = last != "fused" and mode_named(last).finds == "pages"
        return self.pages if finds_pages else self.documents

    @property
    def lists(self) -> dict[str, int]:
        """Part -> its number of inverted lists, for the parts that have them."""
        parts = self.manifest["parts"].items()
        return {
            name: int(part["lists"]) for name, part in parts if {"lists", "nprobe"} <= part.keys()
        }

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

    def _probe(self, probes: Probes) -> Probes:
        self.probes[probes.part] = probes
        self._parts.pop(probes.part, None)
        return probes

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
        ways = {mode_named(mode) for mode in simple_modes(modes)}
        table, reached_ids = self.pages if pages else self.documents, set()
        for id in ids:
            row = table.row(id)
            if row is None:
                continue
            own_rows = np.array([row], dtype=np.int64)
            for way in ways:
                if way.finds == "pages" and not pages:
                    continue
                rows = (
                    own_rows
                    if (way.finds == "pages") == pages
                    else self._documents_of(row).astype(np.int64)
                )
                if (self._places(way.part, rows) >= 0).any():
                    reached_ids.add(id)
                    break
        return reached_ids

    def vectors(self, part: str) -> NDArray[np.float32]:
        """(n, d) float32, mapped: the vectors of a dense part, in the order of ``rows(part)``."""
        vectors: NDArray[np.float32] = self._part(part).vectors
        return vectors

    def _vectors_of_rows(self, part: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """(n, d) float32 of documents; zeros for a row that the part does not hold."""
        vectors = self.vectors(part)
        places = self._places(part, rows)
        return np.where(places[:, None] >= 0, vectors[np.maximum(places, 0)], np.float32(0))

    def _places(self, part: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each document or page in a part; -1 for a row that it does not hold."""
        return places_in(self.rows(part), rows)

    def _row_at(self, part: str, place: int) -> int:
        """The inverse of `_places`."""
        return int(self._rows[part][place])

    def cosines(self, ids: Sequence[str], part: str) -> NDArray[np.float64]:
        """(n, n) cosines of documents' vectors in a dense part; 0 for a document without a vector there.

        Raises:
            UsageError: the index has no such part.
        """
        rows = np.array(
            [-1 if row is None else row for row in self.documents.rows(ids)], dtype=np.int64
        )
        vectors = self._vectors_of_rows(part, rows)
        norms = norms_of(vectors)[:, None]
        document_vectors = vectors.astype(np.float64)
        document_vectors /= np.where(norms > 0, norms, 1.0)
        # no matrix product: its bits may change with the number of rows
        return (
            np.stack(
                [np.add.reduce(document_vectors * vector, axis=1) for vector in document_vectors]
            )
            if len(document_vectors)
            else np.zeros((0, 0))
        )

    @cached_property
    def _with_text(self) -> NDArray[np.bool_]:
        """(pages + 1,) whether each page has a passage: only then it is worth searching."""
        part = next(
            (part for part in ("passages", "lexical") if part in self.manifest["parts"]), ""
        )
        page_has_text = np.zeros(
            len(self.pages) + 1, np.bool_
        )  # the last is for documents without a page (-1)
        if part:
            page_has_text[np.asarray(self._page_of[np.asarray(self.rows(part))])] = True
            page_has_text[-1] = False
        return page_has_text

    @cached_property
    def _first_images(self) -> NDArray[np.bool_]:
        """(n,) whether each row of the looks is the first image of its page, in the order of the knowledge base."""
        pages = np.asarray(self._page_of[np.asarray(self.rows("looks"))])
        first = np.zeros(len(pages), np.bool_)
        first[np.unique(pages, return_index=True)[1]] = True
        return first & (pages >= 0)

    def _name(self, mode: str, row: int) -> str:
        """The id of the document or page in a row of the part that a mode searches."""
        way = mode_named(mode)
        return (self.documents if way.finds == "documents" else self.pages).id(
            self._row_at(way.part, row)
        )

    def _documents_of(self, page: int) -> NDArray[np.int64]:
        start = int(self._page_ends[page - 1]) if page else 0
        rows: NDArray[np.int64] = self._page_documents[start : int(self._page_ends[page])]
        return rows

    def _part(self, name: str) -> Any:
        with _OPENING:
            if name not in self._parts:
                if name not in self.manifest["parts"]:
                    raise UsageError(
                        f"the index has no part {name!r}; it has {', '.join(self.manifest['parts'])}",
                        item=self.folder,
                        cure=f"search in one of: {', '.join(self.modes)}",
                    )
                entry = self.manifest["parts"][name]
                folder = self.folder / "parts" / (entry.get("vectors_of") or name)
                if name in self.probes:
                    entry = entry | {"nprobe": self.probes[name].probes}
                finds = {way.finds for way in SIMPLE_MODES.values() if way.part == name}
                table = self.pages if "pages" in finds else self.documents
                self._rows[name] = map_integers(folder / "rows.npy", below=len(table))
                if entry["kind"] == FOUND:
                    raise UsageError(
                        "its passages are cut and embedded by the build that finds their pages",
                        item=self.folder,
                        cure=f"build with 'passages: all' in the recipe's retrieval, or search in one of: "
                        f"{', '.join(mode for mode in self.modes if mode != 'text->text')}",
                    )
                if self._engine is not None:
                    self._parts[name] = self._engine.open_part(folder, entry)
                else:
                    kind, _ = plugins.find("indexes", entry["kind"])
                    self._parts[name] = kind(folder, entry)
            return self._parts[name]


def places_in(rows: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each wanted row among the ascending ``rows``; -1 for a row that is not among them."""
    if not len(rows):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(rows, wanted).astype(np.int64)
    return np.where(rows[np.minimum(at, len(rows) - 1)] == wanted, at, -1)
