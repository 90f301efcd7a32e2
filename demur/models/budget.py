"""A budget: stops the work before its cost exceeds the money given, over all commands that use the same folder.

Before an attempt is sent, the budget reserves the most that it can cost; when the reply is there, the actual cost
replaces the reservation. A call that does not fit waits for the calls in flight; if none is in flight, the run stops.

The folder's ledger counts both, the reservation before the attempt is sent. The next command on the same folder starts
with what the earlier ones spent. Where nobody reported the cost (a reply without usage, a broken connection, a killed
process), the reservation stays: such a call counts with its maximum cost.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from pathlib import Path

from demur.core.errors import BudgetReached, StorageError, UsageError
from demur.models.ledger import SPENDING, add_spending, open_database, sqlite_errors, transaction

_PER_DOLLAR = 1_000_000_000
"""The ledger counts in billionths of a dollar: sums of whole numbers are exact."""


class _Account:
    """The state that all sub-budgets of one budget share."""

    ledger: Path | None = None
    """Counts the spending; None: a database in memory does."""
    _db: sqlite3.Connection | None = None

    def __init__(self, money: float | None) -> None:
        self.money = money
        self.limit = math.inf if money is None else round(money * _PER_DOLLAR)
        self.labels: list[str] = []
        self.reserved = self.in_flight = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def db(self) -> sqlite3.Connection:
        if self._db is None:
            if self.ledger is not None:
                self._db = open_database(self.ledger)
            else:
                self._db = sqlite3.connect(
                    ":memory:", isolation_level=None, check_same_thread=False
                )
                self._db.execute(SPENDING)
        return self._db

    def sums(self) -> tuple[int, int, float]:
        """(spent and reserved so far, the part of it that no server reported, the greatest overrun)."""
        if self._db is None and (self.ledger is None or not self.ledger.exists()):
            return 0, 0, 1.0
        query = (
            "SELECT coalesce(sum(amount), 0), coalesce(sum(unreported), 0), coalesce(max(overrun), 1)"
            f" FROM spending WHERE label IN ({','.join('?' * len(self.labels))})"
        )
        with sqlite_errors(self.ledger):
            total, unreported, overrun = self.db().execute(query, self.labels).fetchone()
        return int(total), int(unreported), float(overrun)

    def take(self, label: str, most: float) -> tuple[int, float, bool]:
        """(amount, overrun, whether it was reserved): the amount is ``most`` US dollars times the overrun."""
        db = self.db()
        with sqlite_errors(self.ledger), transaction(db):
            spent, _, overrun = self.sums()
            amount = _whole_units(most * overrun)
            fits = spent + amount <= self.limit
            if fits and amount:
                add_spending(db, label, amount, amount)
        return amount, overrun, fits

    def close(self) -> None:
        """Close the ledger between calls; it is complete then without its helper files, and opens again when needed."""
        if self._db is not None and self.ledger is not None and not self.in_flight:
            self._db.close()
            self._db = None

    def __del__(self) -> None:
        if self._db is not None:
            self._db.close()


class Budget:
    """Money for the work in one folder: for all models and stages of a command, and for the commands that continue it.

    Args:
        money: US dollars; None: no limit, but the spending counts for a later command that has one.
        ledger: counts the spending; None: nothing outlives this object.
        label: what to count it under, where several things share a ledger.

    Raises:
        UsageError: the money is negative or not a number.
        StorageError: the ledger cannot be opened.
    """

    def __init__(self, money: float | None, ledger: Path | None = None, label: str = "all") -> None:
        if money is not None and not 0 <= money < math.inf:
            raise UsageError(f"a budget of ${money:g}", cure="give US dollars, 0 or more")
        self._account = _Account(money)
        self._label = ""
        self._use(label)
        if ledger is not None:
            self.recorded_in(ledger, label)

    def _use(self, label: str) -> None:
        self._label = " ".join(label.split()) or "all"
        if self._label not in self._account.labels:
            self._account.labels.append(self._label)

    def recorded_in(self, ledger: Path, label: str = "all") -> Budget:
        """Count spending there from now on, and include what stands there under ``label``; returns itself."""
        if ledger.exists() and not ledger.is_file():
            raise StorageError("the ledger is not a file", item=ledger, cure="choose another path")
        self._account.ledger, self._account.labels = ledger, []
        self._use(label)
        return self

    def sub_budget(self, label: str) -> Budget:
        """The same money, counted under another label; the ledger's spending under it counts from now on."""
        other = copy(self)
        other._use(label)
        return other

    @property
    def label(self) -> str:
        """What it counts under."""
        return self._label

    @property
    def money(self) -> float | None:
        """US dollars; None: no limit."""
        return self._account.money

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._account.money is not None

    @property
    def spent(self) -> float:
        """US dollars of replies, and of attempts that the server may have charged for; with a ledger, of all commands
        and processes. At least what was charged: see `unreported`.
        """
        return self._settled(0)

    @property
    def unreported(self) -> float:
        """US dollars of `spent` that no server reported: the most that those calls can have cost."""
        return self._settled(1)

    def _settled(self, column: int) -> float:
        total = self._account.sums()[column]
        self._account.close()
        return (total - self._account.reserved) / _PER_DOLLAR

    async def reserve(self, most: float) -> float:
        """Reserve money for one attempt; returns how much, for `settle`.

        A server may charge for more than the request allows (it ignores ``max_tokens``, or counts differently). The
        first such reply shows it; from then on every call reserves that many times more, so that at most the calls in
        flight at that moment exceed the budget.

        Args:
            most: US dollars that the attempt costs at most, by what it asks for.

        Raises:
            BudgetReached: it does not fit, and no call is in flight.
            StorageError: the ledger cannot be written.
        """
        account = self._account
        while True:
            amount, overrun, fits = account.take(self._label, most)
            if fits:
                break
            if not account.in_flight:
                raise self.reached(amount / _PER_DOLLAR, overrun)
            waiter = asyncio.get_running_loop().create_future()
            account.waiting.append(waiter)
            await waiter
        account.reserved += amount
        account.in_flight += 1
        return amount / _PER_DOLLAR

    def reached(self, most: float, overrun: float = 1.0) -> BudgetReached:
        """The error of a call that may cost ``most`` US dollars, and does not fit."""
        unreported = self.unreported
        why = f"the next call may cost up to ${most:.4f}"
        if overrun > 1:
            why += (
                f" - replies cost up to {overrun:.1f} times what the requests allow: the server counts more "
                "tokens than max_tokens, which only its first replies show"
            )
        bound = f", of which ${unreported:.4f} is an upper bound: no server reported that cost"
        return BudgetReached(
            f"stopped at ${self.spent:.4f} of ${self.money or 0:.4f}{bound if unreported else ''}: {why}",
            cure="run the same command with a larger budget; replies already paid for are kept",
        )

    def settle(self, reserved: float, cost: float | None, most: float | None = None) -> None:
        """The attempt ended: replace its reservation by its cost, in US dollars.

        Args:
            reserved: from `reserve`.
            cost: of the attempt; None if nobody reported it: the reservation stays.
            most: the argument of `reserve`; ``reserved`` when None.

        Raises:
            StorageError: the ledger cannot be written.
        """
        account, amount = self._account, _whole_units(reserved)
        account.in_flight -= 1
        account.reserved -= amount
        reserved_most = most if most is not None else reserved
        try:
            if cost is not None and (cost or amount):
                overrun = cost / reserved_most if 0 < reserved_most < cost else 1.0
                with sqlite_errors(account.ledger):
                    add_spending(
                        account.db(), self._label, _whole_units(cost) - amount, -amount, overrun
                    )
        finally:
            while account.waiting:
                waiter = account.waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)

    def reserve_batch(self, mosts: Sequence[float]) -> list[int]:
        """Reserve money for the calls of a batch, in their order, as far as it fits.

        Args:
            mosts: US dollars that each call costs at most.

        Returns:
            Billionths of a dollar of each call that fits, for `settle_batch`.

        Raises:
            StorageError: the ledger cannot be written.
        """
        account = self._account
        db = account.db()
        with sqlite_errors(account.ledger), transaction(db):
            spent, _, overrun = account.sums()
            amounts: list[int] = []
            for most in mosts:
                spent += (amount := _whole_units(most * overrun))
                if spent > account.limit:
                    break
                amounts.append(amount)
            if reserved := sum(amounts):
                add_spending(db, self._label, reserved, reserved)
        return amounts

    def settle_batch(self, costs: Iterable[tuple[int, float]]) -> None:
        """Replace reservations of calls, perhaps of an earlier command, by what they cost.

        Args:
            costs: (amount from `reserve_batch`, US dollars) of each call.

        Raises:
            StorageError: the ledger cannot be written.
        """
        account, change, reserved, overrun = self._account, 0, 0, 1.0
        for amount, cost in costs:
            change += _whole_units(cost) - amount
            reserved += amount
            overrun = max(overrun, _whole_units(cost) / amount if amount else 1.0)
        if change or reserved:
            with sqlite_errors(account.ledger):
                add_spending(account.db(), self._label, change, -reserved, overrun)

    def close(self) -> None:
        """Close the ledger if no call is in flight; it opens again when needed."""
        self._account.close()


def _whole_units(dollars: float) -> int:
    return math.ceil(round(dollars * _PER_DOLLAR, 3))
