"""Who is told how far the embedding is: a bar, lines in a log, a function, or nobody."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

EVERY_S = 30.0
"""Seconds between lines where there is no terminal."""


class Watching(Protocol):
    """Who is told how far the embedding is."""

    def skip(self, items: int, failed: int) -> None:
        """Items that an earlier run did."""
        ...

    def advance(self, items: int, failed: int) -> None:
        """Items done now."""
        ...


@contextmanager
def shown(what: str, total: int | None, progress: bool | Callable[[int, int], None]) -> Iterator[Watching | None]:
    """Whoever is to be told, by `embed`'s argument ``progress``."""
    if callable(progress):
        yield _Told(total or 0, progress)
    elif progress:
        with _Bar(what, total) if sys.stderr.isatty() else Lines(what, total) as bar:
            yield bar
    else:
        yield None


class _Told:
    """Tells a function."""

    def __init__(self, total: int, tell: Callable[[int, int], None]) -> None:
        self._done, self._total, self._tell = 0, total, tell

    def skip(self, items: int, failed: int) -> None:
        self.advance(items, failed)

    def advance(self, items: int, failed: int) -> None:
        self._done += items
        self._tell(self._done, self._total)


class Lines:
    """Lines on standard error, for a log: every half a minute and at the end: done, rate, time left, failures."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._total, self._done, self._fresh, self._failed = what, total, 0, 0, 0
        self._since = self._said = time.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._say()

    def skip(self, items: int, failed: int) -> None:
        """They count as done, not for the rate."""
        self._done += items
        self._failed += failed
        self._since = time.monotonic()

    def advance(self, items: int, failed: int) -> None:
        """Items done now."""
        self._done += items
        self._fresh += items
        self._failed += failed
        if time.monotonic() - self._said >= EVERY_S and self._done != self._total:
            self._say()

    def _say(self) -> None:
        self._said = time.monotonic()
        rate = self._fresh / max(self._said - self._since, 1e-9)
        parts = [f"{self._done:,}" if self._total is None else f"{self._done:,}/{self._total:,}"]
        if self._fresh:
            parts.append(f"{rate:,.0f}/s")
            left = 0 if self._total is None else round((self._total - self._done) / rate)
            if left:
                parts.append(f"{left // 60} min {left % 60} s left" if left >= 60 else f"{left} s left")
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        sys.stderr.write(f"{self._what}: {', '.join(parts)}\n")
        sys.stderr.flush()


class _Bar:
    """A progress bar on standard error: done, rate, remaining time, failures."""

    def __init__(self, what: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}", style="red"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(what, total=total, rate="", failed="")
        self._total, self._done, self._fresh, self._failed = total, 0, 0, 0
        self._since = time.monotonic()

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def skip(self, items: int, failed: int) -> None:
        # they count as done, not for the rate
        self._done += items
        self._failed += failed
        self._progress.reset(self._task, total=self._total, completed=self._done, rate="", failed="")
        self._since = time.monotonic()

    def advance(self, items: int, failed: int) -> None:
        self._done += items
        self._fresh += items
        self._failed += failed
        rate = self._fresh / max(time.monotonic() - self._since, 1e-9)
        self._progress.update(
            self._task,
            completed=self._done,
            rate=f"{rate:,.0f}/s",
            failed=f"{self._failed} failed" if self._failed else "",
        )
