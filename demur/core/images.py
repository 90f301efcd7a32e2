"""Decode untrusted image bytes to pictures for encoders: RGB, upright, first frame, on white.

Formats that start other programs are never tried, the size is checked before decoding, and any error in a decoder
becomes a `DataError` that names the image.
"""

from __future__ import annotations

import io
import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from demur.core.errors import DataError
from demur.core.records import ImageRef
from demur.core.store import digest

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image


MAX_PIXELS = 100_000_000
"""Larger images, in pixels, are refused before decoding (decompression bombs)."""

IMAGE_FORMATS = (
    "PNG",
    "JPEG",
    "MPO",
    "GIF",
    "WEBP",
    "BMP",
    "TIFF",
    "PPM",
    "ICO",
    "JPEG2000",
    "AVIF",
)
"""Formats to read, if the installed Pillow has them. PostScript and the like would start an interpreter."""

IMAGE_HEADER = threading.Lock()
"""Held while a header is read: Pillow uses Python's warnings, whose filters are shared by all threads."""


@cache
def readable_formats() -> tuple[str, ...]:
    """The `IMAGE_FORMATS` that the installed Pillow can open."""
    from PIL import Image

    Image.init()
    return tuple(name for name in IMAGE_FORMATS if name in Image.OPEN)


class _Room:
    """Memory for decoded pixels, shared by all threads: a small file may hold a large image."""

    def __init__(self, most: int) -> None:
        self._most, self._held, self._changed = most, 0, threading.Condition()

    @contextmanager
    def of(self, pixels: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._held + pixels <= self._most)
            self._held += pixels
        try:
            yield
        finally:
            with self._changed:
                self._held -= pixels
                self._changed.notify_all()


_ROOM = _Room(MAX_PIXELS)


@contextmanager
def open_image(data: bytes, item: str = "image") -> Iterator[Image]:
    """An image whose header is read and whose pixels are not decoded yet; errors in the block become `DataError`.

    A block holds memory for the image's pixels: others wait where all together would have more than `MAX_PIXELS`, so a
    block must not open another image.

    Raises:
        DataError: empty, not an image, of an unsupported format, truncated, or above `MAX_PIXELS`.
    """
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    if not data:
        raise DataError("the image is empty", item=item, cure="fetch it again")
    try:
        with IMAGE_HEADER, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Pillow.open(io.BytesIO(data), formats=readable_formats())
            pixels = image.width * image.height
            if pixels > MAX_PIXELS:
                raise DataError(
                    f"the image has {image.width}x{image.height} pixels, more than {MAX_PIXELS:,}",
                    item=item,
                    cure="scale it down first",
                )
        with image, _ROOM.of(pixels):
            yield image
    except UnidentifiedImageError as error:
        raise DataError(
            "not an image, or of an unsupported format", item=item, cure="check the file"
        ) from error
    except Pillow.DecompressionBombError as error:
        raise DataError(
            f"the image has more than {MAX_PIXELS:,} pixels", item=item, cure="scale it down first"
        ) from error
    except DataError:
        raise
    except Exception as error:  # the decoders fail on hostile bytes with many kinds of errors
        raise DataError(
            f"the image cannot be read: {error}", item=item, cure="fetch it again"
        ) from error


def image_ref(data: bytes, uri: str) -> ImageRef:
    """Decode ``data`` completely and describe the image.

    Raises:
        DataError: as for `open_image`.
    """
    from PIL import Image as Pillow

    with open_image(data, uri) as image:
        image.load()
        media = Pillow.MIME.get(image.format or "", "application/octet-stream")
        return ImageRef(
            sha256=digest(data), uri=uri, width=image.width, height=image.height, media_type=media
        )


def rgb(data: bytes, item: str = "image") -> Image:
    """Decode one image to mode RGB.

    Takes the first frame or page, turns it upright by its EXIF orientation, puts transparency (alpha, palette or key
    colour) on white, scales 16-bit greys by 1/257 and stretches other integer or floating greys from their darkest to
    their brightest pixel. CMYK is converted without its colour profile.

    Raises:
        DataError: as for `open_image`.
    """
    with open_image(data, item) as image:
        return _rgb(image)


