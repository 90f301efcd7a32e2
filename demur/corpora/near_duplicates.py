"""Near-duplicates: texts with nearly the same words, images that show the same picture.

Text: the share of common word five-grams (Broder 1997's resemblance, and containment for a short text within a long
one). Images: two tests, which must agree.

1. Hashes find candidates: a DCT hash and a difference hash, 64 bits each, the colours of a 4 x 4 grid (brightness alone
   takes the flag of Italy for the flag of Ireland) and the shape.
2. Strokes decide: two small copies in shades of grey must have ink in the same places, within a pixel. Hashes only see
   how light and dark are distributed. That is the same for drawings of two molecules, for pages of print and for maps
   with another region marked, which differ in one stroke.

An image inside a frame of one colour is compared without the frame too, so that a border or the margin of a drawing
makes no difference.
"""

from __future__ import annotations

import base64
import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from demur.core.errors import DataError, StorageError
from demur.core.images import open_image
from demur.core.records import ImageRef
from demur.core.store import Problems, canonical, read_jsonl
from demur.core.text import stream_safe
from demur.core.uris import read_image

if TYPE_CHECKING:
    from PIL import Image

SHINGLE = 5
TEXT_NEAR = 0.8
"""Share of the shorter text's five-grams that must stand in the other for the texts to count as the same."""
IMAGE_NEAR = 10
"""Largest distance of each hash, in bits of 64, at which two images are compared stroke by stroke."""
COARSE, FINE = 96, 160
"""Side, in pixels, of the copies compared stroke by stroke: for photographs and small images, and for drawings."""
STROKE_NEAR = {COARSE: 0.19, FINE: 0.24}
"""Side -> largest difference of the worst 3 x 3 pixels at which two images are the same; 1 is black for white.

``tests/curation/test_near_duplicates.py`` measures the errors: how many of nine kinds of similar pictures are taken for
copies, and how many of eleven kinds of copies are missed.
"""
SPARSE = 0.5
"""An image is a drawing if at least this share of it has the brightness of its background."""
SHAPE_NEAR = 0.1
"""Largest difference in the logarithm of width : height."""
CROPS = (0.01, 0.021)
"""Shares of a side by which one image may be cropped all around."""
COLOUR_NEAR = 48
"""Largest difference in any channel (0 to 255) of any field of the colour grids."""


_ASCII_WORD = re.compile(r"\w+", re.ASCII)


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return re.findall(r"\w+", unicodedata.normalize("NFKC", stream_safe(text)).casefold())


@lru_cache(maxsize=65_536)
def shingles(text: str) -> frozenset[int]:
    """Hashes of the word five-grams of a text, without case and punctuation (of all its words if it has fewer)."""
    words = _words(text)
    if not words:
        return frozenset()
    return frozenset(
        hash(tuple(words[i : i + SHINGLE])) for i in range(max(1, len(words) - SHINGLE + 1))
    )


_BITS = [1 << place for place in range(1024)]


@lru_cache(maxsize=65_536)
def _sketch(text: str, threshold: float) -> tuple[int, float]:
    """(the words of a text as a set of 1024 bits, how many of them a text that repeats it shares at least).

    Every word that the other text lacks costs the five-gram that begins with it, except among the last four words. So
    the shorter text may lack at most four words more than it may lack five-grams.
    """
    words = _words(text)
    if len(words) < SHINGLE:
        return 0, -math.inf
    bits = sum(map(_BITS.__getitem__, {hash(word) & 1023 for word in words}))
    tail = SHINGLE - 1
    return bits, bits.bit_count() - tail - max(0.0, 1 - threshold) * (len(words) - tail)


def _may_repeat(text: str, other_text: str, threshold: float) -> bool:
    """A cheap test before `same_text`, never False where that is True: do the texts share enough words?"""
    (a, of_a), (b, of_b) = _sketch(text, threshold), _sketch(other_text, threshold)
    return (a & b).bit_count() >= min(of_a, of_b)


def same_text(text: str, other_text: str, threshold: float = TEXT_NEAR) -> bool:
    """Whether at least ``threshold`` of the shorter text's five-grams stand in the other.

    >>> same_text("The tower is 330 metres high, built in 1889.", "the tower is 330 metres high - built in 1889")
    True
    """
    if not _may_repeat(text, other_text, threshold):
        return False
    a, b = shingles(text), shingles(other_text)
    return bool(a and b) and len(a & b) >= threshold * min(len(a), len(b))


