"""A Haystack pipeline, scored twice: on the evidence that demur shows it, and whole, with its own document store.

    $ pip install haystack-ai
    $ demur corpus export demo-out/release --out corpora
    $ python examples/rag_haystack.py demo-out/release corpora

Put your own generator in place of `Extractive`, your own document store in place of the one in memory.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

import demur
from demur.scenarios.systems.static import StaticRetriever


@component
class Extractive:
    """Copies the sentence that shares two words or more with the question, else declines; it needs no weights."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, list[str]]:
        """The answer."""
        passages, _, question = prompt.rpartition("Question: ")
        asked = {w for w in re.findall(r"\w+", question.lower()) if len(w) > 3}
        sentences = re.split(r"(?<=[.;])\s+|\n+", passages)
        shared, best = max(
            ((len(asked & set(re.findall(r"\w+", s.lower()))), s) for s in sentences),
            default=(0, ""),
        )
        return {"replies": [best if shared >= 2 else "I cannot answer this from the passages."]}


PROMPT = (
    "Passages:\n{% for d in documents %}{{ d.content }}\n{% endfor %}\n\nQuestion: {{ question }}"
)


def pipeline(retriever: Any) -> Pipeline:
    """The pipeline under test; only its retriever differs between the two scores."""
    made = Pipeline()
    made.add_component("retriever", retriever)
    made.add_component(
        "prompt", PromptBuilder(PROMPT, required_variables=["documents", "question"])
    )
    made.add_component("generator", Extractive())
    made.connect("retriever.documents", "prompt.documents")
    made.connect("prompt", "generator")
    return made


def asked(made: Pipeline, question: str, **search: Any) -> dict[str, Any]:
    """One question: the answer, and what was retrieved."""
    given = {"retriever": {"query": question, **search}, "prompt": {"question": question}}
    found = made.run(given, include_outputs_from={"retriever"})
    return {"answer": found["generator"]["replies"][0], "contexts": found["retriever"]["documents"]}


static = StaticRetriever()
generator = pipeline(static.haystack())


def on_our_evidence(question: str, evidence: list[dict[str, Any]]) -> dict[str, Any]:
    """The generator, on what demur shows."""
    with static.showing(evidence):
        return asked(generator, question)


class Whole:
    """The pipeline with its own document store; ids that are to be left out are a filter of its search."""

    def __init__(self, corpora: Path) -> None:
        self.pipelines = {}
        for name in ("full", "gold-removed", "empty"):
            store = InMemoryDocumentStore()
            rows = map(
                json.loads,
                (corpora / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines(),
            )
            store.write_documents(
                [Document(id=r["id"], content=r["text"]) for r in rows if r["text"]]
            )
            self.pipelines[name] = pipeline(InMemoryBM25Retriever(store, top_k=3))

    def __call__(self, question: str, corpus: str, exclude: list[str]) -> dict[str, Any]:
        """Answer, and say what was retrieved."""
        hidden = {"field": "id", "operator": "not in", "value": exclude} if exclude else None
        return asked(self.pipelines[corpus or "full"], question, filters=hidden)


if __name__ == "__main__":
    release, corpora, *out = map(Path, sys.argv[1:])
    runs = out[0] if out else Path("runs")
    print(
        demur.evaluate(
            release,
            on_our_evidence,
            scenarios=["oracle", "adversarial"],
            text_only=True,
            out=runs,
            name="haystack-generator",
        )
    )
    print(
        demur.evaluate(
            release,
            Whole(corpora),
            scenarios="whole",
            corpora=corpora,
            text_only=True,
            out=runs,
            name="haystack-whole",
        )
    )
