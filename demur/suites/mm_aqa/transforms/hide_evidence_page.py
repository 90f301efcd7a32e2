"""D3: half of the evidence pages are hidden, the others cut at their midpoint.

Which are hidden is drawn, those that show the right answer first; of the others the half that shows it is lost, and
what of it stands in the other half is erased. A hidden page is an empty page of the same size.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, covered, erased, within

NEEDS: frozenset[Need] = frozenset({"pages"})
CHANGES = "image"


def apply(given: Given) -> Made:
    """N // 2 pages hidden, the rest cut."""
    from PIL import Image

    n = len(given.images)
    if n < 2:
        raise Infeasible("there is one evidence page: half of it cannot be hidden")
    tells = [given.answer_words(image) for image in given.images]
    order = sorted(range(n), key=lambda p: (-len(tells[p]), given.random.random()))
    hidden = set(order[: n // 2])
    made, halves, count = [], {}, 0
    for place, image in enumerate(given.images):
        w, h = image.size
        if place in hidden:
            made.append(Image.new("RGB", image.size, "white"))
            continue
        upper = sum(w_.box[1] + w_.box[3] < h for w_ in tells[place])
        lower = len(tells[place]) - upper
        lost = "lower" if lower > upper or (lower == upper and given.random.random() < 0.5) else "upper"
        halves[place + 1] = lost
        gone: Box = (0, h // 2, w, h) if lost == "lower" else (0, 0, w, h // 2)
        stays = [word for word in tells[place] if not within(word.box, gone)]
        count += len(stays)
        made.append(covered(erased(image, stays), [gone], (255, 255, 255)))
    measured = {
        "pages": n, "hidden": sorted(p + 1 for p in hidden), "cut": sorted(halves), "answer_words_erased": count,
        "lost_half": {str(k): v for k, v in halves.items()},
    }  # fmt: skip
    return Made(given.question, tuple(made), measured)