class View(NamedTuple):
    """The hashes of one view of an image: some 200 bytes, and the compressed strokes (1 to 4 kB)."""

    dct: int
    """DCT hash: which of the 8 x 8 lowest frequencies lie above their median (Zauner 2010)."""
    difference: int
    """Difference hash: which of 8 x 8 fields are brighter than their right neighbour."""
    spread: float
    """Standard deviation of the brightness, 0 to 127; below 1 the image is flat and its hashes mean nothing."""
    colours: bytes
    """Mean red, green and blue (0 to 255) of a 4 x 4 grid, row by row: 48 of them."""
    shape: float
    """Logarithm of width : height."""
    strokes: bytes
    """`FINE` x `FINE` shades of grey, or `COARSE`: 16 shades, two pixels a byte, by zlib."""


class ImageHash(NamedTuple):
    """The views of an image: as it is, and without its frame of one colour, if it has one."""

    views: tuple[View, ...]

    @property
    def whole(self) -> View:
        """The image as it is."""
        return self.views[0]


def _as_bits(values: np.ndarray) -> int:
    return int.from_bytes(np.packbits(values.astype(np.uint8).ravel()).tobytes(), "big")


def image_hash(data: bytes) -> ImageHash:
    """The hashes of an encoded image. Transparency becomes white, and the EXIF orientation is applied.

    Raises:
        DataError: as for `demur.core.images.open_image`.
    """
    from PIL import Image, ImageOps

    with open_image(data, "") as packed:
        turned = ImageOps.exif_transpose(packed)
        if turned.mode not in ("RGB", "L", "CMYK"):
            rgba = turned.convert("RGBA")
            turned = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
        colour = turned.convert("RGB")
        inner = _within_frame(colour)
        return ImageHash(
            tuple(_view(image) for image in ([colour] if inner is None else [colour, inner]))
        )


def _view(colour: Image.Image) -> View:
    from PIL import Image

    grey = colour.convert("L")
    grid = np.asarray(colour.resize((4, 4), Image.Resampling.BOX))
    small_grey = np.asarray(grey.resize((32, 32), Image.Resampling.LANCZOS), dtype=np.float64)
    coarse = np.asarray(grey.resize((9, 8), Image.Resampling.LANCZOS), dtype=np.float64)
    angle = np.pi * (2 * np.arange(32) + 1) * np.arange(8)[:, None] / 64
    flat = (np.cos(angle) @ small_grey @ np.cos(angle).T).ravel()
    # drawings have many coefficients that are zero but for rounding: a bit is set only well above the median
    clear = np.median(flat[1:]) + 0.02 * np.abs(flat[1:]).max()
    drawing = np.mean(np.abs(small_grey - np.median(small_grey)) < 16) >= SPARSE
    side = FINE if drawing and min(grey.size) >= FINE else COARSE
    resampling = Image.Resampling.BOX if min(grey.size) >= side else Image.Resampling.BILINEAR
    shades = np.asarray(grey.resize((side, side), resampling), dtype=np.uint8) >> 4
    return View(
        _as_bits(flat > clear),
        _as_bits(coarse[:, 1:] > coarse[:, :-1] + 2),
        float(small_grey.std()),
        grid.tobytes(),
        round(math.log(colour.width / colour.height), 4),
        zlib.compress((shades[:, ::2] << 4 | shades[:, 1::2]).tobytes(), 6),
    )


FRAME_NEAR = 40
"""Largest difference from the frame's colour, in any channel (0 to 255), that still counts as frame."""


def _within_frame(colour: Image.Image) -> Image.Image | None:
    """An image without the frame of one colour all around it; None if it has no frame, or little inside."""
    from PIL import Image

    shrink = max(1.0, max(colour.size) / 256)
    size = (max(1, round(colour.width / shrink)), max(1, round(colour.height / shrink)))
    small = np.asarray(colour.resize(size, Image.Resampling.BOX) if shrink > 1 else colour).astype(
        np.int16
    )
    frame = np.median(np.concatenate([small[0], small[-1], small[:, 0], small[:, -1]]), axis=0)
    inked = np.abs(small - frame).max(axis=2) > FRAME_NEAR
    if inked[0].any() or inked[-1].any() or inked[:, 0].any() or inked[:, -1].any():
        return None
    rows, columns = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
    if len(rows) < 8 or len(columns) < 8:
        return None

    def edge_line(cells: np.ndarray, axis: int, last: bool) -> int:
        """The first or last inked line of pixels along an axis, near the first or last inked line of cells."""
        long, cell = colour.size[axis], colour.size[axis] / size[axis]
        at = int(cells[-1] if last else cells[0])
        low, high = max(0, math.floor((at - 1) * cell)), min(long, math.ceil((at + 2) * cell))
        box = (low, 0, high, colour.height) if axis == 0 else (0, low, colour.width, high)
        strip = (
            np.abs(np.asarray(colour.crop(box)).astype(np.int16) - frame).max(axis=2) > FRAME_NEAR
        )
        lines = np.flatnonzero(strip.any(axis=axis))
        return low + int(lines[-1 if last else 0]) if len(lines) else low

    return colour.crop(
        (
            edge_line(columns, 0, False),
            edge_line(rows, 1, False),
            edge_line(columns, 0, True) + 1,
            edge_line(rows, 1, True) + 1,
        )
    )


