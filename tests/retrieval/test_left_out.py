"""What an index leaves out: it is named, it is counted, and nothing of it is found."""

from __future__ import annotations

import json

import numpy as np
from stub_encoder import StubEncoder

from demur.indexing.build import build_index
from demur.records import Document
from demur.retrieval.search import Query, Searcher


def test_pages_are_made_of_the_documents_that_stay(tmp_path):
    documents = [
        Document(id="a0", page="P", title="Fox", text="   "),
        Document(id="a1", page="P", title="Fox: diet", text="The fox eats mice."),
        Document(id="e", page="E", title="Nothing", text=""),
        Document(id="b0", page="Q", title="Owl", text="The owl hoots."),
        Document(id="b0", page="R", title="Phantom page", text="A second document of that id, on another page."),
    ]
    manifest = build_index(documents, StubEncoder(), tmp_path / "index", skip_bad=True)
    assert (manifest["counts"]["documents"], manifest["counts"]["pages"]) == (5, 2)
    assert np.load(tmp_path / "index" / "page_of.npy").tolist() == [-1, 0, -1, 1, -1]
    searcher = Searcher(tmp_path / "index", StubEncoder())
    assert [(page.id, page.title, page.text) for page in map(searcher.pages.at, range(len(searcher.pages)))] == [
        ("P", "Fox: diet", "The fox eats mice."), ("Q", "Owl", "The owl hoots."),
    ]  # fmt: skip
    found = searcher.search([Query("Phantom page")], "text->title/text->text", 9)[0]
    assert {hit.document for hit in found} == {"a1", "b0"}
    assert searcher.pages_of(["a0", "a1", "e", "b0"]) == ["P", "Q"]


def test_a_blank_passage_is_no_summary_of_its_page(tmp_path):
    picture = {"sha256": "0" * 64, "uri": "gone.png", "width": 1, "height": 1}
    documents = [
        Document(id="a0", page="P", title=" ", text=" ", image=picture, attributes={"summary": " ", "page_title": " "}),
        Document(id="a1", page="P", title="Fox: diet", text="The fox eats mice."),
    ]
    build_index(documents, StubEncoder(), tmp_path / "index", skip_bad=True)
    page = json.loads((tmp_path / "index" / "pages" / "documents.jsonl").read_text())
    assert (page["title"], page["text"]) == ("Fox: diet", "The fox eats mice.")
