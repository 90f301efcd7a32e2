"""Figures: well-formed, deterministic, safe, and told apart without colour."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.records import Measure
from demur.judge.measures.rates import Rates
from demur.reports import figures as f
from demur.reports import svg
from demur.reports.cells import SweepPoint
from demur.reports.paper_figures import _sweep_panels
from demur.reports.svg import OUTCOMES
from demur.reports.tables import Column, cell_text

NASTY = '</svg><script>alert("1")</script>&<x y="'


def rate(value: float | None, n: int = 50) -> Measure:
    ends = (
        {"low": max(0.0, value - 0.1), "high": min(1.0, value + 0.1)} if value is not None else {}
    )
    return Measure(name="r", value=value, n=n, failed=2, interval="wilson(0.95)", **ends)


def panels(label: str) -> dict[str, svg.Panel]:
    curve = f.Curve(label, tuple(f.Point(k, 0.5 - k / 30, 0.3, 0.7, label) for k in range(11)), 1)
    return {
        "bars": f.outcome_bars(
            label, [f.OutcomeRow(label, rate(0.5), rate(0.2), rate(0.3))], key="k", ideal=label
        ),
        "curves": f.curves(label, [curve, curve._replace(style=2)], x_label=label, y_label=label),
        "legend": f.series_legend([(label, 0), ("b", 9)]),
        "outcomes": f.outcome_legend("l"),
        "pairs": f.paired_bars(label, [(label, 0.4, 0.6)], first=label, second="after"),
    }


@pytest.mark.parametrize("name", panels("a"))
def test_panels_are_whole_xml_and_nothing_in_them_runs(name: str) -> None:
    panel = panels(NASTY)[name]
    for text in (panel.svg(), svg.standalone([panel], title=NASTY)):
        root = ET.fromstring(text)
        tags = {e.tag.rpartition("}")[2] for e in root.iter()}
        assert "script" not in tags
        assert not [a for e in root.iter() for a in e.attrib if a.startswith("on") or a == "style"]


@given(st.text(max_size=40))
def test_any_label_gives_whole_xml(label: str) -> None:
    for panel in panels(label).values():
        ET.fromstring(panel.svg())


def test_the_same_numbers_give_the_same_bytes() -> None:
    first = svg.standalone(list(panels("a").values()), title="t")
    assert first == svg.standalone(list(panels("a").values()), title="t")
    assert "NaN" not in first
    assert not re.search(r"\d{4}-\d\d-\d\d|e-\d\d", first)


def test_every_number_is_a_mark_with_its_words() -> None:
    bars = panels("reader")["bars"].body
    assert bars.count('class="mark"') == 3
    assert "Accuracy 50.0 % [40.0, 60.0], n = 50, 2 failed" in bars
    assert panels("a")["curves"].body.count('class="mark"') == 22


def test_bars_are_as_long_as_their_rates() -> None:
    body = panels("reader")["bars"].body
    starts = [
        float(x)
        for x in re.findall(r'x="([\d.]+)" y="45" width="[\d.]+" height="16" class="o-', body)
    ]
    assert starts == [pytest.approx(svg.WIDTH * share, abs=0.01) for share in (0, 0.5, 0.7)]
    widths = [float(w) for w in re.findall(r'width="([\d.]+)" height="16" class="o-', body)]
    assert widths == [pytest.approx(svg.WIDTH * share, abs=0.01) for share in (0.5, 0.2, 0.3)]


def test_the_rates_of_a_bar_are_written_as_in_the_tables_with_their_intervals() -> None:
    third = [rate(1 / 3), rate(0.125), rate(0.999)]
    body = f.outcome_bars("Oracle", [f.OutcomeRow("reader", *third)], key="k").body
    told = re.findall(r">(\S+) % (\[.*?\])<", body)
    columns = [cell_text(m, Column("", interval=True, decimals=0)) for m in third]
    assert [" ".join(parts) for parts in told] == [html.escape(text) for text in columns]


LONG = "Qwen2.5-VL-72B-Instruct-AWQ-with-retrieval-and-a-reranker"


@given(st.text(max_size=60), st.floats(20, 200))
def test_any_label_fits_its_room(label: str, room: float) -> None:
    assert svg.breadth(svg.fit(label, room)) <= max(room, svg.breadth("…"))


def test_names_that_differ_at_their_end_still_differ_when_cut() -> None:
    assert svg.fit(LONG + "-a", 150) != svg.fit(LONG + "-b", 150)


def test_a_line_breaks_off_where_nothing_is_known_and_is_grey_where_samples_are_missing() -> None:
    points = [
        f.Point(0, 0.5),
        f.Point(1, 0.4),
        f.Point(2, None),
        f.Point(3, 0.3),
        f.Point(4, 0.2, faint=True),
    ]
    panel = f.curves(
        "Accuracy",
        [f.Curve("a", tuple(points))],
        x_label="k",
        counts={0: "48", 1: "48", 3: "48", 4: "12"},
    )
    lines = re.findall(r'<polyline points="([^"]*)"[^>]*?( opacity="[^"]*")? stroke=', panel.body)
    assert [(len(path.split()), bool(grey)) for path, grey in lines] == [(2, False), (2, True)]
    assert panel.body.count('class="mark"') == 4
    assert panel.body.count("<g opacity") == 1
    assert re.findall(r'font-size="9"[^>]*>([^<]*)<', panel.body) == [
        "48",
        "12",
        "n",
    ]  # n where it changes


def test_nothing_graded_is_said_and_not_drawn() -> None:
    row = f.OutcomeRow("reader", rate(None, 0), rate(None, 0), rate(None, 0))
    panel = f.outcome_bars("Oracle", [row], key="k")
    assert "nothing graded" in panel.body
    assert 'class="mark"' not in panel.body


def test_series_differ_without_colour() -> None:
    first = [svg.look(i) for i in range(8)]
    assert all(len({one[part] for one in first}) == 8 for part in range(3))
    assert len({svg.look(i) for i in range(64)}) == 64


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.25, 0.5, 0.75, 1]),
        (0, 10, [0, 2.5, 5, 7.5, 10]),
        (3, 3, [3]),
        (0, 2744, [0, 1000, 2000]),
    ],
)
def test_ticks(low: float, high: float, expected: list[float]) -> None:
    assert f._ticks(low, high, 4) == expected


def test_curves_without_points_say_so() -> None:
    assert "no data" in f.curves("Accuracy", [f.Curve("a", ())], x_label="k").body


def test_one_point_is_drawn() -> None:
    panel = f.curves("Accuracy", [f.Curve("a", (f.Point(2, 0.5),))], x_label="k")
    ET.fromstring(panel.svg())
    assert panel.body.count('class="mark"') == 1


def test_a_line_breaks_off_where_nothing_was_graded() -> None:
    def point(value: float | None) -> SweepPoint:
        rates = (Measure(name=name, value=value, n=0 if value is None else 5) for name in OUTCOMES)
        return SweepPoint(Rates(*rates), 5, 5)

    data = SimpleNamespace(runs=[SimpleNamespace(name="a")])
    whole, broken = (
        _sweep_panels(
            {"a": {0: point(0.2), 1: point(middle), 2: point(0.4)}}, data, "distractors shown"
        )[0].body  # type: ignore[arg-type]
        for middle in (0.3, None)
    )
    assert "<polyline" in whole
    assert "<polyline" not in broken
