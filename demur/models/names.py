"""Model strings, and the clients that they open.

    openai/gpt-4o               OpenAI, or what OPENAI_BASE_URL names; key from OPENAI_API_KEY
    http://host:port/v1#model   any OpenAI-compatible server (vLLM, llama.cpp, SGLang ...); key from DEMUR_API_KEY...
    any-llm:provider/model      another vendor's wire format, through any-llm (extra: providers)
    hf:folder-or-repo           transformers in this process (extra: hf); hf:repo@revision pins the weights
    python:module:function      a Python function; python:module:function@revision adds a revision to its code's digest

Several strings of one model are a fleet.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from demur.core.errors import UsageError
from demur.models.client import USUAL, ModelClient, ModelOptions
from demur.models.fleet import Backend, Fleet
from demur.models.function import FunctionBackend, open_function
from demur.models.images import ImageUrls
from demur.models.keys import Secret, find_key, key_names
from demur.models.ledger import Ledger
from demur.models.prices import Prices

IN_FLIGHT = 8
"""Default for the calls in flight at each endpoint."""
_FORMS = "openai/MODEL, http://HOST:PORT/v1#MODEL, any-llm:PROVIDER/MODEL, hf:FOLDER-OR-REPO, python:MODULE:FUNCTION"
_OPENAI = "https://api.openai.com/v1"


class ModelText(NamedTuple):
    """The parts of a model string."""

    kind: str
    """openai, http, any-llm, hf or python."""
    id: str
    """The model's identity, without its address."""
    name: str
    """Its name at the server; provider/model, folder or repository, module:function."""
    address: str
    """kind=openai, http: the base URL."""


def parse_model(text: str) -> ModelText:
    """Split a model string into its parts.

    >>> parse_model("http://localhost:8000/v1#Qwen/Qwen2.5-VL-7B-Instruct").id
    'Qwen/Qwen2.5-VL-7B-Instruct'
    >>> parse_model("openai/gpt-4o")[:3]
    ('openai', 'openai/gpt-4o', 'gpt-4o')

    Raises:
        UsageError: not a known form, or the address contains a password.
    """
    kind, _, name = text.partition(":")
    if kind in ("http", "https"):
        address, _, model = text.partition("#")
        parts = _split_address(address, "the model string")
        if parts.username or parts.password:
            raise UsageError(
                "the model string has credentials in its address",
                cure=f"set {key_names(address)[0]} to the key instead",
            )
        if not model or not parts.hostname:
            raise UsageError(
                f"expected http://HOST:PORT/v1#MODEL, got {text!r}",
                cure="name the model after '#'; GET /v1/models lists them",
            )
        return ModelText("http", model, model, address)
    if text.startswith("openai/") and len(text) > 7:
        address = os.environ.get("OPENAI_BASE_URL", "").strip() or _OPENAI
        _split_address(address, "OPENAI_BASE_URL")
        return ModelText("openai", text, text[7:], address)
    if kind == "any-llm" and name.count("/") >= 1 and all(name.split("/", 1)):
        return ModelText("any-llm", name, name, "")
    if kind == "hf" and name:
        path = name.rstrip("/")
        return ModelText("hf", f"hf:{Path(path).name if Path(path).is_dir() else path}", path, "")
    if kind == "python" and ":" in name:
        return ModelText("python", text.partition("@")[0], name, "")
    raise UsageError(f"{text!r} is not a model string", cure=f"write one of: {_FORMS}")


