"""What every test gets: no network keys, caches and homes in a temporary folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# Read when their packages are imported, which a module's fixture may do before any test's own begins.
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"

# A busy machine must not fail a property: deadlines are for benchmarks.
settings.register_profile(
    "demur", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("demur")


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs are off and no key of the user's is seen, so that no test can reach or pay anybody."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
