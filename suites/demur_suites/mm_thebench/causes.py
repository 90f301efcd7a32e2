"""Why did a system make something up? The wrong answers of any run, each with a cause and the evidence it was given.

Rules name the causes they can prove: the wrong answer is in the evidence, or a calculation in the chain is wrong. A
model, where one is given, reads chain and evidence and names one of `CAUSES`; the steps and evidence that it names must
exist, and its quote must be in them. Chains are judged by the three base rubric items, or in full where reference items
for the samples are given.
"""

from __future__ import annotations

import json
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from demur.answers import holds
from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Outcome, Record, Response, Sample, Scenario
from demur.core.store import read_json, seed_of, write_records
from demur.evaluation.rejudge import answered_tasks
from demur.evaluation.run_folder import Task
from demur.judge.measures.rates import share_of
from demur.judge.model import target
from demur.judge.untrusted_answer import clean
from demur.models.run import run_sync
from demur.release import Release
from demur.reports.data import judged_rows
from demur.reports.tables import Cell as Value
from demur.reports.tables import Column, Table, texts
from demur_suites.gallery import Card, Cell, Reply, Row, write_gallery
from demur_suites.mm_thebench.chains import (
    LONGEST,
    PART,
    chain_of,
    cut_by_cues,
    final_answer,
    groups,
    numbered,
    sentences,
)
from demur_suites.mm_thebench.items import Item
from demur_suites.mm_thebench.judging import ChainJudge, all_of, listed, reply_schema, whole
from demur_suites.mm_thebench.measures import Judged
from demur_suites.tables import table
from demur_suites.taxonomy import CAUSES, Cause

NOT_FOUND = "no cause found"
SHOWN = 60
"""Steps of a chain that the page shows, beside the wrong one."""
SHORT = 12
"""Most words of an answer that rules look for in evidence: of a longer one they cannot tell which are the claim."""


class Piece(NamedTuple):
    """A piece of evidence that the system was given."""

    id: str
    title: str
    text: str
    gold: bool
    picture: bool


class Reason(Record):
    """Why one answer is wrong.

    Attributes:
        ask: id of the ask.
        sample: id of the sample.
        scenario: of the ask.
        answer: the system's final answer.
        shown: ids of the evidence it was given, in order.
        stands_in: those that hold the wrong answer, by rule; None where rules cannot tell (a long answer, pictures).
        cause: None where neither rules nor the judge name one.
        by: who names the cause.
        evidence: ids of the evidence that the cause is about.
        step: number of the wrong step; None where none is named.
        quote: words of that step or evidence.
        disputed: the judge's cause contradicts what rules prove.
        judged: the chain at three levels, or its base rubric; None without a judge.
        notes: questions that the judge did not answer.
    """

    ask: str
    sample: str
    scenario: Scenario
    answer: str
    shown: tuple[str, ...] = ()
    stands_in: tuple[str, ...] | None = None
    cause: Cause | None = None
    by: Literal["rule", "judge", ""] = ""
    evidence: tuple[str, ...] = ()
    step: int | None = None
    quote: str = ""
    disputed: bool = False
    steps: tuple[str, ...] = ()
    judged: Judged | None = None
    notes: tuple[str, ...] = ()


class Causes(NamedTuple):
    """The causes of a run's wrong answers.

    Attributes:
        system: its name.
        reasons: one for each wrong answer, in the order of the run.
        counts: scenario -> answers that were graded, unjudged (the run's judge could not say), failed (no usable
            answer), and, of those graded, wrong: more than the reasons where there was a limit.
    """

    system: str
    reasons: tuple[Reason, ...]
    counts: dict[str, Counter[str]]


# --- what rules prove ------------------------------------------------------------------------------

_SUM = re.compile(
    r"(?<![\d.,*/×x+-])(?<![*/×x+-] )"
    r"(-?\d[\d,]{0,15}(?:\.\d{1,9})?) ?([-+*×x/÷−]) ?(-?\d[\d,]{0,15}(?:\.\d{1,9})?) ?= ?"
    r"(-?\d[\d,]{0,15}(?:\.\d{1,9})?)(?![\d,.]*\d| ?[*/×x÷+])"
)
_DO: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "−": operator.sub,
    "*": operator.mul,
    "×": operator.mul,
    "x": operator.mul,
    "/": operator.truediv,
    "÷": operator.truediv,
}


