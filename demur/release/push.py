"""Publishes a release in a dataset repository on the Hugging Face hub.

There ``main`` has the newest version, and a tag has each version. A push makes one commit, after uploading its
large files: an interrupted push publishes nothing, and the next one does not send again what the hub has. The tag comes
last; a tagged version is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import DemurError, ReleaseError, StorageError, UsageError, importing
from demur.core.store import read_json
from demur.core.text import command
from demur.release import Release, verify, version_number
from demur.release.layout import CARRIERS, manifest_faults

if TYPE_CHECKING:
    from huggingface_hub import HfApi

KIND = "dataset"
TOKEN = "HF_TOKEN"
"""Environment variable with the token; only the hub's client reads it."""
_REPOSITORY = re.compile(r"\w([\w.-]*\w)?/\w([\w.-]*\w)?(?<!\.git)", re.ASCII)


class Pushed(NamedTuple):
    """What a push sent, or would send."""

    target: str
    files: dict[str, int]
    """File -> bytes, of files that the target lacks."""
    there: tuple[str, ...]
    """Files that the target has already."""
    revision: str
    """The tag of this version."""
    note: str = ""
    """A remark for the user."""


def push(release: Release, target: str, *, dry_run: bool = False, private: bool = False) -> Pushed:
    """Send a release; identical files at the target are not sent again.

    Args:
        release: opened; verified first.
        target: ``hf:OWNER/NAME``; ``main`` has the newest version there, the tag ``vVERSION`` each.
        dry_run: send nothing, report what would be sent. An unreachable hub is then a note, not an error.
        private: make a new repository private.

    Raises:
        ReleaseError: the release is not sound.
        UsageError: the target holds another release, or other bytes under this version, or its name is malformed.
        MissingExtra: huggingface_hub is not installed.
        StorageError: the hub cannot be reached, or refuses.
    """
    if wrong := verify(release) or [str(row) for row in release.told_apart if row.telling]:
        raise ReleaseError(
            f"is not sound: {wrong[0]}"
            + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""),
            item=release.folder,
            cure=command("release", "verify", release.folder),
        )
    if not target.startswith("hf:"):
        raise UsageError(
            "a release is pushed to the hub",
            item=target,
            cure="write hf:OWNER/NAME, or copy the folder",
        )
    repository, tag = target.removeprefix("hf:"), f"v{release.version}"
    sizes = {name: (release.folder / name).stat().st_size for name in _list_files(release)}
    api = open_hub(repository)
    try:
        on_hub = hub_state(api, release, repository)
    except StorageError as error:
        if not dry_run:
            raise
        return Pushed(target, sizes, (), tag, f"the hub was not asked: {error.message}")
    listed = release.manifest["files"]
    present = tuple(n for n in listed if on_hub.files.get(n) == listed[n])
    if on_hub.sha256 == release.sha256:
        present = (*present, "manifest.json")
    todo = {n: size for n, size in sizes.items() if n not in present}
    if dry_run or on_hub.tagged:
        note = "" if on_hub.exists else "the repository would be made"
        return Pushed(target, todo, present, tag, note)
    commit = send(api, release, repository, on_hub, private=private)
    return Pushed(target, todo, present, tag, f"commit {commit[:12]}")


def _list_files(release: Release) -> list[str]:
    """All files of a release."""
    return [*sorted(release.manifest["files"]), "manifest.json"]


# --- the hub ---------------------------------------------------------------------------------------


class HubState(NamedTuple):
    """What the hub has of a release, by the manifest that lies there."""

    exists: bool
    """Whether the repository is there."""
    head: str = ""
    """Commit of ``main`` that the push builds on; "" when there is none."""
    tagged: bool = False
    """Whether this version is published, that is, tagged."""
    files: Mapping[str, str] = {}
    """File -> SHA-256."""
    sha256: str = ""
    """Of the release that lies there; "" without one."""


