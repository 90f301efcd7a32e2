"""Compares two releases: which samples left, came and changed, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from demur.core.records import Record, Sample
from demur.release import Release


class Moved(Record):
    """A sample that only one of the two releases has."""

    sample: str
    source: str
    topic: str
    why: str
    """The reason in the other release's drops; ``not in its pool`` if they have none."""


class Changed(Record):
    """A sample that differs between the two releases."""

    sample: str
    source: str
    topic: str
    fields: tuple[str, ...]
    """The fields that differ: question, answers, images, gold ..."""
    distractors_left: dict[str, str]
    """Distractor -> the reason in the new release's drops."""
    distractors_came: tuple[str, ...]


class Difference(Record):
    """The differences between two releases."""

    old: str
    new: str
    same: int
    """Number of samples that are equal, evidence included."""
    left: tuple[Moved, ...]
    came: tuple[Moved, ...]
    changed: tuple[Changed, ...]
    recipe: dict[str, tuple[Any, Any]]
    """Key -> (old, new) where the recipes differ."""
    made: dict[str, tuple[Any, Any]]
    """Other inputs, such as ``gate_models.NAME.revision`` -> (old, new) where they differ: code, judge, gate models
    with revisions and decoding, prompts, encoder, sources. Excludes results: counts, topics, re-tests."""
    by_source: dict[str, dict[str, int]]
    """Source -> left, came, changed, same."""
    by_topic: dict[str, dict[str, int]]
    why_left: dict[str, int]
    why_came: dict[str, int]


_FIELDS = (
    "question",
    "answers",
    "answerable",
    "topic",
    "cluster",
    "split",
    "licence",
    "attributes",
)


def difference(old: Release, new: Release) -> Difference:
    """Compare two releases sample by sample."""
    before, after = {s.id: s for s in old.samples()}, {s.id: s for s in new.samples()}
    why_old, why_new = (
        {d.sample: d.reason for d in release.drops() if not d.evidence} for release in (old, new)
    )
    lost = {(d.sample, d.evidence): d.reason for d in new.drops() if d.evidence}

    def moved(
        samples: dict[str, Sample], other_samples: dict[str, Sample], why: dict[str, str]
    ) -> tuple[Moved, ...]:
        return tuple(
            Moved(sample=i, source=s.source, topic=s.topic, why=why.get(i, "not in its pool"))
            for i, s in samples.items()
            if i not in other_samples
        )

    samples_left, samples_came = moved(before, after, why_new), moved(after, before, why_old)
    changed = tuple(
        c
        for i in before
        if i in after and (c := _compare_samples(before[i], after[i], lost)) is not None
    )
    equal_count = len(before) - len(samples_left) - len(changed)
    by_source: dict[str, Counter[str]] = {}
    by_topic: dict[str, Counter[str]] = {}
    change_of_sample = (
        {c.sample: "changed" for c in changed}
        | {c.sample: "left" for c in samples_left}
        | {c.sample: "came" for c in samples_came}
    )
    for sample in {**before, **after}.values():
        for table, key in ((by_source, sample.source), (by_topic, sample.topic)):
            table.setdefault(key, Counter())[change_of_sample.get(sample.id, "same")] += 1
    return Difference(
        old=f"{old.name} {old.version}",
        new=f"{new.name} {new.version}",
        same=equal_count,
        left=samples_left,
        came=samples_came,
        changed=changed,
        recipe=_differing_values(old.manifest.get("recipe", {}), new.manifest.get("recipe", {})),
        made=_changed_inputs(old.manifest, new.manifest),
        by_source={k: dict(v) for k, v in sorted(by_source.items())},
        by_topic={k: dict(v) for k, v in sorted(by_topic.items())},
        why_left=dict(Counter(x.why for x in samples_left).most_common()),
        why_came=dict(Counter(x.why for x in samples_came).most_common()),
    )


def _compare_samples(old: Sample, new: Sample, lost: dict[tuple[str, str], str]) -> Changed | None:
    fields = [f for f in _FIELDS if getattr(old, f) != getattr(new, f)]
    if [i.sha256 for i in old.images] != [i.sha256 for i in new.images]:
        fields.append("images")
    if old.gold != new.gold:
        fields.append("gold")
    had, has = {e.id: e for e in old.negatives}, {e.id: e for e in new.negatives}
    reason_of_removed = {
        i: lost.get((new.id, i), "not a candidate any more") for i in had if i not in has
    }
    extra = tuple(i for i in has if i not in had)
    if any(had[i] != has[i] for i in had if i in has):
        fields.append("distractors' provenance or content")
    if not (fields or reason_of_removed or extra):
        return None
    return Changed(
        sample=new.id,
        source=new.source,
        topic=new.topic,
        fields=tuple(fields),
        distractors_left=reason_of_removed,
        distractors_came=extra,
    )


def _differing_values(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {k: (old.get(k), new.get(k)) for k in sorted({*old, *new}) if old.get(k) != new.get(k)}


_MAKERS = (
    "demur",
    "judge",
    "encoder",
    "seed",
    "gate_models",
    "models",
    "prompts",
    "sources",
    "retrieval_modes",
)


def _changed_inputs(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The differing inputs in the manifests, by the path of the single value."""

    def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                if key not in ("licences", "evidence_licences"):
                    yield from leaves(inner, f"{path}.{key}")
        else:
            yield path, value

    old_inputs, new_inputs = (
        dict(leaf for k in _MAKERS if k in m for leaf in leaves(m[k], k)) for m in (old, new)
    )
    return _differing_values(old_inputs, new_inputs)
