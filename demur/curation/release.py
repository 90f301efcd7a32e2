"""A release: the frozen folder that people load, cite and verify.

Layout::

    data/samples.parquet    config ``samples``: one row per sample; query images as {bytes, path}; evidence by id
    data/evidence.parquet   config ``evidence``: one row per document that is evidence; image bytes inside
    drops.jsonl             every sample and distractor that left, with stage and reason
    gates.jsonl             of every kept sample, each gate's answer and label without evidence and on its distractors
    funnel.json             how many entered and left each stage, per reason
    recall.json             retrieval modes by recall of gold
    README.md               dataset card, written from the data (`demur.curation.card`)
    croissant.json          Croissant metadata; CITATION.cff
    manifest.json           name, version, recipe, code, models, prompts, seeds, and the SHA-256 of every other file

Bytes are a function of the inputs: no clock, no path of a machine, no order of work enters them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from demur.errors import DataError, DemurError, ReleaseError, UsageError
from demur.records import (
    AnswerSpec,
    Drop,
    Evidence,
    GateVerdict,
    ImageRef,
    Record,
    Sample,
)
from demur.store import (
    Problems,
    digest,
    file_digest,
    read_json,
    read_records,
    storage_errors,
    why_invalid,
    write_atomic,
    write_json,
    write_records,
)

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "demur-release-1"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_LINK = ("role", "origin", "level", "index_id", "mode", "rank", "score")
"""What belongs to a piece of evidence as part of a sample, and not to the document itself."""


class FunnelStep(Record):
    """One stage of the funnel: what entered, what stayed, what left and why."""

    stage: str
    entered: int
    kept: int
    dropped: dict[str, int] = Field(default_factory=dict)


# --- writing -------------------------------------------------------------------------------------


def freeze(
    out: Path,
    *,
    name: str,
    version: str,
    samples: Sequence[Sample],
    read_image: Callable[[ImageRef], bytes],
    drops: Iterable[Drop] = (),
    funnel: Sequence[FunnelStep] = (),
    recall: Sequence[Mapping[str, Any]] = (),
    gates: Iterable[GateVerdict] = (),
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a release folder.

    Args:
        out: the folder; made if it does not exist. A release of another name or version there is refused.
        name: of the benchmark; letters, digits, dots and dashes.
        version: semantic, ``MAJOR.MINOR.PATCH``.
        samples: kept samples with gold and distractors; written in the order of their ids.
        read_image: bytes behind an image reference.
        drops: what left, and why.
        funnel: counts per stage.
        recall: rows of the table of retrieval modes.
        gates: what the gates said of the kept samples.
        about: what the manifest says of recipe, models, prompts, seeds, sources; JSON-safe.

    Returns:
        ``out``.

    Raises:
        UsageError: name or version is malformed, there are no samples, or ``out`` holds another release.
        StorageError: the folder cannot be written.
    """
    from demur import __version__
    from demur.curation.card import card, citation, croissant

    if not _VERSION.fullmatch(version):
        raise UsageError(f"version {version!r} is not semantic", cure="write it as 1.0.0")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(f"release name {name!r}", cure="use letters, digits, dots and dashes")
    if not samples:
        raise UsageError("no sample survived; nothing to release", item=name, cure="see the funnel for why they left")
    manifest_path = out / "manifest.json"
    if manifest_path.exists():
        old = read_json(manifest_path)
        if (old.get("name"), old.get("version")) != (name, version):
            raise UsageError(
                f"holds release {old.get('name')} {old.get('version')} already",
                item=str(out),
                cure="choose another folder",
            )
    ordered = sorted(samples, key=lambda s: s.id)
    # The manifest goes first and comes back last: a folder without one is unfinished, whenever we are killed.
    with storage_errors(out):
        manifest_path.unlink(missing_ok=True)
    documents = _documents(ordered)
    _write_table(out / "data" / "samples.parquet", _samples_table(ordered, read_image), _samples_features())
    _write_table(out / "data" / "evidence.parquet", _evidence_table(documents, read_image), _evidence_features())
    drop_list = sorted(drops, key=lambda d: (d.sample, d.evidence, d.stage))
    write_records(out / "drops.jsonl", drop_list)
    said: list[GateVerdict] = sorted(gates, key=lambda v: (v.sample, v.stage, v.evidence))
    write_records(out / "gates.jsonl", said)
    write_json(out / "funnel.json", [step.model_dump(mode="json") for step in funnel])
    write_json(out / "recall.json", [dict(row) for row in recall])
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "name": name,
        "version": version,
        "demur": __version__,
        "counts": counts(ordered, documents),
        **(about or {}),
    }
    write_atomic(out / "README.md", card(manifest, ordered, documents, funnel, drop_list, recall))
    write_atomic(out / "CITATION.cff", citation(manifest))
    files = {n: file_digest(out / n) for n in _data_files(out)}
    write_json(out / "croissant.json", croissant(manifest, files))
    files["croissant.json"] = file_digest(out / "croissant.json")
    write_json(manifest_path, manifest | {"files": files, "sha256": digest(files)})
    return out


