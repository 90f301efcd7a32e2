"""Finds everything that is wrong with a release, be it by mistake, a broken disk, or malice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from demur.answers import holds
from demur.core.errors import DataError, DemurError, ReleaseError
from demur.core.images import image_ref
from demur.core.records import Evidence, GateVerdict, Modality, Outcome, Sample
from demur.core.store import Problems, digest, file_digest, read_json, read_records, why_invalid
from demur.corpora.lineage import page_of
from demur.release.layout import (
    CARRIERS,
    TABLES,
    canary_text,
    count_all,
    documents_of,
    evidence_licences,
    image_name,
    tally,
)
from demur.release.release import Picture, Release
from demur.release.tasks import EVAL, eval_yaml

if TYPE_CHECKING:
    from demur.corpora.near_duplicates import ImageHash


def verify(release: Release) -> list[str]:
    """Everything that is wrong with a release, one line each; empty if it is sound.

    It checks the hashes of all files; unreadable and foreign files; ids; evidence missing from the tables; images that
    do not decode, or have another hash or size; gold among the distractors (by id, by content, or nearly); a query
    image among the evidence (also re-encoded or resized); answers in the question; fewer distractors than the recipe's
    K_min; rows without the canary; a correct gate where none may be; a funnel that does not add up; counts and licences
    in the manifest that do not follow from the tables; and a card, citation or Croissant that does not follow from
    manifest and tables.
    """
    faults = list(_file_faults(release))
    if any(line.startswith("data/") or line.endswith(": missing") for line in faults):
        return faults  # the files are not those released: there is nothing more to check
    try:
        samples = list(release.samples())
        documents = documents_of(samples)
    except DemurError as error:
        return [*faults, str(error)]
    image_hashes: dict[str, ImageHash | None] = {}
    for check in (_id_faults, _sample_faults):
        faults += _fault_lines(check(release, samples), "data")
    faults += _fault_lines(_image_faults(release, image_hashes), "data")
    faults += _fault_lines(_leak_faults(samples, image_hashes, _same_image(release)), "data")
    faults += _fault_lines(_funnel_faults(release, samples), "funnel.json")
    faults += _fault_lines(_gate_faults(release, samples), "gates.jsonl")
    derived = count_all(samples, documents)
    stated = release.manifest["counts"]
    if derived != stated:
        wrong = sorted(k for k in {*derived, *stated} if stated.get(k) != derived.get(k))
        faults.append(f"manifest.json: counts do not follow from the tables: {', '.join(wrong)}")
    faults += _fault_lines(_manifest_faults(release, samples, derived), "manifest.json")
    return faults + _fault_lines(_card_faults(release, samples), "README.md")


def open_sound(folder: Path) -> Release:
    """Open a release that was frozen just now.

    Raises:
        ReleaseError: it does not verify (a defect of demur).
    """
    release = Release.open(folder)
    if wrong := verify(release):
        raise ReleaseError(
            f"the frozen release does not verify: {'; '.join(wrong[:5])}",
            item=folder,
            cure="report this",
        )
    return release


def _fault_lines(faults: Iterator[str], file_name: str) -> list[str]:
    """All faults; the last one may be that a file cannot be read."""
    lines: list[str] = []
    try:
        lines.extend(faults)
    except ValidationError as error:
        lines.append(f"{file_name}: not what it should be: {why_invalid(error)}")
    except DemurError as error:
        lines.append(str(error))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        lines.append(f"{file_name}: cannot be checked: {type(error).__name__}: {error}")
    return lines


# --- files ---------------------------------------------------------------------------------------


def _file_faults(release: Release) -> Iterator[str]:
    """Files that are missing, changed, or foreign."""
    listed: dict[str, str] = release.manifest["files"]
    for name, expected in sorted(listed.items()):
        path = release.folder / name
        if not path.is_file():
            yield f"{name}: missing"
        elif (actual := file_digest(path)) != expected:
            yield f"{name}: changed - expected sha256 {expected[:12]}, found {actual[:12]}"
    if digest(listed) != release.sha256:
        yield "manifest.json: its sha256 is not that of its list of files"
    for path in sorted(release.folder.rglob("*")):
        name = path.relative_to(release.folder).as_posix()
        if name in listed or name == "manifest.json" or name.partition("/")[0] in CARRIERS:
            continue
        if path.is_symlink() or not path.is_dir():
            yield f"{name}: not part of the release"


# --- samples and their evidence ------------------------------------------------------------------


def _id_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """Ids are unique and sorted; every document is used."""
    for table in ("samples", "evidence"):
        ids = list(release.column(table, "id"))
        yield from (f"data/{table}.parquet: the id {i} appears twice" for i in _find_repeated(ids))
        if ids != sorted(ids):
            yield f"data/{table}.parquet: its rows are not in the order of their ids"
    used = {e.id for s in samples for e in (*s.gold, *s.negatives)}
    yield from (
        f"{i}: a document that no sample uses" for i in sorted(set(release.documents) - used)
    )


def _sample_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """Each sample has gold, enough distractors, and the right answer column."""
    k_min = ((release.manifest.get("recipe") or {}).get("rules") or {}).get("k_min", 0)
    scenarios = [f"scenario-{name}" for name in release.manifest.get("scenarios") or ()]
    known_ids = {sample.id for sample in samples}
    for table in scenarios:
        foreign = set(release.column(table, "sample")) - known_ids
        yield from (f"data/{table}.parquet: {i} is no sample" for i in sorted(foreign))
    for table in (*TABLES, *scenarios):
        lacking = sum(
            text != canary_text(release.manifest) for text in release.column(table, "canary")
        )
        if lacking:
            yield f"data/{table}.parquet: {lacking} rows do not carry the canary of the manifest"
    for s in samples:
        if s.answerable and not s.gold:
            yield f"{s.id}: has no gold evidence"
        if len(s.negatives) < k_min:
            yield f"{s.id}: {len(s.negatives)} distractors, fewer than K_min={k_min}"
    for row, sample in zip(release.column("samples", "answer"), samples, strict=True):
        if row != sample.answers.display_form:
            yield f"{sample.id}: its column answer is not what its answers say"


def _leak_faults(
    samples: Sequence[Sample],
    image_hashes: dict[str, ImageHash | None],
    same_image: Callable[[str], int],
) -> Iterator[str]:
    """Questions that contain their answer, evidence with the query image, distractors that repeat gold."""
    from demur.corpora.leaks import IS, Leaks

    def content(e: Evidence) -> str:
        return (
            e.image.sha256
            if e.image and e.text is None
            else " ".join((e.text or "").lower().split())
        )

    for s in samples:
        if not s.answers.choices and holds(s.answers, s.question, s.question):
            yield f"{s.id}: the answer stands in the question"
        leaks = Leaks(
            s, lambda image: image_hashes.get(image.sha256), image_near=same_image(s.source)
        )
        gold = {content(e): e.id for e in s.gold}
        for e in s.negatives:
            if part := leaks.part(e):
                yield f"{s.id}: distractor {e.id} is gold {part}, a part of it, or holds it"
            elif content(e) in gold:
                yield f"{s.id}: distractor {e.id} has the content of gold {gold[content(e)]}"
            elif gold_again := leaks.gold(e):
                yield f"{s.id}: distractor {e.id} is a near-duplicate of gold {gold_again}"
            elif (
                e.origin == "mined"
                and e.modality is Modality.IMAGE
                and leaks.lineage.relation(e) == "gold page"
            ):
                yield f"{s.id}: distractor {e.id} is a picture of the page of gold evidence, {page_of(e)}"
        for role, evidence in (("gold", s.gold), ("distractor", s.negatives)):
            for e in evidence:
                if e.image and (why := leaks.query(e)):
                    yield f"{s.id}: {role} {e.id} {IS[why]} (image {e.image.sha256[:16]})"


def _same_image(release: Release) -> Callable[[str], int]:
    """Source -> how similar two of its images may be, by the release's recipe."""
    from demur.corpora.near_duplicates import IMAGE_NEAR, IMAGE_THRESHOLDS

    recipe = release.manifest.get("recipe") or {}
    common = (recipe.get("retrieval") or {}).get("same_image", "look")
    choice_of_source = {
        s.get("name"): (s.get("retrieval") or {}).get("same_image", common)
        for s in recipe.get("sources") or ()
    }
    return lambda source: IMAGE_THRESHOLDS.get(choice_of_source.get(source, common), IMAGE_NEAR)


