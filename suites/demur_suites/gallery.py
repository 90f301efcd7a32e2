"""A page of tables and cards: items with their images, question, right answer and the systems' replies.

Writes plain records of any kind of item to one self-contained HTML file without a script; text of items and systems is
escaped (`demur.reports.markup.text`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from demur.core.records import ImageRef, Outcome, Status
from demur.core.store import write_atomic
from demur.reports.browse import thumbnails
from demur.reports.html import IMAGE_BUDGET
from demur.reports.markup import csp_hash, table_html, text
from demur.reports.svg import Panel
from demur.reports.tables import Table
from demur_suites.records import Scored

Glyph = Literal["c", "i", "d", "u", "f", "p", "o"]
"""Right, wrong, deflected, unjudged, failed, as in the sample browser; partly right; a step without a match."""
SIGNS: dict[Glyph, tuple[str, str]] = {
    "c": ("✓", "right"),
    "i": ("✗", "wrong"),
    "d": ("–", "deflected"),
    "u": ("?", "unjudged"),
    "f": ("!", "no usable reply"),
    "p": ("~", "partly right"),
    "o": ("·", "none of these"),
}


def glyph(item: Scored) -> Glyph:
    """The sign of a graded reply."""
    if item.right:
        return "c"
    signs: dict[Outcome | Status | None, Glyph] = {
        Outcome.CORRECT: "i",  # where declining is right
        Outcome.INCORRECT: "i",
        Outcome.DEFLECTED: "d",
        Status.UNJUDGED: "u",
    }
    grade = item.grade
    return signs.get(grade.outcome or grade.status, "f") if grade is not None else "f"


class Reply(NamedTuple):
    """One system's reply: its name, grade and words."""

    system: str
    glyph: Glyph
    words: str


def replies_to(
    question: str, scored: Mapping[str, Mapping[str, Scored]], words: Callable[[Scored], str]
) -> tuple[Reply, ...]:
    """What each model replied to a question, by its id, in the suite's words."""
    return tuple(
        Reply(model, glyph(items[question]), words(items[question]))
        for model, items in scored.items()
        if question in items
    )


class Cell(NamedTuple):
    """One question about an image: a heading, the question, the right answer, the replies."""

    title: str
    question: str
    right: str
    replies: tuple[Reply, ...] = ()


class Row(NamedTuple):
    """One image, if any, with its caption and its questions side by side."""

    image: ImageRef | None
    caption: str
    cells: tuple[Cell, ...]
    pictured: bool = True
    """False for a row that needs no image (a chain of thought), so that none is missing."""


class Card(NamedTuple):
    """One item."""

    title: str
    tags: tuple[str, ...]
    rows: tuple[Row, ...]
    read: Callable[[ImageRef], bytes]
    """Bytes of its pictures."""


def named_once(table: Table) -> Table:
    """A table for people: a name that the row above has too, behind the same names, is left out."""
    names = [n for n, column in enumerate(table.columns) if column.align == "left"]
    leading = [n for place, n in enumerate(names) if n == place]
    rows = [list(row) for row in table.rows]
    for above, row in reversed([*pairwise(rows)]):
        for n in leading:
            if row[n] != above[n]:
                break
            row[n] = ""
    return replace(table, rows=tuple(map(tuple, rows)))


