"""The mapping file of a RAG service (`demur.scenarios.systems.http`): its keys, and requests filled in from it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import StorageError, UsageError, did_you_mean
from demur.core.store import parsed_yaml, read_text
from demur.models.keys import Secret
from demur.scenarios.contexts import WHOLE

KEYS = {
    "url": "the service's address; or one for each of full, gold-removed and empty",
    "method": "POST (default), PUT or GET",
    "headers": "name: value; ${NAME} is taken from the environment",
    "body": "JSON with {question}, {images}, {evidence}, {choices}, {id}, {strictness}, {corpus}, {exclude}, {turns} "
    "(earlier turns of the conversation), {messages} (those and the question) in it; a field "
    "that is only such a name becomes the value itself",
    "query": "query parameters, filled in like the body",
    "images": "how {images} are sent: base64 (default), data-url, or multipart (as files)",
    "files": "multipart: name of the field that holds the images (default: images)",
    "answer": "JSONPath of the answer; within each event when the reply is streamed",
    "contexts": "JSONPath of the retrieved documents, best first",
    "context": "JSONPaths within each of these: id, text, score",
    "citations": "JSONPath of the ids that the answer cites",
    "confidence": "JSONPath of the answer's confidence, 0 to 1",
    "abstained": "JSONPath of true or false: whether the service itself declines to answer",
    "prompt_tokens": "JSONPath of the number of tokens that its model read",
    "completion_tokens": "JSONPath of the number of tokens that its model wrote",
    "cost": "JSONPath of the answer's cost, in US dollars",
    "stream": "sse or ndjson, when the reply comes in events",
    "timeout": "seconds for a whole reply (default: 120)",
    "retries": "retries after a refused connection, a time-out, 429 or 5xx (default: 3)",
    "warm_up": "requests before the first is measured (default: 0)",
    "version": "response header with the service's version; demur reports a redeployment during a run",
    "concurrency": "requests at once (default: 4)",
    "revision": "raise it when the service changes: earlier answers are then not reused",
    "name": "the system's name in tables (default: http:HOST)",
}
"""The keys of a mapping."""

PLACES = frozenset({
    "question", "images", "evidence", "choices", "id", "strictness", "corpus", "exclude", "turns", "messages",
})  # fmt: skip
"""Placeholders of a request."""
PATHS = (
    "answer", "contexts", "citations", "confidence", "abstained", "prompt_tokens", "completion_tokens", "cost",
)  # fmt: skip
"""Keys whose value is a JSONPath into the reply."""
CONTEXT = {"id": "$.id", "text": "$.text", "score": "$.score"}
"""Paths within a retrieved document, unless the mapping has others."""
_CORPUS = re.compile("|".join(WHOLE) + r"|gold-removed-\d{1,6}")
_PLACE = re.compile(r"\{(\w{1,20})\}")
_VARIABLE = re.compile(r"\$\{(\w{1,100})\}")


def from_environment(text: str, item: str) -> Secret:
    """Replace each ``${NAME}`` by the environment's value; the result never prints itself.

    Raises:
        UsageError: a variable is not set, or holds a control character.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise UsageError(f"${{{found[1]}}} is not in the environment", item=item, cure=f"export {found[1]}=...")
        return os.environ[found[1]]

    filled = _VARIABLE.sub(value, text)
    if not filled.isprintable():
        raise UsageError("a header holds a line break or another control character", item=item)
    return Secret(filled)


class RagMapping(NamedTuple):
    """A checked mapping: see `KEYS`."""

    given: dict[str, Any]
    item: str
    """Its file or address, for errors."""

    @classmethod
    def read(cls, argument: str) -> RagMapping:
        """Read a mapping from a file, or make one for a bare address.

        Raises:
            UsageError: an unknown key, a value of the wrong kind, a path that is no JSONPath.
            StorageError: there is no such file.
        """
        if re.match(r"(?i)https?://|//", argument):
            return cls.of({"url": argument if ":" in argument.split("/")[0] else f"http:{argument}"}, argument)
        path = Path(argument)
        if not path.is_file():
            cure = "name a mapping (docs/score-your-rag.md has one) or an address"
            raise StorageError("no such file", item=argument or "http:", cure=cure)
        given = parsed_yaml(read_text(path), str(path))
        if not isinstance(given, dict):
            raise UsageError("not a mapping", item=str(path), cure=f"keys: {', '.join(KEYS)}")
        return cls.of(given, str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], item: str) -> RagMapping:
        """Check values and make a mapping of them."""
        for key in given:
            if key not in KEYS:
                near = did_you_mean(str(key), list(KEYS))
                raise UsageError(f"unknown key {key!r}", item=item, cure=near or f"keys: {', '.join(KEYS)}")
        made = cls(dict(given), item)
        made._check()
        return made

    def _check(self) -> None:
        urls = self.given.get("url")
        if isinstance(urls, dict) and not all(re.fullmatch(_CORPUS, str(name)) for name in urls):
            raise UsageError(f"url takes {', '.join(WHOLE)}; with folds gold-removed-1 ...", item=self.item)
        for url in urls.values() if isinstance(urls, dict) else [urls]:
            if not isinstance(url, str) or not re.match(r"(?i)https?://[^/]", url):
                raise UsageError(f"url is {url!r}", item=self.item, cure="write url: https://host/path")
        self._one_of("method", ("POST", "PUT", "GET"))
        self._one_of("images", ("base64", "data-url", "multipart"))
        self._one_of("stream", ("sse", "ndjson"))
        for key in PATHS:
            if key in self.given:
                json_path(self.given[key], f"{self.item}: {key}")
        context = self.given.get("context", {})
        if not isinstance(context, dict) or not set(context) <= set(CONTEXT):
            raise UsageError("context takes id, text and score", item=self.item)
        for key, value in context.items():
            json_path(value, f"{self.item}: context.{key}")
        for key, least in (("timeout", 0.1), ("retries", 0), ("warm_up", 0), ("concurrency", 1)):
            value = self.given.get(key, least)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
                raise UsageError(f"{key} is {value!r}, not a number of at least {least}", item=self.item)
        unknown = set(self.places())
        if unknown - PLACES:
            raise UsageError(
                f"unknown placeholder {{{min(unknown - PLACES)}}}", item=self.item,
                cure=f"placeholders are {', '.join(f'{{{p}}}' for p in sorted(PLACES))}",
            )  # fmt: skip

    def _one_of(self, key: str, values: Sequence[str]) -> None:
        value = self.given.get(key, values[0])
        if value not in values:
            raise UsageError(f"{key} is {value!r}", item=self.item, cure=f"one of {', '.join(values)}")

    def places(self) -> Iterator[str]:
        """The placeholders that the request uses."""
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


@lru_cache(maxsize=256)
def _compiled(text: str) -> Any:
    from jsonpath_rfc9535 import compile

    return compile(text)


def json_path(text: Any, item: str) -> Any:
    """A compiled JSONPath (RFC 9535).

    Raises:
        UsageError: the text is not a JSONPath.
    """
    from jsonpath_rfc9535 import JSONPathError

    try:
        return _compiled(text if isinstance(text, str) else "")
    except JSONPathError as error:
        raise UsageError(
            f"{text!r} is not a JSONPath: {str(error).splitlines()[0]}",
            item=item,
            cure="as in $.answer or $.sources[*].id",
        ) from None


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill in a template: a text that is only a placeholder becomes the value, in other texts the value is inserted."""
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole:
            return values[whole[1]]
        return _PLACE.sub(lambda m: as_text(values[m[1]]), template)
    if isinstance(template, dict):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    return template


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
