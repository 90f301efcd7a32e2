"""A recipe's sources: read once into a pool on disk, sampled by the seed, read again only when something changed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import curation_world as world
import pytest
from errors import places, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import BadInput, DataError, UsageError
from demur.core.records import AnswerSpec, Document, Sample
from demur.core.store import Problems, digest, seed_of
from demur.core.untrusted import trusting
from demur.core.uris import read_image
from demur.curation.build import sample_pool as drawing
from demur.curation.build.decisions import funnel
from demur.curation.build.estimate import _drawn_notes
from demur.curation.build.rebuild import carry_over
from demur.curation.build.recipe import SourceSpec
from demur.curation.build.sample_pool import sample_sources
from demur.pools.read import Pool
from demur.pools.write import build
from demur.sources import open_source


def spec(folder, **more):
    return SourceSpec(name="generic", path=str(folder), **more)


def renamed(folder, name):
    path = world.folder(folder) / "demur-map.yaml"
    path.write_text(path.read_text().replace("name: towns", f"name: {name}"))
    return folder


@pytest.fixture
def towns(tmp_path):
    return world.folder(tmp_path / "towns")


@pytest.fixture
def readings(monkeypatch):
    """How often sources were read."""
    calls = []

    def counted(*args, **more):
        calls.append(args[1])
        return build(*args, **more)

    monkeypatch.setattr(drawing, "build", counted)
    return calls


def pools(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_ids_do_not_depend_on_how_many_sources_there_are(towns, tmp_path):
    one = sample_sources([spec(towns)], tmp_path / "pool", seed=0)
    native = open_source("generic", towns)
    assert [s.id for s in one.samples] == [f"towns:{s.id}" for s in native.samples()]
    assert [(d.id, d.page, d.text) for d in one.full_pool.documents()] == [
        (f"towns:{d.id}", f"towns:{d.page}", d.text) for d in native.documents()
    ]
    assert list(one.full_pool.documents()) == list(one.full_pool.documents())
    both = sample_sources(
        [spec(towns), spec(renamed(tmp_path / "c", "cities"))], tmp_path / "both", seed=0
    )
    assert {s.id for s in one.samples} <= {s.id for s in both.samples}
    assert {d.id.partition(":")[0] for d in both.full_pool.documents()} == {"towns", "cities"}
    assert all(d.page.startswith(d.id.partition(":")[0] + ":") for d in both.full_pool.documents())
    for found in (one, both):
        refs = [i for s in found.samples for i in s.images] + [
            d.image for d in found.full_pool.documents() if d.image
        ]
        assert refs
        assert all(digest(read_image(ref, found.root)) == ref.sha256 for ref in refs)
        assert str(tmp_path) not in "".join(ref.uri for ref in refs)


def test_sources_are_read_once_until_something_changes(towns, tmp_path, readings):
    folder = tmp_path / "pool"
    first = sample_sources([spec(towns)], folder, seed=0)
    again = sample_sources([spec(towns)], folder, seed=0)
    cut = sample_sources([spec(towns, per_topic=1)], folder, seed=3)
    assert len(readings) == 1
    assert again.samples == first.samples
    assert {s.id for s in cut.samples} < {s.id for s in first.samples}
    assert cut.hashes == first.hashes
    os.utime(towns / "q1.png")  # the same bytes, but who can know
    sample_sources([spec(towns)], folder, seed=0)
    assert len(readings) == 2
    before, hashes = first.samples, first.hashes
    with (towns / "questions.jsonl").open("a") as handle:
        handle.write(
            json.dumps({"id": "new", "question": "Where?", "answers": ["x"], "gold": ["p1"]}) + "\n"
        )
    grown = sample_sources([spec(towns)], folder, seed=0)
    assert len(readings) == 3
    assert pools(folder) == [grown.root.name]
    assert grown.samples[:-1] == before
    assert grown.hashes != hashes


def changed(towns, when):
    """Another state of the source."""
    os.utime(towns / "q1.png", (when, when))
    return [spec(towns)]


def test_a_plan_leaves_the_pool_of_a_build_alone_and_takes_its_own_away(towns, tmp_path):
    folder = tmp_path / "pool"
    command = [sys.executable, "-c", PLANNED, str(towns), str(folder)]
    code = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not folder.exists()
    assert code.stdout.strip() == f"{world.N}"
    of_build = sample_sources(changed(towns, 2), folder, seed=0)
    before = world.bytes_of(folder)
    subprocess.run(
        command, check=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )  # of these sources
    other = sample_sources(changed(towns, 3), folder, seed=0, keep=False)  # of others
    assert other.root.parent != folder
    assert [s.id for s in other.samples] == [s.id for s in of_build.samples]
    assert world.bytes_of(folder) == before
    assert not list(tmp_path.glob("demur-pool-*"))


PLANNED = """
import sys
from pathlib import Path
from demur.curation.build.sample_pool import sample_sources
from demur.curation.build.recipe import SourceSpec
spec = SourceSpec(name="generic", path=sys.argv[1])
print(len(sample_sources([spec], Path(sys.argv[2]), seed=0, keep=False).samples))
"""


def test_a_rebuild_takes_over_the_pool_of_the_build_while_the_sources_are_the_same(
    towns, tmp_path, readings
):
    folders = [tmp_path / name / "build" / "pool" for name in ("old", "new", "later")]
    old = sample_sources(changed(towns, 1), folders[0], seed=0)
    carry_over(tmp_path / "old", tmp_path / "new")
    assert pools(folders[1]) == [old.root.name]
    new = sample_sources([spec(towns)], folders[1], seed=0)
    assert len(readings) == 1
    assert world.bytes_of(new.root) == world.bytes_of(old.root)
    assert all(
        digest(read_image(ref, new.root)) == ref.sha256 for s in new.samples for ref in s.images
    )
    carry_over(tmp_path / "old", tmp_path / "later")
    sample_sources(changed(towns, 2), folders[2], seed=0)
    assert len(readings) == 2
    assert old.root.name not in pools(folders[2])
    assert world.bytes_of(old.root)


def test_a_pool_that_is_not_as_it_was_written_is_made_again(towns, tmp_path, readings):
    found = sample_sources([spec(towns)], tmp_path / "pool", seed=0)
    path = found.root / "samples.jsonl"
    path.write_bytes(path.read_bytes().replace(b"mayor", b"major"))
    assert sample_sources([spec(towns)], tmp_path / "pool", seed=0).samples == found.samples
    assert len(readings) == 2


def test_what_lies_elsewhere_is_read_every_time(towns, tmp_path, readings, monkeypatch):
    monkeypatch.setattr("demur.sources.generic.Generic._within", lambda self, path: False)
    sample_sources([spec(towns)], tmp_path / "pool", seed=0)
    sample_sources([spec(towns)], tmp_path / "pool", seed=0)
    assert len(readings) == 1  # its map names no repository
    path = towns / "demur-map.yaml"
    path.write_text(
        path.read_text().replace(
            "samples:\n  files: [questions.jsonl]", "samples:\n  dataset: {path: x/y}"
        )
    )
    with trusting(hosts=True):
        assert open_source("generic", towns).elsewhere


def test_the_choice_is_that_of_a_plain_draw_from_each_group(towns, tmp_path):
    """As if all samples were in memory."""
    every = sample_sources([spec(towns)], tmp_path / "pool", seed=0).samples
    for seed in range(5):
        wanted = set()
        for group in {(s.topic, bool(s.images)) for s in every}:
            members = [s.id for s in every if (s.topic, bool(s.images)) == group]
            wanted |= set(
                random.Random(seed_of(seed, "choose", *group)).sample(members, min(2, len(members)))
            )
        found = sample_sources([spec(towns, per_topic=2)], tmp_path / "pool", seed=seed)
        assert [s.id for s in found.samples] == [s.id for s in every if s.id in wanted]
        assert found.sizes == {"towns": len(every)}


def test_a_limit_is_drawn_from_what_the_topics_leave_and_a_higher_one_adds_to_it(towns, tmp_path):
    every = sample_sources([spec(towns)], tmp_path / "pool", seed=0)
    ids = [s.id for s in every.samples]
    smaller: set[str] = set()
    for limit in range(1, len(ids) + 2):
        found = sample_sources([spec(towns, limit=limit)], tmp_path / "pool", seed=0)
        drawn = [s.id for s in found.samples]
        assert len(drawn) == min(limit, len(ids))
        assert drawn == [id_ for id_ in ids if id_ in drawn]
        assert smaller <= set(drawn)
        assert found.sizes == every.sizes
        (step, *_) = funnel(found, {})
        assert step.dropped.get("not drawn", 0) == len(ids) - len(drawn)
        assert [str(len(drawn)) in note for note in _drawn_notes(found)] == [True] * (
            len(drawn) < len(ids)
        )
        smaller = set(drawn)
    firsts = {
        sample_sources([spec(towns, limit=1)], tmp_path / "pool", seed=seed).samples[0].id
        for seed in range(12)
    }
    assert len(firsts) > 1
    of_topics = {
        s.id for s in sample_sources([spec(towns, per_topic=1)], tmp_path / "pool", seed=0).samples
    }
    both = sample_sources([spec(towns, per_topic=1, limit=2)], tmp_path / "pool", seed=0).samples
    assert len(both) == 2
    assert {s.id for s in both} < of_topics


class Given:
    """A source of given samples."""

    def __init__(self, folder=None, problems=None, n="5", twice=""):
        self.name, self.root, self.problems = "given", Path(__file__).parent, problems or Problems()
        self.n, self.twice = int(n), twice

    def documents(self):
        for i in range(self.n):
            yield Document(id=f"d{i}", title="", text=f"text {i}", page=f"d{i}")
        if self.twice:
            yield Document(id="d0", title="", text="another")

    def samples(self):
        from demur.core.records import Evidence, Role

        for i in [*range(self.n), *([0] if self.twice else [])]:
            gold = (Evidence.of(Document(id=f"d{i}", title="", text=f"text {i}"), Role.GOLD),)
            yield Sample(
                id=f"s{i}",
                source="given",
                question="Half \ud800?" if i == 7 else f"What {i}?",
                gold=gold,
                answers=AnswerSpec(accepted=(("x",),)),
                topic=f"t{i % 3}",
                native={"n": [i, None, 0.1]},
            )


@settings(max_examples=examples(15))
@given(n=st.integers(1, 7), per_topic=st.none() | st.integers(1, 4), seed=st.integers(0, 9))
def test_any_choice_has_at_most_so_many_of_each_topic(n, per_topic, seed, tmp_path_factory):
    source = SourceSpec(name=f"{__name__}:Given", options={"n": n}, per_topic=per_topic)
    found = sample_sources([source], tmp_path_factory.mktemp("pool"), seed=seed)
    counts = Counter(f"t{i % 3}" for i in range(n))
    assert Counter(s.topic for s in found.samples) == {
        t: min(c, per_topic or c) for t, c in counts.items()
    }
    drawn = [s.id.partition(":")[2] for s in found.samples]
    assert drawn == [s.id for s in Given(n=n).samples() if s.id in drawn]


def test_bad_records_are_told_together_or_counted_without_reading_again(tmp_path, readings):
    source = SourceSpec(name=f"{__name__}:Given", options={"n": "8", "twice": "yes"})
    with pytest.raises(BadInput) as raised:
        sample_sources([source], tmp_path, seed=0)
    assert sorted(places(raised.value.problems)) == [" (s0)", " (s7)", "document d0"]
    found = sample_sources([source], tmp_path, seed=0, skip_bad=True)
    assert (
        found.skipped,
        len(found.samples),
        len(list(found.full_pool.documents())),
        len(readings),
    ) == (3, 7, 8, 1)


def test_what_cannot_be_drawn_from_is_refused(towns, tmp_path):
    other = world.folder(tmp_path / "other")
    with raises(UsageError, "towns"):
        sample_sources([spec(towns), spec(other)], tmp_path / "pool", seed=0)
    with raises(UsageError, item="generic"):
        sample_sources([SourceSpec(name="generic")], tmp_path / "pool", seed=0)
    (towns / "questions.jsonl").write_text("")
    with raises(DataError, item="towns"):
        sample_sources([spec(towns)], tmp_path / "pool", seed=0)
    assert not [
        p
        for p in (tmp_path / "pool").iterdir()
        if p.name.startswith(".making") and any(p.iterdir())
    ]


def test_a_pool_of_a_build_is_a_source_too(towns, tmp_path):
    found = sample_sources([spec(towns)], tmp_path / "pool", seed=0)
    assert list(Pool(found.root).samples()) == found.samples
    again = sample_sources(
        [SourceSpec(name="pool", path=str(found.root))], tmp_path / "next", seed=0
    )
    assert [s.id for s in again.samples] == [s.id for s in found.samples]
    assert set(again.specs) == {s.source for s in again.samples} == {"towns"}
    assert all(
        digest(read_image(ref, again.root)) == ref.sha256 for s in again.samples for ref in s.images
    )


STOPPED = """
import sys, time
from pathlib import Path
from demur.pools import write as pool
from demur.curation.build.sample_pool import sample_sources
from demur.curation.build.recipe import SourceSpec
write, lines = pool._json_line, []
def stays(record):
    lines.append(record)
    if len(lines) == 3:
        print("in the middle", flush=True)
        time.sleep(3600)
    return write(record)
