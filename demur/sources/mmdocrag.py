"""MMDocRAG: a text question over a long document, with gold and distracting quotes (text and picture) given.

Layout of the folder: ``evaluation_20.jsonl``, ``evaluation_15.jsonl``, ``dev_20.jsonl``, ``dev_15.jsonl``, and
``images/`` or ``images.zip`` (read in place). ``train.jsonl`` holds chat transcripts and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.cells import accepted_forms, answer_texts, literal
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import Problems, digest
from demur.corpora.formats import json_lines
from demur.sources.native import (
    FoundImage,
    NativeSource,
    SampleParts,
    fields_as_attributes,
    items,
    named_splits,
    one_of,
    text_of,
    with_entities_decoded,
)


class _Quote(NamedTuple):
    """A quote of a row."""

    id: str
    document: Document | None = None
    fault: str = ""
    """Why there is no document."""


class MMDocRAG(NativeSource):
    """Reads an MMDocRAG folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``evaluation``, ``dev``, both with a comma, or ``all``.
        quotes: ``20`` or ``15`` candidate quotes per question (different files, same questions).

    A picture is titled with its document and page, never with ``img_description``, which a model wrote from it.
    ``answer_interleaved`` cites the gold quotes; it stays in ``native`` with the quote numbers, and no system gets it.
    """

    name = "mmdocrag"
    licence = "CC-BY-NC-4.0 (the dataset card says Apache-2.0, the repository CC-BY-NC-4.0: the stricter is taken)"

    def __init__(
        self,
        folder: Path,
        problems: Problems | None = None,
        split: str = "all",
        quotes: str = "20",
    ) -> None:
        super().__init__(folder, problems)
        number = one_of(self.name, "quotes", quotes, "15", "20")
        self.splits = [
            f"{part}_{number}" for part in named_splits(self.name, split, ("dev", "evaluation"))
        ]

    def documents(self) -> Iterator[Document]:
        """Every distinct quote of the chosen files; ``page`` is the document it is from."""
        seen: set[str] = set()
        for place, id_, row in self._read_rows():
            for quote in self.make(place, id_, partial(self._read_quotes, row)) or ():
                if quote.document is not None and quote.document.id not in seen:
                    seen.add(quote.document.id)
                    yield with_entities_decoded(quote.document)

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of their files; topic = domain, cluster = document."""
        yield from self.records(
            ((place, id_, (row,)) for place, id_, row in self._read_rows()), self._make_sample
        )

    def _read_rows(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for split in self.splits:
            for place, row in json_lines(self.need(f"{split}.jsonl"), self.problems):
                yield place, f"{split}_{row.get('q_id', 'no q_id')}", row

    def _make_sample(self, place: str, id_: str, row: dict[str, Any]) -> Sample:
        if "messages" in row:
            raise DataError("a chat transcript, not a question row", cure="leave train.jsonl out")
        gold_ids = {str(quote) for quote in items(row["gold_quotes"])}
        gold: list[Evidence] = []
        others: list[Evidence] = []
        lacks: list[str] = []
        missing: list[str] = []
        quotes = self._read_quotes(row)
        for quote in quotes:
            is_gold = quote.id in gold_ids
            if quote.document is None:
                statement = f"{'gold' if is_gold else 'negative'} quote {quote.id} {quote.fault}"
                (lacks if is_gold else missing).append(statement)
            else:
                role = Role.GOLD if is_gold else Role.DISTRACTOR
                evidence = Evidence.of(quote.document, role, level="quote")
                (gold if is_gold else others).append(evidence)
        lacks += [
            f"gold quote {id} missing: no such quote in the row"
            for id in sorted(gold_ids - {quote.id for quote in quotes})
        ]
        if not gold_ids:
            lacks.append("gold evidence missing: gold_quotes is empty")
        if str(row["q_id"]) != str(int(place.rpartition(":")[2]) - 1):
            self.notes[
                "q_id differs from the 0-based line number that the official scorer relies on"
            ] += 1
        return self.sample(
            place,
            id_,
            SampleParts(
                native=row,
                question=text_of(row, "question"),
                answers=answer_spec(row["answer_short"]),
                gold=gold,
                negatives=others,
                lacks=lacks,
                missing=missing,
                split=id_.rpartition("_")[0],
                topic=str(row.get("domain") or ""),
                cluster=text_of(row, "doc_name"),
                attributes=fields_as_attributes(
                    row,
                    "question_type",
                    evidence_modality="evidence_modality_type",
                    document="doc_name",
                ),
            ),
        )

    def _read_quotes(self, row: dict[str, Any]) -> list[_Quote]:
        quotes: list[_Quote] = []
        name = str(row.get("doc_name") or "")
        for quote in items(row.get("text_quotes")):
            text, id = str(quote.get("text") or "").strip(), str(quote["quote_id"])
            if not text:
                quotes.append(_Quote(id, fault="has no text"))
                continue
            title = f"{name}, page {quote.get('page_id')}"
            quotes.append(_Quote(id, self._make_document(name, text, title, text=text)))
        for quote in items(row.get("img_quotes")):
            path, id = str(quote.get("img_path") or ""), str(quote["quote_id"])
            image = self._find_image(path)
            if image.ref is None:
                fault = f"picture {image.status}: {path or 'no img_path'}"
                quotes.append(_Quote(id, fault=fault))
                continue
            title = f"{name}, page {quote.get('page_id')}"
            quotes.append(_Quote(id, self._make_document(name, path, title, image=image.ref)))
        return quotes

    def _make_document(
        self, name: str, content: str, title: str, **content_fields: Any
    ) -> Document:
        id_ = f"{name}:{digest([content, title], 12)}"
        return Document(
            id=id_, title=title, page=name, source=self.name, licence=self.licence, **content_fields
        )

    @cached_property
    def _packed(self) -> dict[str, str]:
        archive = self.root / "images.zip"
        return self.members(archive) if archive.is_file() else {}

    def _find_image(self, path: str) -> FoundImage:
        below = path if path.startswith("images/") else f"images/{path}"
        image = self.images.file(below)
        if image.status != "missing":
            return image
        uri = self._packed.get(below) or self._packed.get(below.removeprefix("images/"))
        return self.images.at(uri, path) if uri else image


def answer_spec(answer: Any) -> AnswerSpec:
    """``answer_short``; a list, written out or as text (``"['46','27']"``), means parts that are all required."""
    value = literal(answer)
    if isinstance(value, list | tuple):
        parts = tuple(answer_texts(value, "answer_short"))
        if not parts:
            raise DataError("answer_short is an empty list", cure="leave the row out")
        return AnswerSpec(kind="parts", accepted=(parts,), rule="mmdocrag")
    return AnswerSpec(accepted=tuple(accepted_forms([answer], "answer_short")), rule="mmdocrag")
