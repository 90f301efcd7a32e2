"""Files: the same bytes for the same values, torn tails cut, and errors that name the path and the cure."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from errors import places, raises
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from strategies import png, sample

from demur.core.errors import BadInput, DataError, StorageError, UsageError
from demur.core.images import image_ref
from demur.core.records import Drop, Sample
from demur.core.store import (
    PROBLEMS_KEPT,
    JsonlLog,
    Problems,
    canonical,
    digest,
    locked,
    read_json,
    read_jsonl,
    read_records,
    replacing,
    seed_of,
    write_atomic,
    write_records,
)
from demur.core.uris import read_image, read_uri
from demur.indexing.tables import save

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
def test_canonical_json_reads_back_and_does_not_depend_on_order(value):
    text = canonical(value)
    assert json.loads(text) == value
    if isinstance(value, dict):
        assert canonical(dict(reversed(list(value.items())))) == text


@given(st.lists(st.text(max_size=6), max_size=4), st.lists(st.text(max_size=6), max_size=4))
def test_a_seed_depends_on_its_parts_alone(a, b):
    assert seed_of(*a) == seed_of(*a)
    assert 0 <= seed_of(*a) < 2**63
    if "\x1f".join(a) != "\x1f".join(b):
        assert seed_of(*a) != seed_of(*b)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6), st.integers(1, 60))
def test_a_log_keeps_every_whole_line_however_it_was_cut(tmp_path_factory, texts, cut):
    path = tmp_path_factory.mktemp("log") / "a.jsonl"
    with JsonlLog(path) as log:
        for text in texts:
            log.append({"text": text})
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut] if cut < len(whole) else b"")
    kept = path.read_bytes().count(b"\n")
    with JsonlLog(path) as log:
        log.append({"text": "after"})
    rows = [json.loads(line)["text"] for line in path.read_bytes().split(b"\n")[:-1]]
    assert rows == [*texts[:kept], "after"]


def test_all_bad_records_of_a_file_are_told_at_once_with_their_place(tmp_path):
    path = tmp_path / "pool.jsonl"
    good = sample("a").model_dump(mode="json")
    path.write_text(
        f"{json.dumps(good)}\nnot json\n[1]\n{json.dumps(good | {'id': 'b', 'question': ''})}\n\n"
    )
    problems = Problems()
    assert [s.id for s in read_records(path, Sample, problems)] == ["a"]
    with raises(BadInput) as caught:
        problems.settle()
    assert [p.split(":")[1][0] for p in caught.value.problems] == ["2", "3", "4"]
    assert "question" in caught.value.problems[2]
    problems.settle(skip_bad=True)
    assert problems.skipped == 3


def test_millions_of_bad_rows_are_counted_and_the_first_are_kept(tmp_path):
    path, bad = tmp_path / "pool.jsonl", 3 * PROBLEMS_KEPT + 7
    path.write_text("[]\n" * bad)
    problems = Problems()
    assert list(read_jsonl(path, problems)) == []
    assert places(problems.lines) == [f"pool.jsonl:{n}" for n in range(1, PROBLEMS_KEPT + 1)]
    assert (len(problems), problems.more) == (bad, 2 * PROBLEMS_KEPT + 7)
    assert problems.summary()[-1] == "... and 2,007 more"
    assert problems.summary(2) == [*problems.lines[:2], "... and 3,005 more"]
    with raises(BadInput, "3007 problem", "2007 more\n"):
        problems.settle()
    problems.settle(skip_bad=True)
    assert problems.skipped == bad
    few = Problems()
    few.add("a:1", "bad")
    assert (few.summary(), few.more) == (["a:1: bad"], 0)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    write_atomic(path, "old")
    folder = tmp_path / "b"
    folder.mkdir()
    with pytest.raises(StorageError, match="b"):
        write_atomic(folder, "new")  # a folder cannot be replaced by a file
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".tmp")] == []


def test_records_are_written_as_the_same_bytes(tmp_path):
    drops = [Drop(sample=f"s{i}", stage="x", reason="ö") for i in range(3)]
    one, two = write_records(tmp_path / "a", drops), write_records(tmp_path / "b", drops)
    assert one == two == digest((tmp_path / "a").read_bytes())


def test_json_that_is_none_names_its_line(tmp_path):
    path = tmp_path / "m.json"
    path.write_text('{"a": 1,\n "b": }')
    with raises(DataError, item="m.json:2"):
        read_json(path)
    with raises(StorageError, item=tmp_path / "none.json"):
        read_json(tmp_path / "none.json")
    path.write_text('{"a": 1}', encoding="utf-8-sig")  # as Windows saves it
    assert read_json(path) == {"a": 1}


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", b"no picture", png()[:50]], ids=["empty", "head", "text", "cut"]
)
def test_what_is_no_whole_image_is_refused_by_name(data):
    with raises(DataError, item="q.png"):
        image_ref(data, "q.png")


@pytest.mark.heavy
def test_a_decompression_bomb_is_refused_before_it_is_decoded():
    out = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(out, "PNG")
    with raises(DataError, "100,000,000 pixels", item="bomb.png"):
        image_ref(out.getvalue(), "bomb.png")


def test_images_are_read_where_they_lie_and_checked(tmp_path):
    data = png()
    (tmp_path / "a.png").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("in/b.png", data)
    ref = image_ref(data, "a.png")
    assert read_image(ref, tmp_path) == data
    assert read_image(ref.model_copy(update={"uri": "zip:z.zip!in/b.png"}), tmp_path) == data
    (tmp_path / "a.png").write_bytes(png((1, 1, 1)))
    with pytest.raises(DataError, match="changed"):
        read_image(ref, tmp_path)
    with pytest.raises(StorageError):
        read_image(ref.model_copy(update={"uri": "none.png"}), tmp_path)


def test_an_array_cut_short_by_a_full_disk_is_told_as_that(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with raises(StorageError, "5000", item="a.npy", cure="ulimit -f"):
            save(tmp_path / "a.npy", np.zeros(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_pipe_is_no_image(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for uri in (str(tmp_path / "pipe.png"), "/dev/zero"):
        with raises(DataError, item=uri):
            read_uri(uri)


def test_one_process_at_a_time_holds_a_lock_and_nothing_is_left_of_it(tmp_path):
    place = tmp_path / "work" / "lock"
    with locked(place, "writing"):
        held = place.stat()
        with (
            raises(UsageError, item=place),
            locked(place, "writing"),
        ):
            pass
        assert place.stat() == held  # who was refused took nothing away
    assert not place.exists()
    with locked(place, "writing"):
        pass


def test_who_waits_for_a_lock_comes_after_whoever_took_it_anew(tmp_path):
    place, inside, most = tmp_path / "lock", [0], []

    def work(_: int) -> None:
        for _ in range(50):
            with locked(place, "writing", wait=True):
                inside[0] += 1
                most.append(inside[0])
                inside[0] -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert most == [1] * 200
    assert not place.exists()


@pytest.mark.integration
def test_what_a_killed_process_left_half_written_is_gone_after_the_next_write(tmp_path):
    """Killed in the middle of a file, twice, by processes of different ids; the next one to write it leaves it alone."""
    code = (
        "import os, signal, sys; from pathlib import Path; from demur.core.store import replacing\n"
        "with replacing(Path(sys.argv[1])) as handle:\n"
        "    handle.write(b'half'); handle.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "table.md")], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    write_atomic(tmp_path / "table.md", "whole")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"table.md": "whole"}


def test_two_that_write_one_file_do_not_mix(tmp_path):
    path = tmp_path / "x"
    with replacing(path) as first:
        first.write(b"first")
        write_atomic(path, "second")
        assert path.read_bytes() == b"second"
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"x": b"first"}
    with pytest.raises(ZeroDivisionError), replacing(path):
        raise ZeroDivisionError
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: write_atomic(path, f"{i}" * 1000), range(200)))
    assert len(set(path.read_text())) <= 3
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
