"""What a release states about how it was made: recipe, models, prompts, sources, re-tests, topics.

Only facts that do not depend on the order of work: of the gates' labels, those that every way of building needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.records import GateVerdict, Sample
from demur.curation.build.folder import day_begun
from demur.curation.build.knowledge_bases import KnowledgeBase
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.topics import Drift
from demur.curation.gates.funnel import Decision, GateQuery, SampleState, Stage
from demur.curation.gates.rules import Label, unknown_without_evidence
from demur.curation.gates.runner import GateRunner
from demur.indexing.encoders import fingerprint_of
from demur.judge.cascade import BELOW
from demur.release.layout import evidence_licences, tally
from demur.retrieval.found import FoundSearcher
from demur.retrieval.recall import Choice
from demur.scenarios.conditions import condition
from demur.scenarios.systems.model import ModelSystem
from demur.scenarios.told_apart import measure

if TYPE_CHECKING:
    from demur.curation.build.context import BuildContext


def recipe_of(recipe: BuildRecipe) -> dict[str, Any]:
    """The recipe as a release states it: without folders of this machine."""
    facts = recipe.model_dump(mode="json", exclude={"card"})
    for source in facts["sources"]:
        del source["path"]
    for retrieval in (facts["retrieval"], *(source["retrieval"] for source in facts["sources"])):
        if retrieval is not None:  # "bases" states what is in them
            for name in ("index", "tokenizer"):
                retrieval[name] = Path(retrieval[name]).name if retrieval[name] else None
    return facts


class BuildOutcome(NamedTuple):
    """What the stages of a build came to."""

    states: Mapping[str, SampleState]
    """Sample of the pool -> its labels."""
    decisions: Mapping[str, Decision]
    """Sample of the pool -> what was decided about it."""
    kept_samples: Sequence[Sample]
    """With the distractors that stay."""
    choices: Sequence[Choice]
    """Retrieval modes by source and kind of question."""
    retest: Mapping[str, Mapping[str, int]]
    """Gate -> labels that it gave kept samples a second time, counted."""
    topics: Sequence[Drift]


def describe_build(ctx: BuildContext, outcome: BuildOutcome) -> dict[str, Any]:
    """Everything in the manifest except names, counts and hashes."""
    recipe, pool, encoder, runner = ctx.recipe, ctx.pool, ctx.encoder, ctx.runner
    states, decisions, kept_samples, choices, retest, topics = outcome
    stage_one = [state.labels_of(Stage.PARAMETRIC) for state in states.values()]
    specs = recipe.specs()
    systems = {name: runner.system(name) for name in specs}
    licences = {
        source: sorted({s.licence for s in pool.samples if s.source == source and s.licence})
        for source in pool.sizes
    }
    of_evidence = evidence_licences(kept_samples, pool.sizes)
    return {
        "recipe": recipe_of(recipe),
        "seed": recipe.seed,
        "pools": pool.sizes,
        "drawn": {source: sum(s.source == source for s in pool.samples) for source in pool.sizes},
        "pool_by_topic": tally(s.topic for s in pool.samples),
        "chosen_from_pool": len(pool.samples),
        "skipped_bad": pool.skipped,
        "repeated": pool.repeated,
        "sources": {
            name: {
                "sha256": pool.hashes[name],
                "licences": licences[name],
                "evidence_licences": of_evidence[name],
            }
            for name in pool.sizes
        },
        "encoder": {
            "name": encoder.name,
            "note": encoder.note,
            "fingerprint": fingerprint_of(encoder),
        },
        "bases": {source: _describe_base(base) for source, base in ctx.bases.items()},
        "told_apart": [row.model_dump(mode="json") for row in measure(kept_samples)],
        "retrieval_modes": {c.source: c.mode for c in choices},
        "judge": ctx.judge.id,
        "gates": list(specs),
        "gate_models": {
            name: model_of(ctx, name) | {"asked": _count_asked(name, states, decisions, runner)}
            for name in specs
        },
        "models": {name: system.note or system.id for name, system in systems.items()}
        | {encoder.name: encoder.note},
        "prompts": ctx.prompts.sha256,
        "stage_one": {
            "rule": recipe.rules.parametric,
            "kept": sum(unknown_without_evidence(labels) is True for labels in stage_one),
            "kept_by_the_literal_rule": sum(
                unknown_without_evidence(labels, "literal") is True for labels in stage_one
            ),
        },
        "judged": {"sure_from": BELOW, "methods": _count_methods(states, decisions, runner)},
        "retest": {name: dict(counts) for name, counts in retest.items()},
        "topics": [d.model_dump(mode="json") for d in topics],
        "limits": list(recipe.limits),
        "authors": list(recipe.authors),
        "card": recipe.card.model_dump(mode="json"),
        "published": recipe.card.published or day_begun(ctx.out),
    }


def _describe_base(base: KnowledgeBase) -> dict[str, Any]:
    """Where a source's distractors come from, and how its gold is shown."""
    facts: dict[str, Any] = {
        "negatives": base.retrieval_spec.negatives,
        "gold": dict(sorted(base.gold.items())),
    }
    if base.searcher is not None:
        manifest = base.searcher.manifest
        encoders = {
            space: f"{e['name']} ({e['fingerprint'][:12]})"
            for space, e in manifest["encoders"].items()
        }
        facts |= {
            "index": base.searcher.id,
            "documents": manifest["counts"]["documents"],
            "cut": base.cut,
            "passages": "found" if isinstance(base.searcher, FoundSearcher) else "all",
        }
        facts |= {
            "encoders": encoders,
            "probes": [p._asdict() for p in base.searcher.probes.values()],
        }
    return facts | {"notes": list(base.notes)}


