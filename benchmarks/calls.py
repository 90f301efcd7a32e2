"""Client CPU of model calls and speed of cached replay, beside the clients that people use.

    python benchmarks/calls.py            everything (about five minutes)
    python benchmarks/calls.py --quick    two repeats, fewer calls
    python benchmarks/calls.py --peers bare,demur

A stub server in its own process answers every request after 20 ms. demur-attempt is demur's HTTP client alone, the
like of bare aiohttp; demur is the whole path (records, order, limits, retries), demur+ledger the same with every
reply committed. Each client runs in a process of its own; its CPU time comes from getrusage, start-up and warm-up
excluded, and the least of the repeats counts, as other work on the machine can only add to it. Rates depend on how
busy the machine is. The peers live in .venv-bench and .venv-bench-litellm (litellm wants an older openai), made when
missing. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGES = 16
LATENCY_S = 0.02
ENVIRONMENTS = {
    "bench": ["openai", "any-llm-sdk[openai]", "inspect-ai", "aiohttp"],
    "bench-litellm": ["litellm"],
}
PEERS = {
    "bare": "",
    "demur-attempt": "",
    "demur": "",
    "demur+ledger": "",
    "openai": "bench",
    "any-llm": "bench",
    "inspect-ai": "bench",
    "litellm": "bench-litellm",
}
REPLY = json.dumps(
    {
        "id": "chatcmpl-%s",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The capital of France is Paris."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28},
    }
)


# --- the stub server: as little HTTP as will do, so that its own CPU stays out of the way ---------------


class Stub(asyncio.Protocol):
    """Answers each POST after LATENCY_S with a short completion of its own id."""

    count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with nothing received."""
        self.transport: Any = transport
        self.pieces: list[bytes] = []
        self.missing = -1

    def data_received(self, data: bytes) -> None:
        """Gather a request; when it is whole, answer later."""
        self.pieces.append(data)
        if self.missing < 0:
            whole = b"".join(self.pieces)
            end = whole.find(b"\r\n\r\n")
            if end < 0:
                return
            head = whole[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            self.missing = end + 4 + length - len(whole)
        else:
            self.missing -= len(data)
        if self.missing <= 0:
            self.pieces, self.missing = [], -1
            Stub.count += 1
            body = (REPLY % Stub.count).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            asyncio.get_running_loop().call_later(LATENCY_S, self.answer, head.encode() + body)

    def answer(self, data: bytes) -> None:
        """Send a reply, unless the client left."""
        if not self.transport.is_closing():
            self.transport.write(data)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- clients: each a function that makes one call ------------------------------------------------------


Call = Callable[[int], Awaitable[object]]


def picture(n: int) -> bytes:
    """A PNG of noise of about 100 kB, without an imaging library (peers' environments have none)."""
    import zlib

    side = 182
    noise, block = b"", hashlib.sha256(f"picture {n}".encode()).digest()
    while len(noise) < side * (side * 3 + 1):
        block = hashlib.sha256(block).digest()
        noise += block
    rows = b"".join(b"\0" + noise[r * side * 3 : (r + 1) * side * 3] for r in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
        )

    head = side.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows, 0))
        + chunk(b"IEND", b"")
    )


def question(n: int) -> str:
    return f"{n}: What is the capital of France? Answer with the name of the city alone."


def messages(n: int, urls: list[str]) -> list[dict[str, Any]]:
    if not urls:
        return [{"role": "user", "content": question(n)}]
    image = {"type": "image_url", "image_url": {"url": urls[n % IMAGES]}}
    return [{"role": "user", "content": [image, {"type": "text", "text": question(n)}]}]


def data_urls() -> list[str]:
    return ["data:image/png;base64," + base64.b64encode(picture(n)).decode() for n in range(IMAGES)]