def _data_files(out: Path) -> list[str]:
    return [
        "data/samples.parquet",
        "data/evidence.parquet",
        "drops.jsonl",
        "gates.jsonl",
        "funnel.json",
        "recall.json",
        "README.md",
        "CITATION.cff",
    ]


def _documents(samples: Sequence[Sample]) -> dict[str, Evidence]:
    """Every document that is evidence somewhere, once; by id, in the order of ids."""
    found: dict[str, Evidence] = {}
    for sample in samples:
        for e in (*sample.gold, *sample.negatives):
            other = found.setdefault(e.id, e)
            if (other.title, other.text, other.image and other.image.sha256) != (
                e.title, e.text, e.image and e.image.sha256,
            ):  # fmt: skip
                raise ReleaseError("two documents share the id", item=e.id, cure="give documents distinct ids")
    return dict(sorted(found.items()))


def counts(samples: Sequence[Sample], documents: Mapping[str, Evidence]) -> dict[str, Any]:
    """The counts that card and manifest state; `verify` derives them again from the tables."""
    n = len(samples)
    return {
        "samples": n,
        "documents": len(documents),
        "unique_questions": len({s.question for s in samples}),
        "unique_query_images": len({i.sha256 for s in samples for i in s.images}),
        "gold": sum(len(s.gold) for s in samples),
        "distractors": sum(len(s.negatives) for s in samples),
        "question_words": sum(len(s.question.split()) for s in samples),
        "by_source": _tally(s.source for s in samples),
        "by_topic": _tally(s.topic for s in samples),
    }


def _tally(values: Iterable[str]) -> dict[str, int]:
    out: dict[str, int] = {}
    for value in values:
        out[value] = out.get(value, 0) + 1
    return dict(sorted(out.items()))


def _image_column(ref: ImageRef | None, read_image: Callable[[ImageRef], bytes]) -> dict[str, Any] | None:
    if ref is None:
        return None
    suffix = ref.media_type.partition("/")[2].replace("jpeg", "jpg")
    return {"bytes": read_image(ref), "path": f"{ref.sha256}.{suffix}"}


def _size_columns(refs: Sequence[ImageRef]) -> list[dict[str, Any]]:
    return [{"sha256": r.sha256, "width": r.width, "height": r.height, "media_type": r.media_type} for r in refs]


def _samples_schema() -> pa.Schema:
    import pyarrow as pa

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    meta = pa.struct(
        [("sha256", pa.string()), ("width", pa.int32()), ("height", pa.int32()), ("media_type", pa.string())]
    )
    link = pa.struct(
        [("id", pa.string()), ("role", pa.string()), ("origin", pa.string()), ("level", pa.string()),
         ("index_id", pa.string()), ("mode", pa.string()), ("rank", pa.int32()), ("score", pa.float64())]
    )  # fmt: skip
    text = [
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
        "source_ref",
    ]
    return pa.schema(
        [(name, pa.string()) for name in text]
        + [
            ("answerable", pa.bool_()),
            ("images", pa.list_(image)),
            ("images_meta", pa.list_(meta)),
            ("gold", pa.list_(link)),
            ("negatives", pa.list_(link)),
        ]
    )


