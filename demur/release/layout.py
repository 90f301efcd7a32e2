"""Files, tables and counts of a release folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from demur.core.errors import ReleaseError
from demur.core.records import Evidence, ImageRef, Record, Sample
from demur.release.facts import DATE, facts_of
from demur.release.tasks import COLUMNS, EVAL, table_of

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "demur-release-1"
VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
TABLES = ("samples", "evidence")
DATA_FILES = (
    "data/samples.parquet",
    "data/evidence.parquet",
    "drops.jsonl",
    "gates.jsonl",
    "funnel.json",
    "recall.json",
    "README.md",
    "CITATION.cff",
)
"""Every file but ``croissant.json``, which lists these with their hashes, and ``manifest.json``, which lists all, and
those of `demur.release.tasks`, where questions have no pictures."""
CARRIERS = frozenset({".git", ".gitattributes", ".cache"})
"""Left by git and the hub's client in a folder that they download; ignored."""
LINK = ("role", "origin", "level", "index_id", "mode", "rank", "score")
"""Columns of a piece of evidence within a sample, besides those of its document."""
SAMPLE_TEXTS = ("id", "source", "split", "topic", "cluster", "question", "licence", "source_ref")
"""Columns of ``samples`` that are a sample's fields of text as they are."""


def files_of(manifest: Mapping[str, Any]) -> list[str]:
    """The files that a release has by its manifest, but for ``croissant.json`` and ``manifest.json``."""
    scenarios = list(manifest.get("scenarios") or ())
    return [*DATA_FILES, *map(table_of, scenarios), *([EVAL] if scenarios else [])]


class FunnelStep(Record):
    """One stage of the funnel: samples entered, kept, and dropped by reason."""

    stage: str
    entered: int
    kept: int
    dropped: dict[str, int] = Field(default_factory=dict)


def version_number(version: str) -> tuple[int, ...]:
    """A version as comparable numbers.

    >>> version_number("1.10.0") > version_number("1.9.3")
    True
    """
    return tuple(map(int, version.split(".")))


def next_minor(version: str) -> str:
    """The next version where other gates changed the samples; a new major one is for other sources, rules or judges.

    >>> next_minor("1.4.2")
    '1.5.0'
    """
    major, minor, _ = version_number(version)
    return f"{major}.{minor + 1}.0"


def stays_inside(name: str) -> bool:
    r"""Whether a file name in a manifest stays inside the folder on every operating system.

    >>> [stays_inside(n) for n in ("data/samples.parquet", "../x", "/etc/passwd", "a\\b", "C:x", "a//b")]
    [True, False, False, False, False, False]
    """
    parts = name.split("/")
    return name.isprintable() and not any(
        p in ("", ".", "..") or "\\" in p or ":" in p for p in parts
    )


def documents_of(samples: Sequence[Sample]) -> dict[str, Evidence]:
    """Every document that is evidence of a sample, by id, in the order of ids.

    Raises:
        ReleaseError: two documents share an id.
    """
    document_of_id: dict[str, Evidence] = {}
    for sample in samples:
        for e in (*sample.gold, *sample.negatives):
            earlier = document_of_id.setdefault(e.id, e)
            if (earlier.title, earlier.text, earlier.image and earlier.image.sha256) != (
                e.title,
                e.text,
                e.image and e.image.sha256,
            ):
                raise ReleaseError(
                    "two documents share the id", item=e.id, cure="give documents distinct ids"
                )
    return dict(sorted(document_of_id.items()))


def count_all(samples: Sequence[Sample], documents: Mapping[str, Evidence]) -> dict[str, Any]:
    """The counts in card and manifest; `verify` derives them again from the tables."""
    n = len(samples)
    return {
        "samples": n,
        "documents": len(documents),
        "unique_questions": len({s.question for s in samples}),
        "unique_query_images": len({i.sha256 for s in samples for i in s.images}),
        "gold": sum(len(s.gold) for s in samples),
        "distractors": sum(len(s.negatives) for s in samples),
        "question_words": sum(len(s.question.split()) for s in samples),
        "by_source": tally(s.source for s in samples),
        "by_topic": tally(s.topic for s in samples),
    }


def evidence_licences(
    samples: Sequence[Sample], sources: Iterable[str] = ()
) -> dict[str, dict[str, int]]:
    """Source -> licence ("" if unknown) -> number of documents that are evidence.

    A document shared by several sources counts once: for the source of the first sample, by id.

    Args:
        samples: of the release.
        sources: those to list even without samples.
    """
    licences_of_source: dict[str, list[str]] = {source: [] for source in sources}
    seen: set[str] = set()
    for sample in sorted(samples, key=lambda s: s.id):
        for e in (*sample.gold, *sample.negatives):
            if e.id not in seen:
                seen.add(e.id)
                licences_of_source.setdefault(sample.source, []).append(e.licence)
    return {source: tally(licences) for source, licences in licences_of_source.items()}


def tally(values: Iterable[str]) -> dict[str, int]:
    """How often each value occurs, in the order of the values."""
    return dict(sorted(Counter(values).items()))


