"""The readers of foreign formats: nothing dropped, nothing invented, every break named by file and line."""

import base64
import gzip
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from errors import places, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples, png

from demur.core.errors import DataError, UsageError
from demur.core.images import image_ref
from demur.core.store import Problems, read_jsonl
from demur.core.uris import read_image
from demur.corpora import formats
from demur.corpora.formats import json_streams

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8), JSON, max_size=6
    ),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
@settings(max_examples=examples(25), deadline=None)
def test_a_giant_object_is_read_whole_whatever_the_window(folder, value, block, indent, ascii_only):
    path = folder / "object.json"
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    before, json_streams.BLOCK = json_streams.BLOCK, block
    try:
        problems = Problems()
        read = {key: item for _, key, item in formats.json_items(path, problems)}
    finally:
        json_streams.BLOCK = before
    assert not problems.lines
    assert read == value
    assert list(read) == list(value)


@given(st.lists(JSON, max_size=6), st.integers(1, 40))
@settings(max_examples=examples(25), deadline=None)
def test_a_giant_list_is_read_whole_whatever_the_window(folder, value, block):
    path = folder / "list.json"
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    before, json_streams.BLOCK = json_streams.BLOCK, block
    try:
        problems = Problems()
        assert [item for _, item in formats.json_elements(path, problems)] == value
        assert not problems.lines
    finally:
        json_streams.BLOCK = before


@given(st.integers(1, 30))
@settings(max_examples=examples(25), deadline=None)
def test_a_cut_object_is_never_a_silent_end(folder, cut):
    value = {f"k{i}": {"text": "abc" * i, "n": 12345} for i in range(6)}
    text = json.dumps(value)
    path = folder / "cut.json"
    path.write_text(text[:-cut])
    problems = Problems()
    read = {key: item for _, key, item in formats.json_items(path, problems)}
    assert len(problems) == 1
    assert problems.lines[0].startswith("cut.json:1:")
    assert all(value[key] == item for key, item in read.items())


def test_the_line_of_a_broken_entry_is_named(tmp_path):
    path = tmp_path / "kb.json"
    path.write_text('{\n"a": 1,\n"b": {"x": tru},\n"c": 3\n}')
    problems = Problems()
    assert [key for _, key, _ in formats.json_items(path, problems)] == ["a"]
    assert places(problems.lines)[0] == "kb.json:3"
    assert "'b'" in problems.lines[0]


def test_a_list_under_a_key_is_streamed_past_the_others(tmp_path):
    path = tmp_path / "coco.json"
    path.write_text(
        json.dumps(
            {"info": {"a": 1}, "annotations": [1, 2], "images": [{"id": 7}, {"id": 8}], "x": "y"}
        )
    )
    problems = Problems()
    assert [v["id"] for _, v in formats.json_elements(path, problems, under="images")] == [7, 8]
    path.write_text('{"images": [{"id": 7}, {"id": 8')
    assert [v["id"] for _, v in formats.json_elements(path, problems, under="images")] == [7]
    assert "after element 1" in problems.lines[0]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@given(
    rows=st.lists(st.none() | st.dictionaries(st.text(max_size=4), JSON, max_size=3), max_size=8)
)
@settings(max_examples=examples(25), deadline=None)
def test_json_lines_keep_every_good_row_and_name_every_bad_one(folder, suffix, rows):
    path = folder / f"rows.jsonl{suffix}"
    lines = [b'{"broken": ' if row is None else json.dumps(row).encode() for row in rows]
    data = b"\n".join(lines)
    path.write_bytes(gzip.compress(data) if suffix else data)
    problems = Problems()
    read = list(formats.json_lines(path, problems))
    assert [row for _, row in read] == [row for row in rows if row is not None]
    assert [place for place, _ in read] == [
        f"{path.name}:{i}" for i, row in enumerate(rows, 1) if row is not None
    ]
    bad = [f"{path.name}:{i}" for i, row in enumerate(rows, 1) if row is None]
    assert [line.rsplit(": not", 1)[0] for line in problems.lines] == bad


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\xff"}', "utf-8"),
        (b"[1]", "list"),
        (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "integer string"),
    ],
)
def test_lines_that_could_not_be_written_again_are_refused(tmp_path, line, why):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"ok": 1}\n' + line + b'\n{"ok": 2}\n')
    problems = Problems()
    assert [row["ok"] for _, row in formats.json_lines(path, problems)] == [1, 2]
    assert len(problems) == 1
    assert problems.lines[0].startswith("x.jsonl:2: ")
    assert why in problems.lines[0]


