"""P(True): the probability that a model gives to its own answer, read off the tokens of "yes" and "no".

Source: Kadavath et al., "Language Models (Mostly) Know What They Know", 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from demur.core.records import TokenLogprob

ONE_WORD: dict[str, Any] = {
    "max_tokens": 1,
    "temperature": 0.0,
    "logprobs": True,
    "top_logprobs": 20,
}
"""Of the request: one token, and its likeliest candidates; servers that give fewer than 20 give fewer."""
_BLANK = " \n\t\u0120\u2581"


def yes_share(logprobs: Sequence[TokenLogprob]) -> float | None:
    """p(yes) / (p(yes) + p(no)) of the first token that is not blank, over all spellings.

    None without log-probabilities, or where neither word is among the candidates: undefined, never 0.
    """
    first = next((t for t in logprobs if t.token.strip(_BLANK)), None)
    if first is None:
        return None
    mass = {"yes": 0.0, "no": 0.0}
    for token, logprob in dict([(first.token, first.logprob), *first.top]).items():
        word = token.strip(_BLANK + ".,!\"'*").casefold()
        if word in mass and not math.isnan(logprob):
            mass[word] += math.exp(min(logprob, 0.0))
    total = sum(mass.values())
    return mass["yes"] / total if total > 0 else None
