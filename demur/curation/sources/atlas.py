"""Atlas: the sample corpus as documents and samples.

Layout of the folder (`demur.sample.atlas` is the shipped one):

- ``kb_text.jsonl``: passages - id, page, title, text, source, licence;
- ``kb_images.jsonl``: captioned images - id, page, title (the caption), file, source, licence, author;
- ``questions.jsonl``: id, style, kind, question, query_image, answers (the first is the one in the gold evidence, the
  others are accepted too), answer_kind, number, unit, gold_text, gold_images, support, entity, licence, ambiguous_with;
- ``images/`` and ``queries/``: the files those rows name, relative to the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, Record, Role, Sample
from demur.core.store import Problems, read_jsonl
from demur.curation.sources.native import NativeSource
from demur.sample import atlas


class _Row(Record):
    """What every row of the three files has."""

    id: str = Field(min_length=1)
    licence: str = Field(min_length=1)


class _Passage(_Row):
    page: str = Field(min_length=1)
    title: str
    text: str = Field(min_length=1)
    source: str


class _Picture(_Row):
    page: str = Field(min_length=1)
    title: str = Field(min_length=1)
    file: str = Field(min_length=1)
    source: str
    author: str = ""


class _Question(_Row):
    style: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    question: str
    query_image: str | None
    answers: tuple[str, ...] = Field(min_length=1)
    answer_kind: Literal["string", "number", "date"] = "string"
    number: tuple[float, float] | None = None
    unit: str = ""
    gold_text: tuple[str, ...]
    gold_images: tuple[str, ...]
    support: str = ""
    entity: str = Field(min_length=1)
    ambiguous_with: tuple[str, ...] = ()


class Atlas(NativeSource):
    """Reads an Atlas folder; rows that cannot be used are noted in ``problems`` and left out.

    A problem names file, line and id of an unreadable line, a duplicate id, a missing or broken image, an empty
    question, a missing answer, or a gold id without a document. Files are read once, at the first use.

    Args:
        folder: the corpus; the one shipped with demur if None.
        problems: where bad rows are noted.
    """

    name = "atlas"

    def __init__(self, folder: Path | None = None, problems: Problems | None = None) -> None:
        super().__init__(atlas() if folder is None else folder, problems)

    def documents(self) -> Iterator[Document]:
        """Passages, then images, in the order of their files.

        ``page`` groups a country's passages, flag and map (``dz``), or a thing's photo and passage (``koala``).

        Raises:
            StorageError: a file of the corpus cannot be opened.
        """
        yield from self._documents.values()

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of their file; topic = kind, cluster = entity, the style among the attributes.

        Raises:
            StorageError: a file of the corpus cannot be opened.
        """
        yield from self._samples

    @cached_property
    def _documents(self) -> dict[str, Document]:
        def rows() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
            yield from self._rows("kb_text.jsonl", _Passage)
            yield from self._rows("kb_images.jsonl", _Picture)

        return {document.id: document for document in self.records(rows(), self._document)}

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(self.records(self._rows("questions.jsonl", _Question), self._sample))

    def _rows(self, file: str, kind: type[_Row]) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
        for place, native in read_jsonl(self.root / file, self.problems):
            yield place, str(native.get("id") or ""), (kind, native)

    def _document(self, place: str, id_: str, kind: type[_Row], native: dict[str, Any]) -> Document:
        fields = kind.model_validate(native).model_dump()
        if (author := fields.pop("author", "")) != "":
            fields["attributes"] = {"author": author}
        return Document(**({"image": self.picture(fields.pop("file"))} if "file" in fields else {}), **fields)

    def _sample(self, place: str, id_: str, kind: type[_Question], native: dict[str, Any]) -> Sample:
        row = kind.model_validate(native)
        wanted = (*row.gold_text, *row.gold_images)
        if unknown := [name for name in wanted if name not in self._documents]:
            raise DataError(f"no document has the gold id {', '.join(unknown)}", cure="mend the id or the document")
        twins = {"ambiguous_with": ",".join(row.ambiguous_with)} if row.ambiguous_with else {}
        return Sample(
            id=row.id,
            source=self.name,
            question=row.question,
            answers=AnswerSpec(
                kind=row.answer_kind,
                accepted=tuple((answer,) for answer in row.answers),
                number=row.number,
                unit=row.unit,
            ),
            images=(self.picture(row.query_image),) if row.query_image else (),
            gold=tuple(Evidence.of(self._documents[name], Role.GOLD) for name in wanted),
            split="all",
            topic=row.kind,
            cluster=row.entity,
            attributes={"style": row.style, **twins},
            licence=row.licence,
            native=native,
            source_ref=place,
        )