def _image_faults(release: Release, image_hashes: dict[str, ImageHash | None]) -> Iterator[str]:
    """Images that differ from their metadata; fills ``image_hashes`` with the hashes of the sound ones."""
    for picture in release.pictures():
        why = _picture_fault(picture, image_hashes)
        if why:
            yield f"{picture.owner}: image {picture.sha256[:16] or '(unnamed)'}: {why}"


def _picture_fault(picture: Picture, image_hashes: dict[str, ImageHash | None]) -> str:
    from demur.corpora.near_duplicates import image_hash

    if picture.data is None:
        return "has no bytes"
    if not picture.sha256:
        return "is in the table, and no sample or document names it"
    if digest(picture.data) != picture.sha256:
        return "the bytes are not those it was released with"
    try:
        ref = image_ref(picture.data, picture.sha256)
        if picture.sha256 not in image_hashes:
            image_hashes[picture.sha256] = image_hash(picture.data)
    except DataError as error:
        image_hashes[picture.sha256] = None
        return error.message
    if (ref.width, ref.height, ref.media_type) != (
        picture.width,
        picture.height,
        picture.media_type,
    ):
        return f"is {ref.width}x{ref.height} {ref.media_type}, and the table says otherwise"
    if picture.path != image_name(ref):
        return f"its path in the table is {str(picture.path)[:60]!r}, not its name"
    return ""


