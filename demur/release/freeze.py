"""Writes a release folder; its bytes are a function of the input alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from demur.core.clock import today
from demur.core.errors import UsageError
from demur.core.parquet import table_writer
from demur.core.records import Drop, Evidence, GateVerdict, ImageRef, Sample
from demur.core.store import (
    canonical,
    digest,
    file_digest,
    read_json,
    storage_errors,
    write_atomic,
    write_json,
    write_records,
)
from demur.release.facts import facts_of
from demur.release.layout import (
    FORMAT,
    LINEAGE,
    LINK,
    NAME,
    SAMPLE_TEXTS,
    VERSION,
    FunnelStep,
    canary_text,
    count_all,
    documents_of,
    features_of,
    files_of,
    image_name,
    schema_of,
    size_columns,
)
from demur.release.tasks import EVAL, ScenarioRow, eval_yaml, table_of

ROWS = 256
"""Most rows of a table's row group."""
WEIGHT = 64 << 20
"""Bytes of images after which a row group ends; a reader needs only a few times that."""


def check_target(out: Path, name: str, version: str) -> None:
    """Check that a folder can receive a release of this name and version, before any work for it.

    Raises:
        UsageError: name or version is malformed, or the folder holds another release.
    """
    if not VERSION.fullmatch(version):
        raise UsageError(f"version {version!r} is not semantic", cure="write it as 1.0.0")
    if not NAME.fullmatch(name):
        raise UsageError(
            f"malformed release name {name!r}",
            cure="use up to 96 letters, digits, dots, dashes and underscores",
        )
    if (out / "manifest.json").exists():
        old = read_json(out / "manifest.json")
        if (old.get("name"), old.get("version")) != (name, version):
            raise UsageError(
                f"holds release {old.get('name')} {old.get('version')} already",
                item=out,
                cure="choose another folder",
            )


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a release folder is written from.

    Attributes:
        name: of the benchmark; up to 96 letters, digits, dots, dashes and underscores.
        version: semantic, ``MAJOR.MINOR.PATCH``.
        samples: kept samples with gold and distractors; written in the order of their ids.
        recall: rows of the table of retrieval modes.
        gates: the gates' verdicts on the kept samples.
        scenarios: scenario -> its questions of text alone, for the Hub's leaderboard (`demur.release.tasks`).
        about: manifest entries on recipe, models, prompts, seeds, sources; JSON-safe.
    """

    name: str
    version: str
    samples: Sequence[Sample]
    read_image: Callable[[ImageRef], bytes]
    drops: Iterable[Drop] = ()
    funnel: Sequence[FunnelStep] = ()
    recall: Sequence[Mapping[str, Any]] = ()
    gates: Iterable[GateVerdict] = ()
    scenarios: Mapping[str, Sequence[ScenarioRow]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


def freeze(out: Path, draft: Draft) -> Path:
    """Write a release folder, which may hold the same name and version, but no other release.

    Returns:
        ``out``.

    Raises:
        UsageError: name or version is malformed, there are no samples, or ``out`` holds another release.
        StorageError: the folder cannot be written.
    """
    from demur.core.version import __version__
    from demur.release.card import render_card, render_citation
    from demur.release.croissant import croissant_metadata

    check_target(out, draft.name, draft.version)
    if not draft.samples:
        raise UsageError(
            "no sample survived; nothing to release",
            item=draft.name,
            cure="see the funnel for why they left",
        )
    manifest_path = out / "manifest.json"
    ordered = sorted(draft.samples, key=lambda s: s.id)
    documents = documents_of(ordered)
    facts = facts_of(draft.about)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "name": draft.name,
        "version": draft.version,
        "demur": __version__,
        "published": _day_of_publication(manifest_path),
        "canary": facts.canary or _new_canary(draft),
        "counts": count_all(ordered, documents),
        **draft.about,
    }
    # The manifest is removed first and written last: a folder without one is unfinished, should we be killed.
    with storage_errors(out):
        manifest_path.unlink(missing_ok=True)
        for left_over in (*(out / "data").glob(table_of("*").removeprefix("data/")), out / EVAL):
            left_over.unlink(missing_ok=True)  # these are not in every release
    canary = canary_text(manifest)
    for table, rows in (
        ("samples", _sample_rows(ordered, draft.read_image)),
        ("evidence", _evidence_rows(documents, draft.read_image)),
    ):
        _write_table(out / "data" / f"{table}.parquet", (row | {"canary": canary} for row in rows))
    for scenario, questions in draft.scenarios.items():
        _write_table(
            out / table_of(scenario), (row._asdict() | {"canary": canary} for row in questions)
        )
    manifest["scenarios"] = {name: len(rows) for name, rows in sorted(draft.scenarios.items())}
    if draft.scenarios:
        write_atomic(out / EVAL, eval_yaml(manifest, manifest["scenarios"]))
    drops = sorted(draft.drops, key=lambda d: (d.sample, d.evidence, d.stage))
    write_records(out / "drops.jsonl", drops)
    gates = sorted(draft.gates, key=lambda v: (v.sample, v.stage, v.evidence))
    write_records(out / "gates.jsonl", gates)
    write_json(out / "funnel.json", [step.model_dump(mode="json") for step in draft.funnel])
    write_json(out / "recall.json", [dict(row) for row in draft.recall])
    write_atomic(
        out / "README.md",
        render_card(out, manifest, ordered, documents, draft.funnel, drops, draft.recall),
    )
    write_atomic(out / "CITATION.cff", render_citation(manifest))
    files = {n: file_digest(out / n) for n in files_of(manifest)}
    write_json(out / "croissant.json", croissant_metadata(manifest, files))
    files["croissant.json"] = file_digest(out / "croissant.json")
    write_json(manifest_path, manifest | {"files": files, "sha256": digest(files)})
    return out


def _day_of_publication(manifest_path: Path) -> str:
    """The day that the folder's release states already, so that to freeze it again changes nothing; else today."""
    if manifest_path.exists():
        return str(read_json(manifest_path).get("published") or today())
    return today()


