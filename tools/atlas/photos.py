"""Photographs in the public domain or under CC0, out of the GCompris bundles; ``photos.json`` is their table.

The bundles hold material under many licences. A photo is taken only when its own bundle's README lists it as public
domain or CC0; everything else (most of it GPL or CC-BY-SA) is never read.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from tools.atlas.inputs import DEBIAN, PHOTO_BUNDLES
from tools.atlas.rcc import read_rcc

SOURCE = f"Debian gcompris-qt-data {DEBIAN['gcompris-qt-data']}"
FREE = re.compile(r"public domain|cc0", re.IGNORECASE)
"""The licences (at their start) under which a photo is taken."""


@dataclass(frozen=True)
class Photo:
    """One licensed photo of a bundle."""

    bundle: str
    path: str
    licence: str
    author: str
    origin: str
    """The page that the bundle's README names as its source; "" where it names none."""

    @property
    def source(self) -> str:
        """Package, bundle and page it came from."""
        return f"{SOURCE} ({self.bundle})" + (f"; {self.origin}" if self.origin else "")


def table() -> dict[str, list[dict[str, Any]]]:
    """The photographed things: landmarks, animals, fish, planets."""
    loaded: dict[str, list[dict[str, Any]]] = json.loads(
        Path(__file__).with_name("photos.json").read_text(encoding="utf-8")
    )
    return loaded


@cache
def _bundle(path: Path) -> dict[str, bytes]:
    return read_rcc(path)


@cache
def free_photos(inputs: Path) -> dict[str, Photo]:
    """``folder_name`` -> photo, for every photo that a bundle's README lists under a free licence."""
    found: dict[str, Photo] = {}
    for path in sorted((inputs / PHOTO_BUNDLES).glob("*.rcc")):
        try:
            bundle = _bundle(path)
        except ValueError:
            continue  # zstd inside: holds none of the photos of the table
        for readme in (name for name in bundle if name.endswith("README")):
            for photo in _listed(
                path.name, readme.removesuffix("README"), bundle[readme].decode("utf-8", "replace")
            ):
                if photo.path in bundle and FREE.match(photo.licence):
                    found["_".join(photo.path.rsplit(".", 1)[0].split("/")[-2:])] = photo
    return found


def _listed(bundle: str, folder: str, readme: str) -> list[Photo]:
    """Photos of a README: paragraphs of ``Files:``, ``Source:``, ``Copyright:`` and ``License:`` lines."""
    listed = []
    for paragraph in re.split(r"\n\s*\n", readme):
        fields = {
            key.lower(): value.strip() for key, value in re.findall(r"(\w+): *(.*)", paragraph)
        }
        licence = fields.get("license") or fields.get("licence")
        names = re.search(r"Files?:\s*\n?(.*)", paragraph, re.S)
        if licence and names:
            for name in (line.strip() for line in names[1].split("\n")):
                if name.endswith(("webp", "jpg", "png")):
                    path = folder + name
                    listed.append(
                        Photo(
                            bundle,
                            path,
                            licence,
                            fields.get("copyright", ""),
                            fields.get("source", ""),
                        )
                    )
    return listed


def open_photo(inputs: Path, name: str) -> tuple[Image.Image, Photo]:
    """The photo in RGB (planets on black, others on white) and where it comes from.

    Raises:
        KeyError: no README lists it under a free licence.
    """
    photo = free_photos(inputs)[name]
    content = _bundle(inputs / PHOTO_BUNDLES / photo.bundle)[photo.path]
    with Image.open(io.BytesIO(content)) as opened:
        layered = opened.convert("RGBA")
    ground = Image.new(
        "RGB", layered.size, "#000000" if name.startswith("resource_") else "#ffffff"
    )
    ground.paste(layered, (0, 0), layered)
    return ground, photo


@dataclass(frozen=True)
class Pair:
    """The knowledge base's photo of a thing and the query's."""

    kept: Image.Image
    kept_photo: Photo
    query: Image.Image
    query_photo: Photo


def pair(inputs: Path, names: list[str]) -> Pair:
    """Two photographs where the table names two; else two overlapping, never equal, parts of the one there is."""
    kept, kept_photo = open_photo(inputs, names[0])
    if len(names) > 1:
        query, query_photo = open_photo(inputs, names[1])
        return Pair(_small(kept, 256), kept_photo, _small(query, 224), query_photo)
    width, height = kept.size
    query = kept.crop((0, 0, int(width * 0.8), int(height * 0.88)))
    part = kept.crop((int(width * 0.14), int(height * 0.08), width, height))
    return Pair(_small(part, 256), kept_photo, _small(query, 224), kept_photo)


def _small(image: Image.Image, longest: int) -> Image.Image:
    scaled = image.copy()
    scaled.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return scaled
