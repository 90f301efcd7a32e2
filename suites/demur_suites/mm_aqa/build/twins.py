"""Making one twin: transform, check for free, let a model try to answer it, let two vote.

    select -> transform -> structure, free checks -> self-verification -> consensus of two
       ^ up to 3 alternatives ^                    refined and tried again, up to 5 times; or to people

Every choice, attempt and vote is in the pair's `Decision`. Source: sections 4 and C to F.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import DemurError, ItemError, MissingExtra, PermanentError
from demur.core.images import image_ref, rgb
from demur.core.records import ImageRef
from demur.core.store import seed_of
from demur_suites.files import keep_image
from demur_suites.mm_aqa.build.decisions import Attempt, Decision, Status
from demur_suites.mm_aqa.build.models import LEVEL_TOKENS, VOTE_TOKENS, Models, Shown
from demur_suites.mm_aqa.build.ocr import Reader
from demur_suites.mm_aqa.build.people import with_choices
from demur_suites.mm_aqa.build.pool import Answerable
from demur_suites.mm_aqa.build.routing import (
    Judged,
    dependency_by_rules,
    kinds,
    question_kind,
    read_dependency,
    visual_words,
)
from demur_suites.mm_aqa.build.selecting import Choice, Features, Selected
from demur_suites.mm_aqa.build.transforms import Altered, Infeasible, Original, transform
from demur_suites.mm_aqa.build.transforms.pages import blur, figure, mask
from demur_suites.mm_aqa.build.transforms.questions import years
from demur_suites.mm_aqa.build.transforms.reading import grids, numeric
from demur_suites.mm_aqa.build.verifying import (
    Vote,
    passes,
    read_vote,
    still_answerable,
    structural,
)
from demur_suites.mm_aqa.conditions import filled
from demur_suites.mm_aqa.items import Subset

if TYPE_CHECKING:
    from PIL.Image import Image

ALTERNATIVES, RETRIES = 3, 5
"""Other transformations, where the verifier can still answer a twin; turns after the panel rejected one."""
HARDER = 0.25
"""Strength that each retry adds."""


class Begun(NamedTuple):
    """A pair before its twin is made.

    Attributes:
        question: with its answer.
        images: decoded.
        refs: of the images in the set's folder.
        features: for the selector.
        told: how the features were found.
        failed: why no twin can be made of it; "" where one can.
    """

    question: Answerable
    images: tuple[Image, ...] = ()
    refs: tuple[ImageRef, ...] = ()
    features: Features = Features("images")
    told: tuple[str, ...] = ()
    failed: str = ""

    def decision(self, status: Status, **fields: Any) -> Decision:
        """The decision on it."""
        a = self.question
        return Decision(
            pair=a.id,
            subset=a.subset,
            status=status,
            source_question=a.question,
            answers=a.answers,
            topic=a.topic,
            licence=a.licence,
            **({"source_images": self.refs} | fields),
        )


class Twin(NamedTuple):
    """A twin that is sound, and that the verifier cannot answer."""

    name: str
    original: Original
    altered: Altered
    vote: Vote | None


@dataclass
class Maker:
    """Makes the twins of one set.

    Attributes:
        out: the set's folder.
        seed: of random choices.
        models: opened.
        reader: of the words on pages.
        others: subset -> (question, answer) of its questions.
        similar: cosine of two questions' embeddings; None to compare their words.
        faults: errors that demur did not foresee.
    """

    out: Path
    seed: int
    models: Models
    reader: Reader
    others: dict[Subset, tuple[tuple[str, str], ...]]
    similar: Callable[[str, str], float] | None
    faults: list[Exception] = field(default_factory=list)

    def begin(self, a: Answerable) -> Begun:
        """A pair's images, the words on them, and its features."""
        try:
            pictures = a.pictures()
            images = tuple(rgb(p.data, a.id) for p in pictures)
            for image, p in zip(images, pictures, strict=True):
                if p.words is not None:
                    self.reader.know(image, p.words)
            refs = tuple(keep_image(self.out, p.data) for p in pictures)
            shown = [Shown(ref, p.data) for ref, p in zip(refs, pictures, strict=True)]
            features, told = self._features(a, images, shown)
            return Begun(a, images, refs, features, told)
        except Exception as error:  # whatever it is, it costs this pair alone
            return Begun(a, failed=self._why(error))

    def decide(self, begun: Begun, selected: Selected) -> Decision:
        """The decision on a pair; an error of this pair alone is the decision "failed"."""
        if begun.failed:
            return begun.decision("failed", told=(begun.failed,))
        attempts: list[Attempt] = []
        try:
            return self._pair(begun, selected, attempts)
        except Exception as error:
            of = f"{attempts[-1].transform}: " if attempts else ""
            return begun.decision("failed", source_images=(), told=(of + self._why(error),))

    def _why(self, error: Exception) -> str:
        """The reason of a pair that failed; raises what ends the build."""
        if not isinstance(error, DemurError):
            self.faults.append(error)
            return f"{type(error).__name__}: {error}"
        permanent = isinstance(error, PermanentError) and not isinstance(error, ItemError)
        # the budget is used up, a model refuses everything, or a package is missing
        if permanent or error.exit_code == 3 or isinstance(error, MissingExtra):
            raise error
        return str(error)

    def _features(
        self, a: Answerable, images: tuple[Image, ...], shown: Sequence[Shown]
    ) -> tuple[Features, tuple[str, ...]]:
        rewriter = self.models.rewriter
        common: dict[str, Any] = {
            "images": len(images),
            "dated": bool(years(a.question) or (rewriter and "temporal" in kinds(a.question))),
            "has_model": bool(rewriter),
            "complexity": min(1.0, len(a.question.split()) / 40),
            "others": len(self.others[a.subset]) - 1,
            "quantitative": a.answers.kind == "number"
            or any(c.isdigit() for c in a.answers.display_form),
            "visual": visual_words(a.question),
        }
        if a.subset == "images":
            judged = dependency_by_rules(a.question, len(images))
            if rewriter:
                prompt = filled("dependency.v1.md", question=with_choices(a.question, a.answers))
                reply = self.models.ask(rewriter, prompt, shown, a.id, LEVEL_TOKENS)
                if level := read_dependency(reply):
                    judged = Judged(level, "model", reply.strip()[:100])
            told = f"{judged.dependency} by {judged.by}: {judged.why}"
            return Features("images", dependency=judged.dependency, **common), (told,)
        words = [self.reader(image) for image in images]
        features = Features(
            "documents",
            kind=question_kind(a.question),
            kinds=kinds(a.question),
            tables=sum(len(grids(w)) for w in words),
            figures=sum(figure(i, w) is not None for i, w in zip(images, words, strict=True)),
            numbers=sum(numeric(w) for page in words for w in page),
            **common,
        )
        return features, ()

    def _pair(self, begun: Begun, selected: Selected, attempts: list[Attempt]) -> Decision:
        names = [c.name for c in selected.order]
        told = (*begun.told, *selected.reasons)
        shared = {
            "first": names[0] if names else "",
            # the eligible ones first, as they are tried
            "ranking": [*{c.name: (c.name, round(c.score, 3)) for c in selected.all}.values()],
        }
        for turn in range(1 + RETRIES):
            start = turn % max(len(names), 1)  # refined: the next ones in the ranking, and stronger
            twin = self._candidate(begun, [*names[start:], *names[:start]], turn, attempts)
            if twin is None:
                break
            shown = [_png(image) for image in twin.altered.images]
            votes = tuple(
                self._vote(m, twin.altered.question, shown, begun.question)
                for m in self.models.panel
            )
            attempt = Attempt(transform=twin.name, turn=turn, verifier=twin.vote, panel=votes)
            filed = tuple(keep_image(self.out, data) for _, data in shown)
            if attempt.consensus == "rejected":  # kept, so that people can look at this side too
                update = {
                    "question": twin.altered.question,
                    "images": filed,
                    "why": "panel: answerable",
                }
                attempts.append(attempt.model_copy(update=update))
                continue
            attempts.append(attempt)
            choice = selected.choice(twin.name)
            params = {
                **twin.altered.measured,
                "seed": twin.original.seed,
                "strength": twin.original.strength,
                "score": round(choice.score, 3) if choice else 0.0,
            }
            if twin.name != shared["first"]:
                told = (*told, *_in_its_place(twin.name, choice))
            return begun.decision(
                attempt.consensus or "unchecked",  # type: ignore[arg-type]
                transform=twin.name,
                question=twin.altered.question,
                images=filed,
                params=params,
                told=told,
                attempts=attempts,
                **shared,
            )
        return begun.decision("rejected", told=told, attempts=attempts, **shared)

    def _candidate(
        self, begun: Begun, names: Sequence[str], turn: int, attempts: list[Attempt]
    ) -> Twin | None:
        """The first twin that is sound and passes self-verification, after at most three that do not pass."""
        a = begun.question
        chain: list[tuple[str, Callable[[Original], Altered]]] = [
            (n, transform(n).apply) for n in names
        ]
        if a.subset == "documents":
            chain += [("blur-figure-region", blur), ("remove-visual-element", mask)]
        answered = 0
        for name, apply in chain:
            if answered > ALTERNATIVES:
                break
            original = Original(
                a.question,
                begun.images,
                a.answers,
                seed=seed_of(self.seed, a.id, name, turn) % 2**31,
                strength=1 + HARDER * turn,
                words=self.reader,
                rewrite=self.models.rewriter_of(a.id),
                others=self.others[a.subset],
                similar=self.similar,
            )
            attempt = Attempt(transform=name, turn=turn)
            attempts.append(attempt)
            try:
                altered = apply(original)
                why = structural(original, altered) or still_answerable(name, original, altered)
            except Infeasible as error:
                why = error.message
            vote = None
            if not why and self.models.verifier:
                shown = [_png(image) for image in altered.images]
                vote = self._vote(self.models.verifier, altered.question, shown, a)
                if not passes(vote):
                    answered += 1
                    why = f"self-verification: {vote.says} {vote.confidence}".strip()
            if not why:
                attempts.pop()  # the panel's votes are still to come
                return Twin(name, original, altered, vote)
            attempts[-1] = attempt.model_copy(update={"why": why, "verifier": vote})
        return None

    def _vote(self, model: str, question: str, shown: Sequence[Shown], a: Answerable) -> Vote:
        prompt = filled("verify.v1.md", question=with_choices(question, a.answers))
        return read_vote(self.models.ask(model, prompt, shown, a.id, VOTE_TOKENS))


def _in_its_place(name: str, choice: Choice | None) -> tuple[str, ...]:
    if choice is None:
        return (f"{name} in its place",)
    return (f"{name} in its place: score {choice.score:.2f}", *choice.why)


def _png(image: Image) -> Shown:
    data = io.BytesIO()
    image.save(data, "PNG")
    return Shown(image_ref(data.getvalue(), "memory"), data.getvalue())