def _new_canary(draft: Draft) -> str:
    """A GUID of the benchmark, from its name and the content of its sources: rebuilds have the same."""
    sources = {
        name: source.get("sha256", "")
        for name, source in (draft.about.get("sources") or {}).items()
    }
    content = sources or sorted(sample.id for sample in draft.samples)
    return str(uuid5(CANARIES, canonical([draft.name, content])))


CANARIES = UUID("5f0f5a3e-7f0b-4f0e-9f43-3d9e6f6c1a52")
"""Namespace of canaries."""


def _image_column(
    ref: ImageRef | None, read_image: Callable[[ImageRef], bytes]
) -> dict[str, Any] | None:
    return None if ref is None else {"bytes": read_image(ref), "path": image_name(ref)}


def _sample_rows(
    samples: Sequence[Sample], read_image: Callable[[ImageRef], bytes]
) -> Iterator[dict[str, Any]]:
    def links(evidence: Sequence[Evidence]) -> list[dict[str, Any]]:
        return [{name: getattr(e, name) for name in ("id", *LINK)} for e in evidence]

    for s in samples:
        yield {name: getattr(s, name) for name in (*SAMPLE_TEXTS, "answerable")} | {
            "answer": s.answers.display_form,
            "answers": canonical(s.answers),
            "attributes": canonical(s.attributes),
            "images": [_image_column(i, read_image) for i in s.images],
            "images_meta": size_columns(s.images),
            "gold": links(s.gold),
            "negatives": links(s.negatives),
        }


def _evidence_rows(
    documents: Mapping[str, Evidence], read_image: Callable[[ImageRef], bytes]
) -> Iterator[dict[str, Any]]:
    for e in documents.values():
        texts = {name: getattr(e, name) for name in ("id", *LINEAGE, "title", "text")}
        sizes = size_columns([e.image])[0] if e.image else {}
        yield (
            texts
            | {"modality": e.modality.value, "image": _image_column(e.image, read_image)}
            | sizes
        )


def _image_bytes(row: Mapping[str, Any]) -> int:
    return sum(len(image["bytes"]) for image in (*row.get("images", ()), row.get("image")) if image)


def _write_table(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a table with the features that `datasets` reads."""
    features = {"info": {"features": features_of(path.stem)}}
    schema = schema_of(path.stem).with_metadata({"huggingface": canonical(features)})
    with table_writer(path, schema, group=ROWS, heaviest=WEIGHT) as add:
        for row in rows:
            add(row, _image_bytes(row))
