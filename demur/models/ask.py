"""The functions behind ``demur calls``: ask a model one question; statistics, export and clean-up of a ledger."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from demur.core.errors import StorageError, UsageError
from demur.core.images import image_ref
from demur.core.records import ImagePart, Message, Request, Response, TextPart
from demur.core.store import digest, storage_errors
from demur.models.budget import Budget
from demur.models.client import USUAL, ModelOptions
from demur.models.ledger import Ledger, Stats, entry_line
from demur.models.names import model_id
from demur.models.ping import ping
from demur.models.run import complete_sync


def requests_of(
    model: str,
    text: str,
    images: Sequence[Path] = (),
    *,
    repeat: int = 1,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> list[Request]:
    """A question as requests, one for each independent draw.

    Raises:
        StorageError: an image cannot be read.
        UsageError: fewer than one draw, a temperature that is no number, or text that is not UTF-8.
    """
    if repeat < 1:
        raise UsageError(f"--repeat {repeat}", cure="give 1 or more")
    if temperature is not None and not math.isfinite(temperature):
        raise UsageError(f"--temperature {temperature}", cure="give a finite number")
    if text.encode("utf-8", "replace").decode() != text:
        raise UsageError("the question is not UTF-8 text", cure="write it as UTF-8")
    parts: list[TextPart | ImagePart] = []
    for path in images:
        with storage_errors(path):
            parts.append(ImagePart(image=image_ref(path.read_bytes(), str(path.resolve()))))
    messages = (Message(role="user", parts=(*parts, TextPart(text=text))),)
    return [
        Request(
            model=model_id(model),
            messages=messages,
            temperature=temperature,
            max_tokens=max_tokens,
            draw=draw,
            item=f"draw {draw}" if repeat > 1 else "",
        )
        for draw in range(repeat)
    ]


def ask_model(
    model: str, requests: Sequence[Request], options: ModelOptions = USUAL
) -> list[Response]:
    """Answers to the requests of one question.

    Args:
        model: model string.
        requests: from `requests_of`.
        options: of `open_model`. The budget is for this question; with a ledger, earlier calls of the same question
            count too.
    """
    budget = options.budget
    if options.ledger is not None:  # every question has its own budget
        question_json = requests[0].model_copy(update={"item": ""}).model_dump(mode="json")
        budget = (budget or Budget(None)).recorded_in(options.ledger, digest(question_json, 16))
    before_first = partial(ping, [model], lists=False)
    return complete_sync(
        model, requests, replace(options, budget=budget, before_first=before_first)
    )


def export_ledger(file: Path, out: Path | IO[str], model: str | None = None) -> int:
    """Write every reply as a line, in the same order on every machine; returns their number.

    Args:
        file: the ledger.
        out: path to write, or an open file.
        model: only replies of this model id.

    Raises:
        UsageError: ``out`` is the ledger itself.
    """
    if isinstance(out, Path) and out.exists() and file.exists() and out.samefile(file):
        raise UsageError("this is the ledger itself", item=out, cure="export to another file")
    with Ledger(file, read_only=True) as ledger:
        if not isinstance(out, Path):
            return sum(out.write(entry_line(entry)) > 0 for entry in ledger.entries(model))
        with storage_errors(out), out.open("w", encoding="utf-8") as handle:
            return sum(handle.write(entry_line(entry)) > 0 for entry in ledger.entries(model))


def ledger_stats(file: Path) -> list[Stats]:
    """Replies, retries, tokens, cost and faults of each model in a ledger."""
    with Ledger(file, read_only=True) as ledger:
        return ledger.stats()


class Shrunk(NamedTuple):
    """Number of replies deleted from a ledger, and its size in bytes before and after."""

    replies: int
    before: int
    after: int


def shrink_ledger(
    file: Path, *, model: str | None = None, days: float | None = None, dry: bool = False
) -> Shrunk:
    """Delete the replies of a model, or older than some days, and shrink the file.

    Raises:
        StorageError: there is no such ledger.
        UsageError: the days are negative or not a number.
    """
    if days is not None and not days >= 0:
        raise UsageError(f"--older-than {days:g}", cure="give a number of days, 0 or more")
    if not file.is_file():
        raise StorageError("no such ledger", item=file, cure="check the path")
    size = file.stat().st_size
    with Ledger(file) as ledger:
        replies = ledger.gc(
            model=model, before=None if days is None else time.time() - days * 86400, dry=dry
        )
    return Shrunk(replies, size, file.stat().st_size)
