"""Rounds of gates, survival; topics and their drift."""

from __future__ import annotations

import random
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import UsageError
from demur.curation.build.convergence import converge
from demur.curation.build.topics import compare_topics
from demur.curation.gates.rules import Label

C, W, D, U, S = Label.CORRECT, Label.INCORRECT, Label.DEFLECTED, Label.MISSING, Label.SKIPPED


def world(n, strengths, seed=0):
    """Gates that each know a random part of the pool, drawn without regard to each other."""
    dice = random.Random(seed)
    return {
        f"s{i}": {f"g{k}": C if dice.random() < p else W for k, p in enumerate(strengths)}
        for i in range(n)
    }


def test_rounds_by_hand():
    table = {
        "a": {"x": C, "y": C, "m": C},
        "b": {"x": W, "y": C, "m": D},
        "c": {"x": D, "y": W, "m": W},
        "d": {"x": W, "y": U, "m": W},
    }
    found = converge(table, ["y", "x"], ["m"])
    assert found.gates == ("x", "y")
    # d could not be graded: it is not taken, and told
    assert [(r.size, r.undecided) for r in found.rounds] == [(4, 0), (3, 0), (2, 1)]
    assert [r.changed for r in found.rounds] == [None, 0.25, pytest.approx(1 / 3, abs=1e-6)]
    last = found.rounds[-1].monitors["m"]
    assert (last.accuracy, last.hallucination, last.n, last.missing) == (0, 1, 2, 0)
    watched = converge(table, ["x"], ["y"]).rounds[0].monitors["y"]
    assert (watched.accuracy, watched.n, watched.missing, watched.skipped) == (
        pytest.approx(2 / 3, abs=1e-6),
        3,
        1,
        0,
    )
    literal = converge(table, ["x", "y"], ["m"], order=["x", "y"], rule="literal")
    assert [(r.size, r.undecided) for r in literal.rounds] == [(4, 0), (2, 0), (1, 1)]
    for bad in ({"order": ["x"]}, {"order": ["x", "x"]}):
        with pytest.raises(UsageError):
            converge(table, ["x", "y"], [], **bad)
    with pytest.raises(UsageError, match="missing"):
        converge({"a": {"x": C}}, ["x", "y"], [])


def test_the_stopping_rule():
    table = {
        f"s{i}": {"a": C if i < 50 else W, "b": C if i < 70 else W, "c": C if i < 70 else W}
        for i in range(100)
    }
    found = converge(table, ["a", "b", "c"], [], order=["a", "b", "c"], threshold=0.05)
    assert found.converged_after == 2
    assert converge(table, ["a", "b"], [], order=["a", "b"], threshold=0.05).converged_after is None


@pytest.mark.heavy
@given(st.integers(2, 5), st.integers(0, 50))
def test_sizes_fall_and_everybody_is_counted_once(gates, seed):
    table = world(40, [0.1 + 0.1 * k for k in range(gates)], seed)
    found = converge(table, [f"g{k}" for k in range(gates)], ["g0"])
    sizes = [r.size for r in found.rounds]
    assert sizes == sorted(sizes, reverse=True)
    assert [s.left for s in found.survival][-1] == pytest.approx(sizes[-1] / 40)


def test_the_whole_funnels_size_where_it_is_known():
    table = {
        f"s{i}": {"a": C if i < 50 else W, "b": C if i < 51 else W, "c": W} for i in range(100)
    }

    def whole(gates):
        return (
            [s for s in table if not any(table[s][g] is C for g in gates)][1:]
            if len(gates) > 1
            else None
        )

    found = converge(
        table, ["a", "b", "c"], ["c"], kept_by=whole, order=["a", "b", "c"], threshold=0.05
    )
    assert [r.kept for r in found.rounds] == [None, None, 48, 48]
    assert [r.kept_changed for r in found.rounds] == [None, None, None, 0]
    assert (found.converged_after, found.kept_converged_after) == (1, 2)


