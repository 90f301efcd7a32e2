"""The local engine: embedding in this process, and in one aside once items have ended it.

A decoder that crashes ends its process without a word, and so does the system where memory is short. What Python itself
ends, Ctrl-C and errors included, takes the lock of its folder away; so a lock that is left tells of such an end, by
``kill -9`` too. The run that finds one has the shard that was under way made by another process, which this one
watches (`demur.indexing.deaths`), and so the shards from which images were decoded ahead. Where that process ends as
well, it is begun again, until the item is found and left out by name, and everything that follows is made aside too.
Where it does not, the work goes on here. The process aside opens the encoder by its name: its weights are held twice
meanwhile. Where that cannot be, the work goes on here, and this is said.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Thread
from typing import Any

from demur.errors import StorageError
from demur.indexing.deaths import Marks, Tally, WorkerEndedError, ended_its_process, made_in_pieces
from demur.indexing.embed import Embedded, Item, MadeShard, batch_of, embed, make_shard, read_ahead, shard_maker
from demur.indexing.embed import died as died_in
from demur.indexing.encoders import Encoder
from demur.indexing.ivf import build_ivf


class Here:
    """This machine, as `demur.indexing.parts.Engine`."""

    build_ivf = staticmethod(build_ivf)

    def __init__(self) -> None:
        self._deadly = False
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

        ``items`` are pickled, a shard at a time, where they are embedded aside. Their ids must not repeat.
        """
        died = died_in(out)
        with _Aside(encoder, space, workers) as aside:

            def made_aside(runs: Sequence[tuple[int, int]]) -> Iterator[MadeShard]:
                return _watched(items, runs, aside, out.name, died, self._deadly)

            made = embed(
                items, encoder, space, out, shard=shard, workers=workers, progress=progress, distinct=True,
                elsewhere=made_aside if died or self._deadly else None,
            )  # fmt: skip
        self._deadly = self._deadly or any(ended_its_process(why) for _, why in made.errors())
        return made


def _watched(
    items: Sequence[Item], runs: Sequence[tuple[int, int]], aside: _Aside, what: str, died: bool, deadly: bool
) -> Iterator[MadeShard]:
    """The shards of the runs, made aside as long as there is reason to."""
    if not runs:
        return
    tally = Tally()
    first, stop = runs[0]
    if died:
        sys.stderr.write(
            f"{what}: the last run died in items {first} to {stop - 1}: these are now done in a process aside\n"
        )
        tally.begin(runs[0])
        tally.at(runs[0], runs[0])
    if why := aside.opened():
        sys.stderr.write(f"{what}: no process aside can open {aside.encoder.name}: they are done here ({why})\n")
        return
    for run in runs:
        if not deadly and not aside.ended and run[0] > stop + read_ahead(aside.encoder, aside.workers):
            return
        marks = Marks(lambda method, *values: getattr(tally, method)(*values), run)
        own, made = items[slice(*run)], None
        while made is None:
            with suppress(WorkerEndedError), marks.taken():
                made = made_in_pieces(own, batch_of(aside.encoder), marks, aside.made)
        yield made


class _Aside:
    """A process that makes shards, begun again where it ended."""

    def __init__(self, encoder: Encoder, space: str, workers: int) -> None:
        self.encoder, self.space, self.workers = encoder, space, workers
        self.ended = 0
        """How often it ended in the middle of its work."""
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None

    def __enter__(self) -> _Aside:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def opened(self) -> str:
        """Begin the process and have it open the encoder; "" or why it cannot."""
        self._line, its = Pipe()
        # Not by multiprocessing, which runs the caller's script again; in a session where Ctrl-C reaches us alone.
        command = [sys.executable, "-c", _BEGIN, str(its.fileno()), *sys.path]
        try:
            with its:
                self._process = subprocess.Popen(
                    command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
            self._line.send((self.encoder.name, self.encoder.fingerprint(), self.space, self.workers))
            why = str(self._line.recv())
        except (EOFError, OSError):
            why = "it ended"
        if why:
            self._close()
        return why

    def made(self, items: Sequence[Item]) -> MadeShard:
        """The shard of these items.

        Raises:
            WorkerEndedError: the process ended meanwhile.
            StorageError: it ended before, and cannot be begun again.
        """
        why = self.opened() if self._line is None else ""
        if self._line is None:
            raise StorageError(
                f"no process aside can open it any more: {why}", item=self.encoder.name,
                cure="see whether memory is short, run again to go on",
            )  # fmt: skip
        blob = pickle.dumps(items)
        try:
            self._line.send_bytes(blob)
            made: MadeShard | None = self._line.recv()
        except (EOFError, OSError) as error:
            self._close()
            self.ended += 1
            raise WorkerEndedError from error
        if made is None:  # an error: it is to be seen, and here it can be
            return make_shard(items, self.encoder, self.space, role="passage", workers=self.workers)
        return made

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None


_BEGIN = "import sys; sys.path[:] = sys.argv[2:]; from demur.indexing.here import serve; serve(int(sys.argv[1]))"


def serve(line: int) -> None:
    """What the process aside does: it makes shards as long as somebody wants them.

    Args:
        line: file descriptor of its end of the pipe.
    """
    with suppress(OSError):  # where memory is short the system is to choose this process, not the one that watches
        Path("/proc/self/oom_score_adj").write_text("1000")
    Thread(target=_gone_with, args=(line,), daemon=True).start()
    with Connection(line) as watcher, suppress(EOFError, OSError):
        name, fingerprint, space, workers = watcher.recv()
        try:
            make = shard_maker(name, fingerprint, space, role="passage", workers=workers)
        except Exception as error:
            watcher.send(str(error) or type(error).__name__)
            return
        watcher.send("")
        while True:
            items = watcher.recv_bytes()
            made: Any = None
            with suppress(Exception):  # the other side does it again, and shows the error
                made = make(pickle.loads(items))
            watcher.send(made)


def _gone_with(line: int) -> None:
    """End this process with the one that watches it, whatever is under way."""
    end = select.poll()
    end.register(line, 0)  # a hang-up is always told
    end.poll()
    os._exit(1)
