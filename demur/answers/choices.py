"""Multiple choice: the right options, and the options that a reply states by letter or by text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

from demur.answers.assertion import denied
from demur.answers.spans import Span, spans
from demur.answers.text import normalise, readable
from demur.core.records import AnswerSpec


def right_labels(spec: AnswerSpec) -> set[str]:
    """Labels of the options that an accepted form names by its text, else by its label."""
    right = {normalise(p) for form in spec.accepted for p in form}
    by_text = {label for label, text in spec.choices if normalise(text) in right}
    return by_text or {label for label, _ in spec.choices if normalise(label) in right}


def stated_options(spec: AnswerSpec, text: str) -> dict[str, str]:
    """The options that a text states: label -> "letter" or "text"."""
    labels = {normalise(label): label for label, _ in spec.choices}
    plain = readable(text).strip()
    said: dict[str, str] = {}
    alone = labels.get(normalise(plain))
    if alone:
        said[alone] = "letter"
    either = "|".join(re.escape(readable(label)) for label, _ in spec.choices)
    for pattern in (
        rf"\(({either})\)", rf"(?:^|\n)\W{{0,3}}({either})(?:[.):]|\*\*|$|\n)",
        rf"\b(?i:option|choice|answer|letter)(?: is)?:?\W{{0,3}}({either})(?![^\W_])",
    ):  # fmt: skip
        for found in re.finditer(pattern, plain):
            said[labels[normalise(found.group(1))]] = "letter"
    texts: dict[str, list[Span]] = {}
    for label, option in spec.choices:
        places = [s for s in spans(spec, option, plain, bare=True, kind="string") if not denied(plain, s)]
        if places:
            texts[label] = places
    for label, places in texts.items():  # "red fox" states one option, not also "fox"
        others = sorted(s for o in texts if o != label for s in texts[o])
        starts = [start for start, _ in others]
        reach = list(accumulate((end for _, end in others), max))
        for start, end in places:
            before, upto = bisect_left(starts, start), bisect_right(starts, start)
            if not (before and reach[before - 1] >= end) and not (upto > before and others[upto - 1][1] > end):
                said.setdefault(label, "text")
                break
    return said
