"""D8: plausible rows with other values stand in the table, under the same name as the row that holds the answer.

The rows below move down; a row's copy differs by 20 to 50 % in its numbers and, where it has none, by the values of
another row. No reader can know which row is meant. Elsewhere the right answer's words are erased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, background, covered, padded, size_in, written
from demur.suites.mm_aqa.transforms.tables import Cell, Grid, answer_elsewhere_erased, named_in, read_tables
from demur.suites.mm_aqa.transforms.tokens import other_value

if TYPE_CHECKING:
    from PIL.Image import Image

NEEDS: frozenset[Need] = frozenset({"page", "table"})
CHANGES = "image"
ROWS = 2


def _rows(grid: Grid, given: Given) -> list[int]:
    """Rows that hold the answer; one at random without."""
    answers = [form.casefold() for form in given.accepted]
    held = [n for n, row in enumerate(grid.rows) if n and any(c.text.casefold() in answers for c in row)]
    asked = [n for n, row in enumerate(grid.rows) if n and named_in(row, given.question)]
    return [n for n in held if n in asked] or asked or held or [given.random.randrange(1, len(grid.rows))]


def _values(grid: Grid, place: int, given: Given) -> list[str]:
    row = grid.rows[place]
    found = [row[0].text]
    for column, cell in enumerate(row[1:], start=1):
        number = other_value(cell.text, given.random)
        others = [
            r[column].text for n, r in enumerate(grid.rows) if n not in (0, place) and r[column].text != cell.text
        ]
        found.append(number[0] if number else given.random.choice(others) if others else cell.text)
    return found


def _room(here: Box, box: Box, boxes: list[Box], width: int) -> Box:
    """A cell's box, as wide as its column."""
    after = [b[0] for b in boxes if b[0] > box[0]]
    return here[0], here[1], max(here[2], min(after) - 8 if after else width - min(b[0] for b in boxes)), here[3]


def _inserted(page: Image, grid: Grid, place: int, given: Given, rows: int) -> tuple[Image, int]:
    row: tuple[Cell, ...] = grid.rows[place]
    pitch = max(8, (grid.rows[-1][0].box[1] - grid.rows[0][0].box[1]) // (len(grid.rows) - 1))
    bottom = max(c.box[3] for c in row) + max(2, (pitch - (row[0].box[3] - row[0].box[1])) // 2)
    room = pitch * rows
    moved = page.copy()
    moved.paste(page.crop((0, bottom, page.width, page.height - room)), (0, bottom + room))
    moved = covered(moved, [(0, bottom, page.width, bottom + room)], background(page, row[0].box))
    strip = page.crop((0, bottom - pitch, page.width, bottom))  # with its rules
    texts = [cell.box for cell in row]
    size = size_in(page, *row)
    for n in range(rows):
        top = bottom + n * pitch
        moved.paste(strip, (0, top))
        for cell, text in zip(row, _values(grid, place, given), strict=True):
            box = cell.box
            dy = top - (bottom - pitch)
            here: Box = (box[0], box[1] + dy, box[2], box[3] + dy)
            moved = covered(moved, [padded(here, 2, moved.size)], background(page, box))
            moved = written(moved, _room(here, box, texts, page.width), text, size)
    return moved, rows


def apply(given: Given) -> Made:
    """Every table with rows that compete."""
    made, added = [], 0
    for image, found in zip(given.images, read_tables(given), strict=True):
        page = answer_elsewhere_erased(given, image, found)
        for grid in sorted(found, key=lambda g: -g.box[1]):  # from below, so that boxes above stay true
            for place in sorted(_rows(grid, given), reverse=True)[:2]:
                page, more = _inserted(page, grid, place, given, max(1, round(ROWS * min(given.strength, 1.5))))
                added += more
        made.append(page)
    if not added:
        raise Infeasible("no row could be added")
    return Made(given.question, tuple(made), {"rows_added": added})
