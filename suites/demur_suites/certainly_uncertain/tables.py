"""Tables, figures and cards of CertainlyUncertain as plain records: its Tables 1, 3 to 8 and Figures 4 and 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from demur.core.records import Measure
from demur.core.uris import read_image
from demur.reports.figures import Curve, Point, curves, series_legend
from demur.reports.svg import Panel
from demur.reports.tables import Cell, Column, Table, texts
from demur_suites.certainly_uncertain.items import MEANING, MEMBERS, Pair, Uncertainty
from demur_suites.certainly_uncertain.measures import GROUPS, TITLES, Score, correlations
from demur_suites.gallery import Card, Row, replies_to
from demur_suites.gallery import Cell as Shown
from demur_suites.records import Scored
from demur_suites.tables import n_note, number, table, with_n

CAPITAL = {c.value: c.value.capitalize() for c in Uncertainty} | {"total": "Total"}


def score_tables(scores: Sequence[Score]) -> list[Table]:
    """All tables of some models."""
    found = (
        headline_table(scores),
        category_table(scores),
        category_table(scores, "cw", "cu-categories-cw"),
        idk_table(scores),
        calibration_table(scores),
        threshold_table(scores),
        pair_table(scores),
        correlation_table(scores),
        evaluator_table(scores),
        replies_table(scores),
    )
    return [t for t in found if t is not None]


def _of(score: Score, scope: str, name: str) -> Measure | None:
    return score.by.get(scope, {}).get(name)


def _present(scores: Sequence[Score]) -> list[str]:
    """Categories that any model was asked about."""
    return [c.value for c in Uncertainty if any(c.value in s.by for s in scores)]


def headline_table(scores: Sequence[Score]) -> Table:
    """Tables 3, 4, 6 and 7: F1-idk, LAVE-idk and confidence-weighted accuracy by root, and ECE (IDK)."""
    short = {"f1_idk": "F1", "accuracy": "LAVE", "cw": "CW"}
    columns = [Column(title, group.capitalize()) for group in GROUPS for title in short.values()]
    rows = [
        (
            s.model,
            *(_of(s, g, n) for g in GROUPS for n in short),
            _of(s, "total", "ece_idk"),
            s.by["total"]["accuracy"].n,
            s.counts["without probability"],
            s.counts["unjudged"],
            s.counts["failed"],
        )
        for s in scores
    ]
    missing = sorted({c for s in scores for c in s.missing})
    notes = [
        "All in %. F1: of IDK, over all questions. LAVE: LAVE-idk. CW: confidence-weighted accuracy, -100 to 100. "
        "Means over categories. n: questions with a LAVE-idk, graded by "
        f"{', '.join(sorted({s.judge for s in scores}))}. no P: those of them without a "
        "probability of the reply; they are in no CW and no ECE.",
        *(
            [
                f"The set, or what was asked of it, has no {', '.join(missing)}: means are over the rest."
            ]
            * bool(missing)
        ),
    ]
    return table(
        "cu-headline",
        "IDK, accuracy and confidence by kind of uncertainty.",
        (*texts("Model"), *columns, Column("ECE", "IDK"), "n", "no P", "ungr.", "fail."),
        rows,
        *notes,
    )


def category_table(
    scores: Sequence[Score], measure: str = "accuracy", name: str = "cu-categories"
) -> Table:
    """Figure 5 as a table: one measure by category, with its n in a note."""
    present = _present(scores)
    measures = {c: [_of(s, c, measure) for s in scores] for c in present}
    columns = [Column(TITLES[measure], CAPITAL[c], interval=True) for c in present]
    rows = [(s.model, *(measures[c][place] for c in present)) for place, s in enumerate(scores)]
    caption = f"{TITLES[measure]} by category (%)."
    return table(
        name,
        caption,
        (*texts("Model"), *columns),
        rows,
        "Intervals: 95 %, pairs resampled; Wilson's over pairs where these do not differ.",
        n_note(measures),
    )


def idk_table(scores: Sequence[Score]) -> Table:
    """F1-idk by both definitions."""
    names = ("f1_idk", "precision", "recall", "f1_recall")
    columns = [Column(title, TITLES[name]) for name in names for title in ("value", "n")]
    rows = [
        (s.model, *with_n(s.by["total"][name] for name in names), s.counts["declined"])
        for s in scores
    ]
    return table(
        "cu-idk",
        "How well IDK is detected (mean over categories).",
        (*texts("Model"), *columns, "replies that decline"),
        rows,
        "Over all questions F1 is of class IDK; over unanswerable ones alone precision is 1 by "
        "construction. The paper's words allow both readings. n of precision: replies that decline; of recall: "
        "unanswerable questions; replies that no judge could read are in none.",
    )


def calibration_table(scores: Sequence[Score]) -> Table:
    """ECE, also of unanswerable questions alone, Brier and AURC."""
    names = ("ece", "ece_idk", "brier", "aurc")
    rows = [
        (
            s.model,
            *(_of(s, "total", n) for n in names),
            s.by["total"]["ece"].n,
            s.counts["without probability"],
        )
        for s in scores
    ]
    bins = ", ".join(sorted({str(s.settings["bins"]) for s in scores}))
    return table(
        "cu-calibration",
        "Is the probability of a reply worth its number?",
        (*texts("Model"), *(number(TITLES[n]) for n in names), "n", "no P"),
        rows,
        f"{bins} bins. ECE (IDK): unanswerable questions alone. Half-right counts half. "
        "Means over categories; lower is better.",
    )


def threshold_table(scores: Sequence[Score]) -> Table:
    """Table 4's thresholding row: "I don't know" below a threshold, chosen on the same items and on others."""
    parts = {"": "LAVE", "_f1": "F1", "_cw": "CW", "_ece": "ECE"}
    groups = {"replied": "as replied", "oracle": "oracle", "crossed": "cross-validated"}
    columns = [Column(of, title) for title in groups.values() for of in parts.values()]
    rows = [
        (
            s.model,
            *(_of(s, "total", how + part) for how in groups for part in parts),
            s.by["total"]["replied"].n,
            s.counts["without probability"],
        )
        for s in scores
    ]
    folds = max(s.settings["folds"] for s in scores)
    return table(
        "cu-thresholding",
        "Declining below a threshold.",
        (*texts("Model"), *columns, "n", "no P"),
        rows,
        "A reply whose P(pred) is below the threshold counts as IDK. Eighteen thresholds are tried; a category takes "
        "the one with the best LAVE-idk. oracle: the best on the very questions that are scored, as the paper chose "
        f"it: an upper bound. cross-validated: each of {folds} folds of pairs is scored by the threshold that is best "
        "on the others. n: graded questions with a probability; this whole table is over these. ECE: of unanswerable "
        "questions.",
    )


