"""Tables of VB: those of the paper, what was left out, categories, sensitivity; and families as cards.

The paper's tables print no n; here each table says over how many cells and families it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path

from demur.core.uris import read_image
from demur.judge.measures.rates import share_of
from demur.reports.tables import Cell, Column, Table, texts
from demur_suites.gallery import Card, Row, replies_to
from demur_suites.gallery import Cell as Shown
from demur_suites.records import Scored
from demur_suites.tables import n_note, number, table, with_n
from demur_suites.vb.items import CELLS, PREFIXES, WHAT_IT_TESTS, Family
from demur_suites.vb.measures import ALPHAS, TIE_BOUNDS, WEIGHTS, Score, sensitivity
from demur_suites.vb.replies import PROBLEMS, UNGRADED, Reply

MODES = {
    "paper": "the paper's tables were (answers without a confidence leave every denominator; equal confidences are "
    "ranked in the order of their ids)",
    "measured": "measured (an unreadable reply counts as wrong, one without a confidence leaves CAA and SelRank)",
}


def score_tables(scores: Sequence[Score]) -> list[Table]:
    """All tables of some models."""
    found = (
        headline_table(scores),
        selective_table(scores),
        double_flip_table(scores),
        replies_table(scores),
        reasons_table(scores),
        category_table(scores),
        abstain_table(scores),
        sensitivity_table(scores),
        alpha_table(scores),
    )
    return [t for t in found if t is not None]


COMPARED = {"mefr": "MEFR", "selrank": "SelRank"}
"""Components that a model may lack where others have them."""


def _rank_key(value: float | None) -> float:
    """A composite by which to rank: an undefined one comes last; 0 is a value."""
    return -inf if value is None else value


def headline_table(scores: Sequence[Score]) -> Table:
    """Table 2: the composite and its components, best first."""
    names = ("final", "caa", "i_mefr", "t_mefr", "mefr", "selrank", "tom_acc")
    columns: tuple[str | Column, ...] = (
        *texts("Model"),
        number("Final", interval=True),
        number("CAA"),
        number("I_MEFR"),
        number("T_MEFR"),
        number("MEFR"),
        number("SelRank"),
        number("ToMAcc", interval=True),
        "n of ToM",
        "ABS",
        "n",
    )
    rows = [
        (
            s.model,
            *(s.measures[n] for n in names),
            s.measures["tom_acc"].n,
            s.counts["abstained"],
            s.measures["caa"].n,
        )
        for s in sorted(scores, key=lambda s: -_rank_key(s.measures["final"].value))
    ]
    undefined = any(s.measures[name].value is None for s in scores for name in WEIGHTS)
    any_second_order = any(s.measures["tom_acc"].n for s in scores)
    notes = [
        "n: headline cells in CAA. Intervals: 95 %, bootstrap over families"
        + ("; Wilson's for ToMAcc (n of ToM cells)" if any_second_order else "")
        + ".",
        "Final: .70 CAA + .15 MEFR + .10 SelRank + .05 ToMAcc"
        + ("; weights renormalised where a component is undefined (–)" if undefined else "")
        + ".",
        f"Scored as {' and '.join(MODES[m] for m in sorted({s.mode for s in scores}))}; the parser is "
        f"{' and '.join(sorted({s.parser for s in scores}))}.",
    ]
    fewer: dict[str, list[str]] = {}
    for s in scores:
        asked, not_asked = s.counts["families"], s.counts["families_not_asked"]
        if not_asked:
            notes.append(
                f"{s.model} was asked about {asked} of {asked + not_asked} strict families."
            )
        lost = [t for n, t in COMPARED.items() if s.measures[n].value is None]
        if lost and s.measures["final"].value is not None:
            fewer.setdefault(" and ".join(lost), []).append(s.model)
    notes += [
        f"{', '.join(models)}: {lost} undefined, so Final has fewer components: do not compare it."
        for lost, models in fewer.items()
    ]
    return table("vb-headline", "Headline results on the strict families.", columns, rows, *notes)


def selective_table(scores: Sequence[Score]) -> Table:
    """Table 3: what was answered, how confidence ranks it, and both denominators of MEFR."""
    columns: tuple[str | Column, ...] = (
        *texts("Model"),
        "Answered",
        number("Cov"),
        number("AnsAcc"),
        number("raw", "SelRank"),
        number("expected", "SelRank"),
        number("least", "SelRank"),
        number("most", "SelRank"),
        Column("d", "MEFR"),
        Column("d of I", "MEFR"),
        Column("d of T", "MEFR"),
    )
    rows = [
        (
            s.model,
            s.counts["answered"],
            s.measures["coverage"],
            s.measures["answered_accuracy"],
            s.measures["selrank_raw"],
            *(s.selrank_by_ties[way] for way in TIE_BOUNDS),
            s.counts["base_right"],
            s.measures["i_mefr"].n,
            s.measures["t_mefr"].n,
        )
        for s in scores
    ]
    over = (
        "all headline cells"
        if all(s.mode == "paper" for s in scores)
        else "headline cells with a reply"
    )
    return table(
        "vb-selective",
        "Selective prediction, and the denominators of MEFR.",
        columns,
        rows,
        f"Cov: answered over {over}. expected, least, most: SelRank over all orders of equal confidences, and for the "
        "worst and the best.",
        "d: families with BASE right; d of I, d of T: those of them whose flipped cell has a reply that counts.",
    )


def double_flip_table(scores: Sequence[Score]) -> Table:
    """DFAcc by both definitions, with n."""
    columns = [*texts("Model")] + [
        column
        for group in ("all families", "BASE right")
        for column in (Column("DFAcc (%)", group, interval=True), Column("n", group))
    ]
    rows = [
        (s.model, *with_n(s.measures[name] for name in ("df_acc", "df_acc_given_base")))
        for s in scores
    ]
    return table(
        "vb-double-flip",
        "Accuracy where both edits are made.",
        columns,
        rows,
        "A diagnostic, in no other figure. The paper takes all families, its released code those with BASE right.",
    )


def replies_table(scores: Sequence[Score]) -> Table:
    """Replies that could not be used, by kind."""
    kinds = [p.replace(" ", "_") for p in PROBLEMS]
    rows: list[Sequence[Cell]] = []
    for s in scores:
        headline = (s.counts["headline"], *(s.counts[k] for k in kinds))
        every = (4 * s.counts["families"], *(s.counts[f"all_{k}"] for k in kinds))
        rows.append((s.model, *headline, *every))
    columns: tuple[str | Column, ...] = (
        *texts("Model"),
        *(Column(title, cells) for cells in ("headline", "all four") for title in ("n", *PROBLEMS)),
    )
    return table(
        "vb-replies",
        "Replies that could not be used whole (strict families).",
        columns,
        rows,
        "not asked: there is no output for the cell. no output: the call failed. unparsable: no label. "
        "invalid label: none of the three. no confidence: true or false without a number from 0 to 1.",
    )


def reasons_table(scores: Sequence[Score]) -> Table:
    """Reason codes that break the rules of the prompt."""
    rows: list[Sequence[Cell]] = []
    for s in scores:
        broken = {k: v for k, v in s.reason_rules.items() if k}
        worst = max(broken, key=lambda k: (broken[k], k)) if broken else ""
        often = f"{worst} ({broken[worst]})" if worst else ""
        rows.append((s.model, s.reason_rules.get("", 0), sum(broken.values()), often))
    return table(
        "vb-reasons",
        "Reason codes and the rules for them.",
        (*texts("Model"), "kept", "broken", *texts("most often", wraps=True)),
        rows,
        "Of replies with a label: VISIBLY_TRUE takes NONE, ABSTAIN one limiting factor, VISIBLY_FALSE either.",
    )


def category_table(scores: Sequence[Score]) -> Table:
    """Accuracy on headline cells by category, with its n."""
    codes = {c.value: code for code, c in PREFIXES.items()}
    present = [c for c in codes if any(c in s.categories for s in scores)]
    shares = {
        c: [share_of("right", *s.categories[c]) if c in s.categories else None for s in scores]
        for c in present
    }
    columns = (*texts("Model"), *(Column("right", codes[c]) for c in present))
    rows = [(s.model, *(shares[c][place] for c in present)) for place, s in enumerate(scores)]
    names = ", ".join(f"{codes[c]} {c.replace('_', ' ').lower()}" for c in present)
    return table(
        "vb-categories",
        "Headline accuracy by visibility factor (%).",
        columns,
        rows,
        f"{names}. ABSTAIN counts as not right.",
        n_note({codes[c]: shares[c] for c in present}),
    )


def abstain_table(scores: Sequence[Score]) -> Table | None:
    """Families with an ABSTAIN gold label; None when there are none."""
    if not any(s.abstain["cells"] for s in scores):
        return None
    columns = {
        "cells": "cells",
        "right": "right",
        "gold ABSTAIN": "abstain_gold",
        "of them abstained": "abstain_right",
        "abstained in all": "abstained",
        "no output": "no_output",
    }
    rows = [(s.model, *(s.abstain[name] for name in columns.values())) for s in scores]
    caption = "Families with an ABSTAIN gold label: in no headline figure."
    return table("vb-abstain", caption, (*texts("Model"), *columns), rows)


def sensitivity_table(scores: Sequence[Score]) -> Table | None:
    """How the ranking depends on the composite's weights; None for one model."""
    if len(scores) < 2:
        return None
    ranking = sensitivity({s.model: {k: s.measures[k].value for k in WEIGHTS} for s in scores})
    rows = [
        (s.model, 100 * ranking.first[s.model], *ranking.ranks.get(s.model, (None, None)))
        for s in scores
    ]
    return table(
        "vb-sensitivity",
        "The ranking under other weights.",
        (*texts("Model"), "first (%)", "best rank", "worst rank"),
        rows,
        f"{ranking.settings} weightings on a grid of 0.1: the order of {len(ranking.swaps)} of "
        f"{len(scores) * (len(scores) - 1) // 2} pairs of models depends on them.",
    )


