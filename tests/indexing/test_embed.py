from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from strategies import examples
from stub_encoder import StubEncoder

from demur.core import progress
from demur.core.errors import DataError, IndexFileError, StorageError, UsageError
from demur.core.images import image_ref
from demur.indexing.embed import Embedded, Item, embed
from demur.indexing.encoders import fingerprint_of, open_encoder


def png(level: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 3), (level, level, level)).save(buffer, "PNG")
    return buffer.getvalue()


def texts(count: int, start: int = 0) -> list[Item]:
    return [Item(f"t{i}", f"text number {i}") for i in range(start, start + count)]


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def run(items, out: Path, encoder=None, space="text", **options) -> Embedded:
    return embed(items, encoder or StubEncoder(), space, out, progress=False, **options)


@pytest.mark.heavy
def test_vectors_of_a_users_encoder_are_kept_by_its_code(tmp_path, monkeypatch):
    """It says the same of itself before and after the edit; its vectors are made again."""
    code = """
    import numpy as np
    from stub_encoder import StubEncoder
    class Mine(StubEncoder):
        __class__ = property(type)
        def texts(self, texts, space="joint", *, role="passage"):
            return StubEncoder.texts(self, texts, space)[:, ::1]
    def opened(argument, *, allow_random):
        return Mine("edited_encoder:opened")
    """
    monkeypatch.syspath_prepend(tmp_path)
    made = []
    for text in (code, code, code.replace("::1", "::-1")):
        (tmp_path / "edited_encoder.py").write_text(textwrap.dedent(text))
        monkeypatch.delitem(sys.modules, "edited_encoder", raising=False)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        mine = open_encoder("edited_encoder:opened")
        made.append((mine.fingerprint(), fingerprint_of(mine)))
        if len(made) < 3:
            run(texts(5), tmp_path / "e", mine)
    with pytest.raises(DataError, match="fingerprint"):
        run(texts(5), tmp_path / "e", mine)
    assert made[0] == made[1]
    assert made[0][0] == made[2][0]
    assert made[0][1] != made[2][1]
    own = open_encoder("offline")
    assert fingerprint_of(own) == own.fingerprint()


# --- what comes out ---------------------------------------------------------------------------------


def test_rows_are_the_encoders_in_the_order_of_the_items(tmp_path):
    items = texts(23)
    made = run(iter(items), tmp_path / "e", shard=5)
    assert np.array_equal(made.vectors, StubEncoder().texts([i.text for i in items], "text"))
    assert isinstance(made.vectors, np.memmap)
    assert not made.vectors.flags.writeable
    assert list(made.ids) == [i.id for i in items]
    assert (made.ids[0], made.ids[-1], made.ids[3:5], len(made.ids)) == (
        "t0",
        "t22",
        ["t3", "t4"],
        23,
    )
    assert made.manifest["failed"] == 0
    assert made.manifest["fingerprint"] == fingerprint_of(StubEncoder())
    assert np.array_equal(np.load(tmp_path / "e" / "vectors.npy"), made.vectors)


def test_images_come_from_bytes_files_functions_and_references(tmp_path):
    (tmp_path / "b.png").write_bytes(png(2))
    (tmp_path / "d.png").write_bytes(png(4))
    items = [
        Item("a", image=png(1)),
        Item("b", image=tmp_path / "b.png"),
        Item("c", image=lambda: png(3)),
        Item.of_image("d", image_ref(png(4), "d.png"), tmp_path),
    ]
    made = run(items, tmp_path / "e", space="look")
    pictures = [Image.new("RGB", (3, 3), (level,) * 3) for level in (1, 2, 3, 4)]
    assert np.array_equal(made.vectors, StubEncoder().images(pictures, "look"))


def test_texts_and_images_may_be_mixed_and_keep_their_order(tmp_path):
    items = [Item("a", "x"), Item("b", image=png(9)), Item("c", "y")]
    made = run(items, tmp_path / "e", space="joint")
    assert np.array_equal(made.vectors[[0, 2]], StubEncoder().texts(["x", "y"]))
    assert np.array_equal(
        made.vectors[1:2], StubEncoder().images([Image.new("RGB", (3, 3), (9, 9, 9))])
    )


