"""The one grammar of names: ``NAME:ARGUMENT?key=value&key=value``, for systems, judges, encoders, sources and corpora.

Argument and options may be absent: ``local``, ``local?phrases=own.txt``, ``http:rag.yaml``, ``reader?min=0.5``. Options
belong to the part that is named first. They begin at the last question mark that has no ``#`` behind it, so that the
address of a model may hold a query: ``cascade:http://host/v1?version=2#model?below=0.9``. A part within another one that
has options or commas of its own stands in parentheses: ``panel:local,(local?phrases=own.txt),(cascade:openai/m?below=1)``.
Values have no escapes, so that a prefix such as ``query: `` keeps its blank. Beside this grammar stay ``NAME=SYSTEM``,
which names a run, and ``realistic(k=2)``, a scenario.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from demur.core.errors import UsageError


class Option(NamedTuple):
    """One option."""

    meaning: str
    """For error messages."""
    takes: tuple[str, ...] | range | type[float] = ()
    """Its values: one of these words, an integer of this range, a number from 0 to 1 (`float`); any text if empty."""


class Named(NamedTuple):
    """What follows a name: an argument such as ``EVA02-B-16/tag``, and options."""

    argument: str
    options: dict[str, str]


def split_part(text: str) -> tuple[str, str]:
    """The name of a part, and what follows it.

    >>> split_part("open_clip:EVA02-B-16/tag?batch=8"), split_part("local?phrases=own.txt"), split_part("local")
    (('open_clip', 'EVA02-B-16/tag?batch=8'), ('local', '?phrases=own.txt'), ('local', ''))
    """
    end = re.search(r"[:?]", text)
    if end is None:
        return text, ""
    return text[: end.start()], text[end.start() :].removeprefix(":")


def named(part: str, text: str, known: Mapping[str, Option | str]) -> Named:
    """The argument and the options of a part.

    Args:
        part: its name, for errors.
        text: what follows the name (`split_part`).
        known: the options; a meaning alone is an option that takes any text.

    Raises:
        UsageError: an option is unknown, is given twice, or has no value or a wrong one.

    >>> named("e", "org/model?query=query: &batch=8", {"query": "", "batch": Option("", range(1, 100))})
    Named(argument='org/model', options={'query': 'query: ', 'batch': '8'})
    >>> named("model", "http://host/v1?version=2#m", {}), named("cascade", "(local?a=b)?c=d", {"c": ""})
    (Named(argument='http://host/v1?version=2#m', options={}), Named(argument='local?a=b', options={'c': 'd'}))
    """
    marks = [m.start() for m in re.finditer(r"\?", text) if not _depth(text[: m.start()])]
    start = marks[-1] if marks and "#" not in text[marks[-1] :] else len(text)
    table = {
        key: Option(value) if isinstance(value, str) else value for key, value in known.items()
    }
    options: dict[str, str] = {}
    for pair in text[start + 1 :].split("&") if text[start + 1 :] else ():
        key, equals, value = pair.partition("=")
        if why := _wrong(key, value if equals else None, table, options):
            wanted = [key] if key in table else sorted(table)
            raise UsageError(
                why,
                item=f"{part}:{text}",
                cure="; ".join(f"{name}={table[name].meaning}" for name in wanted)
                or "it takes no options; write a part within it that has some in parentheses",
            )
        options[key] = value
    return Named(_unwrapped(text[:start]), options)


def members(text: str) -> list[str]:
    """The parts that a text lists by commas, without the parentheses around one.

    >>> members("local,(model:http://a/v1#m,http://b/v1#m),(local?phrases=own.txt)")
    ['local', 'model:http://a/v1#m,http://b/v1#m', 'local?phrases=own.txt']
    """
    parts, start = [], 0
    for comma in re.finditer(",", text):
        if not _depth(text[start : comma.start()]):
            parts.append(text[start : comma.start()])
            start = comma.end()
    return [_unwrapped(part.strip()) for part in (*parts, text[start:])]


def _depth(text: str) -> int:
    return text.count("(") - text.count(")")


def _unwrapped(text: str) -> str:
    inner = text[1:-1]
    return inner if text.startswith("(") and text.endswith(")") and not _depth(inner) else text


def _wrong(
    key: str, value: str | None, known: Mapping[str, Option], before: Mapping[str, str]
) -> str:
    """What is wrong with ``key=value`` after the options ``before``; "" if nothing is."""
    if key not in known:
        return f"option {key!r} is not known"
    if key in before:
        return f"option {key!r} is given twice"
    if value is None:
        return f"option {key!r} has no value"
    takes = known[key].takes
    if isinstance(takes, range):
        # ten digits are more than any range here needs, and keep int() quick
        if not (value.isdecimal() and len(value) <= 10 and int(value) in takes):
            return f"{key}={value!r} is not a whole number from {takes[0]:,} to {takes[-1]:,}"
    elif isinstance(takes, type):
        if not re.fullmatch(r"0|1|0?\.\d{1,9}|1\.0{1,9}", value):
            return f"{key}={value!r} is not a number from 0 to 1"
    elif takes and value not in takes:
        return f"{key}={value!r} is not known"
    return ""
