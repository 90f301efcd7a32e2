"""One rule for what gives a sample away, and images that are hashed once for it."""

import curation_world as world
import pytest

from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.corpora import near_duplicates
from demur.corpora.leaks import Leaks, without_leaks
from demur.corpora.near_duplicates import ImageHashes, image_hash
from demur.curation.build.recipe import SourceSpec
from demur.curation.build.sample_pool import sample_sources
from demur.pools.write import IMAGE_HASHES


@pytest.fixture
def hashed(monkeypatch):
    """Digests of the images that were looked at."""
    seen = []
    monkeypatch.setattr(
        near_duplicates, "image_hash", lambda data: seen.append(data) or image_hash(data)
    )
    return seen


def picture(root, i):
    (root / f"{i}.png").write_bytes(world.picture(i))
    return image_ref(world.picture(i), f"{i}.png")


def shown(id, image, **more):
    return Document(id=id, title=more.pop("title", "a view"), image=image, **more)


def test_of_a_picture_all_reasons_in_their_order(tmp_path):
    query, other = picture(tmp_path, 1), picture(tmp_path, 2)
    gold = (
        Evidence.of(shown("g", other), Role.GOLD),
        Evidence.of(
            Document(id="t", title="T", text="The mill was built by nobody known, long ago."),
            Role.GOLD,
        ),
    )
    leaky = [
        shown("q", query),
        shown("g2", other),
        Document(id="t2", title="U", text="The mill was built by nobody known - long ago!"),
        Document(id="t3", title="Quellin", text="Not much is said."),
        shown("p", picture(tmp_path, 3), title="Quellin himself"),
        Document(id="t4", title="V", text="Another mill.", image=query),
        shown("fine", picture(tmp_path, 4)),
    ]
    sample = Sample(
        id="s",
        source="x",
        question="Who?",
        images=(query,),
        answers=AnswerSpec(accepted=(("Quellin",),)),
        gold=gold,
        negatives=tuple(Evidence.of(d, Role.DISTRACTOR) for d in leaky),
    )
    left, drops = without_leaks(sample, Leaks(sample, ImageHashes(tmp_path)))
    assert [e.id for e in left.negatives] == ["fine"]
    assert [(d.evidence, d.reason, d.detail) for d in drops] == [
        ("q", "query image", ""),
        ("g2", "near-duplicate of gold", "g"),
        ("t2", "near-duplicate of gold", "t"),
        ("t3", "holds the answer", "Quellin"),
        ("p", "holds the answer", "Quellin"),
        ("t4", "query image", ""),
    ]


def test_each_image_is_hashed_once_and_by_none_who_reads_the_pool_again(tmp_path, hashed):
    towns = world.folder(tmp_path / "towns")
    gold = (towns / "questions.jsonl").read_text().replace('"gold": ["p', '"gold": ["i0", "p')
    (towns / "questions.jsonl").write_text(gold)
    spec = SourceSpec(name="generic", path=str(towns))
    first = sample_sources([spec], tmp_path / "pool", seed=0)
    images = {s.images[0].sha256 for s in first.samples if s.images} | {
        first.samples[0].gold[0].image.sha256
    }
    assert len(hashed) == len(set(hashed)) == len(images) == world.N // 2 + 1
    again = sample_sources([spec], tmp_path / "pool", seed=0)
    for sample in again.samples:
        for image in (*sample.images, *(e.image for e in sample.gold if e.image)):
            assert again.image_hashes(image) == image_hash(
                (towns / image.uri.rpartition("/")[2]).read_bytes()
            )
    assert len(hashed) == len(images)
    assert (again.root / IMAGE_HASHES).read_bytes() == again.image_hashes.lines()


def test_a_picture_that_cannot_be_read_looks_like_nothing(tmp_path):
    known = ImageHashes(tmp_path)
    gone, broken = picture(tmp_path, 1), picture(tmp_path, 2)
    (tmp_path / "1.png").unlink()
    (tmp_path / "2.png").write_bytes(b"GIF89a")
    assert (known(gone), known(broken), known.lines()) == (None, None, b"")
