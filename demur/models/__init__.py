"""Calls to models: requests in, responses out, ledger, cache, retries, limits, estimates and budgets.

    options = ModelOptions(ledger=Path("calls.sqlite"))
    async with open_model("http://localhost:8000/v1#Qwen/Qwen2.5-VL-7B-Instruct", options) as model:
        async for request, response in complete_all(model, requests, progress="gate"):
            ...

``docs/calls.md`` shows how to use it; ``docs/design/calls.md`` says why it is built this way.
"""

from demur.models.budget import Budget
from demur.models.client import Counts, Model, ModelClient, ModelOptions, Retry
from demur.models.estimate import Estimate, EstimateLine, estimate_calls
from demur.models.fleet import Backend, Fleet
from demur.models.identity import request_key
from demur.models.ledger import Entry, Ledger, Stats, recover_ledger
from demur.models.names import model_id, open_model, parse_model
from demur.models.prices import Price, Prices
from demur.models.run import complete_all, complete_sync, run_sync
from demur.models.wire import Fault

__all__ = [
    "Backend",
    "Budget",
    "Counts",
    "Entry",
    "Estimate",
    "EstimateLine",
    "Fault",
    "Fleet",
    "Ledger",
    "Model",
    "ModelClient",
    "ModelOptions",
    "Price",
    "Prices",
    "Retry",
    "Stats",
    "complete_all",
    "complete_sync",
    "estimate_calls",
    "model_id",
    "open_model",
    "parse_model",
    "recover_ledger",
    "request_key",
    "run_sync",
]
