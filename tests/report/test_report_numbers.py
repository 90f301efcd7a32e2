"""Cells, the paper's tables and figures, and the comparison of two runs, against numbers counted by hand."""

from __future__ import annotations

import csv
import io
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from demur.core.records import Measure, Outcome, Row, Scenario, Status
from demur.curation.build.topics import compare_topics
from demur.reports import cells, compare, compare_tables, html, paper_figures, paper_tables
from demur.reports.behaviour import behaviour_table, risk_panels, risk_table
from demur.reports.data import ReportData, Run
from demur.reports.labels import HumanLabel
from demur.reports.release import caveats, funnel_table, recall_table
from demur.reports.tables import Table, cell_text
from demur.reports.terminal import print_data, results_table, summarised

LETTERS = {"c": Outcome.CORRECT, "d": Outcome.DEFLECTED, "i": Outcome.INCORRECT}


def rows(
    outcomes: str,
    *,
    scenario: str = "oracle",
    source: str = "atlas",
    condition: str = "moderate",
    recipe: str = "oracle(order=shuffled)",
    start: int = 0,
    used: int | None = None,
    **more: object,
) -> list[Row]:
    """One row a letter: c, d, i graded; u unjudged; f failed. ``used``: distractors shown; what the recipe says."""
    asked = re.search(r"k=(\d+)", recipe)
    shown_ = int(asked[1]) if asked and used is None else used or 0
    return [
        Row(
            ask=f"{scenario}{source}{condition}{recipe}{start + i}",
            context=f"{scenario}{source}{recipe}{start + i}",
            sample=f"{source}-{start + i}",
            source=source,
            scenario=Scenario(scenario),
            condition=condition,
            recipe=recipe,
            k_used=shown_,
            expected="answer" if scenario in ("oracle", "realistic") else "deflect",
            status={"u": Status.UNJUDGED, "f": Status.FAILED}.get(letter, Status.GRADED),
            outcome=LETTERS.get(letter),
            **more,  # type: ignore[arg-type]
        )
        for i, letter in enumerate(outcomes)
    ]


def run(name: str, found: list[Row], **manifest: object) -> Run:
    return Run(name=name, path=Path(name), manifest=manifest, rows=tuple(found))


def column(table: Table, title: str, group: str = "") -> list[str]:
    place = next(i for i, c in enumerate(table.columns) if (c.title, c.group) == (title, group))
    return [cell_text(row[place], table.columns[place]) for row in table.rows]


# --- cells ---------------------------------------------------------------------------------------


def test_the_headline_is_the_default_where_all_runs_have_it() -> None:
    four = (
        rows("ccd")
        + rows("cci", condition="severe")
        + rows("cciiii", recipe="oracle(order=gold-first)")
    )
    head = cells.headline([run("a", four), run("b", rows("c"))])
    assert head.condition == "moderate"
    assert head.recipes == {Scenario.ORACLE: "oracle(order=shuffled)"}


def test_the_headline_is_what_most_runs_share() -> None:
    other = "realistic(k=4,pick=ranked,order=shuffled,short=use_all)"
    default = "realistic(k=2,pick=ranked,order=shuffled,short=use_all)"
    first = rows("ccc", scenario="realistic", recipe=other, condition="severe")
    first += rows("ccc", scenario="realistic", recipe=default)
    second = rows("ccc", scenario="realistic", recipe=other, condition="severe")
    head = cells.headline([run("a", first), run("b", second)])
    assert (head.condition, head.recipes[Scenario.REALISTIC]) == ("severe", other)


def test_unjudged_and_failed_stand_beside_the_rates() -> None:
    data = ReportData((run("a", rows("ccdiuff")),))
    (one,) = cells.main_cells(data, cells.headline(data.runs)).values()
    assert (one.n, one.accuracy.unjudged, one.accuracy.failed) == (4, 1, 2)
    assert [m.value for m in one] == [0.5, 0.25, 0.25]


@pytest.mark.heavy
def test_the_sweep_starts_at_the_oracle(data: ReportData) -> None:
    found = cells.sweep_cells(data, cells.headline(data.runs))
    assert list(found) == ["reader", "cautious"]
    assert list(found["reader"]) == [0, 1, 2, 3, 4, 5, 6]
    bare = ReportData(
        (
            run(
                "a",
                rows("cd")
                + rows(
                    "ci",
                    scenario="realistic",
                    recipe="realistic(k=2,pick=ranked,order=shuffled,short=use_all)",
                )
                + rows(
                    "ii",
                    scenario="realistic",
                    recipe="realistic(k=3,pick=ranked,order=shuffled,short=use_all)",
                ),
            ),
        )
    )
    points = cells.sweep_cells(bare, cells.headline(bare.runs))["a"]
    assert {k: p.cell.accuracy.value for k, p in points.items()} == {0: 0.5, 2: 0.5, 3: 0.0}