def model_of(ctx: BuildContext, name: str) -> dict[str, Any]:
    """What exactly a gate is: model, revision, decoding, prompts."""
    spec, system = ctx.recipe.specs()[name], ctx.runner.system(name)
    facts: dict[str, Any] = {
        "system": system.id,
        "condition": spec.condition,
        "stages": sorted(spec.stages),
    }
    facts["prompts"] = ctx.prompts.used(condition(spec.condition))
    facts["revision"] = system.revision
    if isinstance(system, ModelSystem):
        from demur.models import model_id

        facts["model"] = model_id(system.addresses[0])
        facts["decoding"] = {k: v for k, v in system.sampling.items() if k != "draw"}
        facts["layout"] = system.layout._asdict()
    else:
        facts["decoding"] = dict(spec.options)
    return facts


def _count_asked(
    name: str,
    states: Mapping[str, SampleState],
    decisions: Mapping[str, Decision],
    runner: GateRunner,
) -> dict[str, dict[str, Any]]:
    """Stage -> how many questions about kept samples a gate was asked, of how many, and why not the others.

    Without evidence and with each surviving distractor every gate was asked all it can be, in every way of building.
    With the gold evidence ``asked`` counts what it could be asked: one right answer of any gate is enough.
    """
    counts_of_stage: dict[str, dict[str, Any]] = {}
    for sample, decision in decisions.items():
        if decision.kept:
            for stage in Stage:
                for distractor in decision.survivors if stage is Stage.DISTRACTOR else ("",):
                    labels = states[sample].labels_of(stage, distractor)
                    if name in labels:
                        counts = counts_of_stage.setdefault(
                            stage.value, {"asked": 0, "of": 0, "skipped": Counter[str]()}
                        )
                        counts["of"] += 1
                        if labels[name] is Label.SKIPPED:
                            counts["skipped"][
                                runner.answers[sample, GateQuery(name, stage, distractor)].why
                            ] += 1
                        else:
                            counts["asked"] += 1
    return {
        stage: counts | {"skipped": dict(sorted(counts["skipped"].items()))}
        for stage, counts in counts_of_stage.items()
    }


def _count_methods(
    states: Mapping[str, SampleState], decisions: Mapping[str, Decision], runner: GateRunner
) -> dict[str, dict[str, int]]:
    """Method -> how many verdicts it gave on gates' answers about kept samples, and how sure it was of them.

    ``less_sure`` are those whose outcome is right with a chance below `BELOW`, ``unmeasured`` those of which nobody
    measured it. As in `gate_verdicts`, only answers that every way of building needs are counted.
    """
    counts_of_method: dict[str, dict[str, int]] = {}
    for sample, decision in decisions.items():
        queries = [(Stage.PARAMETRIC, ""), *((Stage.DISTRACTOR, d) for d in decision.survivors)]
        for stage, distractor in queries if decision.kept else ():
            for gate, label in states[sample].labels_of(stage, distractor).items():
                if label is Label.SKIPPED:
                    continue
                answer = runner.answers[sample, GateQuery(gate, stage, distractor)]
                counts = counts_of_method.setdefault(
                    answer.method or "not stated", {"verdicts": 0, "less_sure": 0, "unmeasured": 0}
                )
                chance = answer.probability
                counts["verdicts"] += 1
                counts["less_sure"] += chance is not None and chance < BELOW
                counts["unmeasured"] += chance is None
    return dict(sorted(counts_of_method.items()))


def gate_verdicts(sample: Sample, state: SampleState, runner: GateRunner) -> Iterator[GateVerdict]:
    """The verdicts of every gate on a kept sample, without evidence and with each surviving distractor.

    Every way of building has these: a sample is kept only when all of them are known.
    """
    answers = {}
    labels = {}
    for gate, label in state.labels_of(Stage.PARAMETRIC).items():
        answer = runner.answers[sample.id, GateQuery(gate, Stage.PARAMETRIC)]
        labels[gate] = f"skipped:{answer.why}" if label is Label.SKIPPED else answer.label.value
        if answer.text:
            answers[gate] = answer.text
    why = "no gate answers it without evidence"
    yield GateVerdict(
        sample=sample.id, stage="parametric", labels=labels, answers=answers, keep=True, why=why
    )
    decision = state.decision()
    for d in decision.survivors if decision else ():
        labels_here = {
            gate: label.value
            for gate, label in state.labels_of(Stage.DISTRACTOR, d).items()
            if label is not None
        }
        why = "alone it lets no gate answer"
        yield GateVerdict(
            sample=sample.id, stage="distractor", evidence=d, labels=labels_here, keep=True, why=why
        )
