"""D1: black rectangles at random in and around the middle of each evidence page, where most of it stands.

The middle is that of the page's ink; words of the right answer are covered wherever they stand.
"""

from __future__ import annotations

import numpy as np

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, coverage, covered, padded

NEEDS: frozenset[Need] = frozenset({"page"})
CHANGES = "image"
MASKS, SPREAD, LEAST = 10, 0.22, 0.35


def apply(given: Given) -> Made:
    """Each page under masks."""
    made, share, count = [], 1.0, 0
    for image in given.images:
        w, h = image.size
        grey = np.asarray(image.convert("L"), dtype=np.float64)
        ink = np.abs(grey - np.median(grey)) > 40
        ys, xs = np.nonzero(ink) if ink.any() else (np.array([h // 2]), np.array([w // 2]))
        boxes: list[Box] = []
        least = min(0.9, LEAST * given.strength)
        for _ in range(300):
            if len(boxes) >= MASKS and coverage(image.size, boxes) >= least:
                break
            a, b = round(w * given.random.uniform(0.15, 0.35)), round(h * given.random.uniform(0.08, 0.2))
            x = round(given.random.gauss(float(xs.mean()), SPREAD * w)) - a // 2
            y = round(given.random.gauss(float(ys.mean()), SPREAD * h)) - b // 2
            boxes.append(padded((x, y, x + a, y + b), 0, image.size))
        words = [word.box for word in given.answer_words(image)]
        count += len(words)
        share = min(share, coverage(image.size, boxes))
        made.append(covered(image, [*boxes, *(padded(b, 3, image.size) for b in words)]))
    return Made(given.question, tuple(made), {"coverage": share, "answer_words_covered": count})
