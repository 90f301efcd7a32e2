"""The images of a pool: copied into it, or linked in the folders of their sources."""

from __future__ import annotations

import re
from pathlib import Path

from demur.core.records import ImageRef
from demur.core.store import storage_errors, write_atomic
from demur.core.uris import read_image
from demur.corpora.near_duplicates import ImageHashes
from demur.sources import Source

SUFFIX = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/tiff": ".tif",
}
_SCHEME = re.compile(r"^(zip|tar|parquet|tsv|slice|lines):")


class Copied:
    """Images copied into the pool, named by their SHA-256; ``image_hashes`` has those of queries.

    `take`, here and in `Linked`, raises `DataError` if the bytes do not match the reference or cannot be hashed, and
    `StorageError` if they cannot be read or written.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._stored: set[str] = set()
        self._seen: set[str] = set()
        self.image_hashes = ImageHashes(out)

    def begin(self, source: Source) -> None:
        """Nothing to prepare."""

    def take(self, ref: ImageRef, source: Source, *, hashed: bool = False) -> ImageRef:
        """Copy the image once; with ``hashed``, hash it too."""
        name = f"images/{ref.sha256[:2]}/{ref.sha256}{SUFFIX.get(ref.media_type, '.bin')}"
        must_hash = hashed and ref.sha256 not in self._seen
        if ref.sha256 not in self._stored or must_hash:
            data = read_image(ref, source.root)
            if ref.sha256 not in self._stored:
                path = self._out / name
                if not path.is_file() or path.stat().st_size != len(data):
                    write_atomic(path, data)
                self._stored.add(ref.sha256)
            if must_hash:
                self.image_hashes.read(ref, data)
                self._seen.add(ref.sha256)
        return ref.model_copy(update={"uri": name})


class Linked:
    """Images in place, below a link with the source's name, so that uris hold no paths of this machine."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.image_hashes = ImageHashes(out)

    def begin(self, source: Source) -> None:
        """Link the source's folder."""
        link = self._out / source.name
        with storage_errors(link):
            link.unlink(missing_ok=True)
            link.symlink_to(source.root.resolve(), target_is_directory=True)

    def take(self, ref: ImageRef, source: Source, *, hashed: bool = False) -> ImageRef:
        """Point the uri at the link, without reading the image; one outside the source's folder keeps its path."""
        scheme = match[0] if (match := _SCHEME.match(ref.uri)) else ""
        place = ref.uri.removeprefix(scheme)
        if place.startswith("/"):  # `demur mine` found it in an index
            root = f"{source.root.resolve()}/"
            if not place.startswith(root):
                return ref
            place = place.removeprefix(root)
        return ref.model_copy(update={"uri": f"{scheme}{source.name}/{place}"})


Images = Copied | Linked
"""Either kind of image storage."""
