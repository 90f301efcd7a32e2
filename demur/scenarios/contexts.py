"""Context sets: which evidence goes with a sample's question, and in which order.

Each of the four scenarios of VLM-DeflectionBench (section 3.5) and their variations is a recipe. Random choices hash
(seed, sample, document), so a set does not depend on the model, the order of work or other samples. Sets are *nested*:
the distractors of k=2 are among those of k=3, in the same relative order. Comparisons between k, orders or models are
therefore paired.

The first distractors have the kinds that gold has, text or picture: else "is a picture shown?" would tell Realistic
from Adversarial without a look at it. Where no distractor has them, or k is too small for both, a sample has neither
scenario. The number of pieces still tells: as in the paper, Realistic shows gold beside the k of Adversarial
(``pieces=as-realistic`` shows as many in both).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import ContextSet, Evidence, Modality, Sample, Scenario
from demur.core.store import digest, seed_of
from demur.core.text import whole_number

Pick = Literal["ranked", "random", "hardest"]
Short = Literal["use_all", "exclude"]
Side = Literal["any", "text", "image", "both"]
Pieces = Literal["k", "as-realistic"]

PICKS: tuple[Pick, ...] = ("ranked", "random", "hardest")
SHORTS: tuple[Short, ...] = ("use_all", "exclude")
SIDES: tuple[Side, ...] = ("any", "text", "image", "both")
PIECES: tuple[Pieces, ...] = ("k", "as-realistic")
WITHOUT_EVIDENCE = frozenset(Scenario) - {Scenario.ORACLE, Scenario.REALISTIC, Scenario.ADVERSARIAL}
FOUR = tuple(s.value for s in Scenario if s.shows_evidence)
"""The scenarios of VLM-DeflectionBench (section 3.5)."""
WHOLE = tuple(s.value for s in Scenario if not s.shows_evidence)
"""Scenarios of a RAG system with its own retriever."""
_ORDER = re.compile(r"shuffled|gold-first|gold-last|gold@[0-9]{1,9}")


class Recipe(NamedTuple):
    """How a context set is made; its text parses back: ``realistic(k=2,pick=ranked,order=shuffled,short=use_all)``.

    Attributes:
        scenario: which kinds of evidence the set has.
        k: number of distractors (0 in parametric and oracle).
        pick: which of a sample's distractors: by mining rank, at random, or the hardest (`hardness`).
        order: ``shuffled``, ``gold-first``, ``gold-last`` or ``gold@I`` (the gold block starts at position I, from 0).
        short: for a sample with fewer than k distractors: use all of them, or exclude the sample.
        gold: modality of the gold evidence; excludes samples without it.
        negatives: modality of the distractors; ``both`` needs at least one of each. By default (``any``) gold's own
            come first; other choices are the caller's, and may tell where gold is.
        pieces: adversarial only: k distractors (the paper), or ``as-realistic``: as many more as the sample has gold, so
            that the number of pieces tells nothing; excludes samples that have too few.
    """

    scenario: Scenario
    k: int = 0
    pick: Pick = "ranked"
    order: str = "shuffled"
    short: Short = "use_all"
    gold: Side = "any"
    negatives: Side = "any"
    pieces: Pieces = "k"

    def __str__(self) -> str:
        """Canonical text; equal recipes have equal text."""
        if self.scenario in WITHOUT_EVIDENCE:
            return self.scenario.value
        names = ["order"] if self.scenario is Scenario.ORACLE else ["k", "pick", "order", "short"]
        names += [
            name
            for name in ("gold", "negatives", "pieces")
            if getattr(self, name) != self._field_defaults[name]
        ]
        parts = [f"{name}={getattr(self, name)}" for name in names]
        return f"{self.scenario.value}({','.join(parts)})"


def recipe(text: str, *, k: int = 2) -> Recipe:
    """Parse a recipe.

    Args:
        text: a scenario, optionally with options in brackets; the others have their defaults.
        k: default number of distractors (VLM-DeflectionBench uses 2).

    Raises:
        UsageError: not a recipe; lists the choices.

    >>> str(recipe("realistic"))
    'realistic(k=2,pick=ranked,order=shuffled,short=use_all)'
    >>> recipe(str(recipe("adversarial(k=5,pick=random)"))).k
    5
    """
    match = re.fullmatch(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", text)
    if not match or match[1] not in set(Scenario):
        raise UsageError(
            f"not a scenario: {text!r}",
            cure=f"one of {', '.join(Scenario)}, with options as in 'realistic(k=3)'",
        )
    scenario = Scenario(match[1])
    with_distractors = scenario in (Scenario.REALISTIC, Scenario.ADVERSARIAL)
    values: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in (match[2] or "").split(","))):
        name, equals, value = part.partition("=")
        if not equals or name not in Recipe._fields or name == "scenario":
            options = ", ".join(Recipe._fields[1:])
            raise UsageError(
                f"unknown option {part!r} in {text!r}", cure=f"options are {options}, as name=value"
            )
        values[name] = value
    allowed: dict[str, Sequence[str]] = {
        "pick": PICKS,
        "short": SHORTS,
        "gold": SIDES,
        "negatives": SIDES,
        "pieces": PIECES if scenario is Scenario.ADVERSARIAL else PIECES[:1],
    }
    for name, choices in allowed.items():
        if name in values and values[name] not in choices:
            raise UsageError(
                f"{name}={values[name]!r} in {text!r}", cure=f"one of {', '.join(choices)}"
            )
    if "order" in values and not _ORDER.fullmatch(values["order"]):
        raise UsageError(
            f"order={values['order']!r} in {text!r}",
            cure="shuffled, gold-first, gold-last or gold@I",
        )
    stated = values.pop("k", str(k if with_distractors else 0))
    number = whole_number(stated)
    oracle_like = (
        scenario is Scenario.REALISTIC and number == 0
    )  # the left end of a distractor sweep
    if number is None or ((number > 0) != with_distractors and not oracle_like):
        raise UsageError(
            f"k={stated[:40]} in {text[:80]!r}",
            cure="realistic takes k >= 0, adversarial k >= 1, the others no distractors",
        )
    return Recipe(scenario, number, **values)  # type: ignore[arg-type]  # values were checked against the choices above


def recipes(texts: Iterable[str], *, k: int = 2) -> list[Recipe]:
    """Parse recipes, each once; ``all`` stands for `FOUR`, ``whole`` for `WHOLE`.

    Raises:
        UsageError: see `recipe`.
    """
    sets = {"all": FOUR, "whole": WHOLE}
    return list(
        dict.fromkeys(recipe(name, k=k) for text in texts for name in sets.get(text, (text,)))
    )


def standard(k: int = 2) -> list[Recipe]:
    """The four scenarios of VLM-DeflectionBench's Table 4, with k distractors."""
    return recipes(FOUR, k=k)