def wrong_sum(text: str) -> str:
    """The first calculation "a + b = c" of a text that is wrong by more than rounding; "" where there is none.

    >>> wrong_sum("So 867 + 814 = 1,681 km, and 10 / 3 = 3.3"), wrong_sum("404 + 218 = 612 km")
    ('', '404 + 218 = 612')
    """
    for found in _SUM.finditer(text):
        a, b, c = (float(found[k].replace(",", "")) for k in (1, 3, 4))
        if found[2] in "/÷" and not b:
            continue
        digits = len(found[4].partition(".")[2])
        if abs(_DO[found[2]](a, b) - c) > 1.01 * 10.0**-digits * (
            1 if found[2] in "/÷" or digits else 0.01
        ):
            return found[0]
    return ""


def by_rules(
    answer: str, steps: Sequence[str], pieces: Sequence[Piece], answers: AnswerSpec
) -> dict[str, Any]:
    """Fields of `Reason` that rules prove."""
    for number, step in enumerate(steps, 1):
        if bad := wrong_sum(step):
            return {"cause": "arithmetic", "by": "rule", "step": number, "quote": bad}
    if (
        not answer or len(answer.split()) > SHORT or holds(answers, answer)
    ):  # partly right: which words are wrong?
        return {}
    claim = AnswerSpec(accepted=((answer,),))
    here = tuple(p.id for p in pieces if holds(claim, f"{p.title}\n{p.text}"))
    if here:
        against = any(p.gold and p.id not in here and holds(answers, p.text) for p in pieces)
        cause = "ignored conflict" if against else "misread evidence"
        return {"stands_in": here, "cause": cause, "by": "rule", "evidence": here}
    if any(p.picture for p in pieces):
        return {}
    return {"stands_in": (), "cause": "parametric override", "by": "rule"}


# --- what a judge says -----------------------------------------------------------------------------


def judged_reason(
    reply: Any, steps: Sequence[str], pieces: Sequence[Piece], rule: Mapping[str, Any]
) -> dict[str, Any]:
    """Fields of `Reason` from a judge's reply; {} where it names no cause of ours."""
    if not isinstance(reply, dict) or reply.get("cause") not in [*CAUSES]:
        return {}
    cause, step, given, quote = (reply.get(name) for name in ("cause", "step", "evidence", "quote"))
    numbers = (
        [n for n in given if type(n) is int and 1 <= n <= len(pieces)]
        if isinstance(given, list)
        else []
    )
    linked = tuple(dict.fromkeys(pieces[n - 1].id for n in numbers))
    step = step if type(step) is int and 1 <= step <= len(steps) else None
    sources = [
        *(steps[step - 1 : step] if step else steps),
        *(p.text for p in pieces if not linked or p.id in linked),
    ]
    found = (
        isinstance(quote, str) and quote.strip() and any(_flat(quote) in _flat(s) for s in sources)
    )
    disputed = (cause == "parametric override" and bool(rule.get("stands_in"))) or (
        cause in ("misread evidence", "ignored conflict") and not pieces
    )
    return {
        "cause": cause,
        "by": "judge",
        "evidence": linked or rule.get("evidence", ()),
        "step": step,
        "quote": str(quote)[:300] if found else "",
        "disputed": disputed,
    }


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()


async def _asked(
    judge: ChainJudge,
    task: Task,
    answer: str,
    steps: Sequence[str],
    pieces: Sequence[Piece],
    notes: set[str],
) -> Any:
    """The judge's reply on one wrong answer; long steps and evidence are cut to fit."""
    room = PART // max(1, len(pieces))
    evidence = [
        {
            "evidence": n,
            "title": clean(p.title),
            "text": "[a picture]" if p.picture else clean(p.text)[:room],
        }
        for n, p in enumerate(pieces, 1)
    ]
    runs = groups(steps)
    first, run = runs[-1] if runs else (1, [])  # the answer comes from the end of a long chain
    schema = reply_schema(
        cause={"type": "string", "enum": [*CAUSES]},
        step=whole(0, first + len(run) - 1),
        evidence=listed(whole(1, max(1, len(pieces))), len(pieces)),
        quote={"type": "string"},
    )
    return await judge.reply(
        "why",
        task.ask.id,
        256,
        notes,
        schema=schema,
        question=task.ask.question,
        answer=target(task.sample.answers),
        reply=clean(answer)[:1000],
        evidence="\n".join(json.dumps(e, ensure_ascii=False) for e in evidence) or "(none)",
        steps=numbered(run, first) or "(none)",
    )


# --- a run -----------------------------------------------------------------------------------------


def pieces_of(task: Task, response: Response) -> list[Piece]:
    """The evidence that the system was given, or retrieved itself."""
    gold = {e.id for e in task.sample.gold}
    shown = [
        Piece(e.id, e.title, e.text or "", e.id in gold, e.text is None) for e in task.ask.evidence
    ]
    return shown or [
        Piece(r.id or f"retrieved-{r.rank}", "", r.text, r.id in gold, False)
        for r in response.retrieved
    ]


