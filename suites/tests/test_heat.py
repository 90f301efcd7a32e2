"""Heat maps: whole XML, labels beside the cells, numbers that can be read."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from demur.core.records import Measure
from demur.reports import svg
from demur_suites.heat import heat, luminance, ramp, wrapped

LONG = "Qwen2.5-VL-72B-Instruct-AWQ-with-retrieval-and-a-reranker"


def rate(value: float, n: int = 50) -> Measure:
    return Measure(name="r", value=value, n=n, low=value - 0.1, high=value + 0.1)


@given(st.text(max_size=60), st.floats(20, 200))
def test_any_label_fits_on_two_lines(label: str, room: float) -> None:
    ET.fromstring(heat(label, [label], [label, "none"], [[rate(0.9), None]]).svg())
    lines = wrapped(label, room)
    assert all(svg.breadth(line) <= max(room, svg.breadth("…")) for line in lines)
    assert len(lines) <= 2


def test_labels_of_a_heat_map_keep_out_of_its_cells() -> None:
    panel = heat(
        "Accuracy",
        [LONG, LONG[:-9]],
        ["severe+strict+confidence", "none"],
        [[rate(0.9, 45), rate(0.1)]] * 2,
    )
    root = ET.fromstring(f"<svg>{panel.body}</svg>")
    left = min(float(r.attrib["x"]) for r in root.iter("rect"))
    rows = [t for t in root.iter("text") if t.attrib["x"] == "0" and float(t.attrib["y"]) > 50]
    assert len(rows) == 4  # two lines each
    for t in rows:
        assert svg.breadth(t.text or "", float(t.attrib["font-size"])) < left
    heads = [
        t
        for t in root.iter("text")
        if t.attrib["text-anchor"] == "middle" and float(t.attrib["y"]) < 50
    ]
    for t in heads:
        assert svg.breadth(t.text or "", 11) <= (svg.WIDTH - left) / 2
    assert "n 45" in panel.body


def test_numbers_on_heat_cells_can_be_read() -> None:
    for step in range(101):
        ground, ink = ramp(step / 100)
        pair = sorted(
            (luminance([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in (ground, ink)),
            reverse=True,
        )
        assert (pair[0] + 0.05) / (pair[1] + 0.05) > 3.9, step
