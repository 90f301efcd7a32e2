"""Drawn pages: of the sample corpus a country's article with its flag and a table, else a passage of text.

The places of the words on a drawn page are known, as in a PDF with text: no OCR is needed.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from demur_suites.mm_aqa.build.transforms import Word
from demur_suites.mm_aqa.build.transforms.drawing import font_of, plain

if TYPE_CHECKING:
    from PIL.Image import Image

SIZE = (850, 1100)
MARGIN = 60


@cache
def _breadth(word: str, size: float) -> float:
    return float(font_of(size).getlength(plain(word)))


@cache
def _height(size: float) -> tuple[int, int]:
    box = font_of(size).getbbox("Ag")
    return round(box[1]), round(box[3])


class Page:
    """A page that fills from the top; ``words`` are those written so far."""

    def __init__(self) -> None:
        from PIL import Image, ImageDraw

        self.image: Image.Image = Image.new("RGB", SIZE, "white")
        self.words: list[Word] = []
        self._pen = ImageDraw.Draw(self.image)
        self.y = MARGIN

    def line(self, text: str, x: int, size: float) -> None:
        """Write words from x on, on the current line."""
        font, (top, bottom) = font_of(size), _height(size)
        for word in text.split():
            self._pen.text((x, self.y), plain(word), fill="black", font=font)
            end = x + round(_breadth(word, size))
            self.words.append(Word(word, (x, self.y + top, end, self.y + bottom)))
            x = end + round(_breadth(" ", size))

    def paragraph(self, text: str, size: float = 15, right: int = SIZE[0] - MARGIN) -> str:
        """Write a text in lines; returns the rest that does not fit on the page."""
        line, room, left = "", float(right - MARGIN), []
        for word in [*text.split(), ""]:
            if (
                word
                and (room := room - round(_breadth(word, size)) - round(_breadth(" ", size))) >= 0
            ):
                line = f"{line} {word}".strip()
                continue
            room = right - MARGIN - _breadth(word, size) - _breadth(" ", size)
            if self.y < SIZE[1] - MARGIN:
                self.line(line, MARGIN, size)
                self.y += round(size * 1.45)
            else:
                left.append(line)
            line = word
        self.y += round(size * 0.6)
        return " ".join(left)

    def table(self, rows: Sequence[Sequence[str]], size: float = 14) -> None:
        """Write rows of cells, a rule under the header."""
        width = (SIZE[0] - 2 * MARGIN) // len(rows[0])
        for number, row in enumerate(rows):
            for place, cell in enumerate(row):
                text = cell
                while _breadth(text, size) > width - 22 and " " in text:
                    text = text.rpartition(" ")[0]
                self.line(text, MARGIN + place * width, size)
            self.y += round(size * 2)
            if number == 0:
                self._pen.line(
                    (MARGIN, self.y - 6, SIZE[0] - MARGIN, self.y - 6), fill="black", width=2
                )
        self.y += round(size)

    def picture(self, image: Image, width: int) -> None:
        """An image at the left, with a frame."""
        width = max(1, width)
        shown = image.convert("RGB").resize(
            (width, max(1, round(width * image.height / image.width)))
        )
        self.image.paste(shown, (MARGIN, self.y))
        self._pen.rectangle((MARGIN, self.y, MARGIN + width, self.y + shown.height), outline="grey")
        self.y += shown.height + 16

    def png(self) -> bytes:
        """The page as a PNG file."""
        out = io.BytesIO()
        self.image.save(out, "PNG")
        return out.getvalue()


def sheets(title: str, text: str, image: Image | None = None) -> list[Page]:
    """A passage on as many pages as needed, its title on each; its picture on the first."""
    pages: list[Page] = []
    while text.strip() or not pages:
        page = Page()
        page.paragraph(title[:200], 22)
        if image is not None and not pages:
            room = SIZE[0] - 2 * MARGIN, SIZE[1] // 2
            page.picture(
                image, round(min(room[0], image.width, image.width * room[1] / image.height))
            )
        text = page.paragraph(text)
        pages.append(page)
    return pages
