"""Tables on a page, from its words alone: rows of words on one line, in columns that several rows share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from demur.suites.mm_aqa.transforms import Given, Infeasible, Word
from demur.suites.mm_aqa.transforms.drawing import Box, erased

if TYPE_CHECKING:
    from PIL.Image import Image

LEAST_ROWS = 3


class Cell(NamedTuple):
    """Words of one cell, joined."""

    text: str
    box: Box


class Grid(NamedTuple):
    """A table: R rows of C cells each, the first of which is the header."""

    rows: tuple[tuple[Cell, ...], ...]

    @property
    def box(self) -> Box:
        """What surrounds it."""
        cells = [c.box for row in self.rows for c in row]
        return min(b[0] for b in cells), min(b[1] for b in cells), max(b[2] for b in cells), max(b[3] for b in cells)


def lines(words: Sequence[Word]) -> list[list[Word]]:
    """Words by line, top to bottom, each from left to right."""
    found: list[list[Word]] = []
    for word in sorted(words, key=lambda w: (w.box[1] + w.box[3], w.box[0])):
        middle = (word.box[1] + word.box[3]) / 2
        if found and found[-1][0].box[1] <= middle <= found[-1][0].box[3]:
            found[-1].append(word)
        else:
            found.append([word])
    return [sorted(line, key=lambda w: w.box[0]) for line in found]


def cells(line: Sequence[Word]) -> tuple[Cell, ...]:
    """Words of a line with wide gaps between them."""
    groups: list[list[Word]] = []
    for word in line:
        height = word.box[3] - word.box[1]
        if groups and word.box[0] - groups[-1][-1].box[2] < 0.9 * height:
            groups[-1].append(word)
        else:
            groups.append([word])
    return tuple(
        Cell(
            " ".join(w.text for w in g),
            (g[0].box[0], min(w.box[1] for w in g), g[-1].box[2], max(w.box[3] for w in g)),
        )
        for g in groups
    )


def grids(words: Sequence[Word]) -> list[Grid]:
    """Tables of at least three rows and two columns: runs of lines with as many cells that begin below one another."""
    found: list[Grid] = []
    run: list[tuple[Cell, ...]] = []

    def close() -> None:
        if len(run) >= LEAST_ROWS:
            found.append(Grid(tuple(run)))
        run.clear()

    for row in map(cells, lines(words)):
        height = row[0].box[3] - row[0].box[1]
        same = bool(run) and len(run[-1]) == len(row)
        aligned = same and all(
            abs(a.box[0] - b.box[0]) < 2.5 * height or abs(a.box[2] - b.box[2]) < 2.5 * height
            for a, b in zip(run[-1], row, strict=True)
        )
        near = aligned and row[0].box[1] - run[-1][0].box[3] < 3 * height
        if not near:
            close()
        if len(row) >= 2:
            run.append(row)
    close()
    return found


def read_tables(given: Given) -> list[list[Grid]]:
    """The tables of each page; `Infeasible` where there is none."""
    pages = [grids(given.words(image)) for image in given.images]
    if not any(pages):
        raise Infeasible("no table can be read off the evidence pages")
    return pages


def told_elsewhere_erased(given: Given, image: Image, found: Sequence[Grid]) -> Image:
    """A page on which words of the right answer stand in its tables alone."""
    inside = [g.box for g in found]
    told = [
        w for w in given.told(image)
        if not any(b[0] <= w.box[0] <= b[2] and b[1] <= w.box[1] <= b[3] for b in inside)
    ]  # fmt: skip
    return erased(image, told)
