"""Corpora of a release as a service is asked over them: folds, ids to leave out, one's own documents, wrong ids."""

from __future__ import annotations

import json

import pytest
from rag_server import as_json, service
from report_factory import make_release

from demur.cli import main

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


def test_each_fold_lacks_its_own_gold_and_is_the_one_that_is_searched(release, tmp_path, capsys):
    note, held = exported(release, tmp_path / "c", "--folds", "3")
    folds = ["gold-removed-1", "gold-removed-2", "gold-removed-3"]
    samples = {s.id: s for s in release[1]}
    assert set(note["folds"]) == set(samples)
    sizes = [list(note["folds"].values()).count(name) for name in folds]
    assert max(sizes) - min(sizes) <= 1
    for name in folds:
        gone = set(held["full"]) - set(held[name])
        mine = {id for s, ids in note["excluded"].items() if note["folds"][s] == name for id in ids}
        assert gone == mine
        assert mine
    _, requests = asked_over(release, tmp_path / "c", decline, tmp_path, capsys)
    by_question = {s.question: s.id for s in samples.values()}
    removed = [r for r in requests if r["corpus"] not in ("full", "empty")]
    assert removed
    for request in (
        removed
    ):  # the request names the corpus without its gold, and the ids for one index with a filter
        sample = by_question[request["q"]]
        assert request["corpus"] == note["folds"][sample]
        assert set(request["hide"]) == set(note["excluded"][sample])
        assert not set(request["hide"]) & set(held[request["corpus"]])
    assert all(not r["hide"] for r in requests if r["corpus"] == "full")


def test_more_folds_than_questions_are_refused_before_any_work(release, tmp_path, capsys):
    out, n = tmp_path / "c", len(release[1])
    for folds in (0, n + 1, 100_000):
        assert (
            main(["corpus", "export", str(release[0]), "--out", str(out), "--folds", str(folds)])
            == 2
        )
        assert f"give 1 to {min(n, 100)}" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_an_export_leaves_no_document_of_the_one_before_and_a_failed_one_is_no_corpus(
    release, tmp_path, capsys
):
    """Questions of one release over the documents of another would be answered as if nothing were wrong."""
    out = tmp_path / "c"
    assert (
        main(
            [
                "corpus",
                "export",
                str(release[0]),
                "--out",
                str(out),
                "--form",
                "markdown",
                "--folds",
                "2",
            ]
        )
        == 0
    )
    (out / "full" / "of-an-earlier-release.md").write_text("# Old\n")
    note, held = exported(release, out)
    assert sorted(p.name for p in (out / "full").iterdir() if p.is_file()) == ["corpus.jsonl"]
    assert not [p for p in out.glob("gold-removed-*/*") if p.is_file()]
    before = (out / "full/corpus.jsonl").read_bytes()
    mine = tmp_path / "mine.jsonl"
    row = {
        "id": next(iter(held["full"])),
        "title": "t",
        "text": "Another text.",
        "source": "mine",
        "licence": "",
    }
    mine.write_text(json.dumps(row) + "\n")
    assert (
        main(["corpus", "export", str(release[0]), "--out", str(out), "--mix", f"jsonl:{mine}"])
        == 2
    )
    assert row["id"] in capsys.readouterr().err
    assert (out / "full/corpus.jsonl").read_bytes() == before
    assert not list(out.glob("*/.*"))
    run = [
        "run",
        str(release[0]),
        "--scenarios",
        "whole",
        "--corpora",
        str(out),
        "--system",
        "prior",
    ]
    assert main([*run, "--out", str(tmp_path / "runs")]) == 2
    assert str(out) in capsys.readouterr().err
    assert exported(release, out) == (note, held)


def test_ones_own_documents_go_in_and_what_they_state_counts(release, tmp_path, capsys):
    sample = next(s for s in release[1] if not s.images and s.gold)
    answer = sample.answers.accepted[0][0]
    mine = tmp_path / "mine.jsonl"
    rows = [
        {"id": "own-1", "text": "Nothing of it."},
        {"id": "own-2", "text": f"{sample.question} {answer}."},
    ]
    mine.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain, _ = exported(release, tmp_path / "plain")
    note, held = exported(release, tmp_path / "mixed", "--mix", f"jsonl:{mine}")
    for name in ("full", "gold-removed"):
        assert {"own-1", "own-2"} <= set(held[name])
        assert note["counts"][name] == plain["counts"][name] + 2
    assert held["empty"] == {}
    assert "own-2" in note["stated"][sample.id]
    assert "own-1" not in str(note["stated"])
    clash = tmp_path / "clash.jsonl"
    clash.write_text(json.dumps({"id": sample.gold[0].id, "text": "x"}) + "\n")
    capsys.readouterr()
    assert (
        main(
            [
                "corpus",
                "export",
                str(release[0]),
                "--out",
                str(tmp_path / "x"),
                "--mix",
                f"jsonl:{clash}",
            ]
        )
        == 2
    )
    assert sample.gold[0].id in capsys.readouterr().err


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
