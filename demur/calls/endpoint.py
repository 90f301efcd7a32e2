"""One OpenAI-compatible HTTP endpoint: a single attempt, with every way it can fail told apart.

Connections, TLS, proxies, name look-up and the parsing of replies are aiohttp's. Its `ClientSession` is not used: what
that does anew for each request (address, headers, cookies, redirects, a parser of the body's type, a task that writes)
is the same for all requests of an endpoint, and costs half of a call's CPU (benchmarks/calls.py, bare against demur).
So a request is written to aiohttp's connection by `Endpoint.send` itself, head and body in one piece.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Mapping
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from demur.calls import wire
from demur.calls.images import ImageUrls
from demur.calls.keys import Secret
from demur.calls.wire import Fault
from demur.errors import CallError, PermanentError, UsageError
from demur.records import ImageRef, Request

_CONNECT_S = 30.0
"""Seconds to open a connection. Five, as SDKs have it, is passed by a busy event loop alone."""
_MOST_REPLY = 64_000_000
"""Bytes of a reply after which it is not a reply."""
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=_CONNECT_S)
_BREAKS = (CallError, TimeoutError, aiohttp.ClientError, HttpProcessingError, OSError, ValueError)
"""What an attempt may fail with; anything else is a bug, or the task was cancelled."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_MARK = secrets.token_hex(16)
"""Stands for an image while the body is encoded: image bytes are never run through the JSON encoder. Random, so
that no text in a request can hold it."""


_ID = re.compile(r'"id"\s*:\s*"([^"\\]+)"')
_IDS = 4096
"""Reply ids remembered per endpoint."""