def _has_modality(evidence: Sequence[Evidence], modality: Modality) -> bool:
    return any(e.modality is modality for e in evidence)


def _of_modality(evidence: Sequence[Evidence], side: Side) -> list[Evidence]:
    """Evidence of that modality; for ``both`` everything if both occur, else nothing."""
    if side == "any":
        return list(evidence)
    if side == "both":
        return (
            list(evidence)
            if _has_modality(evidence, Modality.TEXT) and _has_modality(evidence, Modality.IMAGE)
            else []
        )
    return [e for e in evidence if e.modality.value == side]


def _alternate_modalities(ranked: list[Evidence]) -> list[Evidence]:
    """Both modalities in turn, so that every prefix of two or more has both, and prefixes stay nested."""
    text = [e for e in ranked if e.modality is Modality.TEXT]
    image = [e for e in ranked if e.modality is Modality.IMAGE]
    mixed = [e for pair in zip(text, image, strict=False) for e in pair]
    return mixed + text[len(image) :] + image[len(text) :]


def _kinds(evidence: Iterable[Evidence]) -> set[Modality]:
    return {e.modality for e in evidence}


def _gold_kinds_first(ranked: list[Evidence], kinds: set[Modality]) -> list[Evidence]:
    """The first distractor of each kind that gold has, then the others as they were."""
    first_of_kind = {e.modality: e.id for e in reversed(ranked) if e.modality in kinds}
    return sorted(ranked, key=lambda e: e.id != first_of_kind.get(e.modality))


