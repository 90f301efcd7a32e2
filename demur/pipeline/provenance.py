"""What a release says of how it was made: recipe, models, prompts, sources, re-tests, topics.

Only facts that do not depend on the order of work: of the gates' labels those that every way of building knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.curation.funnel import Fate, Life, Probe, Stage
from demur.curation.gate import Label, unknown_without_evidence
from demur.curation.recipe import BuildRecipe
from demur.curation.release.layout import evidence_licences
from demur.curation.separation import separation
from demur.curation.topics import Drift
from demur.pipeline.bases import Base
from demur.pipeline.panel import Panel
from demur.records import GateVerdict, Sample
from demur.retrieval.recall import Choice
from demur.scenarios.conditions import condition
from demur.scenarios.contexts import context, recipe
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    from demur.pipeline.curate import Workshop


def recipe_of(plan: BuildRecipe) -> dict[str, Any]:
    """The recipe as a release states it: without the folders of this machine."""
    said = plan.model_dump(mode="json")
    for source in said["sources"]:
        del source["path"]
    for how in (said["retrieval"], *(source["retrieval"] for source in said["sources"])):
        if how is not None:  # what is in them is said under "bases"
            how["index"] = Path(how["index"]).name if how["index"] else None
            how["tokenizer"] = Path(how["tokenizer"]).name if how["tokenizer"] else None
    return said


def about(
    plan: BuildRecipe,
    shop: Workshop,
    lives: Mapping[str, Life],
    fates: Mapping[str, Fate],
    kept: Sequence[Sample],
    choices: Sequence[Choice],
    retest: Mapping[str, Mapping[str, int]],
    topics: Sequence[Drift],
) -> dict[str, Any]:
    """Everything that the manifest states beside names, counts and hashes."""
    pool, encoder, panel = shop.pool, shop.encoder, shop.panel
    stage_one = [life.of(Stage.PARAMETRIC) for life in lives.values()]
    specs = plan.specs()
    systems = {name: panel.system(name) for name in specs}
    licences = {
        source: sorted({s.licence for s in pool.samples if s.source == source and s.licence}) for source in pool.sizes
    }
    of_evidence = evidence_licences(kept, pool.sizes)
    return {
        "recipe": recipe_of(plan),
        "seed": plan.seed,
        "pools": pool.sizes,
        "drawn": {source: sum(s.source == source for s in pool.samples) for source in pool.sizes},
        "pool_by_topic": dict(sorted(Counter(s.topic for s in pool.samples).items())),
        "chosen_from_pool": len(pool.samples),
        "skipped_bad": pool.skipped,
        "repeated": pool.repeated,
        "sources": {
            name: {"sha256": pool.hashes[name], "licences": licences[name], "evidence_licences": of_evidence[name]}
            for name in pool.sizes
        },
        "encoder": {"name": encoder.name, "note": encoder.note, "fingerprint": encoder.fingerprint()},
        "bases": {source: _base(base) for source, base in shop.bases.items()},
        "separation": [row.model_dump(mode="json") for row in separation(kept, as_shown)],
        "retrieval_modes": {c.source: c.mode for c in choices},
        "judge": shop.judge.id,
        "gates": list(specs),
        "gate_models": {
            name: _model(plan, shop, name) | {"asked": _asked(name, lives, fates, panel)} for name in specs
        },
        "models": {name: system.note or system.id for name, system in systems.items()} | {encoder.name: encoder.note},
        "prompts": shop.prompts.sha256,
        "stage_one": {
            "rule": plan.rules.parametric,
            "kept": sum(unknown_without_evidence(labels) is True for labels in stage_one),
            "kept_by_the_literal_rule": sum(
                unknown_without_evidence(labels, "literal") is True for labels in stage_one
            ),
        },
        "retest": {name: dict(counts) for name, counts in retest.items()},
        "topics": [d.model_dump(mode="json") for d in topics],
        "limits": list(plan.limits),
        "authors": list(plan.authors),
    }


def as_shown(sample: Sample) -> tuple[str, ...]:
    """The ids of all evidence of a sample in the order in which a system would see it."""
    found = context(sample, recipe(f"realistic(k={len(sample.negatives)})"))
    return () if found is None else found.evidence


def _base(base: Base) -> dict[str, Any]:
    """Where a source's distractors are from, and how its gold is shown."""
    said: dict[str, Any] = {"negatives": base.how.negatives, "gold": dict(sorted(base.gold.items()))}
    if base.searcher is not None:
        manifest = base.searcher.manifest
        encoders = {space: f"{e['name']} ({e['fingerprint'][:12]})" for space, e in manifest["encoders"].items()}
        said |= {"index": base.searcher.id, "documents": manifest["counts"]["documents"], "cut": base.cut}
        said |= {"encoders": encoders, "probes": [p._asdict() for p in base.searcher.probes.values()]}
    return said | {"notes": list(base.notes)}


