"""The local engine: embedding in this process, and in a worker process after a crash.

Whatever Python itself ends (errors and Ctrl-C included) removes the lock of its folder. So a lock that is left behind
means that a process crashed or was killed. The run that finds one has a worker (`demur.indexing.worker`) make the shard
that was in progress, and the shards from which images were decoded ahead: the worker finds the item that crashes, and
leaves it out by name. If an item crashed the worker, it makes all later shards too; else this process takes over again.
A second copy of the weights is held meanwhile. If the worker cannot open the encoder, this process does the work, and
says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from demur.indexing.embed import Item, ShardMaker, batch_of, embed, has_crashed, read_ahead
from demur.indexing.encoders import Encoder, fingerprint_of
from demur.indexing.ivf import build_ivf
from demur.indexing.vectors import Embedded, MadeShard
from demur.indexing.worker import Worker, WorkerCrashedError, crashed_its_process


class LocalEngine:
    """This machine; `demur.indexing.ray.RayEngine` leaves the same files."""

    build_ivf = staticmethod(build_ivf)

    def __init__(self) -> None:
        self._crashes = False
        """Items of this build have crashed processes: an image is in more than one part."""

    def embed(
        self,
        items: Sequence[Item],
        encoder: Encoder,
        space: str,
        out: Path,
        *,
        workers: int,
        progress: bool | Callable[[int, int], None],
        shard: int = 8192,
    ) -> Embedded:
        """As `demur.indexing.embed.embed`; called again, it leaves out by name the items that crash the process.

        A worker is sent ``items`` pickled, a shard at a time.
        """
        make_elsewhere: ShardMaker | None = None
        about = encoder.name, fingerprint_of(encoder)
        with Worker(about, space, "passage", workers, batch_of(encoder)) as worker:
            if (after_crash := has_crashed(out)) or self._crashes:
                ahead = read_ahead(encoder, workers)

                def make_elsewhere(runs: Sequence[tuple[int, int]]) -> Iterator[MadeShard]:
                    return self._by_worker(items, runs, worker, out.name, after_crash, ahead)

            embedded = embed(
                items,
                encoder,
                space,
                out,
                shard=shard,
                workers=workers,
                progress=progress,
                make_elsewhere=make_elsewhere,
            )
        self._crashes = self._crashes or any(
            crashed_its_process(why) for _, why in embedded.errors()
        )
        return embedded

    def _by_worker(
        self,
        items: Sequence[Item],
        runs: Sequence[tuple[int, int]],
        worker: Worker,
        folder_name: str,
        after_crash: bool,
        ahead: int,
    ) -> Iterator[MadeShard]:
        """The shards of the runs, as long as there is reason to have the worker make them."""
        if not runs:
            return
        first, stop = runs[0]
        if after_crash:
            sys.stderr.write(
                f"{folder_name}: the last run crashed in items {first} to {stop - 1}: a worker embeds these now\n"
            )
        try:
            worker.open()
        except (Exception, WorkerCrashedError) as error:
            why = str(error) or type(error).__name__
            sys.stderr.write(
                f"{folder_name}: the worker cannot open the encoder, so this process embeds them: {why}\n"
            )
            return
        for run in runs:
            if not self._crashes and not worker.crashes and run[0] > stop + ahead:
                return
            yield worker.shard(items[slice(*run)], crashed_before=after_crash and run[0] == first)