def swept(k: int) -> str:
    return f"realistic(k={k},pick=ranked,order=shuffled,short=use_all)"


def test_a_sweep_beyond_what_samples_have_is_no_point() -> None:
    """Ten samples with 1 distractor, six of them with 2, none with 3: asked with k = 0 to 4 all the same."""
    found = rows(
        "c" * 8 + "i" * 4, recipe=swept(0), scenario="realistic"
    )  # two samples have no distractor at all
    found += rows("c" * 6 + "i" * 4, recipe=swept(1), scenario="realistic")
    for k in (2, 3, 4):
        found += rows("ccciii", recipe=swept(k), scenario="realistic", used=2)
        found += rows("cccc", recipe=swept(k), scenario="realistic", used=1, start=6)
    data = ReportData((run("a", found),))
    head = cells.headline(data.runs)
    points = cells.sweep_cells(data, head)["a"]
    assert {k: (p.cell.n, p.items_shown, p.items_in_all, p.partial) for k, p in points.items()} == {
        0: (10, 10, 10, False),
        1: (10, 10, 10, False),
        2: (6, 6, 10, True),
        3: (0, 0, 10, True),
        4: (0, 0, 10, True),
    }
    assert (
        points[2].cell.accuracy.value == 0.5
    )  # of the six; 0.7 of all ten, four of which show one
    table = paper_figures.figure_table(data, "figure3")
    assert column(table, "Distractors") == ["0", "1", "2", "3", "4"]
    assert column(table, "n") == ["10", "10", "6", "0", "0"]
    assert column(table, "Too few") == ["0", "0", "4", "10", "10"]
    assert column(table, "Acc")[3:] == ["–", "–"]
    told = " ".join(table.notes)
    assert "2: 6 of 10" in told
    assert "distractors: 3, 4" in told
    drawn = paper_figures.figure3(data, head)
    assert [p.body.count('class="mark"') for p in drawn[:3]] == [3, 3, 3]
    assert drawn[0].body.count('opacity=".38"') == 2  # the piece to the grey point, and the point
    assert "distractors shown" in drawn[0].body
    page = html.page(data)
    assert "distractors: 3, 4" in page


def test_headline_asks_with_too_few_distractors_are_told() -> None:
    found = rows("cccc", scenario="realistic", recipe=swept(2)) + rows(
        "c", scenario="realistic", recipe=swept(2), used=1, start=4
    )
    data = ReportData((run("a", found),))
    table = paper_tables.table4(data, cells.headline(data.runs))
    assert any("1 of 5 realistic questions" in note for note in table.notes)


def test_who_asks_back_is_counted_beside_the_deflections() -> None:
    found = rows("cdddi")
    asking = [
        r.model_copy(update={"kind": "asks back"}) if n in (1, 2) else r
        for n, r in enumerate(found)
    ]
    data, without = ReportData((run("a", asking), run("b", found))), ReportData((run("b", found),))
    [first, second] = summarised(data)["results"]
    assert (
        first["asks_back"]["value"],
        first["deflection"]["value"],
        second["asks_back"]["value"],
    ) == (0.4, 0.6, 0.0)
    assert "asks_back" not in summarised(without)["results"][0]


def test_two_scenarios_are_no_sweep() -> None:
    recipe = "realistic(k=2,pick=ranked,order=shuffled,short=use_all)"
    data = ReportData((run("a", rows("cd") + rows("ci", scenario="realistic", recipe=recipe)),))
    assert cells.sweep_cells(data, cells.headline(data.runs)) == {}


def test_rows_with_a_recipe_from_elsewhere_are_counted_all_the_same() -> None:
    data = ReportData((run("a", rows("cdi", recipe="their own way", scenario="realistic")),))
    head = cells.headline(data.runs)
    assert cells.main_cells(data, head)["a", Scenario.REALISTIC].n == 3
    assert cells.sweep_cells(data, head) == {}


# --- the paper's tables --------------------------------------------------------------------------

OVIS_ORACLE = {  # source: (n, correct, deflected), counted back from Table 8's per cents of Ovis2-16B, Oracle
    "InfoSeek": (1646, 879, 84),
    "WebQA": (826, 711, 8),
    "E-VQA": (185, 147, 9),
    "MMDocRAG": (58, 36, 4),
    "MRAG-Bench": (45, 5, 11),
    "ViQuAE": (15, 9, 0),
}


