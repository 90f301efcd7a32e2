"""D8: plausible rows with other values stand in the table, under the same name as the row that holds the answer.

The rows below move down; a row's copy differs by 20 to 50 % in its numbers and, where it has none, by the values of
another row. No reader can know which row is meant. Elsewhere the right answer's words are erased. A row at the foot of
its page has no room below it.
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


def _room(box: Box, row: tuple[Cell, ...], width: int) -> Box:
    """The box of a cell of a row, as wide as its column."""
    starts = [cell.box[0] for cell in row]
    end = min((x - 8 for x in starts if x > box[0]), default=width - min(starts))
    return box[0], box[1], max(box[2], end), box[3]


def _inserted(page: Image, grid: Grid, place: int, given: Given, most: int) -> tuple[Image, int]:
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
        for cell, text in zip(row, _values(grid, place, given), strict=True):
            x0, y0, x1, y1 = cell.box
            here: Box = (x0, y0 + top - bottom + pitch, x1, y1 + top - bottom + pitch)
            moved = covered(moved, [padded(here, 2, moved.size)], background(page, cell.box))
            moved = written(moved, _room(here, row, page.width), text, size)
    return moved, rows


def apply(given: Given) -> Made:
    """Every table with rows that compete."""
    made, added, most = [], 0, max(1, round(ROWS * min(given.strength, 1.5)))
    for image, found in zip(given.images, read_tables(given), strict=True):
        page = answer_elsewhere_erased(given, image, found)
        for grid in sorted(found, key=lambda g: -g.box[1]):  # from below, so that boxes above stay true
            for place in sorted(_rows(grid, given), reverse=True)[:2]:
                page, rows = _inserted(page, grid, place, given, most)
                added += rows
        made.append(page)
    if not added:
        raise Infeasible("below the answer's row there is no room for another")
    return Made(given.question, tuple(made), {"rows_added": added})
