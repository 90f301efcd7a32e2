"""Each published format with its traps: what must be read, what must be told, what must never be shown."""

import json
import sqlite3
import tarfile
from contextlib import closing

import mini_sources as mini
import pytest
from errors import places, raises

from demur.core.cells import literal
from demur.core.errors import DataError, UsageError
from demur.core.records import Modality
from demur.core.store import Problems, digest
from demur.core.uris import read_image
from demur.corpora.lineage import document_of, page_of
from demur.sources import DEFECT, open_source
from demur.sources.native import remove_quotes


def read(name, folder, **options):
    problems = Problems()
    source = open_source(name, folder, problems, mini.OPTIONS.get(name, {}) | options)
    samples = {sample.id: sample for sample in source.samples()}
    return source, samples, problems


def only(found):
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("name", sorted(mini.BUILDERS))
def test_a_healthy_folder_reads_without_a_word(name, tmp_path):
    source, samples, problems = read(name, mini.BUILDERS[name](tmp_path))
    documents = list(source.documents())
    assert not problems.lines
    assert samples
    assert len({d.id for d in documents}) == len(documents)
    for sample in samples.values():
        assert DEFECT not in sample.attributes
        assert sample.source == name
        assert sample.source_ref
        assert sample.licence or name == "beir"
        for item in (*sample.gold, *sample.negatives):
            assert item.text or item.image
        refs = [*sample.images, *(e.image for e in (*sample.gold, *sample.negatives) if e.image)]
        for ref in refs:
            assert digest(read_image(ref, source.root)) == ref.sha256


@pytest.mark.parametrize("name", sorted(mini.BUILDERS))
def test_samples_survive_their_own_json(name, tmp_path):
    from demur.core.records import Sample
    from demur.core.store import canonical

    _, samples, _ = read(name, mini.BUILDERS[name](tmp_path))
    for sample in samples.values():
        assert Sample.model_validate_json(canonical(sample)) == sample


def test_an_empty_folder_is_answered_with_the_layout(tmp_path):
    for name in mini.BUILDERS:
        source = open_source(name, tmp_path, Problems())
        with pytest.raises(UsageError, match=f"sources show {name}"):
            list(source.samples())


@pytest.mark.parametrize(
    ("name", "split"),
    [("infoseek", "test"), ("infoseek", "human"), ("webqa", "test"), ("mmmu", "test")],
)
def test_splits_without_public_answers_are_refused(name, split, tmp_path):
    with raises(UsageError, repr(split), cure="val"):
        open_source(name, tmp_path, Problems(), {"split": split})
    with raises(UsageError, "'vall'", "val", "all"):
        open_source(name, tmp_path, Problems(), {"split": "vall"})
    with raises(UsageError, "spilt", cure=f"demur sources show {name}"):
        open_source(name, tmp_path, Problems(), {"spilt": "val"})


# --- InfoSeek ---


def test_infoseek_answers_are_forms_ranges_and_years(tmp_path):
    _, samples, _ = read("infoseek", mini.infoseek(tmp_path))
    numeric = samples["infoseek_val_00000007"].answers
    assert (numeric.kind, numeric.number, numeric.canonical, numeric.rule) == (
        "number",
        (108, 132),
        "120",
        "infoseek",
    )
    assert samples["infoseek_val_00000008"].answers.accepted == (
        ("Freedonia",),
        ("Republic of Freedonia",),
        ("FRD",),
    )
    assert samples["infoseek_val_00000009"].answers.kind == "date"
    bare = samples[
        "infoseek_val_00000010"
    ].answers  # a bare object, a number as answer, a third end that is not read
    assert (bare.number, bare.canonical) == ((70, 80), "77")
    assert samples["infoseek_val_00000010"].topic == "numerical"  # no row in the question-type file


def test_infoseek_gold_is_the_paragraph_else_the_article(tmp_path):
    source, samples, _ = read("infoseek", mini.infoseek(tmp_path))
    passage = only(samples["infoseek_val_00000007"].gold)
    assert (passage.id, passage.level) == ("Q999001#p1", "passage")
    assert passage.text == "It is 120 metres long and was built in 1901."
    article = only(samples["infoseek_val_00000008"].gold)
    assert (article.id, article.level, article.text) == (
        "Q999002",
        "article",
        "A newt of the far north.",
    )
    assert [d.id for d in source.documents()] == ["Q1", "Q999001", "Q999002", "Q999003"]
    assert source.notes["later rows of an entity already read"] == 1


def test_infoseek_images_by_shard_flat_map_and_archive(tmp_path):
    mini.infoseek(tmp_path)
    _, samples, _ = read("infoseek", tmp_path)
    assert [only(s.images).uri for s in samples.values()] == [
        "oven_images/00/oven_00000042.jpg",
        "oven_images/01/oven_01000043.JPEG",
        "oven_images/oven_02000044.png",
        "elsewhere/three.png",
    ]
    before = samples["infoseek_val_00000007"].images[0].sha256
    with tarfile.open(tmp_path / "oven_images_part1.tar", "w") as out:
        out.add(tmp_path / "oven_images/00/oven_00000042.jpg", "00/oven_00000042.jpg")
    (tmp_path / "oven_images/00/oven_00000042.jpg").unlink()
    source, samples, problems = read("infoseek", tmp_path)
    ref = only(samples["infoseek_val_00000007"].images)
    assert ref.uri.startswith("slice:oven_images_part1.tar#")
    assert ref.sha256 == before == digest(read_image(ref, source.root))
    assert not problems.lines
    mini.lines(
        tmp_path / "id2image.jsonl", [{"image_id": "oven_00000042", "image_path": "../outside.png"}]
    )
    (tmp_path / "oven_images_part1.tar").unlink()
    mini.put(tmp_path.parent / "outside.png", mini.png(1))
    _, samples, problems = read("infoseek", tmp_path)
    assert samples["infoseek_val_00000007"].images == ()
    assert places([only(problems.lines)]) == ["infoseek_val.jsonl:1 (infoseek_val_00000007)"]


