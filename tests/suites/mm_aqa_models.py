"""Scripted models for MM-AQA's build: called in the place of real ones, by name."""

from __future__ import annotations

from demur.core.records import Request, TextPart

REWRITTEN = "Which tower here was green?"


def words(request: Request) -> str:
    return " ".join(p.text for m in request.messages for p in m.parts if isinstance(p, TextPart))


def rewriter(request: Request) -> str:
    said = words(request)
    if "LEVEL:" in said:
        return "LEVEL: PARTIAL"
    return "a later revision gives the opposite of this" if "Note:" in said else REWRITTEN


def strict(request: Request) -> str:
    """Says that any rewritten question can be answered."""
    word = "ANSWERABLE" if REWRITTEN in words(request) else "UNANSWERABLE"
    return f"VERDICT: {word}\nCONFIDENCE: HIGH\nJUSTIFICATION: it is so"


def lenient(request: Request) -> str:
    return "VERDICT: ANSWERABLE\nCONFIDENCE: LOW\nJUSTIFICATION: perhaps"


def doubtful(request: Request) -> str:
    return "VERDICT: UNANSWERABLE\nCONFIDENCE: MEDIUM\nJUSTIFICATION: hidden"
