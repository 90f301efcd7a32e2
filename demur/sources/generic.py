"""Any other dataset: JSON Lines, JSON, CSV, TSV, Parquet or a `datasets` repository, with a map of its fields.

The map is ``demur-map.yaml`` in the folder (``docs/field-map.md`` explains every key):

.. code-block:: yaml

    name: mine
    samples:
      files: [questions.jsonl]
      fields: {id: id, question: question, answers: answers, images: photo, gold: [gold_text, gold_images]}
    documents:
      - files: [passages.jsonl]
        fields: {id: id, title: title, text: text}
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from demur.core.cells import (
    Options,
    accepted_forms,
    cell_text,
    is_empty,
    listed,
    literal,
    options_in,
    pick,
    without_positions,
)
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, Modality, Role, Sample
from demur.core.store import Problems, digest
from demur.core.untrusted import Choice, check
from demur.corpora.formats import Lookup, dataset_rows, in_numeric_order, inside, table_rows
from demur.sources.field_map import (
    MAP,
    DocumentsPart,
    FieldMap,
    Repository,
    Rows,
    Used,
    read_map,
)
from demur.sources.native import (
    FoundImage,
    NativeSource,
    SampleParts,
    read_truth,
)

_ANSWERABLE = {"answerable": True, "unanswerable": False}
LOOKED_AT = 100
"""Rows of each part of the map that are read, at least, to compare their fields with the map."""
_LIKE_AN_ID = re.compile(r"\S*\w")


class _Row(NamedTuple):
    """One row."""

    place: str
    value: dict[str, Any]
    uri: Callable[[str], str] | None
    """Column -> the uri of an image in it; None outside Parquet."""


class Generic(NativeSource):
    """Reads a folder by a map of its fields.

    Args:
        folder: the dataset; relative paths in the map and in the rows start here.
        problems: where bad rows are noted.
        map: the map file; ``demur-map.yaml`` in the folder when empty.

    Evidence fields hold ids of documents, or objects with ``id, title, text, image``, or, where the map names no
    documents, the text itself. Image bytes from a `datasets` repository, and base64, are put into
    ``images-from-cells/``.
    """

    name = "generic"
    escaped = False
    _map: ClassVar[FieldMap | None] = None
    """The map of a subclass, which reads one dataset."""

    def __init__(self, folder: Path, problems: Problems | None = None, map: str = "") -> None:
        super().__init__(folder, problems)
        file = Path(map) if map or self._map else self.need(MAP)
        self.map = self._map or read_map(file)
        self.name = self.map.name  # type: ignore[misc]  # the map names the source
        origins = [
            origin.dataset
            for origin in (self.map.samples, *self.map.documents)
            if origin.dataset is not None
        ]
        if self._map is None:
            chosen = [Choice("dataset", each.path, base=self.root) for each in origins]
            check(file, chosen, folder=self.root)
        self.elsewhere = any(not self._within(repository.path) for repository in origins)
        """Whether it reads anything outside its folder: a repository on the hub."""

    def _within(self, path: str) -> bool:
        place = (self.root / path).resolve()
        return place.exists() and place.is_relative_to(self.root.resolve())

    # --- rows ---

    def _read_rows(self, origin: Rows, problems: Problems) -> Iterator[_Row]:
        if origin.dataset is not None:
            yield from self._read_repository(origin.dataset)
        for pattern in origin.files:
            inside(
                self.root, pattern
            )  # a star matches no folder above, and glob takes no absolute pattern
            paths = (
                in_numeric_order(self.root.glob(pattern))
                if "*" in pattern
                else [self.root / pattern]
            )
            if not paths or not paths[0].is_file():
                self.need(pattern)
            for path in paths:
                yield from self._read_file(path, problems)

    def _read_file(self, path: Path, problems: Problems) -> Iterator[_Row]:
        below = path.relative_to(self.root).as_posix()
        for place, number, value in table_rows(path, problems):
            in_cell = (
                partial("parquet:{}#{}/{}".format, below, number)
                if path.suffix == ".parquet"
                else None
            )
            yield _Row(place, value, in_cell)

    def _read_repository(self, repository: Repository) -> Iterator[_Row]:
        local = self.root / repository.path
        path = str(local) if local.exists() else repository.path
        for _, number, value in dataset_rows(path, name=repository.name, split=repository.split):
            yield _Row(f"{repository.path}/{repository.split}:{number}", value, None)

    # --- documents ---

    def documents(self) -> Iterator[Document]:
        """Documents of every part of the map, in its order."""
        if self._fits:
            yield from self.records(self._document_rows(), self._make_document)

    @cached_property
    def _fits(self) -> bool:
        """Whether each field that the map names is in some row; notes those that are not, and fields that it leaves.

        A wrong name spoils every row, so nothing is read then: what the rows lack by it would be told for each of them.
        Each part is read until every field was met, but at least `LOOKED_AT` rows.
        """
        if self._map is not None:
            return True
        parts: list[Used] = [Used(self.map.samples, "samples")]
        parts += [
            Used(part, f"documents[{number}]") for number, part in enumerate(self.map.documents)
        ]
        fits = True
        for used in parts:
            for row in self._read_rows(used.part, Problems()):
                used.saw(row.value)
                if used.complete and used.rows >= LOOKED_AT:
                    break
            for line in used.missing():
                fits = False
                self.problems.add("", line)
            if names := used.unused():
                listing = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
                self.notes[
                    f"fields of the rows that {used.place} of the map does not use: {listing}"
                ] = len(names)
        return fits

    def _document_rows(self) -> Iterator[tuple[str, str, tuple[DocumentsPart, _Row]]]:
        for part in self.map.documents:
            for row in self._read_rows(part, self.problems):
                yield row.place, _id_text(pick(row.value, part.fields.id)), (part, row)

    def _make_document(self, place: str, id_: str, part: DocumentsPart, row: _Row) -> Document:
        fields = part.fields
        if not id_:
            raise DataError(f"no {fields.id}", cure="mend the row or leave it out")
        image = self._find_images(row, fields.image)
        if image and image[0].ref is None:
            raise DataError(
                f"picture {image[0].status}: {image[0].name}", cure="fetch it, or leave the row out"
            )
        return Document(
            id=id_,
            title=_text_of_field(row, fields.title),
            text=_text_of_field(row, fields.text) or None,
            image=image[0].ref if image else None,
            page=_text_of_field(row, fields.page),
            source=_text_of_field(row, fields.source) or self.name,
            licence=_text_of_field(row, fields.licence),
            attributes=_attributes_of_row(row, fields.attributes),
        )

    # --- samples ---

    def samples(self) -> Iterator[Sample]:
        """Rows in the order of the map's files."""
        if not self._fits:
            return
        fields = self.map.samples.fields
        wanted_ids: set[str] = set()
        if self.map.documents:
            for row in self._read_rows(self.map.samples, Problems()):
                named = _values_of_fields(
                    row, (*_as_names(fields.gold), *_as_names(fields.negatives))
                )
                wanted_ids.update(_id_text(value) for value in named)
        documents = Lookup(self._wanted_documents(wanted_ids), wanted_ids)
        rows = (
            (row.place, _id_text(pick(row.value, fields.id)), (row, documents))
            for row in self._read_rows(self.map.samples, self.problems)
        )
        gold_texts = Counter[bool]()
        for sample in self.records(rows, self._make_sample):
            gold_texts.update(_LIKE_AN_ID.fullmatch(e.text) is None for e in sample.gold if e.text)
            yield sample
        if not self.map.documents and gold_texts[False] and not gold_texts[True]:
            self.problems.add(
                MAP,
                f"all {gold_texts[False]:,} gold texts of {', '.join(fields.gold)} look like ids, but the map "
                "has no part `documents` with the documents of these ids",
            )

    def _wanted_documents(self, wanted_ids: set[str]) -> Iterator[tuple[str, Any]]:
        """The wanted documents as JSON, for `demur.corpora.formats.Lookup`."""
        if wanted_ids:
            for place, id_, (part, row) in self._document_rows():
                if id_ in wanted_ids:
                    document = self.make(
                        place, id_, partial(self._make_document, place, id_, part, row)
                    )
                    if document is not None:
                        yield id_, document.model_dump(mode="json")

    def _make_sample(self, place: str, id_: str, row: _Row, documents: Lookup) -> Sample:
        part, fields = self.map.samples, self.map.samples.fields
        lacks: list[str] = []
        missing: list[str] = []
        return self.sample(
            place,
            id_,
            SampleParts(
                question=_text_of_field(row, fields.question),
                answers=self._make_answers(row),
                images=[
                    image
                    for name in _as_names(fields.images)
                    for image in self._find_images(row, name)
                ],
                answerable=self._is_answerable(row),
                gold=self._gather_evidence(row, fields.gold, Role.GOLD, documents, lacks),
                negatives=self._gather_evidence(
                    row, fields.negatives, Role.DISTRACTOR, documents, missing
                ),
                lacks=lacks,
                missing=missing,
                split=_text_of_field(row, fields.split) or part.split,
                topic=_text_of_field(row, fields.topic),
                cluster=_text_of_field(row, fields.cluster),
                attributes=_attributes_of_row(row, fields.attributes),
                licence=_text_of_field(row, fields.licence) or part.licence,
                native=_without_bytes(row.value),
            ),
        )

    def _is_answerable(self, row: _Row) -> bool:
        """Whether a row is answerable; yes if it does not say."""
        name = self.map.samples.fields.answerable
        if not name:
            return True
        label = _ANSWERABLE.get(
            _text_of_field(row, name).strip().lower(), _text_of_field(row, name)
        )
        answerable = read_truth(label, name)
        if answerable is None:
            self.notes[f"rows taken for answerable, because {name} is empty"] += 1
        return answerable is not False

    def _make_answers(self, row: _Row) -> AnswerSpec:
        fields, answer_fields = self.map.samples.fields, self.map.samples.answers
        cell = pick(row.value, fields.answers)
        forms = accepted_forms(cell, fields.answers)
        if answer_fields.any:
            forms = [
                (piece,)
                for form in forms
                for part in form
                for piece in part.split(answer_fields.any)
            ]
        if answer_fields.all:
            forms = [
                tuple(piece for part in form for piece in part.split(answer_fields.all))
                for form in forms
            ]
        accepted = tuple(tuple(map(str.strip, form)) for form in forms)
        options = (
            options_in(pick(row.value, fields.choices), fields.choices)
            if fields.choices
            else Options()
        )
        span = _number_range(row, fields.number)
        kind: Any = _text_of_field(row, fields.answer_kind)
        if not kind:
            several = "parts" if any(len(form) > 1 for form in accepted) else "string"
            kind = "choice" if options.pairs else "number" if span else several
            self.notes[f"rows without answer_kind, read as answers of the kind {kind!r}"] += 1
        return AnswerSpec(
            kind=kind,
            accepted=without_positions(accepted, cell, options, fields.answers),
            canonical=_text_of_field(row, fields.canonical),
            number=span,
            unit=_text_of_field(row, fields.unit),
            choices=options.pairs,
            rule=answer_fields.rule,
        )

    def _gather_evidence(
        self,
        row: _Row,
        names: str | tuple[str, ...],
        role: Role,
        documents: Lookup,
        lacks: list[str],
    ) -> list[Evidence]:
        evidence: list[Evidence] = []
        field_names = ", ".join(_as_names(names))
        for value in _values_of_fields(row, _as_names(names)):
            if isinstance(value, dict):
                picture = value.get("image")
                image = self.images.cell(picture, "image", in_place=False) if picture else None
                if image is not None and image.ref is None:
                    lacks.append(f"{role} picture {image.status}: {image.name}")
                    continue
                texts = {
                    key: cell_text(value.get(key), f"{field_names}.{key}")
                    for key in ("id", "title", "text", "document", "page", "licence")
                }
                text = texts["text"] or None
                content = text or (image.ref.sha256 if image and image.ref else "")
                if not content:
                    lacks.append(f"{role} evidence is empty: {texts['id']}")
                    continue
                document = Document(
                    image=image.ref if image else None,
                    **texts
                    | {"text": text, "id": texts["id"] or digest([texts["title"], content], 16)},
                )
                evidence.append(Evidence.of(document, role))
            elif self.map.documents:
                id_ = cell_text(value, field_names)
                stored = documents.get(id_)
                if stored is None:
                    lacks.append(f"{role} document missing: {id_}")
                else:
                    evidence.append(Evidence.of(Document.model_validate(stored), role))
            else:
                text = cell_text(value, field_names)
                evidence.append(
                    Evidence(
                        id=digest(text.encode(), 16),
                        modality=Modality.TEXT,
                        title="",
                        text=text,
                        role=role,
                    )
                )
        return evidence

    # --- images ---

    def _find_images(self, row: _Row, name: str) -> list[FoundImage]:
        """Images of a field, which holds one in any form (`demur.core.uris.picture_in`), or a list of these."""
        value = literal(pick(row.value, name)) if name else None
        cells = value if isinstance(value, list) else [value]
        listed = isinstance(value, list)
        return [
            self.images.cell(
                cell, row.uri(place) if row.uri else place, in_place=row.uri is not None
            )
            for i, cell in enumerate(cells)
            if not is_empty(cell)
            for place in [f"{name}/{i}" if listed else name]
        ]


