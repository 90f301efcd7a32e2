"""A chat-completions server on raw sockets, in a process of its own, that breaks HTTP as servers and networks do.

``python rude_server.py PORT FAULT[,FAULT...]``: which fault a request meets depends on its body alone, every time; with
``none`` every one is answered. It prints ``ready`` when it listens. ``GET .../models`` is always answered.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import socket
import struct
import sys
from itertools import count

FAULTS = (
    "reset",
    "drip",
    "short",
    "long",
    "chunks",
    "429",
    "hang",
    "html",
    "gzip",
    "utf16",
    "huge",
    "nothing",
    "noise",
    "503",
)


BOMB = gzip.compress(b" " * 50_000_000)


def reply_to(body: bytes) -> bytes:
    """What a healthy server says."""
    asked = json.loads(body)
    said = hashlib.sha256(json.dumps(asked["messages"]).encode()).hexdigest()[:12]
    return json.dumps(
        {
            "choices": [{"message": {"content": f"answer {said}"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        }
    ).encode()


def http(
    data: bytes, status: str = "200 OK", *, length: int | None = None, more: str = ""
) -> bytes:
    size = len(data) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n{more}\r\n"
    return head.encode() + data


async def play(fault: str, writer: asyncio.StreamWriter, whole: bytes) -> None:
    """Send the reply as the fault has it."""
    match fault:
        case "reset":
            writer.write(http(whole)[:-10])
            await writer.drain()
            kept = writer.get_extra_info("socket")
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        case "drip":
            for byte in http(whole):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.5)
        case "short":
            writer.write(http(whole, length=len(whole) + 50))
        case "long":
            writer.write(http(whole, length=len(whole) // 2))
        case "chunks":
            writer.write(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
                + whole
                + b"\r\n-5\r\n\r\n"
            )
        case "429":
            writer.write(http(b"{}", "429 Too Many Requests", more="Retry-After: 1\r\n"))
        case "503":
            writer.write(http(b"upstream is gone", "503 Service Unavailable"))
        case "302":
            writer.write(
                http(
                    b"", "302 Found", more="Location: http://169.254.169.254/latest/meta-data/\r\n"
                )
            )
        case "hang":
            await asyncio.sleep(60)
        case "html":
            writer.write(http(b"<html><body>Sign in to the network</body></html>"))
        case "gzip":
            writer.write(http(BOMB, more="Content-Encoding: gzip\r\n"))
        case "utf16":
            writer.write(http(whole.decode().encode("utf-16")))
        case "huge":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8000000000\r\n\r\n")
            block = b" " * (1 << 20)
            for _ in count():
                writer.write(block)
                await writer.drain()
        case "noise":
            writer.write(b"\x16\x03\x01\x00\xff\xfe" * 20)
        case "nothing":
            pass
        case _:
            writer.write(http(whole))
            await writer.drain()
            return
    await writer.drain()
    writer.close()


async def serve(port: int, faults: list[str]) -> None:
    """Listen for ever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if (
                first := await reader.readexactly(1)
            ) == b"\x16":  # TLS: says what a server says that speaks none
                writer.write(http(b"", "400 Bad Request"))
                await writer.drain()
                return
            while head := first + await reader.readuntil(b"\r\n\r\n"):
                first = b""
                if head.startswith(b"GET") and faults == ["302"]:
                    writer.write(
                        http(
                            b"", "302 Found", more="Location: http://169.254.169.254/v1/models\r\n"
                        )
                    )
                    await writer.drain()
                    continue
                if head.startswith(b"GET"):
                    writer.write(http(b'{"data": [{"id": "tiny"}]}'))
                    await writer.drain()
                    continue
                size = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if b"content-length" in line
                )
                body = await reader.readexactly(size)
                await play(
                    faults[hashlib.sha256(body).digest()[0] % len(faults)], writer, reply_to(body)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port, limit=1 << 26)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2].split(",")))
