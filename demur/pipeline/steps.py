"""What a long job tells while it runs: its stages, and how far each has come."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from demur.answers.text import plain

EVERY_S = 30.0
"""Seconds between lines where there is no terminal."""


class Steps:
    """Told what happens; this one keeps the time of each stage and shows nothing."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
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


QUIET = Steps()


class Shown(Steps):
    """Shows stages on standard error, with a bar, rate and time left for each count under way.

    Without a terminal it writes one line per stage, and one every half a minute for a count under way that has a note,
    so that a log stays readable.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._counts: dict[str, tuple[int, int, str]] = {}
        self._began: dict[str, tuple[float, int]] = {}
        self._said = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            class Rate(TextColumn):
                def render(self, task: Any) -> Any:
                    from rich.text import Text

                    return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")

            self._bars = Progress(
                TextColumn("  {task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
                Rate(""), TimeRemainingColumn(), TextColumn("{task.fields[note]}", style="dim", markup=False),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bars.start()
        return self

    def stage(self, name: str) -> None:
        """A stage begins: the bars of the last one go, its time is said."""
        before = self._name
        super().stage(name)
        if before:
            self._say(f"  {self.times[before]:6.1f} s  {before}")
            for what, (_, _, note) in self._counts.items():
                if note:
                    self._say(f"            {what}: {self._line(what)}")
        self._counts, self._began, self._said = {}, {}, time.perf_counter()
        if self._bars is not None:
            for task in self._tasks.values():
                self._bars.remove_task(task)
        self._tasks = {}

    def count(self, what: str, done: int, total: int, note: str = "") -> None:
        """Move a bar, or write a line from time to time."""
        now = time.perf_counter()
        self._began.setdefault(what, (now, done))
        self._counts[what] = (done, total, note)
        if self._bars is None:
            if note and now - self._said >= EVERY_S:
                self._said = now
                self._say(f"            {what}: {self._line(what)}")
            return
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total or None, note=note)
        self._bars.update(self._tasks[what], completed=done, total=total or None, note=note)

    def warn(self, line: str) -> None:
        """Write it on a line of its own."""
        self._say(f"  warning: {plain(line)}")

    def note(self, line: str) -> None:
        """A line that stays."""
        self._say(f"  {plain(line)}")

    def _line(self, what: str) -> str:
        """A count as text: done, rate, time left, note."""
        done, total, note = self._counts[what]
        began, had = self._began[what]
        seconds = time.perf_counter() - began
        rate = (done - had) / seconds if seconds > 0 else 0.0
        left = f", {(total - done) / rate:,.0f} s left" if rate and 0 < done < total else ""
        return f"{done:,}{f'/{total:,}' if total else ''}, {rate:,.1f}/s{left}{f', {note}' if note else ''}"

    def _say(self, line: str) -> None:
        if self._bars is not None:
            self._bars.console.print(line, highlight=False)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stage("")
        if self._bars is not None:
            self._bars.stop()
