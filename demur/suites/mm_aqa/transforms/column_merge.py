"""D6: two neighbouring columns become one, under a header that names both and tells neither.

Of each cell pair either value comes first, drawn row by row, so that no reader can say which column one is of. The pair
is the one that holds the right answer, where it can be found. Elsewhere on the pages the answer's words are erased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import Box, background, covered, padded, size_in, written
from demur.suites.mm_aqa.transforms.tables import Grid, answer_elsewhere_erased, named_in, read_tables

if TYPE_CHECKING:
    from PIL.Image import Image

NEEDS: frozenset[Need] = frozenset({"page", "table"})
CHANGES = "image"


def _pair(grid: Grid, given: Given) -> int:
    """The left of the two columns; never the first, which names the rows, where there is a choice."""
    width = len(grid.rows[0])
    answers = [form.casefold() for form in given.accepted]
    rows = grid.rows[1:]  # what the question names comes first: another row may hold the same in another column
    rows = tuple(sorted(rows, key=lambda row: not named_in(row, given.question)))
    columns = [c for row in rows for c, cell in enumerate(row) if _tells(cell.text.casefold(), answers)]
    first = 1 if width > 2 else 0
    place = columns[0] if columns else given.random.randrange(first, width)
    return min(max(first, place - given.random.choice((0, 1))), width - 2)


def _tells(cell: str, answers: list[str]) -> bool:
    """Whether a cell is the answer, or its beginning, where a table cuts what is long."""
    return cell in answers or (len(cell) > 4 and any(a.startswith(cell) for a in answers))


def _merged(page: Image, grid: Grid, left: int, given: Given) -> Image:
    size = size_in(page, *(cell for row in grid.rows for cell in row[left : left + 2]))
    for number, row in enumerate(grid.rows):
        one, other = row[left], row[left + 1]
        box: Box = (one.box[0], min(one.box[1], other.box[1]), other.box[2], max(one.box[3], other.box[3]))
        page = covered(page, [padded(b, 2, page.size) for b in (one.box, other.box)], background(page, one.box))
        texts = [t for t in (one.text, other.text) if t]
        if number and given.random.random() < 0.5:
            texts.reverse()
        page = written(page, box, "/".join(texts) if number == 0 else "  ".join(texts), size)
    return page


def apply(given: Given) -> Made:
    """Every table with two columns merged."""
    made, merged = [], []
    for image, found in zip(given.images, read_tables(given), strict=True):
        page = answer_elsewhere_erased(given, image, found)
        for grid in found:
            left = _pair(grid, given)
            page = _merged(page, grid, left, given)
            merged.append(f"{grid.rows[0][left].text} / {grid.rows[0][left + 1].text}")
        made.append(page)
    return Made(given.question, tuple(made), {"merged": merged})
