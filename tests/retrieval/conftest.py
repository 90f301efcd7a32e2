"""What the tests of mining share: thirty made-up towns, the pool of them and an index of that pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from curation_world import folder

from demur.cli import main
from demur.curation.build.recipe import parse_recipe
from demur.curation.build.sample_pool import SampledPool, sample_sources


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a source of 30 samples."""
    return folder(tmp_path_factory.mktemp("world") / "towns", n=30)


@pytest.fixture(scope="module")
def pool(towns: Path, tmp_path_factory: pytest.TempPathFactory) -> SampledPool:
    """The pool that a recipe over `towns` draws."""
    plan = parse_recipe(
        {
            "name": "x",
            "sources": [{"name": "generic", "path": str(towns)}],
            "gates": [{"system": "prior"}],
        }
    )
    return sample_sources(plan.sources, tmp_path_factory.mktemp("pools"), seed=7)


@pytest.fixture(scope="module")
def index(pool: SampledPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the pool's documents, by the world's own encoder."""
    out = tmp_path_factory.mktemp("indexes") / "index"
    words = [
        "index",
        "build",
        str(pool.root),
        "--out",
        str(out),
        "--encoder",
        "curation_world:quick",
    ]
    assert main(words) == 0
    return out
