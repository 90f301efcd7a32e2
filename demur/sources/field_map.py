"""The field map of a `generic` source, ``demur-map.yaml``.

`FieldMap` is the map as a record, which `read_map` reads.
`Used` compares the map with the rows: fields of the map that no row has, and fields of the rows that it does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from demur.core.cells import pick
from demur.core.errors import did_you_mean
from demur.core.records import Record
from demur.core.yaml_record import Form, read_record

MAP = "demur-map.yaml"


def _as_list(value: Any) -> Any:
    """One name as a list of names."""
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""Names of fields: one, or a list."""


class Repository(Record):
    """A `datasets` repository: a local folder, or a name on the hub."""

    path: str
    name: str | None = None
    split: str = "test"


class Rows(Record):
    """Where rows come from: files below the folder (patterns allowed), or a repository."""

    files: Names = ()
    dataset: Repository | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Rows:
        if bool(self.files) == (self.dataset is not None):
            raise ValueError(
                f"needs `files` or `dataset`, and has {'both' if self.files else 'neither'}"
            )
        return self


class DocumentFields(Record):
    """Fields of a row that is a document; "" where it has none."""

    id: str = "id"
    title: str = "title"
    text: str = ""
    image: str = ""
    page: str = ""
    source: str = ""
    licence: str = ""
    attributes: Names = ()


class DocumentsPart(Rows):
    """Rows that are documents."""

    fields: DocumentFields = DocumentFields()

    @model_validator(mode="after")
    def _some_content(self) -> DocumentsPart:
        if not self.fields.text and not self.fields.image:
            raise ValueError("needs fields with `text` or `image`, or its documents are empty")
        return self


class SampleFields(Record):
    """Fields of a row that is a question; "" or () where it has none."""

    id: str = "id"
    question: str = "question"
    answers: str = "answers"
    canonical: str = ""
    answer_kind: str = ""
    number: str = ""
    unit: str = ""
    choices: str = ""
    images: Names = ()
    gold: Names = ()
    negatives: Names = ()
    answerable: str = ""
    split: str = ""
    topic: str = ""
    cluster: str = ""
    licence: str = ""
    attributes: Names = ()


class AnswerMarks(Record):
    """How the text of an answer field is split, and scored."""

    any: str = ""
    all: str = ""
    rule: str = "demur"


class SamplesPart(Rows):
    """Rows that are questions."""

    fields: SampleFields = SampleFields()
    answers: AnswerMarks = AnswerMarks()
    split: str = ""
    licence: str = ""


class FieldMap(Record):
    """The whole map."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="generic", pattern=r"^[a-z0-9][a-z0-9_-]*$")
    samples: SamplesPart
    documents: Annotated[
        tuple[DocumentsPart, ...], BeforeValidator(lambda v: (v,) if isinstance(v, dict) else v)
    ] = ()


FORM = Form(
    "the map",
    "for example `samples: {files: [questions.jsonl], fields: {question: ask, answers: say, gold: passage_ids}}`; "
    "docs/sources.md lists every key under 'The field map'",
)


def read_map(path: Path) -> FieldMap:
    """Read and check a map.

    Raises:
        UsageError: the map is wrong; names line, key and the nearest known key.
        StorageError: it cannot be read.
    """
    return read_record(path, FieldMap, FORM)


# --- what of it was used -------------------------------------------------------------------------

_REQUIRED = ("id", "question", "answers")
_SHOWN = 12
_ABSENT = object()


class Used:
    """Compares the fields of one part of the map with those of the rows.

    Args:
        part: a part of the map.
        place: of the part in the map: ``samples``, ``documents[0]``.
    """

    def __init__(self, part: SamplesPart | DocumentsPart, place: str) -> None:
        self.part = part
        self.place = place
        self._where = ", ".join(part.files) or (part.dataset.path if part.dataset else "")
        stated = part.fields.model_fields_set | (
            {*_REQUIRED} if isinstance(part, SamplesPart) else {"id"}
        )
        names = (
            (key, name)
            for key in sorted(stated)
            for name in _as_list(getattr(part.fields, key))
            if name
        )
        self._wanted = {f"{place}.fields.{key}: {name}": (key, name) for key, name in names}
        self._mapped = {
            name
            for key in type(part.fields).model_fields
            for name in _as_list(getattr(part.fields, key))
        }
        self._missing = dict(self._wanted)
        self._keys: dict[str, None] = {}
        self.rows = 0

    def saw(self, row: dict[str, Any]) -> None:
        """Take the fields of one row into account."""
        self.rows += 1
        if not self._keys.keys() >= row.keys() and len(self._keys) < 1000:
            self._keys.update(dict.fromkeys(map(str, row)))
        if self._missing:
            self._missing = {
                mention: each
                for mention, each in self._missing.items()
                if pick(row, each[1], _ABSENT) is _ABSENT
            }

    @property
    def complete(self) -> bool:
        """Whether some row had each field that the map names."""
        return not self._missing

    def missing(self) -> Iterator[str]:
        """A problem for each field that the map names and no row has."""
        if not self.rows:
            return
        seen_keys = list(self._keys)
        for mention, (_, name) in self._missing.items():
            near = did_you_mean(
                name, [key for key in seen_keys if key not in self._mapped] or seen_keys
            )
            rows = f"the rows have {', '.join(seen_keys[:_SHOWN])}{', ...' if len(seen_keys) > _SHOWN else ''}"
            yield f"{MAP}: {mention}: none of the {self.rows:,} rows of {self._where} has this field; {near or rows}"

    def unused(self) -> list[str]:
        """Fields of the rows that the map does not use."""
        steps = {name.split(".")[0] for name in self._mapped} | self._mapped
        return [key for key in self._keys if key not in steps]
