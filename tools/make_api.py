"""The reference page of the library: every public name of `demur`, from its signature and docstring."""

from __future__ import annotations

import inspect
import re
from typing import Any

SECTIONS = {"Args", "Returns", "Raises", "Attributes"}


def api_page() -> str:
    """The page."""
    import demur

    names = [n for n in demur.__all__ if n != "__version__"]
    functions = [n for n in names if inspect.isfunction(getattr(demur, n))]
    parts = ["# The library\n", "## Functions\n"]
    parts += [_function(n, getattr(demur, n)) for n in functions]
    parts.append("## Values\n")
    parts += [_class(n, getattr(demur, n)) for n in names if n not in functions]
    return "\n".join(parts)


def _signature(name: str, thing: Any) -> str:
    signature = inspect.signature(thing)
    bare = [p.replace(annotation=p.empty) for k, p in signature.parameters.items() if k != "self"]
    return f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"


def _function(name: str, thing: Any, level: int = 3) -> str:
    return f"{'#' * level} {name}\n\n```python\n{_signature(name, thing)}\n```\n\n{_prose(inspect.getdoc(thing) or '')}\n"


def _class(name: str, thing: type) -> str:
    out = [f"### {name}\n\n{_prose(inspect.getdoc(thing) or '')}\n"]
    for key, member in vars(thing).items():
        if key.startswith("_"):
            continue
        inner = member.fget if isinstance(member, property) else getattr(member, "func", member)
        if callable(inner):
            shown = key if inner is not member else _signature(key, inner)
            first = (inspect.getdoc(inner) or "").split("\n\n")[0].replace("\n", " ")
            out.append(f"- `{shown}`: {_inline(first)}")
    return "\n".join(out) + "\n"


def _inline(text: str) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _prose(text: str) -> str:
    """A docstring of sections as Markdown; its examples stay as they are."""
    lines, out, listing = text.splitlines(), [], False
    for line in lines:
        if line.rstrip(":") in SECTIONS and line.endswith(":"):
            out += [f"**{line[:-1]}**", ""]
            listing = True
        elif line.startswith(">>>"):
            out += ["```python", line]
            listing = False
        elif listing and re.match(r" {4}\S", line):
            name, colon, rest = line.strip().partition(": ")
            out.append(f"- `{name}`: {_inline(rest)}" if colon else f"- {_inline(line.strip())}")
        elif listing and line.strip():
            out[-1] += " " + _inline(line.strip())
        else:
            out.append(_inline(line))
    if "```python" in out:
        out.append("```")
    return "\n".join(out)
