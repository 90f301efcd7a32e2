"""A retriever for LangChain, LlamaIndex and Haystack that returns the evidence of demur's current question.

It tests the generator of a pipeline alone. The pipeline stays as it is; only its retriever is replaced::

    retriever = StaticRetriever()
    chain = {"context": retriever.langchain(), "question": RunnablePassthrough()} | prompt | model | StrOutputParser()

    def answer(question, evidence):
        with retriever.showing(evidence):
            return chain.invoke(question)

    demur.evaluate("demo-out/release", answer)

Errors in the four scenarios are then the generator's. Ask the same pipeline with its own retriever in ``whole``
(docs/score-your-rag.md): what is worse there is the retriever's fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class StaticRetriever:
    """Returns the evidence of the current question, whatever the search query.

    Each task or thread (with a copied context) sees the evidence of its own question.
    """

    def __init__(self) -> None:
        self._now: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("evidence", default=())

    @contextmanager
    def showing(self, evidence: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Return this evidence (dicts with ``id``, ``title``, ``text``) within the ``with`` block."""
        token = self._now.set(tuple(evidence))
        try:
            yield
        finally:
            self._now.reset(token)

    def pieces(self) -> list[dict[str, Any]]:
        """The current evidence in its order: ``id``, ``text`` (the caption of an image) and ``title``."""
        return [
            {
                "id": str(e.get("id", "")),
                "text": e.get("text") or e.get("title") or "",
                "title": e.get("title") or "",
            }
            for e in self._now.get()
        ]

    def langchain(self) -> Any:
        """A LangChain retriever (needs langchain-core)."""
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever

        pieces = self.pieces

        class Static(BaseRetriever):  # type: ignore[misc]  # its package is not one of demur's
            """Returns demur's evidence."""

            def _get_relevant_documents(self, query: str, **_: Any) -> list[Any]:
                return [
                    Document(
                        id=p["id"],
                        page_content=p["text"],
                        metadata={"id": p["id"], "title": p["title"]},
                    )
                    for p in pieces()
                ]

        return Static()

    def llamaindex(self) -> Any:
        """A LlamaIndex retriever (needs llama-index-core)."""
        from llama_index.core.retrievers import BaseRetriever
        from llama_index.core.schema import NodeWithScore, TextNode

        pieces = self.pieces

        class Static(BaseRetriever):  # type: ignore[misc]  # its package is not one of demur's
            """Returns demur's evidence."""

            def _retrieve(self, query_bundle: Any) -> list[Any]:
                return [
                    NodeWithScore(
                        node=TextNode(id_=p["id"], text=p["text"], metadata={"title": p["title"]}),
                        score=1.0 / rank,
                    )
                    for rank, p in enumerate(pieces(), 1)
                ]

        return Static()

    def haystack(self) -> Any:
        """A Haystack component with the outputs of a retriever (needs haystack-ai)."""
        from haystack import Document, component

        pieces = self.pieces

        @component  # type: ignore[misc,unused-ignore]  # its package is not one of demur's
        class Static:
            """Returns demur's evidence."""

            @component.output_types(documents=list[Document])  # type: ignore[misc,untyped-decorator,unused-ignore]
            def run(
                self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
            ) -> dict[str, list[Document]]:
                """The evidence as documents."""
                return {
                    "documents": [
                        Document(
                            id=p["id"],
                            content=p["text"],
                            meta={"title": p["title"]},
                            score=1.0 / rank,
                        )
                        for rank, p in enumerate(pieces(), 1)
                    ]
                }

        return Static()
