"""Leaks: evidence that gives away a sample's answer, or that repeats its query image or gold. One rule for all stages.

Mining applies it to hits and to a source's own negatives, a pool for a release to gold evidence, verification to all
evidence of a release.

    gold                     gold evidence itself, a part of it, or what holds it (`demur.corpora.lineage`)
    query image              the very bytes of an image that is asked about (a passage's own picture counts too)
    near-duplicate of query  the same look, in another encoding or size
    near-duplicate of gold   the same words or the same look as gold evidence
    holds the answer         an answer or alias stands in title or text, type-aware (`demur.answers.holds`)
    may hold the answer      the answer may stand there in another shape (`demur.answers.doubtful`)

Evidence must not show the query image again (VLM-DeflectionBench, section 3), and a distractor must neither hold the
answer nor repeat gold evidence (section 3.2, equations 2 and 3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from demur.answers import holds
from demur.answers.doubtful import may_hold
from demur.answers.prefilter import Prefilter
from demur.core.records import Document, Drop, Evidence, ImageRef, Sample
from demur.core.store import seed_of
from demur.corpora.lineage import Gold
from demur.corpora.near_duplicates import IMAGE_NEAR, ImageHash, image_matcher, same_text

STAGE = "mine"
"""Stage of the drops, both of mined hits and of a source's own negatives."""
AS_QUERY = {"same bytes": "query image", "same look": "near-duplicate of query"}
IS = {
    "query image": "is the query image itself",
    "near-duplicate of query": "shows the query image, in another encoding or size",
}
"""The same as the end of a sentence about a piece of evidence."""


class Leaks:
    """The leaks of one sample.

    Args:
        image_hashes: of an image, see `demur.corpora.near_duplicates.ImageHashes`; without it only bytes are compared.
        image_near: bits, of 64, within which two images are near-duplicates; below 0 only bytes are compared.
        gold: the sample's gold evidence as it lies in an index; as it stands in the sample when None.
    """

    def __init__(
        self,
        sample: Sample,
        image_hashes: Callable[[ImageRef], ImageHash | None] = lambda image: None,
        *,
        image_near: int = IMAGE_NEAR,
        gold: Gold | None = None,
    ) -> None:
        self.lineage = gold or Gold(sample.gold)
        self._sample = sample
        self._as_query = image_matcher(sample.images, image_hashes, image_near)
        self._gold_texts = [(e.id, e.text) for e in sample.gold if e.text]
        self._as_gold = [
            (e.id, image_matcher([e.image], image_hashes, image_near))
            for e in sample.gold
            if e.image is not None
        ]

    @cached_property
    def _holds(self) -> Callable[[str], bool]:
        """Whether a text holds the answer; a cheap prefilter rejects most texts."""
        may = Prefilter(self._sample.answers)
        spec, question = self._sample.answers, self._sample.question
        return lambda text: may(text) and holds(spec, text, question)

    @cached_property
    def _may_hold(self) -> Callable[[str], bool]:
        return may_hold(self._sample.answers, self._sample.question)

    def query(self, item: Document | Evidence) -> str:
        """``query image``, ``near-duplicate of query``, or "" if the item shows no query image."""
        return AS_QUERY.get(self._as_query(item.image), "") if item.image is not None else ""

    def gold(self, item: Document | Evidence) -> str:
        """The id of the gold evidence whose words or picture an item repeats; "" if there is none."""
        if item.text is not None:
            return next((id for id, text in self._gold_texts if same_text(item.text, text)), "")
        image = item.image
        return (
            next((id for id, shows in self._as_gold if shows(image)), "")
            if image is not None
            else ""
        )

    def part(self, item: Document | Evidence) -> str:
        """The id of the gold evidence that an item is, is a part of, holds, or overlaps with; "" if there is none."""
        return next((e.id for e in self.lineage.parts(item)), "")

    def answer(self, item: Document | Evidence) -> bool:
        """Whether its title or text holds an answer."""
        return self._holds(_all_text(item))

    def of(self, item: Document | Evidence) -> tuple[str, str]:
        """(why the item cannot be a distractor, a detail); two "" if it can."""
        as_query = self.query(item)
        if as_query == AS_QUERY["same bytes"]:
            return as_query, ""
        if gold := self.part(item):
            return "gold", gold
        if gold := self.gold(item):
            return "near-duplicate of gold", gold
        if as_query:
            return as_query, ""
        if self.answer(item):
            return "holds the answer", self._sample.answers.display_form
        if self._may_hold(_all_text(item)):
            return "may hold the answer", self._sample.answers.display_form
        return "", ""


def _all_text(item: Document | Evidence) -> str:
    return f"{item.title}\n{item.text}" if item.text is not None else item.title


def adopt_negatives(sample: Sample, leaks: Leaks, seed: int) -> tuple[Sample, list[Drop]]:
    """The sample with its own negatives as distractors, by rank, without those that leak, and the drops.

    Negatives without a rank get theirs by a draw: a source lists texts before pictures, or by where they stand.
    """
    drawn = sorted(sample.negatives, key=lambda e: seed_of(seed, "adopt", sample.id, e.id))
    ranked = sorted(
        (place if e.rank is None else e.rank, place, e) for place, e in enumerate(drawn, 1)
    )
    negatives = tuple(e.model_copy(update={"rank": rank}) for rank, _, e in ranked)
    return without_leaks(sample.model_copy(update={"negatives": negatives}), leaks)


def without_leaks(sample: Sample, leaks: Leaks) -> tuple[Sample, list[Drop]]:
    """The sample without its negatives that leak, and a drop with its reason for each of those."""
    leak_of = {e.id: leaks.of(e) for e in sample.negatives}
    drops = [
        Drop(sample=sample.id, evidence=id, stage=STAGE, reason=reason, detail=detail)
        for id, (reason, detail) in leak_of.items()
        if reason
    ]
    safe_negatives = tuple(e for e in sample.negatives if not leak_of[e.id][0])
    return (sample.model_copy(update={"negatives": safe_negatives}) if drops else sample), drops


def unfit_reason(sample: Sample, image_hashes: Callable[[ImageRef], ImageHash | None]) -> str:
    """Why no release can hold this sample (`demur.release.verify` would refuse it); "" if one can."""
    if not sample.gold:
        return "it has no gold evidence"
    if not sample.answers.choices and holds(sample.answers, sample.question, sample.question):
        return "the answer stands in the question"
    leaks = Leaks(sample, image_hashes)
    return next(
        (f"its gold evidence {IS[why]}: {e.id}" for e in sample.gold if (why := leaks.query(e))), ""
    )
