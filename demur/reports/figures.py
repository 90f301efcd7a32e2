"""The kinds of figure, each made of *panels*: the page lets them flow (one column on a phone); `demur.reports.svg`,
which draws them, puts them side by side in one file for a paper. Every mark has its numbers as a tooltip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple
from xml.sax.saxutils import escape

from demur.core.records import Measure
from demur.reports import svg
from demur.reports.svg import INK, OUTCOMES, SERIES, WIDTH, Panel, look, num
from demur.reports.tables import signed


class Point(NamedTuple):
    """One point of a curve; ``low`` and ``high`` bound its band where there is one."""

    x: float
    y: float | None
    """None where unknown: the line breaks off there."""
    low: float | None = None
    high: float | None = None
    note: str = ""
    faint: bool = False
    """Grey: not comparable with the other points."""


class Curve(NamedTuple):
    """A named series; ``style`` picks its colour, dash and marker, so that a system looks the same everywhere."""

    label: str
    points: tuple[Point, ...]
    style: int = 0


class OutcomeRow(NamedTuple):
    """One bar: the three rates of one system in one scenario."""

    label: str
    accuracy: Measure
    deflection: Measure
    hallucination: Measure


def percent(value: float | None) -> str:
    """A share in per cent, or a dash."""
    return "–" if value is None else f"{100 * value:.1f} %"


def rate_text(name: str, m: Measure) -> str:
    """A rate in words, for a tooltip."""
    interval = (
        f" [{100 * m.low:.1f}, {100 * m.high:.1f}]"
        if m.low is not None and m.high is not None
        else ""
    )
    uncounted = "".join(
        f", {count} {state}"
        for count, state in ((m.unjudged, "unjudged"), (m.failed, "failed"))
        if count
    )
    corrected = "" if m.corrected is None else f" ({100 * m.corrected:.1f})"
    return f"{name} {percent(m.value)}{corrected}{interval}, n = {m.n}{_repeats_text(m)}{uncounted}"


def _repeats_text(m: Measure) -> str:
    return f" ({m.repeats:,} repeats)" if m.repeats else ""


def whole_shares(values: Sequence[float]) -> list[int]:
    """Shares of a whole in whole per cent that add up to 100 (largest remainders; at a tie the first).

    >>> whole_shares([1 / 3, 1 / 3, 1 / 3]), whole_shares([0.125, 0.875])
    ([34, 33, 33], [13, 87])
    """
    down = [math.floor(100 * value + 1e-9) for value in values]
    order = sorted(range(len(values)), key=lambda i: (round(down[i] - 100 * values[i], 9), i))
    for i in order[: round(100 * sum(values)) - sum(down)]:
        down[i] += 1
    return down


def outcome_bars(title: str, rows: Sequence[OutcomeRow], *, key: str, ideal: str = "") -> Panel:
    """Stacked bars, one a system: accuracy from the left, then deflection, then hallucination.

    Below each bar are the three rates in whole per cent with their intervals, each behind its own colour and pattern: a
    whisker at the border of two segments could be read as the interval of either.

    Args:
        key: unique within a page; prefixes the ids of the patterns.
        ideal: the right behaviour here ("should answer"), shown beside the title.
    """
    row_height, top = 64.0, 26.0
    height = top + row_height * len(rows) + 18
    out = [svg.patterns(key), svg.title(title)]
    if ideal:
        out.append(
            svg.text(
                WIDTH, 14, svg.fit(ideal, WIDTH * 0.72, 11.5), size=11.5, anchor="end", faint=True
            )
        )
    bottom = top + row_height * len(rows)
    for number, row in enumerate(rows):
        y = top + row_height * number
        away = row.accuracy.unjudged + row.accuracy.failed
        tail = f"n = {row.accuracy.n:,}{_repeats_text(row.accuracy)}" + (
            f" + {away:,} in no rate" if away else ""
        )
        out.append(svg.text(0, y + 12, svg.fit(row.label, WIDTH - svg.breadth(tail, 11) - 10)))
        out.append(svg.text(WIDTH, y + 12, tail, size=11, anchor="end", faint=True))
        bar_y, bar_h = y + 19, 16.0
        if row.accuracy.value is None:
            out.append(svg.text(0, bar_y + 12, "nothing graded", size=11, faint=True))
            continue
        x = 0.0
        measures = (row.accuracy, row.deflection, row.hallucination)
        whole = whole_shares([m.value or 0.0 for m in measures])
        for place, (name, measure) in enumerate(zip(OUTCOMES, measures, strict=True)):
            wide = (measure.value or 0.0) * WIDTH
            out.append(
                f'<g class="mark"><title>{escape(rate_text(OUTCOMES[name][1], measure))}</title>'
            )
            shape = f'x="{num(x)}" y="{num(bar_y)}" width="{num(wide)}" height="{num(bar_h)}"'
            out.append(svg.outcome(name, shape, key))
            if wide >= 34:
                # a plate under the number keeps it legible on pattern and colour
                middle = x + wide / 2
                out.append(
                    f'<rect x="{num(middle - 14)}" y="{num(bar_y + 2)}" width="28" height="{num(bar_h - 4)}" rx="3" '
                    f'class="plate" fill="#ffffff" fill-opacity=".88"/>'
                )
                out.append(
                    f'<text x="{num(middle)}" y="{num(bar_y + 12)}" font-size="11" text-anchor="middle" '
                    f'class="ink" fill="{INK}">{whole[place]}</text>'
                )
            key_x, key_y = place * WIDTH / 3, bar_y + bar_h + 6
            out.append(
                svg.outcome(name, f'x="{num(key_x)}" y="{num(key_y)}" width="9" height="9"', key)
            )
            moved = "" if measure.corrected is None else f" ({_wholepercent(measure.corrected)})"
            ends = (
                f" [{_wholepercent(measure.low)}, {_wholepercent(measure.high)}]"
                if measure.low is not None
                else ""
            )
            out.append(
                svg.text(
                    key_x + 14, key_y + 8.5, f"{whole[place]} %{moved}{ends}", size=10.5, faint=True
                )
            )
            out.append("</g>")
            x += wide
    for tick in (0, 25, 50, 75, 100):
        x = WIDTH * tick / 100
        anchor = {0: "start", 100: "end"}.get(tick, "middle")
        label = f"{tick} %" if tick in (0, 100) else str(tick)
        out.append(svg.text(x, bottom + 12, label, size=10.5, anchor=anchor, faint=True))
    alt = "; ".join(
        f"{r.label}: "
        + ", ".join(
            rate_text(OUTCOMES[k][1].lower(), m) for k, m in zip(OUTCOMES, r[1:], strict=True)
        )
        for r in rows
    )
    return Panel(title, "".join(out), height, alt=f"{title}. {alt}")


def _wholepercent(value: float | None) -> str:
    return f"{100 * (value or 0.0):.0f}"


def _ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that cover [low, high], at most ``most`` + 1 of them."""
    if high <= low:
        return [low]
    raw = (high - low) / most
    power = 10 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def curves(
    title: str,
    series: Sequence[Curve],
    *,
    x_label: str,
    y_label: str = "",
    whole_x: bool = True,
    y_max: float | None = 1.0,
    counts: Mapping[float, str] = MappingProxyType({}),
) -> Panel:
    """Lines with markers and bands; a line breaks off where y is unknown, and is grey to and from faint points.

    Args:
        title: what the y axis shows.
        series: one curve each; y in [0, 1] and shown in per cent while ``y_max`` is 1.
        x_label: under the x axis.
        y_label: beside the title.
        whole_x: ticks only at whole numbers (counts).
        y_max: top of the y axis; None fits it to the data and shows y as it is.
        counts: x -> n, shown under its tick where it differs from the tick before.
    """
    left, right, top, bottom = 38.0, 10.0, 30.0, 54.0 if counts else 40.0
    height = 210.0 + bottom
    plot_width, plot_height = WIDTH - left - right, height - top - bottom
    points = [p for c in series for p in c.points if p.y is not None]
    parts = [svg.title(title)]
    if y_label:
        parts.append(
            svg.text(
                WIDTH, 14, svg.fit(y_label, WIDTH / 2, 11.5), size=11.5, anchor="end", faint=True
            )
        )
    if not points:
        parts.append(svg.text(left, top + plot_height / 2, "no data", faint=True))
        return Panel(title, "".join(parts), height, alt=f"{title}: no data")
    x0, x1 = min(p.x for p in points), max(p.x for p in points)
    if x1 == x0:
        x0, x1 = x0 - 0.5, x1 + 0.5
    share = y_max == 1.0
    top_y = (
        y_max
        if y_max is not None
        else (max(max(p.high or 0.0, p.y or 0.0) for p in points) * 1.05 or 1.0)
    )

    def at(p_x: float, p_y: float | None) -> tuple[float, float]:
        return left + (p_x - x0) / (x1 - x0) * plot_width, top + (
            1 - min(max((p_y or 0.0) / top_y, 0), 1)
        ) * plot_height

    for tick in _ticks(0, top_y, 4):
        y, label = at(x0, tick)[1], f"{tick * 100:.0f}" if share else f"{tick:,.6g}"
        parts.append(svg.line(left, y, left + plot_width, y))
        parts.append(svg.text(left - 6, y + 4, label, size=10.5, anchor="end", faint=True))
    before, free = "", left - 14
    for tick in _ticks(x0, x1, 10 if whole_x else 5):
        if whole_x and tick != int(tick):
            continue
        x = at(tick, 0)[0]
        parts.append(svg.line(x, top + plot_height, x, top + plot_height + 4, kind="axis"))
        parts.append(
            svg.text(
                x, top + plot_height + 16, f"{tick:,.6g}", size=10.5, anchor="middle", faint=True
            )
        )
        n, half = counts.get(tick, ""), svg.breadth(counts.get(tick, ""), 9) / 2
        if n and n != before and x - half > free:
            parts.append(
                svg.text(x, top + plot_height + 28, n, size=9, anchor="middle", faint=True)
            )
            before, free = n, x + half + 2
    if counts:
        parts.append(
            svg.text(left - 16, top + plot_height + 28, "n", size=9, anchor="end", faint=True)
        )
    parts.append(
        svg.line(left, top + plot_height, left + plot_width, top + plot_height, kind="axis")
    )
    parts.append(
        svg.text(
            left + plot_width / 2,
            height - 6,
            svg.fit(x_label, plot_width, 11.5),
            size=11.5,
            anchor="middle",
            faint=True,
        )
    )
    for curve in series:
        for run in _unbroken_pieces(curve.points):
            band = [p for p in run if p.low is not None and p.high is not None]
            if len(band) > 1:
                upper = [at(p.x, p.high) for p in band]
                lower = [at(p.x, p.low) for p in reversed(band)]
                path = " ".join(f"{num(x)},{num(y)}" for x, y in (*upper, *lower))
                style = curve.style % len(SERIES)
                parts.append(
                    f'<polygon points="{path}" class="f-{style} band" fill="{SERIES[style]}" fill-opacity=".13"/>'
                )
    for curve in series:
        style = curve.style % len(SERIES)
        colour, dash, marker = look(curve.style)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        stroke = f'stroke="{colour}" stroke-width="2" fill="none"{dashed}'
        for faint, part in _strokes(curve.points):
            path = " ".join(f"{num(x)},{num(y)}" for x, y in (at(p.x, p.y) for p in part))
            parts.append(
                f'<polyline points="{path}" class="l-{style} curve"{FADED if faint else ""} {stroke}/>'
            )
        if len(curve.points) <= 40:
            for p in curve.points:
                if p.y is None:
                    continue
                value = percent(p.y) if share else f"{p.y:,.6g}"
                note = (
                    f"{curve.label}, {x_label} {p.x:,.6g}: {value}{' ' + p.note if p.note else ''}"
                )
                shape = svg.marker(marker, *at(p.x, p.y), colour, str(style))
                parts.append(svg.mark(note, f"<g{FADED}>{shape}</g>" if p.faint else shape))
    alt = []
    for c in series:
        values = [p.y for p in c.points if p.y is not None]
        alt += [f"{c.label} from {percent(values[0])} to {percent(values[-1])}"] if values else []
    described = f"{title} by {x_label}. {'; '.join(alt) if share else ''}".strip()
    return Panel(title, "".join(parts), height, alt=described)


