"""Rows as columns: what every measure reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from demur.core.errors import DataError
from demur.core.parquet import whole_table
from demur.core.records import Method, Outcome, Row, Status
from demur.core.stats import Codes, Floats
from demur.core.store import storage_errors

if TYPE_CHECKING:
    import pyarrow as pa

Flags = npt.NDArray[np.bool_]

CORRECT, INCORRECT, DEFLECTED, UNJUDGED, FAILED = range(5)
_CODES = {
    (Status.GRADED.value, Outcome.CORRECT.value): CORRECT,
    (Status.GRADED.value, Outcome.INCORRECT.value): INCORRECT,
    (Status.GRADED.value, Outcome.DEFLECTED.value): DEFLECTED,
    (Status.UNJUDGED.value, None): UNJUDGED,
    (Status.FAILED.value, None): FAILED,
}


def row_schema() -> pa.Schema:
    """The columns of `Row`, as ``rows.parquet`` has them."""
    import pyarrow as pa

    kinds = {
        "k_used": pa.int32(),
        "repeat": pa.int32(),
        "confidence": pa.float64(),
        "probability": pa.float64(),
    }
    return pa.schema([(name, kinds.get(name, pa.string())) for name in Row.model_fields])


class Column(NamedTuple):
    """A column of texts, coded."""

    codes: Codes
    """int64 [rows], an index into ``labels``."""
    labels: list[str]


class Table:
    """The columns of some rows, each read once and only when asked for.

    Args:
        rows: a pyarrow table with the columns of `Row`, or rows; rows are turned into columns once.
    """

    def __init__(self, rows: pa.Table | Iterable[Row]) -> None:
        if not hasattr(rows, "column_names"):
            import pyarrow as pa

            rows = pa.Table.from_pylist(
                [r.model_dump(mode="json") for r in rows], schema=row_schema()
            )
        self.arrow: pa.Table = rows
        self._coded: dict[str, Column] = {}

    def __iter__(self) -> Iterator[Row]:
        """The rows as records, made a few thousand at a time."""
        for batch in self.arrow.to_batches(max_chunksize=4096):
            for values in batch.to_pylist():
                yield Row.model_validate(values)

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def _column(self, name: str) -> Any:
        if name in self.arrow.column_names:
            return self.arrow.column(name)
        raise DataError(
            f"no column named {name!r}", cure=f"the columns are: {', '.join(Row.model_fields)}"
        )

    def coded(self, name: str) -> Column:
        """A column of texts as int64 codes and their labels, in order of first appearance; None reads as ""."""
        if name not in self._coded:
            codes, labels = _encoded(self._column(name))
            self._coded[name] = Column(codes, labels.to_pylist())
        return self._coded[name]

    def coded_with(self, other: Table, name: str) -> tuple[Codes, Codes]:
        """The codes of one column in this table and another, equal where the texts are equal."""
        import pyarrow as pa

        pair = [t._column(name).cast(pa.string()) for t in (self, other)]
        codes, _ = _encoded(
            pa.chunked_array([chunk for column in pair for chunk in column.chunks], pa.string())
        )
        return codes[: len(self)], codes[len(self) :]

    def numbers(self, name: str) -> Floats:
        """A column of numbers as float64 [rows]; None becomes NaN."""
        import pyarrow as pa

        return np.asarray(self._column(name).cast(pa.float64()).to_numpy(), dtype=np.float64)

    @cached_property
    def result(self) -> Codes:
        """int64 [rows]: CORRECT, INCORRECT, DEFLECTED, UNJUDGED or FAILED.

        Raises:
            DataError: a status or outcome that the records do not know, or a graded row without an outcome.
        """
        status, outcome = self.coded("status"), self.coded("outcome")
        grid = np.full(
            (max(1, len(status.labels)), max(1, len(outcome.labels))), -1, dtype=np.int64
        )
        for i, s in enumerate(status.labels):
            for j, o in enumerate(outcome.labels):
                grid[i, j] = _CODES.get((s, o or None), -1)
        codes = grid[status.codes, outcome.codes]
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            raise DataError(
                f"status {status.labels[status.codes[row]]!r} with outcome {outcome.labels[outcome.codes[row]]!r}",
                item=f"row {row + 1}",
                cure="an outcome stands exactly where the status is 'graded'; grade the run again",
            )
        return codes

    @cached_property
    def graded(self) -> Flags:
        """Bool [rows]: a verdict exists."""
        return self.result <= DEFLECTED

    @cached_property
    def method(self) -> Codes:
        """int64 [rows]: how the verdict came about, an index into `Method`; -1 where that is not known."""
        if "method" not in self.arrow.column_names:
            return np.full(len(self), -1, dtype=np.int64)
        method_names = [m.value for m in Method]
        column = self.coded("method")
        codes = [
            method_names.index(label) if label in method_names else -1 for label in column.labels
        ]
        return np.asarray(codes or [-1], dtype=np.int64)[column.codes]

    @cached_property
    def item(self) -> Codes | None:
        """int64 [rows]: rows with one number are repeats of one item, a context set under a condition.

        None where nothing was asked twice, and every row is an item; see `demur.judge.measures.repeats`.
        """
        return self.context_condition if self.repeats > 1 else None

    @cached_property
    def context_condition(self) -> Codes:
        """int64 [rows]: equal for rows of one context set under one condition."""
        (context, _, _), (condition, count, _) = self._codes("context"), self._codes("condition")
        return context * max(1, count) + condition

    @cached_property
    def repeats(self) -> int:
        """How often anything was asked, at most."""
        if "repeat" not in self.arrow.column_names:
            return 1
        return 1 + int(np.nan_to_num(self.numbers("repeat")).max(initial=0.0))

    @cached_property
    def should_deflect(self) -> Flags:
        """Bool [rows]: the evidence shown does not suffice, so that deflecting is right."""
        expected = self.coded("expected")
        deflects = [label == "deflect" for label in expected.labels]
        return (
            np.asarray(deflects, dtype=np.bool_)[expected.codes]
            if deflects
            else np.zeros(0, dtype=np.bool_)
        )

    @cached_property
    def cluster(self) -> Codes:
        """int64 [rows]: rows with one number share an entity or image; a sample without a cluster is its own."""
        sample, (cluster, count, blank) = self._codes("sample")[0], self._codes("cluster")
        return np.where(cluster == blank, count + sample, cluster)

    def _codes(self, name: str) -> tuple[Codes, int, int]:
        """Codes of a column, how many labels there are, and the code of "" (-1 when it does not occur)."""
        import pyarrow.compute as pc

        codes, labels = _encoded(self._column(name))
        return codes, len(labels), pc.index(labels, "").as_py() if len(labels) else -1

    def tally(self, *by: str) -> dict[tuple[str, ...], int]:
        """How many rows have each combination of texts that occurs, in order of first appearance."""
        labels, codes = self.combined(*by)
        return {
            texts: int(n)
            for texts, n in zip(labels, np.bincount(codes, minlength=len(labels)), strict=True)
        }

    def combined(self, *by: str) -> tuple[list[tuple[str, ...]], Codes]:
        """Combinations of texts of several columns in order of first appearance, and int64 [rows], the row's one."""
        columns = [self.coded(name) for name in by]
        joint: Codes = np.zeros(len(self), dtype=np.int64)
        for column in columns:
            joint = joint * max(1, len(column.labels)) + column.codes
        _, first, codes = np.unique(joint, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.argsort(order)
        return [tuple(c.labels[c.codes[first[i]]] for c in columns) for i in order], rank[codes]

    def groups(self, *by: str) -> list[tuple[tuple[str, ...], Flags]]:
        """(texts, bool [rows]) of every combination of texts that occurs, in order of first appearance."""
        labels, codes = self.combined(*by)
        return [(texts, codes == i) for i, texts in enumerate(labels)]

    def is_in(self, name: str, labels: Collection[str]) -> Flags:
        """Bool [rows]: the text of a column is one of ``labels``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        matches = pc.is_in(
            self._column(name).cast(pa.string()), value_set=pa.array(list(labels), pa.string())
        )
        return np.asarray(matches.to_numpy(), dtype=np.bool_)

    def texts(self, name: str, places: Codes) -> list[str]:
        """The texts of a column at those places, in that order; None reads as ""."""
        return ["" if v is None else str(v) for v in self._column(name).take(places).to_pylist()]

    def take(self, places: Codes) -> list[Row]:
        """The rows at those places, as records, in that order."""
        return [Row.model_validate(values) for values in self.arrow.take(places).to_pylist()]

    def where(self, keep: Flags) -> Table:
        """The rows where ``keep`` (bool [rows]) is true."""
        import pyarrow as pa

        return Table(self.arrow.filter(pa.array(keep)))


def _encoded(column: Any) -> tuple[Codes, Any]:
    """int64 codes of an Arrow column of texts, and its distinct texts as an Arrow array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = column.cast(pa.string())
    if not len(column):
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    coded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary


def table(rows: Table | pa.Table | Iterable[Row]) -> Table:
    """The rows as a `Table`; a `Table` is given back as it is."""
    return rows if isinstance(rows, Table) else Table(rows)


def read_table(path: Path) -> Table:
    """The rows of a run (``rows.parquet``), read into columns.

    Raises:
        StorageError: the file cannot be read.
        DataError: it is not Parquet.
    """
    with storage_errors(path):
        return Table(whole_table(path))
