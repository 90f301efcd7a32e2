"""Sections of Table 4: systems with open weights, with closed ones, and others (VLM-DeflectionBench, Table 4).

A group is what the user says it is; else it follows from what was asked: a name that only its vendor serves is closed,
a model at an address or in a folder of one's own is open, and of anything else (a function, a reader, answers from a
file, a model under a name of its own) nobody can tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from demur.errors import UsageError, did_you_mean
from demur.report.data import ReportData, Run

OPEN, CLOSED, OTHER = "open", "closed", "other"
_CLOSED = re.compile(
    r"(^|[/:.])(gpt-(?!oss|neo|j\b)|chatgpt|o[1-9](-|$)|claude|gemini|grok-(?!1\b)|nova-|command-a|palm|titan)",
    re.IGNORECASE,
)
"""Names that only their vendors serve."""
_VENDOR = re.compile(r"^(openai|anthropic|gemini|vertexai|xai|bedrock|azure\w*)/", re.IGNORECASE)
"""Services that serve models of their vendors, of which a name that is not known says nothing."""


def weights(system: str) -> str:
    """Whether a system's weights are open, by its canonical name; "" where that does not say.

    >>> weights("model:openai/gpt-4o"), weights("model:Qwen/Qwen2.5-VL-7B-Instruct"), weights("reader:min=0.5")
    ('closed', 'open', '')
    """
    kind, _, name = system.partition(":")
    if kind != "model" or not name or name.startswith("python:"):
        return ""
    if _CLOSED.search(name):
        return CLOSED
    return OPEN if name.startswith("hf:") or ("/" in name and not _VENDOR.match(name)) else ""


def sections(data: ReportData) -> dict[str, str]:
    """Run name -> its group, in the order of the sections; empty where nobody says and not both kinds are there."""
    found = {run.name: data.groups.get(run.name) or weights(run.system) or OTHER for run in data.runs}
    if not data.groups and not {OPEN, CLOSED} <= set(found.values()):
        return {}
    given = [g for g in dict.fromkeys(data.groups.values()) if g not in (OPEN, CLOSED, OTHER)]
    order = [OPEN, CLOSED, *given, OTHER]
    return {name: found[name] for name in sorted(found, key=lambda name: order.index(found[name]))}


def stated(said: Mapping[str, str], runs: tuple[Run, ...]) -> dict[str, str]:
    """Groups that a user gives; ``open`` and ``closed`` stand for the two of the paper.

    Raises:
        UsageError: there is no such run; names the nearest.
    """
    names = [run.name for run in runs]
    for name in said:
        if name not in names:
            raise UsageError(
                f"no run is called {name!r}", item="--group", cure=did_you_mean(name, names) or ", ".join(names)
            )
    return {name: group.lower() if group.lower() in (OPEN, CLOSED) else group for name, group in said.items()}