def test_infoseek_says_what_it_cannot_attach(tmp_path):
    mini.infoseek(tmp_path)
    (tmp_path / "oven_images/oven_02000044.png").write_bytes(mini.png(3)[:40])
    (tmp_path / "Wiki6M_ver_1_0.jsonl.gz").unlink()
    _, samples, problems = read("infoseek", tmp_path)
    assert len(samples) == 4
    assert "Wiki6M_ver_1_0.jsonl.gz" in places(problems.lines)
    assert samples["infoseek_val_00000009"].attributes[DEFECT] == (
        "query image unreadable: oven_images/oven_02000044.png; gold article missing: Q999001"
    )


def test_infoseek_broken_ranges_and_test_rows_are_named(tmp_path):
    mini.infoseek(tmp_path)
    row = {"data_id": "x1", "image_id": "oven_00000042", "question": "How long?", "answer": ["1"]}
    bad = [
        row | {"answer_eval": [{"range": [5, 1]}]},
        row | {"data_id": "x2", "answer_eval": [{"range": ["a", 1]}]},
        {"data_id": "x3", "image_id": "oven_00000042", "question": "A test row?"},
        row | {"data_id": "x4", "answer_eval": ["1"], "question": " "},
    ]
    mini.lines(tmp_path / "infoseek_val.jsonl", bad)
    _, samples, problems = read("infoseek", tmp_path)
    assert not samples
    assert [line.split(": ")[0] for line in problems.lines] == [
        f"infoseek_val.jsonl:{n} (x{n})" for n in (1, 2, 3, 4)
    ]
    for line, why in zip(
        problems.lines, ("runs backwards", "two numbers", "no answer", "'question'"), strict=True
    ):
        assert why in line


# --- Encyclopedic-VQA ---


def test_evqa_answers_alternatives_and_parts(tmp_path):
    _, samples, _ = read("evqa", mini.evqa(tmp_path))
    plain, several, *_ = samples.values()
    assert plain.answers.accepted == (("2 m",), ("two metres",))
    assert (several.answers.kind, several.answers.accepted) == (
        "parts",
        (("red", "blue"), ("blue", "crimson")),
    )
    assert several.question == "What colours are its flowers,\nseen close?"  # a quoted newline
    assert list(samples) == ["test_2", "test_3", "test_5", "test_6", "test_7"]  # split and line


def test_evqa_gold_by_section_hop_evidence_and_article(tmp_path):
    source, samples, _ = read("evqa", mini.evqa(tmp_path))
    by = {s.question.split()[0]: s for s in samples.values()}
    assert [(g.id, g.level) for g in by["How"].gold] == [(mini.WIKI + "Fictia_alba#1", "section")]
    assert [(g.title, g.text) for g in by["Who"].gold] == [
        ("X", "X is the church of the diocese of Y."),
        ("Y: Architecture", "Designed by A. Mason."),
    ]
    assert [(g.id, g.text, g.level) for g in samples["test_6"].gold] == [
        (mini.WIKI + "Fictia_alba#1#q98a162c3", "A shrub of the plains.", "passage")
    ]
    assert [g.level for g in by["Where?"].gold] == ["article"]
    ids = {d.id for d in source.documents()}
    gold = [g for s in samples.values() for g in s.gold]
    assert {document_of(g) for g in gold if g.level != "article"} <= ids
    assert {page_of(g) for g in gold} <= {page_of(d) for d in source.documents()}
    assert all(page_of(g) == document_of(g).partition("#")[0] for g in gold)


def test_evqa_never_shows_the_question_that_names_the_subject(tmp_path):
    _, samples, _ = read("evqa", mini.evqa(tmp_path))
    for sample in samples.values():
        assert "Fictia" not in sample.question
        assert "Fictia" not in json.dumps(sample.attributes)
        assert sample.native["question_original"]


def test_evqa_photographs_by_inat_map_and_landmark_path(tmp_path):
    mini.evqa(tmp_path)
    _, samples, _ = read("evqa", tmp_path)
    uris = [only(s.images).uri for s in samples.values()]
    assert uris[0] == "inaturalist/val/00001_Plantae/100001.jpg"
    assert uris[2] == "landmarks/train/0/0/a/00ab12cd34ef5678.jpg"
    (tmp_path / "inaturalist/val/00001_Plantae/100001.jpg").unlink()
    _, samples, problems = read("evqa", tmp_path)
    first = next(iter(samples.values()))
    assert only(first.images).uri.endswith(
        "100002.jpg"
    )  # the next one of the same question, and recorded
    assert first.attributes["images_passed_over"] == "100001 missing"
    assert first.attributes["image_alternatives"] == "100001|100002"
    assert not problems.lines
    (tmp_path / "val.json").unlink()
    mini.put(tmp_path / "inat_id2name.json", json.dumps({"100003": "inat/x.jpg"}))
    _, samples, problems = read("evqa", tmp_path)
    assert "no file name in any id map" in samples["test_2"].attributes[DEFECT]


