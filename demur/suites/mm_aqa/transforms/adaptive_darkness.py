"""M5: all pixel values divided by 15, 3.9 stops: the picture is there, and too dark to be read."""

from __future__ import annotations

import math

import numpy as np

from demur.suites.mm_aqa.transforms import Given, Made, Need

NEEDS: frozenset[Need] = frozenset({"image"})
CHANGES = "image"
DIVISOR = 15


def apply(given: Given) -> Made:
    """Each picture in the dark."""
    from PIL import Image

    by = DIVISOR * given.strength
    made = tuple(Image.fromarray((np.asarray(image) / by).astype(np.uint8)) for image in given.images)
    top = max(int(np.asarray(image).max()) for image in made)
    return Made(given.question, made, {"divisor": by, "stops": round(math.log2(by), 2), "brightest": top})