def image_name(ref: ImageRef) -> str:
    """An image's name in its table; it reveals no file name of a source or machine.

    >>> image_name(ImageRef(sha256="0" * 64, uri="", width=1, height=1, media_type="image/jpeg"))[-6:]
    '00.jpg'
    """
    return f"{ref.sha256}.{ref.media_type.partition('/')[2].replace('jpeg', 'jpg')}"


def size_columns(refs: Iterable[ImageRef]) -> list[dict[str, Any]]:
    """Columns of images besides their bytes."""
    return [
        {"sha256": r.sha256, "width": r.width, "height": r.height, "media_type": r.media_type}
        for r in refs
    ]


CANARY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def canary_text(manifest: Mapping[str, Any]) -> str:
    """What each row says to whoever trains on it; filters look for the GUID."""
    return (
        f"Test data of the benchmark {manifest['name']}: please leave it out of training data. "
        f"canary GUID {manifest['canary']}"
    )


LINEAGE = ("document", "page", "licence")
"""Columns of ``evidence`` that say where it comes from."""


def schema_of(table: str) -> pa.Schema:
    """The columns of a table: ``samples``, ``evidence``, or ``scenario-NAME`` for those of `demur.release.tasks`."""
    import pyarrow as pa

    def strings(*names: str) -> list[tuple[str, pa.DataType]]:
        return [(name, pa.string()) for name in names]

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    meta = [
        ("sha256", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("media_type", pa.string()),
    ]
    if table == "evidence":
        return pa.schema(
            [
                *strings("id", *LINEAGE, "modality", "title", "text", "canary"),
                ("image", image),
                *meta,
            ]
        )
    if table.startswith("scenario-"):
        return pa.schema(strings(*COLUMNS))
    numbers = {"rank": pa.int32(), "score": pa.float64()}
    link = pa.struct([(name, numbers.get(name, pa.string())) for name in ("id", *LINK)])
    return pa.schema(
        [
            *strings(
                "id",
                "source",
                "split",
                "topic",
                "cluster",
                "question",
                "answer",
                "answers",
                "attributes",
                "licence",
            ),
            *strings("source_ref", "canary"),
            ("answerable", pa.bool_()),
            ("images", pa.list_(image)),
            ("images_meta", pa.list_(pa.struct(meta))),
            ("gold", pa.list_(link)),
            ("negatives", pa.list_(link)),
        ]
    )


def features_of(table: str) -> dict[str, Any]:
    """The same columns as `datasets` features, so that it decodes the images."""
    import pyarrow as pa

    def feature(kind: pa.DataType) -> dict[str, Any]:
        if pa.types.is_list(kind):
            return {"feature": feature(kind.value_type), "_type": "List"}
        if pa.types.is_struct(kind):
            fields = {field.name: feature(field.type) for field in kind}
            return {"_type": "Image"} if fields.keys() == {"bytes", "path"} else fields
        return {"dtype": str(kind).replace("double", "float64"), "_type": "Value"}

    return {column.name: feature(column.type) for column in schema_of(table)}


def manifest_faults(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Faults that make a manifest unreadable, one line each; `verify` finds the others."""
    for key, form in (
        ("name", NAME),
        ("version", VERSION),
        ("demur", re.compile(r"[0-9A-Za-z.+!-]{1,40}")),
        ("canary", CANARY),
        ("published", re.compile(DATE)),
    ):
        value = manifest.get(key)
        if not isinstance(value, str) or not form.fullmatch(value):
            yield f"{key} is {str(value)[:60]!r}"
    files = manifest.get("files")
    if not isinstance(files, dict):
        yield "files is no list of files with their sha256"
        return
    for name, sha in files.items():
        if not stays_inside(name):
            yield f"file {name[:80]!r} is not a path inside the release"
        elif not isinstance(sha, str) or not re.fullmatch(r"[0-9a-f]{64}", sha):
            yield f"file {name}: no sha256"
    yield from (
        f"files lacks {name}"
        for name in (*files_of(manifest), "croissant.json")
        if name not in files
    )
    if "manifest.json" in files:
        yield "files names manifest.json itself"
    for key, kind in (("sha256", str), ("counts", dict)):
        if not isinstance(manifest.get(key), kind):
            yield f"{key} is missing"
    for key in (
        "recipe",
        "gate_models",
        "judged",
        "retest",
        "stage_one",
        "pools",
        "models",
        "sources",
        "scenarios",
        "card",
    ):
        if manifest.get(key) is not None and not isinstance(manifest[key], dict):
            yield f"{key} is {type(manifest[key]).__name__}, not an object"
    try:
        facts_of(manifest)
    except ValueError as error:  # pydantic's is one
        yield f"card: {str(error).splitlines()[0]}"
    for key in ("gates", "limits", "authors", "topics"):
        if manifest.get(key) is not None and not isinstance(manifest[key], list):
            yield f"{key} is {type(manifest[key]).__name__}, not a list"
