"""The page docs/api.md: every public name of `demur`, from its signature and docstring."""

from __future__ import annotations

import inspect
import re
from typing import Any

HEAD = """# The library

Made from the code by `make docs`; do not edit.

```python
{lines}
```

A function's answers are kept under its code: edit it, and it is asked again. Everything works in a notebook cell,
takes `str` or `Path`, names or objects, plain functions or async ones.
[examples/front_door.ipynb](../examples/front_door.ipynb) is the same as a notebook.
"""
LINES = """import demur

release = demur.open_release("demo-out/release")          # a folder, or hf:OWNER/NAME@v1.0.0
def my_rag(question, images, evidence, choices=()): ...    # any function, plain or async
run = demur.evaluate(release, my_rag, scenarios=["oracle", "adversarial(k=3)"], limit=50)
run.rates()                                                # a table: n, interval, failed, unjudged
demur.compare(run, demur.evaluate(release, "model:openai/gpt-4o"))
demur.grade("Which river is it?", answers=["Danube"], response="The Danube, I think.")
index = demur.build_index("kb.jsonl", "index"); index.search("Which river flows through Vienna?", k=5)
demur.build_release("recipe.yaml", "out"); demur.report([run], "report.html")"""
SECTIONS = {"Args", "Returns", "Raises", "Attributes"}


def api_page() -> str:
    """The page."""
    import demur

    names = [n for n in demur.__all__ if n != "__version__"]
    functions = [n for n in names if inspect.isfunction(getattr(demur, n))]
    parts = [HEAD.format(lines=LINES), "## Functions\n"]
    parts += [_function(n, getattr(demur, n)) for n in functions]
    parts.append("## Values\n")
    parts += [_class(n, getattr(demur, n)) for n in names if n not in functions]
    return "\n".join(parts)


def _signature(name: str, thing: Any) -> str:
    found = inspect.signature(thing)
    kept = [p.replace(annotation=p.empty) for k, p in found.parameters.items() if k != "self"]
    return f"{name}{found.replace(parameters=kept, return_annotation=found.empty)}"


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
