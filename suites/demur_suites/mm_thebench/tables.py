"""Tables and figures of MM-THEBench, and items as cards: a chain beside its reference steps, matched and unmatched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from demur.core.records import Measure
from demur.core.uris import read_image
from demur.reports.svg import Panel
from demur.reports.tables import Cell as Value
from demur.reports.tables import Column, Table, texts
from demur_suites.gallery import Card, Cell, Glyph, Reply, Row
from demur_suites.mm_thebench.items import Dimension, Item
from demur_suites.mm_thebench.judging import right_answer
from demur_suites.mm_thebench.measures import (
    KINDS,
    Judged,
    Level,
    Score,
    by_length,
    kinds_by_answer,
    reasoning_against_perception,
    step_score,
    subcategory_shares,
)
from demur_suites.tables import number, scatter, table, with_n

SHORT = {Dimension.KNOWLEDGE: "K", Dimension.PERCEPTION: "P", Dimension.REASONING: "R"}
SHOWN = 80
"""Steps of a chain that a card shows, beside those that match."""


def score_tables(scores: Sequence[Score]) -> list[Table]:
    """Tables 2, 3, 7, 9 and 4, and the numbers of figures 3 and 4; without those that have no rows."""
    found = (
        headline_table(scores),
        headline_table(scores, video=True),
        counts_table(scores),
        sources_table(scores),
        kinds_table(scores),
        association_table(scores),
        length_table(scores),
        subcategory_table(scores),
    )
    return [t for t in found if t.rows]


def _ordered(scores: Sequence[Score]) -> list[Score]:
    """Models with chains of their own first, then those that were asked for a chain."""
    return sorted(scores, key=lambda s: s.group != "native")


def _rule(scores: Sequence[Score]) -> frozenset[int]:
    groups = [s.group == "native" for s in _ordered(scores)]
    return frozenset({groups.index(False)}) if True in groups and False in groups else frozenset()


def headline_table(scores: Sequence[Score], video: bool = False) -> Table:
    """Table 2 (text and pictures) or Table 3 (videos); without rows where there is no such item."""
    columns: tuple[str | Column, ...] = (
        *texts("Model", "Chains"),
        Column("Acc (%)", "Answer", interval=True),
        Column("Prec.", "Step"),
        Column("Recall", "Step"),
        Column("F1", "Step", interval=True),
        Column("K", "Rubric"),
        Column("P", "Rubric"),
        Column("R", "Rubric"),
        Column("H", "Rubric", interval=True),
        number("Length", decimals=1),
    )
    names = ("accuracy", "precision", "recall", *[*FIGURES.values()][1:])
    rows = [(s.model, s.group, *(m[name] for name in names)) for s, m in _asked(scores, video)]
    notes = [
        "Chains: native: the model's own thoughts; elicited: steps of its reply, as the prompt asks for them. Acc: a "
        "partial answer counts half. Step: precision, recall, F1. Rubric: K, P, R: points earned in knowledge, "
        "perception, reasoning; H: points not lost to hallucination. Length: of the chain over that of the annotated "
        "one. Intervals: 95 %, bootstrap over questions; Wilson's where all are alike.",
        f"Judged by {', '.join(sorted({s.judge for s in scores}))}"
        + (
            "; rules grade only answers: give --judge MODEL"
            if any(s.judge == "local" for s in scores)
            else ""
        )
        + ".",
    ]
    for s in scores:
        unread = Counter(note for _, j in s.pairs for note in j.notes)
        notes += [f"{s.model}: {n} chains: {note}." for note, n in unread.items()]
    name, what = ("thebench-video", "videos") if video else ("thebench-image", "text and pictures")
    rules = frozenset() if video else _rule(scores)
    return table(name, f"Answers, steps and rubric on {what}.", columns, rows, *notes, rules=rules)


def _asked(scores: Sequence[Score], video: bool) -> list[tuple[Score, dict[str, Measure]]]:
    """Models with their measures on videos, or on everything else, where they were asked any."""
    found = [(s, s.video if video else s.image) for s in _ordered(scores)]
    return [
        (s, m)
        for s, m in found
        if m and (m["accuracy"].n + m["accuracy"].unjudged + m["accuracy"].failed)
    ]


FIGURES = {
    "Acc": "accuracy",
    "Step": "f1",
    "K": "knowledge",
    "P": "perception",
    "R": "reasoning",
    "H": "h",
    "Length": "length",
}
"""Title of a figure -> its measure."""


def counts_table(scores: Sequence[Score]) -> Table:
    """The number of questions behind each figure."""
    rows: list[Sequence[Value]] = []
    for video in (False, True):
        for s, m in _asked(scores, video):
            accuracy = m["accuracy"]
            asked = accuracy.n + accuracy.unjudged + accuracy.failed
            counts = (m[name].n for name in FIGURES.values())
            on = "videos" if video else "text and pictures"
            rows.append((s.model, on, asked, accuracy.failed, *counts))
    notes = [
        "The rest of a figure is unjudged (the reply holds no chain, a reply of the judge could not be read, rules have "
        "no proof, or there is no judge), or its item has no reference steps or nothing of that dimension.",
        *(
            f"{s.model}: {s.left_out} items marked too complex are left out, {s.not_asked} were not asked."
            for s in scores
            if s.left_out or s.not_asked
        ),
    ]
    columns: tuple[str | Column, ...] = (
        *texts("Model", "On"),
        "asked",
        "failed",
        *(Column(t, "n of") for t in FIGURES),
    )
    return table("thebench-counts", "Questions behind each figure.", columns, rows, *notes)


def sources_table(scores: Sequence[Score]) -> Table:
    """Table 7: accuracy by source."""
    sources = list(dict.fromkeys(name for s in scores for name in s.sources))
    columns = [Column(title, name) for name in sources for title in ("Acc (%)", "n")]
    rows = [(s.model, *with_n(s.sources.get(n) for n in sources)) for s in _ordered(scores)]
    return table(
        "thebench-sources",
        "Accuracy by source.",
        (*texts("Model"), *columns),
        rows,
        rules=_rule(scores),
    )


def kinds_table(scores: Sequence[Score]) -> Table:
    """The numbers of Fig. 3: the kind of hallucination in chains with right and with wrong answers."""
    rows = [
        (
            s.model,
            answer,
            *(_share(k, kinds[k], kinds.total()) for k in (*KINDS, "none")),
            kinds.total(),
        )
        for s in _ordered(scores)
        for answer, kinds in kinds_by_answer(s.pairs).items()
        if kinds.total()
    ]
    return table(
        "thebench-kinds",
        "Hallucination in the chain by correctness of the answer (%).",
        (*texts("Model", "Answer"), *KINDS, "none", "n"),
        rows,
        "n: questions whose answer and rubric were judged. Partial answers are left out.",
    )


def _share(name: str, hits: int, n: int) -> Measure:
    return Measure(name=name, value=hits / n if n else None, n=n)


def association_table(scores: Sequence[Score]) -> Table:
    """Table 9: are answers wrong more often where the reasoning is made up than where the perception is?"""
    columns: tuple[str | Column, ...] = (
        *texts("Model"),
        Column("chi2", decimals=1),
        Column("p", "chi2", decimals=3),
        Column("p", "Fisher", decimals=3),
        Column("OR", decimals=2),
        Column("low", "OR", decimals=2),
        Column("high", "OR", decimals=2),
        "Err_P (%)",
        "n_P",
        "Err_R (%)",
        "n_R",
    )
    rows: list[Sequence[Value]] = []
    for s in _ordered(scores):
        a = reasoning_against_perception(s.pairs)
        (r_wrong, r_right), (p_wrong, p_right) = a.table
        n_p, n_r = p_wrong + p_right, r_wrong + r_right
        if n_p + n_r:
            errors = _share("err_p", p_wrong, n_p), n_p, _share("err_r", r_wrong, n_r), n_r
            rows.append((s.model, *(a.chi or (None, None)), a.fisher, a.odds, *a.interval, *errors))
    return table(
        "thebench-association",
        "Wrong answers and the kind of hallucination.",
        columns,
        rows,
        "Err: wrong answers among chains that hallucinate only in perception (P) or only in reasoning (R). "
        "chi2 with Yates's correction; OR with its exact 95 % interval.",
    )


def length_table(scores: Sequence[Score]) -> Table:
    """Table 4: does a longer chain hallucinate more?"""
    dims = (Dimension.PERCEPTION, Dimension.REASONING)
    columns = [Column(t, d.value.capitalize()) for d in dims for t in ("Pearson", "Spearman", "n")]
    rows = []
    for s in _ordered(scores):
        found = [by_length(s.pairs, d) for d in dims]
        if any(p for p, _ in found):
            cells: list[Value] = [s.model]
            for of in found:
                cells += [
                    *(f"{c.r:.2f}{c.stars}" if c else None for c in of),
                    of[0].n if of[0] else 0,
                ]
            rows.append(cells)
    return table(
        "thebench-length",
        "Hallucination and thinking length.",
        (*texts("Model"), *columns),
        rows,
        "Share of a dimension's points lost to hallucination, against thinking length. "
        "* p < .05, ** < .01, *** < .001.",
    )


def subcategory_table(scores: Sequence[Score]) -> Table:
    """Fig. 4: the share of each subcategory in the points lost to hallucination, a column a model."""
    lost = {s.model: shares for s in _ordered(scores) if (shares := subcategory_shares(s.pairs))}
    rows = [
        (*place, *(_lost(shares.get(place)) for shares in lost.values()))
        for place in sorted(set().union(*lost.values()))
    ]
    return table(
        "thebench-subcategories",
        "Points lost to hallucination, by subcategory (%).",
        (*texts("Dimension", "Subcategory"), *lost),
        rows,
        f"All points lost: {', '.join(f'{m} {sum(n for n, _ in v.values())}' for m, v in lost.items())}.",
    )


def _lost(place: tuple[int, float] | None) -> Measure | None:
    return None if place is None else Measure(name="share", value=place[1], n=place[0])


def statistics_tables(items: Sequence[Item]) -> list[Table]:
    """The composition of a set (Fig. 2, Table 5), and its steps and rubric (Tables 1 and 6, Fig. 6)."""
    kinds = {
        "modality": Counter[str](i.modality for i in items),
        "format": Counter[str](i.format for i in items),
        "source": Counter(i.source or "-" for i in items),
        "reviewed by": Counter(i.reviewed_by or "nobody" for i in items),
    }
    composition = [
        (kind, name, c, _share(name, c, len(items)))
        for kind, found in kinds.items()
        for name, c in found.most_common()
    ]
    steps, rubric = [i.steps for i in items if i.steps], [i.rubric for i in items if i.rubric]
    rows: list[Sequence[Value]] = []
    for name in (*(d.value for d in Dimension), "all"):
        k = sum(name in ("all", *s.types) for of in steps for s in of)
        points = [r.points for of in rubric for r in of if name in ("all", r.dimension)]
        share = _share("share", k, sum(map(len, steps)))
        a_question = k / len(steps) if steps else None
        of_rubric = (v / len(rubric) if rubric else None for v in (len(points), sum(points)))
        rows.append((name, k, share, a_question, *of_rubric))
    counts = Counter(len(i.steps) for i in items)
    return [
        table(
            "thebench-composition",
            f"Items: {len(items)}.",
            (*texts("Kind", "Value"), "Items", "Ratio (%)"),
            composition,
        ),
        table(
            "thebench-steps",
            "Reference steps and rubric by dimension.",
            (
                *texts("Dimension"),
                Column("n", "Steps"),
                Column("ratio (%)", "Steps"),
                Column("a question", "Steps", decimals=2),
                Column("items a question", "Rubric", decimals=2),
                Column("points a question", "Rubric", decimals=2),
            ),
            rows,
            "A step may draw on several dimensions. The three base items (23 points) are not counted. Steps a question: "
            f"{', '.join(f'{k}: {counts[k]}' for k in sorted(counts))}.",
        ),
    ]


# --- figures ---------------------------------------------------------------------------------------


def figures(scores: Sequence[Score]) -> list[Panel]:
    """Figure 5, of models whose chains were judged; figures 3 and 4 are tables."""
    parts = [(s, part) for s in _ordered(scores) for part in ("precision", "recall")]
    return [panel for s, part in parts if (panel := length_figure(s, part))]


def length_figure(score: Score, part: str) -> Panel | None:
    """Fig. 5: step precision or recall of each question against its thinking length; None without steps judged."""
    points = [
        (item.id, j.length, getattr(s, part), 0)
        for item, j in score.pairs
        if (s := step_score(item, j)) and j.length
    ]
    if not points:
        return None
    title = f"{part.capitalize()} by thinking length: {score.model} (n = {len(points)})"
    return scatter(title, points, "thinking length (chain over annotated chain)")


# --- items as cards --------------------------------------------------------------------------------

_GLYPH: dict[Level | None, Glyph] = {
    Level.MATCH: "c",
    Level.PARTIAL: "p",
    Level.MISMATCH: "i",
    Level.NO_ANSWER: "d",
    None: "u",
}


def cards(
    items: Sequence[Item], root: Path, judged: Sequence[tuple[str, dict[str, Judged]]]
) -> Iterator[Card]:
    """One an item: the question with what models answered, then each chain beside the reference steps."""
    for item in items:
        found = [(model, of[item.id]) for model, of in judged if item.id in of]
        answers = tuple(
            Reply(
                model, "f" if j.failed else _GLYPH[j.answer], f"{(j.answer or 'unjudged')}: {j.why}"
            )
            for model, j in found
        )
        first = (Cell("Question", item.question, right_answer(item), answers),)
        rows = [Row(p, item.id, first if n == 0 else ()) for n, p in enumerate(item.pictures)]
        rows = rows or [Row(None, item.id, first)]
        rows += [
            Row(None, model, _beside(item, j), pictured=False) for model, j in found if j.steps
        ]
        review = f"reviewed by {item.reviewed_by}" if item.reviewed_by else "draft"
        tags = tuple(t for t in (item.source, item.modality, item.format, review) if t)
        yield Card(item.id, tags, tuple(rows), partial(read_image, root=root))


def _beside(item: Item, judged: Judged) -> tuple[Cell, ...]:
    matches = {m.step: m for m in judged.matches or ()}
    hit: dict[int, dict[str, list[str]]] = {}
    reference = []
    for step in item.steps:
        m = matches.get(step.id)
        where = (
            "not judged" if m is None else "could not be read" if m.label is None else m.label.value
        )
        if m is not None and m.predicted is not None:
            how = "matches" if m.label is Level.MATCH else "in part"
            hit.setdefault(m.predicted, {}).setdefault(how, []).append(str(step.id))
            where += f" with step {m.predicted}"
        name = f"{step.id} ({'+'.join(SHORT[t] for t in step.types)})"
        reference.append(Reply(name, _GLYPH[m.label if m else None], f"{where}: {step.content}"))
    chain = []
    for n, step_text in enumerate(judged.steps, 1):
        if n <= SHOWN or n in hit:
            match = (
                "; ".join(f"{how} {', '.join(ids)}" for how, ids in hit.get(n, {}).items())
                or "unmatched"
            )
            glyph: Glyph = "c" if "matches" in hit.get(n, {}) else "p" if n in hit else "o"
            chain.append(Reply(str(n), glyph, f"{match}: {_cut(step_text)}"))
    if more := len(judged.steps) - len(chain):
        chain.append(Reply("", "o", f"and {more:,} steps more, all unmatched"))
    marks = [
        Reply(
            f"{SHORT[r.dimension]}, {r.points} points",
            _mark_glyph(m.satisfied),
            r.question
            + (" Made up." if m.hallucination else "")
            + (f" Steps {', '.join(map(str, m.evidence))}." if m.evidence else ""),
        )
        for r, m in zip(item.full_rubric, judged.marks or (), strict=False)
    ]
    return (
        Cell("Reference steps", "matched or not", "", tuple(reference)),
        Cell(
            f"Chain ({judged.kind})",
            f"steps: {len(judged.steps)}",
            "; ".join(judged.notes),
            tuple(chain),
        ),
        Cell("Rubric", "yes, or no", "", tuple(marks)),
    )


def _mark_glyph(satisfied: bool | None) -> Glyph:
    return "u" if satisfied is None else "c" if satisfied else "i"


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 400 else f"{flat[:399]}…"
