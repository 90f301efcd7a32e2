"""Miniature folders in the layout and with the field names of the real sources. All values are invented.

Each builder writes a whole, healthy folder; tests break it where they want to see a complaint.
"""

import base64
import csv
import gzip
import io
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def png(seed=0, size=(8, 6)):
    """A small image that differs from every other seed in its pixels, left to right."""
    image = Image.new("RGB", size)
    image.putdata(
        [
            ((seed * 37 + x * 29 * (seed + 1)) % 256, (y * 31 + seed * 11) % 256, seed % 256)
            for y in range(size[1])
            for x in range(size[0])
        ]
    )
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def put(path: Path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def lines(path: Path, rows):
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    return put(path, gzip.compress(data) if path.suffix == ".gz" else data)


# --- InfoSeek ---

BRIDGE = "Old Mill Bridge is a bridge over the Sample.\nIt is 120 metres long and was built in 1901.\nIt has two towers."


def infoseek(folder: Path):
    lines(
        folder / "infoseek_val.jsonl",
        [
            {
                "data_id": "infoseek_val_00000007",
                "image_id": "oven_00000042",
                "question": "What is the length of this bridge?",
                "answer": ["120"],
                "answer_eval": [{"wikidata": 120.0, "range": [108.0, 132.0]}],
                "data_split": "val_unseen_entity",
            },
            {
                "data_id": "infoseek_val_00000008",
                "image_id": "oven_01000043",
                "question": "Which country is this animal endemic to?",
                "answer": ["Freedonia"],
                "answer_eval": ["Freedonia", "Republic of Freedonia", "FRD"],
                "data_split": "val_unseen_question",
            },
            {
                "data_id": "infoseek_val_00000009",
                "image_id": "oven_02000044",
                "question": "In what year was this built?",
                "answer": ["1901"],
                "answer_eval": ["1900", "1901", "1902"],
                "data_split": "val_unseen_question",
            },
            {
                "data_id": "infoseek_val_00000010",
                "image_id": "oven_03000045",
                "question": "How tall is this?",
                "answer": 77,
                "answer_eval": {"wikidata": [77], "range": [70, 80, 99]},
                "data_split": "val_unseen_question",
            },
        ],
    )
    lines(
        folder / "infoseek_val_withkb.jsonl",
        [
            {
                "data_id": "infoseek_val_00000007",
                "entity_id": "Q999001",
                "entity_text": "Old Mill Bridge",
            },
            {
                "data_id": "infoseek_val_00000008",
                "entity_id": "Q999002",
                "entity_text": "Sample newt",
            },
            {
                "data_id": "infoseek_val_00000009",
                "entity_id": "Q999001",
                "entity_text": "Old Mill Bridge",
            },
            {
                "data_id": "infoseek_val_00000010",
                "entity_id": "Q999003",
                "entity_text": "Tall thing",
            },
        ],
    )
    lines(
        folder / "infoseek_val_qtype.jsonl",
        [
            {"data_id": "infoseek_val_00000007", "question_type": "Numerical"},
            {"data_id": "infoseek_val_00000008", "question_type": "String"},
            {"data_id": "infoseek_val_00000009", "question_type": "Time"},
        ],
    )
    lines(
        folder / "Wiki6M_ver_1_0.jsonl.gz",
        [
            {
                "wikidata_id": "Q1",
                "wikipedia_title": "Other",
                "wikipedia_content": "Other text.",
                "wikipedia_summary": "Other",
                "wikipedia_image_url": None,
            },
            {
                "wikidata_id": "Q999001",
                "wikipedia_title": "Old Mill Bridge",
                "wikipedia_content": BRIDGE,
                "wikipedia_summary": "Old Mill Bridge is a bridge.",
                "wikipedia_image_url": None,
            },
            {
                "wikidata_id": "Q999001",
                "wikipedia_title": "Old Mill Bridge",
                "wikipedia_content": "A later twin.",
                "wikipedia_image_url": "https://upload.wikimedia.org/x.jpg",
            },
            {
                "wikidata_id": "Q999002",
                "wikipedia_title": "Sample newt",
                "wikipedia_summary": "A newt of the far north.",
            },
            {
                "wikidata_id": "Q999003",
                "wikipedia_title": "Tall thing",
                "wikipedia_content": "It is 77 m tall.",
            },
        ],
    )
    put(folder / "oven_images/00/oven_00000042.jpg", png(1))
    put(folder / "oven_images/01/oven_01000043.JPEG", png(2))
    put(folder / "oven_images/oven_02000044.png", png(3))
    put(folder / "elsewhere/three.png", png(4))
    put(folder / "ovenid2impath.csv", "oven_id,path\noven_03000045,elsewhere/three.png\n")
    return folder


# --- Encyclopedic-VQA ---

EVQA_COLUMNS = (
    "question",
    "question_original",
    "answer",
    "dataset_image_ids",
    "dataset_name",
    "dataset_category_id",
    "question_type",
    "wikipedia_url",
    "wikipedia_title",
    "evidence",
    "evidence_section_id",
    "evidence_section_title",
    "encyclopedic_vqa_split",
    "wikipedia_url_used_in_train",
)
WIKI = "https://en.wikipedia.org/wiki/"


def evqa_row(**changes):
    row = dict.fromkeys(EVQA_COLUMNS, "") | {
        "question": "How tall can this plant grow?",
        "question_original": "How tall can Fictia alba grow?",
        "answer": "2 m|two metres",
        "dataset_image_ids": "100001|100002",
        "dataset_name": "inaturalist",
        "dataset_category_id": "4711",
        "question_type": "automatic",
        "wikipedia_url": WIKI + "Fictia_alba",
        "wikipedia_title": "Fictia alba",
        "evidence_section_id": "1",
        "evidence_section_title": "Description",
        "encyclopedic_vqa_split": "test",
        "wikipedia_url_used_in_train": "False",
    }
    return row | changes


def evqa(folder: Path, rows=None, *, zipped=False):
    rows = rows or [
        evqa_row(),
        evqa_row(
            question="What colours are its flowers,\nseen close?",
            answer="red&&blue|blue&&crimson",
            dataset_image_ids="100003",
            question_type="multi_answer",
        ),
        evqa_row(
            question="Who designed the seat of the diocese of this church?",
            answer="A. Mason",
            dataset_image_ids="00ab12cd34ef5678",
            dataset_name="landmarks",
            question_type="2_hop",
            wikipedia_url=f"{WIKI}X|{WIKI}Y",
            wikipedia_title="X|Y",
            evidence_section_id="0|2",
            evidence_section_title="X|Architecture",
        ),
        evqa_row(
            question="What is it?",
            answer="A plant",
            question_type="templated",
            evidence="A shrub of the plains.",
        ),
        evqa_row(question="Where?", answer="Here", evidence_section_id=""),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "test.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(
            handle, EVQA_COLUMNS[::-1]
        )  # the order of the columns is not promised
        writer.writeheader()
        writer.writerows(rows)
    kb = {
        WIKI + "Fictia_alba": {
            "title": "Fictia alba",
            "section_titles": ["Fictia alba", "Description"],
            "section_texts": [
                "Fictia alba is a shrub.",
                "It grows up to 2 m, with red and blue flowers.",
            ],
            "image_urls": ["https://upload.wikimedia.org/x.jpg"],
            "image_reference_descriptions": [None],
            "image_section_indices": [0],
            "url": WIKI + "Fictia_alba",
        },
        WIKI + "X": {
            "title": "X",
            "section_titles": ["X"],
            "section_texts": ["X is the church of the diocese of Y."],
            "image_urls": [],
            "image_reference_descriptions": [],
            "image_section_indices": [],
            "url": WIKI + "X",
        },
        WIKI + "Y": {
            "title": "Y",
            "section_titles": ["Y", "History", "Architecture"],
            "section_texts": ["Y.", "", "Designed by A. Mason."],
            "image_urls": [],
            "image_reference_descriptions": [],
            "image_section_indices": [],
            "url": WIKI + "Y",
        },
    }
    text = json.dumps(kb, indent=0)
    if zipped:
        with zipfile.ZipFile(folder / "encyclopedic_kb_wiki.zip", "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("encyclopedic_kb_wiki.json", text)
    else:
        put(folder / "encyclopedic_kb_wiki.json", text)
    names = {i: f"val/00001_Plantae/{i}.jpg" for i in (100001, 100002, 100003)}
    coco = {
        "info": {},
        "images": [{"id": i, "file_name": n} for i, n in names.items()],
        "annotations": [{"id": 1}],
    }
    put(folder / "val.json", json.dumps(coco))
    for i, name in names.items():
        put(folder / "inaturalist" / name, png(i % 100))
    put(folder / "landmarks/train/0/0/a/00ab12cd34ef5678.jpg", png(9))
    return folder


# --- WebQA ---

GUID = "a1b2c3d40dba11ecb1e81171463288e9"
TEXT_GUID = "b1b2c3d40dba11ecb1e81171463288e9"


def webqa_rows():
    def picture(number, title):
        return {
            "image_id": number,
            "title": title,
            "caption": f"{title} in 2010",
            "url": f"https://commons.wikimedia.org/wiki/File:{number}.jpg",
            "imgUrl": "https://x",
        }

    def snippet(guid, n, title, fact):
        return {
            "title": title,
            "fact": fact,
            "url": "https://en.wikipedia.org/wiki/T",
            "snippet_id": f"{guid}_{n}",
        }

    return {
        GUID: {
            "Q": '"Are both towers round?"',
            "A": ['"Yes, both towers are round."'],
            "topic": "towers",
            "split": "val",
            "Qcate": "YesNo",
            "Guid": GUID,
            "img_posFacts": [picture(30000001, "Tower One")],
            "img_negFacts": [picture(30000002, "Mill")],
            "txt_posFacts": [],
            "txt_negFacts": [snippet(GUID, 0, "Tower One", "[1] Tower One is old.")],
        },
        TEXT_GUID: {
            "Q": 'Who wrote "The Sample"?',
            "A": ["Ada Sample wrote it."],
            "topic": "books",
            "split": "val",
            "Qcate": "text",
            "Guid": TEXT_GUID,
            "img_posFacts": [],
            "img_negFacts": [picture(30000003, "Book")],
            "txt_posFacts": [snippet(TEXT_GUID, 0, "The Sample", "Ada Sample wrote The Sample.")],
            "txt_negFacts": [
                snippet(TEXT_GUID, 1, "Tower One", "[12]  Tower One is  old."),
                snippet(TEXT_GUID, 2, "The Sample", "ada sample wrote the sample."),
            ],
        },
        "c1": {
            "Q": "Train?",
            "A": ["Yes."],
            "split": "train",
            "Qcate": "text",
            "Guid": "c1",
            "img_posFacts": [],
            "img_negFacts": [],
            "txt_posFacts": [snippet("c1", 0, "T", "Train it is.")],
            "txt_negFacts": [],
        },
    }


def webqa(folder: Path, rows=None, pictures=(30000000, 30000001, 30000002, 30000003)):
    put(folder / "WebQA_train_val.json", json.dumps(rows if rows is not None else webqa_rows()))
    tsv, offsets, at = b"", [], 0
    for number in pictures:
        line = b"%d\t%s\n" % (number, base64.b64encode(png(number % 100 + 20)))
        offsets.append(at)
        tsv, at = tsv + line, at + len(line)
    put(folder / "imgs.tsv", tsv)
    put(folder / "imgs.lineidx", "\n".join(map(str, offsets)) + "\n")
    return folder


# --- MMDocRAG ---


def mmdocrag_row(**changes):
    row = {
        "q_id": 0,
        "doc_name": "Sample-Brochure",
        "domain": "Brochure",
        "question": "How many boats are shown in the harbour picture?",
        "evidence_modality_type": ["figure"],
        "question_type": "Descriptive",
        "text_quotes": [
            {
                "quote_id": "text1",
                "type": "text",
                "text": "The harbour opened in 1901.",
                "page_id": 3,
                "layout_id": 17,
            }
        ],
        "img_quotes": [
            {
                "quote_id": "image1",
                "type": "image",
                "img_path": "images/Sample-Brochure_image4.jpg",
                "img_description": "Three boats at a pier.",
                "page_id": 4,
                "layout_id": 22,
            },
            {
                "quote_id": "image2",
                "type": "table",
                "img_path": "images/Sample-Brochure_image9.jpg",
                "img_description": "A city map.",
                "page_id": 8,
                "layout_id": 40,
            },
        ],
        "gold_quotes": ["image1"],
        "answer_short": "3",
        "answer_interleaved": "The picture shows three boats.\n\n![Three boats](image1)",
        "old_id": 12,
    }
    return row | changes


def mmdocrag(folder: Path, rows=None, *, zipped=False):
    rows = rows or [
        mmdocrag_row(),
        mmdocrag_row(
            q_id=1,
            question="Which two numbers?",
            answer_short="['46','27']",
            gold_quotes=["text1", "image2"],
        ),
    ]
    lines(folder / "evaluation_20.jsonl", rows)
    lines(folder / "dev_20.jsonl", [mmdocrag_row(question="A question of dev?")])
    pictures = {
        "images/Sample-Brochure_image4.jpg": png(5),
        "images/Sample-Brochure_image9.jpg": png(6),
    }
    if zipped:
        with zipfile.ZipFile(folder / "images.zip", "w") as out:
            for name, data in pictures.items():
                out.writestr(name, data)
    else:
        for name, data in pictures.items():
            put(folder / name, data)
    return folder


# --- MRAG-Bench ---


def cell(seed):
    return {"bytes": png(seed), "path": None}


def mrag_row(**changes):
    row = {
        "id": "1",
        "aspect": "perspective",
        "scenario": "Angle",
        "image": cell(40),
        "gt_images": [cell(41), cell(42)],
        "question": "Can you identify this animal?",
        "A": "Wolf",
        "B": "Fox",
        "C": "Jackal",
        "D": "Coyote",
        "answer_choice": "B",
        "answer": "Fox",
        "image_type": "animal",
        "source": "synthetic",
        "retrieved_images": [cell(43), cell(41), cell(40), cell(44)],
    }
    return row | changes


def mrag(folder: Path, shards=None):
    shards = shards or {
        "test-00009-of-000011.parquet": [mrag_row()],
        "test-000010-of-000011.parquet": [
            mrag_row(
                id="02",
                scenario="Incomplete",
                image=cell(50),
                gt_images=[cell(51), cell(52)],
                retrieved_images=[cell(53), cell(54)],
            ),
        ],
    }
    (folder / "data").mkdir(parents=True)
    for name, rows in shards.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / "data" / name)
    return folder


# --- ViQuAE ---


def viquae_row(**changes):
    row = {
        "id": "0f1e2d3c",
        "kilt_id": "tc_1",
        "image": "512px-Ad%C3%A9_Sample_(1).jpg",
        "url": "http://upload.wikimedia.org/x.jpg",
        "wikidata_id": "Q999002",
        "input": "In which city was this inventor born?",
        "original_question": "In which city was Adé Sample born?",
        "meta": {},
        "output": {
            "original_answer": "Springfield",
            "answer": ["Springfield", "City of Springfield"],
            "provenance": [
                {"title": ["Absent page"], "wikipedia_id": ["1"]},
                {"title": ["Adé Sample"], "wikipedia_id": ["12345"]},
            ],
        },
    }
    return row | changes


def viquae(folder: Path, rows=None):
    rows = rows or [
        viquae_row(),
        viquae_row(
            id="raw",
            wikidata_id="Q999009",
            output=[{"answer": "1901", "provenance": [{"title": "No such page"}]}],
        ),
    ]
    lines(folder / "validation.jsonl", rows)
    person = {
        "wikipedia_id": "12345",
        "wikipedia_title": "Adé Sample",
        "kilt_id": "12345",
        "url": WIKI + "Adé_Sample",
        "image": "512px-Adé Sample 2.jpg",
        "categories": "Inventors",
        "anchors": {},
        "text": {
            "paragraph": [
                "Adé Sample\n",
                "Adé Sample was an inventor born in Springfield.\n",
                "Section::::Life.\n",
                "BULLET::::- 1901\n",
                "He died elsewhere.\n",
            ]
        },
        "wikidata_info": {"wikidata_id": "Q999002", "wikipedia_title": "Adé Sample"},
    }
    thing = person | {
        "wikipedia_id": "77",
        "wikipedia_title": "The Thing",
        "image": "missing.jpg",
        "text": ["The Thing\n", "It was made in 1901.\n"],
        "wikidata_info": {"wikidata_id": "Q999009"},
    }
    lines(folder / "humans_with_faces.jsonl.gz", [person])
    lines(folder / "humans_without_faces.jsonl.gz", [])
    lines(folder / "non_humans.jsonl", [thing])
    put(folder / "images/512px-Adé_Sample_(1).jpg", png(60))
    put(folder / "images/512px-Adé_Sample_2.jpg", png(61))
    return folder


# --- siblings ---


def mmmu(folder: Path, rows=None):
    row = {
        "id": "validation_Math_1",
        "question": "Find x in <image 1>.",
        "options": "['1', '2', '3', '4']",
        "explanation": "",
        "image_1": cell(70),
        "image_2": None,
        "img_type": "['Diagrams']",
        "answer": "B",
        "topic_difficulty": "Easy",
        "question_type": "multiple-choice",
        "subfield": "Algebra",
    }
    rows = rows or [
        row,
        row
        | {
            "id": "validation_Math_2",
            "question": "Find y in <image 1>.",
            "options": "[]",
            "answer": "['24/7','3.429']",
            "question_type": "open",
        },
    ]
    (folder / "Math").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "Math/validation-00000-of-00001.parquet")
    return folder


