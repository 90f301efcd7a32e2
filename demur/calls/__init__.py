"""The one door to models: requests in, responses out, ledger, cache, retries, limits, plans and budgets.

    async with open_model("http://localhost:8000/v1#Qwen/Qwen2.5-VL-7B-Instruct", ledger=Path("calls.sqlite")) as model:
        async for request, response in complete_all(model, requests, progress="gate"):
            ...

``docs/calls.md`` shows it at work; ``docs/design/calls.md`` tells why it is built this way.
"""

from demur.calls.budget import Budget
from demur.calls.door import Counts, Door, Model, Retry
from demur.calls.fleet import Backend, Fleet
from demur.calls.identity import request_key
from demur.calls.ledger import Entry, Ledger, Stats, recover
from demur.calls.models import model_id, open_model, parse_model
from demur.calls.plan import Plan, PlanLine, plan
from demur.calls.prices import Price, Prices
from demur.calls.run import by_prefix, complete_all, complete_sync, run_sync
from demur.calls.wire import Fault

__all__ = [
    "Backend",
    "Budget",
    "Counts",
    "Door",
    "Entry",
    "Fault",
    "Fleet",
    "Ledger",
    "Model",
    "Plan",
    "PlanLine",
    "Price",
    "Prices",
    "Retry",
    "Stats",
    "by_prefix",
    "complete_all",
    "complete_sync",
    "model_id",
    "open_model",
    "parse_model",
    "plan",
    "recover",
    "request_key",
    "run_sync",
]