def test_totals_of_table_8_weigh_sources_by_their_samples() -> None:
    found: list[Row] = []
    for source, (n, right, away) in OVIS_ORACLE.items():
        found += rows("c" * right + "d" * away + "i" * (n - right - away), source=source)
    data = ReportData((run("Ovis2-16B", found),))
    table = paper_tables.breakdown_table(data, cells.headline(data.runs), "source", "table8")
    printed = [column(table, title, "Oracle") for title in ("Acc", "Defl", "Hall", "n")]
    by_source = dict(zip(column(table, "Source"), zip(*printed, strict=True), strict=True))
    assert by_source["InfoSeek"] == ("53.4", "5.1", "41.5", "1,646")
    assert by_source["WebQA"] == (
        "86.1",
        "1.0",
        "13.0",
        "826",
    )  # the paper prints 12.9: 100 minus the others
    assert by_source["Total"] == ("64.4", "4.2", "31.4", "2,775")


def test_table_2_calls_it_retained_and_computes_it(data: ReportData) -> None:
    table = paper_tables.table2(data)
    assert "Retained" in [c.title for c in table.columns]
    assert column(table, "Source") == ["facts", "flags", "Total"]
    assert column(table, "Retained") == [
        "–",
        "–",
        "72.7",
    ]  # 48 of the 66 that the funnel starts with
    assert data.release is not None
    data.release.manifest["pools"] = {"facts": 30, "flags": 36}
    try:
        assert column(paper_tables.table2(data), "Retained") == ["80.0", "66.7", "72.7"]
        assert column(paper_tables.table2(data), "Query") == ["Textual", "Multi", "Mixed"]
    finally:
        del data.release.manifest["pools"]


def test_table_3_counts_the_release(data: ReportData) -> None:
    values = dict(paper_tables.table3(data).rows)
    assert values["Total samples"] == 48
    assert values["Unique questions"] == 28  # 24 by country, and one flag question a topic
    assert values["Unique query images"] == 23  # two of the drawn flags came out alike
    assert values["Avg. negative contexts per sample"] == 8.0


def test_table_5_has_n_per_cell_and_only_supporting_samples(data: ReportData) -> None:
    table = paper_tables.table5(data, cells.headline(data.runs))
    reader = [row for row in table.rows if row[0] == "reader"]
    assert [row[1:3] for row in reader] == [
        (gold, side) for gold in ("Textual", "Visual") for side in ("MM", "Visual", "Textual")
    ]
    with_image = sum(any(e.modality == "image" for e in s.gold) for s in data.samples.values())
    assert {row[-1] for row in reader if row[1] == "Visual"} == {with_image}


def crossed(gold: str, side: str) -> str:
    return f"realistic(k=2,pick=ranked,order=shuffled,short=use_all,gold={gold},negatives={side})"


def test_cells_of_table_5_that_stand_side_by_side_are_over_the_same_samples() -> None:
    """Text distractors: 23 samples, 7 right. Image distractors: 74, of which the same 23 (7 right) and 51 (35 right)."""
    same = "c" * 7 + "i" * 16
    found = rows(same, scenario="realistic", recipe=crossed("text", "text"))
    found += rows(same + "c" * 35 + "i" * 16, scenario="realistic", recipe=crossed("text", "image"))
    found += rows(same, scenario="realistic", recipe=crossed("text", "both"))
    found += rows("ci", scenario="realistic", recipe=crossed("image", "text"), start=200)
    found += rows(
        "ccii", scenario="realistic", recipe=crossed("text", "text").replace("k=2", "k=9")
    )
    data = ReportData((run("a", found),))
    table = paper_tables.table5(data, cells.headline(data.runs))
    assert column(table, "Acc") == ["30.4", "30.4", "30.4", "50.0"]  # not 56.8 for images
    assert column(table, "n") == ["23", "23", "23", "2"]
    assert any("gold text: 51" in note for note in table.notes)
    assert not any("k=9" in note for note in table.notes)


def test_samples_that_share_no_modality_of_distractors_make_no_cell() -> None:
    found = rows("cc", scenario="realistic", recipe=crossed("text", "text"))
    found += rows("ii", scenario="realistic", recipe=crossed("text", "image"), start=5)
    data = ReportData((run("a", found),))
    table = paper_tables.table5(data, cells.headline(data.runs))
    assert (column(table, "Acc"), column(table, "n")) == (["–", "–"], ["0", "0"])
    assert any("gold text: 4" in note for note in table.notes)


