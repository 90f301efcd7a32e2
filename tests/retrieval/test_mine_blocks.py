"""Mining in blocks of any size, and the inverted lists that are searched for it."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_pool import picture
from stub_encoder import StubEncoder

from demur.cli import main
from demur.core.errors import DataError
from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import write_records
from demur.curation.mining import mine as mining
from demur.curation.mining import modes as choosing
from demur.curation.mining import queries
from demur.curation.mining.mine import mine_samples
from demur.curation.mining.modes import choose_modes, tune_probes
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import Mining
from demur.indexing.exact import exact_top
from demur.indexing.indexes import Dense
from demur.retrieval.modes import SIMPLE_MODES, Query
from demur.retrieval.search import Searcher

ENCODER = ["--encoder", "stub_encoder:stub"]
TEXTS, IMAGES, SAMPLES = 600, 120, 90


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A pool of questions with an image, without one, and about an image; one image is broken."""
    root = tmp_path_factory.mktemp("world")
    documents = [
        Document(
            id=f"t{i}", title=f"T{i // 3}", text=f"passage {i} about w{i % 7}", page=f"p{i // 3}"
        )
        for i in range(TEXTS)
    ]
    for i in range(IMAGES):
        data = io.BytesIO()
        picture(i).save(data, "PNG")
        (root / f"{i}.png").write_bytes(data.getvalue())
        page = f"p{i // 4}"  # several images of a page: more hits must be asked for until enough pages are seen
        documents.append(
            Document(
                id=f"i{i}",
                title=f"look {i}",
                image=image_ref(data.getvalue(), f"{i}.png"),
                page=page,
            )
        )
    write_records(root / "documents.jsonl", documents)
    (root / "broken.png").write_bytes(b"no image")
    by_id = {d.id: d for d in documents}
    broken = by_id["i30"].image.model_copy(update={"uri": "broken.png"})
    samples = []
    for i in range(SAMPLES):
        image, kind = by_id[f"i{i}"].image, i % 3
        gold = by_id[f"i{i}"] if kind == 2 else by_id[f"t{5 * i}"]
        images = () if kind else (broken if i == 30 else image,)
        samples.append(
            Sample(
                id=f"q{i}",
                source="world",
                question=f"Which part is number {i} about w{i % 7}?",
                images=images,
                answers=AnswerSpec(accepted=((f"answer {i}",),)),
                gold=(Evidence.of(gold, Role.GOLD),),
            )
        )
    write_records(root / "samples.jsonl", samples)
    (root / "pool.json").write_text("{}")
    return root


@pytest.fixture
def here(world, monkeypatch):
    monkeypatch.chdir(world)
    return world


def built(kind):
    folder = f"index-{kind}"
    if not Path(folder).exists():
        assert main(["index", "build", ".", "--kind", kind, "--out", folder, *ENCODER]) == 0
    return folder


def test_a_folder_of_samples_is_not_replaced_by_what_is_mined_for_them(here, capsys):
    folder, before = built("flat"), Path("samples.jsonl").read_bytes()
    assert main(["mine", ".", "--index", folder, *ENCODER, "--out", str(here)]) == 2
    error = capsys.readouterr().err
    assert str(here) in error
    assert "--out" in error
    assert Path("samples.jsonl").read_bytes() == before


