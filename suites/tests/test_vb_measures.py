"""VB's measures: the paper's numbers, the formulas again in a few independent lines, and models whose score is known."""

from __future__ import annotations

import csv
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur_suites.vb.audit import PUBLISHED
from demur_suites.vb.items import CELLS, HEADLINE, XOR, Category, Family, Label
from demur_suites.vb.measures import (
    WEIGHTS,
    cells_of,
    composite,
    flips,
    score,
    selrank,
    sensitivity,
)
from demur_suites.vb.replies import Reply, read_reply
from demur_suites.vb.tables import alpha_table, headline_table

TABLES = Path(__file__).parent / "tables"


def rows(name: str) -> list[tuple[str, dict[str, str]]]:
    with (TABLES / name).open(newline="") as handle:
        return [(f"{name}:{n}", row) for n, row in enumerate(csv.DictReader(handle), start=2)]


def families(n: int, *, second_order: int = 0, gold: tuple[Label, ...] = XOR) -> list[Family]:
    return [
        Family(
            id=f"F-{i:03d}",
            category=Category.MULTI_AGENT_SECOND_ORDER if i < second_order else Category.OCCLUSION,
            questions=(f"Is {i} visible?", f"Is {i} hidden?"),
            gold=gold,
        )
        for i in range(n)
    ]


def replies(made: list[Family], reply: object) -> dict[str, Reply]:
    return {f.cell_id(c): reply(f, c) for f in made for c in CELLS}


def perfect(family: Family, cell: object) -> Reply:
    return Reply(family.gold[CELLS.index(cell)], 1.0, "NONE")


# --- the paper's numbers --------------------------------------------------------------------------


def test_the_worked_example_of_caa():
    [family] = families(1)
    said = {
        family.cell_id(CELLS[0]): Reply(Label.FALSE, 0.85),
        family.cell_id(CELLS[1]): Reply(Label.ABSTAIN, 0.4, "OCCLUSION"),
        family.cell_id(CELLS[2]): Reply(Label.FALSE, 0.70),
    }
    assert score("m", [family], said).measures["caa"].value == pytest.approx((0.85 + 0.25 + 0) / 3)


def test_nine_composites_follow_from_their_printed_components():
    for _, row in rows("vb_table2.csv"):
        parts = {
            k: float(row[c])
            for k, c in zip(WEIGHTS, ("caa", "mefr", "selrank", "tomacc"), strict=True)
        }
        assert composite(parts) == pytest.approx(float(row["final"]), abs=0.001), row["model"]
    gpt = {"caa": 0.769, "mefr": 0.847, "selrank": 0.144, "tom_acc": None}
    assert composite(gpt) == pytest.approx(
        0.7155, abs=0.0001
    )  # renormalised without second-order items
    assert composite({**gpt, "tom_acc": math.nan}) == composite(gpt)
    assert composite(dict.fromkeys(WEIGHTS)) is None


def test_the_audit_of_the_papers_tables_finds_what_arithmetic_finds():
    found = {
        (f.severity, f.where, f.message.split(" ")[0])
        for f in PUBLISHED.audit([*rows("vb_table2.csv"), *rows("vb_table3.csv")])
    }
    assert found == {
        (
            "defect",
            "Qwen3-VL-8B",
            "i_mefr",
        ),  # 72 is the families with BASE right, not the denominators (62 and 39)
        ("defect", "Qwen3-VL-8B", "t_mefr"),
        ("defect", "Qwen3-VL-8B", "tomacc"),  # 9 of 20, printed as of 21
        ("note", "InternVL3-8B", "3"),  # invalid labels that no column tells
        ("note", "Qwen3-VL-8B", "49"),
    }


def test_a_wrong_table_is_told():
    line = {
        "model": "m",
        "final": "0.9",
        "caa": "0.5",
        "mefr": "0.5",
        "selrank": "1.5",
        "tomacc": "x",
        "abs": "250",
    }
    other = {
        "model": "m",
        "answered": "100",
        "coverage": "50",
        "ansacc": "0.505",
        "selrank_raw": "0.2",
        "d": "",
        "abs": "20",
    }
    kinds = {f.kind for f in PUBLISHED.audit([("a:2", line), ("b:2", other)])}
    assert kinds == {"total", "number", "n", "count", "disagree"}


