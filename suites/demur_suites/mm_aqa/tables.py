"""Tables 1 to 8 of MM-AQA over any models and items, each figure with its n; and pairs as cards.

A summary comes first; every table has rows for what was asked alone. The paper's tables state one n for all rows,
though a third of the rows cannot be of it: here every cell has its own, and the fixed n stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from demur.core.uris import read_image
from demur.judge.measures.rates import share_of
from demur.reports.tables import Cell, Column, Table, section_starts, texts
from demur_suites.gallery import Card, replies_to
from demur_suites.gallery import Cell as Shown
from demur_suites.gallery import Row as ShownRow
from demur_suites.mm_aqa.build.routing import WORDS, question_kind
from demur_suites.mm_aqa.conditions import CONDITIONS, SIX, question_id
from demur_suites.mm_aqa.items import CATALOGUE, CATEGORIES, NAMES, Item, Subset, category_of
from demur_suites.mm_aqa.measures import (
    Matrix,
    best,
    cross_validated,
    curve,
    oracle,
    random_abstain,
    se,
    sweep,
)
from demur_suites.mm_aqa.scoring import (
    BESIDE,
    Confidence,
    Row,
    Score,
    computed,
    confidences,
    matrix_of,
    max_prob,
    own,
    verbal,
)
from demur_suites.records import Scored
from demur_suites.systems.multi_agent import read_log
from demur_suites.tables import number, table

ORACLE_UAC = 0.985
ORACLE_AAC = {"images": (0.729, 0.789, 0.848), "documents": (0.9, 0.9, 0.9)}
"""An expert's accuracy, least, taken and most (appendix J.2): of MMMU's STEM subjects, and of long documents."""
TAUS = (1.0, 2.0, 3.0, 4.0)
SOURCES: tuple[tuple[str, str, Confidence, Sequence[float] | None], ...] = (
    ("verbal confidence", "vconf", verbal, TAUS),
    ("MaxProb", "base", max_prob, None),
    ("computed confidence", "base", computed, None),
    ("own confidence", "base", own, None),
)
"""Baselines by threshold: name, condition of the replies, the confidence, thresholds (None: every value)."""


def score_tables(scores: Sequence[Score]) -> list[Table]:
    """All tables of some models, without those that have no rows."""
    tables = [
        summary_table(scores),
        *(results_table(scores, subset) for subset in present(scores)),
        beside_table(scores),
        baselines_table(scores),
        *(category_table(scores, subset) for subset in present(scores)),
        sweep_table(scores),
        oracle_table(scores),
        agents_table(scores),
    ]
    return [t for t in tables if t.rows]


def present(scores: Sequence[Score]) -> list[Subset]:
    """Subsets that any model was asked about."""
    return [subset for subset in NAMES if any(s.conditions(subset) for s in scores)]


def by_subset(scores: Sequence[Score]) -> Iterator[tuple[Score, Subset]]:
    """Every model with the subsets that it was asked about."""
    return ((s, subset) for s in scores for subset in present([s]))


def best_mcc(score: Score, subset: str) -> tuple[str, float] | None:
    """The condition of the 3 x 2 design with the highest `mcc_ext`, and that value."""
    return best((c, score.matrix(subset, c).mcc_ext) for c in SIX)


def average_mcc(s: Score) -> float | None:
    """Mean of the best MCCs over the subsets that were asked; None where one is undefined (appendix J.1)."""
    bests = [best_mcc(s, sub) for sub in present([s]) if any(s.of(sub, c) for c in SIX)]
    return sum(f[1] for f in bests if f) / len(bests) if bests and all(bests) else None


def _share(name: str, hits: float, n: float) -> list[Cell]:
    """A share, and its standard error in points."""
    error = se(hits / n, n) if n else None
    return [share_of(name, hits, int(n)), None if error is None else 100 * error]


def _rates(m: Matrix) -> list[Cell]:
    """AAC, UAC and AR, each with its standard error."""
    rates = (("aac", m.tp, m.answerable), ("uac", m.tn, m.unanswerable), ("ar", m.fn + m.tn, m.n))
    return [cell for rate in rates for cell in _share(*rate)]


def _rate_columns(*names: str) -> list[str]:
    return [title for name in names for title in (f"{name} (%)", "±")]


def summary_table(scores: Sequence[Score]) -> Table:
    """A row a model: its best condition in each subset, and the mean of the best MCCs."""
    subsets = present(scores)
    rows = []
    for s in scores:
        cells: list[Cell] = []
        for subset in subsets:
            condition, mcc = best_mcc(s, subset) or ("", None)
            m = s.matrix(subset, condition)
            cells += [condition, share_of("aac", m.tp, int(m.answerable))]
            cells += [share_of("uac", m.tn, int(m.unanswerable)), mcc]
        rows.append((s.model, *cells, average_mcc(s)))
    columns: list[str | Column] = [*texts("Model")]
    for subset in subsets:
        group = NAMES[subset]
        columns += [Column("best condition", group, align="left"), Column("AAC (%)", group)]
        columns += [Column("UAC (%)", group), number("MCC", group)]
    return table(
        "mm-aqa-summary",
        "Each system at its best condition.",
        (*columns, number("mean MCC")),
        rows,
        "AAC: right among the answerable. UAC: abstentions among the unanswerable. Best by the paper's MCC, chosen on "
        "these items; – where it is undefined for every condition.",
    )


RESULTS_NOTES = (
    "TP, FP: right and wrong answers to answerable items, FN: abstentions on them. TN: abstentions on the others, AU: "
    "answers to them. AR: abstentions among all; below the share of unanswerable items, with many AU, is "
    "under-abstention, above it, with many FN, over-abstention. ±: standard error, sqrt(p(1-p)/n). Under vconf a "
    "confidence of at most {tau} is an abstention.",
    "MCC: the paper's five-way one; – where it is undefined. Best MCC: the highest of the paper's six conditions, "
    "chosen on these items. MCC plain: of abstaining against being unanswerable; 0 at random, where the paper's falls "
    "below 0 by wrong answers.",
)


def results_table(scores: Sequence[Score], subset: Subset) -> Table:
    """Tables 1 and 2: a row a condition, with the five counts."""
    rows = []
    for s in scores:
        top = best_mcc(s, subset)
        for c in s.conditions(subset):
            m = s.matrix(subset, c)
            best_here: Cell = top[1] if top and top[0] == c else ""
            rows.append((s.model, c, *_rates(m), m.mcc_ext, m.mcc_abstain, best_here, *map(int, m)))
    title = {"images": 1, "documents": 2}[subset]
    notes = RESULTS_NOTES if subset == present(scores)[0] else ()
    taus = " and ".join(sorted({str(s.tau) for s in scores}))
    return table(
        f"mm-aqa-{subset}",
        f"Table {title}: {NAMES[subset]}-like, questions about {subset}.",
        (
            *texts("Model", "Condition"),
            *_rate_columns("AAC", "UAC", "AR"),
            *(number("MCC"), number("MCC plain"), number("Best MCC")),
            *(name.upper() for name in Matrix._fields),
        ),
        rows,
        *(note.format(tau=taus) for note in notes),
        rules=section_starts(rows),
    )


def beside_table(scores: Sequence[Score]) -> Table:
    """Where replies are in none of the five cells: how many, and the rates over the paper's fixed n."""
    rows = []
    for s, subset in by_subset(scores):
        for condition in s.conditions(subset):
            lost = s.beside(subset, condition)
            if not lost:
                continue
            asked = s.of(subset, condition)
            m = s.fixed_matrix(subset, condition)
            formed = len(asked) - lost["malformed"] - lost["failed"]
            rates = (
                share_of("well-formed", formed, len(asked)),
                share_of("aac", m.tp, int(m.answerable)),
                share_of("uac", m.tn, int(m.unanswerable)),
                m.mcc_ext,
            )
            counts = (len(asked), *(lost[b] for b in BESIDE[:3]))
            rows.append((s.model, NAMES[subset], condition, *counts, *rates))
    return table(
        "mm-aqa-beside",
        "Replies in none of the five cells, and the rates over the paper's fixed n.",
        (
            *texts("Model", "Subset", "Condition"),
            "asked",
            *BESIDE[:3],
            "well-formed (%)",
            Column("AAC (%)", "fixed n"),
            Column("UAC (%)", "fixed n"),
            number("MCC", "fixed n"),
        ),
        rows,
        "malformed: a field of the output schema is missing; such a reply is neither an answer nor an abstention. Over "
        "the fixed n, every item that was asked, it counts as a wrong answer, as a failed and an unjudged one does.",
        rules=section_starts(rows),
    )


