"""Scripted models for MM-AQA's build: called in the place of real ones, by name."""

from __future__ import annotations

import math

from demur.core.records import Request, Response, TextPart, TokenLogprob

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


def sure(request: Request) -> str:
    return "VERDICT: ANSWERABLE\nCONFIDENCE: HIGH\nJUSTIFICATION: it is there"


def doubtful(request: Request) -> str:
    return "VERDICT: UNANSWERABLE\nCONFIDENCE: MEDIUM\nJUSTIFICATION: hidden"


def said(answer: str, confidence: int = 4) -> str:
    return f"EXPLANATION - as it is shown\nFINAL ANSWER - {answer}\nCONFIDENCE - {confidence}"


def answerer(request: Request) -> str | Response:
    """Knows nothing and says so where a clause presses it; whether that is right, it believes to be likely."""
    text = words(request)
    if "yes or no" in text:
        top = (("yes", math.log(0.6)), ("no", math.log(0.2)))
        return Response(
            text="yes", logprobs=(TokenLogprob(token="yes", logprob=math.log(0.6), top=top),)
        )
    if "verifier in a team" in text:
        return ruling(request)
    if request.draw % 3 == 2:
        return said("a tulip")
    sure = "serious harm" in text or "take stock" in text
    return said("I Don't Know", 1) if sure else said("a rose", 2 + len(text) % 4)


def ruling(request: Request) -> str:
    """Asks for a revision wherever it is asked, also where it must not; but is content with a second answer."""
    text = words(request)
    if "NON_FINAL" in text.rpartition("$mode")[2].split("ITERATION_STAGE")[-1][:14]:
        return "DECISION: REQUEST_REVISION\nEXPLANATION: vague\nFEEDBACK: look at the left half"
    return "DECISION: REQUEST_REVISION\nEXPLANATION: still vague\nFEEDBACK: look again"


asked: list[str] = []


def refuses(request: Request) -> str:
    """Rewrites nothing that passes a gate; keeps what it was asked."""
    asked.append(words(request))
    return "No."
