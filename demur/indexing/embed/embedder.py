"""From items to rows: threads that read and decode, batches for the model, and what can be wrong with an item."""

from __future__ import annotations

import hashlib
import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.errors import CallError, DataError, StorageError, UsageError
from demur.formats import Seen
from demur.indexing.embed.items import Item, mark
from demur.indexing.embed.progress import Watching
from demur.indexing.embed.shards import MadeShard, lines
from demur.indexing.encoders import Preparing, Role
from demur.indexing.pixels import rgb
from demur.store import canonical, storage_errors

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder


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

    def shard(self, tasks: Iterator[Task], size: int, bar: Watching | None) -> MadeShard | None:
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