class Baseline(NamedTuple):
    """One row of Table 3.

    Attributes:
        name: of the baseline.
        matrix: None where it is undefined.
        n: replies behind it.
        tau: that was chosen on these items; None for a baseline without thresholds.
        honest: its MCC when thresholds are chosen on other folds.
        rc_auc: area under risk over coverage, by trapezoids.
        aurc: mean risk over coverages.
    """

    name: str
    matrix: Matrix | None
    n: int
    tau: float | None = None
    honest: float | None = None
    rc_auc: float | None = None
    aurc: float | None = None


RANDOM = "abstains at random"


def baselines(s: Score, subset: str) -> Iterator[Baseline]:
    """The baselines of a system for which it was asked."""
    base = s.matrix(subset, "base")
    a, u, n = int(base.answerable), int(base.unanswerable), int(base.n)
    if n:
        yield Baseline("never abstains", Matrix(base.tp, a - base.tp, 0, 0, u), n)
        yield Baseline(RANDOM, random_abstain(base.tp / a if a else 0, a, u), n)
    for name, condition, confidence, taus in SOURCES:
        replies = confidences(s.of(subset, condition), confidence)
        if replies is not None:
            (aurc, rc_auc), swept = curve(replies), sweep(replies, taus)
            honest = cross_validated(replies, taus, seed=s.seed)
            n = len(replies.confidence)
            yield Baseline(name, swept.matrix, n, swept.tau, honest, rc_auc, aurc)
    weighed = s.matrix(subset, "cotabs")
    if weighed.n:
        yield Baseline("evidence weighed (cotabs)", weighed, int(weighed.n))


