"""``python -m tools.atlas OUT [--work DIR]``: fetch the inputs and build Atlas from them.

Needs apt-get, dpkg-deb and npm, about 400 MB below DIR, and two minutes. The same inputs give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tools.atlas import inputs


def main() -> int:
    """Fetch into the work folder, then build in the environment made there, where every version is pinned."""
    parser = argparse.ArgumentParser(prog="python -m tools.atlas", description=__doc__)
    parser.add_argument(
        "out", type=Path, help="folder that the corpus is written to; emptied first"
    )
    parser.add_argument(
        "--work", type=Path, default=Path("atlas-inputs"), help="folder for what is fetched; kept"
    )
    given = parser.parse_args()
    work, out = given.work.resolve(), given.out.resolve()
    inputs.fetch(work)
    root = Path(__file__).resolve().parents[2]
    command = [str(inputs.python(work)), "-m", "tools.atlas.build", str(work), str(out)]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(root)}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
