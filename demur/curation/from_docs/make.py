"""A user's own documents and questions -> a frozen release, and corpora for a RAG system with its own index.

    DOCS --read, chunk--> passages --index--> Finder
    QUESTIONS --Finder--> proposals --a person's yes or no--> samples with gold
    samples --BM25, without leaks--> distractors --freeze, verify--> OUT/release, OUT/corpora

Needs no download and no model. A question with an answer and gold is a sample like any other. With gold alone, only
retrieval of gold and deflection can be measured. A question that no document answers must be declined. Questions that
cannot be used are dropped with the reason (``OUT/release/drops.jsonl``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import Document, ImageRef, Modality, Sample
from demur.core.store import Problems, digest, locked
from demur.core.uris import read_image
from demur.curation.from_docs.documents import cut_passages, index_passages, read_documents
from demur.curation.from_docs.gold import Finder
from demur.curation.from_docs.outcomes import (
    STAGE,
    Outcomes,
    answer_kind,
    answer_spec,
    decide_outcome,
    unknown_gold,
)
from demur.curation.from_docs.questions import Questions, read_questions
from demur.curation.from_docs.review import read_review, write_review
from demur.curation.mining.choose import NO_LIMITS, SearchResult, mine_kind
from demur.curation.mining.options import MiningOptions, Pool
from demur.evaluation.for_hub import scenario_rows
from demur.release import Draft, FunnelStep, Release, check_target, freeze, open_sound
from demur.release.corpora import export
from demur.release.layout import tally

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
    pictures: int
    """Documents that are pictures, pages of PDFs among them."""
    passages: int
    """Passages of the other documents."""
    unused_pictures: Mapping[str, str]
    """Pictures that cannot be used -> why."""
    proposed: int
    """Passages that were proposed as gold."""
    drops: Mapping[str, Mapping[str, str]]
    """Reason -> the questions that it dropped: id -> text."""
    kinds: Mapping[str, int]
    """Kind of question -> how many are in the release (or would be): ``answered``, ``gold alone``, ``unanswerable``."""


class DocsOptions(TypedDict, total=False):
    """How `from_docs` reads documents and questions, and what it names the release."""

    name: str
    """Of the release; the folder of the documents when empty."""
    version: str
    """Of the release; 0.1.0."""
    chunk: str
    """``SIZE:OVERLAP`` in words; ``auto`` (the default) cuts files by 250:32 and keeps rows of tables (chunks of a
    store) as they are; ``none`` cuts nothing."""
    candidates: int
    """Passages proposed for each question, at most; 3."""
    distractors: int
    """Distractors of each question, at most; 5."""
    accept_found: bool
    """Do not wait for review: the likeliest passage with its answer becomes a question's gold, and questions without one
    are dropped. The card says so."""
    licence: str
    """Of the documents."""
    skip_bad: bool
    """Leave out unreadable files and rows, and count them."""


def from_docs(
    docs: Path,
    questions: Path,
    out: Path,
    *,
    steps: Progress = QUIET,
    **options: Unpack[DocsOptions],
) -> DocsRelease:
    """Make a release from documents and questions; call it again after the review of proposals.

    Args:
        docs: a folder or a file of documents (`demur.corpora.docs`), or a corpus by name (``jsonl:kb.jsonl?id=key``).
        questions: a list or a log of them (`demur.curation.from_docs.questions`).
        out: folder: ``release``, ``corpora``, ``review`` and working files.
        steps: shows progress.
        options: see `DocsOptions`.

    Returns:
        The release, or the questions that wait for review.

    Raises:
        BadInput: unreadable files and rows, all together, unless ``skip_bad``.
        UsageError: an option is wrong, there are no documents or questions, all questions are dropped, or another call
            is writing to the folder.
        ReleaseError: the frozen folder did not pass its own verification (a defect of demur).
    """
    candidates, distractors = options.get("candidates", 3), options.get("distractors", 5)
    if candidates < 1 or distractors < 0:
        raise UsageError(
            f"{candidates} candidates, {distractors} distractors",
            cure="give 1 or more, and 0 or more",
        )
    docs = docs.resolve() if docs.exists() else docs  # "." has no name
    name, version = options.get("name") or _plain_name(docs), options.get("version", "0.1.0")
    check_target(out / "release", name, version)
    with locked(out / "work" / "lock", "making a release there"):
        steps.stage("read documents and questions")
        material = _read(docs, questions, out, options)
        steps.stage("search passages that answer")
        finder = Finder(material.passages, out / "work" / "bm25")
        outcomes, proposed = _settle_questions(
            material,
            finder,
            out / "review",
            candidates,
            accept_found=options.get("accept_found", False),
        )
        result = _result(material, outcomes, proposed, out)
        if outcomes.waiting:
            return result
        if not outcomes.samples:
            why = "; ".join(
                f"{reason} ({len(dropped_questions)})"
                for reason, dropped_questions in result.drops.items()
            )
            raise UsageError(
                f"all {len(material.questions.distinct)} questions are dropped: {why}",
                item=str(questions),
                cure="give answers that the documents hold, or say yes to some passages",
            )
        steps.stage("distractors, freeze and verify the release")
        samples = [_with_distractors(s, finder, distractors) for s in outcomes.samples]
        facts = _describe(material, samples, outcomes)
        freeze(
            out / "release",
            Draft(
                name=name,
                version=version,
                samples=samples,
                read_image=material.read_image,
                drops=outcomes.drops,
                funnel=[_funnel_step(outcomes)],
                about=facts,
                scenarios=scenario_rows(sorted(samples, key=lambda s: s.id)),
            ),
        )
        release = open_sound(out / "release")
        export(
            out / "corpora",
            lambda: material.passages,
            list(release.samples()),
            read_image=material.read_image,
            about=f"{docs.name}, {len(material.passages):,} passages of {material.documents:,} documents",
            release={"name": release.name, "version": release.version, "sha256": release.sha256},
        )
        return result._replace(release=release)


@dataclass(frozen=True)
class _Material:
    """Documents and questions, as read."""

    docs: Path
    documents: int
    unused_pictures: Mapping[str, str]
    passages: Sequence[Document]
    """Those of texts, and the pictures."""
    passages_of_id: Mapping[str, list[Document]]
    questions: Questions

    def read_image(self, image: ImageRef) -> bytes:
        """The bytes of a picture."""
        return read_image(image, root=self.docs if self.docs.is_dir() else self.docs.parent)


def _read(docs: Path, questions: Path, out: Path, options: DocsOptions) -> _Material:
    skip_bad, problems = options.get("skip_bad", False), Problems()
    questions_read = read_questions(questions, problems)
    # OUT may lie below DOCS
    without = [questions, *out.rglob("*")]
    unused: dict[str, str] = {}
    documents = read_documents(
        docs, without, options.get("licence", ""), problems, unused, out / "work" / "pages"
    )
    problems.settle(skip_bad=skip_bad)
    passages = cut_passages(documents, options.get("chunk", "auto"))
    passages_of_id = index_passages(passages)
    unknown_gold(questions_read.distinct, passages_of_id, docs).settle(skip_bad=skip_bad)
    return _Material(docs, len(documents), unused, passages, passages_of_id, questions_read)


def _settle_questions(
    material: _Material, finder: Finder, review: Path, candidates: int, *, accept_found: bool
) -> tuple[Outcomes, int]:
    """The outcome of every question, and the number of passages that were proposed for review."""
    questions = material.questions.distinct
    proposals = {
        q.id: finder.proposals(q, answer_spec(q), candidates)
        for q in questions
        if not q.gold and q.answerable is not False
    }
    proposed = write_review(
        review, [(q, p) for q in questions for p in proposals.get(q.id, ())], material.read_image
    )
    labels = read_review(review)
    outcomes = {
        q.id: decide_outcome(
            q,
            material.passages_of_id,
            proposals.get(q.id, []),
            labels,
            accept_found=accept_found,
        )
        for q in questions
    }
    return Outcomes(outcomes), proposed


def _result(material: _Material, outcomes: Outcomes, proposed: int, out: Path) -> DocsRelease:
    """The result before there is a release."""
    texts = {question.id: question.text for question in material.questions.distinct}
    drops: dict[str, dict[str, str]] = {}
    for drop in outcomes.drops:
        drops.setdefault(drop.reason, {})[drop.sample] = texts[drop.sample]
    return DocsRelease(
        release=None,
        waiting=outcomes.waiting,
        review=out / "review",
        corpora=out / "corpora",
        documents=material.documents,
        pictures=(pictures := sum(d.text is None for d in material.passages)),
        passages=len(material.passages) - pictures,
        unused_pictures=material.unused_pictures,
        proposed=proposed,
        drops=drops,
        kinds=dict(Counter(map(answer_kind, outcomes.samples))),
    )


def _funnel_step(outcomes: Outcomes) -> FunnelStep:
    drops, usable = outcomes.drops, len(outcomes.samples)
    why = dict(Counter(drop.reason for drop in drops))
    return FunnelStep(stage=STAGE, entered=usable + len(drops), kept=usable, dropped=why)


def _describe(material: _Material, samples: Sequence[Sample], outcomes: Outcomes) -> dict[str, Any]:
    """Everything in the manifest except names, counts and hashes."""
    reviewed, total = outcomes.reviewed, len(samples)
    limits = [NO_GATE]
    if reviewed:  # by a person; unanswerable ones are the owner's word too
        limits.append(
            f"Of {reviewed:,} of {total:,} questions a person said what is gold, or that nothing is."
        )
    if unseen := total - reviewed:
        limits.append(
            f"{BY_SEARCH}; of {unseen:,} of {total:,} questions the likeliest passage that states the answer "
            "was taken without a look."
        )
    questions = material.questions
    return {
        "sources": {
            "docs": {
                "sha256": digest([s.model_dump(mode="json") for s in samples]),
                "licences": sorted({e.licence for s in samples for e in s.gold if e.licence}),
            }
        },
        "from_docs": {
            "documents": material.docs.name,
            "pictures that cannot be used": len(material.unused_pictures),
            "rows": len(questions.distinct) + questions.repeated,
            "asked twice": questions.repeated,
            "looked at": reviewed,
        },
        "pool_by_topic": tally(s.topic for s in samples),
        "limits": limits,
    }


def _with_distractors(sample: Sample, finder: Finder, most: int) -> Sample:
    """The sample with distractors: the nearest passages by its words that are not gold and lack its answer.

    Where its gold is a picture, also the nearest pictures by their captions, so that showing one gives nothing away;
    elsewhere none, so that a system without eyes can be asked.
    """
    hits = finder.hits(sample.question_with_turns)
    options = MiningOptions(text=0, lexical=most, visual=most).model_copy(update=NO_LIMITS)
    kinds: list[Pool] = ["lexical"]
    if any(e.modality is Modality.IMAGE for e in sample.gold):
        kinds.append("visual")
    for kind in kinds:
        of_kind = [hit for hit in hits if (kind == "visual") == finder.is_picture(hit.document)]
        mined = mine_kind(kind, sample, SearchResult(of_kind), options, finder.stock)
        sample = sample.model_copy(update={"negatives": (*sample.negatives, *mined.negatives)})
    return sample


def _plain_name(docs: Path) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in docs.stem)
    return plain.strip("-._")[:90] or "docs"
