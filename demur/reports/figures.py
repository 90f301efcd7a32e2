"""The kinds of figure, each made of *panels*: the page lets them flow (one column on a phone); `demur.reports.svg`,
which draws them, puts them side by side in one file for a paper. Every mark has its numbers as a tooltip.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from demur.core.records import Measure
from demur.reports import svg
from demur.reports.svg import OUTCOMES, SERIES, WIDTH, Panel, look, num
from demur.reports.tables import Column, cell_text, signed


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
    value, _, interval = cell_text(m, _TENTHS).partition(" ")
    counts = [f"n = {m.n}{_repeats_text(m)}"]
    counts += [f"{n} {state}" for n, state in ((m.unjudged, "unjudged"), (m.failed, "failed")) if n]
    rate = f"{name} {value}" if m.value is None else f"{name} {value} % {interval}".strip()
    return f"{rate}, {', '.join(counts)}"


_TENTHS = Column("", interval=True)


def _repeats_text(m: Measure) -> str:
    return f" ({m.repeats:,} repeats)" if m.repeats else ""


def outcome_bars(title: str, rows: Sequence[OutcomeRow], *, key: str, ideal: str = "") -> Panel:
    """Stacked bars, one a system: accuracy from the left, then deflection, then hallucination.

    Below each bar are the three rates in whole per cent with their intervals, each behind its own colour and pattern: a
    whisker at the border of two segments could be read as the interval of either.

    Args:
        key: unique within a page; prefixes the ids of the patterns.
        ideal: the right behaviour here ("should answer"), shown beside the title.
    """
    row_height, top = 64.0, 26.0
    bottom = top + row_height * len(rows)
    parts = [svg.patterns(key), svg.title(title), *_aside(ideal, WIDTH * 0.72)]
    for number, row in enumerate(rows):
        parts += _outcome_bar(row, top + row_height * number, key)
    for tick in (0, 25, 50, 75, 100):
        anchor = {0: "start", 100: "end"}.get(tick, "middle")
        label = f"{tick} %" if tick in (0, 100) else str(tick)
        x = WIDTH * tick / 100
        parts.append(svg.text(x, bottom + 12, label, size=10.5, anchor=anchor, faint=True))
    alt = "; ".join(f"{row.label}: {_outcomes_text(row)}" for row in rows)
    return Panel(title, "".join(parts), bottom + 18, alt=f"{title}. {alt}")


def _aside(words: str, room: float) -> list[str]:
    """Words at the right of a panel's title."""
    if not words:
        return []
    fitted = svg.fit(words, room, 11.5)
    return [svg.text(WIDTH, 14, fitted, size=11.5, anchor="end", faint=True)]


def _outcomes_text(row: OutcomeRow) -> str:
    rates = (row.accuracy, row.deflection, row.hallucination)
    return ", ".join(
        rate_text(label, rate) for (_, label), rate in zip(OUTCOMES.values(), rates, strict=True)
    )


def _outcome_bar(row: OutcomeRow, y: float, key: str) -> list[str]:
    """One system: its name and n, its bar, and its rates below."""
    uncounted = row.accuracy.unjudged + row.accuracy.failed
    tail = f"n = {row.accuracy.n:,}{_repeats_text(row.accuracy)}"
    tail += f" + {uncounted:,} in no rate" if uncounted else ""
    parts = [
        svg.text(0, y + 12, svg.fit(row.label, WIDTH - svg.breadth(tail, 11) - 10)),
        svg.text(WIDTH, y + 12, tail, size=11, anchor="end", faint=True),
    ]
    if row.accuracy.value is None:
        return [*parts, svg.text(0, y + 31, "nothing graded", size=11, faint=True)]
    x = 0.0
    rates = (row.accuracy, row.deflection, row.hallucination)
    for place, (name, measure) in enumerate(zip(OUTCOMES, rates, strict=True)):
        width, key_x = (measure.value or 0.0) * WIDTH, place * WIDTH / 3
        bar = f'x="{num(x)}" y="{num(y + 19)}" width="{num(width)}" height="16"'
        sample = f'x="{num(key_x)}" y="{num(y + 41)}" width="9" height="9"'
        rate = svg.text(key_x + 14, y + 49.5, _whole_rate(measure), size=10.5, faint=True)
        shapes = svg.outcome(name, bar, key), svg.outcome(name, sample, key)
        parts.append(svg.mark(rate_text(OUTCOMES[name][1], measure), *shapes, rate))
        x += width
    return parts


def _whole_rate(measure: Measure) -> str:
    """A rate in whole per cent, with its correction and interval."""
    value, _, interval = cell_text(measure, _WHOLE).partition(" ")
    return f"{value} % {interval}".strip()


_WHOLE = Column("", interval=True, decimals=0)