# --- fields --------------------------------------------------------------------------------------


def _as_names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) and names else tuple(names)


def _id_text(value: Any) -> str:
    """An id as text; "" for what none is, so that its row is refused."""
    return "" if isinstance(value, list | dict) else cell_text(value, "id")


def _text_of_field(row: _Row, name: str) -> str:
    return cell_text(pick(row.value, name), name) if name else ""


def _number_range(row: _Row, name: str) -> tuple[float, float] | None:
    """The range of a number: a number, or a list of its two ends; in a table it is written as text."""
    value = literal(pick(row.value, name)) if name else None
    if is_empty(value):
        return None
    ends = value if isinstance(value, list | tuple) else (value, value)
    try:
        low, high = map(float, ends)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} holds {value!r}", cure="write a number, or a list of two numbers"
        ) from error
    return low, high


def _values_of_fields(row: _Row, names: tuple[str, ...]) -> list[Any]:
    return [item for name in names for item in listed(pick(row.value, name)) if not is_empty(item)]


def _attributes_of_row(row: _Row, names: tuple[str, ...]) -> dict[str, str]:
    value_of_field = {name: pick(row.value, name) for name in names}
    return {
        name: _list_text(value) if isinstance(value, list) else str(value)
        for name, value in value_of_field.items()
        if value is not None and value != []
    }


def _list_text(values: list[Any]) -> str:
    """A list as the text of an attribute: JSON if it holds objects or lists (turns of a conversation)."""
    if any(isinstance(value, dict | list) for value in values):
        return json.dumps(values, ensure_ascii=False)
    return ",".join(map(str, values))


def _without_bytes(value: Any) -> Any:
    """The row without image bytes, safe to write as JSON."""
    if isinstance(value, dict):
        return {
            str(key): _without_bytes(item)
            for key, item in value.items()
            if not isinstance(item, bytes)
        }
    if isinstance(value, list):
        return [_without_bytes(item) for item in value if not isinstance(item, bytes)]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
