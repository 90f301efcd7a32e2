"""M2: twenty black rectangles of about 15 % of the area each; more, until at least 70 % is covered."""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, coverage, covered

NEEDS: frozenset[Need] = frozenset({"image"})
CHANGES = "image"
RECTANGLES, AREA, LEAST = 20, 0.15, 0.70
MOST = 400


def rectangles(given: Given, size: tuple[int, int], least: float, area: float = AREA) -> list[Box]:
    """Rectangles of that share of the area, at random, until they cover as much."""
    found: list[Box] = []
    w, h = size
    while len(found) < RECTANGLES or coverage(size, found) < least:
        shape = given.random.uniform(0.6, 1.6)
        a, b = min(w, round(w * (area * shape) ** 0.5)), min(h, round(h * (area / shape) ** 0.5))
        x, y = given.random.randint(0, w - a), given.random.randint(0, h - b)
        found.append((x, y, x + max(1, a), y + max(1, b)))
        if len(found) >= MOST:  # corners that chance does not reach
            found.append((0, 0, w, h))
    return found


def apply(given: Given) -> Made:
    """Each picture under its own rectangles."""
    least = min(0.95, LEAST + 0.1 * (given.strength - 1))
    boxes = [rectangles(given, image.size, least) for image in given.images]
    share = min(coverage(i.size, b) for i, b in zip(given.images, boxes, strict=True))
    made = tuple(covered(i, b) for i, b in zip(given.images, boxes, strict=True))
    return Made(given.question, made, {"coverage": share, "rectangles": [len(b) for b in boxes]})
