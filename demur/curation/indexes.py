"""Corpora by name to documents, and index folders to searchers: what ``demur index`` and `demur.build_index` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from demur.core.errors import UsageError
from demur.core.records import Document, Hit
from demur.core.store import Problems

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine
    from demur.retrieval.search import Searcher


def open_searcher(
    folder: Path, encoder: str | None = None, text_encoder: str | None = None, engine: RayEngine | None = None
) -> Searcher:
    """An index folder opened with the encoders that its manifest names, or with those given."""
    from demur.indexing.encoders import open_encoder
    from demur.indexing.folder import checked_manifest
    from demur.retrieval.search import Searcher

    made_by = checked_manifest(folder)["encoders"]
    of_text = made_by.get("text", {}).get("name", "")
    others = [entry["name"] for space, entry in made_by.items() if space != "text"]
    first = encoder or (others[0] if others else of_text)
    second = text_encoder or (of_text if of_text != first and not encoder else "")
    return Searcher(  # the fingerprint decides, not the weights' origin
        folder,
        open_encoder(first, allow_random=True, from_file=not encoder),
        text_encoder=open_encoder(second, allow_random=True, from_file=not text_encoder) if second else None,
        engine=engine,
    )


def read_corpora(corpora: Sequence[str], problems: Problems, image_root: Path | None = None) -> Iterator[Document]:
    """All corpora one after the other, with absolute paths to their images: an index leads to them wherever it is used.

    Args:
        corpora: as they were named: READER:PATH, a path, a pool folder, NAME=FOLDER of a source.
        image_root: folder that relative image paths start from; when None that of the source or pool, else the current.
    """
    from demur.core.plugins import names
    from demur.corpora import anchored, read_corpus
    from demur.curation.pool import Pool
    from demur.curation.sources import open_source

    streams: list[Iterator[Document]] = []
    for text in corpora:
        if not text.strip():
            raise UsageError("a corpus without a name", cure="give READER:PATH; see 'demur index build --help'")
        name, equals, folder = text.partition("=")
        path = Path(text.partition("?")[0])  # a file may have an equals sign in its name
        named = "?" not in name and ":" not in name if equals else text in names("sources")
        if named and not path.exists():
            source = open_source(name, Path(folder) if equals else None, problems)
            documents, root = source.documents(), source.root
        elif (Path(text) / "pool.json").is_file():
            pool = Pool(Path(text), problems)
            documents, root = pool.documents(), pool.root
        else:
            documents, root = read_corpus(text, problems), Path()
        streams.append(map(partial(anchored, root=image_root or root), documents))
    return chain.from_iterable(streams)


def search(
    searcher: Searcher,
    text: str = "",
    image: bytes | None = None,
    *,
    k: int,
    mode: str = "",
    pages: int = 10,
    item: str = "",
) -> tuple[str, list[tuple[Hit, Document]]]:
    """Ask an index once.

    Args:
        mode: by what is given when empty: fused for a text, image->image for an image, titles and their passages for
            both.
        pages: opened by ``FIRST/...`` modes.

    Returns:
        (the mode, hits with their documents, best first).

    Raises:
        UsageError: there is nothing to ask with, or no such mode.
        DataError: the bytes are no image.
    """
    from demur.core.images import rgb
    from demur.retrieval.search import Query, canonical_mode

    if not text and image is None:
        raise UsageError("there is nothing to ask with", cure="give a text, an image or both")
    if text != text.encode("utf-8", "replace").decode():  # bytes that are no text come as lone surrogates
        raise UsageError("the text is not valid UTF-8", cure="give the question in UTF-8")
    picture = None if image is None else rgb(image, item or "the query image")
    by_kind = "fused" if picture is None else "image->image" if not text else "image->title/text->text"
    chosen = canonical_mode(mode or by_kind)
    hits = searcher.search([Query(text, picture)], chosen, k, pages=pages)[0]
    return chosen, [(hit, searcher.table(chosen)[hit.document]) for hit in hits]