def test_the_star_follows_what_a_system_is_and_not_its_folder(data: ReportData) -> None:
    found = rows("cdi")
    gates = {
        "the reader": {"system": "reader?min=0.5"},
        "big": {"system": "big", "model": "Qwen/Qwen2.5-VL-7B"},
        "mine": {"system": "python:rag:answer", "revision": "aaaa"},
    }
    release = type(
        "Release",
        (),
        {
            "manifest": {"gates": list(gates), "gate_models": gates},
            "funnel": [],
            "steps": [],
            "recall": [],
        },
    )()
    runs = (
        run("renamed", found, system="reader?min=0.5"),
        run("the reader", found, system="reader"),
        run("served", found, system="model:Qwen/Qwen2.5-VL-7B"),
        run("edited", found, system="python:rag:answer", revision="bbbb"),
    )
    starred = ReportData(runs, release)
    assert [starred.starred(r) for r in runs] == ["renamed*", "the reader", "served*", "edited*"]
    head = cells.headline(runs)
    for table in (paper_tables.table4(starred, head), results_table(starred, head)):
        assert column(table, "System") == ["renamed*", "the reader", "served*", "edited*"]
        assert any(note.startswith("* also a gate") and "edited" in note for note in table.notes)
    assert not any(
        "*" in note for note in paper_tables.table4(data, cells.headline(data.runs)).notes
    )


def test_rows_of_a_system_that_is_shown_no_prompt_are_marked() -> None:
    found = rows("cd") + rows("cd", condition="severe")
    data = ReportData(
        (run("reader", found, reads_prompt=False), run("model", found, reads_prompt=True))
    )
    table = paper_tables.table9(data, cells.headline(data.runs))
    assert set(column(table, "System")) == {"reader†", "model"}
    assert any("does not see the prompt" in note for note in table.notes)
    assert "reader†" in html.page(data)
    assert r"reader$\dagger$" in table.render("latex")


def test_questions_with_and_without_an_image_are_told_apart_by_default() -> None:
    found = rows("ccci") + rows("ii", query_modality="text+image", start=10)
    data = ReportData((run("a", found),))
    table = next(t for t in paper_tables.tables(data) if t.name == "queries")
    assert [(r[1], r[-1]) for r in table.rows] == [("text", 4), ("text+image", 2), ("Total", 6)]
    assert column(table, "Acc", "Oracle") == ["75.0", "0.0", "50.0"]
    assert 'class="queries"' in html.page(data)
    out = io.StringIO()
    print_data(data, file=out)
    assert "text+image" in out.getvalue()
    assert [(r["query"], r["oracle acc"]["value"]) for r in summarised(data)["by_query"]] == [
        ("text", 0.75),
        ("text+image", 0.0),
    ]


def test_the_part_of_a_release_that_was_asked_is_told(data: ReportData) -> None:
    part = replace(data, runs=(run("a", rows("ccc"), limit=3, seed=5),))
    assert any(line.startswith("a: ") and "3 of 48, seed 5" in line for line in caveats(part))
    assert "3 of 48, seed 5" in html.page(part)
    text_only = run("b", rows("ccc"), not_asked={"text-only model": 24})
    assert any("text-only model (24)" in line for line in caveats(replace(data, runs=(text_only,))))


def test_strictness_tables_leave_out_systems_asked_at_one_level(data: ReportData) -> None:
    head = cells.headline(data.runs)
    for table in (paper_tables.table6(data, head), paper_tables.table9(data, head)):
        assert set(column(table, "System")) == {"cautious", "small-lm"}
        assert column(table, "Severity")[:4] == ["None", "Soft", "Moderate", "Severe"]


def test_what_cannot_be_filled_names_the_run_that_would() -> None:
    data = ReportData((run("a", rows("cdi")),))
    missing = {t.name: t.missing for t in paper_tables.tables(data) if t.missing}
    assert set(missing) == {"table2", "table3", "table5", "table6", "table7", "table9"}
    assert "--release" in missing["table2"]
    assert "--modality grid" in missing["table5"]
    assert "--strictness all" in missing["table6"]
    assert all(
        paper_figures.figure_table(data, name).missing for name in paper_figures.figures(data)
    )
    assert not any(paper_figures.figures(data).values())


def test_table_7_is_computed_from_human_labels() -> None:
    found = rows("ccccddddiiuf")
    said = "cccdddddiicc"  # one of ten graded answers labelled otherwise; two labels of answers without a verdict
    labels = {r.ask: HumanLabel(LETTERS[letter]) for r, letter in zip(found, said, strict=True)}
    data = ReportData(
        (replace(run("a", found), labels=labels), replace(run("b", found[:4]), labels=labels))
    )
    table = paper_tables.table7(data)
    assert column(table, "Agreement") == ["90.0", "75.0", "82.5"]
    # chance: (4*3 + 4*5 + 2*2) / 100 = .36, so (.9 - .36) / .64 = .84; b: one judge label throughout, chance .75
    assert column(table, "Cohen kappa") == ["0.84", "0.00", "0.42"]
    assert column(table, "n") == ["10", "4", "14"]
    assert "10 human labels" in table.notes[0]


