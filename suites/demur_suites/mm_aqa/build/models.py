"""The models of a build: one that rewrites, one that checks each twin, and the two of the panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial, reduce
from operator import add
from pathlib import Path
from string import Template
from typing import NamedTuple

from demur.core.errors import ItemError, UsageError
from demur.core.images import image_ref
from demur.core.records import ImagePart, ImageRef, Message, Request, TextPart
from demur.core.worker import Worker
from demur.models import (
    Budget,
    Estimate,
    ModelOptions,
    estimate_calls,
    model_id,
    open_model,
    run_sync,
)
from demur.models.lenient import LenientModel
from demur.models.ping import ping
from demur_suites.files import note_asked_without
from demur_suites.mm_aqa.build.people import with_choices
from demur_suites.mm_aqa.build.pool import Answerable
from demur_suites.mm_aqa.conditions import filled, text

REWRITE_TOKENS, VOTE_TOKENS, LEVEL_TOKENS = 200, 200, 20


class Shown(NamedTuple):
    """An image as a model is shown it."""

    ref: ImageRef
    data: bytes


class Models:
    """The models of a build; "" for none.

    Args:
        rewriter: rewrites questions, writes notes, and judges how much a question needs its image.
        verifier: checks each twin.
        panel: the two of the consensus, or none.
        ledger: keeps replies, each paid for once.
        budget: US dollars that all may cost; None for no bound.
        concurrency: calls in flight at each.
    """

    def __init__(
        self,
        rewriter: str = "",
        verifier: str = "",
        panel: tuple[str, ...] = (),
        *,
        ledger: Path = Path("calls.sqlite"),
        budget: float | None = None,
        concurrency: int = 8,
    ) -> None:
        self.rewriter, self.verifier, self.panel = rewriter, verifier, panel
        self.ledger, self.concurrency = ledger, concurrency
        self.names = tuple(dict.fromkeys(filter(None, (rewriter, verifier, *panel))))
        self._budget = budget
        self._opened: dict[str, LenientModel] = {}
        self._shown: dict[str, bytes] = {}
        self._stack = AsyncExitStack()
        self._calls = Worker("mm-aqa-calls")

    def __enter__(self) -> Models:
        """Open each model once, on a thread of their own.

        That every model answers is checked here for a new set; for one that was begun before, ahead of a model's first
        call whose reply is not kept.

        Raises:
            DemurError: one of them does not answer.
        """

        async def opened() -> None:
            begun = self.ledger.is_file()
            for name in () if begun else self.names:
                await ping([name], lists=False)
            bound = None if self._budget is None else Budget(self._budget).recorded_in(self.ledger)
            for name in self.names:
                model = open_model(
                    name,
                    ModelOptions(
                        ledger=self.ledger,
                        concurrency=self.concurrency,
                        budget=bound,
                        read_image=lambda ref: self._shown[ref.sha256],
                        before_first=partial(ping, [name], lists=False) if begun else None,
                    ),
                )
                self._opened[name] = LenientModel(await self._stack.enter_async_context(model))

        try:
            run_sync(self._calls.run(opened()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all connections, and the thread."""

        async def closed() -> None:
            await self._calls.run(self._stack.aclose())
            await self._calls.close()

        run_sync(closed())

    def forget_images(self) -> None:
        """Forget the images of finished calls."""
        self._shown.clear()

    def ask(
        self, model: str, prompt: str, pictures: Sequence[Shown], item: str, max_tokens: int
    ) -> str:
        """One reply, from any thread; "" where this one call fails.

        Raises:
            DemurError: the model cannot be reached, refuses everything, or the budget is used up.
        """
        self._shown |= {ref.sha256: data for ref, data in pictures}
        request = _request(model, prompt, [ref for ref, _ in pictures], item, max_tokens)

        async def reply() -> str:
            try:
                response = await self._opened[model].complete(request)
            except ItemError:
                return ""
            note_asked_without(self.ledger.parent, request.model, response)
            return response.text

        return run_sync(self._calls.run(reply()))

    def rewriter_of(self, item: str) -> Callable[[str, dict[str, str]], str] | None:
        """What a transformation calls for another question: (name of a prompt, its fields) -> reply; None without."""
        if not self.rewriter:
            return None

        def rewrite(prompt: str, words: dict[str, str]) -> str:
            task = text(prompt)
            whole = task if "$question" in task else text("rewrite.v1.md").replace("$task", task)
            filled_prompt = Template(whole).safe_substitute(words)
            return self.ask(self.rewriter, filled_prompt, (), item, REWRITE_TOKENS)

        return rewrite

    def planned(self, questions: Sequence[Answerable]) -> Estimate:
        """The cost of these pairs: one call of each stage for each; alternatives and retries add to it.

        Raises:
            UsageError: no model is named.
        """
        if not self.names:
            raise UsageError(
                "no model is named, so the build costs nothing", cure="leave --plan out"
            )
        stages = [
            ("dependency", self.rewriter, "dependency.v1.md", LEVEL_TOKENS),
            ("rewrite", self.rewriter, "rewrite.v1.md", REWRITE_TOKENS),
            ("self-verification", self.verifier, "verify.v1.md", VOTE_TOKENS),
            *(
                (f"consensus {n}", m, "verify.v1.md", VOTE_TOKENS)
                for n, m in enumerate(self.panel, 1)
            ),
        ]
        refs = {
            a.id: [image_ref(p.data, f"{a.id}/{n}") for n, p in enumerate(a.pictures())]
            for a in questions
        }
        estimates = []
        for stage, model, prompt, max_tokens in stages:
            requests = []
            for a in questions if model else ():
                shown = with_choices(a.question, a.answers)
                words = filled(prompt, question=shown, answer=a.answers.display_form, task="")
                images = [] if stage == "rewrite" else refs[a.id]
                requests.append(_request(model, words, images, a.id, max_tokens))
            if model:
                estimates.append(estimate_calls(stage, model, requests, ledger=self.ledger))
        return reduce(add, estimates)


def _request(
    model: str, prompt: str, refs: Sequence[ImageRef], item: str, max_tokens: int
) -> Request:
    """A call with images before its words, at temperature 0."""
    parts = (*(ImagePart(image=ref) for ref in refs), TextPart(text=prompt))
    return Request(
        model=model_id(model),
        messages=(Message(role="user", parts=parts),),
        temperature=0.0,
        max_tokens=max_tokens,
        item=item,
    )
