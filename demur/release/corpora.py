"""Corpora for testing a whole RAG system, its own retriever included: *full*, *gold removed*, *empty*.

`export` writes the documents of a release (or of its pool) for the user's indexer, once whole and once without gold. A
system then answers the same questions over each corpus: it should be right on *full* and deflect on *gold removed*. A
system that cannot index twice filters instead: each question has the ids to leave out (``{exclude}`` of
`demur.scenarios.systems.http`, ``exclude`` of a function).

Removing gold does not remove every answer. The export removes gold evidence, the documents that it was cut from, the
passages cut from it, and near-duplicates. It lists the other documents that state an answer; those questions are not
asked under *gold removed*, where a system that answers them would be right (`demur.release.answer_bearing`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from pydantic import ConfigDict, ValidationError

from demur.core.errors import DataError, UsageError
from demur.core.records import Document, ImageRef, Record, Sample
from demur.core.store import read_json, replacing, why_invalid, write_atomic, write_json
from demur.corpora.lineage import Gold
from demur.corpora.near_duplicates import TEXT_NEAR, same_text, shingles
from demur.release.answer_bearing import AnswerBearing

FILE = "corpora.json"
UNFINISHED = {"unfinished": True}
"""Content of the note during an export: an older note would describe other files."""
FULL, REMOVED, EMPTY = "full", "gold-removed", "empty"
DOCUMENTS = "corpus.jsonl"
MOST_LISTED = 20
"""Most documents listed per question as stating its answer."""


class Corpora(Record):
    """The note that `export` left in a folder of corpora."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    release: dict[str, str]
    """Its name, version and sha256."""
    excluded: dict[str, tuple[str, ...]]
    """Sample -> ids to leave out under gold-removed."""
    stated: dict[str, tuple[str, ...]]
    """Sample -> ids of other documents that state its answer (at most `MOST_LISTED`)."""

    @classmethod
    def open(cls, folder: Path, release_sha256: str) -> Corpora:
        """Read the note of corpora of a release.

        Raises:
            UsageError: the folder has no note, or its export was not finished.
            DataError: the note is malformed, or of another release.
        """
        path = folder / FILE
        if not path.is_file():
            raise UsageError(
                f"the folder holds no {FILE}",
                item=folder,
                cure="demur corpus export RELEASE --out DIR",
            )
        content = read_json(path)
        if content == UNFINISHED:
            raise UsageError(
                "the export of these corpora was not finished", item=folder, cure="run it again"
            )
        try:
            note = cls.model_validate(content)
        except ValidationError as error:
            raise DataError(
                f"not a note of 'demur corpus export': {why_invalid(error)}", item=path
            ) from error
        if note.release.get("sha256") != release_sha256:
            raise DataError(
                "these corpora are of another release", item=path, cure="export them from this one"
            )
        return note


class _Relations:
    """Which documents are gold of which samples, by lookup tables."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = {s.id: s for s in samples}
        self._gold = {s.id: Gold(s.gold) for s in samples}
        self._by_name: dict[str, set[str]] = defaultdict(set)
        self._by_shingle: dict[int, set[tuple[str, int]]] = defaultdict(set)
        self._by_image: dict[str, set[str]] = defaultdict(set)
        for s in samples:
            for place, e in enumerate(s.gold):
                for name in (e.id, e.document, e.page):
                    if name:
                        self._by_name[name].add(s.id)
                for shingle in shingles(e.text) if e.text else ():
                    self._by_shingle[shingle].add((s.id, place))
                if e.image is not None:
                    self._by_image[e.image.sha256].add(s.id)

    def gold_of(self, document: Document) -> set[str]:
        """Samples whose gold the document is, is part of, contains, or nearly duplicates."""
        near = {
            s
            for name in (document.id, document.document, document.page)
            if name
            for s in self._by_name[name]
        }
        related = {s for s in near if self._gold[s].parts(document)}
        if document.image is not None:
            related |= self._by_image.get(document.image.sha256, set())
        if document.text:
            document_shingles = shingles(document.text)
            hits: dict[tuple[str, int], int] = defaultdict(int)
            for shingle in document_shingles:
                for gold in self._by_shingle.get(shingle, ()):
                    hits[gold] += 1
            for (s, at), n in hits.items():
                text = self.samples[s].gold[at].text or ""
                enough = n >= TEXT_NEAR * min(len(document_shingles), len(shingles(text))) / 2
                if s not in related and enough and same_text(document.text, text):
                    related.add(s)
        return related


def export(
    out: Path,
    documents: Callable[[], Iterable[Document]],
    samples: Sequence[Sample],
    *,
    release: Mapping[str, str],
    read_image: Callable[[ImageRef], bytes],
    about: str = "",
) -> dict[str, Any]:
    """Write the corpora, and a note of what was removed for which question.

    Args:
        out: folder; each corpus is a folder in it (``full``, ``gold-removed``, ``empty``) with one ``corpus.jsonl``, and
            its images beside that.
        documents: of the knowledge base; read twice, one in memory at a time.
        release: its name, version and sha256.
        about: the origin of the documents, for the note.

    Returns:
        The note, as `Corpora` reads it.

    Raises:
        UsageError: there are no documents, or two with one id.
    """
    write_json(out / FILE, UNFINISHED)
    excluded, counts = _write_corpora(out, documents(), samples, read_image)
    answer_bearing = AnswerBearing(samples)
    stated: dict[str, list[str]] = {}
    for document in documents():
        for s in answer_bearing.find_samples(document):
            if document.id not in excluded[s]:
                stated.setdefault(s, []).append(document.id)
                if len(stated[s]) == MOST_LISTED:
                    answer_bearing.drop(s)
    note = {
        "release": dict(release),
        "documents": about,
        "counts": counts,
        "excluded": excluded,
        "stated": stated,
        "questions": {
            "all": len(samples),
            "must deflect where gold is removed": len(samples) - len(stated),
        },
    }
    write_json(out / FILE, note)
    return note


def _write_corpora(
    out: Path,
    documents: Iterable[Document],
    samples: Sequence[Sample],
    read_image: Callable[[ImageRef], bytes],
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Sample -> ids of its gold, and the number of documents of each corpus; the files appear when all is written."""
    relations = _Relations(samples)
    excluded: dict[str, list[str]] = {s.id: [] for s in samples}
    counts = dict.fromkeys((FULL, REMOVED, EMPTY), 0)
    ids: set[str] = set()
    with ExitStack() as stack:
        files = {name: stack.enter_context(replacing(out / name / DOCUMENTS)) for name in counts}
        for document in documents:
            if document.id in ids:
                raise UsageError(
                    "two documents have one id", item=document.id, cure="give each its own"
                )
            ids.add(document.id)
            gold = relations.gold_of(document)
            for s in gold:
                excluded[s].append(document.id)
            data = None if document.image is None else read_image(document.image)
            for name in (FULL,) if gold else (FULL, REMOVED):
                _write_document(out / name, files[name], document, data)
                counts[name] += 1
        if not ids:
            raise UsageError(
                "no documents to write",
                cure="give --pool POOL, or a release that holds its evidence",
            )
    return excluded, counts


def _write_document(
    folder: Path, lines: IO[bytes], document: Document, image: bytes | None
) -> None:
    """Add a document to a corpus, with its image in a file of its own."""
    row = {name: getattr(document, name) for name in ("id", "title", "document", "page", "licence")}
    row |= {"text": document.text or "", "image": ""}
    if image is not None and document.image is not None:
        ref = document.image
        row["image"] = f"images/{ref.sha256}.{ref.media_type.rpartition('/')[2]}"
        write_atomic(folder / row["image"], image)
    lines.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
