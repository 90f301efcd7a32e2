"""Memory stays flat however large the knowledge base: DEMUR_LARGE_MB=2000 for the full size (300 by default)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import large_sources as large
import pytest

MEGABYTES = int(os.environ.get("DEMUR_LARGE_MB", "300"))


def measured(name, folder):
    run = subprocess.run(
        [sys.executable, str(Path(large.__file__)), "read", name, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("name", ["evqa", "infoseek", "webqa"])
def test_memory_is_flat(name, tmp_path):
    write = getattr(large, name)
    write(tmp_path / "small", 10)
    rows = write(tmp_path / "large", MEGABYTES)
    small, big = measured(name, tmp_path / "small"), measured(name, tmp_path / "large")
    print(json.dumps({"source": name, "megabytes": MEGABYTES, "small": small, "large": big}))
    assert big["samples"] == small["samples"]
    # Only marks of document ids are remembered, 11 to 33 bytes each while the table grows: the rest must not grow.
    assert big["peak_mb"] < small["peak_mb"] + 20 + 2 * rows * 33 / 1e6
