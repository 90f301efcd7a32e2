"""Reads a release folder. It may come from anybody, so nothing in it is trusted unchecked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from demur.core.errors import DataError, ReleaseError
from demur.core.parquet import bomb
from demur.core.records import AnswerSpec, Drop, Evidence, ImageRef, Sample
from demur.core.store import Problems, digest, read_json, read_records, storage_errors, why_invalid
from demur.core.strict_json import loose_json
from demur.release.evidence import ToldApart
from demur.release.layout import (
    FORMAT,
    LINEAGE,
    SAMPLE_TEXTS,
    TABLES,
    FunnelStep,
    manifest_faults,
    schema_of,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class Picture(NamedTuple):
    """An image in a table, unchecked."""

    owner: str
    """Its sample or document."""
    sha256: str
    """According to the table; "" if the table does not say."""
    width: int | None
    height: int | None
    media_type: str
    path: str | None
    data: bytes | None


def _gate_rounds(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The rounds of ``../convergence.json`` (`demur convergence`) for Fig. 5 of a report, if its sources and
    gates are those of the release, compared by content.
    """
    path = folder.resolve().parent / "convergence.json"
    if not path.is_file():
        return {}
    try:
        convergence = read_json(path)
        gates = {
            g for g, model in manifest["gate_models"].items() if "parametric" in model["stages"]
        }
        if (convergence["name"], convergence["version"], set(convergence["gates"])) != (
            manifest["name"],
            manifest["version"],
            gates,
        ):
            return {}
        sources = {name: source["sha256"] for name, source in manifest["sources"].items()}
        models = {
            g: digest({k: v for k, v in manifest["gate_models"][g].items() if k != "asked"})
            for g in gates
        }
        if (convergence.get("sources", sources), convergence.get("gate_models", models)) != (
            sources,
            models,
        ):
            return {}
        rounds = []
        for gate_round in convergence["rounds"]:
            monitors = {
                m: r for m, r in gate_round["monitors"].items() if r["accuracy"] is not None
            }
            rounds.append(
                {
                    "gates": gate_round["gates"],
                    "size": gate_round["size"],
                    "kept": gate_round.get("kept"),
                    "monitors": monitors,
                }
            )
    except (
        DataError,
        KeyError,
        TypeError,
        AttributeError,
    ):  # not part of the release: ignored if malformed
        return {}
    return {"gate_rounds": rounds}


