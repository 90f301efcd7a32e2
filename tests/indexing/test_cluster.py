"""A real two-node Ray cluster on this machine."""

import os
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from errors import raises
from small_pool import corpus, picture, pool_folder
from stub_encoder import StubEncoder, noted_stub, slow_stub, stub

from demur.cli import main
from demur.core.errors import StorageError, UsageError
from demur.core.records import Document
from demur.indexing import ivf
from demur.indexing.build import build_index
from demur.indexing.embed import Item, embed
from demur.indexing.options import IndexOptions
from demur.indexing.ray import RayEngine
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]
ENCODER = ["--encoder", "stub_encoder:stub"]
RAY = ["--engine", "ray"]


def started(node):
    """A node, started again where Ray has given it up after its half minute: a busy machine takes longer."""
    for _ in range(4):
        try:
            return node()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    return node()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("ray")
    noted = tmp_path_factory.mktemp("noted") / "opened"
    tests = Path(__file__).parents[1]
    given = {
        "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests), str(tests / "retrieval")]),
        "OPENED_BY": str(noted),
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    import ray
    from ray.cluster_utils import Cluster

    nodes = started(
        lambda: Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
    )
    nodes.noted, nodes.second = noted, None
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def two_nodes(cluster):
    if cluster.second is None:
        cluster.second = started(lambda: cluster.add_node(num_cpus=1))
        cluster.wait_for_nodes(timeout=300)
    return cluster


def lose_one(cluster):
    cluster.remove_node(cluster.second, allow_graceful=False)
    cluster.second = None


@pytest.mark.slow
def test_a_cluster_that_does_not_start_is_told_in_one_line(monkeypatch):
    ray = pytest.importorskip("ray")

    def late(**_):
        raise Exception("The current node timed out during startup.\nand more")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", late)
    with raises(StorageError, item="local", cure="ray start"):
        RayEngine("local")


@pytest.fixture
def far(monkeypatch):
    """An engine whose nodes are lost until its clock, which nobody waits for, says that the loss is known."""
    ray = pytest.importorskip("ray")
    from demur.indexing import ray as engines

    now = [0.0]
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(engines.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(engines.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    engine = RayEngine()

    def until(known):
        def answer(*_):
            if now[0] < known:
                now[0] += 0.01
                raise ray.exceptions.ActorDiedError
            return ["found"]

        monkeypatch.setattr(engine, "_search_actors", lambda _: [])
        monkeypatch.setattr(engine, "_search_once", answer)
        monkeypatch.setattr(engine, "_one_pass", lambda *_: iter(answer()))
        return engine

    return until


def test_lost_work_is_begun_again_until_the_loss_is_known(far, tmp_path):
    """Ray takes its half minute to give up a node, and puts work on it meanwhile."""
    engine = far(known=45.0)
    assert engine.search(tmp_path, {"kind": "bm25"}, [], 1) == ["found"]
    assert list(far(known=95.0)._results_of_runs(list, [(0, 1)])) == ["found"]


def test_work_that_is_lost_for_good_ends(far, tmp_path):
    for lost in (
        lambda engine: engine.search(tmp_path, {"kind": "bm25"}, [], 1),
        lambda engine: list(engine._results_of_runs(list, [(0, 1)])),
    ):
        with raises(StorageError, item="ray"):
            lost(far(known=1e9))


def alive():
    import ray

    return sum(node["Alive"] for node in ray.nodes())


def files(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def documents(n=120):
    return [
        Document(id=f"d{i}", title=f"T{i // 4}", text=f"passage {i}", page=f"p{i // 4}")
        for i in range(n)
    ]


@pytest.mark.slow
def test_the_command_leaves_the_same_files_and_finds_the_same(
    two_nodes, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    pool_folder(tmp_path)
    told = {}
    for out, where in (("local", []), ("ray", RAY)):
        assert main(["index", "build", ".", "--out", f"{out}-index", *ENCODER, *where]) == 0
        mined = ["--lexical", "2", "--diversity", "0.5", "--out", f"{out}-mined", *ENCODER, *where]
        assert main(["mine", ".", "--index", f"{out}-index", *mined]) == 0
        capsys.readouterr()
        words = ["--text", "passage 7", "--image", "4.png", "--json", *ENCODER, *where]
        assert main(["index", "search", f"{out}-index", *words]) == 0
        told[out] = capsys.readouterr().out
    assert files(tmp_path / "ray-index") == files(tmp_path / "local-index")
    assert files(tmp_path / "ray-mined") == files(tmp_path / "local-mined")
    assert len(files(tmp_path / "ray-index")) > 20
    assert told["ray"] == told["local"]


@pytest.mark.slow
def test_many_shards_each_encoder_opened_once(two_nodes, tmp_path):
    encoder = noted_stub()
    two_nodes.noted.write_text("")
    items = [Item(f"i{n}", text=f"text {n}") for n in range(320)]
    made = RayEngine(shard=16).embed(items, encoder, "text", tmp_path / "embedded")
    opened = Counter(two_nodes.noted.read_text().split())
    assert sorted(opened.values()) == [1, 1], (
        "two actors did twenty shards, and each opened its model once"
    )
    assert len(made.ids) == 320
    embed(items, encoder, "text", tmp_path / "local", shard=16, progress=False)
    assert files(tmp_path / "embedded") == files(tmp_path / "local")


@pytest.mark.slow
def test_a_stopped_pass_goes_on_where_it_was(two_nodes, tmp_path):
    items = [Item(f"i{n}", text=f"text {n}") for n in range(100)]
    embed(
        items[:50], stub(), "text", tmp_path / "ray", shard=16, progress=False
    )  # three shards and a short one
    told = []
    RayEngine().embed(
        items,
        stub(),
        "text",
        tmp_path / "ray",
        progress=lambda done, total: told.append((done, total)),
    )
    embed(items, stub(), "text", tmp_path / "local", shard=16, progress=False)
    assert files(tmp_path / "ray") == files(tmp_path / "local")
    assert told == [(16, 100), (32, 100), (48, 100), (64, 100), (80, 100), (96, 100), (100, 100)]


@pytest.mark.parametrize("kind", ["flat", "ivf-sq8"])
@pytest.mark.slow
def test_hits_are_those_of_one_machine(two_nodes, tmp_path, kind):
    build_index(
        corpus(tmp_path),
        StubEncoder(),
        tmp_path / "index",
        IndexOptions(image_root=tmp_path, kind=kind),
    )
    here = Searcher(tmp_path / "index", StubEncoder())
    there = Searcher(tmp_path / "index", StubEncoder(), engine=RayEngine())
    queries = [Query(f"passage {i} about w{i % 3}", picture(i)) for i in range(9)]
    for mode in (*here.modes, "image->image/text->text", "image->title/lexical"):
        for k in (1, 7, 99):
            assert there.search(queries, mode, k) == here.search(queries, mode, k), (mode, k)
    with raises(UsageError, "0", item="k"):
        there.search(queries, "lexical", 0)


@pytest.mark.slow
def test_inverted_lists_are_the_same_file(two_nodes, tmp_path):
    vectors = np.random.default_rng(0).standard_normal((200_000, 8)).astype(np.float32)
    for name, build in (("ray", RayEngine(rows=1 << 16).build_ivf), ("local", ivf.build_ivf)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "vectors.npy", vectors)
        build("ivf-sq8", vectors, tmp_path / name / "index.faiss")
    for name in ("index.faiss", "lists.bin"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    assert sorted(p.name for p in (tmp_path / "ray").iterdir()) == [
        "index.faiss",
        "lists.bin",
        "vectors.npy",
    ]


@pytest.mark.slow
def test_what_goes_wrong_on_a_node_is_said_as_here(two_nodes, tmp_path):
    class Other(StubEncoder):
        def fingerprint(self):
            return "other weights"

    items = [Item(f"i{n}", text=f"text {n}") for n in range(40)]
    with raises(UsageError, item="stub_encoder:stub"):
        RayEngine(shard=16).embed(items, Other(name="stub_encoder:stub"), "text", tmp_path / "ray")


@pytest.mark.slow
def test_a_node_lost_while_embedding(two_nodes, tmp_path):
    items = [Item(f"i{n}", text=f"text {n}") for n in range(640)]
    ledger, lost = tmp_path / "ray" / "shards.jsonl", []

    def lose():
        """Shards are under way on both nodes, and more are wanted, when one of the nodes dies."""
        while not ended.wait(0.05) and (
            not ledger.exists() or ledger.read_bytes().count(b"\n") < 6
        ):
            pass
        lost.append(ledger.read_bytes().count(b"\n") - 1)
        lose_one(two_nodes)

    loser, ended = threading.Thread(target=lose), threading.Event()
    loser.start()
    try:
        made = RayEngine(shard=16).embed(items, slow_stub(), "text", tmp_path / "ray")
    finally:
        ended.set()
        loser.join()
    assert lost[0] < 40, "shards were left to do"
    whole = embed(items, slow_stub(), "text", tmp_path / "local", shard=16, progress=False)
    assert made.vectors.tobytes() == whole.vectors.tobytes()
    assert files(tmp_path / "ray") == files(tmp_path / "local")
    limit = time.monotonic() + 300
    while alive() != 1:
        assert time.monotonic() < limit
        time.sleep(0.2)


@pytest.mark.slow
def test_a_node_lost_while_searching(two_nodes, tmp_path):
    build_index(documents(), stub(), tmp_path / "index")
    engine = RayEngine()
    there, here = (
        Searcher(tmp_path / "index", stub(), engine=engine),
        Searcher(tmp_path / "index", stub()),
    )
    queries = [Query(f"T{i // 4}\npassage {i}") for i in range(9)]
    assert there.search(queries, "text->text", 5) == here.search(queries, "text->text", 5)
    lose_one(two_nodes)
    assert there.search(queries, "text->text", 5) == here.search(queries, "text->text", 5)
    build_index(
        documents()[::-1], stub(), tmp_path / "index", IndexOptions(fresh=True)
    )  # another index in its place
    there, here = (
        Searcher(tmp_path / "index", stub(), engine=engine),
        Searcher(tmp_path / "index", stub()),
    )
    assert there.search(queries, "text->text", 5) == here.search(queries, "text->text", 5)
