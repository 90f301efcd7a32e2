"""Estimates before anything is paid: calls, tokens, money and time, per stage and model."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from demur.core.errors import UsageError
from demur.core.records import Record, Request
from demur.core.text import duration
from demur.models.identity import request_key
from demur.models.ledger import Ledger
from demur.models.names import parse_model, revision_of
from demur.models.prices import DEFAULT_COMPLETION, Price, Prices, prompt_tokens


class EstimateLine(Record):
    """One stage with one model."""

    stage: str
    model: str
    calls: int = 0
    """Different calls of the stage, including those in the ledger."""
    cached: int = 0
    """Calls whose reply is in the ledger."""
    prompt: int = 0
    """Estimated prompt tokens of the other calls."""
    completion: int = 0
    """Maximum completion tokens of the other calls: the sum of their ``max_tokens``."""
    money: float | None = None
    """Maximum US dollars for the other calls; None if the price is unknown."""
    expected: float | None = None
    """The same for replies of the usual length (`usual_completion`)."""
    seconds: float | None = None
    """At the given rate; None without one."""

    @property
    def to_pay(self) -> int:
        """Calls to send."""
        return self.calls - self.cached

    def per_call(self) -> tuple[float | None, float | None]:
        """(expected, most) US dollars of a call to send; None if the price is unknown. There is one to send."""
        if self.expected is None or self.money is None:
            return None, None
        return self.expected / self.to_pay, self.money / self.to_pay


class Estimate(Record):
    """All stages of a command."""

    lines: tuple[EstimateLine, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks on the prices, one line each."""

    @property
    def money(self) -> float | None:
        """Maximum US dollars; None if the price of any call to send is unknown."""
        if any(line.money is None and line.to_pay for line in self.lines):
            return None
        return sum(line.money or 0.0 for line in self.lines)

    @property
    def expected(self) -> float | None:
        """Expected US dollars; None as for `money`."""
        return None if self.money is None else sum(line.expected or 0.0 for line in self.lines)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            lines=(*self.lines, *other.lines),
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
        )

    def cells(self) -> list[list[str]]:
        """The table's titles, a row per stage and model, and the sums; the first two columns are names."""
        head = ["stage", "model", "calls", "cached"]
        head += ["prompt", "reply", "expected", "at most", "time"]
        rows = [
            [
                ln.stage,
                ln.model,
                *_count_cells(ln.calls, ln.cached, ln.prompt, ln.completion),
                *(_dollar_text(money if ln.to_pay else 0.0) for money in (ln.expected, ln.money)),
                _time_text(ln.seconds),
            ]
            for ln in self.lines
        ]
        sums = [
            sum(getattr(ln, name) for ln in self.lines)
            for name in ("calls", "cached", "prompt", "completion")
        ]
        seconds = [ln.seconds for ln in self.lines if ln.to_pay]
        total = None if None in seconds else sum(s for s in seconds if s is not None)
        money = [_dollar_text(self.expected), _dollar_text(self.money)]
        return [head, *rows, ["total", "", *_count_cells(*sums), *money, _time_text(total)]]


USUAL_COMPLETION = 60
"""Tokens that a reply is expected to have while the ledger holds none of its model: a short answer."""
LABEL_COMPLETION = 12
"""The same of a reply by a JSON schema, which in demur has one label."""


def usual_completion(ledger: Path | None, model: str) -> float | None:
    """Mean tokens of a model's replies in the ledger; None where it has none."""
    if ledger is None or not ledger.is_file():
        return None
    with Ledger(ledger, read_only=True) as replies:
        all_stats = replies.stats()
    lengths = (s.completion / s.replies for s in all_stats if s.model == model and s.completion)
    return next(lengths, None)


def check_rate(per_second: float | None) -> None:
    """Raise `UsageError` if a rate is not positive."""
    if per_second is not None and not per_second > 0:
        raise UsageError(
            f"--per-second {per_second:g}", cure="give replies per second, more than 0"
        )


def tier_of_batches(address: str, *, batch: bool) -> str:
    """``batch`` for a model that is asked in batches, else ""."""
    return "batch" if batch and parse_model(address).kind in ("openai", "http") else ""


