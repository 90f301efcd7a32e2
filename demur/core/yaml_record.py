"""A user's YAML file as a record: all faults at once, each with its line, its key and the nearest known one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from demur.core.errors import UsageError, did_you_mean
from demur.core.store import parsed_yaml, read_text

R = TypeVar("R", bound=BaseModel)
_EXPECTED = {
    "model_type": "expected keys below it",
    "model_attributes_type": "expected keys below it",
    "string_type": "expected text",
    "tuple_type": "expected a list",
}
"""Type of a fault -> what was expected, where pydantic says it in words of Python."""


class Form(NamedTuple):
    """What a file should hold, for errors."""

    name: str
    """``the recipe``, ``the field map``."""
    cure: str


def read_record(path: Path, record: type[R], form: Form) -> R:
    """Read a file and check it.

    Raises:
        UsageError: not YAML, or wrong keys or values; names all of them.
        StorageError: it cannot be read.
    """
    text = read_text(path)
    values = parsed_yaml(text, str(path), form.cure)
    return parse_record(
        values, record, form, item=str(path), node=yaml.compose(text, Loader=yaml.SafeLoader)
    )


def parse_record(
    values: Any, record: type[R], form: Form, *, item: str, node: yaml.Node | None = None
) -> R:
    """Check plain values.

    Args:
        item: where they are from.
        node: the same values with their lines, if they were read from a file.

    Raises:
        UsageError: wrong keys or values; names all of them.
    """
    if not isinstance(values, Mapping):
        raise UsageError(
            f"{form.name} is not a mapping of keys to values", item=item, cure=form.cure
        )
    faults = [f"{place} occurs twice" for place in _repeated_keys(node)]
    try:
        parsed = record.model_validate(values)
        if not faults:
            return parsed
    except ValidationError as error:
        faults += [
            _describe(each, record, form, _locate(each, values, node))
            for each in _innermost(error.errors())
        ]
    raise UsageError("; ".join(dict.fromkeys(faults)), item=item, cure=form.cure)


class _Place(NamedTuple):
    """A place in a file."""

    steps: list[Any]
    """Keys and numbers that lead to it."""
    value: Any
    line: str
    """``line 3: ``; "" if lines are not known."""


def _innermost(errors: Sequence[Any]) -> list[Any]:
    """The faults without those that follow from a fault within: a list whose only item is wrong is too short."""
    return [
        error
        for error in errors
        if not any(
            len(other["loc"]) > len(error["loc"])
            and other["loc"][: len(error["loc"])] == error["loc"]
            for other in errors
        )
    ]


def _describe(error: Any, record: type[BaseModel], form: Form, place: _Place) -> str:
    last, name = error["loc"][-1] if error["loc"] else "", _path_text(place.steps)
    match error["type"]:
        case "extra_forbidden":
            keys = sorted(_record_at(record, place.steps[:-1]).model_fields)
            above = _path_text(place.steps[:-1]) or form.name
            near = did_you_mean(str(last), keys) or f"it knows {', '.join(keys)}"
            return f"{place.line}{above} has no key {str(last)!r}; {near}"
        case "missing":
            return f"{place.line}{name or form.name} lacks the key {last!r}"
        case "value_error":
            reason = str(error["msg"]).removeprefix("Value error, ")
            return f"{place.line}{name}: {reason}" if name else f"{place.line}{reason}"
        case kind:
            value = "empty" if place.value is None else f"{place.value!r:.60}"
            why = _EXPECTED.get(kind, str(error["msg"])).replace("Input should be", "expected", 1)
            return f"{place.line}{name} is {value}: {why}"


def _locate(error: Any, values: Any, node: yaml.Node | None) -> _Place:
    """The place of a fault, as far as it is there."""
    steps: list[Any] = []
    line = _line_of(node)
    for step in error["loc"]:
        if isinstance(values, Mapping) and step in values:
            values = values[step]
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            key, node = next((pair for pair in pairs if pair[0].value == step), (None, None))
            line = _line_of(key) or line
        elif isinstance(values, Sequence) and isinstance(step, int) and step < len(values):
            values = values[step]
            node = node.value[step] if isinstance(node, yaml.SequenceNode) else None
            line = _line_of(node) or line
        elif step == 0:
            continue  # one part in place of a list
        else:
            break
        steps.append(step)
    return _Place(steps, values, line)


def _line_of(node: yaml.Node | None) -> str:
    return "" if node is None else f"line {node.start_mark.line + 1}: "


def _path_text(steps: Sequence[Any]) -> str:
    """``samples.fields.gold``, ``documents[1].fields``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def _record_at(record: type[BaseModel], steps: Sequence[Any]) -> type[BaseModel]:
    """The record that stands at a place of another."""
    for step in steps:
        field = record.model_fields.get(str(step))
        record = (_record_in(field.annotation) if field is not None else None) or record
    return record


def _record_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_record_in, get_args(annotation))), None)


def _repeated_keys(node: yaml.Node | None, place: tuple[str, ...] = ()) -> Iterator[str]:
    """``line N: KEY`` of each key that occurs twice in a mapping; YAML itself takes the last."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                yield f"{_line_of(key)}{'.'.join((*place, name))}"
            seen.add(name)
            yield from _repeated_keys(value, (*place, name))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _repeated_keys(value, place)
