"""Passage, document and page: how anything stands to gold, whoever cut it."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.records import Document, Evidence, ImageRef, Role
from demur.corpora.lineage import Gold, chunk_id, document_of, page_of, passage_id, prefixed
from demur.indexing.chunk import Chunker

PICTURE = ImageRef(sha256="0" * 64, uri="p.png", width=4, height=4)


class IndexedDocuments:
    """What `Searcher` knows of documents, in memory."""

    def __init__(self, documents):
        self.documents = {d.id: d for d in documents}
        self._pages = defaultdict(list)
        for d in documents:
            self._pages[page_of(d)].append(d.id)

    def on_page(self, page):
        return self._pages.get(page, [])


def prose(name, sentences=12):
    return [
        f"In {name} the {n}th house has {n + 20} windows and a door of colour {name}{n}."
        for n in range(sentences)
    ]


ARTICLE = Document(
    id="Q1", title="One", text="\n".join(prose("one")), image=PICTURE, page="Q1", licence="CC0"
)
OTHER = Document(id="Q2", title="Two", text="\n".join(prose("two")), page="Q2")
VIEW = Document(id="view", title="A view", image=PICTURE, page="Q1")
PARAGRAPH = Evidence(
    id=passage_id("Q1", 3),
    document="Q1",
    page="Q1",
    modality="text",
    title="One",
    text=prose("one")[3],
    role=Role.GOLD,
)
WHOLE = Evidence.of(ARTICLE, Role.GOLD)


def cut(size, overlap, *documents):
    return list(Chunker(size, overlap).documents(documents))


def test_a_paragraph_that_a_source_cut_is_found_in_an_index_that_cut_nothing():
    shelf = IndexedDocuments([ARTICLE, OTHER, VIEW])
    gold = Gold([PARAGRAPH], shelf.documents)
    assert gold.parts_in(shelf) == ["Q1"]
    assert gold.pages_in(shelf) == ["Q1"]
    assert [gold.relation(d) for d in (ARTICLE, OTHER, VIEW)] == ["gold", "", "gold page"]


def test_and_in_one_that_cut_elsewhere():
    passages = cut(40, 8, ARTICLE, OTHER)
    shelf = IndexedDocuments([*passages, VIEW])
    gold = Gold([PARAGRAPH], shelf.documents)
    holding = [d.id for d in passages if d.text and PARAGRAPH.text[:20] in d.text]
    assert holding
    assert (
        set(holding)
        <= set(gold.parts_in(shelf))
        < {d.id for d in passages if document_of(d) == "Q1"}
    )
    relations = {d.id: gold.relation(d) for d in shelf.documents.values()}
    assert {relations[id] for id in holding} == {"gold"}
    assert (
        relations[chunk_id("Q1", 0)]
        == relations[chunk_id("Q1", "image")]
        == relations["view"]
        == "gold page"
    )
    assert relations[chunk_id("Q2", 0)] == ""


def test_of_a_whole_article_every_part_is_gold():
    passages = cut(40, 8, ARTICLE, OTHER)
    gold = Gold([WHOLE], IndexedDocuments(passages).documents)
    assert gold.parts_in(IndexedDocuments(passages)) == [
        d.id for d in passages if document_of(d) == "Q1"
    ]
    assert gold.relation(VIEW) == "gold page"


def test_a_page_of_sections_named_as_a_whole():
    url = "https://w/One"
    sections = [
        Document(id=f"{url}#{n}", title="One", text=text, page=url)
        for n, text in enumerate(prose("one", 3))
    ]
    picture = Document(id=f"{url}#image0", title="One", image=PICTURE, page=url)
    whole = Evidence(
        id=url, page=url, modality="text", title="One", text="all", role=Role.GOLD, level="article"
    )
    shelf = IndexedDocuments([*sections, picture, OTHER])
    gold = Gold([whole], shelf.documents)
    assert gold.parts_in(shelf) == [d.id for d in sections]
    assert [gold.relation(d) for d in (sections[2], picture, OTHER)] == ["gold", "gold page", ""]
    one = Gold([Evidence.of(sections[1], Role.GOLD, level="section")], shelf.documents)
    assert [one.relation(d) for d in (*sections, picture)] == [
        "gold page",
        "gold",
        "gold page",
        "gold page",
    ]
    small = cut(12, 2, *sections)
    quoted = Evidence(
        id=f"{url}#1#q0123abcd",
        document=f"{url}#1",
        page=url,
        modality="text",
        title="One",
        text="has 21 windows and a door of colour one1",
        role=Role.GOLD,
    )
    found = Gold([quoted]).parts_in(IndexedDocuments(small))
    assert found
    assert {document_of(d) for d in small if d.id in found} == {f"{url}#1"}


def test_ids_that_only_look_like_passages_are_none():
    own = Document(id="x#0", title="", text="of its own")
    gold = Gold(
        [Evidence(id="x", modality="text", title="", text="x", role=Role.GOLD)], {"x#0": own}
    )
    assert gold.parts_in(IndexedDocuments([own])) == []
    assert gold.relation(own) == ""
    assert Gold([Evidence.of(own, Role.GOLD)]).parts_in(IndexedDocuments([own])) == ["x#0"]


def test_what_gold_scores_by_among_images_is_its_own_picture_or_its_pages():
    shelf = IndexedDocuments([*cut(40, 8, ARTICLE), VIEW])
    assert Gold([PARAGRAPH], shelf.documents).scored_in(shelf, by_image=True) == [
        ["Q1#image", "view"]
    ]
    assert Gold([WHOLE], shelf.documents).scored_in(shelf, by_image=True) == [["Q1#image"]]
    assert Gold([Evidence.of(VIEW, Role.GOLD)]).scored_in(shelf, by_image=True) == [["view"]]


def test_a_prefix_comes_before_all_three():
    item = prefixed(PARAGRAPH, "infoseek:")
    assert (item.id, item.document, item.page) == ("infoseek:Q1#p3", "infoseek:Q1", "infoseek:Q1")
    alone = prefixed(Document(id="a", title="", text="t"), "x:")
    assert (alone.id, alone.document, alone.page, page_of(alone)) == ("x:a", "", "", "x:a")


@given(
    paragraph=st.integers(0, 11),
    size=st.integers(20, 120),
    overlap=st.integers(0, 10),
    cut_too=st.booleans(),
)
def test_some_part_of_an_index_is_gold_however_it_was_cut(paragraph, size, overlap, cut_too):
    """By independent lines: what holds a whole sentence of gold is gold, what shares no word run with it is not."""
    gold = PARAGRAPH.model_copy(
        update={"id": passage_id("Q1", paragraph), "text": prose("one")[paragraph]}
    )
    passages = (
        cut(size, min(overlap, size // 2 - 1), ARTICLE, OTHER) if cut_too else [ARTICLE, OTHER]
    )
    found = set(Gold([gold]).parts_in(IndexedDocuments(passages)))
    assert found
    for d in passages:
        if d.text is not None:
            if document_of(d) == "Q1" and gold.text in d.text:
                assert d.id in found
            if document_of(d) == "Q2":
                assert d.id not in found
        assert (d.id in found) == bool(Gold([gold]).parts(d))


@pytest.mark.parametrize("text", ["", None, "one two"])
def test_short_texts_overlap_only_where_one_lies_in_the_other(text):
    a = Evidence(
        id="d#p1", document="d", modality="text", title="", text="One two three", role=Role.GOLD
    )
    b = Document(
        id="d#0", document="d", title="", text=text, image=PICTURE if text is None else None
    )
    assert bool(Gold([a]).parts(b)) == (text == "one two")
