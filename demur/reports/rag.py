"""Where a RAG system fails: was the gold retrieved, was the answer right, what did it cite, and how long did it take.

The data are what runs recorded of a system's own retriever (`demur.core.records.Retrieved`) and the release's gold. A
retrieved piece whose id is in the corpus is gold by its id alone. Any other is gold where its text and the gold's share
most five-grams of the shorter one, or where its id is that of gold evidence with a suffix of the user's own chunking
(``id#3``, ``id:chunk-3``). Where no more is known than that it is from the gold's document or page, the tables say so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from demur.core.errors import UsageError
from demur.core.records import (
    Measure,
    Method,
    Outcome,
    Response,
    Row,
    Sample,
    Scenario,
    Status,
)
from demur.core.store import Problems, read_records
from demur.corpora.near_duplicates import same_text
from demur.evaluation.run_folder import Answer, Timing, read_timings, versions_of
from demur.judge.deflection import ASKS_BACK
from demur.judge.measures.joint import joint
from demur.judge.measures.judge_error import shift_of
from demur.judge.measures.rates import share_of, with_judge_error
from demur.reports.cells import Headline, cell, headline
from demur.reports.data import ReportData, Run, load
from demur.reports.judged import notes_under
from demur.reports.labels import CODES
from demur.reports.tables import Cell, Column, Table, numbers, section_starts, texts, without_zeros
from demur.scenarios.contexts import WHOLE

SAME = 0.5
"""Least share of the shorter text's five-grams for a retrieved text to count as gold."""
_CHUNK = re.compile(r"(?:[#/:@|]|::|_?-?chunk[_-]?|_?-?part[_-]?)[\w.-]{0,40}$", re.IGNORECASE)
DOCUMENT = "gold's document retrieved"
RETRIEVALS = ("gold retrieved", "gold not retrieved", DOCUMENT, "nothing retrieved", "not recorded")
"""The retriever's result for a question; "not recorded" where the system records no contexts at all."""
ANSWERABLE = ("gold retrieved", DOCUMENT)
"""Results with which a system could answer."""


class Question(NamedTuple):
    """One question of a run: its answer with its verdict, and what was retrieved and cited for it."""

    run: str
    row: Row
    sample: Sample
    response: Response
    retrieval: str
    """One of `RETRIEVALS`."""
    citation: str = ""
    """gold, document, distractor, unknown or "" where nothing is cited."""
    timing: Timing | None = None
    """When it came; None for answers from a file."""

    @property
    def result(self) -> str:
        """correct, incorrect, deflected, unjudged or failed."""
        return self.row.outcome.value if self.row.outcome is not None else self.row.status.value

    @property
    def scenario(self) -> str:
        """What was in the corpus."""
        return self.row.scenario.value


def _with_and_without_suffixes(identifier: str) -> Iterator[str]:
    """An id with and without the suffixes that chunking adds: ``doc-7#3`` -> ``doc-7#3``, ``doc-7``."""
    yield identifier
    for _ in range(3):
        shorter = _CHUNK.sub("", identifier)
        if not shorter or shorter == identifier:
            return
        yield (identifier := shorter)


def match_of(
    identifier: str, text: str, sample: Sample, corpus: Collection[str]
) -> Literal["gold", "document", ""]:
    """Whether a retrieved or cited piece is gold of a sample, or known to be from the gold's document only.

    Args:
        identifier: id of the piece.
        text: its text, "" where it is not recorded.
        sample: the question with its gold.
        corpus: ids of the release's evidence.
    """
    ids = {e.id for e in sample.gold}
    if identifier in ids:
        return "gold"
    bases = set(_with_and_without_suffixes(identifier))
    of_document = bool(bases & {n for e in sample.gold for n in (e.document, e.page)})
    sibling = of_document and _mask_numbers(identifier) in map(_mask_numbers, ids)
    if identifier in corpus or sibling:  # a release holds only some passages of its documents
        return ""
    if text and any(same_text(text, e.text, SAME) for e in sample.gold if e.text):
        return "gold"
    if bases & ids:
        return "gold"
    return "document" if of_document else ""


def _mask_numbers(identifier: str) -> str:
    return re.sub(r"\d+", "0", identifier)