def baselines_table(scores: Sequence[Score]) -> Table:
    """Table 3: baselines; beside an MCC with a threshold of the same items stands that of other folds' thresholds."""
    rows = []
    for s, subset in by_subset(scores):
        for b in baselines(s, subset):
            m = b.matrix
            rates = (*_rates(m)[:4], m.mcc_ext, m.mcc_abstain) if m is not None else [None] * 6
            rows.append(
                (s.model, NAMES[subset], b.name, *rates, b.tau, b.honest, b.rc_auc, b.aurc, b.n)
            )
    return table(
        "mm-aqa-baselines",
        "Table 3: abstention baselines.",
        (
            *texts("Model", "Subset", "Baseline"),
            *_rate_columns("AAC", "UAC"),
            *(number("MCC"), number("MCC plain"), number("oracle tau")),
            number("MCC, folds"),
            *(number("RC-AUC"), number("AURC"), "n"),
        ),
        rows,
        "Always abstaining has AAC 0, UAC 100 and no MCC. oracle tau: the best on these very items, an upper bound, as in "
        "the paper; stated confidences up to it, other confidences below it are abstentions. MCC, folds: each of 5 folds "
        "takes the tau that is best on the others. At random: p = 0.5, expected. Self-consistency and P(True) are systems "
        "of their own (self_consistency:MODEL, p_true:MODEL): their rows are under 'computed confidence'.",
        "RC-AUC, AURC: risk over coverage of the answered items; answering the unanswerable is an error.",
        rules=section_starts(rows),
    )


