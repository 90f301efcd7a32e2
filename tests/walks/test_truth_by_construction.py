"""Systems whose truth is known because they are made so: what demur prints of them holds it.

The judge may err on a few of them; a figure that leaves the truth out of its interval, or counts only what is easy to
judge, is caught here.
"""

from __future__ import annotations

import csv
import json
from collections import Counter

import native_miniatures as native
import pyarrow.parquet as pq
import pytest
import recount
from strategies import Images, tiny_release
from test_walks import called, written
from test_walks import demur as command

import demur
from demur.core.records import AnswerSpec, Evidence, Modality, Role, Sample
from demur.pytest_plugin import demur_gate  # noqa: F401  the fixture
from demur.release import Draft, FunnelStep, freeze

CAPITALS = """
Albania Tirana|Algeria Algiers|Angola Luanda|Armenia Yerevan|Austria Vienna|Bahrain Manama|Belgium Brussels|Bolivia Sucre
Botswana Gaborone|Bulgaria Sofia|Cameroon Yaounde|Canada Ottawa|Chile Santiago|Croatia Zagreb|Cuba Havana|Denmark Copenhagen
Ecuador Quito|Egypt Cairo|Estonia Tallinn|Ethiopia Addis-Ababa|Fiji Suva|Finland Helsinki|Georgia Tbilisi|Ghana Accra
Greece Athens|Hungary Budapest|Iceland Reykjavik|India Delhi|Iran Tehran|Iraq Baghdad|Ireland Dublin|Jamaica Kingston
Jordan Amman|Kenya Nairobi|Latvia Riga|Lebanon Beirut|Libya Tripoli|Lithuania Vilnius|Malawi Lilongwe|Malta Valletta
Mongolia Ulaanbaatar|Morocco Rabat|Nepal Kathmandu|Norway Oslo|Oman Muscat|Peru Lima|Poland Warsaw|Portugal Lisbon
Qatar Doha|Romania Bucharest|Rwanda Kigali|Senegal Dakar|Serbia Belgrade|Slovakia Bratislava|Spain Madrid|Sudan Khartoum
Sweden Stockholm|Togo Lome|Turkey Ankara|Uganda Kampala
"""
PAIRS = [tuple(pair.split()) for pair in CAPITALS.replace("\n", "|").strip("|").split("|")]
"""Sixty countries and their capitals."""
PLACE = {country: n for n, (country, _) in enumerate(PAIRS)}
DECLINES = "I don't know; the documents do not say."


def city(n: int) -> str:
    return PAIRS[n % len(PAIRS)][1]


def passage(n: int, role: Role, rank: int | None = None) -> Evidence:
    country, capital = PAIRS[n % len(PAIRS)]
    return Evidence(
        id=f"about-{country}",
        modality=Modality.TEXT,
        title=country,
        text=f"The capital of {country} is {capital}.",
        role=role,
        rank=rank,
        score=None if rank is None else 1 / rank,
    )


@pytest.fixture(scope="module")
def capitals(tmp_path_factory):
    samples = [
        Sample(
            id=country,
            source="made",
            question=f"What is the capital of {country}?",
            answers=AnswerSpec(accepted=((capital,),)),
            gold=(passage(n, Role.GOLD),),
            negatives=tuple(passage(n + k, Role.DISTRACTOR, k) for k in (1, 2, 3)),
        )
        for n, (country, capital) in enumerate(PAIRS)
    ]
    step = FunnelStep(stage="pool", entered=len(samples), kept=len(samples))
    return freeze(
        tmp_path_factory.mktemp("capitals") / "release",
        Draft(
            name="capitals",
            version="1.0.0",
            samples=samples,
            read_image=Images().read,
            funnel=[step],
        ),
    )


def knows_a_fifth(question, evidence):
    """By heart one in five, of the others it makes up every second; shown evidence, it reads it if it names the country.

    Where it does not, one distractor in three fools it.
    """
    country = question.removeprefix("What is the capital of ").rstrip("?")
    n = PLACE[country]
    if any(e["title"] == country for e in evidence):
        return f"The capital of {country} is {city(n)}."
    if evidence:
        return f"It is {evidence[0]['text'].split()[-1]}" if n % 3 == 0 else DECLINES
    return city(n) if n % 5 == 0 else f"It is {city(n + 7)}." if n % 2 else DECLINES


TRUE = {
    "parametric": {
        "accuracy": 1 / 5,
        "hallucination": sum(n % 5 > 0 and n % 2 for n in range(60)) / 60,
    },
    "oracle": {"accuracy": 1.0, "hallucination": 0.0},
    "realistic": {"accuracy": 1.0, "hallucination": 0.0},
    "adversarial": {"accuracy": 0.0, "hallucination": 1 / 3},
}


