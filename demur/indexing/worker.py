"""A worker process that embeds: what ends it is found, left out and named, and the run goes on.

A decoder that crashes or a batch that takes all memory leaves no exception behind. So the work is done in a process of
its own, and where that ends, less and less is tried at once in a new one:

    the shard as a whole -> its batches, which start where they did, so that their rows are the same -> single items

An item that was under way when it ended for the third time, alone at last, is left out by name. A model that cannot be
opened, and `IN_A_ROW` ends with nothing done between them, end the run with an error.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Lock, Thread

from demur.core.errors import DataError, DemurError, StorageError, UsageError
from demur.core.store import canonical
from demur.indexing.embed import Item, input_digest, make_shard
from demur.indexing.encoders import Encoder, Role, fingerprint_of, open_encoder
from demur.indexing.vectors import MadeShard

ENDS = 3
"""Of the process, before an item or a model is given up."""
IN_A_ROW = 12
"""Ends with nothing done between them: not the items then, but the machine or the model."""
_ENDED = "it ended the process that worked on it, "


def ended_its_process(why: str) -> bool:
    """Whether the reason why an item was left out (a line of ``errors.jsonl``) is that it ended processes."""
    return why.startswith(_ENDED)


class WorkerEndedError(Exception):
    """The process ended while it worked."""


class Worker:
    """A process that makes shards, begun again where it ended. It opens the encoder by its name.

    Args:
        encoder: its name and fingerprint; the process refuses other weights.
        role: what texts are for.
        batch: items that the encoder takes at once.
    """

    def __init__(self, encoder: tuple[str, str], space: str, role: Role, workers: int, batch: int) -> None:
        self._about, self._batch = (*encoder, space, role, workers), batch
        self.ended = 0
        """How often it ended in the middle of its work."""
        self._in_a_row = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._one = Lock()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def shard(self, items: Sequence[Item]) -> MadeShard:
        """The shard of these items, whose ids must not repeat; those on which the process ends are among its errors.

        Raises:
            StorageError: the process keeps ending, on whatever it is given.
            Exception: what the encoder raised.
        """
        with self._one:
            return self._made(items, 0)

    def after_a_crash(self, items: Sequence[Item]) -> MadeShard:
        """The same, of a shard on which a process ended before: it is not tried as a whole again."""
        with self._one:
            return self._in_parts(items, 1)

    def _made(self, items: Sequence[Item], ends: int) -> MadeShard:
        """The shard of items on which, among others, the process has ended that often."""
        try:
            made = self._asked(items)
            self._in_a_row = 0
            return made
        except WorkerEndedError:
            self.ended, self._in_a_row = self.ended + 1, self._in_a_row + 1
        if self._in_a_row >= IN_A_ROW:
            raise _given_up(items[0].id, f"the worker ended {self._in_a_row} times in a row")
        return self._in_parts(items, ends + 1)

    def _in_parts(self, items: Sequence[Item], ends: int) -> MadeShard:
        if len(items) == 1 and ends >= ENDS:
            line = canonical({"id": items[0].id, "error": f"{_ENDED}{ends} times"}) + "\n"
            return MadeShard(input_digest(items), 1, 1, b"", b"", line.encode("utf-8", "backslashreplace"))
        step = self._batch if len(items) > self._batch else 1
        parts = [self._made(items[start : start + step], ends) for start in range(0, len(items), step)]
        return MadeShard(
            input_digest(items),
            len(items),
            sum(part.failed for part in parts),
            b"".join(part.vectors for part in parts),
            b"".join(part.ids for part in parts),
            b"".join(part.errors for part in parts),
        )

    def _asked(self, items: Sequence[Item]) -> MadeShard:
        for _ in range(ENDS if self._line is None else 0):
            try:
                self.open()
                break
            except WorkerEndedError:
                pass
        else:
            if self._line is None:
                raise _given_up(self._about[0], f"the worker ended {ENDS} times while it opened its model")
        return self._answered(pickle.dumps(items))

    def open(self) -> None:
        """Begin the process and have it open the encoder.

        Raises:
            WorkerEndedError: it ended meanwhile.
            Exception: what opening raised.
        """
        self._line, its = Pipe()
        # Not by multiprocessing, which runs the caller's script again; in a session where Ctrl-C reaches us alone.
        command = [sys.executable, "-c", _BEGIN, str(its.fileno()), *sys.path]
        with its:
            self._process = subprocess.Popen(
                command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        try:
            self._answered(pickle.dumps(self._about))
        except BaseException:
            self.close()
            raise

    def _answered(self, blob: bytes) -> MadeShard:
        assert self._line is not None
        try:
            self._line.send_bytes(blob)
            answer = self._line.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise WorkerEndedError("it ended") from error
        if isinstance(answer, Exception):
            raise answer
        made: MadeShard = answer
        return made

    def close(self) -> None:
        """End the process."""
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None


def _given_up(item: str, why: str) -> StorageError:
    return StorageError(
        f"{why}: it crashed, or the system stopped it for the memory it took", item=item,
        cure="give more memory or a smaller batch (?batch=8), on Ray try without --engine ray, run again to go on",
    )  # fmt: skip


def portable(error: Exception) -> Exception:
    """The error as it can be sent to another process."""
    if isinstance(error, DemurError):
        kinds: tuple[type[DemurError], ...] = (UsageError, StorageError, DataError, DemurError)
        kind = next(kind for kind in kinds if isinstance(error, kind))
        return kind(error.message, item=error.item, cure=error.cure)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


_BEGIN = "import sys; sys.path[:] = sys.argv[2:]; from demur.indexing.worker import serve; serve(int(sys.argv[1]))"


def serve(line: int) -> None:
    """What the process does: it makes shards as long as somebody wants them.

    Args:
        line: file descriptor of its end of the pipe.
    """
    with suppress(OSError):  # where memory is short the system is to choose this process, not the one that waits
        Path("/proc/self/oom_score_adj").write_text("1000")
    Thread(target=_end_with, args=(line,), daemon=True).start()
    encoder: Encoder | None = None
    with Connection(line) as waiting, suppress(EOFError, OSError):
        name, fingerprint, space, role, workers = pickle.loads(waiting.recv_bytes())
        try:
            encoder = open_encoder(name, allow_random=True)  # the fingerprint decides
            if fingerprint_of(encoder) != fingerprint:
                raise UsageError(
                    "the weights here differ from the driver's", item=name, cure="install the same everywhere"
                )
        except Exception as error:
            waiting.send(portable(error))
            return
        waiting.send(None)
        while True:
            items = pickle.loads(waiting.recv_bytes())
            try:
                waiting.send(make_shard(items, encoder, space, role=role, workers=workers))
            except Exception as error:
                waiting.send(portable(error))


def _end_with(line: int) -> None:
    """End this process with the one that waits for it, whatever is under way."""
    end = select.poll()
    end.register(line, 0)  # a hang-up is always told
    end.poll()
    os._exit(1)
