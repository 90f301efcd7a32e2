"""What the tests of releases share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def copy(release: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged, of the ``release`` that the module's own fixture made."""
    shutil.copytree(release, tmp_path / "r")
    return tmp_path / "r"