def test_positions_are_told_apart_from_the_sweep() -> None:
    found = []
    for at, letters in enumerate(("ccci", "ccii", "ciii")):
        recipe = f"realistic(k=2,pick=ranked,order=gold@{at},short=use_all)"
        found += rows(letters, scenario="realistic", recipe=recipe)
    data = ReportData((run("a", found),))
    head = cells.headline(data.runs)
    found_ = cells.position_cells(data, head)["a"]
    assert {at: p.cell.accuracy.value for at, p in found_.items()} == {0: 0.75, 1: 0.5, 2: 0.25}
    assert len(paper_figures.positions(data, head)) == 4
    assert cells.sweep_cells(data, head) == {}
    assert column(paper_figures.figure_table(data, "positions"), "Before the gold") == [
        "0",
        "1",
        "2",
    ]


def test_gold_that_cannot_stand_where_it_is_said_to_is_in_no_number() -> None:
    found = []
    for at in (0, 2, 3):  # two samples have two distractors, one has one; nobody has three
        recipe = f"realistic(k=2,pick=ranked,order=gold@{at},short=use_all)"
        found += rows("ci", scenario="realistic", recipe=recipe)
        found += rows("c", scenario="realistic", recipe=recipe, used=1, start=2)
    data = ReportData((run("a", found),))
    points = cells.position_cells(data, cells.headline(data.runs))["a"]
    assert {at: (p.cell.n, p.cell.accuracy.value) for at, p in points.items()} == {
        0: (3, pytest.approx(2 / 3)),
        2: (2, 0.5),
        3: (0, None),
    }
    assert any(
        "distractors: 3" in note for note in paper_figures.figure_table(data, "positions").notes
    )


def test_realistic_and_adversarial_have_the_same_distractors_where_they_can() -> None:
    found = rows(
        "cc",
        scenario="adversarial",
        recipe="adversarial(k=4,pick=ranked,order=shuffled,short=use_all)",
    )
    for k in (2, 4):
        found += rows(
            "cc",
            scenario="realistic",
            recipe=f"realistic(k={k},pick=ranked,order=shuffled,short=use_all)",
        )
    head = cells.headline([run("a", found)])
    assert "k=4" in head.recipes[Scenario.REALISTIC]
    assert "k=4" in head.recipes[Scenario.ADVERSARIAL]


def test_figures_4_and_5_from_what_the_release_states(data: ReportData) -> None:
    assert data.release is not None
    manifest = data.release.manifest
    pool = (
        ["capital"] * 40 + ["currency"] * 30 + ["export_commodity"] * 20 + ["longest_border"] * 10
    )
    kept = [topic != "capital" or i % 4 == 0 for i, topic in enumerate(pool)]
    found = [compare_topics(["1: a, b"] * 60 + ["2: c, d"] * 40, kept, by="kmeans(k=2)", draws=50)]
    found.append(compare_topics(pool, kept, by="source", draws=50))
    manifest["topics"] = [one.model_dump(mode="json") for one in found]
    rates = {"accuracy": 0.2, "deflection": 0.1, "hallucination": 0.7}
    manifest["gate_rounds"] = [
        {"gates": [], "size": 66, "monitors": {"keye": rates}},
        {
            "gates": ["prior"],
            "size": 57,
            "monitors": {"keye": rates | {"accuracy": 0.1, "hallucination": 0.8}},
        },
        {"gates": ["prior", "b"], "size": 50, "monitors": {}, "kept": 40},
        {"gates": ["prior", "b", "c"], "size": 44, "monitors": {}, "kept": 38},
        {"gates": ["prior", "b", "c", "d"], "size": 41, "monitors": {}},
        {"gates": ["prior", "b", "c", "d", "e"], "size": 40, "monitors": {}, "kept": 36},
    ]
    try:
        drawn = paper_figures.figures(data)
        assert [p.title for p in drawn["figure4"]] == [
            "Topics of the source",
            "Topics found by kmeans(k=2)",
        ]  # own first
        assert drawn["figure4"][0].body.count('class="mark"') == 4
        assert len(drawn["figure5"]) == 5
        size = drawn["figure5"][3].body
        pieces = [
            len(path.split()) for path in re.findall(r'<polyline points="([^"]*)" class="l-7', size)
        ]
        assert pieces == [
            2
        ]  # whole-funnel counts of rounds 2 and 3; round 4 is not known, so 5 stands alone
        assert paper_figures.figure_table(data, "figure4").rows[0] == (
            "Topics of the source",
            "capital",
            40.0,
            pytest.approx(100 / 7),
            pytest.approx(100 / 7 - 40),
        )
        assert paper_figures.figure_table(data, "figure5").rows[1][:4] == (
            "prior",
            57,
            None,
            10.0,
        )  # kept: not known
    finally:
        del manifest["topics"], manifest["gate_rounds"]


