"""The dense parts of an index folder: what each embeds, and how one is made.

A part is made if it is asked for and the encoder serves its space:

    passages   documents with text, space ``text``
    titles     pages by title, space ``joint``                    (T of VLM-DeflectionBench, appendix H)
    summaries  pages by title and summary, space ``joint``        (T+S)
    looks      documents with an image, space ``look``: image to image
    images     documents with an image, space ``joint``: text to image

Where the encoder says that two spaces are the same, so are ``looks`` and ``images``: the vectors are made once, and the
second part names the first in ``vectors_of``.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from demur.core.docstore import Documents
from demur.core.errors import DataError, IndexFileError
from demur.core.store import storage_errors
from demur.core.strict_json import loose_json
from demur.indexing.choose import Choice, choose
from demur.indexing.embed import Item, embed
from demur.indexing.encoders import Encoder, fingerprint_of, stored_names
from demur.indexing.exact import norms_of
from demur.indexing.indexes import Dense, kind_named
from demur.indexing.ivf import REFINE
from demur.indexing.options import FOUND, IndexOptions
from demur.indexing.tables import BLOCK, in_blocks, save, save_rows
from demur.indexing.vectors import DATA, LENGTHS


class Part(NamedTuple):
    """What a dense part embeds, and in which space."""

    name: str
    over: Literal["texts", "pages", "images"]
    space: str


DENSE_PARTS = (
    Part("passages", "texts", "text"),
    Part("titles", "pages", "joint"),
    Part("summaries", "pages", "joint"),
    Part("looks", "images", "look"),
    Part("images", "images", "joint"),
)


def twin_of(part: Part, space: str, entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The part, among those that are made, that has the vectors of this one; "" if there is none.

    Args:
        space: that its vectors are made in (`demur.indexing.encoders.stored_names`).
        entries: part -> its entry for the manifest.
    """
    same = {"over": part.over, "space": space}.items()
    return next((n for n, e in entries.items() if part.over == "images" and same <= e.items()), "")


def entry_of_found(encoder: Encoder, space: str) -> dict[str, Any]:
    """The entry for the manifest of a part of kind `FOUND`."""
    return {
        "space": space,
        "over": "texts",
        "dims": encoder.dims[space],
        "count": 0,
        "cut": 0,
        "largest_norm": 0.0,
        "kind": FOUND,
        "why": "passages are cut and embedded on the pages that are found",
    }


def passage_text(title: str, text: str) -> str:
    """The text of a passage in dense and lexical indexes: its title on a line of its own, then its text."""
    return f"{title}\n{text}" if title else text


def page_text(title: str, summary: str) -> str:
    """The text of a page in the T+S index."""
    return f"{title}. {summary}" if summary else title


class _Items(Sequence[Item]):
    """The items of a part, read from disk one by one; pickled it is three paths, for workers and other machines."""

    def __init__(self, part: Part, documents: Path, rows: Path, root: Path) -> None:
        self._part, self._documents, self._chosen, self._root = part, documents, rows, root

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_part", "_documents", "_chosen", "_root")}

    @cached_property
    def _table(self) -> Documents:
        return Documents(self._documents)

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = np.load(self._chosen, mmap_mode="r")
        return rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return list(self._items(self._rows[place].tolist()))
        return next(self._items([int(self._rows[place])]))

    def __iter__(self) -> Iterator[Item]:
        return self._items(in_blocks(self._rows))

    def _items(self, rows: Iterable[int]) -> Iterator[Item]:
        if self._part.over == "images":
            for document in map(self._table.at, rows):
                if document.image is None:  # the rows of this part have one
                    raise IndexFileError("the image is missing", item=document.id)
                yield Item.of_image(document.id, document.image, self._root)
            return
        embedded = {
            "passages": passage_text,
            "titles": lambda title, _: title,
            "summaries": page_text,
        }[self._part.name]
        for fields in self._table.raw(rows):
            yield Item(
                str(fields["id"]), text=embedded(str(fields["title"]), str(fields["text"] or ""))
            )


EMBEDDED = (*DATA, LENGTHS, "shards.jsonl")
"""Files of a part that `demur.indexing.embed` continues; it checks each shard in them by its hashes."""


def keep_vectors(work: Path, encoders: Mapping[str, Encoder]) -> None:
    """Prepare ``work`` for a build: of what a killed build left there, only vectors of the same encoders are kept."""
    reusable = {
        work / "parts" / part.name
        for part in DENSE_PARTS
        if _made_by(work / "parts" / part.name, part, encoders)
    }
    for path in sorted(work.rglob("*"), reverse=True):  # the content of a folder before the folder
        if path.is_symlink() or not path.is_dir():
            if path.parent not in reusable or path.name not in (*EMBEDDED, "manifest.json"):
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
    with suppress(OSError):
        work.rmdir()  # if nothing is kept


