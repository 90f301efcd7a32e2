"""Tables of VB: the two of the paper, what was left out, categories, sensitivity; and families as cards.

The paper's tables print no n; here each table says over how many cells and families it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path

from demur.core.records import ImageRef, Measure, Response
from demur.core.uris import read_image
from demur.reports.gallery import Card, Glyph, Row
from demur.reports.gallery import Cell as Shown
from demur.reports.gallery import Reply as ShownReply
from demur.reports.tables import Cell, Column, Table
from demur.suites.vb.items import CELLS, WHAT_IT_TESTS, Category, Family, statistics
from demur.suites.vb.measures import ALPHAS, WEIGHTS, Score, sensitivity
from demur.suites.vb.replies import Parser, Reply, reply_of

_UNIT = {"percent": False, "decimals": 3}


def _value(score: Score, name: str) -> Measure:
    return score.measures[name]


def _ranked(value: float | None) -> float:
    """A composite by which to rank: an undefined one comes last; 0 is a value."""
    return -inf if value is None else value


def headline_table(scores: Sequence[Score]) -> Table:
    """Table 2: the composite and its components, best first."""
    ordered = sorted(scores, key=lambda s: -_ranked(_value(s, "final").value))
    columns = (
        Column("Model", align="left"),
        Column("Final", interval=True, percent=False, decimals=3),
        Column("CAA", percent=False, decimals=3),
        Column("I_MEFR", percent=False, decimals=3),
        Column("T_MEFR", percent=False, decimals=3),
        Column("MEFR", percent=False, decimals=3),
        Column("SelRank", percent=False, decimals=3),
        Column("ToMAcc", interval=True, percent=False, decimals=3),
        Column("n of ToM"),
        Column("ABS"),
        Column("n"),
    )
    rows = tuple(
        (
            s.model,
            _value(s, "final"),
            _value(s, "caa"),
            _value(s, "i_mefr"),
            _value(s, "t_mefr"),
            _value(s, "mefr"),
            _value(s, "selrank"),
            _value(s, "tom_acc"),
            _value(s, "tom_acc").n,
            s.counts["abstained"],
            _value(s, "caa").n,
        )
        for s in ordered
    )
    notes = [
        "n: headline cells in CAA. Intervals: 95 %, bootstrap over families; Wilson's for ToMAcc (n of ToM cells).",
        "Final: .70 CAA + .15 MEFR + .10 SelRank + .05 ToMAcc"
        + ("; weights renormalised where a component is undefined (–)" if _undefined(scores) else "")
        + ".",
        f"Scored as {_modes(scores)}; the parser is {' and '.join(sorted({s.parser for s in scores}))}.",
    ]
    for s in scores:
        if away := s.counts["families_not_asked"]:
            notes.append(
                f"{s.model} was asked about {s.counts['families']} of {s.counts['families'] + away} strict families."
            )
        lost = [name for name in ("mefr", "selrank") if _value(s, name).value is None]
        if lost and _value(s, "final").value is not None:
            names = " and ".join({"mefr": "MEFR", "selrank": "SelRank"}[name] for name in lost)
            notes.append(f"{s.model}: {names} undefined, so its Final is of fewer components: not to be compared.")
    return Table("vb-headline", "Headline results on the strict families.", columns, rows, notes=tuple(notes))


def _undefined(scores: Sequence[Score]) -> bool:
    return any(s.measures[name].value is None for s in scores for name in WEIGHTS)


def _modes(scores: Sequence[Score]) -> str:
    says = {
        "paper": "the paper's tables were (replies without a confidence leave every denominator)",
        "measured": "measured (an unreadable reply counts as wrong, one without a confidence leaves CAA and SelRank)",
    }
    return " and ".join(says[m] for m in sorted({s.mode for s in scores}))


def selective_table(scores: Sequence[Score]) -> Table:
    """Table 3: what was answered, how confidence ranks it, and both denominators of MEFR."""
    columns = (
        Column("Model", align="left"),
        Column("Answered"),
        Column("Cov (%)"),
        Column("AnsAcc", percent=False, decimals=3),
        Column("raw", "SelRank", percent=False, decimals=3),
        Column("least", "SelRank", percent=False, decimals=3),
        Column("most", "SelRank", percent=False, decimals=3),
        Column("d", "MEFR"),
        Column("d of I", "MEFR"),
        Column("d of T", "MEFR"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            s.model,
            s.counts["answered"],
            _value(s, "coverage"),
            _value(s, "answered_accuracy"),
            _value(s, "selrank_raw"),
            s.selrank_bounds[0] if s.selrank_bounds else None,
            s.selrank_bounds[1] if s.selrank_bounds else None,
            s.counts["base_right"],
            _value(s, "i_mefr").n,
            _value(s, "t_mefr").n,
        )
        for s in scores
    )
    over = "all headline cells" if all(s.mode == "paper" for s in scores) else "headline cells with a reply"
    notes = (
        f"Cov: answered over {over}. least, most: what SelRank is for the worst and best order of equal confidences.",
        "d: families with BASE right; d of I, d of T: those of them whose flipped cell has a reply that counts.",
    )
    return Table("vb-selective", "Selective prediction, and the denominators of MEFR.", columns, rows, notes=notes)


def double_flip_table(scores: Sequence[Score]) -> Table:
    """DFAcc by both definitions, with n."""
    columns = (
        Column("Model", align="left"),
        Column("DFAcc (%)", "all families", interval=True),
        Column("n", "all families"),
        Column("DFAcc (%)", "BASE right", interval=True),
        Column("n", "BASE right"),
    )
    rows = tuple(
        (
            s.model,
            _value(s, "df_acc"),
            _value(s, "df_acc").n,
            _value(s, "df_acc_given_base"),
            _value(s, "df_acc_given_base").n,
        )
        for s in scores
    )
    notes = (
        "A diagnostic, in no other figure. The paper takes all families, its released code those with BASE right.",
    )
    return Table("vb-double-flip", "Accuracy where both edits are made.", columns, rows, notes=notes)


def replies_table(scores: Sequence[Score]) -> Table:
    """What could not be used of the replies, by kind."""
    kinds = ("not_asked", "no_output", "unparsable", "invalid_label", "no_confidence")
    columns = (
        Column("Model", align="left"),
        Column("Cells", align="left"),
        Column("n"),
        *(Column(k.replace("_", " ")) for k in kinds),
    )
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        rows.append((s.model, "headline", s.counts["headline"], *(s.counts[k] for k in kinds)))
        rows.append(("", "all four", 4 * s.counts["families"], *(s.counts[f"all_{k}"] for k in kinds)))
    notes = (
        "not asked: there is no output for the cell. no output: the call failed. unparsable: no label. "
        "invalid label: none of the three. "
        "no confidence: true or false without a number from 0 to 1.",
    )
    return Table(
        "vb-replies", "Replies that could not be used whole (strict families).", columns, tuple(rows), notes=notes
    )


def reasons_table(scores: Sequence[Score]) -> Table:
    """Reason codes that break the rules of the prompt."""
    columns = (Column("Model", align="left"), Column("kept"), Column("broken"), Column("most often", align="left"))
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        broken = {k: v for k, v in s.reason_rules.items() if k}
        worst = max(broken, key=lambda k: (broken[k], k)) if broken else ""
        kept = s.reason_rules.get("", 0)
        rows.append((s.model, kept, sum(broken.values()), f"{worst} ({broken[worst]})" if worst else ""))
    notes = ("Of replies with a label: VISIBLY_TRUE takes NONE, ABSTAIN one limiting factor, VISIBLY_FALSE either.",)
    return Table("vb-reasons", "Reason codes and the rules for them.", columns, tuple(rows), notes=notes)


def category_table(scores: Sequence[Score]) -> Table:
    """Accuracy on headline cells by category, with its n."""
    present = [c for c in Category if any(c.value in s.categories for s in scores)]
    columns = [Column("Model", align="left")]
    for category in present:
        name = category.value.replace("_", " ").capitalize()
        columns += [Column("right (%)", name), Column("n", name)]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        line: list[Cell] = [s.model]
        for category in present:
            right, n, _ = s.categories.get(category.value, (0, 0, 0))
            line += [100 * right / n if n else None, n]
        rows.append(tuple(line))
    notes = ("ABSTAIN counts as not right.",)
    return Table("vb-categories", "Headline accuracy by visibility factor.", tuple(columns), tuple(rows), notes=notes)


def abstain_table(scores: Sequence[Score]) -> Table | None:
    """Families with an ABSTAIN gold label; None when there are none."""
    if not any(s.abstain["cells"] for s in scores):
        return None
    columns = (
        Column("Model", align="left"),
        Column("cells"),
        Column("right"),
        Column("gold ABSTAIN"),
        Column("of them abstained"),
        Column("abstained in all"),
        Column("no output"),
    )
    rows = tuple(
        (s.model, a["cells"], a["right"], a["abstain_gold"], a["abstain_right"], a["abstained"], a["no_output"])
        for s in scores
        for a in [s.abstain]
    )
    return Table("vb-abstain", "Families with an ABSTAIN gold label: in no headline figure.", columns, rows)


def sensitivity_table(scores: Sequence[Score]) -> Table | None:
    """How the ranking depends on the composite's weights; None for one model."""
    if len(scores) < 2:
        return None
    parts = {s.model: {k: s.measures[k].value for k in WEIGHTS} for s in scores}
    free, led = sensitivity(parts), sensitivity(parts, least_caa=0.5)
    columns = (
        Column("Model", align="left"),
        Column("first (%)", "any weights"),
        Column("best rank", "any weights"),
        Column("worst rank", "any weights"),
        Column("first (%)", "CAA at least half"),
        Column("best rank", "CAA at least half"),
        Column("worst rank", "CAA at least half"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            s.model,
            100 * free.first[s.model],
            *free.ranks.get(s.model, (None, None)),
            100 * led.first[s.model],
            *led.ranks.get(s.model, (None, None)),
        )
        for s in scores
    )
    pairs = len(scores) * (len(scores) - 1) // 2
    notes = (
        f"{free.settings} weightings on a grid of 0.1 ({led.settings} give CAA at least half): the order of "
        f"{len(free.swaps)} of {pairs} pairs of models depends on them "
        f"({len(led.swaps)} with CAA at least half).",
    )
    return Table("vb-sensitivity", "The ranking under other weights.", columns, rows, notes=notes)


