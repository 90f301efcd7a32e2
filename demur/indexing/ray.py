"""Embedding, inverted lists and search on many machines, by Ray; files and hits are those of one machine.

    embedding      a pass of Ray Data over runs of items: actors open the encoder once and make one shard of each run
    inverted lists a pass of Ray Data over runs of rows: each run becomes an index file, and the files are merged
    search         actors that stay: each keeps its rows mapped or on its GPU, and their results are merged

One machine would have made the same shard of the same rows, and the driver joins shards in order on its disk, so the
folder has the same bytes. A pass that loses a node is started again with the runs that are missing. Nodes need demur,
the encoder's weights, and a file system that they share with the driver under the same paths. Design:
docs/design/ray.md.
"""

from __future__ import annotations

import logging
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core import plugins
from demur.core.errors import DataError, DemurError, StorageError, UsageError, importing
from demur.core.store import storage_errors
from demur.core.untrusted import trusting
from demur.indexing import ivf
from demur.indexing.bm25 import BM25
from demur.indexing.embed import Item, embed, make_shard
from demur.indexing.encoders import Encoder, fingerprint_of, open_encoder
from demur.indexing.exact import Exact, Floats, Neighbours, merge_shards, pad_to, stack_batches
from demur.indexing.gpu import cards
from demur.indexing.indexes import Dense
from demur.indexing.vectors import Embedded, MadeShard

if TYPE_CHECKING:
    import pyarrow as pa

Run = tuple[int, int]
"""Items or rows from the first to before the second."""
Work = Callable[[Run], Any]
"""What an actor does with a run."""


KNOWN_S = 60.0
"""Seconds for which lost work is always retried: until Ray knows that a node is lost, it puts new work on it, which is
lost too, and on a busy machine this lasts longer than any number of quick retries."""
RETRIES = 5
"""How often lost work is retried without progress."""


# --- what runs on the nodes -----------------------------------------------------------------------


class _Actor:
    """An actor of Ray Data: it opens its work once, and does it for run after run."""

    def __init__(self, opened: Callable[[], Work]) -> None:
        self._work = opened()

    def __call__(self, runs: pa.Table) -> pa.Table:
        import pyarrow as pa

        results = []
        for run in zip(runs["first"].to_pylist(), runs["stop"].to_pylist(), strict=True):
            try:
                results.append(self._work(run))
            except DemurError as error:
                results.append(_portable(error))
        return pa.table(
            {"made": pa.array([pickle.dumps(result) for result in results], pa.large_binary())}
        )


class _Embedding:
    """Embeds runs of items; it opens the encoder with the first, whose error says what is wrong with it."""

    def __init__(
        self,
        items: Sequence[Item],
        name: str,
        fingerprint: str,
        space: str,
        workers: int,
        *,
        runs_code: bool,
    ) -> None:
        self._items, self._name, self._fingerprint = items, name, fingerprint
        self._runs_code = runs_code
        self._space, self._workers = space, workers
        self._encoder: Encoder | None = None
        self._one_at_a_time = Lock()

    def __call__(self, run: Run) -> MadeShard:
        with self._one_at_a_time:
            if self._encoder is None:
                self._encoder = self._opened()
            return make_shard(self._items[slice(*run)], self._encoder, self._space, self._workers)

    def _opened(self) -> Encoder:
        with trusting(code=self._runs_code):  # as the driver has opened it
            encoder = open_encoder(self._name, allow_random=True)  # the fingerprint decides
        if fingerprint_of(encoder) != self._fingerprint:
            raise UsageError(
                "the weights here differ from the driver's",
                item=self._name,
                cure="install the same everywhere",
            )
        return encoder


def _portable(error: DemurError) -> DemurError:
    """The error as it can be sent to another process."""
    kinds: tuple[type[DemurError], ...] = (UsageError, StorageError, DataError, DemurError)
    kind = next(kind for kind in kinds if isinstance(error, kind))
    return kind(error.message, item=error.item, cure=error.cure)


