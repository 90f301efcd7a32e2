"""D2: heavy blur over the figure of an evidence page; over the whole page where no figure is found.

A figure is the largest region of ink or colour that is no text: what remains when legible words are painted over and
marks near one another are joined. Words of the right answer outside of it are erased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from demur.core.errors import MissingExtra
from demur.suites.mm_aqa.transforms import Given, Made, Need, Word
from demur.suites.mm_aqa.transforms.drawing import Box, blurred, erased, padded, radius_for, sharpness_left, within

if TYPE_CHECKING:
    from PIL.Image import Image

NEEDS: frozenset[Need] = frozenset({"page"})
CHANGES = "image"
RADIUS, LEAST, MOST = 18, 0.04, 0.9


def figure(image: Image, words: list[Word]) -> Box | None:
    """The box of the largest figure; None where none takes 4 % of the page."""
    try:
        import cv2
    except ImportError as error:
        raise MissingExtra("finding figures on pages", extra="mm-aqa", module="opencv") from error
    bare = np.asarray(erased(image, words).convert("L"), dtype=np.float64)
    ink = (np.abs(bare - np.median(bare)) > 25).astype(np.uint8)
    side = max(3, max(image.size) // 50)
    joined = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, np.ones((side, side), np.uint8))
    many, _, stats, _ = cv2.connectedComponentsWithStats(joined)
    found = [tuple(int(v) for v in stats[n][:4]) for n in range(1, many)]
    boxes: list[Box] = [(x, y, x + w, y + h) for x, y, w, h in found]
    area = image.width * image.height
    large = [b for b in boxes if LEAST <= (b[2] - b[0]) * (b[3] - b[1]) / area <= MOST]
    return max(large, key=lambda b: (b[2] - b[0]) * (b[3] - b[1])) if large else None


def apply(given: Given) -> Made:
    """Each page with its figure, or all of it, out of focus."""
    made, where, left, count = [], [], 0.0, 0
    for image in given.images:
        box = figure(image, given.words(image))
        radius = radius_for(image, RADIUS, given.strength)
        soft = blurred(image, radius)
        if box is None:
            page, box = soft, (0, 0, *image.size)
            where.append("page")
        else:
            box = padded(box, round(radius), image.size)
            page = image.copy()
            page.paste(soft.crop(box), box[:2])
            where.append("figure")
        left = max(left, sharpness_left(image.crop(box), page.crop(box)))
        outside = [w for w in given.answer_words(image) if not within(w.box, box)]
        count += len(outside)
        made.append(erased(page, outside))
    measured = {"region": where, "sharpness_left": left, "answer_words_erased": count}
    return Made(given.question, tuple(made), measured)
