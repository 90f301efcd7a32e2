"""Parts of the page, from its templates in ``page/`` (Jinja2).

The templates escape by themselves, so that no value of a run or a release can become markup; all of it is shown as
text on one line, without control characters. Only what is `Markup` already, and the hashed style sheet and script, is
taken as it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from demur.core.records import Measure
from demur.core.store import canonical
from demur.reports.svg import Panel
from demur.reports.tables import Cell, Column, Link, Table, cell_text, plain, spans


def text(value: object) -> Markup:
    """Untrusted text, escaped for markup; `Markup` as it is."""
    return value if isinstance(value, Markup) else escape(plain(str(value)))


@cache
def templates() -> Environment:
    """The templates of the page."""
    return Environment(
        loader=PackageLoader("demur.reports", "page"),
        autoescape=True,
        finalize=text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _part(name: str, *values: Any) -> Markup:
    """A part of ``parts.html`` by its name there."""
    return Markup(getattr(templates().get_template("parts.html").module, name)(*values))


class _WrittenCell(NamedTuple):
    content: Markup
    classes: str
    bold: bool = False


def table_html(table: Table) -> Markup:
    """A table with its caption and notes; a wide one scrolls in its own box."""
    groups = ["", *(c.group for c in table.columns)]
    starts = [group_here != group_before for group_before, group_here in pairwise(groups)]
    heads = [
        _WrittenCell(text(column.title), _classes(column, start))
        for column, start in zip(table.columns, starts, strict=True)
    ]
    rows = []
    for number, row in enumerate(table.rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            content = _cell_html(cell, column)
            classes = _classes(column, starts[place], len(content))
            cells.append(_WrittenCell(content, classes, (number, place) in table.bold))
        rows.append((number > 0 and number in table.rules, cells))
    grouped = spans(table.columns) if any(groups) else []
    return _part("table", table, grouped, heads, rows)


def _cell_html(cell: Cell, column: Column) -> Markup:
    """A cell; the correction and interval of a rate stand apart from it."""
    written = cell_text(cell, column)
    if isinstance(cell, Link):
        return Markup('<a href="{}">{}</a>').format(cell.address, written)
    value, space, interval = written.partition(" ")
    if isinstance(cell, Measure) and space:
        return Markup('{} <span class="ci">{}</span>').format(value, interval)
    return text(written)


def _classes(column: Column, start: bool, characters: int = 0) -> str:
    """The classes of a cell: the first of its group, left-aligned, and long enough to wrap."""
    is_text = column.align == "left"
    names = {"start": start, "l": is_text, "long": is_text and characters > 28}
    return " ".join(name for name, holds in names.items() if holds)


def figure(panels: Sequence[Panel], across: str = "", *, legend: bool = False) -> Markup:
    """Panels side by side, as many in a row as fit.

    Args:
        panels: of the figure.
        across: ``two`` or ``three`` in a row at most.
        legend: the last panel is the legend, which stands above the others.
    """
    drawn = [Markup(panel.svg()) for panel in panels]
    return _part("figure", drawn[:-1] if legend else drawn, across, drawn[-1:] if legend else [])


def paragraph(words: str) -> Markup:
    """A sentence on how to read what follows."""
    return _part("paragraph", words)


def fold(summary: str, parts: Iterable[Markup], *, opened: bool = False) -> Markup:
    """Parts behind a summary."""
    return _part("fold", summary, list(parts), opened)


def json_html(value: Mapping[str, Any]) -> Markup:
    """A JSON object, indented."""
    return _part(
        "verbatim", escape(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False))
    )


def csp_hash(content: str) -> str:
    """The hash of a style sheet or script, for the content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def packed(value: Mapping[str, Any]) -> Markup:
    """JSON as base64 of zlib: small, and without any character of markup."""
    data = zlib.compress(canonical(value).encode(), 9)
    return Markup(json.dumps({"deflate": base64.b64encode(data).decode()}))
