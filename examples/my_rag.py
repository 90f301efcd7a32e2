"""A RAG system of your own, as demur asks it.

    $ demur run demo-out/release --system python:examples.my_rag:answer --limit 20

The function gets one dict per question and returns the answer, or a dict with ``answer`` and ``confidence``.
What it raises is recorded on that question and ends nothing. It is called from one thread, one question after
another; ``answer.concurrency = 8`` says that eight threads may. Its answers are kept for this code: edit it, and it is
asked again.
"""

from __future__ import annotations

from typing import Any


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """Answer from the passage that shares most words with the question; decline when none does.

    Args:
        given: ``question`` (str), ``images`` (list of bytes), ``choices``, and ``evidence``: a list of dicts with
            ``title``, ``text`` (None for an image) and ``image`` (bytes or None), in the order shown.
    """
    asked = {w.strip("?.,").lower() for w in given["question"].split() if len(w) > 3}

    def shared(text: str) -> int:
        return len(asked & {w.strip("?.,;:").lower() for w in text.split()})

    sentences = [s for e in given["evidence"] if e["text"] for s in e["text"].split(". ")]
    best = max(sentences, key=shared, default="")
    if shared(best) < 2:
        return {"answer": "I cannot answer this from the evidence.", "confidence": 0.1}
    return {
        "answer": best.partition(": ")[2] or best,
        "confidence": min(1.0, shared(best) / len(asked)),
    }
