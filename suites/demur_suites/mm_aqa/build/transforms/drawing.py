"""Drawing for several transformations: covering, blurring, writing, and the share of an image that changed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any
from unicodedata import combining, normalize

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

    from demur_suites.mm_aqa.build.transforms import Word

Box = tuple[int, int, int, int]
_NEAR = {
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u20ac": "EUR",
    "\u00a3": "GBP",
    "\u00d7": "x",
    "\u00df": "ss",
    "\u00f8": "o",
    "\u00d8": "O",
    "\u0142": "l",
    "\u0141": "L",
    "\u0131": "i",
    "\u00e6": "ae",
    "\u0111": "d",
}
"""What the font lacks and no accent explains -> how it is written."""


def covered(image: Image, boxes: Iterable[Box], fill: tuple[int, int, int] = (0, 0, 0)) -> Image:
    """A copy with boxes filled."""
    from PIL import ImageDraw

    altered = image.copy()
    pen = ImageDraw.Draw(altered)
    for x0, y0, x1, y1 in boxes:
        pen.rectangle((x0, y0, max(x0, x1 - 1), max(y0, y1 - 1)), fill=fill)
    return altered


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


def radius_for(image: Image, radius: float, strength: float) -> float:
    """A radius given for a picture 768 pixels long; larger pictures get as much blur as they look."""
    return radius * strength * max(1.0, max(image.size) / 768)


def sharpness_left(before: Image, after: Image) -> float:
    """The share of its sharpness that an image keeps."""
    return sharpness(after) / max(sharpness(before), 1e-9)


def sharpness(image: Image) -> float:
    """Root mean square of the difference of neighbouring grey pixels: near 0 where nothing can be made out.

    The square, because a blurred edge is as high as a sharp one, only wider: on a flag the plain mean does not change.
    """
    grey = np.asarray(image.convert("L"), dtype=np.float32)
    steps = [np.square(np.diff(grey, axis=axis)) for axis in (0, 1)]
    return float(sum(step.mean() for step in steps if step.size) ** 0.5)


def padded(box: Box, by: int, size: tuple[int, int]) -> Box:
    """A box with a margin, within the image."""
    return (
        max(0, box[0] - by),
        max(0, box[1] - by),
        min(size[0], box[2] + by),
        min(size[1], box[3] + by),
    )


def within(box: Box, other: Box) -> bool:
    """Whether a box lies wholly inside another."""
    return other[0] <= box[0] and other[1] <= box[1] and box[2] <= other[2] and box[3] <= other[3]


def background(
    image: Image, box: Box, pixels: npt.NDArray[np.uint8] | None = None
) -> tuple[int, int, int]:
    """The colour around a box: the median of its rim. ``pixels`` are the image's, where they are at hand."""
    x0, y0, x1, y1 = padded(box, 2, image.size)
    if pixels is None:
        pixels, box = np.asarray(image.crop((x0, y0, x1, y1))), (0, 0, x1 - x0, y1 - y0)
        x0, y0, x1, y1 = box
    rim = np.concatenate(
        [
            pixels[y0, x0:x1],
            pixels[max(y1 - 1, y0), x0:x1],
            pixels[y0:y1, x0],
            pixels[y0:y1, max(x1 - 1, x0)],
        ]
    )
    r, g, b = np.median(rim, axis=0)
    return int(r), int(g), int(b)


def erased(image: Image, words: Iterable[Word]) -> Image:
    """A copy in which words are painted over with what surrounds them."""
    from PIL import ImageDraw

    altered, pixels = image.copy(), np.asarray(image)
    pen = ImageDraw.Draw(altered)
    for word in words:
        x0, y0, x1, y1 = padded(word.box, 1, image.size)
        pen.rectangle((x0, y0, x1 - 1, y1 - 1), fill=background(image, word.box, pixels))
    return altered


def size_in(image: Image, *cells: tuple[str, Box]) -> float:
    """The size of the letters of texts that stand in boxes: of each as high as its ink, the middle one of all."""
    found = []
    for text, box in cells:
        inside = np.asarray(image.crop(box).convert("L"), dtype=np.float64)
        rows = np.flatnonzero((np.abs(inside - np.median(inside)) > 60).any(axis=1))
        if len(rows) and any(c.isalnum() for c in text):  # a dash tells nothing
            high, words = int(rows[-1] - rows[0] + 1), plain(text)
            ink = font_of(100).getbbox(words)
            about = round(100 * high / max(float(ink[3] - ink[1]), 1.0))
            alike = [
                size for size in range(max(5, about - 2), about + 4) if _high(words, size) == high
            ]
            found.append(sum(alike) / len(alike) if alike else about)
    return max(7.0, median(found or [0.75 * (box[3] - box[1]) for _, box in cells]))


@cache
def _high(text: str, size: int) -> int:
    """Rows in which that text leaves more than a trace."""
    mask = font_of(size).getmask(text)
    rows = np.flatnonzero(
        (np.frombuffer(bytes(mask), dtype=np.uint8).reshape(mask.size[::-1]) > 60).any(axis=1)
    )
    return int(rows[-1] - rows[0] + 1) if len(rows) else 0


def written(image: Image, box: Box, text: str, size: float) -> Image:
    """A copy with a text in a box: of that size, or as small as it takes to stay within the box."""
    from PIL import ImageDraw

    altered, text, size = image.copy(), plain(text), round(size)
    ground = background(image, box)
    ink = (0, 0, 0) if sum(ground) > 380 else (255, 255, 255)
    while font_of(size).getlength(text) > box[2] - box[0] and size > 7:
        size -= 1
    ImageDraw.Draw(altered).text(
        (box[0], (box[1] + box[3]) // 2), text, fill=ink, font=font_of(size), anchor="lm"
    )
    return altered


@cache
def font_of(size: float) -> Any:
    """Pillow's own font."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


@cache
def _drawn(letter: str) -> bool:
    """Whether the font has that letter, and not the box that stands for all others."""
    return letter.isspace() or bytes(font_of(15).getmask(letter)) != bytes(
        font_of(15).getmask("\uffff")
    )


def plain(text: str) -> str:
    """A text in the letters that the font has: without accents, dashes as hyphens; what is neither stays.

    >>> plain("C\u00f4te d'Or, 1914\u20131918")
    "Cote d'Or, 1914-1918"
    """
    if text.isascii():
        return text
    return "".join(
        c
        if _drawn(c)
        else _NEAR.get(c) or "".join(b for b in normalize("NFKD", c) if not combining(b))
        for c in text
    )


def drawable(text: str) -> bool:
    """Whether a text can be drawn so that it can be read.

    >>> drawable("Malm\u00f6, 1 m"), drawable("\u6771\u4eac")
    (True, False)
    """
    return all(_drawn(c) for c in set(plain(text)))