@pytest.fixture(scope="module")
def fifth(capitals, tmp_path_factory):
    out = tmp_path_factory.mktemp("fifth")
    return demur.evaluate(capitals, knows_a_fifth, out=out)


def test_a_system_that_knows_a_fifth_shows_it_in_every_scenario(fifth):
    """What is printed is the count of the verdicts, over all answers, and its interval holds the truth."""
    rows = pq.read_table(fifth.folder / "rows.parquet").to_pylist()
    counts = Counter((r["scenario"], r["outcome"]) for r in rows)
    for row in fifth.rates().records:
        scenario = row["scenario"]
        for rate, outcome in (("accuracy", "correct"), ("hallucination", "incorrect")):
            measure, truth = row[rate], TRUE[scenario][rate]
            assert row["n"] == len(PAIRS)
            assert measure["value"] == pytest.approx(counts[scenario, outcome] / len(PAIRS))
            assert measure["low"] - 1e-9 <= truth <= measure["high"] + 1e-9, (scenario, rate)
            assert abs(measure["value"] - truth) < 0.1


def by_heart(question, evidence):
    """Never reads: it knows a fifth in every scenario."""
    return knows_a_fifth(question, [])


def test_every_table_of_the_paper_and_its_sweep_hold_it(capitals, tmp_path):
    """Tables 4, 6, 8 and 9 and Figure 3: all answers count, and a fifth is in every interval of an accuracy."""
    run = demur.evaluate(
        capitals,
        by_heart,
        scenarios=["all", "realistic(k=1)", "realistic(k=3)"],
        strictness=["moderate", "severe"],
        out=tmp_path / "runs",
    )
    demur.report(run, tmp_path / "report.html", release=capitals, tables=tmp_path)
    for name, accuracies in (
        ("table4", 4),
        ("table6", 4),
        ("table8", 4),
        ("table9", 4),
        ("figure3", 4),
    ):
        cells = [
            {
                column: float(line[f"{accuracy} {column}".strip()])
                for column in ("", "low", "high", "n")
            }
            for line in csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines())
            for accuracy in line
            if accuracy.split()[-1] == "Acc"
        ]
        assert len(cells) == accuracies, name
        for cell in cells:
            assert cell["n"] == len(PAIRS)
            assert cell["low"] <= 1 / 5 <= cell["high"]
            assert abs(cell[""] - 1 / 5) < 0.1


@pytest.fixture(scope="module")
def forty(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("forty") / "release", 40)


def says_zanzibar(question):
    return "It is Zanzibar."


@pytest.mark.parametrize(
    "limit", [("--min-declined", "adversarial=50%"), ("--max-hallucination", "adversarial=30%")]
)
def test_one_that_always_makes_it_up_fails_the_gate(forty, tmp_path, limit):
    run = demur.evaluate(forty, says_zanzibar, scenarios="adversarial", out=tmp_path)
    command("gate", run.folder, "--release", forty, *limit, code=1)


@pytest.mark.parametrize(
    "limit", [{"min_declined": {"adversarial": 0.5}}, {"max_hallucination": {"adversarial": 0.3}}]
)
def test_one_that_always_makes_it_up_fails_the_fixture(forty, demur_gate, limit):  # noqa: F811
    with pytest.raises(pytest.fail.Exception):
        demur_gate(forty, says_zanzibar, scenarios="adversarial", **limit)


@pytest.mark.parametrize("source", native.SIX)
def test_wrong_answers_to_a_sources_own_questions_are_counted_as_made_up(source, tmp_path):
    """It tells every second thing's facts of its neighbour, whatever it is shown."""
    questions, _ = recount.READERS[source](native.BUILDERS[source](tmp_path / source))
    labels = Counter(recount.label("by-heart", question) for question in questions)
    wrong = labels["incorrect"] / len(questions)
    assert 0.2 < wrong < 0.9
    told = json.loads(
        command(
            "run",
            written(source, tmp_path / source),
            "--system",
            "python:native_miniatures:by_heart",
            "--scenarios",
            "parametric",
            "oracle",
            "--out",
            tmp_path / "runs",
            "--json",
        )
    )
    assert [row["scenario"] for row in told["results"]] == ["parametric", "oracle"]
    for row in told["results"]:
        made_up = row["hallucination"]
        assert row["n"] == len(questions)
        assert made_up["low"] <= wrong <= made_up["high"], called(source)
        assert abs(made_up["value"] - wrong) <= 0.2