def test_a_cut_gzip_is_named(tmp_path):
    path = tmp_path / "kb.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 5000)[:-20])
    problems = Problems()
    assert len(list(formats.json_lines(path, problems))) <= 5000
    assert len(problems) == 1


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(st.tuples(FIELD, FIELD, FIELD), max_size=8))
@settings(max_examples=examples(25), deadline=None)
def test_csv_keeps_quoted_commas_and_newlines(folder, rows):
    import csv

    path = folder / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, quoting=csv.QUOTE_ALL)
        writer.writerow(["a", "b", "c"])
        writer.writerows(rows)
    problems = Problems()
    assert [tuple(row.values()) for _, row in formats.csv_rows(path, problems)] == [
        row for row in rows if any(row)
    ]
    assert not problems.lines


@pytest.mark.parametrize("mark", ",;\t")
def test_the_separator_is_told_by_the_header_outside_quotes_and_blank_lines_are_no_rows(
    tmp_path, mark
):
    path, others = tmp_path / "t.csv", ",;\t".replace(mark, "") * 3
    rows = ["", mark, f'"a{others}z"{mark}b', "", f'1{mark}"2,5"', mark]
    path.write_text("\ufeff" + "\r\n".join(rows), encoding="utf-8")
    problems = Problems()
    assert [*formats.csv_rows(path, problems)] == [("t.csv:5", {f"a{others}z": "1", "b": "2,5"})]
    assert not problems.lines


def test_a_file_whose_ending_names_no_format_is_json_lines_if_it_begins_like_them(tmp_path):
    for name, text in (
        ("a.txt", ' {"a": 1}\n{"a": 2}\n'),
        ("b.log", '[{"a": 1}, {"a": 2}]'),
        ("c.out.gz", ""),
    ):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        assert [row["a"] for *_, row in formats.table_rows(path, Problems())] == (
            [1, 2] if text else []
        )
    path.write_bytes(gzip.compress(b"a,b\n"))
    with raises(UsageError, "'out'", item=path, cure="jsonl"):
        list(formats.table_rows(path, Problems()))


def test_a_pipe_is_read_once():
    reads, writes = os.pipe()
    os.write(writes, b'{"a": 1}\n')
    os.close(writes)
    assert [row["a"] for *_, row in formats.table_rows(Path(f"/dev/fd/{reads}"), Problems())] == [1]
    os.close(reads)


def test_csv_names_bad_rows_by_their_first_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfa,b\n"x\ny",1\nonly\n\xff,2\nz,3\n"open,4\n')
    problems = Problems()
    assert [(p, r["a"]) for p, r in formats.csv_rows(path, problems, required=["a"])] == [
        ("t.csv:2", "x\ny"),
        ("t.csv:6", "z"),
    ]
    assert [line.split(": ")[0] for line in problems.lines] == ["t.csv:4", "t.csv:5", "t.csv:7"]


def test_csv_takes_fields_beyond_the_default_limit_and_says_which_column_lacks(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("id\ttext\n1\t" + "x" * 300_000 + "\n")
    problems = Problems()
    assert len(next(iter(formats.csv_rows(path, problems, delimiter="\t")))[1]["text"]) == 300_000
    with raises(DataError, "title", "id, text", item="t.tsv:1"):
        list(formats.csv_rows(path, problems, delimiter="\t", required=["title"]))


@pytest.mark.parametrize("required", [(), ("id",)])
@pytest.mark.parametrize("header", [b'"id,text\n', b'"id"x,text\n', b'a"b,"c\n'])
def test_a_csv_whose_header_cannot_be_read_is_refused_by_its_line(tmp_path, header, required):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\n" + header + b"1,x\n2,y\n")
    with raises(DataError, item="t.csv:2", cure="CSV UTF-8"):
        list(formats.csv_rows(path, Problems(), required=required))


def test_a_csv_in_utf16_without_a_byte_order_mark_is_told_to_be_saved_as_utf8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("id,text\n1,x\n".encode("utf-16-le"))
    with raises(DataError, item="t.csv:1", cure="UTF-8"):
        list(formats.csv_rows(path, Problems()))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json"])
@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_utf16_with_a_byte_order_mark_is_read_as_excel_and_powershell_write_it(
    tmp_path, monkeypatch, name, order
):
    rows = [{"id": str(n), "text": "\u2028\U0001f600 \u00fc" * (n % 50)} for n in range(2_000)]
    if "json" in name:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        text = f"[{','.join(lines)}]" if name == "t.json" else "\r\n".join(lines)
    else:
        text = "\r\n".join(
            ("\t" if "tsv" in name else ";").join(v)
            for v in [["id", "text"], *map(dict.values, rows)]
        )
    data = ("\ufeff" + text).encode(order)
    path = tmp_path / name
    path.write_bytes(data)
    problems = Problems()
    assert ([row for *_, row in formats.table_rows(path, problems)], problems.lines) == (rows, [])
    if name == "t.jsonl":
        assert [row for _, row in read_jsonl(path, problems)] == rows
        path.write_bytes(data[:-1])
        with raises(DataError, "UTF-16", item=path, cure="UTF-8"):
            list(read_jsonl(path, problems))
        monkeypatch.setattr("demur.core.store.LONGEST_LINE", 1 << 20)
        path.write_bytes(data * 10)
        with raises(DataError, "1 MB", item=path, cure="UTF-8"):
            list(read_jsonl(path, problems))


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_table_whose_header_names_a_column_twice_is_refused(tmp_path, kind):
    path, mark = tmp_path / f"t.{kind}", "\t" if kind == "tsv" else ","
    if kind == "parquet":
        pq.write_table(
            pa.table([["1"], ["x"], ["y"], ["z"]], names=["id", "text", "text", ""]), path
        )
    else:
        path.write_text(
            "\n".join(map(mark.join, [["id", "text", "text ", "", ""], ["1", "x", "y", "", ""]]))
            + "\n"
        )
    with raises(DataError, "text", item=path.name if kind == "parquet" else f"{path.name}:1"):
        list(formats.table_rows(path, Problems()))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "C:/x", "..\\x", "", "a\0b"])
