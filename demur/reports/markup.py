"""Elements of a page: escaped text, tables, rows of panels, sections, and data blocks."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise
from typing import Any

from demur.core.records import Measure
from demur.core.store import canonical
from demur.reports.svg import Panel
from demur.reports.tables import Column, Table, cell_text, plain, spans


def text(value: object) -> str:
    """Untrusted text, escaped for markup."""
    return escape(plain(str(value)))


def table_html(table: Table) -> str:
    """A table with its caption and notes; a wide one scrolls in its own box."""
    if table.missing:
        return (
            f'<p class="missing">{text(table.caption)}: no data. Needed: {text(table.missing)}.</p>'
        )
    out = [
        f'<p class="cap" id="cap-{text(table.name)}">{text(table.caption)}</p>',
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="cap-{text(table.name)}">',
        f'<table class="{text(table.name)}" aria-labelledby="cap-{text(table.name)}"><thead>',
    ]
    if not table.rows:
        return f'<p class="missing">{text(" ".join(table.notes))}</p>' if table.notes else ""
    if any(c.group for c in table.columns):
        heads = "".join(
            f'<th class="span" scope="colgroup" colspan="{size}">{text(group)}</th>'
            if group
            else "<td></td>" * size
            for group, size in spans(table.columns)
        )
        out.append(f"<tr>{heads}</tr>")
    groups = ["", *(c.group for c in table.columns)]
    starts = [group_here != group_before for group_before, group_here in pairwise(groups)]
    heads = "".join(
        f'<th scope="col"{_class(c, start=s)}>{text(c.title)}</th>'
        for c, s in zip(table.columns, starts, strict=True)
    )
    out.append(f"<tr>{heads}</tr></thead><tbody>")
    for number, row in enumerate(table.rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            inner = (with_interval if isinstance(cell, Measure) else text)(cell_text(cell, column))
            cls = _class(column, inner, start=starts[place])
            cells.append(
                f"<td{cls}>{f'<b>{inner}</b>' if (number, place) in table.bold else inner}</td>"
            )
        rule = ' class="rule"' if number in table.rules and number else ""
        out.append(f"<tr{rule}>{''.join(cells)}</tr>")
    out.append("</tbody></table></div>")
    return "".join(out) + notes_html(table.notes)


def notes_html(notes: Iterable[str]) -> str:
    """Notes under a table; nothing without any."""
    lines = "".join(f"<li>{text(note)}</li>" for note in notes)
    return f'<ul class="notes">{lines}</ul>' if lines else ""


def with_interval(written: str) -> str:
    """A rate as text, its correction and interval apart from it."""
    value, space, interval = text(written).partition(" ")
    return f'{value} <span class="ci">{interval}</span>' if space else value


def _class(column: Column, inner: str = "", *, start: bool = False) -> str:
    """The classes of a cell: the first of its group, left-aligned, and long enough to wrap."""
    names = ["start"] if start else []
    if column.align == "left":
        names += ["l", "long"] if len(inner) > 28 else ["l"]
    return f' class="{" ".join(names)}"' if names else ""


def panels_html(panels: Iterable[Panel], cls: str = "") -> str:
    """Panels side by side, as many in a row as fit."""
    return f'<div class="panels{" " + cls if cls else ""}">{"".join(p.svg() for p in panels)}</div>'


def section(key: str, title: str, explanation: str, *parts: str) -> str:
    """A section of the page with its heading and a sentence on how to read it."""
    return (
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{escape(title)}</h2>'
        f'<p class="why">{escape(explanation)}</p>{"".join(parts)}</section>'
    )


def more(summary: str, *parts: str) -> str:
    """A folded element with a summary."""
    return f"<details><summary>{text(summary)}</summary>{''.join(parts)}</details>"


def json_html(value: Mapping[str, Any]) -> str:
    """A JSON object, indented."""
    dumped = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
    return f'<pre tabindex="0">{escape(dumped)}</pre>'


def csp_hash(text: str) -> str:
    """The hash of a style sheet or script, for the content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def packed(value: Mapping[str, Any]) -> str:
    """JSON as base64 of zlib: small, and without any character of markup."""
    data = zlib.compress(canonical(value).encode(), 9)
    return json.dumps({"deflate": base64.b64encode(data).decode()})
