"""Checks an index folder against its manifest; truncated, foreign and changed files are refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from demur.core.docstore import LINES, TABLE
from demur.core.errors import DataError, IndexFileError, StorageError
from demur.core.store import file_digest, read_json, storage_errors, why_invalid
from demur.core.untrusted import Choice, check
from demur.indexing.options import FOUND, PARTS
from demur.indexing.vectors import LENGTHS

FORMAT = "demur-index"
VERSION = 5
"""2: words of BM25 contain combining marks; documents that were left out do not describe pages. 3: passages name the
document that they were cut from. 4: lists have a file of their own, SQLite finds documents.
5: a part may have the vectors of another; words of BM25 are bigrams in scripts without blanks."""
SMALL = 64 << 20
"""Files up to this many bytes are hashed whenever an index is opened; larger ones if ``verify`` is set."""


# --- the required fields of a manifest; it may have more -------------------------------------------


class _File(BaseModel):
    bytes: int
    sha256: str


class _Encoder(BaseModel):
    name: str
    note: str
    fingerprint: str
    similarity: str
    dims: int


class _Lexical(BaseModel):
    kind: str
    space: str
    count: int
    words: int
    postings: int
    k1: float
    b: float
    method: str
    engine: str
    tokenizer: str


class _Dense(BaseModel):
    kind: str
    space: str
    count: int
    dims: int
    cut: int
    largest_norm: float
    why: str
    vectors_of: str = ""
    lists: int = 0
    nprobe: int = 0
    refine: int = 0
    tokens: int = 0

    @model_validator(mode="after")
    def _lists(self) -> _Dense:
        if self.kind.startswith("ivf-") and min(self.lists, self.nprobe, self.refine) < 1:
            raise ValueError("an ivf kind needs lists, nprobe and refine of 1 or more")
        return self


class _Parts(BaseModel, extra="allow"):
    lexical: _Lexical | None = None
    __pydantic_extra__: dict[str, _Dense]


class _Counts(BaseModel, extra="allow"):
    documents: int
    __pydantic_extra__: dict[str, int]


class _Options(BaseModel, extra="allow"):
    parts: list[str]


class _Manifest(BaseModel):
    id: str
    inputs: str
    content: str
    encoders: dict[str, _Encoder] = Field(min_length=1)
    counts: _Counts
    options: _Options
    parts: _Parts
    files: dict[str, _File] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> _Manifest:
        expected_files = [
            f"{table}/{name}" for table in ("documents", "pages") for name in (LINES, TABLE)
        ]
        expected_files += [f"page_{name}.npy" for name in ("of", "ends", "documents")]
        expected_files += ["parts/lexical/rows.npy"] if self.parts.lexical else []
        for name, part in self.parts.__pydantic_extra__.items():
            files = (
                "rows.npy",
                *(() if part.kind == FOUND else ("vectors.npy",)),
                *(("index.faiss", "lists.bin") if part.kind.startswith("ivf-") else ()),
                *((LENGTHS,) if part.kind == "maxsim" else ()),
            )
            if part.vectors_of not in ("", *PARTS):
                raise ValueError(f"there is no part {part.vectors_of!r} to have the vectors of")
            expected_files += [f"parts/{part.vectors_of or name}/{file}" for file in files]
        if missing := [name for name in expected_files if name not in self.files]:
            raise ValueError(f"files lacks {', '.join(missing[:3])}")
        return self


# --- the folder ------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an index folder; the other files are not checked.

    Raises:
        IndexFileError: the folder is not an index, or its manifest lacks a required field.
    """
    path = folder / "manifest.json"
    try:
        manifest = read_json(path)
    except (DataError, StorageError) as error:
        raise IndexFileError(
            f"not an index folder: {error.message}",
            item=folder,
            cure="build it with 'demur index build'",
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise IndexFileError(
            "not an index folder: its manifest is of another kind",
            item=folder,
            cure="check the path",
        )
    if manifest.get("version") != VERSION:
        raise IndexFileError(
            f"an index of version {manifest.get('version')}, this demur reads {VERSION}",
            item=folder,
            cure="build it again",
        )
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        raise IndexFileError(
            f"its manifest is not valid: {why_invalid(error)}", item=path
        ) from error
    kinds = {part["kind"] for part in manifest["parts"].values() if part}
    check(path, [Choice("indexes", kind) for kind in sorted(kinds)])
    return manifest


def wrong_files(
    folder: Path, manifest: dict[str, Any], *, hashed: float
) -> Iterator[tuple[str, str]]:
    """(name, fault) of every file that is not as the manifest says.

    Args:
        hashed: files up to this many bytes are hashed; of larger ones only the size is checked.

    Raises:
        StorageError: a file cannot be read.
    """
    for name, entry in manifest["files"].items():
        file = folder / name
        size = file.stat().st_size if file.is_file() else -1
        if size != entry["bytes"]:
            actual = "it is missing" if size < 0 else f"found {size} bytes"
            yield name, f"expected {entry['bytes']} bytes, {actual}"
            continue
        with storage_errors(file):
            is_right = size > hashed or file_digest(file) == entry["sha256"]
        if not is_right:
            yield name, "its content is not what the manifest says"


def checked_manifest(folder: Path, *, verify: bool = False) -> dict[str, Any]:
    """The manifest of an index folder, whose files have the sizes and hashes in it.

    Args:
        verify: hash files above `SMALL` too.

    Raises:
        IndexFileError: the folder is not an index, or a file is missing, truncated or changed; names it.
    """
    manifest = read_manifest(folder)
    for name, why in wrong_files(folder, manifest, hashed=float("inf") if verify else SMALL):
        raise IndexFileError(why, item=folder / name)
    return manifest
