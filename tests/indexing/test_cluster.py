"""A real two-node Ray cluster on this machine."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from stub_encoder import slow_stub, stub

from demur.indexing import ivf
from demur.indexing.build import build_index
from demur.indexing.cluster import RayEngine
from demur.indexing.embed import Item, embed
from demur.indexing.exact import exact_top, unit
from demur.records import Document
from demur.retrieval.search import Query, Searcher

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), before])
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.second = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()
    os.environ["PYTHONPATH"] = before


def documents(n=120):
    return [Document(id=f"d{i}", title=f"T{i // 4}", text=f"passage {i}", page=f"p{i // 4}") for i in range(n)]


def test_the_same_files_come_out(cluster, tmp_path):
    engine = RayEngine(shard=16)
    local = build_index(documents(), stub(), tmp_path / "local")
    made = build_index(documents(), stub(), tmp_path / "ray", engine=engine)
    ledgers = {f"parts/{part}/{name}" for part in made["parts"] for name in ("shards.jsonl", "manifest.json")}
    assert {k: v for k, v in made["files"].items() if k not in ledgers} == {
        k: v for k, v in local["files"].items() if k not in ledgers  # those two tell the shards' size, 16 and 8192
    }  # fmt: skip
    queries = [Query(f"T{i // 4}\npassage {i}") for i in range(9)]
    hits = [Searcher(tmp_path / side, stub()).search(queries, "text->text", 5) for side in ("local", "ray")]
    assert hits[0] == hits[1]


def test_lists_and_search(cluster, tmp_path):
    vectors = unit(np.random.default_rng(0).standard_normal((200_000, 8)).astype(np.float32))
    np.save(tmp_path / "vectors.npy", vectors)
    engine = RayEngine(rows=ivf.ADD_BLOCK)
    engine.build_ivf("ivf-sq8", vectors, tmp_path / "ray.faiss")
    ivf.build_ivf("ivf-sq8", vectors, tmp_path / "local.faiss")
    assert (tmp_path / "ray.faiss").read_bytes() == (tmp_path / "local.faiss").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["local.faiss", "ray.faiss", "vectors.npy"]
    found = engine.search(tmp_path / "vectors.npy", vectors[:70], 9, count=len(vectors), largest_norm=1.0001)
    whole = exact_top(vectors[:70], vectors, 9, largest_norm=1.0001)
    assert (found.rows == whole.rows).all()
    assert found.scores.tobytes() == whole.scores.tobytes()


def test_a_lost_node(cluster, tmp_path):
    import ray

    items = [Item(f"i{n}", text=f"text {n}") for n in range(400)]

    def meanwhile():
        """Shards are under way on both nodes, and more are wanted, when one of the nodes dies."""
        for item in items:
            if item.id == "i200":
                cluster.remove_node(cluster.second, allow_graceful=False)
            yield item

    made = RayEngine(shard=16).embed(meanwhile(), slow_stub(), "text", tmp_path / "ray")
    whole = embed(items, stub(), "text", tmp_path / "local", shard=16, progress=False)
    assert made.vectors.tobytes() == whole.vectors.tobytes()
    assert list(made.ids) == list(whole.ids)
    limit = time.monotonic() + 60
    while sum(node["Alive"] for node in ray.nodes()) != 1:
        assert time.monotonic() < limit
        time.sleep(0.2)
