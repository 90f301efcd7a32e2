"""A budget: stops before the money given is passed, never after, over all commands that work on the same folder.

Before an attempt is sent, the most that it can cost is reserved; when its reply is there, the reservation gives
way to what it did cost. What does not fit waits for the calls in flight to settle, and when nothing is in
flight any more, the run stops.

Both are counted in the folder's ledger, the reservation before the attempt goes out. The next command on the same
folder begins with what the earlier ones spent. A reservation whose process was killed stays: nobody knows whether the
server charged for that call, so it counts with the most that it can have cost.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections import deque
from collections.abc import Sequence
from copy import copy
from pathlib import Path

from demur.core.errors import BudgetReached, UsageError
from demur.core.store import storage_errors
from demur.models.ledger import add_spending, open_database, sqlite_errors, transaction

_PER_DOLLAR = 1_000_000_000
"""The ledger counts in billionths of a dollar: whole numbers add up exactly."""


class Spending:
    """What was spent and set aside under each label, by all processes, in a ledger's file.

    Until a ledger counted it, spending stood in a log beside it, lines of ``+N LABEL`` or ``-N LABEL``: what such a
    file holds is added to the ledger when the file is met, once.

    Args:
        ledger: the ledger's file; made with the first amount.
    """

    _db: sqlite3.Connection | None = None

    def __init__(self, ledger: Path) -> None:
        self.path = ledger
        self._logs = (ledger.with_name("spent.log"), ledger.with_name(f"{ledger.name}.spent"))
        if ledger.exists() or any(log.exists() for log in self._logs):
            self._opened()
            self.close()

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = open_database(self.path)
            for log in self._logs:
                if log.exists():
                    self._read(self._db, log)
        return self._db

    def _read(self, db: sqlite3.Connection, log: Path) -> None:
        """Add what a log of an earlier demur holds and was not read yet."""
        with storage_errors(log):
            data = log.read_bytes()
        data = data[: data.rfind(b"\n") + 1]
        with sqlite_errors(self.path), transaction(db):
            had = db.execute("SELECT size FROM spent_log WHERE name = ?", (log.name,)).fetchone()
            start = had[0] if had is not None and had[0] <= len(data) else 0
            for line in data[start:].decode("utf-8", "replace").splitlines():
                amount, _, label = line.partition(" ")
                if label and amount[:1] in ("+", "-") and amount[1:].isdecimal() and len(amount) < 19:
                    add_spending(db, label, int(amount))
            db.execute("INSERT OR REPLACE INTO spent_log VALUES (?, ?)", (log.name, len(data)))

    def sum(self, labels: Sequence[str]) -> tuple[int, float]:
        """(what was spent and set aside under the labels so far, the greatest overrun met)."""
        if self._db is None and not self.path.exists():
            return 0, 1.0
        marks = ",".join("?" * len(labels))
        with sqlite_errors(self.path):
            was_open = self._db is not None
            found = self._opened().execute(
                f"SELECT coalesce(sum(amount), 0), coalesce(max(overrun), 1) FROM spending WHERE label IN ({marks})",
                labels,
            )
            total, overrun = found.fetchone()
            if not was_open:
                self.close()
        return int(total), float(overrun)

    def add(self, label: str, amount: int, overrun: float = 1.0) -> None:
        """Add an amount, and the overrun that was met."""
        with sqlite_errors(self.path):
            add_spending(self._opened(), label, amount, overrun)

    def take(self, label: str, amount: int, labels: Sequence[str], limit: int) -> bool:
        """Set an amount aside where it fits under the limit, among all processes; returns whether it did."""
        db = self._opened()
        with sqlite_errors(self.path), transaction(db):
            fits = self.sum(labels)[0] + amount <= limit
            if fits and amount:
                add_spending(db, label, amount)
        return fits

    def close(self) -> None:
        """Close the file, so that it is whole without those beside it; it is opened again when needed."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def __del__(self) -> None:
        self.close()


class _Shared:
    """What the sub-budgets of one budget share."""

    def __init__(self, money: float | None) -> None:
        self.money = money
        self.limit = None if money is None else round(money * _PER_DOLLAR)
        self.spending: Spending | None = None
        self.labels: list[str] = []
        self.own = 0
        """Spent and set aside without a ledger."""
        self.reserved = 0
        self.over = 1.0
        """The most that a reply cost, as a multiple of what its call could cost by all that was known before."""
        self.in_flight = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def total(self) -> int:
        return self.own if self.spending is None else self.spending.sum(self.labels)[0]

    def overrun(self) -> float:
        return self.over if self.spending is None else max(self.over, self.spending.sum(self.labels)[1])

    def take(self, label: str, amount: int) -> bool:
        """Set an amount aside if it fits."""
        if self.spending is not None and self.limit is not None:
            return self.spending.take(label, amount, self.labels, self.limit)
        if self.limit is not None and self.own + amount > self.limit:
            return False
        self.add(label, amount)
        return True

    def add(self, label: str, amount: int, over: float = 1.0) -> None:
        if self.spending is None:
            self.own += amount
        elif amount or over > 1.0:
            self.spending.add(label, amount, over)


