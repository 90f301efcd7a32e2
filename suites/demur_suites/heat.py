"""Heat maps of rates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from demur.core.records import Measure
from demur.core.text import plain
from demur.reports import svg
from demur.reports.figures import percent, rate_text
from demur.reports.svg import WIDTH, Panel, num


def heat(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[Measure | None]],
) -> Panel:
    """A heat map of rates; every cell shows its number and n, its tooltip the interval. Labels wrap on two lines.

    Args:
        title: the measure.
        rows: R labels.
        columns: C labels.
        values: R x C rates in [0, 1]; None where there is no such cell.
    """
    label_w, top, cell_h = 122.0, 50.0, 38.0
    cell_w = (WIDTH - label_w) / max(len(columns), 1)
    out = [svg.title(title)]
    for place, label in enumerate(columns):
        lines = wrapped(label, cell_w - 4, 11)
        for line, words in enumerate(lines):
            y = top - 7 - 12 * (len(lines) - 1 - line)
            out.append(
                svg.text(
                    label_w + cell_w * (place + 0.5), y, words, size=11, anchor="middle", faint=True
                )
            )
    for number, (label, cells) in enumerate(zip(rows, values, strict=True)):
        y = top + cell_h * number
        lines = wrapped(label, label_w - 8, 11.5)
        for line, words in enumerate(lines):
            out.append(
                svg.text(
                    0, y + cell_h / 2 + 4 + 13 * (line - (len(lines) - 1) / 2), words, size=11.5
                )
            )
        for place, measure in enumerate(cells):
            x = label_w + cell_w * place
            middle = num(x + cell_w / 2)
            if measure is None or measure.value is None:
                out.append(
                    svg.text(x + cell_w / 2, y + cell_h / 2 + 4, "–", anchor="middle", faint=True)
                )
                continue
            ground, ink = ramp(measure.value)
            inside = (
                f'<text x="{middle}" y="{num(y + 17)}" font-size="12" text-anchor="middle" fill="{ink}">'
                f'{measure.value * 100:.1f}</text><text x="{middle}" y="{num(y + 30)}" font-size="9.5" '
                f'text-anchor="middle" fill="{ink}">n {measure.n:,}</text>'
            )
            tooltip = f"{label}, {columns[place]}: {rate_text(title, measure)}"
            square = svg.rect(x + 1, y + 1, cell_w - 2, cell_h - 2, "cell", ground, 'rx="3"')
            out.append(svg.mark(tooltip, square, inside))
    alt = "; ".join(
        f"{r}: "
        + ", ".join(
            f"{c} {percent(m.value)}" for c, m in zip(columns, cells, strict=True) if m is not None
        )
        for r, cells in zip(rows, values, strict=True)
    )
    return Panel(title, "".join(out), top + cell_h * len(rows) + 4, alt=f"{title}. {alt}")


def wrapped(words: str, room: float, size: float = 12) -> list[str]:
    """A text on one or two lines of ``room`` user units, broken at separators, and cut if it is still too long."""
    flat = plain(words)
    if svg.breadth(flat, size) <= room:
        return [flat]
    ends = [
        m.end()
        for m in re.finditer(r"[-_/:.,\s]+", flat)
        if svg.breadth(flat[: m.end()].rstrip(), size) <= room
    ]
    at = max(ends, default=0)
    if not at:
        return [svg.fit(flat, room, size)]
    return [flat[:at].rstrip(), svg.fit(flat[at:].lstrip(), room, size)]


def ramp(share: float) -> tuple[str, str]:
    """Cell and text colour for a value in [0, 1]: white to deep blue, one hue, so that order survives grey print."""
    low, high = (247, 251, 255), (8, 69, 128)
    mixed = tuple(
        round(a + (b - a) * min(max(share, 0), 1)) for a, b in zip(low, high, strict=True)
    )
    ground = luminance(mixed)
    on_white = 1.05 / (ground + 0.05)
    on_ink = (ground + 0.05) / (luminance((0x1F, 0x24, 0x30)) + 0.05)
    return "#{:02x}{:02x}{:02x}".format(*mixed), "#ffffff" if on_white > on_ink else svg.INK


def luminance(colour: Sequence[int]) -> float:
    """Relative luminance of sRGB (WCAG 2.2), in [0, 1]."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (v / 255 for v in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