@pytest.mark.parametrize("count", [0, 1, 4, 5, 10])
def test_any_number_of_items(tmp_path, count):
    made = run(texts(count), tmp_path / "e", shard=5)
    assert made.vectors.shape == (count, 24)
    assert len(made.ids) == count
    assert Embedded.open(tmp_path / "e").vectors.shape == (count, 24)
    assert np.load(tmp_path / "e" / "vectors.npy").shape == (count, 24)


def test_ids_may_be_any_text(tmp_path):
    names = ["a b", "zwei\nZeilen", '"quoted"', "東京", "\\", "\ud800", "x" * 5000]
    made = run([Item(name, "t") for name in names], tmp_path / "e", shard=2)
    assert list(made.ids) == names
    assert [made.ids[i] for i in range(len(names))] == names


OWN = """
import numpy as np
class Fine:
    name, note, similarity, dims = "own_encoders:Fine", "by hand", "dot", {"text": 2}
    def __init__(self, argument="", *, allow_random=False): pass
    def fingerprint(self): return "ab"
    def texts(self, texts, space="text", *, role="passage"): return [[1.0, 2.0] for _ in texts]
    def images(self, images, space="joint"): raise NotImplementedError
class Ragged(Fine):
    def texts(self, texts, space="text", *, role="passage"): return [[1.0] * n for n in range(len(texts))]
class Angular(Fine):
    similarity = "angular"
class Without:
    def __init__(self, argument="", *, allow_random=False): pass
def function(texts): return [[1.0]]
"""


