"""The samples of a recipe: the pool of its sources on disk, written once, and the samples drawn from it.

The name of the pool's folder is a hash of everything that decides its content: the recipe's sources, their files (path,
size and times of change), the code of their adapters, and `POOL_FORMAT`. Unless one of these changes, the pool is used
again; else a new one replaces it. Samples are drawn from the pool, so a pilot, a whole build and a build without bad
records read the sources once.

Memory: the drawn samples, and 8 bytes for each other sample of a source that is cut down.
"""

from __future__ import annotations

import atexit
import heapq
import inspect
import os
import random
import shutil
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from demur.answers import normalise
from demur.core.code import code_digest
from demur.core.errors import DataError, StorageError
from demur.core.records import Sample
from demur.core.store import (
    Problems,
    digest,
    file_digest,
    locked,
    read_json,
    read_records,
    seed_of,
    storage_errors,
)
from demur.core.strict_json import loose_json
from demur.core.version import __version__
from demur.corpora.near_duplicates import HASHES_IN_MEMORY, ImageHashes
from demur.curation.build.recipe import SourceSpec
from demur.pools.duplicates import DuplicateFinder
from demur.pools.read import Pool
from demur.pools.write import IMAGE_HASHES, LeftOut, build
from demur.sources import Source, open_source


class SampledPool(NamedTuple):
    """The documents and samples of a recipe."""

    full_pool: Pool
    """All samples and the knowledge bases; ids are prefixed with the source's name."""
    samples: list[Sample]
    """The drawn ones, in the order of their sources."""
    root: Path
    """The folder that all image uris are relative to."""
    sizes: dict[str, int]
    """Source -> samples before drawing."""
    skipped: int
    """Problems of records that were skipped because the user allowed it."""
    hashes: dict[str, str]
    """Source -> SHA-256 over all its documents and samples."""
    repeated: int
    """Samples left out because an earlier source has the same question about the same images."""
    specs: dict[str, SourceSpec]
    """Source -> its part of the recipe."""
    image_hashes: ImageHashes
    """Hashes of the pool's images; the pool has some already."""
    left_out: tuple[LeftOut, ...] = ()
    """Samples that the user allowed to be left out of the pool, each with its reason."""


def sample_sources(
    sources: Sequence[SourceSpec],
    folder: Path,
    *,
    base: Path = Path(),
    seed: int,
    skip_bad: bool = False,
    keep: bool = True,
) -> SampledPool:
    """Read the sources of a recipe into a pool, unless it exists, and draw samples from it.

    Args:
        folder: of the pool, which is below it.
        base: folder that relative source paths start from (the recipe's own).
        seed: decides which samples of a source are drawn.
        keep: write a new pool into ``folder``; else a new one is removed when this process ends.

    Raises:
        BadInput: all problems of all sources, unless ``skip_bad``.
        UsageError: a source is unknown, its folder does not exist, or two of one name have different folders.
        DataError: the sources hold no samples.
        StorageError: the pool cannot be written.
    """
    opened = [
        open_source(
            spec.name, None if spec.path is None else base / spec.path, Problems(), spec.options
        )
        for spec in sources
    ]
    pool = _pool_of(opened, sources, folder, keep)
    sizes: dict[str, int] = {}
    hashes: dict[str, str] = {}
    specs: dict[str, SourceSpec] = {}
    for spec, part in zip(sources, pool.pool_json["parts"], strict=True):
        name = part["source"]
        specs.setdefault(name, spec)
        sizes[name] = sizes.get(name, 0) + part["samples"]
        hashes[name] = digest(
            [hashes.get(name, ""), part["sha256_of_documents"], part["sha256_of_samples"]]
        )
    left_out, skipped = _settle_left_out(pool, named=len(sources) > 1, skip_bad=skip_bad)
    if not any(sizes.values()):
        raise DataError(
            "the sources hold no samples", item=", ".join(sizes), cure="check their folders"
        )
    samples = _draw_samples(pool, sources, seed)
    image_hashes = ImageHashes(pool.root, pool.root / IMAGE_HASHES, HASHES_IN_MEMORY)
    distinct_samples = _without_repeats(samples, image_hashes) if len(specs) > 1 else samples
    return SampledPool(
        full_pool=pool,
        samples=distinct_samples,
        root=pool.root,
        sizes=sizes,
        skipped=skipped,
        hashes=hashes,
        repeated=len(samples) - len(distinct_samples),
        specs=specs,
        image_hashes=image_hashes,
        left_out=left_out,
    )


