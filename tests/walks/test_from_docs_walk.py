"""From raw files and twelve questions to a gate: documents and a log in, a release, a service asked over it, pass or fail."""

from __future__ import annotations

import json
import re

import pyarrow.parquet as pq
import pytest
from test_rag_service import served

from demur.cli import main

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
    rows = [{"id": f"faq-{n}", "text": f"Question {n} of the forum is about colours and themes."} for n in range(20)]
    (folder / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_questions(path):
    rows = [
        {"question": f"What does the {p} plan cost?", "answer": f"{c} euros"}
        for p, c in zip(PLANS, PRICES, strict=True)
    ]
    rows += [{"question": f"Does the {p} plan hold a submarine licence?", "unanswerable": True} for p in PLANS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Service:
    """Passages by shared words; the price in the best one, where it names the plan that is asked about and a cost."""

    def __init__(self, corpora, *, always=False):
        self.documents = {}
        for name in ("full", "gold-removed", "empty"):
            lines = (corpora / name / "corpus.jsonl").read_text().splitlines()
            self.documents[name] = [(row["id"], row["text"]) for row in map(json.loads, lines)]
        self.always = always

    def __call__(self, asked):
        wanted = set(re.findall(r"\w+", asked["q"].lower()))
        left = [d for d in self.documents[asked["corpus"]] if d[0] not in asked["hide"]]
        hits = sorted(left, key=lambda d: (-len(wanted & set(re.findall(r"\w+", d[1].lower()))), d[0]))[:3]
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
    command = ["from-docs", folder / "docs", folder / "questions.jsonl", "-o", folder / "out", "--accept-found"]
    assert main([str(word) for word in command]) == 0
    return folder


@pytest.mark.parametrize(("always", "code"), [(False, 0), (True, 1)])
def test_from_raw_files_to_a_gate(made, tmp_path, capsys, always, code):
    release, corpora = str(made / "out/release"), made / "out/corpora"
    with served(Service(corpora, always=always)) as url:
        mapping = tmp_path / "rag.yaml"
        mapping.write_text(MAPPING.format(url=url, name="mine"))
        command = ["run", release, "--scenarios", "whole", "--corpora", str(corpora), "--system", f"http:{mapping}"]
        assert main([*command, "--judge", "rules?guess=yes", "--out", str(tmp_path / "runs")]) == 0
    rows = pq.read_table(tmp_path / "runs/mine/rows.parquet").to_pylist()
    counted = {}
    for row in rows:
        counted.setdefault(row["scenario"], []).append(row["outcome"])
    assert {name: len(found) for name, found in counted.items()} == {"full": 6, "gold-removed": 12, "empty": 12}
    assert counted["full"] == ["correct"] * 6
    assert set(counted["gold-removed"]) == ({"incorrect"} if always else {"deflected"})
    capsys.readouterr()
    gate = [
        "gate",
        str(tmp_path / "runs/mine"),
        "--release",
        release,
        "--max-hallucination",
        "gold-removed=0.5",
        "--strict",
    ]
    assert main(gate) == code
    said = capsys.readouterr().out
    assert "n = 12" in said
    assert ("FAILED" in said) is always
