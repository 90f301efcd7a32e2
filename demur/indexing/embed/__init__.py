"""Embed any number of texts or images into a folder that a killed run can go on from.

    items -> [threads: read, decode, resize] -> encoder -> vectors.npy + ids.jsonl + errors.jsonl, shard by shard

The folder holds:

    manifest.json   what it is: encoder, fingerprint, space, sizes and hashes of the other files; written last
    vectors.npy     (n, d) float32, row by row in the order of the items
    ids.jsonl       n lines, each the id of its row as a JSON string
    errors.jsonl    the items that have no row, and why
    shards.jsonl    one line per finished shard: hash of its input, sizes and hashes of what it appended

While it is written the folder is locked by a file ``lock``. A process that crashed or was killed leaves it there, by
which the next run knows (`died`).

A shard is appended to the three data files, then noted in ``shards.jsonl``. A killed run leaves at worst one shard
that is not noted: the next run cuts it off and does it again, so that the finished folder is, byte for byte, that of a
run that was never stopped. When items were added at the end, the shards before them are kept as well. Memory holds one
shard, the images on their way, and 11 to 22 bytes per id (to notice ids that repeat).
"""

from __future__ import annotations

from demur.indexing.embed.embedder import batch_of, read_ahead
from demur.indexing.embed.folder import Embedded
from demur.indexing.embed.items import Item, input_digest
from demur.indexing.embed.run import Elsewhere, died, embed, make_shard, shard_maker
from demur.indexing.embed.shards import MadeShard

__all__ = [
    "Elsewhere",
    "Embedded",
    "Item",
    "MadeShard",
    "batch_of",
    "died",
    "embed",
    "input_digest",
    "make_shard",
    "read_ahead",
    "shard_maker",
]
