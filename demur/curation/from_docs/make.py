"""A user's own documents and questions -> a frozen release, and corpora for a RAG system with its own index.

    DOCS --read, chunk--> passages --index--> Finder
    QUESTIONS --Finder--> proposals --a person's yes or no--> samples with gold
    samples --BM25, without leaks--> distractors --freeze, verify--> OUT/release, OUT/corpora

Needs no download and no model. A question with an answer and gold is a sample like any other. With gold alone, only
retrieval of gold and deflection can be measured. A question that no document answers must be declined. Questions that
cannot be used are dropped with the reason (``OUT/release/drops.jsonl``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from demur.answers import holds
from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import AnswerSpec, Document, Drop, Evidence, Role, Sample
from demur.core.store import Problems, digest, locked
from demur.core.turns import ATTRIBUTE, as_messages
from demur.core.uris import read_image
from demur.corpora import docs as docs_reader
from demur.corpora import read_corpus
from demur.corpora.leaks import unfit_reason
from demur.corpora.lineage import document_of, page_of
from demur.curation.from_docs.gold import Finder, Proposal
from demur.curation.from_docs.questions import Question, read_questions
from demur.curation.from_docs.review import YES, key_of, read_review, write_review
from demur.curation.mining.choose import mine_kind
from demur.curation.mining.options import MiningOptions
from demur.indexing.chunk import Chunker, open_chunker
from demur.release import Draft, FunnelStep, Release, check_target, freeze, open_sound
from demur.release.corpora import export
from demur.release.layout import tally

STAGE = "questions"
CUT = "250:32"
"""Words per passage, and words shared with the passage before."""
NO_GATE = "Made from documents and questions of its owner; no gating model was asked, so a model may know answers by heart."
BY_SEARCH = "Gold evidence was proposed by a search for words and answer"


class DocsRelease(NamedTuple):
    """The result of `from_docs`."""

    release: Release | None
    """None while questions wait for review."""
    waiting: tuple[str, ...]
    """Ids of questions that wait for review."""
    review: Path
    """The labelling task: ``demur annotate --out REVIEW``."""
    corpora: Path
    """*full*, *gold-removed* and *empty*, as ``demur run --corpora`` takes them."""
    documents: int
    passages: int
    proposed: int
    """Passages that were proposed as gold."""
    drops: Mapping[str, Mapping[str, str]]
    """Reason -> the questions that it dropped: id -> text."""
    kinds: Mapping[str, int]
    """Kind of question -> how many are in the release (or would be): ``answered``, ``gold alone``, ``unanswerable``."""


class _Outcome(NamedTuple):
    """The result for one question."""

    sample: Sample | None
    why: str = ""
    """Why it was dropped; "" if it was not."""
    reviewed: bool = False
    """Whether a person, or the question's own row, decided what is gold."""


