"""Embed any number of texts or images into a folder that a killed run can go on from.

    items -> [threads: read, decode, resize] -> encoder -> vectors.npy + ids.jsonl + errors.jsonl, shard by shard

The folder is that of `demur.indexing.vectors`. While it is written it is locked by a file ``lock``. A process that
crashed or was killed leaves it there, by which the next run knows (`died`). Memory holds one shard, the images on their
way, and some 20 bytes per id (to notice ids that repeat).
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
from demur.corpora.formats import Seen
from demur.indexing.encoders import Preparing, Role, fingerprint_of
from demur.indexing.vectors import FORMAT, Embedded, MadeShard, ShardWriter, lines

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder


class Item(NamedTuple):
    """One thing to embed: a text or an image."""

    id: str
    text: str | None = None
    image: bytes | Path | Callable[[], bytes] | None = None
    """Encoded bytes, a file, or a function that fetches the bytes (called in a worker thread)."""
    key: str = ""
    """Hash of the content, where it is known: lets a later run notice that a file changed behind the same id."""

    @classmethod
    def of_image(cls, id: str, ref: ImageRef, root: Path | None = None) -> Item:
        """An item for a referenced image; its bytes are read, and checked against their hash, when it is its turn."""
        return cls(id, image=partial(read_image, ref, root), key=ref.sha256)


def mark(item: Item) -> bytes:
    """32 bytes that change with the item's id or content (with its place, where the content is not known before)."""
    if item.text is not None:
        content = item.text.encode("utf-8", "surrogatepass")
    elif item.key:
        content = item.key.encode()
    elif isinstance(item.image, bytes):
        content = item.image
    else:
        content = str(item.image).encode("utf-8", "surrogatepass") if isinstance(item.image, Path) else b""
    name = item.id.encode("utf-8", "surrogatepass")
    kind = b"t" if item.text is not None else b"i"
    return hashlib.sha256(b"%d:%b%b%b" % (len(name), name, kind, content)).digest()


def input_digest(items: Iterable[Item]) -> str:
    """Hash of a shard's items."""
    return hashlib.sha256(b"".join(mark(item) for item in items)).hexdigest()


# --- from items to rows ------------------------------------------------------------------------------


class Task(NamedTuple):
    """One item on its way to the model."""

    item: Item
    why: str
    """Why it cannot be embedded; "" while nothing is wrong."""
    image: Future[Any] | None


def batch_of(encoder: Encoder) -> int:
    """Items that the encoder is given at once."""
    return int(getattr(encoder, "batch", 64))


def read_ahead(encoder: Encoder, workers: int) -> int:
    """Items that are decoded, or waiting for it, while those before them are with the model.

    One batch is ready while the next fills: the model need not wait when the processors are wanted elsewhere.
    """
    return 2 * batch_of(encoder) + 4 * workers