class Budget:
    """Money for one folder's work, shared by all models and stages of a command and by the commands that go on with it.

    Args:
        money: US dollars; None: no limit, but what is spent is counted for a later command that has one.
        ledger: where spending is counted; None: nothing outlives this object.
        label: what it is counted under, where several things share a ledger.

    Raises:
        UsageError: the money is negative or not a number.
        StorageError: the ledger cannot be opened.
    """

    def __init__(self, money: float | None, ledger: Path | None = None, label: str = "all") -> None:
        if money is not None and not 0 <= money < math.inf:
            raise UsageError(f"a budget of ${money:g}", cure="give US dollars, 0 or more")
        self._shared = _Shared(money)
        self._label = _one_line(label)
        if ledger is not None:
            self.recorded_in(ledger, label)

    def recorded_in(self, ledger: Path, label: str = "all") -> Budget:
        """Count spending there from now on, and what stands there under ``label`` already; returns itself."""
        self._label = _one_line(label)
        self._shared.spending, self._shared.labels = Spending(ledger), [self._label]
        return self

    def sub_budget(self, label: str) -> Budget:
        """The same money, counted under another label; what the ledger holds under it counts from now on."""
        other = copy(self)
        other._label = _one_line(label)
        if other._label not in self._shared.labels:
            self._shared.labels.append(other._label)
        return other

    @property
    def money(self) -> float | None:
        """US dollars; None: no limit."""
        return self._shared.money

    @property
    def limited(self) -> bool:
        """Whether there is an end to the money."""
        return self._shared.money is not None

    @property
    def spent(self) -> float:
        """US dollars of replies, and of attempts that the server may have charged for; with a ledger, of all commands
        and processes.
        """
        return (self._shared.total() - self._shared.reserved) / _PER_DOLLAR

    async def reserve(self, most: float) -> float:
        """Set money aside for one attempt; returns how much, for `settle`.

        A server may charge for more than was asked for (it does not heed ``max_tokens``, or counts otherwise). The
        first such reply tells; from then on as many times more is set aside for every call, so that at most what was in
        flight at that moment passes the budget.

        Args:
            most: US dollars that it cannot pass, by what is asked for.

        Raises:
            BudgetReached: it does not fit, and nothing in flight could make room.
            StorageError: the ledger cannot be written.
        """
        shared = self._shared
        while True:
            over = shared.overrun()
            wanted = _whole(most * over)
            if shared.take(self._label, wanted):
                break
            if not shared.in_flight:
                why = f"the next call may cost up to ${wanted / _PER_DOLLAR:.4f}"
                if over > 1:
                    why += (
                        f" - replies cost up to {over:.1f} times what was asked for: the server counts more "
                        "tokens than max_tokens allows, which is not known before its first replies"
                    )
                raise BudgetReached(
                    f"stopped at ${self.spent:.4f} of ${shared.money or 0:.4f}: {why}",
                    cure="run the same command with a larger budget; replies already paid for are kept",
                )
            waiter = asyncio.get_running_loop().create_future()
            shared.waiting.append(waiter)
            await waiter
        shared.reserved += wanted
        shared.in_flight += 1
        return wanted / _PER_DOLLAR

    def settle(self, reserved: float, cost: float, most: float | None = None) -> None:
        """The attempt ended: give its reservation back and note what it cost, in US dollars.

        Args:
            reserved: as `reserve` returned it.
            cost: what it did cost.
            most: what `reserve` was asked for; ``reserved`` when None.

        Raises:
            StorageError: the ledger cannot be written.
        """
        shared, was = self._shared, _whole(reserved)
        shared.in_flight -= 1
        shared.reserved -= was
        asked = most if most is not None else reserved
        over = cost / asked if 0 < asked < cost else 1.0
        shared.over = max(shared.over, over)
        try:
            shared.add(self._label, _whole(cost) - was, over)
        finally:
            while shared.waiting:
                waiter = shared.waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)

    def close(self) -> None:
        """Close the ledger's file where no call is in flight; it is opened again when needed."""
        if self._shared.spending is not None and not self._shared.in_flight:
            self._shared.spending.close()


def _whole(dollars: float) -> int:
    return math.ceil(round(dollars * _PER_DOLLAR, 3))


def _one_line(label: str) -> str:
    return " ".join(label.split()) or "all"