def mined(capsys, folder, *words):
    """The summary, and every byte written."""
    capsys.readouterr()
    assert main(["mine", ".", "--index", folder, *ENCODER, "--out", "mined", "--json", *words]) == 0
    out = capsys.readouterr().out
    files = {
        name: Path("mined", name).read_bytes()
        for name in ("samples.jsonl", "drops.jsonl", "mining.json")
    }
    return json.loads(out[out.index("{") :]), files


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flat", "ivf-flat", "ivf-sq8"])
def test_the_size_of_a_block_changes_no_byte(here, capsys, monkeypatch, kind):
    folder = built(kind)
    wanted = [
        "--text",
        "3",
        "--lexical",
        "2",
        "--visual",
        "3",
        "--pages",
        "12",
        "--relative-margin",
        "0.01",
    ]
    whole = {}
    sizes, blocks = [], mining.blocks_of
    monkeypatch.setattr(
        mining,
        "blocks_of",
        lambda *given: (sizes.append(len(block)) or block for block in blocks(*given)),
    )
    for block, read in ((1, 64), (64, 7), (1024, 64)):
        monkeypatch.setattr(
            queries, "BLOCK_BYTES", block * 9000
        )  # a sample with its 800 bytes of vectors and hits
        for module in (mining, queries):
            monkeypatch.setattr(module, "READ", read)
        summary, whole[block] = mined(capsys, folder, *wanted)
    assert whole[1] == whole[64] == whole[1024]
    assert {1, 90} < set(sizes)
    assert any(50 < size < 80 for size in sizes)
    assert summary["left_out"]["image cannot be read"] == 1
    assert {"image->image", "lexical"} < summary["distractors"].keys()


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["fused", "image->title/text->text", "image->image/lexical"])
def test_modes_that_ask_more_than_once_do_not_depend_on_company(here, mode):
    searcher = Searcher(here / built("ivf-sq8"), StubEncoder(name="stub_encoder:stub"))
    queries = [Query(f"passage {i} about w{i % 3}", picture(i)) for i in range(70)]
    together = searcher.search(queries, mode, 9, pages=13)
    assert together == [searcher.search([query], mode, 9, pages=13)[0] for query in queries]
    assert together == searcher.search(searcher.embedded(queries, [mode]), mode, 9, pages=13)


def test_only_queries_short_of_pages_are_asked_again(here, monkeypatch):
    searcher, asked, scored = (
        Searcher(here / built("flat"), StubEncoder(name="stub_encoder:stub")),
        [],
        Searcher._scored,
    )

    def counted(self, queries, mode, k):
        asked.append((len(queries), k))
        return scored(self, queries, mode, k)

    monkeypatch.setattr(Searcher, "_scored", counted)
    searcher.search(
        [Query("a", picture(i)) for i in range(70)], "image->image/text->text", 3, pages=2
    )
    assert asked[0] == (70, 2)
    assert asked[1][1] == 8
    assert 70 > asked[1][0] > 0


def test_embedded_queries_let_their_images_go_and_are_not_embedded_again(here, monkeypatch):
    encoder = StubEncoder(name="stub_encoder:stub")
    searcher = Searcher(here / built("flat"), encoder)
    modes = [*searcher.modes, "image->title/text->text"]
    queries = searcher.embedded([Query("a", picture(0)), Query("b"), Query("", picture(1))], modes)
    assert [query.image for query in queries] == [None] * 3
    monkeypatch.setattr(StubEncoder, "texts", None)
    monkeypatch.setattr(StubEncoder, "images", None)
    for mode in modes:
        assert searcher.search(queries[:1], mode, 3)


def test_what_a_source_ships_is_ranked_as_the_index_ranks_it_else_drawn(here):
    """Texts by the question, pictures by the query image; what the index lacks, and a rank that it has, stay as they are."""
    searcher = Searcher(here / built("flat"), StubEncoder(name="stub_encoder:stub"))
    line = next(s for s in (here / "samples.jsonl").read_text().splitlines() if '"q3"' in s)
    asked = Sample.model_validate_json(line)
    ids = ["t300", "t301", "t302", "t303", "i60", "i61", "i62", "i63"]
    texts, pictures = ids[:4], ids[4:]
    shipped = [Evidence.of(searcher.documents[id_], Role.DISTRACTOR) for id_ in ids]
    elsewhere = shipped[0].model_copy(update={"id": "x", "text": "in no index", "page": "px"})
    stated = shipped[1].model_copy(update={"id": "y", "text": "ranked", "page": "py", "rank": 77})
    sample = asked.model_copy(update={"negatives": (*shipped, elsewhere, stated)})
    plan = MiningOptions(text=2, visual=2, negatives="both", modes=("image->image", "text->text"))
    chosen = choose_modes([sample], Mining(searcher, here, plan))
    [(out, _)] = mine_samples([sample], Mining(searcher, here, plan), chosen)
    ranks = {e.id: e.rank for e in out.negatives if e.origin == "native"}
    with Image.open(here / asked.images[0].uri) as image:
        query = Query(asked.question, image.convert("RGB"))
    for mode, group in (("text->text", texts), ("image->image", pictures)):
        [hits] = searcher.rerank([query], [group], len(group), by=mode)
        assert [ranks[hit.document] for hit in hits] == [1, 2, 3, 4]
    assert ranks["y"] == 77
    assert 1 <= ranks["x"] <= len(sample.negatives)