async def client_of(peer: str, url: str, concurrency: int, urls: list[str]) -> Call:
    if peer == "bare":
        import aiohttp

        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

        async def bare(n: int) -> object:
            body = {
                "model": "m",
                "messages": messages(n, urls),
                "temperature": 0.0,
                "max_tokens": 32,
            }
            async with session.post(url + "/chat/completions", json=body) as reply:
                return (await reply.json())["choices"][0]["message"]["content"]

        return bare
    if peer == "openai":
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0, timeout=120)

        async def openai(n: int) -> object:
            return await client.chat.completions.create(
                model="m",
                messages=messages(n, urls),  # type: ignore[arg-type]
                temperature=0.0,
                max_tokens=32,
            )

        return openai
    if peer == "any-llm":
        from any_llm import AnyLLM

        llm = AnyLLM.create("openai", api_key="x", api_base=url)

        async def any_llm(n: int) -> object:
            return await llm.acompletion(
                model="m", messages=messages(n, urls), temperature=0.0, max_tokens=32
            )

        return any_llm
    if peer == "litellm":
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm

        async def lite(n: int) -> object:
            return await litellm.acompletion(
                model="openai/m",
                api_base=url,
                api_key="x",
                num_retries=0,
                messages=messages(n, urls),
                temperature=0.0,
                max_tokens=32,
            )

        return lite
    if peer == "inspect-ai":
        return inspect_client(url, concurrency, urls, cache=False)
    raise SystemExit(f"no client named {peer}")


def inspect_client(url: str, concurrency: int, urls: list[str], *, cache: bool) -> Call:
    from inspect_ai.model import (
        ChatMessageUser,
        ContentImage,
        ContentText,
        GenerateConfig,
        get_model,
    )

    config = GenerateConfig(
        max_connections=concurrency, temperature=0.0, max_tokens=32, max_retries=0
    )
    model = get_model("openai/m", base_url=url, api_key="x", config=config, responses_api=False)

    async def generate(n: int) -> object:
        content = (
            [ContentImage(image=urls[n % IMAGES]), ContentText(text=question(n))]
            if urls
            else question(n)
        )
        return await model.generate([ChatMessageUser(content=content)], cache=cache)

    return generate


# --- measuring -----------------------------------------------------------------------------------------


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def run_calls(call: Call, first: int, count: int, concurrency: int) -> None:
    numbers = iter(range(first, first + count))

    async def work() -> None:
        for n in numbers:
            await call(n)

    await asyncio.gather(*(work() for _ in range(concurrency)))


async def measure_peer(
    peer: str, url: str, concurrency: int, count: int, with_image: bool
) -> dict[str, float]:
    if peer == "demur-attempt":
        return await measure_attempt(url, concurrency, count, with_image)
    if peer.startswith("demur"):
        return await measure_demur(
            url, concurrency, count, with_image, ledger=peer == "demur+ledger"
        )
    call = await client_of(peer, url, concurrency, data_urls() if with_image else [])
    await run_calls(call, 1_000_000, concurrency * 2, concurrency)
    before, began = cpu(), time.perf_counter()
    await run_calls(call, 0, count, concurrency)
    seconds = time.perf_counter() - began
    return {"per_second": count / seconds, "cpu_per_1000": (cpu() - before) / count * 1000}


def demur_requests(folder: Path, first: int, count: int, with_image: bool) -> Any:
    from demur.core.images import image_ref
    from demur.core.records import ImagePart, Message, Request, TextPart

    refs = []
    for n in range(IMAGES if with_image else 0):
        (folder / f"{n}.png").write_bytes(picture(n))
        refs.append(image_ref(picture(n), f"{n}.png"))

    def make() -> Any:
        for n in range(first, first + count):
            text = TextPart(text=question(n))
            parts = (ImagePart(image=refs[n % IMAGES]), text) if refs else (text,)
            yield Request(
                model="m",
                messages=(Message(role="user", parts=parts),),
                temperature=0.0,
                max_tokens=32,
                item=str(n),
            )

    return make()