def test_denominators_in_paper_mode_lose_children_without_a_confidence():
    made = families(100)
    said = {}
    for n, family in enumerate(made):
        base, text, image = n < 72, n < 7, n < 19
        said[family.cell_id(CELLS[0])] = Reply(Label.FALSE if base else Label.TRUE, 0.9)
        said[family.cell_id(CELLS[1])] = Reply(
            Label.TRUE if text else Label.FALSE,
            0.9 if n < 39 or n >= 72 else None,
            problem="" if n < 39 or n >= 72 else "no confidence",
        )
        said[family.cell_id(CELLS[2])] = Reply(
            Label.TRUE if image else Label.FALSE,
            0.9 if n < 62 or n >= 72 else None,
            problem="" if n < 62 or n >= 72 else "no confidence",
        )
    paper, measured = (flips(cells_of(made, said, mode)) for mode in ("paper", "measured"))
    (image, image_n), (text, text_n), (_, base_right) = paper
    assert (base_right, image_n, text_n) == (72, 62, 39)
    assert (round(image, 3), round(text, 3)) == (0.306, 0.179)  # printed as .307 and .180
    assert [n for _, n in measured] == [72, 72, 72]  # the labels were said: they count


# --- selective ranking ----------------------------------------------------------------------------


def test_selrank_of_four_in_perfect_order_with_one_wrong():
    assert selrank(
        np.array([True, True, True, False]), np.array([0.9, 0.8, 0.7, 0.6])
    ) == pytest.approx(-0.125)


def test_selrank_of_a_perfect_order_tends_to_its_limit_which_is_not_one():
    p, n = 0.8, 4000
    right = np.arange(n) < p * n
    assert selrank(right, np.linspace(1, 0, n)) == pytest.approx(
        p * math.log(1 / p) / (1 - p), abs=0.01
    )


answered = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.5, 0.8, 0.9, 0.95])), min_size=1, max_size=40
)


@pytest.mark.reference
@given(answered, st.randoms(use_true_random=False))
def test_ties_bound_every_order_and_the_expected_value_is_their_mean(pairs, random):
    right, confidence = np.array([r for r, _ in pairs]), np.array([c for _, c in pairs])
    low, middle, high = (selrank(right, confidence, way) for way in ("worst", "expected", "best"))
    assert low - 1e-9 <= middle <= high + 1e-9
    assert low - 1e-9 <= selrank(right, confidence, "stable") <= high + 1e-9
    if right.all():
        return
    orders = []
    for _ in range(30):  # by hand: a random order within equal confidences
        shuffled = sorted(pairs, key=lambda pair: (-pair[1], random.random()))
        accuracy = [sum(r for r, _ in shuffled[: k + 1]) / (k + 1) for k in range(len(shuffled))]
        area = sum((a + b) / 2 for a, b in itertools.pairwise(accuracy)) / len(shuffled)
        p = accuracy[-1]
        orders.append(min(1.0, (area - p) / (1 - p)))
    assert low - 1e-9 <= min(orders)
    assert max(orders) <= high + 1e-9


def test_equal_confidences_are_ranked_by_id_and_the_bounds_stand_beside_the_papers_figure():
    made = families(40)
    said = replies(
        made,
        lambda f, c: (
            Reply(f.gold[CELLS.index(c)] if int(f.id[2:]) % 3 else Label.ABSTAIN, 0.9)
            if int(f.id[2:]) % 5
            else Reply(Label.TRUE, 0.9)
        ),
    )
    mixed = [*made[20:], *made[:20]]
    one, other = (score("m", order, said, mode="paper", resamples=20) for order in (made, mixed))
    assert one.measures == other.measures
    ranked = [  # by hand: all confidences are equal, so that answers stand in the order of ids
        said[f.cell_id(c)].label is gold
        for f in made
        for c, gold in zip(HEADLINE, XOR[:3], strict=True)
        if said[f.cell_id(c)].answered
    ]
    accuracy = [sum(ranked[: k + 1]) / (k + 1) for k in range(len(ranked))]
    area = sum((a + b) / 2 for a, b in itertools.pairwise(accuracy)) / len(ranked)
    by_hand = min(1.0, (area - accuracy[-1]) / (1 - accuracy[-1]))
    assert one.measures["selrank"].value == pytest.approx(by_hand)
    ties = one.selrank_by_ties
    assert ties["worst"] < ties["expected"] < ties["best"]
    assert score("m", made, said, resamples=0).measures["selrank"].value == ties["expected"]


