"""Elements of figures: colours, dashes, markers, text, boxes, lines, and the panel that holds them.

We write SVG directly: a few marks suffice, text stays text, and the same numbers give the same bytes. Matplotlib is
heavier than the rest of the core together, and its files hold a date and random ids; a chart library in the page would
need a script, which paper and print do not have.

Colours are those of Okabe and Ito (Color Universal Design, 2008), and no meaning depends on colour alone: series differ
in dash and marker, outcomes in pattern. Colours are presentation attributes, so that a style sheet (the report's dark
mode) can override them by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from demur.reports.tables import plain

INK, FAINT, GRID = "#1f2430", "#5b6270", "#d9dce3"
OUTCOMES = {
    "accuracy": ("#009e73", "Accuracy"),
    "deflection": ("#56b4e9", "Deflection"),
    "hallucination": ("#d55e00", "Hallucination"),
}
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#6b6b6b", "#9a6a00")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", "4 2 1 2 1 2", "12 3 3 3")
MARKERS = ("circle", "square", "triangle", "diamond", "plus", "cross", "ring", "bar")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

WIDTH = 380.0
"""Width of a panel in user units: two fit on a laptop's column, one fills a phone's."""


@dataclass(frozen=True)
class Panel:
    """One drawing: its marks in a box of ``width`` x ``height`` user units, with a text alternative."""

    title: str
    body: str
    height: float
    width: float = WIDTH
    alt: str = ""

    def svg(self) -> str:
        """The panel as an element of the page; scales with its container."""
        return (
            f'<svg class="panel" viewBox="0 0 {num(self.width)} {num(self.height)}" role="img" '
            f"aria-label={attribute(self.alt or self.title)}>{self.body}</svg>"
        )


def look(style: int) -> tuple[str, str, str]:
    """Colour, dash and marker of a series; the first eight differ in each, the next fifty-six in their combination."""
    turn = style + style // len(SERIES)
    return SERIES[style % len(SERIES)], DASHES[turn % len(DASHES)], MARKERS[turn % len(MARKERS)]


def num(value: float) -> str:
    """A coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def attribute(words: str) -> str:
    """Any text as a quoted attribute."""
    return quoteattr(plain(words))


def breadth(words: str, size: float = 12) -> float:
    """Estimated width of a text in user units, an upper estimate for the widest fallback fonts."""
    narrow, wide = set("ijltfrI.,:;'|!()[] -"), set("mwMW@%")
    ems = (
        1.0
        if ord(c) > 0x2E7F
        else 0.41
        if c in narrow
        else 0.95
        if c in wide
        else 0.7
        if c.isupper()
        else 0.62
        for c in words
    )
    return size * sum(ems)


def fit(words: str, room: float, size: float = 12) -> str:
    """A text in at most ``room`` user units, cut in the middle, because names often differ only at their end.

    >>> fit("Qwen2.5-VL-7B-Instruct-AWQ", 120)
    'Qwen2.5-V…t-AWQ'
    """
    flat = plain(words)
    if breadth(flat, size) <= room:
        return flat
    for characters_kept in range(len(flat) - 1, 1, -1):
        tail = characters_kept * 2 // 5
        shortened = f"{flat[: characters_kept - tail]}…{flat[len(flat) - tail :]}"
        if breadth(shortened, size) <= room:
            return shortened
    return "…"


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 12,
    anchor: str = "start",
    faint: bool = False,
    bold: bool = False,
) -> str:
    """Text with its ``anchor`` (start, middle, end) of the baseline at x, y."""
    return (
        f'<text x="{num(x)}" y="{num(y)}" font-size="{num(size)}" text-anchor="{anchor}" '
        f'class="{"faint" if faint else "ink"}" fill="{FAINT if faint else INK}"'
        + (' font-weight="600">' if bold else ">")
        + f"{escape(plain(words))}</text>"
    )


def title(words: str) -> str:
    """The title of a panel."""
    return text(0, 14, fit(words, WIDTH * 0.92, 14), size=14, bold=True)


