"""Figures 2 and 4 of MM-AQA: twins by transformation, and every system's MCC under the line of an expert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from demur.reports import svg
from demur.reports.svg import SERIES, WIDTH, Panel
from demur.suites.mm_aqa.items import CATALOGUE, CATEGORIES, NAMES, Item, category_of
from demur.suites.mm_aqa.scoring import Score
from demur.suites.mm_aqa.tables import average_mcc, oracle_table


def figures(scores: Sequence[Score], items: Sequence[Item]) -> dict[str, str]:
    """Name -> SVG file."""
    drawn = {"fig2": svg.standalone(distribution(items), title="Twins by transformation")}
    if any(average_mcc(s) is not None for s in scores):
        drawn["fig4"] = svg.standalone([mcc_points(scores)], columns=1, title="MCC by system")
    return drawn


def distribution(items: Sequence[Item]) -> list[Panel]:
    """Figure 2: a panel a subset, a bar a transformation, in the colour of its category."""
    panels = []
    for subset, name in NAMES.items():
        found = Counter(i.transform for i in items if i.transform and i.subset == subset)
        if not found:
            continue
        order = [c.name for c in CATEGORIES if c.subset == subset]
        full, out, y = max(found.values()), [svg.title(f"{name}: {sum(found.values())} twins")], 34.0
        for transform in [t for t in CATALOGUE if found[t]] + sorted(set(found) - set(CATALOGUE)):
            category = category_of(transform)
            place = order.index(category) if category in order else 7
            bar = svg.rect(176, y - 9, found[transform] / full * (WIDTH - 216), 11, f"f-{place}", SERIES[place])
            out += [
                svg.text(0, y, svg.fit(transform, 170, 11), size=11),
                svg.mark(f"{transform} ({category}): {found[transform]}", bar),
                svg.text(WIDTH, y, str(found[transform]), size=11, anchor="end", faint=True),
            ]
            y += 17
        for place, category in enumerate(order):
            out += [svg.rect(0, y, 10, 10, f"f-{place}", SERIES[place]), svg.text(16, y + 9, category, size=11)]
            y += 15
        alt = ", ".join(f"{t} {n}" for t, n in found.items())
        panels.append(Panel(name, "".join(out), y + 6, alt=f"{name}: {alt}"))
    return panels


def mcc_points(scores: Sequence[Score]) -> Panel:
    """Figure 4: mean over the subsets of each system's best MCC; a dashed line at the expert's, and the gap to it."""
    found = [(s.model, v) for s in scores if (v := average_mcc(s)) is not None]
    row = oracle_table(scores).rows[1]
    expert = next((float(c) for c in (row[5],) if isinstance(c, float)), None)
    low = min([0.0, *(v for _, v in found)])
    left, right = 150.0, WIDTH - 10

    def x(value: float) -> float:
        return left + (value - low) / (1 - low) * (right - left)

    bottom = 40 + 20 * len(found)
    out = [svg.title("Best MCC, mean over the subsets")]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        out += [
            svg.line(x(tick), 26, x(tick), bottom),
            svg.text(x(tick), bottom + 14, f"{tick:g}", size=10.5, anchor="middle"),
        ]
    for place, (model, value) in enumerate(sorted(found, key=lambda f: -f[1])):
        y = 40 + 20 * place
        kind = "diamond" if "iterative" in model else "square" if model.startswith("multi_agent") else "circle"
        dot = svg.marker(kind, x(value), y, SERIES[place % len(SERIES)], str(place % len(SERIES)))
        out += [svg.text(0, y + 4, svg.fit(model, left - 8, 11), size=11), svg.mark(f"{model}: {value:.3f}", dot)]
    if expert is not None:
        out.append(
            f'<line x1="{svg.num(x(expert))}" y1="26" x2="{svg.num(x(expert))}" y2="{svg.num(bottom)}" '
            f'stroke="{SERIES[7]}" stroke-width="1.5" stroke-dasharray="5 3"/>'
        )
        gap = expert - max(v for _, v in found)
        out.append(svg.text(left, bottom + 30, f"expert (derived) {expert:.3f}, gap {gap:.3f}", size=11))
    alt = ", ".join(f"{m} {v:.3f}" for m, v in found)
    return Panel("Best MCC", "".join(out), bottom + 38, alt=f"Best MCC, mean over the subsets: {alt}")
