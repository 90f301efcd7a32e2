"""What becomes of each question: a sample, a drop with its reason, or a wait for a person's review."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from demur.answers import holds
from demur.core.records import AnswerSpec, Document, Drop, Evidence, Role, Sample
from demur.core.store import Problems
from demur.core.turns import ATTRIBUTE, as_messages
from demur.corpora.leaks import unfit_reason
from demur.corpora.lineage import document_of
from demur.curation.from_docs.gold import Proposal
from demur.curation.from_docs.questions import Question
from demur.curation.from_docs.review import YES, key_of

STAGE = "questions"
"""Of the drops."""


class Outcome(NamedTuple):
    """The result for one question."""

    sample: Sample | None
    why: str = ""
    """Why it was dropped; "" if it was not."""
    reviewed: bool = False
    """Whether a person, or the question's own row, decided what is gold."""


@dataclass(frozen=True)
class Outcomes:
    """The results for all questions."""

    of_question: Mapping[str, Outcome | None]
    """Question -> its result; None while it waits for review."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """Questions that wait for review."""
        return tuple(id for id, outcome in self.of_question.items() if outcome is None)

    @property
    def drops(self) -> list[Drop]:
        """Questions that cannot be used, with the reason."""
        return [
            Drop(sample=id, stage=STAGE, reason=outcome.why)
            for id, outcome in self.of_question.items()
            if outcome is not None and outcome.why
        ]

    @property
    def samples(self) -> list[Sample]:
        """Questions that can be used."""
        outcomes = filter(None, self.of_question.values())
        return [outcome.sample for outcome in outcomes if outcome.sample is not None]

    @property
    def reviewed(self) -> int:
        """Samples whose gold a person, or the question's own row, decided."""
        outcomes = filter(None, self.of_question.values())
        return sum(outcome.reviewed for outcome in outcomes if outcome.sample is not None)


def decide_outcome(
    question: Question,
    passages_of_id: Mapping[str, list[Document]],
    proposals: Sequence[Proposal],
    labels: Mapping[str, str],
    *,
    accept_found: bool,
) -> Outcome | None:
    """The outcome of a question; None while it waits for review.

    Args:
        passages_of_id: id of a passage, document or page -> its passages.
        proposals: passages that may answer it, likeliest first.
        labels: of the review.
        accept_found: take the likeliest passage with its answer without a review.
    """
    own_gold = _own_gold(question, passages_of_id)
    if question.gold and not own_gold:
        return Outcome(None, "its gold is not among the documents")
    if question.answerable is False or own_gold:
        return _accept_if_fit(question, own_gold, reviewed=True)
    proposal_labels = [labels.get(key_of(question, p.document), "") for p in proposals]
    labelled = list(zip(proposals, proposal_labels, strict=True))
    if gold := [proposal.document for proposal, label in labelled if label == YES]:
        return _accept_if_fit(question, gold, reviewed=True)
    if all(proposal_labels):
        return _decline_all(question, proposals)
    if not accept_found:
        return None
    for proposal, label in labelled:
        if proposal.states and not label:
            return _accept_if_fit(question, [proposal.document], reviewed=False)
    if question.answers:
        return Outcome(None, "no passage holds its answer")
    return Outcome(None, "no passage was confirmed as its gold")


def _decline_all(question: Question, proposals: Sequence[Proposal]) -> Outcome:
    """The outcome of a question that no proposal answers, or for which nothing was found."""
    if question.answers:
        return Outcome(None, "no passage answers it")
    if question.answerable is None and proposals:
        return _accept_if_fit(question._replace(answerable=False), (), reviewed=True)
    return Outcome(None, "no passage was found")


def answer_spec(question: Question) -> AnswerSpec:
    """What a question accepts as an answer."""
    if question.answerable is False:
        return AnswerSpec(kind="none")
    if not question.answers:
        return AnswerSpec(kind="unknown")
    return AnswerSpec(accepted=tuple((answer,) for answer in question.answers))


def unknown_gold(
    questions: Sequence[Question], passages_of_id: Mapping[str, list[Document]], docs: Path
) -> Problems:
    """A problem for each gold id that is not among the documents."""
    problems = Problems()
    like = f"write ids as the documents have them, such as {next(iter(passages_of_id), '')!r}"
    for question in questions:
        for id in question.gold:
            if id not in passages_of_id:
                problems.add(
                    question.place, f"gold {id!r} is not among the documents of {docs}; {like}"
                )
    return problems


def _own_gold(question: Question, passages_of_id: Mapping[str, list[Document]]) -> list[Document]:
    """The passages that a question's own row names; of a document that was cut, those with the answer, or all."""
    own_passages: dict[str, Document] = {}
    spec = answer_spec(question)
    for id in question.gold:
        parts = passages_of_id.get(id, [])
        with_answer = [d for d in parts if holds(spec, f"{d.title}\n{d.text or ''}", question.text)]
        own_passages |= {d.id: d for d in with_answer or parts}
    return list(own_passages.values())


def _accept_if_fit(question: Question, gold: Sequence[Document], *, reviewed: bool) -> Outcome:
    spec = answer_spec(question)
    sample = Sample(
        id=question.id,
        source="docs",
        question=question.text,
        answers=spec,
        answerable=spec.kind != "none",
        gold=tuple(Evidence.of(d, Role.GOLD) for d in gold),
        topic=question.topic,
        source_ref=question.place,
        attributes={ATTRIBUTE: json.dumps(as_messages(question.turns), ensure_ascii=False)}
        if question.turns
        else {},
        cluster=document_of(gold[0]) if gold else question.id,
        licence="",
    )
    why = unfit_reason(sample, lambda image: None) if sample.answerable else ""
    return Outcome(None, why) if why else Outcome(sample, reviewed=reviewed)


def answer_kind(sample: Sample) -> str:
    """``answered``, ``gold alone`` or ``unanswerable``."""
    return {"none": "unanswerable", "unknown": "gold alone"}.get(sample.answers.kind, "answered")
