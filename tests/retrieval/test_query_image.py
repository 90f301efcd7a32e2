"""The image that is asked about, found in the index: never a distractor, and no merit of a way of asking."""

import io
import json

import pytest
from mining_calls import mine_kind
from PIL import Image
from stub_encoder import StubEncoder

from demur.cli import main
from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, Hit, Role, Sample
from demur.core.store import write_records
from demur.corpora.near_duplicates import ImageHashes, image_matcher
from demur.curation.mining.modes import choose_modes
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import Mining
from demur.indexing.build import build_index
from demur.indexing.options import IndexOptions
from demur.retrieval.search import Searcher


class Colours(StubEncoder):
    """Looks as the mean colours of a grid, so that what looks alike lies near."""

    def images(self, images, space="joint"):
        grids = [image.resize((2, 2)).tobytes() for image in images]
        rows = self._vectors([b"" for _ in images], space) * 0.001
        rows[:, :8] += [[value + 1.0 for value in grid[:8]] for grid in grids]
        return rows / (rows**2).sum(axis=1, keepdims=True) ** 0.5


def drawn(seed):
    picture = Image.new("RGB", (96, 96), (20 * seed % 255, 90, 200 - 15 * seed % 200))
    for i in range(6):
        box = ((seed * 13 + i * 17) % 70, (seed * 29 + i * 11) % 70)
        picture.paste(
            ((seed * 40 + i * 50) % 255, (i * 70) % 255, (seed * 90) % 255),
            (*box, box[0] + 25, box[1] + 20),
        )
    return picture


def saved(root, name, picture, **options):
    out = io.BytesIO()
    picture.save(out, name.rpartition(".")[2].replace("jpg", "jpeg"), **options)
    (root / name).write_bytes(out.getvalue())
    return image_ref(out.getvalue(), name)


@pytest.fixture
def world(tmp_path):
    """Six pictures, each on a page of its own; three questions ask about one of them, in its bytes or in others."""
    images = [saved(tmp_path, f"{i}.png", drawn(i)) for i in range(6)]
    again = [
        images[0],
        saved(tmp_path, "q1.jpg", drawn(1), quality=80),
        saved(tmp_path, "q9.png", drawn(9)),
    ]
    documents = [
        Document(id=f"i{i}", title=f"look {i}", image=image, page=f"p{i}")
        for i, image in enumerate(images)
    ]
    documents += [
        Document(id=f"t{i}", title=f"T{i}", text=f"passage {i}", page=f"p{i}") for i in range(6)
    ]
    samples = [
        Sample(
            id=f"q{i}",
            source="x",
            question="What is it?",
            images=(image,),
            answers=AnswerSpec(accepted=(("nought",),)),
            gold=(Evidence.of(documents[6 + i], Role.GOLD),),
        )
        for i, image in enumerate(again)
    ]
    return tmp_path, documents, samples


def test_finding_the_query_image_itself_is_no_recall(world):
    root, documents, samples = world
    encoder = Colours()
    build_index(documents, encoder, root / "index", IndexOptions(image_root=root))
    searcher = Searcher(root / "index", encoder)
    plan = MiningOptions(text=2, visual=0, pages=1, modes=("image->image", "text->text"))
    (choice,) = choose_modes(samples, Mining(searcher, root, plan)).choices
    assert (choice.mode, choice.own_images_indexed) == (
        "image->image",
        2,
    )  # the same bytes, and a copy in other bytes
    first = next(m for m in choice.table[0][1] if m.name == "recall@1")
    assert (first.value, first.n) == (0.0, 3)


def test_a_passage_that_carries_the_query_image_is_no_distractor(world):
    root, documents, samples = world
    copy = saved(root, "small.jpg", drawn(0).resize((80, 80)), quality=85)
    both = {
        "same": Document(id="same", title="a", text="one passage", image=samples[0].images[0]),
        "near": Document(id="near", title="b", text="other words here", image=copy),
        "else": Document(id="else", title="c", text="yet something else", image=documents[3].image),
    }
    hits = [
        Hit(document=id, score=1.0, rank=n, index_id="i", mode="lexical")
        for n, id in enumerate(both, 1)
    ]
    mined = mine_kind("text", samples[0], hits, both, image_hashes=ImageHashes(root))
    assert [e.id for e in mined.negatives] == ["else"]
    assert {d.evidence: d.reason for d in mined.drops} == {
        "same": "query image",
        "near": "near-duplicate of query",
    }
    by_bytes = mine_kind("text", samples[0], hits, both)
    assert [e.id for e in by_bytes.negatives] == ["near", "else"]


def test_without_a_threshold_only_bytes_are_compared(world):
    root, _, samples = world
    known = ImageHashes(root)
    shown = image_matcher(samples[1].images, known, -1)
    assert [shown(s.images[0]) for s in samples[:2]] == ["", "same bytes"]
    near = image_ref((root / "1.png").read_bytes(), "1.png")
    assert (image_matcher(samples[1].images, known)(near), shown(near)) == ("same look", "")


def test_the_command_tells_how_many(world, capsys, monkeypatch):
    root, documents, samples = world
    monkeypatch.chdir(root)
    write_records(root / "documents.jsonl", documents)
    write_records(root / "samples.jsonl", samples)
    (root / "pool.json").write_text("{}")
    made = ["--encoder", "test_query_image:colours"]
    assert main(["index", "build", ".", "--out", "index", *made]) == 0
    words = [
        "mine",
        ".",
        "--index",
        "index",
        *made,
        "--out",
        "mined",
        "--visual",
        "3",
        "--text",
        "1",
    ]
    assert main(words) == 0
    assert "2 query images" in capsys.readouterr().out
    summary = json.loads((root / "mined/mining.json").read_text())
    assert [summary["left_out"].get(why) for why in ("query image", "near-duplicate of query")] == [
        1,
        1,
    ]
    assert [choice["own_image_in_index"] for choice in summary["recall"]] == [2]


def colours(argument="", *, allow_random=False):
    """What ``--encoder test_query_image:colours`` opens."""
    return Colours(name="test_query_image:colours")
