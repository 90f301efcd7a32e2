"""One table model, shown four ways: terminal, Markdown, LaTeX (booktabs) and CSV.

A table holds values, never formatted text: a rate is a `Measure` and keeps its n, its interval and its
absences, so that each form of it can show as much as fits (a terminal cell ``56.0``, a CSV row all of it).
Every form treats names, questions and answers as untrusted text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from demur.answers.text import plain as plain
from demur.records import Measure

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Count(NamedTuple):
    """How many items a number is over, where they were asked several times."""

    items: int
    draws: int
    """Graded draws of them."""


Cell: TypeAlias = str | int | float | Measure | Count | None
"""None: there is no such value; shown as a dash, never as 0."""

Form = Literal["terminal", "markdown", "latex", "csv"]
FORMS: dict[str, str] = {"terminal": ".txt", "markdown": ".md", "latex": ".tex", "csv": ".csv"}
"""Form -> file suffix."""

DASH = "–"


@dataclass(frozen=True)
class Column:
    """One column: its title, the spanning header above it, and how its rates are shown."""

    title: str
    group: str = ""
    """Neighbours with the same non-empty group share a spanning header (a scenario over Acc, Defl, Hall)."""
    align: Literal["left", "right"] = "right"
    interval: bool = False
    """Rates are followed by their interval: ``56.0 [53.1, 58.8]``."""
    decimals: int = 1
    """Digits after the point, of rates in per cent and of floats as they are."""
    percent: bool = True
    """Rates are shown in per cent (0-100); False shows the value itself."""


@dataclass(frozen=True)
class Table:
    """A table as values.

    Attributes:
        name: slug; the file name of each form, without suffix.
        caption: one or two sentences: what is shown, under which condition.
        columns: C columns.
        rows: R rows of C cells each.
        rules: indices of the rows that start a new section (a line is drawn above them).
        notes: footnotes: n, ungraded, failed, the interval method, what is missing.
        missing: when the data cannot fill the table: which run would; the table has then no rows.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()
    rules: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    missing: str = ""
    bold: frozenset[tuple[int, int]] = field(default=frozenset())
    """(row, column) of the cells to stress: totals, the best of a column."""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.name}: row {number} has {len(row)} cells for {len(self.columns)} columns"
                )

    def render(self, form: Form, *, width: int = 120) -> str:
        """The table as text of one form, ending in a newline."""
        if form == "terminal":
            return to_terminal(self, width=width)
        return {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}[form](self)


def counted(n: int, draws: int) -> int | Count:
    """The n of a number: items alone, or items with their draws where they were asked several times."""
    return Count(n, draws) if draws else n


def shown(cell: Cell, column: Column) -> str:
    """One cell as people read it: ``56.0``, ``56.0 [53.1, 58.8]``, ``1,646``, or a dash.

    >>> shown(Measure(name="accuracy", value=0.56, n=100, low=0.46, high=0.65), Column("Acc", interval=True))
    '56.0 [46.0, 65.0]'
    >>> shown(None, Column("Acc"))
    '–'
    >>> shown(Count(1646, 4930), Column("n"))
    '1,646 (4,930)'
    """
    if cell is None:
        return DASH
    if isinstance(cell, str):
        return plain(cell)
    if isinstance(cell, Measure):
        if cell.value is None:
            return DASH
        scale = 100.0 if column.percent else 1.0
        text = f"{cell.value * scale:.{column.decimals}f}"
        if column.interval and cell.low is not None and cell.high is not None:
            text += f" [{cell.low * scale:.{column.decimals}f}, {cell.high * scale:.{column.decimals}f}]"
        return text
    if isinstance(cell, Count):
        return f"{cell.items:,} ({cell.draws:,})"
    if isinstance(cell, float):
        return f"{cell:,.{column.decimals}f}"
    return f"{cell:,}"


def spans(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Runs of neighbouring columns with the same group: (group, how many)."""
    runs: list[tuple[str, int]] = []
    for column in columns:
        if runs and runs[-1][0] == column.group:
            runs[-1] = (column.group, runs[-1][1] + 1)
        else:
            runs.append((column.group, 1))
    return runs


# --- terminal ------------------------------------------------------------------------------------


def to_rich(table: Table) -> RichTable:
    """The table for a `rich.console.Console`; a group's name stands over its first column's title."""
    from rich import box
    from rich.table import Table as Rich
    from rich.text import Text

    rich = Rich(
        box=box.SIMPLE_HEAD,
        title=Text(plain(table.caption)),
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    grouped = any(c.group for c in table.columns)
    seen: set[str] = set()
    for column in table.columns:
        head = plain(column.title)
        if grouped:
            head = f"{plain(column.group) if column.group not in seen else ''}\n{head}"
            seen.add(column.group)
        rich.add_column(Text(head), justify=column.align, no_wrap=column.align == "right", overflow="fold")
    for number, row in enumerate(table.rows):
        if number in table.rules and number:
            rich.add_section()
        cells = []
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            text = Text(shown(cell, column), style="bold" if (number, place) in table.bold else "")
            cells.append(text)
        rich.add_row(*cells)
    return rich


def to_terminal(table: Table, *, width: int = 120) -> str:
    """Plain text as a terminal of ``width`` characters shows it, without colour."""
    from rich.console import Console
    from rich.text import Text

    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    if table.missing:
        console.print(Text(f"{plain(table.caption)}\n  not filled: {plain(table.missing)}"))
    else:
        console.print(to_rich(table))
        for note in table.notes:
            console.print(Text("  " + plain(note)))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


# --- Markdown ------------------------------------------------------------------------------------

_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\|*_`[]#~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def _md(text: str) -> str:
    return plain(text).translate(_MARKDOWN)


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured Markdown table with its caption above and its notes below."""
    lines = [f"**{_md(table.caption)}**", ""]
    if table.missing:
        return "\n".join([*lines, f"*Not filled: {_md(table.missing)}*"]) + "\n"
    heads = [f"{_md(c.group)} {_md(c.title)}".strip() for c in table.columns]
    lines.append("| " + " | ".join(heads) + " |")
    lines.append("|" + "|".join(" :-- " if c.align == "left" else " --: " for c in table.columns) + "|")
    for number, row in enumerate(table.rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            text = _md(cell) if isinstance(cell, str) else shown(cell, column)
            cells.append(f"**{text}**" if (number, place) in table.bold else text)
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"- {_md(note)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


# --- LaTeX ---------------------------------------------------------------------------------------

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "_": r"\_",
        "%": r"\%",
        "~": r"\textasciitilde{}",
        "|": r"\textbar{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "–": "--",
        "→": r"$\rightarrow$",
        "×": r"$\times$",
        "·": r"$\cdot$",
    }
)


