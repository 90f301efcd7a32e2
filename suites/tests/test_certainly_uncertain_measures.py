"""CertainlyUncertain: its formulas against the printed figures, an independent library, and theory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.records import TokenLogprob
from demur.judge.rating import RATINGS
from demur_suites.calibration import GRID
from demur_suites.certainly_uncertain import measures as m
from demur_suites.certainly_uncertain.audit import PUBLISHED, total
from demur_suites.certainly_uncertain.items import MEANING, Root, Uncertainty
from demur_suites.certainly_uncertain.refusal import declines
from demur_suites.mm_aqa.baselines import yes_share


def graded(rows, category="extraneous", start=0):
    """[(member, idk, credit, probability)] -> Graded; two rows a pair."""
    return [
        m.Graded(
            f"p{start + i // 2}/{member}",
            f"p{start + i // 2}",
            Uncertainty(category),
            member,
            "graded" if credit is not None else "unjudged",
            idk,
            credit,
            p,
        )
        for i, (member, idk, credit, p) in enumerate(rows)
    ]


# --- printed figures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credit", "p", "weighted"),
    [
        (1, 0.662, 0.662),
        (1, 0.1824, 0.1824),
        (1, 0.496, 0.496),
        (0, 0.893, -0.893),
        (1, 0.644, 0.644),
        (0, 0.01, -0.01),
        (0.5, 0.935, 0.4675),
        (1, 0.0216, 0.0216),
        (0, 0.0216, -0.0216),
    ],
)
def test_confidence_weighted_accuracy_is_that_of_figure_11(credit, p, weighted):
    assert m.confidence_weighted(credit, p) == pytest.approx(weighted)


def test_lave_idk_compares_by_idk_first_and_rates_answers_then():
    assert m.lave_idk(True, False, None) == 0  # IDK against "At the top right"
    assert m.lave_idk(True, True, None) == 1
    assert m.lave_idk(False, True, None) == 0
    assert m.lave_idk(False, False, 0.5) == 0.5  # partly right against a normal answer
    assert m.lave_idk(False, False, None) is None  # no judge could say
    assert [RATINGS[r][1] for r in (1, 2, 3)] == [0, 0.5, 1]
    assert len(GRID) == 18


ROWS = """Qwen-VL-Chat 65.45 64.22 11.92 67.15 63.35 15.71 66.13 63.87 13.45
LLaVA-1.5-7B 51.31 44.72 -1.01 54.78 51.51 2.65 52.71 47.46 0.47
LLaVA-1.5-13B 52.38 46.14 2.70 53.35 50.46 1.81 52.78 47.88 2.34
LLaVA-1.6-7B 67.61 53.10 26.61 51.27 55.51 11.39 61.02 54.07 20.47
LLaVA-1.6-13B 69.72 66.88 28.07 54.61 56.72 14.29 63.63 62.78 22.52
LLaVA-1.6-34B 74.37 71.06 40.03 58.47 60.01 21.27 67.96 66.60 32.47
Thresholding 74.44 69.86 19.45 71.84 62.54 17.04 73.40 66.91 18.48
SFT-LRV 57.30 57.51 6.69 50.74 53.41 0.42 54.65 55.86 4.16
SFT-LLaVA 62.18 62.65 11.61 60.81 62.55 18.61 61.63 62.61 14.44
SFT-Ours 84.62 76.70 45.00 86.76 81.38 55.81 85.48 78.59 49.35
SFT-Ours+LLaVA 85.38 78.14 42.49 87.19 82.11 55.27 86.11 79.74 47.64
Rtune-LLaVA 69.68 66.53 14.92 73.85 67.95 20.78 71.36 67.11 17.28
Rtune-Ours 86.10 78.09 41.88 85.38 78.52 51.07 85.81 78.26 45.58
Rtune-Ours+LLaVA 85.46 77.14 44.59 85.25 78.20 52.90 85.37 77.57 47.94
DPO-MMI 66.10 65.18 18.03 55.98 56.10 7.57 62.02 61.52 13.81
DPO-Ours 74.70 69.79 18.81 73.70 68.59 20.38 74.30 69.30 19.44
DPO-Ours+MMI 71.52 68.46 19.70 68.51 64.73 14.60 70.31 66.95 17.65
LLaVA-LoRA* 33.72 37.36 17.46 4.59 50.55 0.78 35.11 48.61 1.25
IT-Ours 84.40 78.25 53.54 42.07 81.32 50.33 85.31 78.25 42.50
IT-Ours+LLaVA 85.47 79.60 46.16 42.57 81.95 37.62 86.09 79.46 31.92
T6-base 30.08 44.72 -1.01 42.38 53.39 8.54 33.77 47.46 0.47
T6-Ours 85.57 77.83 30.80 84.85 78.80 30.55 86.20 79.53 31.68
T6-Ours+LLaVA 85.13 77.14 21.96 84.28 78.12 20.70 85.73 78.85 26.53
T7-13B-LoRA* 31.40 36.08 19.43 6.87 52.46 5.70 35.21 48.95 6.15
T7-13B-Ours 84.73 78.67 54.21 42.02 81.55 49.96 85.57 78.65 44.47
T7-13B-Ours+LLaVA 85.99 80.32 48.50 42.61 82.53 48.80 86.55 80.20 42.00"""
COLUMNS = [
    f"{root}_{part}" for root in ("epistemic", "aleatoric", "total") for part in ("f1", "acc", "cw")
]


def test_the_auditor_finds_the_rows_whose_totals_are_no_means_and_no_others():
    table = [
        (f"t:{i}", dict(zip(["model", *COLUMNS], line.split(), strict=True)))
        for i, line in enumerate(ROWS.splitlines())
    ]
    flagged = {f.where for f in PUBLISHED.audit(table)}
    assert flagged == {line.split()[0] for line in ROWS.splitlines()[17:]}
    told = {f.where: f.message for f in PUBLISHED.audit(table) if f.message.startswith("total_cw")}
    assert "IT-Ours" in told
    assert (
        round(total(65.45, 67.15), 2),
        round(total(64.22, 63.35), 2),
        round(total(11.92, 15.71), 2),
    ) == (
        66.13,
        63.87,
        13.44,
    )


def test_the_auditor_reads_a_hostile_table():
    assert [
        f.kind
        for f in PUBLISHED.audit(
            [("t:1", {"model": "", "total_acc": "high", "ece": "nan", "epistemic_f1": ""})]
        )
    ] == [
        "number",
        "number",
    ]


def test_totals_weigh_categories_alike_not_questions():
    rows = graded(
        [("answerable", False, 1.0, 0.5), ("unanswerable", True, 1.0, 0.5)] * 5, "knowledge"
    )
    rows += graded(
        [("answerable", True, 0.0, 0.5), ("unanswerable", False, 0.0, 0.5)], "temporal", start=50
    )
    by = m.score("x", "local", rows).by
    assert (
        by["epistemic"]["accuracy"].value,
        by["aleatoric"]["accuracy"].value,
        by["total"]["accuracy"].value,
    ) == (
        1,
        0,
        0.5,
    )
    assert m.score("x", "local", rows).missing == ("complexity", "extraneous", "ambiguity")


def test_table_1_counts_follow_from_its_categories():
    train, test = [9.5, 9.6, 38.2, 9.6, 9.6], [2.5, 2.5, 2.3, 2.5, 2.5]
    assert sum(train) == pytest.approx(76.5)
    assert sum(test) == pytest.approx(12.3)
    assert pytest.approx(178.0, abs=0.15) == 4 * 24.2 + 81.3
    assert [MEANING[c].root for c in Uncertainty].count(Root.EPISTEMIC) == 3
    assert Uncertainty("complex") is Uncertainty.COMPLEXITY


# --- measures -------------------------------------------------------------------------------------


def test_f1_counts_answerable_questions_that_were_declined_and_its_recall_only_variant_does_not():
    found = m.detection([True, True, True, False], [True, True, False, True])
    assert found == pytest.approx((4 / 6, 0.8, 2 / 3, 2 / 3))
    assert m.detection([], []) == m.Detection(None, None, None, None)
    assert m.detection([False], [False]) == m.Detection(None, None, None, None)


@pytest.mark.reference
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=examples(80), deadline=None)
def test_f1_agrees_with_scikit_learn(both):
    from sklearn.metrics import f1_score

    said, gold = zip(*both, strict=True)
    found = m.detection(said, gold).f1
    if found is not None:
        assert found == pytest.approx(f1_score(gold, said, zero_division=0.0))


def token(text, logprob, *top):
    return TokenLogprob(token=text, logprob=logprob, top=tuple(top))


def test_p_pred_is_yes_over_yes_and_no_in_all_their_spellings():
    shares = (
        ("Yes", math.log(0.3)),
        (" yes", math.log(0.1)),
        ("No", math.log(0.2)),
        ("Maybe", math.log(0.4)),
    )
    assert yes_share([token("Maybe", math.log(0.4), *shares)]) == pytest.approx(0.4 / 0.6)
    assert yes_share([token("\n", -0.1), token("Yes", 0.0)]) == 1  # alone; no rival is known
    assert yes_share([]) is None  # no log-probabilities
    assert (
        yes_share([token("Maybe", -0.5, ("Perhaps", -1.0))]) is None
    )  # neither word: undefined, not 0
    assert yes_share([token("yes", -math.inf, ("no", -math.inf))]) is None
    assert yes_share(
        [token("Yes", math.log(0.9), ("Yes", math.log(0.9)), ("no", math.log(0.1)))]
    ) == pytest.approx(0.9)


def test_what_has_no_probability_is_counted_and_in_no_figure_of_confidence():
    rows = graded(
        [
            ("answerable", False, 1.0, 0.9),
            ("unanswerable", True, 1.0, None),
            ("answerable", False, None, 0.9),
            ("unanswerable", None, None, 0.9),
        ]
    )
    score = m.score("x", "local", rows)
    own = score.by["extraneous"]
    assert (own["accuracy"].value, own["accuracy"].n, own["accuracy"].unjudged) == (1, 2, 2)
    assert (own["cw"].value, own["cw"].n) == (0.9, 1)
    assert (own["f1_idk"].n, own["dual"].n, own["dual"].unjudged) == (3, 1, 1)
    assert score.counts["without probability"] == 1
    assert own["ece_idk"].value is None


def test_a_pair_is_right_when_both_members_are_and_half_right_is_not():
    rows = graded(
        [
            ("answerable", False, 1.0, 0.9),
            ("unanswerable", True, 1.0, 0.9),
            ("answerable", False, 0.5, 0.9),
            ("unanswerable", True, 1.0, 0.9),
        ]
    )
    failed = graded(
        [("answerable", None, None, None), ("unanswerable", True, 1.0, 0.9)] * 2, start=8
    )
    rows += [g._replace(status="failed") if g.id.startswith("p8/a") else g for g in failed]
    both = m.score("x", "local", rows).by["extraneous"]["dual"]
    assert (both.value, both.n, both.unjudged, both.failed) == (
        0.5,
        2,
        1,
        1,
    )  # each of four pairs stands in one count


REPLIES = st.lists(
    st.tuples(
        st.sampled_from(list(Uncertainty)),
        st.sampled_from([None, True, False]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.one_of(st.none(), st.sampled_from([0.0, 0.125, 0.5, 0.75, 1.0])),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@given(REPLIES, st.randoms(use_true_random=False))
@settings(max_examples=examples(40), deadline=None)
def test_order_names_copies_and_the_scale_of_confidence_change_what_they_should(replies, random):
    """Thresholds by folds go by the ids of pairs, risk and quantiles by the number of rows; nothing else does."""
    rows = []
    for n, (category, idk, rating, p, asked) in enumerate(replies):
        for member in ("answerable", "unanswerable", "control")[: 2 + n % 2]:
            credit = None if idk is None else m.lave_idk(idk, member == "unanswerable", rating)
            status = (
                "not asked"
                if not asked and member == "control"
                else "failed"
                if not asked
                else "graded"
            )
            said = (idk, credit, p) if asked else (None, None, None)
            rows.append(m.Graded(f"p{n}/{member}", f"p{n}", category, member, status, *said))

    def found(own):
        by = m.score("x", "local", own).by
        return {
            (scope, name): v
            for scope, of in by.items()
            for name, v in of.items()
            if "crossed" not in name
        }

    before, shuffled = found(rows), random.sample(rows, len(rows))
    assert {k: pytest.approx(v.value) for k, v in before.items()} == {
        k: v.value for k, v in found(shuffled).items()
    }
    copies = found(rows + [g._replace(id=f"again {g.id}", pair=f"again {g.pair}") for g in rows])
    halves = found([g._replace(probability=g.probability and g.probability / 2) for g in rows])
    for (scope, name), was in before.items():
        twice = copies[scope, name]
        assert (twice.n, twice.unjudged, twice.failed) == (
            2 * was.n,
            2 * was.unjudged,
            2 * was.failed,
        )
        if name != "aurc":
            assert twice.value == pytest.approx(was.value)
        if name in ("cw", "replied_cw"):
            assert halves[scope, name].value == pytest.approx(was.value and was.value / 2)
        elif name in ("accuracy", "f1_idk", "dual", "control"):
            assert halves[scope, name] == was


def calibrated(n=6000, seed=2):
    """A simulated model whose P(pred) is the chance that it is right, uniform in [0, 1]."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        p = float(rng.random())
        right = bool(rng.random() < p)
        member = ("answerable", "unanswerable")[i % 2]
        rows.append((member, right == (member == "unanswerable"), float(right), p))
    return graded(rows)


