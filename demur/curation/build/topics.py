"""Topics before and after curation: does filtering change what a benchmark is about?

VLM-DeflectionBench, appendix C and Fig. 4, compares the distributions by eye; here each topic's retention has an
interval, and the whole comparison a test. Topics are the source's own (`Sample.topic`), or are found in the questions
by BERTopic over sentence embeddings. Their names are their characteristic words, or come from a model that sees ten
representative questions of each topic with their query images.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import importing
from demur.core.records import ImageRef, Record, Sample
from demur.core.stats import wilson
from demur.core.strict_json import parsed_json
from demur.core.text import plain
from demur.core.vision_ops import ensure_torchvision
from demur.curation.build.recipe import BuildRecipe

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.scenarios.systems.model import ModelSystem

REPRESENTATIVES = 10
"""Questions of a topic that a model names it by (appendix C)."""
NAMING = "topic-name.v1.md"
"""File in ``prompts``."""


class TopicRow(Record):
    """One topic."""

    topic: str
    before: int
    """Samples in the pool."""
    after: int
    """Samples in the release."""
    retained: float
    """after / before, in [0, 1]."""
    low: float
    """Wilson's 95 % interval of it."""
    high: float
    description: str = ""
    """By the model that named it."""


class TopicName(NamedTuple):
    """A topic's name, by a model."""

    name: str
    description: str


class Drift(Record):
    """A comparison of the topics of a pool with those of the samples kept from it."""

    by: str
    """Origin of the topics: ``source``, ``bertopic``."""
    named_by: str = ""
    """The model that named them; "" if their words do."""
    unnamed: int = 0
    """Topics that it gave no name; their words name them."""
    rows: tuple[TopicRow, ...]
    largest_change: float
    """Largest change of any topic's share, in percentage points."""
    chi_square: float
    """Pearson's, of kept and dropped by topic; 0 when all or none were kept."""
    freedom: int
    p: float
    """Permutation p-value: share of random choices that change the distribution at least as much."""
    draws: int


