"""Scales images down before a judge sees them: models charge by the pixel and limit their number."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable

from demur.core.images import open_image, turn_of
from demur.core.records import ImageRef
from demur.core.store import digest

MAX_CACHED = 64_000_000
"""Bytes of scaled images in memory; others are scaled again when they are sent."""


class Scaler:
    """Replaces large images by smaller ones, and returns the bytes of either.

    The smaller image depends only on the original's bytes and ``max_side``, so a request has the same identity in every
    run.

    Args:
        read: returns the bytes of an original.
        max_side: longest side in pixels; None sends every image unchanged.
    """

    def __init__(self, read_original: Callable[[ImageRef], bytes], max_side: int | None) -> None:
        self._read_original = read_original
        self._max_side = max_side
        self._original: dict[str, ImageRef] = {}
        self._small: dict[str, ImageRef] = {}
        self._bytes: OrderedDict[str, bytes] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def scale(self, ref: ImageRef) -> ImageRef:
        """The image to send in place of ``ref``; ``ref`` itself when it is small enough."""
        if self._max_side is None or max(ref.width, ref.height) <= self._max_side:
            return ref
        if ref.sha256 not in self._small:
            data, width, height = self._shrink(ref)
            small = ImageRef(
                sha256=digest(data),
                uri=f"scaled:{ref.uri}",
                width=width,
                height=height,
                media_type="image/png",
            )
            self._small[ref.sha256], self._original[small.sha256] = small, ref
            self._keep(small.sha256, data)
        return self._small[ref.sha256]

    def read(self, ref: ImageRef) -> bytes:
        """Bytes of an original, or of a result of `scale`."""
        original = self._original.get(ref.sha256)
        if original is None:
            return self._read_original(ref)
        data = self._bytes.get(ref.sha256)
        if data is None:
            data = self._shrink(original)[0]
            self._keep(ref.sha256, data)
        return data

    def _shrink(self, ref: ImageRef) -> tuple[bytes, int, int]:
        from PIL import Image

        with open_image(self._read_original(ref), ref.uri) as image:
            turn = turn_of(image)
            picture = (image if turn is None else image.transpose(turn)).convert("RGB")
        side = self._max_side or max(ref.width, ref.height)
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        picture.save(out, "PNG")
        return out.getvalue(), picture.width, picture.height

    def _keep(self, sha256: str, data: bytes) -> None:
        with self._lock:  # several threads scale images
            if sha256 not in self._bytes:
                self._bytes[sha256] = data
                self._held += len(data)
            while self._held > MAX_CACHED and len(self._bytes) > 1:
                _, dropped = self._bytes.popitem(last=False)
                self._held -= len(dropped)
