"""Runs and relevance judgements as IR tools read them: TREC's files, and BEIR's ``.tsv``.

    run      question Q0 document rank score demur     (`write_run`: what an index finds for a release's questions)
    qrels    question 0 document 1                     (`write_qrels`: its gold evidence)

Blanks in ids are written as ``%20``. Scores of a run fall strictly, in float32: TREC's tools order by score alone. A
release counts gold as found if any of it is: its recall@k is their ``Success@k``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from demur.core.images import rgb
from demur.core.records import Hit, Sample
from demur.core.store import replacing
from demur.corpora.lineage import Gold
from demur.release.release import Release
from demur.retrieval.indexes import open_searcher, usual_mode
from demur.retrieval.modes import Query, canonical_mode
from demur.retrieval.search import Searcher

BLOCK = 256
"""Questions searched at once."""


def write_run(
    searcher: Searcher, release: Release, file: Path, *, k: int, mode: str = "", pages: int = 10
) -> int:
    """Search an index with every question of a release, and write the hits as a TREC run.

    Args:
        k: hits of each question.
        mode: retrieval mode; "" chooses for each question as `demur.retrieval.indexes.usual_mode`.
        pages: number of pages that ``FIRST/...`` modes open.

    Returns:
        The number of questions.

    Raises:
        UsageError: no such mode, or a question lacks the text or image that it needs.
        StorageError: the file cannot be written.
    """
    remaining, count = release.samples(), 0
    with replacing(file) as run:
        while block := list(islice(remaining, BLOCK)):
            by_mode: dict[str, list[Sample]] = {}
            for sample in block:
                chosen = mode or usual_mode(sample.question, pictured=bool(sample.images))
                by_mode.setdefault(canonical_mode(chosen), []).append(sample)
            for chosen, samples in by_mode.items():
                queries = [_query(sample, release) for sample in samples]
                hits_of_queries = searcher.iter_search(queries, chosen, k, pages=pages)
                for sample, hits in zip(samples, hits_of_queries, strict=True):
                    run.writelines(line.encode() for line in _run_lines(sample.id, hits))
            count += len(block)
    return count


def write_qrels(release: Release, file: Path, index: Path | None = None) -> int:
    """Write the gold evidence of a release as TREC qrels, or as BEIR's if the file is a ``.tsv``.

    Args:
        index: folder of an index, among whose documents gold is sought, whole or in parts; a question whose gold is not
            there has no line. None writes the ids of the evidence, as in the corpora of `demur corpus export`.

    Returns:
        The number of lines.

    Raises:
        StorageError: the file cannot be written.
    """
    searcher = None if index is None else open_searcher(index)
    beir = file.suffix == ".tsv"
    count = 0
    with replacing(file) as qrels:
        if beir:
            qrels.write(b"query-id\tcorpus-id\tscore\n")
        for sample in release.samples():
            gold = [e.id for e in sample.gold]
            if searcher is not None:
                gold = Gold(sample.gold, searcher.documents).parts_in(searcher)
            for id in dict.fromkeys(gold):
                columns = (sample.id, id, "1") if beir else (sample.id, "0", id, "1")
                qrels.write(("\t" if beir else " ").join(map(_field, columns)).encode() + b"\n")
                count += 1
    return count


def _query(sample: Sample, release: Release) -> Query:
    image = sample.images[0] if sample.images else None
    return Query(
        sample.question, None if image is None else rgb(release.read_image(image), image.uri)
    )


def _run_lines(question: str, hits: Sequence[Hit]) -> Iterator[str]:
    scores = _strictly_falling(hit.score for hit in hits)
    for hit, score in zip(hits, scores, strict=True):
        yield f"{_field(question)} Q0 {_field(hit.document)} {hit.rank} {score:.9g} demur\n"


def _strictly_falling(scores: Iterable[float]) -> Iterator[np.float32]:
    """Scores as float32, each one that is not below its predecessor as the next number below that."""
    last = np.float32(np.inf)
    for score in scores:
        last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
        yield last


def _field(text: str) -> str:
    return "%20".join(text.split())
