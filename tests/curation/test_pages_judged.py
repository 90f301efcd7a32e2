"""What a page holds counts for what is cut from it and what it shows; releases are held to it too."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest
from mining_calls import mine_kind
from PIL import Image

from demur.core.errors import ReleaseError
from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, Hit, Role, Sample
from demur.corpora.leaks import Leaks
from demur.corpora.lineage import page_of
from demur.corpora.near_duplicates import ImageHashes
from demur.curation.mining.options import MiningOptions
from demur.release import Draft, Release, freeze, verify


class IndexedDocuments:
    def __init__(self, documents):
        self.documents = {d.id: d for d in documents}

    def on_page(self, page):
        return [id for id, d in self.documents.items() if page_of(d) == page]


@pytest.fixture
def compounds(tmp_path):
    """Benzene, an isomer of it (prismane) and another compound: each a page with a text, its formula and a drawing."""

    def drawn(name, seed):
        noise = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        out = io.BytesIO()
        Image.fromarray(noise).resize((64, 64)).save(out, "PNG")
        (tmp_path / name).write_bytes(out.getvalue())
        return image_ref(out.getvalue(), name)

    documents = []
    for seed, (name, formula) in enumerate(
        {"benzene": "C6H6", "prismane": "C6H6", "aniline": "C6H7N"}.items()
    ):
        documents += [
            Document(
                id=f"{name}/text", title=name, text=f"{name} is a compound with a ring.", page=name
            ),
            Document(
                id=f"{name}/formula",
                title=name,
                text=f"The formula of {name} is {formula}.",
                page=name,
            ),
            Document(id=f"{name}/drawing", title="", image=drawn(f"{name}.png", seed), page=name),
        ]
    query = drawn("query.png", 99)
    gold = Evidence.of(documents[1], Role.GOLD)
    sample = Sample(
        id="q",
        source="x",
        question="Which formula has it?",
        answers=AnswerSpec(accepted=(("C6H6",),)),
        images=(query,),
        gold=(gold,),
    )
    return sample, IndexedDocuments(documents), ImageHashes(tmp_path)


def hits(shelf, ending):
    found = [id for id in shelf.documents if id.endswith(ending)]
    return [
        Hit(document=id, score=1 - n / 10, rank=n, index_id="i", mode="m")
        for n, id in enumerate(found, 1)
    ]


def test_a_picture_of_a_page_that_holds_the_answer_is_no_distractor(compounds):
    sample, shelf, image_hashes = compounds
    mined = mine_kind(
        "visual",
        sample,
        hits(shelf, "/drawing"),
        shelf.documents,
        image_hashes=image_hashes,
        shelf=shelf,
    )
    assert [e.id for e in mined.negatives] == ["aniline/drawing"]
    assert {(d.evidence, d.reason, d.detail) for d in mined.drops} == {
        ("benzene/drawing", "gold page", "benzene"),
        ("prismane/drawing", "page holds the answer", "prismane/formula"),
    }
    kept = mine_kind(
        "visual",
        sample,
        hits(shelf, "/drawing"),
        shelf.documents,
        MiningOptions(answer_pages="keep"),
        image_hashes=image_hashes,
        shelf=shelf,
    )
    assert [e.id for e in kept.negatives] == ["prismane/drawing", "aniline/drawing"]


def test_other_passages_of_golds_page_have_a_rule_of_their_own(compounds):
    sample, shelf, _ = compounds
    texts = hits(shelf, "/text")
    kept = mine_kind("text", sample, texts, shelf.documents, shelf=shelf)
    assert [e.id for e in kept.negatives] == ["benzene/text", "prismane/text", "aniline/text"]
    dropped = mine_kind(
        "text", sample, texts, shelf.documents, MiningOptions(own_page="drop"), shelf=shelf
    )
    assert [e.id for e in dropped.negatives] == ["prismane/text", "aniline/text"]
    assert [(d.evidence, d.reason) for d in dropped.drops] == [("benzene/text", "gold page")]


def test_a_passage_with_a_picture_is_judged_by_its_page_too(compounds):
    sample, shelf, _ = compounds
    picture = shelf.documents["prismane/drawing"].image
    shelf.documents["prismane/text"] = shelf.documents["prismane/text"].model_copy(
        update={"image": picture}
    )
    mined = mine_kind("text", sample, hits(shelf, "/text"), shelf.documents, shelf=shelf)
    assert [e.id for e in mined.negatives] == ["benzene/text", "aniline/text"]


def test_a_source_cannot_ship_a_part_of_gold_as_a_negative(compounds):
    sample, _, _ = compounds
    whole = Document(id="a", title="", text="one two three four five six seven eight nine")
    cut = Evidence.of(
        Document(
            id="a#0", title="", text="two three four five six seven eight nine ten", document="a"
        ),
        Role.DISTRACTOR,
    )
    gold = Evidence.of(whole.model_copy(update={"id": "a#p1", "document": "a"}), Role.GOLD)
    assert Leaks(sample.model_copy(update={"gold": (gold,)})).of(cut) == ("gold", "a#p1")
    assert (
        Leaks(
            sample.model_copy(update={"gold": (gold.model_copy(update={"document": "b"}),)})
        ).part(cut)
        == ""
    )


def released(folder, sample, shelf, version="1.0.0"):
    freeze(
        folder,
        Draft(
            name="r",
            version=version,
            samples=[sample],
            read_image=lambda ref: (folder.parent / ref.uri).read_bytes(),
        ),
    )
    return Release.open(folder)


def test_a_release_with_a_picture_of_golds_page_or_a_part_of_gold_does_not_verify(
    compounds, tmp_path
):
    sample, shelf, _ = compounds
    drawing = Evidence.of(shelf.documents["benzene/drawing"], Role.DISTRACTOR, origin="mined")
    part = Evidence.of(
        Document(id="benzene/formula#0", title="", text="The formula.", document="benzene/formula"),
        Role.DISTRACTOR,
    )
    wrong = released(
        tmp_path / "a", sample.model_copy(update={"negatives": (drawing, part)}), shelf
    )
    found = [line for line in verify(wrong) if line.startswith("q: distractor")]
    assert found == [
        "q: distractor benzene/drawing is a picture of the page of gold evidence, benzene",
        "q: distractor benzene/formula#0 is gold benzene/formula, a part of it, or holds it",
    ]
    other = Evidence.of(shelf.documents["aniline/drawing"], Role.DISTRACTOR, origin="mined")
    fine = released(tmp_path / "b", sample.model_copy(update={"negatives": (other,)}), shelf)
    assert not [line for line in verify(fine) if line.startswith("q: distractor")]


def test_releases_of_before_are_refused_by_their_columns(compounds, tmp_path):
    sample, shelf, _ = compounds
    other = Evidence.of(shelf.documents["aniline/drawing"], Role.DISTRACTOR, origin="mined")
    released(tmp_path / "old", sample.model_copy(update={"negatives": (other,)}), shelf)
    path = tmp_path / "old/data/evidence.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["document", "page", "licence"]), path)
    with pytest.raises(ReleaseError) as caught:
        list(Release.open(tmp_path / "old").samples())
    assert caught.value.item == str(path)