def alpha_table(scores: Sequence[Score]) -> Table | None:
    """How the composite and the ranking depend on the credit of an abstention; None for one model."""
    if len(scores) < 2:
        return None
    columns: list[str | Column] = [*texts("Model")]
    for alpha in ALPHAS:
        columns += [number("Final", f"alpha {alpha:g}"), Column("rank", f"alpha {alpha:g}")]
    rows = []
    for s in scores:
        line: list[Cell] = [s.model]
        for alpha in ALPHAS:
            value = s.by_alpha[alpha]
            better = (
                sum(_rank_key(other.by_alpha[alpha]) > value for other in scores)
                if value is not None
                else None
            )
            line += [value, None if better is None else better + 1]
        rows.append(line)
    return table(
        "vb-alpha",
        "The ranking under other credits for an abstention.",
        columns,
        rows,
        "alpha: credit of an abstention in CAA; the paper takes 0.25.",
    )


def statistics_table(families: Sequence[Family]) -> Table:
    """Table 1: families, strict ones and distinct base photos by category."""
    counts = []
    for category in WHAT_IT_TESTS:
        families_of = [f for f in families if f.category is category]
        photos = {f.images[0].sha256 for f in families_of if f.images[0] is not None}
        counts.append((len(families_of), sum(f.strict for f in families_of), len(photos)))
    rows = [
        (c.value, tests, *n) for (c, tests), n in zip(WHAT_IT_TESTS.items(), counts, strict=True)
    ]
    total = [sum(column) for column in zip(*counts, strict=True)]
    strict = total[1]
    rows.append(("Total", "", *total))
    return table(
        "vb-families",
        "Families by visibility factor.",
        (
            *texts("Category"),
            *texts("What it tests", wraps=True),
            "Families",
            "strict",
            "base photos",
        ),
        rows,
        f"{strict} strict families make {3 * strict} headline cells and {strict} diagnostic ones.",
        rules={8},
    )


