"""A pool as a source of a recipe: what `demur pool build` joined, or what `demur mine` wrote with its distractors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demur.core.errors import UsageError
from demur.core.plugins import names
from demur.core.records import Document, Sample
from demur.core.store import Problems, read_json, read_records
from demur.corpora.lineage import unprefixed
from demur.curation.pool.opened import Pool
from demur.curation.sources import open_source

MINED = "mining.json"
"""Of what `demur mine` wrote: what it mined for, and where the images of its samples are."""


ALL = "pool"
"""Name of a source that is a pool of several."""


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