def _ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that cover [low, high], at most ``most`` + 1 of them."""
    if high <= low:
        return [low]
    raw = (high - low) / most
    power = 10 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


class _Axes(NamedTuple):
    """The box of a plot, in user units, and the ranges of its axes."""

    height: float
    x_range: tuple[float, float]
    y_top: float
    as_share: bool
    """Whether y is a share, written in per cent."""

    left: float = 38.0
    top: float = 30.0
    plot_width: float = WIDTH - 48.0
    plot_height: float = 180.0

    @property
    def bottom(self) -> float:
        """Where the x axis lies."""
        return self.top + self.plot_height

    def at(self, x: float, y: float | None) -> tuple[float, float]:
        """Where a point lies."""
        low, high = self.x_range
        share = min(max((y or 0.0) / self.y_top, 0.0), 1.0)
        return (
            self.left + (x - low) / (high - low) * self.plot_width,
            self.top + (1 - share) * self.plot_height,
        )

    def path(self, points: Iterable[tuple[float, float | None]]) -> str:
        """Points as an attribute of a line."""
        return " ".join(f"{num(x)},{num(y)}" for x, y in (self.at(*point) for point in points))

    def y_text(self, value: float | None) -> str:
        """A value of y, for a tooltip."""
        return percent(value) if self.as_share or value is None else f"{value:,.6g}"


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
    points = [p for curve in series for p in curve.points if p.y is not None]
    height = 264.0 if counts else 250.0
    parts = [svg.title(title), *_aside(y_label, WIDTH / 2)]
    if not points:
        parts.append(svg.text(38, 120, "no data", faint=True))
        return Panel(title, "".join(parts), height, alt=f"{title}: no data")
    low, high = min(p.x for p in points), max(p.x for p in points)
    x_range = (low, high) if high > low else (low - 0.5, high + 0.5)
    highest = max(max(p.high or 0.0, p.y or 0.0) for p in points)
    axes = _Axes(height, x_range, y_max or highest * 1.05 or 1.0, y_max == 1.0)
    parts += [*_y_axis(axes), *_x_axis(axes, x_label, whole_x, counts)]
    parts += [band for curve in series for band in _bands(curve, axes)]
    parts += [line for curve in series for line in _lines(curve, axes, x_label)]
    ends = []
    for curve in series:
        known = [p.y for p in curve.points if p.y is not None]
        ends += [f"{curve.label} from {percent(known[0])} to {percent(known[-1])}"] if known else []
    described = f"{title} by {x_label}. {'; '.join(ends) if axes.as_share else ''}".strip()
    return Panel(title, "".join(parts), height, alt=described)


def _y_axis(axes: _Axes) -> Iterator[str]:
    for tick in _ticks(0, axes.y_top, 4):
        x, y = axes.at(axes.x_range[0], tick)
        label = f"{tick * 100:.0f}" if axes.as_share else f"{tick:,.6g}"
        yield svg.line(x, y, x + axes.plot_width, y)
        yield svg.text(x - 6, y + 4, label, size=10.5, anchor="end", faint=True)


def _x_axis(axes: _Axes, label: str, whole: bool, counts: Mapping[float, str]) -> Iterator[str]:
    bottom, right = axes.bottom, axes.left + axes.plot_width
    before, free = "", axes.left - 14
    for tick in _ticks(*axes.x_range, 10 if whole else 5):
        if whole and tick != int(tick):
            continue
        x, _ = axes.at(tick, 0)
        yield svg.line(x, bottom, x, bottom + 4, kind="axis")
        yield svg.text(x, bottom + 16, f"{tick:,.6g}", size=10.5, anchor="middle", faint=True)
        n = counts.get(tick, "")
        half = svg.breadth(n, 9) / 2
        if n and n != before and x - half > free:
            yield svg.text(x, bottom + 28, n, size=9, anchor="middle", faint=True)
            before, free = n, x + half + 2
    if counts:
        yield svg.text(axes.left - 16, bottom + 28, "n", size=9, anchor="end", faint=True)
    yield svg.line(axes.left, bottom, right, bottom, kind="axis")
    fitted = svg.fit(label, axes.plot_width, 11.5)
    middle = (axes.left + right) / 2
    yield svg.text(middle, axes.height - 6, fitted, size=11.5, anchor="middle", faint=True)


def _bands(curve: Curve, axes: _Axes) -> Iterator[str]:
    style = curve.style % len(SERIES)
    for piece in _unbroken_pieces(curve.points):
        band = [p for p in piece if p.low is not None and p.high is not None]
        if len(band) > 1:
            edge = [(p.x, p.high) for p in band] + [(p.x, p.low) for p in reversed(band)]
            yield (
                f'<polygon points="{axes.path(edge)}" class="f-{style} band" fill="{SERIES[style]}" '
                'fill-opacity=".13"/>'
            )


def _lines(curve: Curve, axes: _Axes, x_label: str) -> Iterator[str]:
    style = curve.style % len(SERIES)
    colour, dash, marker = look(curve.style)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    for faint, piece in _strokes(curve.points):
        path = axes.path((p.x, p.y) for p in piece)
        yield (
            f'<polyline points="{path}" class="l-{style} curve"{FADED if faint else ""} '
            f'stroke="{colour}" stroke-width="2" fill="none"{dashed}/>'
        )
    for p in curve.points if len(curve.points) <= MOST_MARKERS else ():
        if p.y is None:
            continue
        tooltip = f"{curve.label}, {x_label} {p.x:,.6g}: {axes.y_text(p.y)} {p.note}".strip()
        shape = svg.marker(marker, *axes.at(p.x, p.y), colour, str(style))
        yield svg.mark(tooltip, f"<g{FADED}>{shape}</g>" if p.faint else shape)


MOST_MARKERS = 40
"""Points of a curve that has markers; a denser one is a line alone."""
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
