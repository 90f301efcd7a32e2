"""Systems of the user's own from the command line: edited, broken, mended, mistyped, slow."""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
import sys
import threading
import time

import curation_world as world
import pytest
from served import Served

from demur.cli import main

SERVICE = """
import threading
UP, ANSWER = {up}, "answer 1"
THREADS = set()

def answer(given):
    THREADS.add(threading.get_ident())
    if not UP:
        raise ConnectionError("the index server does not answer, try " + str(len(THREADS)))
    return ANSWER
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a module of this name, as an editor does between two commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # a second version of equal length within a second is not seen

    def write(text, name="my_service"):
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        (tmp_path / f"{name}.py").write_text(text)
        return f"python:{name}:answer"

    yield write
    for name in [n for n in sys.modules if n.startswith("my_")]:
        del sys.modules[name]


def run(release, *words):
    return main(["run", str(release), "--out", "runs", *map(str, words)])


def manifest(tmp_path, name="python-my_service-answer"):
    return json.loads((tmp_path / "runs" / name / "manifest.json").read_text())


def test_an_edited_function_is_asked_anew_without_a_word_from_the_user(
    own, release, tmp_path, capsys
):
    system = own(SERVICE.format(up=True))
    assert run(release, "--system", system) == 0
    first = manifest(tmp_path)
    assert run(release, "--system", system) == 0
    assert "16 answers of 20" in capsys.readouterr().err
    own(SERVICE.format(up=True).replace("answer 1", "answer 2"))
    assert run(release, "--system", system) == 0
    assert "reused" not in capsys.readouterr().err
    second = manifest(tmp_path)
    assert second["revision"] != first["revision"]
    assert second["files"] != first["files"]
    assert run(release, "--system", system, "--fresh") == 0
    assert "asked afresh" in capsys.readouterr().err
    assert manifest(tmp_path) == second


def test_two_systems_never_share_a_folder(own, release, capsys):
    system = own("def answer(given):\n    raise SystemExit")
    assert run(release, "--system", f"ü={system}", f"ö={system}") == 2
    error = capsys.readouterr().err
    assert all(name in error for name in ("ü", "ö", "runs/system"))


def test_a_system_that_can_be_asked_nothing_is_refused_before_the_others_are_asked(
    own, release, tmp_path, capsys
):
    system = own(
        "def answer(request):\n    raise SystemExit"
    )  # every question of the release has an image
    assert run(release, "--system", f"text=model:{system}", "--images", "none") == 2
    error = capsys.readouterr().err
    assert "text: " in error
    assert "16 questions" in error


def test_a_service_that_was_down_is_asked_again_and_the_reason_is_told(
    own, release, tmp_path, capsys
):
    system = own(SERVICE.format(up=False))
    assert run(release, "--system", system) == 1
    said = capsys.readouterr().err
    assert "16 questions" in said
    assert "ConnectionError: the index server does not answer" in said  # its own words
    assert run(release, "--system", system) == 1
    sys.modules["my_service"].UP = True  # the service is up; the code is what it was
    assert run(release, "--system", system) == 0
    assert manifest(tmp_path)["counts"]["failed"] == 0


def test_a_service_that_said_nothing_is_asked_again_when_it_has_something_to_say(
    own, release, tmp_path, capsys
):
    """An empty answer was kept for ever: the same code, so the same answer."""
    system = own(SERVICE.format(up=True).replace('"answer 1"', '" "'))
    assert run(release, "--system", system, "--limit", 1) == 1
    assert "4 questions" in capsys.readouterr().err
    sys.modules["my_service"].ANSWER = "answer 1"  # its index is loaded; the code is what it was
    assert run(release, "--system", system, "--limit", 1) == 0
    sys.modules["my_service"].ANSWER = {"answer": "", "abstained": True}
    assert run(release, "--system", system, "--limit", 1, "--fresh") == 0
    assert manifest(tmp_path)["counts"]["deflected"] == 4


@pytest.mark.heavy
def test_a_function_is_called_from_one_thread_unless_more_are_asked_for(own, release, tmp_path):
    slow = SERVICE.format(up=True).replace(
        "if not UP", "import time; time.sleep(0.02)\n    if not UP"
    )
    system = own(slow)
    assert run(release, "--system", system) == 0
    assert len(sys.modules["my_service"].THREADS) == 1
    assert run(release, "--system", system, "--fresh", "--concurrency", 4) == 0
    assert 1 + 1 < len(sys.modules["my_service"].THREADS) <= 1 + 4
    own(slow + "answer.concurrency = 3\n")
    assert run(release, "--system", system) == 0
    assert 1 < len(sys.modules["my_service"].THREADS) <= 3
    own(slow.replace("def answer", "async def answer"))
    assert run(release, "--system", system) == 0
    assert len(sys.modules["my_service"].THREADS) == 1
    assert threading.get_ident() not in sys.modules["my_service"].THREADS


def test_everybody_is_seen_to_before_the_first_is_asked(own, release, tmp_path, capsys):
    system = own(SERVICE.format(up=True))
    assert run(release, "--system", system, "model:http://127.0.0.1:9/v1#m") == 1
    assert "model:m: 127.0.0.1:9" in capsys.readouterr().err
    assert set() == sys.modules["my_service"].THREADS
    assert run(release, "--system", system, "python:my_service:answr", "python:my_nothing:x") == 2
    error = capsys.readouterr().err
    assert "python:my_service:answr: " in error
    assert "- it has answer\n" in error


@pytest.mark.parametrize(
    ("takes", "parameters"),
    [
        ("query, docs", "query, docs"),
        ("question, docs, temperature", "question, docs, temperature"),
        ("question, /", "question"),
        ("", "none"),
        ("question, *rest, evidence=(), **more", ""),
        ("given, more=1", ""),
        ("id, evidence, corpus=None", ""),
    ],
)
def test_a_function_that_wants_what_it_is_not_given_is_told_before_anything_is_asked(
    own, release, tmp_path, capsys, takes, parameters
):
    system = own(f"def answer({takes}):\n    return 'answer 1'\n")
    assert run(release, "--system", system, "--limit", 1) == (2 if parameters else 0)
    error = capsys.readouterr().err
    if parameters:
        assert "python:my_service:answer: " in error
        assert f" {parameters} - " in error
        assert "question and any of turns, choices, images, evidence" in error
        assert not (tmp_path / "runs" / "python-my_service-answer").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "--distractors", "0:999999999"),
        ("sweep", "--positions", "0:999999999"),
        ("run", "--repeat", "999999999"),
        ("sweep", "--plan", "--distractors", "0:999999999"),
    ],
)
def test_more_questions_than_anybody_means_are_refused_at_once(own, release, capsys, words):
    verb, *more = words
    began = time.process_time()
    assert main([verb, str(release), "--system", own(SERVICE.format(up=True)), *more]) == 2
    assert time.process_time() - began < 5
    assert more[-1][:4] in capsys.readouterr().err.replace(",", "")


def test_a_finished_run_is_shown_again_when_its_server_is_gone(
    release, tmp_path, monkeypatch, capsys
):
    from demur.models import ping

    monkeypatch.chdir(tmp_path)
    with Served("answer 1") as address:
        assert run(release, "--system", f"model:{address}") == 0
    capsys.readouterr()
    assert run(release, "--system", f"model:{address}") == 0
    assert "reused 16 answers" in capsys.readouterr().err
    assert run(release, "--system", f"model:{address}", "--fresh") == 1
    assert address.split("/")[2] in capsys.readouterr().err
    assert ping.why_unreachable(address.partition("#")[0])


def test_a_run_whose_replies_are_all_kept_needs_no_server(release, tmp_path, monkeypatch, capsys):
    """The run's folder is gone (or was killed before the last line); the ledger has every reply, the judge's too."""
    monkeypatch.chdir(tmp_path)
    with Served("answer 1") as address:
        words = ["--system", f"model:{address}", "--judge", f"model:{address.replace('#m', '#j')}"]
        assert run(release, *words) in (0, 1)
        first = {f.name: f.read_bytes() for f in (tmp_path / "runs/model-m").glob("*.jsonl")}
    shutil.rmtree(tmp_path / "runs/model-m")
    capsys.readouterr()
    run(release, *words)
    told = capsys.readouterr().err
    assert "model:m: " in told
    assert "judge model:j: " in told
    assert {f.name: f.read_bytes() for f in (tmp_path / "runs/model-m").glob("*.jsonl")} == first
    shutil.rmtree(tmp_path / "runs/model-m")
    with sqlite3.connect(tmp_path / "runs/calls.sqlite") as calls:
        calls.execute("DELETE FROM reply WHERE key = (SELECT key FROM reply WHERE model LIKE '%m')")
    assert run(release, *words) == 1  # one is missing


def test_a_model_that_is_asked_otherwise_is_asked_anew(release, tmp_path, monkeypatch, capsys):
    """Under other sampling its answers of before are those of another system; they come back with it."""
    monkeypatch.chdir(tmp_path)
    with Served("answer 1") as address:
        for words, told in (
            (["--temperature", 0], ""),
            (["--temperature", 1], "sampling"),
            (
                ["--temperature", 1, "--extra", '{"key": "sesame"}'],
                "sampling",
            ),
            (["--temperature", 0], "resumed"),
        ):
            capsys.readouterr()
            assert run(release, "--system", f"model:{address}", "--limit", 2, *words) == 0
            assert told in capsys.readouterr().err
            settings = manifest(tmp_path, "model-m")["settings"]
            assert settings["temperature"] == words[1]
            assert "sesame" not in json.dumps(settings)
    assert len(list((tmp_path / "runs" / ".earlier").iterdir())) == 2


def test_a_plan_opens_functions_and_counts_their_calls(own, release, tmp_path, capsys):
    assert run(release, "--system", "python:my_nothing:answer", "--plan") == 2
    assert "'my_nothing'" in capsys.readouterr().err
    system = own(SERVICE.format(up=True))
    assert run(release, "--system", system, "--plan", "--per-second", 4, "--json") == 0
    estimate = json.loads(capsys.readouterr().out)
    (line,) = estimate["lines"]
    assert (line["calls"], line["cached"], line["seconds"]) == (16, 0, 4.0)
    assert "--min-declined" in estimate["notes"][-1]
    assert run(release, "--system", system) == 0
    capsys.readouterr()
    assert run(release, "--system", system, "--plan", "--json") == 0
    assert json.loads(capsys.readouterr().out)["lines"][0]["cached"] == 16


def test_a_gate_that_nobody_answers_for_is_told_before_anything_is_indexed(own, tmp_path, capsys):
    own(SERVICE.format(up=True))
    recipe = {
        "name": "x",
        "sources": [{"name": "generic", "path": str(world.folder(tmp_path / "towns", 4))}],
        "retrieval": {"encoder": "curation_world:quick", "text": 2, "visual": 1},
        "rules": {"k_min": 1},
        "gates": [
            {"system": "python:my_service:answer"},
            {"system": "model:http://127.0.0.1:9/v1#m", "name": "m"},
        ],
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    assert main(["build", "recipe.yaml", "--out", "out"]) == 1
    assert "m: 127.0.0.1:9: " in capsys.readouterr().err
    assert not (tmp_path / "out" / "index").exists()
    assert set() == sys.modules["my_service"].THREADS
    recipe["gates"] = [{"system": "python:my_service:answr"}]
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    assert main(["build", "recipe.yaml", "--out", "out", "--plan"]) == 2
    assert "python:my_service:answr: " in capsys.readouterr().err


def test_a_server_is_not_taken_for_dead_while_something_computes(monkeypatch):
    """A connection that takes longer than the first time-out is tried again; a refusal is told at once."""
    import socket

    from demur.models import ping

    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    real, tries = socket.create_connection, []

    def late(where, seconds):
        tries.append(seconds)
        if len(tries) < 3:
            raise TimeoutError
        return real(where, seconds)

    monkeypatch.setattr(ping.socket, "create_connection", late)
    assert ping.why_unreachable(address) == ""
    assert len(tries) == 3
    listening.close()
    tries.clear()
    monkeypatch.setattr(ping.socket, "create_connection", real)
    began = time.monotonic()
    assert "refused" in ping.why_unreachable(address)
    assert time.monotonic() - began < 5


def test_a_server_that_lists_its_models_byte_by_byte_is_not_listened_to_for_ever(monkeypatch):
    import asyncio
    import socket

    from demur.models import ping

    monkeypatch.setattr(ping, "_WHOLE_S", 0.5)
    done = threading.Event()

    def drip(listening):
        for _ in range(2):  # the first connection only asks whether somebody is there
            connection, _ = listening.accept()
            with connection:
                try:
                    while not done.wait(0.05):
                        connection.send(b"x")
                except OSError:
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,))
        dripping.start()
        began = time.monotonic()
        found = asyncio.run(ping.ping([f"http://127.0.0.1:{listening.getsockname()[1]}/v1#m"]))
        took = time.monotonic() - began
        done.set()
        dripping.join()
    assert found == []
    assert took < 4  # a line of 64 kB, byte by byte, would be an hour
