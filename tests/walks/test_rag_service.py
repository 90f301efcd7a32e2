"""A RAG service that knows nothing of demur: asked by a mapping, and told where it fails; counted again from its own log."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest
from rag_server import as_json, service
from report_factory import make_release

from demur.cli import main
from demur.core.records import Response, Row
from demur.release import Release
from demur.reports.rag import RETRIEVALS, Question, diagnosis, faults_table, rag_tables
from demur.reports.tables import to_records

MAPPING = """
url: {url}
name: {name}
body: {{q: "{{question}}", pictures: "{{images}}"}}
answer: $.text
contexts: $.hits[*]
context: {{id: $.key, text: $.body}}
citations: $.refs[*]
abstained: $.nothing
retries: 0
"""


class Rag:
    """Passages by shared words, three of them; the answer is what follows "is" in the best one."""

    def __init__(self, documents, *, blind=False, always=False):
        self.documents, self.blind, self.always = documents, blind, always
        self.log = []

    def __call__(self, asked):
        wanted = set(re.findall(r"\w+", asked["q"].lower()))
        ranked = sorted(
            self.documents,
            key=lambda d: (-len(wanted & set(re.findall(r"\w+", d[1].lower()))), d[0]),
        )
        if self.blind:
            ranked = ranked[::-1]
        hits = [{"key": f"{name}#0", "body": text} for name, text in ranked[:3]]
        found = re.search(r" of (\w+) is (\w+)\.", hits[0]["body"])
        sure = found and (self.always or found[1].lower() in wanted)
        said = {"text": f"It is {found[2]}." if sure else "", "hits": hits, "nothing": not sure}
        said["refs"] = [hits[0]["key"]] if sure else []
        self.log.append((asked["q"], said))
        return said


@contextmanager
def served(rag):
    with service(lambda n, headers, body: as_json(rag(json.loads(body)))) as (url, _):
        yield url


@pytest.mark.heavy
def test_the_whole_system_over_its_corpora(tmp_path, capsys):
    """Export, index (here: keep in memory), ask by filter and by corpus, and count again."""
    folder, _ = make_release(tmp_path / "release")
    assert (
        main(["corpus", "export", str(folder), "--out", str(tmp_path / "corpora"), "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    note = json.loads((tmp_path / "corpora/corpora.json").read_text())
    corpora = {}
    for name in ("full", "gold-removed", "empty"):
        lines = (tmp_path / "corpora" / name / "corpus.jsonl").read_text().splitlines()
        corpora[name] = [(row["id"], row["text"]) for row in map(json.loads, lines)]
        assert len(lines) == told["counts"][name]
    samples = {s.id: s for s in Release.open(folder).samples()}
    everything = {e.id: e for s in samples.values() for e in (*s.gold, *s.negatives)}
    assert {id for id, _ in corpora["full"]} == set(everything)
    gold = {e.id for s in samples.values() for e in s.gold}
    assert not gold & {id for id, _ in corpora["gold-removed"]}
    for id, s in samples.items():  # what stays and states the answer: a plain search says the same
        stays = [e for e in everything.values() if e.id not in note["excluded"][id] and e.text]
        plainly = {e.id for e in stays if s.answers.accepted[0][0].lower() in e.text.lower()}
        assert set(note["stated"].get(id, [])) <= plainly

    rag = Rag([])

    def by_corpus(asked):
        rag.documents = [d for d in corpora[asked["corpus"]] if d[0] not in asked["exclude"]]
        return (
            rag(asked) if rag.documents else {"text": "", "hits": [], "refs": [], "nothing": True}
        )

    with served(by_corpus) as url:
        mapping = tmp_path / "rag.yaml"
        more = ', corpus: "{corpus}", exclude: "{exclude}"}'
        mapping.write_text(
            MAPPING.format(url=url, name="mine").replace('"{images}"}', '"{images}"' + more)
        )
        command = [
            "run",
            "--judge",
            "local",
            str(folder),
            "--system",
            f"http:{mapping}",
            "--scenarios",
            "whole",
            "--corpora",
            str(tmp_path / "corpora"),
        ]
        assert main([*command, "--out", str(tmp_path / "runs")]) == 0
        first = (tmp_path / "runs/mine/rows.parquet").read_bytes()
        asked = len(rag.log)
        assert main([*command, "--out", str(tmp_path / "runs")]) == 0
        assert ((tmp_path / "runs/mine/rows.parquet").read_bytes(), len(rag.log)) == (first, asked)
    capsys.readouterr()
    assert main(["rag", "table", str(tmp_path / "runs"), "--release", str(folder), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    [row], [faults] = tables["rag-whole"], tables["rag-faults"]
    lines = (tmp_path / "runs/mine/responses.jsonl").read_text().splitlines()
    brought = {
        row["ask"]: {r["id"].removesuffix("#0") for r in row["response"]["retrieved"]}
        for row in map(json.loads, lines)
    }
    rows = pq.read_table(tmp_path / "runs/mine/rows.parquet").to_pylist()
    of = {
        name: {r["sample"]: r["outcome"] for r in rows if r["scenario"] == name} for name in corpora
    }
    assert set(of["full"]) == {s.id for s in samples.values() if s.gold}
    assert set(of["gold-removed"]) == set(of["full"]) - set(note["stated"])
    graded = {name: {s: o for s, o in found.items() if o} for name, found in of.items()}
    for name, title, good in (
        ("full", "right, full", "correct"),
        ("gold-removed", "deflects, removed", "deflected"),
    ):
        assert row[title]["n"] == len(graded[name])
        assert (
            abs(
                row[title]["value"]
                - sum(o == good for o in graded[name].values()) / len(graded[name])
            )
            < 1e-9
        )
    assert row["deflects, empty"]["value"] == 1.0
    hit = [
        bool(brought[r["ask"]] & {e.id for e in samples[r["sample"]].gold})
        for r in rows
        if r["scenario"] == "full"
    ]
    assert (faults["gold found"]["value"], faults["gold found"]["n"]) == (
        pytest.approx(sum(hit) / len(hit)),
        len(hit),
    )
    both = [s for s in graded["full"] if s in graded["gold-removed"]]
    right = sum(
        graded["full"][s] == "correct" and graded["gold-removed"][s] == "deflected" for s in both
    )
    assert row["samples of both"] == len(both)
    assert abs(row["both"]["value"] - right / len(both)) < 1e-9

    mapping.write_text(MAPPING.format(url="http://127.0.0.1:9/", name="other"))
    assert main([*command, "--out", str(tmp_path / "other")]) != 0


@pytest.mark.heavy
def test_three_services_are_told_apart(tmp_path, capsys):
    folder, samples = make_release(tmp_path / "release")
    texts = {e.id: e.text for s in samples for e in (*s.gold, *s.negatives) if e.text}
    documents = sorted(texts.items())
    logs = {}
    for name, rag in (
        ("good", Rag(documents)),
        ("blind", Rag(documents, blind=True)),
        ("chatty", Rag([d for d in documents if "capital" not in d[1]], always=True)),
    ):
        with served(rag) as url:
            mapping = tmp_path / f"{name}.yaml"
            mapping.write_text(MAPPING.format(url=url, name=name))
            assert (
                main(
                    [
                        "run",
                        "--judge",
                        "local",
                        str(folder),
                        "--system",
                        f"http:{mapping}",
                        "--scenario",
                        "parametric",
                        "--out",
                        str(tmp_path / "runs"),
                    ]
                )
                == 0
            )
        logs[name] = rag.log
    capsys.readouterr()
    assert main(["rag", "table", str(tmp_path / "runs"), "--release", str(folder), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)

    by_question = {s.question: s for s in Release.open(folder).samples() if not s.images}
    for name, log in logs.items():
        counted = Counter()
        for question, said in log:
            sample = by_question.get(question)
            if sample is None:
                continue
            gold = {e.id for e in sample.gold}
            had = any(h["key"].removesuffix("#0") in gold for h in said["hits"])
            right = sample.answers.accepted[0][0] in said["text"]
            counted[
                "gold retrieved" if had else "gold not retrieved",
                "deflected" if said["nothing"] else "correct" if right else "other",
            ] += 1
        rows = [
            r
            for r in tables["rag-query-modality"]
            if r["system"] == name and r["query modality"] == "text"
        ]
        assert {r["retriever"]: int(r["n"]) for r in rows} == {
            found: sum(n for (f, _), n in counted.items() if f == found)
            for found in {f for f, _ in counted}
        }
        cells = {r["retriever"]: r for r in rows}
        for (found, result), n in counted.items():
            if result != "other":
                graded = (
                    int(cells[found]["n"])
                    - int(cells[found].get("unjudged", 0))
                    - int(cells[found].get("failed", 0))
                )
                assert abs(cells[found][result]["value"] - n / graded) < 1e-9
    assert main(["rag", "table", str(tmp_path / "runs"), "--release", str(folder)]) == 0
    words = capsys.readouterr().out
    assert "blind: the retriever" in words
    assert "chatty: the generator" in words or "chatty: the retriever" in words
    summary = " ".join(words.split())
    assert "good: the retriever" in summary
    assert "20 of 24 text" in summary
    assert "3 of 24 with an image" in summary


@pytest.mark.heavy
def test_times_versions_and_caches_are_told(tmp_path, capsys):
    """What is measured stands beside the answers, which are the same bytes; a redeployment and a cache are told."""
    folder, samples = make_release(tmp_path / "release")
    rag = Rag([(e.id, e.text) for s in samples for e in (*s.gold, *s.negatives) if e.text])
    replies = []

    def reply(n, headers, body):
        said = rag(json.loads(body))
        replies.append(said)
        told = {"X-Version": "1" if len(replies) <= 30 else "2"} | (
            {"X-Cache": "HIT from gateway"} if len(replies) <= 3 else {}
        )
        return as_json(said | {"usage": {"in": 10, "out": 2}, "usd": 0.001}, **told)

    with service(reply) as (url, _):
        mapping = tmp_path / "rag.yaml"
        more = "prompt_tokens: $.usage.in\ncompletion_tokens: $.usage.out\ncost: $.usd\nversion: X-Version\n"
        mapping.write_text(MAPPING.format(url=url, name="mine") + more)
        run = [
            "run",
            str(folder),
            "--system",
            f"http:{mapping}",
            "--scenarios",
            "parametric",
            "--out",
        ]
        assert main([*run, str(tmp_path / "runs")]) == 0
        told = " ".join(capsys.readouterr().err.split())
        assert "redeployed" in told
        assert f"2: {len(replies) - 30}" in told
        asked = len(replies)
        replies.clear()
        assert main([*run, str(tmp_path / "again")]) == 0
    for name in ("responses.jsonl", "verdicts.jsonl", "rows.parquet"):
        assert (tmp_path / "runs/mine" / name).read_bytes() == (
            tmp_path / "again/mine" / name
        ).read_bytes()
    capsys.readouterr()
    assert main(["rag", "table", str(tmp_path / "runs"), "--release", str(folder), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    [row] = tables["rag-latency"]
    assert (row["replies"], row["timed"], row["tokens"]) == (asked, asked - 3, 12 * asked)
    assert abs(row["usd"] - 0.001 * asked) < 1e-9
    assert 0 < row["first p50 s"] <= row["p50 s"] <= row["p95 s"]
    assert main(["rag", "table", str(tmp_path / "runs"), "--release", str(folder)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert f"(1: 30, 2: {asked - 30} answers)" in words
    assert f"3 of {asked} replies" in words


def test_who_asks_back_is_counted(tmp_path, capsys):
    import demur

    folder, _ = make_release(tmp_path / "release")
    answered = []

    def curious(question):
        answered.append(question)
        return "Yes." if len(answered) % 2 else "Which country do you mean?"

    demur.evaluate(folder, curious, scenarios="oracle", out=tmp_path / "runs", name="curious")
    assert main(["rag", "table", str(tmp_path / "runs"), "--release", str(folder), "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["rag-faults"]
    back = row["asks back"]
    assert back["value"] * back["n"] == pytest.approx(len(answered) // 2)


def test_no_row_mixes_recipes_or_prompts(tmp_path):
    """A sweep in a run changes no rate of the table, and what is left out is told."""
    import demur

    folder, _ = make_release(tmp_path / "release")

    def guess(question, evidence, strictness):
        return (
            "I cannot answer this."
            if strictness == "severe" or len(evidence) > 3
            else evidence[0]["id"]
        )

    scenarios = ["realistic(k=2)", "adversarial(k=2)"]
    demur.evaluate(folder, guess, scenarios=scenarios, out=tmp_path / "plain", name="mine")
    swept = [*scenarios, "realistic(k=4)", "adversarial(k=1)"]
    demur.evaluate(
        folder,
        guess,
        scenarios=swept,
        strictness=["moderate", "severe"],
        out=tmp_path / "swept",
        name="mine",
    )
    plain, mixed = (
        {t.name: t for t in rag_tables([tmp_path / name], folder)} for name in ("plain", "swept")
    )
    for name in plain.keys() - {"rag-latency"}:
        assert mixed[name].rows == plain[name].rows, name
    whole = sum(row[1] for row in mixed["rag-latency"].rows)
    left = whole - sum(row[1] for row in plain["rag-latency"].rows)
    assert f"prompts: {left:,} of {whole:,} of mine." in " ".join(mixed["rag-faults"].notes)
    assert "Prompt: moderate." in " ".join(plain["rag-faults"].notes)
    assert not [note for note in plain["rag-faults"].notes if "Left out" in note]


def test_what_a_retriever_found_does_not_wait_for_the_judge(tmp_path):
    """Half of the replies are ungraded: how often gold was found is of all of them, without those that failed."""
    _, samples = make_release(tmp_path / "release")
    halves = [[s for s in samples if bool(s.images) is image][:8] for image in (False, True)]
    results = ("correct", "unjudged", "unjudged", "failed") * 2
    asked = [
        Question("mine", verdict_row(s.id, result), s, Response(), found)
        for half, found in zip(halves, RETRIEVALS, strict=False)
        for s, result in zip(half, results, strict=True)
    ]
    [row] = to_records(faults_table(asked))
    assert (row["gold found"]["n"], row["gold found"]["value"], row["deflects with it"]["n"]) == (
        12,
        0.5,
        2,
    )
    [said] = diagnosis(asked)
    assert "found gold for 6 of 6 text questions and for 0 of 6 with an image" in said


def verdict_row(sample: str, result: str) -> Row:
    graded = result not in ("unjudged", "failed")
    return Row(
        ask=sample,
        context=sample,
        sample=sample,
        source="x",
        scenario="full",
        condition="moderate",
        recipe="full",
        k_used=0,
        expected="answer",
        status="graded" if graded else result,
        outcome=result if graded else None,
    )
