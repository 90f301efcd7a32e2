"""Gold that a source cut from its documents is found in any index of them: recounted from the raw files."""

import csv
import json
import sys
from pathlib import Path

import pytest
from errors import raises
from stub_encoder import StubEncoder

from demur.core.errors import UsageError
from demur.curation.mining.mine import mine_samples
from demur.curation.mining.modes import choose_modes
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import Mining
from demur.indexing.build import build_index
from demur.indexing.chunk import Chunker
from demur.indexing.options import IndexOptions
from demur.pools.read import Pool
from demur.pools.write import build
from demur.release.layout import documents_of, evidence_licences
from demur.retrieval.search import Searcher
from demur.sources import open_source

sys.path.append(str(Path(__file__).parents[1] / "sources"))
import mini_sources as mini

N = 7
PLACES = ["Aba", "Bebo", "Cuci", "Dadu", "Efe", "Fogi", "Gagu"]


def article(i):
    """Paragraphs about a town; the third holds the answer, its first 17 words are in no other paragraph."""
    told = [
        f"The {part} of town{i} was begun by the guild of {part} makers in street {i}{n} and was never finished by them."
        for n, part in enumerate(("bridge", "mill", "tower", "well", "market", "harbour"))
    ]
    told.insert(
        2,
        f"After the great fire of the {i}th winter the people of town{i} elected {PLACES[i]} as their patron.",
    )
    return told


def infoseek(folder):
    questions = [
        {
            "data_id": f"d{i}",
            "image_id": f"oven_0000000{i}",
            "question": "Who is the patron of this town?",
            "answer": [PLACES[i]],
            "answer_eval": [PLACES[i]],
            "data_split": "val",
        }
        for i in range(N)
    ]
    mini.lines(folder / "infoseek_val.jsonl", questions)
    mini.lines(
        folder / "infoseek_val_withkb.jsonl",
        [{"data_id": f"d{i}", "entity_id": f"Q{i}", "entity_text": f"Town {i}"} for i in range(N)],
    )
    mini.lines(
        folder / "Wiki6M_ver_1_0.jsonl",
        [
            {
                "wikidata_id": f"Q{i}",
                "wikipedia_title": f"Town {i}",
                "wikipedia_content": "\n".join(article(i)),
                "wikipedia_summary": article(i)[0],
            }
            for i in range(N)
        ],
    )
    for i in range(N):
        mini.put(folder / f"oven_images/oven_0000000{i}.png", mini.png(20 + i))
    return {f"d{i}": f"Q{i}" for i in range(N)}


def viquae(folder):
    rows = [
        mini.viquae_row(
            id=f"v{i}",
            input="Who is the patron of this town?",
            image=f"{i}.png",
            wikidata_id=f"Q{i}",
            output=[
                {
                    "answer": [PLACES[i]],
                    "original_answer": PLACES[i],
                    "provenance": [{"title": [f"Town {i}"]}],
                }
            ],
        )
        for i in range(N)
    ]
    mini.lines(folder / "validation.jsonl", rows)
    pages = [
        {
            "wikipedia_id": f"{i}00",
            "wikipedia_title": f"Town {i}",
            "image": f"town{i}.png",
            "text": {"paragraph": [f"Town {i}\n", *article(i)]},
            "wikidata_info": {"wikidata_id": f"Q{i}"},
        }
        for i in range(N)
    ]
    for name in ("humans_with_faces", "humans_without_faces"):
        mini.lines(folder / f"{name}.jsonl", [])
    mini.lines(folder / "non_humans.jsonl", pages)
    for i in range(N):
        mini.put(folder / f"images/{i}.png", mini.png(20 + i))
        mini.put(folder / f"images/town{i}.png", mini.png(40 + i))
    return {f"v{i}": f"{i}00" for i in range(N)}