def _split_address(address: str, place: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port  # checked only when it is read
    except ValueError:  # its message may quote a password
        raise UsageError(
            f"{place} has no valid host and port", cure="write http://HOST:PORT/v1"
        ) from None
    return parts


def model_id(text: str) -> str:
    """The model's id, without its address: the value of ``Request.model``."""
    return parse_model(text).id


def revision_of(text: str) -> str:
    """The revision in the cache key, as far as the string determines it without opening the model.

    For a local folder, a digest of its files; for ``hf:repo@revision``, that revision (give the full commit hash: the
    weights of a branch change); for a Python function, the digest of its code (`demur.core.code.code_digest`); else "".

    Raises:
        UsageError: there is no such function.
    """
    model = parse_model(text)
    if model.kind == "python":
        return open_function(model.name).revision
    if model.kind != "hf":
        return ""
    if Path(model.name).is_dir():
        from demur.models.local import weights_digest

        return weights_digest(Path(model.name))
    return model.name.partition("@")[2]


def key_of(model: ModelText) -> tuple[str, Secret | None]:
    """(environment variable for the key, the key if it is set) of an HTTP endpoint.

    Raises:
        UsageError: OpenAI's own server needs a key, and none is set.
    """
    env, key = find_key(("OPENAI_API_KEY",) if model.kind == "openai" else key_names(model.address))
    is_openai_itself = model.kind == "openai" and (urlsplit(model.address).hostname or "").endswith(
        "openai.com"
    )
    if is_openai_itself and key is None:
        raise UsageError(f"no key for {model.id}", cure="set OPENAI_API_KEY")
    return env, key


def addresses_of(text: str) -> tuple[str, ...]:
    """The model strings that a text joins by commas: endpoints of one model.

    >>> addresses_of("http://a:8000/v1#m,http://b:8000/v1#m")
    ('http://a:8000/v1#m', 'http://b:8000/v1#m')
    """
    return tuple(address.strip() for address in re.split(r",(?=[a-z-]+:|[a-z-]+/)", text))


@asynccontextmanager
async def open_model(
    text: str | Sequence[str], options: ModelOptions = USUAL
) -> AsyncIterator[ModelClient]:
    """Open a model; several strings are endpoints of one model (a fleet).

    If the block ends while calls are in progress (an error, Ctrl-C), their replies, which are paid for, are waited for
    and kept (`demur.models.client.GRACE_S`).

    Args:
        text: model string or strings; see the top of this module.
        options: ledger, limits, budget and the like.

    Yields:
        The model; closed at the end of the block.

    Raises:
        UsageError: not a model string, strings of different models, or a missing key.
        MissingExtra: the string needs an extra that is not installed.
        StorageError: the ledger cannot be used, or paid replies could not be written at the end.
    """
    texts = (text,) if isinstance(text, str) else tuple(text)
    if not texts:
        raise UsageError("no model is named", cure=f"write one of: {_FORMS}")
    models = [parse_model(t) for t in texts]
    if len(ids := {m.id for m in models}) > 1:
        raise UsageError(
            f"a fleet serves one model, not {', '.join(sorted(ids))}", cure="open them one by one"
        )
    images = ImageUrls(options.image_root, read=options.read_image)
    backends = [_open_backend(model, images, options) for model in models]
    of_function = next((b for b in backends if isinstance(b, FunctionBackend)), None)
    concurrency = options.concurrency if of_function is None else of_function.most
    price = Prices(options.prices).find(models[0].id)
    ledger = None if options.ledger is None else Ledger(options.ledger)
    try:
        client = ModelClient(
            models[0].id,
            Fleet(backends, concurrency or IN_FLIGHT, options.retry.deadline_s),
            options,
            ledger=ledger,
            revision=next((r for b in backends if (r := getattr(b, "revision", ""))), ""),
            price=price,
            names=texts,
        )
    except BaseException:
        if ledger is not None:
            ledger.close()
        raise
    try:
        yield client
    finally:
        await client.close()


def _open_backend(model: ModelText, images: ImageUrls, options: ModelOptions) -> Backend:
    if model.kind in ("openai", "http"):
        from demur.models.endpoint import Endpoint  # aiohttp takes a third of a second

        env, key = key_of(model)
        return Endpoint(model.address, model.name, key=key, key_env=env, images=images)
    if model.kind == "python":
        return open_function(model.name, options.concurrency)
    if model.kind == "any-llm":
        from demur.models.providers import AnyLlmBackend

        return AnyLlmBackend(model.name, images)
    from demur.models.local import open_local

    return open_local(model.name, options.image_root)
