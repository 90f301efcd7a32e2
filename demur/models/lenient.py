"""Questions of demur's own to a model that refuses some of what they ask for.

Judges, builds of suites and P(True) ask at temperature 0, for log-probabilities or for a JSON schema. Sampling that a
user chose goes past this file: it is never left out.
"""

from __future__ import annotations

from typing import Any

from demur.core.errors import PermanentError
from demur.core.records import Request, Response
from demur.models.client import Model

_WITHOUT: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": None},
    "logprobs": {"logprobs": False, "top_logprobs": None},
    "json_schema": {"json_schema": None},
}
"""What may be left out -> the changes of the request."""


class LenientModel:
    """A model that is asked without what its endpoint refused, from then on; each reply says what that was."""

    def __init__(self, model: Model) -> None:
        self._model, self.id = model, model.id
        self.concurrency = int(getattr(model, "concurrency", 8))
        self._refused: set[str] = set()

    async def complete(self, request: Request) -> Response:
        """One reply. A model that takes no temperature but its own thinks first: it gets eight times the tokens."""
        refused = set(self._refused)
        while True:
            left_out = [name for name in sorted(refused) if _asks_for(request, name)]
            changes = {field: value for name in left_out for field, value in _WITHOUT[name].items()}
            if "temperature" in left_out and request.max_tokens:
                changes["max_tokens"] = 8 * request.max_tokens
            try:
                reply = await self._model.complete(request.model_copy(update=changes))
            except PermanentError as error:
                more = next((name for name in ("temperature", "logprobs") if name in error.message), "json_schema")
                if more in refused or not _asks_for(request, more):
                    raise
                refused.add(more)
            else:
                self._refused |= refused  # a refusal that concerned one item alone would have come again
                return reply.model_copy(update={"asked_without": tuple(left_out)})


def _asks_for(request: Request, name: str) -> bool:
    value = getattr(request, name)
    return value is not None and value is not False
