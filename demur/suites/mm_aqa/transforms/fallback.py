"""The end of the fallback chain for documents: two changes that fit any page (appendix E).

(a) Gaussian blur of radius 25 over all pages; (b) dense masks over what is on them, at least 80 % covered.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made
from demur.suites.mm_aqa.transforms.drawing import blurred, coverage, covered, padded, radius_for, sharpness_left
from demur.suites.mm_aqa.transforms.multi_mask import rectangles

RADIUS, LEAST = 25, 0.80


def blur(given: Given) -> Made:
    """(a)."""
    made = tuple(blurred(i, radius_for(i, RADIUS, given.strength)) for i in given.images)
    left = max(map(sharpness_left, given.images, made))
    return Made(given.question, made, {"fallback": "page blur", "sharpness_left": left})


def mask(given: Given) -> Made:
    """(b): masks on the words first, then at random."""
    made, share = [], 1.0
    for image in given.images:
        boxes = [padded(w.box, 4, image.size) for w in given.words(image)]
        boxes += rectangles(given, image.size, LEAST)
        share = min(share, coverage(image.size, boxes))
        made.append(covered(image, boxes))
    return Made(given.question, tuple(made), {"fallback": "dense masks", "coverage": share})