def test_no_path_leaves_its_folder(tmp_path, name):
    with raises(DataError, repr(name), item=tmp_path):
        formats.inside(tmp_path, name)


def test_a_link_in_the_folder_is_its_owners_and_an_archive_writes_through_none(tmp_path):
    for name in ("root", "disk"):
        (tmp_path / name).mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "disk")
    assert formats.inside(tmp_path / "root", "link/x.png") == tmp_path / "root/link/x.png"
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr("link/x.png", png())
    with pytest.raises(DataError) as caught:
        formats.unpack(tmp_path / "a.zip", tmp_path / "root", Problems())
    assert caught.value.item == str(tmp_path / "root")
    assert not any((tmp_path / "disk").iterdir())


def _archives(folder):
    with zipfile.ZipFile(folder / "a.zip", "w") as out:
        out.writestr("images/ok.png", png())
        out.writestr("../evil.png", png("blue"))
    for name, mode in (("a.tar", "w"), ("a.tar.gz", "w:gz")):
        with tarfile.open(folder / name, mode) as out:
            for member in ("images/ok.png", "../evil.png"):
                info = tarfile.TarInfo(member)
                info.size = len(png())
                out.addfile(info, io.BytesIO(png()))
            link = tarfile.TarInfo("images/link.png")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            out.addfile(link)


def test_archives_are_read_in_place(tmp_path):
    _archives(tmp_path)
    for name in ("a.zip", "a.tar"):
        found = formats.archive_uris(tmp_path / name, name)
        assert list(found) == ["images/ok.png"]
        ref = image_ref(png(), found["images/ok.png"])
        assert read_image(ref, tmp_path) == png()
    with raises(DataError, item=tmp_path / "a.tar.gz", cure="demur sources unpack"):
        formats.archive_uris(tmp_path / "a.tar.gz", "a.tar.gz")


def test_unpacking_writes_only_inside(tmp_path):
    _archives(tmp_path)
    for number, name in enumerate(("a.zip", "a.tar", "a.tar.gz")):
        problems = Problems()
        target = tmp_path / f"out{number}" / "deep"
        assert formats.unpack(tmp_path / name, target, problems) == 1
        assert [p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()] == [
            "images/ok.png"
        ]
        assert "evil" in problems.lines[0]
    assert not (tmp_path / "evil.png").exists()


@pytest.mark.parametrize("with_index", [True, False])
def test_a_line_of_a_huge_file_by_its_number(tmp_path, with_index):
    rows = [
        b"%d\t%s\n" % (30_000_000 + i, base64.b64encode(png(size=(i + 1, 1)))) for i in range(5)
    ]
    (tmp_path / "imgs.tsv").write_bytes(b"".join(rows))
    offsets = [sum(map(len, rows[:i])) for i in range(5)]
    if with_index:
        (tmp_path / "imgs.lineidx").write_text("\n".join(map(str, offsets)))
    index = formats.LineIndex(tmp_path / "imgs.tsv", tmp_path / "imgs.lineidx")
    assert list(index.offsets) == offsets
    assert index.line(3) == rows[3].rstrip()
    assert index.line(3, 8) == b"30000003"
    with pytest.raises(IndexError):
        index.line(-1)
    ref = image_ref(png(size=(4, 1)), f"tsv:imgs.tsv#{offsets[3]}")
    assert read_image(ref, tmp_path) == png(size=(4, 1))


