"""Embed any number of texts or images into a folder, in a way that a killed run can be continued.

    items -> [threads: read, decode, resize] -> encoder -> vectors.npy + ids.jsonl + errors.jsonl, shard by shard

The folder is that of `demur.indexing.vectors`. Memory holds one shard and the images that are being decoded.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import CallError, DataError, StorageError, UsageError
from demur.core.images import rgb
from demur.core.progress import Count, counting
from demur.core.records import ImageRef
from demur.core.store import canonical, locked, storage_errors
from demur.core.system import release_memory
from demur.core.uris import read_image
from demur.corpora.formats.scratch import Seen
from demur.indexing.encoders import Cutting, Preparing, fingerprint_of
from demur.indexing.vectors import FORMAT, Embedded, MadeShard, ShardWriter, join_lines

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder


class Item(NamedTuple):
    """One thing to embed: a text or an image."""

    id: str
    text: str | None = None
    image: bytes | Path | Callable[[], bytes] | None = None
    """Encoded bytes, a file, or a function that fetches the bytes (called in a decoding thread)."""
    key: str = ""
    """Hash of the content, if known: a later run then notices that a file changed behind the same id."""

    @classmethod
    def of_image(cls, id: str, ref: ImageRef, root: Path | None = None) -> Item:
        """An item for a referenced image; its bytes are read, and checked against their hash, when they are needed."""
        return cls(id, image=partial(read_image, ref, root), key=ref.sha256)


def item_digest(item: Item) -> bytes:
    """32 bytes that change with the item's id or content (with its path, if the content is not known before)."""
    if item.text is not None:
        content = item.text.encode("utf-8", "surrogatepass")
    elif item.key:
        content = item.key.encode()
    elif isinstance(item.image, bytes):
        content = item.image
    else:
        content = (
            str(item.image).encode("utf-8", "surrogatepass")
            if isinstance(item.image, Path)
            else b""
        )
    name = item.id.encode("utf-8", "surrogatepass")
    kind = b"t" if item.text is not None else b"i"
    return hashlib.sha256(b"%d:%b%b%b" % (len(name), name, kind, content)).digest()


def input_digest(items: Iterable[Item]) -> str:
    """Hash of a shard's items."""
    return hashlib.sha256(b"".join(map(item_digest, items))).hexdigest()


# --- from items to rows ------------------------------------------------------------------------------


class _Task(NamedTuple):
    """One item on its way to the model."""

    item: Item
    fault: str
    """Why it cannot be embedded, "" if nothing is wrong."""
    image: Future[Any] | None


