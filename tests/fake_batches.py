"""The batch API of the fake endpoint, with what can happen to a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiohttp import web

from demur.core.store import digest
from demur.testing.fake import REFUSALS, FakeEndpoint

FAULTS = (
    "late",
    "lost",
    "expired",
    "half",
    "failed-lines",
    "twice",
    "refused",
    "token-limit",
    "no-name",
    "down",
)
"""What happens to a batch: it is asked for three times before it ends; the server forgets it; half of its calls are not
processed in time; half of its results are missing; half of its calls are answered 500; its results come twice and in
another order; its file is refused; it has too many tokens; the reply that names it never comes; the server is down once
after it was started."""


def price_table(folder: Path, completion: float, model: str = "*") -> Path:
    """A table of prices with batches at half the price, written into a folder; dollars a million tokens."""
    table = folder / "prices.json"
    price = {"prompt": 1.0, "completion": completion, "batch": 0.5}
    table.write_text(json.dumps({"models": {model: price}}))
    return table


class BatchEndpoint(FakeEndpoint):
    """A fake endpoint with files and batches.

    Args:
        faults: as of `FakeEndpoint`; permanent ones also of calls in batches.
        batch_faults: a fault of `FAULTS` or ``ok`` for each batch in turn; then none.
        has_batches: whether it has this API at all.
    """

    def __init__(self, faults="", *, batch_faults="", has_batches=True, **options):
        super().__init__(faults, **options)
        self._batch_script, self._has_batches = (
            [w for w in batch_faults.split(",") if w],
            has_batches,
        )
        assert set(self._batch_script) <= {"ok", *FAULTS}
        self.files: dict[str, str] = {}
        """Name -> the lines."""
        self.batches: dict[str, dict] = {}
        """Name -> the batch, as the server describes it."""
        self._fault_of_batch: dict[str, str] = {}
        self._batch_met: set[str] = set()

    def add_routes(self, app: web.Application) -> None:
        """Those of files and batches."""
        if not self._has_batches:
            return
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{name}/content", self._content)
        app.router.add_post("/v1/batches", self._start_batch)
        app.router.add_get("/v1/batches", self._list_batches)
        app.router.add_get("/v1/batches/{name}", self._state)

    @property
    def sent(self) -> list[str]:
        """Names of all calls in all batches, in their order."""
        files = (self.files[batch["input_file_id"]] for batch in self.batches.values())
        return [json.loads(line)["custom_id"] for lines in files for line in lines.splitlines()]

    def answer_in_batch(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of the reply to one call of a batch."""
        name = digest(body, 32)
        if (kind := self._next_fault(name)) in REFUSALS:
            status, message, code = REFUSALS[kind]
            return status, {"error": {"message": message, "code": code}}
        self.paid[name] += 1
        return 200, self._completion(body, self._reply(body))

    def _store(self, lines: str) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = lines
        return name

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        assert form["purpose"] == "batch"
        return web.json_response({"id": self._store(file.file.read().decode()), "object": "file"})

    async def _content(self, request: web.Request) -> web.Response:
        return web.Response(text=self.files[request.match_info["name"]])

    async def _start_batch(self, request: web.Request) -> web.Response:
        body = await request.json()
        name = f"batch_{len(self.batches)}"
        self._fault_of_batch[name] = fault = (
            self._batch_script.pop(0) if self._batch_script else "ok"
        )
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "status": "in_progress",
            **body,
            "polls": 0,
        }
        if fault == "no-name" and request.transport is not None:
            request.transport.abort()
        return web.json_response(self.batches[name])

    async def _list_batches(self, request: web.Request) -> web.Response:
        newest = list(self.batches.values())[::-1]
        names = [batch["id"] for batch in newest]
        after = request.query.get("after")
        start = names.index(after) + 1 if after else 0
        end = start + int(request.query.get("limit", 20))
        return web.json_response({"data": newest[start:end], "has_more": end < len(newest)})

    async def _state(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        fault, batch = self._fault_of_batch.get(name, "lost"), self.batches.get(name)
        if batch is None or fault == "lost":
            return web.json_response({"error": {"message": f"No batch {name}."}}, status=404)
        if fault == "down" and name not in self._batch_met:
            self._batch_met.add(name)
            return web.json_response({"error": {"message": "unavailable"}}, status=503)
        batch["polls"] += 1
        if batch["status"] == "in_progress" and batch["polls"] > (3 if fault == "late" else 0):
            self._end(batch, fault)
        return web.json_response(batch)

    def _end(self, batch: dict[str, Any], fault: str) -> None:
        calls = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if fault in ("refused", "token-limit"):
            code = "token_limit_exceeded" if fault == "token-limit" else "invalid_file"
            error = {"code": code, "message": f"the batch has a fault: {code}"}
            batch |= {"status": "failed", "errors": {"object": "list", "data": [error]}}
            return
        results: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for number, call in enumerate(calls):
            line: dict[str, Any] = {"id": f"line-{number}", "custom_id": call["custom_id"]}
            if fault == "expired" and number % 2:
                late = {"code": "batch_expired", "message": "This request could not be executed."}
                errors.append(line | {"response": None, "error": late})
            elif fault == "failed-lines" and number % 2:
                body = {"error": {"message": "the engine fell over", "code": "server_error"}}
                errors.append(line | {"response": {"status_code": 500, "body": body}})
            elif not (fault == "half" and number % 2):
                status, body = self.answer_in_batch(call["body"])
                reply = {"status_code": status, "request_id": line["id"], "body": body}
                (results if status == 200 else errors).append(line | {"response": reply})
        if fault == "twice":
            results = [*results[::-1], *results]
        batch |= {
            "status": "expired" if fault == "expired" else "completed",
            "request_counts": {
                "total": len(calls),
                "completed": len(results),
                "failed": len(errors),
            },
        }
        for key, lines in (("output_file_id", results), ("error_file_id", errors)):
            if lines:
                batch[key] = self._store("".join(json.dumps(line) + "\n" for line in lines))