def pair_table(scores: Sequence[Score]) -> Table:
    """Pairs with both members right, and the control."""
    scopes = [*_present(scores), "total"]
    columns = [Column(title, CAPITAL[scope]) for scope in scopes for title in ("both", "n")]
    columns += [Column(name, "Control") for name in ("LAVE-idk", "n", "declines", "of")]
    rows = [
        (
            s.model,
            *with_n(_of(s, scope, "dual") for scope in scopes),
            *with_n(s.by["total"][name] for name in ("control", "control_idk")),
        )
        for s in scores
    ]
    return table(
        "cu-pairs",
        "Pairs scored jointly, and controls.",
        (*texts("Model"), *columns),
        rows,
        "both: pairs with full credit for both members, of n. Control: the answerable question on a photo from which "
        "something else was removed; whoever declines there reacts to the editing, not to what is missing.",
    )


def replies_table(scores: Sequence[Score]) -> Table:
    """What became of every question."""
    kinds = ("graded", "unjudged", "failed", "not asked", "without probability", "declined")
    rows = [
        (s.model, sum(s.counts[k] for k in kinds[:4]), *(s.counts[k] for k in kinds))
        for s in scores
    ]
    return table(
        "cu-replies",
        "What became of every question.",
        (*texts("Model"), "questions", *kinds),
        rows,
        "unjudged: no judge could say. failed: the call failed, or the reply is empty. without probability: of the "
        "graded ones. Controls are not among these.",
    )


def evaluator_table(scores: Sequence[Score]) -> Table:
    """Table 8: how the first stage of one judge or several reads the set's own answers."""
    tried = {judge: found for s in scores for judge, found in s.evaluators.items()}
    rows = [
        (judge, 100 * idk / n_idk if n_idk else None, n_idk, 100 * answers / n if n else None, n)
        for judge, (idk, n_idk, answers, n) in tried.items()
    ]
    columns: tuple[str | Column, ...] = (
        *texts("Judge"),
        Column("read as IDK (%)", "gold IDK"),
        Column("n", "gold IDK"),
        Column("read as an answer (%)", "gold answers"),
        Column("n", "gold answers"),
    )
    return table(
        "cu-evaluator",
        "The judges' first stage on the set's own answers.",
        columns,
        rows,
        "Pairs from photos first, a hundred at most; answers that a judge could not read are not in n.",
    )


