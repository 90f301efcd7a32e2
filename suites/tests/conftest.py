"""A page in Chromium, and a small release."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from read_back import WIDTHS, check_terminal, check_words, tables_made

from tests.cli.conftest import release as release  # a fixture


@pytest.fixture(autouse=True)
def tables_can_be_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every table that a test makes, in terminals of all widths."""
    with tables_made(monkeypatch.setattr) as made:
        yield
    for table in made.values():
        check_words(table)
        for width in WIDTHS:
            check_terminal(table, width)


@pytest.fixture
def page_of() -> Iterator[Callable[[Path], Any]]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: pip install 'demur[test]'"
    )
    chromium = (
        os.environ.get("DEMUR_CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )
    if chromium is None:
        pytest.skip("no Chromium: apt-get install chromium (or set DEMUR_CHROMIUM to its path)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"], timeout=180_000
        )

        def opened(path: Path) -> Any:
            page = browser.new_page()
            page.set_default_timeout(180_000)
            page.goto(path.as_uri())
            return page

        yield opened
        browser.close()
