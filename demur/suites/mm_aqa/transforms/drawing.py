"""What several transformations draw with: covering, blurring, and how much of an image was changed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

    from demur.suites.mm_aqa.transforms import Word

Box = tuple[int, int, int, int]


def covered(image: Image, boxes: Iterable[Box], fill: tuple[int, int, int] = (0, 0, 0)) -> Image:
    """A copy with boxes filled."""
    from PIL import ImageDraw

    made = image.copy()
    pen = ImageDraw.Draw(made)
    for x0, y0, x1, y1 in boxes:
        pen.rectangle((x0, y0, max(x0, x1 - 1), max(y0, y1 - 1)), fill=fill)
    return made


def coverage(size: tuple[int, int], boxes: Iterable[Box]) -> float:
    """Share of an image's area under boxes, overlaps counted once."""
    mask = np.zeros((size[1], size[0]), dtype=bool)
    for x0, y0, x1, y1 in boxes:
        mask[max(0, y0) : max(0, y1), max(0, x0) : max(0, x1)] = True
    return np.count_nonzero(mask) / mask.size


def changed(before: Image, after: Image) -> float:
    """Share of pixels that differ."""
    from PIL import ImageChops

    if before.size != after.size:
        return 1.0
    r, g, b = ImageChops.difference(before.convert("RGB"), after.convert("RGB")).split()
    same = ImageChops.lighter(ImageChops.lighter(r, g), b).histogram()[0]
    return 1 - same / (before.width * before.height)


def blurred(image: Image, radius: float) -> Image:
    """Gaussian blur."""
    from PIL import ImageFilter

    return image.filter(ImageFilter.GaussianBlur(radius))


def sharpness(image: Image) -> float:
    """Root mean square of what neighbouring grey pixels differ by: near 0 where nothing can be made out.

    The square, since a blurred edge is as high as a sharp one, only wider: on a flag the plain mean stays as it was.
    """
    grey = np.asarray(image.convert("L"), dtype=np.float32)
    return float((np.square(np.diff(grey, axis=0)).mean() + np.square(np.diff(grey, axis=1)).mean()) ** 0.5)


def padded(box: Box, by: int, size: tuple[int, int]) -> Box:
    """A box with a margin, within the image."""
    return max(0, box[0] - by), max(0, box[1] - by), min(size[0], box[2] + by), min(size[1], box[3] + by)


def background(image: Image, box: Box, pixels: npt.NDArray[np.uint8] | None = None) -> tuple[int, int, int]:
    """The colour around a box: the median of its rim. ``pixels`` are the image's, where they are at hand."""
    x0, y0, x1, y1 = padded(box, 2, image.size)
    if pixels is None:
        pixels, box = np.asarray(image.crop((x0, y0, x1, y1))), (0, 0, x1 - x0, y1 - y0)
        x0, y0, x1, y1 = box
    rim = np.concatenate([
        pixels[y0, x0:x1], pixels[max(y1 - 1, y0), x0:x1], pixels[y0:y1, x0], pixels[y0:y1, max(x1 - 1, x0)]
    ])  # fmt: skip
    r, g, b = np.median(rim, axis=0)
    return int(r), int(g), int(b)


def erased(image: Image, words: Iterable[Word]) -> Image:
    """A copy in which words are painted over with what surrounds them."""
    from PIL import ImageDraw

    made, pixels = image.copy(), np.asarray(image)
    pen = ImageDraw.Draw(made)
    for word in words:
        x0, y0, x1, y1 = padded(word.box, 1, image.size)
        pen.rectangle((x0, y0, x1 - 1, y1 - 1), fill=background(image, word.box, pixels))
    return made


def written(image: Image, box: Box, text: str, like: Image) -> Image:
    """A copy with a text in a box: as high as what stands there in ``like``, and no wider than the box allows."""
    from PIL import ImageDraw

    made = image.copy()
    ground = background(image, box)
    ink = (0, 0, 0) if sum(ground) > 380 else (255, 255, 255)
    inside = np.asarray(like.crop(box).convert("L"), dtype=np.float64)
    rows = np.flatnonzero((np.abs(inside - np.median(inside)) > 60).any(axis=1))
    height = int(rows[-1] - rows[0] + 1) if len(rows) else max(6, (box[3] - box[1]) // 2)
    size = max(7, round(height * 1.3))
    while font_of(size).getlength(text) > (box[2] - box[0]) * 1.1 and size > 7:
        size -= 1
    ImageDraw.Draw(made).text((box[0], (box[1] + box[3]) // 2), text, fill=ink, font=font_of(size), anchor="lm")
    return made


@cache
def font_of(size: float) -> Any:
    """Pillow's own font."""
    from PIL import ImageFont

    return ImageFont.load_default(size)
