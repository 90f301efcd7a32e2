"""Read a pool: as a whole, or one of its sources as a source of a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from demur.core.errors import DataError, UsageError
from demur.core.records import Document, Sample
from demur.core.store import Problems, read_json, read_records, storage_errors, why_invalid
from demur.core.untrusted import Choice, check
from demur.corpora.lineage import unprefixed
from demur.pools.counts import PoolCounts
from demur.pools.write import FORMAT
from demur.sources import open_source

MINED = "mining.json"
"""File of a folder that `demur mine` wrote: the origin of its samples and where their images are."""
ALL = "pool"
"""Name of a pool of several sources as one source."""


class Pool:
    """A built pool: its samples and documents, with prefixed ids.

    Raises:
        UsageError: the folder is no pool.
    """

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        self.name = "pool"
        self.root = Path(folder)
        self.problems = Problems() if problems is None else problems
        if not (self.root / "pool.json").is_file():
            raise UsageError(
                f"{self.root} holds no pool.json", cure="build it with 'demur pool build'"
            )
        self.pool_json: dict[str, Any] = read_json(self.root / "pool.json")
        """The content of ``pool.json``: counts, ``parts`` in the order of the sources, hashes of the files."""
        if (
            isinstance(self.pool_json, dict)
            and "demur" in self.pool_json
            and self.pool_json.get("format") != FORMAT
        ):
            raise UsageError(
                "another version of demur built this pool: its evidence does not name its document and page",
                item=self.root,
                cure="build it again with 'demur pool build'",
            )

    @property
    def counts(self) -> PoolCounts:
        """The statistics in ``pool.json``."""
        try:
            return PoolCounts.model_validate(self.pool_json.get("counts"))
        except ValidationError as error:
            raise DataError(
                f"no statistics of a pool: {why_invalid(error)}",
                item=self.root / "pool.json",
                cure="build it again",
            ) from error

    def documents(self) -> Iterator[Document]:
        """Documents of every source, in the order of the build; empty if the pool was built without documents."""
        if (self.root / "documents.jsonl").is_file():
            yield from read_records(self.root / "documents.jsonl", Document, self.problems)

    def documents_of(self, source: str) -> Iterator[Document]:
        """The knowledge base of one source, with the ids of the pool."""
        for part, line in self.lines("documents"):
            if self.pool_json["parts"][part]["source"] == source:
                yield Document.model_validate_json(line)

    def count(
        self, source: str, kind: Literal["documents", "texts", "images"] = "documents"
    ) -> int:
        """The number of documents of a source: all, or those with text or an image."""
        return sum(part[kind] for part in self.pool_json["parts"] if part["source"] == source)

    def samples(self) -> Iterator[Sample]:
        """Samples of every source, in the order of the build."""
        yield from read_records(self.root / "samples.jsonl", Sample, self.problems)

    def lines(self, kind: Literal["samples", "documents"]) -> Iterator[tuple[int, bytes]]:
        """(number of its part, line) of every sample or document, not parsed."""
        path = self.root / f"{kind}.jsonl"
        with storage_errors(path):
            handle = path.open("rb")
        with handle:
            for number, part in enumerate(self.pool_json["parts"]):
                for line in islice(handle, part[kind]):
                    yield number, line


class PoolSource:
    """Reads the samples of one source of a pool under the source's own name and ids, or all samples as they are.

    Mined distractors stay; they are mined again only if the recipe asks for it (``negatives: mined``).

    Args:
        folder: a pool folder, or one that `demur mine` wrote.
        problems: where bad lines are noted.
        source: the source. Without it: the only source of the pool, or all of several, under the name ``pool``.

    Raises:
        UsageError: the folder is neither, or it has no samples of that source.
    """

    elsewhere = True
    """Mined samples refer to images and documents outside the folder."""

    def __init__(self, folder: Path, problems: Problems | None = None, source: str = "") -> None:
        self.folder = Path(folder)
        self.problems = Problems() if problems is None else problems
        self._base: Pool | Any = None
        self._file = self.folder / "samples.jsonl"
        if (self.folder / MINED).is_file():
            self._base = _mined_from(self.folder)
        else:
            self._base = Pool(self.folder, self.problems)
        self.root = Path(self._base.root)
        sources_held = sorted(
            {sample.source for sample in read_records(self._file, Sample, Problems())}
        )
        if source and source not in sources_held:
            raise UsageError(
                f"there are no samples of {source}",
                item=folder,
                cure=f"it holds {', '.join(sources_held)}",
            )
        self.name = source or (sources_held[0] if len(sources_held) == 1 else ALL)

    def samples(self) -> Iterator[Sample]:
        """The samples of the source, in the order of the file."""
        for sample in read_records(self._file, Sample, self.problems):
            if self.name == ALL:
                yield sample
            elif sample.source == self.name:
                yield self._unprefixed_sample(sample)

    def documents(self) -> Iterator[Document]:
        """The knowledge base of the source, if the pool has it."""
        mark = f"{self.name}:"
        for document in self._base.documents():
            if self.name == ALL:
                yield document
            elif document.id.startswith(mark) or not isinstance(self._base, Pool):
                yield self._unprefixed(document)

    def _unprefixed_sample(self, sample: Sample) -> Sample:
        return sample.model_copy(
            update={
                "id": sample.id.removeprefix(f"{self.name}:"),
                "cluster": sample.cluster.removeprefix(f"{self.name}:"),
                "gold": tuple(map(self._unprefixed, sample.gold)),
                "negatives": tuple(map(self._unprefixed, sample.negatives)),
            }
        )

    def _unprefixed(self, item: Any) -> Any:
        return unprefixed(item, f"{self.name}:")


def _mined_from(folder: Path) -> Any:
    """The source or pool that a mined folder is of.

    Raises:
        UntrustedFile: it lies elsewhere, or is no registered source, and the user did not agree.
    """
    summary = read_json(folder / MINED)
    origin = summary.get("from") if isinstance(summary, dict) else None
    if not isinstance(origin, dict):
        raise UsageError(
            "the file does not name the origin of its samples",
            item=folder / MINED,
            cure="mine again",
        )
    place = None if origin.get("folder") is None else Path(str(origin["folder"]))
    name, options = str(origin.get("source") or ""), origin.get("options") or {}
    chosen = [Choice("sources", name, options)] if name else []
    check(folder / MINED, [*chosen, *([Choice("folder", str(place))] if place else [])])
    if name:
        if not isinstance(options, dict):
            raise UsageError(
                "its options are not a mapping", item=folder / MINED, cure="mine again"
            )
        return open_source(name, place, options=options)
    return Pool(place or folder)
