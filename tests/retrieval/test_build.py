"""A build that was killed, and an index that was damaged: what comes out has the bytes of a build that was neither."""

import shutil
from pathlib import Path

import pytest
from errors import raises
from small_pool import corpus
from stub_encoder import StubEncoder

from demur.core.errors import IndexFileError, UsageError
from demur.core.records import Document
from demur.indexing import build
from demur.indexing.build import build_index
from demur.indexing.options import IndexOptions
from demur.retrieval.search import Searcher


class KilledError(BaseException):
    """Nothing is cleaned up behind it but what the operating system cleans up."""


def files(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def whole(root, documents, **options):
    """The files of a build that nothing happened to."""
    build_index(documents, StubEncoder(), root / "whole", IndexOptions(image_root=root, **options))
    return files(root / "whole")


def alone(root, *others):
    """Whether nothing was left beside the index."""
    return {p.name for p in root.iterdir() if "index" in p.name} == {"index", *others}


def texts(count):
    return [Document(id=f"d{i}", title=f"T{i}", text=f"passage {i}") for i in range(count)]


DAMAGED = [
    "page_of.npy",
    "documents/documents.jsonl",
    "parts/lexical/rows.npy",
    "parts/passages/vectors.npy",
    "parts/passages/ids.jsonl",
    "parts/passages/shards.jsonl",
    "parts/passages/manifest.json",
    "manifest.json",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, "a byte") for name in DAMAGED),
        ("parts/titles/vectors.npy", "the end"),
        ("page_ends.npy", "all"),
    ],
)
def test_a_damaged_index_is_cured_by_building_it_again(tmp_path, name, damage, capsys):
    documents = texts(6)
    build_index(documents, StubEncoder(), tmp_path / "index")
    right = files(tmp_path / "index")
    path = tmp_path / "index" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    {
        "a byte": lambda: path.write_bytes(data),
        "the end": lambda: path.write_bytes(data[:-3]),
        "all": path.unlink,
    }[damage]()
    with pytest.raises(IndexFileError):
        Searcher(tmp_path / "index", StubEncoder())
    encoder = StubEncoder()
    build_index(documents, encoder, tmp_path / "index")
    assert files(tmp_path / "index") == right
    assert alone(tmp_path)
    if name != "manifest.json":
        assert f"{path}: " in capsys.readouterr().err
        assert encoder.calls == (Path(name).name in ("vectors.npy", "ids.jsonl", "shards.jsonl"))


@pytest.mark.heavy
def test_of_a_build_killed_before_its_end_no_vector_is_made_again(tmp_path, monkeypatch):
    documents = corpus(tmp_path)
    right = whole(tmp_path, documents)

    def killed(*_):
        raise KilledError

    with monkeypatch.context() as now:
        now.setattr(build, "write_json", killed)
        with pytest.raises(KilledError):
            build_index(
                documents, StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path)
            )
    encoder = StubEncoder()
    build_index(documents, encoder, tmp_path / "index", IndexOptions(image_root=tmp_path))
    assert encoder.calls == 0
    assert files(tmp_path / "index") == right
    assert alone(tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("later", [False, True], ids=["before the step", "in the middle of it"])
@pytest.mark.parametrize("step", range(3))
def test_each_step_of_replacing_an_index_is_finished_by_the_next_run(
    tmp_path, monkeypatch, step, later
):
    documents, steps = texts(6), iter(range(9))
    right = whole(tmp_path, documents)
    build_index(documents[:5], StubEncoder(), tmp_path / "index")
    rename, rmtree = Path.rename, shutil.rmtree

    def renamed(path, target):
        dies = next(steps) == step
        if not dies or later:
            rename(path, target)
        if dies:
            raise KilledError

    def removed(path, ignore_errors=False):
        if Path(path).name != ".index.building.before":
            return rmtree(path, ignore_errors=ignore_errors)
        if not Path(path).exists():
            return None
        if next(steps) == step:
            if later:
                (Path(path) / "manifest.json").unlink()
            raise KilledError
        return rmtree(path)

    with monkeypatch.context() as now:
        now.setattr(Path, "rename", renamed)
        now.setattr(shutil, "rmtree", removed)
        with pytest.raises(KilledError):
            build_index(documents, StubEncoder(), tmp_path / "index", IndexOptions(fresh=True))
    encoder = StubEncoder()
    build_index(documents, encoder, tmp_path / "index", IndexOptions(fresh=True))
    assert encoder.calls == 0
    assert files(tmp_path / "index") == right
    assert alone(tmp_path)


@pytest.mark.heavy
def test_an_index_behind_a_link_is_replaced_where_it_is(tmp_path):
    (tmp_path / "disk").mkdir()
    build_index(texts(2), StubEncoder(), tmp_path / "disk" / "index")
    (tmp_path / "index").symlink_to(tmp_path / "disk" / "index")
    for documents in (texts(3), texts(4)):
        build_index(documents, StubEncoder(), tmp_path / "index", IndexOptions(fresh=True))
    assert (tmp_path / "index").is_symlink()
    assert files(tmp_path / "disk" / "index") == whole(tmp_path, texts(4))
    assert alone(tmp_path)
    assert alone(tmp_path / "disk")


class Dying(StubEncoder):
    """Killed at its first image of text to image, after all other parts."""

    def images(self, images, space="joint"):
        if space == "joint":
            raise KilledError
        return super().images(images, space)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["flat", "ivf-sq8"])