def test_a_perfectly_calibrated_simulated_model_scores_as_theory_says():
    score = m.score("calibrated", "local", calibrated())
    own = score.by["extraneous"]
    assert own["cw"].value == pytest.approx(1 / 6, abs=0.02)  # E[p p - (1 - p) p] = 2/3 - 1/2
    assert own["ece"].value < 0.03
    assert own["ece_idk"].value < 0.04
    assert own["brier"].value == pytest.approx(1 / 6, abs=0.01)
    assert own["aurc"].value == pytest.approx(1 / 4, abs=0.02)
    assert own["accuracy"].value == pytest.approx(1 / 2, abs=0.02)
    assert own["accuracy"].low < 1 / 2 < own["accuracy"].high
    # replaced below t: right of the half that is unanswerable; best where p = 1/2 answers worse than IDK
    assert own["oracle"].value >= own["crossed"].value >= own["accuracy"].value


def test_thresholds_take_the_gain_of_declining_below_them():
    rows = graded([("answerable", False, 1.0, 0.95), ("unanswerable", False, 0.0, 0.2)] * 10)
    own = m.score("x", "local", rows)
    assert own.by["extraneous"]["oracle"].value == own.by["extraneous"]["crossed"].value == 1
    assert own.by["extraneous"]["crossed_f1"].value == 1
    # 0.95 for the right answers; the ten at 0.2 are right as IDK now, and still said with 0.2
    assert own.by["extraneous"]["replied_cw"].value == pytest.approx((0.95 - 0.2) / 2)
    assert own.by["extraneous"]["oracle_cw"].value == pytest.approx((0.95 + 0.2) / 2)
    assert [
        own.by["extraneous"][f"{how}_ece"].value for how in ("replied", "oracle")
    ] == pytest.approx([0.2, 0.8])


