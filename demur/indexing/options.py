"""How an index is built."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from demur.core.store import Problems
from demur.indexing.bm25 import Method
from demur.indexing.chunk import Chunker
from demur.indexing.encoders import Encoder
from demur.indexing.tables import Progress

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine


PARTS = ("passages", "titles", "summaries", "looks", "images", "lexical")
"""All that an index may have: the dense parts (`demur.indexing.parts`), and BM25 over documents with text."""

FOUND = "found"
"""Kind of a part of passages that are cut and embedded on the pages that are found (`demur.retrieval.found`): it has
only the rows of their articles."""


@dataclass(frozen=True)
class IndexOptions:
    """What `demur.indexing.build.build_index` may be told beside documents, encoder and folder."""

    text_encoder: Encoder | None = None
    """Serves the space ``text`` in place of the encoder."""
    image_root: Path | None = None
    """Folder that relative image paths start from."""
    kind: str = "auto"
    """Of the dense parts, by name (`demur.indexing.indexes`); ``auto`` chooses for each by size, free memory and
    ``queries``."""
    lexical: Method = "lucene"
    """How the words of texts are scored (`demur.indexing.bm25`)."""
    queries: int = 10_000
    """How many queries ``auto`` expects."""
    workers: int = 2
    """Threads that decode images."""
    skip_bad: bool = False
    """Leave out, and list in ``skipped.jsonl``, bad rows and documents that repeat an id, are empty, or cannot be
    embedded (an unreadable image, a NaN vector). Otherwise one error names all that are known: those of the reader and
    of the texts before anything is embedded."""
    problems: Problems | None = None
    """Bad rows that the reader of the documents collected; they are settled with those found here."""
    progress: bool | Progress = False
    """Show bars on standard error (lines if that is no terminal); or a function that is called now and then with
    (stage, items done, items in all or 0)."""
    cut_later: Chunker | None = None
    """Documents are whole articles (`demur.indexing.chunk.uncut`): none is cut or embedded now, this cuts those of a
    page that is found (`demur.retrieval.found`)."""
    parts: Collection[str] = PARTS
    """Those that are made, as far as documents and encoders allow."""
    engine: RayEngine | None = None
    """The cluster that embeds and indexes, into the same files; None for this machine."""
    corpus: str = ""
    """Name of the documents, for messages."""
    cut: str = ""
    """How they were cut into passages (`demur.indexing.chunk.Chunker.setting`), for the manifest."""
    owner: str = ""
    """For whom the index is made; "" is the user. An owner may replace its own index: a finished folder of the same
    documents by the same encoders is kept, whatever its other options and wherever its images are, and an index of
    another owner that was made of anything else is refused."""
    fresh: bool = False
    """The user's index may be replaced though its documents or encoders are others."""


USUAL = IndexOptions()
