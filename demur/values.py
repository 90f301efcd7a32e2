"""The return values of `demur`'s functions: they print as tables, and convert to pandas or Arrow."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from demur.core.checked import checked
from demur.core.errors import UsageError

if TYPE_CHECKING:
    from demur.core.records import Document, Hit
    from demur.indexing.chunk import Counts
    from demur.indexing.ray import RayEngine
    from demur.release import Release
    from demur.reports.compare import Comparison as Compared
    from demur.reports.data import ReportData
    from demur.reports.tables import Table
    from demur.retrieval.search import Searcher

StrPath = str | Path


class Tabular:
    """A value with a main table, ``frame``: a table in a notebook, and convertible to pandas or Arrow."""

    @property
    def frame(self) -> Frame:
        """The main table."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """A pandas DataFrame; a rate has columns of its own (`Frame.flat`)."""
        import pandas as pd

        return pd.DataFrame(self.frame.flat())

    def to_arrow(self) -> Any:
        """A pyarrow Table; a rate has columns of its own (`Frame.flat`)."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.frame.flat())

    def __repr__(self) -> str:
        return repr(self.frame)

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()


class Frame(Tabular):
    """A table as a value: text in a terminal, a table in a notebook.

    Attributes:
        table: the cells as they are; a rate holds its n and interval, and what is in no rate.
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    @property
    def frame(self) -> Frame:
        """The table itself."""
        return self

    @property
    def records(self) -> list[dict[str, Any]]:
        """One dict per row: column -> value; a rate is a dict (`demur.reports.tables.rate_record`)."""
        from demur.reports.tables import to_records

        return to_records(self.table)

    def __len__(self) -> int:
        return len(self.table.rows)

    def __repr__(self) -> str:
        return self.table.render("terminal")

    def _repr_html_(self) -> str:
        from demur.reports.markup import table_html

        return table_html(self.table)

    def flat(self) -> list[dict[str, Any]]:
        """`records` with several columns per rate: ``accuracy``, ``accuracy low``, ``accuracy n`` ..."""
        return [
            {
                (name if key == "value" else f"{name} {key}"): inner
                for name, value in row.items()
                for key, inner in (
                    value.items() if isinstance(value, dict) else (("value", value),)
                )
            }
            for row in self.records
        ]

    def to_latex(self) -> str:
        """LaTeX for a paper (booktabs)."""
        return self.table.render("latex")

    def to_markdown(self) -> str:
        """A Markdown table."""
        return self.table.render("markdown")

    def to_csv(self) -> str:
        """CSV, every number with its n and interval."""
        return self.table.render("csv")


class Evaluation:
    """One system's answers to a release: a run folder, read on first use.

    Attributes:
        folder: run folder: manifest, contexts, responses, verdicts, rows.
        release: release folder.
    """

    def __init__(self, folder: StrPath, release: StrPath | None = None) -> None:
        self.folder = Path(folder)
        self.release = None if release is None else Path(release)

    @cached_property
    def data(self) -> ReportData:
        """The rows, contexts and samples, as a report reads them."""
        from demur.reports.data import load

        return load([self.folder], self.release)

    @property
    def system(self) -> str:
        """The system's name, such as ``reader?min=0.55``."""
        return self.data.runs[0].system

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The run's manifest: questions, system, code, prompts, judge and seed."""
        return self.data.runs[0].manifest

    @checked
    def rates(
        self, by: str | None = None, *, labels: StrPath | bool | None = None, finite: bool = False
    ) -> Frame:
        """Accuracy, deflection and hallucination by scenario, each with its n and interval; of a sweep, by recipe too.

        Drawn labels in the run folder correct them where a scenario has enough (`demur.reports.labels`).

        Args:
            by: also by ``source``, ``topic``, ``query_modality``, ``gold_modality`` or ``negative_modality``.
            labels: people's labels: the folder of ``demur annotate``, or a file of ``{"ask", "label"}`` lines; True for
                ``labels.jsonl`` in the run folder. The table then has corrected rates beside the judge's own
                (`demur.judge.measures.corrected`).
            finite: with labels, intervals for these answers only, not for similar ones.

        Raises:
            Stale: the labels are for another judge, prompt or rubric, or for other answers.
        """
        if labels:
            from demur.reports.agree import corrections_of

            path = None if labels is True else Path(labels)
            return Frame(corrections_of(self.data, path, finite=finite))
        from demur.reports.cells import headline
        from demur.reports.paper_tables import breakdown_table
        from demur.reports.terminal import results_table

        head = headline(self.data.runs)
        if by is None:
            rows = self.data.runs[0].rows
            groups = [
                set(rows.tally(*names))
                for names in (("scenario",), ("scenario", "recipe", "condition"))
            ]
            return Frame(
                results_table(self.data, head, all_recipes=len(groups[1]) > len(groups[0]))
            )
        columns = ("source", "topic", "query_modality", "gold_modality", "negative_modality")
        if by not in columns:
            raise UsageError(f"by={by!r}", cure=f"one of {', '.join(columns)}")
        return Frame(breakdown_table(self.data, head, by, by.replace("_", " "), totals=False))

    def to_arrow(self) -> Any:
        """A pyarrow Table: one row per answer, with its verdict (`demur.core.records.Row`)."""
        from demur.core.parquet import whole_table

        return whole_table(self.folder / "rows.parquet")

    def to_pandas(self) -> Any:
        """A pandas DataFrame: one row per answer, with its verdict."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        return f"{self.system} ({self.folder})\n{self.rates()!r}"

    def _repr_html_(self) -> str:
        return self.rates()._repr_html_()


class Evaluations(Tabular, Sequence[Evaluation]):
    """Several systems' answers to the same questions.

    Attributes:
        folders: their run folders.
        release: release folder.
    """

    def __init__(self, folders: Sequence[Path], release: Path) -> None:
        self.folders, self.release = tuple(folders), release

    def __getitem__(self, place: Any) -> Any:
        return Evaluation(self.folders[place], self.release)

    def __len__(self) -> int:
        return len(self.folders)

    @cached_property
    def data(self) -> ReportData:
        """The rows, contexts and samples, as a report reads them."""
        from demur.reports.data import load

        return load(self.folders, self.release)

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of the tables, JSON-safe (`demur.reports.terminal.summarised`)."""
        from demur.reports.terminal import summarised

        return summarised(self.data)

    @property
    def all_failed(self) -> list[str]:
        """A line for each system of which every question failed, or an answer could not be judged."""
        from demur.evaluation.run_folder import all_failed

        return all_failed(self.folders)

    @property
    def frame(self) -> Frame:
        """Rates by scenario and system."""
        from demur.reports.cells import headline
        from demur.reports.terminal import results_table

        return Frame(results_table(self.data, headline(self.data.runs)))

    def print(self, *, sweeps: bool = False) -> None:
        """Print the tables; with ``sweeps`` also those of what varies, and the figures of the sources' own metrics."""
        from demur.reports.official import labels_table
        from demur.reports.terminal import print_data

        print_data(self.data, sweeps=sweeps)
        if (source_figures := labels_table(self.data)).rows:
            sys.stdout.write(source_figures.render("terminal"))


