"""MM-THEBench's measures and statistics: the acceptance numbers, hand-made cases, and values of R."""

from __future__ import annotations

import math

import pytest

from demur_suites.mm_thebench.audit import PUBLISHED, QUESTIONS
from demur_suites.mm_thebench.items import BASE, Dimension, Item, RubricItem, Step
from demur_suites.mm_thebench.measures import (
    Judged,
    Level,
    Mark,
    StepMatch,
    hallucination_kind,
    harmonic,
    measures,
    points,
    score,
    step_score,
    subcategory_shares,
)
from demur_suites.mm_thebench.statistics import association, odds_of_rates, pearson, spearman
from demur_suites.mm_thebench.tables import statistics_tables

TABLE_9 = {  # model: chi2, OR, Err_P, Err_R as printed
    "GLM-4.1V": (0.1, 1.2, 60.8, 65.1),
    "Qwen3-8B": (5.5, 2.8, 60.7, 81.3),
    "InternVL3.5-8B": (3.7, 3.7, 54.6, 73.8),
    "GLM-4.5V": (4.8, 3.1, 55.6, 79.4),
    "Qwen3-235B": (10.3, 4.3, 48.5, 80.0),
    "InternVL-241B": (4.3, 2.7, 64.9, 83.3),
    "Doubao": (0.6, 1.5, 59.1, 68.8),
    "Opus-4.1": (9.5, 3.9, 59.4, 85.2),
}


def item(id="a", necessary=(True, True, True), **more):
    steps = tuple(
        Step(id=n, types=(d,), content=f"step {n}", necessary=need)
        for n, (d, need) in enumerate(
            zip(("perception", "knowledge", "reasoning"), necessary, strict=True), 1
        )
    )
    rubric = (
        RubricItem(
            question="Seen?", points=2, dimension="perception", subcategory="ocr", steps=(1,)
        ),
        RubricItem(
            question="Known?",
            points=3,
            dimension="knowledge",
            subcategory="world knowledge",
            steps=(2,),
        ),
        RubricItem(
            question="Concluded?",
            points=5,
            dimension="reasoning",
            subcategory="spatial",
            steps=(3,),
        ),
    )
    return Item(
        **{
            "id": id,
            "question": "Which?",
            "answers": ("Paris",),
            "steps": steps,
            "rubric": rubric,
            **more,
        }
    )


def matched(*labels, predicted=4):
    return Judged(
        id="a",
        answer=Level.MATCH,
        steps=tuple("abcdefgh"[:predicted]),
        matches=tuple(
            StepMatch(step=n, label=lab, predicted=at) for n, (lab, at) in enumerate(labels, 1)
        ),
    )


def marked(*said, answer=Level.MATCH, id="a", length=None):
    """``y`` satisfied, ``n`` not, ``h`` not and made up, ``?`` unread; three base items first."""
    marks = tuple(
        Mark(satisfied={"y": True, "?": None}.get(c, False), hallucination=c == "h")
        for c in said[0]
    )
    return Judged(id=id, answer=answer, marks=marks, length=length)


# --- acceptance -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "partial", "n", "percent"),
    [
        (116, 1, 150, 77.67),
        (156, 0, 184, 84.78),
        (50, 0, 119, 42.02),
        (63, 0, 119, 52.94),
        (73, 0, 119, 61.34),
        (85, 0, 119, 71.43),
        (99, 0, 119, 83.19),
    ],
)
def test_printed_accuracies_are_halves_of_their_questions(match, partial, n, percent):
    levels = (
        [Level.MATCH] * match + [Level.PARTIAL] * partial + [Level.MISMATCH] * (n - match - partial)
    )
    pairs = [(item(str(k)), Judged(id=str(k), answer=level)) for k, level in enumerate(levels)]
    assert round(100 * measures(pairs, resamples=0)["accuracy"].value, 2) == percent


