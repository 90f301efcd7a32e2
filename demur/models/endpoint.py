"""One OpenAI-compatible HTTP endpoint: a single attempt, and a distinct error for every way it can fail.

A plain `aiohttp.ClientSession`, whose connector uses a connection again only after a good reply.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from demur.core.errors import CallError, ItemError, PermanentError, TransientError, UsageError
from demur.core.records import Request
from demur.models import wire
from demur.models.identity import as_json
from demur.models.images import ImageUrls
from demur.models.keys import Secret
from demur.models.wire import Fault

_CONNECT_S = 30.0
"""Seconds to open a connection. A busy event loop alone can take more than the five that SDKs allow."""
_MOST_REPLY = 64_000_000
"""Maximum bytes of a reply."""
_LARGE_BODY = 1 << 20
"""Bytes of a request above which it is sent in pieces."""
_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=_CONNECT_S)
_BREAKS = (CallError, TimeoutError, aiohttp.ClientError, OSError, ValueError)
"""Errors that an attempt may end with; any other is a bug or a cancellation."""

_MARK = secrets.token_hex(16)
"""Placeholder of an image: image bytes never go through the JSON encoder. Random, so that no request contains it."""
_ID = re.compile(
    r'"id"\s*:\s*"([!#-\[\]-~]+)"'
)  # without spaces: the head of a copy may stand in the middle of a body
_IDS = 4096
"""Reply ids remembered per endpoint."""
_ADAPTATIONS = {
    "max_completion_tokens": re.compile(r"max_completion_tokens"),
    "stream": re.compile(r"\bstream(?:ing)?\b", re.IGNORECASE),
    "stream_options": re.compile(r"stream_options"),
}
"""What a server wants in another way than most (``stream_options``: not at all) -> how its refusal names it."""


async def _in_pieces(body: list[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece


class _Connection:
    """One connection to the server."""

    def __init__(self, number: int, transport: Any) -> None:
        self.number, self._transport = number, transport
        self.good = False
        """Its last reply was good: it may be used again."""

    def close(self) -> None:
        """Whatever still arrives on it, nobody reads."""
        self._transport.close()


_CONNECTION: ContextVar[_Connection | None] = ContextVar("connection", default=None)
"""The connection of this task's last request."""


class _Connector(aiohttp.TCPConnector):
    """Uses a connection again only if its last reply was good and nothing arrived after it.

    A server or proxy that sends a reply twice leaves the second copy in the connection, where it would answer the next
    request, and the reply to that one the request after it: wrong answers that look right.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._numbers = itertools.count()
        self._known: WeakKeyDictionary[Any, _Connection] = WeakKeyDictionary()
        """aiohttp's protocol of a connection -> ours."""

    async def connect(self, *args: Any, **options: Any) -> Any:
        pending = []  # their replies have arrived, but `Endpoint.send` has not checked them yet
        try:
            while True:
                connection = await super().connect(*args, **options)
                protocol: Any = connection.protocol
                known_connection = self._known.get(protocol)
                if known_connection is None:
                    known_connection = self._known[protocol] = _Connection(
                        next(self._numbers), connection.transport
                    )
                elif not known_connection.good:
                    pending.append(connection)
                    continue
                elif protocol.should_close:
                    connection.close()
                    continue
                known_connection.good = False
                _CONNECTION.set(known_connection)
                return connection
        finally:
            for connection in pending:
                connection.release()


