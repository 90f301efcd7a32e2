"""`demur run` on models whose libraries hand on what no file can hold: rows with errors, and the same command completes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, ConfigDict
from report_factory import make_demo

from demur import models
from demur.cli import main
from demur.models import local

pytestmark = pytest.mark.integration


class SdkReply(BaseModel):
    """What an SDK hands on: a record that takes any field."""

    model_config = ConfigDict(extra="allow")


def reply(text: Any = "Paris", usage: Any = None, **more: Any) -> SdkReply:
    message = {"content": text, "role": "assistant"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"} | more
    return SdkReply(
        choices=[choice],
        usage={"prompt_tokens": 1, "completion_tokens": 1} if usage is None else usage,
    )


def deep() -> Any:
    found: Any = []
    for _ in range(5_000):
        found = [found]
    return found


NAN = float("nan")
ODD: tuple[Callable[[], Any], ...] = (
    lambda: reply("half \ud800 a character"),
    lambda: reply(finish_reason="\udfff"),
    lambda: reply(logprobs={"content": [{"token": "P", "logprob": NAN, "top_logprobs": []}]}),
    lambda: reply(usage={"prompt_tokens": 10**30, "completion_tokens": -5}),
    lambda: reply(usage={"prompt_tokens": "many", "completion_tokens": NAN}),
)
"""Replies with a readable answer: it is kept."""
HOSTILE: tuple[Callable[[], Any], ...] = (
    *ODD,
    lambda: reply(deep()),
    lambda: reply(b"\xff"),
    lambda: SdkReply(choices=None),
    lambda: None,
    lambda: "data: {}",
    lambda: SimpleNamespace(model_dump=lambda **_: b"\xff\xfe"),
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_demo(tmp_path_factory.mktemp("models"))[0]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    retry = models.Retry(timeout_s=5, deadline_s=10, tries=2, backoff_s=0.01)
    monkeypatch.setattr(models, "ModelOptions", partial(models.ModelOptions, retry=retry))


def run(release: Path, system: str, out: Path) -> tuple[int, list[dict[str, Any]]]:
    words = [
        "run",
        release,
        "--system",
        system,
        "--out",
        out,
        "--limit",
        "16",
        "--text-only",
        "--scenarios",
        "parametric",
    ]
    code = main([str(word) for word in words])
    (path,) = out.glob("*/rows.parquet")
    for file in path.parent.rglob("*.jsonl"):
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return code, pq.read_table(path).to_pylist()


def in_turn() -> Callable[[object], Any]:
    """Each question meets one of `HOSTILE`, every time; those past the last are answered."""
    known: dict[str, int] = {}

    def answer(question: object) -> Any:
        at = known.setdefault(repr(question), len(known))
        return HOSTILE[at]() if at < len(HOSTILE) else reply()

    return answer


def completes(release: Path, system: str, out: Path, heal: Callable[[], object]) -> None:
    _, rows = run(release, system, out)
    failed = [row for row in rows if row["status"] == "failed"]
    assert len(failed) == len(HOSTILE) - len(ODD)
    assert len(rows) > len(HOSTILE)
    assert all(row["error"] for row in failed)
    heal()
    code, rows = run(release, system, out)
    assert code == 0
    assert "failed" not in {row["status"] for row in rows}


def test_any_llm(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    any_llm = pytest.importorskip("any_llm")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    answer = [in_turn()]

    async def acompletion(*, messages: Any, **_: Any) -> Any:
        return answer[0](messages)

    stub = SimpleNamespace(acompletion=acompletion)
    monkeypatch.setattr(any_llm.AnyLLM, "create", lambda *_, **__: stub)
    completes(
        release,
        "model:any-llm:openai/fake",
        tmp_path,
        lambda: answer.__setitem__(0, lambda _: reply()),
    )


def test_hf(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch, the thread and the retries are real; weights and tokenizer are not."""
    answer = [in_turn()]

    def generate(self: Any, requests: list[Any]) -> list[str]:
        found = [answer[0](request.messages) for request in requests]
        return [json.dumps(f.model_dump()) if isinstance(f, SdkReply) else f for f in found]

    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=99))
    model, processor = (
        SimpleNamespace(config=config),
        SimpleNamespace(padding_side="", pad_token_id=0),
    )
    monkeypatch.setattr(local.LocalBackend, "_generate", generate)
    monkeypatch.setattr(
        local,
        "open_local",
        lambda name, root: local.LocalBackend(
            f"hf:{name}", model, processor, images=False, image_root=root, revision="1"
        ),
    )
    completes(
        release, "model:hf:mine/tiny", tmp_path, lambda: answer.__setitem__(0, lambda _: reply())
    )