def category_table(scores: Sequence[Score], subset: Subset) -> Table:
    """Table 4: UAC by category of transformation under one condition."""
    categories_there = {
        category_of(r.item.transform, s.grouping)
        for s in scores
        for r in s.of(subset, s.diagnostic)
    }
    categories = [c for c, of in CATEGORIES.items() if of == subset and c in categories_there]
    rows = []
    for s in scores:
        twins = [r for r in s.of(subset, s.diagnostic) if not r.item.answerable]
        cells: list[Cell] = []
        for category in (*categories, ""):
            rows_of = [
                r for r in twins if category in ("", category_of(r.item.transform, s.grouping))
            ]
            m = matrix_of(rows_of)
            cells += [*_share("uac", m.tn, m.unanswerable), int(m.unanswerable)]
        if twins:
            rows.append((s.model, *cells))
    under = " and ".join(sorted({s.diagnostic for s in scores}))
    grouping = " and ".join(sorted({s.grouping for s in scores}))
    return table(
        f"mm-aqa-categories-{subset}",
        f"Table 4: UAC (%) by category, {NAMES[subset]}-like.",
        (
            *texts("Model"),
            *(
                Column(title, category)
                for category in (*categories, "all")
                for title in ("UAC", "±", "n")
            ),
        ),
        rows,
        f"Under {under}; categories as in the {grouping}. Compare within a subset only.",
    )


def sweep_table(scores: Sequence[Score]) -> Table:
    """Table 7: every threshold of the stated confidence."""
    rows = []
    for s in scores:
        replies = {sub: confidences(s.of(sub, "vconf"), verbal) for sub in present([s])}
        swept = {sub: sweep(x, TAUS) for sub, x in replies.items() if x is not None}
        for subset, sweep_of_subset in swept.items():
            for place, (tau, m) in enumerate(zip(TAUS, sweep_of_subset.matrices, strict=True)):
                mccs = [x.matrices[place].mcc_ext for x in swept.values()]
                defined = [x for x in mccs if x is not None]
                total = sum(defined) if len(defined) == len(NAMES) else None
                counts = int(m.answerable), int(m.unanswerable)
                cells = (int(tau), *_rates(m), *counts, m.mcc_ext, total)
                rows.append((s.model, NAMES[subset], *cells))
    return table(
        "mm-aqa-tau",
        "Table 7: thresholds of the stated confidence.",
        (
            *texts("Model", "Subset"),
            "tau",
            *_rate_columns("AAC", "UAC", "AR"),
            "n answ.",
            "n unansw.",
            number("MCC"),
            number("sum over subsets"),
        ),
        rows,
        "A stated confidence up to tau is an abstention; standard clause. The best tau on these items is an upper "
        "bound.",
        rules=section_starts(rows),
    )


def oracle_table(scores: Sequence[Score]) -> Table:
    """Table 8: an expert's MCC by three estimates of their accuracy, and the gap to the best model."""
    sizes = {
        sub: next((m for s in scores for c in SIX if (m := s.matrix(sub, c)).n), None)
        for sub in NAMES
    }
    top = best((s.model, average_mcc(s)) for s in scores)
    rows = []
    for place, name in enumerate(("lower bound", "midpoint (used)", "upper bound")):
        mccs = {
            sub: oracle(
                ORACLE_AAC[sub][place], ORACLE_UAC, int(m.answerable), int(m.unanswerable)
            ).mcc_ext
            for sub, m in sizes.items()
            if m is not None
        }
        defined = [v for v in mccs.values() if v is not None]
        mean = sum(defined) / len(defined) if defined else None
        gap = mean - top[1] if mean is not None and top else None
        accuracies = [100 * ORACLE_AAC[sub][place] for sub in NAMES]
        rows.append((name, *accuracies, *map(mccs.get, NAMES), mean, *(top or ("", None)), gap))
    return table(
        "mm-aqa-oracle",
        "Table 8: an expert's MCC, by the paper's own estimates.",
        (
            *texts("Scenario"),
            *(f"AAC (%) {name}" for name in NAMES.values()),
            *(number(f"MCC {n}") for n in NAMES.values()),
            number("MCC oracle"),
            *texts("best model"),
            number("its MCC"),
            number("gap"),
        ),
        rows,
        f"Derived, not measured: an expert who answers whatever can be answered, abstains on {ORACLE_UAC:.1%} of the "
        "rest, over as many items as here. The estimates of accuracy are the paper's for its own questions.",
    )