def test_an_encoder_of_the_users_that_is_none_is_told(tmp_path, monkeypatch):
    (tmp_path / "own_encoders.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    made = run(texts(2), tmp_path / "fine", open_encoder("own_encoders:Fine"))
    assert made.vectors.tolist() == [[1, 2], [1, 2]]
    with raises(UsageError, item="own_encoders:Fine"):
        run(texts(3), tmp_path / "ragged", open_encoder("own_encoders:Ragged"))
    for name, why in (
        ("Angular", "similarity"),
        ("Without", "name, note"),
        ("function", "allow_random"),
    ):
        with pytest.raises(UsageError, match=why):
            open_encoder(f"own_encoders:{name}")


@pytest.mark.parametrize("again", [1, 7])
def test_an_id_that_comes_again_is_an_error(tmp_path, again):
    """In the same shard, or in one after those of an earlier run."""
    run(texts(8)[:again], tmp_path / "e", shard=2)
    with raises(UsageError, item="t0"):
        run([*texts(8), Item("t0", "another text")], tmp_path / "e", shard=2)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("shard", [1, 7, 1000])
def test_shards_and_workers_do_not_change_the_vectors(tmp_path, shard, workers):
    items = [Item(f"i{n}", image=png(n)) for n in range(20)]
    made = run(items, tmp_path / "e", space="look", shard=shard, workers=workers)
    pictures = [Image.new("RGB", (3, 3), (n,) * 3) for n in range(20)]
    assert np.array_equal(made.vectors, StubEncoder().images(pictures, "look"))


# --- what cannot be embedded ------------------------------------------------------------------------


def test_bad_items_are_recorded_and_counted_and_the_rest_goes_on(tmp_path):
    def gone() -> bytes:
        raise OSError("the server is gone")

    items = [
        Item("good", image=png(1)),
        Item("torn", image=png(2)[:50]),
        Item("none", image=b""),
        Item("missing", image=tmp_path / "no.png"),
        Item("unreachable", image=gone),
        Item("empty", "  \n"),
        Item("neither"),
        Item("both", "x", png(1)),
        Item("", "no id"),
        Item("half", "\ud800"),
        Item("last", "fine"),
    ]
    made = run(items, tmp_path / "e", space="joint", shard=4)
    assert list(made.ids) == ["good", "last"]
    assert made.manifest["failed"] == 9
    why = [f"{id}: {reason}" for id, reason in made.errors()]
    for line, expected in zip(
        why,
        [
            "torn: the image cannot be read",
            "none: the image is empty",
            "missing: No such file",
            "unreachable: the image cannot be had: the server is gone",
            "empty: its text is empty",
            "neither: it must have either",
            "both: it must have either",
            ": its id is empty",
            "half: its text is not valid",
        ],
        strict=True,
    ):
        assert line.startswith(expected)


@pytest.mark.parametrize(
    ("value", "reason"), [(0.0, "length zero"), (np.nan, "NaN"), (np.inf, "NaN or infinity")]
)
def test_vectors_of_no_use_are_left_out_by_name(tmp_path, value, reason):
    class Broken(StubEncoder):
        def texts(self, texts, space="joint", *, role="passage"):
            rows = super().texts(texts, space)
            rows[[t.endswith(" 3") for t in texts]] = value
            return rows

    made = run(texts(6), tmp_path / "e", Broken())
    assert list(made.ids) == ["t0", "t1", "t2", "t4", "t5"]
    assert [(i, reason in why) for i, why in made.errors()] == [("t3", True)]
    assert np.isfinite(made.vectors).all()


def test_an_encoder_that_gives_the_wrong_shape_is_named(tmp_path):
    class Wrong(StubEncoder):
        def texts(self, texts, space="joint", *, role="passage"):
            return super().texts(texts, space)[:, :3]

    with raises(UsageError, "(2, 3)", "(2, 24)", item="stub"):
        run(texts(2), tmp_path / "e", Wrong())


@pytest.mark.parametrize("options", [{"shard": 0}, {"workers": 0}])
def test_senseless_numbers_are_refused(tmp_path, options):
    with raises(UsageError, *(f"{name}={value}" for name, value in options.items())):
        run(texts(1), tmp_path / "e", **options)


def test_a_space_that_is_not_served_is_refused_with_those_that_are(tmp_path):
    with raises(UsageError, "'smell'", item="stub", cure="joint, look, text"):
        run(texts(1), tmp_path / "e", space="smell")


# --- stopped and gone on with -----------------------------------------------------------------------


class StoppedError(Exception):
    """What stands for a killed process."""


class Dying(StubEncoder):
    """Stops for good before it has embedded more than so many items."""

    def __init__(self, lives: int) -> None:
        super().__init__()
        self.lives = lives
        self.done = 0

    def texts(self, texts, space="joint", *, role="passage"):
        self.done += len(texts)
        if self.done > self.lives:
            raise StoppedError
        return super().texts(texts, space)


def mixed(count: int) -> list[Item]:
    return [Item(f"t{i}", "" if i % 13 == 5 else f"text {i}") for i in range(count)]


@pytest.mark.heavy
@given(st.integers(0, 120), st.integers(1, 30), st.lists(st.integers(0, 120), max_size=4))
@settings(max_examples=examples(40))
def test_a_run_that_was_stopped_ends_with_the_same_bytes(tmp_path_factory, count, shard, stops):
    base = tmp_path_factory.mktemp("resume")
    items = mixed(count)
    run(items, base / "whole", shard=shard)
    for lives in stops:
        encoder = Dying(lives)
        try:
            run(iter(items), base / "stopped", encoder, shard=shard)
        except StoppedError:
            assert not (base / "stopped" / "manifest.json").exists()
    run(items, base / "stopped", shard=shard)
    assert contents(base / "stopped") == contents(base / "whole")
    shutil.rmtree(base)


def test_at_most_one_shard_is_done_again(tmp_path):
    items = texts(100)
    with pytest.raises(StoppedError):
        run(items, tmp_path / "e", Dying(75), shard=10)
    again = Dying(10_000)
    run(items, tmp_path / "e", again, shard=10)
    assert again.done == 30  # 7 whole shards were kept


def test_a_finished_folder_is_not_touched(tmp_path):
    items = texts(30)
    run(items, tmp_path / "e", shard=10)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "e").iterdir()}
    encoder = StubEncoder()
    run(items, tmp_path / "e", encoder, shard=10)
    assert encoder.calls == 0
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "e").iterdir()} == before


