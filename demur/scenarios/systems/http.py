"""A RAG service as a system: ``http:rag.yaml``, a file that maps a question to its request and its reply to an answer.

Nothing about the service has to change::

    url: https://rag.example.com/ask
    headers: {Authorization: "Bearer ${RAG_TOKEN}"}      # from the environment, never written anywhere
    body: {query: "{question}", pictures: "{images}", top_k: 5}
    answer: $.answer                                      # JSONPath (RFC 9535)
    contexts: $.sources[*]                                # what its retriever found, best first
    context: {id: $.doc_id, text: $.text, score: $.score} # in each of them
    citations: $.citations[*].doc_id
    confidence: $.confidence                              # 0 to 1
    abstained: $.no_answer                                # true where the service itself says that it has no answer

``demur rag probe rag.yaml`` asks one question and prints what was understood. ``http:https://host/ask`` alone takes
``{"question": ..., "images": [base64]}`` for the request, and looks for the answer under its usual names.
Every key: `KEYS`. Failures are told apart, tried again where that may help, and recorded on the item; the run goes on.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from demur.core.errors import DemurError, PermanentError, StorageError, UsageError
from demur.core.records import Ask, Response, Retrieved
from demur.core.store import digest, parsed_yaml, read_text
from demur.models.keys import Secret
from demur.scenarios.contexts import WHOLE

if TYPE_CHECKING:
    import aiohttp

    from demur.scenarios.systems import SystemContext

KEYS = {
    "url": "address that is asked; or one for each of full, gold-removed and empty",
    "method": "POST (default), PUT or GET",
    "headers": "name: value; ${NAME} is taken from the environment",
    "body": "JSON with {question}, {images}, {evidence}, {choices}, {id}, {strictness}, {corpus}, {exclude} in it; a "
    "field that is only such a name becomes the thing itself",
    "query": "parameters of the address, filled in like the body",
    "images": "how {images} are sent: base64 (default), data-url, or multipart (as files)",
    "files": "multipart: name of the field that holds the images (default: images)",
    "answer": "JSONPath of the answer; of each event where the reply is streamed",
    "contexts": "JSONPath of what was retrieved, best first",
    "context": "JSONPaths within each of these: id, text, score",
    "citations": "JSONPath of the ids that the answer cites",
    "confidence": "JSONPath of its confidence, 0 to 1",
    "abstained": "JSONPath of a true or false: the service itself says that it gives no answer",
    "stream": "sse or ndjson, where the reply comes in events",
    "timeout": "seconds for a whole reply (default: 120)",
    "retries": "tries again after a refusal, a time-out, 429 or 5xx (default: 3)",
    "warm_up": "requests before the first is measured (default: 0)",
    "version": "name of a header that tells the service's version; a redeployment during a run is then told",
    "concurrency": "requests at once (default: 4)",
    "revision": "raise it when the service has changed: what it said before is then not reused",
    "name": "what it is called in tables (default: http:HOST)",
}
"""What a mapping may say."""

_PLACES = frozenset({"question", "images", "evidence", "choices", "id", "strictness", "corpus", "exclude"})
_ANSWERS = (
    "$.answer",
    "$.response",
    "$.output",
    "$.text",
    "$.result",
    "$.message.content",
    "$.choices[0].message.content",
)
"""Where an answer usually is."""
_CONTEXT = {"id": "$.id", "text": "$.text", "score": "$.score"}
_MOST = 10_000_000
"""Bytes of a reply after which it is not an answer."""
_PLACE = re.compile(r"\{(\w{1,20})\}")
_VARIABLE = re.compile(r"\$\{(\w{1,100})\}")
EMPTY = frozenset({"empty response"})
"""What frameworks return instead of an answer when their retriever found nothing (LlamaIndex); no answer."""


class Problem(Exception):
    """Why one attempt gave no answer, in a line, and whether to try again."""

    def __init__(self, why: str, *, again: bool = False, after: float | None = None) -> None:
        super().__init__(why)
        self.again, self.after = again, after


class Reply(NamedTuple):
    """A reply as it came."""

    events: list[Any]
    """Its JSON; one value, or those of a stream in order."""
    first_s: float
    """Seconds until its first byte or event."""
    version: str
    gateway_cache: bool
    """A cache between us and the service says that it answered."""


def _environment(text: str, item: str) -> Secret:
    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise UsageError(f"${{{found[1]}}} is not in the environment", item=item, cure=f"export {found[1]}=...")
        return os.environ[found[1]]

    filled = _VARIABLE.sub(value, text)
    if not filled.isprintable():
        raise UsageError("a header holds a line break or another control character", item=item)
    return Secret(filled)


class RagMapping(NamedTuple):
    """A mapping, checked: see `KEYS`."""

    given: dict[str, Any]
    item: str
    """What errors call it."""

    @classmethod
    def read(cls, argument: str) -> RagMapping:
        """Of a file, or of a bare address.

        Raises:
            UsageError: an unknown key, a value of the wrong kind, a path that is no JSONPath.
            StorageError: there is no such file.
        """
        if re.match(r"(?i)https?://|//", argument):
            return cls.of({"url": argument if ":" in argument.split("/")[0] else f"http:{argument}"}, argument)
        path = Path(argument)
        if not path.is_file():
            raise StorageError(
                "there is no such file", item=argument or "http:", cure="http:rag.yaml, or http:https://..."
            )
        given = parsed_yaml(read_text(path), str(path))
        if not isinstance(given, dict):
            raise UsageError("is no mapping", item=str(path), cure=f"keys: {', '.join(KEYS)}")
        return cls.of(given, str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], item: str) -> RagMapping:
        """Of values at hand."""
        from difflib import get_close_matches

        for key in given:
            if key not in KEYS:
                near = get_close_matches(str(key), KEYS, 1)
                raise UsageError(f"unknown key {key!r}", item=item, cure=f"did you mean {near[0]}?" if near else
                                 f"keys: {', '.join(KEYS)}")  # fmt: skip
        made = cls(dict(given), item)
        made._check()
        return made

    def _check(self) -> None:
        urls = self.given.get("url")
        if isinstance(urls, dict) and not set(urls) <= set(WHOLE):
            raise UsageError(f"url takes {', '.join(WHOLE)}", item=self.item)
        for url in urls.values() if isinstance(urls, dict) else [urls]:
            if not isinstance(url, str) or not re.match(r"(?i)https?://[^/]", url):
                raise UsageError(f"url is {url!r}", item=self.item, cure="write url: https://host/path")
        self._one_of("method", ("POST", "PUT", "GET"))
        self._one_of("images", ("base64", "data-url", "multipart"))
        self._one_of("stream", ("sse", "ndjson"))
        for key in ("answer", "contexts", "citations", "confidence", "abstained"):
            if key in self.given:
                _path(self.given[key], f"{self.item}: {key}")
        context = self.given.get("context", {})
        if not isinstance(context, dict) or not set(context) <= set(_CONTEXT):
            raise UsageError("context takes id, text and score", item=self.item)
        for key, value in context.items():
            _path(value, f"{self.item}: context.{key}")
        for key, least in (("timeout", 0.1), ("retries", 0), ("warm_up", 0), ("concurrency", 1)):
            value = self.given.get(key, least)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
                raise UsageError(f"{key} is {value!r}, not a number of at least {least}", item=self.item)
        unknown = set(self.places())
        if unknown - _PLACES:
            raise UsageError(
                f"{{{min(unknown - _PLACES)}}} stands for nothing", item=self.item,
                cure=", ".join(f"{{{p}}}" for p in sorted(_PLACES)),
            )  # fmt: skip

    def _one_of(self, key: str, values: Sequence[str]) -> None:
        value = self.given.get(key, values[0])
        if value not in values:
            raise UsageError(f"{key} is {value!r}", item=self.item, cure=f"one of {', '.join(values)}")

    def places(self) -> Iterator[str]:
        """The names that its request is filled with."""
        for text in _texts((self.body, self.given.get("query", {}), self.given.get("url", ""))):
            yield from _PLACE.findall(_VARIABLE.sub("", text))

    @property
    def body(self) -> Any:
        """The template of the request."""
        return self.given.get("body", {"question": "{question}", "images": "{images}"})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _path(text: Any, item: str) -> Any:
    """A compiled JSONPath."""
    from jsonpath_rfc9535 import JSONPathError, compile

    try:
        return compile(text if isinstance(text, str) else "")
    except JSONPathError as error:
        raise UsageError(
            f"{text!r} is no JSONPath: {str(error).splitlines()[0]}",
            item=item,
            cure="as in $.answer or $.sources[*].id",
        ) from None


def _found(text: str, value: Any) -> list[Any]:
    return list(_path(text, "").find(value).values())


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with its places filled: a text that is only a place becomes the thing, others have text put in."""
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole:
            return values[whole[1]]
        return _PLACE.sub(lambda m: _text(values[m[1]]), template)
    if isinstance(template, dict):
        return {key: _fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, values) for value in template]
    return template


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class HttpSystem:
    """A service behind HTTP, asked by a mapping of requests and replies (module docstring).

    Args:
        argument: file of the mapping, or an address.
        context: its surroundings.

    Raises:
        UsageError: the mapping cannot be used; a variable of it is not in the environment.
        StorageError: the file cannot be read.
    """

    aside = False  # it only waits for the service
    reads_prompt = False

    def __init__(self, argument: str | RagMapping, context: SystemContext) -> None:
        self.mapping = argument if isinstance(argument, RagMapping) else RagMapping.read(argument)
        given = self.mapping.given
        urls = given["url"] if isinstance(given["url"], dict) else {"": given["url"]}
        host = re.sub(r"(?i)^https?://(?:[^/@]*@)?", "", next(iter(urls.values()))).split("/")[0]
        self.id = str(given.get("name") or f"http:{host}")
        self.note = "a service of its own"
        self.reads_prompt = "strictness" in set(self.mapping.places())
        self.revision = digest([{k: v for k, v in given.items() if k not in ("timeout", "retries", "concurrency")}], 16)
        self._headers = {
            str(k): _environment(str(v), f"{self.mapping.item}: headers.{k}")
            for k, v in given.get("headers", {}).items()
        }
        self._urls = {corpus: _environment(url, f"{self.mapping.item}: url") for corpus, url in urls.items()}
        self._slots = asyncio.Semaphore(int(context.concurrency or given.get("concurrency", 4)))
        self._read_image = context.read_image
        self._session: aiohttp.ClientSession | None = None
        self._warm = False
        self._versions: list[str] = []
        self.gateway_cached = 0
        """Replies that a cache in front of the service gave."""

    def skip_reason(self, ask: Ask) -> str:
        """Why a question is not asked: the mapping has no address for its corpus."""
        if "" not in self._urls and self._corpus(ask) not in self._urls:
            return f"its mapping has no url for {ask.scenario.value}"
        return ""

    @staticmethod
    def _corpus(ask: Ask) -> str:
        return "" if ask.scenario.shows_evidence else ask.scenario.value

    def _url_of(self, ask: Ask) -> str:
        url = self._urls.get(self._corpus(ask)) or self._urls[""]
        return url.reveal().replace("{corpus}", self._corpus(ask)).replace("{id}", quote(ask.sample, safe=""))

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """See that somebody listens.

        Raises:
            PermanentError: nobody does.
        """
        for secret in self._urls.values():
            await self._reach(secret.reveal())
        places = set(self.mapping.places())
        if any(a.exclude for a in asks) and "" in self._urls and not places & {"corpus", "exclude"}:
            raise UsageError(
                "the service is not told to leave the gold out", item=self.id,
                cure="put {exclude} or {corpus} into body, query or url, or give a url for each corpus",
            )  # fmt: skip
        if "evidence" not in places and any(a.evidence for a in asks):
            return [
                f"{self.id} is not sent the evidence (no {{evidence}} in its body): every scenario asks it the same. "
                "To score it with its own retriever: demur corpus export, then --scenarios whole --corpora DIR"
            ]
        return []

    async def _reach(self, url: str) -> None:
        host, _, port = re.sub(r"(?i)^https?://(?:[^/@]*@)?", "", url).split("/")[0].partition(":")
        number = int(port) if port.isdecimal() else 443 if url.lower().startswith("https") else 80
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), number), 30)
            writer.close()
        except (OSError, TimeoutError) as error:
            raise PermanentError(
                f"no service answers there ({type(error).__name__})", item=self.id, cure="start it, or check url"
            ) from None

    async def answer(self, ask: Ask) -> Response:
        """Ask the service; whatever goes wrong is this item's error."""
        async with self._slots:
            if not self._warm:
                self._warm = True
                for _ in range(int(self.mapping.given.get("warm_up", 0))):
                    await self._tried(ask)
            return await self._tried(ask)

    async def _tried(self, ask: Ask) -> Response:
        retries = int(self.mapping.given.get("retries", 3))
        start = time.perf_counter()
        for attempt in range(retries + 1):
            begun = time.perf_counter()
            try:
                reply = await self._once(ask)
                return self.understood(reply, time.perf_counter() - begun)
            except Problem as problem:
                if not problem.again or attempt == retries:
                    tries = f" ({attempt + 1} tries)" if attempt else ""
                    return Response(
                        error=self._scrubbed(f"{problem}{tries}"),
                        served_by=self.id,
                        latency_s=time.perf_counter() - start,
                    )
                wait = problem.after if problem.after is not None else min(30.0, 0.5 * 2**attempt)
                await asyncio.sleep(min(wait, 60.0) * random.uniform(0.8, 1.2))
            except DemurError as error:
                return Response(error=self._scrubbed(str(error)), served_by=self.id)
        raise AssertionError("unreachable")

    def _scrubbed(self, text: str) -> str:
        for secret in self._headers.values():
            text = secret.scrub(text)
        for secret in self._urls.values() if "${" in str(self.mapping.given["url"]) else ():
            text = secret.scrub(text)
        return " ".join(text.split())[:1000].encode("utf-8", "replace").decode()

    async def _values(self, ask: Ask) -> dict[str, Any]:
        def encoded(data: bytes) -> str:
            text = base64.b64encode(data).decode()
            return f"data:{_kind(data)};base64,{text}" if self.mapping.given.get("images") == "data-url" else text

        def images() -> tuple[list[str], list[dict[str, Any]]]:
            shown = [
                {"id": e.id, "title": e.title, "text": e.text}
                | ({"image": encoded(self._read_image(e.image))} if e.image else {})
                for e in ask.evidence
            ]
            return [encoded(self._read_image(i)) for i in ask.images], shown

        sent, evidence = await asyncio.to_thread(images)
        return {
            "question": ask.question, "images": sent, "evidence": evidence, "id": ask.sample,
            "choices": [list(c) for c in ask.choices], "strictness": ask.condition, "corpus": self._corpus(ask),
            "exclude": list(ask.exclude),
        }  # fmt: skip

    async def probe(self, ask: Ask) -> tuple[Reply | None, Response]:
        """One attempt, without a second: the reply as it came, and what was understood of it (else its error)."""
        begun = time.perf_counter()
        reply: Reply | None = None
        try:
            reply = await self._once(ask)
            return reply, self.understood(reply, time.perf_counter() - begun)
        except (Problem, DemurError) as error:
            return reply, Response(error=self._scrubbed(str(error)), served_by=self.id)

    async def request(self, ask: Ask) -> Any:
        """The body that is sent for a question; secrets stand in headers and are not in it."""
        return _fill(self.mapping.body, await self._values(ask))

    async def _once(self, ask: Ask) -> Reply:
        import aiohttp

        given = self.mapping.given
        values = await self._values(ask)
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=True, auto_decompress=False)
        sent: dict[str, Any] = {}
        if given.get("query"):
            sent["params"] = {k: _text(v) for k, v in _fill(given["query"], values).items()}
        if given.get("images") == "multipart":
            form = aiohttp.FormData()
            for key, value in _fill(self.mapping.body, values | {"images": ""}).items():
                if value != "":
                    form.add_field(key, _text(value))
            for n, image in enumerate(ask.images):
                data = await asyncio.to_thread(self._read_image, image)
                form.add_field(
                    given.get("files", "images"), data, filename=f"{n}.{_kind(data)[6:]}", content_type=_kind(data)
                )
            sent["data"] = form
        elif given.get("method", "POST") != "GET":
            sent["json"] = _fill(self.mapping.body, values)
        elif "query" not in given:
            sent["params"] = {k: _text(v) for k, v in _fill(self.mapping.body, values).items()}
        headers = {"Accept-Encoding": "identity"} | {k: v.reveal() for k, v in self._headers.items()}
        timeout = aiohttp.ClientTimeout(total=float(given.get("timeout", 120)), sock_connect=30)
        try:
            async with self._session.request(
                given.get("method", "POST"),
                self._url_of(ask),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                **sent,
            ) as response:
                return await self._read(response)
        except TimeoutError:
            raise Problem(f"no reply within {timeout.total:g} s", again=True) from None
        except aiohttp.ClientConnectorError as error:
            raise Problem(f"no service answers there ({error.os_error.strerror or 'refused'})", again=True) from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Problem(f"the connection broke ({type(error).__name__})", again=True) from None

    async def _read(self, response: aiohttp.ClientResponse) -> Reply:
        start = time.perf_counter()
        status = response.status
        if status != 200:
            body = (await response.content.read(2000)).decode("utf-8", "replace")
            after = response.headers.get("Retry-After", "")
            again = status in (408, 425, 429) or status >= 500
            raise Problem(
                f"HTTP {status}: {_start(body)}", again=again, after=float(after) if after.isdecimal() else None
            )
        version = (
            response.headers.get(str(self.mapping.given.get("version", "")), "")
            if self.mapping.given.get("version")
            else ""
        )
        cached = (
            response.headers.get("Age", "0") not in ("0", "") or "hit" in response.headers.get("X-Cache", "").lower()
        )
        if self.mapping.given.get("stream"):
            events, first = [], 0.0
            async for event in _events(response.content, self.mapping.given["stream"]):
                first = first or time.perf_counter() - start
                events.append(event)
            if not events:
                raise Problem("the stream held no event")
            return Reply(events, first, version, cached)
        data = bytearray()
        first = 0.0
        async for piece in response.content.iter_chunked(65536):
            first = first or time.perf_counter() - start
            data += piece
            if len(data) > _MOST:
                raise Problem(f"a reply of more than {_MOST // 1_000_000} MB")
        return Reply([_json(bytes(data))], first, version, cached)

    def understood(self, reply: Reply, latency: float) -> Response:
        """A reply as an answer with what was retrieved, cited and said of it.

        Raises:
            Problem: it holds no answer.
        """
        given, last = self.mapping.given, reply.events[-1]
        text = self._answer(reply.events)
        abstained = next(iter(self._all("abstained", reply.events)), None)
        if abstained is not None and not isinstance(abstained, bool):
            raise Problem(f"abstained is {_start(repr(abstained))}, not true or false")
        if text.strip().lower() in EMPTY:
            raise Problem("Empty Response: its retriever found nothing and its model was not asked")
        confidence = next(iter(self._all("confidence", reply.events)), None)
        if confidence is not None and (
            isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1
        ):
            raise Problem(f"confidence is {_start(repr(confidence))}, not a number from 0 to 1")
        paths = _CONTEXT | given.get("context", {})
        contexts = [_context(rank, one, paths) for rank, one in enumerate(self._all("contexts", reply.events), 1)]
        served = f"{self.id}@{reply.version}" if reply.version else self.id
        if reply.version and reply.version not in self._versions:
            self._versions.append(reply.version)
        self.gateway_cached += reply.gateway_cache
        cited = tuple(_storable(_text(c))[:500] for c in self._all("citations", [last]))
        return Response(
            text=_storable(text), confidence=confidence, latency_s=latency, first_s=reply.first_s, abstained=abstained,
            served_by=_storable(served)[:200], retrieved=tuple(contexts), citations=cited,
        )  # fmt: skip

    def _all(self, key: str, events: Sequence[Any]) -> list[Any]:
        path = self.mapping.given.get(key)
        found = [value for event in events for value in _found(path, event)] if path else []
        return found[0] if len(found) == 1 and isinstance(found[0], list) else found

    def _answer(self, events: Sequence[Any]) -> str:
        path = self.mapping.given.get("answer")
        if path is None:
            if isinstance(events[-1], str):
                return events[-1]
            path = next((p for p in _ANSWERS if _found(p, events[-1])), None)
            if path is None:
                keys = ", ".join(list(events[-1])[:10]) if isinstance(events[-1], dict) else type(events[-1]).__name__
                raise Problem(f"no answer under its usual names; the reply holds: {_start(keys)}")
        found = [value for event in events for value in _found(path, event) if value is not None]
        if not found and self.mapping.given.get("abstained") and True in self._all("abstained", events):
            return ""
        if not found or not all(isinstance(value, str) for value in found):
            what = "nothing" if not found else f"a {type(found[0]).__name__}"
            raise Problem(f"answer ({path}) is {what} in the reply: {_start(json.dumps(events[-1])[:300])}")
        return "".join(found)

    async def close(self) -> None:
        """Let its connections go."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _context(rank: int, value: Any, paths: Mapping[str, str]) -> Retrieved:
    if isinstance(value, str):
        return Retrieved(rank=rank, text=_storable(value))
    found = {key: next(iter(_found(path, value)), None) for key, path in paths.items()}
    score = found["score"]
    plain = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < 1e300
    return Retrieved(
        id=_storable(_text(found["id"]))[:500] if found["id"] is not None else "", rank=rank,
        score=float(score) if isinstance(score, int | float) and plain else None,
        text=_storable(found["text"]) if isinstance(found["text"], str) else "",
    )  # fmt: skip


async def _events(content: aiohttp.StreamReader, form: str) -> AsyncIterator[Any]:
    """JSON values of a stream; what is between them (comments, names, ``[DONE]``) is passed over."""
    read = 0
    buffer = b""
    async for piece in content.iter_any():
        read += len(piece)
        if read > _MOST:
            raise Problem(f"a reply of more than {_MOST // 1_000_000} MB")
        *lines, buffer = (buffer + piece).split(b"\n")
        for line in lines:
            if (value := _event(line, form)) is not None:
                yield value
    if (value := _event(buffer, form)) is not None:
        yield value


def _event(line: bytes, form: str) -> Any:
    text = line.strip()
    if form == "sse":
        if not text.startswith(b"data:"):
            return None
        text = text[5:].strip()
    return None if text in (b"", b"[DONE]") else _json(text)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=_refused)
    except (ValueError, RecursionError):
        shown = data[:300].decode("utf-8", "replace")
        what = "HTML" if shown.lstrip().lower().startswith(("<!doctype", "<html")) else "no JSON"
        raise Problem(f"the reply is {what}: {_start(shown)}") from None


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _start(text: str) -> str:
    short = " ".join(_storable(text).split())
    return short if len(short) <= 120 else short[:120] + "..."


def _kind(data: bytes) -> str:
    """Media type of image bytes."""
    signs = (
        (b"\x89PNG", "png"),
        (b"\xff\xd8", "jpeg"),
        (b"GIF8", "gif"),
        (b"BM", "bmp"),
        (b"II*\0", "tiff"),
        (b"MM\0*", "tiff"),
    )
    return (
        f"image/{next((k for sign, k in signs if data.startswith(sign)), 'webp' if data[8:12] == b'WEBP' else 'png')}"
    )


class Probe(NamedTuple):
    """One question asked of a service, and what was understood of its reply."""

    body: Any
    """What was sent."""
    reply: Reply | None
    """What came; None where nothing usable did."""
    response: Response
    mapping: RagMapping

    def text(self) -> str:
        """For a terminal: request, reply, and each thing that was or was not found in it."""
        r = self.response
        lines = [f"sent      {_start(json.dumps(_short(self.body), ensure_ascii=False))}"]
        if self.reply is not None:
            lines.append(f"reply     {_start(json.dumps(self.reply.events[-1], ensure_ascii=False))}")
        if r.error:
            return "\n".join([*lines, f"no answer: {r.error}", *self._advice()]) + "\n"
        paths = self.mapping.given
        first = "".join(f", first: {_start(f'{c.id} {c.text}')!r}" for c in r.retrieved[:1])
        lines += [
            f"answer    {_start(r.text)!r}",
            f"contexts  {len(r.retrieved)}{first}",
            f"citations {', '.join(r.citations) or '-'}",
            f"says of itself: confidence {r.confidence}, abstained {r.abstained}",
            f"took      {r.latency_s:.2f} s, {r.first_s:.2f} s to its first byte",
        ]  # fmt: skip
        absent = [key for key in ("contexts", "citations", "confidence", "abstained") if key not in paths]
        if absent:
            lines.append(
                f"not mapped: {', '.join(absent)}; where the reply has them, a JSONPath in the mapping finds them"
            )
        return "\n".join([*lines, *self._advice()]) + "\n"

    def _advice(self) -> list[str]:
        if self.reply is None or self.response.text:
            return []
        return ["", "what the reply holds, as JSONPaths:", *(f"  {p}" for p in _leaves(self.reply.events[-1]))]

    def as_json(self) -> dict[str, Any]:
        """The same as values."""
        reply = None if self.reply is None else self.reply.events
        return {"sent": _short(self.body), "reply": reply, "understood": self.response.model_dump(mode="json")}


def _short(value: Any) -> Any:
    """A body with its images cut."""
    if isinstance(value, str):
        return value if len(value) <= 200 else value[:60] + f"... ({len(value):,} characters)"
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, list | tuple) else value


def _leaves(value: Any, at: str = "$", most: int = 30) -> list[str]:
    """Where plain values stand in a reply."""
    found: list[str] = []
    waiting = [(value, at)]
    while waiting and len(found) < most:
        one, path = waiting.pop(0)
        if isinstance(one, dict):
            waiting += [
                (v, f"{path}.{k}" if re.fullmatch(r"[A-Za-z_]\w*", str(k)) else f"{path}[{k!r}]")
                for k, v in one.items()
            ]
        elif isinstance(one, list):
            waiting += [(one[0], f"{path}[*]")] if one else []
        else:
            found.append(f"{path}  = {_start(_text(one))}")
    return found


def probed(mapping: str, question: str, images: Sequence[Path] = ()) -> Probe:
    """Ask a service one question (``demur rag probe``).

    Args:
        mapping: file of the mapping, or an address.
        question: what is asked.
        images: files that go with it.

    Raises:
        UsageError: the mapping cannot be used, or an image is none.
        StorageError: a file cannot be read.
    """
    from demur.core.records import Scenario
    from demur.core.store import image_ref
    from demur.models import run_sync
    from demur.scenarios.systems import SystemContext

    refs = tuple(image_ref(path.read_bytes(), str(path)) for path in images)
    ask = Ask(id="probe", sample="probe", context="probe", scenario=Scenario.PARAMETRIC, question=question, images=refs)
    system = HttpSystem(mapping, SystemContext(read_image=lambda ref: Path(ref.uri).read_bytes()))

    async def work() -> Probe:
        try:
            body = await system.request(ask)
            reply, response = await system.probe(ask)
            return Probe(body, reply, response, system.mapping)
        finally:
            await system.close()

    return run_sync(work())
