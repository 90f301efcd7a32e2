"""Zip and tar archives, and paths that stay inside their folder."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from demur.core.errors import DataError
from demur.core.store import Problems, storage_errors
from demur.core.uris import open_member
from demur.corpora.formats.files import BLOCK, BROKEN

MOST_PACKED = 200
"""How many times its own size an archive may unpack to; texts and tables compress ten to thirty times."""
SMALL = 1 << 30
"""Bytes that any archive may unpack to, however small it is."""


def inside(folder: Path, name: str) -> Path:
    """``folder / name`` for a name written in data, if that stays in the folder.

    A link in the folder is its owner's, and followed: the hub's cache and pictures on another disk are laid out so.

    Raises:
        DataError: the name is absolute, or climbs out with ``..``.
    """
    if not name or "\0" in name or not _stays_inside(name):
        raise DataError(
            f"the path {name!r} leads out of its folder", item=folder, cure="mend the data file"
        )
    return folder / PurePosixPath(name.replace("\\", "/"))


def archive_uris(archive: Path, prefix: str) -> dict[str, str]:
    """Member name -> image uri of every file in an archive that can be read in place.

    Args:
        archive: a ``.zip``, or an uncompressed ``.tar`` (its members are then byte ranges of it).
        prefix: path of the archive as the uris give it.

    Returns:
        uris that `demur.core.uris.read_image` reads; members whose names lead out of the archive are left out.

    Raises:
        DataError: broken, or compressed as a whole (a ``.tar.gz`` has no random access).
    """
    uri_of_member: dict[str, str] = {}
    with storage_errors(archive):
        try:
            if archive.suffix == ".zip":
                with zipfile.ZipFile(archive) as opened:
                    for info in opened.infolist():
                        if not info.is_dir() and _stays_inside(info.filename):
                            uri_of_member[info.filename] = f"zip:{prefix}!{info.filename}"
            else:
                with tarfile.open(archive, "r:") as tar:
                    for member in tar:
                        cast(Any, tar).members = []  # keeps memory flat over millions of members
                        if member.isreg() and _stays_inside(member.name):
                            uri_of_member[member.name] = (
                                f"slice:{prefix}#{member.offset_data}+{member.size}"
                            )
        except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
            raise DataError(
                f"cannot be read in place: {error}",
                item=archive,
                cure="unpack it with 'demur sources unpack', or fetch it again",
            ) from error
    return uri_of_member


def _stays_inside(name: str) -> bool:
    pure = PurePosixPath(name.replace("\\", "/"))
    return not (pure.is_absolute() or ".." in pure.parts or re.match(r"^[A-Za-z]:", name))


def unpack(archive: Path, folder: Path, problems: Problems) -> int:
    """Unpack the regular files of a zip or tar (compressed or not) into a folder; returns how many.

    A member that would land outside the folder, a link or a device goes to ``problems`` and is not written.

    Raises:
        DataError: broken, or a bomb: unpacked it is more than `MOST_PACKED` times as large as the archive.
        StorageError: the folder cannot be written.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with storage_errors(archive):
        room = max(SMALL, MOST_PACKED * archive.stat().st_size)
    written = 0

    def put(name: str, source: IO[bytes]) -> None:
        nonlocal room
        target = inside(folder, name)
        if not target.resolve().is_relative_to(
            folder.resolve()
        ):  # an archive writes through no link
            raise DataError(
                f"the path {name!r} leads out of its folder", item=folder, cure="unpack elsewhere"
            )
        with storage_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                while block := source.read(BLOCK):
                    room -= len(block)
                    if room < 0:
                        raise DataError(
                            f"the archive is a bomb: {written} files unpack to {MOST_PACKED} times its own size",
                            item=archive,
                            cure="do not trust it; unpack it by hand if you do",
                        )
                    out.write(block)

    with storage_errors(archive):
        try:
            for name, source in _members(archive):
                if source is None or not _stays_inside(name):
                    problems.add(
                        archive.name, f"member {name!r} is a link or leads out of the folder"
                    )
                else:
                    put(name, source)
                    written += 1
        except (tarfile.TarError, *BROKEN) as error:
            raise DataError(
                f"broken after {written} files: {error}", item=archive, cure="fetch it again"
            ) from error
    return written


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Name and content of every file in an archive; None for the content of links and devices."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if not info.is_dir():
                    with open_member(opened, info.filename) as source:
                        yield info.filename, source
        return
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            if not member.isdir():
                yield member.name, tar.extractfile(member) if member.isreg() else None
