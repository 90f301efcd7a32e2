"""Gold evidence that was cut into passages: found by any of them, and no distractor in any."""

import io

import numpy as np
import pytest
from mining_calls import mine_kind
from stub_encoder import StubEncoder

from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, Hit, Role, Sample
from demur.corpora.lineage import Gold, document_of
from demur.curation.mining.mine import mine_samples
from demur.curation.mining.modes import choose_modes
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import Mining
from demur.indexing.build import build_index
from demur.indexing.chunk import Chunker
from demur.indexing.options import IndexOptions
from demur.retrieval.search import Searcher

N = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Articles with a picture each, more pictures on their pages, questions about them; indexes of them whole and cut."""
    from PIL import Image

    root = tmp_path_factory.mktemp("world")

    def drawn(name):
        noise = np.random.default_rng(list(name.encode())).integers(
            0, 255, (24, 24, 3), dtype=np.uint8
        )
        out = io.BytesIO()
        Image.fromarray(noise).resize((96, 96)).save(out, "PNG")
        (root / name).write_bytes(out.getvalue())
        return image_ref(out.getvalue(), name)

    articles = [
        Document(
            id=f"a{i}",
            title=f"Town {i}",
            text=" ".join(
                f"The {word}{i} of town{i} stands in street {n}."
                for n, word in enumerate(("hall", "mill", "well"))
            ),
            image=drawn(f"a{i}.png"),
            attributes={"summary": f"A town, number {i}."},
        )
        for i in range(N)
    ]
    pictures = [
        Document(id=f"pic{i}", title=f"A view, {i}", image=drawn(f"p{i}.png"), page=f"a{i}")
        for i in range(N)
    ]
    samples = [
        Sample(
            id=f"q{i}",
            source="x",
            question=f"Where does well{i} of town{i} stand?",
            answers=AnswerSpec(accepted=(("nowhere",),)),
            images=(drawn(f"q{i}.png"),) if i % 2 else (),
            gold=(Evidence.of(articles[i], Role.GOLD),),
        )
        for i in range(N)
    ]
    samples[0] = samples[0].model_copy(update={"gold": (Evidence.of(pictures[0], Role.GOLD),)})
    encoder, searchers = StubEncoder(), {}
    for name, documents in (("whole", articles), ("cut", Chunker(9, 2).documents(articles))):
        build_index([*documents, *pictures], encoder, root / name, IndexOptions(image_root=root))
        searchers[name] = Searcher(root / name, encoder)
    return root, samples, searchers


@pytest.mark.heavy
def test_gold_is_found_by_any_of_its_passages(world):
    root, samples, searchers = world
    cut = searchers["cut"]
    assert Gold(samples[1].gold).parts_in(cut) == ["a1#0", "a1#1", "a1#2", "a1#image"]
    assert Gold(samples[0].gold).parts_in(cut) == ["pic0"]
    assert Gold([samples[1].gold[0].model_copy(update={"id": "a99"})]).parts_in(cut) == []
    plan = MiningOptions()
    whole, cut = (
        choose_modes(samples, Mining(searchers[name], root, plan)) for name in ("whole", "cut")
    )
    for one, other in zip(whole.choices, cut.choices, strict=True):
        asked = [{m.n for _, row in choice.table for m in row} for choice in (one, other)]
        assert (
            asked == [{N // 2}, {N // 2}] if "pages" in one.source else [{N // 2 - 1}, {N // 2 - 1}]
        )
    recall = {mode: {m.name: m.value for m in row} for mode, row in cut.passages["x"].table}
    assert (
        recall["lexical"]["recall@1"] == 1
    )  # of five questions; the gold of the sixth is a picture, which is no passage
    assert cut.passages["x"].lacking == 1
    pages = {mode: {m.name: m.value for m in row} for mode, row in cut.pages["x"].table}
    assert pages == {mode: {m.name: m.value for m in row} for mode, row in whole.pages["x"].table}


@pytest.mark.heavy
@pytest.mark.parametrize("margin", [None, 0.05])
def test_nothing_cut_from_gold_is_a_distractor(world, margin):
    root, samples, searchers = world
    searcher = searchers["cut"]
    plan = MiningOptions(text=30, lexical=5, visual=30, pages=N, relative_margin=margin)
    chosen = choose_modes(samples, Mining(searcher, root, plan))
    reasons = set()
    for sample, mined in mine_samples(samples, Mining(searcher, root, plan), chosen):
        gold = {e.id for e in sample.gold}
        documents = [searcher.documents[e.id] for e in sample.negatives]
        assert documents
        assert not gold & {document_of(d) for d in documents}
        assert not {d.page for d in documents if d.image is not None} & {f"a{sample.id[1:]}"}
        reasons |= {(d.reason, d.evidence.partition("#")[0] in gold) for d in mined.drops}
        unknown = [
            d for d in mined.drops if d.reason.startswith(("near-duplicate of gold", "no margin"))
        ]
        assert not unknown or (
            margin and sample.id == "q0"
        )  # its gold is a picture, which no text search scores
    assert {("gold", True), ("gold page", False)} <= reasons


def test_an_article_scores_as_its_best_passage(world):
    _, samples, searchers = world
    ids = ["a1#2", "a2#0", "a3#0", "a1#1"]
    hits = [
        Hit(document=id, score=1 - n / 10, rank=n + 1, index_id="i", mode="text->text")
        for n, id in enumerate(ids)
    ]
    mined = mine_kind(
        "text",
        samples[1],
        hits,
        searchers["cut"].documents,
        MiningOptions(absolute_margin=0.15),
        limit=3,
    )
    assert [e.id for e in mined.negatives] == ["a3#0"]
    assert [(d.evidence, d.reason) for d in mined.drops] == [
        ("a1#2", "gold"),
        ("a2#0", "within the margin of gold"),
        ("a1#1", "gold"),
    ]


def test_a_passage_of_a_native_negative_is_native(world):
    _, samples, searchers = world
    whole = searchers["whole"].documents["a2"]
    sample = samples[1].model_copy(update={"negatives": (Evidence.of(whole, Role.DISTRACTOR),)})
    hits = [
        Hit(document=f"a{n}#1", score=0.5, rank=n, index_id="i", mode="lexical") for n in (2, 3)
    ]
    mined = mine_kind("text", sample, hits, searchers["cut"].documents)
    assert [e.id for e in mined.negatives] == ["a3#1"]
    assert [d.reason for d in mined.drops] == ["native"]