def alpha_table(scores: Sequence[Score]) -> Table | None:
    """How the composite and the ranking depend on the credit of an abstention; None for one model."""
    if len(scores) < 2:
        return None
    columns = [Column("Model", align="left")]
    for alpha in ALPHAS:
        columns += [Column("Final", f"alpha {alpha:g}", percent=False, decimals=3), Column("rank", f"alpha {alpha:g}")]
    rows: list[tuple[Cell, ...]] = []
    for s in scores:
        line: list[Cell] = [s.model]
        for alpha in ALPHAS:
            value = s.by_alpha[alpha]
            better = sum(_ranked(other.by_alpha[alpha]) > value for other in scores) if value is not None else None
            line += [value, None if better is None else better + 1]
        rows.append(tuple(line))
    notes = ("alpha: credit of an abstention in CAA; the paper takes 0.25.",)
    return Table(
        "vb-alpha", "The ranking under other credits for an abstention.", tuple(columns), tuple(rows), notes=notes
    )


def statistics_table(families: Sequence[Family]) -> Table:
    """Table 1: families by category."""
    columns = (
        Column("Category", align="left"),
        Column("What it tests", align="left"),
        Column("Families"),
        Column("strict"),
        Column("base photos"),
    )
    rows: list[tuple[Cell, ...]] = [
        (c.value, WHAT_IT_TESTS[c], row["families"], row["strict"], row["photos"])
        for c, row in statistics(families).items()
    ]
    total = [sum(int(str(r[i])) for r in rows) for i in (2, 3, 4)]
    rows.append(("Total", "", *total))
    strict = total[1]
    notes = (f"{strict} strict families make {3 * strict} headline cells and {strict} diagnostic ones.",)
    return Table(
        "vb-families", "Families by visibility factor.", columns, tuple(rows), rules=frozenset({8}), notes=notes
    )


