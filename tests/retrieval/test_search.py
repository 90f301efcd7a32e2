import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from errors import places, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from small_pool import corpus, picture
from strategies import examples
from stub_encoder import StubEncoder

from demur.core.errors import BadInput, DataError, IndexFileError, UnknownPart, UsageError
from demur.core.records import Document
from demur.core.store import PROBLEMS_KEPT, Problems
from demur.corpora import read_corpus
from demur.indexing import build
from demur.indexing.build import build_index
from demur.indexing.options import IndexOptions
from demur.retrieval.modes import MODES, Query, canonical_mode
from demur.retrieval.search import Searcher

ALONE = [mode for mode in MODES if not mode.startswith("image+text->")]
"""The others need an encoder that reads a text and an image as one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    build_index(corpus(root), StubEncoder(), root / "index", IndexOptions(image_root=root))
    return root / "index"


def test_cosines_are_those_of_the_vectors_in_any_company(folder):
    searcher = Searcher(folder, StubEncoder())
    ids = ["t7", "t3", "i4", "nowhere", "t7"]  # i4 has no passage
    found = searcher.cosines(ids, "passages")
    vectors = searcher.vectors("passages")
    own = vectors[[7, 3]].astype(float) / np.linalg.norm(
        vectors[[7, 3]].astype(float), axis=1, keepdims=True
    )
    assert found[:2, :2] == pytest.approx(own @ own.T)
    assert (found[2:4] == 0).all()
    assert found[0, 4] == pytest.approx(1)
    assert (searcher.cosines(ids[:2], "passages") == found[:2, :2]).all()
    assert searcher.cosines([], "looks").shape == (0, 0)


@pytest.mark.heavy
@settings(max_examples=examples(5), deadline=None)
@given(st.permutations(range(40)), st.integers(1, 40), st.sampled_from(["flat", "ivf-flat"]))
def test_a_score_depends_on_query_and_document_alone(tmp_path_factory, order, kept, kind):
    """Whatever documents are beside it, in whatever order, and whatever is asked with the query."""
    root = tmp_path_factory.mktemp("some")
    documents = [
        Document(id=f"d{i}", title="", text=f"passage {i % 35}") for i in range(40)
    ]  # five occur twice
    queries = [Query(f"passage {i}") for i in (3, 50, 7)]
    found = []
    for name, some in (("whole", documents), ("some", [documents[i] for i in order[:kept]])):
        build_index(some, StubEncoder(), root / name, IndexOptions(kind=kind))
        searcher = Searcher(root / name, StubEncoder())
        together = searcher.search(queries, "text->text", 40)
        assert together == [searcher.search([query], "text->text", 40)[0] for query in queries]
        found.append([{hit.document: hit.score for hit in line} for line in together])
        assert [list(line.values()) for line in found[-1]] == [
            sorted(x.values(), reverse=True) for x in found[-1]
        ]
    ids = {f"d{i}" for i in order[:kept]}
    assert found[1] == [{id: score for id, score in line.items() if id in ids} for line in found[0]]


def test_each_mode_finds_the_thing_itself(folder):
    searcher = Searcher(folder, StubEncoder())
    own = Query("Page 2: part 1\npassage 7 about w2", picture(4))
    assert searcher.search([own], "text->text", 3)[0][0].document == "t7"
    assert searcher.search([own], "lexical", 3)[0][0].document == "t7"
    assert searcher.search([own], "fused", 3)[0][0].document == "t7"
    assert searcher.search([own], "image->image", 3)[0][0].document == "i4"
    assert set(searcher.modes) == set(ALONE)
    title = Query("Page 2: part 0")
    assert searcher.search([title], "text->title", 1)[0][0].document == "p2"
    for mode in ALONE:
        hits = searcher.search([own], mode, 5)[0]
        assert [h.rank for h in hits] == [1, 2, 3, 4, 5]
        assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
        assert {h.mode for h in hits} == {mode}
        assert {h.index_id for h in hits} == {searcher.id}


def test_threads_may_share_a_searcher_that_has_opened_nothing_yet(folder):
    queries = [
        Query(f"Page {n % 5}: part 1\npassage {n} about w{n % 7}", picture(n % 10))
        for n in range(20)
    ]
    asked = [
        (query, mode) for query in queries for mode in ("fused", "text->title", "image->image")
    ]
    alone = Searcher(folder, StubEncoder())
    right = [alone.search([query], mode, 5) for query, mode in asked]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            searcher = Searcher(folder, StubEncoder())
            with ThreadPoolExecutor(8) as pool:
                hits = pool.map(lambda one: searcher.search([one[0]], one[1], 5), asked)  # noqa: B023
                assert list(hits) == right
    finally:
        sys.setswitchinterval(before)


def test_only_the_first_image_of_a_page_is_found(tmp_path):
    """A query that looks like the second image of a page finds its first one, behind what is nearer."""
    for n in range(4):
        picture(n).save(tmp_path / f"{n}.png")
    rows = [
        {"id": f"i{n}", "title": "t", "image": f"{n}.png", "page": f"p{n // 2}"} for n in range(4)
    ]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_index(
        read_corpus(str(tmp_path / "kb.jsonl"), Problems()), StubEncoder(), tmp_path / "index"
    )
    searcher = Searcher(tmp_path / "index", StubEncoder())
    query = Query(image=picture(1))
    assert searcher.search([query], "image->image", 1)[0][0].document == "i1"
    assert {hit.document for hit in searcher.search([query], "image->first-image", 9)[0]} == {
        "i0",
        "i2",
    }
    assert len(searcher.search([query], "image->first-image", 1)[0]) == 1


def test_pages_then_passages(folder):
    searcher = Searcher(folder, StubEncoder())
    query = Query("Page 4: part 1\npassage 13 about w3", picture(4))
    hits = searcher.search([query], "image-to-image/text-to-text", 9, pages=2)[0]
    pages = searcher.pages_of([h.document for h in hits])
    assert len(pages) == 2
    assert "p4" in pages
    assert hits[0].document == "t13"
    assert hits[0].mode == "image->image/text->text"
    assert len(hits) == 6  # two pages of three passages: no image among them


def test_more_hits_than_there_are(folder):
    searcher = Searcher(folder, StubEncoder())
    assert len(searcher.search([Query("x")], "text->text", 1000)[0]) == 30
    assert (
        len(
            searcher.search([Query("x", picture(1))], "image->title/text->text", 1000, pages=1000)[
                0
            ]
        )
        == 30
    )
    assert searcher.search([Query("zzz qqq")], "lexical", 5)[0] == []
    assert searcher.search([], "lexical", 5) == []


@pytest.mark.heavy
@pytest.mark.parametrize("mode", [*ALONE, "image->title/text->text", "fused/lexical"])
def test_room_is_made_for_no_more_hits_than_there_can_be(folder, mode):
    searcher, query = Searcher(folder, StubEncoder()), [Query("passage 3", picture(3))]
    assert searcher.search(query, mode, 10**12, pages=10**12) == searcher.search(
        query, mode, 40, pages=10
    )


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ALONE)
def test_hits_do_not_depend_on_the_batch(folder, mode):
    searcher = Searcher(folder, StubEncoder())
    queries = [Query(f"passage {i} part", picture(i)) for i in range(40)]
    whole = searcher.search(queries, mode, 7)
    assert [searcher.search([q], mode, 7)[0] for q in queries] == whole


def test_usage_errors(folder):
    searcher = Searcher(folder, StubEncoder())
    with pytest.raises(UnknownPart, match="image->title"):
        searcher.search([Query("x")], "image->titel", 3)
    with raises(UsageError, item="query 0"):
        searcher.search([Query("x")], "image->title", 3)
    with raises(UsageError, "0", item="k"):
        searcher.search([Query("x")], "lexical", 0)
    assert canonical_mode("image-to-title/lexical") == "image->title/lexical"


def test_another_encoder_is_refused(folder):
    with raises(IndexFileError, "'stub'", "joint", item=folder, cure="--fresh"):
        Searcher(folder, StubEncoder(seed=1))
    with raises(IndexFileError, "'stub'", "joint", item=folder, cure="--fresh"):
        Searcher(folder, StubEncoder(dims={"text": 24}))


def test_truncated_and_foreign_files_are_refused_by_name(tmp_path):
    build_index(
        corpus(tmp_path), StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path)
    )
    vectors = tmp_path / "index" / "parts" / "passages" / "vectors.npy"
    whole = vectors.read_bytes()
    vectors.write_bytes(whole[:-4])
    with raises(IndexFileError, f"{len(whole)} bytes", f"{len(whole) - 4} bytes", item=vectors):
        Searcher(tmp_path / "index", StubEncoder())
    vectors.write_bytes(whole[:-1] + b"?")
    with raises(IndexFileError, item=vectors):
        Searcher(tmp_path / "index", StubEncoder())
    vectors.unlink()
    with raises(IndexFileError, f"{len(whole)} bytes", item=vectors):
        Searcher(tmp_path / "index", StubEncoder())
    with raises(IndexFileError, item=tmp_path / "nowhere", cure="demur index build"):
        Searcher(tmp_path / "nowhere", StubEncoder())
    (tmp_path / "index" / "manifest.json").write_text(json.dumps({"format": "else"}))
    with raises(IndexFileError, item=tmp_path / "index"):
        Searcher(tmp_path / "index", StubEncoder())


def test_a_finished_folder_is_not_built_again(tmp_path):
    encoder = StubEncoder()
    first = build_index(
        corpus(tmp_path), encoder, tmp_path / "index", IndexOptions(image_root=tmp_path)
    )
    calls = encoder.calls
    assert (
        build_index(
            corpus(tmp_path), encoder, tmp_path / "index", IndexOptions(image_root=tmp_path)
        )
        == first
    )
    assert encoder.calls == calls
    again = build_index(
        corpus(tmp_path)[1:],
        encoder,
        tmp_path / "index",
        IndexOptions(image_root=tmp_path, fresh=True),
    )
    assert again["id"] != first["id"]
    assert encoder.calls > calls


def test_an_index_of_an_older_version_is_refused_until_it_is_built_again(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "VERSION", 1)
    build_index(
        corpus(tmp_path), StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path)
    )
    monkeypatch.undo()
    with raises(IndexFileError, "version 1", item=tmp_path / "index"):
        Searcher(tmp_path / "index", StubEncoder())
    build_index(
        corpus(tmp_path), StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path)
    )
    assert Searcher(tmp_path / "index", StubEncoder()).modes


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with raises(UsageError, item=tmp_path / "out", cure="--out"):
        build_index(
            corpus(tmp_path), StubEncoder(), tmp_path / "out", IndexOptions(image_root=tmp_path)
        )
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years of work"


@pytest.mark.heavy
@pytest.mark.parametrize("count", [1, 2, 15, 16, 40])
@pytest.mark.parametrize("kind", ["ivf-flat", "ivf-sq8"])
def test_few_vectors_in_any_kind_of_index(tmp_path, kind, count):
    documents = [Document(id=f"d{i}", title="", text=f"passage {i}") for i in range(count)]
    encoder = StubEncoder(dims={"text": 8})
    made = build_index(documents, encoder, tmp_path / "index", IndexOptions(kind=kind))["parts"][
        "passages"
    ]
    assert made["kind"] == kind
    hits = Searcher(tmp_path / "index", encoder).search([Query("passage 0")], "text->text", 99)[0]
    assert hits[0].document == "d0"
    assert len(hits) == count


def test_bad_rows_of_the_reader_are_listed_too(tmp_path):
    (tmp_path / "kb.jsonl").write_text('{"id": "a", "title": "A", "text": "y"}\n{broken\n')
    problems = Problems()
    manifest = build_index(
        read_corpus(str(tmp_path / "kb.jsonl"), problems),
        StubEncoder(),
        tmp_path / "index",
        IndexOptions(problems=problems, skip_bad=True),
    )
    rows = [
        json.loads(line) for line in (tmp_path / "index" / "skipped.jsonl").read_text().splitlines()
    ]
    assert [(row["stage"], row["reason"].partition(" not")[0]) for row in rows] == [
        ("read", "kb.jsonl:2:")
    ]
    assert manifest["counts"]["skipped"] == 1


def test_an_index_counts_bad_rows_that_it_does_not_list(tmp_path):
    bad = PROBLEMS_KEPT + 5
    (tmp_path / "kb.jsonl").write_text(
        '{"id": "a", "title": "A", "text": "y"}\n' + "{broken\n" * bad
    )
    problems = Problems()
    rows = read_corpus(str(tmp_path / "kb.jsonl"), problems)
    manifest = build_index(
        rows, StubEncoder(), tmp_path / "index", IndexOptions(problems=problems, skip_bad=True)
    )
    listed = (tmp_path / "index" / "skipped.jsonl").read_text().splitlines()
    assert manifest["counts"]["skipped"] == problems.skipped == bad
    assert len(listed) == PROBLEMS_KEPT + 1
    assert json.loads(listed[-1])["reason"] == "... and 5 more"


def test_a_document_without_an_id_is_named_by_its_line(tmp_path):
    (tmp_path / "kb.jsonl").write_text('{"id": "", "title": "A", "text": "x"}\n')
    problems = Problems()
    assert list(read_corpus(str(tmp_path / "kb.jsonl"), problems)) == []
    assert places(problems.lines) == ["kb.jsonl:1"]


def test_bad_documents_are_named_together_or_skipped_and_listed(tmp_path):
    documents = corpus(tmp_path)
    (tmp_path / "3.png").write_bytes(b"not an image")
    bad = [*documents, documents[0], Document(id="blank", title="x", text="  ")]
    with raises(BadInput, cure="--skip-bad") as caught:
        build_index(bad, StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path))
    assert places(caught.value.problems) == ["t0", "blank"]
    assert not (tmp_path / "index").exists()
    manifest = build_index(
        bad, StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path, skip_bad=True)
    )
    assert (
        manifest["counts"]["skipped"] == 3
    )  # i3 once, though it is missing by its looks and in the joint space
    skipped = [
        json.loads(line) for line in (tmp_path / "index" / "skipped.jsonl").read_text().splitlines()
    ]
    assert [row["evidence"] for row in skipped] == ["t0", "blank", "i3", "i3"]
    searcher = Searcher(tmp_path / "index", StubEncoder())
    assert "i3" not in [
        h.document for h in searcher.search([Query(image=picture(3))], "image->image", 50)[0]
    ]
    with raises(DataError, cure="corpus"):
        build_index([], StubEncoder(), tmp_path / "none")


@pytest.mark.heavy
def test_an_interrupted_build_goes_on(tmp_path):
    class Dying(StubEncoder):
        def images(self, images, space="joint"):
            raise KeyboardInterrupt

    documents = corpus(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        build_index(documents, Dying(), tmp_path / "index", IndexOptions(image_root=tmp_path))
    assert not (tmp_path / "index").exists()
    encoder = StubEncoder()
    texts = []
    real = encoder.texts
    encoder.texts = lambda given, *rest, **more: (texts.extend(given), real(given, *rest, **more))[
        1
    ]
    resumed = build_index(documents, encoder, tmp_path / "index", IndexOptions(image_root=tmp_path))
    assert texts == []  # all text vectors were made before
    whole = build_index(
        documents, StubEncoder(), tmp_path / "whole", IndexOptions(image_root=tmp_path)
    )
    assert resumed == whole  # every file's hash is in it
    assert sorted(p.name for p in tmp_path.glob(".*")) == []


def test_two_builds_of_one_folder(tmp_path):
    documents = corpus(tmp_path)

    def meanwhile():
        yield documents[0]
        with raises(UsageError, item=".index.building.lock"):
            build_index(
                documents, StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path)
            )
        yield from documents[1:]

    assert (
        build_index(
            meanwhile(), StubEncoder(), tmp_path / "index", IndexOptions(image_root=tmp_path)
        )["counts"]["documents"]
        == 40
    )


def test_progress_is_told(tmp_path):
    told = []
    build_index(
        corpus(tmp_path),
        StubEncoder(),
        tmp_path / "index",
        IndexOptions(image_root=tmp_path, progress=lambda *x: told.append(x)),
    )
    assert ("documents", 40, 0) in told
    assert ("passages", 30, 30) in told
    assert ("looks", 10, 10) in told


def test_an_encoder_that_lies_about_its_length(tmp_path):
    class Long(StubEncoder):
        def _vectors(self, keys, space):
            return 2 * super()._vectors(keys, space)

    with raises(DataError, item="stub", cure="'dot'"):
        build_index(corpus(tmp_path), Long(), tmp_path / "index", IndexOptions(image_root=tmp_path))


@pytest.mark.heavy
def test_the_first_fused_hits_are_the_same_however_many_are_asked_for(tmp_path):
    documents = [Document(id=f"t{i}", title="", text=f"part {i} of w{i % 7}") for i in range(400)]
    build_index(documents, StubEncoder(), tmp_path / "index")
    searcher = Searcher(tmp_path / "index", StubEncoder())
    queries = [Query(f"part {i} w{i % 7}") for i in range(20)]
    most = searcher.search(queries, "fused", 400)
    for k in (1, 10, 150, 399):
        assert searcher.search(queries, "fused", k) == [line[:k] for line in most]
