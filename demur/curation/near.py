"""Near-duplicates: texts that say the same in nearly the same words, images that show the same picture.

Text: the share of common word five-grams (Broder 1997's resemblance, and containment for a short text within a long
one). Images: a DCT hash and a difference hash, 64 bits each, and the colours of a 4 x 4 grid, all three of which must
agree: hashes of brightness alone take the flag of Italy for the flag of Ireland.
"""

from __future__ import annotations

import io
import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from demur.errors import DataError, StorageError
from demur.records import ImageRef
from demur.store import IMAGE_HEADER, MAX_PIXELS, Problems, canonical, read_image, read_jsonl, readable_formats

SHINGLE = 5
TEXT_NEAR = 0.8
"""Share of common five-grams, of the shorter text's, from which two texts count as the same."""
IMAGE_NEAR = 4
"""Greatest distance in bits, of 64, at which both hashes call two images the same.

On the 566 images of Atlas 4 finds 0.96 of copies saved as JPEG at quality 60 and 0.99 of copies at half size, and takes
two pairs of different flags for one; 10 finds all, and takes twelve pairs.
"""
COLOUR_NEAR = 48
"""Greatest difference in any channel of any field of the grids, of 255, at which two images are the same."""


@lru_cache(maxsize=65_536)
def shingles(text: str) -> frozenset[int]:
    """Hashes of the word five-grams of a text, case and punctuation aside (all its words when it has fewer)."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    if not words:
        return frozenset()
    return frozenset(hash(tuple(words[i : i + SHINGLE])) for i in range(max(1, len(words) - SHINGLE + 1)))


def same_text(one: str, other: str, threshold: float = TEXT_NEAR) -> bool:
    """Whether at least ``threshold`` of the shorter text's five-grams stand in the other.

    >>> same_text("The tower is 330 metres high, built in 1889.", "the tower is 330 metres high - built in 1889")
    True
    """
    a, b = shingles(one), shingles(other)
    return bool(a and b) and len(a & b) >= threshold * min(len(a), len(b))


class Look(NamedTuple):
    """What an image looks like, in 2 x 64 bits."""

    dct: int
    """Signs of the 8 x 8 lowest frequencies about their median (Zauner 2010)."""
    difference: int
    """Whether each of 8 x 8 fields is brighter than its right neighbour."""
    spread: float
    """Standard deviation of the brightness, 0 to 127; below 1 the image is flat and its hashes mean nothing."""
    colours: bytes
    """Mean red, green and blue (0 to 255) of a 4 x 4 grid, row by row: 48 of them."""


def _bits(values: np.ndarray) -> int:
    return int.from_bytes(np.packbits(values.astype(np.uint8).ravel()).tobytes(), "big")


def look(data: bytes) -> Look:
    """Hashes of an encoded image; transparency is laid on white and an EXIF turn is undone.

    Raises:
        DataError: it cannot be read, or has more than `MAX_PIXELS` pixels.
    """
    from PIL import Image, ImageOps

    try:
        with IMAGE_HEADER, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened = Image.open(io.BytesIO(data), formats=readable_formats())
        with opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise DataError(
                    f"the image has {opened.width}x{opened.height} pixels, more than {MAX_PIXELS:,}",
                    cure="scale it down first",
                )
            turned = ImageOps.exif_transpose(opened)
            if turned.mode not in ("RGB", "L", "CMYK"):
                rgba = turned.convert("RGBA")
                turned = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
            colour = turned.convert("RGB")
            grey = colour.convert("L")
            grid = np.asarray(colour.resize((4, 4), Image.Resampling.BOX))
            fine = np.asarray(grey.resize((32, 32), Image.Resampling.LANCZOS), dtype=np.float64)
            coarse = np.asarray(grey.resize((9, 8), Image.Resampling.LANCZOS), dtype=np.float64)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"the image cannot be read: {error}", cure="fetch it again") from error
    angle = np.pi * (2 * np.arange(32) + 1) * np.arange(8)[:, None] / 64
    low = np.cos(angle) @ fine @ np.cos(angle).T
    flat = low.ravel()
    # drawings have many coefficients that are zero but for rounding: a bit is set only well above the median
    clear = np.median(flat[1:]) + 0.02 * np.abs(flat[1:]).max()
    return Look(
        _bits(flat > clear),
        _bits(coarse[:, 1:] > coarse[:, :-1] + 2),
        float(fine.std()),
        grid.tobytes(),
    )


def same_look(one: Look, other: Look, threshold: int = IMAGE_NEAR) -> bool:
    """Whether both hashes differ in at most ``threshold`` bits, and the colours in at most `COLOUR_NEAR`.

    Of flat images the colours alone are compared.
    """
    if max(abs(a - b) for a, b in zip(one.colours, other.colours, strict=True)) > COLOUR_NEAR:
        return False
    if one.spread < 1 or other.spread < 1:
        return one.spread < 1 and other.spread < 1
    return (one.dct ^ other.dct).bit_count() <= threshold and (
        one.difference ^ other.difference
    ).bit_count() <= threshold


REMEMBERED = 1 << 16
"""Looks remembered where images may be any number, some 30 MB."""


class Looks:
    """What images look like: each is read and hashed once, and known by its SHA-256 from then on.

    Args:
        root: folder that relative paths start from.
        kept: a file with `lines` of an earlier reader, for images that need not be read again.
        most: how many are remembered, those asked of last; None for all, which `lines` then has.
    """

    def __init__(self, root: Path | None = None, kept: Path | None = None, most: int | None = None) -> None:
        self._root, self._most = root, most
        self._known: dict[str, Look | None] = {}
        for _, row in read_jsonl(kept, Problems()) if kept else ():
            self._known[row["sha256"]] = Look(
                int(row["dct"], 16), int(row["difference"], 16), row["spread"], bytes.fromhex(row["colours"])
            )

    def __call__(self, image: ImageRef) -> Look | None:
        """The look of an image; None of one that cannot be read."""
        try:
            found = self._known.pop(image.sha256)  # and back in, behind those that were asked of before
        except KeyError:
            try:
                found = look(read_image(image, self._root))
            except (DataError, StorageError):
                found = None
        self._known[image.sha256] = found
        if self._most is not None and len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return found

    def read(self, image: ImageRef, data: bytes) -> Look | None:
        """The look of an image whose bytes are at hand.

        Raises:
            DataError: they are no image that can be read.
        """
        if self._known.get(image.sha256) is None:
            self._known[image.sha256] = look(data)
        return self._known[image.sha256]

    def lines(self) -> bytes:
        """What is known of readable images, as JSON lines, ordered by their hashes."""
        return b"".join(
            canonical({
                "sha256": sha, "dct": f"{look.dct:x}", "difference": f"{look.difference:x}", "spread": look.spread,
                "colours": look.colours.hex(),
            }).encode() + b"\n"
            for sha, look in sorted(self._known.items())
            if look is not None
        )  # fmt: skip


def showing(
    images: Sequence[ImageRef], looks: Callable[[ImageRef], Look | None], threshold: int = IMAGE_NEAR
) -> Callable[[ImageRef], str]:
    """A function that says whether a picture shows one of these: ``same bytes``, ``same look``, or "" when it does not.

    Args:
        images: what is asked about; their looks are found once, when first another picture is compared with them.
        looks: what an image looks like, see `Looks`.
        threshold: as for `same_look`; below 0 only bytes are compared.
    """
    bytes_ = {image.sha256 for image in images}
    compared = images if threshold >= 0 else ()
    own: list[Look] | None = None

    def shown(image: ImageRef) -> str:
        nonlocal own
        if image.sha256 in bytes_:
            return "same bytes"
        if own is None:
            own = [look for other in compared if (look := looks(other))]
        other = looks(image) if own else None
        return "same look" if other and any(same_look(look, other, threshold) for look in own) else ""

    return shown