@pytest.mark.heavy
def test_all_forms_are_written_twice_alike(data: ReportData, tmp_path: Path) -> None:
    written = [paper_figures.write_paper(data, tmp_path / name) for name in ("a", "b")]
    assert (
        len(written[0]) == 14 * 4 + 2
    )  # ten tables, four figures' numbers; the overview and the one figure that has data
    for one, two in zip(*written, strict=True):
        assert one.read_bytes() == two.read_bytes()
    ET.parse(tmp_path / "a" / "figure3.svg")
    assert (tmp_path / "a" / "table4.tex").read_text().count(r"\\") == 5  # two heads, three systems


# --- behaviour, release --------------------------------------------------------------------------


def test_right_behaviour_keeps_the_two_ways_of_being_wrong_apart() -> None:
    found = rows("ccdi") + rows("ddic", scenario="adversarial", recipe="adversarial")
    data = ReportData((run("a", found),))
    table = behaviour_table(data, cells.headline(data.runs))
    told = {
        c.title: cell_text(v, replace(c, interval=False))
        for c, v in zip(table.columns, table.rows[0], strict=True)
    }
    assert told == {
        "System": "a",
        "Right behaviour": "50.0",
        "Balanced": "50.0",
        "Answers when it can": "50.0",
        "Over-deflects": "25.0",
        "Deflects when it must": "50.0",
        "Under-deflects": "50.0",
        "n": "8",
    }


def test_risk_is_shown_where_confidence_exists(data: ReportData) -> None:
    head = cells.headline(data.runs)
    assert [row[:2] for row in risk_table(data, head).rows] == [
        ("cautious", "oracle"),
        ("cautious", "realistic"),
    ]
    assert len(risk_panels(data, head)) == 3
    without = ReportData((run("a", rows("cd")),))
    assert risk_panels(without, cells.headline(without.runs)) == []


def test_funnel_and_recall(data: ReportData) -> None:
    assert [row[:4] for row in funnel_table(data).rows][-1] == ("distractor", 53, 48, 5)
    assert funnel_table(data).rows[-1][4] == "fewer than K_min distractors: 3; held: 2"
    table = recall_table(data)
    assert [c.title for c in table.columns] == [
        "Queries",
        "Mode",
        "n",
        "Recall@1",
        "Recall@5",
        "Recall@10",
        "Gold out of reach",
        "Chosen",
    ]
    assert column(table, "Recall@1") == ["0.710 [0.508, 0.852]", "–"]
    (row, _) = csv.DictReader(io.StringIO(table.render("csv")))
    assert (row["Recall@1"], row["Recall@1 low"], row["n"]) == ("0.71", "0.508", "24")


def test_caveats_are_told_once_each(data: ReportData) -> None:
    told = caveats(data)
    assert any("not CLIP" in line for line in told)
    assert any(line.startswith("small-lm: SmolLM2-135M") for line in told)
    assert any("failed or unjudged" in line for line in told)
    assert len(told) == len(set(told))


def test_another_build_of_the_release_is_a_caveat(data: ReportData) -> None:
    other = replace(data.runs[0], manifest={"release": {"sha256": "f" * 64}})
    assert any("another build" in line for line in caveats(replace(data, runs=(other,))))


# --- comparison ----------------------------------------------------------------------------------


def test_paired_counts_and_verdict() -> None:
    first = rows("c" * 30 + "d" * 10) + rows("d" * 20, scenario="adversarial", recipe="adversarial")
    second = rows("c" * 12 + "i" * 18 + "c" * 2 + "d" * 8) + rows(
        "d" * 20, scenario="adversarial", recipe="adversarial"
    )
    found = compare.compare(run("a", first), run("b", second))
    oracle = {d.measure: d for d in found.differences if d.scenario is Scenario.ORACLE}
    assert (oracle["accuracy"].lost, oracle["accuracy"].gained, oracle["accuracy"].n) == (18, 2, 40)
    assert oracle["accuracy"].delta == pytest.approx(-0.4)
    assert oracle["accuracy"].p == pytest.approx(
        0.00040245, rel=1e-4
    )  # 2 * P(X <= 2), X ~ Binomial(20, 1/2)
    assert oracle["right behaviour"].verdict == "WORSE"
    assert oracle["hallucination"].verdict == "WORSE"
    adversarial = [d for d in found.differences if d.scenario is Scenario.ADVERSARIAL]
    assert {d.p for d in adversarial} == {None}
    assert {d.verdict for d in adversarial} == {"no difference shown"}
    assert found.worse
    assert (
        found.sentence == "b behaves worse than a in oracle (-40.0 [-57.5, -22.4] points, n = 40)."
    )
    assert (len(found.lost), len(found.gained)) == (18, 2)
    assert {c.after for c in found.lost} == {"hallucinated"}


