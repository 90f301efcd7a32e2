"""M6: Gaussian blur of radius 18 over about 85 % of the picture, and masks over its edges and labels.

The paper does not say which 85 %: here it is the middle, and the masks are on the rest. 18 pixels are of a picture 768
pixels long; larger ones are blurred in proportion.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import blurred, coverage, covered, padded, radius_for, sharpness_left
from demur.suites.mm_aqa.transforms.overlay_label_mask import edges

NEEDS: frozenset[Need] = frozenset({"image"})
CHANGES = "image"
RADIUS, SHARE = 18, 0.85


def apply(given: Given) -> Made:
    """The middle blurred, the rim and every word masked."""
    made, left = [], 0.0
    for image in given.images:
        soft = blurred(image, radius_for(image, RADIUS, given.strength))
        rim = edges(image.size, (1 - SHARE**0.5) / 2)
        boxes = rim + [padded(word.box, 3, image.size) for word in given.words(image)]
        made.append(covered(soft, boxes))
        left = max(left, sharpness_left(image, soft))
    share = min(1 - coverage(i.size, edges(i.size, (1 - SHARE**0.5) / 2)) for i in given.images)
    return Made(given.question, tuple(made), {"blurred": share, "sharpness_left": left})
