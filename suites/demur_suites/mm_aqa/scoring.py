"""From replies to a model's score: every item under every condition falls into one of five cells, or beside them.

Beside them, and counted: *malformed* (a field of the schema is missing), *failed* (the call), *unjudged* (the judge
could not grade the answer), *not asked*. Under vconf a confidence of at most tau is an abstention.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from demur.core.records import Outcome, Response, Sample, Status
from demur.judge.base import JudgeContext, close_judge, open_judge
from demur.judge.grading import Grading
from demur_suites.grading import ask_of
from demur_suites.mm_aqa.conditions import CONDITIONS, question_id
from demur_suites.mm_aqa.items import Item
from demur_suites.mm_aqa.measures import Confidences, Matrix
from demur_suites.mm_aqa.replies import Reply, read_reply
from demur_suites.records import Grade, Grader, Scored

BESIDE = ("malformed", "failed", "unjudged", "not asked")


class Row(NamedTuple):
    """One item under one condition.

    Attributes:
        item: the item.
        reply: as read; an empty one without a response.
        fell: ``tp`` ``fp`` ``fn`` ``tn`` ``au``, or one of `BESIDE`.
        said: the same by the reply alone, whatever confidence it states.
        response: None where the item was not asked.
    """

    item: Item
    reply: Reply
    fell: str
    said: str
    response: Response | None


class Score(NamedTuple):
    """The results of a model.

    Attributes:
        model: its name.
        rows: by condition, in the order of the items.
        tau: confidences up to it are abstentions, under vconf.
        grouping: of transformations into categories.
        diagnostic: the condition of the table by category.
        seed: of folds.
    """

    model: str
    rows: Mapping[str, tuple[Row, ...]]
    tau: int
    grouping: str
    diagnostic: str
    seed: int

    def of(self, subset: str, condition: str) -> list[Row]:
        """Rows of a subset under a condition, those not asked left out."""
        return [
            r
            for r in self.rows.get(condition, ())
            if r.item.subset == subset and r.fell != "not asked"
        ]

    def matrix(self, subset: str, condition: str) -> Matrix:
        """The five counts."""
        return matrix_of(self.of(subset, condition))

    def conditions(self, subset: str) -> list[str]:
        """The conditions that a subset was asked under."""
        return [c for c in CONDITIONS if self.of(subset, c)]

    def fixed_matrix(self, subset: str, condition: str) -> Matrix:
        """The five counts over all items that were asked: a reply beside the cells counts as a wrong answer."""
        m, beside = self.matrix(subset, condition), Counter[bool]()
        beside.update(r.item.answerable for r in self.of(subset, condition) if r.fell in BESIDE)
        return m._replace(fp=m.fp + beside[True], au=m.au + beside[False])

    def beside(self, subset: str, condition: str) -> Counter[str]:
        """Replies in none of the five cells."""
        return Counter(r.fell for r in self.of(subset, condition) if r.fell in BESIDE)


def matrix_of(rows: Sequence[Row]) -> Matrix:
    """The five counts of some rows."""
    counts = Counter(r.fell for r in rows)
    return Matrix(*(counts[name] for name in Matrix._fields))


def score(
    model: str,
    items: Sequence[Item],
    scored: Mapping[str, Scored],
    *,
    tau: int,
    grouping: str,
    diagnostic: str,
    seed: int,
) -> Score:
    """The score of a model from its graded replies by question id; the options are those of `suite.MMAQA`."""
    rows: dict[str, tuple[Row, ...]] = {}
    for condition in CONDITIONS:
        replies = [(item, scored.get(question_id(item.id, condition))) for item in items]
        rows[condition] = tuple(_row(item, reply) for item, reply in replies)
    return Score(model, rows, tau, grouping, diagnostic, seed)


def _row(item: Item, scored: Scored | None) -> Row:
    if scored is None or scored.grade is None:
        return Row(item, Reply(), "not asked", "not asked", None)
    row: Row | None = scored.grade.reading
    return row or Row(item, Reply(), "unjudged", "unjudged", scored.response)


@asynccontextmanager
async def grading(
    items: Sequence[Item], *, tau: int, parser: str, abstain: str, judge: str, ledger: str
) -> AsyncIterator[Grader]:
    """Grades replies to these items under the conditions that their questions' ids name."""
    of_id = {item.id: item for item in items}
    answers = open_judge(judge, JudgeContext(ledger=Path(ledger)))
    verdicts = Grading(answers)

    async def judged(item: Item, question: Sample, answer: str) -> str:
        ask = ask_of(
            question.id,
            item.question,
            sample=item.id,
            images=item.images,
            choices=item.answers.choices,
        )
        verdict = await verdicts.verdict(ask, Response(text=answer), item.answers)
        return _CELLS.get(verdict.outcome, "unjudged")

    async def grade(response: Response, question: Sample) -> Grade:
        id, _, condition = question.id.rpartition("@")
        item = of_id[id]
        reply = read_reply(response, condition, parser, abstain)
        cell = ""
        if item.answerable and not reply.problem and not reply.abstains:
            cell = await judged(item, question, reply.answer)
        said = _cell(item, reply, cell, abstain)
        unsure = reply.confidence is not None and reply.confidence <= tau
        fell = _abstention(item) if unsure else said
        status, outcome = GRADES[fell]
        why = f"{reply.problem}: {reply.detail}" if reply.problem else fell
        return Grade(status, outcome, why, Row(item, reply, fell, said, response))

    try:
        yield grade
    finally:
        verdicts.close()
        await close_judge(answers)