# --- counts and texts derived from them ------------------------------------------------------------


def _funnel_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """The funnel adds up, ends with the samples, and has the reasons of drops.jsonl."""
    steps = release.steps
    for step in steps:
        if (
            step.entered - sum(step.dropped.values()) != step.kept
            or min(step.dropped.values(), default=0) < 0
        ):
            yield f"funnel.json: stage {step.stage!r} does not add up"
    for earlier, later in pairwise(steps):
        if earlier.kept != later.entered:
            yield f"funnel.json: {earlier.stage!r} kept {earlier.kept}, but {later.stage!r} begins with {later.entered}"
    if steps and steps[-1].kept != len(samples):
        yield f"funnel.json: ends with {steps[-1].kept} samples, the tables hold {len(samples)}"
    drops = list(release.drops())
    evidence_of_sample = {s.id: {e.id for e in (*s.gold, *s.negatives)} for s in samples}
    yield from (
        f"drops.jsonl: {d.sample} is dropped and kept"
        for d in drops
        if not d.evidence and d.sample in evidence_of_sample
    )
    yield from (
        f"drops.jsonl: {i} is dropped twice"
        for i in _find_repeated(d.sample for d in drops if not d.evidence)
    )
    for d in drops:
        if (
            d.evidence
            and d.stage == "distractor"
            and d.evidence in evidence_of_sample.get(d.sample, ())
        ):
            yield f"drops.jsonl: distractor {d.evidence} of {d.sample} is dropped and kept"
    if steps:
        reasons: Counter[str] = Counter()
        for step in steps:
            if step.stage != "pool":  # samples that were not drawn are no drops
                reasons.update(step.dropped)
        if dict(sorted(reasons.items())) != tally(d.reason for d in drops if not d.evidence):
            yield "funnel.json: its reasons are not those of drops.jsonl"


