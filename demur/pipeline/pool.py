"""Sources -> pool: the documents and samples of a recipe's sources, in one place, with their images in reach."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from demur.answers import holds, normalise
from demur.curation.recipe import SourceSpec
from demur.curation.sources import DEFECT, Source, open_source
from demur.errors import DataError, UsageError
from demur.plugins import find
from demur.records import Document, Evidence, ImageRef, Record, Sample
from demur.store import Problems, canonical, digest, seed_of, storage_errors

_SCHEME = re.compile(r"^(zip|tar|parquet|tsv|slice|lines):")


class Pool(NamedTuple):
    """Everything that a recipe starts from.

    Attributes:
        documents: the knowledge bases, joined; ids are prefixed with the source's name when there are several.
        samples: those chosen, in the order of their sources.
        root: the folder that all image uris are relative to.
        sizes: source -> samples before the choice.
        skipped: bad records left out because the user allowed it.
        hashes: source -> SHA-256 over all its documents and samples.
        repeated: samples left out because an earlier source asks the same about the same images.
        specs: source -> what the recipe says of it.
    """

    documents: list[Document]
    samples: list[Sample]
    root: Path
    sizes: dict[str, int]
    skipped: int
    hashes: dict[str, str]
    repeated: int
    specs: dict[str, SourceSpec]


def load_pool(sources: Sequence[SourceSpec], *, base: Path, links: Path, seed: int, skip_bad: bool = False) -> Pool:
    """Read all sources of a recipe.

    Args:
        sources: what to read.
        base: folder that relative source paths start from (the recipe's own).
        links: folder for links to the sources' folders, so that image uris do not name this machine's paths.
        seed: decides which samples are taken where a source is cut down.
        skip_bad: leave bad records out and count them, rather than refuse them all.

    Raises:
        BadInput: every problem of every source, unless ``skip_bad``.
        UsageError: a source is unknown or its folder does not exist.
        DataError: two documents or samples share an id.
    """
    problems = Problems()
    documents: list[Document] = []
    samples: list[Sample] = []
    sizes: dict[str, int] = {}
    hashes: dict[str, str] = {}
    specs: dict[str, SourceSpec] = {}
    several = len(sources) > 1
    for spec in sources:
        source = _opened(spec, base, problems)
        _link(links / source.name, source.root)
        prefix = f"{source.name}:" if several else ""
        found = [_document(d, source.name, prefix) for d in source.documents()]
        mine = [_sample(s, source.name, prefix) for s in source.samples() if not _defect(s, problems)]
        documents += found
        specs.setdefault(source.name, spec)
        sizes[source.name] = sizes.get(source.name, 0) + len(mine)
        hashes[source.name] = digest([hashes.get(source.name, ""), _hash(found), _hash(mine)])
        samples += _chosen(mine, spec.per_topic, seed)
    samples, repeated = _once(samples) if several else (samples, 0)
    problems.settle(skip_bad=skip_bad)
    for what, ids in (("document", Counter(d.id for d in documents)), ("sample", Counter(s.id for s in samples))):
        twice = sorted(i for i, n in ids.items() if n > 1)
        if twice:
            raise DataError(f"{len(twice)} {what} id(s) appear twice", item=twice[0], cure="name each source once")
    if not samples:
        raise DataError("the sources hold no samples", item=", ".join(sizes), cure="check their folders")
    return Pool(documents, samples, links, sizes, problems.skipped, hashes, repeated, specs)


def _opened(spec: SourceSpec, base: Path, problems: Problems) -> Source:
    if spec.path is None:
        factory, _ = find("sources", spec.name)
        try:
            source: Source = factory(None, problems, **spec.options)
        except TypeError as error:
            raise UsageError("this source needs a folder", item=spec.name, cure="give it a path") from error
        return source
    return open_source(spec.name, base / spec.path, problems, {k: str(v) for k, v in spec.options.items()})


def _link(link: Path, target: Path) -> None:
    with storage_errors(link):
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(target.resolve(), target_is_directory=True)


def _image(ref: ImageRef, source: str) -> ImageRef:
    scheme = match[0] if (match := _SCHEME.match(ref.uri)) else ""
    return ref.model_copy(update={"uri": f"{scheme}{source}/{ref.uri.removeprefix(scheme)}"})


def _document(document: Document, source: str, prefix: str) -> Document:
    change: dict[str, object] = {"id": prefix + document.id}
    if document.page:
        change["page"] = prefix + document.page
    if document.image:
        change["image"] = _image(document.image, source)
    return document.model_copy(update=change)


def _sample(sample: Sample, source: str, prefix: str) -> Sample:
    def evidence(e: Evidence) -> Evidence:
        return e.model_copy(update={"id": prefix + e.id, "image": _image(e.image, source) if e.image else None})

    return sample.model_copy(
        update={
            "id": prefix + sample.id,
            "images": tuple(_image(i, source) for i in sample.images),
            "gold": tuple(map(evidence, sample.gold)),
            "negatives": tuple(map(evidence, sample.negatives)),
        }
    )


def _defect(sample: Sample, problems: Problems) -> bool:
    """A sample that is not whole, or gives its answer away, is left out, and told of."""
    why = sample.attributes.get(DEFECT, "") or ("" if sample.gold else "it has no gold evidence") or _leak(sample)
    if why:
        problems.add(f"{sample.source_ref} ({sample.id})", why)
    return bool(why)


def _leak(sample: Sample) -> str:
    """Why no release may hold a sample as it is (`demur.curation.release.verify` would refuse it); "" when one may."""
    if not sample.answers.choices and holds(sample.answers, sample.question):
        return "the answer stands in the question"
    asked = {image.sha256 for image in sample.images}
    shown = next((e.id for e in sample.gold if e.image and e.image.sha256 in asked), "")
    return f"its gold evidence {shown} is the query image itself" if shown else ""


def _hash(records: Iterable[Record]) -> str:
    """SHA-256 over records in their order."""
    sha = hashlib.sha256()
    for record in records:
        sha.update(canonical(record).encode("utf-8", "surrogatepass"))
    return sha.hexdigest()


def _once(samples: list[Sample]) -> tuple[list[Sample], int]:
    """Without those that a sample of an earlier source repeats: the same question about the same images."""
    first: dict[tuple[str, tuple[str, ...]], str] = {}
    kept = []
    for sample in samples:
        key = normalise(sample.question), tuple(sorted(i.sha256 for i in sample.images))
        if first.setdefault(key, sample.source) == sample.source:
            kept.append(sample)
    return kept, len(samples) - len(kept)


def _chosen(samples: list[Sample], per_topic: int | None, seed: int) -> list[Sample]:
    """At most ``per_topic`` of each topic and query modality, drawn by the seed, in their old order."""
    if per_topic is None:
        return samples

    def groups() -> Iterator[list[Sample]]:
        keys = sorted({(s.topic, bool(s.images)) for s in samples})
        for key in keys:
            yield [s for s in samples if (s.topic, bool(s.images)) == key]

    taken: set[str] = set()
    for group in groups():
        draw = random.Random(seed_of(seed, "choose", group[0].topic, bool(group[0].images)))
        taken |= {s.id for s in draw.sample(group, min(per_topic, len(group)))}
    return [s for s in samples if s.id in taken]
