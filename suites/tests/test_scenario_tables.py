"""The auditor: each kind of defect planted once, and the paper's own tables."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.cli import main
from demur.core.errors import BadInput
from demur.core.store import Problems
from demur.judge.measures.kappa import of_table
from demur.judge.measures.totals import macro
from demur_suites import audit_tables
from demur_suites.published import Finding
from demur_suites.scenario_tables import (
    LAYOUT,
    RATES,
    SCENARIOS,
    highest_kappa,
    lowest_kappa,
    weighted,
)

TABLES = Path(__file__).parent / "tables"
HEAD = "table,model,condition,part,n,scenario,accuracy,deflection,hallucination,agreement,kappa,labels\n"


def run(tmp_path: Path, body: str, head: str = HEAD) -> list[Finding]:
    file = tmp_path / "t.csv"
    file.write_text(head + body)
    problems = Problems()
    found = audit_tables([file], problems).findings
    problems.settle()
    return found


def paper(*names: str) -> list[Finding]:
    problems = Problems()
    found = audit_tables([TABLES / f"deflection_table{name}.csv" for name in names], problems)
    problems.settle()
    return found.findings


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
    assert "table 4 against table 6 and table 8 and table 9" in keye.message
    assert "8.4" in keye.message
    (mistral,) = [f for f in found if f.kind == "total" and "Mistral" in f.where]
    assert "23.5 is printed, 33.6 follows" in mistral.message
    (sum_off,) = [f for f in found if f.kind == "sum" and "MRAG" in f.where]
    assert "98.0" in sum_off.message


def test_tables_6_and_9_are_sound_and_agree_with_table_8() -> None:
    assert paper("6", "9") == []
    assert not [f for f in paper("6", "8", "9") if f.kind == "disagree"]


def test_notes_are_last_figures_that_were_made_to_sum() -> None:
    notes = [f for f in paper("8") if f.severity == "note"]
    assert any("6.6 is no share of 15" in f.message for f in notes)
    assert {f.kind for f in notes} == {"count"}


def test_transcription_is_complete() -> None:
    files = sorted(TABLES.glob("deflection_*.csv"))
    assert [audit_tables([p], Problems()).lines for p in files] == [76, 32, 5, 112, 32]


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

    def row(part: str, triple: tuple[int, ...]) -> tuple[str, dict[str, str]]:
        n = sum(triple)
        shares = {r: f"{100 * c / n:.1f}" for r, c in zip(RATES, triple, strict=True)}
        texts = {"table": "1", "model": "m", "part": part, "scenario": "o"}
        return part, texts | shares | {"n": str(n)}

    rows = [row(str(i), c) for i, c in enumerate(counts)]
    rows.append(row("Total", tuple(map(sum, zip(*counts, strict=True)))))
    assert SCENARIOS.audit(rows) == []


def test_a_table_of_a_german_spreadsheet_is_read(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    text = "\ufeffModel;n;Accuracy;Deflection;Labels\r\nm; 1,000;79,51 %;4,4;1,200\r\n;;;;\r\n"
    file.write_text(text, encoding="utf-8")
    problems = Problems()
    [found] = audit_tables([file], problems).findings
    assert (found.kind, found.where) == ("count", "table t, m")  # 79.51 % of 1,000
    assert not problems.lines


@pytest.mark.parametrize("line", ["1,m,,,,o,x,,,,,", "1,m,,,,o,101,,,,,", "1,m,,,,o,,,,90,0.5,1"])
def test_a_cell_without_a_possible_number_is_a_finding(tmp_path: Path, line: str) -> None:
    [found] = run(tmp_path, line + "\n")
    assert (found.kind, found.severity) == ("number", "defect")


def test_a_table_of_no_known_kind_is_told(tmp_path: Path) -> None:
    for head, body in (("model,colour\n", "m,1\n"), ("", "")):
        with pytest.raises(BadInput) as error:
            run(tmp_path, body, head)
        assert "t.csv" in str(error.value)


def test_the_example_in_the_help_is_sound(tmp_path: Path) -> None:
    example = "\n".join(line.strip() for line in LAYOUT.partition("example:\n")[2].splitlines())
    assert [f for f in run(tmp_path, example, "") if f.severity == "defect"] == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "audit", str(TABLES / "deflection_table6.csv")]) == 0
    assert "32 lines: 0 defects" in capsys.readouterr().out
    assert main(["suite", "audit", str(TABLES / "deflection_table8.csv"), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["lines"], report["defects"]) == (112, 4)
    assert main(["suite", "audit", str(tmp_path / "none.csv")]) == 1
    assert "none.csv" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["suite", "audit", "--help"])
    assert "table,model,condition" in capsys.readouterr().out


# --- bounds and totals

N8 = (1646, 826, 185, 58, 45, 15)
KEYE = {  # VLM-DeflectionBench, Table 8: rows per source; the last is the printed Total
    "parametric": (
        [1.6, 5.6, 3.8, 0, 11.1, 6.7],
        [17.1, 28.6, 27.0, 31.0, 4.4, 33.3],
        [81.3, 65.9, 69.2, 69.0, 84.4, 60.0],
        (3.1, 21.4, 75.6),
    ),
    "oracle": (
        [56.7, 79.5, 77.3, 69.0, 37.8, 46.7],
        [11.7, 4.4, 11.9, 0, 8.9, 40.0],
        [31.6, 16.1, 10.8, 31.0, 53.3, 13.3],
        (64.8, 9.4, 25.8),
    ),
    "realistic": (
        [47.1, 70.7, 73.5, 60.3, 35.6, 53.3],
        [10.8, 8.6, 9.7, 0, 6.7, 20.0],
        [42.1, 20.7, 16.8, 39.7, 57.8, 26.7],
        (56.0, 9.8, 34.2),
    ),
    "adversarial": (
        [0.9, 6.5, 2.2, 15.5, 8.9, 6.6],
        [38.4, 52.7, 66.5, 12.1, 26.7, 46.7],
        [60.7, 40.8, 31.4, 72.4, 64.4, 46.7],
        (3.1, 43.8, 53.1),
    ),
}


@pytest.mark.parametrize("scenario", KEYE)
def test_published_totals_are_sample_weighted_means(scenario: str) -> None:
    *columns, printed = KEYE[scenario]
    for column, total in zip(columns, printed, strict=True):
        assert weighted(list(zip(column, N8, strict=True))) == pytest.approx(total, abs=0.1)
    if scenario == "oracle":
        assert macro(columns[0]) == pytest.approx(
            61.2, abs=0.05
        )  # what it must not be confused with


def test_weighted_totals_leave_out_what_is_undefined() -> None:
    assert weighted([]) is None
    assert weighted([(None, 5), (2.0, 0)]) is None


@pytest.mark.parametrize(
    ("agreement", "bound"), [(0.911, 0.867), (0.924, 0.886), (0.94, 0.910), (0.93, 0.895)]
)
def test_highest_kappa_acceptance_numbers(agreement: float, bound: float) -> None:
    assert highest_kappa(agreement, 3) == pytest.approx(bound, abs=0.002)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=9, max_size=9).filter(any))
def test_no_table_beats_the_bound(cells: list[int]) -> None:
    counts = np.array(cells, dtype=float).reshape(3, 3)
    found = of_table(counts)
    if found.kappa is not None and found.observed is not None:
        assert found.kappa <= highest_kappa(found.observed, 3) + 1e-9


@pytest.mark.parametrize(
    ("agreement", "labels", "bound"), [(0.2, 3, 1 / 6), (0.2, 4, 0.18 / 0.98), (0.0, 2, 0.0)]
)
def test_the_bound_of_little_agreement(agreement: float, labels: int, bound: float) -> None:
    assert highest_kappa(agreement, labels) == pytest.approx(bound)


def test_the_bound_is_reached() -> None:
    best = max(
        of_table(np.array([[a, 9.0, 0], [0, b, 0], [0, 0, 91.0 - a - b]])).kappa or 0
        for a in range(92)
        for b in range(92 - a)
    )
    assert best == pytest.approx(highest_kappa(0.91, 3), abs=2e-4)


@pytest.mark.parametrize(("labels", "items"), [(2, 12), (3, 6)])
def test_no_table_is_below_the_least_kappa_and_one_has_it(labels: int, items: int) -> None:
    """Every table of so many items, by brute force."""
    least: dict[int, float] = {}
    for bars in itertools.combinations(range(items + labels**2 - 1), labels**2 - 1):
        cells = [b - a - 1 for a, b in itertools.pairwise((-1, *bars, items + labels**2 - 1))]
        found = of_table(np.array(cells, dtype=float).reshape(labels, labels))
        if found.kappa is not None and found.observed is not None:
            equal = round(found.observed * items)
            least[equal] = min(least.get(equal, 1.0), found.kappa)
    assert sorted(least) == list(range(items + 1))
    for equal, kappa in least.items():
        assert kappa >= lowest_kappa(equal / items) - 1e-9
        if (items - equal) % 2 == 0:  # the disagreements can be halved
            assert kappa == pytest.approx(lowest_kappa(equal / items))