def test_an_index_that_does_not_fit_its_file_is_refused(tmp_path):
    (tmp_path / "i.tsv").write_text("1\tx\n")
    (tmp_path / "i.lineidx").write_text("0\n99\n")
    with raises(DataError, "1 and 4", item="i.lineidx:2"):
        formats.LineIndex(tmp_path / "i.tsv", tmp_path / "i.lineidx")


def test_the_index_of_another_file_is_told_and_no_half_line_is_read(tmp_path):
    """The file was fetched again, the index beside it was not."""
    (tmp_path / "i.tsv").write_bytes(b"one\ttwo\nthree\tfour\nfive\tsix\n")
    (tmp_path / "i.lineidx").write_text("0\n9\n19\n")
    index = formats.LineIndex(tmp_path / "i.tsv", tmp_path / "i.lineidx")
    assert index.line(0) == b"one\ttwo"
    with raises(DataError, "byte 9", item="i.tsv"):
        index.line(1)


def test_one_cell_of_a_list_of_images_in_parquet(tmp_path):
    rows = [
        {"gt": [{"bytes": png(size=(i + 1, j + 1)), "path": None} for j in range(2)]}
        for i in range(5)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet", row_group_size=2)
    data = png(size=(4, 2))
    assert read_image(image_ref(data, "parquet:t.parquet#3/gt/1"), tmp_path) == data
    problems = Problems()
    assert [
        number for _, number, _ in formats.parquet_rows(tmp_path / "t.parquet", problems, batch=2)
    ] == [
        0,
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_damaged_page_of_parquet_costs_its_row_group_alone(tmp_path, compression):
    rows = pa.table(
        {"id": [str(i) for i in range(300)], "text": [f"text {i} " * 20 for i in range(300)]}
    )
    path = tmp_path / "t.parquet"
    pq.write_table(rows, path, row_group_size=100, compression=compression, use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(1)
    damaged = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    damaged[middle : middle + 40] = b"\xff" * 40
    path.write_bytes(damaged)
    problems = Problems()
    read = [row["id"] for _, _, row in formats.parquet_rows(path, problems)]
    assert read == [str(i) for i in (*range(100), *range(200, 300))]
    assert [line.startswith("t.parquet:100: rows 100 to 199 ") for line in problems.lines] == [True]


def test_a_text_of_parquet_that_is_not_utf8_is_named_by_its_row(tmp_path):
    texts = pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"ok", b"\xff", b"too"], pa.binary()).buffers()
    )
    pq.write_table(pa.table({"text": texts}), tmp_path / "t.parquet")
    problems = Problems()
    assert [
        row["text"] for _, _, row in formats.parquet_rows(tmp_path / "t.parquet", problems)
    ] == ["ok", "too"]
    assert len(problems) == 1
    assert places(problems.lines)[0] == "t.parquet:1"


def test_shards_sort_by_number_however_padded(tmp_path):
    names = [
        "test-000010-of-000028.parquet",
        "test-00009-of-000028.parquet",
        "test-00001-of-000028.parquet",
    ]
    assert [p.name for p in formats.in_numeric_order(tmp_path / n for n in names)] == [
        names[2],
        names[1],
        names[0],
    ]


def test_a_lookup_keeps_what_was_wanted_and_the_first_of_twins():
    entries = [("a", {"v": 1}), ("b", {"v": 2}), ("a", {"v": 3, "image": "x"}), ("c", {"v": 4})]
    kept = formats.Lookup(iter(entries), {"a", "c", "missing"})
    assert [kept.get(key) for key in "abc"] == [{"v": 1}, None, {"v": 4}]
    assert (kept.repeated, kept.get("missing")) == (1, None)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3000))
@settings(max_examples=examples(20), deadline=None)
def test_seen_is_a_set(keys):
    seen, reference = formats.Seen(), set()
    for key in keys:
        assert seen.add(key) == (key not in reference)
        reference.add(key)
    assert len(seen) == len(reference)
    assert all(key in seen for key in reference)


def test_seen_holds_many_keys():
    seen = formats.Seen()
    assert all(seen.add(f"Q{number}") for number in range(10_000))
    assert not any(seen.add(f"Q{number}") for number in range(10_000))
    assert len(seen) == 10_000
    assert "Q10000" not in seen
