"""D1 to D6, D8 and the end of the fallback chain: evidence pages that do not tell any more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from demur_suites.extras import importing
from demur_suites.mm_aqa.build.transforms import Altered, Infeasible, Original, Word, transformation
from demur_suites.mm_aqa.build.transforms.drawing import (
    Box,
    background,
    blurred,
    coverage,
    covered,
    erased,
    padded,
    radius_for,
    sharpness_left,
    size_in,
    within,
    written,
)
from demur_suites.mm_aqa.build.transforms.pictures import rectangles
from demur_suites.mm_aqa.build.transforms.reading import (
    Cell,
    Grid,
    answer_elsewhere_erased,
    drawn,
    named_in,
    other_value,
    read_pages,
    read_tables,
    split,
)

if TYPE_CHECKING:
    from PIL.Image import Image

MASKS, SPREAD, MASKED = 10, 0.22, 0.35


@transformation("image", "page")
def remove_visual_element(original: Original) -> Altered:
    """D1: black rectangles at random in and around the middle of each evidence page, where most of it stands.

    The middle is that of the page's ink; words of the right answer are covered wherever they stand.
    """
    altered, share, count = [], 1.0, 0
    for image in original.images:
        w, h = image.size
        grey = np.asarray(image.convert("L"), dtype=np.float64)
        ink = np.abs(grey - np.median(grey)) > 40
        ys, xs = np.nonzero(ink) if ink.any() else (np.array([h // 2]), np.array([w // 2]))
        boxes: list[Box] = []
        least = min(0.9, MASKED * original.strength)
        for _ in range(300):
            if len(boxes) >= MASKS and coverage(image.size, boxes) >= least:
                break
            a, b = (
                round(w * original.random.uniform(0.15, 0.35)),
                round(h * original.random.uniform(0.08, 0.2)),
            )
            x = round(original.random.gauss(float(xs.mean()), SPREAD * w)) - a // 2
            y = round(original.random.gauss(float(ys.mean()), SPREAD * h)) - b // 2
            boxes.append(padded((x, y, x + a, y + b), 0, image.size))
        words = [word.box for word in original.answer_words(image)]
        count += len(words)
        share = min(share, coverage(image.size, boxes))
        altered.append(covered(image, [*boxes, *(padded(b, 3, image.size) for b in words)]))
    return Altered(
        original.question, tuple(altered), {"coverage": share, "answer_words_covered": count}
    )


RADIUS, LEAST_FIGURE, MOST_FIGURE = 18, 0.04, 0.9


def figure(image: Image, words: list[Word]) -> Box | None:
    """The box of the largest figure; None where none takes 4 % of the page."""
    with importing("finding figures on pages", extra="mm-aqa", module="opencv", broken=True):
        import cv2
    bare = np.asarray(erased(image, words).convert("L"), dtype=np.float64)
    ink = (np.abs(bare - np.median(bare)) > 25).astype(np.uint8)
    side = max(3, max(image.size) // 50)
    joined = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, np.ones((side, side), np.uint8))
    many, _, stats, _ = cv2.connectedComponentsWithStats(joined)
    found = [tuple(int(v) for v in stats[n][:4]) for n in range(1, many)]
    boxes: list[Box] = [(x, y, x + w, y + h) for x, y, w, h in found]
    area = image.width * image.height
    large = [
        b for b in boxes if LEAST_FIGURE <= (b[2] - b[0]) * (b[3] - b[1]) / area <= MOST_FIGURE
    ]
    return max(large, key=lambda b: (b[2] - b[0]) * (b[3] - b[1])) if large else None


@transformation("image", "page")
def blur_figure_region(original: Original) -> Altered:
    """D2: heavy blur over the figure of an evidence page; over the whole page where no figure is found.

    A figure is the largest region of ink or colour that is no text: what remains when legible words are painted over
    and marks near one another are joined. Words of the right answer outside of it are erased.
    """
    altered, where, left, count = [], [], 0.0, 0
    for image in original.images:
        box = figure(image, original.words(image))
        radius = radius_for(image, RADIUS, original.strength)
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
        outside = [w for w in original.answer_words(image) if not within(w.box, box)]
        count += len(outside)
        altered.append(erased(page, outside))
    measured = {"region": where, "sharpness_left": left, "answer_words_erased": count}
    return Altered(original.question, tuple(altered), measured)


@transformation("image", "pages")
def hide_evidence_page(original: Original) -> Altered:
    """D3: half of the evidence pages are hidden, the others cut at their midpoint.

    Which are hidden is drawn, those that show the right answer first; of the others the half that shows it is lost, and
    what of it stands in the other half is erased. A hidden page is an empty page of the same size.
    """
    from PIL import Image

    n = len(original.images)
    if n < 2:
        raise Infeasible("there is one evidence page: half of it cannot be hidden")
    tells = [original.answer_words(image) for image in original.images]
    order = sorted(range(n), key=lambda p: (-len(tells[p]), original.random.random()))
    hidden = set(order[: n // 2])
    altered, halves, count = [], {}, 0
    for place, image in enumerate(original.images):
        w, h = image.size
        if place in hidden:
            altered.append(Image.new("RGB", image.size, "white"))
            continue
        upper = sum(w_.box[1] + w_.box[3] < h for w_ in tells[place])
        lower = len(tells[place]) - upper
        lost = (
            "lower"
            if lower > upper or (lower == upper and original.random.random() < 0.5)
            else "upper"
        )
        halves[place + 1] = lost
        gone: Box = (0, h // 2, w, h) if lost == "lower" else (0, 0, w, h // 2)
        stays = [word for word in tells[place] if not within(word.box, gone)]
        count += len(stays)
        altered.append(covered(erased(image, stays), [gone], (255, 255, 255)))
    measured = {
        "pages": n,
        "hidden": sorted(p + 1 for p in hidden),
        "cut": sorted(halves),
        "answer_words_erased": count,
        "lost_half": {str(k): v for k, v in halves.items()},
    }
    return Altered(original.question, tuple(altered), measured)


REMOVED_NUMBERS, REMOVED_WORDS = 0.95, 0.60


@transformation("image", "page", "numbers")
def remove_numeric_token(original: Original) -> Altered:
    """D4: numbers are erased from the evidence pages (95 % of them), and 60 % of the other words at random.

    Numbers and words of the right answer are always among them. What surrounds them stays as it is.
    """
    words_share = min(1.0, REMOVED_WORDS * original.strength)
    altered, gone, all_numbers, lost, all_words = [], 0, 0, 0, 0
    for image, words in zip(original.images, read_pages(original), strict=True):
        numbers, others = split(words)
        answer = [w for w in words if original.in_answer(w)]
        least = math.ceil(REMOVED_NUMBERS * len(numbers))
        away = {
            *answer,
            *original.random.sample(numbers, min(least, len(numbers))),
            *drawn(others, words_share, original.random),
        }
        altered.append(erased(image, [w for w in words if w in away]))
        gone, all_numbers = gone + sum(w in away for w in numbers), all_numbers + len(numbers)
        lost, all_words = lost + sum(w in away for w in others), all_words + len(others)
    shares = {
        "numbers_removed": gone / all_numbers,
        "words_removed": lost / all_words if all_words else 0.0,
    }
    return Altered(original.question, tuple(altered), shares)


ERASED_WORDS = 0.2


@transformation("image", "page", "numbers")
def corrupt_numeric_token(original: Original) -> Altered:
    """D5: every number that can be is written 20 to 50 % higher or lower, in its own manner; random words are erased.

    Numbers that no such change can be written for (a lone 1, a code) are erased, and so are the words of the right
    answer.
    """
    altered, changes, wiped = [], [], 0
    for image, words in zip(original.images, read_pages(original), strict=True):
        numbers, others = split(words)
        answer = [w for w in others if original.in_answer(w)]
        page = erased(
            image,
            [*answer, *drawn(others, min(1.0, ERASED_WORDS * original.strength), original.random)],
        )
        for word in numbers:
            page = covered(page, [padded(word.box, 1, image.size)], background(image, word.box))
            value = other_value(word.text, original.random)
            if value is None:
                wiped += 1
                continue
            page = written(page, word.box, value[0], size_in(image, word))
            changes.append(round(value[1], 4))
        altered.append(page)
    if not changes:
        raise Infeasible("no number on the evidence pages can be changed by 20 to 50 %")
    return Altered(original.question, tuple(altered), {"changes": changes, "erased_numbers": wiped})


def _pair(grid: Grid, original: Original) -> int | None:
    """The left of the two columns; never the first, which names the rows, where there is a choice.

    One of them holds the answer, and beside it stands a value that looks like it: who reads "Beirut 6" knows which is
    the capital. None where there are no such columns.
    """
    answers = [form.casefold() for form in original.accepted]
    # what the question names comes first: another row may hold the same in another column
    rows = sorted(grid.rows[1:], key=lambda row: not named_in(row, original.question))
    first, width = 1 if len(grid.rows[0]) > 2 else 0, len(grid.rows[0])
    for row in rows:
        for column, cell in enumerate(row):
            if column >= first and _tells(cell.text.casefold(), answers):
                sides = [c for c in (column - 1, column + 1) if first <= c < width]
                alike = [c for c in sides if _alike(cell.text, row[c].text)]
                return min(column, original.random.choice(alike)) if alike else None
    return None


def _alike(one: str, other: str) -> bool:
    """Whether two values cannot be told apart by their look: both words, or both numbers of one unit."""
    units = ["".join(c for c in text if c.isalpha()) for text in (one, other)]
    digits = [any(c.isdigit() for c in text) for text in (one, other)]
    return all(digits) and units[0] == units[1] if any(digits) else all(units)


def _tells(cell: str, answers: list[str]) -> bool:
    """Whether a cell is the answer, or its beginning, where a table cuts what is long."""
    return cell in answers or (len(cell) > 4 and any(a.startswith(cell) for a in answers))


def _merged(page: Image, grid: Grid, left: int, original: Original) -> Image:
    size = size_in(page, *(cell for row in grid.rows for cell in row[left : left + 2]))
    for number, row in enumerate(grid.rows):
        one, other = row[left], row[left + 1]
        box: Box = (
            one.box[0],
            min(one.box[1], other.box[1]),
            other.box[2],
            max(one.box[3], other.box[3]),
        )
        page = covered(
            page, [padded(b, 2, page.size) for b in (one.box, other.box)], background(page, one.box)
        )
        texts = [t for t in (one.text, other.text) if t]
        if number and original.random.random() < 0.5:
            texts.reverse()
        page = written(page, box, "/".join(texts) if number == 0 else "  ".join(texts), size)
    return page


@transformation("image", "page", "table")
def column_merge(original: Original) -> Altered:
    """D6: two neighbouring columns become one, under a header that names both and tells neither.

    Of each cell pair either value comes first, drawn row by row, so that no reader can say which column one is of. The
    pair is one that holds the right answer, and beside it a value of its look. Elsewhere on the pages the answer's words are erased.
    """
    altered, merged = [], []
    for image, found in zip(original.images, read_tables(original), strict=True):
        page = answer_elsewhere_erased(original, image, found)
        for grid in found:
            left = _pair(grid, original)
            if left is None:
                continue
            page = _merged(page, grid, left, original)
            merged.append(f"{grid.rows[0][left].text} / {grid.rows[0][left + 1].text}")
        altered.append(page)
    if not merged:
        raise Infeasible("no cell of a table holds the answer beside a value that looks like it")
    return Altered(original.question, tuple(altered), {"merged": merged})


ROWS = 2


def _competing(grid: Grid, original: Original) -> list[int]:
    """Rows that hold the answer or that the question names; none where the wanted row cannot be told."""
    answers = [form.casefold() for form in original.accepted]
    held = [
        n for n, row in enumerate(grid.rows) if n and any(c.text.casefold() in answers for c in row)
    ]
    asked = [n for n, row in enumerate(grid.rows) if n and named_in(row, original.question)]
    return [n for n in held if n in asked] or asked or held


def _values(grid: Grid, place: int, original: Original) -> list[str]:
    row = grid.rows[place]
    found = [row[0].text]
    for column, cell in enumerate(row[1:], start=1):
        number = other_value(cell.text, original.random)
        others = [
            r[column].text
            for n, r in enumerate(grid.rows)
            if n not in (0, place) and r[column].text != cell.text
        ]
        found.append(
            number[0] if number else original.random.choice(others) if others else cell.text
        )
    return found


def _room(box: Box, row: tuple[Cell, ...], width: int) -> Box:
    """The box of a cell of a row, as wide as its column."""
    starts = [cell.box[0] for cell in row]
    end = min((x - 8 for x in starts if x > box[0]), default=width - min(starts))
    return box[0], box[1], max(box[2], end), box[3]


def _inserted(
    page: Image, grid: Grid, place: int, original: Original, most: int
) -> tuple[Image, int]:
    """A page with rows below one of a table, as many as it has room for; and how many."""
    row = grid.rows[place]
    pitch = max(8, (grid.rows[-1][0].box[1] - grid.rows[0][0].box[1]) // (len(grid.rows) - 1))
    bottom = max(c.box[3] for c in row) + max(2, (pitch - (row[0].box[3] - row[0].box[1])) // 2)
    rows = min(most, (page.height - bottom) // pitch)
    if rows < 1:
        return page, 0
    room = pitch * rows
    moved = page.copy()
    moved.paste(page.crop((0, bottom, page.width, page.height - room)), (0, bottom + room))
    moved = covered(moved, [(0, bottom, page.width, bottom + room)], background(page, row[0].box))
    strip = page.crop((0, bottom - pitch, page.width, bottom))  # with its rules
    size = size_in(page, *row)
    for n in range(rows):
        top = bottom + n * pitch
        moved.paste(strip, (0, top))
        for cell, text in zip(row, _values(grid, place, original), strict=True):
            x0, y0, x1, y1 = cell.box
            here: Box = (x0, y0 + top - bottom + pitch, x1, y1 + top - bottom + pitch)
            moved = covered(moved, [padded(here, 2, moved.size)], background(page, cell.box))
            moved = written(moved, _room(here, row, page.width), text, size)
    return moved, rows


@transformation("image", "page", "table")
def distractor_rows(original: Original) -> Altered:
    """D8: plausible rows with other values stand in the table, under the same name as the row that holds the answer.

    The rows below move down; a row's copy differs by 20 to 50 % in its numbers and, where it has none, by the values of
    another row. No reader can know which row is meant. Elsewhere the right answer's words are erased. A row at the foot
    of its page has no room below it.
    """
    altered, added, most = [], 0, max(1, round(ROWS * min(original.strength, 1.5)))
    for image, found in zip(original.images, read_tables(original), strict=True):
        page = answer_elsewhere_erased(original, image, found)
        for grid in sorted(
            found, key=lambda g: -g.box[1]
        ):  # from below, so that boxes above stay true
            for place in sorted(_competing(grid, original), reverse=True)[:2]:
                page, rows = _inserted(page, grid, place, original, most)
                added += rows
        altered.append(page)
    if not added:
        raise Infeasible("no row can be told to be the wanted one, or there is no room for another")
    return Altered(original.question, tuple(altered), {"rows_added": added})


PAGE_RADIUS, DENSE = 25, 0.80


def blur(original: Original) -> Altered:
    """(a)."""
    altered = tuple(
        blurred(i, radius_for(i, PAGE_RADIUS, original.strength)) for i in original.images
    )
    left = max(map(sharpness_left, original.images, altered))
    return Altered(original.question, altered, {"fallback": "page blur", "sharpness_left": left})


def mask(original: Original) -> Altered:
    """(b): masks on the words first, then at random."""
    altered, share = [], 1.0
    for image in original.images:
        boxes = [padded(w.box, 4, image.size) for w in original.words(image)]
        boxes += rectangles(original, image.size, DENSE)
        share = min(share, coverage(image.size, boxes))
        altered.append(covered(image, boxes))
    return Altered(
        original.question, tuple(altered), {"fallback": "dense masks", "coverage": share}
    )
