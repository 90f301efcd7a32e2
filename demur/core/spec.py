"""Options in the name of an encoder or a corpus: ``ARGUMENT?key=value&key=value``.

An encoder or a corpus reader declares its options in one table; `named` checks those of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from demur.core.errors import UsageError


class Option(NamedTuple):
    """One option."""

    meaning: str
    """For error messages."""
    takes: tuple[str, ...] | range = ()
    """Its values: one of these words, or an integer of this range; any text if empty."""


class Named(NamedTuple):
    """What follows a name: an argument such as ``EVA02-B-16/tag``, and options."""

    argument: str
    options: dict[str, str]


def named(part: str, text: str, options_known: Mapping[str, Option | str]) -> Named:
    """Split ``ARGUMENT?key=value&key=value``.

    Values have no percent or plus escapes, so that prefixes such as ``query: `` keep their blanks.

    Args:
        part: the encoder's or corpus's name, for errors.
        text: what follows that name and its colon.
        options_known: the options; a meaning alone is an option that takes any text.

    Raises:
        UsageError: an option is unknown, is given twice, or has no value or a wrong one.

    >>> named("e", "org/model?query=query: &batch=8", {"query": "", "batch": Option("", range(1, 100))})
    Named(argument='org/model', options={'query': 'query: ', 'batch': '8'})
    """
    argument, _, tail = text.partition("?")
    table = {
        key: Option(value) if isinstance(value, str) else value
        for key, value in options_known.items()
    }
    options: dict[str, str] = {}
    for pair in tail.split("&") if tail else ():
        key, equals, value = pair.partition("=")
        if why := _wrong(key, value if equals else None, table, options):
            options_to_list = [key] if key in table else sorted(table)
            raise UsageError(
                why,
                item=f"{part}:{text}",
                cure="; ".join(f"{name}={table[name].meaning}" for name in options_to_list)
                or "it takes no options",
            )
        options[key] = value
    return Named(argument, options)


def _wrong(
    key: str,
    value: str | None,
    options_known: Mapping[str, Option],
    earlier_options: Mapping[str, str],
) -> str:
    """What is wrong with ``key=value`` after the options ``earlier_options``; "" if nothing is."""
    if key not in options_known:
        return f"option {key!r} is not known"
    if key in earlier_options:
        return f"option {key!r} is given twice"
    if value is None:
        return f"option {key!r} has no value"
    takes = options_known[key].takes
    if isinstance(takes, range):
        # ten digits are more than any range here needs, and keep int() quick
        if not (value.isdecimal() and len(value) <= 10 and int(value) in takes):
            return f"{key}={value!r} is not a whole number from {takes[0]:,} to {takes[-1]:,}"
    elif takes and value not in takes:
        return f"{key}={value!r} is not known"
    return ""