def test_evqa_each_photograph_makes_a_triplet(tmp_path):
    _, samples, _ = read("evqa", mini.evqa(tmp_path), images="each", types="automatic")
    assert list(samples) == ["test_2:100001", "test_2:100002", "test_7:100001", "test_7:100002"]


def test_evqa_knowledge_base_is_read_inside_its_zip(tmp_path):
    source, samples, problems = read("evqa", mini.evqa(tmp_path, zipped=True))
    assert not problems.lines
    assert all(s.gold for s in samples.values())
    assert len(list(source.documents())) == 5


def test_evqa_broken_rows(tmp_path):
    rows = [
        mini.evqa_row(wikipedia_url=mini.WIKI + "Nowhere"),
        mini.evqa_row(evidence_section_id="9"),
        mini.evqa_row(answer=" | "),
        mini.evqa_row(dataset_name="unknown"),
        mini.evqa_row(dataset_image_ids='["100001", "100002"]'),
    ]
    _, samples, problems = read("evqa", mini.evqa(tmp_path, rows))
    assert list(samples) == ["test_2", "test_3", "test_6"]
    assert samples["test_2"].attributes[DEFECT] == f"gold page missing: {mini.WIKI}Nowhere"
    assert "has 2 sections, not '9'" in samples["test_3"].attributes[DEFECT]
    assert len(problems) == 4
    assert samples["test_6"].attributes["image_alternatives"] == "100001|100002"


def test_evqa_a_reference_of_nothing_but_articles_is_noted(tmp_path):
    source, samples, _ = read("evqa", mini.evqa(tmp_path, [mini.evqa_row(answer="the|It")]))
    assert len(samples) == 1
    assert (
        source.notes["questions with a reference that the official scorer refuses (articles only)"]
        == 1
    )


def test_evqa_says_which_column_is_missing(tmp_path):
    mini.evqa(tmp_path)
    (tmp_path / "test.csv").write_text("question,answer\na,b\n")
    source = open_source("evqa", tmp_path, Problems())
    with pytest.raises(DataError, match="dataset_image_ids"):
        list(source.samples())


# --- WebQA ---


def test_webqa_literal_quotes_go_and_titles_stay(tmp_path):
    _, samples, _ = read("webqa", mini.webqa(tmp_path))
    assert samples[mini.GUID].question == "Are both towers round?"
    assert samples[mini.GUID].answers.accepted == (("Yes, both towers are round.",),)
    assert samples[mini.GUID].answers.rule == "webqa:YesNo"
    assert samples[mini.GUID].native["Q"] == '"Are both towers round?"'
    assert samples[mini.TEXT_GUID].question == 'Who wrote "The Sample"?'
    assert remove_quotes('"A" or "B"') == '"A" or "B"'


def test_webqa_negatives_of_both_kinds_and_content_ids(tmp_path):
    source, samples, _ = read("webqa", mini.webqa(tmp_path))
    image, text = samples[mini.GUID], samples[mini.TEXT_GUID]
    assert [e.modality for e in image.negatives] == [Modality.TEXT, Modality.IMAGE]
    assert only(image.gold).title == "Tower One in 2010"  # the caption is part of the evidence
    assert image.negatives[0].text == "Tower One is old."  # without its reference mark
    # the same snippet has one id under every question; one that repeats the gold, in other case, is no negative
    assert text.negatives[0].id == image.negatives[0].id
    assert len(text.negatives) == 2
    assert (
        source.notes["pieces of evidence dropped because they repeat another of the same sample"]
        == 1
    )
    ids = {d.id for d in source.documents()}
    assert {e.id for s in samples.values() for e in (*s.gold, *s.negatives)} <= ids


def test_webqa_pictures_are_checked_against_their_id(tmp_path):
    mini.webqa(tmp_path, pictures=(30000000, 30000007, 30000002))
    _, samples, problems = read("webqa", tmp_path)
    assert samples[mini.GUID].attributes[DEFECT] == (
        "gold picture missing: 30000001 (its row in imgs.tsv holds another id)"
    )
    assert "no such row" in samples[mini.TEXT_GUID].attributes["missing_negatives"]
    assert len(problems) == 2


def test_webqa_broken_base64_is_unreadable_not_black(tmp_path):
    mini.webqa(tmp_path)
    data = (tmp_path / "imgs.tsv").read_bytes()
    (tmp_path / "imgs.tsv").write_bytes(data.replace(b"30000001\tiVBOR", b"30000001\t!!!!!"))
    _, samples, problems = read("webqa", tmp_path)
    assert samples[mini.GUID].attributes[DEFECT] == "gold picture unreadable: 30000001"
    assert only(problems.lines).endswith(samples[mini.GUID].attributes[DEFECT])


def test_webqa_without_pictures_says_so_once(tmp_path):
    mini.webqa(tmp_path)
    (tmp_path / "imgs.tsv").unlink()
    _, samples, problems = read("webqa", tmp_path)
    assert places(problems.lines).count("imgs.tsv") == 1
    assert DEFECT not in samples[mini.TEXT_GUID].attributes  # its gold is text
    assert samples[mini.TEXT_GUID].attributes["missing_negatives"]