def _abstention(item: Item) -> str:
    return "fn" if item.answerable else "tn"


def _cell(item: Item, reply: Reply, graded: str, abstain: str) -> str:
    """The cell of a reply, or what keeps it out of all; ``graded`` is "" where no judge was asked."""
    if reply.problem:
        return reply.problem
    if reply.abstains:
        return _abstention(item)
    if not item.answerable:
        return "au"
    return "fp" if graded == "fn" and abstain == "substring" else graded


_CELLS: dict[Outcome | None, str] = {
    Outcome.CORRECT: "tp",
    Outcome.INCORRECT: "fp",
    Outcome.DEFLECTED: "fn",
}


GRADES: dict[str, tuple[Status, Outcome | None]] = {
    "tp": (Status.GRADED, Outcome.CORRECT),
    "fp": (Status.GRADED, Outcome.INCORRECT),
    "fn": (Status.GRADED, Outcome.DEFLECTED),
    "tn": (Status.GRADED, Outcome.DEFLECTED),
    "au": (Status.GRADED, Outcome.INCORRECT),
    "malformed": (Status.FAILED, None),
    "failed": (Status.FAILED, None),
    "unjudged": (Status.UNJUDGED, None),
}
"""Where a reply fell -> its verdict in the rows of a run."""
DECIDING = ("tau", "parser", "abstain", "judge", "ledger")
"""Options that grading takes."""


Confidence = Callable[[Row], float | None]
# --- confidences -----------------------------------------------------------------------------------


def verbal(row: Row) -> float | None:
    """The stated confidence, 1 to 5."""
    return None if row.reply.confidence is None else float(row.reply.confidence)


def computed(row: Row) -> float | None:
    """The confidence in [0, 1] that a method computed: P(True), a share of votes."""
    return None if row.response is None else row.response.computed_confidence


def own(row: Row) -> float | None:
    """The confidence in [0, 1] that a system gives without being asked for one."""
    return None if row.response is None else row.response.confidence


def max_prob(row: Row) -> float | None:
    """Exp of the mean log-probability of the final answer's tokens; of the whole reply where they are not marked."""
    tokens = row.response.logprobs if row.response is not None else ()
    if not tokens:
        return None
    text = "".join(t.token for t in tokens)
    mark = [m.end() for m in re.finditer(r"FINAL ANSWER\W*", text, re.IGNORECASE)]
    end = (
        re.search(r"(?<!\W)[^\w\n]*+(\n)\W*+CONFIDENCE", text[mark[-1] :], re.IGNORECASE)
        if mark
        else None
    )
    first, last = (
        (mark[-1] if mark else 0),
        (mark[-1] + end.start(1) if mark and end else len(text)),
    )
    logprobs, at = [], 0
    for t in tokens:
        if at + len(t.token) > first and at < last:
            logprobs.append(t.logprob)
        at += len(t.token)
    logprobs = [p for p in logprobs or [t.logprob for t in tokens] if math.isfinite(p)]
    return math.exp(sum(logprobs) / len(logprobs)) if logprobs else None


def confidences(rows: Sequence[Row], confidence: Confidence) -> Confidences | None:
    """Rows whose reply is in a cell and has a confidence, as arrays; None when there is none."""
    sure_rows = [
        (r, c)
        for r in rows
        if r.said in Matrix._fields and (c := confidence(r)) is not None and math.isfinite(c)
    ]
    if not sure_rows:
        return None
    return Confidences(
        np.array([c for _, c in sure_rows], dtype=np.float64),
        np.array([r.said == "tp" for r, _ in sure_rows], dtype=bool),
        np.array([r.item.answerable for r, _ in sure_rows], dtype=bool),
        np.array([r.said in ("fn", "tn") for r, _ in sure_rows], dtype=bool),
        np.array(
            [r.item.pair for r, _ in sure_rows]
        ),  # by name: folds do not depend on the order of the items
    )
