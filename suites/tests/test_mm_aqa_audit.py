"""`demur suite audit` of the tables that MM-AQA's paper prints: impossible rows are told, sound ones are not."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

import demur_suites
from demur.cli import main
from demur_suites.mm_aqa.audit import PUBLISHED

PRINTED = Path(__file__).parent / "tables" / "mm_aqa_printed.csv"
TABLE_3 = """subset,baseline,aac,aac_se,uac,uac_se
images,Verb. Confidence,60.7,2.8,5.5,1.4
images,CoT Abstention,64.3,2.8,62.8,3.0
images,P(True),29.3,0.0,84.9,0.0
images,MaxProb,0.0,0.0,100.0,0.0
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


def kinds(text: str) -> list[tuple[str, str]]:
    rows = [(f"t:{n}", dict(r)) for n, r in enumerate(csv.DictReader(text.splitlines()), start=2)]
    return [(f.kind, f.where) for f in PUBLISHED.audit(rows)]


def test_the_papers_tables(capsys):
    assert main(["suite", "audit", str(PRINTED), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    counts = Counter("documents" in f["where"] for f in found if f["kind"] == "count")
    assert counts == {False: 33, True: 15}  # of 54 each (Q7)
    errors = {f["where"] for f in found if f["kind"] == "se"}
    assert all("Qwen 2.5-32B-VL, documents, MAS-Itr" in where for where in errors)
    assert errors


def test_baselines_with_impossible_figures():
    assert Counter(kinds(TABLE_3)) == {
        ("se", "images, P(True)"): 2,
        ("count", "images, P(True)"): 1,  # Q6, Q7
    }


def test_sound_tables_have_no_findings():
    assert kinds(TABLE_4) == kinds(TABLE_7) == []
    assert kinds("subset,total,answerable,unanswerable\nA-MMMU,553,300,253\n") == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("images,1,high,5.5,2.5,0.113", "number"),
        ("images,1,60.7,5.5,2.5,0.213", "mcc"),
        ("images,1,60.6,5.5,2.5,", "count"),
    ],
)
def test_a_line_that_cannot_be(line, kind):
    text = TABLE_7.replace("images,1,60.7,5.5,2.5,0.113", line)
    assert kind in {k for k, _ in kinds(text)}


def test_sizes_may_stand_in_the_table():
    text = "answerable,unanswerable,total,aac,uac,ar\n10,10,21,33,50,25\n"
    assert [k for k, _ in kinds(text)] == ["count", "count"]
    assert [k for k, _ in kinds(text.replace("10,10,", "1e300,10,"))] == ["number"]
    assert [k for k, _ in kinds("category,n,uac\na,3.5,20\n")] == ["number"]


@pytest.mark.parametrize("name", demur_suites.suites())
def test_known_errors_of_each_paper_are_told(name, capsys):
    assert main(["suite", "show", name]) == 0
    listed = list(csv.DictReader(demur_suites.suite(name).errata.splitlines()))
    assert listed
    assert all(row["printed"] and row["follows"] for row in listed)
    assert listed[0]["follows"] in " ".join(capsys.readouterr().out.split())