def test_less_deflection_is_better_where_an_answer_is_expected_and_worse_where_not() -> None:
    answers = [rows("d" * 20), rows("c" * 20)]
    declines = [rows(x * 20, scenario="adversarial", recipe="adversarial") for x in "di"]
    found = compare.compare(run("a", answers[0] + declines[0]), run("b", answers[1] + declines[1]))
    deflection = {
        d.scenario.value: d.verdict for d in found.differences if d.measure == "deflection"
    }
    assert deflection == {"oracle": "better", "adversarial": "WORSE"}


def test_what_is_not_shared_or_not_graded_is_told() -> None:
    found = compare.compare(run("a", rows("ccuf")), run("b", rows("cucci")))
    assert (found.pairs, found.unjudged, found.only_first, found.only_second) == (1, 3, 0, 1)


def test_nothing_in_common() -> None:
    found = compare.compare(run("a", rows("cc")), run("b", rows("cc", start=9)))
    assert found.differences == ()
    assert not found.worse
    assert "same release" in compare_tables.table(found).missing


def test_holm_is_over_two_families() -> None:
    first = rows("c" * 20) + rows("d" * 20, scenario="adversarial", recipe="adversarial")
    second = rows("c" * 14 + "i" * 6) + rows(
        "d" * 14 + "i" * 6, scenario="adversarial", recipe="adversarial"
    )
    found = compare.compare(run("a", first), run("b", second))
    primary = [d for d in found.differences if d.measure == compare.PRIMARY]
    assert [d.p for d in primary] == [pytest.approx(0.03125)] * 2
    assert [d.p_holm for d in primary] == [pytest.approx(0.0625)] * 2  # two tests, not eight
    assert not found.worse


def test_sweeps_do_not_enter_the_comparison_unless_asked(data: ReportData) -> None:
    pair = data.runs[:2]
    found = compare.compare(*pair, head=cells.headline(pair))
    assert (found.pairs, found.only_first, found.only_second) == (48 * 4, 0, 0)
    assert compare.compare(*pair).pairs > 48 * 4


def test_worst_items_first() -> None:
    first = rows("d" * 3, scenario="adversarial", recipe="adversarial") + rows("ccc")
    second = rows("idi", scenario="adversarial", recipe="adversarial") + rows("dic")
    found = compare.compare(run("a", first), run("b", second))
    assert [(c.scenario, c.after) for c in found.lost] == [
        ("oracle", "hallucinated"),
        ("adversarial", "hallucinated"),
        ("adversarial", "hallucinated"),
        ("oracle", "deflected"),
    ]
    assert found.slices[0].lost - found.slices[0].gained == 2


# --- what must not change the figures, and what must change them in a known way ----------------------


SHOWN = {"parametric": "parametric", "oracle": "oracle(order=shuffled)"} | {
    s: f"{s}(k=2,pick=ranked,order=shuffled,short=use_all)" for s in ("realistic", "adversarial")
}


def drawn(name: str, seed: int, letters: str = "ccddiiuf", n: int = 30) -> Run:
    """A run of the four scenarios with drawn outcomes, three samples a cluster."""
    draw, made = random.Random(seed), []
    for scenario, recipe in SHOWN.items():
        made += rows("".join(draw.choices(letters, k=n)), scenario=scenario, recipe=recipe)
    return run(
        name,
        [
            r.model_copy(update={"cluster": f"c{int(r.sample[6:]) // 3}", "topic": r.sample[-1:]})
            for r in made
        ],
    )


def every_table(*runs: Run) -> list[Table]:
    data = ReportData(runs)
    head = cells.headline(runs)
    return [results_table(data, head), behaviour_table(data, head), *paper_tables.tables(data)]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_changes_nothing_and_a_system_alone_has_the_rates_it_has_beside_others(
    seed: int,
) -> None:
    a, b = drawn("a", seed), drawn("b", 50 + seed)
    mixed = [
        replace(one, rows=random.Random(seed).sample(list(one.rows), k=len(one.rows)))
        for one in (a, b)
    ]
    assert every_table(*mixed) == every_table(a, b)
    assert compare.compare(*mixed) == compare.compare(a, b)
    head = cells.headline((a, b))
    beside = cells.main_cells(ReportData((b, a)), head)
    assert beside == cells.main_cells(ReportData((a,)), head) | cells.main_cells(
        ReportData((b,)), head
    )
    renamed = every_table(replace(a, name="second"), replace(b, name="first"))
    assert [[c for c in row if not isinstance(c, str)] for t in renamed for row in t.rows] == [
        [c for c in row if not isinstance(c, str)] for t in every_table(a, b) for row in t.rows
    ]


