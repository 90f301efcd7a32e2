"""Figure 4 of MM-AQA: every system's MCC under the line of an expert; figure 2 is the table of twins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demur.reports import svg
from demur.reports.svg import SERIES, WIDTH, Panel
from demur_suites.mm_aqa.scoring import Score
from demur_suites.mm_aqa.tables import RANDOM, average_mcc, baselines, oracle_table, present

ROW = 30


class Bar(NamedTuple):
    """A bar from 0 to a value, under its label."""

    label: str
    value: float
    style: int


def mcc_bars(scores: Sequence[Score]) -> list[Panel]:
    """Figure 4; none where no MCC is defined."""
    rows = sorted((b for s in scores for b in _mccs(s)), key=lambda b: -b.value)
    if not rows:
        return []
    expert = oracle_table(scores).rows[1][5]
    line = expert if isinstance(expert, float) else None
    title = "Mean of best MCCs"
    return [bars(title if line is None else f"{title}; line: expert, {line:.3f}", rows, line)]


def bars(title: str, rows: Sequence[Bar], line: float | None = None) -> Panel:
    """Bars below one another on one scale, and a dashed line at a value."""
    low, high = min(0.0, *(b.value for b in rows)), max(*(b.value for b in rows), line or 0.0)
    scale = (WIDTH - 60) / ((high - low) or 1)
    zero, bottom = -low * scale, 24.0 + ROW * len(rows)
    out = [svg.title(svg.fit(title, WIDTH))]
    for place, (label, value, style) in enumerate(rows):
        shown = f"{value:.3f}"
        y, x = 24.0 + ROW * place, min(0.0, value) * scale
        rect = svg.rect(zero + x, y + 16, abs(value) * scale, 9, f"s{style}", SERIES[style])
        out += [
            svg.text(0, y + 12, svg.fit(label, WIDTH, 11), size=11),
            svg.mark(f"{label}: {shown}", rect),
        ]
        out.append(svg.text(WIDTH, y + 25, shown, size=11, anchor="end", faint=True))
    if line is not None:
        out.append(svg.line(zero + line * scale, 20, zero + line * scale, bottom, kind="axis"))
    return Panel(
        title,
        "".join(out),
        bottom + 6,
        alt=f"{title}: {', '.join(f'{b.label} {b.value:.3f}' for b in rows)}",
    )


def _mccs(s: Score) -> Iterator[Bar]:
    """A system's mean MCC over the subsets, and those of its baselines that have one in every subset."""
    if (value := average_mcc(s)) is not None:
        yield Bar(s.model, value, 0)
    subsets = present([s])
    values: dict[str, list[float]] = defaultdict(list)
    for subset in subsets:
        for b in baselines(s, subset):
            mcc = b.matrix.mcc_ext if b.matrix is not None and b.name != RANDOM else None
            if mcc is not None:
                values[b.name].append(mcc)
    for name, several in values.items():
        if len(several) == len(subsets):
            yield Bar(f"{name}, {s.model}", sum(several) / len(several), 1)
