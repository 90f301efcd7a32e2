"""A RAG service on FastAPI that streams its answer and knows nothing of demur; `examples/rag_fastapi.yaml` maps it.

    $ pip install fastapi uvicorn
    $ demur corpus export demo-out/release --out corpora
    $ python examples/rag_fastapi.py corpora --port 8766 &
    $ demur rag probe examples/rag_fastapi.yaml --question "What is the capital of Vanuatu?"
    $ demur run demo-out/release --scenarios whole --corpora corpora --text-only --system http:examples/rag_fastapi.yaml

Retrieval is BM25, the answer the sentence that shares two words or more with the question: put your own in their place.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from rank_bm25 import BM25Okapi


class Question(BaseModel):
    """What is asked."""

    question: str
    index: str = "full"
    hide: list[str] = []


def words(text: str) -> list[str]:
    """Of a text, in small letters."""
    return re.findall(r"\w+", text.lower())


def service(corpora: Path) -> FastAPI:
    """The service over some corpora."""
    app = FastAPI()
    indexes = {}
    for folder in sorted(path for path in corpora.iterdir() if path.is_dir()):
        rows = [
            json.loads(line)
            for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        rows = [row for row in rows if row["text"]]
        indexes[folder.name] = (
            rows,
            BM25Okapi([words(row["text"]) for row in rows]) if rows else None,
        )

    @app.post("/ask")
    def ask(asked: Question) -> StreamingResponse:
        rows, index = indexes[asked.index or "full"]
        scores = index.get_scores(words(asked.question)) if index is not None else []
        ranked = sorted(
            (-s, i) for i, s in enumerate(scores) if s > 0 and rows[i]["id"] not in asked.hide
        )[:3]
        found = [{"id": rows[i]["id"], "text": rows[i]["text"], "score": -s} for s, i in ranked]
        wanted = {w for w in words(asked.question) if len(w) > 3}
        sentences = [s for f in found for s in re.split(r"(?<=[.;])\s+", f["text"])]
        shared, best = max(((len(wanted & set(words(s))), s) for s in sentences), default=(0, ""))
        said = best if shared >= 2 else "I cannot answer this from our documents."

        def events() -> Iterator[str]:
            for piece in re.findall(r"\S+\s*", said):
                yield f"data: {json.dumps({'delta': piece})}\n\n"
            yield f"data: {json.dumps({'sources': found, 'tokens': len(said.split())})}\n\ndata: [DONE]\n\n"

        return StreamingResponse(
            events(), media_type="text/event-stream", headers={"X-Version": "1"}
        )

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path, help="folder of corpora")
    parser.add_argument("--port", type=int, default=8766)
    arguments = parser.parse_args()
    uvicorn.run(
        service(arguments.corpora), host="127.0.0.1", port=arguments.port, log_level="warning"
    )
