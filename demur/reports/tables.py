"""One table model in four forms: terminal, Markdown, LaTeX (booktabs) and CSV.

A table holds values, never formatted text: a rate is a `Measure` with its n, its interval, and its failed and unjudged
answers, so that each form shows what fits (a terminal cell ``56.0``, a CSV row everything). Every form treats names,
questions and answers as untrusted text.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TextIO, TypeAlias

from demur.core.records import Measure
from demur.core.store import write_atomic
from demur.core.text import file_name
from demur.core.text import plain as plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text


class Count(NamedTuple):
    """The number of items behind a rate, where they were asked several times."""

    items: int
    repeats: int
    """Graded repeats of them."""


class Link(str):
    """Text that leads to another place of the page; elsewhere it is text like any other."""

    address: str

    def __new__(cls, text: str, address: str) -> Link:
        """A link; ``address`` as in ``href``."""
        link = super().__new__(cls, text)
        link.address = address
        return link


Cell: TypeAlias = str | int | float | Measure | Count | None
"""None: no such value, shown as a dash and never as 0."""

Form = Literal["terminal", "markdown", "latex", "csv"]
FORMS: dict[Form, str] = {"terminal": ".txt", "markdown": ".md", "latex": ".tex", "csv": ".csv"}
"""Form -> file suffix."""

DASH = "–"


@dataclass(frozen=True)
class Column:
    """One column: its title, the spanning header above it, and the format of its rates."""

    title: str
    group: str = ""
    """Neighbours with the same non-empty group share a spanning header (a scenario over Acc, Defl, Hall)."""
    align: Literal["left", "right"] = "right"
    interval: bool = False
    """Show the interval of rates: ``56.0 [53.1, 58.8]``."""
    decimals: int = 1
    """Digits after the point, for rates and for floats."""
    percent: bool = True
    """Show rates in per cent (0-100); False shows the value itself."""
    signed: bool = False
    """Show numbers with their sign, as differences."""
    wraps: bool = False
    """Prose: a terminal may break it between words. Names and numbers stay whole."""


def texts(*titles: str, wraps: bool = False) -> tuple[Column, ...]:
    """Columns of text with these titles."""
    return tuple(Column(title, align="left", wraps=wraps) for title in titles)


def numbers(
    *titles: str,
    interval: bool = False,
    decimals: int = 1,
    percent: bool = True,
    signed: bool = False,
) -> tuple[Column, ...]:
    """Columns of numbers or rates with these titles and one format."""
    return tuple(
        Column(title, interval=interval, decimals=decimals, percent=percent, signed=signed)
        for title in titles
    )


def section_starts(rows: Sequence[Sequence[object]], cells: int = 1) -> frozenset[int]:
    """Indices of the rows whose first ``cells`` cells differ from those of the row above: a table's ``rules``."""
    return frozenset(
        i for i, row in enumerate(rows) if i == 0 or row[:cells] != rows[i - 1][:cells]
    )


@dataclass(frozen=True)
class Table:
    """A table as values.

    Attributes:
        name: slug; the file name of each form, without suffix.
        caption: one sentence: the content and its condition.
        columns: C columns.
        rows: R rows of C cells each.
        rules: indices of the rows that start a new section (a line is drawn above them).
        notes: footnotes: n, unjudged, failed, the interval method, what is missing.
        missing: which run would fill the table, where the data cannot; the table then has no rows.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()
    rules: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    missing: str = ""
    bold: frozenset[tuple[int, int]] = field(default=frozenset())
    """(row, column) of the bold cells: totals, the best of a column."""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.name}: row {number} has {len(row)} cells for {len(self.columns)} columns"
                )

    def render(self, form: Form, *, width: int | None = None) -> str:
        """The table as text of one form, ending in a newline; ``width`` as `console_for` takes it."""
        if form == "terminal":
            return to_terminal(self, width=width)
        return {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}[form](self)

    def records(self) -> list[dict[str, Any]]:
        """The rows as JSON-safe objects; keys are the columns' groups and titles.

        A rate is an object as `rate_record` makes it.
        """
        names = [" ".join(filter(None, (c.group, c.title))) for c in self.columns]
        return [dict(zip(names, map(_safe, row), strict=True)) for row in self.rows]


def without_zeros(table: Table, *titles: str) -> Table:
    """The table without those of the named columns that hold nothing but zeros or empty texts."""
    return _with_columns(table, lambda column, cells: column.title not in titles or any(cells))


def without_empty(table: Table) -> Table:
    """The table without columns that hold nothing at all."""
    return _with_columns(table, lambda _, cells: any(cell is not None for cell in cells))


def _with_columns(table: Table, wanted: Callable[[Column, list[Cell]], bool]) -> Table:
    places = [
        i
        for i, column in enumerate(table.columns)
        if wanted(column, [row[i] for row in table.rows])
    ]
    return replace(
        table,
        columns=tuple(table.columns[i] for i in places),
        rows=tuple(tuple(row[i] for i in places) for row in table.rows),
    )


def write_tables(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write tables in all four forms; files of the same names are replaced. Returns the files.

    Raises:
        StorageError: the folder cannot be written.
    """
    written = []
    for table in tables:
        for form, suffix in FORMS.items():
            written.append(folder / f"{file_name(table.name, 'table')}{suffix}")
            write_atomic(written[-1], table.render(form, width=200))
    return written


