"""Agreement of labellers against other implementations."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from demur.cli import main
from demur.core.errors import DataError
from demur.core.stats import wilson
from demur.judge.measures.agreement import Rating, agreed


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
    assert "Wilson" in out
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
    rates = {row["labeller"]: row for row in found["base_rates"]}
    assert set(rates) == {"a", "b", "rules"}
    assert rates["rules"]["correct"]["n"] == 1
    raw = next(row for row in found["agreement"] if row["measure"] == "raw")
    assert (raw["value"], raw["n"]) == (pytest.approx(2 / 3), 3)
    (tmp_path / "bad.csv").write_text("item,label\n,correct\n")
    assert main(["agree", str(tmp_path / "bad.csv")]) == 1
    assert "bad.csv:2" in capsys.readouterr().err


def test_no_label_is_no_agreement(tmp_path, capsys):
    """Empty tables and exit 0 once."""
    for name, text in (("a.csv", "item,label,annotator\na,,x\n"), ("b.jsonl", ""), ("c.csv", "")):
        (tmp_path / name).write_text(text)
        assert main(["agree", str(tmp_path / name)]) == 2
        assert str(tmp_path / name) in capsys.readouterr().err


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
    raw = json.loads(capsys.readouterr().out)["agreement"][0]
    assert (raw["measure"], raw["value"]) == ("raw", 1)
