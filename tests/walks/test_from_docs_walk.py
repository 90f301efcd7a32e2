"""From raw files and twelve questions to a gate: documents and a log in, a release, a service asked over it, pass or fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from action_steps import run_steps
from test_rag_service import served

from demur.cli import main
from demur.pytest_plugin import demur_gate  # noqa: F401
from demur.testing import running

PLANS = ("Basic", "Team", "Studio", "Campus", "Harbour", "Summit")
PRICES = (7, 19, 23, 41, 58, 83)
MAPPING = """
url: {url}
name: {name}
body: {{q: "{{question}}", corpus: "{{corpus}}", hide: "{{exclude}}"}}
answer: $.text
contexts: $.hits[*]
context: {{id: $.key, text: $.body}}
abstained: $.nothing
retries: 0
"""


def write_docs(folder):
    """Six plans in Markdown and text, other matter in JSONL."""
    folder.mkdir()
    for n, (plan, price) in enumerate(zip(PLANS, PRICES, strict=True)):
        body = f"The {plan} plan costs {price} euros a month. Support for the {plan} plan answers within {n + 2} working days."
        (folder / f"{plan.lower()}.{'md' if n % 2 else 'txt'}").write_text(
            f"# The {plan} plan\n\n{body}\n" if n % 2 else body
        )
    rows = [
        {"id": f"faq-{n}", "text": f"Question {n} of the forum is about colours and themes."}
        for n in range(20)
    ]
    (folder / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_questions(path):
    rows = [
        {"question": f"What does the {p} plan cost?", "answer": f"{c} euros"}
        for p, c in zip(PLANS, PRICES, strict=True)
    ]
    rows += [
        {"question": f"Does the {p} plan hold a submarine licence?", "unanswerable": True}
        for p in PLANS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Service:
    """Passages by shared words; the price in the best one, where it names the plan that is asked about and a cost."""

    def __init__(self, corpora, *, always=False, blind=False):
        self.blind, self.asked, self.down = blind, 0, False
        self.documents = {}
        for name in ("full", "gold-removed", "empty"):
            lines = (corpora / name / "corpus.jsonl").read_text().splitlines()
            self.documents[name] = [(row["id"], row["text"]) for row in map(json.loads, lines)]
        self.always = always

    def __call__(self, asked):
        self.asked += 1
        if self.down or (self.asked > 10 and self.down is None):
            raise OSError("stopped")
        wanted = set(re.findall(r"\w+", asked["q"].lower()))
        left = [d for d in self.documents[asked["corpus"]] if d[0] not in asked["hide"]]
        sign = 1 if self.blind else -1
        hits = sorted(
            left, key=lambda d: (sign * len(wanted & set(re.findall(r"\w+", d[1].lower()))), d[0])
        )[:3]
        plan = next((p for p in PLANS if p.lower() in wanted), "")
        price = re.search(rf"{plan} plan costs (\d+ euros)", hits[0][1]) if hits else None
        sure = bool(price and "cost" in wanted)
        text = price[1] if price and (sure or self.always) else "999 euros" if self.always else ""
        return {"text": text, "nothing": not text, "hits": [{"key": k, "body": b} for k, b in hits]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk")
    write_docs(folder / "docs")
    write_questions(folder / "questions.jsonl")
    command = [
        "from-docs",
        folder / "docs",
        folder / "questions.jsonl",
        "-o",
        folder / "out",
        "--accept-found",
    ]
    assert main([str(word) for word in command]) == 0
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize(("always", "code"), [(False, 0), (True, 1)])
def test_from_raw_files_to_a_gate(made, tmp_path, capsys, always, code):
    release, corpora = str(made / "out/release"), made / "out/corpora"
    with served(Service(corpora, always=always)) as url:
        mapping = tmp_path / "rag.yaml"
        mapping.write_text(MAPPING.format(url=url, name="mine"))
        command = [
            "run",
            release,
            "--scenarios",
            "whole",
            "--corpora",
            str(corpora),
            "--system",
            f"http:{mapping}",
        ]
        assert main([*command, "--judge", "local", "--out", str(tmp_path / "runs")]) == 0
    rows = pq.read_table(tmp_path / "runs/mine/rows.parquet").to_pylist()
    counted = {}
    for row in rows:
        counted.setdefault(row["scenario"], []).append(row["outcome"])
    assert {name: len(found) for name, found in counted.items()} == {
        "full": 6,
        "gold-removed": 12,
        "empty": 12,
    }
    assert counted["full"] == ["correct"] * 6
    assert set(counted["gold-removed"]) == ({"incorrect"} if always else {"deflected"})
    capsys.readouterr()
    for limit in (("--min-declined", "gold-removed=0.5"), ("--max-hallucination", "empty=0.5")):
        assert main(["gate", str(tmp_path / "runs/mine"), "--release", release, *limit]) == code
        said = capsys.readouterr().out
        assert "n = 12" in said
        assert ("FAILED" in said) is always


ALWAYS = """
import json
import re
from pathlib import Path