CRAG_LABELS = {"domain": ["other", "vehicles"], "query_category": ["simple", "multi-hop"]}


def crag_conversation(session="s1", turns=2, seed=80, **changes):
    """A conversation as v0.1.2 stores it: objects of lists."""
    ids = [f"{session}-{n}" for n in range(turns)]
    return {
        "session_id": session,
        "image": cell(seed),
        "image_url": None,
        "turns": {
            "interaction_id": ids,
            "domain": [1] * turns,
            "query_category": [n % 2 for n in range(turns)],
            "dynamism": [0] * turns,
            "query": [f"What is part {n} of this car?" for n in range(turns)],
            "image_quality": [0] * turns,
        },
        "answers": {
            "interaction_id": ids[::-1],
            "ans_full": [f"Part {n} is a wheel." for n in range(turns)][::-1],
        },
    } | changes


def crag_table(path: Path, rows):
    """A Parquet file as `datasets` writes it: names of labels in its metadata."""
    features = {
        field: {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
        for field, names in CRAG_LABELS.items()
    }
    stored = json.dumps({"info": {"features": {"turns": features}}})
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": stored})
    pq.write_table(table, path)


def chroma(folder: Path, entries):
    """A store of Chroma with entries (id, fields), as its SQLite file holds them."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "chroma.sqlite3")) as store, store:
        store.execute(
            "CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL,"
            " seq_id BLOB NOT NULL, created_at TIMESTAMP, UNIQUE (segment_id, embedding_id))"
        )
        store.execute(
            "CREATE TABLE embedding_metadata (id INTEGER REFERENCES embeddings(id), key TEXT NOT NULL, string_value"
            " TEXT, int_value INTEGER, float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key))"
        )
        for number, (id_, fields) in enumerate(entries, 1):
            store.execute(
                "INSERT INTO embeddings (id, segment_id, embedding_id, seq_id) VALUES (?, 's', ?, x'00')",
                (number, id_),
            )
            for key, value in fields.items():
                column = "string_value" if isinstance(value, str) else "int_value"
                store.execute(
                    f"INSERT INTO embedding_metadata (id, key, {column}) VALUES (?, ?, ?)",
                    (number, key, value),
                )


def crag_mm(folder: Path):
    crag_table(
        folder / "single/data/validation-00000-of-00001.parquet",
        [crag_conversation("s1", 1), crag_conversation("s2", 1, 81)],
    )
    crag_table(
        folder / "multi/data/validation-00000-of-00001.parquet", [crag_conversation("m1", 3, 82)]
    )
    wheel = "https://example.org/wheel.png"
    info = {"Wheel": {"made_of": "rubber", "spokes": 12}, "Car": {}}
    put(folder / "kb/wheel.png", png(83))
    lines(folder / "kb_images.jsonl", [{"url": wheel, "file": "kb/wheel.png"}])
    chroma(
        folder / "image",
        [("0", {"image_url": wheel, "entities": '["Wheel"]', "info": json.dumps(info)})],
    )
    page = {"page_name": "Wheels", "page_url": "https://example.org/wheels"}
    chroma(
        folder / "web",
        [
            (f"7_chunk_{n}", {**page, "page_snippet": f"Wheels, part {n}.", "rank": n})
            for n in (0, 1)
        ],
    )
    return folder


def mmlongbench(folder: Path, rows=None):
    row = {
        "doc_id": "sample.pdf",
        "doc_type": "Guidebook",
        "question": "How many trails are listed?",
        "answer": "['North','South']",
        "evidence_pages": "[2, 7]",
        "evidence_sources": "['Table']",
        "answer_format": "List",
    }
    rows = rows or [
        row,
        row
        | {
            "question": "When does it open?",
            "answer": "Not answerable",
            "evidence_pages": "[2]",
            "answer_format": "None",
        },
        row
        | {
            "question": "At what time?",
            "answer": "14:04 CET",
            "evidence_pages": "[]",
            "answer_format": "Int",
        },
        row
        | {
            "question": "What share?",
            "answer": "18.29%",
            "evidence_pages": "[0, 2]",
            "answer_format": "Float",
        },
    ]
    put(folder / "data/samples.json", json.dumps(rows, indent=1))
    put(folder / "pages/sample/2.png", png(80))
    put(folder / "pages/sample/7.png", png(81))
    return folder


def simpleqa(folder: Path):
    put(
        folder / "simple_qa_test_set.csv",
        "metadata,problem,answer\n"
        "\"{'topic': 'Art', 'answer_type': 'Date', 'urls': ['https://a.example/1']}\","
        '"In what year was the Sample Prize, the ""old"" one, founded?","1931"\n'
        'not a dict,"Who was it?","Ada Sample"\n',
    )
    return folder


def beir(folder: Path):
    lines(
        folder / "corpus.jsonl",
        [{"_id": "001", "title": "T", "text": "Gold text."}, {"_id": "d2", "text": "Other text."}],
    )
    lines(
        folder / "queries.jsonl",
        [
            {"_id": "q1", "text": "Which?", "metadata": {"answers": ["Gold"]}},
            {"_id": "q2", "text": "Unjudged?", "metadata": {"answers": ["x"]}},
        ],
    )
    put(folder / "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\t001\t1\nq1\td2\t0\n")
    return folder


BUILDERS = {
    "infoseek": infoseek,
    "evqa": evqa,
    "webqa": webqa,
    "mmdocrag": mmdocrag,
    "mrag": mrag,
    "viquae": viquae,
    "mmmu": mmmu,
    "mmlongbench": mmlongbench,
    "simpleqa": simpleqa,
    "beir": beir,
    "crag_mm": crag_mm,
}
OPTIONS = {"beir": {"answers": "metadata.answers"}}
