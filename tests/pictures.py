"""Pictures of many kinds, drawn by a seed: what tests of near-duplicates need, whose like no test can download.

Every function gives one encoded picture (PNG, but for photographs' copies), the same bytes for the same arguments.
`copies` makes true near-duplicates of any of them: re-encoded, resized, slightly cropped, with a border.
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from PIL import Image, ImageDraw, ImageFilter, ImageFont

SUBSTITUENTS = ("", "", "", "OH", "NH2", "Cl", "Br", "F", "O-", "N", "CH3", "NO2", "=O", "S")


def png(image: Image.Image) -> bytes:
    """As PNG."""
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def font(size: int) -> Any:
    """Pillow's own font."""
    return ImageFont.load_default(size)


def skeleton(seed: int) -> list[list[str]]:
    """A molecule-like thing: a chain of six-rings, each a list of what hangs on its six corners."""
    dice = random.Random(f"molecule {seed}")
    return [
        [dice.choice(SUBSTITUENTS) for _ in range(6)] for _ in range(dice.choice((1, 1, 2, 2, 3)))
    ]


def analogue(rings: list[list[str]], seed: int) -> list[list[str]]:
    """The same thing with one substituent moved or exchanged: the hardest of neighbours."""
    dice = random.Random(f"analogue {seed}")
    changed = [list(ring) for ring in rings]
    ring = dice.choice(changed)
    one, other = dice.sample(range(6), 2)
    if ring[one] != ring[other] and dice.random() < 0.5:
        ring[one], ring[other] = ring[other], ring[one]
    else:
        ring[one] = dice.choice([s for s in dict.fromkeys(SUBSTITUENTS) if s != ring[one]])
    return changed


def molecule(rings: list[list[str]], size: int = 300) -> bytes:
    """A line drawing of rings side by side, black bonds and letters on white, as drawing programs scale them to fit."""
    scale = 2
    side = size * scale
    image = Image.new("L", (side, side), 255)
    draw = ImageDraw.Draw(image)
    step = side / (len(rings) * 1.75 + 2.6)
    width = max(2, round(side / 120))
    letters = font(round(step * 0.42))
    for number, ring in enumerate(rings):
        x = side / 2 + (number - (len(rings) - 1) / 2) * step * math.sqrt(3)
        y = side / 2
        corners = [
            (x + step * math.sin(math.pi * k / 3), y - step * math.cos(math.pi * k / 3))
            for k in range(6)
        ]
        for k in range(6):
            draw.line([corners[k], corners[(k + 1) % 6]], fill=0, width=width)
            if k % 2 == 0:
                inner = [
                    (x + (cx - x) * 0.82, y + (cy - y) * 0.82)
                    for cx, cy in (corners[k], corners[(k + 1) % 6])
                ]
                draw.line(inner, fill=0, width=width)
            if not ring[k] or (
                len(rings) > 1
                and k in (1, 2, 4, 5)
                and not (
                    (number == 0 and k in (4, 5)) or (number == len(rings) - 1 and k in (1, 2))
                )
            ):
                continue
            cx, cy = corners[k]
            end = (cx + (cx - x) * 0.62, cy + (cy - y) * 0.62)
            draw.line([(cx, cy), end], fill=0, width=width)
            place = (cx + (cx - x) * 0.88, cy + (cy - y) * 0.88)
            draw.text(place, ring[k], fill=0, font=letters, anchor="mm")
    return png(image.resize((size, size), Image.Resampling.LANCZOS))


def chart(seed: int) -> bytes:
    """A bar or line chart: same frame, same colours, other values."""
    dice = random.Random(f"chart {seed}")
    image = Image.new("RGB", (400, 300), "white")
    draw = ImageDraw.Draw(image)
    draw.line([(40, 20), (40, 260), (380, 260)], fill="black", width=2)
    values = [dice.randint(20, 220) for _ in range(dice.choice((5, 6, 8)))]
    step = 330 / len(values)
    if dice.random() < 0.6:
        for n, value in enumerate(values):
            draw.rectangle(
                [50 + n * step, 260 - value, 50 + (n + 0.7) * step, 259], fill=(70, 110, 180)
            )
    else:
        points = [(50 + n * step, 260 - value) for n, value in enumerate(values)]
        draw.line(points, fill=(70, 110, 180), width=3)
    for n in range(len(values)):
        draw.text(
            (50 + n * step, 266),
            dice.choice("ABCDEFGH") + str(dice.randint(1, 99)),
            fill="black",
            font=font(14),
        )
    draw.text(
        (120, 2),
        f"Figure {dice.randint(1, 40)}: {dice.choice(('growth', 'share', 'count'))}",
        fill="black",
        font=font(16),
    )
    return png(image)