def rect(
    x: float, y: float, width: float, height: float, cls: str, fill: str, extra: str = ""
) -> str:
    """A box of a class and its colour."""
    return (
        f'<rect x="{num(x)}" y="{num(y)}" width="{num(width)}" height="{num(height)}" class="{cls}" '
        f'fill="{fill}"{" " + extra if extra else ""}/>'
    )


def mark(tooltip: str, *shapes: str) -> str:
    """Shapes for a data point, with its numbers as a tooltip."""
    return f'<g class="mark"><title>{escape(plain(tooltip))}</title>{"".join(shapes)}</g>'


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str = "grid") -> str:
    """A line of the grid or an axis."""
    colour = {"grid": GRID, "axis": FAINT}[kind]
    return (
        f'<line x1="{num(x1)}" y1="{num(y1)}" x2="{num(x2)}" y2="{num(y2)}" class="{kind}" '
        f'stroke="{colour}" stroke-width="1"/>'
    )


def marker(kind: str, x: float, y: float, colour: str, cls: str) -> str:
    """One of `MARKERS` around x, y."""
    r = 3.6
    solid = f'class="f-{cls}" fill="{colour}"'
    drawn = f'class="l-{cls}" stroke="{colour}" stroke-width="2" fill="none"'
    match kind:
        case "circle":
            return f'<circle cx="{num(x)}" cy="{num(y)}" r="{r}" {solid}/>'
        case "square":
            return f'<rect x="{num(x - 3.2)}" y="{num(y - 3.2)}" width="6.4" height="6.4" {solid}/>'
        case "triangle":
            return f'<path d="M{num(x)} {num(y - 4.4)}l4.2 7.4h-8.4z" {solid}/>'
        case "diamond":
            return f'<path d="M{num(x)} {num(y - 4.6)}l4.6 4.6l-4.6 4.6l-4.6-4.6z" {solid}/>'
        case "plus":
            return f'<path d="M{num(x - 4)} {num(y)}h8M{num(x)} {num(y - 4)}v8" {drawn}/>'
        case "cross":
            return f'<path d="M{num(x - 3)} {num(y - 3)}l6 6m0-6l-6 6" {drawn}/>'
        case "ring":
            return f'<circle cx="{num(x)}" cy="{num(y)}" r="{r}" {drawn}/>'
        case _:
            return f'<path d="M{num(x)} {num(y - 4.5)}v9" {drawn}/>'


def patterns(key: str) -> str:
    """Hatching for outcomes: deflection dotted, hallucination striped, so that print and any eye tell them apart."""
    return (
        f'<defs><pattern id="{key}-dots" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<circle cx="2" cy="2" r="1" fill="#fff" fill-opacity=".65"/></pattern>'
        f'<pattern id="{key}-stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="2" height="6" fill="#fff" fill-opacity=".38"/></pattern></defs>'
    )


def outcome(name: str, shape: str, key: str) -> str:
    """A box (``shape``: its x, y, width, height) in an outcome's colour and its hatching from `patterns(key)`."""
    hatching = {"deflection": "dots", "hallucination": "stripes"}.get(name)
    over = f'<rect {shape} fill="url(#{key}-{hatching})"/>' if hatching else ""
    return f'<rect {shape} class="o-{name}" fill="{OUTCOMES[name][0]}"/>{over}'


def standalone(panels: Sequence[Panel], *, columns: int = 0, title: str = "") -> str:
    """One SVG file for a paper: the panels in a grid on white.

    Args:
        columns: panels per row; 0 puts up to three side by side.
    """
    across = columns or min(len(panels), 3) or 1
    gap, margin = 28.0, 14.0
    rows = [panels[i : i + across] for i in range(0, len(panels), across)]
    width = 2 * margin + across * WIDTH + (across - 1) * gap
    out, y = [], margin
    for row in rows:
        for place, panel in enumerate(row):
            out.append(
                f'<g transform="translate({num(margin + place * (WIDTH + gap))} {num(y)})">{panel.body}</g>'
            )
        y += max(p.height for p in row) + gap
    height = y - gap + margin if rows else 2 * margin
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {num(width)} {num(height)}" width="{num(width)}" '
        f'height="{num(height)}" font-family={quoteattr(FONT)}><title>{escape(plain(title))}</title>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(out)}</svg>\n'
    )