async def measure_attempt(
    url: str, concurrency: int, count: int, with_image: bool
) -> dict[str, float]:
    """The HTTP client alone, as bare aiohttp is: body, one attempt, the answer's text."""
    from demur.models import ModelOptions, open_model, wire

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        requests = list(demur_requests(folder, 0, count + concurrency * 2, with_image))
        async with open_model(
            f"{url}#m", ModelOptions(image_root=folder, concurrency=concurrency)
        ) as model:
            backend = model._fleet.slots[0].backend

            async def attempt(n: int) -> object:
                return wire.read_response(await backend.send(requests[n], 120.0)).text

            await run_calls(attempt, count, concurrency * 2, concurrency)
            before, began = cpu(), time.perf_counter()
            await run_calls(attempt, 0, count, concurrency)
            seconds = time.perf_counter() - began
            return {"per_second": count / seconds, "cpu_per_1000": (cpu() - before) / count * 1000}


async def measure_demur(
    url: str, concurrency: int, count: int, with_image: bool, *, ledger: bool
) -> dict[str, float]:
    from demur.models import ModelOptions, complete_all, open_model

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "calls.sqlite" if ledger else None
        async with open_model(
            f"{url}#m", ModelOptions(ledger=path, image_root=folder, concurrency=concurrency)
        ) as model:
            async for _ in complete_all(
                model, demur_requests(folder, 1_000_000, concurrency * 4, with_image)
            ):
                pass
            requests = demur_requests(folder, 0, count, with_image)
            before, began = cpu(), time.perf_counter()
            async for _, reply in complete_all(model, requests):
                assert not reply.error, reply.error
            seconds = time.perf_counter() - began
            used = cpu() - before
    return {"per_second": count / seconds, "cpu_per_1000": used / count * 1000}


async def replay_demur(url: str, count: int, with_image: bool) -> dict[str, float]:
    """Second pass over a ledger: every reply is there, nothing is sent, and no image is read."""
    from demur.models import ModelOptions, complete_all, open_model

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for again in (False, True):
            async with open_model(
                f"{url}#m",
                ModelOptions(ledger=folder / "calls.sqlite", image_root=folder, concurrency=256),
            ) as model:
                requests = list(demur_requests(folder, 0, count, with_image))
                gc.collect()  # of what was made before: one takes as long as a thousand replies
                before, began = cpu(), time.perf_counter()
                async for _, reply in complete_all(model, requests):
                    assert reply.cached == again
                seconds, used = time.perf_counter() - began, cpu() - before
                assert model.counts.sent == (0 if again else count)
    return {"per_second": count / seconds, "cpu_per_1000": used / count * 1000}


