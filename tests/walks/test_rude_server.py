"""`demur run` through a real server that breaks HTTP in every way, is killed, comes back, and answers in the end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import rude_server
from report_factory import make_demo

pytestmark = pytest.mark.integration

IMPATIENT = """
import sys
import threading
from functools import partial
from demur import models
retry = models.Retry(timeout_s=2, deadline_s=4, tries=2, backoff_s=0.01)
models.ModelOptions = partial(models.ModelOptions, retry=retry)
from demur.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, but for its patience: ten minutes for each call."""


@contextmanager
def serving(port: int, faults: str) -> Iterator[subprocess.Popen[str]]:
    server = subprocess.Popen(
        [sys.executable, rude_server.__file__, str(port), faults], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield server
    finally:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_demo(tmp_path_factory.mktemp("rude"))[0]


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run(
    release: Path, out: Path, port: int, scheme: str = "http"
) -> subprocess.CompletedProcess[str]:
    words = [
        "run",
        release,
        "--system",
        f"model:{scheme}://127.0.0.1:{port}/v1#tiny",
        "--out",
        out,
        "--limit",
        "10",
    ]
    words += [
        "--text-only",
        "--concurrency",
        "16",
        "--scenarios",
        "parametric",
        "oracle",
        "adversarial(k=2)",
        "adversarial(k=3)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return done


def rows(out: Path) -> list[dict]:
    (path,) = out.glob("*/rows.parquet")
    return pq.read_table(path).to_pylist()


def kept(out: Path) -> dict[str, bytes]:
    """The files of a run, but for clocks and for how often its server was asked."""
    (folder,) = (p.parent for p in out.glob("*/rows.parquet"))
    found = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}
    found.pop("journal.jsonl", None)
    lines = [json.loads(line) for line in found.pop("responses.jsonl").splitlines()]
    for line in lines:
        for name in ("latency_s", "attempts", "faults", "cached"):
            line["response"].pop(name, None)
    return found | {"responses": json.dumps(lines).encode()}


@pytest.mark.slow
def test_every_fault_ends_in_rows_that_say_why_and_the_same_command_completes(
    release: Path, tmp_path: Path, port: int
) -> None:
    with serving(port, "none"):
        assert run(release, tmp_path / "whole", port).returncode == 0
    whole = rows(tmp_path / "whole")
    with serving(port, ",".join([*rude_server.FAULTS, "none", "none"])):
        started = time.monotonic()
        hurt = run(release, tmp_path / "out", port)
        assert time.monotonic() - started < 200
    failed = [row for row in rows(tmp_path / "out") if row["status"] == "failed"]
    assert 0 < len(failed) < len(whole), hurt.stderr
    assert all(row["error"] for row in failed), failed[0]
    why = " | ".join(sorted({row["error"] for row in failed}))
    for said in (
        "timeout",
        "reset",
        "broken",
        "429",
        "503",
    ):
        assert said in why, f"{said}: {why}"
    with serving(port, "none"):
        done = run(release, tmp_path / "out", port)
    assert done.returncode == 0, done.stderr
    assert kept(tmp_path / "out") == kept(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "fault", "said"),
    [("https", "none", "TLS"), ("http", "302", "302")],
)
def test_a_server_that_speaks_no_tls_or_leads_elsewhere(
    release: Path, tmp_path: Path, port: int, scheme: str, fault: str, said: str
) -> None:
    with serving(port, fault):
        hurt = run(release, tmp_path / "out", port, scheme)
    assert hurt.returncode in (1, 2)
    assert said in hurt.stderr


@pytest.mark.slow
def test_a_server_that_dies_half_way_is_told_with_numbers_and_the_same_command_completes(
    release: Path, tmp_path: Path, port: int
) -> None:
    with serving(port, "none"):
        assert run(release, tmp_path / "whole", port).returncode == 0
    ended: list[subprocess.CompletedProcess[str]] = []
    with serving(
        port, "none,none,none,hang"
    ) as server:  # what hangs holds the run until the server is gone
        asking = threading.Thread(target=lambda: ended.append(run(release, tmp_path / "out", port)))
        asking.start()
        while asking.is_alive() and not any(
            p.stat().st_size for p in tmp_path.glob("out/*/journal.jsonl")
        ):
            time.sleep(0.05)
        server.kill()
        asking.join()
    found = rows(tmp_path / "out")
    failed = [row for row in found if row["status"] == "failed"]
    assert 0 < len(failed) < len(found)
    assert ended[0].returncode == 0  # some were answered
    said = " ".join(ended[0].stderr.split())
    told = re.search(
        r"([\d,]+) of ([\d,]+) questions[^:]*?(\d[\d,]*)[^:]*: ",
        said,
    )
    assert told, said
    assert (int(told[1]), int(told[2])) == (len(failed), len(found))
    assert 0 < int(told[3]) <= len(failed)
    with serving(port, "none"):
        done = run(release, tmp_path / "out", port)
    assert f"reused {len(found) - len(failed)} answers" in " ".join(done.stderr.split())
    assert f"asked {len(failed)}" in " ".join(done.stderr.split())
    assert kept(tmp_path / "out") == kept(tmp_path / "whole")


@pytest.mark.soak
def test_a_server_that_is_killed_and_comes_back_in_the_middle(
    release: Path, tmp_path: Path, port: int
) -> None:
    with serving(port, "none"):
        assert run(release, tmp_path / "whole", port).returncode == 0
    ended: list[subprocess.CompletedProcess[str]] = []
    with serving(
        port, "none,none,none,hang"
    ) as server:  # what hangs holds the run until the server is gone
        asking = threading.Thread(target=lambda: ended.append(run(release, tmp_path / "out", port)))
        asking.start()
        journal = tmp_path / "out"
        while asking.is_alive() and not list(journal.glob("*/journal.jsonl")):
            time.sleep(0.05)
        server.send_signal(signal.SIGKILL)
        server.wait()
        with serving(port, "none"):
            asking.join()
            done = run(release, tmp_path / "out", port)
    assert done.returncode == 0, done.stderr
    assert kept(tmp_path / "out") == kept(tmp_path / "whole")
