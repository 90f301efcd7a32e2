"""What an index leaves out: it is named, it is counted, and nothing of it is found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from stub_encoder import StubEncoder

from demur.cli import main
from demur.core.records import Document
from demur.core.store import Problems
from demur.indexing.build import build_index
from demur.indexing.options import IndexOptions
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher


def test_pages_are_made_of_the_documents_that_stay(tmp_path):
    documents = [
        Document(id="a0", page="P", title="Fox", text="   "),
        Document(id="a1", page="P", title="Fox: diet", text="The fox eats mice."),
        Document(id="e", page="E", title="Nothing", text=""),
        Document(id="b0", page="Q", title="Owl", text="The owl hoots."),
        Document(
            id="b0",
            page="R",
            title="Phantom page",
            text="A second document of that id, on another page.",
        ),
    ]
    manifest = build_index(
        documents, StubEncoder(), tmp_path / "index", IndexOptions(skip_bad=True)
    )
    assert (manifest["counts"]["documents"], manifest["counts"]["pages"]) == (5, 2)
    assert np.load(tmp_path / "index" / "page_of.npy").tolist() == [-1, 0, -1, 1, -1]
    searcher = Searcher(tmp_path / "index", StubEncoder())
    assert [
        (page.id, page.title, page.text)
        for page in map(searcher.pages.at, range(len(searcher.pages)))
    ] == [
        ("P", "Fox: diet", "The fox eats mice."),
        ("Q", "Owl", "The owl hoots."),
    ]
    found = searcher.search([Query("Phantom page")], "text->title/text->text", 9)[0]
    assert {hit.document for hit in found} == {"a1", "b0"}
    assert searcher.pages_of(["a0", "a1", "e", "b0"]) == ["P", "Q"]


def test_a_blank_passage_is_no_summary_of_its_page(tmp_path):
    picture = {"sha256": "0" * 64, "uri": "gone.png", "width": 1, "height": 1}
    documents = [
        Document(
            id="a0",
            page="P",
            title=" ",
            text=" ",
            image=picture,
            attributes={"summary": " ", "page_title": " "},
        ),
        Document(id="a1", page="P", title="Fox: diet", text="The fox eats mice."),
    ]
    build_index(documents, StubEncoder(), tmp_path / "index", IndexOptions(skip_bad=True))
    page = json.loads((tmp_path / "index" / "pages" / "documents.jsonl").read_text())
    assert (page["title"], page["text"]) == ("Fox: diet", "The fox eats mice.")


def test_what_is_skipped_is_counted_and_pages_without_a_title_are_not(tmp_path):
    documents = [Document(id=f"d{i}", title="", text=f"passage {i}") for i in range(8)]
    documents += [documents[0], Document(id="blank", title="", text=" ")]
    problems = Problems()
    problems.add("kb:3", "a bad row")
    manifest = build_index(
        documents, StubEncoder(), tmp_path / "index", IndexOptions(problems=problems, skip_bad=True)
    )
    assert manifest["counts"]["skipped"] == len(problems) == 3


def test_when_nothing_is_left_the_corpus_is_named_and_why(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("kb.parquet").write_bytes(b"PAR1 cut off")
    Path("blank.jsonl").write_text('{"id": "b", "title": "B", "text": " "}\n[1]\n')
    Path("nothing.jsonl").write_text("")
    build = ["index", "build", "--out", "index", "--encoder", "stub_encoder:stub", "--skip-bad"]
    for corpora, says in (
        (
            ["kb.parquet"],
            "demur: kb.parquet: ",
        ),
        (
            ["blank.jsonl"],
            " blank.jsonl:2: ",
        ),
        (
            ["nothing.jsonl", "kb.parquet"],
            "demur: nothing.jsonl, kb.parquet: ",
        ),
    ):
        assert main([*build, *corpora]) == 1
        assert says in capsys.readouterr().err
        assert not Path("index").exists()


def test_chunk_names_empty_texts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": "a", "title": "A", "text": "The cat sat."},
        {"id": "e", "title": "E", "text": ""},
    ]
    Path("kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        "index",
        "build",
        "kb.jsonl",
        "--out",
        "index",
        "--chunk",
        "10:2",
        "--encoder",
        "stub_encoder:stub",
    ]
    assert main(command) == 1
    assert "\n  e: " in capsys.readouterr().err
    assert main([*command, "--skip-bad", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["skipped"] == 1