def _model(plan: BuildRecipe, shop: Workshop, name: str) -> dict[str, Any]:
    """What exactly a gate was: model, revision, decoding, prompts."""
    spec, system = plan.specs()[name], shop.panel.system(name)
    said: dict[str, Any] = {"system": system.id, "condition": spec.condition, "stages": sorted(spec.stages)}
    said["prompts"] = shop.prompts.used(condition(spec.condition))
    said["revision"] = system.revision
    if isinstance(system, ModelSystem):
        from demur.calls import model_id

        said["model"] = model_id(system.addresses[0])
        said["decoding"] = {k: v for k, v in system.sampling.items() if k != "draw"}
        said["layout"] = system.layout._asdict()
    else:
        said["decoding"] = dict(spec.options)
    return said


def _asked(name: str, lives: Mapping[str, Life], fates: Mapping[str, Fate], panel: Panel) -> dict[str, dict[str, Any]]:
    """Stage -> what a gate was asked about the kept samples, of how many questions, and why not the others.

    Without evidence and with each distractor that stays it was asked all that it can be, however the release was built;
    with the gold evidence ``asked`` is what it could be: one right answer of any gate is enough.
    """
    found: dict[str, dict[str, Any]] = {}
    for sample, fate in fates.items():
        if fate.kept:
            for stage in Stage:
                for shown in fate.survivors if stage is Stage.DISTRACTOR else ("",):
                    labels = lives[sample].of(stage, shown)
                    if name in labels:
                        one = found.setdefault(stage.value, {"asked": 0, "of": 0, "skipped": Counter[str]()})
                        one["of"] += 1
                        if labels[name] is Label.SKIPPED:
                            one["skipped"][panel.told[sample, Probe(name, stage, shown)].why] += 1
                        else:
                            one["asked"] += 1
    return {stage: one | {"skipped": dict(sorted(one["skipped"].items()))} for stage, one in found.items()}


def verdicts(sample: Sample, life: Life, panel: Panel) -> Iterator[GateVerdict]:
    """Of a kept sample, what every gate said without evidence and to each distractor that stayed.

    These are known however a build was run: a sample is kept only when all of them have answered.
    """
    answers = {}
    labels = {}
    for gate, label in life.of(Stage.PARAMETRIC).items():
        told = panel.told[sample.id, Probe(gate, Stage.PARAMETRIC)]
        labels[gate] = f"skipped:{told.why}" if label is Label.SKIPPED else told.label.value
        if told.answer:
            answers[gate] = told.answer
    why = "no gate answers it without evidence"
    yield GateVerdict(sample=sample.id, stage="parametric", labels=labels, answers=answers, keep=True, why=why)
    fate = life.fate()
    for d in fate.survivors if fate else ():
        said = {gate: label.value for gate, label in life.of(Stage.DISTRACTOR, d).items() if label is not None}
        why = "alone it lets no gate answer"
        yield GateVerdict(sample=sample.id, stage="distractor", evidence=d, labels=said, keep=True, why=why)
