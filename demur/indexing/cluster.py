"""The same files from many machines: embedding, index shards and exact search on Ray.

The engine hands out shards, and Ray does a shard again when its node is lost. Every shard is what one machine would
have made of the same rows, and shards are joined in order on the driver's disk: the folder that comes out is, byte for
byte, the local one (fast-scan lists aside, see `demur.indexing.ivf`). Nodes need demur, the encoder's weights, and a
file system shared with the driver.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.errors import MissingExtra, StorageError, UsageError
from demur.indexing import ivf
from demur.indexing.embed import Embedded, Item, MadeShard, embed, make_shard
from demur.indexing.encoders import Encoder, Role, open_encoder
from demur.indexing.exact import Floats, Found, exact_top, merge

T = TypeVar("T")

_OPENED: dict[str, Encoder] = {}
"""Encoders that this worker process has opened."""


def _embed_shard(items: list[Item], name: str, fingerprint: str, space: str, role: Role, workers: int) -> MadeShard:
    """On a node: one shard, by an encoder opened once per process."""
    if name not in _OPENED:
        _OPENED[name] = open_encoder(name, allow_random=True)  # the fingerprint decides
    if _OPENED[name].fingerprint() != fingerprint:
        raise UsageError("the node's weights differ from the driver's", item=name, cure="install the same everywhere")
    return make_shard(items, _OPENED[name], space, role=role, workers=workers)


def _add_shard(trained: str, vectors: str, centroids: Floats, first: int, stop: int, out: str) -> str:
    """On a node: the lists of one run of rows."""
    index = ivf.read_faiss(Path(trained), mapped=False)
    ivf.add(index, np.load(vectors, mmap_mode="r"), centroids, first, stop)
    ivf.write_faiss(index, Path(out))
    return out


def _search_shard(vectors: str, queries: Floats, k: int, first: int, stop: int, largest_norm: float) -> Found:
    """On a node: the exact first k of one run of rows, as rows of the whole."""
    mapped = np.load(vectors, mmap_mode="r")[first:stop]
    found = exact_top(np.array(queries), mapped, k, largest_norm=largest_norm)
    return Found(found.scores, found.rows + first)


class RayEngine:
    """Work on a Ray cluster.

    Args:
        address: of the cluster; None takes the one that runs, or starts one on this machine.
        shard: items embedded by one task.
        rows: vectors indexed or searched by one task; a multiple of `demur.indexing.ivf.ADD_BLOCK`.
        gpus: GPUs that one embedding task takes.
        retries: how often a shard is done again when its node or worker dies.

    Raises:
        MissingExtra: Ray is not installed.
        StorageError: the cluster cannot be reached.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        shard: int = 8192,
        rows: int = 16 * ivf.ADD_BLOCK,
        gpus: float = 0,
        retries: int = 5,
    ) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingExtra("--engine ray", extra="ray", module="ray") from error
        if rows % ivf.ADD_BLOCK:
            raise UsageError(f"rows={rows} is no multiple of {ivf.ADD_BLOCK}", cure="leave it out")
        self._ray: Any = ray
        self.shard, self.rows, self.gpus, self.retries = shard, rows, gpus, retries
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=False, configure_logging=False)
            except (ConnectionError, RuntimeError, ValueError) as error:
                why = (str(error).splitlines() or ["no answer"])[0]
                raise StorageError(
                    f"no Ray cluster: {why}", item=address or "ray", cure="start one with 'ray start --head'"
                ) from error

    def embed(
        self,
        items: Iterable[Item],
        encoder: Encoder,
        space: str,
        out: Path,
        *,
        role: Role = "passage",
        workers: int = 2,
        progress: bool = False,
    ) -> Embedded:
        """As `demur.indexing.embed.embed`, its shards made on the cluster; ids must not repeat."""
        name, fingerprint = encoder.name, encoder.fingerprint()

        def elsewhere(shards: Iterator[list[Item]]) -> Iterator[MadeShard]:
            calls = ((held, name, fingerprint, space, role, workers) for held in shards)
            return self._in_order(_embed_shard, calls, gpus=self.gpus)

        return embed(
            items,
            encoder,
            space,
            out,
            role=role,
            shard=self.shard,
            workers=workers,
            progress=progress,
            elsewhere=elsewhere,
        )

    def build_ivf(self, kind: ivf.Kind, vectors: NDArray[np.float32], path: Path) -> dict[str, Any]:
        """As `demur.indexing.ivf.build_ivf`: trained here, filled on the cluster, merged on disk."""
        centroids = ivf.train_centroids(vectors, ivf.lists_for(len(vectors)))
        beside = str((path.parent / "vectors.npy").absolute())
        with tempfile.TemporaryDirectory(dir=path.parent) as held:
            trained = Path(held).absolute() / "trained.faiss"
            ivf.write_faiss(ivf.empty_ivf(kind, vectors, centroids), trained)
            calls = (
                (str(trained), beside, centroids, first, stop, f"{trained.parent}/{first}.faiss")
                for first, stop in self._cuts(len(vectors))
            )
            parts = [Path(part) for part in self._in_order(_add_shard, calls)]
            ivf.merge_ivf(parts, path)
        return ivf.ivf_entry(kind, len(centroids))

    def search(self, vectors: Path, queries: Floats, k: int, *, count: int, largest_norm: float) -> Found:
        """The exact first k over ``vectors.npy`` of ``count`` rows, run by run on the cluster, then merged."""
        shared = self._ray.put(queries)
        calls = ((str(vectors.absolute()), shared, k, first, stop, largest_norm) for first, stop in self._cuts(count))
        return merge(list(self._in_order(_search_shard, calls)), k)

    def _cuts(self, count: int) -> list[tuple[int, int]]:
        return [(first, min(first + self.rows, count)) for first in range(0, count, self.rows)]

    def _in_order(self, work: Callable[..., T], calls: Iterable[Sequence[Any]], *, gpus: float = 0) -> Iterator[T]:
        """Results in the order of the calls, with no more under way than keep the cluster busy."""
        task = self._ray.remote(num_gpus=gpus, max_retries=self.retries)(work)
        most = 2 * max(1, int(self._ray.cluster_resources().get("CPU", os.cpu_count() or 1)))
        waiting: deque[Any] = deque()
        for call in calls:
            waiting.append(task.remote(*call))
            if len(waiting) >= most:
                yield self._result(waiting.popleft())
        while waiting:
            yield self._result(waiting.popleft())

    def _result(self, reference: Any) -> Any:
        from ray import exceptions

        try:
            return self._ray.get(reference)
        except exceptions.RayTaskError as error:  # what went wrong on the node, as it was raised there
            raise error.cause from error
        except exceptions.RayError as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise StorageError(
                f"a shard was lost {self.retries} times: {why}",
                item="ray",
                cure="look at the cluster, run again to go on",
            ) from error
