"""``demur rag probe``: ask a service one question, and show how demur reads its reply."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import UsageError
from demur.core.images import image_ref
from demur.core.records import Ask, ImageRef, Response, Scenario
from demur.core.store import storage_errors
from demur.models import run_sync
from demur.release import Release
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.http import HttpSystem
from demur.scenarios.systems.http_mapping import RagMapping, as_text
from demur.scenarios.systems.http_reply import Reply, excerpt

QUESTION = "Which river flows through Vienna?"
"""Asked without a question and a release."""


class Probe(NamedTuple):
    """One question to a service, and its reply as demur reads it."""

    body: Any
    """The request's body."""
    reply: Reply | None
    """None without a usable reply."""
    response: Response
    mapping: RagMapping

    def text(self) -> str:
        """For a terminal: the request, the reply, and everything that the mapping found in it or missed."""
        r = self.response
        lines = [f"sent      {excerpt(json.dumps(_short(self.body), ensure_ascii=False))}"]
        if self.reply is not None:
            lines.append(
                f"reply     {excerpt(json.dumps(self.reply.events[-1], ensure_ascii=False))}"
            )
        if r.error:
            return "\n".join([*lines, f"no answer: {r.error}", *self._advice()]) + "\n"
        first = "".join(f", first: {excerpt(f'{c.id} {c.text}')!r}" for c in r.retrieved[:1])
        lines += [
            f"answer    {excerpt(r.text)!r}",
            f"contexts  {len(r.retrieved)}{first}",
            f"citations {', '.join(r.citations) or '-'}",
            f"reported  confidence {r.confidence}, abstained {r.abstained}",
            f"took      {r.latency_s:.2f} s, {r.first_s:.2f} s to its first byte",
        ]
        absent = [
            key
            for key in ("contexts", "citations", "confidence", "abstained")
            if not getattr(self.mapping, key)
        ]
        if absent:
            lines.append(
                f"not mapped: {', '.join(absent)}; if the reply has them, add their JSONPaths to the mapping"
            )
        return "\n".join([*lines, *self._advice()]) + "\n"

    def _advice(self) -> list[str]:
        if self.reply is None or self.response.text:
            return []
        return [
            "",
            "JSONPaths of the values in the reply:",
            *(f"  {p}" for p in _leaves(self.reply.events[-1])),
        ]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        reply = None if self.reply is None else self.reply.events
        return {
            "sent": _short(self.body),
            "reply": reply,
            "understood": self.response.model_dump(mode="json"),
        }


def _short(value: Any) -> Any:
    """A body with long texts (images) shortened."""
    if isinstance(value, str):
        return value if len(value) <= 200 else value[:60] + f"... ({len(value):,} characters)"
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, list | tuple) else value


def _leaves(value: Any) -> list[str]:
    """JSONPaths of the first values of a reply, at most 30."""
    paths: list[str] = []
    unvisited = [(value, "$")]
    while unvisited and len(paths) < 30:
        node, path = unvisited.pop(0)
        if isinstance(node, dict):
            unvisited += [
                (v, f"{path}.{k}" if re.fullmatch(r"[A-Za-z_]\w*", str(k)) else f"{path}[{k!r}]")
                for k, v in node.items()
            ]
        elif isinstance(node, list):
            unvisited += [(node[0], f"{path}[*]")] if node else []
        else:
            paths.append(f"{path}  = {excerpt(as_text(node))}")
    return paths


def probe_service(
    mapping: str, question: str = "", images: Sequence[Path] = (), release: Release | None = None
) -> Probe:
    """Ask a service one question over the whole corpus (``demur rag probe``).

    Args:
        mapping: the mapping's file, or an address.
        question: its text; empty for one of the release.
        images: image files that go with it.
        release: its first question is asked, of text alone where it has such.

    Raises:
        UsageError: the mapping is malformed, or has no address for the corpus.
        DataError: a file is not an image.
        StorageError: a file cannot be read.
    """
    files: dict[ImageRef, bytes] = {}
    for path in images:
        with storage_errors(path):
            data = path.read_bytes()
        files[image_ref(data, str(path))] = data

    def read_image(ref: ImageRef) -> bytes:
        return files[ref] if ref in files or release is None else release.read_image(ref)

    ask = Ask(
        id="probe",
        sample="probe",
        context="probe",
        scenario=Scenario.FULL,
        question=question or QUESTION,
        images=tuple(files),
    )
    if release is not None and not question:
        samples = sorted(release.samples(), key=lambda s: bool(s.images))
        sample = samples[0]
        about = {"question": sample.question, "turns": sample.turns}
        ask = ask.model_copy(
            update={**about, "sample": sample.id, "images": (*sample.images, *files)}
        )
    system = HttpSystem(mapping, SystemContext(read_image=read_image))
    if why := system.skip_reason(ask):
        raise UsageError(why, item=mapping, cure="add url: full: ADDRESS, or one url for all")

    async def work() -> Probe:
        try:
            body = await system.request(ask)
            reply, response = await system.probe(ask)
            return Probe(body, reply, response, system.mapping)
        finally:
            await system.close()

    return run_sync(work())
