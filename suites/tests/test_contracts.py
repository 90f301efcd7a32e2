"""The registered suites and systems keep the contracts of their kinds."""

from __future__ import annotations

import pytest

import demur_suites
from demur.core.plugins import where
from demur.scenarios.systems import SystemContext
from demur.testing import check_system, running


def own(kind):
    """Names of the parts of this package."""
    return [name for name, value in where(kind).items() if value.startswith("demur_suites.")]


@pytest.mark.parametrize("name", own("systems"))
async def test_systems(name, tmp_path):
    context = SystemContext(read_image=lambda ref: b"", ledger=tmp_path / "calls.sqlite")
    with running(reply=lambda body: "Danube.") as server:
        await check_system(f"{name}:http://127.0.0.1:{server.port}/v1#m", context)


LONG = {"vb", "mm_aqa"}
"""Whole data sets: not in the core tier."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.reference] * (n in LONG)) for n in own("suites")],
)
def test_suites(name, tmp_path):
    suite = demur_suites.suite(name)
    small = {"pairs": 4, "ocr": "no"} if name == "mm_aqa" else {}
    demur_suites.check_suite(
        suite,
        suite.build(tmp_path / "items", **small),
        **({"resamples": 20} if name == "vb" else {}),
    )
