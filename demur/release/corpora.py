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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from demur.core.errors import DataError, UsageError
from demur.core.parquet import table_writer
from demur.core.records import Document, ImageRef, Record, Sample
from demur.core.store import digest, read_json, replacing, why_invalid, write_atomic, write_json
from demur.corpora.lineage import Gold
from demur.corpora.near_duplicates import TEXT_NEAR, same_text, shingles
from demur.release.answer_bearing import AnswerBearing

Form = Literal["jsonl", "parquet", "markdown"]
FORMS: tuple[Form, ...] = ("jsonl", "parquet", "markdown")
FILE = "corpora.json"
UNFINISHED = {"unfinished": True}
"""Content of the note during an export: an older note would describe other files."""
FULL, REMOVED, EMPTY = "full", "gold-removed", "empty"
MOST_FOLDS = 100
"""Most folds: the files of all are open at once, and systems often allow a process 256."""
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
    folds: dict[str, str] = Field(default_factory=dict)
    """Sample -> the corpus without its gold, if there are several folds."""

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
    form: Form = "jsonl",
    folds: int = 1,
    mixed: Callable[[], Iterable[Document]] = lambda: (),
    about: str = "",
) -> dict[str, Any]:
    """Write the corpora, and a note of what was removed for which question.

    Args:
        out: folder; each corpus is a folder in it: ``full``, ``gold-removed`` (with folds ``gold-removed-1`` ...),
            ``empty``.
        documents: of the knowledge base; read twice, one in memory at a time.
        release: its name, version and sha256.
        form: ``jsonl`` (one ``corpus.jsonl``), ``parquet``, or ``markdown`` (a file per document); images beside.
        folds: number of equal parts of the questions, at most `MOST_FOLDS`; each has a corpus without its own gold.
        mixed: the user's own documents, added to every corpus but the empty one.
        about: the origin of the documents, for the note.

    Returns:
        The note, as `Corpora` reads it.

    Raises:
        UsageError: there are no documents, two with one id, or fewer questions than folds.
    """
    most = max(1, min(len(samples), MOST_FOLDS))
    if not 1 <= folds <= most:
        raise UsageError(
            f"--folds {folds} of {len(samples):,} questions",
            cure=f"give 1 to {most}; each is a copy of all documents",
        )
    relations, answer_bearing = _Relations(samples), AnswerBearing(samples)
    shuffled = sorted((s.id for s in samples), key=digest)
    fold_of = {id: place % folds for place, id in enumerate(shuffled)}
    names = [REMOVED] if folds == 1 else [f"{REMOVED}-{i + 1}" for i in range(folds)]
    excluded: dict[str, list[str]] = {s.id: [] for s in samples}
    stated: dict[str, list[str]] = {}
    counts = dict.fromkeys((FULL, *names), 0)
    is_earlier_export = (out / FILE).is_file()
    write_json(out / FILE, UNFINISHED)
    ids: set[str] = set()
    with ExitStack() as stack:
        writers = {name: _Writer(out / name, form, stack) for name in (*counts, EMPTY)}
        for document, is_users in _with_users_documents(documents, mixed):
            if document.id in ids:
                raise UsageError(
                    "two documents have one id",
                    item=document.id,
                    cure="give your own documents other ids",
                )
            ids.add(document.id)
            gold = relations.gold_of(document)
            for s in gold:
                excluded[s].append(document.id)
            data = None if document.image is None or is_users else read_image(document.image)
            for name in counts:
                fold = names.index(name) if name in names else -1
                if name == FULL or not (gold and any(fold_of[s] == fold for s in gold)):
                    writers[name].add(document, data)
                    counts[name] += 1
        if not ids:
            raise UsageError(
                "no documents to write",
                cure="give --pool POOL, or a release that holds its evidence",
            )
    for document, _ in _with_users_documents(documents, mixed):
        for s in answer_bearing.find_samples(document):
            if document.id not in excluded[s]:
                stated.setdefault(s, []).append(document.id)
                if len(stated[s]) == MOST_LISTED:
                    answer_bearing.drop(s)
    for folder in (
        ([out / name for name in writers] + sorted(out.glob(f"{REMOVED}*")))
        if is_earlier_export
        else ()
    ):
        written = writers[folder.name].written if folder.name in writers else set()
        for path in (*folder.glob("*.md"), *folder.glob("corpus.*")):  # left by an earlier export
            if path.name not in written:
                path.unlink()
    note = {
        "release": dict(release),
        "documents": about,
        "form": form,
        "counts": counts | {EMPTY: 0},
        "folds": {s: names[f] for s, f in fold_of.items()} if folds > 1 else {},
        "excluded": excluded,
        "stated": stated,
        "questions": {
            "all": len(samples),
            "must deflect where gold is removed": len(samples) - len(stated),
        },
    }
    write_json(out / FILE, note)
    return note


def _with_users_documents(
    documents: Callable[[], Iterable[Document]], mixed: Callable[[], Iterable[Document]]
) -> Iterator[tuple[Document, bool]]:
    for document in documents():
        yield document, False
    for document in mixed():
        yield document, True


class _Writer:
    """One corpus on disk; its files appear when ``stack`` closes without an exception."""

    def __init__(self, folder: Path, form: Form, stack: ExitStack) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.written: set[str] = set() if form == "markdown" else {f"corpus.{form}"}
        """Names of its files of documents."""
        self._write: Callable[[dict[str, Any]], Any] = self._write_markdown
        if form == "jsonl":
            lines = stack.enter_context(replacing(folder / "corpus.jsonl"))
            self._write = lambda row: lines.write(
                (json.dumps(row, ensure_ascii=False) + "\n").encode()
            )
        elif form == "parquet":
            import pyarrow as pa

            names = ("id", "title", "text", "document", "page", "image", "licence")
            schema = pa.schema([(name, pa.string()) for name in names])
            table = table_writer(
                folder / "corpus.parquet", schema, group=10_000, compression="snappy"
            )
            self._write = stack.enter_context(table)

    def add(self, document: Document, image: bytes | None) -> None:
        """Add a document, with its image in a file of its own."""
        row: dict[str, Any] = {
            "id": document.id,
            "title": document.title,
            "text": document.text or "",
        }
        row |= {
            "document": document.document,
            "page": document.page,
            "image": "",
            "licence": document.licence,
        }
        if image is not None and document.image is not None:
            name = f"images/{document.image.sha256}.{document.image.media_type.split('/')[-1]}"
            write_atomic(self._folder / name, image)
            row["image"] = name
        elif document.image is not None:
            row["image"] = document.image.uri
        self._write(row)

    def _write_markdown(self, row: dict[str, Any]) -> None:
        picture = f"\n![{row['title']}]({row['image']})\n" if row["image"] else ""
        front = json.dumps({k: row[k] for k in ("id", "title", "licence")}, ensure_ascii=False)
        name = f"{_file_name(row['id'])}.md"
        self.written.add(name)
        write_atomic(
            self._folder / name,
            f"---\n{front}\n---\n\n# {row['title']}\n\n{row['text']}\n{picture}",
        )


def _file_name(identifier: str) -> str:
    """A document's id as a unique file name, readable where possible."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in identifier)[:80].strip(".-")
    return plain if plain == identifier else f"{plain or 'document'}-{digest(identifier)[:8]}"
