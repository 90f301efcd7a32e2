"""Tables 1 to 8 of MM-AQA over any models and items, each figure with its n; and pairs as cards.

The paper's tables state one n for all rows, though a third of the rows cannot be of it: here every cell has its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from demur.core.records import ImageRef, Response
from demur.core.uris import read_image
from demur.reports.gallery import Card, Glyph
from demur.reports.gallery import Cell as Shown
from demur.reports.gallery import Reply as ShownReply
from demur.reports.gallery import Row as ShownRow
from demur.reports.tables import Cell, Column, Table
from demur.scenarios.systems.multi_agent import read_log
from demur.suites.mm_aqa.conditions import CONDITIONS, SIX, question_id
from demur.suites.mm_aqa.items import CATALOGUE, CATEGORIES, NAMES, Item, Subset, category_of
from demur.suites.mm_aqa.measures import (
    Matrix,
    best,
    conformal,
    cross_validated,
    curve,
    measure,
    oracle,
    random_abstain,
    se,
    sweep,
)
from demur.suites.mm_aqa.replies import read_reply
from demur.suites.mm_aqa.routing import TOLD, question_kind
from demur.suites.mm_aqa.scoring import BESIDE, Row, Score, matrix_of, max_prob, own, scored, verbal

ORACLE_UAC = 0.985
ORACLE_AAC = {"images": (0.729, 0.789, 0.848), "documents": (0.9, 0.9, 0.9)}
"""An expert's accuracy, least, taken and most (appendix J.2): of MMMU's STEM subjects, and of long documents."""
TAUS = (1.0, 2.0, 3.0, 4.0)


def _mcc(title: str) -> Column:
    return Column(title, percent=False, decimals=3)


def present(scores: Sequence[Score]) -> list[Subset]:
    """Subsets of which anything was asked."""
    return [s for s in NAMES if any(r.item.subset == s for x in scores for rows in x.rows.values() for r in rows)]


def best_mcc(score: Score, subset: str) -> tuple[str, float] | None:
    """The condition of the 3 x 2 design with the highest `mcc_ext`, and that."""
    return best((c, score.matrix(subset, c).mcc_ext) for c in SIX)


def tables(scores: Sequence[Score]) -> list[Table]:
    """All tables over models."""
    found = [results_table(scores, s) for s in present(scores)]
    found += [baselines_table(scores), category_table(scores), sweep_table(scores), oracle_table(scores)]
    found += [beside_table(scores), matrix_table(scores)]
    agents = agents_table(scores)
    return [*found, agents] if agents.rows else found


def _rates(m: Matrix) -> list[Cell]:
    row: list[Cell] = []
    for name, hits, n in (("aac", m.tp, m.answerable), ("uac", m.tn, m.unanswerable), ("ar", m.fn + m.tn, m.n)):
        error = se(hits / n, n) if n else None
        row += [measure(name, hits, n), None if error is None else 100 * error]
    return [*row, int(m.answerable), int(m.unanswerable)]


def results_table(scores: Sequence[Score], subset: Subset) -> Table:
    """Tables 1 and 2: three conditions under two clauses, a row each; the best MCC of the six stands in its row."""
    columns = [Column("Model", align="left"), Column("Condition", align="left")]
    columns += [c for name in ("AAC", "UAC", "AR") for c in (Column(f"{name} (%)"), Column("±"))]
    columns += [Column("n answ."), Column("n unansw."), _mcc("MCC"), _mcc("MCC plain"), _mcc("Best MCC")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        top = best_mcc(s, subset)
        for c in SIX:
            m = s.matrix(subset, c)
            best_here: Cell = top[1] if top and top[0] == c else ""
            rows.append((s.model, c, *_rates(m), m.mcc_ext, m.mcc_abstain, best_here))
    number = {"images": 1, "documents": 2}[subset]
    taus = " and ".join(sorted({str(s.tau) for s in scores}))
    notes = (
        "±: standard error, sqrt(p(1-p)/n). Malformed, failed and ungraded replies are counted in the table of replies "
        f"in none of the five cells. Under vconf a confidence of at most {taus} is an abstention.",
        "MCC: the paper's five-way one; – where it is undefined. Best MCC: the highest of the six conditions, chosen "
        "on these items. MCC plain: of abstaining against being unanswerable; 0 at random, where the paper's falls "
        "below 0 by wrong answers.",
    )
    return Table(
        f"mm-aqa-{subset}", f"Table {number}: {NAMES[subset]}-like, questions about {subset}.", tuple(columns),
        tuple(rows), rules=frozenset(range(len(SIX), len(rows), len(SIX))), notes=notes,
    )  # fmt: skip


Confidence = Callable[[Row], float | None]
SOURCES: tuple[tuple[str, str, Confidence, Sequence[float] | None], ...] = (
    ("verbal confidence", "vconf", verbal, TAUS),
    ("MaxProb", "base", max_prob, None),
    ("own confidence", "base", own, None),
)
"""Baselines by threshold: name, condition whose replies it takes, the confidence, thresholds (None: every value)."""


def baselines(s: Score, subset: str) -> Iterator[tuple[str, str, Matrix | None, float | None, float | None, int]]:
    """(name, variant, matrix, RC-AUC, AURC, n) of each baseline of a system."""
    base = s.matrix(subset, "base")
    a, u = int(base.answerable), int(base.unanswerable)
    if base.n:
        n = int(base.n)
        yield "always abstains", "", Matrix(0, 0, a, u, 0), None, None, n
        yield "never abstains", "", Matrix(base.tp, a - base.tp, 0, 0, u), None, None, n
        yield "abstains at random", "p = 0.5, expected", random_abstain(base.tp / a if a else 0, a, u), None, None, n
    for name, condition, confidence, taus in SOURCES:
        found = scored(s.of(subset, condition), confidence)
        if found is None:
            continue
        area, n = curve(found), len(found.confidence)
        made = sweep(found, taus)
        below = "<" if taus is None else "<="
        tau = "undefined at every tau" if made.tau is None else f"abstains {below} {made.tau:.4g}, oracle tau"
        yield name, tau, made.matrix, area.rc_auc, area.aurc, n
        yield name, "tau cross-validated, 5 folds", cross_validated(found, taus, seed=s.seed), None, None, n
        yield name, "conformal, 10 % let through", conformal(found, seed=s.seed), None, None, n
    weighed = s.matrix(subset, "cotabs")
    if weighed.n:
        yield "evidence weighed (cotabs)", "", weighed, None, None, int(weighed.n)


def baselines_table(scores: Sequence[Score]) -> Table:
    """Table 3: baselines; thresholds chosen on the same items are named oracle, honest ones stand beside them."""
    columns = [Column("Model", align="left"), Column("Subset", align="left"), Column("Baseline", align="left")]
    columns += [Column("Variant", align="left"), Column("AAC (%)"), Column("±"), Column("UAC (%)"), Column("±")]
    columns += [_mcc("MCC"), _mcc("MCC plain"), _mcc("RC-AUC"), _mcc("AURC")]
    columns.append(Column("n"))
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        for subset in present(scores):
            for name, variant, m, rc, aurc, n in baselines(s, subset):
                rates = _rates(m)[:4] if m is not None else [None] * 4
                mccs = (m.mcc_ext, m.mcc_abstain) if m is not None else (None, None)
                rows.append((s.model, NAMES[subset], name, variant, *rates, *mccs, rc, aurc, n))
    notes = (
        "oracle tau: the best on these very items, an upper bound. Undefined MCCs are never the best. Self-consistency "
        "and P(True) are systems of their own (self_consistency:MODEL, p_true:MODEL): their rows are under 'own "
        "confidence'.",
        "RC-AUC, AURC: risk over coverage of what was answered, where answering the unanswerable is an error.",
    )
    return Table("mm-aqa-baselines", "Table 3: abstention baselines.", tuple(columns), tuple(rows), notes=notes)


def category_table(scores: Sequence[Score]) -> Table:
    """Table 4: UAC by category of transformation under one condition."""
    columns = [Column("Model", align="left"), Column("Subset", align="left"), Column("Category", align="left")]
    columns += [Column("n"), Column("UAC (%)", interval=True), Column("±")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        for subset in present(scores):
            twins = [r for r in s.of(subset, s.diagnostic) if not r.item.answerable]
            names = [c.name for c in CATEGORIES if c.subset == subset] + [""]
            for name in names:
                m = matrix_of([r for r in twins if category_of(r.item.transform, s.grouping) == name])
                if m.unanswerable or name:
                    error = se(m.uac, m.unanswerable) if m.uac is not None else None
                    value = measure("uac", m.tn, m.unanswerable)
                    row = (s.model, NAMES[subset], name or "others", int(m.unanswerable), value)
                    rows.append((*row, None if error is None else 100 * error))
            m = matrix_of(twins)
            rows.append((s.model, NAMES[subset], "all", int(m.unanswerable), measure("uac", m.tn, m.unanswerable),
                         None if m.uac is None else 100 * (se(m.uac, m.unanswerable) or 0)))  # fmt: skip
    under = " and ".join(sorted({s.diagnostic for s in scores}))
    grouping = " and ".join(sorted({s.grouping for s in scores}))
    notes = (f"Under {under}; categories as in the {grouping}. Compare within a subset only.",)
    return Table("mm-aqa-categories", "Table 4: UAC by category.", tuple(columns), tuple(rows), notes=notes)


def sweep_table(scores: Sequence[Score]) -> Table:
    """Table 7: every threshold of the stated confidence."""
    columns = [Column("Model", align="left"), Column("Subset", align="left"), Column("tau")]
    columns += [Column("AAC (%)"), Column("±"), Column("UAC (%)"), Column("±"), Column("AR (%)"), Column("±")]
    columns += [Column("n answ."), Column("n unansw."), _mcc("MCC"), _mcc("sum over subsets")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        found = {sub: scored(s.of(sub, "vconf"), verbal) for sub in present(scores)}
        made = {sub: sweep(x, TAUS) for sub, x in found.items() if x is not None}
        for subset, one in made.items():
            for place, tau in enumerate(TAUS):
                both = [m.matrices[place].mcc_ext for m in made.values()]
                total = sum(x for x in both if x is not None) if None not in both and len(both) == 2 else None
                m = one.matrices[place]
                rows.append((s.model, NAMES[subset], int(tau), *_rates(m), m.mcc_ext, total))
    notes = ("A stated confidence up to tau is an abstention; standard clause. The best tau on these items is an "
             "upper bound.",)  # fmt: skip
    return Table(
        "mm-aqa-tau", "Table 7: thresholds of the stated confidence.", tuple(columns), tuple(rows), notes=notes
    )


def oracle_table(scores: Sequence[Score]) -> Table:
    """Table 8: what an expert would reach, by three estimates of their accuracy, and the gap to the best model."""
    sizes = {sub: next((m for s in scores for c in SIX if (m := s.matrix(sub, c)).n), None) for sub in NAMES}
    columns = [Column("Scenario", align="left")]
    columns += [Column(f"AAC (%) {NAMES[sub]}") for sub in NAMES] + [_mcc(f"MCC {NAMES[sub]}") for sub in NAMES]
    columns += [_mcc("MCC oracle"), Column("best model", align="left"), _mcc("its MCC")]
    columns.append(_mcc("gap"))
    averages = [(s.model, average_mcc(s)) for s in scores]
    top = best(averages)
    rows: list[tuple[Cell, ...]] = []
    for place, name in enumerate(("lower bound", "midpoint (used)", "upper bound")):
        mccs = {
            sub: oracle(ORACLE_AAC[sub][place], ORACLE_UAC, int(m.answerable), int(m.unanswerable)).mcc_ext
            for sub, m in sizes.items() if m is not None
        }  # fmt: skip
        defined = [v for v in mccs.values() if v is not None]
        mean = sum(defined) / len(defined) if defined else None
        gap = mean - top[1] if mean is not None and top else None
        rows.append((name, *(100 * ORACLE_AAC[sub][place] for sub in NAMES), *(mccs.get(sub) for sub in NAMES), mean,
                     top[0] if top else "", top[1] if top else None, gap))  # fmt: skip
    notes = (
        f"Derived, not measured: an expert who answers whatever can be answered, abstains on {ORACLE_UAC:.1%} of the "
        "rest, over as many items as here. The estimates of accuracy are the paper's for its own questions.",
    )
    return Table("mm-aqa-oracle", "Table 8: an expert's MCC.", tuple(columns), tuple(rows), notes=notes)


def average_mcc(s: Score) -> float | None:
    """Mean of the best MCCs over the subsets that were asked; None where one is undefined (appendix J.1)."""
    found = [best_mcc(s, sub) for sub in present([s]) if any(s.of(sub, c) for c in SIX)]
    return sum(f[1] for f in found if f) / len(found) if found and all(found) else None


def beside_table(scores: Sequence[Score]) -> Table:
    """What fell into none of the five cells."""
    columns = [Column("Model", align="left"), Column("Subset", align="left"), Column("Condition", align="left")]
    columns += [Column("asked"), *(Column(b) for b in BESIDE[:3]), Column("most often", align="left")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        for subset in present(scores):
            for condition in CONDITIONS:
                if asked := s.of(subset, condition):
                    lost = s.beside(subset, condition)
                    why = Counter(r.reply.detail for r in asked if r.reply.problem).most_common(1)
                    told = f"{why[0][0][:60]} ({why[0][1]})" if why else ""
                    rows.append((s.model, NAMES[subset], condition, len(asked), *(lost[b] for b in BESIDE[:3]), told))
    notes = ("malformed: a field of the output schema lacks; such a reply is neither an answer nor an abstention.",)
    return Table("mm-aqa-beside", "Replies in none of the five cells.", tuple(columns), tuple(rows), notes=notes)


def matrix_table(scores: Sequence[Score]) -> Table:
    """The five counts of every cell."""
    columns = [Column("Model", align="left"), Column("Subset", align="left"), Column("Condition", align="left")]
    columns += [Column(n.upper()) for n in Matrix._fields]
    columns += [Column("AR (%)"), Column("unansw. (%)"), _mcc("MCC"), _mcc("MCC plain")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        for subset in present(scores):
            for c in CONDITIONS:
                m = s.matrix(subset, c)
                if m.n:
                    shares = 100.0 * (m.ar or 0.0), 100.0 * m.unanswerable / m.n
                    rows.append((s.model, NAMES[subset], c, *(int(v) for v in m), *shares, m.mcc_ext, m.mcc_abstain))
    notes = (
        "TP, FP: right and wrong answers to answerable items, FN: abstentions on them. TN: abstentions on the others, "
        "AU: answers to them. MCC – where a row or column of it is empty.",
        "Under-abstention: AR below the share of unanswerable items, with many AU. Over-abstention: AR above it, with "
        "many FN.",
    )
    return Table("mm-aqa-matrix", "The five-way confusion matrix.", tuple(columns), tuple(rows), notes=notes)


def agents_table(scores: Sequence[Score]) -> Table:
    """What Verifiers did: how often they overrode the Reasoner, and in how many rounds."""
    columns = [Column("Model", align="left"), Column("Condition", align="left"), Column("n")]
    columns += [Column("overridden (%)", interval=True), Column("mean rounds", percent=False, decimals=2)]
    columns += [Column("revisions"), Column("illegal, coerced")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        for condition, several in s.rows.items():
            logs = [log for r in several if r.response is not None and (log := read_log(r.response)) is not None]
            if logs:
                over, n = sum(log.overridden for log in logs), len(logs)
                every = [one for log in logs for one in log.rounds]
                rows.append((
                    s.model, condition, n, measure("overridden", over, n), len(every) / n,
                    sum(one.decision == "REQUEST_REVISION" for one in every), sum(one.coerced for one in every),
                ))  # fmt: skip
    notes = ("illegal: a revision was asked for where none was allowed; it counts as an abstention.",)
    return Table("mm-aqa-agents", "Reasoner and Verifier.", tuple(columns), tuple(rows), notes=notes)


# --- items ------------------------------------------------------------------------------------------


def statistics(items: Sequence[Item]) -> list[Table]:
    """Table 5 (subsets), the distribution of figure 2, and table 6 (kinds of question about documents)."""
    subsets = []
    for sub in [*NAMES, None]:
        mine = [i for i in items if sub in (i.subset, None)]
        if mine:
            yes = sum(i.answerable for i in mine)
            name = NAMES[sub] if sub else "all"
            subsets.append((name, len(mine), yes, 100 * yes / len(mine), len(mine) - yes, len({i.pair for i in mine})))
    t5 = Table(
        "mm-aqa-subsets", "Table 5: items by subset.",
        (Column("Subset", align="left"), Column("Items"), Column("answerable"), Column("(%)"), Column("unanswerable"),
         Column("pairs")), tuple(subsets),
    )  # fmt: skip
    made = Counter(i.transform for i in items if i.transform)
    rows: list[tuple[Cell, ...]] = [
        (CATALOGUE.get(t, ("", ""))[0], t, category_of(t), category_of(t, "appendix-b"), made[t])
        for t in [*CATALOGUE, *sorted(set(made) - set(CATALOGUE))] if made[t]
    ]  # fmt: skip
    fig2 = Table(
        "mm-aqa-transformations", "Twins by transformation (figure 2).",
        (Column("No."), Column("Transformation", align="left"), Column("Category", align="left"),
         Column("in appendix B", align="left"), Column("Twins")), tuple(rows),
    )  # fmt: skip
    kinds = Counter(question_kind(i.question) for i in items if i.subset == "documents" and i.answerable)
    t6 = Table(
        "mm-aqa-kinds", "Table 6: kinds of question about documents, by priority.",
        (Column("Kind", align="left"), Column("Words", align="left"), Column("Questions")),
        tuple((k, words, kinds[k]) for k, words in TOLD.items()),
    )  # fmt: skip
    return [t5, fig2, t6]


def cards(
    items: Sequence[Item], root: Path, outputs: Mapping[str, Mapping[str, Response]], parser: str, abstain: str
) -> Iterator[Card]:
    """One card a pair: a row the item, a row each twin, with the replies under each condition."""

    def read(ref: ImageRef) -> bytes:
        return read_image(ref, root)

    pairs: dict[str, list[Item]] = {}
    for item in items:
        pairs.setdefault(item.pair, []).append(item)
    for name, several in pairs.items():
        rows = []
        for item in several:
            said = []
            for model, answers in outputs.items():
                for c in CONDITIONS:
                    if (response := answers.get(question_id(item.id, c))) is not None:
                        reply = read_reply(response, c, parser, abstain)
                        glyph: Glyph = "f" if reply.problem else "d" if reply.abstains else "u"
                        words = f"{reply.problem}: {reply.detail}" if reply.problem else reply.answer[:300]
                        said.append(ShownReply(f"{model}, {c}", glyph, words))
            right = f"right: {item.answers.shown}" if item.answerable else "right: to abstain"
            cell = Shown(item.transform or "answerable", item.question, right, tuple(said))
            caption = "; ".join(item.explanation) or item.transform or "as the source has it"
            first, *rest = item.images or (None,)
            rows.append(ShownRow(first, caption, (cell,)))
            rows += [ShownRow(ref, f"image {n}", ()) for n, ref in enumerate(rest, start=2)]
        yield Card(name, (several[0].subset, *(i.transform for i in several if i.transform)), tuple(rows), read)
