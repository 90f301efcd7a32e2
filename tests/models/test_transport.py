"""Calls through TLS and proxies: what aiohttp's connector does must reach the requests that we write ourselves."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from demur.core.records import Response
from demur.models import ModelOptions, complete_all, open_model, wire
from demur.testing import FakeEndpoint

pytestmark = pytest.mark.integration  # clients in processes of their own

CHILD = """
import asyncio, json, sys
from demur.models import open_model
from demur.core.errors import CallError
from demur.core.records import Message, Request, TextPart

async def main():
    async with open_model(sys.argv[1]) as model:
        for n in range(3):
            text = TextPart(text=f"{n} " + "x" * int(sys.argv[2]))
            reply = await model.complete(Request(model="fake", messages=(Message(role="user", parts=(text,)),)))
            assert reply.text, reply
    print("answered")

try:
    asyncio.run(main())
except CallError as error:
    print(type(error).__name__, error, error.cure)
"""


async def child(address: str, size: int = 10, **environment: str) -> str:
    """What a client in a process of its own prints: trust and proxies are read from the environment at its start."""
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CHILD,
        address,
        str(size),
        env=clean | environment,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return out.decode()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def joined(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    port: int,
    first: bytes = b"",
) -> None:
    onward = await asyncio.open_connection(host, port)
    onward[1].write(first)
    await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))


@asynccontextmanager
async def tls_before(port: int, folder: Path) -> AsyncIterator[tuple[int, str]]:
    """A server that ends TLS for localhost and hands on to a port; yields (its port, the authority's file)."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    server = await asyncio.start_server(
        lambda r, w: joined(r, w, "127.0.0.1", port), "127.0.0.1", 0, ssl=context
    )
    async with server:
        yield server.sockets[0].getsockname()[1], str(file)


class Proxy:
    """A forward proxy: CONNECT tunnels, and plain requests with a whole address as their target."""

    def __init__(self) -> None:
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        method, target, _ = head.split(b" ", 2)
        if method == b"CONNECT":
            _, port = target.decode().rsplit(":", 1)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await joined(reader, writer, "127.0.0.1", int(port))
        else:
            port = target.decode().split("/")[2].rsplit(":", 1)[1]
            path = target.split(b"/", 3)[3]
            await joined(
                reader, writer, "127.0.0.1", int(port), head.replace(target, b"/" + path, 1)
            )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield f"http://user:word@127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_tls_with_an_authority_of_ones_own(tmp_path):
    async with FakeEndpoint() as server, tls_before(server.port, tmp_path) as (port, authority):
        address = f"https://localhost:{port}/v1#fake"
        assert "answered" in await child(address, SSL_CERT_FILE=authority)
        assert "answered" in await child(
            address, 3_000_000, SSL_CERT_FILE=authority
        )  # more than a socket takes
        before = len(server.bodies)
        refused = await child(address)
        assert "PermanentError" in refused
        assert "SSL_CERT_FILE" in refused
        assert len(server.bodies) == before


@pytest.mark.parametrize("tls", [False, True])
async def test_a_proxy_gets_its_own_key_and_the_server_its_own(tmp_path, tls):
    proxy = Proxy()
    async with (
        FakeEndpoint() as server,
        tls_before(server.port, tmp_path) as (port, authority),
        proxy.running() as url,
    ):
        address = (
            f"https://localhost:{port}/v1#fake"
            if tls
            else f"http://127.0.0.1:{server.port}/v1#fake"
        )
        said = await child(
            address,
            HTTP_PROXY=url,
            HTTPS_PROXY=url,
            SSL_CERT_FILE=authority,
            DEMUR_API_KEY="sk-for-the-server",
        )
    assert "answered" in said
    assert len(proxy.heads) == 1  # the connection is kept
    word = base64.b64encode(b"user:word").decode()
    assert f"Proxy-Authorization: Basic {word}" in proxy.heads[0]
    assert ("sk-for-the-server" in proxy.heads[0]) == (
        not tls
    )  # a tunnel is opened without the server's key
    assert all(h["Authorization"] == "Bearer sk-for-the-server" for h in server.headers)
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    "how", ["compressed", "chunked", "compressed and chunked", "closed", "as a page", "spaced"]
)
async def test_however_a_server_or_proxy_sends_a_reply_it_is_the_same(ask, how):
    async def answer(request: web.Request) -> web.Response:
        asked = (await request.json())["messages"][-1]["content"]
        text = wire.reply_of(Response(text=f"na\u00efve {asked}"), "fake")
        reply = web.Response(
            text="\n \n" * ("spaced" in how) + text,
            content_type="text/html" if "page" in how else None,
        )
        if "compressed" in how:  # though the request forbids it
            reply.enable_compression(web.ContentCoding.gzip)
        if "chunked" in how:
            reply.enable_chunked_encoding()
        if "closed" in how:
            reply.force_close()
        return reply

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with open_model(
        f"http://127.0.0.1:{runner.addresses[0][1]}/v1#fake", ModelOptions(concurrency=4)
    ) as model:
        found = {
            request.item: reply.text
            async for request, reply in complete_all(model, map(ask, "abcdefgh"))
        }
        assert found == {item: f"na\u00efve {item}" for item in "abcdefgh"}
        assert model.counts.sent == 8
    await runner.cleanup()
