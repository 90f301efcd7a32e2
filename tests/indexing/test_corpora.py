import base64
import csv
import gzip
import json
import os
import tracemalloc
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from errors import places, raises
from PIL import Image
from strategies import png

from demur.core.errors import DataError, StorageError, UnknownPart, UsageError
from demur.core.records import Document
from demur.core.store import Problems
from demur.core.uris import read_image
from demur.corpora import NOT_DOWNLOADED, READERS, folder, read_corpus


def lines(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def read(text, expected_problems=0):
    problems = Problems()
    documents = list(read_corpus(str(text), problems))
    assert len(problems) == expected_problems, problems.lines
    return documents, problems.lines


def test_records_and_tables(tmp_path):
    own = Document(id="a", title="A", text="first", page="p", attributes={"summary": "s"})
    lines(tmp_path / "own.jsonl", [own.model_dump(mode="json")])
    assert read(tmp_path / "own.jsonl")[0] == [own]
    rows = [{"_id": 7, "title": None, "body": "x, y"}, {"_id": "8", "title": "T", "body": ""}]
    lines(tmp_path / "kb.jsonl.gz", rows)
    lines(tmp_path / "KB.JSONL", rows)
    assert [d.id for d in read(f"{tmp_path / 'KB.JSONL'}?text=body")[0]] == ["7", "8"]
    documents, _ = read(f"{tmp_path / 'kb.jsonl.gz'}?text=body&licence=MIT")
    assert [(d.id, d.title, d.text, d.licence) for d in documents] == [
        ("7", "", "x, y", "MIT"),
        ("8", "T", "", "MIT"),
    ]
    with (tmp_path / "kb.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([["id", "text", "page"], ["1", 'a\n"b"', "P"], ["short"]])
    documents, problems = read(tmp_path / "kb.csv", 1)
    assert (documents[0].text, documents[0].page) == ('a\n"b"', "P")
    assert "expected 3 fields" in problems[0]
    (tmp_path / "kb.tsv").write_text("text\tname\nhello\tN\n")
    assert [(d.id, d.title) for d in read(tmp_path / "kb.tsv")[0]] == [("kb:0", "N")]


def test_parquet_with_image_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table(
        {
            "id": ["a", "b"],
            "caption": ["red", "blue"],
            "image": [{"bytes": png("red")}, {"bytes": b"?"}],
        }
    )
    pq.write_table(table, tmp_path / "kb.parquet")
    documents, problems = read("kb.parquet", 1)
    assert [d.title for d in documents] == ["red"]
    assert read_image(documents[0].image) == png("red")
    assert "b" in problems[0]


def test_pictures_in_cells_and_at_addresses(tmp_path):
    text = base64.b64encode(png("red")).decode()
    rows = [
        {"id": "1", "image": text},
        {"id": "2", "image": f"data:image/png;base64,{text}"},
        {"id": "3", "image": {"bytes": text}},
        {"id": "4", "image": "https://example.org/x.png"},
    ]
    pq.write_table(pa.Table.from_pylist(rows[:2]), tmp_path / "kb.parquet")
    for name, bad in (("kb.jsonl", 1), ("kb.parquet", 0)):
        if bad:
            lines(tmp_path / name, rows)
        documents, problems = read(tmp_path / name, bad)
        assert [d.id for d in documents] == ["1", "2", "3"][: len(documents)]
        assert {read_image(d.image) for d in documents} == {png("red")}
        assert all("https://example.org/x.png" in p and NOT_DOWNLOADED in p for p in problems)


def test_linked_folders_of_images_are_read_once(tmp_path):
    for path in (tmp_path / "photos/a/1.png", tmp_path / "disk/2.png"):
        path.parent.mkdir(parents=True)
        path.write_bytes(png())
    (tmp_path / "photos" / "b").symlink_to(tmp_path / "disk")
    (tmp_path / "photos" / "c").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "up").symlink_to(tmp_path / "photos")
    documents, _ = read(f"images:{tmp_path / 'photos'}")
    assert [d.id for d in documents] == ["a/1.png", "b/2.png"]


def test_image_paths_stay_in_their_folder(tmp_path):
    (tmp_path / "kb").mkdir()
    (tmp_path / "out.png").write_bytes(png())
    (tmp_path / "kb" / "in.png").write_bytes(png())
    lines(
        tmp_path / "kb" / "kb.jsonl",
        [{"id": "1", "image": "in.png"}, {"id": "2", "image": "../out.png"}],
    )
    documents, problems = read(tmp_path / "kb" / "kb.jsonl", 1)
    assert [d.id for d in documents] == ["1"]
    assert "../out.png" in problems[0]


def test_wiki6m(tmp_path):
    (tmp_path / "img" / "Q999").mkdir(parents=True)
    (tmp_path / "img" / "Q999" / "Q999001.jpg").write_bytes(png())
    row = {
        "wikidata_id": "Q999001",
        "wikipedia_title": "Old Mill Bridge",
        "wikipedia_content": "It is 120 metres long.",
        "wikipedia_summary": "A bridge.",
        "wikipedia_image_url": None,
    }
    rows = [
        row,
        row | {"wikipedia_title": "again"},
        {"wikidata_id": "Q2", "wikipedia_content": None},
    ]
    lines(tmp_path / "w.jsonl.gz", rows)
    documents, problems = read(f"wiki6m:{tmp_path / 'w.jsonl.gz'}?images={tmp_path / 'img'}", 1)
    assert [(d.id, d.page, d.title) for d in documents] == [
        ("Q999001", "Q999001", "Old Mill Bridge")
    ]
    assert documents[0].attributes == {"summary": "A bridge."}
    assert documents[0].image.width == 12
    assert "w.jsonl.gz:3 (Q2)" in places(problems)


EVQA = {
    "https://en.wikipedia.org/wiki/Fictia_alba": {
        "title": "Fictia alba",
        "section_titles": ["Fictia alba", "Description", "Empty"],
        "section_texts": ["Fictia alba is a shrub.", "It grows up to 2 m.", ""],
        "image_urls": ["https://x/gone.jpg", "https://x/1.jpg", "https://x/2.jpg"],
        "image_reference_descriptions": [None, "In flower", None],
        "image_section_indices": [0, 0, 1],
        "url": "https://en.wikipedia.org/wiki/Fictia_alba",
    },
    "https://en.wikipedia.org/wiki/B": {
        "title": "B",
        "section_titles": ["B"],
        "section_texts": ["A page."],
        "image_urls": [],
    },
    "broken": 3,
}


def test_evqa(tmp_path):
    (tmp_path / "kb.json").write_text(json.dumps(EVQA))
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_bytes(png())
    lines(
        tmp_path / "map.jsonl",
        [{"image_url": f"https://x/{i}.jpg", "path": f"{i}.png"} for i in (1, 2)],
    )
    url = "https://en.wikipedia.org/wiki/Fictia_alba"
    documents, problems = read(f"evqa:{tmp_path / 'kb.json'}?images={tmp_path / 'map.jsonl'}", 1)
    assert [d.id for d in documents] == [
        f"{url}#0",
        f"{url}#1",
        f"{url}#image1",
        "https://en.wikipedia.org/wiki/B#0",
    ]
    assert [d.title for d in documents[:3]] == [
        "Fictia alba",
        "Fictia alba: Description",
        "In flower",
    ]
    assert documents[1].attributes["summary"] == "Fictia alba is a shrub."
    assert "broken" in problems[0]
    documents, _ = read(f"evqa:{tmp_path / 'kb.json'}?images={tmp_path / 'map.jsonl'}&which=all", 1)
    assert sum(d.image is not None for d in documents) == 2
    with raises(UsageError, "which", "none", cure="which=first"):
        read(f"evqa:{tmp_path / 'kb.json'}?which=none")


@pytest.mark.heavy
def test_evqa_in_bounded_memory(tmp_path):
    page = {"title": "T", "section_titles": ["T"], "section_texts": ["word " * 4000]}
    with (tmp_path / "kb.json").open("w") as handle:
        handle.write("{" + ",".join(f'"u{i}": {json.dumps(page)}' for i in range(1500)) + "}")
    assert (tmp_path / "kb.json").stat().st_size > 30e6
    tracemalloc.start()
    count = sum(1 for _ in read_corpus(f"evqa:{tmp_path / 'kb.json'}", Problems()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1500
    assert peak < 8e6


def test_kilt_and_viquae(tmp_path):
    (tmp_path / "Ada_Sample_2.jpg").write_bytes(png())
    paragraphs = [
        "Ada Sample\n",
        "Ada Sample was an inventor.\n",
        "Section::::Life.\n",
        "BULLET::::- 1901\n",
    ]
    row = {
        "wikipedia_id": "12345",
        "wikipedia_title": "Ada Sample",
        "image": "Ada%5FSample_2.jpg",
        "text": {"paragraph": paragraphs},
        "wikidata_info": {"wikidata_id": "Q999002"},
    }
    lines(
        tmp_path / "k.json",
        [row, row | {"wikipedia_id": "6", "text": paragraphs, "image": None}, {"text": []}],
    )
    documents, problems = read(f"kilt:{tmp_path / 'k.json'}?images={tmp_path}", 1)
    assert [d.id for d in documents] == ["12345", "6"]
    assert documents[0].text == "Ada Sample was an inventor.\nLife.\n- 1901"
    assert documents[0].attributes == {
        "summary": "Ada Sample was an inventor.",
        "wikidata_id": "Q999002",
    }
    assert documents[0].image is not None
    assert documents[1].image is None
    assert "wikipedia_id" in problems[0]


def test_dpr(tmp_path):
    text = 'id\ttext\ttitle\n1\t"Ada Sample was an ""inventor"" ..."\tAda Sample\n2\tplain\tB\n'
    (tmp_path / "p.tsv.gz").write_bytes(gzip.compress(text.encode()))
    documents, _ = read(f"dpr:{tmp_path / 'p.tsv.gz'}")
    assert [(d.id, d.text, d.page) for d in documents] == [
        ("1", 'Ada Sample was an "inventor" ...', "Ada Sample"),
        ("2", "plain", "B"),
    ]


def test_beir(tmp_path):
    lines(
        tmp_path / "corpus.jsonl", [{"_id": "007", "title": None, "text": "t"}, {"text": "no id"}]
    )
    documents, problems = read(tmp_path, 1)
    assert [(d.id, d.title, d.text) for d in documents] == [("007", "", "t")]
    assert "corpus.jsonl:2" in problems[0]
    lines(tmp_path / "x-corpus.jsonl", [{"_id": "1", "title": "T", "text": "t"}])
    assert read(f"beir:{tmp_path}?prefix=x")[0][0].title == "T"
    with raises(DataError, "y-corpus.jsonl", item=tmp_path, cure="?prefix="):
        read(f"beir:{tmp_path}?prefix=y")


def test_image_folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a_red-one.png").write_bytes(png())
    (tmp_path / "sub" / "b.jpg").write_bytes(png("blue"))
    (tmp_path / "broken.png").write_bytes(png()[:40])
    (tmp_path / "notes.txt").write_text("no image")
    lines(tmp_path / "metadata.jsonl", [{"file_name": "sub/b.jpg", "text": "a blue thing"}])
    documents, problems = read(f"images:{tmp_path}", 1)
    assert [(d.id, d.title) for d in documents] == [
        ("a_red-one.png", "a red one"),
        ("sub/b.jpg", "a blue thing"),
    ]
    assert "broken.png" in problems[0]


def test_tables_of_other_things_in_a_folder_of_documents_are_left_out(tmp_path):
    (tmp_path / "guide.md").write_text("# Guide\n\ntext")
    (tmp_path / "counts.csv").write_text("year,count\n2001,5\n")
    documents, problems = read(f"docs:{tmp_path}", 1)
    assert [d.id for d in documents] == ["guide.md"]
    assert places(problems)[0] == "counts.csv"


def test_a_folder_is_read_whatever_its_name(tmp_path, monkeypatch):
    """One named like a reader is that folder, not the current one; one without images names the other reader."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.png").write_bytes(png())
    for name in ("docs", "images", "beir"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(png("blue"))
        assert [d.id for d in read(name)[0]] == ["a.png"]
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "a.md").write_text("# A\n\ntext")
    with raises(UsageError, item="handbook", cure="docs:handbook"):
        read("handbook")
    with raises(UsageError, item="nowhere"):
        read("nowhere")


@pytest.mark.parametrize(
    ("reader", "row"),
    [
        ("kilt", {"wikipedia_id": "1", "text": ["a"], "image": "x.png"}),
        ("wiki6m", {"wikidata_id": "Q1", "wikipedia_content": "a"}),
    ],
)
def test_pictures_that_are_not_there_are_told(tmp_path, caplog, reader, row):
    lines(tmp_path / "kb.jsonl", [row])
    with raises(StorageError, item=tmp_path / "mistyped"):
        read(f"{reader}:{tmp_path / 'kb.jsonl'}?images={tmp_path / 'mistyped'}")
    documents, _ = read(f"{reader}:{tmp_path / 'kb.jsonl'}?images={tmp_path}")
    assert documents[0].image is None
    assert "1 pictures" in caplog.text


@pytest.mark.slow
def test_a_broken_file_of_a_dataset_is_told_in_one_line(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "x"}\n{broken\n')
    with raises(StorageError, item=tmp_path, cure="split"):
        read(f"datasets:{tmp_path}?split=train")


def test_datasets(tmp_path):
    lines(tmp_path / "train.jsonl", [{"id": "1", "text": "t", "title": "T"}])
    documents, _ = read(f"datasets:{tmp_path}?split=train")
    assert [(d.id, d.text) for d in documents] == [("1", "t")]
    with pytest.raises(StorageError, match="datasets:"):
        read(f"datasets:{tmp_path}?split=nowhere")


def test_errors_name_the_cure(tmp_path):
    lines(tmp_path / "kb.jsonl", [{"id": "1", "weight": 3}])
    with raises(UsageError, "id, weight", item="kb.jsonl", cure="?text="):
        read(tmp_path / "kb.jsonl")
    with raises(UsageError, "'body'", item="kb.jsonl", cure="text="):
        read(f"{tmp_path / 'kb.jsonl'}?text=body")
    with raises(UsageError, "'txt'", cure="text="):
        read(f"jsonl:{tmp_path / 'kb.jsonl'}?txt=body")
    with raises(UnknownPart, "jsnl", cure="'jsonl'"):
        read("jsnl:kb")
    with raises(StorageError, item=tmp_path / "gone.jsonl"):
        read(f"jsonl:{tmp_path / 'gone.jsonl'}")
    (tmp_path / "kb.bin").write_bytes(b"")
    with pytest.raises(UsageError, match="READER:PATH"):
        read(tmp_path / "kb.bin")
    assert {"wiki6m", "evqa", "kilt", "dpr", "beir", "images", "datasets"} <= set(READERS)


def test_plain_rows_take_numbers_as_ids_and_obey_options(tmp_path):
    rows = [{"id": 1, "title": "A", "text": "x"}, {"id": 2, "title": None, "text": "y"}]
    documents, problems = read(lines(tmp_path / "kb.jsonl", rows))
    assert [(d.id, d.title) for d in documents] == [("1", "A"), ("2", "")]
    assert not problems
    rows = [{"id": "1", "title": "A", "text": "x"}, {"id": "2", "title": "A", "text": "y"}]
    documents, _ = read(f"jsonl:{lines(tmp_path / 'pages.jsonl', rows)}?page=title&licence=CC0")
    assert {(d.page, d.licence) for d in documents} == {("A", "CC0")}


def test_a_set_saved_to_disk(tmp_path):
    import datasets

    whole = datasets.Dataset.from_list([{"id": "1", "text": "t", "title": "T"}])
    whole.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": whole}).save_to_disk(tmp_path / "many")
    for name in ("one", "many"):
        documents, _ = read(f"datasets:{tmp_path / name}")
        assert [(d.id, d.text) for d in documents] == [("1", "t")]
    with pytest.raises(StorageError, match="datasets:"):
        read(f"datasets:{tmp_path / 'many'}?split=nowhere")


def test_pipes_and_folders_named_like_images_hold_nothing_up(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "folder.png" / "in it.png").write_bytes(png())
    documents, problems = read(f"images:{tmp_path}", 1)
    assert [d.id for d in documents] == ["folder.png/in it.png"]
    assert places(problems) == ["pipe.png"]


def test_repeated_articles_are_told(tmp_path, caplog):
    row = {
        "wikidata_id": "Q1",
        "wikipedia_title": "T",
        "wikipedia_content": "C",
        "wikipedia_summary": "S",
    }
    documents, _ = read(f"wiki6m:{lines(tmp_path / 'wiki.jsonl', [row, row, row])}")
    assert [d.id for d in documents] == ["Q1"]
    assert "2 later rows" in caplog.text


def test_json_rows_are_read_by_their_own_keys(tmp_path):
    (tmp_path / "x.png").write_bytes(png())
    rows = [
        {"title": "no id", "text": "first"},
        {"_id": "b", "body": "the dog", "page": "p"},
        {"id": "c", "image": "x.png", "name": "a cow"},
        {"id": None, "text": "null"},
        {"id": "e", "weight": 3},
    ]
    documents, problems = read(lines(tmp_path / "kb.jsonl", rows), 2)
    assert [(d.id, d.title, d.text, d.page) for d in documents] == [
        ("kb:0", "no id", "first", ""),
        ("b", "", "the dog", "p"),
        ("c", "a cow", None, ""),
    ]
    assert places(problems)[:2] == ["kb.jsonl:4", "kb.jsonl:5 (e)"]
    documents, _ = read(f"{tmp_path / 'kb.jsonl'}?text=body", 3)
    assert [d.id for d in documents] == ["b", "c"]


def test_values_of_parquet_that_are_not_texts(tmp_path):
    table = pa.table(
        {
            "id": pa.array([1.0, float("nan"), 2.5, None, 4.0, 5.0]),
            "text": pa.array([b"ok", b"x", "Größe".encode(), b"y", b"\xff\xfe", None], pa.binary()),
            "title": pa.array(["a", "b", "c", "d", "e", "f"]),
        }
    )
    pq.write_table(table, tmp_path / "kb.parquet")
    documents, problems = read(tmp_path / "kb.parquet", 4)
    assert [(d.id, d.text) for d in documents] == [("1", "ok"), ("2.5", "Größe")]
    assert places(problems)[:4] == [
        "kb.parquet:1",
        "kb.parquet:3",
        "kb.parquet:4",
        "kb.parquet:5 (5)",
    ]
    assert "'text'" in problems[2]
    documents, problems = read(lines(tmp_path / "kb.jsonl", [{"id": "l", "text": ["a list"]}]), 1)
    assert problems[0].startswith("kb.jsonl:1: 'text'")


def test_images_of_beir(tmp_path):
    (tmp_path / "x.png").write_bytes(png())
    rows = [
        {"_id": "d1", "modality": "image", "text": None, "image": "x.png"},
        {"_id": "d2", "text": "its caption", "image": "x.png"},
        {"_id": "d3", "text": "a text", "image": None},
        {"_id": "d4", "text": "", "image": ""},
        {"_id": "d5", "image": "gone.png"},
    ]
    lines(tmp_path / "corpus.jsonl", rows)
    documents, problems = read(f"beir:{tmp_path}", 1)
    assert [(d.id, d.title, d.text, d.image is not None) for d in documents] == [
        ("d1", "", None, True),
        ("d2", "its caption", None, True),
        ("d3", "", "a text", False),
        ("d4", "", "", False),
    ]
    assert "corpus.jsonl:5 (d5)" in problems[0]


def test_images_are_found_from_another_folder(tmp_path, monkeypatch):
    kb = tmp_path / "kb"
    (kb / "Q999").mkdir(parents=True)
    (kb / "x.png").write_bytes(png())
    (kb / "Q999" / "Q9990.jpg").write_bytes(png())
    lines(kb / "rows.jsonl", [{"id": "1", "image": "x.png"}])
    lines(kb / "corpus.jsonl", [{"_id": "1", "image": "x.png"}])
    lines(
        kb / "w.jsonl", [{"wikidata_id": "Q9990", "wikipedia_title": "T", "wikipedia_content": "C"}]
    )
    lines(
        kb / "k.json",
        [{"wikipedia_id": "1", "wikipedia_title": "T", "text": ["C"], "image": "x.png"}],
    )
    (kb / "e.json").write_text(
        json.dumps({"u": {"title": "T", "section_texts": [], "image_urls": ["http://x"]}})
    )
    lines(kb / "map.jsonl", [{"image_url": "http://x", "path": "x.png"}])
    pq.write_table(pa.table({"id": ["1"], "image": [{"bytes": png()}]}), kb / "rows.parquet")
    own = Document(
        id="1", title="", image={"sha256": "0" * 64, "uri": "x.png", "width": 1, "height": 1}
    )
    lines(kb / "own.jsonl", [own.model_dump(mode="json")])
    corpora = [
        "images:kb",
        "kb/rows.jsonl",
        "kb/rows.parquet",
        "beir:kb",
        "wiki6m:kb/w.jsonl?images=kb",
        "kilt:kb/k.json?images=kb",
        "evqa:kb/e.json?images=kb/map.jsonl",
        "kb/own.jsonl?root=kb",
    ]
    monkeypatch.chdir(tmp_path)
    uris = {
        corpus: [d.image.uri for d in read(corpus)[0] if d.image is not None] for corpus in corpora
    }
    assert uris.pop("kb/rows.parquet") == [f"parquet:{kb}/rows.parquet#0/image"]
    assert uris.pop("images:kb") == [f"{kb}/Q999/Q9990.jpg", f"{kb}/x.png"]
    assert uris.pop("wiki6m:kb/w.jsonl?images=kb") == [f"{kb}/Q999/Q9990.jpg"]
    assert {corpus: found for corpus, found in uris.items() if found != [f"{kb}/x.png"]} == {}


def test_an_image_whose_name_is_not_utf8_is_a_problem(tmp_path):
    (tmp_path / "ok.png").write_bytes(png())
    (tmp_path / os.fsdecode(b"latin\xe9.png")).write_bytes(png())
    documents, problems = read(f"images:{tmp_path}", 1)
    assert [d.id for d in documents] == ["ok.png"]
    assert places(problems) == ["latin\\udce9.png"]


def test_what_pillow_opens_is_taken_and_what_is_passed_over_is_told(tmp_path, caplog):
    for name in ("a.jp2", "b.ico", "c.ppm", "d.AVIF"):
        Image.new("RGB", (32, 32), "red").save(tmp_path / name)
    for name in ("notes.txt", "more.txt", "README", "old.psd"):
        (tmp_path / name).write_text("no image")
    (tmp_path / "link").symlink_to(tmp_path)
    documents, _ = read(f"images:{tmp_path}")
    assert [d.id for d in documents] == ["a.jp2", "b.ico", "c.ppm", "d.AVIF"]
    assert "5 files" in caplog.text
    assert "2 .txt" in caplog.text
    assert "1 links" in caplog.text


def test_a_folder_is_walked_in_the_order_of_paths_a_folder_at_a_time(tmp_path):
    for parent in ("b", "a.d", "a"):
        (tmp_path / parent).mkdir()
        for name in ("2.png", "10.png"):
            (tmp_path / parent / name).write_bytes(png())
    (tmp_path / "a.png").write_bytes(png())
    documents, _ = read(f"images:{tmp_path}")
    paths = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.png"))
    assert [d.id for d in documents] == [path.as_posix() for path in paths]


@pytest.mark.heavy
def test_many_names_of_images_cost_little(tmp_path):
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        for name in range(300):
            (tmp_path / str(number) / f"{'x' * 60}{name}.png").touch()
    sum(
        1 for _ in folder.images_below(tmp_path / "0", Problems(), Counter())
    )  # Pillow's formats are loaded once
    tracemalloc.start()
    count = sum(1 for _ in folder.images_below(tmp_path, Problems(), Counter()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 6000
    assert peak < 300_000, "6,000 paths are 2.7 MB"
