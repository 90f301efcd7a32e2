"""The progress line: rate, time left, retries, replies from the ledger, money so far."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from demur.calls.door import Counts
from demur.records import Response

_EVERY_S = 30.0
"""Seconds between lines where there is no terminal."""


def status(done: int, total: int | None, failed: int, seconds: float, counts: Counts | None) -> str:
    """The line's text.

    >>> status(50, 200, 1, 10.0, Counts(cached=5, money=0.25))
    '50/200, 5.0/s, 30 s left, 5 cached, 0 retries, 1 failed, $0.25'
    """
    rate = done / seconds if seconds > 0 else 0.0
    parts = [f"{done}/{total}" if total is not None else f"{done}", f"{rate:,.1f}/s"]
    if total is not None and rate > 0:
        left = round((total - done) / rate)
        parts.append(f"{left // 60} min {left % 60} s left" if left >= 60 else f"{left} s left")
    if counts is not None:
        parts += [f"{counts.cached} cached", f"{counts.retries} retries"]
    parts.append(f"{failed} failed")
    return ", ".join([*parts, *_money(counts)])


def told(*doors: Counts) -> str:
    """What doors did so far, together, for whoever shows progress in a way of its own; "" without any.

    >>> told(Counts(sent=12, cached=5, money=0.25), Counts(sent=1, money=0.5))
    '13 sent, 5 cached, 0 retries, 0 failed, $0.75'
    """
    if not doors:
        return ""
    both = Counts(money=sum(d.money for d in doors))
    sums = [(sum(getattr(d, name) for d in doors), name) for name in ("sent", "cached", "retries", "failed")]
    return ", ".join([*(f"{n} {name}" for n, name in sums), *_money(both)])


def _money(counts: Counts | None) -> list[str]:
    return [f"${counts.money:,.2f}"] if counts is not None and counts.money else []


@contextmanager
def shown(label: str, total: int | None, counts: Counts | None) -> Iterator[Callable[[Response], None]]:
    """Show progress on standard error: a live bar on a terminal, else a line every 30 seconds and at the end.

    Yields:
        To be called with each response.
    """
    began = monotonic()
    done = failed = 0
    if not sys.stderr.isatty():
        last = began

        def tick(response: Response) -> None:
            nonlocal done, failed, last
            done += 1
            failed += bool(response.error)
            now = monotonic()
            if now - last >= _EVERY_S:
                last = now
                sys.stderr.write(f"{label}: {status(done, total, failed, now - began, counts)}\n")

        try:
            yield tick
        finally:
            sys.stderr.write(f"{label}: {status(done, total, failed, monotonic() - began, counts)}\n")
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        console=Console(stderr=True),
    )
    task = bar.add_task(label, total=total, text="")
    drawn = 0.0

    def draw() -> None:
        bar.update(task, completed=done, text=status(done, total, failed, monotonic() - began, counts))

    def live(response: Response) -> None:
        nonlocal done, failed, drawn
        done += 1
        failed += bool(response.error)
        now = monotonic()
        if now - drawn >= 0.1:
            drawn = now
            draw()

    with bar:
        try:
            yield live
        finally:
            draw()
