"""`demur run --batch`: the same run for half the price; and by hand, with ``calls batch export`` and ``import``."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import curation_world as world
import pytest
from errors import raises
from fake_batches import BatchEndpoint, price_table

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.store import read_json
from demur.curation.build.curate import curate
from demur.evaluation.asking import ask
from demur.evaluation.options import RunOptions
from demur.models import Budget, Ledger
from demur.models import batch as batches
from demur.testing import running

FILES = ("responses.jsonl", "verdicts.jsonl", "contexts.jsonl")


def reply(body):
    """A fact of another town, or a label; the grader of bare words is told nothing."""
    if body["model"] == "judge":
        return json.dumps({"label": "INCORRECT"})
    town = len(str(body["messages"])) % 7
    return f"I, {body['model']}, think that it is the harbour of Town{town}."


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("batches")
    return curate(world.recipe(world.folder(root / "towns"), world.GATES), root / "out").release


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(batches, "POLL_S", 0.01)


@pytest.fixture
def prices(tmp_path):
    return price_table(tmp_path, 10.0)


@pytest.mark.parametrize("judge", ["local", "model:{}", "cascade:{}"])
def test_a_run_in_batches_is_the_same_run_at_half_the_price(release, tmp_path, prices, judge):
    with running(kind=BatchEndpoint, reply=reply) as server:
        systems = [f"a=model:{server.model('a')}", f"b=model:{server.model('b')}"]
        options = RunOptions(prices=prices, judge=judge.format(server.model("judge")))
        plain = options.model_copy(update={"out": tmp_path / "plain"})
        batched = options.model_copy(update={"out": tmp_path / "batched", "batch": True})
        ask(release, systems, plain)
        requests = server.requests
        ask(release, systems, batched)
        assert server.requests == requests
        assert len(server.sent) == len(set(server.sent))
    for name in ("a", "b"):
        for file in FILES:
            one, two = (tmp_path / out / name / file for out in ("plain", "batched"))
            assert one.read_bytes() == two.read_bytes()
    spent = [
        Budget(None, tmp_path / out / "calls.sqlite", "a").sub_budget("b").sub_budget("judge").spent
        for out in ("plain", "batched")
    ]
    assert spent[1] == pytest.approx(spent[0] / 2)
    assert read_json(tmp_path / "batched" / "a" / "manifest.json")["counts"]["unjudged"] == 0


def test_by_hand_with_the_commands(release, tmp_path, prices, capsys):
    """The server need not run when the calls are written; the command ends with 0 when none is left."""
    words = [
        *("run", release.folder, "--out", tmp_path / "runs", "--prices", prices, "--trust-hosts"),
        *("--system", "m=model:http://127.0.0.1:9/v1#m", "n=model:http://127.0.0.1:9/v1#n"),
        *("--judge", "model:http://127.0.0.1:9/v1#judge"),
    ]
    words = [str(word) for word in words]
    wave, results = tmp_path / "wave.jsonl", tmp_path / "results.jsonl"
    ledger = str(tmp_path / "runs" / "calls.sqlite")
    with running(kind=BatchEndpoint, reply=reply) as server:
        waves = 0
        while (code := main(["calls", "batch", "export", str(wave), *words])) == 3:
            waves += 1
            error = capsys.readouterr().err
            assert str(wave.with_suffix("")) in error
            assert "calls batch import" in error
            lines = []
            files = list(tmp_path.glob("wave*.jsonl"))
            for call in map(json.loads, "".join(f.read_text() for f in files).splitlines()):
                status, body = server.answer_in_batch(call["body"])
                response = {"status_code": status, "body": body}
                lines.append({"custom_id": call["custom_id"], "response": response, "error": None})
            results.write_text("".join(json.dumps(line) + "\n" for line in lines))
            assert main(["calls", "batch", "import", ledger, str(results), "--json"]) == 0
            counts = json.loads(capsys.readouterr().out)
            assert counts == {"replies": len(lines), "failed": {}, "unknown": 0}
            for file in files:
                file.unlink()
        assert (code, waves) == (0, 3)  # both models, and the judge about each
    capsys.readouterr()
    assert main(words) == 0  # finished: nothing is asked
    assert read_json(tmp_path / "runs" / "m" / "manifest.json")["counts"]["graded"] > 0


def test_fresh_and_batches_are_refused_together(release, tmp_path):
    options = RunOptions(out=tmp_path, batch=True, fresh=True)
    with raises(UsageError, "--fresh", cure="--out"):
        ask(release, ["model:http://127.0.0.1:9/v1#tiny"], options)


@pytest.mark.heavy
def test_a_killed_process_leaves_its_batch_to_the_next(release, tmp_path, prices):
    with running(kind=BatchEndpoint, reply=reply, batch_faults="late") as server:
        words = ["run", release.folder, "--out", tmp_path / "runs", "--prices", prices, "--batch"]
        words = [*map(str, words), "--system", f"m=model:{server.model('tiny')}", "--budget", "1"]
        process = subprocess.Popen([sys.executable, "-m", "demur", *words])
        end = time.monotonic() + 60
        while not server.batches and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert len(server.batches) == 1
        assert main([*words, "--trust-hosts"]) == 0
        assert len(server.batches) == 1
        assert server.requests == 0
    ledger = tmp_path / "runs" / "calls.sqlite"
    with Ledger(ledger) as replies:
        assert Budget(None, ledger, "m").spent == pytest.approx(replies.stats()[0].price)
