"""Two agents on one question: a Reasoner answers, a Verifier approves, abstains, or asks for a revision.

    multi_agent:MODEL                             sequential: one answer, one verdict (approve or abstain)
    multi_agent:MODEL?mode=iterative              up to three rounds; abstains where the last one is not approved
    multi_agent:MODEL?mode=iterative&rounds=2&verifier=OTHER

The controller between them is code. The Reasoner is prompted as any model is, under the condition of the run; the
Verifier's feedback follows that prompt. A REQUEST_REVISION where none is allowed (sequential, last
round) counts as ABSTAIN, and the log says so. An unreadable verdict is this item's failure, not an abstention.
Each reply's ``reasoning`` holds the log as JSON: `Log`. Source: "MM-AQA", appendix H.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import ValidationError

from demur.core.errors import ItemError, TransientError, UsageError
from demur.core.records import Ask, Message, Record, Request, Response, TextPart, Usage
from demur.core.spec import Option, named
from demur.core.store import digest, parsed_json
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    from demur.scenarios.systems import SystemContext

Decision = Literal["APPROVE", "ABSTAIN", "REQUEST_REVISION"]
ABSTENTION = "I Don't Know"
OPTIONS: dict[str, Option | str] = {
    "mode": Option("sequential or iterative", ("sequential", "iterative")),
    "rounds": Option("rounds of iterative mode", range(1, 11)),
    "verifier": "model string of the Verifier (default: the Reasoner's)",
}
_FIELD = re.compile(
    r"^[ \t*#>_`-]*(DECISION|EXPLANATION|FEEDBACK|FINAL[_ ]ANSWER)[ \t*_`]*[:-][ \t]*", re.I | re.M
)
_WORDS = re.compile(r"\b(APPROVE|ABSTAIN|REQUEST[_ ]REVISION)\b", re.IGNORECASE)


class Round(Record):
    """One round: the proposed answer, and the Verifier's decision with its reasons."""

    candidate: str
    decision: Decision
    coerced: bool = False
    """The Verifier asked for a revision where none was allowed; the decision is ABSTAIN."""
    explanation: str = ""
    feedback: str = ""


class Log(Record):
    """The rounds of one item."""

    multi_agent: Literal["sequential", "iterative"]
    rounds: tuple[Round, ...]

    @property
    def overridden(self) -> bool:
        """Whether the Verifier's abstention replaces the Reasoner's answer."""
        return self.rounds[-1].decision == "ABSTAIN"


class Ruling(NamedTuple):
    """A Verifier's reply; ``decision`` is None if it gives none, or several."""

    decision: Decision | None
    explanation: str = ""
    feedback: str = ""


def read_ruling(reply: str) -> Ruling:
    r"""Parse a Verifier's reply.

    >>> read_ruling("DECISION: REQUEST REVISION\nEXPLANATION: too small\nFEEDBACK: look left").feedback
    'look left'
    >>> read_ruling("I would approve or abstain.").decision is None
    True
    """
    found = list(_FIELD.finditer(reply))
    ends = [*(m.start() for m in found[1:]), len(reply)]
    fields = {
        m[1].upper(): reply[m.end() : end].strip() for m, end in zip(found, ends, strict=False)
    }
    first = fields.get("DECISION", "").partition("\n")[0]
    words = {w.upper().replace(" ", "_") for w in _WORDS.findall(first)}
    decision: Any = words.pop() if len(words) == 1 else None
    return Ruling(decision, fields.get("EXPLANATION", "")[:2000], fields.get("FEEDBACK", "")[:2000])


def read_log(response: Response) -> Log | None:
    """The log of a multi-agent system's reply; None for other systems."""
    if not response.reasoning.startswith('{"multi_agent"'):
        return None
    try:
        return Log.model_validate(parsed_json(response.reasoning))
    except (ValueError, ValidationError):
        return None


