"""What `demur judge correct`, Table 7 and `demur agree` print: what was left out, of how many, and for what it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from errors import raises

from demur.core.errors import DataError
from demur.core.records import Measure, Outcome, Row, Scenario, Status
from demur.judge.annotation import task as labelling
from demur.reports import paper_tables
from demur.reports.agree import agreement_of, corrections_of
from demur.reports.compare import compare
from demur.reports.data import ReportData, Run
from demur.reports.labels import HumanLabel

LETTERS = {"c": Outcome.CORRECT, "d": Outcome.DEFLECTED, "i": Outcome.INCORRECT}


def run(verdicts: str, labels: str, name: str = "a", clusters: int = 0) -> Run:
    """A run of one scenario: a letter an answer, u unjudged; labels likewise, a blank where there is none."""
    rows = [
        Row(
            ask=f"q{n}",
            context=f"q{n}",
            sample=f"s{n}",
            source="atlas",
            scenario=Scenario.ORACLE,
            condition="moderate",
            recipe="oracle(order=shuffled)",
            k_used=0,
            expected="answer",
            outcome=LETTERS.get(letter),
            status=Status.GRADED if letter in LETTERS else Status.UNJUDGED,
            cluster=f"e{n % clusters}" if clusters else "",
        )
        for n, letter in enumerate(verdicts)
    ]
    given = {
        f"q{n}": HumanLabel(LETTERS[letter]) for n, letter in enumerate(labels) if letter != " "
    }
    return Run(name=name, path=Path(name), manifest={}, rows=tuple(rows), labels=given)


def test_a_verdict_without_labels_is_named_and_the_others_are_corrected():
    sheet = run("c" * 60 + "u" * 40, "c" * 55 + "i" * 5, "sheet")
    page = run("c" * 60 + "u" * 40, "c" * 20 + " " * 40 + "i" * 25, "page")
    table = corrections_of(ReportData((sheet, page)), None)
    assert table.rows[0][2] == "no label on 40 unjudged answers, 40 % of the cell"
    assert any("demur annotate RUN" in note for note in table.notes)
    assert [row[1:3] for row in table.rows[1:]] == [("page", "as judged"), ("page", "corrected")]
    assert table.rows[0][3] is None
    assert table.rows[2][3].value == pytest.approx(0.6)


def test_the_judges_own_rate_stands_beside_how_many_it_graded():
    table = corrections_of(ReportData((run("c" * 10 + "u" * 90, "c" * 10 + "i" * 40),)), None)
    place = [column.title for column in table.columns].index("graded")
    assert [row[place : place + 2] for row in table.rows] == [(10, 100), (None, 100)]


def test_a_small_share_without_labels_is_told():
    table = corrections_of(ReportData((run("c" * 95 + "d" * 5, "c" * 50),)), None)
    assert any("may be anything" in note and "oracle, a: 5.0 %" in note for note in table.notes)


def test_differences_count_questions_of_one_entity_as_one():
    """Ten entities of 20 questions each: the difference of the two systems is that of ten things, not of 200."""
    verdicts, widths = ("ci" * 5) * 20, []
    for clusters in (0, 10):
        one = run(verdicts, "ci" * 100, "one", clusters)
        two = run(
            verdicts.replace("c", "x").replace("i", "c").replace("x", "i"),
            "ic" * 100,
            "two",
            clusters,
        )
        one, two = (
            replace(r, labels={k: v._replace(drawn=True) for k, v in r.labels.items()})
            for r in (one, two)
        )
        [found] = [d for d in compare(one, two).differences if d.measure == "accuracy"]
        assert found.labels == (200, 200)
        widths.append(found.high - found.low)
    assert widths[1] > 2 * widths[0]


def test_table_7_weights_verdicts_by_their_share_of_the_run():
    """80 graded correct, all rightly; 20 incorrect, half of them wrongly; as many labels of either."""
    table = paper_tables.table7(
        ReportData((run("c" * 80 + "i" * 20, "c" * 20 + " " * 60 + "ic" * 10),))
    )
    [(_, agreement, kappa, n)] = table.rows
    assert isinstance(agreement, Measure)
    assert (agreement.value, agreement.n, n) == (pytest.approx(0.9), 40, 40)
    assert kappa == pytest.approx((0.9 - (0.8 * 0.9 + 0.2 * 0.1)) / (1 - (0.8 * 0.9 + 0.2 * 0.1)))
    assert any("share of the graded answers" in note for note in table.notes)
    everything = paper_tables.table7(ReportData((run("cci", "cic"),)))
    assert everything.rows[0][1].value == pytest.approx(1 / 3)
    assert not everything.notes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A labelling task with opaque ids, beside two runs that share their asks' ids."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        lines = [
            {"id": f"q{n}", "outcome": "correct", "judge": "local", "status": "graded"}
            for n in range(6)
        ]
        (tmp_path / name / "verdicts.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
    names = tuple(labelling.Label(name=o.value, text=o.value) for o in Outcome)
    items = [
        labelling.Item(
            id=f"{name}{n}",
            shown=(("Q", "?"),),
            about={"run": f"../{name}", "ask": f"q{n}", "answer": "x"},
        )
        for name in ("one", "two")
        for n in range(5)
    ]
    task = labelling.Task(name="t", labels=names, rubric="r", balance=(), repeats=0, seed=0)
    labelling.write_task(tmp_path / "task", task, items)
    said = {
        item.id: ("correct" if item.id.startswith("one") else "incorrect", "") for item in items
    }
    labelling.put_labels(tmp_path / "task", "ann", said)
    return tmp_path


@pytest.mark.parametrize(
    ("runs", "n", "raw"), [(["one"], 5, 1.0), (["two"], 5, 0.0), (["one", "two"], 10, 0.5)]
)
def test_a_labelling_folder_is_compared_with_the_verdicts_of_its_runs(folder, runs, n, raw):
    tables = agreement_of([folder / "task", *(folder / name for name in runs)])
    assert tables[1].rows[0][:2] == ("raw", raw)
    assert tables[1].rows[0][-1] == n
    assert any("as they were drawn" in note for note in tables[1].notes)


def test_each_judge_stands_against_each_person(folder):
    """Two judges of a run, two people: four pairs, each on the items that both labelled."""
    beside = folder / "one" / "verdicts"
    beside.mkdir()
    lines = [
        {"id": f"q{n}", "outcome": "correct" if n < 2 else "incorrect", "judge": "model:x"}
        for n in range(4)
    ]
    for name in ("again", "again@2", "local"):  # the last two are repeats
        (beside / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    labelling.put_labels(folder / "task", "bob", {f"one{n}": ("incorrect", "") for n in range(3)})
    tables = agreement_of([folder / "task", folder / "one"])
    pairs = {row[:2]: (row[2].value, row[-1]) for row in tables[0].rows}
    assert pairs == {
        ("local", "ann"): (1.0, 5),
        ("local", "bob"): (0.0, 3),
        ("again", "ann"): (0.5, 4),
        ("again", "bob"): (pytest.approx(1 / 3), 3),
    }
    assert [row[:2] for row in tables[0].rows] == sorted(pairs)
    consistency = {row["Labeller"]: row["Self-consistency"] for row in tables[2].records()}
    assert consistency["again"]["value"] == 1
    assert consistency["local"]["value"] == 0.5


def test_people_alone_are_against_no_judge(folder):
    labelling.put_labels(folder / "task", "bob", {"one0": ("incorrect", "")})
    first = agreement_of([folder / "task"])[0]
    assert first.name == "agreement"
    assert not any("as they were drawn" in note for note in first.notes)


def test_paths_that_share_no_ids_are_refused(folder):
    (folder / "other.csv").write_text("item,label\nz1,correct\nz2,incorrect\n")
    with raises(DataError, "ann, other", "one0", "z2"):
        agreement_of([folder / "task", folder / "other.csv"])