def _gate_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """gates.jsonl covers every kept sample and distractor, and no gate is correct."""
    gates = release.manifest.get("gates")
    if not gates:
        return
    problems = Problems()
    verdict_of_key: dict[tuple[str, str, str], GateVerdict] = {}
    for v in read_records(release.folder / "gates.jsonl", GateVerdict, problems):
        key: tuple[str, str, str] = (v.sample, v.stage, v.evidence)
        if key in verdict_of_key:
            yield f"gates.jsonl: {' '.join(key).rstrip()} appears twice"
        verdict_of_key[key] = v
    yield from (f"gates.jsonl: {line}" for line in problems.summary())

    def name(sample: str, stage: str, evidence: str) -> str:
        return f"{sample} ({f'{stage} {evidence}'.rstrip()})"

    for key, v in verdict_of_key.items():
        if "correct" in v.labels.values():
            yield f"gates.jsonl: a gate is right about {name(*key)}"
        yield from (
            f"gates.jsonl: {v.sample} was asked of {g!r}, no gate"
            for g in sorted(set(v.labels) - set(gates))
        )
        if not set(v.labels.values()) & set(Outcome):
            yield f"gates.jsonl: no gate was asked about {name(*key)}"
    wanted_keys: set[tuple[str, str, str]] = set()
    for s in samples:
        wanted_keys |= {
            (s.id, "parametric", ""),
            *((s.id, "distractor", e.id) for e in s.negatives),
        }
    for sample, stage, evidence in sorted(wanted_keys - set(verdict_of_key)):
        yield (
            f"gates.jsonl: {sample} was not asked without evidence"
            if stage == "parametric"
            else f"gates.jsonl: distractor {evidence} of {sample} was not checked"
        )
    for key in sorted(set(verdict_of_key) - wanted_keys):
        yield f"gates.jsonl: {name(*key)} is of nothing that the tables hold"


def _manifest_faults(
    release: Release, samples: Sequence[Sample], derived: dict[str, Any]
) -> Iterator[str]:
    """The manifest's other counts agree with the funnel and with each other."""
    manifest, steps = release.manifest, release.steps
    pools: dict[str, int] = manifest.get("pools") or {}
    pool = next((step for step in steps if step.stage == "pool"), steps[0] if steps else None)
    if pools and pool and sum(pools.values()) != pool.entered:
        yield f"manifest.json: pools hold {sum(pools.values())} samples, the funnel has {pool.entered}"
    for source, n in derived["by_source"].items():
        if pools and pools.get(source, 0) < n:
            yield f"manifest.json: pools: {n} samples of {source} came from {pools.get(source, 0)}"
    licences = {
        n: s["evidence_licences"]
        for n, s in (manifest.get("sources") or {}).items()
        if "evidence_licences" in s
    }
    if licences and licences != evidence_licences(samples, licences):
        yield "manifest.json: evidence_licences do not follow from the tables"


def _card_faults(release: Release, samples: Sequence[Sample]) -> Iterator[str]:
    """Card, citation and Croissant follow from manifest and tables: they are generated again and compared.

    They are not compared if another version of demur wrote them, which may word them differently.
    """
    from demur.core.version import __version__
    from demur.release.card import render_card, render_citation
    from demur.release.croissant import croissant_metadata

    manifest = {
        k: v for k, v in release.manifest.items() if k not in ("files", "sha256", "gate_rounds")
    }
    if manifest.get("demur") != __version__:
        return
    try:
        derived_files = {
            "README.md": render_card(
                release.folder,
                manifest,
                samples,
                documents_of(samples),
                release.steps,
                list(release.drops()),
                release.recall,
            ),
            "CITATION.cff": render_citation(manifest),
        }
        if scenarios := manifest.get("scenarios"):
            derived_files[EVAL] = eval_yaml(manifest, scenarios)
        files = {k: v for k, v in release.manifest["files"].items() if k != "croissant.json"}
        if read_json(release.folder / "croissant.json") != croissant_metadata(manifest, files):
            yield "croissant.json: does not follow from manifest and files"
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        yield f"manifest.json: lacks what the card says: {error}"
        return
    for name, text in derived_files.items():
        if (release.folder / name).read_bytes().decode("utf-8", "replace") != text:
            yield f"{name}: does not follow from the manifest and the tables"


def _find_repeated(values: Iterable[str]) -> list[str]:
    return sorted(value for value, n in Counter(values).items() if n > 1)