class MultiAgent(ModelSystem):
    """Reasoner and Verifier over model calls (see the module).

    Args:
        argument: a model string, and options after a question mark.
        context: as for any model.
    """

    def __init__(self, argument: str, context: SystemContext) -> None:
        spec = named("multi_agent", argument, OPTIONS)
        super().__init__(spec.argument, context)
        self.mode: Literal["sequential", "iterative"] = (
            "iterative" if spec.options.get("mode") == "iterative" else "sequential"
        )
        if self.mode == "sequential" and "rounds" in spec.options:
            raise UsageError(
                "sequential mode has one round",
                item=argument,
                cure="mode=iterative, or leave rounds out",
            )
        self.rounds = int(spec.options.get("rounds", 3)) if self.mode == "iterative" else 1
        other = spec.options.get("verifier", "")
        self._verifier = ModelSystem(other, context) if other else self
        self.id = f"multi_agent:{self.id.removeprefix('model:')}?mode={self.mode}"
        if self.mode == "iterative" and self.rounds != 3:
            self.id += f"&rounds={self.rounds}"
        if other:
            self.id += f"&verifier={self._verifier.id.removeprefix('model:')}"
        self._prompt = (
            files("demur_suites.systems")
            .joinpath("prompts", "verifier.v1.md")
            .read_text(encoding="utf-8")
        )

    @property
    def models(self) -> tuple[str, ...]:
        """Those of both agents."""
        return (
            super().models if self._verifier is self else (*super().models, *self._verifier.models)
        )

    @property
    def revision(self) -> str:
        """That of both agents."""
        both = [self.weights, self._verifier.weights]
        return self.weights if self._verifier is self else digest(both, 16) if any(both) else ""

    async def answer(self, ask: Ask) -> Response:
        """Run the rounds of answer and verdict."""
        calls: list[Response] = []
        rounds: list[Round] = []
        try:
            while not rounds or rounds[-1].decision == "REQUEST_REVISION":
                proposal = await self._call(self, self._proposed(ask, rounds))
                calls.append(proposal)
                final = len(rounds) + 1 == self.rounds
                examined = self._examined(ask, proposal.text, final)
                calls.append(await self._call(self._verifier, examined))
                ruling = read_ruling(calls[-1].text)
                if ruling.decision is None:
                    return _whole(Response(error="the Verifier's reply holds no decision"), calls)
                coerced = final and ruling.decision == "REQUEST_REVISION"
                rounds.append(
                    Round(
                        candidate=proposal.text,
                        decision="ABSTAIN" if coerced else ruling.decision,
                        coerced=coerced,
                        explanation=ruling.explanation,
                        feedback=ruling.feedback,
                    )
                )
        except (ItemError, TransientError) as error:
            return _whole(Response(error=str(error)), calls)
        log = Log(multi_agent=self.mode, rounds=tuple(rounds)).model_dump(mode="json")
        response = Response(text=rounds[-1].candidate, reasoning=json.dumps(log))
        if rounds[-1].decision == "ABSTAIN":
            why = " ".join(rounds[-1].explanation.split()) or "the Verifier gave no reason"
            text = f"EXPLANATION - {why}\nFINAL ANSWER - {ABSTENTION}"
            response = response.model_copy(update={"text": text, "abstained": True})
        return _whole(response, calls)

    def _proposed(self, ask: Ask, rounds: Sequence[Round]) -> Request:
        """The Reasoner's request: the question, and the Verifier's feedback on the last answer."""
        request = self.request(ask)
        advice = rounds[-1].feedback or rounds[-1].explanation if rounds else ""
        if not advice:
            return request
        *before, last = request.messages
        words = (
            f"\n\nA verifier sent your last answer back with this advice:\n{advice}\nAnswer again."
        )
        message = Message(role=last.role, parts=(*last.parts, TextPart(text=words)))
        return request.model_copy(update={"messages": (*before, message)})

    async def _call(self, agent: ModelSystem, request: Request) -> Response:
        return await (await agent._opened()).complete(request)

    def _examined(self, ask: Ask, candidate: str, final: bool) -> Request:
        """The Verifier's request: its rules, the question with its images and evidence, and the proposed answer."""
        stage = (
            ""
            if self.mode == "sequential"
            else f"\nITERATION_STAGE: {'FINAL' if final else 'NON_FINAL'}"
        )
        request = self._verifier.request(ask)
        words = Template(self._prompt).safe_substitute(
            mode=f"MODE: {self.mode.upper()}{stage}", candidate=candidate
        )
        message = Message(
            role="user", parts=(*request.messages[-1].parts, TextPart(text=f"\n\n{words}"))
        )
        return request.model_copy(update={"messages": (message,)})

    async def close(self) -> None:
        """Close both agents' connections."""
        if self._verifier is not self:
            await self._verifier.close()
        await super().close()


def _whole(response: Response, calls: list[Response]) -> Response:
    """The response with tokens and seconds summed over all calls."""
    usage: dict[str, Any] = {
        name: sum(getattr(c.usage, name) for c in calls)
        for name in ("prompt", "completion", "cached", "reasoning")
    }
    latency = sum(c.latency_s for c in calls)
    served = calls[-1].served_by if calls else ""
    return response.model_copy(
        update={"usage": Usage(**usage), "latency_s": latency, "served_by": served}
    )