class StaleReplies:
    """Detects a reply that belongs to an earlier request on the same connection.

    The second copy of a reply may also arrive after the next request was sent: it has the id of the earlier reply and
    the same connection. If a server's ids repeat across other connections, they identify nothing, and the check is off.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, tuple[int, ...]]] = {}
        """Reply id -> (fingerprint of its request, its connections)."""
        self._unique = True

    def is_stale(self, text: str, request: int, connection: int) -> bool:
        """Whether a raw reply answers an earlier request; then close the connection.

        Args:
            text: the raw reply.
            request: fingerprint of this request.
            connection: number of the connection that the reply came on.
        """
        reply_id = _ID.search(text) if self._unique else None
        if reply_id is None:
            return False
        earlier = self._seen.get(reply_id[1])
        if earlier is None:
            self._seen[reply_id[1]] = (request, (connection,))
            if len(self._seen) > _IDS:
                del self._seen[next(iter(self._seen))]
        elif (
            earlier[0] == request
        ):  # the same request again, and a server that derives the id from it
            if connection not in earlier[1]:
                self._seen[reply_id[1]] = (request, (*earlier[1][-7:], connection))
        elif connection in earlier[1]:
            return True
        else:
            self._unique = not _is_reply(text)  # a mangled text says nothing about ids
        return False


def _is_reply(text: str) -> bool:
    """Whether a raw reply is a chat completion, with an answer or withheld by the content filter."""
    try:
        wire.read_response(text)
    except TransientError:
        return False
    except ItemError:
        pass
    return True


class Endpoint:
    """A chat-completions server.

    Args:
        base_url: address up to and including ``/v1``.
        wire_model: the model's name there.
        key: its API key.
        key_env: the environment variable for the key.
        images: gives image bytes.

    What a refusal shows about the server's own way (`_ADAPTATIONS`) holds for all later requests.
    """

    def __init__(
        self,
        base_url: str,
        wire_model: str,
        *,
        key: Secret | None,
        key_env: str,
        images: ImageUrls,
    ) -> None:
        url = URL(base_url)
        self.name = str(url.with_query(None).with_fragment(None)).rstrip("/")
        self.wire_model = wire_model
        self._url = url.with_path(url.path.rstrip("/") + "/chat/completions", keep_query=True)
        self._key, self._key_env, self._images = key, key_env, images
        self._adapted: frozenset[str] = frozenset()
        proxy = None if proxy_bypass(url.host or "") else getproxies().get(url.scheme)
        self._proxy = Secret(proxy) if proxy else None
        """Secret, as a proxy's address may contain a password."""
        if key is not None and not key.reveal().isprintable():
            raise UsageError(
                f"the key in {key_env} contains a line break or another control character",
                cure="set it again",
            )
        self._stale = StaleReplies()
        self._session: aiohttp.ClientSession | None = None

    def _headers(self) -> dict[str, str]:
        # no compression: replies are small, and a compressed one could unpack to any size
        plain = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        return plain | ({"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {})

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=0, ttl_dns_cache=300, keepalive_timeout=30),
                headers=self._headers(),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_TIMEOUT,
            )
        return self._session

    def _post(self, body: list[bytes]) -> Any:
        """The request, as aiohttp's context manager."""
        size = sum(map(len, body))
        large = size > _LARGE_BODY
        return self._opened().post(
            self._url,
            data=_in_pieces(body) if large else b"".join(body),
            headers={"Content-Length": str(size)} if large else None,
            allow_redirects=False,
            proxy=self._proxy.reveal() if self._proxy else None,
        )

    async def _body(self, request: Request, adapted: frozenset[str]) -> tuple[list[bytes], int]:
        """(the body's bytes in pieces, a fingerprint of the request)."""
        body = wire.request_body(request, self.wire_model, lambda _: _MARK)
        if "max_completion_tokens" in adapted and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        if "stream" in adapted:
            body["stream"] = True
            if "stream_options" not in adapted:
                body["stream_options"] = {"include_usage": True}
        skeleton = as_json(body, request)
        body_bytes = skeleton.encode("utf-8", "replace")
        if _MARK not in skeleton:
            return [body_bytes], hash(body_bytes)
        images = [p.image for m in request.messages for p in m.parts if p.type == "image"]
        pieces = body_bytes.split(_MARK.encode())
        joined = [pieces[0]]
        for image, piece in zip(images, pieces[1:], strict=True):
            joined += (await self._images.url_of(image), piece)
        return joined, hash((body_bytes, *(image.sha256 for image in images)))

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; returns the raw reply, which `wire.read_response` checks.

        Raises:
            Fault: another attempt may help.
            ItemError: this request will never be answered.
            PermanentError: no request will be answered here.
        """
        while True:
            adapted = self._adapted
            body, fingerprint = await self._body(request, adapted)
            outcome = await self._exchange(body, timeout_s)
            if isinstance(outcome, CallError):
                raise outcome
            status, headers, text, connection = outcome
            if status == 200:
                break
            if not self._adapts(status, text, adapted):
                raise self.refusal(status, headers, text)
        try:
            text = wire.join_stream(text)
        except Fault:
            connection.close()
            raise
        stale = self._stale.is_stale(text, fingerprint, connection.number)
        if not stale and (_ID.search(text) or _is_reply(text)):
            connection.good = True
        else:  # of a text without an id, nobody would notice a second copy
            connection.close()
        if stale:
            raise Fault(
                "the reply belongs to an earlier request on the same connection",
                kind="stale",
                paid=True,
            )
        return text

    def refusal(self, status: int, headers: Mapping[str, str], text: str) -> CallError:
        """The error for a reply that is none."""
        return wire.refusal(
            status, headers, text, key_env=self._key_env, wire_model=self.wire_model
        )

    def _adapts(self, status: int, text: str, adapted: frozenset[str]) -> bool:
        """Whether a refusal shows another way than the one in which the request was sent."""
        adaptations = {name for name, names in _ADAPTATIONS.items() if names.search(text)}
        self._adapted |= adaptations if status in (400, 422) else set()
        return status in (400, 422) and not adaptations <= adapted

    # --- batches (`demur.models.batch_server`)

    async def batch_line(self, name: str, request: Request) -> bytes:
        """A request as a line of a batch file.

        Raises:
            ItemError: an image cannot be read.
        """
        request = request.model_copy(update={"service_tier": None})  # a batch is a tier of its own
        body, _ = await self._body(request, self._adapted - {"stream", "stream_options"})
        head = f'{{"custom_id":"{name}","method":"POST","url":"/v1/chat/completions","body":'
        return b"".join((head.encode(), *body, b"}\n"))

    def refusal_in_batch(self, status: int, text: str) -> CallError:
        """The error for a line of a batch that was refused; `Fault` if the next batch sends it another way."""
        if self._adapts(status, text, frozenset()):  # all lines were sent before the first refusal
            return Fault("the server takes it another way", kind=str(status))
        return self.refusal(status, {}, text)

    def batch_session(self) -> aiohttp.ClientSession:
        """A session for the server's files and batches; the caller closes it."""
        headers = {k: v for k, v in self._headers().items() if k != "Content-Type"}
        return aiohttp.ClientSession(
            headers=headers,
            proxy=self._proxy.reveal() if self._proxy else None,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_TIMEOUT,
        )

    def address(self, path: str) -> URL:
        """The address of a path under the base URL."""
        return self._url.with_path(
            self._url.path.removesuffix("/chat/completions") + path, keep_query=True
        )

    def fault(self, error: Exception, timeout_s: float) -> CallError:
        """What broke an exchange, as an error of demur's that shows no key."""
        return self._fault(error, timeout_s, connected=True)

    def scrub(self, text: str) -> str:
        """A text without the key."""
        return self._scrub(text)

    async def _exchange(
        self, body: list[bytes], timeout_s: float
    ) -> tuple[int, Mapping[str, str], str, _Connection] | CallError:
        """Send the request and read the reply: (status, headers, text, connection), or the error.

        The connection is closed unless a whole reply with status 200 came.

        Errors are returned, not raised: a server may echo the key, and a traceback with locals would show the raw reply
        in this frame and in aiohttp's frames below it.
        """
        _CONNECTION.set(None)
        is_complete = False
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(timeout_s), self._post(body) as reply:
                size = 0
                while chunk := await reply.content.readany():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > _MOST_REPLY:
                        raise Fault(
                            f"the reply is larger than {_MOST_REPLY:,} bytes",
                            kind="broken",
                            paid=True,
                        )
            is_complete = reply.status == 200
        except _BREAKS as error:
            chunks.clear()
            return self._fault(error, timeout_s, connected=_CONNECTION.get() is not None)
        finally:
            connection = _CONNECTION.get()
            if connection is not None and not is_complete:
                connection.close()
        assert connection is not None
        headers = (
            {}
            if is_complete
            else {name: self._scrub(value) for name, value in reply.headers.items()}
        )
        text = b"".join(chunks).decode("utf-8", "replace")
        return reply.status, CIMultiDict(headers), self._scrub(text), connection

    def _fault(self, error: Exception, timeout_s: float, *, connected: bool) -> CallError:
        """One of `_BREAKS` as a demur error, with its reason only: aiohttp's errors contain the request."""
        if isinstance(error, CallError):
            return error.with_traceback(None)
        if isinstance(error, TimeoutError):
            if not connected:
                return Fault(
                    f"no connection to {self.name} within {min(_CONNECT_S, timeout_s):g} s",
                    kind="connect",
                )
            return Fault(f"no complete reply within {timeout_s:g} s", kind="timeout", paid=True)
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
        return Fault(f"the connection broke: {type(error).__name__}", kind="reset", paid=connected)

    def _scrub(self, text: str) -> str:
        return self._key.scrub(text) if self._key else text

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