def hardness(evidence: Sequence[Evidence]) -> dict[str, float]:
    """Quantile of each distractor among those with comparable scores: near 0 the hardest, 1 the easiest.

    Only scores of one mode in one index are comparable: a cosine, a BM25 score and a reciprocal rank are not. The i-th
    of n distractors of a mode by score (by rank, if the source gave no score) has the quantile (i - 1/2) / n; equal
    scores share the mean. A distractor with neither score nor rank has 1.

    Args:
        evidence: distractors of one sample.

    Returns:
        id -> quantile in (0, 1].

    >>> from demur.core.records import Role
    >>> def found(id, mode, score):
    ...     return Evidence(id=id, modality="text", title="", text=id, role=Role.DISTRACTOR, mode=mode, score=score)
    >>> hardness([found("a", "lexical", 31.0), found("b", "lexical", 7.5), found("c", "text->text", 0.9)])
    {'a': 0.25, 'b': 0.75, 'c': 0.5}
    """
    scales: dict[tuple[str, str, bool], list[tuple[float, str]]] = {}
    for e in evidence:
        hard = e.score if e.score is not None else None if e.rank is None else -float(e.rank)
        if hard is not None:
            scales.setdefault((e.index_id, e.mode, e.score is None), []).append((hard, e.id))
    quantiles = {e.id: 1.0 for e in evidence}
    for scored in scales.values():
        for hard, id in scored:
            harder, equal = (
                sum(other > hard for other, _ in scored),
                sum(other == hard for other, _ in scored),
            )
            quantiles[id] = (harder + equal / 2) / len(scored)
    return quantiles


def distractors(sample: Sample, recipe: Recipe, seed: int) -> list[Evidence]:
    """All distractors of a sample, in the order in which the recipe takes them; it uses the first k."""
    usable = _of_modality(sample.negatives, recipe.negatives)
    if recipe.pick == "random":
        usable.sort(key=lambda e: seed_of(seed, "pick", sample.id, e.id))
    elif recipe.pick == "hardest":
        quantiles = hardness(usable)
        usable.sort(key=lambda e: (quantiles[e.id], e.id))
    else:
        usable.sort(key=lambda e: _rank(sample, e, seed))
    if recipe.negatives == "both":
        return _alternate_modalities(usable)
    kinds = _kinds(_of_modality(sample.gold, recipe.gold))
    return _gold_kinds_first(usable, kinds) if recipe.negatives == "any" else usable


def _rank(sample: Sample, e: Evidence, seed: int) -> tuple[int, int, str]:
    """Sorts ranked distractors by rank, then the others by a draw: the order of a source's file tells texts from pictures."""
    if e.rank is not None:
        return e.rank, 0, e.id
    return sys.maxsize, seed_of(seed, "pick", sample.id, e.id), e.id


def _arrange(
    sample: Sample, gold: list[Evidence], distractors_used: list[Evidence], order: str, seed: int
) -> list[Evidence]:
    def by_hash(e: Evidence) -> int:
        return seed_of(seed, "order", sample.id, e.id)

    if order == "shuffled":
        return sorted([*gold, *distractors_used], key=by_hash)
    gold, distractors_used = sorted(gold, key=by_hash), sorted(distractors_used, key=by_hash)
    gold_place = {"gold-first": 0, "gold-last": len(distractors_used)}.get(order)
    if gold_place is None:
        gold_place = min(int(order.removeprefix("gold@")), len(distractors_used))
    return [*distractors_used[:gold_place], *gold, *distractors_used[gold_place:]]