def evqa(folder):
    rows = [
        mini.evqa_row(
            question="Who is the patron of this town?",
            answer=PLACES[i],
            dataset_image_ids=str(100001 + i),
            # a templated question quotes its evidence, another names the section, a third only the page
            question_type=("templated", "automatic", "automatic")[i % 3],
            evidence=article(i)[2] if i % 3 == 0 else "",
            evidence_section_id="" if i % 3 == 2 else "1",
            wikipedia_url=f"{mini.WIKI}T%C3%B6wn{i}" if i == 0 else f"{mini.WIKI}Town{i}",
        )
        for i in range(N)
    ]
    mini.evqa(folder, rows)
    urls = [f"{mini.WIKI}Töwn0", *(f"{mini.WIKI}Town{i}" for i in range(1, N))]
    kb = {
        urls[i]: {
            "title": f"Town {i}",
            "section_titles": [f"Town {i}", "History"],
            "section_texts": [" ".join(article(i)[:2]), " ".join(article(i)[2:])],
            "image_urls": [f"http://x/{i}a.png", f"http://x/{i}b.png"],
            "image_reference_descriptions": ["", ""],
        }
        for i in range(N)
    }
    mini.put(folder / "encyclopedic_kb_wiki.json", json.dumps(kb))
    shown = [f"{i}{side}.png" for i in range(N) for side in "ab"]
    mini.lines(
        folder / "kb_images.jsonl",
        [{"url": f"http://x/{name}", "file": f"kb/{name}"} for name in shown],
    )
    for n, name in enumerate(shown):
        mini.put(folder / "kb" / name, mini.png(40 + n))
    mini.put(
        folder / "inat_id2name.json", json.dumps({str(100001 + i): f"{i}.png" for i in range(N)})
    )
    for i in range(N):
        mini.put(folder / f"inaturalist/{i}.png", mini.png(20 + i))
    with (folder / "test.csv").open(
        newline=""
    ) as handle:  # the raw file says which line is of which page
        urls_of = [row["wikipedia_url"].replace("%C3%B6", "ö") for row in csv.DictReader(handle)]
    return {f"test_{n + 2}": url for n, url in enumerate(urls_of)}


@pytest.fixture(scope="module", params=[infoseek, viquae, evqa], ids=lambda make: make.__name__)
def world(request, tmp_path_factory):
    """Raw id of a question -> its page in the raw files; the pool of the source; indexes of it, whole and cut."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    pages = request.param(folder / "raw")
    build([open_source(request.param.__name__, folder / "raw")], folder / "pool", documents=True)
    pool, searchers = Pool(folder / "pool"), {}
    documents = list(pool.documents())
    for name, shown in (("whole", documents), ("cut", list(Chunker(30, 6).documents(documents)))):
        build_index(shown, StubEncoder(), folder / name, IndexOptions(image_root=pool.root))
        searchers[name] = Searcher(folder / name, StubEncoder())
    return pages, pool, searchers


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["whole", "cut"])
def test_recall_counts_every_question(world, kind):
    pages, pool, searchers = world
    chosen = choose_modes(pool.samples(), Mining(searchers[kind], pool.root, MiningOptions()))
    (choice,) = chosen.choices
    assert {m.n for _, row in choice.table for m in row} == {len(pages)}
    assert (choice.n, choice.lacking, choice.warning) == (len(pages), 0, "")


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["whole", "cut"])
def test_margins_hold_and_nothing_of_gold_is_a_distractor(world, kind):
    pages, pool, searchers = world
    plan = MiningOptions(text=4, lexical=4, visual=4, pages=N, absolute_margin=-9.0)
    chosen = choose_modes(pool.samples(), Mining(searchers[kind], pool.root, plan))
    seen = 0
    for sample, mined in mine_samples(
        pool.samples(), Mining(searchers[kind], pool.root, plan), chosen
    ):
        assert not [d for d in mined.drops if d.reason.startswith("no margin")]
        page = pages[sample.id.partition(":")[2]]
        for e in sample.negatives:
            seen += 1
            town = next(p for p in pages.values() if e.id.partition(":")[2].partition("#")[0] == p)
            if e.image is not None:
                assert town != page  # it shows the same thing
            if (
                e.text is not None and town == page
            ):  # by the raw article, not by demur: it shares no run with gold
                held = article(list(pages.values()).index(page))[2]
                words = e.text.split()
                assert not any(" ".join(words[n : n + 8]) in held for n in range(len(words) - 7))
    assert seen


def test_every_document_of_a_release_has_a_licence_counted_once(world):
    _, pool, searchers = world
    plan = MiningOptions(text=2, lexical=2, visual=2, pages=N)
    chosen = choose_modes(pool.samples(), Mining(searchers["cut"], pool.root, plan))
    samples = [
        sample
        for sample, _ in mine_samples(
            pool.samples(), Mining(searchers["cut"], pool.root, plan), chosen
        )
    ]
    told = evidence_licences(samples)
    (counts,) = told.values()
    assert sum(counts.values()) == len(documents_of(samples))
    texts = {e.id for s in samples for e in (*s.gold, *s.negatives) if e.text is not None}
    assert counts[next(licence for licence in counts if licence)] >= len(texts)


def test_a_pool_of_an_older_demur_is_refused(world, tmp_path):
    (tmp_path / "pool.json").write_text('{"demur": "0.1.0", "counts": {}}')
    with raises(UsageError, item=tmp_path):
        Pool(tmp_path)
