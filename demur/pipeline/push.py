"""A release to where others find it: a folder, or a dataset repository on the Hugging Face hub."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from demur.curation.release import Release
from demur.curation.release.layout import CARRIERS
from demur.errors import ReleaseError, StorageError, UsageError
from demur.store import file_digest, storage_errors


class Pushed(NamedTuple):
    """What was, or would be, sent."""

    target: str
    files: dict[str, int]
    """File -> bytes, of those that the target has not got already."""
    there: tuple[str, ...]
    """Files that the target has, equal."""
    revision: str = ""
    """On the hub: the tag that holds this version."""
    note: str = ""
    """What else there is to know."""


def push(release: Release, target: str, *, dry_run: bool = False, private: bool = False) -> Pushed:
    """Send a release; what is there already, byte for byte, is not sent again.

    Args:
        release: sound (call `demur.curation.release.verify` first).
        target: a folder, or ``hf:OWNER/NAME``. On the hub ``main`` holds the newest version, the tag ``vVERSION`` each.
        dry_run: send nothing, say what would be sent. A hub that cannot be asked is noted, not an error.
        private: make a hub repository that is not there a private one.

    Raises:
        UsageError: the target holds another release, or other bytes under this version, or its name is malformed.
        MissingExtra: huggingface_hub is not installed.
        StorageError: the folder cannot be written; the hub cannot be reached, or refuses.
    """
    names = [*sorted(release.manifest["files"]), "manifest.json"]  # the manifest last: without it, it is unfinished
    sizes = {}
    for name in names:
        path = release.folder / name
        if not path.is_file():
            raise ReleaseError("a file is missing", item=name, cure="verify the release")
        sizes[name] = path.stat().st_size
    if target.startswith("hf:"):
        return _to_hub(release, target.removeprefix("hf:"), sizes, dry_run, private)
    if private:
        raise UsageError("--private is for the hub", item=target, cure="write hf:OWNER/NAME, or leave it out")
    return _to_folder(release, Path(target), sizes, dry_run)


def _to_folder(release: Release, folder: Path, sizes: dict[str, int], dry_run: bool) -> Pushed:
    target = str(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError("is a file", item=target, cure="name a folder")
    if folder.is_dir() and folder.resolve() == release.folder.resolve():
        raise UsageError("is the release itself", item=target, cure="choose another folder")
    if (folder / "manifest.json").exists():
        other = Release.open(folder)
        if (other.name, other.version) != (release.name, release.version):
            raise UsageError(f"holds {other.name} {other.version}", item=target, cure="choose another folder")
        if other.sha256 != release.sha256:
            raise UsageError(
                f"holds another {other.name} {other.version}",
                item=target,
                cure="raise the version: a version is frozen",
            )
    elif folder.is_dir():
        foreign = sorted(p.name for p in folder.iterdir() if p.name not in _roots(sizes))
        if foreign:
            raise UsageError(
                f"holds other files ({', '.join(foreign[:3])})", item=target, cure="choose an empty folder"
            )
    there = tuple(
        n for n in sizes if (folder / n).is_file() and file_digest(folder / n) == file_digest(release.folder / n)
    )
    todo = {n: size for n, size in sizes.items() if n not in there}
    if not dry_run:
        for name in todo:
            with storage_errors(folder / name):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                part = folder / f"{name}.part"
                try:
                    with (release.folder / name).open("rb") as source, part.open("wb") as handle:
                        shutil.copyfileobj(source, handle, 1 << 20)
                        handle.flush()
                        os.fsync(handle.fileno())
                    part.replace(folder / name)
                finally:
                    part.unlink(missing_ok=True)
    return Pushed(target, todo, there)


def _roots(sizes: dict[str, int]) -> set[str]:
    """What a push that was cut may have left at the top of its target."""
    tops = {name.partition("/")[0] for name in sizes}
    return tops | {f"{name}.part" for name in tops} | CARRIERS


def _to_hub(release: Release, repository: str, sizes: dict[str, int], dry_run: bool, private: bool) -> Pushed:
    from demur.pipeline.hub import look_up, open_hub, send, tag_of

    target, names = f"hf:{repository}", list(sizes)
    api = open_hub(repository)
    try:
        held = look_up(api, release, repository, names)
    except StorageError as error:
        if not dry_run:
            raise
        return Pushed(target, sizes, (), tag_of(release), f"the hub was not asked: {error.message}")
    todo = {n: size for n, size in sizes.items() if n not in held.same}
    if dry_run or held.tagged:
        note = "" if held.exists else "the repository would be made"
        return Pushed(target, todo, held.same, tag_of(release), note)
    sent = send(api, release, repository, names, held, private=private)
    return Pushed(target, todo, held.same, sent.revision, f"commit {sent.commit[:12]}")
