"""A worker process that embeds: an item that crashes it is found, left out and named, and the run goes on.

A decoder that crashes, or a batch that takes all memory, raises no exception. So a separate process does the work.
When it crashes, a new one tries less and less at once:

    the shard as a whole -> its batches, which begin where they did, so that their rows are the same -> single items

An item is left out by name if it is alone when the process crashes and it was among the items of two crashes before. A
model that cannot be opened ends the run with an error, as do `IN_A_ROW` crashes with nothing done between them.
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
from demur.core.untrusted import trusting
from demur.indexing.embed import Item, input_digest, make_shard
from demur.indexing.encoders import Encoder, Role, fingerprint_of, open_encoder
from demur.indexing.vectors import MadeShard, join_lines

CRASHES = 3
"""Of the process, before an item or a model is given up."""
IN_A_ROW = 12
"""Crashes with nothing done between them: the cause is then the machine or the model, not an item."""
_CRASHED = "it crashed the process that embedded it, "


def crashed_its_process(why: str) -> bool:
    """Whether an item was left out because it crashed processes, by the reason in ``errors.jsonl``."""
    return why.startswith(
        (_CRASHED, "it ended the process that worked on it, ")
    )  # the latter is of earlier versions


class WorkerCrashedError(Exception):
    """The process crashed while it worked."""


class Worker:
    """A process that makes shards, started again after a crash. It opens the encoder by its name.

    Args:
        encoder: its name and fingerprint; the process refuses other weights.
        role: what texts are for.
        batch: items that the encoder takes at once.
    """

    def __init__(
        self, encoder: tuple[str, str], space: str, role: Role, workers: int, batch: int
    ) -> None:
        self._about, self._batch = (*encoder, space, role, workers), batch
        self.crashes = 0
        """How often it crashed in the middle of its work."""
        self._in_a_row = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._one_at_a_time = Lock()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def shard(self, items: Sequence[Item], *, crashed_before: bool = False) -> MadeShard:
        """The shard of these items, whose ids must not repeat; items that crash the process are among its errors.

        Args:
            crashed_before: an earlier process crashed on this shard: it is not tried as a whole again.

        Raises:
            StorageError: the process keeps crashing, whatever it is given.
            Exception: what the encoder raised.
        """
        with self._one_at_a_time:
            return self._in_parts(items, 1) if crashed_before else self._make_shard(items, 0)

    def _make_shard(self, items: Sequence[Item], crashes: int) -> MadeShard:
        """The shard of items that were in the process at that many crashes."""
        try:
            new_shard = self._ask_process(items)
            self._in_a_row = 0
            return new_shard
        except WorkerCrashedError:
            self.crashes, self._in_a_row = self.crashes + 1, self._in_a_row + 1
        if self._in_a_row >= IN_A_ROW:
            raise _given_up(items[0].id, f"the worker crashed {self._in_a_row} times in a row")
        return self._in_parts(items, crashes + 1)

    def _in_parts(self, items: Sequence[Item], crashes: int) -> MadeShard:
        if len(items) == 1 and crashes >= CRASHES:
            error = canonical({"id": items[0].id, "error": f"{_CRASHED}{crashes} times"})
            return MadeShard(input_digest(items), 1, 1, b"", b"", join_lines([error]))
        step = self._batch if len(items) > self._batch else 1
        parts = [
            self._make_shard(items[start : start + step], crashes)
            for start in range(0, len(items), step)
        ]
        _, counts, failed, *blobs = zip(*parts, strict=True)
        return MadeShard(input_digest(items), sum(counts), sum(failed), *map(b"".join, blobs))

    def _ask_process(self, items: Sequence[Item]) -> MadeShard:
        for _ in range(CRASHES):
            if self._line is None:
                with suppress(WorkerCrashedError):
                    self.open()
        if self._line is None:
            raise _given_up(
                self._about[0], f"the worker crashed {CRASHES} times while it opened its model"
            )
        return self._send_and_receive(pickle.dumps(items))

    def open(self) -> None:
        """Start the process and have it open the encoder.

        Raises:
            WorkerCrashedError: it crashed meanwhile.
            Exception: what opening raised.
        """
        self._line, far_end = Pipe()
        # multiprocessing would run the caller's script again. In a session of its own, Ctrl-C does not reach it.
        command = [sys.executable, "-c", _BEGIN, str(far_end.fileno()), *sys.path]
        with far_end:
            self._process = subprocess.Popen(
                command,
                pass_fds=[far_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            self._send_and_receive(pickle.dumps(self._about))
        except BaseException:
            self.close()
            raise

    def _send_and_receive(self, blob: bytes) -> MadeShard:
        assert self._line is not None
        try:
            self._line.send_bytes(blob)
            answer = self._line.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise WorkerCrashedError("it crashed") from error
        if isinstance(answer, Exception):
            raise answer
        new_shard: MadeShard = answer
        return new_shard

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
        f"{why}: by itself, or the system stopped it because it took too much memory",
        item=item,
        cure="give it more memory or a smaller batch (?batch=8), or leave out --engine ray, and run again to continue",
    )


def make_portable(error: Exception) -> Exception:
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
    """The main loop of the process: it makes shards until its pipe is closed.

    Args:
        line: file descriptor of its end of the pipe.
    """
    with suppress(
        OSError
    ):  # if memory is short, the system should stop this process, not the one that waits
        Path("/proc/self/oom_score_adj").write_text("1000")
    Thread(target=_end_with, args=(line,), daemon=True).start()
    encoder: Encoder | None = None
    with Connection(line) as waiting, suppress(EOFError, OSError):
        name, fingerprint, space, role, workers = pickle.loads(waiting.recv_bytes())
        try:
            with trusting(code=True):  # the driver has opened it, or would not ask
                encoder = open_encoder(name, allow_random=True)  # the fingerprint decides
            if fingerprint_of(encoder) != fingerprint:
                raise UsageError(
                    "the weights here differ from the driver's",
                    item=name,
                    cure="install the same everywhere",
                )
        except Exception as error:
            waiting.send(make_portable(error))
            return
        waiting.send(None)
        while True:
            items = pickle.loads(waiting.recv_bytes())
            try:
                waiting.send(make_shard(items, encoder, space, role=role, workers=workers))
            except Exception as error:
                waiting.send(make_portable(error))


def _end_with(line: int) -> None:
    """End this process when the one that waits for it ends, even in the middle of a shard."""
    end = select.poll()
    end.register(line, 0)  # a hang-up is always reported
    end.poll()
    os._exit(1)