class Faulty(StubEncoder):
    """Some questions have vectors that are NaN or zero, an image one that is infinite."""

    def texts(self, texts, space="joint", *, role="passage"):
        vectors = super().texts(texts, space, role=role)
        for text, vector in zip(texts, vectors, strict=True):
            if role == "query" and text.startswith(
                ("Which part is number 4 ", "Which part is number 6 ")
            ):
                vector[:] = np.nan if " 4 " in text else 0
        return vectors

    def images(self, images, space="joint"):
        vectors = super().images(images, space)
        for image, vector in zip(images, vectors, strict=True):
            if space == "look" and image.tobytes() == picture(9).tobytes():
                vector[3] = np.inf
        return vectors


@pytest.mark.parametrize("kind", ["flat", "ivf-flat"])
def test_a_question_without_a_vector_is_one_samples_matter(here, kind):
    searcher = Searcher(here / built(kind), StubEncoder(name="stub_encoder:stub"))
    searcher._encoders = dict.fromkeys(searcher._encoders, Faulty())
    samples = [
        Sample.model_validate_json(line)
        for line in (here / "samples.jsonl").read_text().splitlines()[:12]
    ]
    plan = MiningOptions(text=2, visual=2, modes=("image->title", "image->image", "text->text"))
    tune_probes(samples, searcher, here, [plan])
    chosen = choose_modes(samples, Mining(searcher, here, plan))
    counted = {
        (m.n, choice.lacking) for choice in chosen.choices for _, row in choice.table for m in row
    }
    assert counted == {(3, 0), (3, 4)}  # of 4 images; of 8 texts, the gold of four being pictures
    found = {
        s.id: mined for s, mined in mine_samples(samples, Mining(searcher, here, plan), chosen)
    }
    told = {
        id: [(d.reason, d.detail) for d in mined.drops if not d.evidence]
        for id, mined in found.items()
    }
    why = "the vector of its {} is NaN, infinite or zero"
    assert {id: drops for id, drops in told.items() if drops} == {
        "q4": [("cannot be embedded", why.format("text"))],
        "q6": [("cannot be embedded", why.format("text"))],
        "q9": [("cannot be embedded", why.format("image"))],
    }
    assert {id for id, mined in found.items() if not mined.negatives} == {"q4", "q6", "q9"}


class Refusing(StubEncoder):
    """Takes no image that is too thin for it, as those on PyTorch do."""

    def images(self, images, space="joint"):
        if any(image.tobytes() == picture(9).tobytes() for image in images):
            raise DataError("the image is too thin", item="image", cure="crop it first")
        return super().images(images, space)