def test_webqa_unlabelled_and_odd_rows(tmp_path):
    rows = mini.webqa_rows()
    rows["t1"] = {"Q": "q?", "A": ["a"], "split": "val", "txt_Facts": [], "img_Facts": []}
    rows["t2"] = {"Q": "q?", "A": ["a"], "split": "test"}
    rows["t3"] = []
    rows["t4"] = {"Q": "q?", "split": "val"}
    rows["t5"] = {"Q": "q?", "A": [' "" '], "split": "val"}
    _, samples, problems = read("webqa", mini.webqa(tmp_path, rows))
    assert list(samples) == [mini.GUID, mini.TEXT_GUID]
    assert [line.split("(")[1][:2] for line in problems.lines] == ["t1", "t2", "t3", "t4", "t5"]


def test_webqa_builds_a_missing_line_index(tmp_path):
    mini.webqa(tmp_path)
    with_index = read("webqa", tmp_path)[1]
    (tmp_path / "imgs.lineidx").unlink()
    assert read("webqa", tmp_path)[1] == with_index


# --- MMDocRAG ---


def test_mmdocrag_gold_negatives_and_order(tmp_path):
    source, samples, _ = read("mmdocrag", mini.mmdocrag(tmp_path), split="evaluation")
    first, second = samples.values()
    assert list(samples) == ["evaluation_20_0", "evaluation_20_1"]
    assert only(first.gold).image
    assert only(first.gold).level == "quote"
    assert [e.modality for e in first.negatives] == [Modality.TEXT, Modality.IMAGE]
    assert (second.answers.kind, second.answers.accepted) == ("parts", (("46", "27"),))
    assert [e.modality for e in second.gold] == [Modality.TEXT, Modality.IMAGE]
    for sample in samples.values():
        shown = sample.model_dump_json(exclude={"native"})
        assert "boats at a pier" not in shown  # a model's description of the picture
        assert "![Three boats]" not in shown  # an answer that cites the gold
    assert {d.id for d in source.documents()} == {
        e.id for s in samples.values() for e in (*s.gold, *s.negatives)
    }


def test_mmdocrag_ids_of_dev_and_evaluation_do_not_meet(tmp_path):
    _, samples, problems = read("mmdocrag", mini.mmdocrag(tmp_path), split="all")
    assert list(samples) == ["dev_20_0", "evaluation_20_0", "evaluation_20_1"]
    assert not problems.lines


def test_mmdocrag_archive_in_place_and_titles_without_what_a_model_wrote(tmp_path):
    source, samples, problems = read("mmdocrag", mini.mmdocrag(tmp_path, zipped=True))
    ref = only(samples["evaluation_20_0"].gold)
    assert ref.image.uri == "zip:images.zip!images/Sample-Brochure_image4.jpg"
    assert ref.title == "Sample-Brochure, page 4"
    assert digest(read_image(ref.image, source.root)) == ref.image.sha256
    assert not problems.lines


def test_mmdocrag_broken_rows(tmp_path):
    def quote(path):
        return [{"quote_id": "image1", "img_path": path, "page_id": 1}]

    rows = [
        mini.mmdocrag_row(gold_quotes=["image7"]),
        mini.mmdocrag_row(q_id=1, img_quotes=quote("images/none.jpg")),
        mini.mmdocrag_row(q_id=2, img_quotes=quote("../../etc/passwd")),
        {"messages": [], "q_id": 3},
        mini.mmdocrag_row(q_id=4, answer_short="[]"),
        mini.mmdocrag_row(q_id=5, gold_quotes=[]),
        mini.mmdocrag_row(q_id=1),
    ]
    source, samples, problems = read("mmdocrag", mini.mmdocrag(tmp_path, rows), split="evaluation")
    defects = {s.id[-1]: s.attributes[DEFECT] for s in samples.values()}
    assert defects == {
        "0": "gold quote image7 missing: no such quote in the row",
        "1": "gold quote image1 picture missing: images/none.jpg",
        "2": "gold quote image1 picture missing: ../../etc/passwd",
        "5": "gold evidence missing: gold_quotes is empty",
    }
    told = [line.split(" ")[0] for line in problems.lines]
    assert sorted(told) == [f"evaluation_20.jsonl:{n}" for n in range(1, 8)]
    assert not source.notes[
        "q_id differs from the 0-based line number that the official scorer relies on"
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[62, 30]", [62, 30]),
        ("['a'", "['a'"),
        ("[__import__('os')]", "[__import__('os')]"),
        ("3", "3"),
        (3, 3),
    ],
)
def test_lists_written_as_text_are_parsed_never_run(text, value):
    assert literal(text) == value


# --- MRAG-Bench ---


def test_mrag_open_form_keeps_the_options_aside(tmp_path):
    _, samples, _ = read("mrag", mini.mrag(tmp_path))
    sample = samples["1"]
    assert (sample.answers.kind, sample.answers.accepted, sample.answers.choices) == (
        "string",
        (("Fox",),),
        (),
    )
    assert (sample.attributes["option_B"], sample.attributes["answer_choice"]) == ("Fox", "B")
    assert list(samples) == ["1", "02"]  # shards by number; ids stay text
    choice = read("mrag", tmp_path, form="choice")[1]["1"].answers
    assert choice.choices == (("A", "Wolf"), ("B", "Fox"), ("C", "Jackal"), ("D", "Coyote"))


