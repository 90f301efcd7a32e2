"""The dense parts of an index folder: what each embeds, and how one is made.

Made for those spaces that the encoder serves:

    passages   documents with text, space ``text``
    titles     pages by title, space ``joint``                    (T of VLM-DeflectionBench, appendix H)
    summaries  pages by title and summary, space ``joint``        (T+S)
    looks      documents with an image, space ``look``: image to image
    images     documents with an image, space ``joint``: text to image
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from demur.core.docstore import Documents
from demur.core.errors import DataError, IndexFileError
from demur.core.store import storage_errors
from demur.core.strict_json import loose_json
from demur.indexing.choose import Choice, choose
from demur.indexing.embed import LOCK, Item
from demur.indexing.encoders import Encoder, fingerprint_of
from demur.indexing.ivf import Kind
from demur.indexing.tables import BLOCK, Progress, in_blocks, save, without

if TYPE_CHECKING:
    from demur.indexing.local import LocalEngine
    from demur.indexing.ray import RayEngine


class Part(NamedTuple):
    """What a dense part is over, and in which space."""

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


def passage_text(title: str, text: str) -> str:
    """What stands for a passage in dense and lexical indexes: its title on a line of its own, then its text."""
    return f"{title}\n{text}" if title else text


def page_text(title: str, summary: str) -> str:
    """What stands for a page in the T+S index."""
    return f"{title}. {summary}" if summary else title


class _Items(Sequence[Item]):
    """What a part embeds, read from disk item by item; pickled it is three paths, so that other machines read too."""

    def __init__(self, part: Part, documents: Path, rows: Path, root: Path) -> None:
        self._part, self._documents, self._chosen, self._root = part, documents, rows, root

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_part", "_documents", "_chosen", "_root")}

    @cached_property
    def _shelf(self) -> Documents:
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
            for document in map(self._shelf.at, rows):
                if document.image is None:  # rows of this part have one
                    raise IndexFileError("the image is gone", item=document.id)
                yield Item.of_image(document.id, document.image, self._root)
            return
        embedded = {"passages": passage_text, "titles": lambda title, _: title, "summaries": page_text}[self._part.name]
        for fields in self._shelf.raw(rows):
            yield Item(str(fields["id"]), text=embedded(str(fields["title"]), str(fields["text"] or "")))


EMBEDDED = ("vectors.npy", "ids.jsonl", "errors.jsonl", "shards.jsonl")
"""Files of a part that `demur.indexing.embed` goes on with; each shard in them is checked by its hashes."""


def keep_vectors(work: Path, encoders: Mapping[str, Encoder]) -> None:
    """Make ready to build in ``work``: of what a build that was killed left, only vectors by the same encoders stay."""
    folders = {work / "parts" / part.name: encoders.get(part.space) for part in DENSE_PARTS}
    kept = {folder for folder, encoder in folders.items() if encoder and _made_by(folder, encoder)}
    for path in sorted(work.rglob("*"), reverse=True):  # what is in a folder, then the folder
        if path.is_symlink() or not path.is_dir():
            if path.parent not in kept or path.name not in (*EMBEDDED, "manifest.json", LOCK):
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
    work.mkdir(parents=True, exist_ok=True)


def _made_by(folder: Path, encoder: Encoder) -> bool:
    """Whether the vectors in a part's folder are by that encoder, run in the same way."""
    try:
        with (folder / "shards.jsonl").open("rb") as ledger:
            plan = loose_json(ledger.readline())["plan"]
            return [plan[key] for key in ("encoder", "note", "fingerprint")] == [
                encoder.name, encoder.note, fingerprint_of(encoder),
            ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return False


def copy_vectors(index: Path, work: Path, encoders: Mapping[str, Encoder], wrong: Collection[str]) -> None:
    """Take the vectors of an index over, so that those of its shards that are whole need not be made again.

    Args:
        index: of the same inputs.
        wrong: files of the index that are damaged; parts whose list of shards is among them are passed over.

    Raises:
        StorageError: something cannot be copied.
    """
    for part in DENSE_PARTS:
        ours, theirs = (folder / "parts" / part.name for folder in (work, index))
        encoder, listed = encoders.get(part.space), f"parts/{part.name}/shards.jsonl" not in wrong
        if ours.exists() or encoder is None or not listed or not _made_by(theirs, encoder):
            continue
        with storage_errors(ours):
            ours.mkdir(parents=True)
            for name in EMBEDDED:
                if (theirs / name).is_file():
                    shutil.copyfile(theirs / name, ours / name)


def build_dense(
    part: Part,
    encoder: Encoder,
    shelf: Documents,
    rows: NDArray[np.int64],
    folder: Path,
    root: Path | None,
    kind: Kind | Literal["auto"],
    queries: int,
    workers: int,
    progress: bool | Progress,
    engine: LocalEngine | RayEngine,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Embed and index one part; returns its entry for the manifest, and (id, why) of what could not be embedded."""
    save(folder / "rows.npy", rows)
    here = (folder.absolute() / "rows.npy", (root or Path()).absolute())
    made = engine.embed(
        _Items(part, shelf.folder.absolute(), *here),
        encoder,
        part.space,
        folder,
        workers=workers,
        progress=partial(progress, part.name) if callable(progress) else progress,
    )
    failed = list(made.errors())
    left_out = [row for id, _ in failed if (row := shelf.row(id)) is not None]
    if failed:
        without(rows, left_out, folder / "rows.npy")
    vectors: NDArray[np.float32] = made.vectors
    count, dims = vectors.shape
    largest = 0.0
    for start in range(0, count, BLOCK):
        squares = np.square(vectors[start : start + BLOCK], dtype=np.float64).sum(axis=1)
        largest = max(largest, float(np.sqrt(squares.max())))
        if encoder.similarity == "cosine" and not np.allclose(squares, 1.0, atol=1e-3):
            raise DataError(
                "it calls itself a cosine encoder, and gives rows that are not of length 1",
                item=encoder.name,
                cure="mend the encoder, or have it say 'dot'",
            )
    entry: dict[str, Any] = {
        "space": part.space,
        "over": part.over,
        "dims": dims,
        "count": count,
        "largest_norm": largest,
    }
    chosen = choose(count, dims, queries=queries) if kind == "auto" else Choice(kind, "as asked")
    if not count:
        chosen = Choice("flat", "there is nothing to index")
    entry |= chosen._asdict()
    if chosen.kind != "flat":
        entry |= engine.build_ivf(chosen.kind, vectors, folder / "index.faiss")
    return entry, failed