def _tex(text: str) -> str:
    return plain(text).translate(_LATEX)


def to_latex(table: Table) -> str:
    r"""A ``table`` float with booktabs rules; needs ``\usepackage{booktabs}`` and nothing else."""
    if table.missing:
        return f"% {table.name}: not filled: {plain(table.missing)}\n"
    out = [
        r"\begin{table}[t]",
        r"  \centering",
        r"  \small",
        rf"  \begin{{tabular}}{{{''.join('l' if c.align == 'left' else 'r' for c in table.columns)}}}",
        r"    \toprule",
    ]
    if any(c.group for c in table.columns):
        heads, rules, start = [], [], 1
        for group, size in spans(table.columns):
            heads.append(rf"\multicolumn{{{size}}}{{c}}{{{_tex(group)}}}" if group else " &" * (size - 1))
            if group:
                rules.append(rf"\cmidrule(lr){{{start}-{start + size - 1}}}")
            start += size
        out += ["    " + " & ".join(heads) + r" \\", "    " + " ".join(rules)]
    out += ["    " + " & ".join(_tex(c.title) for c in table.columns) + r" \\", r"    \midrule"]
    for number, row in enumerate(table.rows):
        if number in table.rules and number:
            out.append(r"    \midrule")
        cells = []
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            text = _tex(shown(cell, column))
            if text.startswith(("[", "*")) and not place:
                text = "{}" + text  # else the row break before it would take it for its own argument
            cells.append(rf"\textbf{{{text}}}" if (number, place) in table.bold else text)
        out.append("    " + " & ".join(cells) + r" \\")
    out += [r"    \bottomrule", r"  \end{tabular}"]
    caption = " ".join([_tex(table.caption.rstrip(".") + "."), *(_tex(note) for note in table.notes)])
    out += [rf"  \caption{{{caption}}}", rf"  \label{{tab:{table.name}}}", r"\end{table}"]
    return "\n".join(out) + "\n"


# --- CSV -----------------------------------------------------------------------------------------


def _field(cell: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    text = plain(cell)
    return "'" + text if re.match(r"[=+\-@]", text) else text


def to_csv(table: Table) -> str:
    """RFC 4180 text; a column of rates becomes value (a fraction in [0, 1]), low, high, n, ungraded, failed.

    Where anything was asked several times, ``draws`` stands behind each n.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    rated = [any(isinstance(row[i], Measure) for row in table.rows) for i in range(len(table.columns))]
    counts = [any(isinstance(row[i], Count) for row in table.rows) for i in range(len(table.columns))]
    draws = any(isinstance(c, Count) or (isinstance(c, Measure) and c.draws) for row in table.rows for c in row)
    heads: list[str] = []
    for column, is_rate, is_count in zip(table.columns, rated, counts, strict=True):
        head = " ".join(p for p in (plain(column.group), plain(column.title)) if p)
        heads.append(_field(head))
        if is_rate:
            parts = ("low", "high", "n", *(["draws"] if draws else []), "ungraded", "failed")
            heads += [f"{head} {part}" for part in parts]
        elif is_count:
            heads.append(f"{head} draws")
    writer.writerow(heads)
    for row in table.rows:
        cells: list[str] = []
        for cell, is_rate, is_count in zip(row, rated, counts, strict=True):
            if isinstance(cell, Count):
                cells += [str(cell.items), str(cell.draws)]
                continue
            if isinstance(cell, Measure):
                said = (cell.n, *((cell.draws or cell.n,) if draws else ()), cell.ungraded, cell.failed)
                values = (cell.value, cell.low, cell.high, *said)
                cells += ["" if v is None else (f"{v:.6g}" if isinstance(v, float) else str(v)) for v in values]
                continue
            text = "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)
            cells.append(_field(text) if isinstance(cell, str) else text)
            cells += [""] * (5 + draws) if is_rate else [text] if is_count else []
        writer.writerow(cells)
    return stream.getvalue()