def from_docs(
    docs: Path,
    questions: Path,
    out: Path,
    *,
    name: str = "",
    version: str = "0.1.0",
    chunk: str = "auto",
    candidates: int = 3,
    distractors: int = 5,
    accept_found: bool = False,
    licence: str = "",
    skip_bad: bool = False,
    steps: Progress = QUIET,
) -> DocsRelease:
    """Make a release from documents and questions; call it again after the review of proposals.

    Args:
        docs: a folder or a file of documents (`demur.corpora.docs`), or a corpus by name (``jsonl:kb.jsonl?id=key``).
        questions: a list or a log of them (`demur.curation.from_docs.questions`).
        out: folder: ``release``, ``corpora``, ``review`` and working files.
        name: of the release; the folder of the documents when empty.
        version: of the release.
        chunk: ``SIZE:OVERLAP`` in words; ``auto`` cuts files by 250:32 and keeps rows of tables (chunks of a store) as
            they are; ``none`` cuts nothing.
        candidates: passages proposed for each question, at most.
        distractors: distractors of each question, at most.
        accept_found: do not wait for review: the likeliest passage with its answer becomes a question's gold, and
            questions without one are dropped. The card says so.
        licence: of the documents.
        skip_bad: leave out unreadable files and rows, and count them.
        steps: shows progress.

    Returns:
        The release, or the questions that wait for review.

    Raises:
        BadInput: unreadable files and rows, all together, unless ``skip_bad``.
        UsageError: an option is wrong, there are no documents or questions, all questions are dropped, or another call
            is writing to the folder.
        ReleaseError: the frozen folder did not pass its own verification (a defect of demur).
    """
    if candidates < 1 or distractors < 0:
        raise UsageError(
            f"{candidates} candidates, {distractors} distractors",
            cure="give 1 or more, and 0 or more",
        )
    docs = docs.resolve() if docs.exists() else docs  # "." has no name
    name = name or _plain_name(docs)
    check_target(out / "release", name, version)
    with locked(out / "work" / "lock", "making a release there"):
        problems = Problems()
        steps.stage("read documents and questions")
        questions_read = read_questions(questions, problems)
        whole_documents = _read_documents(
            docs, [questions, *out.rglob("*")], licence, problems
        )  # OUT may lie below DOCS
        problems.settle(skip_bad=skip_bad)
        passages = list(_cut_passages(whole_documents, chunk))
        by_document = _index_passages(passages)
        _unknown_gold(questions_read.distinct, by_document, docs).settle(skip_bad=skip_bad)
        steps.stage("search passages that answer")
        finder = Finder(passages, out / "work" / "bm25")
        proposals = {
            q.id: finder.proposals(q, _answer_spec(q), candidates)
            for q in questions_read.distinct
            if not q.gold and q.answerable is not False
        }
        review = out / "review"
        pairs = [(q, p) for q in questions_read.distinct for p in proposals.get(q.id, ())]
        proposed = write_review(review, pairs)
        labels = read_review(review)
        outcomes: dict[str, _Outcome | None] = {}
        for question in questions_read.distinct:
            own_gold = _own_gold(question, by_document)
            if question.gold and not own_gold:
                outcomes[question.id] = _Outcome(None, "its gold is not among the documents")
                continue
            outcomes[question.id] = _decide_outcome(
                question, own_gold, proposals.get(question.id, []), labels, accept_found
            )
        waiting = tuple(id for id, outcome in outcomes.items() if outcome is None)
        drops = [
            Drop(sample=i, stage=STAGE, reason=s.why)
            for i, s in outcomes.items()
            if s is not None and s.why
        ]
        texts = {question.id: question.text for question in questions_read.distinct}
        left_out: dict[str, dict[str, str]] = {}
        for drop in drops:
            left_out.setdefault(drop.reason, {})[drop.sample] = texts[drop.sample]
        samples = [s.sample for s in outcomes.values() if s is not None and s.sample is not None]
        result = DocsRelease(
            None,
            waiting,
            review,
            out / "corpora",
            len(whole_documents),
            len(passages),
            proposed,
            left_out,
            dict(Counter(_answer_kind(s) for s in samples)),
        )
        if waiting:
            return result
        if not samples:
            why = "; ".join(
                f"{reason} ({len(questions_dropped)})"
                for reason, questions_dropped in result.drops.items()
            )
            raise UsageError(
                f"all {len(questions_read.distinct)} questions are dropped: {why}",
                item=str(questions),
                cure="give answers that the documents hold, or say yes to some passages",
            )
        steps.stage("distractors, freeze and verify the release")
        reviewed = sum(
            s.reviewed for s in outcomes.values() if s is not None and s.sample is not None
        )
        open_image = partial(read_image, root=docs if docs.is_dir() else docs.parent)
        complete = [_with_distractors(s, finder, distractors) for s in samples]
        release = _freeze_release(
            out / "release",
            name,
            version,
            complete,
            drops,
            len(questions_read.distinct) + questions_read.repeated,
            questions_read.repeated,
            reviewed,
            docs,
            open_image,
        )
        export(
            out / "corpora",
            lambda: passages,
            list(release.samples()),
            read_image=open_image,
            about=f"{docs.name}, {len(passages):,} passages of {len(whole_documents):,} documents",
            release={"name": release.name, "version": release.version, "sha256": release.sha256},
        )
        return result._replace(release=release)


# --- documents -----------------------------------------------------------------------------------


def _read_documents(
    docs: Path, without: Sequence[Path], licence: str, problems: Problems
) -> list[Document]:
    if docs.exists():
        documents = docs_reader.documents(docs, problems, licence=licence, without=without)
    else:
        documents = read_corpus(str(docs), problems)
    document_of_id: dict[str, Document] = {}
    for document in documents:
        if document.id in document_of_id:
            problems.add(document.id, "two documents have this id")
        document_of_id[document.id] = document
    if not document_of_id and not len(problems):
        raise UsageError(
            "there is no document",
            item=str(docs),
            cure="give a folder of Markdown, text, HTML, PDF or JSONL",
        )
    return list(document_of_id.values())


def _cut_passages(documents: Sequence[Document], chunk: str) -> list[Document]:
    if chunk == "none":
        return list(documents)
    chunker: Chunker = open_chunker(CUT if chunk == "auto" else chunk)
    passages: list[Document] = []
    for document in documents:
        of_file = "format" in document.attributes
        passages += chunker.documents([document]) if of_file or chunk != "auto" else [document]
    return passages


def _index_passages(passages: Sequence[Document]) -> Mapping[str, list[Document]]:
    """Id of a passage, document or page -> its passages."""
    passages_of_id: dict[str, list[Document]] = {}
    for passage in passages:
        for id in dict.fromkeys((passage.id, document_of(passage), page_of(passage))):
            passages_of_id.setdefault(id, []).append(passage)
    return passages_of_id