class Comparison(Tabular):
    """Two runs over the questions asked of both: paired differences with tests, and the changed items.

    Attributes:
        result: in full, see `demur.reports.compare.Comparison`.
    """

    def __init__(self, result: Compared) -> None:
        self.result = result

    @property
    def worse(self) -> bool:
        """Whether the second run is significantly worse in some scenario."""
        return bool(self.result.worse)

    @property
    def frame(self) -> Frame:
        """By scenario: both rates, their paired difference, interval, p."""
        from demur.reports.compare_tables import table

        return Frame(table(self.result))

    differences = frame

    def as_json(self, points: float = 5.0) -> dict[str, Any]:
        """All of it; ``points`` as of `print`."""
        from demur.reports.compare_tables import as_json

        return as_json(self.result, points / 100)

    def print(self, *, items: int = 5, points: float = 5.0, file: TextIO | None = None) -> None:
        """Print verdict, differences and changed items.

        Args:
            items: changed items, each way.
            points: say how many pairs it takes to detect a difference of so many points.
            file: where to; standard output when None.
        """
        from demur.reports.compare_tables import print_comparison

        print_comparison(self.result, items=items, effect=points / 100, file=file)

    def __repr__(self) -> str:
        out = io.StringIO()
        self.print(file=out)
        return out.getvalue()


