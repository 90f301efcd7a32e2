"""Images of an index are found from wherever it is used."""

from __future__ import annotations

import json

import pytest
from curation_world import folder as towns_folder
from small_pool import corpus, picture, pool_folder
from stub_encoder import StubEncoder

from demur.cli import main
from demur.core.docstore import Documents
from demur.core.store import write_records
from demur.core.uris import read_image
from demur.corpora import anchored
from demur.indexing.build import build_index
from demur.indexing.options import IndexOptions

ENCODER = ["--encoder", "stub_encoder:stub"]


def images(index):
    """Uris of the images of an index, all of which can be read."""
    found = [d.image for d in Documents(index / "documents").values() if d.image is not None]
    for image in found:
        read_image(image)
    return [image.uri for image in found]


def test_images_of_relative_corpora_are_mined_from_another_folder(tmp_path, monkeypatch, capsys):
    flags, pool = tmp_path / "flags", tmp_path / "pool"
    for place in (flags, pool):
        place.mkdir()
    pool_folder(pool)
    for number in range(20, 40):
        picture(number).save(flags / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    assert main(["index", "build", "images:flags", "--out", "index", *ENCODER]) == 0
    monkeypatch.chdir(flags)
    capsys.readouterr()
    command = [
        "mine",
        str(pool),
        "--index",
        str(tmp_path / "index"),
        *ENCODER,
        "--text",
        "0",
        "--visual",
        "3",
    ]
    assert main([*command, "--out", str(tmp_path / "mined"), "--json"]) == 0
    captured = capsys.readouterr().out
    assert json.loads(captured[captured.index("{") :])["distractors"] == {"image->image": 12}


def test_a_root_that_was_given_is_kept(tmp_path, monkeypatch):
    (tmp_path / "kb").mkdir()
    (tmp_path / "elsewhere").mkdir()
    write_records(tmp_path / "kb" / "documents.jsonl", corpus(tmp_path / "kb"))
    monkeypatch.chdir(tmp_path)
    assert (
        main(
            [
                "index",
                "build",
                "kb/documents.jsonl",
                "--image-root",
                "kb",
                "--out",
                "index",
                *ENCODER,
            ]
        )
        == 0
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert images(tmp_path / "index") == [f"{tmp_path}/kb/{number}.png" for number in range(10)]


def test_sources_in_several_folders_make_one_index(tmp_path, monkeypatch):
    pool = tmp_path / "pool"
    pool.mkdir()
    pool_folder(pool)
    source = towns_folder(tmp_path / "towns", n=3)
    monkeypatch.chdir(tmp_path)
    assert (
        main(
            [
                "index",
                "build",
                "pool",
                f"generic:{source}",
                "--out",
                "index",
                "--skip-bad",
                *ENCODER,
            ]
        )
        == 0
    )
    monkeypatch.chdir("/")
    parents = {
        uri.removeprefix(f"{tmp_path}/").partition("/")[0] for uri in images(tmp_path / "index")
    }
    assert parents >= {"pool"}
    assert parents <= {"pool", "towns"}


@pytest.mark.heavy
def test_an_index_is_the_same_wherever_its_images_lie_and_follows_them(tmp_path):
    encoder, made, calls = StubEncoder(), [], []
    for place in ("here", "there", "there"):
        (tmp_path / place).mkdir(exist_ok=True)
        documents = [anchored(document, tmp_path / place) for document in corpus(tmp_path / place)]
        made.append(build_index(documents, encoder, tmp_path / "index")["id"])
        calls.append(encoder.calls)
        assert images(tmp_path / "index") == [
            f"{tmp_path}/{place}/{number}.png" for number in range(10)
        ]
    assert len(set(made)) == len(set(calls)) == 1, "the same index, and no vector was made again"
    documents[-1] = documents[-1].model_copy(update={"title": "another"})
    assert (
        build_index(documents, encoder, tmp_path / "index", IndexOptions(fresh=True))["id"]
        not in made
    )


@pytest.mark.heavy
@pytest.mark.parametrize("text", ["a=b.jsonl", "a=b.jsonl?text=body", "jsonl:a=b.jsonl"])
def test_a_path_with_an_equals_sign_is_a_path(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.jsonl").write_text('{"id": "1", "body": "One."}\n')
    assert main(["index", "build", text, "--out", "index", *ENCODER]) == 0
