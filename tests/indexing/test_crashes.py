"""Embedding that goes on after its process died: real processes, real signals."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from stub_encoder import StubEncoder, deadly_stub

from demur.core.errors import StorageError
from demur.core.images import image_ref
from demur.core.records import Document
from demur.core.store import write_records
from demur.indexing import worker
from demur.indexing.embed import Item, embed, has_crashed, input_digest
from demur.indexing.local import LocalEngine
from demur.indexing.vectors import MadeShard
from demur.indexing.worker import CRASHES, IN_A_ROW, Worker, WorkerCrashedError, crashed_its_process

TESTS = Path(__file__).parents[1]
ENDED = f"it crashed the process that embedded it, {CRASHES} times"


@pytest.fixture
def noted(tmp_path, monkeypatch):
    """Where `deadly_stub` notes the deaths; `.deadly` beside it says of what it dies."""
    place = tmp_path / "noted"
    place.write_text("")
    monkeypatch.setenv("OPENED_BY", str(place))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS.parent), str(TESTS)]))
    deadly(place)
    return place


def deadly(noted, *keys):
    noted.with_name("noted.deadly").write_text("\n".join(keys))


def files(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def texts(count):
    return [Item(f"i{n}", text=f"text {n}") for n in range(count)]


def here(items, out, encoder=None, *, engine=None, **options):
    options = {"workers": 2, "progress": False, "shard": 16} | options
    return (engine or LocalEngine()).embed(items, encoder or deadly_stub(), "text", out, **options)


def left_by_the_dead(out):
    """The folder as a process leaves it that ended in the first shard."""
    out.mkdir()
    (out / "lock").touch()
    assert has_crashed(out)
    return out


# --- one part -------------------------------------------------------------------------------------


@pytest.mark.integration
def test_deadly_items_are_left_out_by_name_and_the_rest_is_as_it_would_be(noted, tmp_path, capfd):
    items = texts(100)
    deadly(noted, "text 5", "text 90")
    out = left_by_the_dead(tmp_path / "out")
    encoder, engine = deadly_stub(), LocalEngine()
    made = here(items, out, encoder, engine=engine)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("out: ")
    assert "items 0 to 15" in line
    assert dict(made.errors()) == {"i5": ENDED, "i90": ENDED}
    assert Counter(noted.read_text().splitlines()) == {"text 5": CRASHES - 1, "text 90": CRASHES}, (
        "one death was before"
    )
    assert encoder.calls == 0, "once an item has ended the process aside, all is done there"
    others = [item for item in items if item.id not in ("i5", "i90")]
    whole = embed(others, deadly_stub(), "text", tmp_path / "others", progress=False)
    assert list(made.ids) == list(whole.ids)
    assert made.vectors.tobytes() == whole.vectors.tobytes()
    assert not has_crashed(out)
    before = files(out)
    here(items, out)
    assert files(out) == before
    assert len(noted.read_text().splitlines()) == 2 * CRASHES - 1, "known shards kill nobody"

    again = here(items, tmp_path / "next part", encoder, engine=engine)
    assert dict(again.errors()) == {"i5": ENDED, "i90": ENDED}, (
        "the same items in the next part: aside from the start"
    )
    assert encoder.calls == 0
    assert again.vectors.tobytes() == made.vectors.tobytes()


@pytest.mark.integration
def test_where_nothing_was_wrong_a_few_shards_are_done_aside_and_no_byte_differs(noted, tmp_path):
    items = texts(100)
    encoder = deadly_stub()
    here(items, left_by_the_dead(tmp_path / "out"), encoder)
    # Two batches of 8 and 4 * 2 images are on their way behind the shard: that of items 32 to 47 is the last they reach.
    assert encoder.calls == 2 + 2 + 2 + 1
    embed(items, deadly_stub(), "text", tmp_path / "whole", shard=16, progress=False)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.integration
def test_an_item_that_was_reached_ahead_of_its_shard_is_found_there(noted, tmp_path):
    deadly(noted, "text 40")
    made = here(texts(100), left_by_the_dead(tmp_path / "out"))
    assert dict(made.errors()) == {"i40": ENDED}
    assert noted.read_text().splitlines() == ["text 40"] * CRASHES


@pytest.mark.integration
def test_a_run_that_was_stopped_later_goes_on_there(noted, tmp_path, capfd):
    items = texts(60)
    embed(items[:32], deadly_stub(), "text", tmp_path / "out", shard=16, progress=False)
    (tmp_path / "out" / "lock").touch()
    told = []
    deadly(noted, "text 40")
    made = here(items, tmp_path / "out", progress=lambda done, total: told.append((done, total)))
    assert "items 32 to 47" in capfd.readouterr().err
    assert told == [(16, 60), (32, 60), (48, 60), (60, 60)]
    assert dict(made.errors()) == {"i40": ENDED}
    assert len(made.ids) == 59


@pytest.mark.integration
def test_an_encoder_that_cannot_be_opened_by_its_name_works_here(noted, tmp_path, capfd):
    here(texts(40), left_by_the_dead(tmp_path / "out"), StubEncoder(name="nobody knows"))
    first, second = capfd.readouterr().err.splitlines()
    assert "items 0 to 15" in first
    assert "nobody knows" in second
    embed(
        texts(40),
        StubEncoder(name="nobody knows"),
        "text",
        tmp_path / "whole",
        shard=16,
        progress=False,
    )
    assert files(tmp_path / "out") == files(tmp_path / "whole")


class Refusing(StubEncoder):
    """Fails on one text, as Python fails."""

    def texts(self, texts, space="joint", *, role="passage"):
        if "text 3" in texts:
            raise ValueError("no threes")
        return super().texts(texts, space)


def refusing(argument="", *, allow_random=False, device=None):
    """What ``test_here:refusing`` opens."""
    return Refusing(name="test_here:refusing")


@pytest.mark.integration
def test_an_error_aside_is_an_error_here(noted, tmp_path):
    with pytest.raises(ValueError, match="no threes"):
        here(texts(9), left_by_the_dead(tmp_path / "out"), refusing())
    assert not has_crashed(tmp_path / "out")


@pytest.mark.integration
def test_when_everything_ends_the_process_the_run_ends_by_name(noted, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "IN_A_ROW", 3)
    deadly(noted, *(f"text {n}" for n in range(40)))
    with raises(StorageError, "3 times"):
        here(texts(40), left_by_the_dead(tmp_path / "out"))
    assert len(noted.read_text().splitlines()) == 3
    assert not has_crashed(tmp_path / "out"), "this end was told"


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, ValueError])
def test_what_python_ends_by_itself_is_no_death(tmp_path, end):
    class Ending(StubEncoder):
        def texts(self, texts, space="joint", *, role="passage"):
            assert has_crashed(tmp_path / "out"), "while it works it might die"
            raise end

    with pytest.raises(end):
        here(texts(3), tmp_path / "out", Ending())
    assert not has_crashed(tmp_path / "out")


# --- an index -------------------------------------------------------------------------------------


def corpus(folder, count=40):
    """Texts and images; image number n has pixels of that value."""
    documents = []
    for n in range(count):
        buffer = io.BytesIO()
        Image.new("RGB", (3, 3), (n, n, n)).save(buffer, "PNG")
        (folder / f"{n}.png").write_bytes(buffer.getvalue())
        about = {"title": "", "page": f"p{n}", "attributes": {"page_title": f"page {n}"}}
        documents.append(Document(id=f"t{n}", text=f"text {n}", **about))
        documents.append(
            Document(id=f"i{n}", image=image_ref(buffer.getvalue(), f"{n}.png"), **about)
        )
    write_records(folder / "kb.jsonl", documents)


def build(folder, out):
    """Exit code and standard error."""
    words = [
        "index",
        "build",
        "kb.jsonl",
        "--out",
        out,
        "--encoder",
        "stub_encoder:deadly_stub",
        "--skip-bad",
    ]
    command = [sys.executable, "-m", "demur", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("killers", [("image 7",), ("text 21", "image 7", "image 33")])
def test_a_build_whose_decoder_crashes_is_run_once_more_and_goes_to_its_end(
    noted, tmp_path, killers
):
    corpus(tmp_path)
    deadly(noted, *killers)
    assert build(tmp_path, "index")[0] == (
        -signal.SIGKILL if "text 21" in killers else -signal.SIGSEGV
    )
    code, told = build(tmp_path, "index")
    assert code == 0, told
    assert told.count("items 0 to 39") == 1

    deadly(noted)
    assert build(tmp_path, "whole")[0] == 0
    names = {key.replace("text ", "t").replace("image ", "i") for key in killers}
    found = set()
    for part in ("passages", "titles", "summaries", "looks", "images"):
        mine, whole = tmp_path / "index" / "parts" / part, tmp_path / "whole" / "parts" / part
        wrong = [json.loads(line) for line in (mine / "errors.jsonl").read_text().splitlines()]
        assert all(row["error"] == ENDED and crashed_its_process(row["error"]) for row in wrong)
        found |= {(row["id"], part) for row in wrong}
        ids = [json.loads(line) for line in (whole / "ids.jsonl").read_text().splitlines()]
        kept = [n for n, id in enumerate(ids) if id not in names or part in ("titles", "summaries")]
        assert [json.loads(line) for line in (mine / "ids.jsonl").read_text().splitlines()] == [
            ids[n] for n in kept
        ]
        expected = np.load(whole / "vectors.npy")[kept]
        assert np.load(mine / "vectors.npy").tobytes() == expected.tobytes()
        if len(kept) == len(ids):
            assert files(mine) == files(whole)
    assert found == {
        (n, p) for n in names for p in (("passages",) if n[0] == "t" else ("looks", "images"))
    }
    skipped = [
        json.loads(line) for line in (tmp_path / "index" / "skipped.jsonl").read_text().splitlines()
    ]
    assert {(row["evidence"], row["stage"]) for row in skipped} == found
    for id in names:
        assert f"{id}: {ENDED}" in told


@pytest.mark.integration
def test_a_build_that_was_killed_leaves_the_same_folder_when_it_is_run_again(noted, tmp_path):
    write_records(
        tmp_path / "kb.jsonl",
        [Document(id=f"t{n}", title="", text=f"text {n}") for n in range(400)],
    )
    deadly(noted, "text 200")  # kill -9, in the middle of its only shard
    assert build(tmp_path, "index")[0] == -signal.SIGKILL
    assert (tmp_path / ".index.building" / "parts" / "passages" / "lock").exists()
    deadly(noted)
    code, told = build(tmp_path, "index")
    assert code == 0, told
    assert "passages: " in told
    assert "died" not in build(tmp_path, "whole")[1]
    assert files(tmp_path / "index") == files(tmp_path / "whole")


SLOW = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from demur.indexing.embed import Item
    from demur.indexing.local import LocalEngine
    from stub_encoder import noted_stub

    items = [Item(f"i{n}", text=f"text {n}") for n in range(64_000)]
    engine = LocalEngine()
    engine._crashes = True  # aside, and no piece smaller than the shard
    engine.embed(items, noted_stub(), "text", Path(sys.argv[1]), workers=1, progress=False, shard=64_000)
    """
)  # without a guard: the process aside does not run it again


