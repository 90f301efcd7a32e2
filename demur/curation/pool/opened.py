"""A built pool, read again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from demur.core.errors import UsageError
from demur.core.records import Document, Sample
from demur.core.store import Problems, read_json, read_records, storage_errors
from demur.curation.pool.counts import PoolCounts
from demur.curation.pool.write import FORMAT


class Pool:
    """A built pool as a source: its samples and documents, ids prefixed already.

    Raises:
        UsageError: the folder is no pool.
    """

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        self.name = "pool"
        self.root = Path(folder)
        self.problems = Problems() if problems is None else problems
        if not (self.root / "pool.json").is_file():
            raise UsageError(f"{self.root} holds no pool.json", cure="build it with 'demur pool build'")
        self.made: dict[str, Any] = read_json(self.root / "pool.json")
        """What ``pool.json`` holds: counts, ``parts`` in the order of the sources, the hashes of the files."""
        if isinstance(self.made, dict) and "demur" in self.made and self.made.get("format") != FORMAT:
            raise UsageError(
                "a pool that another version of demur made: its evidence does not say which document and page it is of",
                item=self.root,
                cure="build it again with 'demur pool build'",
            )

    @property
    def counts(self) -> PoolCounts:
        """The statistics that ``pool.json`` holds."""
        return PoolCounts.model_validate(self.made["counts"])

    def documents(self) -> Iterator[Document]:
        """Documents of every source, in the order of the build; empty when they were not asked for."""
        if (self.root / "documents.jsonl").is_file():
            yield from read_records(self.root / "documents.jsonl", Document, self.problems)

    def documents_of(self, source: str) -> Iterator[Document]:
        """The knowledge base of one source, its ids as they are in the pool."""
        for part, line in self.lines("documents"):
            if self.made["parts"][part]["source"] == source:
                yield Document.model_validate_json(line)

    def samples(self) -> Iterator[Sample]:
        """Samples of every source, in the order of the build."""
        yield from read_records(self.root / "samples.jsonl", Sample, self.problems)

    def lines(self, what: Literal["samples", "documents"]) -> Iterator[tuple[int, bytes]]:
        """(number of its part, line) of every sample or document, unread."""
        path = self.root / f"{what}.jsonl"
        with storage_errors(path):
            handle = path.open("rb")
        with handle:
            for number, part in enumerate(self.made["parts"]):
                for line in islice(handle, part[what]):
                    yield number, line
