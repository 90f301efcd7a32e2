"""Every error demur raises on purpose, in one tree.

    DemurError
    |-- UsageError            exit 2: the command cannot be carried out as written
    |   |-- UnknownPart       no encoder, system, judge or source of that name
    |   `-- MissingExtra      an optional dependency is not installed
    |-- DataError             exit 1: the input is wrong
    |   |-- BadInput          all problems of the input, gathered
    |   |-- ReleaseError      a release folder does not hold what its manifest says
    |   `-- IndexFileError    an index file is truncated, foreign or of another encoder
    |-- StorageError          exit 1: a disk, database or folder cannot be read or written
    |-- CallError             a model call ended without a reply
    |   |-- TransientError    worth another try: time-out, 429, 5xx, a reset connection
    |   `-- PermanentError    another try cannot help: wrong key, unknown model, bad request
    |       `-- ItemError     permanent for this one item only: too long, content filter
    `-- BudgetReached         exit 3: stopped before the money given was passed; resume to go on

Every error names the item it concerns and the cure, so that one line on the terminal is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class DemurError(Exception):
    """Base class: a message, the item it concerns, and what to do about it.

    Args:
        message: what was expected and what came instead.
        item: the id, path or file:line concerned; "" when the whole command is.
        cure: what the reader can do now; the class's own when left empty.
    """

    exit_code = 1
    usual_cure = ""

    def __init__(self, message: str, *, item: object = "", cure: str = "") -> None:
        super().__init__(message)
        # what strangers wrote is part of many: half a character (a lone surrogate) could be printed and kept nowhere
        self.message = message.encode("utf-8", "replace").decode()
        self.item = str(item).encode("utf-8", "replace").decode()
        self.cure = cure or self.usual_cure

    def __str__(self) -> str:
        """One line: ``item: message - cure``."""
        head = f"{self.item}: " if self.item else ""
        tail = f" - {self.cure}" if self.cure else ""
        return f"{head}{self.message}{tail}"


class UsageError(DemurError):
    """The command cannot be carried out as written."""

    exit_code = 2


def did_you_mean(name: str, known: Sequence[str], *, cutoff: float = 0.5) -> str:
    """``did you mean 'gold'?`` for a name that nobody knows; "" where none that is known is like it."""
    near = get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"did you mean {near[0]!r}?" if near else ""


class UnknownPart(UsageError):
    """No part of that kind has that name; the message lists those that exist."""

    def __init__(self, kind: str, name: str, known: Sequence[str], *, hint: str = "") -> None:
        super().__init__(
            f"no {kind} named {name!r}; known: {', '.join(sorted(known)) or 'none'}",
            cure=" ".join(filter(None, (did_you_mean(name, known), hint or "or give 'module:Class' for your own"))),
        )
        self.kind, self.name, self.known = kind, name, tuple(known)


class MissingExtra(UsageError):
    """An optional dependency is not installed; the cure is the line that installs it."""

    def __init__(self, what: str, *, extra: str, module: str = "") -> None:
        super().__init__(
            f"{what} needs {module or 'a package'} that is not installed", cure=f"pip install 'demur[{extra}]'"
        )
        self.extra = extra


class DataError(DemurError):
    """The input is wrong."""


class BadInput(DataError):
    """All problems of an input, gathered before anything is computed.

    Args:
        problems: one line each, already naming file, line and id.
        more: problems beside them, of which no line is held.
    """

    def __init__(self, problems: Iterable[str], *, more: int = 0, cure: str = "mend them, or allow --skip-bad") -> None:
        self.problems = tuple(problems)
        shown = "\n  ".join(self.problems[:20])
        total = len(self.problems) + more
        more = total - len(self.problems[:20])
        super().__init__(
            f"{total} problem(s) in the input:\n  {shown}" + (f"\n  ... and {more} more" if more > 0 else "") + "\n",
            cure=cure,
        )


class ReleaseError(DataError):
    """A release folder does not hold what its manifest says."""


class IndexFileError(DataError):
    """An index file is truncated, foreign, or made by another encoder."""

    usual_cure = "build the index again"


class StorageError(DemurError):
    """A disk, database or folder cannot be read or written."""


class CallError(DemurError):
    """A model call ended without a reply."""


class TransientError(CallError):
    """Worth another try: a time-out, a 429, a 5xx, a reset connection, an empty or broken reply.

    Args:
        retry_after: seconds the server asked us to wait, when it said so.
    """

    def __init__(self, message: str, *, item: object = "", cure: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, item=item, cure=cure)
        self.retry_after = retry_after


class PermanentError(CallError):
    """Another try cannot help: a wrong key, an unknown model, a request the server refuses."""


class ItemError(PermanentError):
    """Permanent, and for this one item only: context too long, content filter."""


class BudgetReached(DemurError):
    """Stopped before the given money was passed; the same command with more money goes on."""

    exit_code = 3