pool._json_line = stays
sample_sources([SourceSpec(name="generic", path=sys.argv[1])], Path(sys.argv[2]), seed=0)
"""


@pytest.mark.integration
def test_killed_while_it_is_made_it_is_made_again_the_same(towns, tmp_path):
    whole = sample_sources([spec(towns)], tmp_path / "whole", seed=0)
    folder = tmp_path / "pool"
    stopped = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(towns), str(folder)], stdout=subprocess.PIPE
    )
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == b"in the middle\n"
    stopped.send_signal(signal.SIGKILL)
    stopped.wait()
    stopped.stdout.close()
    assert pools(folder) == [f".making-{whole.root.name}"]
    found = sample_sources([spec(towns)], folder, seed=0)
    assert pools(folder) == [found.root.name]
    for path in whole.root.iterdir():
        if path.is_file():
            assert path.read_bytes() == (found.root / path.name).read_bytes(), path.name


def test_a_pool_is_keyed_by_all_code_of_a_source_of_ones_own(tmp_path, monkeypatch):
    """What the adapter's file imports of the same project decides as much as the file itself."""
    from types import SimpleNamespace

    from demur.curation.build.sample_pool import _state_digest

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_helper.py").write_text("LIMIT = 1\n")
    (tmp_path / "my_source_7.py").write_text("import my_helper\nclass Mine:\n    name = 'mine'\n")
    import my_source_7

    source = my_source_7.Mine()
    (tmp_path / "data").mkdir()
    source.root = tmp_path / "data"
    spec = SimpleNamespace(
        name="my_source_7:Mine", options={}, model_dump=lambda **_: {"options": {}}
    )
    before = _state_digest([source], [spec])
    assert _state_digest([source], [spec]) == before
    (tmp_path / "my_helper.py").write_text("LIMIT = 2\n")
    assert _state_digest([source], [spec]) != before
