"""The auditor: each kind of defect planted once, and the paper's own tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.cli import main
from demur.core.errors import BadInput
from demur.core.store import Problems
from demur.judge.audit import LAYOUT, Finding, audit, read_lines

TABLES = Path(__file__).parent / "tables"
HEAD = "table,model,condition,part,n,scenario,accuracy,deflection,hallucination,agreement,kappa,labels\n"


def run(tmp_path: Path, body: str, head: str = HEAD) -> list[Finding]:
    file = tmp_path / "t.csv"
    file.write_text(head + body)
    problems = Problems()
    lines = read_lines(file, problems)
    problems.settle()
    return audit(lines)


def paper(*names: str) -> list[Finding]:
    problems = Problems()
    lines = [line for name in names for line in read_lines(TABLES / f"table{name}.csv", problems)]
    problems.settle()
    return audit(lines)


def defects(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(f.kind, f.where) for f in findings if f.severity == "defect"}


def test_the_papers_tables_have_exactly_the_known_defects() -> None:
    """VLM-DeflectionBench, Tables 4, 6, 7, 8 and 9; nothing more and nothing less."""
    found = paper("4", "6", "7", "8", "9")
    assert defects(found) == {
        ("sum", "table 4, Ovis2-34B, moderate, Total, oracle"),
        ("sum", "table 8, Ovis2-16B, moderate, MRAG-Bench, adversarial"),
        ("total", "table 8, Ovis2-16B, moderate, Total, adversarial"),
        ("total", "table 8, Mistral-Small-3.1, moderate, Total, realistic"),
        ("total", "table 8, Claude-Opus-4, moderate, Total, realistic"),
        ("disagree", "Keye-1.5-8B, moderate, Total"),
        ("count", "table 7, Keye-1.5-8B"),
        ("count", "table 7, Ovis2-16B"),
        ("kappa", "table 7, Keye-1.5-8B"),
        ("kappa", "table 7, Ovis2-16B"),
        ("kappa", "table 7, Mistral-Small-3.1"),
        ("kappa", "table 7, Claude-Opus-4"),
    }
    (keye,) = [f for f in found if f.kind == "disagree"]
    assert "table 4 against 6, 8, 9 differ" in keye.message
    assert "8.4 points" in keye.message
    (mistral,) = [f for f in found if f.kind == "total" and "Mistral" in f.where]
    assert "23.5 is printed, 33.6 follows" in mistral.message
    (sum_off,) = [f for f in found if f.kind == "sum" and "MRAG" in f.where]
    assert "98.0" in sum_off.message


def test_tables_6_and_9_are_sound_and_agree_with_table_8() -> None:
    assert paper("6", "9") == []
    assert not [f for f in paper("6", "8", "9") if f.kind == "disagree"]


def test_notes_are_last_figures_that_were_made_to_sum() -> None:
    notes = [f for f in paper("8") if f.severity == "note"]
    assert any("6.6 is no share of 15: 1 of 15 is 6.67" in f.message for f in notes)
    assert {f.kind for f in notes} == {"count"}


def test_transcription_is_complete() -> None:
    problems = Problems()
    counts = {p.stem: len(read_lines(p, problems)) for p in sorted(TABLES.glob("*.csv"))}
    assert counts == {
        "table4": 19 * 4,
        "table6": 32,
        "table7": 5,
        "table8": 4 * 7 * 4,
        "table9": 32,
    }


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("1,m,,,,o,50,20,30,,,\n", []),
        ("1,m,,,,o,50,20,30.2,,,\n", []),
        ("1,m,,,,o,50,20,30.3,,,\n", ["sum"]),
        ("1,m,,,,o,50,20,,,,\n", []),
        ("1,m,,a,100,o,50,,,,,\n1,m,,b,300,o,10,,,,,\n1,m,,Total,400,o,20,,,,,\n", []),
        ("1,m,,a,100,o,50,,,,,\n1,m,,b,300,o,10,,,,,\n1,m,,Total,400,o,30,,,,,\n", ["total"]),
        ("1,m,,a,100,o,50,,,,,\n1,m,,b,300,o,10,,,,,\n1,m,,Average,,o,30,,,,,\n", []),
        ("1,m,,a,100,o,50,,,,,\n1,m,,b,300,o,10,,,,,\n1,m,,Total,401,o,20,,,,,\n", ["n"]),
        ("1,m,x,,,o,50,,,,,\n2,m,x,,,o,51,,,,,\n", ["disagree"]),
        ("1,m,x,,,o,50,,,,,\n2,m,y,,,o,51,,,,,\n", []),
        ("1,m,,,10,o,51,,,,,\n", ["count"]),
        ("1,m,,,3,o,33.3,,,,,\n", []),
        ("1,m,,,1000,,,,,95,0.92,3\n", []),
        ("1,m,,,1000,,,,,95,0.94,3\n", ["kappa"]),
        ("1,m,,,1000,,,,,95,-0.03,3\n", []),
        ("1,m,,,1000,,,,,95,-0.9,3\n", ["kappa"]),
        ("1,m,,,,,,,,95,-0.9,\n", ["kappa"]),
        ("1,m,,,100,,,,,100,0.5,3\n", ["kappa"]),
        ("1,m,,,,,,,,100,0.5,3\n", []),  # 99.9 % may be printed so
        ("1,m,,,1000,,,,,100,1,3\n", []),
    ],
)
def test_planted_defects(tmp_path: Path, body: str, want: list[str]) -> None:
    assert [f.kind for f in run(tmp_path, body) if f.severity == "defect"] == want


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 200), st.integers(1, 200)),
        min_size=1,
        max_size=6,
    )
)
def test_an_honest_table_has_no_defects(counts: list[tuple[int, int, int]]) -> None:
    """Tables made from counts by rounding to one decimal never look impossible."""
    from demur.judge.audit import Line

    def line(part: str, triple: tuple[int, ...]) -> Line:
        n = sum(triple)
        shares = [round(100 * c / n, 1) for c in triple]
        return Line("here", "1", "m", "", part, "o", n, *shares, None, None, None, 1)

    lines = [line(str(i), c) for i, c in enumerate(counts)]
    lines.append(line("Total", tuple(map(sum, zip(*counts, strict=True)))))
    assert audit(lines) == []


def test_a_table_of_a_german_spreadsheet_is_read(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        "\ufeffModel;n;Accuracy;Deflection;Labels\r\nm; 1,234;79,5 %;4,4;1,200\r\n;;;;\r\n",
        encoding="utf-8",
    )
    problems = Problems()
    [line] = read_lines(file, problems)
    assert (line.n, line.accuracy, line.deflection, line.labels, line.digits) == (
        1234,
        79.5,
        4.4,
        1200,
        1,
    )
    assert not problems.lines


def test_unreadable_lines_are_gathered(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput,
        match=r"t.csv:2: accuracy is 'x'(.|\n)*t.csv:3: accuracy is 101(.|\n)*t.csv:4: model is empty",
    ):
        run(tmp_path, "1,m,,,,o,x,,,,,\n1,m,,,,o,101,,,,,\n1,,,,,o,1,,,,,\n")
    with pytest.raises(BadInput, match=r"t.csv:2: labels is 1, expected 2 to 1e\+06"):
        run(tmp_path, "1,m,,,,o,,,,90,0.5,1\n")
    with pytest.raises(BadInput, match="unknown column 'colour'; known: table, model"):
        run(tmp_path, "m,1\n", "model,colour\n")
    with pytest.raises(BadInput, match="no column named 'model'"):
        run(tmp_path, "", "")
    with pytest.raises(BadInput, match="more values than columns"):
        run(tmp_path, "m,1,2\n", "model,n\n")


def test_the_example_in_the_help_is_sound(tmp_path: Path) -> None:
    example = "\n".join(line.strip() for line in LAYOUT.partition("example:\n")[2].splitlines())
    assert [f for f in run(tmp_path, example, "") if f.severity == "defect"] == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(TABLES / "table6.csv")]) == 0
    assert "32 lines: 0 defects" in capsys.readouterr().out
    assert main(["audit", str(TABLES / "table8.csv"), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["lines"], report["defects"]) == (112, 4)
    assert main(["audit", str(tmp_path / "none.csv")]) == 1
    assert "none.csv" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    assert "table,model,condition" in capsys.readouterr().out