def retrieval_of(
    response: Response, sample: Sample, recorded: bool, corpus: Collection[str]
) -> str:
    """The retriever's result for a question, one of `RETRIEVALS`; ``recorded``: any question of the run has contexts."""
    if not recorded:
        return "not recorded"
    if not response.retrieved:
        return "nothing retrieved"
    matches = {match_of(piece.id, piece.text, sample, corpus) for piece in response.retrieved}
    if "gold" in matches:
        return "gold retrieved"
    return DOCUMENT if "document" in matches else "gold not retrieved"


def citation_of(response: Response, sample: Sample, corpus: Collection[str]) -> str:
    """The best that the answer cites: gold, its document, a distractor of the sample, unknown; "" for nothing."""
    if not response.citations:
        return ""
    matches = {match_of(citation, "", sample, corpus) for citation in response.citations}
    if best := next((match for match in ("gold", "document") if match in matches), ""):
        return best
    cited_names = {
        name for citation in response.citations for name in _with_and_without_suffixes(citation)
    }
    distractor_names = {name for e in sample.negatives for name in (e.id, e.document, e.page)}
    return "distractor" if cited_names & distractor_names else "unknown"


def questions_of(run: Run, samples: Mapping[str, Sample]) -> list[Question]:
    """The questions of a run, with retrieval and citation.

    Raises:
        UsageError: the folder holds no responses.
        BadInput: responses that cannot be read, or are missing.
    """
    problems = Problems()
    path = run.path / "responses.jsonl"
    if not path.is_file():
        raise UsageError(
            "the run holds no responses.jsonl", item=str(run.path), cure="run the system again"
        )
    responses = {a.ask: a.response for a in read_records(path, Answer, problems)}
    for ask in run.rows.coded("ask").labels:
        if ask not in responses:
            problems.add(f"rows.parquet ({ask})", "the run holds no response for it")
    problems.settle()
    recorded = any(r.retrieved for r in responses.values())
    corpus = {e.id for s in samples.values() for e in (*s.gold, *s.negatives)}
    timings = read_timings(run.path)
    questions = []
    for row in run.rows:
        sample, response = samples[row.sample], responses[row.ask]
        retrieval = retrieval_of(response, sample, recorded, corpus)
        citation = citation_of(response, sample, corpus)
        timing = timings.get(row.ask)
        questions.append(Question(run.name, row, sample, response, retrieval, citation, timing))
    return questions


OUTCOMES = {
    Outcome.CORRECT.value: "accuracy",
    Outcome.DEFLECTED.value: "deflection",
    Outcome.INCORRECT.value: "hallucination",
}


def _share_of_graded(name: str, graded: Sequence[Question], *results: str) -> Measure:
    """The share of graded answers with one of these results; its interval holds sampling and the judge's error."""
    measure = share_of(name, sum(question.result in results for question in graded), len(graded))
    methods = ["", *Method]
    method_codes = [methods.index(question.row.method) - 1 for question in graded]
    codes = [CODES[Outcome(question.result)] for question in graded]
    shift = shift_of(np.array(method_codes), np.array(codes), np.ones(len(graded)))
    if shift is None:
        return measure
    shifts = np.sum([getattr(shift, OUTCOMES[result]) for result in results], axis=0)
    return with_judge_error(measure, shifts, 0.95)


def _questions_by_run(questions: Iterable[Question]) -> dict[str, list[Question]]:
    questions_of_run: dict[str, list[Question]] = {}
    for question in questions:
        questions_of_run.setdefault(question.run, []).append(question)
    return questions_of_run


