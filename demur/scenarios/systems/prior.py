"""A question-only prior: it gives the answer of the most similar other questions.

A question that it answers can be answered without evidence, from regularities of the question set alone ("the highest
export is usually petroleum"). It serves as a gate: such questions are dropped, because a right answer to them does not
show that a system used the evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from demur.core.errors import UsageError
from demur.core.records import Ask, Response, Sample
from demur.core.spec import Option, named
from demur.core.store import digest
from demur.core.version import __version__

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.scenarios.systems import SystemContext

OPTIONS = {"k": Option("neighbours that vote, from 1", range(1, 1_000_001))}


class Prior:
    """Leave-one-out nearest questions by sentence embedding; votes weighted by similarity.

    Args:
        argument: ``?k=N``, the neighbours; 15 when empty.
        context: needs ``embed`` and a ``pool`` of questions with answers.
    """

    reads_prompt = False

    def __init__(self, argument: str, context: SystemContext) -> None:
        rest, options = named("prior", argument, OPTIONS)
        if rest:
            raise UsageError("it takes no argument", item=f"prior:{rest}", cure="write prior?k=15")
        if context.embed is None or not context.pool:
            raise UsageError("the prior needs an encoder and a pool of questions", item="prior")
        self.k = int(options.get("k", 15))
        self.id = f"prior?k={self.k}"
        self.note = f"question-only prior: the answers of the {self.k} most similar other questions, leave-one-out"
        self._place = {sample.id: i for i, sample in enumerate(context.pool)}
        self._pool: Sequence[Sample] = context.pool
        self._embed = context.embed
        self.revision = digest([__version__, context.of_pool()], 16)

    @cached_property
    def _vectors(self) -> npt.NDArray[np.float32]:
        """(questions, d); computed with the first answer, on the answering thread."""
        return self._embed([s.question for s in self._pool])

    def skip_reason(self, ask: Ask) -> str:
        """It answers only questions of its pool."""
        return "" if ask.sample in self._place else "the question is not in the prior's pool"

    async def answer(self, ask: Ask) -> Response:
        """The answer with the largest vote among the nearest other questions; ties go to the nearer question."""
        own_place = self._place[ask.sample]
        vectors = self._vectors
        similarity = vectors @ vectors[own_place]
        similarity[own_place] = -2.0
        # Rounded, so that ties are the same on every machine; then in the order of the pool.
        order = sorted(range(len(similarity)), key=lambda i: (-round(float(similarity[i]), 5), i))[
            : self.k
        ]
        votes: dict[str, float] = defaultdict(float)
        for i in order:
            if i != own_place:
                votes[self._pool[i].answers.display_form] += max(
                    0.0, round(float(similarity[i]), 5)
                )
        best = max(votes, key=lambda answer: votes[answer])
        total = sum(votes.values())
        return Response(
            text=best, confidence=round(votes[best] / total, 6) if total else 0.0, served_by=self.id
        )

    async def close(self) -> None:
        """Nothing to close."""
