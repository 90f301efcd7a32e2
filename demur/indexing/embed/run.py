"""Embedding items into a folder, going on where an earlier run was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from demur.errors import StorageError, UsageError
from demur.indexing.embed.embedder import Embedder
from demur.indexing.embed.folder import FORMAT, Embedded
from demur.indexing.embed.items import Item, input_digest
from demur.indexing.embed.progress import Watching, shown
from demur.indexing.embed.shards import MadeShard, ShardWriter
from demur.indexing.encoders import Role, open_encoder
from demur.indexing.memory import give_back
from demur.store import locked

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder

Elsewhere = Callable[[Sequence[tuple[int, int]]], Iterator[MadeShard]]
"""Runs of items (first, stop) to their shards by `make_shard`, in the order of the runs; the rest is made here."""
LOCK = "lock"
"""In the folder while it is written."""


def embed(
    items: Iterable[Item],
    encoder: Encoder,
    space: str,
    out: Path,
    *,
    role: Role = "passage",
    shard: int = 8192,
    workers: int = 2,
    progress: bool | Callable[[int, int], None] = True,
    elsewhere: Elsewhere | None = None,
    distinct: bool = False,
) -> Embedded:
    """Embed ``items`` into the folder ``out``, going on where an earlier run was stopped.

    Items that cannot be embedded (an unreadable image, an empty text, an id that repeats, a vector of length zero or
    with NaN) are recorded in ``errors.jsonl`` and counted; they never end the run. An item that ends this very process
    (a decoder that crashes) does, at each run: `demur.indexing.here.Here` finds and names it, as does a cluster.

    Args:
        items: streamed once, in an order that a second run repeats. Where there are many images, give functions or
            paths rather than bytes: a run that goes on holds the items of one shard while it compares them.
        encoder: what embeds.
        space: one of the encoder's spaces.
        out: the folder; made when missing. Shards already there are kept where their input is the same.
        role: what the texts are for.
        shard: items per shard, for a new folder; a folder goes on with its own.
        workers: threads that read, decode and resize images.
        progress: show a bar with rate and remaining time on standard error (lines now and then where that is no
            terminal); or a function told (items done, items in all, 0 when unknown) after every batch.
        elsewhere: makes the shards in other processes; ``items`` must have a length then, and ids must not repeat.
        distinct: ids are known not to repeat: they are not looked at, which saves some 20 bytes of memory each.

    Raises:
        IndexFileError: ``out`` holds vectors of another encoder, space or role, or something else altogether.
        UsageError: the encoder does not serve ``space``, or another process is writing ``out``.
        StorageError: ``out`` cannot be written; what is done is kept.
    """
    if shard < 1 or workers < 1:
        raise UsageError(f"shard={shard} and workers={workers} must be 1 or more", cure="leave them out")
    if space not in encoder.dims:
        raise UsageError(
            f"it has no space named {space!r}", item=encoder.name, cure=f"choose from {', '.join(sorted(encoder.dims))}"
        )
    plan = {
        "kind": "demur embeddings",
        "format": FORMAT,
        "encoder": encoder.name,
        "note": encoder.note,
        "fingerprint": encoder.fingerprint(),
        "similarity": encoder.similarity,
        "space": space,
        "role": role,
        "dimensions": encoder.dims[space],
    }
    total = len(items) if isinstance(items, Sized) else None
    with (
        locked(out / LOCK, f"writing {out.name}"),
        ShardWriter.open(out, plan, shard) as folder,
        Embedder(encoder, space, role, workers, distinct=distinct) as work,
        shown(f"{out.name}: {encoder.name} {space}", total, progress) as bar,
    ):
        stream = _past_finished(iter(items), folder, work, bar)
        if elsewhere is not None:
            if total is None:
                raise UsageError("items of unknown number cannot be embedded elsewhere", cure="give a sequence")
            done = first = sum(shard.items for shard in folder.done)
            runs = [(start, min(start + folder.shard, total)) for start in range(first, total, folder.shard)]
            for made, run in zip(elsewhere(runs), runs, strict=False):
                if made.items != run[1] - run[0]:
                    raise StorageError(
                        f"items {run[0]} to {run[1]} came back as {made.items}", item=str(out), cure="run it again"
                    )
                folder.append(made)
                done = run[1]
                if bar:
                    bar.advance(made.items, made.failed)
            stream = islice(stream, done - first, None) if done < total else iter(())
        tasks = work.tasks(stream)
        while here := work.shard(tasks, folder.shard, bar):
            folder.append(here)
            del here
            give_back()
        folder.finish()
    return Embedded.open(out)


def make_shard(items: Sequence[Item], encoder: Encoder, space: str, *, role: Role, workers: int = 2) -> MadeShard:
    """Embed the items of one shard, for a folder that another process writes (see `embed`, ``elsewhere``)."""
    with Embedder(encoder, space, role, workers) as work:
        made = work.shard(work.tasks(items), len(items), None)
    if made is None:
        raise UsageError("a shard without items", cure="give one or more")
    return made


def shard_maker(
    name: str, fingerprint: str, space: str, *, role: Role, workers: int
) -> Callable[[Sequence[Item]], MadeShard]:
    """`make_shard` by an encoder that is opened by its name, in a process that was handed none.

    Raises:
        UsageError: its weights are not those of the ``fingerprint``.
    """
    encoder = open_encoder(name, allow_random=True)  # the fingerprint decides
    if encoder.fingerprint() != fingerprint:
        raise UsageError("the weights here differ from the driver's", item=name, cure="install the same everywhere")
    return partial(make_shard, encoder=encoder, space=space, role=role, workers=workers)


def died(out: Path) -> bool:
    """Whether the process that last wrote the folder ended without a word: it crashed, or it was killed.

    Errors, Ctrl-C and ``sys.exit`` are no such end. A process that is writing at this moment looks the same.
    """
    return (out / LOCK).exists()


def _past_finished(items: Iterator[Item], folder: ShardWriter, work: Embedder, bar: Watching | None) -> Iterator[Item]:
    """Pass over the shards that are already there; what remains of ``items`` from the first that is not."""
    for number, done in enumerate(tuple(folder.done)):
        chunk = list(islice(items, folder.shard))
        if len(chunk) != done.items or input_digest(chunk) != done.input:
            folder.cut(number)
            return chain(chunk, items)
        for item in chunk:
            work.is_new(item.id)
        if bar:
            bar.skip(done.items, done.failed)
    return items
