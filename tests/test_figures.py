"""Figures as people write them: parts, compounds, money, times of day, and what is no proof of another figure."""

from __future__ import annotations

import pytest

import demur
from demur.answers.numbers import quantities
from demur.answers.rephrased import times


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


def test_times_of_day_are_read_with_and_without_minutes() -> None:
    read = [
        t[:2]
        for t in times(
            "4 pm, 16:00, 4 o'clock, 14.30 Uhr, half past three, 3.30 am, 5.30 hours, 3 miles"
        )
    ]
    assert read == [(960, True), (960, True), (240, False), (870, True), (210, False), (210, True)]


@pytest.mark.parametrize(
    "line",
    """
    correct   | How long did the flight last? | 90 minutes | an hour and a half
    correct   | How long did the flight last? | 90 minutes | It took 1 h 30 min.
    correct   | How long did the flight last? | 1 hour 30 minutes | 90 minutes
    correct   | How long did the flight last? | 1.5 hours | 1 hour and 30 minutes
    incorrect | How long did the flight last? | 90 minutes | 1 hour 45 minutes
    ungraded  | How long did the flight last? | 2 hours | 1 hour 52 minutes
    ungraded  | How long did the flight last? | 2 hours | 2 hours 15 minutes
    incorrect | How long did the flight last? | 2 hours | 3 hours 15 minutes
    correct   | How tall is the player? | 6 ft 3 in | 6'3"
    correct   | How tall is the player? | 6 ft 3 in | 6 feet 3 inches
    correct   | How tall is the player? | 6 ft 3 in | 191 cm
    correct   | How tall is the player? | 6'3" | 75 inches
    ungraded  | How tall is the player? | 6 ft 3 in | 6'1"
    correct   | How much did it cost? | 1.5 million pounds | £1.5m
    correct   | How much did it cost? | £1,500 | 1,500 pounds
    ungraded  | How heavy is it? | £1,500 | 1,500 pounds
    ungraded  | How much did it cost? | £1,500 | 1,500 lb
    ungraded  | How much did it cost? | £5 | It weighed 5 pounds.
    correct   | How much did it cost? | $450.3 million | $450.3m
    correct   | How much does the ticket cost? | $12.50 | twelve dollars and fifty cents
    correct   | How many eggs are there? | 6 | half a dozen eggs
    ungraded  | How many eggs are there? | 12 | half a dozen
    correct   | How many minutes does it take? | 5 minutes of your time | 5
    incorrect | How many minutes does it take? | 5 minutes | 5 hours
    incorrect | How many kilometres long is the trail? | 12 km | 12 miles
    ungraded  | How many kilometres long is the trail? | 12 km | 12 leagues
    incorrect | How many grams of sugar are needed? | 200 g | 200 kg
    ungraded  | How many grams of sugar are needed? | 200 g | 200 ml
    incorrect | How many months did she spend abroad? | three months | She spent three years abroad.
    ungraded  | How many animals are in the picture? | 3 | There are two cats and a dog.
    ungraded  | How many people are in the photo? | 4 | A man, a woman and two children.
    ungraded  | How many siblings does she have? | 3 | She has a brother and two sisters.
    ungraded  | How many siblings did he have? | 9 | He was one of ten children.
    ungraded  | How many siblings did he have? | 9 | He was the youngest of 10.
    incorrect | How many siblings did he have? | 9 | He had four siblings.
    incorrect | How many animals are in the picture? | 3 | There are two animals.
    ungraded  | When was the church built? | 12th century | It was built in 1150.
    incorrect | When was it signed? | 12 July 1975 | 21 July 1975
    ungraded  | When was it signed? | 12 July 1975 | 13 July 1975
    incorrect | When was it signed? | 12 July 1975 | on 12 July 1976
    ungraded  | When was it signed? | 12 July 1975 | in 1974
    ungraded  | When was it signed? | 9 April 1975 | 1975, on a Monday
    ungraded  | When was he born? | 7 November 1867 | 26 October 1867
    ungraded  | When was he born? | 7 January 1868 | 26 December 1867
    incorrect | When was he born? | 7 November 1967 | 26 October 1967
    ungraded  | When was the church built? | 12th century | between 1130 and 1160
    incorrect | When was the church built? | 12th century | It was built in 1350.
    correct   | What is the score out of 10? | 8 | 8/10
    ungraded  | What is the score out of 10? | 8 | 8/20
    ungraded  | What is the score? | 8 | 8/10
    incorrect | How much of the cake is left? | 3/4 | 1/4
    correct   | How much of the cake is left? | 3/4 | three-fourths
    correct   | How much of the cake is left? | 3/4 | Three quarters of it.
    correct   | What share of them? | 25% | a quarter
    correct   | What share of them? | 25% | One in four.
    correct   | What share of them? | 33% | a third
    ungraded  | What share of them? | 25% | in the third quarter
    ungraded  | What share of them? | 25% | a third
    ungraded  | What share of them? | 25% | more than a quarter
    ungraded  | What share of them? | 25% | A quarter disagreed.
    ungraded  | What share of them? | 25% | a quarter of a percent
    ungraded  | What share of them? | 33% | A third option was chosen.
    incorrect | What share of them? | 46% | 43%
    ungraded  | What share of them? | 46% | about 43%
    ungraded  | What share of them? | 46% | 45.6%
    correct   | What is the ratio of boys to girls? | 2:3 | two to three
    ungraded  | What is the ratio of boys to girls? | 2:3 | 3 to 2
    correct   | What was the final score? | 3-1 | They won 3 to 1.
    ungraded  | What was the final score? | 3-1 | They lost 3 to 1.
    ungraded  | What is the ratio of boys to girls? | 2:3 | girls to boys: 2 to 3
    correct   | How many times did she win? | 2 | twice
    correct   | How many times did she win? | 2 times | She won twice.
    ungraded  | How many times did she win? | 2 | twice as often as he did
    ungraded  | How many times did she win? | 2 | more than twice
    ungraded  | How many times did she win? | 2 | She was nominated twice but never won.
    ungraded  | How many times did she win? | 1 | She was once a champion.
    correct   | How often does it run? | twice a day | 2 times a day
    correct   | What time does it leave? | 4:00 pm | 4 p.m.
    correct   | What time does it leave? | 4 pm | 16:00
    incorrect | What time does it leave? | 4 pm | 3 pm
    incorrect | What time does it leave? | 3:30 pm | It leaves at 09:15.
    incorrect | What time does it leave? | 3:30 pm | 3:30 am
    incorrect | What time does it leave? | 3:30 | quarter past four
    ungraded  | What time does it leave? | 3:30 pm | 3:30
    ungraded  | What time does it leave? | 3:30 pm | around 4 pm
    ungraded  | What time does it leave? | 2 pm | from 2 to 5 pm
    ungraded  | What time does it leave? | 3:30 pm | 8:30 pm GMT
    ungraded  | What time does it leave? | 5 pm | 8 p.m. Eastern
    correct   | What time does it leave? | 7:00 pm | 7 in the evening
    ungraded  | What time does it leave? | 3:30 pm | It leaves at 4 pm and arrives at 5 pm.
    correct   | Wann fährt der Zug ab? | 14:30 Uhr | 14:30
    correct   | Wann fährt der Zug ab? | 14:30 Uhr | Um 14.30 Uhr
    incorrect | Wann fährt der Zug ab? | 14:30 Uhr | 14:45
    """.strip().splitlines(),
)
def test_verdict_on_a_figure(line: str, without_encoder: None) -> None:
    expected, question, accepted, reply = (part.strip() for part in line.split(" | "))
    verdict = demur.grade(question, [accepted], reply)
    assert (verdict.outcome.value if verdict.outcome else "unjudged") == expected, verdict.reason
