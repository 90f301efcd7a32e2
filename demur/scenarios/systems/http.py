"""A RAG service as a system: ``http:rag.yaml``, which maps a question to a request and the reply to an answer.

The service needs no change::

    url: https://rag.example.com/ask
    headers: {Authorization: "Bearer ${RAG_TOKEN}"}      # from the environment, never written anywhere
    body: {query: "{question}", pictures: "{images}", top_k: 5}
    answer: $.answer                                      # JSONPath (RFC 9535)
    contexts: $.sources[*]                                # the retrieved documents, best first
    context: {id: $.doc_id, text: $.text, score: $.score} # within each of them
    citations: $.citations[*].doc_id
    confidence: $.confidence                              # 0 to 1
    abstained: $.no_answer                                # true when the service itself declines to answer

``demur rag probe rag.yaml`` asks one question and prints how demur reads the reply. A bare address
(``http:https://host/ask``) receives ``{"question": ..., "images": [base64]}``, and the answer is looked for under its
usual names. Every key: `demur.scenarios.systems.http_mapping.RagMapping`. A failure is retried where that may help and
recorded on its item; the run goes on.
"""

from __future__ import annotations

import asyncio
import base64
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from demur.core.errors import DemurError, ItemError, PermanentError, UsageError
from demur.core.records import Ask, ImageRef, Response
from demur.core.store import digest
from demur.core.turns import Turn, as_messages
from demur.models import Retry
from demur.models.breaker import Breaker
from demur.models.ping import why_unreachable
from demur.models.wire import Fault, retry_after
from demur.scenarios.systems.http_mapping import (
    RagMapping,
    as_text,
    fill_template,
    from_environment,
)
from demur.scenarios.systems.http_reply import (
    MAX_BYTES,
    TOO_LONG,
    Reply,
    events_of,
    excerpt,
    parse_json,
    read_response,
)
from demur.scenarios.systems.replies import storable, unused_inputs

if TYPE_CHECKING:
    import aiohttp

    from demur.scenarios.systems import SystemContext

_PATIENCE = {"timeout", "retries", "concurrency"}
"""Keys that change no answer."""
MAX_WAIT_S = 60.0
"""Longest wait before a retry, in seconds, whatever the service asks for."""


