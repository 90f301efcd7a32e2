"""Is this folder the index it says it is? Truncated, foreign and changed files are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demur.errors import DataError, IndexFileError, StorageError
from demur.store import file_digest, read_json

SMALL = 64 << 20
"""Files up to this many bytes are hashed whenever an index is opened; larger ones when ``verify`` is asked for."""


def checked_manifest(folder: Path, *, verify: bool = False) -> dict[str, Any]:
    """The manifest of an index folder whose files have the sizes and hashes that it names.

    Args:
        folder: an index folder.
        verify: hash files above `SMALL` too.

    Raises:
        IndexFileError: the folder is not an index, or a file is missing, cut short or changed; names it.
    """
    path = folder / "manifest.json"
    try:
        manifest = read_json(path)
    except (DataError, StorageError) as error:
        raise IndexFileError(
            f"not an index folder: {error.message}", item=str(folder), cure="build it with 'demur index build'"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != "demur-index":
        raise IndexFileError(
            "not an index folder: the manifest is of something else", item=str(folder), cure="check the path"
        )
    if manifest.get("version") != 1:
        raise IndexFileError(
            f"an index of version {manifest.get('version')}, this demur reads 1",
            item=str(folder),
            cure="build it again",
        )
    lacks = [key for key in ("id", "encoders", "counts", "parts", "files") if not manifest.get(key)]
    if lacks:
        raise IndexFileError(
            f"its manifest does not say {', '.join(lacks)}", item=str(path), cure="build the index again"
        )
    for name, entry in manifest["files"].items():
        file = folder / name
        size = file.stat().st_size if file.is_file() else -1
        if size != entry["bytes"]:
            found = "it is missing" if size < 0 else f"found {size} bytes"
            raise IndexFileError(
                f"expected {entry['bytes']} bytes, {found}", item=str(file), cure="build the index again"
            )
        if (verify or size <= SMALL) and file_digest(file) != entry["sha256"]:
            raise IndexFileError(
                "its content is not what the manifest says", item=str(file), cure="build the index again"
            )
    return manifest
