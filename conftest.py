"""What every test gets, of demur and of suites/: no network keys, caches and homes in a temporary folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "tests"))

# Read when their packages are imported, which a module's fixture may do before any test's own begins.
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
# Seconds in which the hub's client, whose own are ten, is answered by a hub of ours on a busy machine.
os.environ["HF_HUB_DOWNLOAD_TIMEOUT"] = os.environ["HF_HUB_ETAG_TIMEOUT"] = "300"
# What a developer's shell or a CI server may say: how wide tables are, whether they are coloured, and that a proxy
# stands before everything, also before the servers that tests start on this machine.
os.environ["COLUMNS"] = "80"
for name in ("FORCE_COLOR", "NO_COLOR", "LINES"):
    os.environ.pop(name, None)
os.environ["no_proxy"] = ",".join(
    filter(
        None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1", "localhost")
    )
)

# Neither a busy machine nor the luck of the draw may fail a property: deadlines are for benchmarks, and every run
# tries the same examples. Others: pytest --hypothesis-profile=random, with --hypothesis-seed=N to have them again.
# An eighth of the examples is enough for every push; DEMUR_LONG=1 (make test-all) tries all of them.
settings.register_profile(
    "demur",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    max_examples=100 if os.environ.get("DEMUR_LONG") else 15,
)
settings.register_profile("random", settings.get_profile("demur"), derandomize=False)
settings.load_profile("demur")


DEMO = {"tests/evaluation/test_demo.py", "tests/docs/test_docs.py", "tests/test_front_door.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with integration tests first, so that quick ones fill the end."""
    slow = {item.path for item in items if item.get_closest_marker("integration")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of a file stay together, and so do all that need the demo: what is slow to make is made once.

    (``--dist loadgroup`` would say it, but xdist 3.8 forgets the groups under pytest 9.2.)
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return "demo" if file in DEMO else file

    return ByFile(config, log)


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs are off and no key of the user's is seen, so that no test can reach or pay anybody."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


@pytest.fixture
def without_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not about the sentence encoder does not wait for it: wording alone decides."""
    from demur.judge import encoder
    from demur.judge.deflection import DECLINES, KINDS, LACK, MEANING

    monkeypatch.setattr(encoder, "declines", lambda text, question="": DECLINES / MEANING)
    monkeypatch.setattr(encoder, "kind", lambda text: KINDS.index(LACK))
    monkeypatch.setattr(encoder, "commits", lambda question, form, text: 1.0)


@pytest.fixture(scope="session")
def small_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished demo with every real part in it, drawn small, and what it printed; made once for all tests."""
    out = tmp_path_factory.mktemp("demo") / "demo-out"
    words = [sys.executable, "-m", "demur", "demo", "--out", str(out), "--per-topic", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "LEFT OUT" not in done.stderr
    return out, done.stdout