@pytest.mark.parametrize(
    ("p", "r", "expected"),
    [
        (60.8, 65.1, 1.20),
        (60.7, 81.3, 2.81),
        (54.6, 73.8, 2.34),
        (55.6, 79.4, 3.08),
        (48.5, 80.0, 4.25),
        (64.9, 83.3, 2.70),
        (59.1, 68.8, 1.53),
        (59.4, 85.2, 3.93),
    ],
)
def test_odds_ratios_follow_from_the_printed_rates(p, r, expected):
    assert odds_of_rates(p / 100, r / 100) == pytest.approx(expected, abs=0.05)


def test_the_audit_finds_what_is_wrong_in_the_printed_tables():
    nine = [
        (f"t9:{n}", {"model": m, "chi2": str(c), "or": f"{o}*", "err_p": str(p), "err_r": str(r)})
        for n, (m, (c, o, p, r)) in enumerate(TABLE_9.items())
    ]
    assert [(f.where, f.kind) for f in PUBLISHED.audit(nine)] == [("InternVL3.5-8B", "odds")]
    seven = [
        (
            "t7:2",
            {"model": "o3", "mm-vet": "84.78", "mmmu": "77.67", "spatial": "58.59", "video": "-"},
        ),
        ("t7:3", {"model": "Flash", "math": "70.49", "video": "71.42", "mmmu": "81.52"}),
    ]
    found = [(f.where, f.message.split()[0]) for f in PUBLISHED.audit(seven)]
    assert found == [("o3", "mm-vet"), ("o3", "mmmu"), ("o3", "spatial"), ("Flash", "video")]
    assert sum(QUESTIONS.values()) == 1339
    assert PUBLISHED.audit([("x:2", {"model": "m", "gui": "many"})])[0].kind == "number"


def test_table_1_and_6_arithmetic():
    assert round(4.17 * 0.1530, 2) == 0.64
    assert [round(4.17 * s, 2) for s in (0.4971, 0.6031)] == [2.07, 2.51]
    assert sum((0.73, 2.51, 3.01)) == pytest.approx(6.25)
    assert sum((4.42, 9.35, 15.63)) == pytest.approx(29.40)
    assert sum(b.points for b in BASE) == 23
    _, steps = statistics_tables([item(), item("b"), Item(id="c", question="q", answers=("x",))])
    assert [(row[1], row[2].value, row[3]) for row in steps.rows] == [
        (2, pytest.approx(1 / 3), 1)
    ] * 3 + [(6, 1, 3)]
    assert [row[4:] for row in steps.rows] == [(1, 3), (1, 2), (1, 5), (3, 10)]


def test_f1_is_averaged_over_questions():
    one, other = (
        matched((Level.MATCH, 1), (Level.MATCH, 2), (Level.MATCH, 3)),
        matched((Level.MATCH, 1), (Level.MISMATCH, None), (Level.MISMATCH, None), predicted=8),
    )
    found = measures([(item(), one), (item(), other)], resamples=0)
    p, r, f1 = (found[k].value for k in ("precision", "recall", "f1"))
    assert (p, r) == (pytest.approx(0.4375), pytest.approx(2 / 3))
    assert f1 == pytest.approx((2 * 0.75 / 1.75 + 2 * 0.125 / 3 / (0.125 + 1 / 3)) / 2)
    assert f1 != pytest.approx(harmonic(p, r), abs=0.002)
    assert round(harmonic(17.83, 42.54), 2) == 25.13


# --- steps and rubric -------------------------------------------------------------------------------


def test_two_reference_steps_in_one_predicted_step_count_once_in_precision():
    found = step_score(item(), matched((Level.MATCH, 2), (Level.MATCH, 2), (Level.PARTIAL, 3)))
    assert found[:2] == (pytest.approx(1 / 4), pytest.approx(2 / 3))
    half = step_score(
        item(), matched((Level.MATCH, 2), (Level.MATCH, 2), (Level.PARTIAL, 3)), partial=0.5
    )
    assert half[:2] == (pytest.approx(1.5 / 4), pytest.approx(2.5 / 3))


def test_steps_that_can_be_left_out_are_not_missed():
    found = step_score(
        item(necessary=(True, False, True)),
        matched((Level.MATCH, 1), (Level.MISMATCH, None), (Level.MATCH, 4)),
    )
    assert found.recall == 1.0