class Report:
    """A written report; prints as what it holds.

    Attributes:
        path: the HTML file.
        tables: files of tables and figures for a paper.
        data: the runs, as the report reads them.
    """

    def __init__(self, path: Path, tables: tuple[Path, ...], data: ReportData) -> None:
        self.path, self.tables, self.data = path, tables, data

    def as_json(self) -> dict[str, Any]:
        """The numbers and the written files."""
        from demur.reports.terminal import summarised

        files = {"report": str(self.path), "tables": [str(path) for path in self.tables]}
        return summarised(self.data) | files

    def __repr__(self) -> str:
        from demur.reports.terminal import print_data

        out = io.StringIO()
        print_data(self.data, file=out)
        return f"{out.getvalue()}{self.path}"


class Index:
    """An index folder, opened with the encoders that its manifest names.

    Attributes:
        folder: index folder.
        cut: of one that was built just now, counts of passages; None where texts were not cut.
        skipped: of one that was built just now, what was left out, a line each.
        manifest: its parts, encoders, documents and hashes.
    """

    def __init__(
        self,
        folder: StrPath,
        *,
        encoder: str | None = None,
        text_encoder: str | None = None,
        engine: RayEngine | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.cut: Counts | None = None
        self.skipped: Sequence[str] = ()
        self._parts = (encoder, text_encoder, engine)

    @cached_property
    def _searcher(self) -> Searcher:
        from demur.retrieval.indexes import open_searcher

        return open_searcher(self.folder, *self._parts)

    def opened(self) -> Self:
        """The index, with its encoders open.

        Raises:
            UntrustedFile: its manifest names code or files elsewhere.
        """
        _ = self._searcher
        return self

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the folder."""
        from demur.indexing.folder import checked_manifest

        return checked_manifest(self.folder)

    @checked
    def search(
        self,
        text: str = "",
        *,
        image: StrPath | bytes | None = None,
        k: int = 10,
        mode: str | None = None,
        pages: int = 10,
    ) -> Hits:
        """The documents nearest to a question, an image, or both, best first.

        Args:
            text: query text.
            image: query image: a file, or its bytes.
            k: number of hits.
            mode: as in ``demur index search --help``; None chooses by the kind of query.
            pages: pages for ``FIRST/...`` modes.
        """
        from demur.retrieval.indexes import search

        picture = Path(image) if isinstance(image, str) else image
        mode_chosen, hits_and_documents = search(
            self._searcher, text, picture, k=k, mode=mode or "", pages=pages
        )
        return Hits(hits_and_documents, mode_chosen, self._searcher.id)

    @checked
    def write_run(
        self,
        release: Release,
        file: StrPath,
        *,
        k: int = 10,
        mode: str | None = None,
        pages: int = 10,
    ) -> int:
        """Search with every question of a release and write the hits as a TREC run; returns the number of questions.

        Args:
            release: an open release.
            file: replaced.
            k: number of hits of each question.
            mode: as of `search`.
            pages: pages for ``FIRST/...`` modes.
        """
        from demur.release.trec import write_run

        return write_run(self._searcher, release, Path(file), k=k, mode=mode or "", pages=pages)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} {name}" for name, n in self.manifest["counts"].items())
        return f"Index({str(self.folder)!r}: {counts}; modes: {', '.join(self._searcher.modes)})"


class Hits(Tabular, Sequence[Any]):
    """Hits of a search: (rank, score, document), best first."""

    def __init__(self, hits: Sequence[tuple[Hit, Document]], mode: str, index_id: str) -> None:
        self._hits = tuple((hit.rank, hit.score, document) for hit, document in hits)
        self._records = [
            {**hit.model_dump(mode="json"), "title": d.title, "text": d.text, "page": d.page}
            for hit, d in hits
        ]
        self.mode, self.index_id = mode, index_id

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"mode": self.mode, "index": self.index_id, "hits": self._records}

    def __getitem__(self, place: Any) -> Any:
        return self._hits[place]

    def __len__(self) -> int:
        return len(self._hits)

    @property
    def frame(self) -> Frame:
        """Rank, score, id, title and the start of the text."""
        from demur.reports.tables import Table, numbers, texts

        columns = (
            *numbers("rank"),
            *numbers("score", decimals=4),
            *texts("id"),
            *texts("title", "text", wraps=True),
        )
        rows = tuple(
            (r, float(s), d.id, d.title, " ".join((d.text or "(image)").split())[:80])
            for r, s, d in self._hits
        )
        return Frame(Table("hits", f"Found by {self.mode}.", columns, rows))
