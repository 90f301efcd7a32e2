"""One OpenAI-compatible HTTP endpoint: a single attempt, with every way it can fail told apart."""

from __future__ import annotations

import io
import json
import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
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


_ID = re.compile(r'"id"\s*:\s*"([^"\\]+)"')
_IDS = 4096
"""Reply ids remembered per endpoint."""


def _mark_of(_: ImageRef) -> str:
    return _MARK


_used: ContextVar[list[ResponseHandler]] = ContextVar("connections used by the request under way")


class _Connector(aiohttp.TCPConnector):
    """A connection pool that hands out no connection on which bytes nobody asked for are waiting.

    A server or proxy that sends a reply twice leaves the second copy in the connection, where it would answer the
    next request: a wrong answer that looks right.
    """

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None or not protocol.should_close:
                break
            connection.close()
        if protocol is not None:
            _used.get([]).append(protocol)
        return connection


class StaleReplies:
    """Tells a reply that belongs to an earlier request on the same connection.

    A second copy of a reply may also arrive after the next request was sent. It has the id of the earlier reply, and
    came on the same connection; the connection then runs one reply behind for good and must not be used again. A
    server whose ids repeat across connections has no ids worth the name, and is not judged by them.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, tuple[int, ...]]] = {}
        """Reply id -> (fingerprint of the request that it answered, the connections it came on)."""
        self._unique = True

    def is_stale(self, text: str, request: int, connection: ResponseHandler) -> bool:
        """Whether a raw reply answers another request than this one.

        Args:
            text: the raw reply.
            request: fingerprint of the request.
            connection: what it came on.
        """
        found = _ID.search(text) if self._unique else None
        if found is None:
            return False
        earlier = self._seen.get(found[1])
        if earlier is None:
            self._seen[found[1]] = (request, (id(connection),))
            if len(self._seen) > _IDS:
                del self._seen[next(iter(self._seen))]
            return False
        if earlier[0] == request:  # asked again, and answered under the same id by a server that derives it
            if id(connection) not in earlier[1]:
                self._seen[found[1]] = (request, (*earlier[1][-7:], id(connection)))
            return False
        if id(connection) in earlier[1]:
            return True
        self._unique = False
        return False


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
        self._timeout = aiohttp.ClientTimeout(total=0)
        self._stale = StaleReplies()
        self._poisoned: WeakSet[ResponseHandler] = WeakSet()
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=0, ttl_dns_cache=300, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                # identity: replies are small, and a compressed one could unpack to any size
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity"}
                | ({"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {}),
            )
        return self._session

    async def _body(self, request: Request) -> tuple[bytes, int]:
        """The body's bytes, and a fingerprint of the request."""
        skeleton = _encode(wire.body(request, self.wire_model, _mark_of, max_tokens_field=self._max_tokens_field))
        whole = skeleton.encode("utf-8", "replace")
        if _MARK not in skeleton:
            return whole, hash(whole)
        images = [p.image for m in request.messages for p in m.parts if p.type == "image"]
        pieces = whole.split(_MARK.encode())
        joined = [pieces[0]]
        for image, piece in zip(images, pieces[1:], strict=True):
            joined += (await self._images.of(image), piece)
        return b"".join(joined), hash((whole, *(image.sha256 for image in images)))

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; returns the raw reply, which may still be no answer (`wire.response` tells).

        Raises:
            Fault: may be tried again.
            ItemError: this request will never be answered.
            PermanentError: no request will be answered here.
        """
        body, fingerprint = await self._body(request)
        session = self._open()
        if timeout_s != self._timeout.total:
            self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(_CONNECT_S, timeout_s))
        begun = False
        used: list[ResponseHandler] = []
        _used.set(used)
        try:
            async with session.post(
                self._url,
                data=body if len(body) < _ONE_WRITE else io.BytesIO(body),
                timeout=self._timeout,
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
        except aiohttp.ClientConnectorCertificateError as error:
            raise PermanentError(
                f"the certificate of {self.name} is not trusted: {error.certificate_error}",
                cure="set SSL_CERT_FILE to the authority that signed it",
            ) from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError) as error:
            raise Fault(f"cannot connect to {self.name}: {error.os_error}", kind="connect") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # the reason, without the request that aiohttp's errors carry
            raise Fault(f"the connection broke: {type(error).__name__}", kind="reset", paid=begun) from error
        if status == 200:
            connection = used[-1] if used else None
            if connection is not None and self._stale.is_stale(text, fingerprint, connection):
                self._poisoned.add(connection)
                connection.close()
            if connection in self._poisoned:
                raise Fault("the reply belongs to an earlier request on the same connection", kind="stale", paid=True)
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