FADED = ' opacity=".38"'
"""Opacity of grey marks: light enough to recede, dark enough to read in print."""


def _unbroken_pieces(points: Sequence[Point]) -> list[list[Point]]:
    """The points, split at gaps."""
    runs: list[list[Point]] = [[]]
    for p in points:
        if p.y is None:
            runs.append([])
        else:
            runs[-1].append(p)
    return [run for run in runs if run]


def _strokes(points: Sequence[Point]) -> list[tuple[bool, list[Point]]]:
    """The lines of a curve: (grey, points); a piece is grey where either of its ends is."""
    strokes: list[tuple[bool, list[Point]]] = []
    for run in _unbroken_pieces(points):
        for number, (start, end) in enumerate(pairwise(run)):
            faint = start.faint or end.faint
            if number and strokes[-1][0] == faint:
                strokes[-1][1].append(end)
            else:
                strokes.append((faint, [start, end]))
    return strokes


def series_legend(labels: Sequence[tuple[str, int]]) -> Panel:
    """Legend of curves: (label, style), in two columns."""
    out = []
    rows = math.ceil(len(labels) / 2)
    for number, (label, raw) in enumerate(labels):
        style = raw % len(SERIES)
        colour, pattern, marker = look(raw)
        x, y = (number // rows) * WIDTH / 2, 14.0 + 18 * (number % rows)
        dash = f' stroke-dasharray="{pattern}"' if pattern else ""
        out.append(
            f'<line x1="{num(x)}" y1="{num(y - 4)}" x2="{num(x + 30)}" y2="{num(y - 4)}" class="l-{style}" '
            f'stroke="{colour}" stroke-width="2"{dash}/>'
            + svg.marker(marker, x + 15, y - 4, colour, str(style))
            + svg.text(x + 36, y, svg.fit(label, WIDTH / 2 - 40))
        )
    return Panel(
        "Legend",
        "".join(out),
        18.0 * rows + 6,
        alt="Legend: " + ", ".join(label for label, _ in labels),
    )


def outcome_legend(key: str) -> Panel:
    """Legend of outcome bars."""
    out = [svg.patterns(key)]
    x = 0.0
    for name, (_, label) in OUTCOMES.items():
        shape = f'x="{num(x)}" y="3" width="22" height="12"'
        out.append(svg.outcome(name, shape, key))
        out.append(svg.text(x + 28, 13, label))
        x += 28 + 7.2 * len(label) + 16
    return Panel(
        "Legend",
        "".join(out),
        18,
        alt="Legend: green accuracy, dotted blue deflection, striped orange hallucination",
    )


def paired_bars(
    title: str, rows: Sequence[tuple[str, float, float]], *, first: str, second: str
) -> Panel:
    """Two shares per label (topic shares before and after curation), in per cent of each whole.

    Args:
        rows: (label, share before, share after), shares in [0, 1].
        first: name of the first share, drawn hollow.
        second: name of the second share, drawn solid.
    """
    row_height, top, label_w = 26.0, 46.0, 150.0
    room = WIDTH - label_w - 44
    hollow = f'stroke="{SERIES[0]}" stroke-width="1.5"'
    full = max((max(a, b) for _, a, b in rows), default=0) or 1.0
    out = [
        svg.title(title),
        svg.rect(0, 24, 14, 9, "l-0 hollow", "none", hollow),
        svg.text(20, 33, svg.fit(first, WIDTH / 2 - 24, 11.5), size=11.5),
        svg.rect(WIDTH / 2, 24, 14, 9, "f-0", SERIES[0]),
        svg.text(WIDTH / 2 + 20, 33, svg.fit(second, WIDTH / 2 - 24, 11.5), size=11.5),
    ]
    for number, (label, before, after) in enumerate(rows):
        y = top + row_height * number
        out.append(svg.text(0, y + 14, svg.fit(label, label_w - 8, 11.5), size=11.5))
        out.append(
            svg.mark(
                f"{label}: {first} {percent(before)}, {second} {percent(after)}",
                svg.rect(label_w, y + 2, before / full * room, 8, "l-0 hollow", "none", hollow),
                svg.rect(label_w, y + 12, after / full * room, 8, "f-0", SERIES[0]),
            )
        )
        change = signed(100 * (after - before))
        out.append(svg.text(WIDTH, y + 14, change, size=10.5, anchor="end", faint=True))
    alt = "; ".join(f"{t} {percent(a)} to {percent(b)}" for t, a, b in rows)
    return Panel(
        title,
        "".join(out),
        top + row_height * len(rows) + 4,
        alt=f"{title}, {first} and {second}. {alt}",
    )
