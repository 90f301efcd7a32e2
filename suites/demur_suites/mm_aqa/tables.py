"""Tables 1 to 8 of MM-AQA over any models and items, each figure with its n; and pairs as cards.

The paper's tables state one n for all rows, though a third of the rows cannot be of it: here every cell has its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from demur.core.uris import read_image
from demur.judge.measures.rates import share_of
from demur.reports.tables import Cell, Column, Table, texts
from demur_suites.gallery import Card, glyph
from demur_suites.gallery import Cell as Shown
from demur_suites.gallery import Reply as ShownReply
from demur_suites.gallery import Row as ShownRow
from demur_suites.mm_aqa.conditions import CONDITIONS, SIX, question_id
from demur_suites.mm_aqa.items import CATALOGUE, CATEGORIES, NAMES, Item, Subset, category_of
from demur_suites.mm_aqa.measures import (
    Matrix,
    best,
    conformal,
    cross_validated,
    curve,
    oracle,
    random_abstain,
    se,
    sweep,
)
from demur_suites.mm_aqa.routing import WORDS, question_kind
from demur_suites.mm_aqa.scoring import (
    BESIDE,
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
MCCS = (number("MCC"), number("MCC plain"))


def score_tables(scores: Sequence[Score]) -> list[Table]:
    """All tables of some models."""
    found = [results_table(scores, s) for s in present(scores)]
    found += [
        baselines_table(scores),
        category_table(scores),
        sweep_table(scores),
        oracle_table(scores),
    ]
    found += [beside_table(scores), matrix_table(scores)]
    agents = agents_table(scores)
    return [*found, agents] if agents.rows else found


def present(scores: Sequence[Score]) -> list[Subset]:
    """Subsets that any model was asked about."""
    return [subset for subset in NAMES if any(s.of(subset, c) for s in scores for c in CONDITIONS)]


def by_subset(scores: Sequence[Score]) -> Iterator[tuple[Score, Subset]]:
    """Every model with every subset."""
    return ((s, subset) for s in scores for subset in present(scores))


def best_mcc(score: Score, subset: str) -> tuple[str, float] | None:
    """The condition of the 3 x 2 design with the highest `mcc_ext`, and that value."""
    return best((c, score.matrix(subset, c).mcc_ext) for c in SIX)


def average_mcc(s: Score) -> float | None:
    """Mean of the best MCCs over the subsets that were asked; None where one is undefined (appendix J.1)."""
    found = [best_mcc(s, sub) for sub in present([s]) if any(s.of(sub, c) for c in SIX)]
    return sum(f[1] for f in found if f) / len(found) if found and all(found) else None


def _share(name: str, hits: float, n: float) -> list[Cell]:
    """A share, and its standard error."""
    error = se(hits / n, n) if n else None
    return [share_of(name, hits, int(n)), None if error is None else 100 * error]


def _rates(m: Matrix) -> list[Cell]:
    """AAC, UAC and AR, each with its standard error; then both n."""
    rates = (("aac", m.tp, m.answerable), ("uac", m.tn, m.unanswerable), ("ar", m.fn + m.tn, m.n))
    return [
        *(cell for rate in rates for cell in _share(*rate)),
        int(m.answerable),
        int(m.unanswerable),
    ]


def _rate_columns(*names: str) -> list[str]:
    return [title for name in names for title in (f"{name} (%)", "±")]


def results_table(scores: Sequence[Score], subset: Subset) -> Table:
    """Tables 1 and 2: three conditions under two clauses, a row each; the best MCC of the six is in its row."""
    rows = []
    for s in scores:
        top = best_mcc(s, subset)
        for c in SIX:
            m = s.matrix(subset, c)
            best_here: Cell = top[1] if top and top[0] == c else ""
            rows.append((s.model, c, *_rates(m), m.mcc_ext, m.mcc_abstain, best_here))
    title = {"images": 1, "documents": 2}[subset]
    taus = " and ".join(sorted({str(s.tau) for s in scores}))
    return table(
        f"mm-aqa-{subset}",
        f"Table {title}: {NAMES[subset]}-like, questions about {subset}.",
        (
            *texts("Model", "Condition"),
            *_rate_columns("AAC", "UAC", "AR"),
            "n answ.",
            "n unansw.",
            *MCCS,
            number("Best MCC"),
        ),
        rows,
        "±: standard error, sqrt(p(1-p)/n). Malformed, failed and unjudged replies are counted in the table of replies "
        f"in none of the five cells. Under vconf a confidence of at most {taus} is an abstention.",
        "MCC: the paper's five-way one; – where it is undefined. Best MCC: the highest of the six conditions, chosen "
        "on these items. MCC plain: of abstaining against being unanswerable; 0 at random, where the paper's falls "
        "below 0 by wrong answers.",
        rules=range(len(SIX), len(rows), len(SIX)),
    )


Confidence = Callable[[Row], float | None]
SOURCES: tuple[tuple[str, str, Confidence, Sequence[float] | None], ...] = (
    ("verbal confidence", "vconf", verbal, TAUS),
    ("MaxProb", "base", max_prob, None),
    ("computed confidence", "base", computed, None),
    ("own confidence", "base", own, None),
)
"""Baselines by threshold: name, condition of the replies, the confidence, thresholds (None: every value)."""


def baselines(
    s: Score, subset: str
) -> Iterator[tuple[str, str, Matrix | None, float | None, float | None, int]]:
    """(name, variant, matrix, RC-AUC, AURC, n) of each baseline of a system."""
    base = s.matrix(subset, "base")
    a, u = int(base.answerable), int(base.unanswerable)
    if base.n:
        n = int(base.n)
        yield "always abstains", "", Matrix(0, 0, a, u, 0), None, None, n
        yield "never abstains", "", Matrix(base.tp, a - base.tp, 0, 0, u), None, None, n
        yield (
            "abstains at random",
            "p = 0.5, expected",
            random_abstain(base.tp / a if a else 0, a, u),
            None,
            None,
            n,
        )
    for name, condition, confidence, taus in SOURCES:
        found = confidences(s.of(subset, condition), confidence)
        if found is None:
            continue
        (aurc, rc_auc), n = curve(found), len(found.confidence)
        made = sweep(found, taus)
        below = "<" if taus is None else "<="
        tau = (
            "undefined at every tau"
            if made.tau is None
            else f"abstains {below} {made.tau:.4g}, oracle tau"
        )
        yield name, tau, made.matrix, rc_auc, aurc, n
        yield (
            name,
            "tau cross-validated, 5 folds",
            cross_validated(found, taus, seed=s.seed),
            None,
            None,
            n,
        )
        yield name, "conformal, 10 % let through", conformal(found, seed=s.seed), None, None, n
    weighed = s.matrix(subset, "cotabs")
    if weighed.n:
        yield "evidence weighed (cotabs)", "", weighed, None, None, int(weighed.n)


def baselines_table(scores: Sequence[Score]) -> Table:
    """Table 3: baselines; thresholds chosen on the same items are called oracle, honest ones stand beside them."""
    rows = []
    for s, subset in by_subset(scores):
        for name, variant, m, rc, aurc, n in baselines(s, subset):
            rates = (*_rates(m)[:4], m.mcc_ext, m.mcc_abstain) if m is not None else [None] * 6
            rows.append((s.model, NAMES[subset], name, variant, *rates, rc, aurc, n))
    return table(
        "mm-aqa-baselines",
        "Table 3: abstention baselines.",
        (
            *texts("Model", "Subset", "Baseline", "Variant"),
            *_rate_columns("AAC", "UAC"),
            *MCCS,
            number("RC-AUC"),
            number("AURC"),
            "n",
        ),
        rows,
        "oracle tau: the best on these very items, an upper bound. Undefined MCCs are never the best. Self-consistency "
        "and P(True) are systems of their own (self_consistency:MODEL, p_true:MODEL): their rows are under 'computed "
        "confidence'.",
        "RC-AUC, AURC: risk over coverage of the answered items; answering the unanswerable is an error.",
    )


def category_table(scores: Sequence[Score]) -> Table:
    """Table 4: UAC by category of transformation under one condition."""
    rows = []
    for s, subset in by_subset(scores):
        twins = [r for r in s.of(subset, s.diagnostic) if not r.item.answerable]
        groups: dict[str, list[Row]] = {c: [] for c, of in CATEGORIES.items() if of == subset}
        for row in twins:
            groups.setdefault(category_of(row.item.transform, s.grouping) or "others", []).append(
                row
            )
        for name, of in [*groups.items(), ("all", twins)]:
            m = matrix_of(of)
            rows.append(
                (
                    s.model,
                    NAMES[subset],
                    name,
                    int(m.unanswerable),
                    *_share("uac", m.tn, m.unanswerable),
                )
            )
    under = " and ".join(sorted({s.diagnostic for s in scores}))
    grouping = " and ".join(sorted({s.grouping for s in scores}))
    return table(
        "mm-aqa-categories",
        "Table 4: UAC by category.",
        (*texts("Model", "Subset", "Category"), "n", Column("UAC (%)", interval=True), "±"),
        rows,
        f"Under {under}; categories as in the {grouping}. Compare within a subset only.",
    )


def sweep_table(scores: Sequence[Score]) -> Table:
    """Table 7: every threshold of the stated confidence."""
    rows = []
    for s in scores:
        found = {sub: confidences(s.of(sub, "vconf"), verbal) for sub in present(scores)}
        made = {sub: sweep(x, TAUS) for sub, x in found.items() if x is not None}
        for subset, one in made.items():
            for place, tau in enumerate(TAUS):
                both = [m.matrices[place].mcc_ext for m in made.values()]
                total = (
                    sum(x for x in both if x is not None)
                    if None not in both and len(both) == 2
                    else None
                )
                m = one.matrices[place]
                rows.append((s.model, NAMES[subset], int(tau), *_rates(m), m.mcc_ext, total))
    return table(
        "mm-aqa-tau",
        "Table 7: thresholds of the stated confidence.",
        (
            *texts("Model", "Subset"),
            "tau",
            *_rate_columns("AAC", "UAC", "AR"),
            "n answ.",
            "n unansw.",
            MCCS[0],
            number("sum over subsets"),
        ),
        rows,
        "A stated confidence up to tau is an abstention; standard clause. The best tau on these items is an upper "
        "bound.",
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
        "Table 8: an expert's MCC.",
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


def beside_table(scores: Sequence[Score]) -> Table:
    """Replies that are in none of the five cells."""
    rows = []
    for s, subset in by_subset(scores):
        for condition in CONDITIONS:
            if asked := s.of(subset, condition):
                lost = s.beside(subset, condition)
                why = Counter(r.reply.detail for r in asked if r.reply.problem).most_common(1)
                often = f"{why[0][0][:60]} ({why[0][1]})" if why else ""
                rows.append(
                    (
                        s.model,
                        NAMES[subset],
                        condition,
                        len(asked),
                        *(lost[b] for b in BESIDE[:3]),
                        often,
                    )
                )
    return table(
        "mm-aqa-beside",
        "Replies in none of the five cells.",
        (
            *texts("Model", "Subset", "Condition"),
            "asked",
            *BESIDE[:3],
            *texts("most often", wraps=True),
        ),
        rows,
        "malformed: a field of the output schema is missing; such a reply is neither an answer nor an abstention.",
    )


def matrix_table(scores: Sequence[Score]) -> Table:
    """The five counts of every cell."""
    rows = []
    for s, subset in by_subset(scores):
        for c in CONDITIONS:
            m = s.matrix(subset, c)
            if m.n:
                shares = 100.0 * (m.ar or 0.0), 100.0 * m.unanswerable / m.n
                rows.append(
                    (
                        s.model,
                        NAMES[subset],
                        c,
                        *(int(v) for v in m),
                        *shares,
                        m.mcc_ext,
                        m.mcc_abstain,
                    )
                )
    return table(
        "mm-aqa-matrix",
        "The five-way confusion matrix.",
        (
            *texts("Model", "Subset", "Condition"),
            *(n.upper() for n in Matrix._fields),
            "AR (%)",
            "unansw. (%)",
            *MCCS,
        ),
        rows,
        "TP, FP: right and wrong answers to answerable items, FN: abstentions on them. TN: abstentions on the others, "
        "AU: answers to them. MCC – where a row or column of it is empty.",
        "Under-abstention: AR below the share of unanswerable items, with many AU. Over-abstention: AR above it, with "
        "many FN.",
    )


def agents_table(scores: Sequence[Score]) -> Table:
    """How often Verifiers overrode the Reasoner, and in how many rounds."""
    rows = []
    for s in scores:
        for condition, several in s.rows.items():
            logs = [
                log
                for r in several
                if r.response is not None and (log := read_log(r.response)) is not None
            ]
            if logs:
                over, n = sum(log.overridden for log in logs), len(logs)
                every = [one for log in logs for one in log.rounds]
                revisions = sum(one.decision == "REQUEST_REVISION" for one in every)
                coerced = sum(one.coerced for one in every)
                overridden = share_of("overridden", over, n)
                rows.append((s.model, condition, n, overridden, len(every) / n, revisions, coerced))
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
    made = Counter(i.transform for i in items if i.transform)
    transforms = [
        (CATALOGUE.get(t, ("", ""))[0], t, category_of(t), category_of(t, "appendix-b"), made[t])
        for t in [*CATALOGUE, *sorted(set(made) - set(CATALOGUE))]
        if made[t]
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
            shown = []
            for model, replies in scored.items():
                for c in CONDITIONS:
                    reply = replies.get(question_id(item.id, c))
                    if reply is not None and reply.grade is not None:
                        row: Row | None = reply.grade.reading
                        words = row.reply.answer[:300] if row else ""
                        words = words or reply.grade.reason
                        shown.append(ShownReply(f"{model}, {c}", glyph(reply), words))
            right = (
                f"right: {item.answers.display_form}" if item.answerable else "right: to abstain"
            )
            cell = Shown(item.transform or "answerable", item.question, right, tuple(shown))
            caption = "; ".join(item.explanation) or item.transform or "as the source has it"
            first, *rest = item.images or (None,)
            rows.append(ShownRow(first, caption, (cell,)))
            rows += [ShownRow(ref, f"image {n}", ()) for n, ref in enumerate(rest, start=2)]
        tags = (several[0].subset, *(i.transform for i in several if i.transform))
        yield Card(name, tags, tuple(rows), partial(read_image, root=root))
