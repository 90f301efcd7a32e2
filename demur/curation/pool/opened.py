"""A built pool, read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demur.curation.pool.write import FORMAT
from demur.errors import UsageError
from demur.records import Document, Sample
from demur.store import Problems, read_json, read_records


class Pool:
    """A built pool as a source: its samples and documents, ids prefixed already.

    Args:
        folder: a pool folder.
        problems: where bad lines are noted.

    Raises:
        UsageError: the folder is no pool.
    """

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        self.name = "pool"
        self.root = Path(folder)
        self.problems = Problems() if problems is None else problems
        if not (self.root / "pool.json").is_file():
            raise UsageError(f"{self.root} holds no pool.json", cure="build it with 'demur pool build'")
        made = read_json(self.root / "pool.json")
        if isinstance(made, dict) and "demur" in made and made.get("format") != FORMAT:
            raise UsageError(
                "a pool that another version of demur made: its evidence does not say which document and page it is of",
                item=str(self.root),
                cure="build it again with 'demur pool build'",
            )

    def _records(self, file: str, kind: type[Any]) -> Iterator[Any]:
        yield from read_records(self.root / file, kind, self.problems)

    def documents(self) -> Iterator[Document]:
        """Documents of every source, in the order of the build; empty when they were not asked for."""
        if (self.root / "documents.jsonl").is_file():
            yield from self._records("documents.jsonl", Document)

    def samples(self) -> Iterator[Sample]:
        """Samples of every source, in the order of the build."""
        yield from self._records("samples.jsonl", Sample)