def open_hub(repository: str) -> HfApi:
    """The hub's own client.

    Raises:
        UsageError: the repository is not ``OWNER/NAME``.
        MissingExtra: huggingface_hub is not installed.
    """
    with importing("pushing to the hub", extra="hub", module="huggingface_hub"):
        from huggingface_hub import HfApi
    if (
        not _REPOSITORY.fullmatch(repository)
        or "--" in repository
        or ".." in repository
        or len(repository) > 96
    ):
        raise UsageError(
            f"not a dataset repository: hf:{repository[:100]}",
            cure="write hf:OWNER/NAME, as the hub names it",
        )
    return HfApi()


def hub_state(api: HfApi, release: Release, repository: str) -> HubState:
    """What the hub has of a release; writes nothing.

    Raises:
        UsageError: this release must not replace the content of the repository: another release, a newer version,
            other bytes under this version, or files that belong to no release.
        StorageError: the hub cannot be reached, or refuses.
    """
    from huggingface_hub.errors import RepositoryNotFoundError

    target = f"hf:{repository}"
    with _hub_errors(repository):
        try:
            refs = api.list_repo_refs(repository, repo_type=KIND)
        except RepositoryNotFoundError as error:
            if error.response.status_code == 401 and api.token is None and not _hub_token():
                raise
            return HubState(False)
    head = next((b.target_commit for b in refs.branches if b.name == "main"), "")
    tagged = next((t.target_commit for t in refs.tags if t.name == f"v{release.version}"), "")
    with _hub_errors(repository):
        files_present = (
            sorted(api.list_repo_files(repository, repo_type=KIND, revision=tagged or head))
            if head
            else []
        )
    manifest = (
        _manifest_at(api, repository, tagged or head) if "manifest.json" in files_present else None
    )
    if manifest is None:
        foreign = [
            f for f in files_present if f != "README.md" and f.partition("/")[0] not in CARRIERS
        ]
        if foreign:
            raise UsageError(
                f"holds files of no release ({', '.join(foreign[:3])})",
                item=target,
                cure="choose another repository",
            )
        return HubState(True, head)
    if manifest["name"] != release.name:
        raise UsageError(
            f"holds {manifest['name']} {manifest['version']}",
            item=target,
            cure="choose another repository",
        )
    if (tagged or manifest["version"] == release.version) and manifest["sha256"] != release.sha256:
        raise _frozen_error(target, release, f"its sha256 is {manifest['sha256'][:16]}")
    if version_number(manifest["version"]) > version_number(release.version):
        raise UsageError(
            f"holds {manifest['version']}, which is newer than {release.version}",
            item=target,
            cure="push versions in their order, or choose another repository",
        )
    return HubState(True, head, bool(tagged), manifest["files"], manifest["sha256"])


def send(api: HfApi, release: Release, repository: str, on_hub: HubState, *, private: bool) -> str:
    """Commit the release's folder by the client's own upload, which sends no large file twice, and tag the commit.

    Args:
        api: the hub's client.
        release: opened.
        repository: ``OWNER/NAME``; made if it does not exist.
        on_hub: what the hub has of it.
        private: whether a new repository is private.

    Returns:
        The commit.

    Raises:
        UsageError: another push was faster.
        StorageError: the hub cannot be reached, or refuses; nothing is published, and the next push goes on.
    """
    names = _list_files(release)
    with _hub_errors(repository):
        if not on_hub.exists:
            api.create_repo(repository, repo_type=KIND, private=private or None, exist_ok=True)
        commit: str = api.upload_folder(
            repo_id=repository,
            repo_type=KIND,
            folder_path=release.folder,
            allow_patterns=names,
            delete_patterns=sorted(on_hub.files.keys() - set(names)),
            commit_message=f"{release.name} {release.version}",
            parent_commit=on_hub.head or None,
        ).oid
        api.create_tag(
            repository,
            tag=f"v{release.version}",
            tag_message=f"sha256 {release.sha256}",
            revision=commit,
            repo_type=KIND,
        )
    return commit