def _open_filling(trained: Path, vectors: Path) -> Work:
    """Write the lists of runs of rows to files."""
    mapped = np.load(vectors, mmap_mode="r")
    return lambda run: ivf.fill(trained, mapped, *run)


class _Opened(NamedTuple):
    """A part of an index that an actor has opened."""

    version: tuple[int, int]
    """The inode of its folder (a new folder of the same path is another index), and its ``nprobe``."""
    part: Any
    runs: dict[Run, Exact]
    """Runs of rows that were searched."""


class _SearchActor:
    """A search actor: it opens parts of indexes when they are first searched.

    Args:
        gpus: what it reserved; without any it sees none, though Ray hides none from it.
    """

    def __init__(self, gpus: float) -> None:
        if not gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._parts: dict[Path, _Opened] = {}

    def search_run(
        self, folder: Path, entry: dict[str, Any], queries: Any, k: int, run: Run | None
    ) -> Neighbours | Exception:
        """The first k of one run of rows, as rows of the whole index; of all rows if the run is None."""
        try:
            with storage_errors(folder):
                version = folder.stat().st_ino, int(entry.get("nprobe", 0))
            if folder not in self._parts or self._parts[folder].version != version:
                kind, _ = plugins.find("indexes", entry["kind"])
                self._parts[folder] = _Opened(version, kind(folder, entry), {})
            _, part, runs = self._parts[folder]
            if run is None:
                answer: Neighbours = part.search(queries, k)
                return answer
            if run not in runs:
                runs[run] = Exact(part.vectors[slice(*run)], float(entry["largest_norm"]))
            neighbours = runs[run].top(np.array(queries), k)
            return Neighbours(neighbours.scores, neighbours.rows + run[0])
        except DemurError as error:
            return _portable(error)


# --- the driver -----------------------------------------------------------------------------------


