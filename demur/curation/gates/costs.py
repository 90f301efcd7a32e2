"""Calls to gates about one sample: as Algorithm 1 makes them, and as the funnel makes them, replayed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from demur.curation.gates.funnel import GateQuery, SampleState, Stage
from demur.curation.gates.rules import Label


def algorithm1_calls(state: SampleState) -> Counter[tuple[str, Stage]]:
    """Calls by gate and stage that Algorithm 1 makes about a sample whose decision is known.

    A gate that cannot be asked makes no call.
    """
    calls: Counter[tuple[str, Stage]] = Counter()
    for stage in Stage:
        for distractor in state.distractors if stage is Stage.DISTRACTOR else ("",):
            labels = state.labels_of(stage, distractor).items()
            calls.update((gate, stage) for gate, label in labels if label is not Label.SKIPPED)
        if not state.passed(stage):
            break
    return calls


def replay(
    state: SampleState,
    known_labels: Mapping[GateQuery, Label],
    guess: Callable[[GateQuery], Label],
    *,
    as_asked: bool = False,
) -> list[GateQuery]:
    """Take a sample through the funnel; the queries that it took, in their order.

    Args:
        state: of the sample; it is told the labels.
        known_labels: labels; where several gates may be asked, the best one whose label is known is asked.
        guess: gives the label of a query that is not known.
        as_asked: of several known labels the first in ``known_labels`` is told, not that of the best gate.
    """
    place_of_query = {query: place for place, query in enumerate(known_labels)} if as_asked else {}
    queries: list[GateQuery] = []
    while wanted_queries := state.wanted():
        for query in wanted_queries:
            options = (query._replace(gate=gate) for gate in state.choices(query, within=math.inf))
            chosen = min(
                (option for option in options if option in known_labels),
                key=lambda q: place_of_query.get(q, 0),
                default=query,
            )
            queries.append(chosen)
            state.tell(chosen, known_labels[chosen] if chosen in known_labels else guess(chosen))
    return queries