def retrieval_table(
    questions: Sequence[Question], group: str, group_of: Mapping[int, str]
) -> Table:
    """The retriever's result against the outcome, per run and group; shares of graded answers.

    Args:
        questions: of all runs.
        group: title of the second column.
        group_of: index of a question -> its group.
    """
    columns = (
        *texts("System", group, "Retriever"),
        *numbers("n"),
        *numbers("Correct", interval=True),
        *numbers("Deflected", "Incorrect", "Unjudged", "Failed"),
    )
    cells: dict[tuple[str, str, str], list[Question]] = {}
    for index, question in enumerate(questions):
        cells.setdefault((question.run, group_of[index], question.retrieval), []).append(question)
    rows: list[tuple[Cell, ...]] = []
    for key in sorted(cells, key=lambda cell: (cell[0], cell[1], RETRIEVALS.index(cell[2]))):
        results = Counter(question.result for question in cells[key])
        graded = [question for question in cells[key] if question.result in OUTCOMES]
        rows.append(
            (
                *key,
                sum(results.values()),
                *(_share_of_graded(o, graded, o) for o in OUTCOMES),
                results[Status.UNJUDGED.value],
                results[Status.FAILED.value],
            )
        )
    slug = group.lower().replace(" ", "-")
    table = Table(
        f"rag-{slug}",
        f"Retrieval and outcome by {group.lower()}, in per cent of the answers",
        columns,
        tuple(rows),
        section_starts(rows, 2),
        (
            "Correct without the gold: the model knew the answer, or another passage states it. Deflected or incorrect: "
            "the generator fails where the gold was retrieved, the retriever where it was not.",
        ),
    )
    return without_zeros(table, "Unjudged", "Failed")


def _gold_was_there(question: Question) -> bool:
    """Whether the gold could be found and the system recorded what it found; grades do not matter here."""
    return (
        question.retrieval != "not recorded"
        and question.scenario not in WHOLE[1:]
        and question.result != Status.FAILED.value
    )


def faults_table(questions: Sequence[Question]) -> Table:
    """Faults per run: deflected with the gold, answered without it, citations."""
    citation_titles = {
        "gold": "gold",
        "document": "its document",
        "distractor": "distractor",
        "unknown": "other",
    }
    if not any(question.citation == "document" for question in questions):
        del citation_titles["document"]
    documents = any(question.retrieval == DOCUMENT for question in questions)
    columns = (
        *texts("System"),
        *numbers("Gold found", *["Document found"] * documents, interval=True),
        *numbers("Deflects with it", "Answers without", interval=True),
        *(Column(title, "Cites") for title in citation_titles.values()),
        *numbers("Citing", "Asks back"),
    )
    rows: list[tuple[Cell, ...]] = []
    for run_name, run_questions in _questions_by_run(questions).items():
        graded = [question for question in run_questions if question.result in OUTCOMES]
        recorded = [question for question in graded if question.retrieval != "not recorded"]
        retrievable = [question for question in run_questions if _gold_was_there(question)]
        retrievals = Counter(question.retrieval for question in retrievable)
        with_gold = [question for question in recorded if question.retrieval in ANSWERABLE]
        without_gold = [question for question in recorded if question.retrieval not in ANSWERABLE]
        citing = [
            question for question in graded if question.citation and question.result != "deflected"
        ]
        citations = Counter(question.citation for question in citing)
        rows.append(
            (
                run_name,
                *(
                    share_of(state, retrievals[state], len(retrievable))
                    for state in ANSWERABLE[: 1 + documents]
                ),
                _share_of_graded("deflected although retrieved", with_gold, "deflected"),
                _share_of_graded("answered without gold", without_gold, "correct", "incorrect"),
                *(
                    share_of(citation, citations[citation], len(citing))
                    for citation in citation_titles
                ),
                len(citing),
                share_of(
                    "asks back",
                    sum(question.row.kind == ASKS_BACK for question in graded),
                    len(graded),
                ),
            )
        )
    notes = (
        "Gold found: among all replies whose gold is in the corpus, graded or not. The others: of the answers.",
        *["Document found: a part of the gold's document, which may lack the gold passage."]
        * documents,
    )
    title = "The system's own retriever and generator, in per cent"
    return Table("rag-faults", title, columns, tuple(rows), notes=notes)


