"""Opens corpora by name and index folders; searches one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from demur.core.errors import UsageError
from demur.core.records import Document, Hit
from demur.core.store import Problems, storage_errors
from demur.core.untrusted import Choice, check

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine
    from demur.retrieval.search import Searcher


def open_searcher(
    folder: Path,
    encoder: str | None = None,
    text_encoder: str | None = None,
    engine: RayEngine | None = None,
) -> Searcher:
    """Open an index folder with the encoders in its manifest, or with those given."""
    from demur.indexing.encoders import open_encoder
    from demur.indexing.folder import checked_manifest
    from demur.retrieval.search import Searcher

    made_by = checked_manifest(folder)["encoders"]
    of_text = made_by.get("text", {}).get("name", "")
    others = [entry["name"] for space, entry in made_by.items() if space != "text"]
    first = encoder or (others[0] if others else of_text)
    second = text_encoder or (of_text if of_text != first and not encoder else "")
    chosen = [
        name for name, stated in ((first, encoder), (second, text_encoder)) if name and not stated
    ]
    choices = [Choice("encoders", name) for name in chosen]
    check(folder / "manifest.json", choices, instead="--encoder")
    return Searcher(  # the fingerprint must match; the origin of the weights does not matter
        folder,
        open_encoder(first, allow_random=True),
        text_encoder=open_encoder(second, allow_random=True) if second else None,
        engine=engine,
    )


def read_image_file(path: Path) -> bytes:
    """The bytes of a query image.

    Raises:
        UsageError: it is no regular file (reading a pipe might never end).
        StorageError: it cannot be read.
    """
    if path.exists() and not path.is_file():
        raise UsageError("this is not a regular file", item=path, cure="give an image file")
    with storage_errors(path):
        return path.read_bytes()


def read_corpora(
    corpora: Sequence[str], problems: Problems, image_root: Path | None = None
) -> Iterator[Document]:
    """Documents of all corpora, one after the other, with absolute paths to their images.

    Args:
        corpora: each READER:PATH, a path, a pool folder, or NAME:FOLDER of a source.
        image_root: folder that relative image paths start from; None: that of the source or pool, else the current one.
    """
    from demur.corpora import anchored, read_corpus
    from demur.pools.read import Pool
    from demur.sources import source_named

    streams: list[Iterator[Document]] = []
    for text in corpora:
        if not text.strip():
            raise UsageError(
                "a corpus has no name", cure="give READER:PATH; see 'demur index build --help'"
            )
        if named := None if _is_of_a_reader(text) else source_named(text):
            source = named.open(problems)
            documents, root = source.documents(), source.root
        elif (Path(text) / "pool.json").is_file():
            pool = Pool(Path(text), problems)
            documents, root = pool.documents(), pool.root
        else:
            documents, root = read_corpus(text, problems), Path()
        streams.append(map(partial(anchored, root=image_root or root), documents))
    return chain.from_iterable(streams)


def _is_of_a_reader(text: str) -> bool:
    """Whether a text is a corpus by a reader's name; sources that are called so read folders (BEIR's: the same)."""
    from demur.core.plugins import names
    from demur.corpora import READERS

    reader, _, path = text.partition(":")
    folder = Path(path.partition("?")[0]).is_dir()
    return reader in READERS and (reader == "beir" or not folder or reader not in names("sources"))


def search(
    searcher: Searcher,
    text: str = "",
    image: bytes | Path | None = None,
    *,
    k: int,
    mode: str = "",
    pages: int = 10,
) -> tuple[str, list[tuple[Hit, Document]]]:
    """Search an index once.

    Args:
        image: of the query: a file, or its bytes.
        mode: retrieval mode; "" is the `usual_mode`.
        pages: number of pages that ``FIRST/...`` modes open.

    Returns:
        (the mode, hits with their documents, best first).

    Raises:
        UsageError: there is neither text nor image, or no such mode.
        DataError: the bytes are no image.
    """
    from demur.core.images import rgb
    from demur.retrieval.modes import Query, canonical_mode

    if not text and image is None:
        raise UsageError("the query is empty", cure="give a text, an image or both")
    if text != text.encode("utf-8", "replace").decode():  # invalid bytes arrive as lone surrogates
        raise UsageError("the text is not valid UTF-8", cure="give the question in UTF-8")
    picture = None
    if isinstance(image, Path):
        picture = rgb(read_image_file(image), str(image))
    elif image is not None:
        picture = rgb(image, "the query image")
    chosen = canonical_mode(mode or usual_mode(text, pictured=picture is not None))
    hits = searcher.search([Query(text, picture)], chosen, k, pages=pages)[0]
    return chosen, [(hit, searcher.table(chosen)[hit.document]) for hit in hits]


def usual_mode(text: str, *, pictured: bool) -> str:
    """The mode for a query: fused for a text, image->image for an image, titles and their passages for both."""
    if not pictured:
        return "fused"
    return "image->title/text->text" if text else "image->image"
