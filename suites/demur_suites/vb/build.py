"""A small set of families, made from the photos of the sample corpus by edits with a certain effect.

    category           base photo                                        | edited photo
    OCCLUSION          an opaque grey panel covers the subject           | without the panel
    OUT_OF_FRAME       cropped so that the subject is outside            | the whole photo
    LIGHTING_DISTANCE  a sign in the dark, out of focus                  | lit and in focus
    LIGHTING_DISTANCE  a sign so small that no letter can be read        | large enough to read

The base photo never supports the claim, so gold follows the XOR pattern by construction. The boxes of the subjects were
measured by eye, with a margin; the signs are drawn (`LETTERS`). Gaze, context, non-visual and second-order families
need people in front of a camera: the set has none, so ToMAcc is undefined on it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from demur.core.store import (
    Problems,
    canonical,
    read_json,
    read_jsonl,
    seed_of,
    storage_errors,
    write_atomic,
    write_json,
)
from demur.sample import atlas
from demur_suites.vb.items import CELLS, XOR, Category, FamilyLine

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 768
"""Longer side of the made photos, in pixels."""
LETTERS = {"near": 44, "far": 3}
"""Height of a sign's capital letters in pixels."""
DARK = 0.08
"""Brightness of a dark photo, as a share of the original's."""
JPEG = 88


Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in shares of width and height."""


class SamplePhotos(NamedTuple):
    """What is known of the sample's photos (``data/sample-photos.json``), by their names.

    Attributes:
        subjects: photo -> its subject, as the questions name it.
        covered: photo -> the box around its subject.
        cropped: photo -> the box of a part of it without its subject.
        darkened: photos that get a sign and are darkened.
        far: photos that get a sign which is too far away.
        words: of the signs.
    """

    subjects: dict[str, str]
    covered: dict[str, Box]
    cropped: dict[str, Box]
    darkened: list[str]
    far: list[str]
    words: list[str]


def build(out: Path, *, seed: int = 0) -> Path:
    """Write ``families.jsonl``, its photos below ``images/`` and ``manifest.json`` into ``out``.

    Args:
        out: folder; equal seeds give equal bytes under one version of Pillow.
        seed: decides which word is on which sign, and where the sign is.

    Returns:
        ``out``.

    Raises:
        StorageError: it cannot be written.
    """
    from PIL import __version__ as pillow

    known = SamplePhotos(**read_json(Path(__file__).with_name("data") / "sample-photos.json"))
    words = sorted(known.words, key=lambda w: seed_of(seed, "word", w))
    lines = []
    for kind, category, boxes in (
        ("OC", Category.OCCLUSION, known.covered),
        ("OF", Category.OUT_OF_FRAME, known.cropped),
    ):
        for number, (name, box) in enumerate(boxes.items(), start=1):
            photo, subject = _photo(name), known.subjects[name]
            if category is Category.OCCLUSION:
                base, edit = (
                    _cover(photo, box),
                    f"an opaque panel over the box {tuple(box)} was lifted",
                )
            else:
                base, edit = (
                    _crop(photo, box),
                    f"the crop to {tuple(box)} was widened to the whole photo",
                )
            asked = (
                f"Is {subject} visible in this photo?",
                f"Is it impossible to see {subject} in this photo?",
            )
            id = f"{kind}-{number:02d}"
            lines.append(_family(out, id, category, (base, photo), asked, name, image_edit=edit))
    for number, name in enumerate((*known.darkened, *known.far), start=1):
        photo, word = _photo(name), words[number - 1]
        near = _sign(photo, word, LETTERS["near"], seed)
        if name in known.darkened:
            base, edit = _darken(near), f"the light was raised from {DARK:.0%}, and the focus set"
        else:
            base, edit = (
                _sign(photo, word, LETTERS["far"], seed),
                (
                    f"the sign came nearer: letters of {LETTERS['near']} instead of {LETTERS['far']} pixels"
                ),
            )
        lines.append(
            _family(
                out,
                f"LD-{number:02d}",
                Category.LIGHTING_DISTANCE,
                (base, near),
                (
                    "Can the word on the white sign be read in this photo?",
                    "Is it impossible to read the word on the white sign in this photo?",
                ),
                name,
                image_edit=edit,
                word=word,
            )
        )
    write_atomic(out / "families.jsonl", "".join(canonical(line) + "\n" for line in lines))
    write_json(
        out / "manifest.json",
        {"suite": "vb", "seed": seed, "families": len(lines), "pillow": pillow},
    )
    return out


def _family(
    out: Path,
    id: str,
    category: Category,
    photos: tuple[Image, Image],
    questions: tuple[str, str],
    photo: str,
    **about: str,
) -> dict[str, object]:
    places = []
    for which, image in zip(("base", "edited"), photos, strict=True):
        places.append(f"images/{id}-{which}.jpg")
        data = io.BytesIO()
        image.save(data, "JPEG", quality=JPEG, subsampling=0)
        write_atomic(out / places[-1], data.getvalue())
    line = FamilyLine(
        id=id,
        category=category,
        base_question=questions[0],
        edited_question=questions[1],
        base_image=places[0],
        edited_image=places[1],
        gold=dict(zip(CELLS, XOR, strict=True)),
        licence=_licence(photo),
        provenance={"photo": f"sample corpus: photos/{photo}.jpg", **about},
    )
    return line.model_dump(mode="json")


def _licence(photo: str) -> str:
    rows = read_jsonl(atlas() / "kb_images.jsonl", Problems())
    return next(
        (str(row["licence"]) for _, row in rows if row["file"] == f"images/photos/{photo}.jpg"), ""
    )


def _photo(name: str) -> Image:
    from PIL import Image as images

    path = atlas() / "images" / "photos" / f"{name}.jpg"
    with storage_errors(path), images.open(path) as opened:
        photo = opened.convert("RGB")
    share = SIDE / max(photo.size)
    return photo.resize(
        (round(photo.width * share), round(photo.height * share)), images.Resampling.LANCZOS
    )


def _pixels(photo: Image, box: Box) -> tuple[int, int, int, int]:
    x0, y0, x1, y1 = box
    return (
        round(x0 * photo.width),
        round(y0 * photo.height),
        round(x1 * photo.width),
        round(y1 * photo.height),
    )


def _cover(photo: Image, box: Box) -> Image:
    from PIL import ImageDraw

    made = photo.copy()
    ImageDraw.Draw(made).rectangle(
        _pixels(photo, box), fill=(120, 120, 124), outline=(70, 70, 74), width=4
    )
    return made


def _crop(photo: Image, box: Box) -> Image:
    return photo.crop(_pixels(photo, box))


def _darken(photo: Image) -> Image:
    from PIL import ImageEnhance, ImageFilter

    return ImageEnhance.Brightness(
        photo.filter(ImageFilter.GaussianBlur(LETTERS["near"] / 2))
    ).enhance(DARK)


def _sign(photo: Image, word: str, height: int, seed: int) -> Image:
    """The photo with a white sign near its lower edge, drawn large and scaled to the height of its letters."""
    from PIL import Image as images
    from PIL import ImageDraw, ImageFont

    font = ImageFont.load_default(120)
    left, top, right, bottom = font.getbbox(word)
    board = images.new("RGB", (int(right - left) + 80, int(bottom - top) + 80), "white")
    pen = ImageDraw.Draw(board)
    pen.rectangle((0, 0, board.width - 1, board.height - 1), outline="black", width=8)
    pen.text((40 - left, 40 - top), word, fill="black", font=font)
    share = height / (bottom - top)
    size = (max(2, round(board.width * share)), max(2, round(board.height * share)))
    board = board.resize(size, images.Resampling.LANCZOS)
    middle = 0.25 + 0.5 * (seed_of(seed, "place", word) % 1000) / 1000
    x = min(max(round(middle * photo.width - board.width / 2), 0), photo.width - board.width)
    made = photo.copy()
    made.paste(board, (x, round(0.86 * photo.height) - board.height // 2))
    return made