class Release:
    """A release folder, opened for reading. Images stay encoded: it returns their bytes."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self.name: str = manifest["name"]
        self.version: str = manifest["version"]

    @classmethod
    def open(cls, folder: Path) -> Release:
        """Open a release.

        Raises:
            ReleaseError: the folder is not a finished release, or its manifest is malformed.
        """
        path = folder / "manifest.json"
        if not folder.is_dir():
            fault = "is a file, not a folder" if folder.is_file() else "no such folder"
            raise ReleaseError(fault, item=folder, cure="check the path")
        if not path.is_file():
            inner = folder / "release"
            raise ReleaseError(
                "not a finished release: it has no manifest.json",
                item=folder,
                cure=f"did you mean {inner}?"
                if inner.is_dir()
                else "build it again, or check the path",
            )
        manifest = read_json(path)
        stated_format = manifest.get("format") if isinstance(manifest, dict) else None
        if stated_format is None:
            raise ReleaseError(
                "not the manifest of a release", item=path, cure="name a release folder"
            )
        if stated_format != FORMAT:
            raise ReleaseError(
                f"expected format {FORMAT}, found {str(stated_format)[:60]}",
                item=path,
                cure="use a demur that knows it",
            )
        wrong = list(manifest_faults(manifest))
        if wrong:
            more_text = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise ReleaseError(
                f"malformed: {wrong[0]}{more_text}",
                item=path,
                cure="fetch or build the release again",
            )
        return cls(folder, manifest | _gate_rounds(folder, manifest))

    def __repr__(self) -> str:
        n = self.manifest["counts"].get("samples", 0)
        return f"Release({str(self.folder)!r}: {self.name} {self.version}, {n} samples)"

    @property
    def sha256(self) -> str:
        """Identity of the release: the hash over the hashes of its files."""
        return str(self.manifest["sha256"])

    def _open_table(self, name: str) -> pq.ParquetFile:
        """Open a table, after checking its columns and the size that it unpacks to."""
        import pyarrow.parquet as pq

        path = self._path_of_table(name)
        with _table_errors(path, "not a Parquet file"):
            file = pq.ParquetFile(path)
            packed = path.stat().st_size
        actual = file.schema_arrow
        expected = schema_of(name)
        if not actual.equals(expected, check_metadata=False):
            odd_columns = [
                n
                for n in expected.names
                if n not in actual.names or actual.field(n) != expected.field(n)
            ]
            odd_columns += [n for n in actual.names if n not in expected.names]
            raise ReleaseError(
                f"not the columns of a release: {', '.join(odd_columns)[:200] or 'their order'}",
                item=path,
                cure="fetch the release again",
            )
        if why := bomb(file, packed, rows=True):
            raise ReleaseError(
                why,
                item=path,
                cure="do not trust it: fetch the release from where it was published",
            )
        return file

    def _read_rows(
        self, name: str, columns: Sequence[str] | None = None, batch: int = 256
    ) -> Iterator[dict[str, Any]]:
        file = self._open_table(name)
        with _table_errors(self._path_of_table(name)):
            for rows in file.iter_batches(batch_size=batch, columns=columns):
                yield from rows.to_pylist()

    def _path_of_table(self, table: str) -> Path:
        return self.folder / "data" / f"{table}.parquet"

    @cached_property
    def documents(self) -> dict[str, dict[str, Any]]:
        """Document id -> its columns without image bytes."""
        columns = [name for name in schema_of("evidence").names if name != "image"]
        return {row["id"]: row for row in self._read_rows("evidence", columns)}

    def column(self, table: str, name: str) -> Iterator[str]:
        """A column of text of ``samples`` or ``evidence``, in order: ``id``, ``answer`` (the form for display) ..."""
        return (str(row[name]) for row in self._read_rows(table, [name]))

    def pictures(self) -> Iterator[Picture]:
        """Every image in both tables with its bytes, duplicates included; unchecked."""
        for row in self._read_rows("samples", ["id", "images", "images_meta"], batch=16):
            images, metas = row["images"] or [], row["images_meta"] or []
            for i in range(max(len(images), len(metas))):
                yield _make_picture(row["id"], images[i : i + 1], metas[i : i + 1])
        for row in self._read_rows(
            "evidence", ["id", "image", "sha256", "width", "height", "media_type"], batch=16
        ):
            if row["image"] is not None or row["sha256"] is not None:
                yield _make_picture(row["id"], [row["image"]], [row])

    @cached_property
    def _image_place(self) -> dict[str, tuple[str, int, int]]:
        """SHA-256 -> (table, row, position in the row)."""
        place: dict[str, tuple[str, int, int]] = {}
        for number, row in enumerate(self._read_rows("samples", ["images_meta"])):
            for position, meta in enumerate(row["images_meta"] or []):
                place.setdefault(meta["sha256"], ("samples", number, position))
        for number, row in enumerate(self._read_rows("evidence", ["sha256"])):
            if row["sha256"]:
                place.setdefault(row["sha256"], ("evidence", number, 0))
        return place

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        """Table -> first row of each of its row groups."""
        starts: dict[str, list[int]] = {}
        for name in TABLES:
            meta, at = self._open_table(name).metadata, 0
            starts[name] = []
            for group in range(meta.num_row_groups):
                starts[name].append(at)
                at += meta.row_group(group).num_rows
        return starts

    def read_image(self, ref: ImageRef) -> bytes:
        """Bytes behind an image reference of this release.

        Raises:
            ReleaseError: the release has no such image, or its bytes have another hash.
        """
        sha256 = ref.sha256
        if sha256 not in self._image_place:
            raise ReleaseError(
                "the release has no such image", item=sha256[:16], cure="verify the release"
            )
        table, row, position = self._image_place[sha256]
        group = bisect_right(self._groups[table], row) - 1
        cell = self._images_of_group(table, group)[row - self._groups[table][group]]
        value = (cell[position : position + 1] or [None])[0] if isinstance(cell, list) else cell
        data = value["bytes"] if value else None
        if data is None or digest(bytes(data)) != sha256:
            raise ReleaseError(
                "the bytes of the image are not those it was released with",
                item=sha256[:16],
                cure="fetch the release again",
            )
        return bytes(data)

    def _images_of_group(self, table: str, group: int) -> list[Any]:
        """The images of one row group; caches the last one, as neighbours are read next."""
        if self._cached is None or self._cached[0] != (table, group):
            column = "images" if table == "samples" else "image"
            file = self._open_table(table)
            with _table_errors(self._path_of_table(table)):
                cells = file.read_row_group(group, columns=[column]).column(0).to_pylist()
            self._cached = ((table, group), cells)
        return self._cached[1]

    _cached: tuple[tuple[str, int], list[Any]] | None = None

    def samples(self) -> Iterator[Sample]:
        """All samples with their evidence, in the order of their ids.

        Raises:
            ReleaseError: a row is malformed; names it.
        """
        columns = [n for n in schema_of("samples").names if n != "images"]
        for row in self._read_rows("samples", columns):
            try:
                yield self._make_sample(row)
            except (ValidationError, KeyError, ValueError, TypeError, RecursionError) as error:
                if isinstance(error, KeyError):
                    why = f"its evidence {str(error.args[0])[:80]!r} is in no table"
                else:
                    why = why_invalid(error) if isinstance(error, ValidationError) else str(error)
                raise ReleaseError(
                    f"not a sample: {why}", item=str(row.get("id"))[:80], cure="verify the release"
                ) from error

    def _make_sample(self, row: dict[str, Any]) -> Sample:
        def ref(meta: dict[str, Any]) -> ImageRef:
            sizes = {name: meta[name] for name in ("sha256", "width", "height", "media_type")}
            return ImageRef(uri=f"release:{meta['sha256']}", **sizes)

        def evidence(link: dict[str, Any]) -> Evidence:
            document = self.documents[link["id"]]
            fields = {name: document[name] for name in ("modality", "title", "text", *LINEAGE)}
            return Evidence(image=ref(document) if document["sha256"] else None, **fields, **link)

        return Sample(
            **{name: row[name] for name in (*SAMPLE_TEXTS, "answerable")},
            answers=AnswerSpec.model_validate_json(row["answers"]),
            attributes=loose_json(row["attributes"]),
            images=tuple(ref(m) for m in row["images_meta"]),
            gold=tuple(evidence(e) for e in row["gold"]),
            negatives=tuple(evidence(e) for e in row["negatives"]),
        )

    @cached_property
    def funnel(self) -> list[dict[str, Any]]:
        """Counts per stage, as in `FunnelStep`.

        Raises:
            ReleaseError: the file is malformed.
        """
        return self._read_objects("funnel.json")

    @cached_property
    def steps(self) -> list[FunnelStep]:
        """The funnel, checked.

        Raises:
            ReleaseError: the file is malformed.
        """
        try:
            return [FunnelStep.model_validate(step) for step in self.funnel]
        except ValidationError as error:
            raise ReleaseError(
                f"not what it should be: {why_invalid(error)}",
                item="funnel.json",
                cure="fetch the release again",
            ) from error

    @cached_property
    def told_apart(self) -> list[ToldApart]:
        """How well sets with gold are told from sets without, by no reading, as the manifest states it."""
        return [ToldApart.model_validate(row) for row in self.manifest.get("told_apart") or ()]

    @property
    def findings(self) -> list[str]:
        """What to mend in how its evidence was chosen."""
        return [line for row in self.told_apart for line in row.findings]

    @cached_property
    def recall(self) -> list[dict[str, Any]]:
        """The table of retrieval modes by recall of gold; may be empty.

        Raises:
            ReleaseError: the file is malformed.
        """
        rows = self._read_objects("recall.json")
        for row in rows:
            for key, value in row.items():
                if key.endswith((" low", " high")) and not isinstance(value, int | float | None):
                    raise ReleaseError(
                        f"{key[:80]} is {str(value)[:60]!r}, not a number",
                        item=self.folder / "recall.json",
                        cure="fetch the release again",
                    )
        return rows

    def _read_objects(self, name: str) -> list[dict[str, Any]]:
        rows = read_json(self.folder / name)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ReleaseError(
                "not a list of objects", item=self.folder / name, cure="fetch the release again"
            )
        return rows

    def drops(self) -> Iterator[Drop]:
        """Every dropped sample and distractor, with stage and reason."""
        problems = Problems()
        yield from read_records(self.folder / "drops.jsonl", Drop, problems)
        problems.settle()


@contextmanager
def _table_errors(path: Path, fault: str = "cannot be read") -> Iterator[None]:
    """Turn errors of the disk and of Arrow into errors of the table."""
    import pyarrow as pa

    try:
        with storage_errors(path):
            yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise ReleaseError(
            f"{fault}: {error}", item=path, cure="fetch the release again"
        ) from error


def _make_picture(owner: str, images: Sequence[Any], metas: Sequence[Any]) -> Picture:
    """An image and its metadata in a table; either may be missing."""
    image, meta = (images[0] if images else None) or {}, (metas[0] if metas else None) or {}
    return Picture(
        str(owner),
        meta.get("sha256") or "",
        meta.get("width"),
        meta.get("height"),
        meta.get("media_type") or "",
        image.get("path"),
        image.get("bytes"),
    )