def correlation_table(scores: Sequence[Score]) -> Table | None:
    """Figure 4: Pearson's r over models; None for fewer than three."""
    if len(scores) < 3:
        return None
    scopes = ["extraneous", "total"] if any("extraneous" in s.by for s in scores) else ["total"]
    rows = [
        (scope, TITLES[x], TITLES[y], r, n)
        for scope in scopes
        for (x, y), (r, n) in correlations(scores, scope).items()
    ]
    columns: tuple[str | Column, ...] = (
        *texts("Over", "x", "y"),
        Column("Pearson r", decimals=2),
        "models",
    )
    return table("cu-correlation", "What goes with confidence-weighted accuracy.", columns, rows)


def statistics_table(pairs: Sequence[Pair]) -> Table:
    """Table 1: photos and questions by category."""
    names = ("pairs", "questions", "controls", "photos", "made photos")

    def counted(pairs_of_kind: Sequence[Pair]) -> tuple[int, ...]:
        photos = {p.image.sha256 for p in pairs_of_kind if p.image is not None}
        made_photos = {
            p.idk_image.sha256 for p in pairs_of_kind if p.from_images and p.idk_image is not None
        }
        return (
            len(pairs_of_kind),
            2 * len(pairs_of_kind),
            sum(p.control_image is not None for p in pairs_of_kind),
            len(photos),
            len(made_photos),
        )

    rows: list[Sequence[Cell]] = [
        (
            c.value,
            MEANING[c].root.value,
            MEANING[c].text,
            *counted([p for p in pairs if p.category is c]),
        )
        for c in Uncertainty
    ]
    return table(
        "cu-statistics",
        "Pairs by kind of uncertainty.",
        (*texts("Category", "Root"), *texts("What it means", wraps=True), *names),
        [*rows, ("all", "", "", *counted(pairs))],
        "Every pair asks one answerable and one unanswerable question. A photo may serve several categories.",
        rules={len(rows)},
    )


# --- figures ----------------------------------------------------------------------------------------


def figures(scores: Sequence[Score]) -> list[Panel]:
    """Reliability; Figure 4 is a table."""
    stated = [
        Curve(
            s.model,
            tuple(Point(b.probability, b.credit, note=f"n {b.n}") for b in s.bins if b.n),
            n,
        )
        for n, s in enumerate(scores)
    ]
    panels = []
    if any(c.points for c in stated):
        even = Curve("as stated", (Point(0.0, 0.0), Point(1.0, 1.0)), 6)
        panels.append(
            curves(
                "LAVE-idk (%) by P(pred)",
                [*stated, even],
                x_label="P(pred), mean of each bin",
                whole_x=False,
            )
        )
        panels.append(series_legend([(c.label, c.style) for c in [*stated, even]]))
    return panels


# --- cards ------------------------------------------------------------------------------------------


def cards(
    pairs: Sequence[Pair],
    root: Path,
    scored: Mapping[str, Mapping[str, Scored]],
) -> Iterator[Card]:
    """One card a pair: the photo, the mask, the filled photo and the control, each with its question."""
    for pair in pairs:

        def cell(member: str, title: str, pair: Pair = pair) -> Shown:
            question, answer, _ = pair.member(member)
            replies = replies_to(pair.question_id(member), scored, _words)
            return Shown(title, question, f"right: {answer}", replies)

        first, second = (cell(name, name) if name in pair.members else None for name in MEMBERS[:2])
        if pair.from_images and first is not None and second is not None:
            gone = pair.provenance.get("object", "what is asked about")
            rows = [Row(pair.image, "original", (first,))]
            if pair.mask is not None:
                rows.append(Row(pair.mask, f"mask: {gone}", ()))
            rows.append(Row(pair.idk_image, f"filled: {gone} removed", (second,)))
            if pair.control_image is not None:
                other = pair.provenance.get("control", "something else")
                rows.append(
                    Row(
                        pair.control_image,
                        f"control: {other} removed",
                        (cell("control", "control"),),
                    )
                )
        else:
            both = tuple(shown for shown in (first, second) if shown is not None)
            photo = pair.image or pair.idk_image
            rows = [Row(photo, pair.provenance.get("caption", "")[:200], both)]
        tags = tuple(
            t
            for t in (
                pair.category.value,
                MEANING[pair.category].root.value,
                pair.route,
                pair.split,
                "filled offline: the filling shows" if pair.filled_offline else "",
            )
            if t
        )
        yield Card(pair.id, tags, tuple(rows), partial(read_image, root=root))


def _words(item: Scored) -> str:
    reply, grade = item.response, item.grade
    if reply is None or grade is None:
        return ""
    probability = grade.reading.probability if grade.reading else None
    return (reply.error or reply.text) + ("" if probability is None else f" (P {probability:.2f})")