def test_an_image_that_the_encoder_refuses_is_one_samples_matter(here):
    searcher = Searcher(here / built("flat"), StubEncoder(name="stub_encoder:stub"))
    searcher._encoders = dict.fromkeys(searcher._encoders, Refusing())
    samples = [
        Sample.model_validate_json(line)
        for line in (here / "samples.jsonl").read_text().splitlines()[:12]
    ]
    plan = MiningOptions(text=2, visual=2, modes=("image->title", "image->image", "text->text"))
    found = {
        s.id: m
        for s, m in mine_samples(
            samples,
            Mining(searcher, here, plan),
            choose_modes(samples, Mining(searcher, here, plan)),
        )
    }
    told = {
        id: [(d.reason, d.detail) for d in mined.drops if not d.evidence]
        for id, mined in found.items()
    }
    assert {id: drops for id, drops in told.items() if drops} == {
        "q9": [("cannot be embedded", "image: the image is too thin - crop it first")]
    }
    assert [id for id, mined in found.items() if not mined.negatives] == ["q9"]


@pytest.mark.slow
def test_lists_are_tuned_to_the_recall_asked_for(here, capsys):
    folder = built("ivf-flat")
    summary, _ = mined(capsys, folder, "--text", "5", "--visual", "4")
    told = {p["part"]: p for p in summary["probes"]}
    assert {(p["part"], p["k"], p["recall"]) for p in summary["probes"]} == {
        ("passages", 30, 0.99),
        ("titles", 10, 0.99),
        ("summaries", 10, 0.99),
        ("looks", 40, 0.99),
    }
    assert {name: p["questions"] for name, p in told.items()} == {
        "passages": 60,
        "titles": 29,
        "summaries": 29,
        "looks": 59,  # of the image that is broken none
    }
    searcher = Searcher(here / folder, StubEncoder(name="stub_encoder:stub"))
    assert all(0 < p["probes"] <= p["lists"] == searcher.lists[name] for name, p in told.items())
    samples = [
        Sample.model_validate_json(line)
        for line in (here / "samples.jsonl").read_text().splitlines()
    ]
    asked = [Query(s.question) for s in samples if not s.images]
    vectors = np.stack(
        [q.vectors["text", "text"] for q in searcher.embedded(asked, ["text->text"])]
    )
    right = exact_top(vectors, searcher.vectors("passages"), 30, largest_norm=1.001).rows

    def recall(probes):
        searcher.probe("passages", probes)
        found = searcher.search(asked, "text->text", 30)
        rows = [[int(hit.document[1:]) for hit in line] for line in found]
        return np.mean([np.isin(r, f).mean() for r, f in zip(right, rows, strict=True)])

    assert recall(told["passages"]["probes"]) >= 0.99 > recall(told["passages"]["probes"] - 1)
    assert main(["mine", ".", "--index", folder, *ENCODER, "--out", "mined"]) == 0
    plain = capsys.readouterr().out
    assert "lists for recall@48 >= 0.99: " in plain
    assert " on 60 questions, " in plain


@pytest.mark.slow
def test_a_number_given_wins(here, capsys, monkeypatch):
    folder = built("ivf-flat")
    monkeypatch.setattr(Dense, "nprobe_for", None)  # nothing is measured
    summary, few = mined(capsys, folder, "--probes", "1")
    lists = Searcher(here / folder, StubEncoder(name="stub_encoder:stub")).lists
    assert {p["part"]: (p["probes"], p["k"]) for p in summary["probes"]} == {
        name: (1, 0) for name in lists
    }
    summary, all_ = mined(capsys, folder, "--probes", "9999")
    assert {p["part"]: p["probes"] for p in summary["probes"]} == lists
    assert few["samples.jsonl"] != all_["samples.jsonl"]
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert main(["mine", ".", "--index", folder, *ENCODER, "--out", "mined", "--probes", "2"]) == 0
    assert f"IVF passages: 2 of {lists['passages']} lists" in capsys.readouterr().out


@pytest.mark.heavy
def test_a_flat_index_is_never_tuned(here, capsys, monkeypatch):
    folder = built("flat")
    monkeypatch.setattr(Dense, "nprobe_for", None)
    summary, _ = mined(capsys, folder)
    assert summary["probes"] == []
    searcher = Searcher(here / folder, StubEncoder(name="stub_encoder:stub"))
    assert (
        tune_probes(iter(lambda: 1 / 0, 1), searcher, here, [MiningOptions()]) == []
    )  # samples are not even read
    assert main(["mine", ".", "--index", folder, *ENCODER, "--out", "mined", "--probes", "2"]) == 2
    assert "--probes" in capsys.readouterr().err


