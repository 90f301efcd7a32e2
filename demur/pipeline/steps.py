"""What a long job tells while it runs: its stages, and how far each has come."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self


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

    def count(self, what: str, done: int, total: int) -> None:
        """Progress within a stage; total 0 when it is not known."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stage("")


QUIET = Steps()


class Shown(Steps):
    """Shows stages on standard error, with a bar, rate and time left for each count under way.

    Without a terminal it writes one line per stage, so that a log stays readable.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            class Rate(TextColumn):
                def render(self, task: Any) -> Any:
                    from rich.text import Text

                    return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")

            self._bars = Progress(
                TextColumn("  {task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), Rate(""),
                TimeRemainingColumn(), console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bars.start()
        return self

    def stage(self, name: str) -> None:
        """A stage begins: the bars of the last one go, its time is said."""
        before = self._name
        super().stage(name)
        if before:
            self._say(f"  {self.times[before]:6.1f} s  {before}")
        if self._bars is not None:
            for task in self._tasks.values():
                self._bars.remove_task(task)
        self._tasks = {}

    def count(self, what: str, done: int, total: int) -> None:
        """Move a bar."""
        if self._bars is None:
            return
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total or None)
        self._bars.update(self._tasks[what], completed=done, total=total or None)

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