WORDS = [
    "river",
    "bridge",
    "water",
    "valley",
    "station",
    "record",
    "village",
    "result",
    "measure",
    "section",
    "table",
    "former",
    "engine",
    "island",
    "carbon",
    "metal",
    "letter",
    "season",
    "ground",
    "council",
    "northern",
    "capital",
    "surface",
    "central",
    "winter",
    "product",
    "observer",
    "reference",
]


def page(seed: int) -> bytes:
    """A scanned page: lines of text, a little noise, a little askew."""
    dice = random.Random(f"page {seed}")
    image = Image.new("L", (420, 560), 246)
    draw = ImageDraw.Draw(image)
    y = 40
    while y < 520:
        if dice.random() < 0.1:
            y += 14
        line = " ".join(dice.choice(WORDS) for _ in range(dice.choice((4, 7, 8, 8, 8, 8))))
        draw.text((36, y), line[:58], fill=30, font=font(12))
        y += 17
    image = image.rotate(dice.uniform(-0.7, 0.7), fillcolor=246, resample=Image.Resampling.BICUBIC)
    noise = Image.effect_noise(image.size, 12)
    return png(Image.blend(image, noise, 0.06))


def photo(seed: int) -> bytes:
    """Something like a photograph: smooth light, some shapes, grain."""
    dice = random.Random(f"photo {seed}")
    tiny = Image.new("RGB", (6, 5))
    tiny.putdata([tuple(dice.randint(20, 235) for _ in range(3)) for _ in range(30)])
    image = tiny.resize((480, 360), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(dice.randint(4, 12)):
        x, y, r = dice.randint(0, 480), dice.randint(0, 360), dice.randint(10, 90)
        fill = tuple(dice.randint(0, 255) for _ in range(3))
        (draw.ellipse if dice.random() < 0.5 else draw.rectangle)(
            [x - r, y - r, x + r, y + r * 0.8], fill=fill
        )
    return png(image.filter(ImageFilter.GaussianBlur(2)))


def marked_map(seed: int) -> bytes:
    """A map of one base with one region marked: all alike but for what is marked."""
    dice = random.Random("the one map")
    image = Image.new("RGB", (420, 300), (205, 225, 240))
    draw = ImageDraw.Draw(image)
    regions = []
    for _ in range(40):
        x, y = dice.randint(20, 400), dice.randint(20, 280)
        corners = [
            (x + dice.randint(14, 40) * math.cos(a), y + dice.randint(14, 40) * math.sin(a))
            for a in (k * math.pi / 4 for k in range(8))
        ]
        regions.append(corners)
        draw.polygon(corners, fill=(225, 225, 210), outline=(150, 150, 140))
    draw.polygon(regions[seed % 40], fill=(200, 40, 40), outline=(90, 20, 20))
    return png(image)


# --- copies --------------------------------------------------------------------------------------


def _jpeg(quality: int) -> Callable[[Image.Image], bytes]:
    def made(image: Image.Image) -> bytes:
        out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG", quality=quality)
        return out.getvalue()

    return made


def _webp(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.convert("RGB").save(out, "WEBP", quality=70)
    return out.getvalue()


def _scaled(factor: float) -> Callable[[Image.Image], bytes]:
    def made(image: Image.Image) -> bytes:
        size = (max(8, round(image.width * factor)), max(8, round(image.height * factor)))
        return png(image.convert("RGB").resize(size, Image.Resampling.LANCZOS))

    return made


def _cropped(share: float) -> Callable[[Image.Image], bytes]:
    def made(image: Image.Image) -> bytes:
        dx, dy = round(image.width * share), round(image.height * share)
        return png(image.convert("RGB").crop((dx, dy, image.width - dx, image.height - dy)))

    return made


def _bordered(share: float, colour: str = "white") -> Callable[[Image.Image], bytes]:
    def made(image: Image.Image) -> bytes:
        by = round(image.width * share)
        out = Image.new("RGB", (image.width + 2 * by, image.height + 2 * by), colour)
        out.paste(image.convert("RGB"), (by, by))
        return png(out)

    return made


COPIES: dict[str, Callable[[Image.Image], bytes]] = {
    "JPEG 60": _jpeg(60),
    "JPEG 30": _jpeg(30),
    "WebP 70": _webp,
    "half size": _scaled(0.5),
    "double size": _scaled(2.0),
    "a third": _scaled(1 / 3),
    "cropped 1 %": _cropped(0.01),
    "cropped 2 %": _cropped(0.02),
    "border 2 %": _bordered(0.02),
    "border 5 %": _bordered(0.05),
    "black border 3 %": _bordered(0.03, "black"),
}
"""What is done to a picture that is to be known again."""


def copies(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Near-duplicates of a picture, with what was done to it."""
    with Image.open(io.BytesIO(data)) as opened:
        image = (
            opened.convert("RGBA") if opened.mode in ("P", "LA", "RGBA") else opened.convert("RGB")
        )
        if image.mode == "RGBA":
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert(
                "RGB"
            )
        for name, make in COPIES.items():
            yield name, make(image)
