"""M1 to M6: pictures that cannot be read any more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from demur_suites.mm_aqa.build.transforms import Altered, Original, transformation
from demur_suites.mm_aqa.build.transforms.drawing import (
    Box,
    blurred,
    coverage,
    covered,
    padded,
    radius_for,
    sharpness_left,
)

if TYPE_CHECKING:
    from PIL.Image import Image

CROPPED = 0.5


def unlike_opposite(image: Image, half: Box, edge: str) -> float:
    """Mean difference, in grey values, of a half of a picture and the mirrored strip at the opposite edge."""
    from PIL import ImageOps

    level = edge in ("left", "right")
    mirrored = (ImageOps.mirror if level else ImageOps.flip)(image)
    a, b = (np.asarray(i.crop(half), dtype=np.float64) for i in (image, mirrored))
    return float(np.abs(a - b).mean())


@transformation("image", "image")
def aggressive_crop(original: Original) -> Altered:
    """M1: the outer half of the picture, from one edge drawn at random, is gone.

    "Half" is half of the extent at right angles to that edge. The frame keeps its size, the lost half is flat grey, so
    that nothing tells a crop from a picture of another format. Where the right answer can be read off the picture, the
    edge is one whose half holds it; and never one whose half mirrors what stays, as of a flag of level bands.
    """
    edges = ["left", "top", "right", "bottom"]
    original.random.shuffle(edges)
    share = min(0.9, CROPPED * original.strength)
    altered = []
    for image in original.images:
        w, h = image.size
        halves: dict[str, Box] = {
            "left": (0, 0, round(w * share), h),
            "top": (0, 0, w, round(h * share)),
            "right": (w - round(w * share), 0, w, h),
            "bottom": (0, h - round(h * share), w, h),
        }
        where = [word.box for word in original.answer_words(image)]

        def lost(edge: str, halves: dict[str, Box] = halves, where: list[Box] = where) -> int:
            x0, y0, x1, y1 = halves[edge]
            return sum(x0 <= (b[0] + b[2]) / 2 < x1 and y0 <= (b[1] + b[3]) / 2 < y1 for b in where)

        differs = {edge: unlike_opposite(image, halves[edge], edge) for edge in edges}
        telling = [e for e in edges if differs[e] >= 0.5 * max(differs.values())]
        edge = max(telling, key=lost)
        altered.append((covered(image, [halves[edge]], (127, 127, 127)), edge))
    return Altered(
        original.question,
        tuple(m for m, _ in altered),
        {"edge": [e for _, e in altered], "removed": share},
    )


RECTANGLES, AREA, LEAST = 20, 0.15, 0.70
MOST = 400


def rectangles(
    original: Original, size: tuple[int, int], least: float, area: float = AREA
) -> list[Box]:
    """Rectangles of that share of the area, at random, until they cover as much."""
    boxes: list[Box] = []
    w, h = size
    while len(boxes) < RECTANGLES or coverage(size, boxes) < least:
        shape = original.random.uniform(0.6, 1.6)
        a, b = min(w, round(w * (area * shape) ** 0.5)), min(h, round(h * (area / shape) ** 0.5))
        x, y = original.random.randint(0, w - a), original.random.randint(0, h - b)
        boxes.append((x, y, x + max(1, a), y + max(1, b)))
        if len(boxes) >= MOST:  # corners that chance does not reach
            boxes.append((0, 0, w, h))
    return boxes


@transformation("image", "image")
def multi_mask(original: Original) -> Altered:
    """M2: twenty black rectangles of about 15 % of the area each; more, until at least 70 % is covered."""
    least = min(0.95, LEAST + 0.1 * (original.strength - 1))
    boxes = [rectangles(original, image.size, least) for image in original.images]
    share = min(coverage(i.size, b) for i, b in zip(original.images, boxes, strict=True))
    altered = tuple(covered(i, b) for i, b in zip(original.images, boxes, strict=True))
    return Altered(
        original.question, altered, {"coverage": share, "rectangles": [len(b) for b in boxes]}
    )


ALPHA, EDGE = 0.6, 0.12


def edges(size: tuple[int, int], share: float = EDGE) -> list[Box]:
    """Four bands along the rim, in which titles, axis labels and legends stand."""
    w, h = size
    a, b = max(1, round(w * share)), max(1, round(h * share))
    return [(0, 0, w, b), (0, h - b, w, h), (0, 0, a, h), (w - a, 0, w, h)]


@transformation("image", "image")
def overlay_label_mask(original: Original) -> Altered:
    """M3: a grey veil (alpha 0.6) over the whole picture; masks on labels, and on the rim where titles and axes
    stand.
    """
    from PIL import Image

    alpha = min(0.9, ALPHA * original.strength)
    altered, labels = [], 0
    for image in original.images:
        words = original.words(image)
        labels += len(words)
        veiled = Image.blend(image, Image.new("RGB", image.size, (128, 128, 128)), alpha)
        boxes = [padded(word.box, 3, image.size) for word in words] + edges(image.size)
        altered.append(covered(veiled, boxes, (60, 60, 60)))
    return Altered(original.question, tuple(altered), {"alpha": alpha, "labels": labels})


BARS = 9


def bars(original: Original, size: tuple[int, int]) -> list[Box]:
    """Four level and five upright bars; their thickness is drawn within the bounds of the paper."""
    w, h = size
    boxes: list[Box] = []
    for number in range(BARS):
        upright = number % 2 == 0
        many, place = (5, number // 2) if upright else (4, number // 2)
        extent = w if upright else h
        thick = round(original.random.uniform(w / 10, w / 5) * min(original.strength, 1.5))
        thick = max(1, min(thick, int(0.95 * extent / many)))
        middle = round((place + 0.5) / many * extent)
        start = min(max(0, middle - thick // 2), extent - thick)
        boxes.append((start, 0, start + thick, h) if upright else (0, start, w, start + thick))
    return boxes


@transformation("image", "image")
def partial_occlusion(original: Original) -> Altered:
    """M4: nine solid black bars at regular intervals, by turns upright and level, a tenth to a fifth of the width each.

    Level bars of a wide picture would close: a bar takes 95 % of its interval at most, so that something is always
    seen.
    """
    boxes = [bars(original, image.size) for image in original.images]
    share = min(coverage(i.size, b) for i, b in zip(original.images, boxes, strict=True))
    altered = tuple(covered(i, b) for i, b in zip(original.images, boxes, strict=True))
    return Altered(original.question, altered, {"bars": BARS, "coverage": share})


DIVISOR = 15


@transformation("image", "image")
def adaptive_darkness(original: Original) -> Altered:
    """M5: all pixel values divided by 15, 3.9 stops: the picture is there, and too dark to be read."""
    from PIL import Image

    by = DIVISOR * original.strength
    altered = tuple(
        Image.fromarray((np.asarray(image) / by).astype(np.uint8)) for image in original.images
    )
    top = max(int(np.asarray(image).max()) for image in altered)
    return Altered(
        original.question,
        altered,
        {"divisor": by, "stops": round(math.log2(by), 2), "brightest": top},
    )


RADIUS, BLURRED = 18, 0.85


@transformation("image", "image")
def blur_edge_mask(original: Original) -> Altered:
    """M6: Gaussian blur of radius 18 over about 85 % of the picture, and masks over its edges and labels.

    The paper does not say which 85 %: here it is the middle, and the masks are on the rest. 18 pixels are of a picture
    768 pixels long; larger ones are blurred in proportion.
    """
    altered, left = [], 0.0
    for image in original.images:
        soft = blurred(image, radius_for(image, RADIUS, original.strength))
        rim = edges(image.size, (1 - BLURRED**0.5) / 2)
        boxes = rim + [padded(word.box, 3, image.size) for word in original.words(image)]
        altered.append(covered(soft, boxes))
        left = max(left, sharpness_left(image, soft))
    share = min(
        1 - coverage(i.size, edges(i.size, (1 - BLURRED**0.5) / 2)) for i in original.images
    )
    return Altered(original.question, tuple(altered), {"blurred": share, "sharpness_left": left})