async def replay_inspect(url: str, count: int, with_image: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        os.environ["INSPECT_CACHE_DIR"] = name
        call = inspect_client(url, 64, data_urls() if with_image else [], cache=True)
        await run_calls(call, 0, count, 64)
        before, began = cpu(), time.perf_counter()
        await run_calls(call, 0, count, 64)
        seconds, used = time.perf_counter() - began, cpu() - before
    return {"per_second": count / seconds, "cpu_per_1000": used / count * 1000}


# --- the table -----------------------------------------------------------------------------------------


def environment(name: str) -> Path | None:
    """The python of a peers' environment, made when missing; None when it cannot be made."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if python.is_file():
        return python
    print(f"making {folder.name} ...", file=sys.stderr)
    uv = shutil.which("uv")
    make = [uv, "venv", "-q", str(folder)] if uv else [sys.executable, "-m", "venv", str(folder)]
    install = (
        [uv, "pip", "install", "-q", "--python", str(python)]
        if uv
        else [str(python), "-m", "pip", "install", "-q"]
    )
    done = subprocess.run(make, check=False).returncode == 0
    done = done and subprocess.run([*install, *ENVIRONMENTS[name]], check=False).returncode == 0
    return python if done else None


def child(python: Path | str, arguments: list[str]) -> dict[str, float] | str:
    """Run this file in a child process; its result, or why there is none."""
    command = [str(python), str(Path(__file__).resolve()), *arguments]
    env = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")} | {
        "OPENAI_API_KEY": "x"
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        return "over 10 min"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:60]
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two repeats, fewer calls")
    parser.add_argument(
        "--peers", default=",".join(PEERS), help="comma-separated; default: %(default)s"
    )
    parser.add_argument("--job", choices=["serve", "peer", "replay"], help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job == "serve":
        asyncio.run(serve())
        return 0
    if args.job:
        peer, url, concurrency, count, image = args.one
        if args.job == "peer":
            result = asyncio.run(
                measure_peer(peer, url, int(concurrency), int(count), image == "image")
            )
        else:
            replay = replay_demur if peer == "demur" else replay_inspect
            result = asyncio.run(replay(url, int(count), image == "image"))
        print(json.dumps(result))
        return 0

    chosen = args.peers.split(",")
    server = subprocess.Popen(
        [sys.executable, __file__, "--job", "serve"], stdout=subprocess.PIPE, text=True
    )
    results: dict[str, Any] = {
        "cpu_per_1000": {},
        "per_second": {},
        "replay_per_second": {},
        "replay_per_cpu_second": {},
    }
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        pythons = {name: environment(name) for name in {PEERS[p] for p in chosen} - {""}}
        repeats = 2 if args.quick else 3
        columns = [(64, "text"), (64, "image"), (256, "text"), (256, "image")]
        print(
            f"client CPU seconds per 1,000 calls (the least of {repeats}; most calls/s in brackets)\n"
        )
        print(f"{'client':<14}" + "".join(f"{f'{c} {kind}':>22}" for c, kind in columns))
        cells: dict[tuple[str, int, str], list[dict[str, float]]] = {}
        why: dict[tuple[str, int, str], str] = {}
        for _ in range(
            repeats
        ):  # peers take turns, so that a busy minute of the machine meets them all
            for peer in chosen:
                python = pythons[PEERS[peer]] if PEERS[peer] else Path(sys.executable)
                for concurrency, kind in columns:
                    place = (peer, concurrency, kind)
                    if python is None:
                        why[place] = "did not install"
                        continue
                    light = peer == "bare" or peer.startswith("demur")
                    count = (4000 if light else 400) if kind == "text" else (1500 if light else 300)
                    if args.quick:
                        count //= 2
                    found = child(
                        python,
                        ["--job", "peer", "--one", peer, url, str(concurrency), str(count), kind],
                    )
                    if isinstance(found, str):
                        why[place] = found
                    else:
                        cells.setdefault(place, []).append(found)
        for peer in chosen:
            line = f"{peer:<14}"
            for concurrency, kind in columns:
                runs = cells.get((peer, concurrency, kind))
                if not runs:
                    line += f"{why.get((peer, concurrency, kind), '-')[:20]:>22}"
                    continue
                used = min(r["cpu_per_1000"] for r in runs)
                rate = max(r["per_second"] for r in runs)
                results["cpu_per_1000"].setdefault(peer, {})[f"{concurrency} {kind}"] = round(
                    used, 3
                )
                results["per_second"].setdefault(peer, {})[f"{concurrency} {kind}"] = round(rate, 1)
                line += f"{f'{used:.3f} ({rate:,.0f}/s)':>22}"
            print(line)

        print("\ncached replay, replies per second (second pass over the same requests)\n")
        print(f"{'cache':<14}{'text':>12}{'per CPU s':>14}{'image':>12}{'per CPU s':>14}")
        for peer, count in (("demur", 20_000), ("inspect-ai", 400)):
            if peer not in chosen:
                continue
            python = pythons[PEERS[peer]] if PEERS[peer] else Path(sys.executable)
            line = f"{peer:<14}"
            for kind in ("text", "image"):
                number = count if kind == "text" else count // 4
                found = (
                    "did not install"
                    if python is None
                    else child(
                        python, ["--job", "replay", "--one", peer, url, "64", str(number), kind]
                    )
                )
                if isinstance(found, str):
                    line += f"{found[:25]:>26}"
                else:
                    results["replay_per_second"].setdefault(peer, {})[kind] = round(
                        found["per_second"]
                    )
                    results["replay_per_cpu_second"].setdefault(peer, {})[kind] = round(
                        1000 / found["cpu_per_1000"]
                    )
                    line += f"{found['per_second']:>12,.0f}{1000 / found['cpu_per_1000']:>14,.0f}"
            print(line)
    finally:
        server.terminate()
        server.wait()
    print(json.dumps(results, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