def test_pearson_over_models_is_that_of_fig_4():
    scores = [
        m.score(
            f"m{k}",
            "local",
            graded(
                [("answerable", False, 1.0, 0.9), ("unanswerable", True, 1.0, 0.8)] * k
                + [("answerable", False, 0.0, 0.6), ("unanswerable", False, 0.0, 0.7)] * (5 - k)
            ),
        )
        for k in range(5)
    ]
    found = m.correlations(scores)
    assert found["accuracy", "cw"][0] > 0.99
    assert found["ece", "cw"][0] < -0.9
    assert found["ece", "cw"][1] == 5
    assert m.correlations(scores[:1])["accuracy", "cw"] == (None, 1)


DECLINES = [
    "I don't know",
    "I don't see a car.",
    "Nothing",
    "There is no car in the image.",
    "Unanswerable",
    "IDK",
    "It is not possible to tell the weight. Such cases often weigh 15 kg.",
    "I can't see any dog.",
    "Not visible.",
    "There is no existence of a cat in the image description.",
    "I don’t know (missing information)",
    "**Answer:** Nothing",
]
ANSWERS = [
    "I am not sure, but I think it is blue",
    "an apple, but I am not confident",
    "A hat like a pineapple.",
    "No.",
    "No, it is lit already.",
    "nothing but sand",
    "I don't know for sure, but probably red.",
    "Above the trees",
]


@pytest.mark.parametrize("text", DECLINES)
def test_a_refusal_is_read_as_one(text):
    assert declines(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_a_guess_is_an_answer(text):
    assert not declines(text)
