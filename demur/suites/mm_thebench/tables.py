"""Tables and figures of MM-THEBench, and items as cards: a chain beside its reference steps, matched and unmatched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from demur.core.records import Measure
from demur.core.uris import read_image
from demur.reports import svg
from demur.reports.gallery import Card, Cell, Glyph, Reply, Row
from demur.reports.svg import Panel
from demur.reports.tables import Cell as Value
from demur.reports.tables import Column, Table
from demur.suites.mm_thebench.items import Dimension, Item, rubric_shares, step_shares
from demur.suites.mm_thebench.measures import (
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

SHORT = {Dimension.KNOWLEDGE: "K", Dimension.PERCEPTION: "P", Dimension.REASONING: "R"}
KIND_COLOURS = ("#e69f00", "#0072b2", "#cc79a7", "#009e73", "#6b6b6b")
"""Of `KINDS`."""
SHOWN = 80
"""Steps of a chain that a card shows, beside those that match."""


def _ordered(scores: Sequence[Score]) -> list[Score]:
    """Chains that are the models' own first; those that were asked for behind them."""
    return sorted(scores, key=lambda s: s.group != "native")


def _rule(scores: Sequence[Score]) -> frozenset[int]:
    groups = [s.group == "native" for s in _ordered(scores)]
    return frozenset({groups.index(False)}) if True in groups and False in groups else frozenset()