def price_notes(model: str, price: Price | None, *tiers: str) -> tuple[str, ...]:
    """Notes on a model's price: that it is unknown, its date, and what a cheaper tier takes of it."""
    if price is None:
        return (
            f"no price is known for {model}: its cost is unknown, not 0; give it with --prices FILE",
        )
    notes = []
    for tier in filter(None, tiers):
        share = price.per_token(tier) / price.per_token("")
        notes.append(f"{model} in {tier}: {share:.0%} of its list price")
    if price.checked:
        note = f"the price of {model} dates from {price.checked}: check it before you rely on it"
        notes.append(f"{note} - that is more than six months ago" if price.old() else note)
    return tuple(notes)


def _count_cells(*counts: int) -> list[str]:
    return [f"{n:,}" for n in counts]


def _dollar_text(money: float | None) -> str:
    if money is None:
        return "unknown"
    return f"${money:.4f}" if 0 < money < 0.01 else f"${money:,.2f}"


def _time_text(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def estimate_calls(
    stage: str,
    model: str,
    requests: Iterable[Request],
    *,
    ledger: Path | None = None,
    prices: Path | None = None,
    per_second: float | None = None,
    lengths: Path | None = None,
    batch: bool = False,
    share: float = 1.0,
) -> Estimate:
    """Estimate one stage, without opening the model; add estimates with ``+``.

    Args:
        stage: its name.
        model: model string.
        requests: all of them; taken a thousand at a time. Equal ones count once.
        ledger: its replies cost nothing; may be None, or a file that does not exist yet.
        prices: price table that overrides the shipped one.
        per_second: replies per second, for the time (see the last run's progress line).
        lengths: ledger whose replies tell how long they usually are; None: ``ledger``.
        batch: whether calls go in batches, where the model has them.
        share: of the calls, in [0, 1], that is expected to be made; the rest counts only in the maximum.

    Returns:
        An estimate with one line. Prompt tokens are estimated from text and image sizes, completion tokens are the
        maximum that the requests allow, so the money is an upper estimate; beside it stands what replies of the usual
        length cost.

    Raises:
        UsageError: not a model string, or ``per_second`` is not positive.
        DataError: the file is not a price table.
    """
    check_rate(per_second)
    name = parse_model(model).id
    revision = revision_of(model)
    price = Prices(prices).find(name)
    rule = price.images if price is not None else "patches28"
    open_ledger = (
        Ledger(ledger, read_only=True) if ledger is not None and ledger.is_file() else None
    )
    seen: set[bytes] = set()
    tiers: set[str] = set()
    cached = prompt = completion = 0
    money = expected = 0.0
    usual_length = usual_completion(lengths or ledger, name)
    tier = tier_of_batches(model, batch=batch)
    source = iter(requests)
    try:
        while part := list(islice(source, 1000)):
            fresh = {}
            for request in part:
                key = request_key(request, name, revision)
                if key not in seen:
                    seen.add(key)
                    fresh[key] = request
            stored = open_ledger.get_many(list(fresh)) if open_ledger is not None else {}
            cached += len(stored)
            for key, request in fresh.items():
                if key not in stored:
                    tokens, most_tokens = (
                        prompt_tokens(request, rule),
                        request.max_tokens or DEFAULT_COMPLETION,
                    )
                    tier_of_call = tier or request.service_tier or ""
                    tiers.add(tier_of_call)
                    prompt += tokens
                    completion += most_tokens
                    if price is not None:
                        rate, fixed = price.per_token(tier_of_call), tokens * price.prompt
                        money += rate * (fixed + most_tokens * price.completion)
                        guess = LABEL_COMPLETION if request.json_schema else USUAL_COMPLETION
                        length = min(most_tokens, usual_length or guess)
                        expected += share * rate * (fixed + length * price.completion)
    finally:
        if open_ledger is not None:
            open_ledger.close()
    to_pay = len(seen) - cached
    return Estimate(
        notes=price_notes(name, price, *tiers) if to_pay else (),
        lines=(
            EstimateLine(
                stage=stage,
                model=name,
                calls=len(seen),
                cached=cached,
                prompt=prompt,
                completion=completion,
                money=None if price is None else money,
                expected=None if price is None else expected,
                seconds=None if per_second is None else to_pay / per_second,
            ),
        ),
    )
