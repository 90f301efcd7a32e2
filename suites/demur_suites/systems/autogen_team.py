"""The Reasoner and the Verifier as an AutoGen round-robin team (extra: ``autogen``).

AutoGen passes the messages and ends the conversation; the calls are the same as without it, so ledger, budget and log
work as usual. Source: "MM-AQA", appendix H, which ran on AutoGen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import Any

from demur.core.errors import MissingExtra
from demur_suites.extras import CLONE


def require_autogen() -> None:
    """Raise MissingExtra if AutoGen is not installed."""
    if find_spec("autogen_agentchat") is None:
        raise MissingExtra(
            "agents by AutoGen", extra="autogen", module="autogen-agentchat", package=CLONE
        )


async def run_team(
    question: str,
    propose: Callable[[], Awaitable[str]],
    rule: Callable[[str], Awaitable[str | None]],
    rounds: int,
) -> None:
    """Let the two speak in turn until the Verifier approves or abstains.

    Args:
        question: the team's task.
        propose: the Reasoner's turn; its answer.
        rule: the Verifier's turn on an answer; its decision, None if it gives none.
        rounds: turns of each, at most.

    Raises:
        DemurError: a call failed.
    """
    from autogen_agentchat.agents import BaseChatAgent
    from autogen_agentchat.base import Response
    from autogen_agentchat.conditions import FunctionalTermination
    from autogen_agentchat.messages import TextMessage
    from autogen_agentchat.teams import RoundRobinGroupChat

    base: Any = BaseChatAgent  # untyped without the library
    failed: list[Exception] = []  # AutoGen would pass on only its text

    class Agent(base):  # type: ignore[misc]
        """One of the two."""

        @property
        def produced_message_types(self) -> Sequence[type[Any]]:
            return (TextMessage,)

        async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
            decision: str | None = ""
            text = ""
            try:
                if self.name == "reasoner":
                    text = await propose()
                else:
                    decision = await rule(messages[-1].content)
            except Exception as error:
                failed.append(error)
                decision = None
            last = self.name == "verifier" or failed
            ends = {"ends": str(bool(last and decision != "REQUEST_REVISION"))}
            return Response(
                chat_message=TextMessage(
                    content=text or str(decision), source=self.name, metadata=ends
                )
            )

        async def on_reset(self, cancellation_token: Any) -> None:
            return None

    def ended(messages: Sequence[Any]) -> bool:
        return any(getattr(m, "metadata", {}).get("ends") == "True" for m in messages)

    team = RoundRobinGroupChat(
        [Agent("reasoner", "answers"), Agent("verifier", "judges the answer")],
        termination_condition=FunctionalTermination(ended),
        max_turns=2 * rounds,
    )
    await team.run(task=question)
    if failed:
        raise failed[0]