def _settle_left_out(pool: Pool, *, named: bool, skip_bad: bool) -> tuple[tuple[LeftOut, ...], int]:
    """The samples that the pool left out, and the number of all problems.

    Args:
        named: a problem names its source.

    Raises:
        BadInput: there are problems, unless ``skip_bad``.
    """
    rows = list(read_records(pool.root / "left-out.jsonl", LeftOut, Problems()))
    problems = Problems()
    for row in rows:
        if not row.sample:
            problems.add(row.source if named else "", row.reason)
    problems.count(sum(row["bad"] for row in pool.pool_json["counts"]["sources"]) - len(problems))
    problems.settle(skip_bad=skip_bad)
    return tuple(row for row in rows if row.sample), problems.skipped


# --- the pool of a state of the sources ----------------------------------------------------------


POOL_FORMAT = 2
"""Increase it when the same source files give another pool, so that earlier pools are not used."""


def _pool_of(
    opened: Sequence[Source], sources: Sequence[SourceSpec], folder: Path, keep: bool
) -> Pool:
    """The pool of the sources: that in the folder, if it is of their present state, else a new one."""
    if not keep:
        place = folder / _state_digest(opened, sources)
        if not _is_intact(place):
            place = Path(tempfile.mkdtemp(prefix="demur-pool-"))
            atexit.register(shutil.rmtree, place, ignore_errors=True)
            build(opened, place, documents=True, skip_bad=True, for_release=True)
        return Pool(place)
    # Locked before the files are examined: a second process finds the pool of the first.
    with locked(folder / "lock", "reading the sources", wait=True):
        key = _state_digest(opened, sources)
        place, work = folder / key, folder / f".making-{key}"
        if not _is_intact(place):
            with storage_errors(folder):
                for each in folder.iterdir():
                    if each.is_dir():
                        shutil.rmtree(each)
            try:
                build(opened, work, documents=True, skip_bad=True, for_release=True)
            except BaseException:
                shutil.rmtree(
                    work, ignore_errors=True
                )  # a partial pool must not fill a disk that is full already
                raise
            with storage_errors(place):
                work.rename(place)
    return Pool(place)


def kept_pool(folder: Path) -> Path | None:
    """The pool in a folder of `sample_sources`; None if there is none."""
    return next((path.parent for path in folder.glob("[0-9a-f]" * 16 + "/pool.json")), None)


def _is_intact(place: Path) -> bool:
    """Whether all files have the hashes they were written with."""
    try:
        return all(
            file_digest(place / name) == sha
            for name, sha in read_json(place / "pool.json")["files"].items()
        )
    except (OSError, DataError, KeyError, StorageError):
        return False


def _state_digest(opened: Sequence[Source], sources: Sequence[SourceSpec]) -> str:
    """A hash of everything that decides the content of the pool; always a new one for sources outside their folders."""
    parts: list[Any] = [POOL_FORMAT, __version__]
    for source, spec in zip(opened, sources, strict=True):
        code = inspect.getsourcefile(type(source))
        files = [
            Path(str(value))
            for value in spec.options.values()
            if value and Path(str(value)).is_file()
        ]
        parts.append(
            [
                source.name,
                spec.name,
                str(source.root.resolve()),
                spec.model_dump(mode="json")["options"],
                file_digest(Path(code)) if code else "",
                code_digest(type(source)),
                [_size_and_times(path.stat()) for path in files],
                _folder_digest(source.root),
                time.time_ns() if getattr(source, "elsewhere", False) else 0,
            ]
        )
    return digest(parts, 16)