def same_picture(image: ImageHash, other_image: ImageHash, threshold: int = IMAGE_NEAR) -> bool:
    """Whether two images show the same picture: re-encoded, resized, slightly cropped or with another border.

    Args:
        threshold: largest distance of the hashes, in bits of 64. The strokes are compared in any case.

    Flat images are compared by their colours alone.
    """
    return any(_same_view(a, b, threshold) for a in image.views for b in other_image.views)


def similar_hashes(view: View, other_view: View, threshold: int = IMAGE_NEAR) -> bool:
    """Whether hashes, colours and shape of two views agree; everything but the strokes."""
    if abs(view.shape - other_view.shape) > SHAPE_NEAR or view.spread < 1 or other_view.spread < 1:
        return False
    near = (view.dct ^ other_view.dct).bit_count() <= threshold and (
        view.difference ^ other_view.difference
    ).bit_count() <= threshold
    return near and _same_colours(view, other_view)


def _same_colours(view: View, other_view: View) -> bool:
    return (
        max(abs(a - b) for a, b in zip(view.colours, other_view.colours, strict=True))
        <= COLOUR_NEAR
    )


def _same_view(view: View, other_view: View, threshold: int) -> bool:
    if view.spread < 1 and other_view.spread < 1:
        return _same_colours(view, other_view)
    return similar_hashes(view, other_view, threshold) and same_strokes(
        view.strokes, other_view.strokes
    )


def same_strokes(strokes: bytes, other_strokes: bytes) -> bool:
    """Whether two pictures have the same strokes, also if one is cropped all around by up to a fiftieth."""
    if strokes == other_strokes:
        return True
    a, b = _shades(strokes), _shades(other_strokes)
    side = min(len(a), len(b))
    a, b, near = _resized(a, side), _resized(b, side), STROKE_NEAR[side]
    if _difference(a, b) <= near:
        return True
    if _difference(a, b, reach=1 + math.ceil(CROPS[-1] * side)) > near:
        return False  # no crop can bring them together
    return any(
        _difference(_inner_part(a, share), b) <= near
        or _difference(a, _inner_part(b, share)) <= near
        for share in CROPS
    )


def _shades(strokes: bytes) -> np.ndarray:
    """The shades of packed strokes, `FINE` or `COARSE` a side, 0 to 240.

    Raises:
        DataError: they are damaged.
    """
    try:
        packed = np.frombuffer(zlib.decompress(strokes), dtype=np.uint8)
        side = FINE if packed.size > COARSE * COARSE // 2 else COARSE
        packed = packed.reshape(side, side // 2)
    except (zlib.error, ValueError) as error:
        raise DataError(
            f"damaged strokes of an image: {error}", cure="remove the file; demur writes it again"
        ) from error
    shades = np.empty((side, side), dtype=np.uint8)
    shades[:, ::2], shades[:, 1::2] = packed & 0xF0, packed << 4
    return shades


def _resized(shades: np.ndarray, side: int) -> np.ndarray:
    """A picture at another size."""
    from PIL import Image

    if len(shades) == side:
        return shades
    return np.asarray(
        Image.fromarray(shades).resize((side, side), Image.Resampling.BILINEAR), dtype=np.uint8
    )


def _inner_part(shades: np.ndarray, share: float) -> np.ndarray:
    """The inner part of a picture at the size of the whole."""
    from PIL import Image

    side = len(shades)
    inner = (share * side, share * side, side - share * side, side - share * side)
    cut = Image.fromarray(shades).resize((side, side), Image.Resampling.BILINEAR, box=inner)
    return np.asarray(cut, dtype=np.uint8)


def _difference(a: np.ndarray, b: np.ndarray, reach: int = 1) -> float:
    """How far one picture lies outside the other's range within ``reach`` pixels: mean of the worst 3 x 3 pixels.

    Returns:
        0 to 1; 1 is the whole contrast.
    """
    contrast = max(int(np.ptp(a)), int(np.ptp(b)), 16)
    out = np.maximum(_out_of_range(a, b, reach), _out_of_range(b, a, reach)).astype(np.uint16)
    rows = out[:-2] + out[1:-1] + out[2:]
    return float((rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]).max()) / (9 * contrast)


def _out_of_range(a: np.ndarray, b: np.ndarray, reach: int) -> np.ndarray:
    high, low = b, b
    for _ in range(reach):
        high, low = _widened(high, np.maximum), _widened(low, np.minimum)
    out: np.ndarray = (np.maximum(a, high) - high) + (low - np.minimum(a, low))
    return out


