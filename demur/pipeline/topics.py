"""What the questions of a build are about, before and after: topics found, named, compared.

VLM-DeflectionBench, appendix C: questions are clustered, ten representative ones of each cluster are shown to a model
with their query images, and it gives the cluster a name and a description. Without a model a cluster is called by the
words that set it apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from demur.curation.recipe import BuildRecipe
from demur.curation.topics import (
    Drift,
    TopicName,
    bertopics,
    clusters,
    drift,
    instruction,
    named,
    read_name,
    representatives,
)
from demur.records import ImageRef, Sample

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.scenarios.systems.model import ModelSystem

TRIES = 2
"""Replies of a model that are looked at for one name; behind them the words stand."""


async def drifts(
    plan: BuildRecipe,
    samples: Sequence[Sample],
    kept: Sequence[bool],
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]],
    namer: ModelSystem | None = None,
) -> list[Drift]:
    """The topics of a pool against those of the samples kept: the source's own, then those found in the questions.

    Args:
        plan: says how topics are found.
        samples: n, the pool.
        kept: n, whether each stayed.
        embed: embeds questions: (n, d) float32, rows of length 1; not called with ``topics: none``.
        namer: names the topics found; None for their words.

    Raises:
        MissingExtra: BERTopic is wanted and not installed.
        CallError: the namer cannot be reached at all.
    """
    found: list[Drift] = []
    if any(s.topic for s in samples):
        found.append(drift([s.topic or "(none)" for s in samples], kept, by="source", seed=plan.seed))
    if plan.topics == "none":
        return found
    questions = [s.question for s in samples]
    vectors = await asyncio.to_thread(embed, questions)
    if plan.topics == "bertopic":
        topics = await asyncio.to_thread(bertopics, questions, vectors, seed=plan.seed)
        by = "bertopic"
    else:
        topics = await asyncio.to_thread(clusters, questions, vectors, seed=plan.seed)
        by = f"kmeans(k={len(set(topics))})"
    if namer is None:
        return [*found, drift(topics, kept, by=by, seed=plan.seed)]
    names = await name_topics(samples, topics, vectors, namer)
    kinds = {topic: name for topic, name in names.items() if name is not None}
    called = named(topics, kinds)
    said = drift(called, kept, by=by, seed=plan.seed)
    about = {new: kinds[old].description for old, new in zip(topics, called, strict=True) if old in kinds}
    rows = tuple(row.model_copy(update={"description": about.get(row.topic, "")}) for row in said.rows)
    by_whom = {"named_by": namer.id, "unnamed": sum(name is None for name in names.values())}
    return [*found, said.model_copy(update={"rows": rows, **by_whom})]


async def name_topics(
    samples: Sequence[Sample], topics: Sequence[str], vectors: npt.NDArray[np.float32], namer: ModelSystem
) -> dict[str, TopicName | None]:
    """Ask a model what each topic is about; replies are kept in its ledger.

    Args:
        samples: n.
        topics: n, the topic of each.
        vectors: (n, d) float32, the questions' embeddings, rows of length 1.
        namer: asked; it is shown query images unless it takes none.

    Returns:
        Topic -> its name; None where the model gave none that can be read.
    """
    questions = [s.question for s in samples]

    async def one(topic: str, places: Sequence[int]) -> tuple[str, TopicName | None]:
        parts: list[str | ImageRef] = [f"{instruction()}\n\n"]
        for number, at in enumerate(places, 1):
            parts.append(f"{number}. {questions[at]}\n")
            if namer.layout.images != "none":
                parts += samples[at].images[:1]
        for draw in range(TRIES):
            reply = await namer.complete(parts, f"topic {topic}", draw)
            name = None if reply.error else read_name(reply.text)
            if name is not None:
                return topic, name
        return topic, None

    shown: Mapping[str, Sequence[int]] = representatives(topics, questions, vectors)
    return dict(await asyncio.gather(*(one(topic, places) for topic, places in shown.items())))