# --- cards ------------------------------------------------------------------------------------------


def cards(
    families: Sequence[Family],
    root: Path,
    scored: Mapping[str, Mapping[str, Scored]],
) -> Iterator[Card]:
    """One card a family: a row a photo, its two cells side by side."""
    for family in families:
        rows = []
        for photo, (first, second), name in (
            (family.images[0], (0, 1), "base photo"),
            (family.images[1], (2, 3), family.provenance.get("image_edit", "") or "edited photo"),
        ):
            cells = []
            for place in (first, second):
                cell, gold = CELLS[place], family.gold[place]
                replies = replies_to(family.cell_id(cell), scored, _words)
                cells.append(
                    Shown(cell.value, family.question(cell), f"gold: {gold.value}", replies)
                )
            rows.append(Row(photo, name, tuple(cells)))
        tags = (
            family.category.value,
            "strict" if family.strict else "with ABSTAIN: not in the headline",
        )
        yield Card(family.id, tags, tuple(rows), partial(read_image, root=root))


def _words(item: Scored) -> str:
    reply: Reply = item.grade.reading if item.grade and item.grade.reading else UNGRADED
    if reply.label is None:
        return f"{reply.problem}: {reply.detail}"
    stated = "" if reply.confidence is None else f", {reply.confidence:.2f}"
    code = f", {reply.reason_code}" if reply.reason_code and reply.reason_code != "NONE" else ""
    return f"{reply.label.value}{stated}{code}" + (f" ({reply.problem})" if reply.problem else "")
