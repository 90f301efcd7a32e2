"""``any-llm:provider/model``: other vendors' wire formats through any-llm (extra: ``providers``)."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
from typing import Any

from demur.core.errors import CallError, ItemError, PermanentError, UsageError, importing
from demur.core.records import Request
from demur.models import wire
from demur.models.images import ImageUrls
from demur.models.keys import Secret
from demur.models.wire import Fault

_HOLDS_A_KEY = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$")
"""Environment variables whose values must not appear anywhere."""
_KINDS = {
    "Timeout": "timeout",
    "Connection": "reset",
    "RateLimit": "429",
    "ProviderError": "error",
}
"""Part of an SDK's error name -> kind of fault, for errors without an HTTP status."""
_FOR_GOOD = (
    "Auth",
    "Permission",
    "ApiKey",
    "APIKey",
    "NotFound",
    "Unsupported",
    "NotInstalled",
    "Import",
    "Quota",
)
"""Parts of the names of errors that concern all requests."""


class AnyLlmBackend:
    """A model of a provider that any-llm supports; its key comes from the provider's own environment variable.

    Args:
        name: ``provider/model``.
        images: gives image bytes.

    Raises:
        MissingExtra: any-llm is not installed.
        UsageError: there is no such provider, no key, or the provider's own package is not installed.
    """

    def __init__(self, name: str, images: ImageUrls) -> None:
        with importing(f"any-llm:{name}", extra="providers", module="any-llm-sdk", broken=True):
            import any_llm
        self._provider, self._model = name.split("/", 1)
        self._secrets = [
            Secret(value) for env, value in os.environ.items() if _HOLDS_A_KEY.search(env) and value
        ]
        try:
            self._client: Any = any_llm.AnyLLM.create(
                self._provider, max_retries=0, unified_exceptions=True
            )
        except Exception as error:
            raise UsageError(
                f"any-llm:{name} cannot be opened: {self._scrub(str(error))}",
                cure=f"set the provider's key, or pip install 'any-llm-sdk[{self._provider}]'",
            ) from None
        self.name = f"any-llm:{name}"
        self._images = images

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt, without any-llm's own retries; the reply in chat-completion form."""
        urls: dict[str, str] = {}
        for message in request.messages:
            for part in message.parts:
                if part.type == "image":
                    urls[part.image.sha256] = (await self._images.url_of(part.image)).decode()
        body = wire.request_body(request, self._model, lambda image: urls[image.sha256])
        del body["model"]
        try:
            async with asyncio.timeout(timeout_s):
                reply: Any = await self._client.acompletion(model=self._model, **body)
        except TimeoutError as error:
            raise Fault(f"no reply within {timeout_s:g} s", kind="timeout", paid=True) from error
        except Exception as error:
            # not chained: the SDKs' errors contain the request with its headers
            raise self._translated(error) from None
        try:
            # not model_dump_json, which refuses half a character
            raw = json.dumps(reply.model_dump(mode="json"))
        except Exception as error:  # not a pydantic model: whatever the library returns
            raise Fault(
                f"the reply is malformed, {self._scrub(str(error))[:300]}", kind="broken", paid=True
            ) from None
        return self._scrub(raw)

    def _scrub(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.scrub(text)
        return text

    def _translated(self, error: Exception) -> CallError:
        """A demur error for an SDK's: by its HTTP status if it has one, else by its class name."""
        inner = getattr(error, "original_exception", None) or error
        message = self._scrub(str(error))
        status = getattr(inner, "status_code", None) or getattr(error, "status_code", None)
        headers = dict(getattr(getattr(inner, "response", None), "headers", None) or {})
        name = type(error).__name__
        if isinstance(status, int):
            env = f"{self._provider.upper()}_API_KEY"
            return wire.refusal(status, headers, message, key_env=env, wire_model=self._model)
        if type(inner.__cause__).__name__.startswith("Connect"):  # httpx's: nothing was sent
            return Fault(f"{name}: {message}", kind="connect")
        for word, kind in _KINDS.items():
            if word in name:
                return Fault(f"{name}: {message}", kind=kind, paid=kind != "429")
        if any(word in name for word in _FOR_GOOD):
            return PermanentError(
                f"{name}: {message}",
                cure=f"check the key, the model and the provider {self._provider!r}",
            )
        unknown = ItemError(
            f"{name}: {message}"
        )  # anything else concerns this request or its reply
        unknown.paid = True
        return unknown

    async def close(self) -> None:
        """Close the provider's own client, if it can be closed."""
        close = getattr(getattr(self._client, "client", None), "close", None)
        if close is not None:
            done = close()
            if inspect.isawaitable(done):
                await done
