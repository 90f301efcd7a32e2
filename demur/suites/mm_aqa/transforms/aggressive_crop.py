"""M1: the outer half of the picture, from one edge drawn at random, is gone.

"Half" is half of the extent at right angles to that edge. The frame keeps its size, the lost half is flat grey, so that
nothing tells a crop from a picture of another format. Where the right answer can be read off the picture, the edge is
one whose half holds it.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, covered

NEEDS: frozenset[Need] = frozenset({"image"})
CHANGES = "image"
SHARE = 0.5


def apply(given: Given) -> Made:
    """Each picture loses half."""
    edges = ["left", "top", "right", "bottom"]
    given.random.shuffle(edges)
    share = min(0.9, SHARE * given.strength)
    made = []
    for image in given.images:
        w, h = image.size
        halves: dict[str, Box] = {
            "left": (0, 0, round(w * share), h), "top": (0, 0, w, round(h * share)),
            "right": (w - round(w * share), 0, w, h), "bottom": (0, h - round(h * share), w, h),
        }  # fmt: skip
        where = [word.box for word in given.answer_words(image)]

        def lost(edge: str, halves: dict[str, Box] = halves, where: list[Box] = where) -> int:
            x0, y0, x1, y1 = halves[edge]
            return sum(x0 <= (b[0] + b[2]) / 2 < x1 and y0 <= (b[1] + b[3]) / 2 < y1 for b in where)

        edge = max(edges, key=lost)
        made.append((covered(image, [halves[edge]], (127, 127, 127)), edge))
    return Made(given.question, tuple(m for m, _ in made), {"edge": [e for _, e in made], "removed": share})
