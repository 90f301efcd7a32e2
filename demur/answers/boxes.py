"""Bounding boxes: reading them from a text, and how far two overlap."""

from __future__ import annotations

import re

from demur.answers.text import readable

Box = tuple[float, ...]
"""(x1, y1, x2, y2)."""

_BOX = re.compile(r"\s*+,\s*+".join([r"(-?(?<!\d)\d++(?:\.\d++)?+)"] * 4))


def boxes(text: str) -> list[Box]:
    """Every box that the text states as four numbers."""
    return [
        tuple(float(v) for v in m.groups())
        for m in _BOX.finditer(readable(text))
        if all(len(v) < 300 for v in m.groups())
    ]


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes; 0 for a box without area."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(0.0, wide) * max(0.0, high)
    union = sum(max(0.0, x2 - x1) * max(0.0, y2 - y1) for x1, y1, x2, y2 in (a, b)) - both
    return both / union if union > 0 else 0.0