class Embedder:
    """From items to rows: the decoding threads, the model, and what can be wrong with an item."""

    def __init__(self, encoder: Encoder, space: str, workers: int) -> None:
        self._encoder, self._space = encoder, space
        self._many = encoder.similarity == "maxsim"  # rows of an item
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
        self._step = int(getattr(encoder, "batch", 64))
        # One batch is ready while the next fills: the model need not wait for busy processors.
        self._ahead = 2 * self._step + 4 * workers

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def tasks(self, items: Iterable[Item]) -> Iterator[_Task]:
        """Tasks in the order of the items, while the images of the next ones are decoded."""
        waiting: deque[_Task] = deque()
        for item in items:
            fault = _find_fault(item)
            decode = not fault and item.text is None
            waiting.append(
                _Task(item, fault, self._pool.submit(self._decode, item) if decode else None)
            )
            if len(waiting) > self._ahead:
                yield waiting.popleft()
        yield from waiting

    def _decode(self, item: Item) -> Any:
        """In a decoding thread: the image as the encoder takes it."""
        source = item.image
        if isinstance(source, Path):
            with storage_errors(source):
                data = source.read_bytes()
        else:
            data = source if isinstance(source, bytes) else source() if source else b""
        picture = rgb(data, item.id)
        if not isinstance(self._encoder, Preparing):
            return picture
        try:
            return self._encoder.prepared(picture, self._space)
        except (
            MemoryError,
            ValueError,
        ) as error:  # a size that the encoder's resizing cannot handle
            why = str(error) or type(error).__name__
            raise DataError(
                f"the image cannot be resized: {why}", item=item.id, cure="scale or crop it first"
            ) from error

    def shard(self, tasks: Iterator[_Task], size: int, bar: Count | None) -> MadeShard | None:
        """Embed the next ``size`` tasks, in batches that begin with the shard; None if there are none left."""
        digests: list[bytes] = []
        vectors = io.BytesIO()
        ids: list[str] = []
        errors: list[str] = []
        lengths: list[int] = []
        cut = 0
        while batch := list(islice(tasks, min(self._step, size - len(digests)))):
            digests += [item_digest(task.item) for task in batch]
            before = len(errors)
            cut += self._count_cut(batch)
            for task, row, why in self._embed_batch(batch):
                if row is None:
                    errors.append(canonical({"id": task.item.id, "error": why}))
                else:
                    vectors.write(row.astype("<f4", copy=False).tobytes())
                    ids.append(json.dumps(task.item.id))
                    lengths.append(len(row))
            if bar:
                bar.advance(len(batch), len(errors) - before)
        if not digests:
            return None
        return MadeShard(
            hashlib.sha256(b"".join(digests)).hexdigest(),
            len(digests),
            len(errors),
            vectors.getvalue(),
            join_lines(ids),
            join_lines(errors),
            np.array(lengths if self._many else [], "<i4").tobytes(),
            cut,
        )

    def _count_cut(self, batch: list[_Task]) -> int:
        """Texts of a batch that are longer than the encoder reads."""
        if not isinstance(self._encoder, Cutting):
            return 0
        texts = [t.item.text for t in batch if not t.fault and t.item.text is not None]
        return self._encoder.cut(texts, self._space) if texts else 0

    def _embed_batch(
        self, batch: list[_Task]
    ) -> Iterator[tuple[_Task, NDArray[np.float32] | None, str]]:
        """Each task of a batch with its row, or with the reason why it has none."""
        faults = [task.fault for task in batch]
        row_of_place: dict[int, NDArray[np.float32]] = {}
        images: dict[int, Any] = {}
        for place, task in enumerate(batch):
            if task.image is not None:
                try:
                    images[place] = task.image.result()
                except (DataError, StorageError, CallError) as error:
                    faults[place] = error.message
                except OSError as error:  # raised by the function that fetches it
                    faults[place] = f"the image cannot be had: {error}"
        texts = {
            i: t.item.text for i, t in enumerate(batch) if not t.fault and t.item.text is not None
        }
        if texts:
            row_of_place |= zip(
                texts,
                self._check_rows(
                    self._encoder.texts(list(texts.values()), self._space),
                    len(texts),
                ),
                strict=True,
            )
        if images:
            encode = (
                self._encoder.images_prepared
                if isinstance(self._encoder, Preparing)
                else self._encoder.images
            )
            row_of_place |= zip(
                images,
                self._check_rows(encode(list(images.values()), self._space), len(images)),
                strict=True,
            )
        for place, task in enumerate(batch):
            row = row_of_place.get(place)
            if row is None:
                yield task, None, faults[place]
            elif not np.isfinite(row).all():
                yield task, None, "its vector holds NaN or infinity"
            elif not row.any():
                yield task, None, "its vector has length zero"
            else:
                yield task, row, ""

    def _check_rows(
        self, rows: Any, count: int
    ) -> NDArray[np.float32] | Sequence[NDArray[np.float32]]:
        """The rows as an array, also where a user's encoder returns lists; of late interaction an array of each."""
        shape: tuple[int, ...] = (count, self._encoder.dims[self._space])
        try:
            if self._many and len(rows) == count:
                return [self._check_tokens(each) for each in rows]
            matrix = np.asarray(rows, np.float32)
            fault = "" if matrix.shape == shape else f"rows of shape {matrix.shape}"
        except (TypeError, ValueError) as error:
            fault = f"no matrix of numbers ({error})"
        if fault:
            raise UsageError(
                f"it returned {fault} instead of {shape}", item=self._encoder.name, cure="mend it"
            )
        return matrix

    def _check_tokens(self, rows: Any) -> NDArray[np.float32]:
        """(tokens, d) float32 of one item, with a token at least."""
        matrix = np.asarray(rows, np.float32)
        if matrix.ndim != 2 or matrix.shape[1] != self._encoder.dims[self._space]:
            raise ValueError(f"an item of shape {matrix.shape}")
        return matrix if len(matrix) else np.zeros((1, matrix.shape[1]), np.float32)


def _find_fault(item: Item) -> str:
    """Why an item cannot be embedded, as far as it can be known without decoding; "" if nothing is wrong."""
    if not item.id:
        return "its id is empty"
    if (item.text is None) == (item.image is None):
        return "it must have either a text or an image"
    if item.text is not None and not item.text.strip():
        return "its text is empty"
    try:
        (item.text or "").encode()
    except UnicodeEncodeError:
        return "its text is not valid Unicode"
    return ""


# --- the folder ---------------------------------------------------------------------------------------