@pytest.mark.heavy
@pytest.mark.parametrize("silent", [U, S, D])
def test_a_gate_that_answers_nothing_shows_nothing(silent):
    """It lets no filter converge; the same as if it were not there."""
    table = world(200, [0.2, 0.3, 0.4])
    mute = {s: row | {"mute": silent} for s, row in table.items()}
    gates = ["g0", "g1", "g2"]
    without = converge(table, gates, gates, order=gates, threshold=0.9)
    found = converge(mute, [*gates, "mute"], gates, order=[*gates, "mute"], threshold=0.9)
    assert found.silent == ("mute",)
    assert found.survival == without.survival
    assert [r.size for r in found.rounds][:4] == [r.size for r in without.rounds]
    assert found.rounds[-1].size == without.rounds[-1].size
    assert found.converged_after == without.converged_after == 1
    # nothing but a mute gate behind the last one that took something: that is no convergence
    assert converge(mute, ["g2", "mute"], ["g2"], order=["g2", "mute"]).converged_after is None


def test_drift_finds_a_topic_that_is_filtered_away_and_no_drift_where_there_is_none():
    dice = random.Random(1)
    topics = [dice.choice("abcd") for _ in range(800)]
    fair = compare_topics(topics, [dice.random() < 0.3 for _ in topics], by="source")
    unfair = compare_topics(
        topics, [dice.random() < (0.02 if t == "a" else 0.4) for t in topics], by="source"
    )
    assert fair.p > 0.01
    assert unfair.p < 0.001
    row = next(r for r in unfair.rows if r.topic == "a")
    assert row.low <= row.retained <= row.high < 0.2
    assert sum(r.before for r in unfair.rows) == 800
    with pytest.raises(ValueError, match="empty"):
        compare_topics([], [], by="source")


def test_under_keeping_at_random_the_statistic_is_about_its_degrees_of_freedom():
    """Also where most are kept, which a sum over the kept alone forgets: 28 topics, 760 of 1,000 kept."""
    dice = random.Random(4)
    topics = [f"t{i % 28}" for i in range(1000)]
    seen = []
    for _ in range(60):
        chosen = set(dice.sample(range(1000), 760))
        seen.append(
            compare_topics(
                topics, [i in chosen for i in range(1000)], by="source", draws=1
            ).chi_square
        )
    assert np.mean(seen) == pytest.approx(27 * 1000 / 999, abs=4 * np.sqrt(2 * 27 / 60))
    assert compare_topics(topics, [True] * 1000, by="source", draws=9).chi_square == 0
    assert compare_topics(topics, [False] * 1000, by="source", draws=9).p == 1


@pytest.mark.reference
def test_chi_square_and_p_agree_with_scipy():
    from scipy.stats import chi2_contingency

    dice = random.Random(3)
    topics = [dice.choice("abcde") for _ in range(600)]
    kept = [dice.random() < (0.35 if t in "ab" else 0.45) for t in topics]
    found = compare_topics(topics, kept, by="source", draws=20_000)
    table = np.array(
        [
            [sum(t == x and k is y for t, k in zip(topics, kept, strict=True)) for x in "abcde"]
            for y in (True, False)
        ]
    )
    reference = chi2_contingency(table, correction=False)
    assert found.chi_square == pytest.approx(reference.statistic, rel=1e-6)
    assert found.freedom == reference.dof
    assert found.p == pytest.approx(reference.pvalue, abs=0.02)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_bertopic_finds_what_was_planted_beside_the_torchvision_that_is_installed():
    if find_spec("bertopic") is None:  # not imported here: what it needs first is demur's to do
        pytest.skip("no bertopic: pip install 'demur[topics]'")
    from demur.curation.build.topics import bertopics

    rng = np.random.default_rng(0)
    questions, vectors = [], []
    for word, centre in zip(
        ("volcano lava", "parliament law", "orchid garden"), np.eye(3, 32), strict=True
    ):
        for i in range(60):
            questions.append(f"What is the {word} number {i}?")
            vectors.append(centre + 0.05 * rng.standard_normal(32))
    found = bertopics(questions, np.array(vectors, dtype=np.float32))
    assert len(set(found)) >= 3
    assert not set(found[:60]) & set(found[60:120])
    assert bertopics(questions[:15], np.array(vectors[:15], dtype=np.float32)) == ["all"] * 15


def test_of_nothing_no_gate_takes_a_share():
    """The first gate knows all of it: what the others take of none is undefined, and shows no convergence."""
    table = {s: {"x": W, "y": W, "z": C} for s in "abc"}
    found = converge(table, ["x", "y", "z"], [], order=["z", "x", "y"])
    assert [(r.size, r.changed) for r in found.rounds] == [
        (3, None),
        (0, 1.0),
        (0, None),
        (0, None),
    ]
    assert found.converged_after is None
