"""D3: half of the evidence pages are hidden, the others cut at their midpoint.

Which are hidden is drawn, those that show the right answer first; of the others the half that shows it is lost. A
hidden page is an empty page of the same size.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.drawing import covered

NEEDS: frozenset[Need] = frozenset({"pages"})
CHANGES = "image"


def apply(given: Given) -> Made:
    """N // 2 pages hidden, the rest cut."""
    from PIL import Image

    n = len(given.images)
    if n < 2:
        raise Infeasible("there is one evidence page: half of it cannot be hidden")
    answer = {part.casefold() for form in given.accepted for part in form.split()}
    tells = [
        [w.box for w in given.words(image) if w.text.strip(".,:;()").casefold() in answer] for image in given.images
    ]
    order = sorted(range(n), key=lambda p: (-len(tells[p]), given.random.random()))
    hidden = set(order[: n // 2])
    made, halves = [], {}
    for place, image in enumerate(given.images):
        w, h = image.size
        if place in hidden:
            made.append(Image.new("RGB", image.size, "white"))
            continue
        upper = sum(b[1] + b[3] < h for b in tells[place])
        lower = len(tells[place]) - upper
        lost = "lower" if lower > upper or (lower == upper and given.random.random() < 0.5) else "upper"
        halves[place + 1] = lost
        made.append(covered(image, [(0, h // 2, w, h) if lost == "lower" else (0, 0, w, h // 2)], (255, 255, 255)))
    told = {"pages": n, "hidden": sorted(p + 1 for p in hidden), "cut": sorted(halves), "lost_half": halves}
    return Made(given.question, tuple(made), {**told, "lost_half": {str(k): v for k, v in halves.items()}})