def _manifest_at(api: HfApi, repository: str, revision: str) -> dict[str, Any] | None:
    """The manifest of the release in a revision; None without a valid one."""
    with TemporaryDirectory() as folder:
        with _hub_errors(repository):
            path = Path(
                api.hf_hub_download(
                    repository, "manifest.json", repo_type=KIND, revision=revision, local_dir=folder
                )
            )
        try:
            content = read_json(path)
        except DemurError:
            return None
    return content if isinstance(content, dict) and not any(manifest_faults(content)) else None


def _frozen_error(target: str, release: Release, why: str) -> UsageError:
    return UsageError(
        f"holds another {release.name} {release.version}: {why}",
        item=target,
        cure="raise the version: a version is frozen",
    )


def pull(text: str) -> Path:
    """Download ``OWNER/NAME`` or ``OWNER/NAME@VERSION``; cached files are not fetched again.

    Returns:
        The folder, in the client's cache.

    Raises:
        UsageError: the repository is not ``OWNER/NAME``.
        MissingExtra: huggingface_hub is not installed.
        StorageError: the hub cannot be reached, or has no such dataset or version.
    """
    name, _, revision = text.partition("@")
    open_hub(name)
    from huggingface_hub import snapshot_download

    with _hub_errors(name, reading=True):
        return Path(snapshot_download(name, repo_type=KIND, revision=revision or None))


# --- what goes wrong -----------------------------------------------------------------------------


def _hub_token() -> str:
    from huggingface_hub import get_token

    return str(get_token() or "")


def _clean_message(text: str) -> str:
    """A message of the hub on one line, without tokens and without query strings of signed URLs."""
    if token := _hub_token():
        text = text.replace(token, "***")
    text = re.sub(r"\bhf_\w{6,}+", "***", text)
    return " ".join(re.sub(r"(https?://[^\s?'\"]{1,500}+)\?[^\s'\"]*+", r"\1", text).split())[:300]


@contextmanager
def _hub_errors(repository: str, *, reading: bool = False) -> Iterator[None]:
    """Turn exceptions of the hub's client into errors with a cure.

    The original is not chained: its text is the server's, and a server may repeat the token that it received.
    """
    try:
        yield
    except DemurError:
        raise
    except (
        Exception
    ) as error:  # its type depends on the versions of the client and of its HTTP library
        raise _explain_error(error, repository, reading) from None


def _explain_error(error: Exception, repository: str, reading: bool) -> DemurError:
    from huggingface_hub.errors import LocalEntryNotFoundError

    item, owner, status = f"hf:{repository}", repository.partition("/")[0], _http_status(error)
    text = _clean_message(str(error)) or type(error).__name__
    if status in (409, 412):
        message = f"somebody else changed it at the same time ({status}: {text})"
        return UsageError(message, item=item, cure="run it again and see")
    if status in (401, 403):
        missing = (
            "does not accept the token" if _hub_token() else "needs a token, and there is none"
        )
        message = f"the hub {missing} ({status}: {text})"
        cure = f"put a token that may {'read' if reading else 'write to'} {owner} into {TOKEN} (or: hf auth login)"
    elif status == 404:
        missing = "dataset or version" if reading else "repository"
        message = f"the hub has no such {missing} ({text})"
        cure = "check the name, and what the token may see"
    elif 400 <= status < 500 and status != 429:
        message, cure = f"the hub did not take it ({status}: {text})", "correct what it names"
    elif isinstance(error, LocalEntryNotFoundError) and not status:
        message = f"it is not in the cache, and the hub cannot be reached: {text}"
        cure = "check the name, the version and the network, or give a release folder"
    else:
        message = f"the connection to the hub failed ({status or type(error).__name__}: {text})"
        cure = "run the same command again: what has arrived is not sent or fetched twice"
    return StorageError(message, item=item, cure=cure)


def _http_status(error: BaseException | None) -> int:
    """The HTTP status in an error or in its explicit causes; 0 without one."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
        error = error.__cause__
    return 0