class RayEngine:
    """Work on a Ray cluster.

    Args:
        address: of the cluster, "auto" for the one that runs on this machine; None takes ``RAY_ADDRESS``, or else
            starts one for this process alone (another's cluster might end in the middle of the work).
        shard: items embedded by one task, for a new folder.
        rows: vectors put into lists by one task.

    Raises:
        MissingExtra: Ray is not installed.
        StorageError: the cluster cannot be reached.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        shard: int = 8192,
        rows: int = 1 << 20,
    ) -> None:
        os.environ.setdefault(
            "RAY_BACKEND_LOG_LEVEL", "fatal"
        )  # Ray's core writes to our standard error
        with importing("--engine ray", extra="ray"):
            import ray
            import ray.data
        for name in ("ray", "ray.data"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is raised
        self._ray: Any = ray
        self.shard, self.rows = shard, rows
        if not ray.is_initialized():
            address = address or os.environ.get("RAY_ADDRESS") or "local"
            try:
                ray.init(
                    address=address,
                    log_to_driver=False,
                    include_dashboard=False,
                    configure_logging=False,
                )
            except Exception as error:
                usual = ConnectionError, RuntimeError, ValueError, TimeoutError
                if not (
                    isinstance(error, usual) or type(error) is Exception
                ):  # a bare one: Ray did not start in time
                    raise
                why = (str(error).splitlines() or ["no answer"])[0]
                raise StorageError(
                    f"no Ray cluster: {why}", item=address, cure="start one with 'ray start --head'"
                ) from error
        self.gpus = min(1.0, self._ray.cluster_resources().get("GPU", 0.0))
        """What an actor takes that embeds, and one that fills lists or searches vectors where faiss uses GPUs."""
        self._actors: dict[float, list[Any]] = {}
        """Search actors by what each takes of a GPU."""

    def embed(
        self,
        items: Sequence[Item],
        encoder: Encoder,
        space: str,
        out: Path,
        *,
        workers: int = 2,
        progress: bool | Callable[[int, int], None] = False,
    ) -> Embedded:
        """As `demur.indexing.embed.embed`, its shards made on the cluster.

        ``items`` is pickled and sent to every actor: give a sequence that reads from the shared disk.
        """
        opened = partial(
            _Embedding,
            items,
            encoder.name,
            fingerprint_of(encoder),
            space,
            workers,
            runs_code=getattr(encoder, "runs_code", True),  # who does not say cannot do without
        )
        return embed(
            items,
            encoder,
            space,
            out,
            shard=self.shard,
            workers=workers,
            progress=progress,
            make_elsewhere=lambda runs: self._results_of_runs(opened, runs, gpus=self.gpus),
        )

    def build_ivf(self, kind: str, vectors: NDArray[np.float32], path: Path) -> dict[str, Any]:
        """As `demur.indexing.ivf.build_ivf`: trained here, filled on the cluster, merged on disk."""
        beside = (path.parent / "vectors.npy").absolute()
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            trained = Path(scratch).absolute() / "trained.faiss"
            entry = ivf.train(kind, vectors, trained)
            runs = [
                (first, min(first + self.rows, len(vectors)))
                for first in range(0, len(vectors), self.rows)
            ]
            ivf.merge_lists(
                trained,
                list(
                    self._results_of_runs(
                        partial(_open_filling, trained, beside), runs, gpus=self._faiss_gpus()
                    )
                ),
                path,
            )
        return entry

    def open_part(self, folder: Path, entry: dict[str, Any]) -> Any:
        """Open a part of an index folder that is searched on the cluster (a third party's kind: in this process)."""
        kind, _ = plugins.find("indexes", entry["kind"])
        opened = {Dense: _RayDense, BM25: _RayLexical}.get(kind)
        return kind(folder, entry) if opened is None else opened(self, folder, entry)

    def search(
        self, folder: Path, entry: dict[str, Any], queries: Floats | Sequence[str], k: int
    ) -> Neighbours:
        """The first k of each query: each actor searches a run of rows of a flat index, else a run of the queries.

        Args:
            entry: of the part in the manifest.
            queries: (Q, d) float32, already checked; or Q texts for BM25.
        """

        def attempt(_: int) -> Iterator[Neighbours]:
            actors = self._search_actors(self._faiss_gpus() if entry["kind"] == "flat" else 0.0)
            yield self._search_once(actors, folder.absolute(), entry, queries, k)

        neighbours: Neighbours = next(self._retry_lost(1, attempt))
        return neighbours

    def _search_once(
        self,
        actors: Sequence[Any],
        path: Path,
        entry: dict[str, Any],
        queries: Floats | Sequence[str],
        k: int,
    ) -> Neighbours:
        if entry["kind"] == "flat":
            shared = self._ray.put(queries)
            runs = _cut_evenly(int(entry["count"]), len(actors))
            return merge_shards(
                self._ask_actors(actors, [(path, entry, shared, k, run) for run in runs]), k
            )
        blocks = [queries[first:stop] for first, stop in _cut_evenly(len(queries), len(actors))]
        return stack_batches(
            self._ask_actors(actors, [(path, entry, block, k, None) for block in blocks])
        )

    def _faiss_gpus(self) -> float:
        return self.gpus if cards() else 0.0

    def _count_slots(self, gpus: float) -> int:
        """How many actors the cluster has room for."""
        has = self._ray.cluster_resources()
        return max(1, int(has.get("GPU", 0.0) / gpus if gpus else has.get("CPU", 1.0)))

    def _results_of_runs(
        self, opened: Callable[[], Work], runs: Sequence[Run], *, gpus: float = 0
    ) -> Iterator[Any]:
        """The result of each run, in their order."""
        if gpus:
            self._actors = {}  # search actors give their GPUs back
        for result in self._retry_lost(
            len(runs), lambda done: self._one_pass(opened, runs[done:], gpus)
        ):
            if isinstance(result, Exception):
                raise result
            yield result

    def _retry_lost(self, count: int, attempt: Callable[[int], Iterator[Any]]) -> Iterator[Any]:
        """That many results; when nodes are lost, another attempt is told how many are there and gives the rest.

        Raises:
            StorageError: `RETRIES` attempts in a row brought nothing, for more than `KNOWN_S` seconds.
        """
        from ray import exceptions

        done, tries, until = 0, 0, 0.0
        while done < count:
            try:
                for result in attempt(done):
                    yield result
                    done, tries = done + 1, 0
            except exceptions.RayTaskError:  # a bug in the program: show it as it is
                raise
            except exceptions.RayError as error:
                self._actors = {}  # the actors that are still alive end with their last references
                tries += 1
                until = until if tries > 1 else time.monotonic() + KNOWN_S
                if tries > RETRIES and time.monotonic() > until:
                    why = (str(error).splitlines() or [type(error).__name__])[0]
                    raise StorageError(
                        f"work was lost {tries} times: {why}",
                        item="ray",
                        cure="check the cluster, and run again to continue",
                    ) from error
                time.sleep(min(0.25 * 2.0**tries, 8.0))

    def _one_pass(
        self, opened: Callable[[], Work], runs: Sequence[Run], gpus: float
    ) -> Iterator[Any]:
        from ray.data import ActorPoolStrategy, from_items

        most = min(self._count_slots(gpus), len(runs))
        rows = [{"first": first, "stop": stop} for first, stop in runs]
        source = from_items(rows, override_num_blocks=len(rows))
        source.context.execution_options.preserve_order = True
        source.context.enable_progress_bars = False
        dataset = source.map_batches(
            _Actor,
            fn_constructor_args=(opened,),
            batch_size=1,
            batch_format="pyarrow",
            # two calls at once: one computes while the results of the other are packed and fetched
            compute=ActorPoolStrategy(
                min_size=1, max_size=most, initial_size=most, max_concurrent_calls_per_actor=2
            ),
            num_cpus=1,
            num_gpus=gpus,
        )
        batches: Iterator[Any] = iter(
            dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1)
        )
        for batch in batches:
            for blob in batch["made"].to_pylist():
                yield pickle.loads(blob)

    def _search_actors(self, gpus: float) -> list[Any]:
        if gpus not in self._actors:
            # They reserve no processor: they wait most of the time, and embedding may need one meanwhile.
            kind = self._ray.remote(num_cpus=0, num_gpus=gpus, scheduling_strategy="SPREAD")
            actor = kind(_SearchActor)
            self._actors[gpus] = [actor.remote(gpus) for _ in range(self._count_slots(gpus))]
        return self._actors[gpus]

    def _ask_actors(
        self, actors: Sequence[Any], calls: Sequence[Sequence[Any]]
    ) -> list[Neighbours]:
        """The results of calls, each to the actor of its place, so that a node keeps the same rows in its memory."""
        waiting = [
            actor.search_run.remote(*call) for actor, call in zip(actors, calls, strict=False)
        ]
        answers: list[Neighbours | Exception] = self._ray.get(waiting)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return [answer for answer in answers if isinstance(answer, Neighbours)]


