"""A budget: stops before the money given is passed, never after, over all commands that work on the same folder.

Before an attempt is sent, the most that it can cost is reserved; when its reply is there, the reservation gives
way to what it did cost. What does not fit waits for the calls in flight to settle, and when nothing is in
flight any more, the run stops.

Both are also noted in a log beside the ledger, one short line each, written before the attempt goes out. The next
command on the same folder begins with what the earlier ones spent. A reservation whose process was killed stays: nobody
knows whether the server charged for that call, so it counts with the most that it can have cost.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from copy import copy
from pathlib import Path

from demur.errors import BudgetReached, StorageError, UsageError
from demur.store import storage_errors

_PER_DOLLAR = 1_000_000_000
"""The log counts in billionths of a dollar: whole numbers add up exactly."""


class SpendingLog:
    """A file of what was spent and for what; safe under several processes and under kill -9.

    Each line is ``+N LABEL`` or ``-N LABEL``, N in billionths of a US dollar; their sum is what was spent and what is
    set aside. Lines are appended in one write each, so processes never tear each other's.

    Args:
        path: the file; it and its folder are made with the first line.

    Raises:
        StorageError: it is there and cannot be opened.
    """

    _handle = -1

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._sums: dict[str, int] = {}
        self._open(os.O_RDWR)

    def _open(self, flags: int) -> bool:
        if self._handle < 0:
            try:
                self._handle = os.open(self.path, flags | os.O_APPEND | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:
                return False
            except OSError as error:
                raise StorageError(
                    error.strerror or str(error), item=str(self.path), cure="choose a folder you can write to"
                ) from error
        return True

    def add(self, label: str, amount: int) -> None:
        """Append a line.

        Raises:
            StorageError: it cannot be written whole.
        """
        line = f"{amount:+d} {label}\n".encode()
        with storage_errors(self.path):
            if self._handle < 0:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._open(os.O_RDWR | os.O_CREAT)
            if os.write(self._handle, line) == len(line):
                return
            os.write(self._handle, b"\n")
        raise StorageError("the disk is full", item=str(self.path), cure="free some space and run again")

    def sum(self, label: str) -> int:
        """What all processes together spent and set aside under a label so far, in billionths of a dollar."""
        if not self._open(os.O_RDWR):  # nobody spent anything yet
            return 0
        with storage_errors(self.path):
            size = os.fstat(self._handle).st_size
            while self._read < size:
                block = os.pread(self._handle, min(size - self._read, 1 << 20), self._read)
                whole = block[: block.rfind(b"\n") + 1]
                if not whole:
                    break  # another process is about to end its line
                self._read += len(whole)
                for line in whole.decode("utf-8", "replace").splitlines():
                    amount, _, name = line.partition(" ")
                    if name and amount[1:].isdecimal():
                        self._sums[name] = self._sums.get(name, 0) + int(amount)
        return self._sums.get(label, 0)

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


class _Pot:
    """What the purses of one budget share."""

    def __init__(self, money: float | None) -> None:
        self.money = money
        self.log: SpendingLog | None = None
        self.labels: list[str] = []
        self.own = 0
        """Spent and set aside without a log."""
        self.reserved = 0
        self.over = 1.0
        """The most that a reply cost, as a multiple of what its call could cost by all that was known before."""
        self.in_flight = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def total(self) -> int:
        return self.own if self.log is None else sum(map(self.log.sum, self.labels))

    def fits(self, more: int) -> bool:
        return self.money is None or self.total() + more <= round(self.money * _PER_DOLLAR)

    def add(self, label: str, amount: int) -> None:
        if self.log is None:
            self.own += amount
        elif amount:
            self.log.add(label, amount)


class Budget:
    """Money for one folder's work, shared by all models and stages of a command and by the commands that go on with it.

    Args:
        money: US dollars; None: no limit, but what is spent is noted for a later command that has one.
        log: where spending is noted (see `SpendingLog`); None: nothing outlives this object.
        label: what it is noted under, where several things share a log.

    Raises:
        UsageError: the money is negative or not a number.
        StorageError: the log cannot be opened.
    """

    def __init__(self, money: float | None, log: Path | None = None, label: str = "all") -> None:
        if money is not None and not 0 <= money < math.inf:
            raise UsageError(f"a budget of ${money:g}", cure="give US dollars, 0 or more")
        self._pot = _Pot(money)
        self._label = _one_line(label)
        if log is not None:
            self.noted(log, label)

    def noted(self, log: Path, label: str = "all") -> Budget:
        """Note spending there from now on, and count what stands there under ``label`` already; returns itself."""
        self._label = _one_line(label)
        self._pot.log, self._pot.labels = SpendingLog(log), [self._label]
        return self

    def purse(self, label: str) -> Budget:
        """The same money, noted under another label; what the log holds under it counts from now on."""
        other = copy(self)
        other._label = _one_line(label)
        if other._label not in self._pot.labels:
            self._pot.labels.append(other._label)
        return other

    @property
    def money(self) -> float | None:
        """US dollars; None: no limit."""
        return self._pot.money

    @property
    def limited(self) -> bool:
        """Whether there is an end to the money."""
        return self._pot.money is not None

    @property
    def spent(self) -> float:
        """US dollars of the replies that came, and of attempts that the server may have charged for; with a log, also
        those of earlier commands and of other processes.
        """
        return (self._pot.total() - self._pot.reserved) / _PER_DOLLAR

    async def reserve(self, most: float) -> float:
        """Set money aside for one attempt; returns how much, for `settle`.

        A server may charge for more than was asked for (it does not heed ``max_tokens``, or counts otherwise). The
        first such reply tells; from then on as many times more is set aside for every call, so that at most what was in
        flight at that moment passes the budget.

        Args:
            most: US dollars that it cannot pass, by what is asked for.

        Raises:
            BudgetReached: it does not fit, and nothing in flight could make room.
            StorageError: the log cannot be written.
        """
        pot = self._pot
        while True:
            wanted = _whole(most * pot.over)
            if pot.fits(wanted):
                pot.add(self._label, wanted)
                if pot.fits(0):  # else another process set its own aside at the same moment
                    break
                pot.add(self._label, -wanted)
            if not pot.in_flight:
                why = f"the next call may cost up to ${wanted / _PER_DOLLAR:.4f}"
                if pot.over > 1:
                    why += (
                        f" - replies cost up to {pot.over:.1f} times what was asked for: the server counts more tokens "
                        "than max_tokens allows, which is not known before its first replies"
                    )
                raise BudgetReached(
                    f"stopped at ${self.spent:.4f} of ${pot.money or 0:.4f}: {why}",
                    cure="run the same command with a larger budget; replies already paid for are kept",
                )
            waiter = asyncio.get_running_loop().create_future()
            pot.waiting.append(waiter)
            await waiter
        pot.reserved += wanted
        pot.in_flight += 1
        return wanted / _PER_DOLLAR

    def settle(self, reserved: float, cost: float, most: float | None = None) -> None:
        """The attempt ended: give its reservation back and note what it cost, in US dollars.

        Args:
            reserved: as `reserve` returned it.
            cost: what it did cost.
            most: what `reserve` was asked for; ``reserved`` when None.

        Raises:
            StorageError: the log cannot be written.
        """
        pot, was = self._pot, _whole(reserved)
        pot.in_flight -= 1
        pot.reserved -= was
        if 0 < (most if most is not None else reserved) < cost:
            pot.over = max(pot.over, cost / (most if most is not None else reserved))
        try:
            pot.add(self._label, _whole(cost) - was)
        finally:
            while pot.waiting:
                waiter = pot.waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)


def _whole(dollars: float) -> int:
    return math.ceil(round(dollars * _PER_DOLLAR, 3))


def _one_line(label: str) -> str:
    return " ".join(label.split()) or "all"