@given(answered)
def test_selrank_asks_for_the_order_of_confidences_alone(pairs):
    right, confidence = np.array([r for r, _ in pairs]), np.array([c for _, c in pairs])
    assert selrank(right, confidence) == pytest.approx(selrank(right, confidence**3 / 2))


# --- models whose score is known -------------------------------------------------------------------


def test_a_perfect_model_scores_one_everywhere():
    made = families(20, second_order=3)
    found = score("perfect", made, replies(made, perfect), resamples=20)
    assert {n: m.value for n, m in found.measures.items()} == dict.fromkeys(found.measures, 1.0)
    assert found.measures["tom_acc"].n == 9
    assert found.counts["answered"] == 60


def test_one_who_always_abstains_gets_alpha():
    made = families(10, second_order=2)
    found = score(
        "silent",
        made,
        replies(made, lambda f, c: Reply(Label.ABSTAIN, 0.5, "OCCLUSION")),
        alpha=0.3,
        resamples=20,
    )
    values = {n: m.value for n, m in found.measures.items()}
    assert values["caa"] == pytest.approx(0.3)
    assert values["mefr"] is None
    assert values["selrank"] is None
    assert values["tom_acc"] == 0
    assert values["coverage"] == 0
    assert values["final"] == pytest.approx((0.7 * 0.3) / 0.75)
    assert found.counts["abstained"] == 30


def test_a_constant_label_has_no_base_right_or_all_of_them():
    made = families(10)
    true = score(
        "yes", made, replies(made, lambda f, c: Reply(Label.TRUE, 0.9, "NONE")), resamples=0
    )
    false = score(
        "no", made, replies(made, lambda f, c: Reply(Label.FALSE, 0.9, "NONE")), resamples=0
    )
    assert (true.counts["base_right"], false.counts["base_right"]) == (0, 10)
    assert true.measures["mefr"].value is None
    assert false.measures["mefr"].value == 0
    assert true.measures["caa"].value == pytest.approx(0.9 * 2 / 3)
    assert false.measures["caa"].value == pytest.approx(0.9 / 3)


def test_swapped_labels_score_nothing():
    made = families(10, second_order=10)
    swap = {Label.TRUE: Label.FALSE, Label.FALSE: Label.TRUE}
    found = score(
        "swapped",
        made,
        replies(made, lambda f, c: Reply(swap[f.gold[CELLS.index(c)]], 0.99, "NONE")),
        resamples=0,
    )
    assert [found.measures[n].value for n in ("caa", "tom_acc", "df_acc", "answered_accuracy")] == [
        0,
        0,
        0,
        0,
    ]


confidences = st.one_of(st.none(), st.floats(0, 1))
any_reply = st.builds(
    lambda kind, confidence: (
        {
            "none": Reply(None, problem="no output"),
            "bad": Reply(None, problem="unparsable"),
            "label": Reply(None, problem="invalid label"),
            "abstain": Reply(Label.ABSTAIN, confidence),
        }.get(kind)
        or Reply(Label(kind), confidence, problem="" if confidence is not None else "no confidence")
    ),
    st.sampled_from(["none", "bad", "label", "abstain", "VISIBLY_TRUE", "VISIBLY_FALSE"]),
    confidences,
)


