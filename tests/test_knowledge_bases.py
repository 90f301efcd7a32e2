"""Knowledge bases: a row gives the same document whether a source or a corpus reads it, and traps are met once."""

from __future__ import annotations

import json
import unicodedata
from urllib.parse import quote

import pytest
from errors import places, raises
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import DataError
from demur.core.store import Problems
from demur.corpora import beir, evqa, kilt, read_corpus, wiki6m
from demur.sources import open_source

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = (
    *(
        "wikidata_id",
        "wikipedia_title",
        "wikipedia_content",
        "wikipedia_summary",
        "wikipedia_id",
        "_id",
        "id",
        "text",
    ),
    *(
        "title",
        "section_titles",
        "section_texts",
        "image_urls",
        "image_reference_descriptions",
        "wikidata_info",
    ),
)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_no_row_breaks_a_reader(row):
    try:
        article = wiki6m.document(row)
    except DataError:
        pass
    else:
        assert article.id
        assert article.title
        assert article.text
    sections = evqa.sections(row)
    assert [s.number for s in sections] == list(range(len(sections)))
    assert all(isinstance(p.url, str) for p in evqa.pictures(row))
    assert all(p.text == p.text.strip() != "" for p in kilt.paragraphs(row))
    assert isinstance(kilt.page_id(row) + kilt.entity_id(row) + beir.row_id(row), str)


def both(source, corpus):
    """(id, title, text, page) of every document, from either reader of the same file."""
    found = []
    for documents in (source.documents(), read_corpus(corpus, Problems())):
        found.append([(d.id, d.title, d.text, d.page) for d in documents])
    return found


def test_encyclopedic_vqa_by_either_reader(tmp_path):
    page = {
        "title": "Fox",
        "section_titles": ["Fox", "Diet", None, "Range"],
        "section_texts": ["A fox.", "", "It hunts.", "Everywhere."],
        "image_urls": [None, "https://x/a.jpg"],
        "image_reference_descriptions": [None],
    }
    (tmp_path / "encyclopedic_kb_wiki.json").write_text(
        json.dumps({"https://w/Fox": page, "https://w/None": {}})
    )
    one, other = both(
        open_source("evqa", tmp_path), f"evqa:{tmp_path / 'encyclopedic_kb_wiki.json'}"
    )
    assert one == other
    assert [(i, t) for i, t, *_ in one] == [
        ("https://w/Fox#0", "Fox"),
        ("https://w/Fox#2", "Fox"),
        ("https://w/Fox#3", "Fox: Range"),
    ]
    assert [(p.number, p.caption) for p in evqa.pictures(page)] == [(1, "Fox")]


def test_wiki6m_by_either_reader(tmp_path):
    rows = [
        {
            "wikidata_id": "Q1",
            "wikipedia_title": "One",
            "wikipedia_content": "",
            "wikipedia_summary": "First.",
        },
        {"wikidata_id": "Q1", "wikipedia_title": "One again", "wikipedia_content": "Later."},
        {"wikidata_id": "Q2", "wikipedia_content": "Second."},
    ]
    path = tmp_path / "Wiki6M_ver_1_0.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one, other = both(open_source("infoseek", tmp_path), f"wiki6m:{path}")
    assert one == other == [("Q1", "One", "First.", "Q1"), ("Q2", "Q2", "Second.", "Q2")]


@pytest.mark.parametrize("form", [list, lambda lines: {"paragraph": lines}])
def test_paragraphs_of_kilt_in_both_forms(form):
    lines = [
        "Fox\n",
        "A fox.\n",
        "Section::::Diet.\n",
        "BULLET::::- Mice\n",
        "Section::::",
        " \n",
        "Fox\n",
    ]
    found = kilt.paragraphs({"wikipedia_title": "Fox ", "text": form(lines)})
    assert found == [
        ("prose", "A fox."),
        ("heading", "Diet."),
        ("item", "- Mice"),
        ("prose", "Fox"),
    ]


def test_commons_names_escaped_and_in_either_unicode_form(tmp_path):
    name = unicodedata.normalize("NFD", "Café_au_lait.jpg")
    (tmp_path / name).write_bytes(b"")
    files = kilt.CommonsFiles(tmp_path)
    for asked in (
        "Café au lait.jpg",
        unicodedata.normalize("NFC", name),
        quote("Café_au_lait.jpg"),
        name,
    ):
        assert files.find(asked) == name
    assert files.find("Tea.jpg") is None
    assert kilt.CommonsFiles(tmp_path / "gone").find("Tea.jpg") is None
    with raises(DataError, "'../x.jpg'", item=tmp_path):
        files.find("../x.jpg")


def test_an_id_of_null_is_no_id(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": null, "text": "a"}\n{"_id": "007", "title": "T", "text": "b"}\n'
    )
    problems = Problems()
    assert [d.id for d in read_corpus(f"beir:{tmp_path}", problems)] == ["007"]
    assert places(problems.lines) == ["corpus.jsonl:1 (no id)"]
