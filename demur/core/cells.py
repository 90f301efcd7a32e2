"""What a cell of somebody's table means: a text, a list, the accepted forms of an answer, the options of a choice.

Where a text belongs, a list or an object is refused by name: printed as Python prints it, it would pass unseen.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

from demur.core.errors import DataError
from demur.core.strict_json import check_depth, parsed_json


def literal(text: Any) -> Any:
    """The list or object that a text writes out, in JSON or as Python prints it; any other value as it is."""
    if not isinstance(text, str) or not text.lstrip().startswith(("[", "{", "(")):
        return text
    with suppress(ValueError):
        return parsed_json(text)
    outside = _QUOTED.sub("", text)
    if _NO_VALUE.search(outside):  # Python's parser goes down its stack with every operator
        return text
    try:
        check_depth(outside.replace("(", "[").replace(")", "]"))
        return ast.literal_eval(
            _QUOTED.sub(lambda m: m[0].rstrip() + ", " * bool(m[1]), text.strip())
        )
    except (ValueError, SyntaxError, MemoryError):
        return text


_QUOTED = re.compile(
    r"""[bBuU]?(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")(\s+(?=['"]))?""", re.DOTALL
)
"""Matches a text in quotes; group 1 where another follows without a comma, as numpy prints ['a' 'b']."""
_NO_VALUE = re.compile(
    r"[^\s\w,:.()\[\]{}+-]"
    r"|[-+]\s*+[^\s\d.]|(?<!\d[eE])(?<![\s,:\[({])[-+]|[^\s,:\[({]\s++[-+]"  # a sign that is not a number's
    r"|\b(?!(?:None|True|False)\b)[^\W\d]"  # a name
)
"""Matches text outside quotes that no list of plain values has."""


def list_written(cell: Any) -> Any:
    """The list of texts or objects that a text writes out (`literal`); any other value as it is.

    Numbers are no list: ``[0, 1]`` may be an interval.
    """
    value = literal(cell) if isinstance(cell, str) and cell.startswith("[") else None
    texts = isinstance(value, list) and all(isinstance(member, str | dict) for member in value)
    return value if texts else cell


_NOTHING = frozenset({"", "none", "null", "nan", "na", "n/a"})


def is_empty(cell: Any) -> bool:
    """Whether a cell of a table holds no value: nothing, or a text that means it."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _NOTHING)


def listed(value: Any) -> list[Any]:
    """The items of a list, or of a list written as text; any other value is one item, an empty one none."""
    value = literal(value)
    return (
        list(value) if isinstance(value, list | tuple) else [] if value in (None, "") else [value]
    )


def pick(value: Any, name: str, absent: Any = None) -> Any:
    """A field by its name, or by a path through objects and lists (``output.answer``, ``resps.0``)."""
    if isinstance(value, dict) and name in value:
        return value[name]
    for step in name.split("."):
        if isinstance(value, list) and step.isdecimal() and int(step[:9]) < len(value):
            value = value[int(step[:9])]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return absent
    return value