def test_mrag_negatives_are_neither_gold_nor_the_query(tmp_path):
    source, samples, _ = read("mrag", mini.mrag(tmp_path))
    sample = samples["1"]
    hashes = [digest(mini.png(seed)) for seed in (43, 44)]
    assert [e.image.sha256 for e in sample.negatives] == hashes
    assert (
        sample.negatives[0].image.uri
        == "parquet:data/test-00009-of-000011.parquet#0/retrieved_images/0"
    )
    assert source.notes["retrieved pictures of the same thing as gold"] == 1
    assert source.notes["retrieved pictures equal to the query or to one another"] == 1


def test_mrag_gold_pictures_of_one_answer_show_one_thing(tmp_path):
    rows = [
        mini.mrag_row(
            id="a", gt_images=[mini.cell(41)], retrieved_images=[mini.cell(52), mini.cell(61)]
        ),
        mini.mrag_row(
            id="b",
            scenario="Incomplete",
            image=mini.cell(50),
            gt_images=[mini.cell(51), mini.cell(52)],
            retrieved_images=[mini.cell(41)],
        ),
        mini.mrag_row(
            id="c", image=mini.cell(60), gt_images=[mini.cell(61)], answer="Wolf", answer_choice="A"
        ),
    ]
    source, samples, problems = read(
        "mrag", mini.mrag(tmp_path, {"test-00000-of-00001.parquet": rows})
    )
    assert not problems.lines
    page = {d.image.sha256: d.page for d in source.documents()}
    fox, wolf = page[digest(mini.png(41))], page[digest(mini.png(61))]
    assert {page[digest(mini.png(seed))] for seed in (41, 51, 52)} == {
        fox
    }  # 52 is gold of no sample: it shows a fox
    assert fox != wolf
    assert "fox" not in fox.lower()
    assert [e.page for e in samples["a"].gold + samples["b"].gold] == [fox, fox]
    assert [e.page for e in samples["a"].negatives] == [wolf]
    assert samples["b"].negatives == ()


def test_mrag_incomplete_counts_the_first_picture_only(tmp_path):
    _, samples, _ = read("mrag", mini.mrag(tmp_path))
    assert [e.image.sha256 for e in samples["02"].gold] == [digest(mini.png(51))]
    assert [e.image.sha256 for e in samples["02"].negatives] == [digest(mini.png(53))]


def test_mrag_corpus_never_holds_a_query(tmp_path):
    mini.mrag(tmp_path)
    mini.put(tmp_path / "image_corpus/1_input.png", mini.png(90))
    mini.put(tmp_path / "image_corpus/1_gt_0.png", mini.png(41))
    mini.put(tmp_path / "image_corpus/9_fp_0.png", mini.png(40))  # the query under another name
    mini.put(tmp_path / "image_corpus/9_fp_1.png", mini.png(41))  # a copy
    source, _, problems = read("mrag", tmp_path)
    assert [d.image.sha256 for d in source.documents()] == [digest(mini.png(41))]
    assert not problems.lines


def test_mrag_broken_rows(tmp_path):
    rows = [
        mini.mrag_row(id="a", answer_choice="C"),
        mini.mrag_row(id="b", image={"bytes": b"not a picture", "path": None}),
        mini.mrag_row(id="c", gt_images=[mini.cell(40)]),
        mini.mrag_row(id="c"),
        mini.mrag_row(id="", D=""),
    ]
    _, samples, problems = read("mrag", mini.mrag(tmp_path, {"test-00000-of-00001.parquet": rows}))
    assert {i: s.attributes.get(DEFECT) for i, s in samples.items()} == {
        "b": "query image unreadable: parquet:data/test-00000-of-00001.parquet#1/image",
        "c": "gold evidence missing: every gold picture is the query itself, or there is none",
    }
    told = [line.split(": ")[0].partition(":")[2] for line in problems.lines]
    assert told == ["0 (a)", "1 (b)", "2 (c)", "3 (c)", "4 (no id)"]


# --- ViQuAE ---


def test_viquae_asks_without_the_name(tmp_path):
    _, samples, _ = read("viquae", mini.viquae(tmp_path))
    sample = samples["0f1e2d3c"]
    assert sample.question == "In which city was this inventor born?"
    assert "Adé" not in json.dumps([sample.question, sample.attributes], ensure_ascii=False)
    assert sample.answers.accepted == (("Springfield",), ("City of Springfield",))
    assert (sample.answers.canonical, sample.answers.rule) == ("Springfield", "viquae")


def test_viquae_gold_by_title_else_by_entity(tmp_path):
    source, samples, _ = read("viquae", mini.viquae(tmp_path))
    assert [(g.id, g.text) for g in samples["0f1e2d3c"].gold] == [
        ("12345#p0", "Adé Sample was an inventor born in Springfield.")
    ]
    assert [(g.id, g.level) for g in samples["raw"].gold] == [
        ("77#p0", "passage")
    ]  # KILT's own form of output and text
    person, thing = source.documents()
    assert (
        person.text == "Adé Sample was an inventor born in Springfield.\nHe died elsewhere."
    )  # no title, heading, bullet
    assert person.image.uri == "images/512px-Adé_Sample_2.jpg"
    assert thing.image is None


