"""The table model: golden files of its four forms, and text that tries to break each of them."""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from demur.core.records import Measure
from demur.reports.tables import (
    FORMS,
    Column,
    Count,
    Table,
    cell_text,
    plain,
    print_table,
    signed,
    spans,
    texts,
    to_records,
    write_tables,
)

GOLDEN = Path(__file__).parent / "golden"


def rate(value: float | None, n: int = 200, **rest: float | int) -> Measure:
    return Measure(name="accuracy", value=value, n=n, **rest)  # type: ignore[arg-type]


EXAMPLE = Table(
    "example",
    "Two systems, 100 % made up",
    (
        Column("System", align="left"),
        Column("Acc", "Oracle", interval=True),
        Column("Hall", "Oracle"),
        Column("n", "Oracle"),
        Column("Kappa", decimals=2),
    ),
    (
        (
            "reader_v1 & co",
            rate(0.56, low=0.531, high=0.588, unjudged=2, failed=1),
            rate(0.2, corrected=0.061, low=0.0, high=0.12),
            1646,
            0.9,
        ),
        ("small|lm <b>", rate(None, 0), rate(1.0, 3), 3, None),
        ("Total", rate(0.5), rate(0.25), 1649, 0.5),
    ),
    rules=frozenset({2}),
    notes=("Per cent of all answers.", "2 unjudged, 1 failed."),
    bold=frozenset({(2, 0), (2, 1)}),
)


@pytest.mark.parametrize("form", FORMS)
def test_golden(form: str) -> None:
    path = GOLDEN / f"example{FORMS[form]}"
    text = EXAMPLE.render(form)  # type: ignore[arg-type]
    if os.environ.get("DEMUR_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        "if meant: DEMUR_UPDATE_GOLDEN=1 pytest tests/report, then read the diff"
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_table_that_cannot_be_filled_says_what_would_fill_it(form: str) -> None:
    empty = Table(
        "table5",
        "Modality",
        (Column("System"), Column("Acc")),
        missing="demur sweep --modality grid",
    )
    if form == "csv":
        assert (
            empty.render("csv") == "System,Acc\n"
        )  # a reader of numbers gets the head and no rows
    else:
        assert "demur sweep" in empty.render(form)  # type: ignore[arg-type]


def test_an_undefined_rate_is_a_dash_and_an_empty_field_never_zero() -> None:
    table = Table("t", "c", (Column("Acc"),), ((rate(None, 0, failed=4),),))
    assert cell_text(rate(None, 0), Column("Acc")) == "–"
    assert table.render("csv").splitlines()[1] == ",,,0,4"


def test_items_and_their_draws_are_both_told() -> None:
    columns = (Column("Acc"), Column("n"))
    table = Table(
        "t",
        "c",
        columns,
        ((rate(0.5, 4, repeats=12), Count(4, 12)), (rate(0.5, 9), 9), (None, None)),
    )
    assert table.render("csv").splitlines() == [
        "Acc,Acc low,Acc high,Acc n,Acc repeats,n,n repeats",
        "0.5,,,4,12,4,12",
        "0.5,,,9,9,9,9",  # asked once: as many repeats as items
        ",,,,,,",
    ]
    for form in ("terminal", "markdown", "latex"):
        assert "4 (12)" in table.render(form)  # type: ignore[arg-type]


def test_each_rate_is_rounded_on_its_own() -> None:
    thirds = [cell_text(rate(1 / 3), Column("x")) for _ in range(3)]
    assert thirds == ["33.3"] * 3  # 99.9 in all; nothing is forced to 100


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 0.*2.*1"):
        Table("t", "c", (Column("a"),), ((1, 2),))


def test_spans() -> None:
    assert spans(EXAMPLE.columns) == [("", 1), ("Oracle", 3), ("", 1)]


def test_csv_holds_everything_and_parses_back() -> None:
    rows = list(csv.DictReader(io.StringIO(EXAMPLE.render("csv"))))
    assert rows[0]["Oracle Acc"] == "0.56"
    assert rows[0]["Oracle Acc low"] == "0.531"
    assert rows[0]["Oracle Acc unjudged"] == "2"
    assert [r["System"] for r in rows] == ["reader_v1 & co", "small|lm <b>", "Total"]


def one_cell(text: str) -> Table:
    return Table("t", "c", (Column("System", align="left"), Column("n")), ((text, 7), ("last", 8)))


@given(st.text(max_size=60))
def test_no_name_breaks_markdown(text: str) -> None:
    lines = one_cell(text).render("markdown").splitlines()
    body = lines[4:6]
    assert len(lines) == 6
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3 for line in body)
    assert not re.search(r"<[a-zA-Z/!]", "\n".join(body))


@given(st.text(max_size=60))
def test_no_name_breaks_latex(text: str) -> None:
    body = [
        line
        for line in one_cell(text).render("latex").splitlines()
        if line.rstrip().endswith(r"\\")
    ]
    assert len(body) == 3  # head and two rows
    inner = body[1].rstrip()[:-2]
    assert len(re.findall(r"(?<!\\)&", inner)) == 1
    assert not re.search(r"(?<!\\)[%#_]", inner)
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", inner):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0