def find_causes(
    folder: Path,
    release: Release,
    judge: ChainJudge | None = None,
    *,
    scenarios: Sequence[str] = (),
    limit: int | None = None,
    items: Mapping[str, Item] | None = None,
    progress: Callable[[int], None] = lambda n: None,
) -> Causes:
    """Why the wrong answers of a run are wrong.

    Args:
        folder: of the run.
        release: of the run.
        judge: reads chains and evidence; None for rules.
        scenarios: only these; all where empty.
        limit: most wrong answers of a scenario, drawn by the hash of their ask.
        items: sample id -> reference item, to judge chains against reference steps.
        progress: called with the number of answers examined.

    Raises:
        UsageError: the run is of another release or not finished, or has no such scenario.
    """
    outcome = {row.ask: (row.outcome, row.status.value) for row in judged_rows(folder, "")}
    tasks = [
        (t, r)
        for t, r in answered_tasks(folder, release)
        if not scenarios or t.context.scenario in scenarios
    ]
    if not tasks:
        held = ", ".join(
            sorted({t.context.scenario.value for t, _ in answered_tasks(folder, release)})
        )
        raise UsageError(
            f"no question of scenario {', '.join(scenarios)}",
            item=str(folder),
            cure=f"it has {held}",
        )
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    wrong: dict[str, list[tuple[Task, Response]]] = {}
    for task, response in tasks:
        graded, status = outcome.get(task.ask.id, (None, "unjudged"))
        scenario = task.context.scenario.value
        counts[scenario][status] += 1
        if graded is Outcome.INCORRECT:
            counts[scenario]["wrong"] += 1
            wrong.setdefault(scenario, []).append((task, response))
    if limit is not None:
        wrong = {
            s: sorted(of, key=lambda p: seed_of("why", p[0].ask.id))[:limit]
            for s, of in wrong.items()
        }
    chosen = {task.ask.id for of in wrong.values() for task, _ in of}
    work = [(t, r) for t, r in tasks if t.ask.id in chosen]
    references = items or {}

    async def one(task: Task, response: Response) -> Reason:
        text = chain_of(response).text[:LONGEST]
        pieces, answer = pieces_of(task, response), final_answer(response.text)
        judged = None
        if judge is not None:
            item = references.get(task.sample.id) or _bare(task.sample)
            judged = await judge.judge(item, response, answers=task.sample.id in references)
        steps = judged.steps if judged else tuple(cut_by_cues(sentences(text)))
        rule = by_rules(answer, steps, pieces, task.sample.answers)
        notes = set(judged.notes if judged else ())
        reply = await _asked(judge, task, answer, steps, pieces, notes) if judge else None
        return Reason.model_validate(
            {
                "ask": task.ask.id,
                "sample": task.sample.id,
                "scenario": task.context.scenario,
                "answer": answer[:1000],
                "shown": [p.id for p in pieces],
                "steps": steps,
                "judged": judged,
                "notes": sorted(notes),
                **rule,
                **judged_reason(reply, steps, pieces, rule),
            }
        )

    reasons = run_sync(all_of(judge, [one(t, r) for t, r in work], progress))
    system = str(read_json(folder / "manifest.json").get("system", folder.name))
    return Causes(system, tuple(reasons), counts)


def _bare(sample: Sample) -> Item:
    """A sample as an item without reference steps: judged by the base rubric alone."""
    return Item(id=sample.id, question=sample.question, answers=(target(sample.answers),))


def write_causes(
    found: Causes, folder: Path, release: Release, name: str, out: Path | None = None
) -> Path:
    """Write ``reasoning/NAME.jsonl`` in the run's folder, and the page ``out`` if given; returns the last one."""
    path = folder / "reasoning" / (re.sub(r"[^\w.@+-]+", "-", name)[:80] + ".jsonl")
    write_records(path, found.reasons)
    return path if out is None else page(found, folder, release, out)