# --- one question --------------------------------------------------------------------------------


def _answer_spec(question: Question) -> AnswerSpec:
    if question.answerable is False:
        return AnswerSpec(kind="none")
    if not question.answers:
        return AnswerSpec(kind="unknown")
    return AnswerSpec(accepted=tuple((answer,) for answer in question.answers))


def _unknown_gold(
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
    spec = _answer_spec(question)
    for id in question.gold:
        parts = passages_of_id.get(id, [])
        with_answer = [d for d in parts if holds(spec, f"{d.title}\n{d.text or ''}", question.text)]
        own_passages |= {d.id: d for d in with_answer or parts}
    return list(own_passages.values())


def _decide_outcome(
    question: Question,
    own_gold: Sequence[Document],
    proposals: Sequence[Proposal],
    labels: Mapping[str, str],
    accept_found: bool,
) -> _Outcome | None:
    """The outcome of a question; None while it waits for review."""
    spec = _answer_spec(question)
    if question.answerable is False or own_gold:
        return _accept_if_fit(question, spec, own_gold, reviewed=True)
    proposal_labels = [labels.get(key_of(question, p.document), "") for p in proposals]
    if gold := [
        p.document for p, label in zip(proposals, proposal_labels, strict=True) if label == YES
    ]:
        return _accept_if_fit(question, spec, gold, reviewed=True)
    if all(proposal_labels):  # none of them answers it, or nothing was found
        if question.answers:
            return _Outcome(None, "no passage answers it")
        if question.answerable is None and proposal_labels:
            return _accept_if_fit(question, AnswerSpec(kind="none"), (), reviewed=True)
        return _Outcome(None, "no passage was found")
    if not accept_found:
        return None
    states = next(
        (
            p.document
            for p, label in zip(proposals, proposal_labels, strict=True)
            if p.states and not label
        ),
        None,
    )
    if states is None:
        return _Outcome(
            None,
            "no passage holds its answer"
            if question.answers
            else "no passage was confirmed as its gold",
        )
    return _accept_if_fit(question, spec, [states], reviewed=False)


def _accept_if_fit(
    question: Question, spec: AnswerSpec, gold: Sequence[Document], *, reviewed: bool
) -> _Outcome:
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
    return _Outcome(None, why) if why else _Outcome(sample, reviewed=reviewed)


def _answer_kind(sample: Sample) -> str:
    return {"none": "unanswerable", "unknown": "gold alone"}.get(sample.answers.kind, "answered")


# --- the release ---------------------------------------------------------------------------------


def _with_distractors(sample: Sample, finder: Finder, most: int) -> Sample:
    """The sample with distractors: the nearest passages by its words that are not gold and lack its answer."""
    options = MiningOptions(text=0, lexical=most, visual=0)
    mined = mine_kind(
        "lexical", sample, finder.hits(sample.question_with_turns), finder.documents, options
    )
    return sample.model_copy(update={"negatives": mined.negatives})


def _freeze_release(
    out: Path,
    name: str,
    version: str,
    samples: Sequence[Sample],
    drops: Sequence[Drop],
    rows: int,
    repeated: int,
    reviewed: int,
    docs: Path,
    read: Any,
) -> Release:
    why = dict(Counter(d.reason for d in drops))
    funnel = [
        FunnelStep(stage=STAGE, entered=len(samples) + len(drops), kept=len(samples), dropped=why)
    ]
    unseen = len(samples) - reviewed
    limits = [NO_GATE]
    if reviewed:  # by a person; unanswerable ones are the owner's word too
        limits.append(
            f"Of {reviewed:,} of {len(samples):,} questions a person said what is gold, or that nothing is."
        )
    if unseen:
        limits.append(
            f"{BY_SEARCH}; of {unseen:,} of {len(samples):,} questions the likeliest passage that states the answer "
            "was taken without a look."
        )
    freeze(
        out,
        Draft(
            name=name,
            version=version,
            samples=samples,
            read_image=read,
            drops=drops,
            funnel=funnel,
            about={
                "sources": {
                    "docs": {
                        "sha256": digest([s.model_dump(mode="json") for s in samples]),
                        "licences": sorted(
                            {e.licence for s in samples for e in s.gold if e.licence}
                        ),
                    }
                },
                "from_docs": {
                    "documents": docs.name,
                    "rows": rows,
                    "asked twice": repeated,
                    "looked at": reviewed,
                },
                "pool_by_topic": tally(s.topic for s in samples),
                "limits": limits,
            },
        ),
    )
    return open_sound(out)


def _plain_name(docs: Path) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in docs.stem)
    return plain.strip("-._")[:90] or "docs"
