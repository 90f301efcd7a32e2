"""Questions of demur's own to a model that refuses some of what they ask for.

Judges, builds of suites and P(True) ask at temperature 0, for log-probabilities or for a JSON schema. Sampling that a
user chose goes past this file: it is never left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from demur.core.errors import ItemError, PermanentError
from demur.core.records import Request, Response
from demur.models.client import Model

_WITHOUT: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": None},
    "logprobs": {"logprobs": False, "top_logprobs": None},
    "json_schema": {"json_schema": None},
}
"""What may be left out -> the changes of the request."""
_NAMED = {
    "temperature": re.compile(r"temperature"),
    "logprobs": re.compile(r"logprobs"),
    "json_schema": re.compile(r"response.?format|schema|grammar|guided|structured", re.IGNORECASE),
}
"""What may be left out -> how an error names it."""


class LenientModel:
    """A model that is asked without what its endpoint refused, from then on; each reply says what that was.

    The endpoint refused what its error names, unless it took it before: then, or where the error names nothing, one
    item alone is asked without.
    """

    def __init__(self, model: Model) -> None:
        self._model, self.id = model, model.id
        self.concurrency = int(getattr(model, "concurrency", 8))
        self._refused: set[str] = set()
        self._taken: set[str] = set()

    async def complete(self, request: Request) -> Response:
        """One reply. A model that takes no temperature but its own thinks first: it gets eight times the tokens."""
        features = [name for name in sorted(_WITHOUT) if _asks_for(request, name)]
        reply = self._stored_reply(request, features)
        if reply is not None:
            return reply
        left_out, named = self._refused.intersection(features), set[str]()
        while True:
            try:
                reply = await self._model.complete(_leave_out(request, left_out))
            except PermanentError as error:
                names = [
                    name
                    for name in _NAMED
                    if name in features and _NAMED[name].search(error.message)
                ]
                # an error of all items, such as a wrong key, has nothing to do with a schema that it does not name
                refused = (
                    names[0] if names else "json_schema" if isinstance(error, ItemError) else ""
                )
                if refused in left_out or refused not in features:
                    raise
                left_out.add(refused)
                named.update(names[:1])
            else:
                self._taken.update(set(features) - left_out)
                self._refused = (self._refused | named) - self._taken
                return reply.model_copy(update={"asked_without": tuple(sorted(left_out))})

    def _stored_reply(self, request: Request, features: list[str]) -> Response | None:
        """The ledger's reply, as it was asked for then: what was refused is not sent, and nothing is paid, again."""
        peek: Callable[[list[Request]], list[Response | None]] = getattr(
            self._model, "peek", lambda requests: [None]
        )
        for n in range(len(features) + 1):
            for left_out in combinations(features, n):
                [reply] = peek([_leave_out(request, left_out)])
                if reply is not None and not reply.error:
                    self._taken.update(set(features) - set(left_out))
                    return reply.model_copy(update={"asked_without": left_out})
        return None


def _leave_out(request: Request, left_out: Iterable[str]) -> Request:
    changes = {field: value for name in left_out for field, value in _WITHOUT[name].items()}
    if "temperature" in changes and request.max_tokens:
        changes["max_tokens"] = 8 * request.max_tokens
    return request.model_copy(update=changes)


def _asks_for(request: Request, name: str) -> bool:
    value = getattr(request, name)
    return value is not None and value is not False