@pytest.mark.parametrize(("later", "redone"), [(35, 5), (41, 11), (25, 5), (20, 0)])
def test_items_added_or_taken_away_at_the_end_keep_the_shards_before(tmp_path, later, redone):
    run(texts(30), tmp_path / "e", shard=10)
    again = Dying(10_000)
    run(texts(later), tmp_path / "e", again, shard=10)
    assert again.done == redone
    run(texts(later), tmp_path / "fresh", shard=10)
    assert contents(tmp_path / "e") == contents(tmp_path / "fresh")


def test_a_changed_item_is_noticed_by_its_text_its_key_or_its_path(tmp_path):
    for place, (old, new) in enumerate(
        [
            (Item("a", "old"), Item("a", "new")),
            (Item("a", image=png(1)), Item("a", image=png(2))),
            (Item("a", image=lambda: png(1), key="1"), Item("a", image=lambda: png(2), key="2")),
            (Item("a", "x"), Item("b", "x")),
        ]
    ):
        out = tmp_path / str(place)
        run([old], out, space="joint")
        first = contents(out)
        run([new], out, space="joint")
        assert contents(out) != first


def test_a_folder_goes_on_with_its_own_shard_size(tmp_path):
    with pytest.raises(StoppedError):
        run(texts(30), tmp_path / "e", Dying(15), shard=10)
    run(texts(30), tmp_path / "e", shard=7)
    run(texts(30), tmp_path / "whole", shard=10)
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(
            (n, d)
            for n in ("vectors.npy", "ids.jsonl", "errors.jsonl")
            for d in ("cut", "flip", "grow", "gone")
        ),
        ("shards.jsonl", "cut"),
        ("shards.jsonl", "grow"),
    ],
)
def test_damage_to_an_unfinished_folder_is_repaired(tmp_path, name, damage):
    items = mixed(60)
    run(items, tmp_path / "whole", shard=10)
    out = tmp_path / "e"
    with pytest.raises(StoppedError):
        run(items, out, Dying(45), shard=10)
    data = bytearray((out / name).read_bytes())
    if damage == "gone":
        (out / name).unlink()
    else:
        if damage == "cut":
            del data[-7:]
        elif damage == "grow":
            data += b"torn line"
        else:
            data[-9] ^= 1
        (out / name).write_bytes(bytes(data))
    run(items, out, shard=10)
    assert contents(out) == contents(tmp_path / "whole")