@pytest.mark.integration
def test_the_process_aside_goes_with_the_one_that_watches_it(noted, tmp_path):
    watcher = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(tmp_path / "out")], stderr=subprocess.DEVNULL
    )
    while len(opened := noted.read_text().split()) < 2:
        time.sleep(0.01)
        assert watcher.poll() is None
    aside = int(opened[1])
    assert (int(opened[0]), Path(f"/proc/{aside}/oom_score_adj").read_text().strip()) == (
        watcher.pid,
        "1000",
    )
    time.sleep(2)  # in the middle of some minutes' work
    watcher.kill()
    watcher.wait()
    limit = time.monotonic() + 300
    while (
        Path(f"/proc/{aside}").exists()
        and "Z" not in Path(f"/proc/{aside}/stat").read_text().split()[2]
    ):
        time.sleep(0.02)
        assert time.monotonic() < limit


# --- without processes ------------------------------------------------------------------------------


class Fake(Worker):
    """A worker whose process ends on some items."""

    def __init__(self, batch, deadly):
        super().__init__(("stub", ""), "text", "passage", 1, batch)
        self.deadly, self.tried = deadly, []

    def _ask_process(self, items):
        self.tried.append([item.id for item in items])
        if self.deadly(items):
            raise WorkerCrashedError
        ids = "".join(json.dumps(item.id) + "\n" for item in items).encode()
        return MadeShard(input_digest(items), len(items), 0, b"v" * len(items), ids, b"")


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.sets(st.integers(0, 44), max_size=3))
def test_exactly_the_deadly_items_are_left_out(length, batch, deadly):
    items, names = texts(length), {f"i{n}" for n in deadly}
    fake = Fake(batch, lambda items: any(item.id in names for item in items))
    made = fake.shard(items)
    assert [json.loads(line) for line in made.ids.splitlines()] == [
        i.id for i in items if i.id not in names
    ]
    wrong = [json.loads(line) for line in made.errors.splitlines()]
    assert [row["id"] for row in wrong] == [i.id for i in items if i.id in names]
    assert all(row["error"] == ENDED for row in wrong)
    assert (made.input, made.items, made.failed) == (input_digest(items), length, len(wrong))
    starts = [tried[0] for tried in fake.tried if 1 < len(tried) < length]
    assert all(int(start[1:]) % batch == 0 for start in starts), "batches begin where they did"


def test_an_item_that_was_under_way_once_by_chance_is_kept():
    ends = iter([True, True])
    made = Fake(4, lambda items: next(ends, False)).shard(texts(8))
    assert (made.items, made.failed) == (8, 0)


def test_a_machine_on_which_everything_ends_is_given_up():
    fake = Fake(8, lambda items: True)
    with raises(StorageError, f"{IN_A_ROW} times"):
        fake.shard(texts(100))
