"""A release to where others find it: a folder, or a dataset repository on the Hugging Face hub."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from demur.curation.release import Release
from demur.errors import MissingExtra, ReleaseError, StorageError, UsageError
from demur.store import file_digest, storage_errors


class Pushed(NamedTuple):
    """What was, or would be, sent."""

    target: str
    files: dict[str, int]
    """File -> bytes, of those that the target has not got already."""
    there: tuple[str, ...]
    """Files that the target has, equal."""


def push(release: Release, target: str, *, dry_run: bool = False) -> Pushed:
    """Send a release; what is there already, byte for byte, is not sent again.

    Args:
        release: sound (call `demur.curation.release.verify` first).
        target: a folder, or ``hf:OWNER/NAME``.
        dry_run: send nothing, say what would be sent.

    Raises:
        UsageError: the folder holds another release, or the hub's name is not ``OWNER/NAME``.
        MissingExtra: huggingface_hub is not installed.
        StorageError: the hub cannot be reached or refuses.
    """
    names = [*sorted(release.manifest["files"]), "manifest.json"]  # the manifest last: without it, it is unfinished
    sizes = {}
    for name in names:
        path = release.folder / name
        if not path.is_file():
            raise ReleaseError("a file is missing", item=name, cure="verify the release")
        sizes[name] = path.stat().st_size
    if target.startswith("hf:"):
        return _to_hub(release, target.removeprefix("hf:"), sizes, dry_run)
    folder = Path(target)
    if (folder / "manifest.json").exists():
        other = Release.open(folder)
        if (other.name, other.version) == (release.name, release.version) and other.sha256 != release.sha256:
            raise UsageError(
                f"holds another {other.name} {other.version}",
                item=target,
                cure="raise the version: a version is frozen",
            )
        if (other.name, other.version) != (release.name, release.version):
            raise UsageError(f"holds {other.name} {other.version}", item=target, cure="choose another folder")
    there = tuple(
        n for n in names if (folder / n).is_file() and file_digest(folder / n) == file_digest(release.folder / n)
    )
    todo = {n: size for n, size in sizes.items() if n not in there}
    if not dry_run:
        with storage_errors(folder):
            for name in todo:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                part = folder / f"{name}.part"
                shutil.copyfile(release.folder / name, part)
                part.replace(folder / name)
    return Pushed(str(folder), todo, there)


def _to_hub(release: Release, repository: str, sizes: dict[str, int], dry_run: bool) -> Pushed:
    owner, _, name = repository.partition("/")
    if not owner or not name or "/" in name:
        raise UsageError(f"not a dataset repository: hf:{repository}", cure="write hf:OWNER/NAME")
    if dry_run:
        return Pushed(f"hf:{repository}", sizes, ())
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    except ModuleNotFoundError as error:
        raise MissingExtra("pushing to the hub", extra="hf", module="huggingface_hub") from error
    api = HfApi()
    try:
        api.create_repo(repository, repo_type="dataset", exist_ok=True)
        api.upload_folder(
            repo_id=repository, repo_type="dataset", folder_path=release.folder, allow_patterns=list(sizes),
            commit_message=f"{release.name} {release.version}",
        )  # fmt: skip
        api.create_tag(repository, tag=f"v{release.version}", repo_type="dataset", exist_ok=True)
    except OfflineModeIsEnabled as error:
        raise StorageError(
            "the hub is switched off (HF_HUB_OFFLINE)", item=f"hf:{repository}",
            cure="unset it, or push to a folder and carry that over",
        ) from error  # fmt: skip
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise StorageError(
            f"the hub did not take it: {str(error).splitlines()[0]}", item=f"hf:{repository}",
            cure="log in with 'hf auth login' and check the name, or push to a folder",
        ) from error  # fmt: skip
    return Pushed(f"hf:{repository}", sizes, ())
