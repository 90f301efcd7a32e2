"""Agreement of labellers against other implementations, and what is refused as impossible."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.cli import main
from demur.core.errors import DataError
from demur.core.stats import wilson
from demur.judge.measures.agreement import Rating, Stated, agreed, impossible
from demur.judge.measures.kappa import of_table


def drawn(items: int = 60, raters: int = 3, seed: int = 0, missing: float = 0.0) -> list[Rating]:
    rng = np.random.default_rng(seed)
    truth = rng.choice(list("abc"), size=items, p=[0.5, 0.3, 0.2])
    return [
        Rating(f"i{n:03}", f"r{r}", str(t) if rng.random() < 0.75 else str(rng.choice(list("abc"))))
        for n, t in enumerate(truth)
        for r in range(raters)
        if rng.random() >= missing
    ]


def alpha(ratings: list[Rating]) -> float:
    """Krippendorff's alpha from its definition: pairs of values within units, pairs of all values."""
    units: dict[str, list[str]] = {}
    for r in ratings:
        units.setdefault(r.item, []).append(r.label)
    pairable = [u for u in units.values() if len(u) > 1]
    values = [v for u in pairable for v in u]
    n = len(values)
    within = (
        sum(
            sum(a != b for i, a in enumerate(u) for j, b in enumerate(u) if i != j) / (len(u) - 1)
            for u in pairable
        )
        / n
    )
    among = sum(a != b for i, a in enumerate(values) for j, b in enumerate(values) if i != j) / (
        n * (n - 1)
    )
    return 1 - within / among


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(4))
def test_like_statsmodels_and_sklearn(seed):
    irr = pytest.importorskip("statsmodels.stats.inter_rater")
    ratings = drawn(seed=seed)
    found = agreed(ratings).figures
    by_rater = [[r.label for r in sorted(ratings) if r.rater == f"r{k}"] for k in range(3)]
    table, _ = irr.aggregate_raters(np.array(by_rater).T)
    assert found["fleiss"].value == pytest.approx(irr.fleiss_kappa(table, method="fleiss"))
    metrics = pytest.importorskip("sklearn.metrics")
    pairs = [
        metrics.cohen_kappa_score(by_rater[a], by_rater[b]) for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    assert found["cohen"].value == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_krippendorff_by_its_definition(missing):
    ratings = drawn(missing=missing, seed=3)
    found = agreed(ratings)
    figure = found.figures["krippendorff"]
    assert figure.value == pytest.approx(alpha(ratings))
    assert figure.low < figure.value < figure.high
    assert found.single == sum(
        sum(r.item == i for r in ratings) == 1 for i in {r.item for r in ratings}
    )


def test_what_is_undefined_is_none_and_what_comes_twice_is_told():
    same = [Rating(str(n), who, "x") for n in range(5) for who in "ab"]
    found = agreed(same).figures
    assert (
        found["raw"].value,
        found["cohen"].value,
        found["fleiss"].value,
        found["krippendorff"].value,
    ) == (
        1.0,
        None,
        None,
        None,
    )
    assert agreed([Rating("1", "a", "x")]).figures["raw"].value is None
    with pytest.raises(DataError, match="twice"):
        agreed([Rating("1", "a", "x"), Rating("1", "a", "y")])
    again = agreed([*same, Rating("1", "a", "x", again=True), Rating("2", "a", "y", again=True)])
    assert (again.consistency["a"].value, again.consistency["a"].n) == (0.5, 2)
    assert again.figures["raw"].value == 1.0  # repeats count for consistency alone


def test_stated_figures_that_cannot_be(capsys):
    for agreement, bound in (
        (0.911, 0.867),
        (0.924, 0.886),
        (0.94, 0.910),
        (0.93, 0.895),
    ):  # 001, Table 7
        assert impossible(Stated(agreement, kappa=bound + 0.02))
        assert not impossible(Stated(agreement, kappa=bound))
    assert impossible(Stated(0.911, n=100))
    assert not impossible(Stated(0.91, n=100))
    assert impossible(Stated(0.9, first=(0.8, 0.2), second=(0.6, 0.4), labels=2))
    assert impossible(Stated(0.8, kappa=0.8, first=(0.5, 0.5), second=(0.5, 0.5), labels=2))
    assert not impossible(Stated(0.8, kappa=0.6, first=(0.5, 0.5), second=(0.5, 0.5), labels=2))
    assert main(["agree", "--stated", "agreement=0.911", "kappa=0.90", "n=100"]) == 1
    assert "0.867 at most" in capsys.readouterr().out
    assert main(["agree", "--stated", "agreement=0.91", "kappa=0.80", "n=100"]) == 0
    assert main(["agree", "--stated", "kappa=0.9"]) == 2


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ("agreement=1.0 kappa=0.5", "less than 1.000"),
        ("agreement=1 kappa=0.98", "less than 1.000"),
        ("agreement=1.00 kappa=0.5 n=100", "less than 1.000"),
        ("agreement=0.95 kappa=-0.9", "less than -0.028"),
        ("agreement=0.5 first=0.9,0.1 second=0.9,0.1", "need 0.8 at least"),
        ("agreement=1 first=0.9,0.1 second=0.1,0.9", "allow 0.2 at most"),
        ("agreement=0.9 first=0.6,0.6", "first: base rates that sum to 1.200"),
        ("agreement=0.9 second=0.6,0.6", "second: base rates that sum to 1.200"),
        ("agreement=0.9 first=1.2,-0.2", "a base rate of 1.2"),
        ("agreement=0.9 first=0.5,0.3,0.2 labels=2", "3 base rates of 2 labels"),
        ("agreement=0.9 first=0.5,0.3,0.2 second=0.5,0.5", "2 base rates of 3 labels"),
    ],
)
def test_stated_figures_are_refused_on_both_sides(figures, why, capsys):
    assert main(["agree", "--stated", *figures.split()]) == 1
    assert why in capsys.readouterr().out