def test_viquae_file_names_meet_unescaped(tmp_path):
    import unicodedata

    mini.viquae(tmp_path)
    path = tmp_path / "images/512px-Adé_Sample_(1).jpg"
    path.rename(path.with_name(unicodedata.normalize("NFD", path.name)))
    _, samples, problems = read("viquae", tmp_path)
    assert samples["0f1e2d3c"].images
    assert not problems.lines


def test_viquae_missing_parts_are_told(tmp_path):
    mini.viquae(tmp_path)
    (tmp_path / "humans_with_faces.jsonl.gz").unlink()
    _, samples, problems = read("viquae", tmp_path)
    assert samples["0f1e2d3c"].attributes[DEFECT] == "gold article missing: Absent page, Adé Sample"
    assert places(problems.lines)[0] == "humans_with_faces.jsonl.gz"


# --- siblings ---


def test_mmmu_options_letters_and_open_answers(tmp_path):
    _, samples, _ = read("mmmu", mini.mmmu(tmp_path))
    choice, open_ = samples.values()
    assert choice.answers.choices[1] == ("B", "2")
    assert (choice.answers.kind, choice.answers.accepted, choice.answers.display_form) == (
        "choice",
        (("B",),),
        "(B) 2",
    )
    assert choice.question == "Find x in <image 1>."
    assert len(choice.images) == 1
    assert open_.answers.accepted == (("24/7",), ("3.429",))
    assert choice.topic == "Math"


def test_mmmu_a_letter_without_an_option_is_named(tmp_path):
    import pyarrow.parquet as pq

    mini.mmmu(tmp_path)
    rows = pq.read_table(tmp_path / "Math/validation-00000-of-00001.parquet").to_pylist()
    rows[0]["answer"] = "J"
    (tmp_path / "b").mkdir()
    mini.mmmu(tmp_path / "b", rows)
    _, samples, problems = read("mmmu", tmp_path / "b")
    assert len(samples) == 1
    assert "'J'" in only(problems.lines)


def test_mmlongbench_marks_the_unanswerable(tmp_path):
    _, samples, _ = read("mmlongbench", mini.mmlongbench(tmp_path))
    many, none, odd, share = samples.values()
    assert (many.answers.kind, many.answers.accepted) == ("parts", (("North", "South"),))
    assert [g.id for g in many.gold] == ["sample.pdf#2", "sample.pdf#7"]
    assert [s.answerable for s in samples.values()] == [True, False, True, True]
    assert none.attributes["evidence_pages"] == "2"  # pages do not tell
    assert none.gold == ()
    assert odd.answers.kind == "string"  # 14:04 CET among the Ints
    assert (share.answers.number, share.answers.unit) == ((18.29, 18.29), "%")
    assert [g.id for g in share.gold] == ["sample.pdf#2"]  # page 0 is noted


def test_simpleqa_reads_quotes_and_metadata(tmp_path):
    _, samples, _ = read("simpleqa", mini.simpleqa(tmp_path))
    prize, who = samples.values()
    assert prize.question == 'In what year was the Sample Prize, the "old" one, founded?'
    assert (prize.topic, prize.attributes["answer_type"], prize.attributes["urls"]) == (
        "Art",
        "Date",
        "https://a.example/1",
    )
    assert who.topic == ""


def test_beir_zero_is_unjudged_and_leading_zeros_stay(tmp_path):
    _, samples, _ = read("beir", mini.beir(tmp_path))
    sample = samples["q1"]
    assert [g.id for g in sample.gold] == ["001"]
    assert sample.negatives == ()
    (tmp_path / "qrels/test.tsv").write_text(
        "q1 0 001 1\nq1 Q0 d2 1.0\nq1 0 gone 2\n"
    )  # TREC's form, no header
    _, samples, problems = read("beir", tmp_path)
    assert [g.id for g in samples["q1"].gold] == ["001", "d2"]
    assert samples["q1"].attributes[DEFECT] == "gold document missing: gone"
    assert len(problems) == 1


@pytest.mark.parametrize("score", ["inf", "-1e999", "nan", "\u00b2", "x"])
def test_beir_scores_that_are_none_are_told(tmp_path, score):
    mini.beir(tmp_path)
    mini.put(
        tmp_path / "qrels/test.tsv", f"query-id\tcorpus-id\tscore\nq1\t001\t1\nq1\td2\t{score}\n"
    )
    _, samples, problems = read("beir", tmp_path)
    assert list(samples) == ["q1"]
    assert problems.lines[0].startswith("test.tsv:3 (qrels): ")


def test_beir_judgements_that_lack_a_field_are_named(tmp_path):
    mini.beir(tmp_path)
    mini.put(
        tmp_path / "qrels/more.jsonl",
        '{"query-id": "q1", "corpus-id": "001", "score": 1}\n{"query-id": "q1"}\n',
    )
    _, samples, problems = read("beir", tmp_path, split="more")
    assert list(samples) == ["q1"]
    assert problems.lines[0].startswith("more.jsonl:2 (qrels): field 'corpus-id'")


def test_beir_without_answers_says_what_to_do(tmp_path):
    _, samples, problems = read("beir", mini.beir(tmp_path), answers="answers")
    assert not samples
    assert "beir:FOLDER?answers=FIELD" in only(problems.lines)


