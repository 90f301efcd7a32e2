"""Tables and figures as files for a paper: `paper_tables` and `paper_figures` make them, this writes them."""

from __future__ import annotations

from pathlib import Path

from demur.report.cells import headline
from demur.report.data import ReportData
from demur.report.paper_figures import figure_table, figures, overview
from demur.report.paper_tables import tables
from demur.report.svg import standalone
from demur.report.tables import FORMS, Form
from demur.store import write_atomic


def write_tables(data: ReportData, folder: Path) -> list[Path]:
    """Write every table in four forms and every figure as SVG.

    Args:
        data: what to show.
        folder: made if needed; files of the same names are replaced.

    Returns:
        The files, in the order written.

    Raises:
        StorageError: the folder cannot be written.
    """
    written = []
    drawn = figures(data)
    for table in [*tables(data), *(figure_table(data, name) for name in drawn)]:
        for form, suffix in FORMS.items():
            kind: Form = form  # type: ignore[assignment]  # the keys of FORMS are the forms
            path = folder / f"{table.name}{suffix}"
            write_atomic(path, table.render(kind, width=200))
            written.append(path)
    for name, panels in {"overview": overview(data, headline(data.runs)), **drawn}.items():
        if panels:
            path = folder / f"{name}.svg"
            write_atomic(path, standalone(panels, title=name, columns=2 if name == "overview" else 0))
            written.append(path)
    return written