ShardMaker = Callable[[Sequence[tuple[int, int]]], Iterator[MadeShard]]
"""Runs of items (first, stop) to their shards, in the order of the runs; it may end before the last run."""


def embed(
    items: Iterable[Item],
    encoder: Encoder,
    space: str,
    out: Path,
    *,
    shard: int = 8192,
    workers: int = 2,
    progress: bool | Callable[[int, int], None] = True,
    make_elsewhere: ShardMaker | None = None,
) -> Embedded:
    """Embed ``items`` into the folder ``out``, continuing where an earlier run was stopped.

    Items that cannot be embedded (an unreadable image, an empty text, a vector of length zero or with NaN) are written
    to ``errors.jsonl`` and counted; they never end the run.

    Args:
        items: read once, in an order that a second run repeats. If there are many images, give functions or paths
            rather than bytes: a continued run holds the items of one shard while it compares them.
        out: the folder; created if missing. Shards already there are kept if their input is the same.
        shard: items per shard of a new folder; an existing folder keeps its own.
        progress: show a bar with rate and remaining time on standard error (lines now and then if that is no
            terminal); or a function that is called with (items done, items in all or 0) after every batch.
        make_elsewhere: makes shards of ``items`` with a length and distinct ids in other processes. This process makes
            the shards that it does not return.

    Raises:
        IndexFileError: ``out`` holds vectors of another encoder or space, or something else.
        UsageError: the encoder does not serve ``space``, two items have the same id, or another process is writing
            ``out``.
        StorageError: ``out`` cannot be written; finished shards are kept.
    """
    if shard < 1 or workers < 1:
        raise UsageError(
            f"shard={shard} and workers={workers} must be 1 or more", cure="leave them out"
        )
    if space not in encoder.dims:
        raise UsageError(
            f"it has no space named {space!r}",
            item=encoder.name,
            cure=f"choose from {', '.join(sorted(encoder.dims))}",
        )
    plan = {
        "kind": "demur embeddings",
        "format": FORMAT,
        "encoder": encoder.name,
        "note": encoder.note,
        "fingerprint": fingerprint_of(encoder),
        "similarity": encoder.similarity,
        "space": space,
        "dimensions": encoder.dims[space],
    }
    total = len(items) if isinstance(items, Sized) else None
    with (
        locked(out / "lock", f"writing {out.name}"),
        ShardWriter.open(out, plan, shard) as folder,
        Embedder(encoder, space, workers) as work,
        counting(f"{out.name}: {encoder.name} {space}", total, progress) as bar,
    ):
        stream = _skip_finished_shards(_refuse_repeated_ids(items), folder, bar)
        if make_elsewhere is not None and total is not None:
            done = first = sum(shard.items for shard in folder.done)
            runs = [
                (start, min(start + folder.shard, total))
                for start in range(first, total, folder.shard)
            ]
            for shard_elsewhere, run in zip(make_elsewhere(runs), runs, strict=False):
                if shard_elsewhere.items != run[1] - run[0]:
                    raise StorageError(
                        f"items {run[0]} to {run[1]} came back as {shard_elsewhere.items}",
                        item=out,
                        cure="run it again",
                    )
                folder.append(shard_elsewhere)
                done = run[1]
                bar.advance(shard_elsewhere.items, shard_elsewhere.failed)
            stream = islice(stream, done - first, None) if done < total else iter(())
        tasks = work.tasks(stream)
        while shard_here := work.shard(tasks, folder.shard, bar):
            folder.append(shard_here)
            del shard_here
            release_memory()
        folder.finish()
    return Embedded.open(out)


def make_shard(items: Sequence[Item], encoder: Encoder, space: str, workers: int) -> MadeShard:
    """Embed the items of one shard, for a folder that another process writes."""
    with Embedder(encoder, space, workers) as work:
        shard = work.shard(work.tasks(items), len(items), None)
    assert shard is not None, "a shard has items"
    return shard


def _refuse_repeated_ids(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; an id that comes again is an error, because nobody could tell the two rows apart."""
    seen = Seen()
    for item in items:
        if not seen.add(item.id) and item.id:
            raise UsageError(
                "two items have this id", item=item.id, cure="give every item an id of its own"
            )
        yield item


def _skip_finished_shards(items: Iterator[Item], folder: ShardWriter, bar: Count) -> Iterator[Item]:
    """The items from the first that is in no finished shard on."""
    for number, done in enumerate(tuple(folder.done)):
        chunk = list(islice(items, folder.shard))
        if len(chunk) != done.items or input_digest(chunk) != done.input:
            folder.cut(number)
            return chain(chunk, items)
        bar.skip(done.items, done.failed)
    return items
