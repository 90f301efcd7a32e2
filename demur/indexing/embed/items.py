"""What is embedded: a text or an image under an id."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from demur.records import ImageRef
from demur.store import read_image


class Item(NamedTuple):
    """One thing to embed: a text or an image."""

    id: str
    text: str | None = None
    image: bytes | Path | Callable[[], bytes] | None = None
    """Encoded bytes, a file, or a function that fetches the bytes (called in a worker thread)."""
    key: str = ""
    """Hash of the content, where it is known: lets a later run notice that a file changed behind the same id."""

    @classmethod
    def of_image(cls, id: str, ref: ImageRef, root: Path | None = None) -> Item:
        """An item for a referenced image; its bytes are read, and checked against their hash, when it is its turn."""
        return cls(id, image=partial(read_image, ref, root), key=ref.sha256)


def mark(item: Item) -> bytes:
    """32 bytes that change with the item's id or content (with its place, where the content is not known before)."""
    if item.text is not None:
        content = item.text.encode("utf-8", "surrogatepass")
    elif item.key:
        content = item.key.encode()
    elif isinstance(item.image, bytes):
        content = item.image
    else:
        content = str(item.image).encode("utf-8", "surrogatepass") if isinstance(item.image, Path) else b""
    name = item.id.encode("utf-8", "surrogatepass")
    kind = b"t" if item.text is not None else b"i"
    return hashlib.sha256(b"%d:%b%b%b" % (len(name), name, kind, content)).digest()


def input_digest(items: Iterable[Item]) -> str:
    """Hash of a shard's items."""
    return hashlib.sha256(b"".join(mark(item) for item in items)).hexdigest()