class Embedder:
    """From items to rows: the decoding threads, the model, and what can be wrong with an item."""

    def __init__(self, encoder: Encoder, space: str, role: Role, workers: int, *, distinct: bool = False) -> None:
        self._encoder, self._space, self._role = encoder, space, role
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
        self._step, self._ahead = batch_of(encoder), read_ahead(encoder, workers)
        self.is_new: Callable[[str], bool] = (lambda id: True) if distinct else Seen().add

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def tasks(self, items: Iterable[Item]) -> Iterator[Task]:
        """Tasks in the order of the items, with the images of the next ones being decoded meanwhile."""
        waiting: deque[Task] = deque()
        for item in items:
            waiting.append(self._begin(item))
            if len(waiting) > self._ahead:
                yield waiting.popleft()
        yield from waiting

    def _begin(self, item: Item) -> Task:
        """Check an item and, when it is an image, have it decoded."""
        why = self._wrong(item)
        image = self._pool.submit(self._decoded, item) if not why and item.text is None else None
        return Task(item, why, image)

    def _wrong(self, item: Item) -> str:
        if not item.id:
            return "its id is empty"
        if not self.is_new(item.id):
            return "its id repeats that of an earlier item"
        if (item.text is None) == (item.image is None):
            return "it must have either a text or an image"
        if item.text is not None and not item.text.strip():
            return "its text is empty"
        try:
            (item.text or "").encode()
        except UnicodeEncodeError:
            return "its text is not valid Unicode"
        return ""

    def _decoded(self, item: Item) -> Any:
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
        except (MemoryError, ValueError) as error:  # of sizes that the encoder's resizing cannot take
            why = str(error) or type(error).__name__
            raise DataError(
                f"the image cannot be resized: {why}", item=item.id, cure="scale or crop it first"
            ) from error

    def shard(self, tasks: Iterator[Task], size: int, bar: Count | None) -> MadeShard | None:
        """Embed the next ``size`` tasks, in batches that start anew with each shard; None when there are none left."""
        marks: list[bytes] = []
        vectors = io.BytesIO()  # of the whole shard, once
        ids: list[str] = []
        errors: list[str] = []
        while batch := list(islice(tasks, min(self._step, size - len(marks)))):
            marks += [mark(task.item) for task in batch]
            before = len(errors)
            for task, row, why in self._embedded(batch):
                if row is None:
                    errors.append(canonical({"id": task.item.id, "error": why}))
                else:
                    vectors.write(row.astype("<f4", copy=False).tobytes())
                    ids.append(json.dumps(task.item.id))
            if bar:
                bar.advance(len(batch), len(errors) - before)
        if not marks:
            return None
        return MadeShard(
            hashlib.sha256(b"".join(marks)).hexdigest(), len(marks), len(errors), vectors.getvalue(), lines(ids),
            lines(errors),
        )  # fmt: skip

    def _embedded(self, batch: list[Task]) -> Iterator[tuple[Task, NDArray[np.float32] | None, str]]:
        """Each task of a batch with its row, or with the reason why it has none."""
        whys = [task.why for task in batch]
        found: dict[int, NDArray[np.float32]] = {}
        images: dict[int, Any] = {}
        for place, task in enumerate(batch):
            if task.image is not None:
                try:
                    images[place] = task.image.result()
                except (DataError, StorageError, CallError) as error:
                    whys[place] = error.message
                except OSError as error:  # of the function that fetches it
                    whys[place] = f"the image cannot be had: {error}"
        texts = {i: t.item.text for i, t in enumerate(batch) if not t.why and t.item.text is not None}
        if texts:
            found |= zip(
                texts,
                self._checked(self._encoder.texts(list(texts.values()), self._space, role=self._role), len(texts)),
                strict=True,
            )
        if images:
            encode = self._encoder.images_prepared if isinstance(self._encoder, Preparing) else self._encoder.images
            found |= zip(images, self._checked(encode(list(images.values()), self._space), len(images)), strict=True)
        for place, task in enumerate(batch):
            row = found.get(place)
            if row is None:
                yield task, None, whys[place]
            elif not np.isfinite(row).all():
                yield task, None, "its vector holds NaN or infinity"
            elif not row.any():
                yield task, None, "its vector has length zero"
            else:
                yield task, row, ""

    def _checked(self, rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        shape = (count, self._encoder.dims[self._space])
        if rows.shape != shape:
            raise UsageError(
                f"it gave rows of shape {rows.shape} where {shape} was due",
                item=self._encoder.name,
                cure="mend the encoder",
            )
        return rows


# --- the folder ---------------------------------------------------------------------------------------

Elsewhere = Callable[[Sequence[tuple[int, int]]], Iterator[MadeShard]]
"""Runs of items (first, stop) to their shards by `make_shard`, in the order of the runs; the rest is made here."""
LOCK = "lock"
"""In the folder while it is written."""


def embed(
    items: Iterable[Item],
    encoder: Encoder,
    space: str,
    out: Path,
    *,
    role: Role = "passage",
    shard: int = 8192,
    workers: int = 2,
    progress: bool | Callable[[int, int], None] = True,
    elsewhere: Elsewhere | None = None,
    distinct: bool = False,
) -> Embedded:
    """Embed ``items`` into the folder ``out``, going on where an earlier run was stopped.

    Items that cannot be embedded (an unreadable image, an empty text, an id that repeats, a vector of length zero or
    with NaN) are recorded in ``errors.jsonl`` and counted; they never end the run. An item that ends this very process
    (a decoder that crashes) does, at each run: `demur.indexing.local` finds and names it, as does a cluster.

    Args:
        items: streamed once, in an order that a second run repeats. Where there are many images, give functions or
            paths rather than bytes: a run that goes on holds the items of one shard while it compares them.
        out: the folder; made when missing. Shards already there are kept where their input is the same.
        role: what the texts are for.
        shard: items per shard, for a new folder; a folder goes on with its own.
        progress: show a bar with rate and remaining time on standard error (lines now and then where that is no
            terminal); or a function told (items done, items in all, 0 when unknown) after every batch.
        elsewhere: makes the shards in other processes; ``items`` must have a length then, and ids must not repeat.
        distinct: ids are known not to repeat: they are not looked at, which saves some 20 bytes of memory each.

    Raises:
        IndexFileError: ``out`` holds vectors of another encoder, space or role, or something else altogether.
        UsageError: the encoder does not serve ``space``, or another process is writing ``out``.
        StorageError: ``out`` cannot be written; what is done is kept.
    """
    if shard < 1 or workers < 1:
        raise UsageError(f"shard={shard} and workers={workers} must be 1 or more", cure="leave them out")
    if space not in encoder.dims:
        raise UsageError(
            f"it has no space named {space!r}", item=encoder.name, cure=f"choose from {', '.join(sorted(encoder.dims))}"
        )
    plan = {
        "kind": "demur embeddings",
        "format": FORMAT,
        "encoder": encoder.name,
        "note": encoder.note,
        "fingerprint": fingerprint_of(encoder),
        "similarity": encoder.similarity,
        "space": space,
        "role": role,
        "dimensions": encoder.dims[space],
    }
    total = len(items) if isinstance(items, Sized) else None
    with (
        locked(out / LOCK, f"writing {out.name}"),
        ShardWriter.open(out, plan, shard) as folder,
        Embedder(encoder, space, role, workers, distinct=distinct) as work,
        counting(f"{out.name}: {encoder.name} {space}", total, progress) as bar,
    ):
        stream = _past_finished(iter(items), folder, work, bar)
        if elsewhere is not None:
            if total is None:
                raise UsageError("items of unknown number cannot be embedded elsewhere", cure="give a sequence")
            done = first = sum(shard.items for shard in folder.done)
            runs = [(start, min(start + folder.shard, total)) for start in range(first, total, folder.shard)]
            for made, run in zip(elsewhere(runs), runs, strict=False):
                if made.items != run[1] - run[0]:
                    raise StorageError(
                        f"items {run[0]} to {run[1]} came back as {made.items}", item=out, cure="run it again"
                    )
                folder.append(made)
                done = run[1]
                bar.advance(made.items, made.failed)
            stream = islice(stream, done - first, None) if done < total else iter(())
        tasks = work.tasks(stream)
        while here := work.shard(tasks, folder.shard, bar):
            folder.append(here)
            del here
            release_memory()
        folder.finish()
    return Embedded.open(out)


def make_shard(items: Sequence[Item], encoder: Encoder, space: str, *, role: Role, workers: int = 2) -> MadeShard:
    """Embed the items of one shard, for a folder that another process writes (see `embed`, ``elsewhere``)."""
    with Embedder(encoder, space, role, workers) as work:
        made = work.shard(work.tasks(items), len(items), None)
    if made is None:
        raise UsageError("a shard without items", cure="give one or more")
    return made


def died(out: Path) -> bool:
    """Whether the process that last wrote the folder ended without a word: it crashed, or it was killed.

    Errors, Ctrl-C and ``sys.exit`` are no such end. A process that is writing at this moment looks the same.
    """
    return (out / LOCK).exists()


def _past_finished(items: Iterator[Item], folder: ShardWriter, work: Embedder, bar: Count) -> Iterator[Item]:
    """Pass over the shards that are already there; what remains of ``items`` from the first that is not."""
    for number, done in enumerate(tuple(folder.done)):
        chunk = list(islice(items, folder.shard))
        if len(chunk) != done.items or input_digest(chunk) != done.input:
            folder.cut(number)
            return chain(chunk, items)
        for item in chunk:
            work.is_new(item.id)
        bar.skip(done.items, done.failed)
    return items
