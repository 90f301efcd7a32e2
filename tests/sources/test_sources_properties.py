"""No adapter drops or invents a record, and every broken row is named with its file and line."""

import csv
import json
import shutil

import mini_sources as mini
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.store import Problems
from demur.sources import open_source

ROWS = st.lists(
    st.sampled_from(["good", "unreadable", "no answer", "no question", "repeated"]), max_size=10
)
"""What each row of a generated file is."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("properties")


def ids_of(kinds):
    """Native id of each row: a repeated row takes the id of the first good row before it, if there is one."""
    ids = []
    for number, kind in enumerate(kinds):
        first = next((i for i, k in zip(ids, kinds, strict=False) if k == "good"), None)
        ids.append(first if kind == "repeated" and first is not None else f"id{number:08d}")
    return ids


def expected(kinds, ids):
    """(ids that must come out, in order; numbers of the rows that must be complained of)."""
    good = list(
        dict.fromkeys(i for i, k in zip(ids, kinds, strict=True) if k in ("good", "repeated"))
    )
    seen, bad = set(), []
    for number, (kind, id_) in enumerate(zip(kinds, ids, strict=True)):
        if kind in ("good", "repeated") and id_ not in seen:
            seen.add(id_)
        else:
            bad.append(number)
    return good, bad


def as_line(kind, row):
    return b'{"torn": ' if kind == "unreadable" else json.dumps(row).encode()


def infoseek_rows(folder, kinds, ids):
    mini.infoseek(folder)
    lines = [
        as_line(
            kind,
            {
                "data_id": id_,
                "image_id": "oven_00000042",
                "question": " " if kind == "no question" else "What?",
                "answer": [],
                "answer_eval": [] if kind == "no answer" else ["yes"],
            },
        )
        for kind, id_ in zip(kinds, ids, strict=True)
    ]
    (folder / "infoseek_val.jsonl").write_bytes(b"\n".join(lines))
    mini.lines(
        folder / "infoseek_val_withkb.jsonl",
        [{"data_id": i, "entity_id": "Q1"} for i in dict.fromkeys(ids)],
    )
    return "infoseek_val.jsonl", 1, {}


def viquae_rows(folder, kinds, ids):
    mini.viquae(folder)
    lines = [
        as_line(
            kind,
            mini.viquae_row(
                id=id_,
                input="" if kind == "no question" else "Which?",
                output={
                    "answer": [] if kind == "no answer" else ["x"],
                    "provenance": [{"title": ["Adé Sample"]}],
                },
            ),
        )
        for kind, id_ in zip(kinds, ids, strict=True)
    ]
    (folder / "validation.jsonl").write_bytes(b"\n".join(lines))
    return "validation.jsonl", 1, {}


def mmdocrag_rows(folder, kinds, ids):
    mini.mmdocrag(folder)
    lines = [
        as_line(
            kind,
            mini.mmdocrag_row(
                q_id=id_,
                question="" if kind == "no question" else "Which?",
                answer_short="  " if kind == "no answer" else "x",
            ),
        )
        for kind, id_ in zip(kinds, ids, strict=True)
    ]
    (folder / "evaluation_20.jsonl").write_bytes(b"\n".join(lines))
    return "evaluation_20.jsonl", 1, {"split": "evaluation"}


def generic_rows(folder, kinds, ids):
    lines = [
        as_line(
            kind,
            {
                "id": id_,
                "question": "" if kind == "no question" else "Which?",
                "answers": [] if kind == "no answer" else ["x"],
            },
        )
        for kind, id_ in zip(kinds, ids, strict=True)
    ]
    mini.put(folder / "q.jsonl", b"\n".join(lines))
    mini.put(folder / "demur-map.yaml", "samples: {files: [q.jsonl]}\n")
    return "q.jsonl", 1, {}


def mrag_rows(folder, kinds, ids):
    rows = [
        mini.mrag_row(
            id=id_,
            question="" if kind == "no question" else "Which?",
            answer="" if kind in ("no answer", "unreadable") else "Fox",
        )
        for kind, id_ in zip(kinds, ids, strict=True)
    ]
    (folder / "data").mkdir(parents=True)
    table = pa.Table.from_pylist(rows or [mini.mrag_row()]).slice(0, len(rows))
    pq.write_table(table, folder / "data/test-00000-of-00001.parquet")
    return "test-00000-of-00001.parquet", 0, {}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "write", [infoseek_rows, viquae_rows, mmdocrag_rows, generic_rows, mrag_rows]
)
@given(kinds=ROWS)
@settings(max_examples=examples(15), deadline=None)
def test_every_row_comes_out_or_is_named(folder, write, kinds):
    shutil.rmtree(folder / "set", ignore_errors=True)
    (folder / "set").mkdir()
    ids = ids_of(kinds)
    file, base, options = write(folder / "set", kinds, ids)
    problems = Problems()
    source = open_source(write.__name__.removesuffix("_rows"), folder / "set", problems, options)
    samples = list(source.samples())
    good, bad = expected(kinds, ids)
    assert [sample.id.removeprefix("evaluation_20_") for sample in samples] == good
    named = [
        int(line.split(" ")[0].split(": ")[0].removeprefix(f"{file}:").rstrip(":")) - base
        for line in problems.lines
    ]
    assert sorted(named) == bad
    list(source.documents())
    assert len(problems) == len(bad)  # reading again tells nothing twice


@given(st.lists(st.sampled_from(["good", "wide", "no answer", "no question"]), max_size=10))
@settings(max_examples=examples(15), deadline=None)
def test_every_csv_row_comes_out_or_is_named(folder, kinds):
    shutil.rmtree(folder / "set", ignore_errors=True)
    mini.evqa(folder / "set")
    with (folder / "set/test.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(mini.EVQA_COLUMNS)
        for kind in kinds:
            row = mini.evqa_row(
                question="" if kind == "no question" else "Two\nlines?",
                answer="" if kind == "no answer" else "x",
            )
            writer.writerow([*row.values(), "more"] if kind == "wide" else row.values())
    starts, line = [], 2
    for kind in kinds:
        starts.append(line)
        line += 1 if kind == "no question" else 2
    problems = Problems()
    samples = list(open_source("evqa", folder / "set", problems).samples())
    assert [s.id for s in samples] == [
        f"test_{n}" for n, k in zip(starts, kinds, strict=True) if k == "good"
    ]
    assert sorted(int(text.split(":")[1].split(" ")[0]) for text in problems.lines) == [
        n for n, k in zip(starts, kinds, strict=True) if k != "good"
    ]


@given(st.lists(st.sampled_from(["good", "broken", "no answer", "no picture"]), max_size=8))
@settings(max_examples=examples(15), deadline=None)
def test_every_webqa_entry_comes_out_or_is_named(folder, kinds):
    shutil.rmtree(folder / "set", ignore_errors=True)
    rows = {}
    for number, kind in enumerate(kinds):
        fact = {
            "image_id": 30000009 if kind == "no picture" else 30000001,
            "caption": "c",
            "title": "t",
            "url": "u",
        }
        row = {
            "Q": "q?",
            "A": [] if kind == "no answer" else ["a"],
            "split": "val",
            "img_posFacts": [fact],
        }
        rows[f"g{number}"] = "broken" if kind == "broken" else row
    mini.webqa(folder / "set", rows)
    (folder / "set/WebQA_train_val.json").write_text(
        json.dumps(rows, indent=None).replace('"g', '\n"g')
    )
    problems = Problems()
    samples = list(open_source("webqa", folder / "set", problems).samples())
    whole = [f"g{n}" for n, kind in enumerate(kinds) if kind == "good"]
    assert [s.id for s in samples if "defect" not in s.attributes] == whole
    assert [s.id for s in samples if "defect" in s.attributes] == [
        f"g{n}" for n, k in enumerate(kinds) if k == "no picture"
    ]
    assert [text.split(": ")[0] for text in problems.lines] == [
        f"WebQA_train_val.json:{n + 2} (g{n})" for n, kind in enumerate(kinds) if kind != "good"
    ]


@given(st.binary(max_size=60), st.integers(0, 3))
@settings(max_examples=examples(30), deadline=None)
def test_no_bytes_in_an_image_store_raise(folder, junk, where):
    shutil.rmtree(folder / "set", ignore_errors=True)
    mini.webqa(folder / "set")
    lines = (folder / "set/imgs.tsv").read_bytes().splitlines(keepends=True)
    junk = junk.replace(b"\n", b"")
    lines[where] = b"%d\t" % (30000000 + where) + junk + b"\n"
    offsets = [sum(map(len, lines[:i])) for i in range(4)]
    (folder / "set/imgs.tsv").write_bytes(b"".join(lines))
    (folder / "set/imgs.lineidx").write_text("\n".join(map(str, offsets)))
    problems = Problems()
    samples = list(open_source("webqa", folder / "set", problems).samples())
    assert len(samples) == 2
    assert bool(problems.lines) == (where > 0)
