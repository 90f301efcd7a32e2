"""The field map of a `generic` source, ``demur-map.yaml``.

`FieldMap` is the map as a record. `read_map` reads one; its errors name line and key and show an example that works.
`Used` compares the map with the rows: fields of the map that no row has, and fields of the rows that it does not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from demur.core.cells import pick
from demur.core.errors import UsageError, did_you_mean
from demur.core.records import Record
from demur.core.store import parsed_yaml, read_text

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


# --- reading one ---------------------------------------------------------------------------------

_EXAMPLES = {
    "name": "name: my-corpus",
    "samples": "samples: {files: [questions.jsonl], fields: {question: ask, answers: say, gold: passage_ids}}",
    "documents": "documents: [{files: [passages.jsonl], fields: {id: id, text: body}}]",
    "files": "files: [questions.jsonl]",
    "dataset": "dataset: {path: folder-or-name, split: test}",
    "fields": "fields: {id: id, question: ask, answers: say, gold: [passage_id, drawing_id]}",
    "answers": "answers: {any: '|'}",
    "images": "images: photo",
    "gold": "gold: [passage_id, drawing_id]",
    "negatives": "negatives: hard_ids",
    "attributes": "attributes: [style, author]",
    "split": "split: test",
    "licence": "licence: CC-BY-4.0",
}
"""Key -> a line that works."""
_PAGE = "docs/sources.md lists every key under 'The field map'"


def read_map(path: Path) -> FieldMap:
    """Read and check a map.

    Raises:
        UsageError: the map is wrong; the message names line, key and the nearest known key, the cure a line that works.
        StorageError: it cannot be read.
    """
    text = read_text(path)
    value = parsed_yaml(text, str(path), f"mend it; for example `{_EXAMPLES['samples']}`")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or not isinstance(value, dict):
        raise UsageError(
            "the field map is not a mapping of keys to values",
            item=path,
            cure=f"for example `{_EXAMPLES['samples']}`; {_PAGE}",
        )
    complaints = [(place, f"{place} occurs twice") for place in repeated_keys(root)]
    try:
        field_map = FieldMap.model_validate(value)
        if not complaints:
            return field_map
    except ValidationError as error:
        complaints += [_say_what_is_wrong(each, root) for each in error.errors()]
    messages = list(dict.fromkeys(message for _, message in complaints))
    key = next(
        (step for step in reversed(complaints[0][0].split(".")) if step in _EXAMPLES), "samples"
    )
    raise UsageError(
        "; ".join(messages), item=path, cure=f"for example `{_EXAMPLES[key]}`; {_PAGE}"
    )


def repeated_keys(node: Any, place: tuple[str, ...] = ()) -> Iterator[str]:
    """``line N: KEY`` of each key that occurs twice in a mapping of a YAML node; YAML itself takes the last."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                yield f"line {key.start_mark.line + 1}: {'.'.join((*place, name))}"
            seen.add(name)
            yield from repeated_keys(value, (*place, name))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from repeated_keys(value, place)


def _say_what_is_wrong(error: Any, root: Any) -> tuple[str, str]:
    """(key, what is wrong with it) of one error of the validator."""
    steps = [step for step in error["loc"] if isinstance(step, int) or str(step).isidentifier()]
    line, value, steps = _locate(root, steps)
    place = _path_text(steps)
    at = f"line {line}: "
    kind = error["type"]
    if kind == "extra_forbidden":
        key, above = (
            str(error["loc"][-1]),
            steps[:-1] if steps and steps[-1] == error["loc"][-1] else steps,
        )
        known_keys = sorted(_keys(above))
        hint = did_you_mean(key, known_keys) or f"it knows {', '.join(known_keys)}"
        return place, f"{at}{_path_text(above) or 'the map'} has no key {key!r}; {hint}"
    if kind == "missing":
        return (
            place,
            f"{at}{_path_text(list(error['loc'])[:-1]) or 'the map'} lacks the key {error['loc'][-1]!r}",
        )
    if kind == "value_error":
        reason = str(error["msg"]).removeprefix("Value error, ")
        return place if "fields" in reason else f"{place}.files", f"{at}{place} {reason}"
    if kind == "string_pattern_mismatch":
        return place, f"{at}{place} is {value!r}, expected small letters, digits, - and _"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return place, f"{at}{place} is {_kind_in_words(value)}, expected keys below it"
    several = steps and steps[-1] in ("files", "images", "gold", "negatives", "attributes")
    expected = (
        "a name or a list of names"
        if several
        else "a list of parts"
        if place == "documents"
        else "one text"
    )
    return place, f"{at}{place} is {_kind_in_words(value)}, expected {expected}"


def _locate(root: Any, steps: Sequence[Any]) -> tuple[int, Any, list[Any]]:
    """(line, value as plain data, existing steps) of a place in the map."""
    node, line, existing_steps = root, root.start_mark.line + 1, []
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == step), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value)
        ):
            node = node.value[step]
            line = node.start_mark.line + 1
        elif step == 0:
            continue  # one part in place of a list
        else:
            break
        existing_steps.append(step)
    return (
        line,
        yaml.SafeLoader("").construct_document(node) if node is not None else None,
        existing_steps,
    )


def _path_text(steps: Sequence[Any]) -> str:
    """``samples.fields.gold``, ``documents[1].fields``."""
    path_text = ""
    for step in steps:
        path_text += (
            f"[{step}]" if isinstance(step, int) else f".{step}" if path_text else str(step)
        )
    return path_text


def _keys(steps: Sequence[Any]) -> Iterable[str]:
    """The known keys at a place in the map."""
    kinds: dict[tuple[str, ...], type[Record]] = {
        (): FieldMap,
        ("samples",): SamplesPart,
        ("samples", "fields"): SampleFields,
        ("samples", "answers"): AnswerMarks,
        ("samples", "dataset"): Repository,
        ("documents",): DocumentsPart,
        ("documents", "fields"): DocumentFields,
        ("documents", "dataset"): Repository,
    }
    kind = kinds.get(tuple(str(step) for step in steps if not isinstance(step, int)))
    return kind.model_fields if kind is not None else ()


def _kind_in_words(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"the list {list(value)!r}"[:60]
    return f"{value!r}"[:60]


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