@given(
    st.lists(st.tuples(*[any_reply] * 4), min_size=1, max_size=12),
    st.sampled_from(["measured", "paper"]),
)
def test_caa_and_flips_by_hand(lines, mode):
    made = families(len(lines))
    said = {
        f.cell_id(c): r
        for f, line in zip(made, lines, strict=True)
        for c, r in zip(CELLS, line, strict=True)
    }
    credit, n = 0.0, 0
    base = image_n = image = 0
    for line in lines:
        for gold, reply in zip(XOR[:3], line, strict=False):
            if reply.problem in ("no output", *(["unparsable"] if mode == "paper" else [])):
                continue
            if reply.problem == "no confidence":
                continue
            n += 1
            credit += (
                0.25
                if reply.label is Label.ABSTAIN
                else reply.confidence
                if reply.label is gold
                else 0
            )
        ok = line[0].label is Label.FALSE and (mode == "measured" or line[0].confidence is not None)
        child = line[2]
        base += ok
        kept = child.problem != "no output" and (
            mode == "measured"
            or child.problem == "invalid label"
            or child.label is Label.ABSTAIN
            or (child.label is not None and child.confidence is not None)
        )
        image_n += ok and kept
        image += ok and kept and child.label is Label.TRUE
    found = score("m", made, said, mode=mode, resamples=0)
    assert found.measures["caa"].n == n
    if n:
        assert found.measures["caa"].value == pytest.approx(credit / n)
    assert found.counts["base_right"] == base
    assert found.measures["i_mefr"].n == image_n
    assert found.measures["i_mefr"].value == (pytest.approx(image / image_n) if image_n else None)
    in_caa = found.measures["caa"]
    assert in_caa.n + in_caa.unjudged + in_caa.failed == 3 * len(
        lines
    )  # every headline cell is somewhere


def test_families_with_an_abstain_label_are_scored_apart():
    strict, other = (
        families(4),
        families(2, gold=(Label.ABSTAIN, Label.ABSTAIN, Label.TRUE, Label.FALSE)),
    )
    other = [f.model_copy(update={"id": f"A-{n}"}) for n, f in enumerate(other)]
    made = [*strict, *other]
    found = score("m", made, replies(made, perfect), resamples=0)
    assert found.counts["headline"] == 12
    assert found.abstain == {
        "cells": 8,
        "no_output": 0,
        "right": 8,
        "abstain_gold": 4,
        "abstain_right": 4,
        "abstained": 4,
    }


@pytest.mark.reference
def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    made, truth, covered = families(60), 0.7, 0
    for _ in range(40):
        said = {}
        for family in made:
            good = rng.random() < truth  # cells of one family go together
            for cell, gold in zip(CELLS, XOR, strict=True):
                other = Label.TRUE if gold is Label.FALSE else Label.FALSE
                said[family.cell_id(cell)] = Reply(gold if good else other, 1.0, "NONE")
        caa = score("m", made, said, resamples=200).measures["caa"]
        covered += caa.low <= truth <= caa.high
    assert covered >= 34


def test_the_ranking_under_other_weights():
    parts = {
        "sure": {"caa": 0.9, "mefr": 0.9, "selrank": 0.9, "tom_acc": 0.9},
        "flips": {"caa": 0.4, "mefr": 0.8, "selrank": 0.0, "tom_acc": 0.5},
        "exact": {"caa": 0.6, "mefr": 0.3, "selrank": 0.0, "tom_acc": 0.5},
    }
    found = sensitivity(parts)
    assert found.settings == 286  # C(13, 3) ways to give out ten tenths
    assert found.first["sure"] == 1.0
    assert found.swaps == (("exact", "flips"),)
    assert found.ranks["exact"] == (2, 3)