@pytest.mark.parametrize(
    "figures",
    [
        "agreement=1.0 kappa=1.0",
        "agreement=1.00 kappa=0.99",
        "agreement=0.0 kappa=-1",
        "agreement=0.6 kappa=-0.25",
        "agreement=0.50 kappa=-0.34",
        "agreement=0.8 first=0.9,0.1 second=0.9,0.1",
        "agreement=0.911 first=0.33,0.33,0.33",
        "agreement=0.9 first=0.5,0.3,0.2 labels=3",
    ],
)
def test_rounding_makes_no_figure_impossible(figures, capsys):
    assert main(["agree", "--stated", *figures.split()]) == 0
    assert capsys.readouterr().out == "nothing impossible\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["agreement=0.9", "n=0"], "0 items"),
        (["agreement=0.9", "n=-3"], "-3 items"),
        (["agreement=0.9", "labels=1"], "1 labels"),
        (["agreement=0.9", "kappa=0.5", "labels=1"], "1 labels"),
        (["agreement=0.9", "agreement=0.5"], "agreement is given twice"),
        (["agreement=0.9", "--stated", "kappa=0.1", "agreement=0.5"], "agreement is given twice"),
    ],
)
def test_what_no_figure_can_be_of_is_a_usage_error(words, why, capsys):
    assert main(["agree", "--stated", *words]) == 2
    assert why in capsys.readouterr().err


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=9, max_size=9).filter(any),
    st.sampled_from([2, 3]),
    st.sampled_from([2, 3]),
)
def test_figures_of_a_real_table_are_possible(cells, digits, digits_of_rates):
    table = np.array(cells, dtype=float).reshape(3, 3)
    found = of_table(table)
    words = [f"agreement={found.observed:.{digits}f}", f"n={found.n}", "labels=3"]
    words += [] if found.kappa is None else [f"kappa={found.kappa:.2f}"]
    shares = [
        ",".join(f"{v:.{digits_of_rates}f}" for v in table.sum(axis=side) / found.n)
        for side in (1, 0)
    ]
    assert main(["agree", "--stated", *words]) == 0
    assert main(["agree", "--stated", *words, f"first={shares[0]}"]) == 0
    assert main(["agree", "--stated", *words, f"first={shares[0]}", f"second={shares[1]}"]) == 0


