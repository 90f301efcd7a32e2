"""Figures 2 and 4 of MM-AQA: twins by transformation, and every system's MCC under the line of an expert."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from demur.reports import svg
from demur.reports.svg import SERIES, WIDTH, Panel
from demur_suites.mm_aqa.items import CATALOGUE, CATEGORIES, NAMES, Item, category_of
from demur_suites.mm_aqa.scoring import Score
from demur_suites.mm_aqa.tables import average_mcc, baselines, oracle_table, present


def figures(scores: Sequence[Score], items: Sequence[Item]) -> dict[str, list[Panel]]:
    """Name -> its panels: figure 2, and 4 where an MCC is defined."""
    drawn = {"fig2": distribution(items)}
    if any(True for s in scores for _ in _points(s)):
        drawn["fig4"] = [mcc_points(scores)]
    return drawn


def distribution(items: Sequence[Item]) -> list[Panel]:
    """Figure 2: a panel a subset, a bar a transformation, in the colour of its category."""
    panels = []
    for subset, name in NAMES.items():
        found = Counter(i.transform for i in items if i.transform and i.subset == subset)
        if not found:
            continue
        order = [c for c, of in CATEGORIES.items() if of == subset]
        full, out, y = (
            max(found.values()),
            [svg.title(f"{name}: {sum(found.values())} twins")],
            34.0,
        )
        for transform in [t for t in CATALOGUE if found[t]] + sorted(set(found) - set(CATALOGUE)):
            category = category_of(transform)
            place = order.index(category) if category in order else 7
            bar = svg.rect(
                176, y - 9, found[transform] / full * (WIDTH - 216), 11, f"f-{place}", SERIES[place]
            )
            out += [
                svg.text(0, y, svg.fit(transform, 170, 11), size=11),
                svg.mark(f"{transform} ({category}): {found[transform]}", bar),
                svg.text(WIDTH, y, str(found[transform]), size=11, anchor="end", faint=True),
            ]
            y += 17
        for place, category in enumerate(order):
            out += [
                svg.rect(0, y, 10, 10, f"f-{place}", SERIES[place]),
                svg.text(16, y + 9, category, size=11),
            ]
            y += 15
        alt = ", ".join(f"{t} {n}" for t, n in found.items())
        panels.append(Panel(name, "".join(out), y + 6, alt=f"{name}: {alt}"))
    return panels


RANDOM = "abstains at random"


def _points(s: Score) -> Iterator[tuple[str, str, str, float]]:
    """(name, marker, colour, mean MCC) of a system, and of its baselines that have one in every subset."""
    if (value := average_mcc(s)) is not None:
        agents = s.model.startswith("multi_agent")
        yield (
            s.model,
            "diamond" if "iterative" in s.model else "square" if agents else "circle",
            SERIES[0],
            value,
        )
    several: dict[str, list[float | None]] = defaultdict(list)
    subsets = present([s])
    for subset in subsets:
        for name, variant, m, *_ in baselines(s, subset):
            if not variant or "oracle" in variant or name == RANDOM:
                several[name].append(None if m is None else m.mcc_ext)
    for name, values in several.items():
        defined = [v for v in values if v is not None]
        if len(defined) == len(subsets):
            grey = name == RANDOM
            mean = sum(defined) / len(defined)
            yield (
                f"{name}, {s.model}",
                "ring" if grey else "triangle",
                SERIES[6 if grey else 1],
                mean,
            )


def mcc_points(scores: Sequence[Score]) -> Panel:
    """Figure 4: mean over the subsets of each system's best MCC and of its baselines' (at the oracle's tau).

    A dashed line stands at the expert's; the gap is to the best system.
    """
    found = sorted((p for s in scores for p in _points(s)), key=lambda p: -p[3])
    bare = [s.model for s in scores if average_mcc(s) is None]
    row = oracle_table(scores).rows[1]
    expert = row[5] if isinstance(row[5], float) else None
    low = min(-0.25, *(math.floor(4 * p[3]) / 4 for p in found))
    left, right = 12.0, WIDTH - 10

    def x(value: float) -> float:
        return left + (value - low) / (1 - low) * (right - left)

    bottom = 30 + 32 * len(found)
    out = [svg.title("Best MCC, mean over the subsets")]
    for tick in range(round(4 * low), 5):
        out += [
            svg.line(x(tick / 4), 26, x(tick / 4), bottom),
            svg.text(x(tick / 4), bottom + 14, f"{tick / 4:g}", size=10.5, anchor="middle"),
        ]
    for place, (name, kind, colour, value) in enumerate(found):
        y = 42 + 32 * place  # its name, and below it the point
        dot = svg.marker(kind, x(value), y + 12, colour, str(SERIES.index(colour)))
        out += [
            svg.text(0, y, svg.fit(name, WIDTH, 11), size=11),
            svg.mark(f"{name}: {value:.3f}", dot),
        ]
    notes = [
        "circle: a model; square, diamond: two agents, once, in rounds",
        "triangle: a baseline at its best tau",
    ]
    if expert is not None:
        out.append(
            f'<line x1="{svg.num(x(expert))}" y1="26" x2="{svg.num(x(expert))}" y2="{svg.num(bottom)}" '
            f'stroke="{SERIES[7]}" stroke-width="1.5" stroke-dasharray="5 3"/>'
        )
        of_systems = [v for s in scores if (v := average_mcc(s)) is not None]
        gap = f"; gap {expert - max(of_systems):.3f}" if of_systems else ""
        notes.append(f"dashed: an expert (derived) {expert:.3f}{gap}")
    notes += [f"no MCC is defined for {name}" for name in bare]
    for place, line in enumerate(notes):
        out.append(svg.text(0, bottom + 32 + 15 * place, svg.fit(line, WIDTH, 11), size=11))
    alt = ", ".join(f"{name} {value:.3f}" for name, _, _, value in found)
    return Panel(
        "Best MCC",
        "".join(out),
        bottom + 32 + 15 * len(notes),
        alt=f"Best MCC, mean over the subsets: {alt}",
    )