@pytest.mark.parametrize("seed", range(6))
def test_two_runs_in_the_other_order_differ_by_as_much_the_other_way(seed: int) -> None:
    a, b = drawn("a", seed), drawn("b", 50 + seed)
    found, turned = compare.compare(a, b), compare.compare(b, a)
    for one, other in zip(found.differences, turned.differences, strict=True):
        assert one.delta == pytest.approx(-other.delta, abs=1e-12)
        if one.delta:  # as many lost as gained: the resamples are those of either order
            assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-12)  # type: ignore[operator]
        assert (one.p, one.p_holm, one.lost, one.gained) == (
            other.p,
            other.p_holm,
            other.gained,
            other.lost,
        )
        assert one.better == -other.better
    assert [i.context for i in found.lost] == [i.context for i in turned.gained]
    assert (found.pairs, found.only_first, found.unjudged) == (
        turned.pairs,
        turned.only_second,
        turned.unjudged,
    )


def test_every_row_twice_has_the_same_rates_and_narrower_intervals() -> None:
    def twice(one: Run) -> Run:
        again = {name: "2nd" for name in ("ask", "context", "sample", "cluster")}
        return replace(
            one,
            rows=[
                *one.rows,
                *(
                    r.model_copy(
                        update={name: getattr(r, name) + more for name, more in again.items()}
                    )
                    for r in one.rows
                ),
            ],
        )

    a, b = drawn("a", 1, n=60), drawn("b", 51, n=60)
    head = cells.headline((a, b))
    once, doubled = (cells.main_cells(ReportData((one,)), head) for one in (a, twice(a)))
    for one, two in ((m, d) for key in once for m, d in zip(once[key], doubled[key], strict=True)):
        assert (two.value, two.n, two.unjudged, two.failed) == (
            one.value,
            2 * one.n,
            2 * one.unjudged,
            2 * one.failed,
        )
        assert two.high - two.low < one.high - one.low  # type: ignore[operator]
    for one_, two_ in zip(
        compare.compare(a, b).differences,
        compare.compare(twice(a), twice(b)).differences,
        strict=True,
    ):
        assert (two_.delta, two_.n, two_.lost) == (
            pytest.approx(one_.delta),
            2 * one_.n,
            2 * one_.lost,
        )
        assert (two_.p or 1) <= (one_.p or 1)


@pytest.mark.parametrize("letters", ["u", "f", "uf", "c", "d", "i"])
def test_one_row_or_nothing_graded_is_a_page_and_tables_all_the_same(letters: str) -> None:
    long = "<b>&\"'` $x_{2}$ | " + "long" * 60
    for n in (1, 4):
        a, b = drawn("a", 1, letters, n), drawn(long, 2, letters, n)
        text = html.page(ReportData((a, b)))
        assert "<b>&" not in text
        assert "longlong" in text
        graded = letters not in ("u", "f", "uf")
        assert all(
            (m.value is not None) == graded
            for m in cells.main_cells(ReportData((a,)), cells.headline((a,)))["a", Scenario.ORACLE]
        )
        found = compare.compare(a, b)
        assert {d.verdict for d in found.differences} == (
            {"no difference shown"} if graded else set()
        )
        for table in (*every_table(a, b), compare_tables.table(found)):
            assert all(table.render(form) for form in ("terminal", "markdown", "latex", "csv"))


def test_every_form_of_a_table_has_the_same_figures() -> None:
    a, b = drawn("a", 1), drawn("b", 51)
    for table in (*every_table(a, b), compare_tables.table(compare.compare(a, b))):
        said = [
            [cell_text(cell, c) for cell, c in zip(row, table.columns, strict=True)]
            for row in table.rows
        ]
        if not said:
            continue
        markdown = [
            [c.strip().strip("*").replace("\\", "") for c in line.split("|")[1:-1]]
            for line in table.render("markdown").splitlines()
            if line.startswith("|")
        ]
        assert markdown[2:] == said, table.name
        body = table.render("latex").partition(r"    \midrule")[2].partition("bottomrule")[0]
        latex = [
            [c.strip() for c in line.removesuffix(r"\\").split("&")]
            for line in body.splitlines()
            if line.endswith(r"\\")
        ]
        plainly = [
            [
                re.sub(r"\\textbf\{(.*)\}", r"\1", c).replace("{}[", "[").replace("--", "–")
                for c in row
            ]
            for row in latex
        ]
        assert [[c.replace(r"\textless{}", "<") for c in row] for row in plainly] == said, (
            table.name
        )
        terminal = table.render("terminal", width=400).splitlines()
        for row in said:
            assert any(line.split() == " ".join(row).split() for line in terminal), (
                table.name,
                row,
            )
        numbers = list(csv.reader(io.StringIO(table.render("csv"))))
        for row, line in zip(table.rows, numbers[1:], strict=True):
            rates = [
                f"{m.value:.6g}" for m in row if isinstance(m, Measure) and m.value is not None
            ]
            assert [
                r
                for r in rates
                if float(r) not in [float(x) for x in line if re.fullmatch(r"-?[\d.]+", x)]
            ] == []