def context(sample: Sample, recipe: Recipe, seed: int = 0) -> ContextSet | None:
    """The context set of one sample.

    Args:
        sample: with its gold evidence and distractors.
        recipe: how to make the set.
        seed: of the run; random choices depend on it, the sample's id and the documents' ids alone.

    Returns:
        None if the recipe needs a modality that the sample lacks, has ``short=exclude`` and the sample has fewer than k
        distractors, or has a k above 0 and the sample has no distractors, or none among the first k of a kind that
        gold has; or too few stand in for gold.
    """
    gold = _of_modality(sample.gold, recipe.gold)
    shows_gold = recipe.scenario in (Scenario.ORACLE, Scenario.REALISTIC)
    if recipe.scenario not in WITHOUT_EVIDENCE and sample.answerable and not gold:
        return None
    if not sample.gold and (
        recipe.scenario is Scenario.FULL
        or (recipe.scenario is Scenario.GOLD_REMOVED and sample.answerable)
    ):
        return None  # without gold no corpus holds its answer; unanswerable questions are asked without it
    pool = distractors(sample, recipe, seed) if recipe.k else []
    if recipe.k and (not pool or (recipe.short == "exclude" and len(pool) < recipe.k)):
        return None
    if recipe.negatives == "both" and recipe.k < 2:
        return None
    stand_ins = len(gold) if recipe.pieces == "as-realistic" else 0
    if stand_ins and len(pool) < recipe.k + stand_ins:
        return None
    used_distractors = pool[: recipe.k + stand_ins]
    if recipe.k and recipe.negatives == "any" and not _kinds(gold) <= _kinds(used_distractors):
        return None
    visible_gold = gold if shows_gold else []
    arranged = _arrange(sample, visible_gold, used_distractors, recipe.order, seed)
    answers = shows_gold or recipe.scenario is Scenario.FULL
    gold_ids = tuple(e.id for e in arranged if e in visible_gold)
    return _with_id(
        sample=sample.id,
        scenario=recipe.scenario,
        evidence=tuple(e.id for e in arranged),
        gold=gold_ids,
        expected="answer" if answers and sample.answerable else "deflect",
        k_asked=recipe.k,
        k_used=len(used_distractors),
        recipe=str(recipe),
        seed=seed,
    )


def single(sample: Sample, evidence: str, seed: int = 0) -> ContextSet:
    """One distractor alone: the context of quality control (VLM-DeflectionBench, equation 5)."""
    return _with_id(
        sample=sample.id,
        scenario=Scenario.ADVERSARIAL,
        evidence=(evidence,),
        gold=(),
        expected="deflect",
        k_asked=1,
        k_used=1,
        recipe=f"single({evidence})",
        seed=seed,
    )


def _with_id(**body: Any) -> ContextSet:
    """A context set whose id is the hash of everything in it."""
    return ContextSet(id=digest(body, 16), **body)


def contexts(
    samples: Sequence[Sample], recipes: Sequence[Recipe], seed: int = 0
) -> Iterator[tuple[Sample, ContextSet]]:
    """Every possible (sample, context set), sample by sample, so that calls with a common prefix are neighbours."""
    for sample in samples:
        for recipe in recipes:
            context_set = context(sample, recipe, seed)
            if context_set is not None:
                yield sample, context_set


def grid(k: int = 2) -> tuple[Recipe, ...]:
    """The grid of VLM-DeflectionBench's Table 5, Realistic: gold text or image x distractors text, image or both."""
    sides: tuple[Side, ...] = ("both", "image", "text")
    return tuple(
        Recipe(Scenario.REALISTIC, k, gold=gold, negatives=side)
        for gold in ("text", "image")
        for side in sides
    )


MOST_POINTS = 1_000
"""Most points of a sweep: no sample has so many distractors, and each point asks every question again."""


def sweep(low: int, high: int) -> tuple[Recipe, ...]:
    """Realistic with low..high distractors (VLM-DeflectionBench, Figure 3); 0 shows the gold alone."""
    if not 0 <= low <= high:
        raise UsageError(f"distractors {low}:{high}", cure="give LOW:HIGH with 0 <= LOW <= HIGH")
    if high >= MOST_POINTS:
        raise UsageError(
            f"distractors {low}:{high}", cure=f"give a HIGH below {MOST_POINTS:,}, as in 0:10"
        )
    return tuple(Recipe(Scenario.REALISTIC, k) for k in range(low, high + 1))


def positions(low: int, high: int, k: int = 2) -> tuple[Recipe, ...]:
    """Realistic with gold at each position of low..high among k distractors, or more if the positions need it."""
    if not 0 <= low <= high < MOST_POINTS:
        raise UsageError(
            f"positions {low}:{high}",
            cure=f"give LOW:HIGH with LOW <= HIGH, and HIGH below {MOST_POINTS:,}",
        )
    return tuple(
        recipe(f"realistic(k={max(high, k)},order=gold@{at})") for at in range(low, high + 1)
    )