def test_the_most_neighbours_that_any_plan_wants_count(here):
    searcher = Searcher(here / built("ivf-flat"), StubEncoder(name="stub_encoder:stub"))
    samples = [
        Sample.model_validate_json(line)
        for line in (here / "samples.jsonl").read_text().splitlines()
    ]
    plans = [
        MiningOptions(text=n, visual=0, modes=(mode,))
        for n, mode in ((2, "text->text"), (4, "lexical"))
    ]
    set_ = tune_probes(samples, searcher, here, plans)
    assert [(p.part, p.k, p.questions) for p in set_] == [("passages", 24, 60)]
    assert searcher.probes == {"passages": set_[0]}
    assert searcher._part(SIMPLE_MODES["text->text"].part).nprobe == set_[0].probes


@pytest.mark.heavy
def test_recall_by_looks_does_not_depend_on_how_many_pages_are_opened(here):
    searcher = Searcher(here / built("flat"), StubEncoder(name="stub_encoder:stub"))
    samples = [
        Sample.model_validate_json(line)
        for line in (here / "samples.jsonl").read_text().splitlines()
    ]
    tables = []
    for pages in (1, 5, 25):
        plan = MiningOptions(pages=pages, modes=("image->image",))
        (choice,) = choose_modes(samples, Mining(searcher, here, plan)).choices
        (row,) = (measures for _, measures in choice.table)
        tables.append({m.name: m.value for m in row if m.name != "recall@25"})
        assert choice.own_images_indexed == 29  # all but the broken one lie in the index
    assert tables[0] == tables[1] == tables[2]
    assert tables[0]["recall@5"] < tables[0]["recall@20"] < 1


@pytest.mark.heavy
def test_images_that_are_gone_are_told_before_anything_is_asked(
    world, tmp_path, capsys, monkeypatch
):
    shutil.copytree(
        world, tmp_path / "here", ignore=shutil.ignore_patterns("index-*")
    )  # they lead to images there
    monkeypatch.chdir(tmp_path / "here")
    folder = built("flat")
    words = ["mine", ".", "--index", folder, *ENCODER, "--out", "mined", "--text", "0", "--json"]
    monkeypatch.setattr(choosing, "TRIED", 7)
    images = [Path(f"{number}.png") for number in range(IMAGES)]
    for path in images[60:]:
        path.write_bytes(b"something else")
    images[0].unlink()
    capsys.readouterr()
    assert main([*words, "--visual", "3"]) == 0
    caught = capsys.readouterr()
    assert "4 of 7 sampled images" in caught.err
    assert "(3), " in caught.err
    summary = json.loads(caught.out[caught.out.index("{") :])
    assert summary["left_out"]["unreadable"] > 0
    for path in images[:60]:
        path.unlink(missing_ok=True)
    monkeypatch.setattr(StubEncoder, "texts", None)  # nothing is asked
    assert main([*words, "--visual", "3"]) == 2
    error = capsys.readouterr().err
    assert "120 sampled images" in error
    assert "--visual 0" in error
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path / "here")
    assert main([*words, "--lexical", "1", "--visual", "0"]) == 0


@pytest.mark.heavy
def test_pages_are_found_though_the_lists_searched_hold_too_few(here):
    searcher = Searcher(here / built("ivf-flat"), StubEncoder(name="stub_encoder:stub"))
    searcher.probe("looks", 1)
    queries = [Query("a", picture(i)) for i in range(40)]
    hits = searcher.search(queries, "image->image/text->text", TEXTS, pages=25)
    pages = [{searcher.documents[hit.document].page for hit in line} for line in hits]
    assert {len(seen) for seen in pages} == {25}  # of 30 with images