def _widened(values: np.ndarray, extreme: Callable[..., np.ndarray]) -> np.ndarray:
    """The maximum (or minimum) of each pixel and its eight neighbours."""
    across = values.copy()
    extreme(across[:, 1:], values[:, :-1], out=across[:, 1:])
    extreme(across[:, :-1], values[:, 1:], out=across[:, :-1])
    widened = across.copy()
    extreme(widened[1:], across[:-1], out=widened[1:])
    extreme(widened[:-1], across[1:], out=widened[:-1])
    return widened


SameImage = Literal["look", "bytes"]
"""How images are compared: by their look, or by their bytes alone."""
IMAGE_THRESHOLDS: dict[SameImage, int] = {"look": IMAGE_NEAR, "bytes": -1}
"""The same as a threshold of `same_picture`."""
HASHES_IN_MEMORY = 1 << 15
"""Image hashes kept in memory where there may be any number of images: 50 MB for drawings, 150 MB for photographs."""


class ImageHashes:
    """Hashes of images by their SHA-256; each image is read and hashed once.

    Args:
        root: folder that image uris are relative to.
        hash_file: file of hashes that `lines` wrote earlier; it need not exist.
        most: how many hashes stay in memory, the last used ones; None for all, which `lines` needs.
    """

    def __init__(
        self, root: Path | None = None, hash_file: Path | None = None, most: int | None = None
    ) -> None:
        self._root, self._most = root, most
        self._hashes: dict[str, ImageHash | None] = {}
        for _, row in (
            read_jsonl(hash_file, Problems())
            if hash_file is not None and hash_file.is_file()
            else ()
        ):
            self._hashes[row["sha256"]] = ImageHash(
                tuple(
                    View(
                        int(view["dct"], 16),
                        int(view["difference"], 16),
                        view["spread"],
                        bytes.fromhex(view["colours"]),
                        view["shape"],
                        base64.b64decode(view["strokes"]),
                    )
                    for view in row["views"]
                )
            )

    def __call__(self, image: ImageRef) -> ImageHash | None:
        """The hashes of an image; None if it cannot be read."""
        try:
            hashes = self._hashes.pop(image.sha256)  # it goes back in last
        except KeyError:
            try:
                hashes = image_hash(read_image(image, self._root))
            except (DataError, StorageError):
                hashes = None
        self._hashes[image.sha256] = hashes
        if self._most is not None and len(self._hashes) > self._most:
            del self._hashes[next(iter(self._hashes))]
        return hashes

    def read(self, image: ImageRef, data: bytes) -> ImageHash | None:
        """The hashes of an image whose bytes were read already.

        Raises:
            DataError: the bytes are no readable image.
        """
        if self._hashes.get(image.sha256) is None:
            self._hashes[image.sha256] = image_hash(data)
        return self._hashes[image.sha256]

    def lines(self) -> bytes:
        """The hashes of all readable images as JSON lines, ordered by SHA-256."""
        return b"".join(
            canonical(
                {"sha256": sha, "views": [_as_json(view) for view in image_hash.views]}
            ).encode()
            + b"\n"
            for sha, image_hash in sorted(self._hashes.items())
            if image_hash is not None
        )


def _as_json(view: View) -> dict[str, object]:
    return {
        "dct": f"{view.dct:x}",
        "difference": f"{view.difference:x}",
        "spread": view.spread,
        "colours": view.colours.hex(),
        "shape": view.shape,
        "strokes": base64.b64encode(view.strokes).decode("ascii"),
    }


def image_matcher(
    images: Sequence[ImageRef],
    image_hashes: Callable[[ImageRef], ImageHash | None],
    threshold: int = IMAGE_NEAR,
) -> Callable[[ImageRef], str]:
    """A function that says how a picture matches one of ``images``: ``same bytes``, ``same look``, or "" for no match.

    Args:
        images: their hashes are made once, when the first other picture is compared with them.
        image_hashes: the hashes of an image, see `ImageHashes`.
        threshold: as for `same_picture`; below 0 only bytes are compared.
    """
    bytes_ = {image.sha256 for image in images}
    compared = images if threshold >= 0 else ()
    hashes_of_images: list[ImageHash] | None = None

    def match(image: ImageRef) -> str:
        nonlocal hashes_of_images
        if image.sha256 in bytes_:
            return "same bytes"
        if hashes_of_images is None:
            hashes_of_images = [
                image_hash for other in compared if (image_hash := image_hashes(other))
            ]
        other = image_hashes(image) if hashes_of_images else None
        return (
            "same look"
            if other
            and any(same_picture(image_hash, other, threshold) for image_hash in hashes_of_images)
            else ""
        )

    return match
