"""Runs and qrels as ir_measures reads them: its figures are those of our recall."""

import random

import ir_measures
import pytest
from ir_measures import R, Success
from strategies import Images

from demur.cli import main
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import write_records
from demur.corpora.lineage import Gold
from demur.release import Draft, FunnelStep, Release, freeze
from demur.release.trec import _strictly_falling
from demur.retrieval.recall import DEPTHS, Recall
from demur.values import Index

ENCODER = ["--encoder", "stub_encoder:stub"]
WORDS = [f"w{n}" for n in range(40)]


def document(id, text):
    return Document(id=id, title="", text=text, page=id)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A release, and an index of its gold among passages of the same words, many of them equal."""
    monkeypatch.chdir(tmp_path)
    dice = random.Random(0)
    documents = [document(f"d {n}", " ".join(dice.choices(WORDS, k=6))) for n in range(60)]
    documents += [document(f"again {d.id}", d.text) for d in documents]
    dice.shuffle(documents)
    write_records(tmp_path / "kb.jsonl", documents)
    samples = []
    for n in range(50):
        gold = dice.choices(documents, k=2)
        words = [*dice.sample(gold[0].text.split(), 3), dice.choice(WORDS)]
        samples.append(
            Sample(
                id=f"q {n:02}",
                source="x",
                question=" ".join(words),
                answers=AnswerSpec(accepted=((f"answer {n}",),)),
                gold=tuple(Evidence.of(d, Role.GOLD) for d in {d.id: d for d in gold}.values()),
            )
        )
    elsewhere = Evidence.of(document("elsewhere", "w1"), Role.GOLD)
    samples.append(samples[0].model_copy(update={"id": "q lacking", "gold": (elsewhere,)}))
    step = FunnelStep(stage="pool", entered=len(samples), kept=len(samples))
    freeze(
        tmp_path / "release",
        Draft(name="x", version="1.0.0", samples=samples, read_image=None, funnel=[step]),
    )
    assert main(["index", "build", "kb.jsonl", "--out", "index", *ENCODER]) == 0
    return tmp_path


@pytest.mark.parametrize("mode", ["lexical", "text-to-text", "fused"])
def test_recall_is_success_of_ir_measures(world, mode, capsys):
    search = ["index", "search", "index", *ENCODER, "--questions", "release", "--run", "run.trec"]
    assert main([*search, "--mode", mode, "-k", "20"]) == 0
    qrels = ["release", "qrels", "release", "--index", "index", "-o", "qrels.trec", "--trust-code"]
    assert main(qrels) == 0
    index = Index("index", encoder="stub_encoder:stub")
    recall, shares = Recall(), []
    for sample in Release.open(world / "release").samples():
        ids = [hit.id for _, _, hit in index.search(sample.question, k=20, mode=mode)]
        searcher = index._searcher
        gold = set(Gold(sample.gold, searcher.documents).parts_in(searcher))
        recall.add(ids, gold)
        shares += [len(gold.intersection(ids[:10])) / len(gold)] if gold else []
    assert recall.lacking == 1
    figures = ir_measures.calc_aggregate(
        [*(Success @ k for k in DEPTHS), R @ 10],
        list(ir_measures.read_trec_qrels("qrels.trec")),
        list(ir_measures.read_trec_run("run.trec")),
    )
    ours = [recall.at(k).value for k in DEPTHS]
    assert [figures[Success @ k] for k in DEPTHS] == pytest.approx(ours, abs=1e-12)
    assert figures[R @ 10] == pytest.approx(sum(shares) / len(shares), abs=1e-12)
    assert any(0 < value < 1 for value in ours), "a figure that could be wrong"


def test_qrels_of_a_release_alone_and_as_beir_reads_them(world, capsys):
    assert main(["release", "qrels", "release", "-o", "qrels.trec"]) == 0
    rows = list(ir_measures.read_trec_qrels("qrels.trec"))
    gold = {
        ("%20".join(sample.id.split()), "%20".join(e.id.split()))
        for sample in Release.open(world / "release").samples()
        for e in sample.gold
    }
    assert {(row.query_id, row.doc_id) for row in rows} == gold
    assert {row.relevance for row in rows} == {1}
    assert main(["corpus", "export", "release", "--out", "corpora"]) == 0
    exported = ["index", "build", "corpora/full/corpus.jsonl", "--out", "exported", *ENCODER]
    assert main(exported) == 0
    of_index = ["--index", "exported", "-o", "exported.trec", "--trust-code"]
    assert main(["release", "qrels", "release", *of_index]) == 0
    assert (world / "exported.trec").read_bytes() == (world / "qrels.trec").read_bytes()
    assert main(["release", "qrels", "release", "-o", "test.tsv"]) == 0
    head, *lines = (world / "test.tsv").read_text().splitlines()
    assert head.split("\t") == ["query-id", "corpus-id", "score"]
    assert {tuple(line.split("\t")[:2]) for line in lines} == gold


def test_equal_scores_fall(world):
    falling = list(_strictly_falling([1.0, 1.0, 1.0 - 1e-12, 0.5, 0.0, 0.0]))
    assert falling == sorted(set(falling), reverse=True)
    assert falling == pytest.approx([1.0, 1.0, 1.0, 0.5, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--questions", "release"], "--run"),
        (["--run", "r"], "--questions"),
        (["--questions", "release", "--run", "r", "--text", "a"], "--text"),
    ],
)
def test_questions_and_run_belong_together_and_are_all_queries(words, named, world, capsys):
    assert main(["index", "search", "index", *ENCODER, *words]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


def test_a_question_with_a_picture_searches_by_both(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documents = [
        Document(id=f"d{n}", title=f"T{n}", text=f"w{n} w1", page=f"d{n}") for n in range(5)
    ]
    write_records(tmp_path / "kb.jsonl", documents)
    images = Images()
    sample = Sample(
        id="q",
        source="x",
        question="w1?",
        images=(images.ref((9, 9, 9)),),
        answers=AnswerSpec(accepted=(("answer",),)),
        gold=(Evidence.of(documents[0], Role.GOLD),),
    )
    step = FunnelStep(stage="pool", entered=1, kept=1)
    draft = Draft(
        name="x", version="1.0.0", samples=[sample], read_image=images.read, funnel=[step]
    )
    freeze(tmp_path / "release", draft)
    assert main(["index", "build", "kb.jsonl", "--out", "index", *ENCODER]) == 0
    search = ["index", "search", "index", *ENCODER, "--questions", "release", "--run", "run.trec"]
    assert main([*search, "-k", "3"]) == 0
    rows = list(ir_measures.read_trec_run("run.trec"))
    assert [row.query_id for row in rows] == ["q"] * 3
    assert {row.doc_id for row in rows} < {d.id for d in documents}
