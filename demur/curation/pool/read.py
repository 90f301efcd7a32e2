"""A pool, read again: as it is, or one of its sources as a source of a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from demur.core.errors import UsageError
from demur.core.plugins import names
from demur.core.records import Document, Sample
from demur.core.store import Problems, read_json, read_records, storage_errors
from demur.corpora.lineage import unprefixed
from demur.curation.pool.counts import PoolCounts
from demur.curation.pool.write import FORMAT
from demur.curation.sources import open_source

MINED = "mining.json"
"""Of what `demur mine` wrote: what it mined for, and where the images of its samples are."""


ALL = "pool"
"""Name of a source that is a pool of several."""


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


class PoolSource:
    """Reads one source's samples of a pool, under that source's own name and ids; of several all, as they are.

    Distractors that were mined stay, and nothing is mined again unless the recipe says so (``negatives: mined``).

    Args:
        folder: a pool folder, or what `demur mine` wrote.
        problems: where bad lines are noted.
        source: whose samples; without it those of the only source there is, or of several all as they are, under the
            name ``pool``.
        base: ``module:Class`` of the source that was mined for, where it is one of your own: no file of a pool chooses
            what is imported.

    Raises:
        UsageError: the folder is neither, or no sample is of that source.
    """

    elsewhere = True
    """What was mined leads to images and documents outside its folder."""

    def __init__(self, folder: Path, problems: Problems | None = None, source: str = "", base: str = "") -> None:
        self.folder = Path(folder)
        self.problems = Problems() if problems is None else problems
        self._base: Pool | Any = None
        self._file = self.folder / "samples.jsonl"
        if (self.folder / MINED).is_file():
            self._base = _mined_from(self.folder, base)
        else:
            self._base = Pool(self.folder, self.problems)
        self.root = Path(self._base.root)
        held = sorted({sample.source for sample in self._samples(Problems())})
        if source and source not in held:
            raise UsageError(f"no samples of {source} are in it", item=folder, cure=f"it holds {', '.join(held)}")
        self.name = source or (held[0] if len(held) == 1 else ALL)

    def _samples(self, problems: Problems) -> Iterator[Sample]:
        yield from read_records(self._file, Sample, problems)

    def samples(self) -> Iterator[Sample]:
        """The samples of the source, in the order of the file."""
        for sample in self._samples(self.problems):
            if self.name == ALL:
                yield sample
            elif sample.source == self.name:
                yield self._own(sample)

    def documents(self) -> Iterator[Document]:
        """The knowledge base of the source, as far as the pool has one."""
        mark = f"{self.name}:"
        for document in self._base.documents():
            if self.name == ALL:
                yield document
            elif document.id.startswith(mark) or not isinstance(self._base, Pool):
                yield self._unprefixed(document)

    def _own(self, sample: Sample) -> Sample:
        return sample.model_copy(update={
            "id": sample.id.removeprefix(f"{self.name}:"), "cluster": sample.cluster.removeprefix(f"{self.name}:"),
            "gold": tuple(map(self._unprefixed, sample.gold)),
            "negatives": tuple(map(self._unprefixed, sample.negatives)),
        })  # fmt: skip

    def _unprefixed(self, item: Any) -> Any:
        return unprefixed(item, f"{self.name}:")


def _mined_from(folder: Path, base: str) -> Any:
    said = read_json(folder / MINED)
    told = said.get("from") if isinstance(said, dict) else None
    if not isinstance(told, dict):
        raise UsageError("it does not say what was mined for", item=folder / MINED, cure="mine again")
    place = None if told.get("folder") is None else Path(str(told["folder"]))
    name, options = str(told.get("source") or ""), told.get("options") or {}
    if name:
        if name not in names("sources") and name != base:
            raise UsageError(
                f"it was mined for {name!r}, and a file may not choose what is imported", item=folder / MINED,
                cure=f"name it yourself if you trust it: options: {{base: '{name}'}}",
            )  # fmt: skip
        if not isinstance(options, dict):
            raise UsageError("its options are no mapping", item=folder / MINED, cure="mine again")
        return open_source(name, place, options=options)
    return Pool(place or folder)