def tidy(value: float) -> float:
    """A number without floating-point noise: rounded to 12 decimals, and never -0.

    >>> tidy(6.3e-18), tidy(-0.0), tidy(0.1 + 0.2)
    (0.0, 0.0, 0.3)
    """
    return round(value, 12) + 0.0  # -0.0 + 0.0 is 0.0


def signed(value: float, decimals: int = 1) -> str:
    """A difference with its sign; one that rounds to zero has none.

    >>> signed(5.62), signed(-0.04), signed(-12.0)
    ('+5.6', '0.0', '-12.0')
    """
    text = f"{value:+.{decimals}f}"
    return text if text.strip("+-0.") else text[1:]


class _Repeated(Protocol):
    """What counts items and their repeats."""

    @property
    def n(self) -> int: ...
    @property
    def repeats(self) -> int: ...


def counted(of: _Repeated) -> int | Count:
    """The n of a rate: items, with their repeats where they were asked several times."""
    return Count(of.n, of.repeats) if of.repeats else of.n


def cell_text(cell: Cell, column: Column) -> str:
    """One cell as text: ``56.0``, ``56.0 [53.1, 58.8]``, ``1,646``, or a dash.

    A rate that the judge's errors or people's labels move has the corrected value behind the count, in brackets, and
    its interval is that of the corrected one: ``14.6 (6.1) [0.0, 12.0]``.

    >>> cell_text(Measure(name="accuracy", value=0.56, n=100, low=0.46, high=0.65), Column("Acc", interval=True))
    '56.0 [46.0, 65.0]'
    >>> cell_text(None, Column("Acc"))
    '–'
    >>> cell_text(Count(1646, 4930), Column("n"))
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
        text = _number(cell.value * scale, column)
        if (
            column.percent and not column.decimals
        ):  # whole per cents say what is not none, or not all
            text = "<1" if text == "0" and cell.value else text
            text = ">99" if text == "100" and cell.value < 1 else text
        if cell.corrected is not None:
            text += f" ({_number(cell.corrected * scale, column)})"
        if column.interval and cell.low is not None and cell.high is not None:
            text += f" [{_number(cell.low * scale, column)}, {_number(cell.high * scale, column)}]"
        return text
    if isinstance(cell, Count):
        return f"{cell.items:,} ({cell.repeats:,})"
    if isinstance(cell, float):
        return _number(cell, column)
    return f"{cell:,}"


def _number(value: float, column: Column) -> str:
    return (
        signed(value, column.decimals) if column.signed else f"{tidy(value):,.{column.decimals}f}"
    )


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


_BEFORE_PERCENT = re.compile(r"(?<=\d) (?=%)")
_GLUE = "\ue000"
"""Replaces the blank between a number and "%" while rich breaks lines: rich breaks at any blank, even the no-break one,
and `plain` text never holds this character."""
_GAP = 2
"""Characters between two columns."""
_LEAST = 20
"""A narrower terminal breaks the lines itself."""
_NARROWEST = 16
"""Prose that wraps gets at least so many characters."""


class _Grid:
    """The cells of a table as a terminal shows them.

    Never cut: a number, a name, a cell of the first column. What is too wide is divided by the name that has the fewest
    values, which then stand above their parts, as often as it takes; at last each row is a block of its own.
    """

    def __init__(self, table: Table, width: int) -> None:
        self.table, self.width = table, width
        self.columns = table.columns
        self.cells = [
            [
                _BEFORE_PERCENT.sub(_GLUE, cell_text(c, column))
                for c, column in zip(row, table.columns, strict=True)
            ]
            for row in table.rows
        ]
        self.heads = [plain(c.title) for c in table.columns]
        names = [c.align == "left" and not c.wraps for c in table.columns]
        self.names = range((*names, False).index(False))
        """The leading columns of names."""
        self.continued: set[tuple[int, int]] = set()
        """(row, column) of blank leading names, which are those of the row above, also where a part begins there."""
        for n, (above, row) in enumerate(pairwise(self.cells), 1):
            for i in self.names:
                if row[i]:
                    break
                row[i] = above[i]
                self.continued.add((n, i))

    def drawn(self) -> Iterator[RenderableType]:
        """What the terminal shows of the rows."""
        from rich.padding import Padding

        lifted: list[int] = []
        while (parts := self._parts(lifted)) is None:
            sizes = {
                i: len(self._divided([*lifted, i])) for i in reversed(self.names) if i not in lifted
            }
            best = min(sizes, key=sizes.__getitem__, default=-1)
            if best < 0 or sizes[best] == len(self.cells) > 1:
                yield from self._blocks()
                return
            lifted.append(best)
        for rows, widths in parts:
            if lifted:
                yield from self._heading(rows[0], lifted)
            yield Padding(self._rich(rows, widths), (1, 0, 1, 1), expand=False)

    def _divided(self, lifted: Sequence[int]) -> list[list[int]]:
        """The rows that have the same values in some columns."""
        parts: dict[tuple[str, ...], list[int]] = {}
        for n, row in enumerate(self.cells):
            parts.setdefault(tuple(row[i] for i in lifted), []).append(n)
        return list(parts.values())

    def _parts(self, lifted: Sequence[int]) -> list[tuple[list[int], dict[int, int]]] | None:
        """The parts of a table below the names that are lifted: rows, and column -> its width; None: too wide."""
        parts = []
        for rows in self._divided(lifted):
            columns_filled = [
                i
                for i in range(len(self.columns))
                if i not in lifted and not (lifted and all(self.cells[n][i] == DASH for n in rows))
            ]
            widths = self._widths(rows, columns_filled)
            if widths is None:
                return None
            parts.append((rows, widths))
        return parts

    def _widths(self, rows: Sequence[int], places: Sequence[int]) -> dict[int, int] | None:
        """Column -> characters; None where they do not fit side by side."""
        widths, wishes, groups = dict[int, int](), dict[int, int](), {""}
        for i in places:
            group = plain(self.columns[i].group)
            heads = [self.heads[i], "" if group in groups else group]
            groups.add(group)
            cells = [self.cells[n][i] for n in rows]
            least = _widest(cells)
            if self.columns[i].wraps and i:
                words = _widest(word for cell in cells for word in cell.split())
                least = min(least, max(words, _NARROWEST))
            widths[i] = max(least, _widest(word for head in heads for word in head.split()))
            longest = _widest([*heads, *cells])
            wishes[i] = longest - widths[i]
        room = (
            self.width - sum(widths.values()) - _GAP * (len(places) - 1) - 1
        )  # a blank at the left
        if room < 0:
            return None
        for n, i in enumerate(sorted(wishes, key=wishes.__getitem__)):
            extra = min(wishes[i], room // (len(wishes) - n))
            widths[i] += extra
            room -= extra
        return widths

    def _heading(self, row: int, places: Sequence[int]) -> Iterator[Text]:
        """Names above a part or a block: in one line where they fit."""
        names = [f"{self.heads[i]}: {self.cells[row][i]}".removeprefix(": ") for i in places]
        whole = " · ".join(names)
        for name in [whole] if _widest([whole]) <= self.width else names:
            yield _line(name, "bold")

    def _rich(self, rows: Sequence[int], widths: Mapping[int, int]) -> RichTable:
        """Some rows and columns; a group's name is above the title of its first column."""
        from rich import box
        from rich.table import Table as Rich

        rich = Rich(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        groups = [plain(self.columns[i].group) for i in widths]
        for n, (i, width) in enumerate(widths.items()):
            group = groups[n] if groups[n] not in groups[:n] else ""
            rich.add_column(
                _line(f"{group}\n{self.heads[i]}" if any(groups) else self.heads[i]),
                justify=self.columns[i].align,
                width=width,
                overflow="fold",
            )
        rules = self.table.rules.intersection(rows)
        for above, n in pairwise((-1, *rows)):
            if n in rules and len(rules) < len(rows) and n != rows[0]:
                rich.add_section()
            rich.add_row(*(self._cell(n, i, above) for i in widths))
        return rich

    def _cell(self, row: int, place: int, above: int = -1) -> Text:
        """A cell as text: nothing where it continues a name of the row that stands above it."""
        same = [c == a for c, a in zip(self.cells[row], self.cells[above], strict=True)]
        if above >= 0 and (row, place) in self.continued and all(same[: place + 1]):
            return _line("")
        return _line(self.cells[row][place], "bold" if (row, place) in self.table.bold else "")

    def _blocks(self) -> Iterator[RenderableType]:
        """Each row as a block: its names, and below them the other cells beside their titles."""
        from rich.padding import Padding
        from rich.table import Table as Rich

        names = list(self.names) or [0]
        other_columns = [i for i in range(len(self.columns)) if i not in names]
        heads = {
            i: f"{plain(self.columns[i].group)} {self.heads[i]}".strip() for i in other_columns
        }
        head, value = (
            _widest(heads.values()),
            _widest(row[i] for row in self.cells for i in other_columns),
        )
        width_free = self.width - 2 * _GAP
        pairs_in_a_line = max(1, (width_free + _GAP) // (head + value + 2 * _GAP))
        if pairs_in_a_line == 1:  # long prose and names take several lines
            value = min(value, max(width_free - head, width_free * 2 // 3))
            head = min(head, width_free - value)
        for n, row in enumerate(self.cells):
            yield from self._heading(n, names)
            rich = Rich.grid(padding=(0, _GAP, 0, 0))
            for _ in range(pairs_in_a_line):
                rich.add_column(width=head)
                rich.add_column(width=value)
            cells = [
                text
                for i in other_columns
                if row[i]
                for text in (_line(heads[i]), self._cell(n, i))
            ]
            for start in range(0, len(cells), 2 * pairs_in_a_line):
                rich.add_row(*cells[start : start + 2 * pairs_in_a_line])
            yield Padding(rich, (0, 0, 1, _GAP), expand=False)


def _widest(texts: Iterable[str]) -> int:
    """Characters of the widest text in a terminal."""
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _ungrouped(table: Table) -> Table:
    """The table with a row for each group of columns, where all groups have equal columns; else as it is."""
    groups: dict[str, list[int]] = {}
    for i, column in enumerate(table.columns):
        groups.setdefault(column.group, []).append(i)
    names = groups.pop("", [])
    columns_of_groups = {
        tuple(replace(table.columns[i], group="") for i in places) for places in groups.values()
    }
    if len(columns_of_groups) != 1 or len(groups) < 2 or names != list(range(len(names))):
        return table
    rows, bold = list[tuple[Cell, ...]](), set[tuple[int, int]]()
    for n, row in enumerate(table.rows):
        groups_filled = [
            g for g, places in groups.items() if any(row[i] is not None for i in places)
        ]
        for group in groups_filled or groups:
            origins = [*names, -1, *groups[group]]
            bold |= {(len(rows), place) for place, i in enumerate(origins) if (n, i) in table.bold}
            rows.append(tuple(group if i < 0 else row[i] for i in origins))
    [shared] = columns_of_groups
    columns = (*(table.columns[i] for i in names), *texts(""), *shared)
    starts = section_starts(rows, len(names))
    return replace(table, columns=columns, rows=tuple(rows), rules=starts, bold=frozenset(bold))


def _fitting(table: Table, width: int) -> Iterator[RenderableType]:
    grid = _Grid(table, width)
    return (grid if grid._parts([]) else _Grid(_ungrouped(table), width)).drawn()


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, overflow="fold")


def to_terminal(table: Table, *, width: int | None = None) -> str:
    """Plain text as a terminal shows it, without colour; ``width`` as `console_for` takes it."""
    stream = io.StringIO()
    print_table(console_for(stream, width), table)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n") + "\n"


def console_for(file: TextIO | None = None, width: int | None = None) -> Console:
    """A console on a stream, standard output when None; only a terminal has colour.

    Args:
        file: the stream.
        width: characters of a line; None for those of the terminal (or ``COLUMNS``), 140 without one.
    """
    from rich.console import Console

    return Console(
        file=file or sys.stdout,
        force_jupyter=False,
        width=max(width or shutil.get_terminal_size((140, 24)).columns, _LEAST),
        highlight=False,
        legacy_windows=False,
    )


def print_table(console: Console, table: Table) -> None:
    """Print a table with its notes and a blank line."""
    if table.missing:
        console.print(_line(f"{plain(table.caption)}: no data; needs {plain(table.missing)}"))
    else:
        if table.caption:
            console.print(_line(plain(table.caption), "bold"))
        if table.rows:
            with console.capture() as captured:  # in colour where the console has it
                console.print(*_fitting(table, console.width), sep="\n")
            console.file.write(captured.get().replace(_GLUE, " "))
    for note in table.notes:
        console.print(_line("  " + plain(note), "dim"))
    console.print()


# --- Markdown ------------------------------------------------------------------------------------

_MARKDOWN = str.maketrans(
    {c: "\\" + c for c in "\\|*_`[]#~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
_LINK = re.compile(r"(?=://)|(?<=mailto)(?=:)|(?<=xmpp)(?=:)|(?<=www)(?=\.)|(?=@)", re.IGNORECASE)
"""What GitHub turns into links by itself: addresses of pages and of people."""


def _md(text: str) -> str:
    return _LINK.sub(r"\\", plain(text).translate(_MARKDOWN))


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured Markdown table with its caption above and its notes below."""
    lines = [f"**{_md(table.caption)}**", ""]
    if table.missing:
        return "\n".join([*lines, f"*No data; needs {_md(table.missing)}*"]) + "\n"
    heads = [f"{_md(c.group)} {_md(c.title)}".strip() for c in table.columns]
    lines.append("| " + " | ".join(heads) + " |")
    lines.append(
        "|" + "|".join(" :-- " if c.align == "left" else " --: " for c in table.columns) + "|"
    )
    for number, row in enumerate(table.rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            text = _md(cell) if isinstance(cell, str) else cell_text(cell, column)
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
        "†": r"$\dagger$",
    }
)


def _tex(text: str) -> str:
    return plain(text).translate(_LATEX)


_WIDEST = 7
"""Most columns of a table in one column of a two-column paper."""
_WRAPPED = 40
"""Characters above which a column of text wraps."""


def _first(text: str) -> str:
    """A row that the rule or row break before it does not read as its argument."""
    return "{}" + text if text.startswith(("[", "*", "(")) else text


def _spec(table: Table, place: int) -> str:
    """The LaTeX column specification."""
    column = table.columns[place]
    if column.align == "right":
        return "r"
    longest = max((len(cell_text(row[place], column)) for row in table.rows), default=0)
    return r"p{0.3\linewidth}" if longest > _WRAPPED else "l"


def to_latex(table: Table) -> str:
    r"""A float with booktabs rules; needs ``\usepackage{booktabs,graphicx}``.

    A table of many columns is a ``table*`` over both columns of a two-column paper; one that is too wide is scaled down
    to fit. Names in scripts that pdfLaTeX does not know need XeLaTeX.
    """
    if table.missing:
        return f"% {file_name(table.name, 'table')}: no data; needs {plain(table.missing)}\n"
    float_ = "table" if len(table.columns) <= _WIDEST else "table*"
    out = [
        r"% needs \usepackage{booktabs,graphicx}",
        rf"\begin{{{float_}}}[t]",
        r"  \centering",
        r"  \small",
        r"  \setlength{\tabcolsep}{3pt}",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"  \begin{{tabular}}{{{''.join(_spec(table, place) for place in range(len(table.columns)))}}}",
        r"    \toprule",
    ]
    if any(c.group for c in table.columns):
        heads, rules, start = [], [], 1
        for group, size in spans(table.columns):
            heads.append(
                rf"\multicolumn{{{size}}}{{c}}{{{_tex(group)}}}" if group else " &" * (size - 1)
            )
            if group:
                rules.append(rf"\cmidrule(lr){{{start}-{start + size - 1}}}")
            start += size
        out += ["    " + " & ".join(heads) + r" \\", "    " + " ".join(rules)]
    out += [
        "    " + _first(" & ".join(_tex(c.title) for c in table.columns)) + r" \\",
        r"    \midrule",
    ]
    for number, row in enumerate(table.rows):
        if number in table.rules and number:
            out.append(r"    \midrule")
        cells = []
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            text = _tex(cell_text(cell, column))
            cells.append(rf"\textbf{{{text}}}" if (number, place) in table.bold else text)
        out.append("    " + _first(" & ".join(cells)) + r" \\")
    out += [r"    \bottomrule", r"  \end{tabular}}"]
    notes = " ".join(map(_tex, table.notes))
    out += [
        rf"  \caption{{{_tex(table.caption.rstrip('.') + '.')}}}",
        rf"  \label{{tab:{file_name(table.name, 'table')}}}",
        *([rf"  \parbox{{\linewidth}}{{\footnotesize {notes}}}"] if notes else []),
        rf"\end{{{float_}}}",
    ]
    return "\n".join(out) + "\n"


# --- CSV -----------------------------------------------------------------------------------------


_FORMULA = re.compile(r"(^|;)(\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet could start a cell with a formula: at the start, and after ";", a common separator."""


def harmless_field(cell: str) -> str:
    """Text that no spreadsheet reads as a formula: an apostrophe goes before its sign (OWASP, CSV injection)."""
    return _FORMULA.sub(r"\1\2'", plain(cell))


def _plainly(value: float) -> str:
    """A number for a spreadsheet: six significant figures, never an exponent."""
    text = f"{tidy(value):.6g}"
    return text if "e" not in text else f"{tidy(value):.12f}".rstrip("0").rstrip(".")


def to_csv(table: Table) -> str:
    """RFC 4180 text; a column of rates becomes value (a fraction in [0, 1]), low, high, n, and what else any rate has.

    That is ``repeats`` where items were asked several times, ``corrected`` and ``labels``, ``unjudged`` and ``failed``.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    rated, counts = (
        [any(isinstance(row[i], kind) for row in table.rows) for i in range(len(table.columns))]
        for kind in (Measure, Count)
    )
    every = [c for row in table.rows for c in row if isinstance(c, Measure)]
    repeats = any(isinstance(c, Count) for row in table.rows for c in row)
    parts = [
        part
        for part in RATE_PARTS
        if part in ("low", "high", "n")
        or (part == "repeats" and repeats)
        or any(_has(m, part) for m in every)
    ]
    heads: list[str] = []
    for column, is_rate, is_count in zip(table.columns, rated, counts, strict=True):
        head = harmless_field(" ".join(p for p in (plain(column.group), plain(column.title)) if p))
        heads.append(head)
        if is_rate:
            heads += [f"{head} {part}" for part in parts]
        elif is_count:
            heads.append(f"{head} repeats")
    writer.writerow(heads)
    for row in table.rows:
        cells: list[str] = []
        for cell, is_rate, is_count in zip(row, rated, counts, strict=True):
            if isinstance(cell, Count):
                cells += [str(cell.items), str(cell.repeats)]
                continue
            if isinstance(cell, Measure):
                whole = {name: getattr(cell, name) for name in parts}
                if "repeats" in whole:
                    whole["repeats"] = cell.repeats or cell.n
                cells += [
                    "" if v is None else (_plainly(v) if isinstance(v, float) else str(v))
                    for v in (cell.value, *whole.values())
                ]
                continue
            text = "" if cell is None else _plainly(cell) if isinstance(cell, float) else str(cell)
            cells.append(harmless_field(text) if isinstance(cell, str) else text)
            cells += [""] * len(parts) if is_rate else [text] if is_count else []
        writer.writerow(cells)
    return stream.getvalue()


RATE_PARTS = ("low", "high", "n", "repeats", "corrected", "labels", "unjudged", "failed")
"""Fields of a `Measure` that stand beside its value."""


# --- JSON ----------------------------------------------------------------------------------------


def to_records(table: Table) -> list[dict[str, Any]]:
    """`Table.records` with column names in lower case."""
    return [{name.lower(): value for name, value in row.items()} for row in table.records()]


def rate_record(measure: Measure) -> dict[str, Any]:
    """A rate as a JSON-safe object: value, low and high (fractions in [0, 1]), n, unjudged, failed, interval.

    Where it has them also ``repeats``, ``corrected``, ``labels``, and ``bounds``: the value if none, and if all, of the
    failed and unjudged answers counted for it.
    """
    parts = {part: getattr(measure, part) for part in ("value", *RATE_PARTS)}
    record = {
        part: tidy(value) if isinstance(value, float) else value
        for part, value in parts.items()
        if part not in ("repeats", "corrected", "labels") or _has(measure, part)
    }
    if measure.bounds and (measure.failed or measure.unjudged):
        record["bounds"] = [tidy(end) for end in measure.bounds]
    return record | {"interval": measure.interval}


def _has(measure: Measure, part: str) -> bool:
    """Whether a rate has something to say there: a correction, which may be 0, or a count."""
    value = getattr(measure, part)
    return value is not None if part == "corrected" else bool(value)


def _safe(cell: Cell) -> Any:
    if isinstance(cell, Measure):
        return rate_record(cell)
    if isinstance(cell, Count):
        return {"items": cell.items, "repeats": cell.repeats}
    return tidy(cell) if isinstance(cell, float) else cell
