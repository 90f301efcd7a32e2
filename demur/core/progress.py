"""How far a long job has come, on standard error: bars on a terminal, lines in a log, with rate and time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from demur.core.text import plain

EVERY_S = 30.0
"""Seconds between lines where there is no terminal."""
_DRAW_S = 0.1
"""Seconds between two drawings of a bar."""


class Count:
    """One count under way. What an earlier run did counts as done, and not for the rate."""

    def __init__(self, what: str, total: int | None = None, done: int = 0, failed: int = 0) -> None:
        self.what, self.total, self.done, self.failed, self.note = what, total, done, failed, ""
        self._skipped, self._since = done, time.monotonic()

    def skip(self, items: int, failed: int = 0) -> None:
        """Items that an earlier run did."""
        self.done += items
        self.failed += failed
        self._skipped, self._since = self.done, time.monotonic()

    def advance(self, items: int = 1, failed: int = 0) -> None:
        """Items done now."""
        self.done += items
        self.failed += failed

    def text(self) -> str:
        """``50/200, 5.0/s, 30 s left, 1 failed`` and the note."""
        parts = [f"{self.done:,}/{self.total:,}" if self.total else f"{self.done:,}"]
        fresh, seconds = self.done - self._skipped, time.monotonic() - self._since
        if fresh > 0 and seconds > 0:
            parts.append(f"{fresh / seconds:,.1f}/s")
            if self.done < (self.total or 0):
                left = round(((self.total or 0) - self.done) * seconds / fresh)
                parts.append(f"{left // 60:,} min {left % 60} s left" if left >= 60 else f"{left} s left")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        return ", ".join([*parts, *([self.note] if self.note else [])])


class _Shown(Count):
    """A count that shows itself."""

    def __init__(self, what: str, total: int | None, note: Callable[[], str]) -> None:
        super().__init__(what, total)
        self._noted = note
        self._bars = _bars() if sys.stderr.isatty() else None
        self._task = None if self._bars is None else self._bars.add_task(what, total=total, text="")
        self._every = EVERY_S if self._bars is None else _DRAW_S
        self._last = time.monotonic()

    def advance(self, items: int = 1, failed: int = 0) -> None:
        super().advance(items, failed)
        if time.monotonic() - self._last >= self._every and self.done != self.total:
            self.show()

    def show(self) -> None:
        self._last, self.note = time.monotonic(), self._noted()
        if self._bars is not None:
            self._bars.update(self._task, completed=self.done, text=self.text())
        else:
            _write(f"{self.what}: {self.text()}")

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.show()
        if self._bars is not None:
            self._bars.stop()


class _Function(Count):
    """A count that tells a function (done, total)."""

    def __init__(self, what: str, total: int | None, tell: Callable[[int, int], None]) -> None:
        super().__init__(what, total)
        self._tell = tell

    def skip(self, items: int, failed: int = 0) -> None:
        self.advance(items, failed)

    def advance(self, items: int = 1, failed: int = 0) -> None:
        super().advance(items, failed)
        self._tell(self.done, self.total or 0)


@contextmanager
def counting(
    what: str,
    total: int | None = None,
    progress: bool | Callable[[int, int], None] = True,
    note: Callable[[], str] = str,
) -> Iterator[Count]:
    """A count that is shown while the block runs: by a bar, by lines now and then in a log, or to a function.

    Args:
        total: how many there will be; None when that is not known.
        progress: a function is called with (done, total, 0 when not known); False shows nothing.

    Yields:
        The count, to be advanced.
    """
    if callable(progress):
        yield _Function(what, total, progress)
    elif progress:
        with _Shown(what, total, note) as count:
            yield count
    else:
        yield Count(what, total)


def _bars(transient: bool = False) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False), console=Console(stderr=True), transient=transient,
    )  # fmt: skip


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Progress:
    """What a job of several stages tells; this one keeps the time of each stage and shows nothing."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        """Stage -> seconds."""
        self._name = ""
        self._since = time.perf_counter()

    def stage(self, name: str) -> None:
        """A stage begins; the one before it ends."""
        now = time.perf_counter()
        if self._name:
            self.times[self._name] = self.times.get(self._name, 0.0) + now - self._since
        self._name, self._since = name, now

    def count(self, what: str, done: int, total: int, note: str = "") -> None:
        """Progress within a stage; total 0 when it is not known. The note says more: retries, cost so far."""

    def warn(self, line: str) -> None:
        """Say something that must be known before the result is believed."""

    def note(self, line: str) -> None:
        """Something that is worth a line of its own, now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stage("")


QUIET = Progress()


class TerminalProgress(Progress):
    """Shows the time of each stage on standard error, and a bar for each count under way.

    Without a terminal it writes one line per stage, and one every half a minute for a count that has a note, so that a
    log stays readable.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bars: Any = None
        self._counts: dict[str, Count] = {}
        self._tasks: dict[str, Any] = {}
        self._last = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bars = _bars(transient=True)
            self._bars.start()
        return self

    def stage(self, name: str) -> None:
        """A stage begins: the bars of the last one go, its time is said."""
        before = self._name
        super().stage(name)
        if before:
            self._say(f"  {self.times[before]:6.1f} s  {before}")
            for count in self._counts.values():
                if count.note:
                    self._say(f"            {count.what}: {count.text()}")
        for task in self._tasks.values():
            self._bars.remove_task(task)
        self._counts, self._tasks, self._last = {}, {}, time.monotonic()

    def count(self, what: str, done: int, total: int, note: str = "") -> None:
        """Move a bar, or write a line from time to time."""
        count = self._counts.setdefault(what, Count(what, done=done))
        count.done, count.total, count.note = done, total or None, note
        if self._bars is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total or None, text="")
            self._bars.update(self._tasks[what], completed=done, total=total or None, text=count.text())
        elif note and time.monotonic() - self._last >= EVERY_S:
            self._last = time.monotonic()
            self._say(f"            {what}: {count.text()}")

    def warn(self, line: str) -> None:
        """Write it on a line of its own."""
        self._say(f"  warning: {plain(line)}")

    def note(self, line: str) -> None:
        """A line that stays."""
        self._say(f"  {plain(line)}")

    def _say(self, line: str) -> None:
        if self._bars is not None:
            self._bars.console.print(line, highlight=False, markup=False)
        else:
            _write(line)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stage("")
        if self._bars is not None:
            self._bars.stop()
