"""One OpenAI-compatible HTTP endpoint: a single attempt, with every way it can fail told apart."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Mapping
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from demur.calls import wire
from demur.calls.images import ImageUrls
from demur.calls.keys import Secret
from demur.calls.wire import Fault
from demur.errors import CallError, PermanentError
from demur.records import ImageRef, Request

_CONNECT_S = 30.0
"""Seconds to open a connection. Five, as SDKs have it, is passed by a busy event loop alone."""
_MOST_REPLY = 64_000_000
"""Bytes of a reply after which it is not a reply."""
_ONE_WRITE = 1_000_000
"""Bytes above which a body is written in pieces, so that other calls get their turn."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_MARK = secrets.token_hex(16)
"""Stands for an image while the body is encoded: image bytes are never run through the JSON encoder. Random, so
that no text in a request can hold it."""


def _mark_of(_: ImageRef) -> str:
    return _MARK


class Endpoint:
    """A chat-completions server.

    Args:
        base_url: address up to and including ``/v1``.
        wire_model: the model's name there.
        key: its API key.
        key_env: the variable that the key came from or should come from.
        images: where image bytes come from.
        openai: whether this is OpenAI's own service, which wants ``max_completion_tokens``.
    """

    def __init__(
        self,
        base_url: str,
        wire_model: str,
        *,
        key: Secret | None,
        key_env: str,
        images: ImageUrls,
        openai: bool = False,
    ) -> None:
        url = URL(base_url)
        self.name = str(url.with_query(None).with_fragment(None)).rstrip("/")
        self.wire_model = wire_model
        self._url = url.with_path(url.path.rstrip("/") + "/chat/completions", keep_query=True)
        self._models_url = url.with_path(url.path.rstrip("/") + "/models", keep_query=True)
        self._key, self._key_env, self._images = key, key_env, images
        self._max_tokens_field = "max_completion_tokens" if openai else "max_tokens"
        proxy = None if proxy_bypass(url.host or "") else getproxies().get(url.scheme)
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                # identity: replies are small, and a compressed one could unpack to any size
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity"}
                | ({"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {}),
            )
        return self._session

    async def _body(self, request: Request) -> bytes:
        skeleton = _encode(wire.body(request, self.wire_model, _mark_of, max_tokens_field=self._max_tokens_field))
        whole = skeleton.encode("utf-8", "replace")
        if _MARK not in skeleton:
            return whole
        images = [p.image for m in request.messages for p in m.parts if p.type == "image"]
        pieces = whole.split(_MARK.encode())
        joined = [pieces[0]]
        for image, piece in zip(images, pieces[1:], strict=True):
            joined += (await self._images.of(image), piece)
        return b"".join(joined)

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; returns the raw reply, which may still be no answer (`wire.response` tells).

        Raises:
            Fault: may be tried again.
            ItemError: this request will never be answered.
            PermanentError: no request will be answered here.
        """
        body = await self._body(request)
        session = self._open()
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(_CONNECT_S, timeout_s))
        begun = False
        try:
            async with session.post(
                self._url,
                data=body if len(body) < _ONE_WRITE else io.BytesIO(body),
                timeout=timeout,
                allow_redirects=False,
                proxy=self._proxy,
            ) as reply:
                status = reply.status
                begun = status == 200
                chunks: list[bytes] = []
                size = 0
                while chunk := await reply.content.readany():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > _MOST_REPLY:
                        raise Fault(f"the reply is larger than {_MOST_REPLY:,} bytes", kind="broken", paid=True)
                # a server may echo the key: no local of this frame, which tracebacks show, keeps the raw bytes
                text = self._clean(b"".join(chunks))
                chunks.clear()
                headers = reply.headers
        except TimeoutError as error:
            kind = "connect" if isinstance(error, aiohttp.ConnectionTimeoutError) else "timeout"
            raise Fault(f"no whole reply within {timeout_s:g} s", kind=kind, paid=kind == "timeout") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError) as error:
            raise Fault(f"cannot connect to {self.name}: {error.os_error}", kind="connect") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # the reason, without the request that aiohttp's errors carry
            raise Fault(f"the connection broke: {type(error).__name__}", kind="reset", paid=begun) from error
        if status == 200:
            return text
        raise await self._refused(status, headers, text)

    def _clean(self, raw: bytes) -> str:
        text = raw.decode("utf-8", "replace")
        return self._key.scrub(text) if self._key else text

    async def _refused(self, status: int, headers: Mapping[str, str], text: str) -> CallError:
        error = wire.refusal(
            status,
            headers,
            text,
            key_env=self._key_env,
            wire_model=self.wire_model,
        )
        if status == 404 and isinstance(error, PermanentError):
            served = await self._served()
            if served:
                error.cure = f"this server has {', '.join(served[:8])}; name one of them after '#'"
        return error

    async def _served(self) -> list[str]:
        """Names of the models the server has; empty when it does not say."""
        try:
            async with self._open().get(
                self._models_url, timeout=aiohttp.ClientTimeout(total=5), allow_redirects=False, proxy=self._proxy
            ) as reply:
                found = json.loads(self._clean(await reply.content.read(1_000_000)))
                return [str(entry["id"]) for entry in found["data"]]
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, KeyError, TypeError):
            return []

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
