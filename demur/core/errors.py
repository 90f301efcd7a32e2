"""All errors that demur raises on purpose, in one tree.

    DemurError
    |-- UsageError            exit 2: the command cannot be carried out as written
    |   |-- UnknownPart       no encoder, system, judge or source of that name
    |   |-- UntrustedFile     a file names code, files elsewhere, hosts or variables, and the user did not agree
    |   `-- MissingExtra      an optional dependency is not installed
    |-- DataError             exit 1: the input is wrong
    |   |-- BadInput          all problems of the input, collected
    |   |-- ReleaseError      a release folder does not match its manifest
    |   `-- IndexFileError    an index file is truncated, from elsewhere or of another encoder
    |-- StorageError          exit 1: a disk, database or folder cannot be read or written
    |-- CallError             a model call ended without a reply
    |   |-- TransientError    worth another try: time-out, 429, 5xx, a reset connection
    |   `-- PermanentError    another try cannot help: wrong key, unknown model, bad request
    |       `-- ItemError     permanent for this one item only: too long, content filter
    |-- BudgetReached         exit 3: stopped before the cost exceeded the budget; run again to go on
    `-- Deferred              exit 3: calls wait for a batch; run again when it has been answered

Every error names its item and the cure, so that one line on the terminal is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


class DemurError(Exception):
    """Base class: a message, its item, and the cure.

    Args:
        message: what was expected and what came instead.
        item: an id, path or file:line; "" for the whole command.
        cure: what the reader can do now; the class's own if empty.
    """

    exit_code = 1
    usual_cure = ""

    def __init__(self, message: str, *, item: object = "", cure: str = "") -> None:
        super().__init__(message)
        # messages quote untrusted text: half a character (a lone surrogate) can be neither printed nor written
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


def did_you_mean(name: str, known_names: Sequence[str], *, cutoff: float = 0.5) -> str:
    """``did you mean 'gold'?`` for an unknown name; "" if no known name is similar."""
    similar = get_close_matches(name, known_names, n=1, cutoff=cutoff)
    return f"did you mean {similar[0]!r}?" if similar else ""


class UnknownPart(UsageError):
    """No part of that kind has that name; the message lists those that exist."""

    def __init__(self, kind: str, name: str, known_names: Sequence[str], *, hint: str = "") -> None:
        super().__init__(
            f"no {kind} named {name!r}; known: {', '.join(sorted(known_names)) or 'none'}",
            cure=" ".join(
                filter(
                    None,
                    (
                        did_you_mean(name, known_names),
                        hint or "or give 'module:Class' for your own",
                    ),
                )
            ),
        )


CONSENT = {
    "run": "--trust-code",
    "read": "--trust-code",
    "call": "--trust-hosts",
    "send": "--trust-hosts",
}
"""What only the user may choose -> the option that agrees to it."""


class UntrustedFile(UsageError):
    """A file names what only the user may choose: see `demur.core.untrusted`.

    Args:
        acts: each (``run``, ``read``, ``call`` or ``send``; what).
        item: the file.
        instead: the option by which the user may name something else.
    """

    def __init__(self, acts: Sequence[tuple[str, str]], *, item: object, instead: str = "") -> None:
        self.acts = tuple(acts)
        would = []
        for does in dict.fromkeys(does for does, _ in acts):
            those = [what for each, what in acts if each == does]
            more = f" and {len(those) - 5:,} more" if len(those) > 5 else ""
            would.append(f"{does} {', '.join(those[:5])}{more}")
        flags = sorted({CONSENT[does] for does, _ in acts})
        super().__init__(
            f"this file would {'; '.join(would)}",
            item=item,
            cure=f"look at it; if you trust whoever wrote it, add {' '.join(flags)}"
            + (f", or name your own with {instead}" if instead else ""),
        )


class MissingExtra(UsageError):
    """An optional dependency is not installed; the cure is the line that installs it.

    Args:
        what: what it is for.
        extra: that installs it; alternatives as ``cpu|gpu``.
        module: its name for people.
        package: whose extra it is, as pip takes it: a name, or a folder.
    """

    def __init__(self, what: str, *, extra: str, module: str = "", package: str = "demur") -> None:
        super().__init__(
            f"{what} needs {module or 'a package'} that is not installed",
            cure=", or ".join(f"pip install '{package}[{name}]'" for name in extra.split("|")),
        )


@contextmanager
def importing(
    what: str, *, extra: str, module: str = "", broken: bool = False, package: str = "demur"
) -> Iterator[None]:
    """Imports of optional dependencies.

    Args:
        what: what they are for.
        extra: that installs them; alternatives as ``cpu|gpu``.
        module: their name for people; "" for the name of the one that is missing.
        broken: whether one that is there and fails to import counts as missing too.
        package: whose extra it is, as pip takes it.

    Raises:
        MissingExtra: one is not installed.
    """
    try:
        yield
    except ImportError as error:
        if not broken and not isinstance(error, ModuleNotFoundError):
            raise
        raise MissingExtra(
            what, extra=extra, module=module or error.name or "", package=package
        ) from error


class DataError(DemurError):
    """The input is wrong."""


_PLACE = re.compile(
    r"(?P<place>(?:[^\s:]+: )?(?:[^:\n]+:\d+(?: \(.*?\))?|document \S+|\S+ \(\S*\))): (?P<why>.*)",
    re.DOTALL,
)
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.,]*")
EXAMPLES = 3


def by_cause(problems: Iterable[str]) -> list[str]:
    """The problems, those of one cause as one line with their number and the places of the first `EXAMPLES`.

    Problems of rows have one cause if they say the same, but for quoted values, numbers, and a last word after a colon.

    >>> by_cause([f"a.csv:{n} (q{n}): picture missing: {n}.png" for n in range(2, 9)] + ["b.csv: not in the folder"])
    ['7 rows: picture missing: 2.png; in a.csv:2 (q2), a.csv:3 (q3), a.csv:4 (q4), ...', 'b.csv: not in the folder']
    """
    causes: dict[str, list[tuple[str, str, str]]] = {}
    for line in problems:
        row = _PLACE.fullmatch(line)
        place, why = (row["place"], row["why"]) if row else ("", "")
        cause = _VALUE.sub("", re.sub(r": \S+$", "", why)) if row else line
        causes.setdefault(cause, []).append((line, place, why))
    lines = []
    for rows in causes.values():
        (line, _, why), places = rows[0], ", ".join(place for _, place, _ in rows[:EXAMPLES])
        more = ", ..." if len(rows) > EXAMPLES else ""
        lines.append(f"{len(rows):,} rows: {why}; in {places}{more}" if len(rows) > 1 else line)
    return lines


class BadInput(DataError):
    """All problems of an input, collected before anything is computed.

    Args:
        problems: one line each, with file, line and id.
        more: number of further problems, without their text.
        cure: what to do.
    """

    def __init__(
        self,
        problems: Iterable[str],
        *,
        more: int = 0,
        cure: str = "correct them, or allow --skip-bad",
    ) -> None:
        self.problems = tuple(problems)
        causes = by_cause(self.problems)
        listed = "\n  ".join(causes[:20])
        total = len(self.problems) + more
        more = max(more, len(causes) - 20)
        super().__init__(
            f"{total} problem(s) in the input:\n  {listed}"
            + (f"\n  ... and {more} more" if more > 0 else "")
            + "\n",
            cure=cure,
        )


class ReleaseError(DataError):
    """A release folder does not match its manifest."""


class IndexFileError(DataError):
    """An index file is truncated, from elsewhere, or of another encoder."""

    usual_cure = "build the index again"


class StorageError(DemurError):
    """A disk, database or folder cannot be read or written."""


class CallError(DemurError):
    """A model call ended without a reply."""

    paid = False
    """Whether the server may have charged for it: the request was sent, and no answer says that it was refused."""


class TransientError(CallError):
    """Worth another try: a time-out, a 429, a 5xx, a reset connection, an empty or broken reply.

    Args:
        retry_after: seconds that the server asks the client to wait, if any.
    """

    def __init__(
        self, message: str, *, item: object = "", cure: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, item=item, cure=cure)
        self.retry_after = retry_after


class PermanentError(CallError):
    """Another try cannot help: a wrong key, an unknown model, a request the server refuses."""


class ItemError(PermanentError):
    """Permanent, and for this one item only: context too long, content filter."""


class BudgetReached(DemurError):
    """Stopped before the cost exceeded the budget; the same command with a larger budget goes on."""

    exit_code = 3


class Deferred(DemurError):
    """A call waits for the reply to a batch; the same command goes on when it is there."""

    exit_code = 3
