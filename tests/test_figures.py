"""Figures as people write them: parts, compounds, money."""

from __future__ import annotations

import pytest

from demur.answers.numbers import quantities


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("1 hour 30 minutes", 1.5, "h"),
        ("1h 30min", 1.5, "h"),
        ("2 hours, 15 minutes and 18 seconds", 2.255, "h"),
        ("5 years and 3 months", 5.25, "yrs"),
        ("6'3\"", 6.25, "ft"),
        ("6' 3\"", 6.25, "ft"),
        ("6 ft 3", 6.25, "ft"),
        ("6 ft 3 in tall", 6.25, "ft"),
        ("5 pounds 4 ounces", 5.25, "lb"),
        ("twelve dollars and fifty cents", 12.5, "USD"),
        ("an hour and a half", 1.5, "h"),
        ("one and a half hours", 1.5, "h"),
        ("half an hour", 0.5, "h"),
        ("half a dozen players", 6.0, ""),
        ("half a million dollars", 5e5, "USD"),
        ("two and a half million", 2.5e6, ""),
        ("£1.5m", 1.5e6, "GBP"),
        ("$450.3m", 450.3e6, "USD"),
        ("€3b", 3e9, "EUR"),
        ("5 m", 5.0, "m"),
    ],
)
def test_one_quantity(text: str, value: float, unit: str) -> None:
    (read,) = quantities(text)
    assert (read.low, read.high, read.unit) == (pytest.approx(value), pytest.approx(value), unit)


@pytest.mark.parametrize(
    "text",
    [
        "2 hours and 90 minutes",
        "10 feet, 12 people",
        "7 days, 12 hours",
        "3 feet and 6",
        "2 feet by 3 feet",
        "5' x 3'",
        "1.5 hours 30 minutes",
        "first half, 3 goals",
    ],
)
def test_two_quantities(text: str) -> None:
    assert len(quantities(text)) == 2