def cause_tables(found: Causes) -> list[Table]:
    """Causes by scenario, each with n; and the base rubric of the chains where a judge read them."""
    rows: list[Sequence[Value]] = []
    rules = set()
    wrong = {scenario: of for scenario, of in sorted(found.counts.items()) if of["wrong"]}
    for scenario in wrong:
        of = [r for r in found.reasons if r.scenario == scenario]
        rules.add(len(rows))
        for cause in (*CAUSES, None):
            some = [r for r in of if r.cause == cause]
            if some:
                counts = sum(bool(r.evidence) for r in some), sum(r.disputed for r in some)
                share = share_of("share", len(some), len(of))
                rows.append((scenario, cause or NOT_FOUND, len(some), share, *counts))
    notes = [
        f"{s}: {of['wrong']} wrong of {of['graded']} graded answers ({of['unjudged']} unjudged, {of['failed']} failed)"
        + (
            f"; {k} of the wrong ones drawn."
            if (k := sum(r.scenario == s for r in found.reasons)) < of["wrong"]
            else "."
        )
        for s, of in wrong.items()
    ]
    notes += [
        f"{cause}: {CAUSES[cause]}."
        for cause in CAUSES
        if any(r.cause == cause for r in found.reasons)
    ]
    lost = Counter(note for r in found.reasons for note in r.notes)
    notes += [
        f"{n} of {len(found.reasons)} wrong answers: {note}." for note, n in sorted(lost.items())
    ]
    by = Counter(r.by or "nobody" for r in found.reasons)
    names = ", ".join(f"{k} {n}" for k, n in sorted(by.items())) or "nobody"
    notes.append(f"Causes named by: {names}. Intervals: Wilson, 95 %.")
    notes.append(
        "disputed: the judge blames memory although the answer is in the evidence, or evidence where none was."
    )
    columns: tuple[str | Column, ...] = (
        *texts("Scenario", "Cause"),
        "Wrong answers",
        Column("Share (%)", interval=True),
        "linked to evidence",
        "disputed",
    )
    return [
        table(
            "reasoning-causes",
            f"Why {found.system} answered wrongly.",
            columns,
            rows,
            *notes,
            rules=rules,
        )
    ]


def around(text: str, reason: Reason, most: int = 500) -> str:
    """The part of a text that a page shows: its beginning, or the place of the quote or the wrong answer.

    >>> r = Reason(ask="a", sample="s", scenario=Scenario.ADVERSARIAL, answer="116")
    >>> around("Airports: 116 (2025)", r), around("far " * 90 + "off: 116. " + "end " * 90, r, 20)
    ('Airports: 116 (2025)', '… off: 116. end end en …')
    """
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    low = flat.casefold()
    at = next((k for w in (reason.quote, reason.answer) if w and (k := low.find(_flat(w))) >= 0), 0)
    start = max(0, min(at - most // 4, len(flat) - most))
    end = start + most
    return f"{'… ' if start else ''}{flat[start:end].strip()}{' …' if end < len(flat) else ''}"


def page(found: Causes, folder: Path, release: Release, out: Path) -> Path:
    """One page: the tables, and each wrong answer with its evidence, its links, and the chain."""
    tasks = {t.ask.id: (t, r) for t, r in answered_tasks(folder, release)}

    def card(reason: Reason) -> Card:
        task, response = tasks[reason.ask]
        pieces = [
            Reply(
                p.id,
                "c" if p.gold else "i" if p.id in reason.evidence else "o",
                ("[linked] " if p.id in reason.evidence else "")
                + (
                    f"{p.title} [a picture]"
                    if p.picture
                    else f"{p.title}: {around(p.text, reason)}"
                ),
            )
            for p in pieces_of(task, response)
        ]
        steps = [
            Reply(str(n), "i" if n == reason.step else "o", " ".join(s.split())[:400])
            for n, s in enumerate(reason.steps, 1)
            if n <= SHOWN or n == reason.step
        ]
        if more := len(reason.steps) - len(steps):
            steps.append(Reply("", "o", f"and {more:,} steps more"))
        answer = Reply(found.system, "i", reason.answer)
        named = reason.cause or NOT_FOUND
        quote = f" “{reason.quote}”" if reason.quote else ""
        cells = (
            Cell("Question", task.ask.question, target(task.sample.answers), (answer,)),
            Cell(
                "Evidence shown",
                f"pieces: {len(pieces)}",
                f"{named}, by {reason.by or 'nobody'}{quote}",
                tuple(pieces),
            ),
            Cell("Chain", f"steps: {len(reason.steps)}", "", tuple(steps)),
        )
        row = Row(task.ask.images[0] if task.ask.images else None, reason.sample, cells)
        tags = (reason.scenario.value, named)
        return Card(reason.sample, tags, (row,), release.read_image)

    return write_gallery(
        out,
        title=f"Why {found.system} answered wrongly",
        cards=map(card, found.reasons),
        tables=cause_tables(found),
        about="Each wrong answer: its cause, the evidence shown (gold ✓, linked ✗), the wrong step.",
    )