def test_an_unread_match_leaves_the_step_level_and_is_counted():
    unread = matched((Level.MATCH, 1), (None, None), (Level.MATCH, 2))
    assert step_score(item(), unread) is None
    found = measures([(item(), unread)], resamples=0)["f1"]
    assert (found.value, found.n, found.unjudged) == (None, 0, 1)


def test_points_by_dimension_and_what_is_made_up():
    judged = marked(
        "yhyyhn"
    )  # base P8.. : second base item (R, 8) and own K made up, own R missing
    assert points(item(), judged) == (6 + 9 + 2, 8 + 3, 33)
    assert points(item(), judged, Dimension.PERCEPTION) == (8, 0, 8)
    assert points(item(), judged, Dimension.REASONING) == (9, 8, 22)
    assert points(item(), marked("yyy?yy")) is None
    found = measures([(item(), judged)], resamples=0)
    assert found["h"].value == pytest.approx(1 - 11 / 33)
    assert found["knowledge"].value == 0.0
    assert subcategory_shares([(item(), judged)]) == {
        ("reasoning", "base"): (8, pytest.approx(8 / 11)),
        ("knowledge", "world knowledge"): (3, pytest.approx(3 / 11)),
    }


@pytest.mark.parametrize(
    ("marks", "kind"),
    [
        ("yyyyyy", "none"),
        ("yyynnn", "none"),
        ("yyyhyy", "perception only"),
        ("yyyyyh", "reasoning only"),
        ("hyyyyh", "reasoning and perception"),
        ("yyyyhy", "knowledge only"),
        ("yyyhhy", "other"),
        ("yyyhhh", "other"),
        ("yy?yyy", None),
    ],
)
def test_kinds_of_hallucination(marks, kind):
    assert hallucination_kind(item(), marked(marks)) == kind


def test_a_score_keeps_failed_unjudged_too_complex_and_unasked_apart():
    items = [
        item("a"),
        item("b"),
        item("c"),
        item("d", too_complex=True),
        item("e"),
        item("f", video={"path": "v.mp4"}),
    ]
    judged = {
        "a": Judged(id="a", answer=Level.MATCH),
        "b": Judged(id="b", answer=Level.PARTIAL),
        "c": Judged(id="c", failed=True),
        "d": Judged(id="d", answer=Level.MISMATCH),
        "f": Judged(id="f"),
    }
    found = score("m", items, judged, resamples=0)
    acc = found.image["accuracy"]
    assert (acc.value, acc.n, acc.failed, acc.unjudged) == (0.75, 2, 1, 0)
    assert (found.left_out, found.not_asked) == (1, 1)
    assert found.video["accuracy"].unjudged == 1


def test_intervals_hold_the_value_and_are_the_same_twice():
    pairs = [(item(str(k)), marked("yyyhyy" if k % 3 else "yyyyyy", id=str(k))) for k in range(30)]
    one, two = (measures(pairs, seed=1)["h"] for _ in range(2))
    assert one == two
    assert one.low < one.value < one.high


# --- statistics -------------------------------------------------------------------------------------


def test_a_row_of_table_9_is_that_of_r():
    """Values of R's fisher.test and chisq.test."""
    found = association((52, 12), (37, 24))
    assert found.chi == pytest.approx((5.495, 0.019), abs=1e-3)
    assert found.odds == pytest.approx(52 * 24 / (12 * 37))
    tea = association((8, 2), (1, 5))
    assert tea.fisher == pytest.approx(0.034965, abs=1e-6)
    assert tea.interval == pytest.approx((1.0081849, 1049.79145), rel=1e-2)  # R searches coarsely


def test_what_is_undefined_is_none():
    assert association((0, 0), (3, 4)).chi is None
    assert association((0, 3), (0, 4)).odds is None
    assert association((2, 0), (1, 4)).odds == math.inf
    assert pearson([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 2, 3, 4], [1, 4, 9, 100]).r == pytest.approx(1)
    assert association((0, 0), (0, 0)).fisher == 1.0
