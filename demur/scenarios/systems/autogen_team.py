"""The Reasoner and the Verifier as a round-robin team of AutoGen's (extra: ``autogen``).

AutoGen hands the messages on and ends the talk; what the two say comes from the same calls as without it, so that
ledger, budget and log stay one. Source: "MM-AQA", appendix H, which ran on AutoGen.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from demur.core.errors import MissingExtra

if TYPE_CHECKING:
    from demur.scenarios.systems.multi_agent import Talk


def see_installed() -> None:
    """Raise MissingExtra where AutoGen is not there."""
    if find_spec("autogen_agentchat") is None:
        raise MissingExtra("agents by AutoGen", extra="autogen", module="autogen-agentchat")


async def run_team(talk: Talk, rounds: int) -> None:
    """Let the two speak in turn until the Verifier approves or abstains; what was said is in ``talk``.

    Raises:
        DemurError: what a call of either raised.
    """
    from autogen_agentchat.agents import BaseChatAgent
    from autogen_agentchat.base import Response
    from autogen_agentchat.conditions import FunctionalTermination
    from autogen_agentchat.messages import TextMessage
    from autogen_agentchat.teams import RoundRobinGroupChat

    base: Any = BaseChatAgent  # of no known type where the library is not installed
    failed: list[Exception] = []  # AutoGen would hand on its text alone

    class Agent(base):  # type: ignore[misc]
        """Speaks when it is its turn."""

        @property
        def produced_message_types(self) -> Sequence[type[Any]]:
            return (TextMessage,)

        async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
            decision: str | None = ""
            text = ""
            try:
                if self.name == "reasoner":
                    text = await talk.proposed()
                else:
                    decision = await talk.ruled(messages[-1].content)
            except Exception as error:
                failed.append(error)
                decision = None
            ended = self.name == "verifier" or failed
            told = {"ends": str(bool(ended and decision != "REQUEST_REVISION"))}
            return Response(chat_message=TextMessage(content=text or str(decision), source=self.name, metadata=told))

        async def on_reset(self, cancellation_token: Any) -> None:
            return None

    def ends(messages: Sequence[Any]) -> bool:
        return any(getattr(m, "metadata", {}).get("ends") == "True" for m in messages)

    team = RoundRobinGroupChat(
        [Agent("reasoner", "answers"), Agent("verifier", "judges the answer")],
        termination_condition=FunctionalTermination(ends),
        max_turns=2 * rounds,
    )
    await team.run(task=talk.ask.question)
    if failed:
        raise failed[0]
