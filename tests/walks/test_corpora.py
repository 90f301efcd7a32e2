"""Corpora of a release as a service is asked over them: ids to leave out, wrong ids."""

from __future__ import annotations

import json

import pytest
from errors import raises
from rag_server import as_json, service
from report_factory import make_release

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Document
from demur.release.corpora import export

pytestmark = pytest.mark.slow

MAPPING = """
url: {url}
name: mine
body: {{q: "{{question}}", corpus: "{{corpus}}", hide: "{{exclude}}"}}
answer: $.text
contexts: $.hits[*]
context: {{id: $.key, text: $.body}}
citations: $.refs[*]
retries: 0
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("release"))


def exported(release, out, *more):
    assert main(["corpus", "export", str(release[0]), "--out", str(out), *more]) == 0
    note = json.loads((out / "corpora.json").read_text())
    held = {}
    for name in note["counts"]:
        lines = (out / name / "corpus.jsonl").read_text().splitlines()
        held[name] = {row["id"]: row["text"] for row in map(json.loads, lines)}
    return note, held


def asked_over(release, corpora, answer, tmp_path, capsys):
    """The tables of a run of a service that answers each request by ``answer(request)``; and its requests."""
    with service(lambda n, headers, body: as_json(answer(json.loads(body)))) as (url, log):
        (tmp_path / "rag.yaml").write_text(MAPPING.format(url=url))
        run = [
            "run",
            str(release[0]),
            "--scenarios",
            "whole",
            "--corpora",
            str(corpora),
            "--text-only",
            "--judge",
            "local",
        ]
        assert (
            main(
                [*run, "--system", f"http:{tmp_path / 'rag.yaml'}", "--out", str(tmp_path / "runs")]
            )
            == 0
        )
        requests = [json.loads(body) for _, body in log]
    capsys.readouterr()
    assert (
        main(["rag", "table", str(tmp_path / "runs"), "--release", str(release[0]), "--json"]) == 0
    )
    return json.loads(capsys.readouterr().out), requests


def decline(request):
    return {"text": "I cannot tell from the documents.", "hits": [], "refs": []}


def test_the_ids_to_leave_out_are_those_that_gold_removed_lacks(release, tmp_path, capsys):
    note, held = exported(release, tmp_path / "c")
    gone = set(held["full"]) - set(held["gold-removed"])
    assert gone == {id for ids in note["excluded"].values() for id in ids}
    _, requests = asked_over(release, tmp_path / "c", decline, tmp_path, capsys)
    by_question = {s.question: s.id for s in release[1]}
    removed = [r for r in requests if r["corpus"] == "gold-removed"]
    assert removed
    for request in removed:
        assert set(request["hide"]) == set(note["excluded"][by_question[request["q"]]])
    assert all(not r["hide"] for r in requests if r["corpus"] == "full")


def test_a_failed_export_is_no_corpus(release, tmp_path, capsys):
    out = tmp_path / "c"
    note, held = exported(release, out)
    before = (out / "full/corpus.jsonl").read_bytes()
    clashing = [Document(id="same", title="", text=text) for text in ("one", "another")]
    with raises(UsageError, item="same"):
        export(out, lambda: clashing, list(release[1]), release={}, read_image=lambda ref: b"")
    assert (out / "full/corpus.jsonl").read_bytes() == before
    assert not list(out.glob("*/.*"))
    run = ["run", str(release[0]), "--scenarios", "whole", "--corpora", str(out)]
    assert main([*run, "--system", "prior", "--out", str(tmp_path / "runs")]) == 2
    assert str(out) in capsys.readouterr().err
    assert exported(release, out) == (note, held)


def test_wrong_ids_are_no_gold_and_no_distractor(release, tmp_path, capsys):
    """Ids that no document has: what is retrieved is told by its text; without that it is not gold, and cited is other."""
    _, held = exported(release, tmp_path / "c")
    samples = {s.question: s for s in release[1]}

    def lost(request):
        texts = [
            e.text for e in samples[request["q"]].gold if e.text and e.id in held[request["corpus"]]
        ]
        hits = [{"key": f"row {n} of my table", "body": text} for n, text in enumerate(texts)]
        return {
            "text": "It is so.",
            "hits": hits or [{"key": "nobody/17", "body": ""}],
            "refs": ["nobody/17"],
        }

    tables, _ = asked_over(release, tmp_path / "c", lost, tmp_path, capsys)
    [row] = tables["rag-faults"]
    assert (
        row["cites gold"]["value"],
        row["cites distractor"]["value"],
        row["cites other"]["value"],
    ) == (0, 0, 1)
    by = {r["scenario"]: r["retriever"] for r in tables["rag-scenario"] if r["scenario"] != "full"}
    assert set(by.values()) == {"gold not retrieved"}
    assert "gold retrieved" in {
        r["retriever"] for r in tables["rag-scenario"] if r["scenario"] == "full"
    }


def test_secrets_and_documents_reach_no_log(release, tmp_path, capsys, caplog, monkeypatch):
    """With every logger at its loudest: the token is in no file and on no screen, a document's text only in the answers."""
    monkeypatch.setenv("RAG_TOKEN", "s3cret-token-value")
    document = "A page of the handbook that is nobody else's business."
    caplog.set_level("DEBUG")

    def reply(n, headers, body):
        if n % 3 == 0:  # a gateway that repeats in its error what it was sent
            return 500, {}, json.dumps(dict(headers)).encode()
        return as_json(
            {"text": "I cannot tell.", "hits": [{"key": "a", "body": document}], "refs": []}
        )

    with service(reply) as (url, asked):
        mapping = tmp_path / "rag.yaml"
        mapping.write_text(
            MAPPING.format(url=url) + 'headers: {Authorization: "Bearer ${RAG_TOKEN}"}\n'
        )
        run = [
            "run",
            "--trust-hosts",
            str(release[0]),
            "--scenarios",
            "parametric",
            "--system",
            f"http:{mapping}",
            "--limit",
            "12",
        ]
        assert main([*run, "--out", str(tmp_path / "runs")]) == 0
        assert any("s3cret-token-value" in str(headers) for headers, _ in asked)
    said = capsys.readouterr()
    screens = said.out + said.err + caplog.text
    assert "500" in said.out + said.err + (tmp_path / "runs/mine/responses.jsonl").read_text()
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "s3cret" not in screens
    assert not [path for path, data in files.items() if b"s3cret" in data]
    assert document not in screens
    assert {path.name for path, data in files.items() if document.encode() in data} <= {
        "responses.jsonl",
        "responses.log",
    }
