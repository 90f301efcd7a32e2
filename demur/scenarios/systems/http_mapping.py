"""The mapping file of a RAG service (`demur.scenarios.systems.http`): its keys, and requests filled in from it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
)

from demur.core.errors import StorageError, UsageError
from demur.core.records import Record
from demur.core.untrusted import VARIABLE, permit, written_in
from demur.core.yaml_record import Form, parse_record, read_record
from demur.models.keys import Secret
from demur.scenarios.contexts import WHOLE

PLACES = frozenset(
    {
        "question",
        "images",
        "evidence",
        "choices",
        "id",
        "strictness",
        "corpus",
        "exclude",
        "turns",
        "messages",
    }
)
"""Placeholders of a request."""
_PLACE = re.compile(r"\{(\w{1,20})\}")


@lru_cache(maxsize=256)
def json_path(text: str) -> Any:
    """A compiled JSONPath (RFC 9535).

    Raises:
        ValueError: the text is not a JSONPath.
    """
    from jsonpath_rfc9535 import JSONPathError, compile

    try:
        return compile(text)
    except JSONPathError as error:
        why = str(error).splitlines()[0]
        raise ValueError(
            f"{text!r} is not a JSONPath ({why}): write $.answer or $.sources[*].id"
        ) from None


def _checked(path: str) -> str:
    json_path(path)
    return path


JsonPath = Annotated[str, AfterValidator(_checked)]
"""A JSONPath into the reply."""
Whole = Annotated[int, Field(ge=0, strict=True)]
FORM = Form("the mapping", "correct the mapping; docs/score-your-rag.md lists its keys")


class ContextPaths(Record):
    """JSONPaths within a retrieved document."""

    id: JsonPath = "$.id"
    text: JsonPath = "$.text"
    score: JsonPath = "$.score"


class RagMapping(Record):
    """How a question becomes a request, and how the reply becomes an answer: the keys of a mapping file."""

    url: str | dict[str, str]
    """The service's address; or one for each of full, gold-removed and empty."""
    method: Literal["POST", "PUT", "GET"] = "POST"
    headers: dict[str, str | bool | int | float] = Field(default_factory=dict)
    """Name: value; ``${NAME}`` is taken from the environment."""
    query: dict[str, Any] = Field(default_factory=dict)
    """Query parameters, filled in like the body."""
    images: Literal["base64", "data-url", "multipart"] = "base64"
    """How ``{images}`` are sent; multipart: as files of a form."""
    files: str = "images"
    """Multipart: name of the field that holds the images."""
    body: Any = Field(default_factory=lambda: {"question": "{question}", "images": "{images}"})
    """JSON with `PLACES` in braces; a field that is only such a name becomes the value itself.

    ``{turns}`` are the earlier turns of the conversation, ``{messages}`` those and the question.
    """
    answer: JsonPath | None = None
    """The answer; within each event when the reply is streamed."""
    contexts: JsonPath | None = None
    """The retrieved documents, best first."""
    context: ContextPaths = ContextPaths()
    """Paths within each of them."""
    citations: JsonPath | None = None
    """The ids that the answer cites."""
    confidence: JsonPath | None = None
    """The answer's confidence, 0 to 1."""
    abstained: JsonPath | None = None
    """True or false: whether the service itself declines to answer."""
    prompt_tokens: JsonPath | None = None
    """Number of tokens that its model read."""
    completion_tokens: JsonPath | None = None
    """Number of tokens that its model wrote."""
    cost: JsonPath | None = None
    """The answer's cost, in US dollars."""
    stream: Literal["sse", "ndjson"] | None = None
    """Form of the events of a streamed reply."""
    timeout: float = Field(default=120, ge=0.1, strict=True, allow_inf_nan=False)
    """Seconds for a whole reply."""
    retries: Whole = 3
    """Retries after a refused connection, a time-out, 429 or 5xx."""
    version: str = ""
    """Response header with the service's version; demur reports a redeployment during a run."""
    concurrency: int = Field(default=4, ge=1, strict=True)
    """Requests at once."""
    revision: Any = None
    """Raise it when the service changes: earlier answers are then not reused."""
    name: str = ""
    """The system's name in tables; if empty that of the file, and ``http`` for a bare address."""
    _item: str = PrivateAttr("")

    @property
    def item(self) -> str:
        """Its file or address, for errors."""
        return self._item

    @classmethod
    def read(cls, argument: str) -> Self:
        """Read a mapping from a file, or make one for a bare address.

        Raises:
            UsageError: unknown keys, values of the wrong kind, paths that are no JSONPath; names all of them.
            UntrustedFile: it sends environment variables, and the user did not agree (``--trust-hosts``).
            StorageError: there is no such file.
        """
        if re.match(r"(?i)https?://|//", argument):
            address = argument if ":" in argument.split("/")[0] else f"http:{argument}"
            return cls.of({"url": address}, argument)
        path = Path(argument)
        if not path.is_file():
            cure = "name a mapping (docs/score-your-rag.md has one) or an address"
            raise StorageError("no such file", item=argument or "http:", cure=cure)
        mapping = read_record(path, cls, FORM)
        mapping._item = str(path)
        acts = list(written_in(json.dumps([mapping.url, mapping.headers])))
        if any(act.does == "send" for act in acts):  # who names a mapping means only its host
            permit(path, acts)
        return mapping

    @classmethod
    def of(cls, fields: Any, item: str) -> Self:
        """A mapping of plain values; raises as `read`."""
        mapping = parse_record(fields, cls, FORM, item=item)
        mapping._item = item
        return mapping

    @field_validator("url", mode="before")
    @classmethod
    def _addresses(cls, url: Any) -> Any:
        if isinstance(url, dict) and not (url and url.keys() <= set(WHOLE)):
            raise ValueError(f"takes {', '.join(WHOLE)}")
        for address in url.values() if isinstance(url, dict) else [url]:
            if not isinstance(address, str) or not re.match(r"(?i)https?://[^/]", address):
                raise ValueError(f"{address!r} is no address: write https://host/path")
        return url

    @field_validator("url", "query", "body")
    @classmethod
    def _placeholders(cls, value: Any) -> Any:
        if unknown := sorted(set(_places(value)) - PLACES):
            placeholder_list = ", ".join(f"{{{p}}}" for p in sorted(PLACES))
            raise ValueError(
                f"unknown placeholder {{{unknown[0]}}}; placeholders are {placeholder_list}"
            )
        return value

    @field_validator("body")
    @classmethod
    def _named_fields(cls, body: Any, earlier_fields: ValidationInfo) -> Any:
        multipart, get = (
            earlier_fields.data.get("images") == "multipart",
            earlier_fields.data.get("method") == "GET",
        )
        if not isinstance(body, dict) and (
            multipart or (get and not earlier_fields.data.get("query"))
        ):
            raise ValueError(
                f"must hold named fields with {'images: multipart' if multipart else 'method: GET'}"
            )
        return body

    def places(self) -> set[str]:
        """The placeholders that the request uses."""
        return set(_places([self.body, self.query, self.url]))


def _places(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        yield from _PLACE.findall(VARIABLE.sub("", template))
    elif isinstance(template, dict | list):
        for inner in template.values() if isinstance(template, dict) else template:
            yield from _places(inner)


def from_environment(text: str, item: str) -> Secret:
    """Replace each ``${NAME}`` by the environment's value; the result never prints itself.

    Raises:
        UsageError: a variable is not set, or holds a control character.
    """

    def value(variable: re.Match[str]) -> str:
        if variable[1] not in os.environ:
            raise UsageError(
                f"${{{variable[1]}}} is not in the environment",
                item=item,
                cure=f"export {variable[1]}=...",
            )
        return os.environ[variable[1]]

    filled_text = VARIABLE.sub(value, text)
    if not filled_text.isprintable():
        raise UsageError("a header holds a line break or another control character", item=item)
    return Secret(filled_text)


def fill_template(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill in a template: a text that is only a placeholder becomes the value, in other texts the value is inserted."""
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole:
            return values[whole[1]]
        return _PLACE.sub(lambda m: as_text(values[m[1]]), template)
    if isinstance(template, dict):
        return {key: fill_template(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [fill_template(value, values) for value in template]
    return template


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