def _mark_of(_: ImageRef) -> str:
    return _MARK


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
        self._proxy = Secret(proxy) if proxy else None
        """A secret, as a proxy's address may hold a password."""
        if key is not None and not key.reveal().isprintable():
            raise UsageError(
                f"the key in {key_env} holds a line break or another control character", cure="set it again"
            )
        self._stale = StaleReplies()
        self._poisoned: WeakSet[ResponseHandler] = WeakSet()
        self._connector: aiohttp.TCPConnector | None = None
        self._template: aiohttp.ClientRequest | None = None
        self._head: Secret | None = None
        """Everything before the body but its length; a secret, as it holds the key."""

    def _headers(self) -> dict[str, str]:
        # identity: replies are small, and a compressed one could unpack to any size
        plain = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        return plain | ({"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {})

    async def _connect(self) -> aiohttp.connector.Connection:
        """A connection on which nothing waits that nobody asked for.

        A server or proxy that sends a reply twice leaves the second copy in the connection, where it would answer the
        next request: a wrong answer that looks right.
        """
        if self._connector is None or self._template is None:
            self._connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30)
            self._template = aiohttp.ClientRequest(
                "POST",
                self._url,
                headers=self._headers(),
                proxy=URL(self._proxy.reveal()) if self._proxy else None,
                loop=asyncio.get_running_loop(),
            )
        while True:
            connection = await self._connector.connect(self._template, [], _NO_TIMEOUT)
            protocol = connection.protocol
            if protocol is not None and not protocol.should_close:
                return connection
            connection.close()

    def _start_line_and_headers(self) -> Secret:
        """What comes before the length of the body. Known once a connection was made: only then is the proxy's key."""
        request = self._template
        assert request is not None
        target = str(request.url) if self._proxy is not None and not request.is_ssl() else request.url.raw_path_qs
        fields = (f"{name}: {value}\r\n" for name, value in request.headers.items() if name != "Content-Length")
        return Secret(f"POST {target} HTTP/1.1\r\n{''.join(fields)}Content-Length: ")

    def _packet(self, body: list[bytes]) -> bytes:
        """A whole request as bytes."""
        if self._head is None:
            self._head = self._start_line_and_headers()
        return b"".join((self._head.reveal().encode(), b"%d\r\n\r\n" % sum(map(len, body)), *body))

    async def _body(self, request: Request) -> tuple[list[bytes], int]:
        """The body's bytes in pieces, and a fingerprint of the request."""
        skeleton = _encode(wire.body(request, self.wire_model, _mark_of, max_tokens_field=self._max_tokens_field))
        whole = skeleton.encode("utf-8", "replace")
        if _MARK not in skeleton:
            return [whole], hash(whole)
        images = [p.image for m in request.messages for p in m.parts if p.type == "image"]
        pieces = whole.split(_MARK.encode())
        joined = [pieces[0]]
        for image, piece in zip(images, pieces[1:], strict=True):
            joined += (await self._images.of(image), piece)
        return joined, hash((whole, *(image.sha256 for image in images)))

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; returns the raw reply, which may still be no answer (`wire.response` tells).

        Raises:
            Fault: may be tried again.
            ItemError: this request will never be answered.
            PermanentError: no request will be answered here.
        """
        body, fingerprint = await self._body(request)
        outcome = await self._exchange(body, timeout_s)
        if isinstance(outcome, CallError):
            raise outcome
        connection, protocol, status, headers, text = outcome
        if status != 200:
            connection.release()
            raise await self._refused(status, headers, text)
        if self._stale.is_stale(text, fingerprint, protocol):
            self._poisoned.add(protocol)
        if protocol in self._poisoned:
            connection.close()
            raise Fault("the reply belongs to an earlier request on the same connection", kind="stale", paid=True)
        connection.release()
        return text

    async def _exchange(
        self, body: list[bytes], timeout_s: float
    ) -> tuple[aiohttp.connector.Connection, ResponseHandler, int, Mapping[str, str], str] | CallError:
        """Write the request and read the reply: (connection, its protocol, status, headers, text), or what went wrong.

        Failures are returned, not raised: a server may echo the key, and what came as it came, in this frame and in
        aiohttp's below it, would else be shown by a traceback with locals.
        """
        connection: aiohttp.connector.Connection | None = None
        begun = whole = False
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connect()
                protocol = connection.protocol
                assert protocol is not None
                protocol.set_response_params(read_until_eof=True)
                assert protocol.transport is not None
                # one write: the loop sends on what the socket does not take at once
                protocol.transport.write(self._packet(body))
                message, content = await protocol.read()
                while 100 <= message.code < 200:
                    message, content = await protocol.read()
                begun = message.code == 200
                size = 0
                while chunk := await content.readany():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > _MOST_REPLY:
                        raise Fault(f"the reply is larger than {_MOST_REPLY:,} bytes", kind="broken", paid=True)
            whole = True
        except _BREAKS as error:
            return self._fault(error, timeout_s, connected=connection is not None, begun=begun)
        finally:
            if not whole:  # also when cancelled: the rest of this reply must not answer the connection's next request
                chunks.clear()
                if connection is not None:
                    connection.close()
        headers = CIMultiDict(() if begun else ((n, self._scrub(v)) for n, v in message.headers.items()))
        return connection, protocol, message.code, headers, self._clean(b"".join(chunks))

    def _fault(self, error: Exception, timeout_s: float, *, connected: bool, begun: bool) -> CallError:
        """What broke an attempt (one of `_BREAKS`), as one of our errors.

        Only the reason is taken over: aiohttp's own errors carry the request.
        """
        if isinstance(error, CallError):
            return error.with_traceback(None)
        if isinstance(error, TimeoutError):
            if not connected:
                return Fault(f"no connection to {self.name} within {min(_CONNECT_S, timeout_s):g} s", kind="connect")
            return Fault(f"no whole reply within {timeout_s:g} s", kind="timeout", paid=True)
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return PermanentError(
                f"the certificate of {self.name} is not trusted: {error.certificate_error}",
                cure="set SSL_CERT_FILE to the authority that signed it",
            )
        if isinstance(error, aiohttp.ClientHttpProxyError) and 400 <= error.status < 500:
            return PermanentError(
                f"the proxy refuses (HTTP {error.status})",
                cure="check address, user and password in the proxy variable",
            )
        if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError)):
            return Fault(f"cannot connect to {self.name}: {error.os_error}", kind="connect")
        return Fault(f"the connection broke: {type(error).__name__}", kind="reset", paid=begun)

    def _clean(self, raw: bytes) -> str:
        return self._scrub(raw.decode("utf-8", "replace"))

    def _scrub(self, text: str) -> str:
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
            async with (
                aiohttp.ClientSession(headers=self._headers(), timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.get(
                    self._models_url, allow_redirects=False, proxy=self._proxy.reveal() if self._proxy else None
                ) as reply,
            ):
                found = json.loads(self._clean(await reply.content.read(1_000_000)))
                return [str(entry["id"]) for entry in found["data"]]
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return []

    async def close(self) -> None:
        """Close the connections."""
        if self._connector is not None:
            await self._connector.close()
            self._connector = self._template = None
