"""The responsible-AI properties of a release (Croissant RAI 1.0), said from its manifest and from what people stated.

Each property is a text that a reader can check against the release: nothing is claimed that no file or person states,
and a property that nobody stated is left out (`demur.release.facts.missing_facts` lists those).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demur.release.evidence import ToldApart
from demur.release.facts import facts_of

CONFORMS_TO = "http://mlcommons.org/croissant/RAI/1.0"
USES = (
    "Evaluation: whether a vision-language model or a retrieval-augmented system answers, declines or makes things up "
    "when its evidence suffices, is mixed with distractors, or is missing. Not meant for training; each row carries a "
    "canary that says so."
)


VERSIONS = "A version is frozen and named by its hashes; changes make a new version."


def responsible_ai(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Property, as ``rai:dataBiases``, -> text, texts or a truth value."""
    facts = facts_of(manifest)
    properties: dict[str, Any] = {
        "dataCollection": _collection(manifest),
        "dataCollectionType": ["Secondary Data Analysis", "Software Collection"],
        "dataCollectionRawData": _raw_data(manifest),
        "dataPreprocessingProtocol": list(_preprocessing(manifest)),
        "dataAnnotationProtocol": [*_annotation(manifest), facts.annotation],
        "dataAnnotationAnalysis": list(_agreement(manifest)),
        "annotationsPerItem": _gates_per_item(manifest),
        "machineAnnotationTools": list(_tools(manifest)),
        "dataBiases": [facts.biases, *_measured_biases(manifest)],
        "dataLimitations": [*map(str, manifest.get("limits") or ()), *_limits(manifest)],
        "dataUseCases": [USES, facts.uses],
        "dataSocialImpact": facts.social_impact,
        "personalSensitiveInformation": [facts.sensitive],
        "dataReleaseMaintenancePlan": " ".join(filter(None, (facts.maintenance, VERSIONS))),
        "hasSyntheticData": facts.synthetic,
    }
    stated = {f"rai:{name}": _without_empty(value) for name, value in properties.items()}
    return {name: value for name, value in stated.items() if value not in ("", [], None)}


def _without_empty(value: Any) -> Any:
    return [text for text in value if text] if isinstance(value, list) else value


def _collection(manifest: Mapping[str, Any]) -> str:
    by_source: Mapping[str, int] = manifest["counts"].get("by_source") or {}
    sources = ", ".join(f"{name} ({count:,})" for name, count in by_source.items())
    drawn = manifest.get("chosen_from_pool")
    chosen = f", kept of {drawn:,} drawn by seed {manifest.get('seed', 0)}" if drawn else ""
    return (
        f"{manifest['counts']['samples']:,} questions with their gold evidence, taken from published sources: "
        f"{sources}{chosen}. Distractors were shipped by the sources or mined from their knowledge bases."
    )


def _raw_data(manifest: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name}: sha256 {source['sha256']}"
        for name, source in sorted((manifest.get("sources") or {}).items())
        if source.get("sha256")
    )


def _preprocessing(manifest: Mapping[str, Any]) -> Iterator[str]:
    for source, base in sorted((manifest.get("bases") or {}).items()):
        if cut := base.get("cut"):
            yield f"{source}: documents cut into passages, {cut}; gold evidence is shown as passages too."
    for count, reason in (
        (manifest.get("skipped_bad"), "records of the sources could not be read and were left out"),
        (manifest.get("repeated"), "questions repeated another one and were left out"),
    ):
        if count:
            yield f"{count:,} {reason}."


def _annotation(manifest: Mapping[str, Any]) -> Iterator[str]:
    if gates := manifest.get("gates"):
        yield (
            f"Each question was put to {len(gates)} gating models without evidence, with its gold evidence and with each "
            "distractor alone. A question stays if no gate is right without evidence and, where the recipe says so, one "
            "is right with gold; a distractor stays if no gate is right with it alone."
        )
    if judge := manifest.get("judge"):
        yield f"Their answers were judged by {judge}: correct, incorrect or deflected."


def _agreement(manifest: Mapping[str, Any]) -> Iterator[str]:
    """How stable and how sure the labels of the gates' answers are."""
    for gate, counts in sorted((manifest.get("retest") or {}).items()):
        if counts.get("asked"):
            yield (
                f"{gate} was asked {counts['asked']:,} kept questions again without evidence: {counts.get('same', 0):,} "
                f"with the same outcome, {counts.get('correct', 0):,} right this time."
            )
    judged = manifest.get("judged") or {}
    for method, counts in (judged.get("methods") or {}).items():
        yield (
            f"{counts['verdicts']:,} verdicts by {method}; {counts['less_sure']:,} less sure than "
            f"{judged['sure_from']:g}, {counts['unmeasured']:,} without a measured chance."
        )


def _gates_per_item(manifest: Mapping[str, Any]) -> str:
    gates = manifest.get("gates") or ()
    return f"{len(gates)} gating models a question" if gates else ""


def _tools(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield f"demur {manifest.get('demur', '')}".strip()
    for name, what in sorted((manifest.get("models") or {}).items()):
        yield f"{name}: {what}" if what and what != name else str(name)


def _measured_biases(manifest: Mapping[str, Any]) -> Iterator[str]:
    for drift in manifest.get("topics") or ():
        yield (
            f"Topics by {drift['by']}: gating moved the largest share by {drift['largest_change']:.1f} points "
            f"(permutation p = {drift['p']:.4f})."
        )
    for row in manifest.get("told_apart") or ():
        yield from ToldApart.model_validate(row).findings


def _limits(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "No gate answered these questions by heart; stronger models may. The release can be rebuilt with them."
        if manifest.get("gates")
        else "No gating model was asked: some models may know answers by heart."
    )


def licences_of(manifest: Mapping[str, Any]) -> Sequence[str]:
    """All licences of questions and evidence, sorted."""
    return sorted(
        {
            licence
            for source in (manifest.get("sources") or {}).values()
            for licence in (*source["licences"], *source.get("evidence_licences", {}))
            if licence
        }
    )
