"""`demur rag table` counts a passage as gold by its own id: another passage of the same file is not the gold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from strategies import evidence, sample

import demur
from demur.core.records import Response, Role
from demur.reports.rag import DOCUMENT, citation_of, match_of, rag_tables

CITIES = ("Tromsø", "Bergen", "Oslo", "Bodø", "Molde", "Hamar")


@pytest.fixture(scope="module")
def handbook(tmp_path_factory) -> Path:
    """A release from one file of six passages with a question each, and its corpora."""
    folder = tmp_path_factory.mktemp("handbook")
    (folder / "docs").mkdir()
    filler = "Everybody in the office agrees about this and nobody wants to change it soon. " * 3
    (folder / "docs" / "handbook.txt").write_text(
        "\n\n".join(
            f"The office in {city} has {n + 11} desks for its guests. {filler}"
            for n, city in enumerate(CITIES)
        )
    )
    (folder / "questions.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "question": f"How many desks has the office in {city}?",
                    "answer": f"{n + 11} desks",
                }
            )
            + "\n"
            for n, city in enumerate(CITIES)
        )
    )
    made = demur.from_docs(
        folder / "docs", folder / "questions.jsonl", folder / "out", accept_found=True, chunk="45:0"
    )
    assert made.release is not None
    assert len({e.id for s in made.release.samples() for e in s.gold}) >= 5
    return folder / "out"


def retrieves(handbook: Path, which: str, *, with_text: bool):
    """A system whose retriever gives the gold passage, other passages of the file, or parts of the file."""
    release = demur.open_release(handbook / "release")
    gold = {s.id: s.gold for s in release.samples()}
    lines = (handbook / "corpora" / "full" / "corpus.jsonl").read_text().splitlines()
    passages = {row["id"]: row["text"] for row in map(json.loads, lines)}

    def system(question, id, corpus):
        ids = {e.id for e in gold[id]}
        names = {
            "gold": [name for name in passages if name in ids],
            "others": [name for name in passages if name not in ids],
            "own": [f"{e.document}#part-999999" for e in gold[id]],
        }[which]
        contexts = [{"id": n} | ({"text": passages.get(n, "")} if with_text else {}) for n in names]
        return {"answer": "I do not know.", "contexts": contexts, "citations": names}

    return system


@pytest.mark.parametrize("with_text", [True, False])
@pytest.mark.parametrize(
    ("which", "share", "document"), [("gold", 1.0, None), ("others", 0.0, None), ("own", 0.0, 1.0)]
)
def test_how_often_gold_was_found(handbook, tmp_path, which, share, document, with_text) -> None:
    run = demur.evaluate(
        handbook / "release",
        retrieves(handbook, which, with_text=with_text),
        scenarios="full",
        corpora=handbook / "corpora",
        out=tmp_path,
    )
    tables = {table.name: table for table in rag_tables([run.folder], handbook / "release")}
    [faults] = tables["rag-faults"].records()
    assert faults["Gold found"]["value"] == share
    assert faults.get("Document found", {}).get("value") == document
    expected = {"gold": "gold retrieved", "others": "gold not retrieved", "own": DOCUMENT}[which]
    assert {row["Retriever"] for row in tables["rag-scenario"].records()} == {expected}


def test_what_is_gold_and_what_is_only_of_its_document() -> None:
    base = sample("s0", text=2)
    texts = "the desks of the office in Oslo are eleven and painted green every year in spring"
    about = {"text": texts, "document": "book.md", "page": "book.md#p1"}
    gold = evidence("book.md#2", Role.GOLD).model_copy(update=about)
    other = evidence("book.md#3", Role.DISTRACTOR).model_copy(update={"document": "book.md"})
    question = base.model_copy(update={"gold": (gold,), "negatives": (other,)})
    corpus = {"book.md#2", "book.md#3"}
    cases = {
        ("book.md#2", ""): "gold",
        ("book.md#2", "a text that differs"): "gold",
        ("book.md#3", texts): "",  # its id says what it is
        ("book.md#77", texts): "",  # numbered as the corpus numbers its passages
        ("book.md#2#0", ""): "gold",  # a chunk of the gold passage
        ("row 8 of a table", texts): "gold",
        (
            "paper.md#2",
            texts,
        ): "gold",  # numbered alike, of a document that the release does not know
        ("book.md:chunk-12", ""): "document",
        ("book.md", ""): "document",
        ("book.md#p1", ""): "document",
        ("elsewhere.md", ""): "",
    }
    found = {case: match_of(*case, question, corpus) for case in cases}
    assert found == cases
    cites = {"book.md#2": "gold", "book.md": "document", "book.md#3": "distractor", "x": "unknown"}
    for name, what in cites.items():
        assert citation_of(Response(text="a", citations=(name,)), question, corpus) == what
