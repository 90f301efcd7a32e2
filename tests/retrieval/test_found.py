"""Two steps, as the paper: only found pages are cut and embedded, once, and hits are those of an index of all passages."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from errors import raises
from small_pool import picture
from stub_encoder import StubEncoder

from demur.core.errors import BadInput, UsageError
from demur.core.images import image_ref
from demur.core.records import Document
from demur.indexing.build import build_index
from demur.indexing.chunk import Chunker, uncut
from demur.indexing.options import IndexOptions
from demur.retrieval.found import FoundSearcher, PassageCache
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher

CHUNKER = Chunker(12, 3)
PAGE_MODES = ("image->title", "image->title+summary", "image->image", "image->first-image")


class Counting(StubEncoder):
    """Counts how often it embeds each text in the space of passages; ``bad`` has no vector."""

    def __init__(self, bad=""):
        super().__init__()
        self.embedded, self.bad = Counter(), bad

    def texts(self, texts, space="joint", *, role="passage"):
        vectors = super().texts(texts, space, role=role)
        if space == "text" and role == "passage":
            self.embedded.update(texts)
            for place, text in enumerate(texts):
                if self.bad and self.bad in text:
                    vectors[place] = np.nan
        return vectors


def articles(root):
    """Forty articles on thirty pages: long, short, of several sections, with pictures, without a text, without words."""
    for n in range(40):
        sentences = [f"Sentence {i} of article {n} is about w{i * n % 7}." for i in range(n % 9)]
        data = root / f"{n}.png"
        picture(n).save(data, "PNG")
        image = image_ref(data.read_bytes(), data.name) if n % 3 == 0 else None
        yield Document(
            id=f"Q{n}" if n % 4 else f"https://kb/{n}#section 0",
            title=f"Article {n}",
            text=" ".join(sentences) or ("..." if n % 2 else None if image else "Lone words"),
            image=image,
            page=f"p{n % 30}" if n % 5 else "",
            attributes={"summary": f"All about {n}"} if n % 7 == 0 else {},
        )


def both(root, encoder=None, **options):
    """The same base as an index of all passages and as one of pages, opened."""
    encoder = encoder or Counting()
    base = list(articles(root))
    shared = {"image_root": root, "cut": CHUNKER.setting}
    build_index(CHUNKER.documents(base), StubEncoder(), root / "all", IndexOptions(**shared))
    build_index(uncut(base), encoder, root / "found", IndexOptions(cut_later=CHUNKER, **shared))
    return Searcher(root / "all", StubEncoder(), prefix="kb:"), found(root, encoder, **options)


def found(root, encoder, **options):
    return FoundSearcher(
        root / "found",
        encoder,
        text_encoder=None,
        chunker=CHUNKER,
        cache=PassageCache(root / "passages.sqlite"),
        prefix="kb:",
        **options,
    )


def queries():
    return [Query(f"What of w{n % 7}?", picture(3 * n)) for n in range(12)]


def shown(hits):
    return [[(h.document, h.rank, h.score, h.mode) for h in line] for line in hits]


def test_hits_are_those_of_an_index_of_all_passages_on_the_same_pages(tmp_path):
    whole, pages = both(tmp_path)
    for mode in (*PAGE_MODES, "text->title"):
        assert shown(pages.search(queries(), mode, 7)) == shown(whole.search(queries(), mode, 7))
        for k, count in ((3, 2), (500, 5)):
            steps = f"{mode}/text->text"
            expected = shown(whole.search(queries(), steps, k, pages=count))
            assert shown(pages.search(queries(), steps, k, pages=count)) == expected
            assert all(expected)
    assert set(pages.found.encoder.embedded.values()) == {1}


def test_only_the_passages_of_found_pages_are_embedded(tmp_path):
    whole, pages = both(tmp_path)
    opened = [hit.document for hit in whole.search(queries()[:1], "image->title", 2)[0]]
    on_pages = [whole.documents[id] for page in opened for id in whole.on_page(page)]
    pages.search(queries()[:1], "image->title/text->text", 9, pages=2)
    texts = {f"{d.title}\n{d.text}" for d in on_pages if d.text is not None}
    assert pages.found.encoder.embedded.keys() == texts


def test_documents_and_pages_are_those_of_an_index_of_all_passages(tmp_path):
    whole, pages = both(tmp_path)
    ids = list(whole.documents)
    assert [pages.documents[id] for id in ids] == [whole.documents[id] for id in ids]
    assert [pages.documents.id(pages.documents.row(id)) for id in ids] == ids
    assert list(map(whole.pages.at, range(len(whole.pages)))) == [
        pages.pages.at(row) for row in range(len(pages.pages))
    ]
    for page in whole.pages:
        assert pages.on_page(page) == whole.on_page(page)
    assert pages.pages_of(ids) == whole.pages_of(ids)
    modes = ["text->text", "image->image"]
    assert pages.reached(ids, modes) == whole.reached(ids, modes)
    assert pages.reached(whole.pages, modes, pages=True) == whole.reached(
        whole.pages, modes, pages=True
    )
    for unknown in ("kb:Q1", "kb:Q1#99", "kb:Q1#00", "kb:nobody#0", "Q1#0", "kb:Q1#image"):
        assert (unknown in pages.documents, unknown in whole.documents) == (False, False)
    assert not pages.found.encoder.embedded  # cutting embeds nothing
    candidates = [ids[::3]] * len(queries())
    assert shown(pages.rerank(queries(), candidates, 9)) == shown(
        whole.rerank(queries(), candidates, 9)
    )
    assert np.array_equal(pages.cosines(ids[:20], "passages"), whole.cosines(ids[:20], "passages"))
    assert np.array_equal(pages.cosines(ids, "looks"), whole.cosines(ids, "looks"))


def test_a_page_that_was_found_before_costs_nothing(tmp_path):
    _, pages = both(tmp_path)
    steps = "image->title/text->text"
    first = pages.search(queries(), steps, 9)
    made = Counter(pages.found.encoder.embedded)
    assert pages.search(queries(), steps, 9) == first
    cutter = Chunker(12, 3)
    again = found(tmp_path, Counting())
    again.found.chunker = cutter
    assert again.search(queries(), steps, 9) == first
    assert made
    assert pages.found.encoder.embedded == made
    assert not again.found.encoder.embedded
    assert not cutter.counts.articles  # nor is anything cut again


def test_a_page_that_is_not_as_it_was_written_is_made_again(tmp_path):
    _, pages = both(tmp_path)
    steps = "image->title/text->text"
    first = pages.search(queries(), steps, 9)
    made = pages.found.encoder.embedded
    with sqlite3.connect(tmp_path / "passages.sqlite") as table:
        table.execute("UPDATE pages SET vectors = zeroblob(length(vectors)) WHERE key < '8'")
        table.execute("UPDATE pages SET spans = '[]' WHERE key > 'c'")
    again = found(tmp_path, Counting())
    assert again.search(queries(), steps, 9) == first
    assert 0 < again.found.encoder.embedded.total() < made.total()


def test_another_cut_another_encoder_or_another_text_is_another_page(tmp_path):
    _, pages = both(tmp_path)
    page = pages.found.page(1)
    other = found(tmp_path, Counting())
    other.found.chunker = Chunker(14, 3)
    assert other.found.page(1).key != page.key
    other = found(tmp_path, Counting())
    other.found.encoder = StubEncoder(seed=1)
    assert other.found.page(1).key != page.key
    assert len({pages.found.page(n).key for n in range(len(pages.pages))}) == len(
        {
            tuple(d.text for d in pages.found.page(n).passages.values())
            for n in range(len(pages.pages))
        }
    )


def test_a_passage_that_cannot_be_embedded_is_an_error_or_left_out(tmp_path):
    bad = "Sentence 3 of article 13 "
    whole, pages = both(tmp_path, Counting(bad), skip_bad=True)
    ids = [id for id in whole.documents if id.startswith("kb:Q13#")]
    (without,) = [id for id in ids if bad in whole.documents[id].text]
    (hits,) = pages.rerank([Query("w")], [ids], 9)
    assert {h.document for h in hits} == {*ids} - {without}
    assert pages.found.left_out == {without}
    for _ in range(2):  # what a run that skips has kept, too
        with raises(BadInput, item=without):
            found(tmp_path, Counting(bad)).rerank([Query("w")], [ids], 9)


def test_only_found_pages_can_be_searched(tmp_path):
    _, pages = both(tmp_path)
    with raises(UsageError, item="passages", cure="passages: all"):
        pages.search([Query("w")], "text->text", 3)
    with raises(UsageError, item="found", cure="passages: all"):
        Searcher(tmp_path / "found", StubEncoder()).search([Query("w")], "text->text", 3)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
from retrieval import test_found as t

class Dying(t.Counting):
    def texts(self, texts, space="joint", *, role="passage"):
        if space == "text" and role == "passage" and self.embedded.total() > {after}:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().texts(texts, space, role=role)

searcher = t.found(Path({root!r}), Dying())
for query in t.queries():
    searcher.search([query], "image->title/text->text", 9)
"""


@pytest.mark.parametrize("after", [-1, 40])
def test_a_killed_run_goes_on_where_it_was(tmp_path, after):
    whole, _ = both(tmp_path)
    tests = str(Path(__file__).parents[1])
    script = KILLED.format(tests=tests, after=after, root=str(tmp_path))
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, tests])}
    ended = subprocess.run([sys.executable, "-c", script], env=env, check=False)
    assert ended.returncode == -signal.SIGKILL
    pages = found(tmp_path, Counting())
    steps = "image->title/text->text"
    assert shown(pages.search(queries(), steps, 9)) == shown(whole.search(queries(), steps, 9))
    saved = len(whole.rows("passages")) - pages.found.encoder.embedded.total()
    assert (saved > 0) == (after > 0)  # to the page: what was made stays