def write_gallery(
    out: Path,
    *,
    title: str,
    about: str,
    tables: Sequence[Table],
    cards: Iterable[Card],
    notes: Sequence[str] = (),
    figures: Sequence[Panel] = (),
) -> Path:
    """Write the page.

    The first table stands open at the top; the others, the figures and each item open on a click.

    Args:
        tables: the summary first.
        notes: caveats for the reader.
        figures: figures between tables and cards.

    Images beyond `IMAGE_BUDGET` are left out, with a note.
    """
    tables = [named_once(table) for table in tables]
    cards_listed = list(cards)
    refs: dict[str, ImageRef] = {}
    readers: dict[str, Callable[[ImageRef], bytes]] = {}
    for card in cards_listed:
        for row in card.rows:
            if row.image is not None and row.image.sha256 not in refs:
                refs[row.image.sha256] = row.image
                readers[row.image.sha256] = card.read

    def read(ref: ImageRef) -> bytes:
        return readers[ref.sha256](ref)

    pictures = dict(zip(refs, thumbnails(list(refs.values()), read, IMAGE_BUDGET), strict=True))
    lost = sum(uri is None for uri in pictures.values())
    left_out = f"{lost} of {len(pictures)} images are left out: unreadable, or beyond the size limit of the page"
    lines = [*notes, left_out] if lost else notes
    css = files("demur.reports").joinpath("page", "report.css").read_text(encoding="utf-8")
    css += files("demur_suites").joinpath("page", "gallery.css").read_text(encoding="utf-8")
    body = [
        '<section id="overview">',
        *(table_html(t) for t in tables[:1]),
        *(
            f"<details><summary>{text(t.caption)}</summary>{table_html(t)}</details>"
            for t in tables[1:]
        ),
        "</section>",
    ]
    if figures:
        body += [
            '<section id="figures"><h2>Figures</h2>',
            *(f"<figure>{f.svg()}</figure>" for f in figures),
            "</section>",
        ]
    if cards_listed:
        body += [
            f'<section id="items"><h2>Items ({len(cards_listed):,})</h2>',
            _legend({sign for card in cards_listed for sign in _signs_of(card)}),
            *(_card(c, pictures) for c in cards_listed),
            "</section>",
        ]
    aside = (
        f'<div class="caveats"><ul>{"".join(f"<li>{text(n)}</li>" for n in lines)}</ul></div>'
        if lines
        else ""
    )
    policy = f"default-src 'none'; style-src {csp_hash(css)}; img-src data:; base-uri 'none'; form-action 'none'"
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f'<title>{text(title)}</title><link rel="icon" href="data:,"><style>{css}</style></head><body>'
        f'<header class="top wrap"><h1>{text(title)}</h1><p class="lede">{text(about)}</p>{aside}</header>'
        f'<main class="wrap">{"".join(body)}</main></body></html>\n'
    )
    write_atomic(out, page)
    return out


def _legend(used: Collection[Glyph]) -> str:
    signs = "".join(
        f'<span><span class="glyph {g}">{sign}</span> {name}</span>'
        for g, (sign, name) in SIGNS.items()
        if g in used
    )
    return f'<p class="signs">{signs}</p>'


def _card(card: Card, pictures: dict[str, str | None]) -> str:
    tags = "".join(f'<span class="tag">{text(t)}</span>' for t in card.tags)
    rows = "".join(_row(row, pictures) for row in card.rows)
    signs = "".join(f'<span class="glyph {g}">{SIGNS[g][0]}</span>' for g in _signs_of(card))
    head = f'<summary><h3>{text(card.title)}</h3> <span class="strip">{signs}</span></summary>'
    return f'<details class="card">{head}<div class="tags">{tags}</div>{rows}</details>'


def _signs_of(card: Card) -> list[Glyph]:
    """The signs of all replies on a card, in their order."""
    return [reply.glyph for row in card.rows for cell in row.cells for reply in cell.replies]


def _row(row: Row, pictures: dict[str, str | None]) -> str:
    uri = pictures.get(row.image.sha256) if row.image is not None else None
    missing = '<div class="none">no image</div>' if row.pictured else ""
    picture = f'<img src="{uri}" alt="{text(row.caption)}">' if uri else missing
    cells = "".join(
        f'<div class="cell"><h4>{text(c.title)}</h4><p>{text(c.question)}</p><p class="right">{text(c.right)}</p>'
        + "".join(
            f'<p class="said"><span class="glyph {s.glyph}" title="{SIGNS[s.glyph][1]}">{SIGNS[s.glyph][0]}</span> '
            f"<b>{text(s.system)}</b> {text(s.words)}</p>"
            for s in c.replies
        )
        + "</div>"
        for c in row.cells
    )
    return f'<div class="row"><figure>{picture}<figcaption>{text(row.caption)}</figcaption></figure>{cells}</div>'
