"""Documents on disk: found by row and by id, grouped by page, all in little memory and equal to the plain way."""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core import docstore
from demur.core.docstore import Documents, DocumentsWriter
from demur.core.errors import DataError, IndexFileError, StorageError
from demur.core.records import Document
from demur.indexing import tables


@pytest.fixture(scope="module", autouse=True)
def in_small_pieces():
    patch = pytest.MonkeyPatch()
    patch.setattr(docstore, "_BLOCK", 3)
    patch.setattr(tables, "BLOCK", 4)
    yield
    patch.undo()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdefgh\0é"), st.sampled_from(["", "P", "Q", "R"]), st.booleans()
        ),
        max_size=20,
    )
)
def test_ids_that_repeat_and_pages(tmp_path_factory, given):
    work = tmp_path_factory.mktemp("work")
    documents = [
        Document(id=id * 2, title=id, text=str(row) if text else "", page=page)
        for row, (id, page, text) in enumerate(given)
    ]
    table = tables.read_documents(documents, work / "documents", progress=False)
    ids = [document.id for document in documents]
    repeated = [row for row, id in enumerate(ids) if id in ids[:row]]
    bad = sorted({*repeated, *(row for row, document in enumerate(documents) if not document.text)})
    assert [row for row, _ in table.bad] == bad
    shelf = table.documents
    assert [shelf.id(row) for row in range(len(shelf))] == list(shelf) == ids
    assert [shelf.at(row) for row in range(len(shelf))] == documents
    assert {id: shelf.row(id) for id in ids} == {id: ids.index(id) for id in ids}
    assert (shelf.row("z"), shelf.row("\udce9")) == (None, None)
    assert table.rows("text", work / "texts.npy").tolist() == [
        row for row in range(len(ids)) if row not in bad
    ]

    pages = tables.write_pages(work, table)
    keys = {row: documents[row].page or ids[row] for row in range(len(ids)) if row not in bad}
    names = list(dict.fromkeys(keys.values()))
    assert list(pages) == names
    own = [[row for row, key in keys.items() if key == name] for name in names]
    assert np.load(work / "page_documents.npy").tolist() == list(chain(*own))
    assert (
        np.load(work / "page_ends.npy").tolist()
        == np.cumsum([len(rows) for rows in own], dtype=int).tolist()
    )
    assert np.load(work / "page_of.npy").tolist() == [
        names.index(keys[row]) if row in keys else -1 for row in range(len(ids))
    ]


def test_the_same_documents_leave_the_same_bytes(tmp_path):
    for name in "ab":
        with DocumentsWriter(tmp_path / name) as writer:
            for row in range(50):
                writer.add(Document(id=f"d{row % 40}", title="", text="x" * row))
            writer.close()
    assert [(tmp_path / "a" / p).read_bytes() for p in (docstore.LINES, docstore.TABLE)] == [
        (tmp_path / "b" / p).read_bytes() for p in (docstore.LINES, docstore.TABLE)
    ]


@pytest.mark.parametrize(
    "forged",
    [
        "UPDATE documents SET id = CAST('d1' AS BLOB) WHERE row = 1",
        "UPDATE documents SET id = NULL WHERE row = 1",
        "UPDATE documents SET id = 'another' WHERE row = 1",
        "DROP INDEX by_id",
        "DROP INDEX by_id; CREATE INDEX by_id ON documents (page)",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = sql || ' WHERE row > 1' WHERE name = 'by_id';"
        "PRAGMA writable_schema = RESET; REINDEX; PRAGMA writable_schema = ON;"
        "UPDATE sqlite_master SET sql = 'CREATE INDEX by_id ON documents (id)' WHERE name = 'by_id'",
    ],
)
def test_what_a_forged_table_names_is_there_or_the_table_is_refused(tmp_path, forged):
    with DocumentsWriter(tmp_path) as writer:
        for row in range(3):
            writer.add(Document(id=f"d{row}", title="", text="x"))
        writer.close()
    db = sqlite3.connect(tmp_path / docstore.TABLE, isolation_level=None)
    db.executescript(forged)
    db.close()
    with raises(IndexFileError, cure="index") as caught:  # never KeyError
        Documents(tmp_path)[Documents(tmp_path).id(1)]
    assert str(tmp_path) in (caught.value.item or "")


def test_ids_that_lack_what_the_folder_is_said_to_begin_with_are_refused(tmp_path):
    with DocumentsWriter(tmp_path) as writer:
        writer.add(Document(id="town/d", title="", text="x"))
        writer.close()
    told = Documents(tmp_path, prefix="mine/", stored="town/")
    assert told[told.id(0)].id == "mine/d"
    with pytest.raises(IndexFileError):
        Documents(tmp_path, prefix="mine/", stored="city/").id(0)


def test_a_folder_that_is_cut_short_is_refused(tmp_path):
    with DocumentsWriter(tmp_path) as writer:
        writer.add(Document(id="a", title="", text="b"))
        writer.close()
    for name in (docstore.LINES, docstore.TABLE):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with raises(IndexFileError, item=tmp_path / name):
            Documents(tmp_path)
        (tmp_path / name).write_bytes(whole)


def test_a_document_that_cannot_be_written_is_named(tmp_path):
    with DocumentsWriter(tmp_path / "shelf") as writer:
        with raises(DataError, item="latin\\udce9.png'"):
            writer.add(Document(id=os.fsdecode(b"latin\xe9.png"), title="", text=""))
        assert writer.add(Document(id="a", title="", text="b")) == 0
        assert writer.close() == []
    assert list(Documents(writer.folder)) == ["a"]


def test_a_writer_that_cannot_begin_leaves_nothing_open_for_another_thread_to_close(
    tmp_path, monkeypatch
):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    monkeypatch.setattr(docstore, "_NEW", "CREATE nothing")
    with ThreadPoolExecutor(1) as elsewhere:
        error = elsewhere.submit(DocumentsWriter, tmp_path / "shelf").exception()
    assert isinstance(error, StorageError)
    del error  # what its traceback held is freed here
    gc.collect()
    assert unraisable == []


@pytest.mark.parametrize("wrong", [-1, 9])
def test_every_number_of_a_table_is_looked_at_however_large_it_is(wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(docstore, "BLOCK", 4)
    path = tmp_path / "rows.npy"
    rows = np.arange(9)
    np.save(path, rows)
    assert docstore.map_integers(path, below=9).tolist() == rows.tolist()
    for place in (0, 3, 4, 8):
        rows = np.arange(9)
        rows[place] = wrong
        np.save(path, rows)
        with raises(IndexFileError, item=path):
            docstore.map_integers(path, below=9)
    assert docstore.map_integers(path).tolist() == rows.tolist()