def test_an_interval_has_a_width_or_there_is_none(tmp_path, capsys):
    """Three equal labels gave 1.000 [1.000, 1.000] once."""
    same = [Rating(str(n), who, label) for n, label in enumerate("xyx") for who in "ab"]
    found = agreed(same).figures
    assert (found["raw"].low, found["raw"].high, found["raw"].interval) == (
        *wilson(3, 3),
        "wilson(0.95)",
    )
    for name in ("cohen", "fleiss", "krippendorff"):
        assert (found[name].value, found[name].low, found[name].high, found[name].interval) == (
            1.0,
            None,
            None,
            "",
        )
    apart = agreed(
        [Rating("1", "a", "x"), Rating("1", "b", "y"), Rating("2", "a", "x"), Rating("2", "b", "y")]
    ).figures
    assert (apart["raw"].low, apart["raw"].high) == wilson(0, 2)
    sheet = tmp_path / "labels.csv"
    sheet.write_text(
        "item,label,annotator\n" + "".join(f"{r.item},{r.label},{r.rater}\n" for r in same)
    )
    assert main(["agree", str(sheet)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"raw +1\.000 +0\.439 +1\.000 +3", out)
    assert re.search(r"cohen +1\.000 +\W +\W +3", out)
    assert "Wilson's interval of raw, none of the others" in out
    sheet.write_text(sheet.read_text() + "4,x,a\n4,y,b\n")
    assert main(["agree", str(sheet)]) == 0
    assert "Wilson" not in capsys.readouterr().out


def test_files_of_labels(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(
        "item,label\n1,correct\n2,incorrect\n3,deflected\n4,cannot_tell\n"
    )
    (tmp_path / "b.jsonl").write_text(
        '{"ask":"1","label":"correct"}\n{"ask":"2","label":"CORRECT"}\n{"ask":"3","label":"NOT_ATTEMPTED","judge":"rules"}\n'
    )
    (tmp_path / "v.jsonl").write_text(
        '{"id":"1","outcome":"correct","status":"graded","judge":"rules"}\n{"id":"2","outcome":null,"status":"unjudged","judge":"rules"}\n'
    )
    assert (
        main(["agree", *(str(tmp_path / f) for f in ("a.csv", "b.jsonl", "v.jsonl")), "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert set(found["base_rates"]) == {"a", "b", "rules"}
    assert found["base_rates"]["rules"]["correct"]["n"] == 1
    assert found["agreement"]["raw"] == pytest.approx(
        found["agreement"]["raw"] | {"value": 2 / 3, "n": 3}
    )
    (tmp_path / "bad.csv").write_text("item,label\n,correct\n")
    assert main(["agree", str(tmp_path / "bad.csv")]) == 1
    assert "bad.csv:2" in capsys.readouterr().err


def test_no_label_is_no_agreement(tmp_path, capsys):
    """Empty tables and exit 0 once."""
    for name, text in (("a.csv", "item,label,annotator\na,,x\n"), ("b.jsonl", ""), ("c.csv", "")):
        (tmp_path / name).write_text(text)
        assert main(["agree", str(tmp_path / name)]) == 2
        assert "has no labels yet" in capsys.readouterr().err


def test_a_label_that_does_not_tell_wrong_from_declined_agrees_with_both(tmp_path, capsys):
    sheet = tmp_path / "labels.csv"
    rows = [
        "1,not_correct,a",
        "1,incorrect,b",
        "2,correct,a",
        "2,correct,b",
        "3,not_correct,a",
        "3,deflected,b",
    ]
    sheet.write_text("item,label,annotator\n" + "\n".join(rows))
    assert main(["agree", str(sheet), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agreement"]["raw"]["value"] == 1