class HttpSystem:
    """A service behind HTTP, asked through a mapping (see the module).

    Args:
        argument: the mapping's file, or an address.
        context: its surroundings.

    Raises:
        UsageError: the mapping is malformed, or names a variable that is not in the environment.
        StorageError: the file cannot be read.
    """

    def __init__(self, argument: str | RagMapping, context: SystemContext) -> None:
        self.mapping = argument if isinstance(argument, RagMapping) else RagMapping.read(argument)
        mapping = self.mapping
        urls = mapping.url if isinstance(mapping.url, dict) else {"": mapping.url}
        file = "" if "//" in mapping.item else Path(mapping.item).stem
        self.id = mapping.name or ":".join(filter(None, ("http", file)))
        self.note = "a service of its own"
        self.reads_prompt = "strictness" in mapping.places()
        self._headers = {
            k: from_environment(str(v), f"{mapping.item}: headers.{k}")
            for k, v in mapping.headers.items()
        }
        self._urls = {
            corpus: from_environment(url, f"{mapping.item}: url") for corpus, url in urls.items()
        }
        self.revision = digest(self._identity(), 16)
        self._slots = asyncio.Semaphore(context.concurrency or mapping.concurrency)
        self._read_image = context.read_image
        self._session: aiohttp.ClientSession | None = None
        self._breaker = Breaker(self.id)
        self._retry = Retry(tries=mapping.retries + 1, timeout_s=mapping.timeout)

    def _identity(self) -> list[Any]:
        """The mapping, with host and path (which hold no key) of the addresses that the environment completes."""
        mapping: list[Any] = [self.mapping.model_dump(exclude_unset=True, exclude=_PATIENCE)]
        urls = self.mapping.url
        urls_as_written = urls if isinstance(urls, dict) else {"": urls}
        filled_in = {
            c: urlsplit(u.reveal())
            for c, u in self._urls.items()
            if u.reveal() != urls_as_written[c]
        }
        return (
            [*mapping, {c: f"{u.hostname}:{u.port}{u.path}" for c, u in filled_in.items()}]
            if filled_in
            else mapping
        )

    def skip_reason(self, ask: Ask) -> str:
        """A question is skipped when the mapping has no address for its corpus."""
        if "" not in self._urls and ask.corpus not in self._urls:
            return f"the mapping has no url for {ask.corpus or ask.scenario.value}"
        return ""

    def _url_of(self, ask: Ask) -> str:
        url = self._urls.get(ask.corpus) or self._urls[""]
        return (
            url.reveal().replace("{corpus}", ask.corpus).replace("{id}", quote(ask.sample, safe=""))
        )

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """Connect to every address.

        Raises:
            PermanentError: an address does not answer.
            UsageError: the questions exclude gold documents, and the mapping does not send that to the service.
        """
        first = {ask.corpus: ask for ask in asks}
        addresses = [self._url_of(a) for a in first.values() if not self.skip_reason(a)]
        for address in addresses or [secret.reveal() for secret in self._urls.values()]:
            if why := await asyncio.to_thread(why_unreachable, address):
                raise PermanentError(
                    f"the service does not answer ({why})",
                    item=self.id,
                    cure="start it, or check url",
                )
        places = self.mapping.places()
        if any(a.exclude for a in asks) and "" in self._urls and not places & {"corpus", "exclude"}:
            raise UsageError(
                "the request does not tell the service to leave the gold out",
                item=self.id,
                cure="put {exclude} or {corpus} into body, query or url, or give a url for each corpus",
            )
        images = "images" in places or self.mapping.images == "multipart"
        how = "no {{{}}} in its body"
        turns = bool(places & {"turns", "messages"})
        return unused_inputs(
            self.id, asks, evidence="evidence" in places, images=images, turns=turns, reason=how
        )

    async def answer(self, ask: Ask) -> Response:
        """Ask the service; a failure is this item's error."""
        async with self._slots:
            return await self._answer_with_retries(ask)

    async def _answer_with_retries(self, ask: Ask) -> Response:
        start = time.perf_counter()
        first_try = time.monotonic()
        for attempt in range(1, self._retry.tries + 1):
            if refusal := self._breaker.refusal():
                return self._failure(str(refusal), time.perf_counter() - start)
            try:
                response = self._read_as_response(
                    await self._send(ask, start), time.perf_counter() - start
                )
                self._breaker.heard()
                return response
            except Fault as fault:
                if fault.kind != "connect":
                    self._breaker.heard()
                elif attempt == self._retry.tries:
                    self._breaker.gave_up(first_try)
                if attempt == self._retry.tries:
                    tries = f" ({attempt} tries)" if attempt > 1 else ""
                    return self._failure(f"{fault}{tries}", time.perf_counter() - start)
                wait = max(self._retry.wait_s(attempt, random.random()), fault.retry_after or 0.0)
                await asyncio.sleep(min(wait, MAX_WAIT_S))
            except DemurError as error:
                if isinstance(
                    error, ItemError
                ):  # about the reply; others are about an image, and nothing was sent
                    self._breaker.heard()
                return self._failure(str(error), time.perf_counter() - start)
        raise AssertionError("unreachable")

    def _failure(self, why: str, seconds: float) -> Response:
        for secret in self._headers.values():
            why = secret.scrub(why)
        for secret in self._urls.values() if "${" in str(self.mapping.url) else ():
            why = secret.scrub(why)
        why = " ".join(storable(why).split())[:1000]
        return Response(error=why, served_by=self.id, latency_s=seconds)

    async def probe(self, ask: Ask) -> tuple[Reply | None, Response]:
        """One attempt without retries: the reply (None without a usable one), and the response or its error."""
        start = time.perf_counter()
        reply = None
        try:
            reply = await self._send(ask, start)
            return reply, self._read_as_response(reply, time.perf_counter() - start)
        except DemurError as error:
            return reply, self._failure(str(error), time.perf_counter() - start)

    def _read_as_response(self, reply: Reply, seconds: float) -> Response:
        served = f"{self.id}@{reply.version}" if reply.version else self.id
        return read_response(
            self.mapping, reply, served_by=storable(served)[:200], latency_s=seconds
        )

    async def request(self, ask: Ask) -> Any:
        """The body of a question's request; it holds no secrets, which are in the headers."""
        return fill_template(self.mapping.body, await self._placeholder_values(ask))

    async def _placeholder_values(self, ask: Ask) -> dict[str, Any]:
        as_url = self.mapping.images == "data-url"

        def encoded(image: ImageRef) -> str:
            text = base64.b64encode(self._read_image(image)).decode()
            return f"data:{image.media_type};base64,{text}" if as_url else text

        def images() -> tuple[list[str], list[dict[str, Any]]]:
            evidence = [
                {"id": e.id, "title": e.title, "text": e.text}
                | ({"image": encoded(e.image)} if e.image else {})
                for e in ask.evidence
            ]
            return [encoded(i) for i in ask.images], evidence

        image_values, evidence = await asyncio.to_thread(images)
        return {
            "question": ask.question,
            "images": image_values,
            "evidence": evidence,
            "id": ask.sample,
            "choices": [list(c) for c in ask.choices],
            "strictness": ask.condition,
            "corpus": ask.corpus,
            "exclude": list(ask.exclude),
            "turns": as_messages(ask.turns),
            "messages": as_messages((*ask.turns, Turn("user", ask.question))),
        }

    async def _request_arguments(self, ask: Ask) -> dict[str, Any]:
        """Keyword arguments of the request: JSON, a form with files, or query parameters."""
        import aiohttp

        mapping, values = self.mapping, await self._placeholder_values(ask)
        arguments: dict[str, Any] = {}
        if mapping.query:
            arguments["params"] = {
                k: as_text(v) for k, v in fill_template(mapping.query, values).items()
            }
        if mapping.images == "multipart":
            form = aiohttp.FormData()
            for key, value in fill_template(mapping.body, values | {"images": ""}).items():
                if value != "":
                    form.add_field(key, as_text(value))
            for n, image in enumerate(ask.images):
                data = await asyncio.to_thread(self._read_image, image)
                name = f"{n}.{image.media_type.rpartition('/')[2]}"
                form.add_field(mapping.files, data, filename=name, content_type=image.media_type)
            arguments["data"] = form
        elif mapping.method != "GET":
            arguments["json"] = fill_template(mapping.body, values)
        elif "query" not in mapping.model_fields_set:
            arguments["params"] = {
                k: as_text(v) for k, v in fill_template(mapping.body, values).items()
            }
        return arguments

    async def _send(self, ask: Ask, start: float) -> Reply:
        import aiohttp

        arguments = await self._request_arguments(ask)
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=True)
        headers = {"Accept-Encoding": "identity"} | {
            k: v.reveal() for k, v in self._headers.items()
        }
        timeout = aiohttp.ClientTimeout(total=self._retry.timeout_s, sock_connect=30)
        try:
            async with self._session.request(
                self.mapping.method,
                self._url_of(ask),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                **arguments,
            ) as response:
                return await self._read(response, start)
        except aiohttp.ServerTimeoutError as error:  # the connection was not accepted
            raise Fault(f"the service does not answer ({error})", kind="connect") from None
        except TimeoutError:
            raise Fault(f"no reply within {self._retry.timeout_s:g} s", kind="timeout") from None
        except aiohttp.ClientConnectorError as error:
            raise Fault(
                f"the service does not answer ({error.os_error.strerror or 'refused'})",
                kind="connect",
            ) from None
        except (aiohttp.ClientError, ConnectionError) as error:
            packed = (
                f": {error}" if "content-encoding" in str(error) else ""
            )  # one that this aiohttp cannot unpack
            raise Fault(
                f"the connection broke ({type(error).__name__}{packed})", kind="reset"
            ) from None

    async def _read(self, response: aiohttp.ClientResponse, start: float) -> Reply:
        status, headers = response.status, response.headers
        if not 200 <= status < 300:  # some frameworks answer every POST with 201
            body = excerpt((await response.content.read(2000)).decode("utf-8", "replace"))
            if status in (408, 425, 429) or status >= 500:
                raise Fault(
                    f"HTTP {status}: {body}", kind=str(status), retry_after=retry_after(headers)
                )
            raise ItemError(f"HTTP {status}: {body}")
        version = headers.get(self.mapping.version or "-", "")
        cached = (
            headers.get("Age", "0") not in ("0", "") or "hit" in headers.get("X-Cache", "").lower()
        )
        first = 0.0
        if form := self.mapping.stream:
            events = []
            async for event in events_of(response.content, form):
                first = first or time.perf_counter() - start
                events.append(event)
            if not events:
                raise ItemError("the stream held no event")
            return Reply(events, first, version, cached)
        data = bytearray()
        async for piece in response.content.iter_chunked(65536):
            first = first or time.perf_counter() - start
            data += piece
            if len(data) > MAX_BYTES:
                raise ItemError(TOO_LONG)
        return Reply([parse_json(bytes(data))], first, version, cached)

    async def close(self) -> None:
        """Close its connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
