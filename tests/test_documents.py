"""Documents on disk: columns, sorting by parts, grouping by page, all in little memory and equal to the plain way."""

from __future__ import annotations

import io
import os
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur import documents
from demur.documents import Column, Documents, DocumentsWriter, by_key
from demur.errors import DataError
from demur.indexing import tables
from demur.records import Document


@pytest.fixture(scope="module", autouse=True)
def in_small_pieces():
    patch = pytest.MonkeyPatch()
    patch.setattr(documents, "_BLOCK", 3)
    patch.setattr(documents, "_SORTED", 2)
    patch.setattr(tables, "BLOCK", 4)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("columns")


# few keys, some at both ends of their range, so that many are equal
KEYS = st.lists(st.sampled_from([0, 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]), max_size=40)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(0, 20))
def test_a_column_is_what_was_put_in_and_saves_as_numpy_does(folder, numbers, singles):
    with closing(Column(folder)) as column:
        for number in numbers[:singles]:
            column.append(number)
        column.extend(np.array(numbers[singles:], np.int64))
        assert len(column) == len(numbers)
        mapped = column.values()
        column.save(folder / "saved.npy")
    assert mapped.tolist() == numbers  # the mapping outlives the column
    plain = io.BytesIO()
    np.save(plain, np.array(numbers, np.int64))
    assert (folder / "saved.npy").read_bytes() == plain.getvalue()


@given(KEYS)
def test_rows_by_key_are_a_stable_sort(keys):
    values = np.array(keys, np.uint64)
    rows = np.concatenate([np.zeros(0, np.int64), *by_key(values)])
    assert rows.tolist() == np.argsort(values, kind="stable").tolist()


@settings(max_examples=200)
@given(KEYS)
def test_pages_are_numbered_by_their_first_rows(folder, keys):
    page_of, ends = tables.pages_of(np.array(keys, np.uint64), folder)
    order = tables.by_page(page_of, ends, folder)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    assert page_of.tolist() == [numbers[key] for key in keys]
    pages = [[row for row, key in enumerate(keys) if numbers[key] == page] for page in range(len(numbers))]
    assert order.tolist() == [row for rows in pages for row in rows]
    assert ends.tolist() == np.cumsum([len(rows) for rows in pages], dtype=int).tolist()


@given(st.lists(st.sampled_from("abcdefgh"), max_size=30), st.booleans())
def test_ids_that_repeat_are_found_whatever_their_hashes(tmp_path_factory, ids, collide):
    patch = pytest.MonkeyPatch()
    if collide:
        patch.setattr(documents, "key_of", lambda id: ord(id) % 2)
    try:
        with DocumentsWriter(tmp_path_factory.mktemp("shelf")) as writer:
            for row, id in enumerate(ids):
                assert writer.add(Document(id=id, title=id, text=str(row))) == row
            assert writer.close() == [row for row, id in enumerate(ids) if id in ids[:row]]
        shelf = Documents(writer.folder)
        assert [shelf.id(row) for row in range(len(shelf))] == ids
        assert {id: shelf[id].text for id in ids} == {id: str(ids.index(id)) for id in ids}
        assert shelf.row("z") is None
    finally:
        patch.undo()


def test_a_document_that_cannot_be_written_is_named(tmp_path):
    with DocumentsWriter(tmp_path / "shelf") as writer:
        with pytest.raises(DataError, match=r"'latin\\udce9\.png': the document holds what is not UTF-8"):
            writer.add(Document(id=os.fsdecode(b"latin\xe9.png"), title="", text=""))
        assert writer.add(Document(id="a", title="", text="b")) == 0
        assert writer.close() == []
    assert list(Documents(writer.folder)) == ["a"]
