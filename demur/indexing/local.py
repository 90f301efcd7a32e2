"""The local engine: embedding in this process, and in a worker process once a crash has ended it.

What Python itself ends, Ctrl-C and errors included, takes the lock of its folder away; so a lock that is left tells of
a process that crashed or was killed. The run that finds one has the shard that was under way, and the shards from which
images were decoded ahead, made by a worker (`demur.indexing.worker`), which finds the item and leaves it out by name;
everything that follows is then made there too. Where nothing ends the worker, the work goes on here. A second copy of
the weights is held meanwhile; where the worker cannot open the encoder, the work goes on here, and this is said.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from demur.indexing.embed import Elsewhere, Item, batch_of, died, embed, read_ahead
from demur.indexing.encoders import Encoder, fingerprint_of
from demur.indexing.ivf import build_ivf
from demur.indexing.vectors import Embedded, MadeShard
from demur.indexing.worker import Worker, WorkerEndedError, ended_its_process


class LocalEngine:
    """This machine; `demur.indexing.ray.RayEngine` leaves the same files."""

    build_ivf = staticmethod(build_ivf)

    def __init__(self) -> None:
        self._crashes = False
        """Items of this build have ended processes: an image stands in more than one part."""

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
        """As `demur.indexing.embed.embed`; items that end the process are left out by name when it is called again.

        ``items`` are pickled, a shard at a time, where a worker embeds them. Their ids must not repeat.
        """
        elsewhere: Elsewhere | None = None
        about = encoder.name, fingerprint_of(encoder)
        with Worker(about, space, "passage", workers, batch_of(encoder)) as worker:
            if (crashed := died(out)) or self._crashes:
                ahead = read_ahead(encoder, workers)

                def elsewhere(runs: Sequence[tuple[int, int]]) -> Iterator[MadeShard]:
                    return self._made(items, runs, worker, out.name, crashed, ahead)

            made = embed(
                items, encoder, space, out, shard=shard, workers=workers, progress=progress, distinct=True,
                elsewhere=elsewhere,
            )  # fmt: skip
        self._crashes = self._crashes or any(ended_its_process(why) for _, why in made.errors())
        return made

    def _made(
        self,
        items: Sequence[Item],
        runs: Sequence[tuple[int, int]],
        worker: Worker,
        what: str,
        crashed: bool,
        ahead: int,
    ) -> Iterator[MadeShard]:
        """The shards of the runs, made by the worker as long as there is reason to."""
        if not runs:
            return
        first, stop = runs[0]
        if crashed:
            sys.stderr.write(
                f"{what}: the last run died in items {first} to {stop - 1}: a worker process does these now\n"
            )
        try:
            worker.open()
        except (Exception, WorkerEndedError) as error:
            why = str(error) or type(error).__name__
            sys.stderr.write(f"{what}: the worker process cannot open the encoder, they are done here: {why}\n")
            return
        for run in runs:
            if not self._crashes and not worker.ended and run[0] > stop + ahead:
                return
            own = items[slice(*run)]
            yield worker.after_a_crash(own) if crashed and run[0] == first else worker.shard(own)
