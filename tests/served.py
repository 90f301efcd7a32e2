"""A model server that says one thing, and one that refuses fields of requests, for tests that are ordinary code."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from demur.core.worker import Worker
from demur.testing import FakeEndpoint


class Served:
    """Serves on a thread as long as the block lasts; what it yields is its model string."""

    def __init__(self, text="It is called Qwxyz."):
        self.text, self.worker = text, Worker("served")

    def __enter__(self):
        self.server = FakeEndpoint(reply=lambda body: self.text)
        asyncio.run(self.worker.run(self.server.__aenter__()))
        return self.server.model("m")

    def __exit__(self, *_):
        async def leave():
            await self.worker.run(self.server.__aexit__(None, None, None))
            await self.worker.close()

        asyncio.run(leave())


def refusing(reply, *names):
    """``reply`` of an endpoint that refuses these fields of a request, as OpenAI's does for reasoning models."""

    def answer(body):
        for name in names:
            if name in body:
                said = f"Unsupported value: '{name}' does not support {body[name]} with this model."
                raise web.HTTPBadRequest(
                    text=json.dumps({"error": {"message": said}}), content_type="application/json"
                )
        return reply(body)

    return answer
