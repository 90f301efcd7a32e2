"""A small RAG service that knows nothing of demur: BM25 over folders of documents, an answer cut from the best passage.

    $ python examples/rag_service.py corpora --port 8765

``POST /ask {"query": ..., "index": "full", "filter_out": [ids], "k": 5}`` gives ``{"answer", "no_answer", "sources"}``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rank_bm25 import BM25Okapi

ROOT = Path(".")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@cache
def _index(name: str) -> tuple[list[dict[str, Any]], BM25Okapi | None]:
    lines = (ROOT / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["text"]]
    return rows, BM25Okapi([_words(f"{r['title']} {r['text']}") for r in rows]) if rows else None


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Retrieve, then cut the answer out of the best passage; nothing where no passage fits."""
    rows, index = _index(str(asked.get("index") or "full"))
    hidden = set(asked.get("filter_out") or [])
    query = _words(asked["query"])
    scores = index.get_scores(query) if index is not None else []
    ranked = sorted((-s, i) for i, s in enumerate(scores) if s > 0 and rows[i]["id"] not in hidden)[
        : asked.get("k", 5)
    ]
    sources = [
        {"doc_id": f"{rows[i]['id']}#0", "text": rows[i]["text"], "score": -s} for s, i in ranked
    ]
    for source in sources:
        for field in re.split(r"(?<=[.;])\s+", source["text"]):
            name, colon, value = field.partition(": ")
            if colon and set(_words(name)) & set(query) and len(value) < 200:
                return {"answer": value.strip(" .;"), "no_answer": False, "sources": sources}
    return {"answer": "", "no_answer": True, "sources": sources}


class Handler(BaseHTTPRequestHandler):
    """``POST /ask``."""

    def do_POST(self) -> None:
        """Answer one question."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(answer(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path, help="folder of corpora")
    parser.add_argument("--port", type=int, default=8765)
    arguments = parser.parse_args()
    ROOT = arguments.corpora
    with ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler) as server:
        sys.stderr.write(f"listening on http://127.0.0.1:{arguments.port}/ask\n")
        server.serve_forever()
