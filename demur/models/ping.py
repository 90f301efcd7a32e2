"""Is there somebody to ask? Told before anything is computed or paid, so that a mistyped port costs seconds.

Sockets are opened from a thread, by the operating system's clock: a busy machine, or a loop that something holds up, is
not taken for a server that is not there.
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

from demur.core.errors import MissingExtra, PermanentError, UsageError
from demur.core.strict_json import loose_json
from demur.models.function import open_function
from demur.models.keys import Secret, find_key, key_names
from demur.models.names import ModelText, parse_model

CONNECT_S = (10.0, 20.0, 30.0)
"""Seconds to open a connection, at each try in turn: only the last time-out says that nobody is there."""
_LIST_S = 5.0
"""Seconds to wait for anything of the list of models; a server that is slow with it is there all the same."""
_WHOLE_S = 15.0
"""Seconds for the whole of it: one that sends a byte now and then is not listened to for ever."""


async def ping(addresses: Sequence[str], *, lists: bool = True) -> list[str]:
    """See that a model can be asked: a server listens and takes the key, a function exists, an extra is installed.

    Args:
        addresses: model strings of one model; of several servers one must answer.
        lists: ask servers for their models too, which tells a key that is refused.

    Returns:
        What is worth a warning, a line each.

    Raises:
        UsageError: no such function, no key.
        MissingExtra: a package is not installed.
        PermanentError: no server answers, or it refuses the key.
    """
    return await asyncio.to_thread(_ping, [parse_model(a) for a in addresses], lists)


def _ping(models: Sequence[ModelText], lists: bool) -> list[str]:
    notes: list[str] = []
    silent: dict[str, str] = {}
    for model in models:  # what this machine knows comes first
        own = model.kind == "openai" and (urlsplit(model.address).hostname or "").endswith("openai.com")
        if own and find_key(("OPENAI_API_KEY",))[1] is None:
            raise UsageError(f"no key for {model.id}", cure="set OPENAI_API_KEY")
        if model.kind == "python":
            open_function(model.name)
        elif model.kind == "any-llm" and find_spec("any_llm") is None:
            raise MissingExtra(f"any-llm:{model.name}", extra="providers", module="any-llm-sdk")
        elif model.kind == "hf" and (find_spec("transformers") is None or find_spec("torch") is None):
            raise MissingExtra(f"hf:{model.name}", extra="hf", module="transformers and torch")
        elif model.kind in ("openai", "http"):
            why = unreachable(model.address)
            if why:
                silent[urlsplit(model.address).netloc] = why
            elif lists:
                notes += _listed(model)
    if silent and len(silent) == len({urlsplit(m.address).netloc for m in models}):
        raise PermanentError(
            f"no server answers there ({'; '.join(dict.fromkeys(silent.values()))})", item=", ".join(silent),
            cure="start it, or mend the address",
        )  # fmt: skip
    return notes + [f"no server answers at {where} ({why}); the others go on" for where, why in silent.items()]


def unreachable(address: str, tries: Sequence[float] = CONNECT_S) -> str:
    """Why no connection to a server can be had; "" when one can, or when a proxy stands between.

    Args:
        address: its base URL.
        tries: seconds for each try; a refusal ends them at once, a time-out does not.
    """
    url = urlsplit(address)
    host = url.hostname or ""
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError as error:
        return str(error)
    if getproxies().get(url.scheme) and not proxy_bypass(host):
        return ""
    why = ""
    tls = ssl.create_default_context() if url.scheme == "https" else None
    for seconds in tries:
        try:
            with socket.create_connection((host, port), seconds) as plain:
                if tls is not None:  # each call would wait for an answer that never comes
                    tls.wrap_socket(plain, server_hostname=host).close()
            return ""
        except TimeoutError:
            why = f"no connection within {sum(tries):g} s"
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is refused: {error.verify_message}"
        except ssl.SSLError:
            return "it speaks no TLS; is it http://?"
        except OSError as error:
            return error.strerror or type(error).__name__
    return why


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """A key is sent nowhere else."""


def _listed(model: ModelText) -> list[str]:
    """Ask a server for its models: refuses a key that it refuses, and tells a name that it does not have."""
    env, key = find_key(("OPENAI_API_KEY",) if model.kind == "openai" else key_names(model.address))
    url = urlsplit(model.address)
    found: list[list[str] | PermanentError] = []

    def ask() -> None:
        try:
            found.append(_names_told(model, env, key))
        except PermanentError as error:
            found.append(error)

    asking = threading.Thread(target=ask, daemon=True, name="demur-ping")  # left to itself when it takes too long
    asking.start()
    asking.join(_WHOLE_S)
    told = found[0] if found else []
    if isinstance(told, PermanentError):
        raise told
    if len(told) < 2 or model.name in told:  # with one model alone, many servers take any name
        return []
    return [f"{url.netloc} lists {', '.join(sorted(told)[:5])}{' ...' if len(told) > 5 else ''}; not {model.name}"]


def _names_told(model: ModelText, env: str, key: Secret | None) -> list[str]:
    """The models of a server, none where it does not say.

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
        if error.code == 401:  # 403 may mean that this key must not list models
            raise PermanentError(
                "the server refuses the key (HTTP 401)",
                item=url.netloc,
                cure=f"set {env} to a key that is valid for this endpoint",
            ) from None
        return []
    except (URLError, OSError, HTTPException, ValueError, KeyError, TypeError):
        return []
