"""Is a twin sound, and is it unanswerable? Structure, what can be told for free, one model's vote, the consensus of two.

    structural    as many images, of the same sizes; a question; something has changed
    free          the answer does not stand on what is left of the pages; half a picture is not counted;
                  a veil needs labels to mask
    self          a model sees only the twin: UNANSWERABLE passes, ANSWERABLE with LOW confidence too (Q10)
    consensus     two models that do not see the original: both UNANSWERABLE accept, both ANSWERABLE (with a
                  justification) reject, anything else goes to people

A reply that cannot be read is no vote: it is *unread*, and sends the twin to people, never to acceptance.
Source: appendices E and F.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from demur.answers import holds
from demur.core.records import AnswerSpec
from demur_suites.mm_aqa.build.routing import kinds
from demur_suites.mm_aqa.build.transforms import Altered, Original, transform
from demur_suites.mm_aqa.build.transforms.drawing import changed

if TYPE_CHECKING:
    from PIL.Image import Image


def structural(original: Original, altered: Altered) -> str:
    """What is wrong with a twin's structure; "" when it is sound."""
    if not altered.question.strip():
        return "the question is empty"
    if len(altered.images) != len(original.images):
        return f"{len(altered.images)} images instead of {len(original.images)}"
    for number, (before, after) in enumerate(
        zip(original.images, altered.images, strict=True), start=1
    ):
        if before.size != after.size:
            return f"image {number} is {after.size[0]} x {after.size[1]}, not {before.size[0]} x {before.size[1]}"
    if (
        altered.question == original.question
        and share_changed(original.images, altered.images) < 0.001
    ):
        return "nothing has changed"
    return ""


def share_changed(before: Sequence[Image], after: Sequence[Image]) -> float:
    """Share of pixels that differ, of all images together."""
    area = sum(i.width * i.height for i in before)
    return sum(
        changed(a, b) * a.width * a.height for a, b in zip(before, after, strict=True)
    ) / max(area, 1)


STANDS_BESIDE = ("column-merge", "distractor-rows")
"""Transformations that leave the answer on the page, where nobody can know that it is the one."""


LABELS = 3
"""Fewer words on a picture are no labels: a sign, or a window that was read as an O."""


def still_answerable(name: str, original: Original, altered: Altered) -> str:
    """Why a twin can still be answered, as far as that can be told without a model; "" where it cannot be told.

    The answer is looked for among the words whose pixels did not change. Half a picture shows a number of things, too:
    whoever counts them answers. That the wanted row of a table is changed, `transforms.pages` sees to.
    """
    if transform(name).changes == "question":
        return ""
    if name == "aggressive-crop" and "counting" in kinds(original.question):
        return "half a picture still holds something to count"
    if name == "overlay-label-mask" and altered.measured["labels"] < LABELS:
        return f"fewer than {LABELS} labels to mask, and a veil alone hides no picture"
    if name in STANDS_BESIDE:
        return ""
    answers = AnswerSpec(accepted=tuple((form,) for form in original.accepted))
    for before, after in zip(original.images, altered.images, strict=True):
        left = [w.text for w in original.words(before) if before.crop(w.box) == after.crop(w.box)]
        if left and original.accepted and holds(answers, " ".join(left)):
            return "the answer still stands on the page"
    return ""


class Vote(NamedTuple):
    """One model's vote on a twin; its confidence is low, medium, high, or "" where it states none."""

    says: Literal["answerable", "unanswerable", "unread"]
    confidence: str = ""
    justification: str = ""


_SAYS = re.compile(r"^[^\w\n]*(?:VERDICT|DECISION)\W*(UNANSWERABLE|ANSWERABLE)\b", re.I | re.M)
_SURE = re.compile(r"^[^\w\n]*CONFIDENCE\W*(LOW|MEDIUM|HIGH)\b", re.I | re.M)
_WHY = re.compile(r"^[^\w\n]*(?:JUSTIFICATION|REASON)\W*:?[ \t]*(.+)", re.I | re.M)


def read_vote(reply: str) -> Vote:
    r"""A vote, from lines VERDICT, CONFIDENCE and JUSTIFICATION; unread without a VERDICT, or with two different ones.

    >>> read_vote("VERDICT: ANSWERABLE\nCONFIDENCE: LOW")
    Vote(says='answerable', confidence='low', justification='')
    """
    found = {m.lower() for m in _SAYS.findall(reply)}
    if len(found) != 1:
        return Vote("unread", justification=reply[:200])
    sure, why = _SURE.search(reply), _WHY.search(reply)
    says: Literal["answerable", "unanswerable"] = (
        "unanswerable" if "unanswerable" in found else "answerable"
    )
    return Vote(says, sure[1].lower() if sure else "", why[1].strip()[:400] if why else "")


def passes(vote: Vote) -> bool:
    """Self-verification: UNANSWERABLE, or ANSWERABLE with LOW confidence."""
    return vote.says == "unanswerable" or (vote.says == "answerable" and vote.confidence == "low")


Consensus = Literal["accepted", "rejected", "human"]


def consensus(first: Vote, second: Vote) -> Consensus:
    """The rule of two."""
    says = (first.says, second.says)
    if says == ("unanswerable", "unanswerable"):
        return "accepted"
    if says == ("answerable", "answerable") and (first.justification or second.justification):
        return "rejected"
    return "human"
