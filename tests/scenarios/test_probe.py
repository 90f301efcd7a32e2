"""`demur rag probe` asks as a run would: over the whole corpus, with a question of the release."""

from __future__ import annotations

import json

import pytest
from strategies import tiny_release

from demur.cli import main
from demur.core.errors import UsageError
from demur.evaluation.asking import folder_name
from demur.release import Release
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.http import HttpSystem
from demur.scenarios.systems.http_probe import probe_service
from tests.walks.test_rag_service import served

BODY = 'body: {q: "{question}", corpus: "{corpus}", hide: "{exclude}"}\nanswer: $.text\n'


def test_a_corpus_and_a_question_of_the_release_are_sent(tmp_path, capsys):
    release = Release.open(tiny_release(tmp_path / "release", 3))
    asked = []

    def service(body):
        asked.append(body)
        return {"text": "It is so."}

    with served(service) as url:
        (tmp_path / "rag.yaml").write_text(f"url: {url}\n{BODY}")
        words = ["rag", "probe", str(tmp_path / "rag.yaml"), "--json"]
        assert main([*words, "--release", str(tmp_path / "release")]) == 0
        assert json.loads(capsys.readouterr().out)["understood"]["text"] == "It is so."
        assert main([*words, "--question", "Which river?"]) == 0
    questions = {s.question for s in release.samples()}
    assert asked[0]["q"] in questions
    assert asked[1]["q"] == "Which river?"
    assert {body["corpus"] for body in asked} == {"full"}


def test_a_mapping_without_the_whole_corpus_says_so(tmp_path):
    (tmp_path / "rag.yaml").write_text(f"url: {{empty: http://127.0.0.1:9/ask}}\n{BODY}")
    with pytest.raises(UsageError) as refused:
        probe_service(str(tmp_path / "rag.yaml"))
    assert refused.value.item == str(tmp_path / "rag.yaml")
    assert "full" in refused.value.cure


def test_no_name_of_a_run_is_an_address(tmp_path):
    (tmp_path / "rag.yaml").write_text(f"url: http://user@10.0.0.7:8080/ask\n{BODY}")
    context = SystemContext(read_image=lambda ref: b"")
    names = [
        HttpSystem(str(tmp_path / "rag.yaml"), context).id,
        HttpSystem("http://10.0.0.7:8080/ask", context).id,
        folder_name("model:http://10.0.0.7:8000/v1#qwen"),
        folder_name("cascade:HTTPS://user:word@10.0.0.7/v1#m"),
        folder_name("model:http://10.0.0.7:8000/v1"),
    ]
    assert names == ["http:rag", "http", "model-qwen", "cascade-m", "model"]