@given(st.text(max_size=60))
def test_no_name_becomes_a_formula_or_another_row(text: str) -> None:
    rows = list(csv.reader(io.StringIO(one_cell(text).render("csv"))))
    assert [len(r) for r in rows] == [2, 2, 2]
    assert not re.match(r"[=+\-@]", rows[1][0])


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize(
    "text",
    [
        "=HYPERLINK(1)",
        " =1+1",
        "+1",
        "-1+cmd|' /C calc'!A0",
        "@SUM(1)",
        "\t=1",
        "\uff1d1",
        'a;=HYPERLINK("x";"y")',
        "a; -1",
    ],
)
def test_formulas_stay_text_whatever_separates_the_fields_there(text: str, separator: str) -> None:
    for line in one_cell(text).render("csv").splitlines():
        for field in line.split(separator):
            assert not re.match(r'[\s"]*[=+\-@\uff1d]', field), line


def test_the_dust_of_rounding_is_no_number() -> None:
    dust = Table(
        "t",
        "c",
        (Column("Acc", interval=True), Column("x")),
        ((rate(-0.0, low=6.3e-18, high=1e-7), -6.3e-18),),
    )
    assert dust.render("csv").splitlines()[1] == "0,0,0.0000001,200,0"
    assert "0.0 [0.0, 0.0]" in dust.render("terminal")
    assert "-0.0" not in dust.render("markdown")
    (record,) = to_records(dust)
    assert (str(record["x"]), str(record["acc"]["low"])) == ("0.0", "0.0")
    assert [signed(v) for v in (-6.3e-18, -0.04, 0.0, -0.05001, 3.14)] == [
        "0.0",
        "0.0",
        "0.0",
        "-0.1",
        "+3.1",
    ]


def test_nothing_in_markdown_becomes_a_link_or_markup() -> None:
    """By a Markdown reader of another hand, as GitHub reads: with links that nobody wrote as links."""
    markdown_it = pytest.importorskip("markdown_it")
    reader = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    hostile = (
        "[x](javascript:alert(1)) ![p](http://evil.example/p.png) <script>alert(1)</script> https://evil.example "
        "www.evil.example a@evil.example | pipe `code` ~~gone~~ **bold** &lt;b&gt; &#60;i&#62; $x$ \\"
    )
    page = reader.render(
        Table("t", hostile, (Column(hostile),), ((hostile,),), notes=(hostile,)).render("markdown")
    )
    tags = set(re.findall(r"<(\w+)", page))
    assert tags == {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    raw = Table("t", "c", (Column("x"),), ((hostile,),)).render("markdown")
    assert not re.search(r"https?://|www\.|[a-z]@", raw)  # what GitHub makes links of by itself


def test_latex_tables_fit_the_column_or_say_that_they_take_both() -> None:
    def grid(columns: int, name: str = "Qwen2.5-VL-7B") -> Table:
        heads = (
            Column("System", align="left"),
            *(Column("Acc", f"G{i // 3}") for i in range(columns)),
        )
        return Table("t", "c", heads, ((name, *([rate(0.5)] * columns)),))

    assert r"\begin{table}[t]" in grid(5).render("latex")
    assert r"\begin{table*}[t]" in grid(16).render("latex")
    for table in (grid(5), grid(16), EXAMPLE):
        text = table.render("latex")
        assert r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%" in text
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    long = grid(1, "a gate + " * 12).render("latex")
    assert r"p{0.3\linewidth}" in long


@given(st.text(max_size=200))
def test_the_terminal_gets_no_control_characters(text: str) -> None:
    drawn = one_cell(text).render("terminal", width=400)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", drawn)
    assert plain(plain(text)) == plain(text)


def test_a_number_and_its_sign_of_per_cent_stay_on_one_line_however_narrow_the_terminal_is() -> (
    None
):
    said = "native 48 % (12); text->text 0 % (1); something else entirely 100 % (12)"
    table = Table("t", "c", (*texts("Source"), *texts("Origins", wraps=True)), (("one", said),))
    for width in range(20, 80):
        text = table.render("terminal", width=width)
        assert [line for line in text.splitlines() if line.strip().startswith("%")] == []
        assert " ".join(text.split()).endswith(" ".join(said.split()) if width > 78 else "% (12)")
    stream = io.StringIO()
    print_table(Console(file=stream, width=30), table)
    assert "48 %" in stream.getvalue()
    assert "\ue000" not in stream.getvalue()


def test_a_tables_name_is_a_name_in_files_and_in_latex(tmp_path: Path) -> None:
    """Tables of agreement are named by labellers, whom a file may call anything."""
    table = Table(r"confusion-../../x-\input{/etc/passwd}", "c", (Column("n"),), ((1,),))
    assert {p.parent for p in write_tables([table], tmp_path)} == {tmp_path}
    assert r"\input" not in table.render("latex")
    assert r"\label{tab:confusion-..-..-x--input-etc-passwd}" in table.render("latex")
