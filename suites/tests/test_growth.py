"""No text costs more than its length: every pattern of the suites, as in tests/fuzz/test_growth.py."""

from __future__ import annotations

import re

import growth
import pytest

import demur_suites
from demur_suites.mm_aqa.build.routing import TRIGGERS

MADE_AT_RUN_TIME: dict[str, list[re.Pattern[str]]] = {
    "demur_suites.mm_aqa.build.routing: f'\\\\b{d.value}\\\\b'": [],  # words of demur's own
    "demur_suites.mm_aqa.build.routing: p": [re.compile(p, re.I) for p in TRIGGERS.values()],
    "demur_suites.vb.items: f'(?<!\\\\w){re.escape(agent)}(?!\\\\w)'": [],  # words of the text, as they are
}
"""Patterns that depend on more than their module -> examples of what they come to."""


@pytest.mark.slow
def test_every_pattern_that_is_made_at_run_time_is_known() -> None:
    assert set(growth.made_at_run_time(demur_suites)) == set(MADE_AT_RUN_TIME)


def every_use() -> list[growth.Use]:
    made = [growth.Use(where, p, False) for where, ps in MADE_AT_RUN_TIME.items() for p in ps]
    return [*growth.uses(demur_suites), *made]


@pytest.mark.slow
def test_no_pattern_is_worse_than_linear() -> None:
    found = [
        f"{use.where}: {family} in {use.pattern.pattern[:80]}"
        for use in every_use()
        for family in growth.slow(use, growth.SHORT, 20)
    ]
    assert not found, "\n".join(found)


@pytest.mark.soak
@pytest.mark.parametrize("use", every_use(), ids=lambda u: u.where)
def test_no_pattern_is_worse_than_linear_in_long_texts(use: growth.Use) -> None:
    assert not list(growth.slow(use, (8_000, 128_000), 200))
