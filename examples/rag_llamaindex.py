"""A LlamaIndex query engine, scored twice: on the evidence that demur shows it, and whole, with its own index.

    $ pip install llama-index-core
    $ demur corpus export demo-out/release --out corpora
    $ python examples/rag_llamaindex.py demo-out/release corpora

Where its retriever finds nothing, LlamaIndex does not ask the model and returns the words "Empty Response". That is no
answer of the model's: said here by `said`, and taken for a failure by demur where nobody says so. Put your own LLM in
place of `Extractive`, your own embedding in place of `Words`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from llama_index.core import PromptTemplate, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

import demur
from demur.scenarios.systems.static import StaticRetriever


class Extractive(CustomLLM):
    """Copies the sentence that shares two words or more with the question, else declines; it needs no weights."""

    @property
    def metadata(self) -> LLMMetadata:
        """Of the model."""
        return LLMMetadata(model_name="extractive")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        """The answer."""
        passages, _, question = prompt.rpartition("Question: ")
        asked = {w for w in re.findall(r"\w+", question.lower()) if len(w) > 3}
        sentences = re.split(r"(?<=[.;])\s+|\n+", passages)
        shared, best = max(
            ((len(asked & set(re.findall(r"\w+", s.lower()))), s) for s in sentences),
            default=(0, ""),
        )
        return CompletionResponse(
            text=best if shared >= 2 else "I cannot answer this from the passages."
        )

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
        """The answer at once."""
        yield self.complete(prompt, formatted, **more)


class Words(BaseEmbedding):
    """A text as the counts of its words, hashed into 512 places."""

    def _get_text_embedding(self, text: str) -> list[float]:
        counts = [1e-6] * 512
        for word in re.findall(r"\w{4,}", text.lower()):
            counts[sum(ord(c) * 31**i for i, c in enumerate(word)) % 512] += 1.0
        return counts

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


PROMPT = PromptTemplate("Passages:\n{context_str}\n\nQuestion: {query_str}")


def engine(retriever: Any) -> RetrieverQueryEngine:
    """The pipeline under test; only its retriever differs between the two scores."""
    synthesizer = get_response_synthesizer(
        llm=Extractive(), text_qa_template=PROMPT, response_mode="simple_summarize"
    )
    return RetrieverQueryEngine(retriever=retriever, response_synthesizer=synthesizer)


def said(response: Any) -> dict[str, Any]:
    """A response as demur takes it."""
    nothing = not response.source_nodes
    return {
        "answer": "" if nothing else str(response),
        "abstained": nothing,
        "contexts": response.source_nodes,
    }


static = StaticRetriever()
generator = engine(static.llamaindex())


def on_our_evidence(question: str, evidence: list[dict[str, Any]]) -> dict[str, Any]:
    """The generator, on what demur shows."""
    with static.showing(evidence):
        return said(generator.query(question))


class Whole:
    """The engine with its own index; ids that are to be left out are a filter of its search."""

    def __init__(self, corpora: Path) -> None:
        self.indexes = {}
        for name in ("full", "gold-removed", "empty"):
            rows = map(
                json.loads,
                (corpora / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines(),
            )
            nodes = [
                TextNode(id_=r["id"], text=r["text"], metadata={"id": r["id"]})
                for r in rows
                if r["text"]
            ]
            self.indexes[name] = VectorStoreIndex(nodes, embed_model=Words(embed_batch_size=100))

    def __call__(self, question: str, corpus: str, exclude: list[str]) -> dict[str, Any]:
        """Answer, and say what was retrieved."""
        hidden = MetadataFilters(
            filters=[MetadataFilter(key="id", value=exclude, operator=FilterOperator.NIN)]
        )
        index = self.indexes[corpus or "full"]
        return said(
            engine(
                index.as_retriever(similarity_top_k=3, filters=hidden if exclude else None)
            ).query(question)
        )


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
            name="llamaindex-generator",
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
            name="llamaindex-whole",
        )
    )
