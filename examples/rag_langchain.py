"""A LangChain chain, scored twice: on the evidence that demur shows it, and whole, with its own retriever.

    $ pip install langchain-core
    $ demur corpus export demo-out/release --out corpora
    $ python examples/rag_langchain.py demo-out/release corpora

The first score is the generator's alone; what is worse in the second is the retriever's. Put your own chat model in
place of `Extractive`, and your own vector store in place of the one in memory.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

import demur
from demur.scenarios.systems.static import StaticRetriever


class Extractive(BaseChatModel):
    """Copies the sentence that shares two words or more with the question, else declines; it needs no weights."""

    @property
    def _llm_type(self) -> str:
        return "extractive"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        passages, _, question = str(messages[-1].content).rpartition("Question: ")
        asked = {w for w in re.findall(r"\w+", question.lower()) if len(w) > 3}
        sentences = re.split(r"(?<=[.;])\s+|\n+", passages)
        shared, best = max(
            ((len(asked & set(re.findall(r"\w+", s.lower()))), s) for s in sentences),
            default=(0, ""),
        )
        said = best if shared >= 2 else "I cannot answer this from the passages."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])


class Words(Embeddings):
    """A text as the counts of its words, hashed into 512 places."""

    def embed_query(self, text: str) -> list[float]:
        """One text."""
        counts = [1e-6] * 512
        for word in re.findall(r"\w{4,}", text.lower()):
            counts[sum(ord(c) * 31**i for i, c in enumerate(word)) % 512] += 1.0
        return counts

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Several."""
        return [self.embed_query(text) for text in texts]


PROMPT = ChatPromptTemplate.from_template("Passages:\n{context}\n\nQuestion: {question}")


def joined(documents: list[Document]) -> str:
    """The passages of a prompt."""
    return "\n".join(d.page_content for d in documents)


def chain(retriever: Any) -> Any:
    """The pipeline under test; only its retriever differs between the two scores."""
    context = retriever | RunnableLambda(joined)
    return (
        {"context": context, "question": RunnablePassthrough()}
        | PROMPT
        | Extractive()
        | StrOutputParser()
    )


static = StaticRetriever()
generator = chain(static.langchain())


def on_our_evidence(question: str, evidence: list[dict[str, Any]]) -> str:
    """The generator, on what demur shows."""
    with static.showing(evidence):
        return str(generator.invoke(question))


class Whole:
    """The chain with its own vector store; ids that are to be left out are a filter of its search."""

    def __init__(self, corpora: Path) -> None:
        self.stores = {}
        for name in ("full", "gold-removed", "empty"):
            self.stores[name] = InMemoryVectorStore(Words())
            rows = map(
                json.loads,
                (corpora / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines(),
            )
            texts = [row for row in rows if row["text"]]
            self.stores[name].add_documents(
                [
                    Document(id=row["id"], page_content=row["text"], metadata={"id": row["id"]})
                    for row in texts
                ]
            )

    def __call__(self, question: str, corpus: str, exclude: list[str]) -> dict[str, Any]:
        """Answer, and say what was retrieved."""
        hidden, store = set(exclude), self.stores[corpus or "full"]
        found = store.similarity_search(question, k=3, filter=lambda d: d.id not in hidden)
        return {
            "answer": chain(RunnableLambda(lambda _: found)).invoke(question),
            "contexts": found,
        }


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
            name="langchain-generator",
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
            name="langchain-whole",
        )
    )
