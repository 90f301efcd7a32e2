"""OpenAI's batch API at one server: a file goes up, a batch of its lines is started, asked for, and its files read.

https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from demur.core.errors import CallError, PermanentError, TransientError
from demur.core.strict_json import loose_json
from demur.models.wire import Fault, error_message

if TYPE_CHECKING:
    from demur.models.client import Retry
    from demur.models.endpoint import Endpoint

_PAGE = 100
"""Batches in a page of the server's list."""
_PAGES = 20
"""Pages that are searched for a batch whose name never came."""
_TIMEOUT_S = 600.0
"""Of one exchange; a file may have 200 MB."""


class BatchServer:
    """The files and batches of one server.

    Args:
        endpoint: the server.
        retry: when an exchange is tried again.
    """

    def __init__(self, endpoint: Endpoint, retry: Retry) -> None:
        self._endpoint, self._retry = endpoint, retry
        self._session = endpoint.batch_session()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def upload(self, name: str, lines: bytes) -> str:
        """Upload the lines of a batch; returns the server's name of the file."""

        async def once() -> Any:
            form = aiohttp.FormData({"purpose": "batch"})
            form.add_field("file", lines, filename=f"{name}.jsonl")
            return await self._json("POST", "/files", data=form)

        return str((await self._retried(once))["id"])

    async def start(self, file: str) -> str:
        """Start the batch of an uploaded file, if it was not started; returns its name."""
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        }
        tried = False

        async def once() -> Any:
            nonlocal tried
            if tried and (name := await self._find(file)):  # the reply to the first try was lost
                return {"id": name}
            tried = True
            return await self._json("POST", "/batches", json=body)

        return str((await self._retried(once))["id"])

    async def find(self, file: str) -> str:
        """The batch of an uploaded file; "" if it was not started."""
        return str(await self._retried(lambda: self._find(file)))

    async def _find(self, file: str) -> str:
        after = ""
        for _ in range(_PAGES):
            page = await self._json("GET", f"/batches?limit={_PAGE}{after}")
            batches = page.get("data") or []
            for batch in batches:
                if batch.get("input_file_id") == file:
                    return str(batch["id"])
            if not page.get("has_more") or not batches:
                break
            after = f"&after={batches[-1]['id']}"
        return ""

    async def state(self, batch: str) -> dict[str, Any]:
        """A batch as the server describes it; with the status ``lost`` if the server has none of that name."""
        try:
            state: dict[str, Any] = await self._retried(
                lambda: self._json("GET", f"/batches/{batch}")
            )
        except _NotThere:
            return {"status": "lost"}
        return state

    async def lines(self, file: str) -> AsyncGenerator[list[str], None]:
        """The lines of a file, as they arrive; after a broken connection from the first again."""
        for attempt in range(1, self._retry.tries + 1):
            try:
                async with aclosing(self._lines(file)) as parts:
                    async for lines in parts:
                        yield lines
                return
            except TransientError as error:
                await self._wait(attempt, error)

    async def _lines(self, file: str) -> AsyncGenerator[list[str], None]:
        rest = b""
        try:
            async with self._ask("GET", f"/files/{file}/content") as reply:
                if reply.status != 200:
                    raise self._refusal(reply.status, reply.headers, await reply.text())
                while chunk := await reply.content.readany():
                    whole, _, rest = (rest + chunk).rpartition(b"\n")
                    yield self._endpoint.scrub(whole.decode("utf-8", "replace")).split("\n")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._endpoint.fault(error, _TIMEOUT_S) from None
        yield [self._endpoint.scrub(rest.decode("utf-8", "replace"))]

    def _ask(self, method: str, path: str, **sent: Any) -> Any:
        place, _, query = path.partition("?")
        address = self._endpoint.address(place)
        return self._session.request(
            method,
            address.update_query(query) if query else address,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            **sent,
        )

    async def _json(self, method: str, path: str, **sent: Any) -> Any:
        try:
            async with self._ask(method, path, **sent) as reply:
                text = self._endpoint.scrub(await reply.text(errors="replace"))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._endpoint.fault(error, _TIMEOUT_S) from None
        if reply.status != 200:
            raise self._refusal(reply.status, reply.headers, text)
        try:
            value = loose_json(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Fault("the batch API answered something that is not a JSON object", kind="broken")
        return value

    def _refusal(self, status: int, headers: Mapping[str, str], text: str) -> CallError:
        if status in (404, 405, 501):
            return _NotThere(
                f"{self._endpoint.name} has no such batch or file, or no batch API: {error_message(text)}",
                cure="write the calls with 'demur calls batch export', and answer them with the server's own tool "
                "(vLLM: vllm run-batch)",
            )
        return self._endpoint.refusal(status, headers, text)

    async def _retried(self, once: Any) -> Any:
        for attempt in range(1, self._retry.tries + 1):
            try:
                return await once()
            except TransientError as error:
                await self._wait(attempt, error)

    async def _wait(self, attempt: int, error: TransientError) -> None:
        """Wait before the next attempt.

        Raises:
            TransientError: it was the last.
        """
        if attempt >= self._retry.tries:
            raise TransientError(
                f"the batch API does not answer: {error.message}",
                item=self._endpoint.name,
                cure="run the same command again later: it goes on with the batches that were sent",
            ) from error
        wait = self._retry.wait_s(attempt, random.random())
        await asyncio.sleep(max(wait, error.retry_after or 0.0))


class _NotThere(PermanentError):
    """The server has no such thing."""
