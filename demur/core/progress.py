"""Progress of a long job on standard error: bars on a terminal, lines in a log, with the rate and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any, Self

from demur.core.text import plain

EVERY_S = 30.0
"""Seconds between lines where there is no terminal."""
_DRAW_S = 0.1
"""Seconds between two updates of a bar."""


class Count:
    """How many items are done. Those of an earlier run count as done, but not for the rate.

    Args:
        what: the items.
        total: how many there will be; None if unknown.
        done: by an earlier run.
        tell: called after each change.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        done: int = 0,
        tell: Callable[[Count], None] | None = None,
    ) -> None:
        self.what, self.total, self.done, self.failed, self.note = what, total, done, 0, ""
        self._tell = tell
        self._skipped, self._since = done, time.monotonic()

    def skip(self, items: int, failed: int = 0) -> None:
        """Count items of an earlier run."""
        self._skipped, self._since = self.done + items, time.monotonic()
        self.advance(items, failed)

    def advance(self, items: int = 1, failed: int = 0) -> None:
        """Count items that were done now."""
        self.done += items
        self.failed += failed
        if self._tell is not None:
            self._tell(self)

    def text(self) -> str:
        """``50/200, 5.0/s, 30 s left, 1 failed`` and the note."""
        parts = [f"{self.done:,}/{self.total:,}" if self.total else f"{self.done:,}"]
        fresh, seconds = self.done - self._skipped, time.monotonic() - self._since
        if fresh > 0 and seconds > 0:
            parts.append(f"{fresh / seconds:,.1f}/s")
            if self.done < (self.total or 0):
                seconds_left = round(((self.total or 0) - self.done) * seconds / fresh)
                parts.append(
                    f"{seconds_left // 60:,} min {seconds_left % 60} s left"
                    if seconds_left >= 60
                    else f"{seconds_left} s left"
                )
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        return ", ".join([*parts, *([self.note] if self.note else [])])


@contextmanager
def counting(
    what: str,
    total: int | None = None,
    progress: bool | Callable[[int, int], None] = True,
    note: Callable[[], str] = str,
) -> Iterator[Count]:
    """Show a count while the block runs: as a bar, as lines now and then in a log, or through a function.

    Args:
        what: the items.
        total: how many there will be; None if unknown.
        progress: a function is called with (done, total, 0 if unknown); False shows nothing.
        note: text behind the count.

    Yields:
        The count, to be advanced.
    """
    if callable(progress):
        yield Count(what, total, tell=lambda count: progress(count.done, count.total or 0))
        return
    if not progress:
        yield Count(what, total)
        return
    bars = _bars() if sys.stderr.isatty() else None
    task = None if bars is None else bars.add_task(what, total=total, text="")
    last = time.monotonic()

    def show(count: Count) -> None:
        nonlocal last
        last, count.note = time.monotonic(), note()
        if bars is None:
            _write(f"{what}: {count.text()}")
        else:
            bars.update(task, completed=count.done, text=count.text())

    def tell(count: Count) -> None:
        if (
            time.monotonic() - last >= (EVERY_S if bars is None else _DRAW_S)
            and count.done != total
        ):
            show(count)

    count = Count(what, total, tell=tell)
    with bars or nullcontext():
        try:
            yield count
        finally:
            show(count)


def _bars(transient: bool = False) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False),
        console=Console(stderr=True),
        transient=transient,
    )


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Progress:
    """Progress of a job with several stages. This class measures the time of each stage and shows nothing."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        """Stage -> seconds."""
        self._name = ""
        self._since = time.perf_counter()

    def stage(self, name: str) -> None:
        """Start a stage and end the one before it."""
        now = time.perf_counter()
        if self._name:
            self.times[self._name] = self.times.get(self._name, 0.0) + now - self._since
        self._name, self._since = name, now

    def count(self, what: str, done: int, total: int, note: str = "") -> None:
        """Report progress within a stage; total 0 if unknown. The note adds retries, cost and the like."""

    def warn(self, line: str) -> None:
        """Report something that the user must know before trusting the result."""

    def note(self, line: str) -> None:
        """Report something on a line of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stage("")


QUIET = Progress()


class TerminalProgress(Progress):
    """Shows the time of each stage on standard error, and a bar for each count in progress.

    Without a terminal it writes one line per stage, and one every half minute for a count with a note, so that a log
    stays readable.
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
        """Start a stage: remove the bars of the last one and print its time."""
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
        """Update a bar, or write a line from time to time."""
        count = self._counts.setdefault(what, Count(what, done=done))
        count.done, count.total, count.note = done, total or None, note
        if self._bars is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total or None, text="")
            self._bars.update(
                self._tasks[what], completed=done, total=total or None, text=count.text()
            )
        elif note and time.monotonic() - self._last >= EVERY_S:
            self._last = time.monotonic()
            self._say(f"            {what}: {count.text()}")

    def warn(self, line: str) -> None:
        """Print a warning."""
        self._say(f"  warning: {plain(line)}")

    def note(self, line: str) -> None:
        """Print a line."""
        self._say(f"  {plain(line)}")

    def _say(self, line: str) -> None:
        if self._bars is not None:
            self._bars.console.print(line, highlight=False, markup=False)
        else:
            _write(line)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stage("")
        if self._bars is not None:
            self._bars.stop()


def progress_if(wanted: bool) -> Progress:
    """Progress on standard error, or none."""
    return TerminalProgress() if wanted else QUIET