def answer(question, corpus, exclude):
    rows = map(json.loads, Path(f"out/corpora/{corpus}/corpus.jsonl").read_text().splitlines())
    words = set(question.lower().split())
    ranked = sorted(rows, key=lambda row: -len(words & set(row["text"].lower().split())))
    best = next((row["text"] for row in ranked if row["id"] not in exclude), "")
    price = re.search(r"\\d+ euros", best)
    return {"answer": f"That is {price[0] if price else '999 euros'}.", "contexts": [row["id"] for row in ranked[:3]]}
"""


@pytest.mark.integration
def test_a_function_over_own_documents_that_always_answers_is_red_in_the_action(made):
    """A retriever, and a generator that reads a price out of the best passage, or makes one up."""
    (made / "mine.py").write_text(ALWAYS)
    ended, step, told = run_steps(
        made,
        "runs-of-action",
        release="out/release",
        corpora="out/corpora",
        system="python:mine:answer",
        limits="--min-declined gold-removed=50%",
    )
    assert (ended, step) == (1, "gate"), told


def test_and_in_the_fixture(made, demur_gate, monkeypatch):  # noqa: F811
    monkeypatch.chdir(made)
    names = {}
    exec(compile(ALWAYS, "mine.py", "exec"), names)
    with pytest.raises(pytest.fail.Exception):
        demur_gate(
            "out/release",
            names["answer"],
            scenarios="whole",
            corpora="out/corpora",
            min_declined={"gold-removed": 0.5},
        )


def run_words(made, out, name, url, *more, judge="local"):
    mapping = out / f"{name}.yaml"
    mapping.write_text(MAPPING.format(url=url, name=name))
    return [
        "run",
        str(made / "out/release"),
        "--scenarios",
        "whole",
        "--corpora",
        str(made / "out/corpora"),
        "--system",
        f"http:{mapping}",
        "--judge",
        judge,
        "--out",
        str(out / "runs"),
        *more,
    ]


def test_three_broken_ones_are_told_apart_in_words(made, tmp_path, capsys):
    """A retriever broken on purpose, a generator that always answers, a judge that is down; and one that is well."""
    corpora = made / "out/corpora"
    for name, faults in (("well", {}), ("blind", {"blind": True}), ("chatty", {"always": True})):
        with served(Service(corpora, **faults)) as url:
            assert main(run_words(made, tmp_path, name, url)) == 0
    with served(Service(corpora)) as url, running("filter*200", most_faults=200) as server:
        assert (
            main(
                run_words(
                    made,
                    tmp_path,
                    "unjudged",
                    url,
                    judge=f"model:http://127.0.0.1:{server.port}/v1#m",
                )
            )
            == 0
        )
    capsys.readouterr()
    assert (
        main(["rag", "table", str(tmp_path / "runs"), "--release", str(made / "out/release")]) == 0
    )
    told = " ".join(capsys.readouterr().out.split())
    assert "blind: the retriever" in told
    assert "0 of 6 questions" in told
    assert "chatty: the generator" in told
    assert "24 of 24 times" in told
    counts = json.loads((tmp_path / "runs/unjudged/manifest.json").read_text())["counts"]
    assert counts["unjudged"] == 6
    assert "well:" not in told
    with served(Service(corpora)) as url:  # nobody there at all is told before anything is asked
        service_asked = run_words(
            made, tmp_path, "later", url, judge="model:http://127.0.0.1:9/v1#m"
        )
        assert main(service_asked) == 1
    said = capsys.readouterr().err
    assert "judge model:m: " in said


def test_a_service_that_is_stopped_and_edited(made, tmp_path, capsys):
    """Stopped half-way, started again, same command: it completes. Edited: other numbers."""
    service = Service(made / "out/corpora")
    service.down = None  # answers ten questions
    with served(service) as url:
        command = run_words(made, tmp_path, "mine", url)
        main(command)
        rows = pq.read_table(tmp_path / "runs/mine/rows.parquet").to_pylist()
        failed = sum(row["status"] == "failed" for row in rows)
        assert (len(rows), failed) == (30, 20)
        assert "20 of 30 questions" in " ".join(capsys.readouterr().err.split())
        service.down, service.asked = False, 0
        assert main(command) == 0
        rows = pq.read_table(tmp_path / "runs/mine/rows.parquet").to_pylist()
        assert service.asked == 20  # what was answered is not asked again
        assert {row["status"] for row in rows} == {"graded"}
        before = sum(row["outcome"] == "incorrect" for row in rows)
        service.always = True
        mapping = tmp_path / "mine.yaml"
        mapping.write_text(mapping.read_text() + "revision: edited\n")
        assert main(command) == 0
        rows = pq.read_table(tmp_path / "runs/mine/rows.parquet").to_pylist()
        assert (before, sum(row["outcome"] == "incorrect" for row in rows)) == (0, 24)


@pytest.mark.slow
@pytest.mark.integration
def test_the_timed_walk_in_small(tmp_path):
    """examples/ten_minutes.py: documents to a gate that passes, and is red when the service makes things up."""
    root = Path(__file__).resolve().parents[2]
    command = [
        sys.executable,
        str(root / "examples/ten_minutes.py"),
        "--documents",
        "300",
        "--questions",
        "24",
    ]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "w")], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(
        r"gate: passed(.|\n)*gate: FAILED\n +fail +declined in gold-removed", done.stdout
    )
    assert re.search(r"\d s  together", done.stdout)