SCRIPT = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from demur.indexing.embed import Item, embed
    from stub_encoder import StubEncoder

    class Slow(StubEncoder):
        def texts(self, texts, space="joint", *, role="passage"):
            time.sleep(0.02 if self.calls < 12 else 3600)  # it never ends before it is killed
            return super().texts(texts, space)

    items = (Item(f"t{i}", f"text {i}") for i in range(2000))
    embed(items, Slow(), "text", Path(sys.argv[1]), shard=64, progress=False)
    """
)


@pytest.mark.integration
def test_a_process_that_is_killed_can_be_gone_on_with(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "e")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    for _ in range(2):
        process = subprocess.Popen(command, env=environment)
        ledger = tmp_path / "e" / "shards.jsonl"
        before = ledger.stat().st_size if ledger.exists() else 0
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and not (
            ledger.exists() and ledger.stat().st_size > before + 600
        ):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        with raises(IndexFileError, item="e"):
            Embedded.open(tmp_path / "e")
    items = [Item(f"t{i}", f"text {i}") for i in range(2000)]
    run(items, tmp_path / "e")
    run(items, tmp_path / "whole", shard=64)
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")


# --- what must not be mixed -------------------------------------------------------------------------


def test_vectors_of_two_encoders_are_never_mixed(tmp_path):
    run(texts(5), tmp_path / "e")
    with raises(IndexFileError, "fingerprint", item=tmp_path / "e"):
        run(texts(5), tmp_path / "e", StubEncoder(seed=1))
    with raises(IndexFileError, "space", "'text'", "'joint'", item=tmp_path / "e"):
        run(texts(5), tmp_path / "e", space="joint")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with raises(IndexFileError, item=tmp_path / "manifest.json"):
        run(texts(1), tmp_path)
    assert contents(tmp_path) == {"manifest.json": b"{}"}
    with raises(IndexFileError, item=tmp_path / "manifest.json"):
        Embedded.open(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with raises(IndexFileError, "manifest.json", item=tmp_path):
        Embedded.open(tmp_path)
    (tmp_path / "shards.jsonl").write_text("what\nis this\n")
    with raises(IndexFileError, item=tmp_path / "shards.jsonl"):
        run(texts(1), tmp_path)


@pytest.mark.parametrize("name", ["vectors.npy", "ids.jsonl", "errors.jsonl", "shards.jsonl"])
def test_a_finished_folder_that_was_damaged_is_refused_by_name(tmp_path, name):
    out = tmp_path / "e"
    run(mixed(40), out)
    whole = (out / name).read_bytes()
    (out / name).write_bytes(whole[:-3])
    with raises(IndexFileError, f"{len(whole):,}", item=out / name):
        Embedded.open(out)
    (out / name).unlink()
    with pytest.raises(IndexFileError, match="missing"):
        Embedded.open(out)


def test_two_writers_are_not_let_into_one_folder(tmp_path):
    begun, go = threading.Event(), threading.Event()

    class Waiting(StubEncoder):
        def texts(self, texts, space="joint", *, role="passage"):
            begun.set()
            assert go.wait(30)
            return super().texts(texts, space)

    first = threading.Thread(target=run, args=(texts(3), tmp_path / "e", Waiting()))
    first.start()
    assert begun.wait(30)
    with raises(UsageError, item=tmp_path / "e" / "lock"):
        run(texts(3), tmp_path / "e")
    go.set()
    first.join()
    assert len(Embedded.open(tmp_path / "e").ids) == 3


def test_a_full_disk_is_one_clear_error_and_what_was_done_stays(tmp_path, monkeypatch):
    real = os.fsync
    calls = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 12:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with raises(StorageError, "No space left on device", item=tmp_path / "e"):
        run(texts(100), tmp_path / "e", shard=10)
    monkeypatch.undo()
    again = Dying(1000)
    run(texts(100), tmp_path / "e", again, shard=10)
    assert again.done < 100
    run(texts(100), tmp_path / "whole", shard=10)
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")


# --- how it works -----------------------------------------------------------------------------------


def test_items_are_streamed(tmp_path):
    """No more items are drawn than the window and two batches ahead of those that are embedded."""
    drawn, ahead = 0, []

    class Watching(StubEncoder):
        batch = 10
        done = 0

        def texts(self, texts, space="joint", *, role="passage"):
            ahead.append(drawn - self.done)
            self.done += len(texts)
            return super().texts(texts, space)

    def stream():
        nonlocal drawn
        for item in texts(500):
            drawn += 1
            yield item

    run(stream(), tmp_path / "e", Watching(), workers=2)
    assert max(ahead) <= 10 + 2 * 10 + 4 * 2 + 1


def test_images_are_decoded_while_the_model_works(tmp_path):
    """The model's first batch ends only when an image of the next one was fetched."""
    next_fetched = threading.Event()

    class Waiting(StubEncoder):
        batch = 4

        def images(self, images, space="joint"):
            assert next_fetched.wait(30)
            return super().images(images, space)

    def fetching(number: int):
        def fetch() -> bytes:
            if number == 6:
                time.sleep(0.2)  # by now the first batch is with the model
                next_fetched.set()
            return png(number)

        return fetch

    made = run(
        [Item(str(n), image=fetching(n)) for n in range(40)],
        tmp_path / "e",
        Waiting(),
        space="look",
        workers=1,
    )
    assert len(made.ids) == 40


def test_a_preparing_encoder_gets_what_it_prepared(tmp_path):
    class Halves(StubEncoder):
        batch = 3
        threads: set[str] = set()  # noqa: RUF012 - one encoder, one test

        def prepared(self, image, space="joint"):
            self.threads.add(threading.current_thread().name)
            return np.asarray(image)

        def images_prepared(self, prepared, space="joint"):
            return self.images([Image.fromarray(p) for p in prepared], space)

    items = [Item(str(n), image=png(n)) for n in range(10)]
    made = run(items, tmp_path / "e", Halves(), space="look")
    assert np.array_equal(made.vectors, run(items, tmp_path / "plain", space="look").vectors)
    assert all(name.startswith("decode") for name in Halves.threads)


