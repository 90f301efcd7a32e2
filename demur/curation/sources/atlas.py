"""Atlas: the sample corpus as documents and samples.

Layout of the folder (`demur.sample.atlas` is the shipped one):

- ``kb_text.jsonl``: passages - id, page, title, text, source, licence;
- ``kb_images.jsonl``: captioned images - id, page, title (the caption), file, source, licence, author;
- ``questions.jsonl``: id, style, kind, question, query_image, answers (the first is the one in the gold evidence, the
  others are accepted too), answer_kind, number, unit, gold_text, gold_images, support, entity, licence, ambiguous_with;
- ``images/`` and ``queries/``: the files those rows name, relative to the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from demur.errors import DataError, StorageError
from demur.records import AnswerSpec, Document, Evidence, ImageRef, Record, Role, Sample
from demur.sample import atlas
from demur.store import Problems, image_ref, read_jsonl, storage_errors, why_invalid

R = TypeVar("R", bound="_Row")
T = TypeVar("T")


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


class Atlas:
    """Reads an Atlas folder; rows that cannot be used are noted in ``problems`` and left out.

    Every problem names file, line and id: an unreadable line, a duplicate id, a missing or broken image, an empty
    question, a missing answer, a gold id that no document has. The caller decides what follows, with
    ``problems.settle(skip_bad=...)`` after the iterators have ended. Files are read once, at the first use.

    Args:
        folder: the corpus; the one shipped with demur when None.
        problems: where problems are gathered; a new one (``self.problems``) when None.

    Attributes:
        name: ``atlas``.
        root: the folder that image URIs are relative to.
    """

    name: str = "atlas"

    def __init__(self, folder: Path | None = None, problems: Problems | None = None) -> None:
        self.root = atlas() if folder is None else Path(folder)
        self.problems = Problems() if problems is None else problems
        self._images: dict[str, ImageRef] = {}

    def documents(self) -> Iterator[Document]:
        """Passages, then images, in the order of their files.

        ``page`` groups what belongs together: a country's passages, flag and map (``dz``), a photographed thing's
        photo and passage (``koala``).

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
        found: dict[str, Document] = {}
        for place, passage, _ in self._rows("kb_text.jsonl", _Passage, found):
            self._keep(found, place, passage.id, partial(Document, **passage.model_dump()))
        for place, picture, _ in self._rows("kb_images.jsonl", _Picture, found):
            self._keep(found, place, picture.id, partial(self._picture, picture))
        return found

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        found: dict[str, Sample] = {}
        for place, question, native in self._rows("questions.jsonl", _Question, found):
            self._keep(found, place, question.id, partial(self._sample, question, place, native))
        return tuple(found.values())

    def _rows(self, file: str, kind: type[R], found: Container[str]) -> Iterator[tuple[str, R, dict[str, Any]]]:
        """Valid rows of a file whose id is new: (``file:line``, the row, the row as read)."""
        for place, native in read_jsonl(self.root / file, self.problems):
            item = f"{place} ({native.get('id', 'no id')})"
            try:
                row = kind.model_validate(native)
            except ValidationError as error:
                self.problems.add(item, why_invalid(error))
                continue
            if row.id in found:
                self.problems.add(item, "this id stands in an earlier row too")
            else:
                yield place, row, native

    def _keep(self, found: dict[str, T], place: str, id_: str, make: Callable[[], T]) -> None:
        """Make a record and keep it, or note why it cannot be made."""
        try:
            found[id_] = make()
        except ValidationError as error:
            self.problems.add(f"{place} ({id_})", why_invalid(error))
        except (DataError, StorageError) as error:
            self.problems.add(f"{place} ({id_})", str(error))

    def _picture(self, row: _Picture) -> Document:
        return Document(
            id=row.id,
            title=row.title,
            image=self._image(row.file),
            page=row.page,
            source=row.source,
            licence=row.licence,
            attributes={"author": row.author} if row.author else {},
        )

    def _sample(self, row: _Question, place: str, native: dict[str, Any]) -> Sample:
        wanted = (*row.gold_text, *row.gold_images)
        unknown = [name for name in wanted if name not in self._documents]
        if unknown:
            raise DataError(f"no document has the gold id {', '.join(unknown)}", cure="mend the id or the document")
        attributes = {"style": row.style}
        if row.ambiguous_with:
            attributes["ambiguous_with"] = ",".join(row.ambiguous_with)
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
            images=(self._image(row.query_image),) if row.query_image else (),
            gold=tuple(Evidence.of(self._documents[name], Role.GOLD) for name in wanted),
            split="all",
            topic=row.kind,
            cluster=row.entity,
            attributes=attributes,
            licence=row.licence,
            native=native,
            source_ref=place,
        )

    def _image(self, file: str) -> ImageRef:
        """The checked image of that name below the folder; read once, however many rows show it.

        Raises:
            StorageError: it cannot be read.
            DataError: it lies outside the folder, or is not a whole image.
        """
        if file not in self._images:
            path = self.root / file
            if not path.resolve().is_relative_to(self.root.resolve()):
                raise DataError("the image lies outside the corpus folder", item=file, cure="keep images inside it")
            with storage_errors(path):
                data = path.read_bytes()
            self._images[file] = image_ref(data, file)
        return self._images[file]
