"""CRAG-MM: truthfulness by conversation, with the conversation ended where its user would give up.

Wang et al. 2025 (arXiv:2510.26160) and ``evaluation_utils.calculate_scores`` of its repository: after two turns in a
row that are not right, the rest of a conversation counts as declined, whatever was answered. (The README says two wrong
answers; the code counts declined turns too, and it is the code that gave the published figures.) A conversation's
truthfulness is its share of right turns less its share of wrong ones; the score is the mean over conversations.
"""

from __future__ import annotations

from collections.abc import Sequence

from demur.core.records import Outcome


def until_given_up(turns: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of one conversation, oldest first, as the official score counts them.

    >>> [str(o) for o in until_given_up([Outcome.INCORRECT, Outcome.DEFLECTED, Outcome.CORRECT])]
    ['incorrect', 'deflected', 'deflected']
    """
    for place in range(1, len(turns)):
        if Outcome.CORRECT not in turns[place - 1 : place + 1]:
            rest = len(turns) - place - 1
            return [*turns[: place + 1], *[Outcome.DEFLECTED] * rest]
    return list(turns)


def by_conversation(conversations: Sequence[Sequence[Outcome]]) -> float | None:
    """Mean truthfulness of conversations, in [-1, 1]; None of none.

    >>> by_conversation([[Outcome.CORRECT], [Outcome.INCORRECT] * 2 + [Outcome.CORRECT] * 2])
    0.25
    """
    scores = []
    for turns in map(until_given_up, conversations):
        right, wrong = turns.count(Outcome.CORRECT), turns.count(Outcome.INCORRECT)
        scores.append((right - wrong) / len(turns))
    return sum(scores) / len(scores) if scores else None