# --- replies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "label", "confidence", "problem"),
    [
        (
            '{"label": "VISIBLY_TRUE", "reason_code": "NONE", "confidence": 0.9}',
            "VISIBLY_TRUE",
            0.9,
            "",
        ),
        (
            '```json\n{"label": "visibly_false", "reason_code": "OCCLUSION", "confidence": 1}\n```',
            "VISIBLY_FALSE",
            1.0,
            "",
        ),
        ('{"label": "NOT_VISIBLE", "confidence": 85}', "VISIBLY_FALSE", 0.85, ""),
        ('{"label": "UNDETERMINABLE_FROM_EVIDENCE"}', "ABSTAIN", None, ""),
        ('{"label": "VISIBLE"}', "VISIBLY_TRUE", None, "no confidence"),
        ('{"label": "VISIBLE", "confidence": "90%"}', "VISIBLY_TRUE", None, "no confidence"),
        ('{"label": "VISIBLE", "confidence": NaN}', "VISIBLY_TRUE", None, "no confidence"),
        ('{"label": "VISIBLE", "confidence": 1e400}', "VISIBLY_TRUE", None, "no confidence"),
        ('{"label": "VISIBLE", "confidence": -0.1}', "VISIBLY_TRUE", None, "no confidence"),
        ('{"label": "VISIBLE", "confidence": true}', "VISIBLY_TRUE", None, "no confidence"),
        ('{"label": "MAYBE", "confidence": 0.5}', None, None, "invalid label"),
        ('{"label": ["VISIBLE"], "confidence": 0.5}', None, None, "invalid label"),
        ('Sure: {"label": "VISIBLE", "confidence": 0.5}', None, None, "unparsable"),
        ('["VISIBLE"]', None, None, "unparsable"),
        ("[" * 100_000, None, None, "unparsable"),
        ("", None, None, "no output"),
        ("ERROR: 429", None, None, "no output"),
    ],
)
def test_the_strict_parser(text, label, confidence, problem):
    found = read_reply(text)
    assert (found.label, found.confidence, found.problem) == (label, confidence, problem)


def test_the_lenient_parser_takes_the_last_object_with_a_label():
    text = 'First {"label": "VISIBLE", "confidence": 0.2}, no: {"label": "NOT_VISIBLE", "confidence": "90%"} {"x": 1}'
    found = read_reply(text, "lenient")
    assert (found.label, found.confidence) == (Label.FALSE, 0.9)
    assert read_reply("{" * 50_000, "lenient").problem == "unparsable"


@given(
    st.text(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["label", "confidence", "reason_code"]), inner)
        ),
        max_leaves=6,
    ).map(json.dumps)
)
def test_no_reply_raises(text):
    for parser in ("strict", "lenient"):
        found = read_reply(text, parser)
        assert (found.label is None) == (
            found.problem in ("no output", "unparsable", "invalid label")
        )


def test_the_credit_of_an_abstention_can_change_the_ranking():
    made = families(10)
    shy = score(
        "shy", made, replies(made, lambda f, c: Reply(Label.ABSTAIN, 0.5, "OCCLUSION")), resamples=0
    )
    rash = score(
        "rash", made, replies(made, lambda f, c: Reply(Label.FALSE, 0.6, "NONE")), resamples=0
    )
    assert shy.by_alpha[0.5] > rash.by_alpha[0.5]
    assert shy.by_alpha[0.0] < rash.by_alpha[0.0]
    assert shy.by_alpha[0.25] == shy.measures["final"].value


def test_a_composite_of_nothing_is_a_value_and_ranks_above_a_worse_one():
    made = families(10)
    wrong = score(
        "wrong", made, replies(made, lambda f, c: Reply(Label.TRUE, 0.9, "NONE")), resamples=0
    )
    nothing = wrong._replace(
        model="nothing",
        measures=wrong.measures
        | {"final": wrong.measures["final"].model_copy(update={"value": 0.0})},
        by_alpha=dict.fromkeys(wrong.by_alpha, 0.0),
    )
    worse = nothing._replace(
        model="worse",
        measures=wrong.measures
        | {"final": wrong.measures["final"].model_copy(update={"value": -0.2})},
        by_alpha=dict.fromkeys(wrong.by_alpha, -0.2),
    )
    assert [row[0] for row in headline_table([worse, nothing]).rows] == ["nothing", "worse"]
    table = alpha_table([worse, nothing])
    assert table is not None
    assert [row[2] for row in table.rows] == [2, 1]


def test_tables_are_audited_by_the_headers_that_are_printed(tmp_path):
    from demur.core.store import Problems
    from demur_suites import audit_tables

    path = tmp_path / "t.csv"
    path.write_text(
        "Model,Answered,Cov (%),AnsAcc,SelRank_raw,MEFR d,I_MEFR\nm,201,70.0,0.582,0.033,72,0.307\n"
    )
    found = audit_tables([path], Problems())
    assert [f.kind for f in found.findings] == ["n", "count"]
    path.write_text("Model,Answered,Cov (%),n,ABS\na,3,50,0,1\nb,-5,50,300,1\n")
    assert [f.kind for f in audit_tables([path], Problems()).findings][:2] == ["number", "n"]