def whole_system_table(data: ReportData, head: Headline) -> Table | None:
    """Per run: right with the gold in the corpus, declined where it was removed, and both of the same question."""
    columns = (
        *texts("System"),
        *numbers("Right, full", "Deflects, removed", "Deflects, empty", "Both", interval=True),
        *numbers("Samples of both"),
    )
    rows: list[tuple[Cell, ...]] = []
    for run in data.runs:
        headline_rows = head.where(run.rows)
        full, removed, empty = (
            cell(run, headline_rows, headline_rows.is_in("scenario", [s])) for s in WHOLE
        )
        if not full.accuracy.n and not removed.accuracy.n:
            continue
        both = joint(headline_rows, [Scenario(s) for s in WHOLE[:2]])
        measures_of_run = (full.accuracy, removed.deflection, empty.deflection, both)
        rows.append((run.name, *(m if m.n else None for m in measures_of_run), both.n))
    if not rows:
        return None
    measures = [[m] for row in rows for m in row if isinstance(m, Measure)]
    notes = notes_under(data.runs, measures, methods=False)
    title = "A whole RAG system, its own retriever included, in per cent of questions"
    return Table("rag-whole", title, columns, tuple(rows), notes=tuple(notes))


def latency_table(questions: Sequence[Question]) -> Table:
    """Seconds per reply, tokens, cost and failures per run; cached replies are not timed."""
    columns = (
        *texts("System"),
        *numbers("Replies", "Timed"),
        *numbers("p50 s", "p95 s", "First p50 s", "First p95 s", decimals=2),
        *numbers("Tokens"),
        *numbers("USD", decimals=4),
        *numbers("Failed"),
        *texts("Most common failure", wraps=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for run_name, run_questions in _questions_by_run(questions).items():
        answered = [question for question in run_questions if not question.response.error]
        errors = Counter(
            re.sub(r"\d+", "N", question.response.error)[:80]
            for question in run_questions
            if question.response.error
        )
        timed = [
            question.timing
            for question in answered
            if question.timing is not None
            and not question.timing.cached
            and question.timing.latency_s
        ]
        costs = [
            question.response.cost for question in answered if question.response.cost is not None
        ]
        usage = [question.response.usage for question in answered]
        tokens = sum(u.prompt + u.completion for u in usage)
        rows.append(
            (
                run_name,
                len(answered),
                len(timed),
                *_percentiles([t.latency_s for t in timed]),
                *_percentiles([t.first_s for t in timed if t.first_s]),
                tokens or None,
                sum(costs) if costs else None,
                sum(errors.values()),
                "; ".join(f"{n} x {error}" for error, n in errors.most_common(1)),
            )
        )
    note = (
        "All replies, to every recipe and prompt. First: until the first byte or stream event. Tokens and USD: as far "
        "as the system reports them."
    )
    return Table(
        "rag-latency", "Seconds per reply, cost, and failures", columns, tuple(rows), notes=(note,)
    )


def _percentiles(seconds: Sequence[float]) -> tuple[float | None, float | None]:
    """The 50th and the 95th percentile; None without data."""
    return (
        (float(np.percentile(seconds, 50)), float(np.percentile(seconds, 95)))
        if seconds
        else (None, None)
    )


def diagnosis(questions: Sequence[Question]) -> list[str]:
    """The main fault of each system in a sentence, where its figures are clear."""
    lines = []
    for run_name, run_questions in _questions_by_run(questions).items():
        timings = [question.timing for question in run_questions if question.timing is not None]
        lines += _deployment_notes(run_name, timings)
        if fault := _main_fault(run_questions):
            lines.append(f"{run_name}: {fault}")
    return lines


def _main_fault(questions: Sequence[Question]) -> str:
    """The main fault of a system; "" where no figure is clear."""
    n = len(questions)
    results = Counter(question.result for question in questions)
    failed, unjudged = results[Status.FAILED.value], results[Status.UNJUDGED.value]
    if failed * 2 > n:
        return (
            f"most questions failed ({failed:,} of {n:,}): the service is down or refuses requests."
        )
    if unjudged * 2 > n:
        reasons = Counter(q.row.reason for q in questions if q.row.status is Status.UNJUDGED)
        reason = reasons.most_common(1)[0][0]
        return f"{unjudged:,} of {n:,} answers are unjudged, so that no rate is meaningful yet: {reason}"
    retrievable = [question for question in questions if _gold_was_there(question)]
    if by_modality := _by_modality(retrievable):
        return f"the retriever found gold for {by_modality}: fix its image search."
    with_gold = sum(question.retrieval in ANSWERABLE for question in retrievable)
    if with_gold * 2 < len(retrievable):
        return (
            f"the retriever found gold for {with_gold:,} of {len(retrievable):,} questions: fix it "
            "first."
        )
    without_gold = [  # its gold was taken away, or was not found
        question
        for question in questions
        if question.result in OUTCOMES
        and (
            question.scenario in WHOLE[1:]
            or question.retrieval not in (*ANSWERABLE, "not recorded")
        )
    ]
    answered = sum(question.result != "deflected" for question in without_gold)
    if len(without_gold) >= 10 and answered * 10 > 9 * len(without_gold):
        return (
            f"the generator answers regardless of the evidence: {answered:,} of {len(without_gold):,} "
            "times without gold."
        )
    return ""


def _deployment_notes(run_name: str, timings: Sequence[Timing]) -> list[str]:
    """Notes on redeployments and cached replies during the run."""
    lines = []
    names = {t.served_by.rpartition("@")[0] for t in timings if "@" in t.served_by}
    versions = {version: n for name in names for version, n in versions_of(name, timings).items()}
    if len(names) == 1 and len(versions) > 1:
        answers_of_version = ", ".join(f"{version}: {n:,}" for version, n in versions.items())
        lines.append(
            f"{run_name}: redeployed during the run; its figures mix several versions ({answers_of_version} answers)."
        )
    if cached := sum(t.cached for t in timings):
        lines.append(
            f"{run_name}: {cached:,} of {len(timings):,} replies came from a cache, not from the system."
        )
    return lines


def _by_modality(questions: Sequence[Question]) -> str:
    """How often gold was found for text and for image questions; "" unless images find it less than half as often."""
    pools: tuple[list[bool], list[bool]] = ([], [])
    for question in questions:
        pools[bool(question.sample.images)].append(question.retrieval in ANSWERABLE)
    if not all(pools):
        return ""
    text, image = (sum(pool) / len(pool) for pool in pools)
    if text < 0.5 or image * 2 >= text:
        return ""
    in_words = [f"{sum(pool):,} of {len(pool):,}" for pool in pools]
    return f"{in_words[0]} text questions and for {in_words[1]} with an image"


def rag_tables(runs: Sequence[Path], release: Path | None = None) -> list[Table]:
    """The tables of ``demur rag table``: one recipe per scenario under one prompt, as `demur report` has its results.

    Latencies and failures are told over all replies.

    Args:
        runs: run folders, or folders that hold runs.
        release: what they were asked from; None for the one beside the first run.

    Raises:
        UsageError: a path is no run, or there is no release.
    """
    data: ReportData = load(runs, release, needs_release=True)
    head = headline(data.runs)
    all_questions = [question for run in data.runs for question in questions_of(run, data.samples)]
    counted = [question for question in all_questions if head.holds(question.row)]
    groups = {
        "Scenario": [question.scenario for question in counted],
        "Query modality": [
            "text+image" if question.sample.images else "text" for question in counted
        ],
        "Source": [question.sample.source for question in counted],
        "Topic": [question.sample.topic for question in counted],
    }
    tables = [faults_table(counted)]
    for title, values in groups.items():
        if title == "Scenario" or len(set(values)) > 1:
            tables.append(retrieval_table(counted, title, dict(enumerate(values))))
    tables[0] = replace(tables[0], notes=(*diagnosis(counted), *tables[0].notes))
    if (whole := whole_system_table(data, head)) is not None:
        tables = [whole, *tables]
    tables[0] = replace(
        tables[0], notes=(*_notes_on_counting(head, all_questions, counted), *tables[0].notes)
    )
    return [*tables, latency_table(all_questions)]


def _notes_on_counting(
    head: Headline, all_questions: Sequence[Question], counted: Sequence[Question]
) -> Iterator[str]:
    """The recipes and the prompt that all rates count, and what they leave out."""
    yield head._replace(repeats=1).note()
    if head.repeats > 1:
        yield "Each repeat of a question counts, so intervals are too narrow: repeats are not independent."
    counts_kept, counts_of_all = (
        Counter(question.run for question in questions) for questions in (counted, all_questions)
    )
    if shares_left_out := [
        f"{n - counts_kept[run]:,} of {n:,} of {run}"
        for run, n in counts_of_all.items()
        if counts_kept[run] < n
    ]:
        yield f"Left out, because asked by other recipes or under other prompts: {', '.join(shares_left_out)}."