def _made_by(folder: Path, part: Part, encoders: Mapping[str, Encoder]) -> bool:
    """Whether the encoder of its space, run in the same way, made the vectors in a part's folder."""
    encoder = encoders.get(part.space)
    if encoder is None:
        return False
    expected_makers = {
        "space": stored_names(encoders)[part.space],
        "encoder": encoder.name,
        "note": encoder.note,
        "fingerprint": fingerprint_of(encoder),
    }
    try:
        with (folder / "shards.jsonl").open("rb") as shards:
            return bool(expected_makers.items() <= loose_json(shards.readline())["plan"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def copy_vectors(
    index: Path, work: Path, encoders: Mapping[str, Encoder], wrong: Collection[str]
) -> None:
    """Copy the vectors of a damaged index, so that its whole shards need not be made again.

    Args:
        index: of the same inputs.
        wrong: damaged files of the index; a part whose list of shards is among them is left out.

    Raises:
        StorageError: something cannot be copied.
    """
    for part in DENSE_PARTS:
        target, kept_part = (folder / "parts" / part.name for folder in (work, index))
        listed = f"parts/{part.name}/shards.jsonl" not in wrong
        if target.exists() or not listed or not _made_by(kept_part, part, encoders):
            continue
        with storage_errors(target):
            target.mkdir(parents=True)
            for name in EMBEDDED:
                if (kept_part / name).is_file():
                    shutil.copyfile(kept_part / name, target / name)


def build_dense(
    part: Part,
    space: str,
    encoder: Encoder,
    documents: Documents,
    rows: NDArray[np.int64],
    folder: Path,
    options: IndexOptions,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Embed and index one part.

    Args:
        part: the part.
        space: that its vectors are made in (`demur.indexing.encoders.stored_names`).
        encoder: which makes them.
        documents: or pages, that the rows are of.
        rows: (n,) of what is embedded.
        folder: of the part.
        options: how.

    Returns:
        Its entry for the manifest, and (id, reason) of what could not be embedded.
    """
    save(folder / "rows.npy", rows)
    items = _Items(
        part,
        documents.folder.absolute(),
        folder.absolute() / "rows.npy",
        (options.image_root or Path()).absolute(),
    )
    tell = options.progress
    embed_items = embed if options.engine is None else options.engine.embed
    embedded = embed_items(
        items,
        encoder,
        space,
        folder,
        workers=options.workers,
        progress=partial(tell, part.name) if callable(tell) else tell,
    )
    failed = list(embedded.errors())
    if failed:
        left_out = {documents.row(id) for id, _ in failed}
        save_rows(folder / "rows.npy", (row for row in in_blocks(rows) if row not in left_out))
    vectors: NDArray[np.float32] = embedded.vectors
    count, dims = embedded.manifest["count"], vectors.shape[1]
    entry = {
        "space": space,
        "over": part.over,
        "dims": dims,
        "count": count,
        "cut": embedded.manifest["cut"],
        "largest_norm": _largest_norm(vectors, encoder),
    }
    if encoder.similarity == "maxsim":
        chosen = Choice("maxsim", "a vector for each token: all documents are scored exactly")
        return entry | chosen._asdict() | {"tokens": len(vectors)}, failed
    if options.kind == "auto" or not count:
        chosen = choose(count, dims, queries=options.queries)
    else:
        chosen = Choice(options.kind, "as asked")
    return entry | chosen._asdict() | _fill(chosen.kind, vectors, folder, options), failed


def _fill(
    kind: str, vectors: NDArray[np.float32], folder: Path, options: IndexOptions
) -> dict[str, Any]:
    """Make what an index of a kind has beside its vectors; returns what the manifest says of it."""
    index = kind_named(kind)
    if options.engine is not None and index is Dense and kind in REFINE:
        return options.engine.build_ivf(kind, vectors, folder / "index.faiss")
    entry: dict[str, Any] = index.build(kind, vectors, folder)
    return entry


def _largest_norm(vectors: NDArray[np.float32], encoder: Encoder) -> float:
    """The largest norm of the rows.

    Raises:
        DataError: the encoder says that they have length 1, and one has not.
    """
    largest = 0.0
    for start in range(0, len(vectors), BLOCK):
        norms = norms_of(vectors[start : start + BLOCK])
        largest = max(largest, float(norms.max()))
        if encoder.similarity == "cosine" and not np.allclose(np.square(norms), 1.0, atol=1e-3):
            raise DataError(
                "its similarity is cosine, but its rows do not have length 1",
                item=encoder.name,
                cure="normalise the rows, or set its similarity to 'dot'",
            )
    return largest