def _size_and_times(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _folder_digest(root: Path) -> str:
    """A hash of the names, sizes and times of all files below a folder; the order of listing does not matter."""
    total, seen, todo = 0, set(), [root]
    while todo:
        folder = todo.pop()
        with storage_errors(folder):
            stat = folder.stat()
            if (stat.st_dev, stat.st_ino) in seen:  # links may lead in circles
                continue
            seen.add((stat.st_dev, stat.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir():
                            todo.append(Path(entry.path))
                        entry_state = [
                            os.path.relpath(entry.path, root),
                            *_size_and_times(entry.stat()),
                        ]
                    except OSError:  # a link to nowhere
                        entry_state = [os.path.relpath(entry.path, root)]
                    total += int.from_bytes(
                        sha256(repr(entry_state).encode("utf-8", "surrogateescape")).digest(), "big"
                    )
    return f"{total % (1 << 256):064x}"


# --- the choice ----------------------------------------------------------------------------------


def _draw_samples(pool: Pool, sources: Sequence[SourceSpec], seed: int) -> list[Sample]:
    """The samples that the sources' ``per_topic`` and ``limit`` leave, drawn by the seed, in their original order."""
    taken = _taken_places(pool, sources, seed)
    return [
        _parse_sample(line)
        for number, (part, line) in enumerate(pool.lines("samples"))
        if part not in taken or number in taken[part]
    ]


def _taken_places(pool: Pool, sources: Sequence[SourceSpec], seed: int) -> dict[int, set[int]]:
    """Part -> places in the pool of the samples that are drawn from it; a part of which all are taken is left out.

    First ``per_topic`` of each topic and query modality, then the ``limit`` of these with the lowest hashes.
    """
    groups: defaultdict[tuple[int, str, bool], array[int]] = defaultdict(lambda: array("q"))
    if any(spec.per_topic is not None for spec in sources):
        for number, (part, line) in enumerate(pool.lines("samples")):
            if sources[part].per_topic is not None:
                row = loose_json(line)
                groups[part, row["topic"], bool(row["images"])].append(number)
    taken: defaultdict[int, set[int]] = defaultdict(set)
    for (part, topic, pictured), group in groups.items():
        dice = random.Random(seed_of(seed, "choose", topic, pictured))
        most = min(sources[part].per_topic or len(group), len(group))
        taken[part].update(group[at] for at in dice.sample(range(len(group)), most))
    for part, spec in enumerate(sources):
        if spec.limit is not None:
            hashes = (
                (seed_of(seed, "limit", loose_json(line)["id"]), number)
                for number, (each, line) in enumerate(pool.lines("samples"))
                if each == part and (part not in taken or number in taken[part])
            )
            taken[part] = {number for _, number in heapq.nsmallest(spec.limit, hashes)}
    return dict(taken)


def _parse_sample(line: bytes) -> Sample:
    return Sample.model_validate(loose_json(line))


def _without_repeats(samples: list[Sample], image_hashes: ImageHashes) -> list[Sample]:
    """The samples without those whose question and pictures an earlier source has, whatever answers they accept.

    Pictures are compared only for questions that two sources ask.
    """
    asking: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        asking[normalise(sample.question)].add(sample.source)
    finder = DuplicateFinder()
    distinct_samples = []
    for sample in samples:
        if len(asking[normalise(sample.question)]) > 1:
            hashes = [image_hashes(ref) for ref in sample.images]
            readable_hashes = tuple(image_hash for image_hash in hashes if image_hash is not None)
            if len(readable_hashes) == len(hashes) and any(
                t.source != sample.source for t in finder.find_earlier(sample, readable_hashes)
            ):
                continue
        distinct_samples.append(sample)
    return distinct_samples
