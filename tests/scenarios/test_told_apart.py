"""What a reader of shallow features makes of the sets that are asked: it is measured, refused where it tells, said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from errors import raises
from strategies import sample

from demur.cli import main
from demur.core.errors import ReleaseError
from demur.evaluation.options import RunOptions
from demur.evaluation.questions import left_out
from demur.release import Draft, Release, freeze
from demur.release.evidence import LIMIT
from demur.release.push import push
from demur.scenarios.told_apart import (
    FEATURES,
    RIDGE,
    _fit,
    _right,
    _with_constant,
    measure,
    verify,
)


def text(dice, words):
    """That many words that no other text has."""
    return " ".join(f"w{number}" for number in dice.integers(10**9, size=words))


def longer_gold(s, dice):
    return {"text": text(dice, 300)}


def gold_of_the_question(s, dice):
    return {"title": "in s"}


def gold_of_the_base(s, dice):
    return {"index_id": "i"}


def gold_like_others(s, dice):
    return {}


def release_of(n, change, seed=0):
    """Samples whose distractors have 5 to 60 words, as their gold has, but for the change."""
    dice = np.random.default_rng(seed)

    def words():
        return {"text": text(dice, dice.integers(5, 60))}

    made = []
    for number in range(n):
        s = sample(f"s{number}", text=5)
        gold = s.gold[0].model_copy(update=words() | change(s, dice))
        negatives = tuple(e.model_copy(update=words()) for e in s.negatives)
        made.append(s.model_copy(update={"gold": (gold,), "negatives": negatives}))
    return made


@pytest.mark.parametrize(
    ("change", "feature"),
    [
        (longer_gold, "length"),
        (gold_of_the_question, "title"),
        (gold_of_the_base, "origin"),
    ],
)
def test_what_tells_gold_is_found_and_named_but_not_in_few_samples(change, feature):
    (row,) = measure(release_of(60, change))
    assert row.telling
    assert row.low > LIMIT
    assert max((f for f in FEATURES if f != "number"), key=row.by.get) == feature
    assert feature in str(row)
    (few,) = measure(release_of(4, change))
    assert not few.telling


@pytest.mark.parametrize("seed", range(20))
def test_24_samples_whose_gold_is_like_their_distractors_do_not_fail(seed):
    (row,) = measure(release_of(24, gold_like_others, seed))
    assert not row.telling
    assert row.by["pictures"] == row.by["title"] == row.by["origin"] == 0.5
    assert row.by["number"] == 1.0


def test_gold_like_its_distractors_is_at_chance():
    (row,) = measure(release_of(400, gold_like_others))
    assert abs(row.right - 0.5) < 0.06


def test_the_order_of_samples_and_other_sources_change_nothing():
    made = release_of(30, gold_like_others)
    others = [
        s.model_copy(update={"id": f"o{s.id}", "source": "other"})
        for s in release_of(30, longer_gold)
    ]
    together = measure([*others, *made[::-1]])
    assert [row.source for row in together] == ["", "made", "other"]
    assert together[1:] == [*measure(made), *measure(others)]


def test_samples_without_a_distractor_of_golds_kind_are_counted():
    s = release_of(3, gold_like_others)
    pictured = sample("v", text=0, visual=4)
    (row,) = measure([*s, pictured])
    assert (row.n, row.left_out) == (3, {"1": 1, "2": 1})
    assert len(row.findings) == 1
    assert "1 samples" in row.findings[0]


def test_a_run_says_how_many_samples_a_scenario_leaves_out():
    made = [*release_of(3, gold_like_others), sample("v", text=0, visual=4)]
    scenarios = ("realistic(k=1)", "adversarial", "oracle", "realistic(k=2,negatives=image)")
    lines = left_out(RunOptions(scenarios=scenarios), made)
    assert [line.partition("(")[0] for line in lines] == ["realistic", "adversarial"]
    assert all("1 of 4" in line for line in lines)
    assert left_out(RunOptions(scenarios=scenarios), made[:3]) == []


@pytest.mark.parametrize("seed", range(40))
def test_the_weights_are_where_the_penalised_likelihood_is_flat(seed):
    """Also where a feature parts the sets wholly: Newton's steps may not run away."""
    dice = np.random.default_rng(seed)
    pairs = dice.normal(size=(dice.integers(2, 200), 2, dice.integers(1, 8)))
    pairs[:, 0] += dice.choice([0, 0.3, 3, 100])
    pairs = (pairs - pairs.mean(axis=(0, 1))) / pairs.std(axis=(0, 1))
    weights, rows = _fit(pairs), _with_constant(pairs).reshape(-1, pairs.shape[2] + 1)
    miss = np.tile([1.0, 0.0], len(pairs)) - 1 / (1 + np.exp(-rows @ weights))
    assert rows.T @ miss - RIDGE * weights == pytest.approx(0, abs=1e-9)


def test_sets_that_are_alike_are_half_right_and_those_wholly_apart_right():
    assert _right(np.ones((5, 2, 1))) == 0.5
    assert _right(np.tile([[[1.0]], [[1.0]]], (3, 2, 1))) == 0.5
    assert _right(np.tile([[[5.0], [1.0]]], (6, 1, 1))) == 1.0


@pytest.fixture
def frozen(tmp_path):
    """A function that freezes samples, with what the manifest is to say beside the usual."""

    def freeze_samples(samples, **about):
        freeze(
            tmp_path / "r",
            Draft(
                name="r",
                version="1.0.0",
                samples=samples,
                read_image=lambda ref: b"",
                about=about,
            ),
        )
        return Release.open(tmp_path / "r")

    return freeze_samples


def test_verify_fails_where_gold_is_told_without_reading(frozen, capsys):
    samples = release_of(60, longer_gold)
    rows = [row.model_dump(mode="json") for row in measure(samples)]
    release = frozen(samples, told_apart=rows)
    (line,) = verify(release)
    assert "retrieval.chunk" in line
    assert release.findings == [line]
    assert main(["release", "verify", str(release.folder), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["sound"], said["problems"]) == (False, [line])
    with raises(ReleaseError, item=release.folder, cure="release verify"):
        push(release, "hf:nobody/r")


def test_verify_measures_where_the_manifest_says_nothing_and_checks_what_it_says(frozen):
    assert verify(frozen(release_of(60, longer_gold)))
    said = [row.model_dump(mode="json") for row in measure(release_of(60, gold_like_others))]
    (line,) = verify(frozen(release_of(60, gold_like_others, 1), told_apart=said))
    assert line.startswith("manifest.json: told_apart")


def test_a_sound_release_verifies(frozen):
    assert verify(frozen(release_of(30, gold_like_others))) == []