def headline_table(scores: Sequence[Score], video: bool = False) -> Table | None:
    """Table 2 (text and pictures) or Table 3 (videos); None without any such item."""
    columns = (
        Column("Model", align="left"), Column("Chains", align="left"), Column("Acc (%)", "Answer", interval=True),
        Column("Prec.", "Step"), Column("Recall", "Step"), Column("F1", "Step", interval=True), Column("K", "Rubric"),
        Column("P", "Rubric"), Column("R", "Rubric"), Column("H", "Rubric", interval=True),
        Column("Length", percent=False),
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    for s, m in _asked(scores, video):
        names = ("accuracy", "precision", "recall", "f1", "knowledge", "perception", "reasoning", "h", "length")
        rows.append((s.model, s.group, *(m[name] for name in names)))
    if not rows:
        return None
    notes = [
        "Chains: native: the model's own thoughts; elicited: steps that it was asked for in its reply. Acc: a partial "
        "answer counts half. Step: precision, recall, F1. Rubric: K, P, R: points earned in knowledge, perception, "
        "reasoning; H: points not lost to hallucination. Length: of the chain over that of the annotated one. "
        "Intervals: 95 %, bootstrap over questions.",
        f"Judged by {', '.join(sorted({s.judge for s in scores}))}"
        + ("; rules grade answers alone: give --judge MODEL" if any(s.judge == "rules" for s in scores) else "") + ".",
    ]  # fmt: skip
    for s in scores:
        unread = Counter(note for _, j in s.pairs for note in j.notes)
        notes += [f"{s.model}: {n} chains: {note}." for note, n in unread.items()]
    name, what = ("thebench-video", "videos") if video else ("thebench-image", "text and pictures")
    rules = frozenset() if video else _rule(scores)
    return Table(name, f"Answers, steps and rubric on {what}.", columns, tuple(rows), rules=rules, notes=tuple(notes))


def _asked(scores: Sequence[Score], video: bool) -> list[tuple[Score, dict[str, Measure]]]:
    """Models with their measures on videos, or on everything else, where they were asked any."""
    found = [(s, s.video if video else s.image) for s in _ordered(scores)]
    return [(s, m) for s, m in found if m and (m["accuracy"].n + m["accuracy"].ungraded + m["accuracy"].failed)]


def counts_table(scores: Sequence[Score]) -> Table:
    """Over how many questions each measure is, and what is in none."""
    levels = {
        "Acc": "accuracy", "Prec., Recall, F1": "f1", "K": "knowledge", "P": "perception", "R": "reasoning", "H": "h",
        "Length": "length",
    }  # fmt: skip
    columns = (Column("Model", align="left"), Column("On", align="left"), Column("Figure", align="left"), Column("n"),
               Column("ungraded"), Column("failed"))  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    rules = set()
    for video in (False, True):
        for s, m in _asked(scores, video):
            rules.add(len(rows))
            for title, name in levels.items():
                first = (s.model, "videos" if video else "text and pictures") if title == "Acc" else ("", "")
                rows.append((*first, title, m[name].n, m[name].ungraded, m[name].failed))
    notes = (
        "ungraded: asked, and not judged: the reply holds no chain, a reply of the judge could not be read, rules have "
        "no proof, or there is no judge. failed: no reply came. Items without reference steps, or without a dimension, "
        "are in no row of these.",
        *(
            f"{s.model}: {s.left_out} items marked too complex are left out, {s.not_asked} were not asked."
            for s in scores if s.left_out or s.not_asked
        ),
    )  # fmt: skip
    return Table(
        "thebench-counts", "How many questions stand behind each figure.", columns, tuple(rows),
        rules=frozenset(rules - {0}), notes=notes,
    )  # fmt: skip


def sources_table(scores: Sequence[Score]) -> Table:
    """Table 7: accuracy by source."""
    sources = list(dict.fromkeys(name for s in scores for name in s.sources))
    columns = (Column("Model", align="left"), *(c for n in sources for c in (Column("Acc (%)", n), Column("n", n))))
    rows = tuple(
        (s.model, *(v for n in sources for v in (s.sources.get(n), s.sources[n].n if n in s.sources else 0)))
        for s in _ordered(scores)
    )
    return Table("thebench-sources", "Accuracy by source.", columns, rows, rules=_rule(scores))


def kinds_table(scores: Sequence[Score]) -> Table | None:
    """The numbers of Fig. 3: what kind of hallucination stands in chains with right and with wrong answers."""
    columns = (
        Column("Model", align="left"),
        Column("Answer", align="left"),
        *(Column(k) for k in KINDS),
        Column("none"),
        Column("n"),
    )
    rows: list[tuple[Value, ...]] = []
    for s in _ordered(scores):
        for answer, found in kinds_by_answer(s.pairs).items():
            if n := found.total():
                rows.append((s.model, answer, *(_share(k, found[k], n) for k in (*KINDS, "none")), n))
    if not rows:
        return None
    notes = ("n: questions whose answer and rubric were judged. Partial answers are left out.",)
    return Table(
        "thebench-kinds",
        "Hallucination in the chain by correctness of the answer (%).",
        columns,
        tuple(rows),
        notes=notes,
    )


def _share(name: str, hits: int, n: int) -> Measure:
    return Measure(name=name, value=hits / n if n else None, n=n)


def association_table(scores: Sequence[Score]) -> Table | None:
    """Table 9: are answers wrong more often where the reasoning is made up than where the perception is?"""
    columns = (
        Column("Model", align="left"), Column("chi2", decimals=1), Column("p", "chi2", decimals=3),
        Column("p", "Fisher", decimals=3), Column("OR", decimals=2), Column("low", "OR", decimals=2),
        Column("high", "OR", decimals=2), Column("Err_P (%)"), Column("n_P"), Column("Err_R (%)"), Column("n_R"),
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    for s in _ordered(scores):
        a = reasoning_against_perception(s.pairs)
        (r_wrong, r_right), (p_wrong, p_right) = a.table
        n_p, n_r = p_wrong + p_right, r_wrong + r_right
        if n_p + n_r:
            chi, p = a.chi or (None, None)
            rows.append((
                s.model, chi, p, a.fisher, a.odds, a.interval[0], a.interval[1], _share("err_p", p_wrong, n_p), n_p,
                _share("err_r", r_wrong, n_r), n_r,
            ))  # fmt: skip
    if not rows:
        return None
    notes = (
        "Err: wrong answers among chains that hallucinate in perception (P) or in reasoning (R) alone. "
        "chi2 with Yates's correction; OR with its exact 95 % interval.",
    )
    return Table(
        "thebench-association", "Wrong answers and the kind of hallucination.", columns, tuple(rows), notes=notes
    )


def length_table(scores: Sequence[Score]) -> Table | None:
    """Table 4: does a longer chain hallucinate more?"""
    dims = (Dimension.PERCEPTION, Dimension.REASONING)
    columns = (
        Column("Model", align="left"),
        *(Column(t, d.value.capitalize()) for d in dims for t in ("Pearson", "Spearman", "n")),
    )
    rows: list[tuple[Value, ...]] = []
    for s in _ordered(scores):
        found = [by_length(s.pairs, d) for d in dims]
        if any(f.pearson for f in found):
            cells: list[Value] = [s.model]
            for f in found:
                cells += [f"{c.r:.2f}{c.stars}" if c else None for c in f] + [f.pearson.n if f.pearson else 0]
            rows.append(tuple(cells))
    if not rows:
        return None
    notes = (
        "Share of a dimension's points lost to hallucination, against thinking length. "
        "* p < .05, ** < .01, *** < .001.",
    )
    return Table("thebench-length", "Hallucination and thinking length.", columns, tuple(rows), notes=notes)


def subcategory_table(scores: Sequence[Score]) -> Table | None:
    """The numbers of Fig. 4: points lost to hallucination by subcategory."""
    columns = (
        Column("Model", align="left"), Column("Dimension", align="left"), Column("Subcategory", align="left"),
        Column("Points"), Column("Share (%)"),
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    for s in _ordered(scores):
        for (dimension, name), (lost, share) in subcategory_shares(s.pairs).items():
            rows.append((s.model, dimension, name, lost, Measure(name="share", value=share, n=lost)))
    return Table("thebench-subcategories", "Points lost to hallucination.", columns, tuple(rows)) if rows else None


def statistics_tables(items: Sequence[Item]) -> list[Table]:
    """What a set is made of (Fig. 2, Table 5), its steps (Table 1, Fig. 6) and its rubric (Table 6)."""
    n = len(items)
    kinds: list[tuple[str, Counter[str]]] = [
        ("modality", Counter(i.modality for i in items)),
        ("format", Counter(i.format for i in items)),
        ("source", Counter(i.source or "-" for i in items)),
        ("reviewed by", Counter(i.reviewed_by or "nobody" for i in items)),
    ]
    made = tuple((kind, name, c, _share(name, c, n)) for kind, found in kinds for name, c in found.most_common())
    columns = (Column("Kind", align="left"), Column("Value", align="left"), Column("Items"), Column("Ratio (%)"))
    steps = tuple((s.name, s.steps, s.share and Measure(name="share", value=s.share, n=s.steps), s.per_question)
                  for s in step_shares(items))  # fmt: skip
    counts = Counter(len(i.steps) for i in items)
    dimension = Column("Dimension", align="left")
    return [
        Table("thebench-composition", f"{n} item{'' if n == 1 else 's'}.", columns, made),
        Table("thebench-steps", "Reference steps by dimension; a step may draw on several.",
              (dimension, Column("Steps"), Column("Ratio (%)"), Column("a question", decimals=2)), steps,
              notes=(f"Steps a question: {', '.join(f'{k}: {counts[k]}' for k in sorted(counts))}.",)),
        Table("thebench-rubric", "Rubric items and points a question; the three base items (23 points) not counted.",
              (dimension, Column("items a question", decimals=2), Column("points a question", decimals=2)),
              tuple((r.name, r.items, r.points) for r in rubric_shares(items))),
    ]  # fmt: skip


# --- figures ---------------------------------------------------------------------------------------


def figures(scores: Sequence[Score]) -> list[Panel]:
    """Figures 3, 4 and 5, of models whose chains were judged."""
    told = [s for s in _ordered(scores) if any(kinds_by_answer(s.pairs).values())]
    drawn = [kinds_figure(told)] if told else []
    drawn += [subcategory_figure(s) for s in told if subcategory_shares(s.pairs)]
    return drawn + [p for s in told for part in ("precision", "recall") if (p := length_figure(s, part))]


def kinds_figure(scores: Sequence[Score]) -> Panel:
    """Fig. 3: two bars a model, right and wrong answers, of chains that hallucinate, by kind."""
    rows = [(s.model, a, c) for s in scores for a, c in kinds_by_answer(s.pairs).items() if c.total()]
    left, wide = 190.0, svg.WIDTH - 200.0
    out = [svg.title("Hallucination by kind and answer")]
    for y, (model, answer, found) in enumerate(rows):
        at, x, n = 32.0 + 24 * y, left, found.total()
        out.append(svg.text(left - 6, at + 12, f"{svg.fit(model, 84, 11)}, {answer} (n = {n})", size=11, anchor="end"))
        for kind, colour in zip(KINDS, KIND_COLOURS, strict=True):
            size = wide * found[kind] / n
            if size:
                out.append(
                    svg.mark(
                        f"{model}, {answer}: {kind} {found[kind]} of {n}", svg.rect(x, at, size, 16, "mark", colour)
                    )
                )
            x += size
        out.append(svg.line(left + wide, at, left + wide, at + 16))
    at = 40.0 + 24 * len(rows)
    for k, (kind, colour) in enumerate(zip(KINDS, KIND_COLOURS, strict=True)):
        out += [svg.rect(8, at + 18 * k, 12, 12, "mark", colour), svg.text(26, at + 10 + 18 * k, kind, size=11)]
    return Panel("Hallucination by kind and answer", "".join(out), at + 18 * len(KINDS) + 6)


def subcategory_figure(score: Score) -> Panel:
    """Fig. 4: points lost to hallucination by subcategory, as bars under their dimension."""
    found = sorted(subcategory_shares(score.pairs).items(), key=lambda kv: (kv[0][0], -kv[1][0]))
    most, left = max(share for _, (_, share) in found), 170.0
    name = f"Points lost to hallucination: {score.model}"
    out = [svg.title(svg.fit(name, svg.WIDTH))]
    for y, ((dimension, sub), (lost, share)) in enumerate(found):
        at = 28.0 + 20 * y
        colour = KIND_COLOURS[
            (Dimension.PERCEPTION, Dimension.REASONING, None, Dimension.KNOWLEDGE).index(Dimension(dimension))
        ]
        size = (svg.WIDTH - left - 60) * share / most
        out += [svg.text(left - 6, at + 12, f"{dimension}: {sub}", size=11, anchor="end"),
                svg.mark(f"{dimension}, {sub}: {lost} points", svg.rect(left, at, size, 14, "mark", colour)),
                svg.text(left + size + 4, at + 12, f"{100 * share:.0f} %", size=11, faint=True)]  # fmt: skip
    return Panel(name, "".join(out), 36.0 + 20 * len(found))


def length_figure(score: Score, part: str) -> Panel | None:
    """Fig. 5: step precision or recall of each question against its thinking length; None without steps judged."""
    dots = [(j.length, getattr(s, part)) for i, j in score.pairs if (s := step_score(i, j)) and j.length]
    if not dots:
        return None
    most = max(x for x, _ in dots) or 1.0
    left, top, wide, high = 40.0, 30.0, svg.WIDTH - 60.0, 170.0
    name = f"{part.capitalize()} by thinking length: {score.model} (n = {len(dots)})"
    out = [svg.title(svg.fit(name, svg.WIDTH))]
    for share in (0.0, 0.5, 1.0):
        y = top + high * (1 - share)
        out += [
            svg.line(left, y, left + wide, y),
            svg.text(left - 5, y + 4, f"{share:g}", size=11, anchor="end", faint=True),
        ]
    for k in range(3):
        out.append(
            svg.text(left + wide * k / 2, top + high + 16, f"{most * k / 2:.1f}", size=11, anchor="middle", faint=True)
        )
    out += [svg.marker("circle", left + wide * x / most, top + high * (1 - y), svg.SERIES[0], "mark") for x, y in dots]
    out.append(
        svg.text(
            left + wide / 2,
            top + high + 32,
            "thinking length (chain over annotated chain)",
            size=11,
            anchor="middle",
            faint=True,
        )
    )
    return Panel(name, "".join(out), top + high + 40)


# --- items as cards --------------------------------------------------------------------------------

_GLYPH: dict[Level | None, Glyph] = {
    Level.MATCH: "c", Level.PARTIAL: "p", Level.MISMATCH: "i", Level.NO_ANSWER: "d", None: "u",
}  # fmt: skip


def cards(items: Sequence[Item], root: Path, judged: Sequence[tuple[str, dict[str, Judged]]]) -> Iterator[Card]:
    """One an item: the question with what models answered, then each chain beside the reference steps."""
    for item in items:
        said = tuple(
            Reply(model, "f" if j.failed else _GLYPH[j.answer], f"{(j.answer or 'ungraded')}: {j.why}")
            for model, of in judged
            if (j := of.get(item.id)) is not None
        )
        from demur.suites.mm_thebench.judging import right

        first = Cell("Question", item.question, right(item), said)
        rows = [Row(p, item.id, (first,) if n == 0 else ()) for n, p in enumerate(item.pictures)] or [
            Row(None, item.id, (first,))
        ]
        rows += [
            Row(None, model, _beside(item, of[item.id]), pictured=False)
            for model, of in judged
            if item.id in of and of[item.id].steps
        ]
        seen = f"reviewed by {item.reviewed_by}" if item.reviewed_by else "draft"
        tags = (item.source, item.modality, item.format, seen)
        yield Card(item.id, tuple(t for t in tags if t), tuple(rows), lambda ref: read_image(ref, root))


def _beside(item: Item, judged: Judged) -> tuple[Cell, ...]:
    matches = {m.step: m for m in judged.matches or ()}
    hit: dict[int, dict[str, list[str]]] = {}
    reference = []
    for step in item.steps:
        m = matches.get(step.id)
        where = "not judged" if m is None else "could not be read" if m.label is None else m.label.value
        if m is not None and m.predicted is not None:
            how = "matches" if m.label is Level.MATCH else "in part"
            hit.setdefault(m.predicted, {}).setdefault(how, []).append(str(step.id))
            where += f" with step {m.predicted}"
        name = f"{step.id} ({'+'.join(SHORT[t] for t in step.types)})"
        reference.append(Reply(name, _GLYPH[m.label if m else None], f"{where}: {step.content}"))
    chain = []
    for n, said in enumerate(judged.steps, 1):
        if n <= SHOWN or n in hit:
            told = "; ".join(f"{how} {', '.join(ids)}" for how, ids in hit.get(n, {}).items()) or "unmatched"
            glyph: Glyph = "c" if "matches" in hit.get(n, {}) else "p" if n in hit else "o"
            chain.append(Reply(str(n), glyph, f"{told}: {_cut(said)}"))
    if more := len(judged.steps) - len(chain):
        chain.append(Reply("", "o", f"and {more:,} steps more, all unmatched"))
    marks = [
        Reply(f"{SHORT[r.dimension]}, {r.points} points", _mark_glyph(m.satisfied),
              r.question + (" Made up." if m.hallucination else "")
              + (f" Steps {', '.join(map(str, m.evidence))}." if m.evidence else ""))
        for r, m in zip(item.full_rubric, judged.marks or (), strict=False)
    ]  # fmt: skip
    return (
        Cell("Reference steps", "matched or not", "", tuple(reference)),
        Cell(f"Chain ({judged.kind})", f"steps: {len(judged.steps)}", "; ".join(judged.notes), tuple(chain)),
        Cell("Rubric", "yes, or no", "", tuple(marks)),
    )


def _mark_glyph(satisfied: bool | None) -> Glyph:
    return "u" if satisfied is None else "c" if satisfied else "i"


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 400 else f"{flat[:399]}…"
