"""`demur build` and `rebuild` with ``--engine ray``: the same bytes as in one process, from a source's native files."""

import os
from pathlib import Path

import native_miniatures as native
import pytest
import yaml
from test_stage_two import ENCODERS, GATES, demur, files

from demur.indexing.embed import Item
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]
RAY = ["--engine", "ray", "--trust-code"]


@pytest.fixture
def nodes(monkeypatch):
    """A cluster of this machine alone that believes in two GPUs; its processes find the miniatures' encoders."""
    ray = pytest.importorskip("ray")
    tests = Path(__file__).parents[1]
    there = [tests.parent, tests, tests / "walks"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, there)))
    ray.init("local", num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
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
    from demur.indexing import ray as engines

    takes = {"pass": [], "search": []}
    one_pass, search_actors = engines.RayEngine._one_pass, engines.RayEngine._search_actors

    def noted_pass(engine, opened, runs, gpus):
        takes["pass"].append(gpus)
        return one_pass(engine, opened, runs, gpus)

    def noted_actors(engine, gpus):
        actors = search_actors(engine, gpus)
        takes["search"].append((gpus, len(actors)))
        return actors

    monkeypatch.setattr(engines.RayEngine, "_one_pass", noted_pass)
    monkeypatch.setattr(engines.RayEngine, "_search_actors", noted_actors)
    monkeypatch.setattr(engines, "cards", lambda: ["what faiss-gpu sees"])
    for name, where in (("here", ["--trust-code"]), ("there", RAY)):
        demur("build", tmp_path / "recipe.yaml", "--out", tmp_path / name, *where)
        more = ["--add-gate", native.HERE.expert, "--out", tmp_path / f"{name}-more"]
        demur("rebuild", tmp_path / name, *more, *where)
    assert set(takes["pass"]) == {1.0}
    assert set(takes["search"]) == {(1.0, 2)}
    for folder in ("release", "index"):
        for suffix in ("", "-more"):
            here, there = (
                files(tmp_path / f"{name}{suffix}" / folder) for name in ("here", "there")
            )
            assert here == there
            assert len(here) > 5
    index = tmp_path / "there/index/infoseek"
    engine, encoder = engines.RayEngine(), native.contriever()
    searcher = Searcher(index, native.sighted(), text_encoder=encoder, engine=engine)
    assert searcher.search([Query("Which river?")], "text->title", 3)[0]
    items = [Item(f"i{n}", text=f"text {n}") for n in range(3)]
    embedded = engine.embed(items, encoder, "text", tmp_path / "again")
    assert len(embedded.ids) == 3, "search actors have given their GPUs back"
