"""``demur calls``: ask, stats, export, gc, recover."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest

from demur.cli import main
from demur.testing import running


@pytest.fixture
def server():
    with running(reply=lambda _: "Paris") as server:
        yield server


def out(capsys):
    captured = capsys.readouterr()
    return captured.out.strip(), captured.err.strip()


def test_ask_then_look_at_the_ledger_then_clear_it(server, tmp_path, capsys, picture):
    ledger = str(tmp_path / "l")
    picture("a")
    question = ["calls", "ask", server.model(), "Which city?", "--ledger", ledger]
    assert main([*question, "--image", str(tmp_path / "a.png")]) == 0
    assert main(question) == 0
    assert main([*question, "--repeat", "3"]) == 0
    assert out(capsys)[0].splitlines() == ["Paris"] * 5
    assert server.requests == 4  # the image's, the text's, and two more draws

    assert main(["calls", "stats", ledger, "--json"]) == 0
    (stats,) = json.loads(out(capsys)[0])
    assert (stats["model"], stats["replies"], stats["unpriced"]) == ("fake", 4, 4)
    assert main(["calls", "stats", ledger]) == 0
    assert out(capsys)[0].split()[4:8] == ["model:", "fake", "replies", "4"]

    assert main(["calls", "export", ledger, "--out", str(tmp_path / "e.jsonl")]) == 0
    assert main(["calls", "export", ledger, "--model", "other"]) == 0
    assert out(capsys)[0] == f"4 replies in {tmp_path / 'e.jsonl'}"
    assert json.loads(json.loads((tmp_path / "e.jsonl").read_text().splitlines()[0])["raw"])[
        "choices"
    ]

    assert main(["calls", "gc", ledger, "--older-than", "1", "--dry-run"]) == 0
    assert main(["calls", "gc", ledger, "--model", "fake", "--json"]) == 0
    said = out(capsys)[0].splitlines()
    assert said[0] == "would delete 0 replies"
    assert json.loads(said[1])["replies"] == 4
    assert main(["calls", "stats", ledger]) == 0
    assert out(capsys)[0] == "the ledger holds no replies"

    assert main(["calls", "recover", str(tmp_path / "e.jsonl"), ledger]) == 0
    assert out(capsys)[0].startswith("4 replies copied")
    assert main(question) == 0
    assert server.requests == 4  # recovered replies are replies


def test_plan_and_budget(server, tmp_path, capsys):
    prices = tmp_path / "p.json"
    prices.write_text('{"models": {"fake": {"prompt": 1000, "completion": 1000}}}')
    question = [
        "calls",
        "ask",
        server.model(),
        "Which city?",
        "--prices",
        str(prices),
        "--max-tokens",
        "5",
    ]
    assert main([*question, "--plan"]) == 0
    assert "$0.01" in out(capsys)[0]
    assert server.requests == 0
    assert main([*question, "--budget", "0.001"]) == 3
    assert "larger budget" in out(capsys)[1]
    assert main(["calls", "ask", server.model(), "Which city?", "--budget", "1"]) == 2
    assert "price" in out(capsys)[1]
    assert server.requests == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["stats", "missing.sqlite"], 1, "missing.sqlite: "),
        (["export", "missing.sqlite"], 1, "missing.sqlite: "),
        (["gc", "missing.sqlite"], 1, "missing.sqlite: "),
        (["recover", "missing.sqlite", "new.sqlite"], 1, "missing.sqlite: "),
        (["ask", "gpt-4o", "hi"], 2, "openai/MODEL"),
        (["gc", "missing.sqlite", "--older-than", "-30"], 2, "--older-than"),
        (["ask", "http://127.0.0.1:9/v1#m", "hi", "--image", "missing.png"], 1, "missing.png"),
        (
            ["ask", "http://127.0.0.1:9/v1#m", "hi"],
            1,
            "127.0.0.1:9: ",
        ),  # at once, not after eight attempts
        (["ask", "http://[::1/v1#m", "hi"], 2, "http://HOST:PORT"),
        (["ask", "http://h:99999/v1#m", "hi"], 2, "http://HOST:PORT"),
        (["ask", "http://127.0.0.1:9/v1#m", "hi", "--temperature", "nan"], 2, "--temperature"),
        (["ask", "http://127.0.0.1:9/v1#m", "caf\udce9", "--ledger", "l"], 2, "UTF-8"),
    ],
)
def test_one_line_says_what_to_do(words, code, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["calls", *words]) == code
    error = out(capsys)[1]
    assert said in error
    assert len(error.splitlines()) == 1


def test_an_export_never_replaces_the_ledger_and_is_recovered_as_any_editor_saves_it(
    server, tmp_path, capsys
):
    ledger, export = str(tmp_path / "l"), tmp_path / "e.jsonl"
    assert main(["calls", "ask", server.model(), "Which city?", "--ledger", ledger]) == 0
    assert main(["calls", "export", ledger, "--out", ledger]) == 2
    assert "export to" in out(capsys)[1]
    assert main(["calls", "export", ledger, "--out", str(export)]) == 0
    export.write_bytes(b"\xef\xbb\xbf" + export.read_bytes().replace(b"\n", b"\r\n"))
    assert main(["calls", "recover", str(export), str(tmp_path / "new")]) == 0
    printed = out(capsys)[0]
    assert printed.startswith("1 replies")
    assert str(tmp_path / "new") in printed
    assert "; 0 " in printed


def test_a_foreign_database_is_left_alone(tmp_path, capsys):
    path = tmp_path / "users.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE users (name)")
    db.commit()
    db.close()
    before = path.read_bytes()
    for words in (["stats", str(path)], ["gc", str(path)], ["export", str(path)]):
        assert main(["calls", *words]) == 1
        assert "demur calls recover" in out(capsys)[1]
    assert path.read_bytes() == before


@pytest.mark.heavy
def test_importing_model_calls_is_cheap():
    code = "import sys, demur.models, demur.cli.calls; print({'aiohttp', 'torch', 'rich', 'PIL'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_failed_question_says_why(capsys):
    with running("too-long*9") as server:
        assert main(["calls", "ask", server.model(), "long"]) == 1
    assert "evidence" in out(capsys)[1]