def _samples_table(samples: Sequence[Sample], read_image: Callable[[ImageRef], bytes]) -> Iterator[dict[str, Any]]:
    from demur.store import canonical

    for s in samples:
        yield {
            "id": s.id,
            "source": s.source,
            "split": s.split,
            "topic": s.topic,
            "cluster": s.cluster,
            "question": s.question,
            "answer": s.answers.shown,
            "answers": canonical(s.answers),
            "attributes": canonical(s.attributes),
            "licence": s.licence,
            "source_ref": s.source_ref,
            "answerable": s.answerable,
            "images": [_image_column(i, read_image) for i in s.images],
            "images_meta": _size_columns(s.images),
            "gold": [{"id": e.id, **{k: getattr(e, k) for k in _LINK}} for e in s.gold],
            "negatives": [{"id": e.id, **{k: getattr(e, k) for k in _LINK}} for e in s.negatives],
        }


def _evidence_schema() -> pa.Schema:
    import pyarrow as pa

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.schema(
        [("id", pa.string()), ("modality", pa.string()), ("title", pa.string()), ("text", pa.string()),
         ("image", image), ("sha256", pa.string()), ("width", pa.int32()), ("height", pa.int32()),
         ("media_type", pa.string())]
    )  # fmt: skip


def _evidence_table(
    documents: Mapping[str, Evidence], read_image: Callable[[ImageRef], bytes]
) -> Iterator[dict[str, Any]]:
    for e in documents.values():
        size = _size_columns([e.image])[0] if e.image else {}
        yield {
            "id": e.id,
            "modality": e.modality.value,
            "title": e.title,
            "text": e.text,
            "image": _image_column(e.image, read_image),
            **size,
        }


def _samples_features() -> dict[str, Any]:
    def string(kind: str) -> dict[str, str]:
        return {"dtype": kind, "_type": "Value"}

    link = {k: string("string") for k in ("id", *_LINK)} | {"rank": string("int32"), "score": string("float64")}
    meta = {
        "sha256": string("string"),
        "width": string("int32"),
        "height": string("int32"),
        "media_type": string("string"),
    }
    columns: dict[str, Any] = {name: string("string") for name in _samples_schema().names}
    columns |= {
        "answerable": string("bool"),
        "images": {"feature": {"_type": "Image"}, "_type": "List"},
        "images_meta": {"feature": meta, "_type": "List"},
        "gold": {"feature": link, "_type": "List"},
        "negatives": {"feature": link, "_type": "List"},
    }
    return columns


def _evidence_features() -> dict[str, Any]:
    columns: dict[str, Any] = {n: {"dtype": "string", "_type": "Value"} for n in _evidence_schema().names}
    for n in ("width", "height"):
        columns[n] = {"dtype": "int32", "_type": "Value"}
    return columns | {"image": {"_type": "Image"}}


def _write_table(path: Path, rows: Iterable[dict[str, Any]], features: dict[str, Any]) -> None:
    """Write Parquet in row groups of bounded size, with the features that `datasets` reads."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from demur.store import canonical

    schema = _samples_schema() if "question" in features else _evidence_schema()
    schema = schema.with_metadata({"huggingface": canonical({"info": {"features": features}})})
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        with pq.ParquetWriter(temporary, schema, compression="zstd", store_schema=True) as writer:
            batch: list[dict[str, Any]] = []
            for row in rows:
                batch.append(row)
                if len(batch) == 256:
                    writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                    batch = []
            if batch:
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
        temporary.replace(path)


# --- reading -------------------------------------------------------------------------------------


def _rounds(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The rounds of ``../convergence.json`` (`demur convergence`), when it is of these gates: Fig. 5 of a report."""
    path = folder.resolve().parent / "convergence.json"
    if not path.is_file():
        return {}
    found = read_json(path)
    if not isinstance(found, dict) or (found.get("name"), found.get("version")) != (
        manifest["name"],
        manifest["version"],
    ):
        return {}
    rounds = []
    for one in found["rounds"]:
        monitors = {m: r for m, r in one["monitors"].items() if r["accuracy"] is not None}
        rounds.append({"gates": one["gates"], "size": one["size"], "monitors": monitors})
    return {"gate_rounds": rounds}


