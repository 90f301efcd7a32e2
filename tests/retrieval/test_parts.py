"""What is the same is made once, and what nobody asks for is not made."""

import json

import numpy as np
import pytest
from errors import raises
from small_pool import corpus, picture
from stub_encoder import StubEncoder

from demur.core.errors import IndexFileError, UnknownPart, UsageError
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import parts_needed
from demur.indexing.build import build_index
from demur.indexing.folder import read_manifest
from demur.indexing.options import PARTS, IndexOptions
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher
from demur.testing import check_encoder


class OneSpace(StubEncoder):
    """As CLIP: one space by three names. It counts what it embeds."""

    same_spaces = ("joint", "look", "text")

    def __init__(self):
        super().__init__(dims=dict.fromkeys(self.same_spaces, 16))
        self.items = {"texts": 0, "images": 0}

    def texts(self, texts, space="joint", *, role="passage"):
        self.items["texts"] += len(texts)
        return super().texts(texts, "joint")

    def images(self, images, space="joint"):
        self.items["images"] += len(images)
        return super().images(images, "joint")


def test_an_image_is_embedded_and_stored_once_whatever_the_names_of_its_space(tmp_path):
    encoder = OneSpace()
    build_index(corpus(tmp_path), encoder, tmp_path / "index", IndexOptions(image_root=tmp_path))
    assert encoder.items == {"texts": 30 + 10 + 10, "images": 10}
    parts = read_manifest(tmp_path / "index")["parts"]
    assert {n: p.get("vectors_of") for n, p in parts.items() if "vectors_of" in p} == {
        "images": "looks"
    }
    assert not (tmp_path / "index/parts/images").exists()
    assert {p["space"] for n, p in parts.items() if n != "lexical"} == {"joint"}

    searcher = Searcher(tmp_path / "index", encoder)
    modes = ["image->image", "text->image", "image->title", "text->text"]
    (query,) = searcher.embedded([Query("caption 3", picture(3))], modes)
    assert encoder.items == {"texts": 51, "images": 11}
    assert [hit.document for hit in searcher.search([query], "image->image", 1)[0]] == ["i3"]
    by_text = searcher.search([query], "text->image", 10)[0]
    scores = searcher.vectors("looks") @ query.vectors["text", "joint"]
    assert [h.document for h in by_text] == [f"i{n}" for n in np.argsort(-scores, kind="stable")]


def test_another_text_encoder_shares_no_space_with_the_first(tmp_path):
    first, second = OneSpace(), OneSpace()
    second.name = "second"
    options = IndexOptions(image_root=tmp_path, text_encoder=second)
    build_index(corpus(tmp_path), first, tmp_path / "index", options)
    assert (first.items["texts"], second.items["texts"]) == (20, 30)
    assert read_manifest(tmp_path / "index")["parts"]["passages"]["space"] == "text"


def test_an_encoder_that_calls_different_spaces_the_same_breaks_its_contract():
    check_encoder(OneSpace())
    liar = StubEncoder(dims=dict.fromkeys(OneSpace.same_spaces, 16))
    liar.same_spaces = OneSpace.same_spaces
    with pytest.raises(AssertionError, match="same"):
        check_encoder(liar)


def test_only_the_parts_that_are_asked_for_are_made(tmp_path):
    encoder = StubEncoder()
    options = IndexOptions(image_root=tmp_path, parts=("titles", "images"))
    build_index(corpus(tmp_path), encoder, tmp_path / "index", options)
    assert {p.name for p in (tmp_path / "index/parts").iterdir()} == {"titles", "images"}
    first = read_manifest(tmp_path / "index")
    made = encoder.calls
    for parts in (("images", "titles"), PARTS):
        options = IndexOptions(image_root=tmp_path, parts=parts)
        build_index(corpus(tmp_path), encoder, tmp_path / "index", options)
        same = parts != PARTS
        assert (read_manifest(tmp_path / "index")["id"] == first["id"]) == same
    assert set(read_manifest(tmp_path / "index")["parts"]) == set(PARTS)
    assert encoder.calls - made == 3  # of passages, summaries and looks: what was there is kept
    with raises(UnknownPart, "title", cure="titles"):
        build_index(corpus(tmp_path), encoder, tmp_path / "x", IndexOptions(parts=("title",)))


def test_an_owner_does_not_take_a_users_index_that_lacks_a_part(tmp_path):
    def built(**options):
        options = IndexOptions(image_root=tmp_path, **options)
        return build_index(corpus(tmp_path), StubEncoder(), tmp_path / "index", options)

    built(parts=("titles", "looks"))
    assert built(owner="demur build", parts=("titles",))["parts"].keys() == {"titles", "looks"}
    with raises(UsageError, "summaries", item="index", cure="retrieval.index"):
        built(owner="demur build", parts=("titles", "summaries"))


@pytest.mark.parametrize("elsewhere", ["../../secret", "pictures"])
def test_a_part_has_the_vectors_of_no_other_folder(tmp_path, elsewhere):
    build_index(corpus(tmp_path), OneSpace(), tmp_path / "index", IndexOptions(image_root=tmp_path))
    path = tmp_path / "index/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["parts"]["images"]["vectors_of"] = elsewhere
    path.write_text(json.dumps(manifest))
    with raises(IndexFileError, elsewhere, item="manifest.json"):
        read_manifest(tmp_path / "index")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, {"passages", "titles", "summaries", "looks", "lexical"}),
        ({"modes": ["image->title", "text->text"], "visual": 0}, {"passages", "titles"}),
        ({"modes": ["image->image"], "text": 0}, {"looks"}),
        ({"modes": ["lexical"], "text": 0, "lexical": 3, "visual": 0}, {"lexical"}),
        ({"modes": ["fused"], "visual": 0}, {"passages", "lexical"}),
        (
            {"modes": ["lexical"], "text": 0, "lexical": 3, "visual": 0, "diversity": 0.5},
            {"lexical", "passages"},
        ),
    ],
)
def test_mining_asks_for_the_parts_that_it_searches(options, parts):
    assert parts_needed(MiningOptions.model_validate(options)) == parts
