"""`demur suite audit` of the tables that MM-AQA's paper prints: impossible rows are told, sound ones are not."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from demur.cli import main
from demur_suites.mm_aqa.audit import audit

PRINTED = Path(__file__).parent / "tables" / "mm_aqa_printed.csv"
TABLE_3 = """subset,baseline,aac,aac_se,uac,uac_se,mcc
images,Always-Abstain,0.0,,100.0,,—
images,Random-Abstain,30.0,,49.0,,0.000
documents,Random-Abstain,35.6,,50.2,,0.000
images,Verb. Confidence,60.7,2.8,5.5,1.4,0.113
images,CoT Abstention,64.3,2.8,62.8,3.0,0.334
images,P(True),29.3,0.0,84.9,0.0,0.111
images,MaxProb,0.0,0.0,100.0,0.0,0.000
"""
TABLE_4 = """category,n,uac,uac_se
Missing Visual Information,80,26.2,4.9
Semantic Unanswerability,65,78.5,5.1
Semantic Contradiction,85,37.6,5.3
"""
TABLE_7 = """subset,tau,aac,uac,ar,mcc
images,1,60.7,5.5,2.5,0.113
images,2,59.3,14.2,8.0,0.096
images,3,57.7,26.5,16.3,0.091
images,4,47.7,58.9,45.2,0.068
documents,1,66.8,26.1,12.9,0.231
documents,2,66.7,42.5,21.0,0.315
documents,3,65.7,52.7,26.9,0.342
documents,4,60.1,76.6,45.2,0.368
"""
TABLE_8 = """scenario,subset,aac,uac,mcc,mcc_oracle,gap
lower,images,72.9,98.5,0.693,0.789,0.445
midpoint,images,78.9,98.5,0.784,0.834,0.490
upper,images,84.8,98.5,0.861,0.873,0.529
"""


def rows(text: str) -> list[tuple[str, dict[str, str]]]:
    return [(f"t:{n}", dict(r)) for n, r in enumerate(csv.DictReader(text.splitlines()), start=2)]


def told(text: str) -> list[tuple[str, str]]:
    return [(f.kind, f.where) for f in audit(rows(text))]


def test_the_papers_tables(capsys):
    assert main(["suite", "audit", str(PRINTED), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    counts = Counter("documents" in f["where"] for f in found if f["kind"] == "count")
    assert counts == {False: 33, True: 15}  # Q7
    assert {f["where"].rpartition("MAS-Itr")[0] for f in found if f["kind"] == "se"} == {
        "Qwen 2.5-32B-VL, documents, "
    }
    best = {f["where"]: f["severity"] for f in found if f["kind"] == "best"}
    assert best.pop("documents, VLM, Qwen 2.5-32B-VL") == "defect"
    assert set(best.values()) == {"note"}
    assert len(best) == 3


def test_baselines_with_impossible_figures():
    found = Counter(told(TABLE_3))
    assert found == {
        ("mcc", "images, Random-Abstain"): 1,
        ("mcc", "documents, Random-Abstain"): 1,  # Q1
        ("mcc", "images, MaxProb"): 1,  # Q2
        ("se", "images, P(True)"): 2,
        ("count", "images, P(True)"): 1,  # Q6, Q7
    }


def test_sound_tables_have_no_findings():
    assert told(TABLE_4) == told(TABLE_7) == []
    assert told("subset,total,answerable,unanswerable\nA-MMMU,553,300,253\n") == []


def test_an_experts_rows_that_do_not_follow():
    assert told(TABLE_8) == [("mcc", "images, lower"), ("mcc", "images, upper")]  # Q3
    moved = TABLE_8.replace("0.873,0.529", "0.900,0.556")
    assert ("oracle", "images, upper") in told(moved)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("images,1,101,5.5,2.5,0.113", "number"),
        ("images,1,high,5.5,2.5,0.113", "number"),
        ("images,1,60.7,5.5,2.5,0.213", "mcc"),
        ("images,1,60.6,5.5,2.5,", "count"),
        ("images,5,57.7,26.5,16.3,0.091", "sweep"),
    ],
)
def test_a_line_that_cannot_be(line, kind):
    text = TABLE_7.replace("images,1,60.7,5.5,2.5,0.113", line)
    assert kind in {k for k, _ in told(text)}


def test_sizes_may_stand_in_the_table():
    text = "answerable,unanswerable,total,aac,uac,ar\n10,10,21,33,50,25\n"
    assert [k for k, _ in told(text)] == ["count", "count"]


def test_a_table_of_many_items_or_of_impossible_counts_is_audited_in_a_moment():
    """An MCC without AR was compared with that of every matrix there is, and 1e300 items ended the command."""
    text = "answerable,unanswerable,aac,uac,mcc\n{0},{0},50,50,{1}\n"
    assert told(text.format(20000, 0.1)) == []
    assert [k for k, _ in told(text.format(20000, 0.9))] == ["mcc"]
    assert [
        k for k, _ in told("answerable,unanswerable,aac,uac,ar\n1000000,1000000,50,50,50\n")
    ] == []
    assert [k for k, _ in told(text.format("1e300", 0.1))] == ["number", "number"]
    assert [k for k, _ in told("category,n,uac\na,3.5,20\n")] == ["number"]