class Release:
    """A release folder, opened for reading. Images are decoded by nobody here: bytes in, bytes out."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self.name: str = manifest["name"]
        self.version: str = manifest["version"]

    @classmethod
    def open(cls, folder: Path) -> Release:
        """Open a release.

        Raises:
            ReleaseError: the folder is not a release, or an unfinished one.
        """
        path = folder / "manifest.json"
        if not folder.is_dir():
            raise ReleaseError("no such folder", item=str(folder), cure="check the path")
        if not path.exists():
            raise ReleaseError(
                "not a finished release: it has no manifest.json",
                item=str(folder),
                cure="build it again, or check the path",
            )
        manifest = read_json(path)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
            raise ReleaseError(
                f"expected format {FORMAT}, found {found}", item=str(path), cure="use a demur that knows it"
            )
        return cls(folder, manifest | _rounds(folder, manifest))

    @property
    def sha256(self) -> str:
        """Identity of the release: the hash over the hashes of its files."""
        return str(self.manifest["sha256"])

    def _table(self, name: str) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / "data" / f"{name}.parquet"
        try:
            with storage_errors(path):
                return pq.ParquetFile(path)
        except pa.ArrowInvalid as error:
            raise ReleaseError(
                f"not a Parquet file: {error}", item=str(path), cure="fetch the release again"
            ) from error

    def _rows(self, name: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        for batch in self._table(name).iter_batches(batch_size=256, columns=columns):
            yield from batch.to_pylist()

    @cached_property
    def documents(self) -> dict[str, dict[str, Any]]:
        """Document id -> its columns without image bytes."""
        columns = ["id", "modality", "title", "text", "sha256", "width", "height", "media_type"]
        return {row["id"]: row for row in self._rows("evidence", columns)}

    @cached_property
    def _image_place(self) -> dict[str, tuple[str, int, int]]:
        """SHA-256 -> (table, row, position in the row)."""
        place: dict[str, tuple[str, int, int]] = {}
        for number, row in enumerate(self._rows("samples", ["images_meta"])):
            for position, meta in enumerate(row["images_meta"]):
                place.setdefault(meta["sha256"], ("samples", number, position))
        for number, row in enumerate(self._rows("evidence", ["sha256"])):
            if row["sha256"]:
                place.setdefault(row["sha256"], ("evidence", number, 0))
        return place

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        """Table -> first row of each of its row groups."""
        starts: dict[str, list[int]] = {}
        for name in ("samples", "evidence"):
            meta, at = self._table(name).metadata, 0
            starts[name] = []
            for group in range(meta.num_row_groups):
                starts[name].append(at)
                at += meta.row_group(group).num_rows
        return starts

    def image(self, sha256: str) -> bytes:
        """Bytes of an image of the release.

        Raises:
            ReleaseError: the release has no such image, or its bytes do not hash to that.
        """
        from bisect import bisect_right

        if sha256 not in self._image_place:
            raise ReleaseError("the release has no such image", item=sha256[:16], cure="verify the release")
        table, row, position = self._image_place[sha256]
        group = bisect_right(self._groups[table], row) - 1
        key = (table, group)
        if self._cached is None or self._cached[0] != key:
            column = "images" if table == "samples" else "image"
            self._cached = (key, self._table(table).read_row_group(group, columns=[column]).column(0).to_pylist())
        value = self._cached[1][row - self._groups[table][group]]
        data = bytes((value[position] if table == "samples" else value)["bytes"])
        if digest(data) != sha256:
            raise ReleaseError("the bytes of the image are not those it was released with", item=sha256[:16],
                               cure="fetch the release again")  # fmt: skip
        return data

    _cached: tuple[tuple[str, int], list[Any]] | None = None

    def read_image(self, ref: ImageRef) -> bytes:
        """Bytes behind an image reference of this release."""
        return self.image(ref.sha256)

    def samples(self) -> Iterator[Sample]:
        """All samples with their evidence, in the order of their ids.

        Raises:
            ReleaseError: a row is not a sample; names it.
        """
        columns = [n for n in _samples_schema().names if n != "images"]
        for row in self._rows("samples", columns):
            try:
                yield self._sample(row)
            except (ValidationError, KeyError, ValueError) as error:
                why = why_invalid(error) if isinstance(error, ValidationError) else str(error)
                raise ReleaseError(
                    f"not a sample: {why}", item=str(row.get("id")), cure="verify the release"
                ) from error

    def _sample(self, row: dict[str, Any]) -> Sample:
        import json

        def ref(meta: dict[str, Any]) -> ImageRef:
            return ImageRef(
                sha256=meta["sha256"],
                uri=f"release:{meta['sha256']}",
                width=meta["width"],
                height=meta["height"],
                media_type=meta["media_type"],
            )

        def evidence(link: dict[str, Any]) -> Evidence:
            document = self.documents[link["id"]]
            return Evidence(
                modality=document["modality"],
                title=document["title"],
                text=document["text"],
                image=ref(document) if document["sha256"] else None,
                **link,
            )

        return Sample(
            **{k: row[k] for k in ("id", "source", "split", "topic", "cluster", "question", "licence", "source_ref")},
            answerable=row["answerable"],
            answers=AnswerSpec.model_validate_json(row["answers"]),
            attributes=json.loads(row["attributes"]),
            images=tuple(ref(m) for m in row["images_meta"]),
            gold=tuple(evidence(e) for e in row["gold"]),
            negatives=tuple(evidence(e) for e in row["negatives"]),
        )  # fmt: skip

    @cached_property
    def funnel(self) -> list[dict[str, Any]]:
        """Counts per stage, as in `FunnelStep`."""
        return list(read_json(self.folder / "funnel.json"))

    @cached_property
    def recall(self) -> list[dict[str, Any]]:
        """The table of retrieval modes by recall of gold; empty when none was made."""
        path = self.folder / "recall.json"
        return list(read_json(path)) if path.exists() else []

    def drops(self) -> Iterator[Drop]:
        """Everything that left, with stage and reason."""
        problems = Problems()
        yield from read_records(self.folder / "drops.jsonl", Drop, problems)
        problems.settle()


# --- verifying -----------------------------------------------------------------------------------


def verify(release: Release, *, holds: Callable[[AnswerSpec, str], bool]) -> list[str]:
    """Everything that is wrong with a release, one line each; empty when it is sound.

    Checks hashes of all files, unreadable or foreign files, ids, evidence that no table holds, images that do
    not decode or do not hash to their name, gold among the distractors (by id and by content, or nearly), a query
    image among the evidence, answers that stand in the question, fewer distractors than the recipe's K_min, a gate
    that was right where none may be, a funnel that does not add up, and that every count of manifest, card, citation
    and Croissant follows from the tables.

    Args:
        release: an opened release.
        holds: whether a text holds an answer (`demur.answers.holds`).
    """
    found: list[str] = []
    listed = release.manifest.get("files", {})
    for name, expected in sorted(listed.items()):
        path = release.folder / name
        if not path.is_file():
            found.append(f"{name}: missing")
        elif (actual := file_digest(path)) != expected:
            found.append(f"{name}: changed - expected sha256 {expected[:12]}, found {actual[:12]}")
    if digest(listed) != release.manifest.get("sha256"):
        found.append("manifest.json: its sha256 is not that of its list of files")
    present = {str(p.relative_to(release.folder)) for p in release.folder.rglob("*") if p.is_file()}
    found += [f"{n}: not part of the release" for n in sorted(present - set(listed) - {"manifest.json"})]
    if any(line.startswith("data/") or line.endswith(": missing") for line in found):
        return found  # not the released files: nothing that they say can be checked further
    try:
        samples = list(release.samples())
    except ReleaseError as error:
        return [*found, str(error)]
    found += [f"{i}: the id appears twice" for i in _repeated(s.id for s in samples)]
    k_min = release.manifest.get("recipe", {}).get("rules", {}).get("k_min", 0)
    for sample in samples:
        found += [f"{sample.id}: {line}" for line in _leaks(sample, holds)]
        if sample.answerable and not sample.gold:
            found.append(f"{sample.id}: has no gold evidence")
        if len(sample.negatives) < k_min:
            found.append(f"{sample.id}: {len(sample.negatives)} distractors, fewer than K_min={k_min}")
    found += _bad_images(release)
    for check in (_near_gold, _funnel_faults, _gate_faults):
        found += _lines(check(release, samples))
    used = {e.id for s in samples for e in (*s.gold, *s.negatives)}
    found += [f"{i}: a document that no sample uses" for i in sorted(set(release.documents) - used)]
    derived = counts(samples, _documents(samples))
    stated = release.manifest.get("counts")
    if derived != stated:
        wrong = sorted(k for k in derived if not isinstance(stated, dict) or stated.get(k) != derived[k])
        found.append(f"manifest.json: counts do not follow from the tables: {', '.join(wrong)}")
    return found + _lines(_card_faults(release, samples))


def _lines(faults: Iterator[str]) -> list[str]:
    """All faults; where a file cannot even be read as what it should be, that is the last of them."""
    found: list[str] = []
    try:
        found.extend(faults)
    except ValidationError as error:
        found.append(f"not what it should be: {why_invalid(error)}")
    except (DemurError, KeyError, TypeError, ValueError, AttributeError) as error:
        found.append(f"cannot be checked: {type(error).__name__}: {error}")
    return found


def _near_gold(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """Distractors that say nearly the same as gold evidence, or show the same picture."""
    from demur.curation.near import Look, look, same_look, same_text

    looks: dict[str, Look | None] = {}

    def look_of(sha256: str) -> Look | None:
        if sha256 not in looks:
            try:
                looks[sha256] = look(release.image(sha256))
            except DataError:  # told already by `_bad_images`
                looks[sha256] = None
        return looks[sha256]

    for sample in samples:
        for e in sample.negatives:
            for gold in sample.gold:
                if e.text and gold.text:
                    near = same_text(e.text, gold.text)
                elif e.text is None and gold.text is None and e.image and gold.image:
                    one, other = look_of(e.image.sha256), look_of(gold.image.sha256)
                    near = one is not None and other is not None and same_look(one, other)
                else:
                    near = False
                if near:
                    yield f"{sample.id}: distractor {e.id} is a near-duplicate of gold {gold.id}"


def _funnel_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """The funnel adds up, ends at the samples, and its reasons are those of drops.jsonl."""
    steps = [FunnelStep.model_validate(s) for s in release.funnel]
    for step in steps:
        if step.entered - sum(step.dropped.values()) != step.kept:
            yield f"funnel.json: stage {step.stage!r} does not add up"
    for one, other in pairwise(steps):
        if one.kept != other.entered:
            yield f"funnel.json: {one.stage!r} kept {one.kept}, but {other.stage!r} begins with {other.entered}"
    if steps and steps[-1].kept != len(samples):
        yield f"funnel.json: ends with {steps[-1].kept} samples, the tables hold {len(samples)}"
    drops = list(release.drops())
    kept = {s.id: {e.id for e in (*s.gold, *s.negatives)} for s in samples}
    yield from (f"drops.jsonl: {d.sample} is dropped and kept" for d in drops if not d.evidence and d.sample in kept)
    for d in drops:
        if d.evidence and d.stage == "distractor" and d.evidence in kept.get(d.sample, ()):
            yield f"drops.jsonl: distractor {d.evidence} of {d.sample} is dropped and kept"
    if steps:
        said = _tally(why for step in steps[1:] for why, n in step.dropped.items() for _ in range(n))
        if said != _tally(d.reason for d in drops if not d.evidence):
            yield "funnel.json: its reasons are not those of drops.jsonl"


def _gate_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """gates.jsonl covers every kept sample and distractor, and no gate is right where it must not be."""
    path = release.folder / "gates.jsonl"
    gates = release.manifest.get("gates")
    if not gates or not path.exists():
        return
    problems = Problems()
    said = {(v.sample, v.stage, v.evidence): v for v in read_records(path, GateVerdict, problems)}
    yield from (f"gates.jsonl: {line}" for line in problems.lines)
    for v in said.values():
        if "correct" in v.labels.values():
            yield f"gates.jsonl: a gate is right about {v.sample} ({v.stage} {v.evidence}".rstrip() + ")"
    for s in samples:
        if (s.id, "parametric", "") not in said:
            yield f"gates.jsonl: {s.id} was not asked without evidence"
        for e in s.negatives:
            if (s.id, "distractor", e.id) not in said:
                yield f"gates.jsonl: distractor {e.id} of {s.id} was not checked"


def _card_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """Card, citation and Croissant say what manifest and tables say: they are written again and compared.

    Another version of demur may word them differently; then they are not compared.
    """
    from demur import __version__
    from demur.curation.card import card, citation, croissant

    manifest = {k: v for k, v in release.manifest.items() if k not in ("files", "sha256", "gate_rounds")}
    if manifest.get("demur") != __version__:
        return
    steps = [FunnelStep.model_validate(s) for s in release.funnel]
    try:
        again = {
            "README.md": card(manifest, samples, _documents(samples), steps, list(release.drops()), release.recall),
            "CITATION.cff": citation(manifest),
        }
        files = {k: v for k, v in release.manifest["files"].items() if k != "croissant.json"}
        if read_json(release.folder / "croissant.json") != croissant(manifest, files):
            yield "croissant.json: does not follow from manifest and files"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield f"manifest.json: lacks what the card says: {error}"
        return
    for name, text in again.items():
        if (release.folder / name).read_text(encoding="utf-8") != text:
            yield f"{name}: does not follow from the manifest and the tables"


def _leaks(sample: Sample, holds: Callable[[AnswerSpec, str], bool]) -> Iterator[str]:
    if not sample.answers.choices and holds(sample.answers, sample.question):
        yield "the answer stands in the question"

    def content(e: Evidence) -> str:
        return e.image.sha256 if e.image and e.text is None else " ".join((e.text or "").lower().split())

    gold = {content(e): e.id for e in sample.gold}
    for e in sample.negatives:
        if content(e) in gold:
            yield f"distractor {e.id} has the content of gold {gold[content(e)]}"
    queries = {i.sha256 for i in sample.images}
    for e in (*sample.gold, *sample.negatives):
        if e.image and e.image.sha256 in queries:
            yield f"evidence {e.id} is the query image itself"


def _bad_images(release: Release) -> Iterator[str]:
    from PIL import Image

    for sha in sorted(release._image_place, key=lambda s: release._image_place[s]):
        try:
            with Image.open(io.BytesIO(release.image(sha))) as picture:
                picture.load()
        except (OSError, SyntaxError, ValueError, ReleaseError, Image.DecompressionBombError) as error:
            yield f"image {sha[:16]}: {error}"


def _repeated(values: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    twice: set[str] = set()
    for value in values:
        (twice if value in seen else seen).add(value)
    return sorted(twice)
