"""What a file that anybody may have written can make demur do: open registered parts, with options that are data.

A release, build, index, pool, mined folder, run, suite or field map may come from a stranger. Whoever reads a name in
one calls `check` before anything is opened; behind it names are as good as the user's own. Without consent a file
names registered parts alone, files below its own folder, models of known providers and data on the Hugging Face hub:
no other code, file or host, and no environment variable. A mapping of a service that the user names may name its host,
and no variable. Consent is `trusting` (``--trust-code`` and ``--trust-hosts`` of a command, keyword arguments from
Python); no file gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, NamedTuple

from demur.core.errors import CONSENT, UntrustedFile
from demur.core.plugins import KINDS, Kind, imported, names


class Trust(NamedTuple):
    """What the user agreed to for this command."""

    code: bool = False
    """Run code, and read files elsewhere, that files name."""
    hosts: bool = False
    """Call hosts, and send environment variables, that files name."""


NOTHING = Trust()
_TRUST: ContextVar[Trust] = ContextVar("trust", default=NOTHING)


@contextmanager
def trusting(*, code: bool = False, hosts: bool = False) -> Iterator[None]:
    """Consent to what files name, within the block; an outer consent stays.

    Args:
        code: run code, and read files elsewhere, that files name.
        hosts: call hosts, and send environment variables, that files name.
    """
    outer = _TRUST.get()
    token = _TRUST.set(Trust(outer.code or code, outer.hosts or hosts))
    try:
        yield
    finally:
        _TRUST.reset(token)


def trust() -> Trust:
    """What the user agreed to."""
    return _TRUST.get()


class Choice(NamedTuple):
    """A name that a file chose."""

    kind: Kind | Literal["data", "folder", "dataset"]
    """A part of that kind; ``data``: weights, a tokenizer; ``folder``: a path; ``dataset``: a path, or one on the hub."""
    text: str
    options: Mapping[str, Any] = {}
    """Its options, as deep as they are."""
    base: Path = Path()
    """Folder that a path starts from."""


class Act(NamedTuple):
    """Something that only the user may choose."""

    does: Literal["run", "read", "call", "send"]
    what: str
    """A part by name, a path, an address or an environment variable."""


def check(
    file: Path, choices: Iterable[Choice], *, folder: Path | None = None, instead: str = ""
) -> None:
    """Refuse what a file may not choose, all of it at once; with consent, import the modules that it names.

    Args:
        file: which holds the names.
        choices: the names.
        folder: what came with the file, which it may refer to; None: the folder that it lies in.
        instead: the option by which the user may name something else.

    Raises:
        UntrustedFile: the user did not agree to what the file names; nothing was opened.
        UsageError: the user agreed to run a module that is not installed, or that fails.
    """
    below = (folder or file.parent).resolve()
    acts = [act for choice in choices for act in acts_of(choice, below)]
    permit(file, acts, instead)
    for act in acts:
        if act.does == "run":
            for module in _MODULE.findall(act.what):
                if module not in _heads():
                    imported(module, str(file), here=False)


def permit(item: object, acts: Iterable[Act], instead: str = "") -> None:
    """Refuse acts that the user did not agree to.

    Raises:
        UntrustedFile: says what would run, whom it would call, and what it would send.
    """
    agreed = _TRUST.get()
    allowed = {"--trust-code": agreed.code, "--trust-hosts": agreed.hosts}
    if refused := [act for act in dict.fromkeys(acts) if not allowed[CONSENT[act.does]]]:
        raise UntrustedFile(refused, item=item, instead=instead)


_MODULE = re.compile(r"(?<![\w.])([A-Za-z_][\w.]{0,200}):(?=[A-Za-z_])")
_HEAD = re.compile(r"(?:^|(?<=[,:=&?]))([A-Za-z_][\w.-]*):(?=[A-Za-z_])")
"""What stands before a colon and a name: a registered part, or a module (which has no dash)."""
_RUNS_CODE = frozenset({"python", "evaclip"})
"""Registered parts whose argument is code."""
_MODELS = frozenset({"hf", "any-llm", "http", "https"})
"""How models by name begin; an address is a host besides."""
_HOST = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{0,30}://[^\s,'\"]*|(?<![^:=,\s])//[^\s,'\"]+")
VARIABLE = re.compile(r"\$\{(\w{1,100})\}")
_MOST_OF_A_MAPPING = 1 << 20
"""Bytes of a mapping that are searched for what it would call and send."""


def acts_of(choice: Choice, folder: Path) -> Iterator[Act]:
    """What only the user may choose among all that a name and its options would do.

    Args:
        choice: the name.
        folder: resolved; what it may refer to.
    """
    kind, text, options, base = choice
    if kind == "folder" or kind == "dataset":
        place = base / text
        if kind == "dataset" and not place.exists() and not _leads_out(text):
            yield Act("call", f"huggingface.co ({text})")
        elif not _is_below(place, folder):
            yield Act("read", str(place))
        return
    head, argument = text, text
    if kind != "data":
        head, mark, argument = re.match(r"([^:?]*)([:?]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        if head not in (*names(kind), *_MODELS) and mark == ":" and not text.startswith("openai/"):
            yield Act("run", text)
            return
    for value in (text, *_texts(options)):
        heads = set(_HEAD.findall(value))
        modules = {name for name in heads if "-" not in name} - _heads()
        if heads & _RUNS_CODE or modules or "trust_remote_code" in value:
            yield Act("run", value)
        yield from written_in(value)
        if head != "http" and _HOST.search(value):  # a model; a service's key is in its mapping
            yield Act("send", "DEMUR_API_KEY")
    if kind == "systems" and head == "http" and not _HOST.search(text):
        yield from _acts_of_mapping(argument, folder)
    for value in (argument, *_texts(options)):
        plain = _HOST.sub("", value).replace("\\", "/")
        pieces = [value, *re.split(r"[,?&=#@:\s]", plain)] if plain else []
        pieces += [piece.partition("/")[2] for piece in pieces]  # open_clip:MODEL/FILE
        for piece in dict.fromkeys(pieces):
            is_path = value == argument or "/" in piece or "." in piece
            opens = _leads_out(piece) or (is_path and _exists(piece))
            if opens and (piece.startswith("~") or not _is_below(Path(piece), folder)):
                yield Act("read", piece)


def _acts_of_mapping(path: str, folder: Path) -> Iterator[Act]:
    """What a service's mapping would call and send, as far as it may be read."""
    yield Act("call", f"the service in {path}")
    with suppress(OSError, ValueError):
        if Path(path).is_file() and _is_below(Path(path), folder):
            with Path(path).open("rb") as handle:
                content = handle.read(_MOST_OF_A_MAPPING).decode("utf-8", "replace")
            yield from written_in(content)


def written_in(text: str) -> Iterator[Act]:
    """The addresses and the environment variables in a text."""
    yield from (Act("call", address) for address in _HOST.findall(text))
    yield from (Act("send", variable) for variable in VARIABLE.findall(text))


def _heads() -> set[str]:
    """What may stand before a colon and names no module: registered parts, and ways to name models."""
    return {name for kind in KINDS for name in names(kind)} | _MODELS


def _texts(value: Any) -> Iterator[str]:
    """All texts in options, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (*_texts(key), *_texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _leads_out(path: str) -> bool:
    """Whether a text holds a path that starts at no folder below: absolute, of a user, or with ``..``."""
    path = path.replace("\\", "/")
    outside = path.startswith(("/", "~")) or "//" in path or ".." in path.split("/")
    return outside or re.match("[A-Za-z]:/", path) is not None


def _exists(path: str) -> bool:
    with suppress(OSError, ValueError):  # a text that is no path at all
        return bool(path) and Path(path).exists()
    return False


def _is_below(path: Path, folder: Path) -> bool:
    """Whether a path lies in a folder once its links are followed."""
    with suppress(OSError, ValueError, RuntimeError):
        return path.resolve().is_relative_to(folder)
    return False