@pytest.mark.parametrize("error", [MemoryError, ValueError])
def test_an_image_that_cannot_be_resized_is_left_out_by_name(tmp_path, error):
    class Short(StubEncoder):
        batch = 3

        def prepared(self, image, space="joint"):
            if image.getpixel((0, 0))[0] == 2:
                raise error("of a size")
            return np.asarray(image)

        def images_prepared(self, prepared, space="joint"):
            return self.images([Image.fromarray(p) for p in prepared], space)

    made = run(
        [Item(str(n), image=png(n)) for n in range(4)], tmp_path / "e", Short(), space="look"
    )
    assert list(made.ids) == ["0", "1", "3"]
    assert [item for item, _ in made.errors()] == ["2"]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_shows_what_count_rate_and_failures_and_so_does_the_line_in_a_log(
    tmp_path, capsys, monkeypatch, terminal
):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    embed([*texts(9), Item("bad", "")], StubEncoder(), "text", tmp_path / "looks", shard=4)
    shown = capsys.readouterr()
    assert shown.out == ""
    for part in ("looks: stub text", "10/10", "/s", "1 failed"):
        assert part in shown.err
    assert ("━" in shown.err) is terminal
    embed(
        [*texts(9), Item("bad", ""), *texts(3, 20)],
        StubEncoder(),
        "text",
        tmp_path / "looks",
        shard=4,
    )
    assert "13/13" in capsys.readouterr().err


def test_a_log_is_told_now_and_then(tmp_path, capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Slow(StubEncoder):
        batch = 10

        def texts(self, texts, space="joint", *, role="passage"):
            clock[0] += 16
            return super().texts(texts, space)

    items = texts(100)
    embed(items[:20], Slow(), "text", tmp_path / "looks", shard=10)
    assert capsys.readouterr().err == "looks: stub text: 20/20, 0.6/s\n"
    embed(items, Slow(), "text", tmp_path / "looks", shard=10)
    assert capsys.readouterr().err.splitlines() == [
        "looks: stub text: 40/100, 0.6/s, 1 min 36 s left",
        "looks: stub text: 60/100, 0.6/s, 1 min 4 s left",
        "looks: stub text: 80/100, 0.6/s, 32 s left",
        "looks: stub text: 100/100, 0.6/s",
    ]


def test_the_manifest_says_what_it_is(tmp_path):
    run(mixed(30), tmp_path / "e", shard=10)
    manifest = json.loads((tmp_path / "e" / "manifest.json").read_text())
    encoder = StubEncoder()
    for key, value in {
        "encoder": encoder.name,
        "note": encoder.note,
        "fingerprint": fingerprint_of(encoder),
        "space": "text",
        "similarity": "cosine",
        "dimensions": 24,
    }.items():
        assert manifest[key] == value
    assert manifest["count"] + manifest["failed"] == 30
    assert set(manifest["files"]) == {"vectors.npy", "ids.jsonl", "errors.jsonl", "shards.jsonl"}


def test_a_bad_source_of_one_image_is_a_data_error_not_the_end(tmp_path):
    def changed() -> bytes:
        raise DataError("the image changed", item="x.png", cure="restore it")

    made = run([Item("a", image=changed), Item("b", image=png(1))], tmp_path / "e", space="look")
    assert [item for item, _ in made.errors()] == ["a"]


@pytest.mark.heavy
def test_a_shard_is_held_once(tmp_path):
    encoder = StubEncoder(dims={"text": 512})
    run(texts(64), tmp_path / "warm", encoder)
    tracemalloc.start()
    run(texts(4096), tmp_path / "out", encoder, shard=2048)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2048 * 512 * 4  # its vectors, their ids, and a batch: 1.5; held twice, 2.5
