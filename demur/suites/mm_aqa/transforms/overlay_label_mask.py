"""M3: a grey veil (alpha 0.6) over the whole picture; labels, and the edges where titles and axes stand, are masked."""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, covered, padded

NEEDS: frozenset[Need] = frozenset({"image"})
CHANGES = "image"
ALPHA, EDGE = 0.6, 0.12


def edges(size: tuple[int, int], share: float = EDGE) -> list[Box]:
    """Four bands along the rim, in which titles, axis labels and legends stand."""
    w, h = size
    a, b = max(1, round(w * share)), max(1, round(h * share))
    return [(0, 0, w, b), (0, h - b, w, h), (0, 0, a, h), (w - a, 0, w, h)]


def apply(given: Given) -> Made:
    """Veil, then masks over every word that is read, and over the rim."""
    from PIL import Image

    alpha = min(0.9, ALPHA * given.strength)
    made, labels = [], 0
    for image in given.images:
        words = given.words(image)
        labels += len(words)
        veiled = Image.blend(image, Image.new("RGB", image.size, (128, 128, 128)), alpha)
        boxes = [padded(word.box, 3, image.size) for word in words] + edges(image.size)
        made.append(covered(veiled, boxes, (60, 60, 60)))
    return Made(given.question, tuple(made), {"alpha": alpha, "labels": labels})
