"""`demur build` and `rebuild` with ``--engine ray``: the same bytes as in one process, from a source's native files."""

import os
from pathlib import Path

import native_miniatures as native
import pytest
import yaml
from test_stage_two import ENCODERS, GATES, demur, files

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]
RAY = ["--engine", "ray", "--trust-code"]


@pytest.fixture
def nodes(monkeypatch):
    """A cluster of this machine alone, whose processes find the miniatures' encoders."""
    ray = pytest.importorskip("ray")
    tests = Path(__file__).parents[1]
    there = [tests.parent, tests, tests / "walks"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, there)))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_a_build_and_a_rebuild_on_a_cluster_are_those_of_one_process(nodes, tmp_path, monkeypatch):
    native.infoseek(tmp_path / "infoseek")
    recipe = {
        "name": "x",
        "preset": "vlm-deflectionbench",
        "sources": [{"name": "infoseek", "path": "infoseek"}],
        "gates": GATES,
        "retrieval": ENCODERS,
        "rules": {"k_min": 0},
        "retest": 0,
        "topics": "none",
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    from demur.indexing.ray import RayEngine

    passes, searches = [], []
    embed, search = RayEngine.embed, RayEngine.search
    monkeypatch.setattr(RayEngine, "embed", lambda *a, **b: passes.append(a) or embed(*a, **b))
    monkeypatch.setattr(RayEngine, "search", lambda *a: searches.append(a) or search(*a))
    for name, where in (("here", ["--trust-code"]), ("there", RAY)):
        demur("build", tmp_path / "recipe.yaml", "--out", tmp_path / name, *where)
        more = ["--add-gate", native.HERE.expert, "--out", tmp_path / f"{name}-more"]
        demur("rebuild", tmp_path / name, *more, *where)
    assert passes
    assert searches
    for folder in ("release", "index"):
        for suffix in ("", "-more"):
            here, there = (
                files(tmp_path / f"{name}{suffix}" / folder) for name in ("here", "there")
            )
            assert here == there
            assert len(here) > 5