def for_models(data: bytes, item: str = "image") -> tuple[str, bytes]:
    """(media type, bytes) of an image as a model server takes it.

    An upright PNG or JPEG of 8 bits a channel is left as it is, and not even decoded. Whatever else it is (an image of a
    phone with a preview in it, TIFF, 16 or 32 bits, CMYK, on its side) becomes a JPEG of what `rgb` shows.

    Raises:
        DataError: as for `open_image`.
    """
    with open_image(data, item) as image:
        eight_bits = image.mode in ("1", "L", "LA", "P", "RGB", "RGBA")
        # behind a PNG's pixels there may be EXIF data too, but to look there decodes them
        upright = image.format == "PNG" and "exif" not in image.info
        if image.format in ("PNG", "JPEG") and eight_bits and (upright or turn_of(image) is None):
            return f"image/{image.format.lower()}", data
        out = io.BytesIO()
        _rgb(image).save(out, "JPEG", quality=95, subsampling=0)
        return "image/jpeg", out.getvalue()


_STRIP = 1 << 22
"""Pixels that are converted at a time: the copies on the way would be as large as the image."""


def _rgb(image: Image) -> Image:
    from PIL import Image as Pillow

    image.load()
    rows = max(_STRIP // image.width, 1)
    boxes = [
        (0, top, image.width, min(top + rows, image.height)) for top in range(0, image.height, rows)
    ]
    ends = _ends(image, boxes) if image.mode in ("I", "F") else (0.0, 255.0)
    plain = Pillow.new("RGB", image.size)
    for box in boxes:
        plain.paste(_plain(image.crop(box), *ends), box)
    turn = turn_of(image)
    return plain if turn is None else plain.transpose(turn)


def check_resized(image: Image, side: int) -> None:
    """Refuse a thin image that would become too large when its shorter side is scaled to ``side`` pixels.

    Raises:
        DataError: it would have more than `MAX_PIXELS`.
    """
    pixels = side * side * max(image.size) // min(image.size)
    if pixels > MAX_PIXELS:
        raise DataError(
            f"the image of {image.width}x{image.height} pixels would have {pixels:,} at the model's input size, "
            f"more than {MAX_PIXELS:,}",
            item="image",
            cure="crop it first",
        )


def turn_of(image: Image) -> Any:
    """The transposition that makes the image upright by its EXIF orientation; None if it is upright."""
    from PIL.Image import Transpose

    try:
        orientation = image.getexif().get(0x0112, 1)
    except Exception:  # the pixels may be fine although the EXIF block is damaged
        return None
    return {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }.get(orientation)


def _ends(image: Image, boxes: list[tuple[int, int, int, int]]) -> tuple[float, float]:
    """The values of an integer or floating image that become black and white."""
    import numpy as np

    low, high = math.inf, -math.inf
    for box in boxes:
        values = np.asarray(image.crop(box))
        if not np.isfinite(values).all():
            raise ValueError("its pixels are not all numbers")
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    if image.mode == "I" and low >= 0 and high <= 65535:
        return 0.0, 65535.0
    return low, high


def _plain(image: Image, low: float, high: float) -> Image:
    """Any mode to RGB; integer and floating greys are stretched from ``low`` to ``high``."""
    import numpy as np
    from PIL import Image as Pillow

    if image.mode.startswith("I;16"):
        return _grey(np.asarray(image).astype(np.float64) / 257)
    if image.mode in ("I", "F"):
        values = np.asarray(image).astype(np.float64)
        return _grey((values - low) * (255 / (high - low or 1)))
    if image.has_transparency_data:
        above = image.convert("RGBA")
        return Pillow.alpha_composite(Pillow.new("RGBA", above.size, "white"), above).convert("RGB")
    return image.convert("RGB")


def _grey(values: np.ndarray[Any, np.dtype[np.float64]]) -> Image:
    """A picture of grey levels 0 to 255."""
    import numpy as np
    from PIL import Image as Pillow

    return Pillow.fromarray(np.rint(values).astype(np.uint8)).convert("RGB")
