"""Tables, figures and cards of CertainlyUncertain as plain records: its Tables 1, 3 to 8 and Figures 4 and 5."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from demur.core.records import AnswerSpec, ImageRef, Measure, Outcome, Response, Status
from demur.core.taxonomy import MEANING, Uncertainty
from demur.core.uris import read_image
from demur.reports import svg
from demur.reports.figures import Curve, Point, curves
from demur.reports.gallery import Card, Glyph, Row
from demur.reports.gallery import Cell as Shown
from demur.reports.gallery import Reply as ShownReply
from demur.reports.svg import Panel
from demur.reports.tables import Cell, Column, Table
from demur.suites.certainly_uncertain.items import Pair, statistics
from demur.suites.certainly_uncertain.measures import GROUPS, TITLES, Score, correlations

_MODEL = Column("Model", align="left")


def _of(score: Score, scope: str, name: str) -> Measure | None:
    return score.by.get(scope, {}).get(name)


def _gaps(scores: Sequence[Score]) -> tuple[str, ...]:
    missing = sorted({c for s in scores for c in s.missing})
    return (
        (f"The set, or what was asked of it, has no {', '.join(missing)}: means are over the rest.",) if missing else ()
    )


def headline_table(scores: Sequence[Score]) -> Table:
    """Tables 3, 4, 6 and 7: F1-idk, LAVE-idk and confidence-weighted accuracy by root, and ECE (IDK)."""
    columns = [_MODEL]
    short = {"f1_idk": "F1", "accuracy": "LAVE", "cw": "CW"}
    for group in GROUPS:
        columns += [Column(title, str(group).capitalize()) for title in short.values()]
    columns += [
        Column("ECE", "IDK", percent=False, decimals=2),
        Column("n"),
        Column("no P"),
        Column("ungr."),
        Column("fail."),
    ]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        cells = [_of(s, str(g), n) for g in GROUPS for n in ("f1_idk", "accuracy", "cw")]
        n = s.by["total"]["accuracy"].n
        rows.append((s.model, *cells, _of(s, "total", "ece_idk"), n, s.counts["without probability"],
                     s.counts["ungraded"], s.counts["failed"]))  # fmt: skip
    judges = ", ".join(sorted({s.judge for s in scores}))
    notes = (
        "F1: of IDK, over all questions. LAVE: LAVE-idk. CW: confidence-weighted accuracy, -100 to 100. "
        f"Means over categories. n: questions with a LAVE-idk, graded by {judges}. no P: those of them without a "
        "probability of the reply; they are in no CW and no ECE.",
        *_gaps(scores),
    )
    return Table(
        "cu-headline", "IDK, accuracy and confidence by kind of uncertainty.", tuple(columns), tuple(rows), notes=notes
    )


def category_table(scores: Sequence[Score], measure: str = "accuracy", name: str = "cu-categories") -> Table:
    """Figure 5 as a table: one measure by category, with its n."""
    present = [c for c in Uncertainty if any(c.value in s.by for s in scores)]
    columns = [_MODEL]
    for c in present:
        columns += [Column(TITLES[measure], c.value.capitalize(), interval=True), Column("n", c.value.capitalize())]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        line: list[Cell] = [s.model]
        for c in present:
            found = _of(s, c.value, measure)
            line += [found, found.n if found else 0]
        rows.append(tuple(line))
    return Table(name, f"{TITLES[measure]} by category.", tuple(columns), tuple(rows),
                 notes=("Intervals: 95 %, pairs resampled.",))  # fmt: skip


def idk_table(scores: Sequence[Score]) -> Table:
    """F1-idk by both definitions."""
    names = ("f1_idk", "precision", "recall", "f1_recall")
    columns = [_MODEL]
    for name in names:
        columns += [Column("value", TITLES[name]), Column("n", TITLES[name])]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        found = [s.by["total"][name] for name in names]
        rows.append((s.model, *(cell for m in found for cell in (m, m.n)), s.counts["declined"]))
    notes = (
        "Over all questions F1 is of class IDK; over unanswerable ones alone precision is 1 by "
        "construction. The paper's words allow both readings. n of precision: replies that decline; of recall: "
        "unanswerable questions; replies of which nobody can say whether they decline are in none.",
    )
    return Table(
        "cu-idk", "How well IDK is told from the rest (mean over categories).",
        (*columns, Column("replies that decline")), tuple(rows), notes=notes,
    )  # fmt: skip


def calibration_table(scores: Sequence[Score]) -> Table:
    """ECE by all variants, Brier and AURC."""
    names = ("ece", "ece_adaptive", "ece_classwise", "ece_idk", "brier", "aurc")
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        found = (_of(s, "total", n) for n in names)
        rows.append((s.model, *found, s.by["total"]["ece"].n, s.counts["without probability"]))
    bins = ", ".join(sorted({str(s.settings["bins"]) for s in scores}))
    notes = (
        f"{bins} bins; adaptive ones hold equally many. classwise: the mean of replies that decline and of those "
        "that answer. ECE (IDK): unanswerable questions alone. Half-right counts half. "
        "Means over categories; lower is better.",
    )
    return Table(
        "cu-calibration",
        "Is the probability of a reply worth its number?",
        (_MODEL, *(Column(TITLES[n], percent=False, decimals=3) for n in names), Column("n"), Column("no P")),
        tuple(rows),
        notes=notes,
    )


def threshold_table(scores: Sequence[Score]) -> Table:
    """Table 4's thresholding row: "I don't know" below a threshold, chosen on the same items and on others."""
    parts = {"": "LAVE", "_f1": "F1", "_cw": "CW", "_ece": "ECE"}
    groups = {"replied": "as replied", "oracle": "oracle", "crossed": "cross-validated"}
    columns = [_MODEL]
    for title in groups.values():
        columns += [Column(of, title, percent=of != "ECE", decimals=1 + (of == "ECE")) for of in parts.values()]
    columns += [Column("n"), Column("no P")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        found = [_of(s, "total", how + part) for how in groups for part in parts]
        rows.append((s.model, *found, s.by["total"]["replied"].n, s.counts["without probability"]))
    folds = max(s.settings["folds"] for s in scores)
    notes = (
        "A reply whose P(pred) is below the threshold counts as IDK. Eighteen thresholds are tried, one is taken for "
        "each category, by LAVE-idk. oracle: the best on the very questions that are scored, as the paper chose it: an "
        f"upper bound. cross-validated: each of {folds} folds of pairs is scored by the threshold that is best on the "
        "others. "
        "n: graded questions with a probability; all of this table is over these. ECE: of unanswerable questions.",
    )
    return Table("cu-thresholding", "Declining below a threshold.", tuple(columns), tuple(rows), notes=notes)


def chosen_table(scores: Sequence[Score]) -> Table:
    """Which thresholds `threshold_table` takes."""
    rows = tuple(
        (s.model, category, best, ", ".join(f"{t:g}" for t in of_folds))
        for s in scores for category, (best, of_folds) in s.thresholds.items()
    )  # fmt: skip
    columns = (_MODEL, Column("Category", align="left"), Column("oracle", decimals=2),
               Column("of the folds", align="left"))  # fmt: skip
    return Table("cu-thresholds", "Thresholds on P(pred) that were chosen.", columns, rows)


def pair_table(scores: Sequence[Score]) -> Table:
    """Pairs with both members right, and the control."""
    present = [c.value for c in Uncertainty if any(c.value in s.by for s in scores)]
    columns = [_MODEL]
    for scope in (*present, "total"):
        columns += [Column("both", scope.capitalize(), interval=scope == "total"), Column("n", scope.capitalize())]
    columns += [Column(name, "Control") for name in ("LAVE-idk", "n", "declines", "of")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        line: list[Cell] = [s.model]
        for scope in (*present, "total"):
            found = _of(s, scope, "dual")
            line += [found, found.n if found else 0]
        for found in (s.by["total"]["control"], s.by["total"]["control_idk"]):
            line += [found, found.n]
        rows.append(tuple(line))
    notes = (
        "both: pairs with full credit for both members, of n. Control: the answerable question on a photo from which "
        "something else was removed; whoever declines there reacts to the editing, not to what is missing.",
    )
    return Table("cu-pairs", "Pairs scored jointly, and controls.", tuple(columns), tuple(rows), notes=notes)


def replies_table(scores: Sequence[Score]) -> Table:
    """What became of every question."""
    kinds = ("graded", "ungraded", "failed", "not asked", "without probability", "declined")
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        rows.append((s.model, sum(s.counts[k] for k in kinds[:4]), *(s.counts[k] for k in kinds)))
    notes = (
        "ungraded: no judge could say. failed: the call failed, or nothing was said. without probability: of the "
        "graded ones. Controls are not among these.",
    )
    return Table(
        "cu-replies",
        "What became of every question.",
        (_MODEL, Column("questions"), *map(Column, kinds)),
        tuple(rows),
        notes=notes,
    )


def others_table(scores: Sequence[Score]) -> Table | None:
    """Table 5: other benchmarks; None without replies to any."""
    titles = {title: share for s in scores for title, share in s.others.percent.items()}
    if not titles:
        return None
    columns = [_MODEL]
    for title, share in titles.items():
        columns += [
            Column("value", title, percent=share, decimals=1 if share else 2),
            Column("n", title),
            Column("left out", title),
        ]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        line: list[Cell] = [s.model]
        for title in titles:
            found = s.others.measures.get(title)
            line += [found, found.n if found else 0, found.ungraded + found.failed if found else None]
        rows.append(tuple(line))
    notes = (
        "Replies made elsewhere. left out: failed, no side taken where a side is asked for, no judge could say. Hall.: "
        "rated below 3; there the lower is the better, in all others the higher.",
    )  # fmt: skip
    return Table("cu-others", "Other benchmarks.", tuple(columns), tuple(rows), notes=notes)


def evaluator_table(scores: Sequence[Score]) -> Table:
    """Table 8: how the first stage of one judge or several reads the set's own answers."""
    rows: list[tuple[Cell, ...]] = []
    for judge, (idk, n_idk, answers, n) in {k: v for s in scores for k, v in s.evaluators.items()}.items():
        rows.append((judge, 100 * idk / n_idk if n_idk else None, n_idk, 100 * answers / n if n else None, n))
    columns = (Column("Judge", align="left"), Column("read as IDK (%)", "gold IDK"), Column("n", "gold IDK"),
               Column("read as an answer (%)", "gold answers"), Column("n", "gold answers"))  # fmt: skip
    return Table(
        "cu-evaluator", "The judges' first stage on the set's own answers.", columns, tuple(rows),
        notes=("Pairs from photos first, a hundred at most; what a judge could not say is not in n.",),
    )  # fmt: skip


def correlation_table(scores: Sequence[Score]) -> Table | None:
    """Figure 4: Pearson's r over models; None for fewer than three."""
    if len(scores) < 3:
        return None
    scopes = ["extraneous", "total"] if any("extraneous" in s.by for s in scores) else ["total"]
    rows: list[tuple[Cell, ...]] = []
    for scope in scopes:
        for (x, y), (r, n) in correlations(scores, scope).items():
            rows.append((scope, TITLES[x], TITLES[y], r, n))
    columns = (Column("Over", align="left"), Column("x", align="left"), Column("y", align="left"),
               Column("Pearson r", decimals=2), Column("models"))  # fmt: skip
    return Table("cu-correlation", "What goes with confidence-weighted accuracy.", columns, tuple(rows))


def statistics_table(pairs: Sequence[Pair]) -> Table:
    """Table 1: photos and questions by category."""
    names = ("pairs", "questions", "controls", "photos", "made photos")
    counted = statistics(pairs)
    rows: list[tuple[Cell, ...]] = [
        (c.value, MEANING[c].root.value, MEANING[c].text, *(row[n] for n in names)) for c, row in counted.items()
    ]
    photos = {p.image.sha256 for p in pairs if p.image is not None}
    made = {p.idk_image.sha256 for p in pairs if p.from_images and p.idk_image is not None}
    sums = [sum(row[n] for row in counted.values()) for n in names[:3]]
    rows.append(("all", "", "", *sums, len(photos), len(made)))
    columns = (Column("Category", align="left"), Column("Root", align="left"), Column("What it means", align="left"),
               *(Column(n) for n in names))  # fmt: skip
    notes = ("Every pair asks one answerable and one unanswerable question. A photo may serve several categories.",)
    return Table(
        "cu-statistics", "Pairs by kind of uncertainty.", columns, tuple(rows), rules=frozenset({5}), notes=notes
    )


# --- figures ----------------------------------------------------------------------------------------


def figures(scores: Sequence[Score]) -> list[Panel]:
    """Reliability, and Figure 4."""
    stated = [
        Curve(s.model, tuple(Point(b.probability, b.credit, note=f"n {b.n}") for b in s.bins if b.n), n)
        for n, s in enumerate(scores)
    ]
    made = []
    if any(c.points for c in stated):
        even = Curve("as stated", (Point(0.0, 0.0), Point(1.0, 1.0)), 6)
        made.append(
            curves("LAVE-idk (%) by P(pred)", [*stated, even], x_label="P(pred), mean of each bin", whole_x=False)
        )
        from demur.reports.figures import series_legend

        made.append(series_legend([(c.label, c.style) for c in [*stated, even]]))
    scope = "extraneous" if any("extraneous" in s.by for s in scores) else "total"
    for (x, y), (r, n) in correlations(scores, scope).items() if len(scores) > 2 else ():
        if n > 1:
            own = [(s, k) for k, s in enumerate(scores) if scope in s.by]
            found = [(s.model, s.by[scope][x].value, s.by[scope][y].value, k) for s, k in own]
            points = [(m, a, b, k) for m, a, b, k in found if a is not None and b is not None]
            told = "undefined" if r is None else f"{r:.2f}"
            made.append(scatter(f"{TITLES[y]} by {TITLES[x]} ({scope}), r {told}, n {n}", points, TITLES[x]))
    return made


def scatter(title: str, points: Sequence[tuple[str, float, float, int]], x_label: str) -> Panel:
    """Points (label, x, y, style) on axes fitted to them; values are read off their tooltips."""
    left, top, wide, high = 46.0, 30.0, svg.WIDTH - 60, 190.0

    def fit(values: list[float]) -> tuple[float, float]:
        room = (max(values) - min(values)) * 0.08 or 0.05
        return min(values) - room, max(values) + room

    (x0, x1), (y0, y1) = fit([p[1] for p in points]), fit([p[2] for p in points])
    out = [
        svg.title(title),
        svg.line(left, top + high, left + wide, top + high, kind="axis"),
        svg.line(left, top, left, top + high, kind="axis"),
    ]
    for share in (0.0, 0.5, 1.0):
        out.append(
            svg.text(
                left + share * wide,
                top + high + 16,
                f"{x0 + share * (x1 - x0):.2f}",
                size=10.5,
                anchor="middle",
                faint=True,
            )
        )
        out.append(
            svg.text(
                left - 6,
                top + (1 - share) * high + 4,
                f"{y0 + share * (y1 - y0):.2f}",
                size=10.5,
                anchor="end",
                faint=True,
            )
        )
    for label, x, y, style in points:
        colour, _, kind = svg.look(style)
        place = left + (x - x0) / (x1 - x0) * wide, top + (1 - (y - y0) / (y1 - y0)) * high
        out.append(svg.mark(f"{label}: {x:.3f}, {y:.3f}", svg.marker(kind, *place, colour, f"s{style % 8}")))
    out.append(svg.text(left + wide / 2, top + high + 34, x_label, size=11.5, anchor="middle", faint=True))
    return Panel(title, "".join(out), top + high + 42, alt=f"{title}: {len(points)} models")


# --- cards ------------------------------------------------------------------------------------------


_SIGNS: dict[Outcome | Status, Glyph] = {
    Outcome.CORRECT: "c", Outcome.INCORRECT: "i", Outcome.DEFLECTED: "d", Status.UNGRADED: "u", Status.FAILED: "f",
}  # fmt: skip


def cards(
    pairs: Sequence[Pair],
    root: Path,
    outputs: Mapping[str, Mapping[str, Response]],
    verdict: Callable[[Response, AnswerSpec], tuple[Status, Outcome | None, str]],
) -> Iterator[Card]:
    """One card a pair: the photo, the mask, the filled photo and the control, each with its question."""

    def read(ref: ImageRef) -> bytes:
        return read_image(ref, root)

    for pair in pairs:

        def cell(member: str, title: str, pair: Pair = pair) -> Shown:
            question, answer, _ = pair.member(member)
            said = []
            for model, replies in outputs.items():
                reply = replies.get(pair.question_id(member))
                if reply is not None:
                    status, outcome, _ = verdict(reply, AnswerSpec(accepted=((answer,),)))
                    sign = _SIGNS[Status.FAILED if reply.error else outcome or status]
                    if member == "unanswerable" and sign == "d":
                        sign = "c"  # declining is what is right here
                    stated = "" if reply.confidence is None else f" (P {reply.confidence:.2f})"
                    said.append(ShownReply(model, sign, (reply.error or reply.text) + stated))
            return Shown(title, question, f"right: {answer}", tuple(said))

        first, second = cell("answerable", "answerable"), cell("unanswerable", "unanswerable")
        if pair.from_images:
            gone = pair.provenance.get("object", "what is asked about")
            rows = [Row(pair.image, "original", (first,))]
            if pair.mask is not None:
                rows.append(Row(pair.mask, f"mask: {gone}", ()))
            rows.append(Row(pair.idk_image, f"filled: {gone} removed", (second,)))
            if pair.control_image is not None:
                other = pair.provenance.get("control", "something else")
                rows.append(Row(pair.control_image, f"control: {other} removed", (cell("control", "control"),)))
        else:
            rows = [Row(pair.image, pair.provenance.get("caption", "")[:200], (first, second))]
        tags = tuple(t for t in (pair.category.value, MEANING[pair.category].root.value, pair.route, pair.split) if t)
        yield Card(pair.id, tags, tuple(rows), read)