def is_null(value: Any) -> bool:
    """None, or the NaN that pandas writes for it."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def cell_text(value: Any, name: str) -> str:
    """A cell as text: "" for a null, UTF-8 of bytes, a whole number without ``.0``.

    Args:
        name: of the column, for the message.

    Raises:
        DataError: the cell holds a list or an object, or bytes that are not UTF-8.
    """
    if is_null(value):
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name!r} holds bytes that are not UTF-8", cure="name another column"
            ) from error
    if isinstance(value, list | tuple | Mapping):
        inner = next(iter(value), "0") if isinstance(value, Mapping) else "0"
        raise DataError(
            f"{name!r} holds {_kind(value)}, where a text belongs",
            cure=f"name the part that is meant, such as {name}.{inner}, or another column",
        )
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"an object with {', '.join(map(str, list(value)[:6])) or 'nothing'}"
    return f"a list of {len(value)}"


def accepted_forms(value: Any, name: str) -> list[tuple[str, ...]]:
    """The accepted forms of an answer, any of them; a form of several parts needs them all.

    Read are a text or number, a list of these, a list of lists (of parts), SQuAD's ``{"text": [...]}`` and TriviaQA's
    ``{"value": ..., "aliases": [...]}``. Nulls in a list are left out.

    Raises:
        DataError: another object, or a boolean.
    """
    forms: list[tuple[str, ...]] = []
    for item in listed(value):
        if isinstance(item, Mapping) and "text" in item:
            forms += accepted_forms(item["text"], name)
        elif isinstance(item, Mapping) and "value" in item:
            forms += accepted_forms([item["value"], *listed(item.get("aliases"))], name)
        elif isinstance(item, list | tuple):
            forms.append(tuple(_answer_text(part, name) for part in item if part is not None))
        elif item is not None:
            forms.append((_answer_text(item, name),))
    return list(dict.fromkeys(forms))


def answer_texts(value: Any, name: str) -> list[str]:
    """The accepted forms of an answer that has no parts, or all parts of one form.

    Raises:
        DataError: as `accepted_forms`, or a list in the list.
    """
    forms = accepted_forms(value, name)
    if any(len(form) != 1 for form in forms):
        raise DataError(f"{name!r} holds a list in a list", cure="mend the row or leave it out")
    return [form[0] for form in forms]


def _answer_text(value: Any, name: str) -> str:
    if isinstance(value, bool):
        raise DataError(
            f"{name!r} holds {str(value).lower()}, a boolean", cure="write a text, such as yes"
        )
    return cell_text(value, name).strip()


class Options(NamedTuple):
    """The options of a choice."""

    pairs: tuple[tuple[str, str], ...] = ()
    """(label, text)"""
    lettered: bool = False
    """The table has no labels: they are A, B, C in the order of the options."""


def options_in(value: Any, name: str) -> Options:
    """The options that a cell holds; none if it is empty.

    Read are a list of texts, label -> text, ``{"label": [...], "text": [...]}`` (ARC), and a list of objects with
    ``label`` and ``text``.

    Raises:
        DataError: something else, an empty option, or a label that two options have.
    """
    value = literal(value)
    if is_empty(value):
        return Options()
    if not isinstance(value, list | tuple | Mapping):
        raise DataError(
            f"{name} holds {value!r}", cure="write a list of choices, such as ['red', 'blue']"
        )
    rows: Sequence[tuple[Any, Any]]
    lettered = False
    if isinstance(value, Mapping):
        labels, texts = value.get("label"), value.get("text")
        parallel = isinstance(labels, list | tuple) and isinstance(texts, list | tuple)
        rows = list(zip_longest(labels or (), texts or ())) if parallel else list(value.items())
    elif all(isinstance(item, Mapping) and {"label", "text"} <= item.keys() for item in value):
        rows = [(item["label"], item["text"]) for item in value]
    else:
        rows, lettered = [(chr(ord("A") + i), text) for i, text in enumerate(value)], True
    pairs = tuple((cell_text(label, name), cell_text(text, name)) for label, text in rows)
    if not all(text.strip() for pair in pairs for text in pair) or len(dict(pairs)) < len(pairs):
        raise DataError(f"an option of {name} is empty, or two have one label", cure="mend the row")
    return Options(pairs, lettered)


def without_positions(
    forms: Sequence[tuple[str, ...]], value: Any, options: Options, name: str
) -> tuple[tuple[str, ...], ...]:
    """The forms of a choice's answer, with labels in place of positions that count from 0.

    Args:
        forms: read by `accepted_forms`.
        value: the cell that they were read from.
        options: of the question.
        name: of the column, for the message.

    Raises:
        DataError: a number may be a position, or the text of another option.
    """
    texts = [text.strip().casefold() for _, text in options.pairs]
    is_number = any(isinstance(item, int) for item in listed(value))

    def labelled(part: str) -> str:
        at = int(part) if options.lettered and re.fullmatch(r"\d{1,3}", part) else len(texts)
        if at >= len(texts) or (part in texts and not is_number):
            return part
        if part in texts and texts[at] != part:
            raise DataError(
                f"{name!r} holds {part}: a position, or the text of an option?",
                cure="write the option's letter",
            )
        return options.pairs[at][0]

    return tuple(tuple(map(labelled, form)) for form in forms)
