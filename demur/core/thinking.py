"""The answer of a reply without the thoughts that some models leave in it."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)(think|thinking|reasoning|scratchpad)>", re.IGNORECASE)


def visible(text: str) -> str:
    """The answer without the thoughts that some models leave in it; "" when only unfinished thoughts are there.

    >>> visible("<think>Lyon? No.</think> Paris"), visible("<think>Let me see")
    ('Paris', '')
    """
    kept: list[str] = []
    at = 0  # what is before it is kept or cut
    closing: dict[str, list[re.Match[str]]] = {}
    for tag in reversed(tags := list(_TAG.finditer(text))):
        if tag[1]:
            closing.setdefault(tag[2].lower(), []).append(tag)
    for tag in tags:
        ends = closing.get(tag[2].lower(), [])
        while ends and ends[-1].start() < tag.end():
            ends.pop()
        if not tag[1] and tag.start() >= at and ends:
            kept.append(text[at : tag.start()])
            at = ends[-1].end()
    text = "".join(kept) + text[at:]
    left = list(_TAG.finditer(text))
    text = text[max((tag.end() for tag in left if tag[1]), default=0) :]
    opened = _TAG.match(text.lstrip())
    return "" if opened and not opened[1] else text.strip()