def test_what_a_killed_build_left_goes_into_no_other_index(tmp_path, kind):
    with pytest.raises(KilledError):
        build_index(
            corpus(tmp_path),
            Dying(),
            tmp_path / "index",
            IndexOptions(image_root=tmp_path, kind="ivf-flat"),
        )
    parts = tmp_path / ".index.building" / "parts"
    assert (parts / "passages" / "index.faiss").exists()
    assert (parts / "looks" / "vectors.npy").exists()
    (parts / "passages" / "tmp123").mkdir()
    (parts / "passages" / "tmp123" / "0.faiss").write_bytes(b"of a cluster")
    (parts / "passages" / ".rows.npy.1.tmp").write_bytes(b"half")
    (parts.parent / "elsewhere").symlink_to(tmp_path)
    right = whole(tmp_path, texts(20), kind=kind)
    build_index(texts(20), StubEncoder(), tmp_path / "index", IndexOptions(kind=kind))
    assert files(tmp_path / "index") == right
    assert alone(tmp_path)


def test_vectors_of_another_encoder_are_not_gone_on_with(tmp_path):
    class Other(StubEncoder):
        note = "run otherwise"

    with pytest.raises(KilledError):
        build_index(
            corpus(tmp_path), Dying(), tmp_path / "index", IndexOptions(image_root=tmp_path)
        )
    build_index(texts(20), Other(), tmp_path / "index")
    assert (
        Searcher(tmp_path / "index", Other()).manifest["encoders"]["text"]["note"]
        == "run otherwise"
    )


def test_a_folder_without_manifest_is_an_index_by_its_other_files_alone(tmp_path):
    (tmp_path / "index" / "documents").mkdir(parents=True)
    (tmp_path / "index" / "manifest.json").write_text("{of something else")
    with raises(UsageError, item=tmp_path / "index", cure="--out"):
        build_index(texts(2), StubEncoder(), tmp_path / "index")
    assert (tmp_path / "index" / "documents").exists()


@pytest.mark.parametrize(
    ("seed", "count", "said"),
    [
        (0, 7, "6; .* 7"),
        (1, 6, "stub"),
    ],
)
def test_an_index_of_other_documents_or_encoders_is_replaced_only_when_asked(
    tmp_path, seed, count, said
):
    build_index(texts(6), StubEncoder(), tmp_path / "index")
    before = files(tmp_path / "index")
    with pytest.raises(UsageError, match=f"{said}.*--fresh"):
        build_index(texts(count), StubEncoder(seed=seed), tmp_path / "index")
    assert files(tmp_path / "index") == before
    assert alone(tmp_path)
    build_index(texts(count), StubEncoder(seed=seed), tmp_path / "index", IndexOptions(fresh=True))
    build_index(texts(count), StubEncoder(seed=seed), tmp_path / "other")
    assert files(tmp_path / "index") == files(tmp_path / "other")


def test_a_killed_build_is_continued_though_its_command_was_given_without_fresh_in_between(
    tmp_path,
):
    documents = corpus(tmp_path)
    build_index(texts(6), StubEncoder(), tmp_path / "index")
    with pytest.raises(KilledError):
        build_index(
            documents, Dying(), tmp_path / "index", IndexOptions(image_root=tmp_path, fresh=True)
        )
    with pytest.raises(UsageError, match="--fresh"):
        build_index(documents, StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path))
    encoder = StubEncoder()
    build_index(
        documents, encoder, tmp_path / "index", IndexOptions(image_root=tmp_path, fresh=True)
    )
    assert encoder.calls == 1, "the part at which it was killed"
    assert files(tmp_path / "index") == whole(tmp_path, documents)


def test_another_kind_of_the_same_index_makes_no_vector_again(tmp_path):
    documents = texts(20)
    build_index(documents, StubEncoder(), tmp_path / "index")
    encoder = StubEncoder()
    build_index(documents, encoder, tmp_path / "index", IndexOptions(kind="ivf-flat"))
    assert encoder.calls == 0
    assert files(tmp_path / "index") == whole(tmp_path, documents, kind="ivf-flat")


@pytest.mark.parametrize("out", [".", "./", "absolute"])
def test_the_current_folder_is_refused_before_anything_is_read(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    with raises(UsageError, cure="--out"):
        build_index(iter(int, 1), StubEncoder(), tmp_path if out == "absolute" else Path(out))
    assert list(tmp_path.iterdir()) == []
