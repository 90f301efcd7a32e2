"""Image bytes for requests: each file is checked once, and encoded once while the result stays in memory."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from demur.core.errors import DataError, ItemError, StorageError
from demur.core.images import for_models
from demur.core.records import ImageRef
from demur.core.uris import read_image


class UnreadableImage(ItemError):
    """An image of a request cannot be read: nothing was sent."""


class ImageUrls:
    """Image references as URLs for a request.

    An ``http(s)`` or ``data`` uri stays as it is. Any other image is read and becomes a data URI, of the formats that
    every server takes (`demur.core.images.for_models`); the last
    ``most_bytes`` of them stay in memory, as questions about one image follow each other. A file is checked against its
    SHA-256 when it is first read, and again when it changed.

    Args:
        root: folder that relative paths start from.
        most_bytes: memory for encoded images, in bytes.
        read: gives the bytes of images that are not files (those in a release's tables).
    """

    def __init__(
        self,
        root: Path | None = None,
        most_bytes: int = 64_000_000,
        read: Callable[[ImageRef], bytes] | None = None,
    ) -> None:
        self.root, self.most_bytes, self._from = root, most_bytes, read
        self._encoded: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._checked: dict[str, tuple[str, int, int]] = {}

    async def url_of(self, image: ImageRef) -> bytes:
        """The address or data URI of an image, ASCII.

        Raises:
            UnreadableImage: the image cannot be read, or its SHA-256 is another.
        """
        encoded = self._encoded.get(image.sha256)
        if encoded is not None:
            self._encoded.move_to_end(image.sha256)
            return encoded
        if image.uri.startswith(("http://", "https://", "data:")):
            return image.uri.encode("ascii", "ignore")
        try:
            encoded = await asyncio.to_thread(self._encode, image)
        except (StorageError, DataError) as error:
            raise UnreadableImage(
                f"an image cannot be read: {error}", cure="fetch it again"
            ) from error
        if image.sha256 not in self._encoded:
            self._encoded[image.sha256] = encoded
            self._size += len(encoded)
            while self._size > self.most_bytes and len(self._encoded) > 1:
                _, dropped = self._encoded.popitem(last=False)
                self._size -= len(dropped)
        return encoded

    def _encode(self, image: ImageRef) -> bytes:
        media_type, data = for_models(self._read(image), image.uri)
        return f"data:{media_type};base64,".encode() + base64.b64encode(data)

    def _read(self, image: ImageRef) -> bytes:
        if self._from is not None:
            return self._from(image)
        path = (self.root or Path()) / image.uri
        try:
            state = path.stat()
        except OSError:  # in an archive, or missing: `read_image` says which
            state = None
        mark = None if state is None else (image.sha256, state.st_mtime_ns, state.st_size)
        if mark is not None and self._checked.get(image.uri) == mark:
            return path.read_bytes()
        data = read_image(image, self.root)
        if mark is not None:
            self._checked[image.uri] = mark
        return data
