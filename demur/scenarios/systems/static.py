"""A retriever for frameworks that returns the evidence which demur shows.

It is the bridge from testing a generator to testing a whole system. Your pipeline stays as it is; only its retriever is
changed for one that cannot miss::

    retriever = StaticRetriever()
    chain = {"context": retriever.langchain(), "question": RunnablePassthrough()} | prompt | model | StrOutputParser()

    def answer(question, evidence):
        with retriever.showing(evidence):
            return chain.invoke(question)

    demur.evaluate("demo-out/release", answer)

What the system then does wrong in the four scenarios is its generator's fault. Beside it, the same pipeline with its
own retriever is asked in ``whole`` (docs/score-your-rag.md), and what is worse there is the retriever's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class StaticRetriever:
    """Returns the evidence of the question that is under way, whatever is searched for.

    Questions may be under way at once, in tasks or in threads that copy their context: each sees its own.
    """

    def __init__(self) -> None:
        self._now: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("evidence", default=())

    @contextmanager
    def showing(self, evidence: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """While this lasts, return this evidence: dicts with ``id``, ``title``, ``text``, as functions get it."""
        token = self._now.set(tuple(evidence))
        try:
            yield
        finally:
            self._now.reset(token)

    def pieces(self) -> list[dict[str, Any]]:
        """What is shown now: ``id``, ``text`` (an image has its caption) and ``title``, in the order shown."""
        return [
            {"id": str(e.get("id", "")), "text": e.get("text") or e.get("title") or "", "title": e.get("title") or ""}
            for e in self._now.get()
        ]

    def langchain(self) -> Any:
        """As a LangChain retriever (needs langchain-core)."""
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever

        pieces = self.pieces

        class Static(BaseRetriever):  # type: ignore[misc]  # its package is not one of demur's
            """What demur shows."""

            def _get_relevant_documents(self, query: str, **_: Any) -> list[Any]:
                return [
                    Document(id=p["id"], page_content=p["text"], metadata={"id": p["id"], "title": p["title"]})
                    for p in pieces()
                ]

        return Static()

    def llamaindex(self) -> Any:
        """As a LlamaIndex retriever (needs llama-index-core)."""
        from llama_index.core.retrievers import BaseRetriever
        from llama_index.core.schema import NodeWithScore, TextNode

        pieces = self.pieces

        class Static(BaseRetriever):  # type: ignore[misc]  # its package is not one of demur's
            """What demur shows."""

            def _retrieve(self, query_bundle: Any) -> list[Any]:
                return [
                    NodeWithScore(
                        node=TextNode(id_=p["id"], text=p["text"], metadata={"title": p["title"]}), score=1.0 / rank
                    )
                    for rank, p in enumerate(pieces(), 1)
                ]

        return Static()

    def haystack(self) -> Any:
        """As a Haystack component with the outputs of a retriever (needs haystack-ai)."""
        from haystack import Document, component

        pieces = self.pieces

        @component  # type: ignore[misc,unused-ignore]  # its package is not one of demur's
        class Static:
            """What demur shows."""

            @component.output_types(documents=list[Document])  # type: ignore[misc,untyped-decorator,unused-ignore]
            def run(
                self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
            ) -> dict[str, list[Document]]:
                """The evidence as documents."""
                return {
                    "documents": [
                        Document(id=p["id"], content=p["text"], meta={"title": p["title"]}, score=1.0 / rank)
                        for rank, p in enumerate(pieces(), 1)
                    ]
                }

        return Static()
