"""Models that name topics, for tests."""

from __future__ import annotations

import json

SEEN: list[str] = []


def namer(request):
    """A model: names by what it is shown; the second time it is asked the same, it babbles no more."""
    text = "".join(p.text for p in request.messages[0].parts if p.type == "text")
    SEEN.append(text)
    pictures = sum(p.type == "image" for p in request.messages[0].parts)
    if "photo" in text and not request.draw:
        return "I think that these are about photos."
    kind = "Photographed Towns" if "photo" in text else "Mayors"
    return "Here: " + json.dumps(
        {"name": kind, "description": f"Who governs a town; {pictures} pictures | <b>."}
    )


def mute(request):
    """A model that never gives a name."""
    return "It is hard to say."
