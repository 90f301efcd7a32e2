"""What follows the question mark in the name of an encoder or a corpus: ``ARGUMENT?key=value&key=value``.

An encoder or a corpus reader declares its options in one table; what is wrong with those given is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from demur.core.errors import UsageError


class Option(NamedTuple):
    """One option that is known."""

    meaning: str
    """Shown to whoever gives it wrongly."""
    takes: tuple[str, ...] | range = ()
    """One of these words, or a whole number of this range; any text when it is empty."""


class Named(NamedTuple):
    """The two halves of what follows a name: ``EVA02-B-16/tag`` and its options."""

    argument: str
    options: dict[str, str]


def named(part: str, text: str, known: Mapping[str, Option | str]) -> Named:
    """Split ``ARGUMENT?key=value&key=value``.

    Values are taken as they stand (no percent or plus escapes), so that prefixes such as ``query: `` keep their blanks.

    Args:
        part: the encoder's or the corpus' name, for errors.
        text: what followed that name and its colon.
        known: the options; a meaning alone stands for an option that takes any text.

    Raises:
        UsageError: an option is unknown, given twice, has no value or one that it does not take.

    >>> named("e", "org/model?query=query: &batch=8", {"query": "", "batch": Option("", range(1, 100))})
    Named(argument='org/model', options={'query': 'query: ', 'batch': '8'})
    """
    argument, _, tail = text.partition("?")
    table = {key: Option(value) if isinstance(value, str) else value for key, value in known.items()}
    options: dict[str, str] = {}
    for pair in tail.split("&") if tail else ():
        key, equals, value = pair.partition("=")
        if why := _wrong(key, value if equals else None, table, options):
            wanted = [key] if key in table else sorted(table)
            raise UsageError(
                why,
                item=f"{part}:{text}",
                cure="; ".join(f"{name}={table[name].meaning}" for name in wanted) or "it takes no options",
            )
        options[key] = value
    return Named(argument, options)


def _wrong(key: str, value: str | None, known: Mapping[str, Option], before: Mapping[str, str]) -> str:
    """What is wrong with ``key=value`` behind the options ``before``; "" when nothing is."""
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
    elif takes and value not in takes:
        return f"{key}={value!r} is not known"
    return ""