def _cut_evenly(count: int, most: int) -> list[Run]:
    """0 to count in at most ``most`` runs of nearly equal length, none of them empty."""
    ends = [count * place // most for place in range(most + 1)]
    return [(first, stop) for first, stop in pairwise(ends) if stop > first]


class _RayDense(Dense):
    """A dense part that is searched on a cluster; candidates of single queries are few, and scored in this process."""

    def __init__(self, engine: RayEngine, folder: Path, entry: dict[str, Any]) -> None:
        super().__init__(folder, entry)
        self._engine, self._entry = engine, entry

    def search(self, queries: Floats, k: int) -> Neighbours:
        """As `Dense.search`, with the same hits."""
        queries = self._check_queries(queries, k)
        if not len(queries) or not self.count:
            return super().search(queries, k)
        return pad_to(self._engine.search(self.folder, self._entry, queries, k), k)


class _RayLexical(BM25):
    """BM25 that is searched on a cluster; candidates of single queries are scored in this process."""

    def __init__(self, engine: RayEngine, folder: Path, entry: dict[str, Any]) -> None:
        super().__init__(folder, entry)
        self._cluster, self._entry = engine, entry

    def search(self, texts: Sequence[str], k: int) -> Neighbours:
        """As `BM25.search`, with the same hits."""
        if k < 1 or not texts:
            return super().search(texts, k)
        return self._cluster.search(self.folder, self._entry, texts, k)
