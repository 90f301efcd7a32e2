"""Fixtures shared by the report's tests: one synthetic release with three runs, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_factory import make_demo

from demur.reports.data import ReportData, load
from demur.reports.html import page


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """(release folder, run folders) with every scenario, a sweep, strictness levels and the modality grid."""
    return make_demo(tmp_path_factory.mktemp("report-demo"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """The same with a question, answers and a drop reason that try to break out into HTML."""
    return make_demo(tmp_path_factory.mktemp("report-hostile"), hostile=True)


@pytest.fixture(scope="session")
def data(demo: tuple[Path, list[Path]]) -> ReportData:
    """The demo, read once: reader, cautious, small-lm in that order."""
    return load(demo[1], demo[0])


@pytest.fixture(scope="session")
def text(data: ReportData) -> str:
    """The demo's page, made once."""
    return page(data)
