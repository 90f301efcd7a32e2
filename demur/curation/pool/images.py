"""Where the images of a pool are: copied into it, or where their sources have them."""

from __future__ import annotations

import re
from pathlib import Path

from demur.core.records import ImageRef
from demur.core.store import storage_errors, write_atomic
from demur.core.uris import read_image
from demur.corpora.near_duplicates import ImageHashes
from demur.curation.sources import Source

SUFFIX = {"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/tiff": ".tif"}
_SCHEME = re.compile(r"^(zip|tar|parquet|tsv|slice|lines):")


class Copied:
    """Images in the pool's own store, named by their hash; ``image_hashes`` has those that were asked about.

    Taking an image raises, here and of `Linked`, `DataError` (its bytes are not those that the reference names, or
    cannot be ``looked_at``) and `StorageError` (it cannot be read or written).
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._stored: set[str] = set()
        self._seen: set[str] = set()
        self.image_hashes = ImageHashes(out)

    def begin(self, source: Source) -> None:
        """Nothing."""

    def take(self, ref: ImageRef, source: Source, *, looked_at: bool = False) -> ImageRef:
        """Copied, once."""
        name = f"images/{ref.sha256[:2]}/{ref.sha256}{SUFFIX.get(ref.media_type, '.bin')}"
        need_look = looked_at and ref.sha256 not in self._seen
        if ref.sha256 not in self._stored or need_look:
            data = read_image(ref, source.root)
            if ref.sha256 not in self._stored:
                path = self._out / name
                if not path.is_file() or path.stat().st_size != len(data):
                    write_atomic(path, data)
                self._stored.add(ref.sha256)
            if need_look:
                self.image_hashes.read(ref, data)
                self._seen.add(ref.sha256)
        return ref.model_copy(update={"uri": name})


class Linked:
    """Images where they are: below a link that has the source's name, so that no uri names this machine's paths."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.image_hashes = ImageHashes(out)

    def begin(self, source: Source) -> None:
        """Link the source's folder."""
        link = self._out / source.name
        with storage_errors(link):
            link.unlink(missing_ok=True)
            link.symlink_to(source.root.resolve(), target_is_directory=True)

    def take(self, ref: ImageRef, source: Source, *, looked_at: bool = False) -> ImageRef:
        """Unread: whoever uses it checks its bytes against its hash. What lies outside the source's folder stays so."""
        scheme = match[0] if (match := _SCHEME.match(ref.uri)) else ""
        place = ref.uri.removeprefix(scheme)
        if place.startswith("/"):  # what `demur mine` found in an index
            root = f"{source.root.resolve()}/"
            if not place.startswith(root):
                return ref
            place = place.removeprefix(root)
        return ref.model_copy(update={"uri": f"{scheme}{source.name}/{place}"})


Images = Copied | Linked
"""Where the images of a pool are."""
