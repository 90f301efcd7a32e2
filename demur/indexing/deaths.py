"""Work that ends the process which does it: found, bounded, and named.

A decoder that crashes or a batch that takes all memory leaves no exception behind, and a cluster repeats what was lost.
So a `Tally`, in a process of its own, is told what a worker is about to do. What was begun, and not done when it is
begun again, ended its worker. From then on less and less is tried at once:

    the run as a whole -> its batches -> the items of the batch that ended the worker

An item that was under way at `DEATHS` of the deaths, the last of them alone, is left out by name. Pieces that are done
are kept by the tally, so that no death costs more than the piece it came in. Work that cannot be cut, a model that
cannot be opened, and `IN_A_ROW` deaths with nothing done between them end the run with an error.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from demur.errors import StorageError
from demur.indexing.embed import Item, MadeShard, input_digest
from demur.store import canonical

DEATHS = 3
"""Of workers, before the item or the work that was under way is given up."""
IN_A_ROW = 12
"""Deaths with nothing done between them: not the items then, but the machine or the model."""

Piece = tuple[int, int]
"""Items or rows from the first to before the second."""


_ENDED = "it ended the process that worked on it, "


def ended_its_process(why: str) -> bool:
    """Whether the reason why an item was left out (a line of ``errors.jsonl``) is that it ended processes."""
    return why.startswith(_ENDED)


class WorkerEndedError(Exception):
    """The worker to which a piece was given ended; raised by the one that waits for it."""


class Told(NamedTuple):
    """What is known of a run when it is begun."""

    deaths: dict[Piece | None, int]
    """What was under way -> how often its worker ended; None stands for opening the model."""
    done: dict[Piece, Any]
    """Pieces that need not be done again, with what was made of them."""
    in_a_row: int
    """Deaths since a piece was done."""


@dataclass
class _History:
    busy: bool = False
    doing: Piece | None = None
    deaths: Counter[Piece | None] = field(default_factory=Counter)
    done: dict[Piece, Any] = field(default_factory=dict)
    in_a_row: int = 0


class Tally:
    """What workers begin and end; lives where it outlives them."""

    def __init__(self) -> None:
        self._runs: defaultdict[Piece, _History] = defaultdict(_History)

    def begin(self, run: Piece) -> Told:
        """A worker takes a run; if it was taken before and never let go, that worker ended."""
        one = self._runs[run]
        if one.busy:
            one.deaths[one.doing] += 1
            one.in_a_row += 1
        one.busy, one.doing = True, None
        return Told(dict(one.deaths), dict(one.done), one.in_a_row)

    def at(self, run: Piece, piece: Piece) -> None:
        """The worker is about to do a piece."""
        self._runs[run].doing = piece

    def keep(self, run: Piece, piece: Piece, made: Any) -> None:
        """The piece is done."""
        one = self._runs[run]
        one.done[piece], one.in_a_row = made, 0

    def end(self, run: Piece) -> None:
        """The worker lets the run go: it is done, or its error is on the way."""
        one = self._runs[run]
        one.busy, one.done = False, {}
        if not one.deaths:
            del self._runs[run]


class Marks:
    """A worker's side of a `Tally`, for one run.

    Args:
        call: calls a method of the tally by name, wherever it lives, and returns when it has answered.
        run: what the worker was given.
    """

    def __init__(self, call: Callable[..., Any], run: Piece) -> None:
        self._call, self.run = call, run
        self._told = Told({}, {}, 0)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The run is taken, and let go in the end whatever comes, the death of the worker excepted.

        Raises:
            StorageError: workers keep ending while they open the model, or whatever they do.
        """
        self._told = self._call("begin", self.run)
        ended = False
        try:
            opening, row = self._told.deaths.get(None, 0), self._told.in_a_row
            if opening >= DEATHS:
                raise _given_up(self.run, f"the worker ended {opening} times while it opened its model")
            if row >= IN_A_ROW:
                raise _given_up(self.run, f"the worker ended {row} times in a row, on whatever it was given")
            yield
        except WorkerEndedError:
            ended = True
            raise
        finally:
            if not ended:
                self._call("end", self.run)

    def deaths(self, piece: Piece) -> int:
        """How often a worker ended while exactly this piece was under way."""
        return self._told.deaths.get(piece, 0)

    def deaths_around(self, piece: Piece) -> int:
        """How often a worker ended while all of this piece was under way, alone or with more."""
        deaths = self._told.deaths.items()
        return sum(n for other, n in deaths if other and other[0] <= piece[0] and piece[1] <= other[1])

    def whole(self, work: Callable[[], Any]) -> Any:
        """Do the run as one piece that cannot be cut.

        Raises:
            StorageError: workers ended on it `DEATHS` times.
        """
        if (fell := self.deaths(self.run)) >= DEATHS:
            raise _given_up(self.run, f"the worker ended {fell} times on these")
        self._call("at", self.run, self.run)
        return work()

    def piece(self, piece: Piece, work: Callable[[], Any]) -> Any:
        """Do a piece of the run, unless it is done."""
        if piece in self._told.done:
            return self._told.done[piece]
        self._call("at", self.run, piece)
        made = work()
        self._call("keep", self.run, piece, made)
        return made


def _given_up(run: Piece, why: str) -> StorageError:
    return StorageError(
        f"{why}: it crashed, or the system stopped it for the memory it took",
        item=f"items {run[0]} to {run[1] - 1}",
        cure="give more memory or a smaller batch (?batch=8), on Ray try these items without --engine ray, "
        "run again to go on",
    )


def made_in_pieces(
    items: Sequence[Item], batch: int, marks: Marks, make: Callable[[Sequence[Item]], MadeShard]
) -> MadeShard:
    """The shard of a run that may hold items on which a worker ends.

    Where nothing ends a worker it is made as a whole. Where something did, it is put together from its batches, which
    start where they did, so that their rows are the same; only a batch that ended a worker is made item by item.

    Args:
        items: of the run that ``marks`` are of; their ids must not repeat.
        batch: items that the encoder takes at once.
        marks: of the run.
        make: items to a shard.

    Returns:
        The shard; items that end workers are among its errors, by id.
    """
    first, stop = marks.run

    def made(piece: Piece) -> MadeShard:
        own = items[piece[0] - first : piece[1] - first]
        if piece[1] - piece[0] == 1 and (times := marks.deaths_around(piece)) >= DEATHS:
            return _left_out(own[0], times)
        shard: MadeShard = marks.piece(piece, lambda: make(own))
        return shard

    if not marks.deaths(marks.run):
        whole: MadeShard = marks.whole(lambda: make(items))
        return whole
    parts = []
    for start in range(first, stop, batch):
        piece = start, min(start + batch, stop)
        alone = marks.deaths(piece) > 0
        parts += [made((n, n + 1)) for n in range(*piece)] if alone else [made(piece)]
    return MadeShard(
        input_digest(items),
        len(items),
        sum(part.failed for part in parts),
        b"".join(part.vectors for part in parts),
        b"".join(part.ids for part in parts),
        b"".join(part.errors for part in parts),
    )


def _left_out(item: Item, times: int) -> MadeShard:
    line = canonical({"id": item.id, "error": f"{_ENDED}{times} times"}) + "\n"
    return MadeShard(input_digest([item]), 1, 1, b"", b"", line.encode("utf-8", "backslashreplace"))
