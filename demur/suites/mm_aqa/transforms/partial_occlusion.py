"""M4: nine solid black bars at regular intervals, by turns upright and level, a tenth to a fifth of the width each.

Level bars of a wide picture would close: a bar takes 95 % of its interval at most, so that something is always seen.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, coverage, covered

NEEDS: frozenset[Need] = frozenset({"image"})
CHANGES = "image"
BARS = 9


def bars(given: Given, size: tuple[int, int]) -> list[Box]:
    """Four level and five upright bars; their thickness is drawn within the bounds of the paper."""
    w, h = size
    found: list[Box] = []
    for number in range(BARS):
        upright = number % 2 == 0
        many, place = (5, number // 2) if upright else (4, number // 2)
        extent = w if upright else h
        thick = round(given.random.uniform(w / 10, w / 5) * min(given.strength, 1.5))
        thick = max(1, min(thick, int(0.95 * extent / many)))
        middle = round((place + 0.5) / many * extent)
        start = min(max(0, middle - thick // 2), extent - thick)
        found.append((start, 0, start + thick, h) if upright else (0, start, w, start + thick))
    return found


def apply(given: Given) -> Made:
    """Each picture behind its own bars."""
    boxes = [bars(given, image.size) for image in given.images]
    share = min(coverage(i.size, b) for i, b in zip(given.images, boxes, strict=True))
    made = tuple(covered(i, b) for i, b in zip(given.images, boxes, strict=True))
    return Made(given.question, made, {"bars": BARS, "coverage": share})