def agents_table(scores: Sequence[Score]) -> Table:
    """How often Verifiers overrode the Reasoner, and in how many rounds."""
    rows = []
    for s in scores:
        for condition, several in s.rows.items():
            logs = [log for r in several if r.response and (log := read_log(r.response))]
            if not logs:
                continue
            rounds = [round_ for log in logs for round_ in log.rounds]
            rows.append(
                (
                    s.model,
                    condition,
                    len(logs),
                    share_of("overridden", sum(log.overridden for log in logs), len(logs)),
                    len(rounds) / len(logs),
                    sum(round_.decision == "REQUEST_REVISION" for round_ in rounds),
                    sum(round_.coerced for round_ in rounds),
                )
            )
    return table(
        "mm-aqa-agents",
        "Reasoner and Verifier.",
        (
            *texts("Model", "Condition"),
            "n",
            Column("overridden (%)", interval=True),
            number("mean rounds", decimals=2),
            "revisions",
            "illegal, coerced",
        ),
        rows,
        "illegal: the Verifier asked for a revision where none was allowed; it counts as an abstention.",
        rules=section_starts(rows),
    )


# --- items ------------------------------------------------------------------------------------------


def statistics(items: Sequence[Item]) -> list[Table]:
    """Table 5 (subsets), the distribution of figure 2, and table 6 (kinds of question about documents)."""
    subsets = []
    for sub, name in [*NAMES.items(), (None, "all")]:
        mine = [i for i in items if sub in (i.subset, None)]
        if mine:
            yes = sum(i.answerable for i in mine)
            subsets.append(
                (
                    name,
                    len(mine),
                    yes,
                    100 * yes / len(mine),
                    len(mine) - yes,
                    len({i.pair for i in mine}),
                )
            )
    twins = Counter(i.transform for i in items if i.transform)
    transforms = [
        (CATALOGUE.get(t, ("", ""))[0], t, category_of(t), category_of(t, "appendix-b"), twins[t])
        for t in [*CATALOGUE, *sorted(set(twins) - set(CATALOGUE))]
        if twins[t]
    ]
    kinds = Counter(
        question_kind(i.question) for i in items if i.subset == "documents" and i.answerable
    )
    return [
        table(
            "mm-aqa-subsets",
            "Table 5: items by subset.",
            (*texts("Subset"), "Items", "answerable", "(%)", "unanswerable", "pairs"),
            subsets,
        ),
        table(
            "mm-aqa-transformations",
            "Twins by transformation (figure 2).",
            ("No.", *texts("Transformation", "Category", "in appendix B"), "Twins"),
            transforms,
        ),
        table(
            "mm-aqa-kinds",
            "Table 6: kinds of question about documents, by priority.",
            (*texts("Kind"), *texts("Words", wraps=True), "Questions"),
            [(k, words, kinds[k]) for k, words in WORDS.items()],
        ),
    ]


def cards(
    items: Sequence[Item],
    root: Path,
    scored: Mapping[str, Mapping[str, Scored]],
) -> Iterator[Card]:
    """One card a pair: a row the item, a row each twin, with the replies under each condition."""
    pairs: dict[str, list[Item]] = {}
    for item in items:
        pairs.setdefault(item.pair, []).append(item)
    for name, several in pairs.items():
        rows = []
        for item in several:
            replies = [
                reply._replace(system=f"{model}, {c}")
                for model, items_of in scored.items()
                for c in CONDITIONS
                for reply in replies_to(question_id(item.id, c), {model: items_of}, _words)
            ]
            right = (
                f"right: {item.answers.display_form}" if item.answerable else "right: to abstain"
            )
            cell = Shown(item.transform or "answerable", item.question, right, tuple(replies))
            caption = "; ".join(item.explanation) or item.transform or "as the source has it"
            first, *rest = item.images or (None,)
            rows.append(ShownRow(first, caption, (cell,)))
            rows += [ShownRow(ref, f"image {n}", ()) for n, ref in enumerate(rest, start=2)]
        tags = (several[0].subset, *(i.transform for i in several if i.transform))
        yield Card(name, tags, tuple(rows), partial(read_image, root=root))


def _words(item: Scored) -> str:
    if item.grade is None:
        return ""
    row: Row | None = item.grade.reading
    words = (row.reply.answer[:300] if row else "") or item.grade.reason
    return f"{words} (confidence {row.reply.confidence})" if row and row.reply.confidence else words