# --- cards ------------------------------------------------------------------------------------------


def cards(
    families: Sequence[Family], root: Path, outputs: Mapping[str, Mapping[str, Response]], parser: Parser
) -> Iterator[Card]:
    """One card a family: a row a photo, its two cells side by side."""

    def read(ref: ImageRef) -> bytes:
        return read_image(ref, root)

    for family in families:
        rows = []
        for photo, (first, second), name in (
            (family.images[0], (0, 1), "base photo"),
            (family.images[1], (2, 3), family.provenance.get("image_edit", "") or "edited photo"),
        ):
            cells = []
            for place in (first, second):
                cell, gold = CELLS[place], family.gold[place]
                said = []
                for model, answers in outputs.items():
                    id = family.cell_id(cell)
                    if id in answers:
                        reply = reply_of(answers[id], parser)
                        said.append(ShownReply(model, _glyph(reply, gold.value), _words(reply)))
                cells.append(Shown(cell.value, family.question(cell), f"gold: {gold.value}", tuple(said)))
            rows.append(Row(photo, name, tuple(cells)))
        tags = (family.category.value, "strict" if family.strict else "with ABSTAIN: not in the headline")
        yield Card(family.id, tags, tuple(rows), read)


def _glyph(reply: Reply, gold: str) -> Glyph:
    if reply.label is None:
        return "f"
    if reply.label.value == gold:
        return "c"
    return "i" if reply.answered else "d"


def _words(reply: Reply) -> str:
    if reply.label is None:
        return f"{reply.problem}: {reply.detail}"
    stated = "" if reply.confidence is None else f", {reply.confidence:.2f}"
    code = f", {reply.reason_code}" if reply.reason_code and reply.reason_code != "NONE" else ""
    return f"{reply.label.value}{stated}{code}" + (f" ({reply.problem})" if reply.problem else "")