def compare_topics(
    topics: Sequence[str], is_kept: Sequence[bool], *, by: str, draws: int = 5000, seed: int = 0
) -> Drift:
    """Compare the topics of a pool with those of the samples kept from it.

    The statistic is Pearson's chi-square of the table topic x (kept, dropped): with n samples of which m are kept, n /
    (n - m) times the sum over the kept alone, because both columns deviate by the same number.

    Args:
        topics: n, of the pool.
        is_kept: n, whether each sample is kept.
        draws: random choices of m samples, for the p-value (the exact null: multivariate hypergeometric).

    Raises:
        ValueError: the lengths differ, or the pool is empty.
    """
    import numpy as np

    before = Counter(topics)
    after = Counter(t for t, k in zip(topics, is_kept, strict=True) if k)
    n, m = len(topics), sum(is_kept)
    if not n:
        raise ValueError("the pool is empty")
    names = sorted(before, key=lambda t: (-before[t], t))
    counts = np.array([before[t] for t in names], dtype=np.int64)
    expected = counts * (m / n)

    def distance(kept_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        if not 0 < m < n:
            return np.zeros(kept_counts.shape[:-1])
        distances: npt.NDArray[np.float64] = (
            n / (n - m) * (np.square(kept_counts - expected) / expected).sum(axis=-1)
        )
        return distances

    chi_square = float(distance(np.array([after[t] for t in names])))
    at_random = distance(
        np.random.default_rng(seed).multivariate_hypergeometric(counts, m, size=draws)
    )
    reached = int((at_random >= chi_square - 1e-9).sum())
    rows = []
    for name in names:
        low, high = wilson(after[name], before[name]) or (0.0, 1.0)
        rows.append(
            TopicRow(
                topic=name,
                before=before[name],
                after=after[name],
                retained=round(after[name] / before[name], 6),
                low=round(low, 6),
                high=round(high, 6),
            )
        )
    change = max((abs(after[t] / m - before[t] / n) for t in names), default=0.0) if m else 0.0
    return Drift(
        by=by,
        rows=tuple(rows),
        largest_change=round(100 * change, 4),
        chi_square=round(chi_square, 6),
        freedom=len(names) - 1,
        p=round((1 + reached) / (1 + draws), 6),
        draws=draws,
    )


def representatives(
    topics: Sequence[str],
    questions: Sequence[str],
    vectors: npt.NDArray[np.float32],
    *,
    most: int = REPRESENTATIVES,
) -> dict[str, list[int]]:
    """Topic -> indices of the different questions nearest to its centre (cosine), nearest first.

    Args:
        topics: n, the topic of each question.
        questions: n of them.
        vectors: (n, d) float32, rows of length 1.
    """
    import numpy as np

    places: dict[str, list[int]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for index, (topic, question) in enumerate(zip(topics, questions, strict=True)):
        if (topic, question) not in seen:
            seen.add((topic, question))
            places[topic].append(index)
    nearest = {}
    for topic, indices in sorted(places.items()):
        points = vectors[indices].astype(np.float64)
        near = np.round(
            points @ points.mean(axis=0), 9
        )  # rounded, so that ties are ties on every machine
        nearest[topic] = [
            indices[i]
            for i in sorted(range(len(indices)), key=lambda i: (-near[i], questions[indices[i]]))
        ][:most]
    return nearest


@cache
def naming_prompt() -> str:
    """The prompt that asks for a name."""
    return (
        files("demur.curation.build")
        .joinpath("prompts", NAMING)
        .read_text(encoding="utf-8")
        .strip()
    )


def read_name(reply: str) -> TopicName | None:
    """The name in a model's reply; None if there is none.

    >>> read_name('Sure! {"name": "Bird Anatomy", "description": "Parts of birds."}')
    TopicName(name='Bird Anatomy', description='Parts of birds.')
    >>> read_name("I would call it birds.") is None
    True
    """
    for match in re.finditer(r"\{[^{}]{1,2000}\}", reply[:20_000]):
        try:
            stated = parsed_json(match[0])
        except ValueError:
            continue
        name, description = stated.get("name"), stated.get("description", "")
        if isinstance(name, str) and isinstance(description, str) and plain(name):
            return TopicName(plain(name)[:60], plain(description)[:240])
    return None


def rename_topics(topics: Sequence[str], names: Mapping[str, TopicName]) -> list[str]:
    """Rename topics; equal names are numbered, a topic without a name keeps its words."""
    called: dict[str, str] = {}
    uses: Counter[str] = Counter()
    for topic in sorted(set(topics)):
        name = names[topic].name if topic in names else topic
        uses[name] += 1
        called[topic] = name if uses[name] == 1 else f"{name} ({uses[name]})"
    return [called[topic] for topic in topics]


BERTOPIC_LEAST = 16
"""Fewest different questions for BERTopic: UMAP uses fifteen neighbours of each."""


def need_bertopic() -> tuple[Any, Any]:
    """The classes BERTopic and UMAP; a build asks for them before its first paid call.

    Raises:
        MissingExtra: they are not installed.
    """
    with importing("topics by BERTopic", extra="topics"):
        ensure_torchvision()  # bertopic may import sentence-transformers, which imports torchvision
        from bertopic import BERTopic
        from umap import UMAP
    return BERTopic, UMAP


def bertopics(
    questions: Sequence[str], vectors: npt.NDArray[np.float32], *, seed: int = 0
) -> list[str]:
    """A topic for each question, by BERTopic (UMAP, HDBSCAN, class-based tf-idf) over the given embeddings.

    Fewer than `BERTOPIC_LEAST` different questions are one topic.

    Raises:
        MissingExtra: BERTopic is not installed.
    """
    BERTopic, UMAP = need_bertopic()
    if len(set(questions)) < BERTOPIC_LEAST:
        return ["all"] * len(questions)
    model = BERTopic(
        umap_model=UMAP(random_state=seed, metric="cosine"), calculate_probabilities=False
    )
    labels, _ = model.fit_transform(list(questions), embeddings=vectors)
    names = {int(row.Topic): str(row.Name) for row in model.get_topic_info().itertuples()}
    return [names[int(label)] for label in labels]


# --- the topics of a build ------------------------------------------------------------------------

TRIES = 2
"""Replies of a model that are tried for one name; then the topic keeps its words."""


async def compare_all_topics(
    recipe: BuildRecipe,
    samples: Sequence[Sample],
    is_kept: Sequence[bool],
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]],
    namer: ModelSystem | None = None,
) -> list[Drift]:
    """Compare the topics of a pool with those of the samples kept: the source's own, then those of the questions.

    Args:
        samples: n, the pool.
        is_kept: n, whether each is kept.
        embed: embeds questions: (n, d) float32, rows of length 1; not called with ``topics: none``.
        namer: names the topics found; None names them by their words.

    Raises:
        MissingExtra: BERTopic is not installed.
        CallError: the namer cannot be reached.
    """
    comparisons: list[Drift] = []
    if any(s.topic for s in samples):
        comparisons.append(
            compare_topics(
                [s.topic or "(none)" for s in samples], is_kept, by="source", seed=recipe.seed
            )
        )
    if recipe.topics == "none":
        return comparisons
    questions = [s.question for s in samples]
    vectors = await asyncio.to_thread(embed, questions)
    topics = await asyncio.to_thread(bertopics, questions, vectors, seed=recipe.seed)
    origin = recipe.topics
    if namer is None:
        return [*comparisons, compare_topics(topics, is_kept, by=origin, seed=recipe.seed)]
    names = await name_topics(samples, topics, vectors, namer)
    kinds = {topic: name for topic, name in names.items() if name is not None}
    called = rename_topics(topics, kinds)
    question_drift = compare_topics(called, is_kept, by=origin, seed=recipe.seed)
    about = {
        new: kinds[old].description for old, new in zip(topics, called, strict=True) if old in kinds
    }
    rows = tuple(
        row.model_copy(update={"description": about.get(row.topic, "")})
        for row in question_drift.rows
    )
    by_whom = {"named_by": namer.id, "unnamed": sum(name is None for name in names.values())}
    return [*comparisons, question_drift.model_copy(update={"rows": rows, **by_whom})]


async def name_topics(
    samples: Sequence[Sample],
    topics: Sequence[str],
    vectors: npt.NDArray[np.float32],
    namer: ModelSystem,
) -> dict[str, TopicName | None]:
    """Ask a model for a name of each topic; its ledger keeps the replies.

    Args:
        topics: n, the topic of each sample.
        vectors: (n, d) float32, the questions' embeddings, rows of length 1.
        namer: sees query images too, unless it takes none.

    Returns:
        Topic -> its name; None if no reply had one.
    """
    questions = [s.question for s in samples]

    async def name_topic(topic: str, places: Sequence[int]) -> tuple[str, TopicName | None]:
        parts: list[str | ImageRef] = [f"{naming_prompt()}\n\n"]
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

    places_of_topic: Mapping[str, Sequence[int]] = representatives(topics, questions, vectors)
    return dict(
        await asyncio.gather(
            *(name_topic(topic, places) for topic, places in places_of_topic.items())
        )
    )
