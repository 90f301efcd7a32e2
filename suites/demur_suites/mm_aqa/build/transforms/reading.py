"""What the words of a page tell: its numbers, and its tables."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from demur_suites.mm_aqa.build.transforms import Infeasible, Original, Word
from demur_suites.mm_aqa.build.transforms.drawing import Box, erased

if TYPE_CHECKING:
    from PIL.Image import Image

_NUMBER = re.compile(r"(?P<head>[^\d\w]*[$€£¥]?)(?P<digits>\d[\d,. ]*)(?P<tail>\D*)")


def numeric(word: Word) -> bool:
    """Whether a word of a page is a number: more of it digits than letters."""
    digits = sum(c.isdigit() for c in word.text)
    return digits > 0 and digits >= sum(c.isalpha() for c in word.text)


def split(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """Numeric words and the others."""
    return [w for w in words if numeric(w)], [w for w in words if not numeric(w)]


def other_value(
    text: str, rng: random.Random, low: float = 0.2, high: float = 0.5
) -> tuple[str, float] | None:
    """A number of 20 to 50 % more or less, in the same manner, and by how much; None where no such one can be written.

    The change is that of what is written, after rounding to as many decimals; single digits of small numbers that
    cannot move by so little are left to be erased.

    >>> other_value("59,700", random.Random(1))[0].count(",")
    1
    """
    number = _NUMBER.fullmatch(text.strip())
    if number is None:
        return None
    plain = number["digits"].rstrip("., ")
    rest = number["digits"][len(plain) :]
    grouped = bool(re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain))
    if not grouped and not re.fullmatch(r"\d+(?:\.\d+)?", plain):
        return None
    value = float(plain.replace(",", ""))
    decimals = len(plain.partition(".")[2])
    if value == 0:
        return None
    for _ in range(40):
        by = rng.uniform(low, high) * rng.choice((-1, 1))
        written = (
            f"{value * (1 + by):,.{decimals}f}" if grouped else f"{value * (1 + by):.{decimals}f}"
        )
        real = float(written.replace(",", "")) / value - 1
        if low - 1e-9 <= abs(real) <= high + 1e-9:
            return number["head"] + written + rest + number["tail"], real
    return None


def read_pages(original: Original) -> list[list[Word]]:
    """The words of each page; `Infeasible` where none holds a number."""
    pages = [original.words(image) for image in original.images]
    if not any(numeric(w) for page in pages for w in page):
        raise Infeasible("no number can be read off the evidence pages")
    return pages


def drawn(words: Sequence[Word], share: float, rng: random.Random) -> list[Word]:
    """That share of the words, at least one where there are any, in their order."""
    many = min(len(words), max(1, round(share * len(words)))) if words and share > 0 else 0
    chosen = set(rng.sample(range(len(words)), many))
    return [w for place, w in enumerate(words) if place in chosen]


LEAST_ROWS, LEAST_FULL = 3, 0.6
"""Rows of a table, and the share of its cells that are read."""


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
        return (
            min(b[0] for b in cells),
            min(b[1] for b in cells),
            max(b[2] for b in cells),
            max(b[3] for b in cells),
        )


def lines(words: Sequence[Word]) -> list[list[Word]]:
    """Words by line, top to bottom, each from left to right."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda w: (w.box[1] + w.box[3], w.box[0])):
        middle = (word.box[1] + word.box[3]) / 2
        if rows and rows[-1][0].box[1] <= middle <= rows[-1][0].box[3]:
            rows[-1].append(word)
        else:
            rows.append([word])
    return [sorted(line, key=lambda w: w.box[0]) for line in rows]


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
    """Tables of at least three rows and two columns: runs of lines whose cells stand below one another.

    The row with most cells tells the columns; where another has none (a dash is seldom read), an empty one is put.
    """
    found: list[Grid] = []
    run: list[tuple[Cell, ...]] = []

    def close() -> None:
        if len(run) >= LEAST_ROWS:
            widest = max(run, key=len)
            rows = tuple(_filled(row, widest) for row in run)
            if sum(map(len, run)) >= LEAST_FULL * len(rows) * len(widest):
                found.append(Grid(rows))
        run.clear()

    for row in map(cells, lines(words)):
        height = row[0].box[3] - row[0].box[1]
        wide = max([*run, row], key=len)
        near = bool(run) and all(_places(one, wide) is not None for one in (*run, row))
        if not (near and row[0].box[1] - max(c.box[3] for c in run[-1]) < 3 * height):
            close()
        if len(row) >= 2:
            run.append(row)
    close()
    return found


def _places(row: Sequence[Cell], widest: Sequence[Cell]) -> list[int] | None:
    """Which column of the widest row each cell of another stands in; None where one stands in none of them."""
    room = 2.5 * (widest[0].box[3] - widest[0].box[1])
    places: list[int] = []
    for cell in row:
        off = [min(abs(cell.box[0] - c.box[0]), abs(cell.box[2] - c.box[2])) for c in widest]
        free = [n for n in range(places[-1] + 1 if places else 0, len(widest)) if off[n] < room]
        if not free:
            return None
        places.append(min(free, key=lambda n: off[n]))
    return places if len(row) >= 2 else None


def _filled(row: Sequence[Cell], widest: Sequence[Cell]) -> tuple[Cell, ...]:
    """A row with an empty cell in each column where it has none."""
    there = dict(zip(_places(row, widest) or [], row, strict=True))
    top, bottom = row[0].box[1], row[0].box[3]
    return tuple(
        there.get(n) or Cell("", (c.box[0], top, c.box[2], bottom)) for n, c in enumerate(widest)
    )


def named_in(row: Sequence[Cell], question: str) -> bool:
    """Whether a question speaks of a row by its first cell."""
    return bool(row[0].text) and row[0].text.casefold() in question.casefold()


def read_tables(original: Original) -> list[list[Grid]]:
    """The tables of each page; `Infeasible` where there is none."""
    pages = [grids(original.words(image)) for image in original.images]
    if not any(pages):
        raise Infeasible("no table can be read off the evidence pages")
    return pages


def answer_elsewhere_erased(original: Original, image: Image, found: Sequence[Grid]) -> Image:
    """A page on which words of the right answer stand in its tables alone."""
    inside = [g.box for g in found]
    outside = [
        w
        for w in original.answer_words(image)
        if not any(b[0] <= w.box[0] <= b[2] and b[1] <= w.box[1] <= b[3] for b in inside)
    ]
    return erased(image, outside)
