"""The faiss that is installed, and vectors in the memory of GPUs, where they stay between searches.

Vectors are cut into as many runs as there are cards, by the room on each. What does not fit on all cards together is
searched in rounds: each holds as many rows as fit, and the vectors are sent once for each call. Cards propose, in
float32; `demur.indexing.exact` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib import metadata
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import StorageError, UsageError, importing

SPARE = 4 << 30
"""Bytes of a card that are left for faiss's own buffers (1.5 GiB) and for an encoder's batches."""
MOST = 2048
"""Most neighbours that faiss finds on a GPU."""
PACKAGES = ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12", "faiss-gpu-cuvs")
"""Distributions of the module ``faiss``: of two in one folder, each has overwritten files of the other."""


@cache
def load_faiss() -> Any:
    """The module ``faiss``.

    Raises:
        MissingExtra: it is not installed.
        UsageError: two distributions of it are installed in one folder.
    """
    with importing("an index of vectors", extra="cpu|gpu"):
        import faiss

    folder = str(Path(faiss.__file__).parents[1])
    there = [name for name in PACKAGES if any(metadata.distributions(name=name, path=[folder]))]
    if len(there) > 1:
        raise UsageError(
            f"{' and '.join(there)} have overwritten each other's files",
            item=folder,
            cure=f"pip uninstall {' '.join(there)}; then pip install 'demur[gpu]' or 'demur[cpu]'",
        )
    return faiss


class Card:
    """One GPU. What faiss does there, one thread does: its resources are not made for several."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._resources = load_faiss().StandardGpuResources()
        self._thread = ThreadPoolExecutor(1)

    def room(self) -> int:
        """Bytes that vectors may take now."""
        with importing("free memory of a GPU", extra="gpu", module="torch"):
            import torch

        return max(0, int(torch.cuda.mem_get_info(self._number)[0]) - SPARE)

    def start(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Let the card's thread do something.

        Raises:
            StorageError: faiss cannot, as when another process has taken the card's memory; from the result.
        """
        return self._thread.submit(self._do, work, *arguments)

    def _do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except RuntimeError as error:
            why = (str(error).splitlines() or ["no reason given"])[0]
            raise StorageError(
                f"faiss cannot use it: {why}",
                item=f"GPU {self._number}",
                cure="free its memory, or hide it: CUDA_VISIBLE_DEVICES=''",
            ) from error

    def hold(self, vectors: NDArray[np.float32]) -> Any:
        """A flat index of the vectors, sent to the card."""
        faiss = load_faiss()
        config = faiss.GpuIndexFlatConfig()
        config.device = self._number
        index = faiss.GpuIndexFlat(
            self._resources, vectors.shape[1], faiss.METRIC_INNER_PRODUCT, config
        )
        index.add(vectors)
        return index


@cache
def cards() -> tuple[Card, ...]:
    """The GPUs that faiss can use: none with faiss-cpu, and with faiss-gpu on a machine that has none."""
    return tuple(map(Card, range(load_faiss().get_num_gpus())))


class Held:
    """Vectors in the memory of cards, a run of rows on each.

    Args:
        vectors: (n, d) float32.
        rooms: (card, bytes that it has for them) of each; together they have enough.
    """

    def __init__(self, vectors: NDArray[np.float32], rooms: Sequence[tuple[Card, int]]) -> None:
        total = sum(room for _, room in rooms)
        ends = [len(vectors) * end // total for end in accumulate((r for _, r in rooms), initial=0)]
        runs = zip((card for card, _ in rooms), pairwise(ends), strict=True)
        sent = [
            (card, first, card.start(card.hold, vectors[first:stop]))
            for card, (first, stop) in runs
            if stop > first
        ]
        self._indexes = [(card, first, index.result()) for card, first, index in sent]

    def nearest(
        self, queries: NDArray[np.float32], k: int
    ) -> list[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Float32 scores and rows of the best k of each card, (Q, at most k) each."""
        waiting = [
            (first, card.start(index.search, queries, min(k, index.ntotal)))
            for card, first, index in self._indexes
        ]
        answers = [(first, answer.result()) for first, answer in waiting]
        return [(scores, rows + first) for first, (scores, rows) in answers]
