"""Reader for Qt resource bundles (``.rcc``, format versions 1 to 3), from the format that Qt documents and writes.

A header names three regions: a tree of nodes, the data, and the names. A node is a folder (count and first child) or
a file (offset of its data). Names are UTF-16; data is stored plain, zlib-compressed, or zstd-compressed.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_COMPRESSED = 1
_FOLDER = 2
_ZSTD = 4


def read_rcc(path: Path) -> dict[str, bytes]:
    """Every file of a bundle: its path inside (``/gcompris/src/...``) -> its bytes.

    Raises:
        ValueError: not a bundle, or a member is zstd-compressed (none of those that Atlas reads is).
    """
    blob = path.read_bytes()
    if blob[:4] != b"qres":
        raise ValueError(f"{path}: not a Qt resource bundle")
    version, tree, data, names = struct.unpack(">IIII", blob[4:20])
    node_size = 22 if version >= 2 else 14
    files: dict[str, bytes] = {}

    def name_at(offset: int) -> str:
        (length,) = struct.unpack_from(">H", blob, names + offset)
        start = names + offset + 6
        return blob[start : start + 2 * length].decode("utf-16-be")

    def walk(index: int, folder: str) -> None:
        node = tree + index * node_size
        name_offset, flags = struct.unpack_from(">IH", blob, node)
        here = f"{folder}/{name_at(name_offset)}" if index else ""
        if flags & _FOLDER:
            count, first = struct.unpack_from(">II", blob, node + 6)
            for child in range(first, first + count):
                walk(child, here)
            return
        (offset,) = struct.unpack_from(">I", blob, node + 10)
        (length,) = struct.unpack_from(">I", blob, data + offset)
        start = data + offset + 4
        content = blob[start : start + length]
        if flags & _ZSTD:
            raise ValueError(f"{path}: {here} is zstd-compressed")
        files[here] = zlib.decompress(content[4:]) if flags & _COMPRESSED else content

    walk(0, "")
    return files