@pytest.mark.parametrize("value", [5, True, "x"])
def test_a_number_where_a_list_belongs_is_that_rows_problem(tmp_path, value):
    facts = mini.webqa_rows()
    facts[mini.GUID]["img_posFacts"] = facts[mini.GUID]["txt_negFacts"] = value
    mini.webqa(tmp_path / "webqa", facts)
    mini.viquae(
        tmp_path / "viquae", [mini.viquae_row(output=[{"answer": ["a"], "provenance": value}])]
    )
    mini.mrag(
        tmp_path / "mrag",
        {"test-0.parquet": [mini.mrag_row(gt_images=value, retrieved_images=value)]},
    )
    for name in ("webqa", "viquae", "mrag"):
        source, _, problems = read(name, tmp_path / name)
        list(source.documents())
        assert problems.lines or name == "viquae"  # its gold is found by the entity


def edited(path, change):
    """Rewrite a JSON Lines file with every row changed."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    mini.lines(path, [change(row) or row for row in rows])


ESCAPED = "the AT&amp;T &amp;lt;b&amp;gt; tower of x?a=1&copy=2"
DECODED = "the AT&T &lt;b&gt; tower of x?a=1&copy=2"


def escaped_infoseek(folder):
    mini.infoseek(folder)
    edited(
        folder / "infoseek_val.jsonl",
        lambda row: row.update(question=ESCAPED, answer=[ESCAPED], answer_eval=[ESCAPED]),
    )


def escaped_evqa(folder):
    row = mini.evqa_row(question=ESCAPED, answer=ESCAPED, question_type="templated")
    mini.evqa(folder, [row | {"evidence": ESCAPED}])


def escaped_webqa(folder):
    rows = mini.webqa_rows()
    for row in rows.values():
        row.update(Q=ESCAPED, A=[ESCAPED])
        for fact in row["txt_posFacts"]:
            fact["fact"] = ESCAPED
    mini.webqa(folder, rows)


def escaped_mmdocrag(folder):
    row = mini.mmdocrag_row(question=ESCAPED, answer_short=ESCAPED, gold_quotes=["text1"])
    row["text_quotes"][0]["text"] = ESCAPED
    mini.mmdocrag(folder, [row])


@pytest.mark.parametrize("write", [escaped_infoseek, escaped_evqa, escaped_webqa, escaped_mmdocrag])
def test_entities_of_native_texts_are_decoded_once(write, tmp_path):
    write(tmp_path)
    source, samples, _ = read(write.__name__.removeprefix("escaped_"), tmp_path)
    texts = [document.text for document in source.documents() if document.text]
    for sample in samples.values():
        if sample.split == "dev_20":
            continue
        assert sample.question == DECODED
        assert sample.answers.accepted[0][0] == DECODED
        texts += [e.text for e in sample.gold if e.text]
    assert not any("&amp;" in text for text in texts)
    assert DECODED in texts or write is escaped_infoseek


@pytest.mark.parametrize("span", [["108", "132.0"], [108, "132"], "[108, 132]", ["108", 132, 140]])
def test_a_range_of_texts_is_a_range(span, tmp_path):
    mini.infoseek(tmp_path)
    edited(tmp_path / "infoseek_val.jsonl", lambda row: row.update(answer_eval=[{"range": span}]))
    _, samples, problems = read("infoseek", tmp_path)
    assert not problems.lines
    assert {sample.answers.number for sample in samples.values()} == {(108.0, 132.0)}


@pytest.mark.parametrize("span", [["a", "b"], [1], [True, 2], ["nan", 1], None])
def test_what_is_no_range_is_refused(span, tmp_path):
    mini.infoseek(tmp_path)
    edited(tmp_path / "infoseek_val.jsonl", lambda row: row.update(answer_eval=[{"range": span}]))
    _, samples, problems = read("infoseek", tmp_path)
    assert not samples
    assert len(problems) == 4


@pytest.mark.parametrize("of_questions", ["Café_(x)", "Caf%C3%A9_%28x%29", "Cafe\u0301%20(x)"])
@pytest.mark.parametrize("of_base", ["Café_(x)", "Caf%C3%A9_(x)", "Caf%c3%a9_%28x%29"])
def test_urls_that_are_escaped_differently_are_one_page(of_questions, of_base, tmp_path):
    mini.evqa(tmp_path, [mini.evqa_row(wikipedia_url=mini.WIKI + of_questions)])
    base = tmp_path / "encyclopedic_kb_wiki.json"
    base.write_text(base.read_text().replace(mini.WIKI + "Fictia_alba", mini.WIKI + of_base))
    source, samples, problems = read("evqa", tmp_path)
    assert not problems.lines
    assert {e.id for e in only(list(samples.values())).gold} <= {d.id for d in source.documents()}


def test_nulls_in_lists_are_nothing(tmp_path):
    mini.infoseek(tmp_path / "infoseek")
    (tmp_path / "infoseek/infoseek_val_qtype.jsonl").unlink()
    edited(
        tmp_path / "infoseek/infoseek_val.jsonl",
        lambda row: row.update(answer=[None, "x"], answer_eval=[None, "x"]),
    )
    rows = mini.webqa_rows()
    for row in rows.values():
        row["A"] = [None, "x"]
        row["txt_posFacts"].append(None)
    mini.webqa(tmp_path / "webqa", rows)
    quoted = mini.mmdocrag_row(answer_short=["x", None], gold_quotes=["image1", None])
    quoted["text_quotes"].append(None)
    mini.mmdocrag(tmp_path / "mmdocrag", [quoted])
    for name in ("infoseek", "webqa", "mmdocrag"):
        _, samples, problems = read(name, tmp_path / name)
        assert not problems.lines, name
        found = {s.answers.accepted for s in samples.values() if s.split != "dev_20"}
        assert found == {(("x",),)}, name


# --- CRAG-MM ---------------------------------------------------------------------------------------


def test_crag_turns_are_samples_with_their_history(tmp_path):
    _, samples, _ = read("crag_mm", mini.crag_mm(tmp_path))
    assert set(samples) == {"s1-0", "s2-0", "m1-0", "m1-1", "m1-2"}
    last = samples["m1-2"]
    assert [turn.content for turn in last.turns] == [
        "What is part 0 of this car?",
        "Part 0 is a wheel.",
        "What is part 1 of this car?",
        "Part 1 is a wheel.",
    ]
    assert last.answers.accepted == (("Part 2 is a wheel.",),)  # joined by id, not by place
    assert (last.topic, last.cluster, last.attributes["turn"]) == ("vehicles", "m1", "3")
    assert samples["m1-1"].attributes["query_category"] == "multi-hop"
    assert samples["m1-1"].attributes["dynamism"] == "0"  # its names are not in the file
    assert not samples["m1-0"].turns
    assert samples["m1-0"].images == last.images


def test_crag_older_layout_and_save_to_disk_read_the_same(tmp_path):
    import datasets

    row = mini.crag_conversation("m1", 3)
    listed = {
        name: [
            dict(zip(row[name], values, strict=True))
            for values in zip(*row[name].values(), strict=True)
        ]
        for name in ("turns", "answers")
    }
    mini.crag_table(tmp_path / "new/validation-0.parquet", [row])
    mini.crag_table(tmp_path / "old/validation-0.parquet", [row | listed])
    (tmp_path / "disk").mkdir()
    datasets.Dataset.from_list([row]).cast_column("image", datasets.Image()).save_to_disk(
        tmp_path / "disk"
    )
    new, old, disk = (read("crag_mm", tmp_path / name)[1] for name in ("new", "old", "disk"))
    assert {i: (s.question, s.answers, s.turns) for i, s in new.items()} == {
        i: (s.question, s.answers, s.turns) for i, s in old.items()
    }
    assert [s.images[0].sha256 for s in disk.values()] == [s.images[0].sha256 for s in new.values()]


def test_crag_pictures_by_address_are_told_or_taken_from_the_folder(tmp_path):
    address = "https://example.org/car.jpg"
    rows = [
        mini.crag_conversation(name, 1, image=None, image_url=address) for name in ("here", "away")
    ]
    mini.crag_table(tmp_path / "validation-0.parquet", rows)
    mini.put(tmp_path / "images/here.png", mini.png(5))
    _, samples, problems = read("crag_mm", tmp_path)
    assert DEFECT not in samples["here-0"].attributes
    assert samples["here-0"].attributes["egocentric"] == "no"
    assert "not downloaded" in samples["away-0"].attributes[DEFECT]
    assert only(problems.lines).startswith("validation-0.parquet:1 (away-0)")


def test_crag_bad_conversations_cost_nothing_else(tmp_path):
    whole, ragged, silent = (mini.crag_conversation(name) for name in ("a", "b", "c"))
    ragged["turns"]["query"].pop()
    silent["answers"] = {
        key: values[1:] for key, values in silent["answers"].items()
    }  # turn 1 of 2
    skipped = mini.crag_conversation("04d98259-27af-41b1-a7be-5798fd1b8e95")
    mini.crag_table(tmp_path / "validation-0.parquet", [whole, ragged, silent, skipped])
    source, samples, problems = read("crag_mm", tmp_path)
    assert set(samples) == {"a-0", "a-1", "c-0"}
    assert [line.partition(":")[0] for line in problems.lines] == ["validation-0.parquet"] * 2
    assert source.notes["sessions that the official evaluation skips"] == 1


def test_crag_corpora_are_read_without_touching_the_store(tmp_path):
    folder = mini.crag_mm(tmp_path)
    stored = (folder / "web/chroma.sqlite3").read_bytes()
    source, _, _ = read("crag_mm", folder)
    documents = {d.id: d for d in source.documents()}
    assert set(documents) == {
        "entity:Wheel",
        "entity:Car",
        "https://example.org/wheel.png",
        "7_chunk_0",
        "7_chunk_1",
    }
    assert documents["entity:Wheel"].text == "Wheel\nmade of: rubber\nspokes: 12"
    assert page_of(documents["https://example.org/wheel.png"]) == "entity:Wheel"
    assert documents["7_chunk_1"].page == "https://example.org/wheels"
    assert (folder / "web/chroma.sqlite3").read_bytes() == stored
    mini.put(folder / "web/chroma.sqlite3", b"no database")
    with raises(DataError, item="web/chroma.sqlite3", cure="download"):
        list(source.documents())
    (folder / "web/chroma.sqlite3").unlink()
    with closing(sqlite3.connect(folder / "web/chroma.sqlite3")) as store:
        endless = (
            "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n"
        )
        store.execute(f"CREATE VIEW embeddings AS {endless}")
        store.execute("CREATE TABLE embedding_metadata (id, key)")
    with raises(DataError, item="web/chroma.sqlite3", cure="download"):
        list(source.documents())
