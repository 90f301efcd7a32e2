"""Check that a model can be called before anything is computed or paid: a mistyped port then costs seconds.

The sockets are opened in a thread, with the operating system's time-outs: a busy machine or a blocked event loop does
not look like a missing server.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Sequence
from http.client import HTTPException
from importlib.util import find_spec
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener, getproxies, proxy_bypass

from demur.core.errors import MissingExtra, PermanentError
from demur.core.strict_json import loose_json
from demur.models.function import open_function
from demur.models.keys import Secret
from demur.models.names import ModelText, key_of, parse_model

CONNECT_S = (10.0, 20.0, 30.0)
"""Seconds to open a connection, for each try; after a refused one, or the last, the server counts as missing."""
_LIST_S = 5.0
"""Seconds to wait for each part of the list of models; a server that is slow with it is there all the same."""
_WHOLE_S = 15.0
"""Seconds for the whole list, from a server that sends a byte now and then."""


async def ping(addresses: Sequence[str], *, lists: bool = True) -> list[str]:
    """Check that a model can be called: a server listens and accepts the key, a function exists, an extra is installed.

    Args:
        addresses: model strings of one model; of several servers one must answer.
        lists: request the servers' lists of models too, which shows whether they accept the key.

    Returns:
        Warnings, one line each.

    Raises:
        UsageError: there is no such function, or no key.
        MissingExtra: a package is not installed.
        PermanentError: no server answers, or one refuses the key.
    """
    return await asyncio.to_thread(_ping_all, [parse_model(a) for a in addresses], lists)


def _ping_all(models: Sequence[ModelText], lists: bool) -> list[str]:
    notes: list[str] = []
    silent: dict[str, str] = {}
    for model in models:
        if model.kind == "python":
            open_function(model.name)
        elif model.kind == "any-llm" and find_spec("any_llm") is None:
            raise MissingExtra(f"any-llm:{model.name}", extra="providers", module="any-llm-sdk")
        elif model.kind == "hf" and (
            find_spec("transformers") is None or find_spec("torch") is None
        ):
            raise MissingExtra(f"hf:{model.name}", extra="hf", module="transformers and torch")
        elif model.kind in ("openai", "http"):
            env, key = key_of(model)
            if why := why_unreachable(model.address):
                silent[urlsplit(model.address).netloc] = why
            elif lists:
                notes += _warn_if_unlisted(model, env, key)
    if silent and len(silent) == len({urlsplit(m.address).netloc for m in models}):
        raise PermanentError(
            f"no server answers there ({'; '.join(dict.fromkeys(silent.values()))})",
            item=", ".join(silent),
            cure="start it, or correct the address",
        )
    return notes + [
        f"no server answers at {where} ({why}); using the others" for where, why in silent.items()
    ]


def why_unreachable(address: str) -> str:
    """Why the server at a base URL cannot be connected; "" if it can, or if a proxy is in between."""
    url = urlsplit(address)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    if getproxies().get(url.scheme) and not proxy_bypass(host):
        return ""
    why = ""
    tls = ssl.create_default_context() if url.scheme == "https" else None
    for seconds in CONNECT_S:
        try:
            with socket.create_connection((host, port), seconds) as plain:
                if tls is not None:  # if the port does not speak TLS, each call would wait for ever
                    tls.wrap_socket(plain, server_hostname=host).close()
            return ""
        except TimeoutError:
            why = f"no connection within {sum(CONNECT_S):g} s"
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is refused: {error.verify_message}"
        except ssl.SSLError:
            return "it does not speak TLS; is it http://?"
        except OSError as error:
            return error.strerror or type(error).__name__
    return why


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirect: the key goes to this server only."""


def _warn_if_unlisted(model: ModelText, env: str, key: Secret | None) -> list[str]:
    """A warning if a server does not list the model.

    Raises:
        PermanentError: the server refuses the key.
    """
    url = urlsplit(model.address)
    outcomes: list[list[str] | PermanentError] = []

    def ask() -> None:
        try:
            outcomes.append(_list_served(model, env, key))
        except PermanentError as error:
            outcomes.append(error)

    asking = threading.Thread(
        target=ask, daemon=True, name="demur-ping"
    )  # abandoned if it takes too long
    asking.start()
    asking.join(_WHOLE_S)
    names = outcomes[0] if outcomes else []
    if isinstance(names, PermanentError):
        raise names
    if len(names) < 2 or model.name in names:  # many servers with a single model accept any name
        return []
    return [
        f"{url.netloc} lists {', '.join(sorted(names)[:5])}{' ...' if len(names) > 5 else ''}; not {model.name}"
    ]


def _list_served(model: ModelText, env: str, key: Secret | None) -> list[str]:
    """The models of a server; [] if it does not list them.

    Raises:
        PermanentError: it refuses the key.
    """
    url = urlsplit(model.address)
    request = Request(url._replace(path=url.path.rstrip("/") + "/models", fragment="").geturl())
    if key is not None:
        request.add_unredirected_header("Authorization", f"Bearer {key.reveal()}")
    try:
        with build_opener(_Stay).open(request, timeout=_LIST_S) as reply:
            return [str(entry["id"]) for entry in loose_json(reply.read(1_000_000))["data"]]
    except HTTPError as error:
        error.close()
        if error.code == 401:  # 403 may mean that this key is not allowed to list models
            raise PermanentError(
                "the server refuses the key (HTTP 401)",
                item=url.netloc,
                cure=f"set {env} to a key that is valid for this endpoint",
            ) from None
        return []
    except (URLError, OSError, HTTPException, ValueError, KeyError, TypeError):
        return []
