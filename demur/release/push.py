"""Publishes a release: to a folder, or to a dataset repository on the Hugging Face hub.

On the hub ``main`` has the newest version, and a tag has each version. A push makes one commit, after uploading its
large files: an interrupted push publishes nothing, and the next one does not send again what the hub has. The tag comes
last; a tagged version is frozen.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import DemurError, ReleaseError, StorageError, UsageError, importing
from demur.core.store import file_digest, read_json, replacing
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
    revision: str = ""
    """On the hub: the tag of this version."""
    note: str = ""
    """A remark for the user."""


def push(release: Release, target: str, *, dry_run: bool = False, private: bool = False) -> Pushed:
    """Send a release; identical files at the target are not sent again.

    Args:
        release: opened; verified first.
        target: a folder, or ``hf:OWNER/NAME``. On the hub ``main`` has the newest version, the tag ``vVERSION`` each.
        dry_run: send nothing, report what would be sent. An unreachable hub is then a note, not an error.
        private: if the hub repository is new, make it private.

    Raises:
        ReleaseError: the release is not sound.
        UsageError: the target holds another release, or other bytes under this version, or its name is malformed.
        MissingExtra: huggingface_hub is not installed.
        StorageError: the folder cannot be written; the hub cannot be reached, or refuses.
    """
    if wrong := verify(release):
        raise ReleaseError(
            f"is not sound: {wrong[0]}"
            + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""),
            item=release.folder,
            cure=command("release", "verify", release.folder),
        )
    sizes = {name: (release.folder / name).stat().st_size for name in _names(release)}
    if target.startswith("hf:"):
        return _to_hub(release, target.removeprefix("hf:"), sizes, dry_run, private)
    if private:
        raise UsageError(
            "--private is for the hub", item=target, cure="write hf:OWNER/NAME, or leave it out"
        )
    return _to_folder(release, Path(target), sizes, dry_run)


def _names(release: Release) -> list[str]:
    """All files of a release, the manifest last: without it, the release is unfinished."""
    return [*sorted(release.manifest["files"]), "manifest.json"]


def _to_folder(release: Release, folder: Path, sizes: dict[str, int], dry_run: bool) -> Pushed:
    target = str(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError("is a file", item=target, cure="name a folder")
    if folder.is_dir() and folder.resolve() == release.folder.resolve():
        raise UsageError("is the release itself", item=target, cure="choose another folder")
    if (folder / "manifest.json").exists():
        other = Release.open(folder)
        if (other.name, other.version) != (release.name, release.version):
            raise UsageError(
                f"holds {other.name} {other.version}", item=target, cure="choose another folder"
            )
        if other.sha256 != release.sha256:
            raise _frozen(target, release, f"its sha256 is {other.sha256[:16]}")
    elif folder.is_dir():
        foreign = sorted(p.name for p in folder.iterdir() if p.name not in _roots(sizes))
        if foreign:
            raise UsageError(
                f"holds other files ({', '.join(foreign[:3])})",
                item=target,
                cure="choose an empty folder",
            )
    listed = release.manifest["files"] | {
        "manifest.json": file_digest(release.folder / "manifest.json")
    }
    there = tuple(
        n for n in sizes if (folder / n).is_file() and file_digest(folder / n) == listed[n]
    )
    todo = {n: size for n, size in sizes.items() if n not in there}
    if not dry_run:
        for name in todo:
            with (release.folder / name).open("rb") as source, replacing(folder / name) as handle:
                shutil.copyfileobj(source, handle, 1 << 20)
    return Pushed(target, todo, there)


def _roots(sizes: dict[str, int]) -> set[str]:
    """Names that an interrupted push may leave at the top of its target."""
    tops = {name.partition("/")[0] for name in sizes}
    return tops | {f".{name}.tmp" for name in tops} | CARRIERS


def _to_hub(
    release: Release, repository: str, sizes: dict[str, int], dry_run: bool, private: bool
) -> Pushed:
    target, api = f"hf:{repository}", open_hub(repository)
    try:
        held = hub_state(api, release, repository)
    except StorageError as error:
        if not dry_run:
            raise
        return Pushed(target, sizes, (), tag_of(release), f"the hub was not asked: {error.message}")
    todo = {n: size for n, size in sizes.items() if n not in held.same}
    if dry_run or held.tagged:
        note = "" if held.exists else "the repository would be made"
        return Pushed(target, todo, held.same, tag_of(release), note)
    commit = send(api, release, repository, held, private=private)
    return Pushed(target, todo, held.same, tag_of(release), f"commit {commit[:12]}")


# --- the hub ---------------------------------------------------------------------------------------


class HubState(NamedTuple):
    """What the hub has of a release."""

    exists: bool
    """Whether the repository is there."""
    head: str
    """Commit of ``main`` that the push builds on; "" when there is none."""
    tagged: bool
    """Whether this version is published, that is, tagged."""
    same: tuple[str, ...]
    """Files that it has already."""
    stale: tuple[str, ...]
    """Files of the older version on ``main`` that this version lacks."""


def tag_of(release: Release) -> str:
    """The tag of a version."""
    return f"v{release.version}"


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

    target, tag, names = f"hf:{repository}", tag_of(release), _names(release)
    with _hub_errors(repository):
        try:
            refs = api.list_repo_refs(repository, repo_type=KIND)
        except RepositoryNotFoundError as error:
            if error.response.status_code == 401 and api.token is None and not _token():
                raise
            return HubState(False, "", False, (), ())
    head = next((b.target_commit for b in refs.branches if b.name == "main"), "")
    at = next((t.target_commit for t in refs.tags if t.name == tag), "")
    same = _same(api, release, repository, at or head) if at or head else ()
    if at:
        odd = sorted(set(names) - set(same))
        if odd:
            raise _frozen(target, release, f"{odd[0]} differs")
        return HubState(True, head, True, same, ())
    with _hub_errors(repository):
        there = (
            sorted(api.list_repo_files(repository, repo_type=KIND, revision=head)) if head else []
        )
    old = _manifest(api, repository, head) if "manifest.json" in there else None
    if old is None:
        foreign = [f for f in there if f != "README.md" and f.partition("/")[0] not in CARRIERS]
        if foreign:
            raise UsageError(
                f"holds files of no release ({', '.join(foreign[:3])})",
                item=target,
                cure="choose another repository",
            )
        return HubState(True, head, False, same, ())
    if old["name"] != release.name:
        raise UsageError(
            f"holds {old['name']} {old['version']}", item=target, cure="choose another repository"
        )
    if old["version"] == release.version and old["sha256"] != release.sha256:
        raise _frozen(target, release, f"its sha256 is {old['sha256'][:16]}")
    if version_number(old["version"]) > version_number(release.version):
        raise UsageError(
            f"holds {old['version']}, which is newer than {release.version}",
            item=target,
            cure="push versions in their order, or choose another repository",
        )
    return HubState(True, head, False, same, tuple(sorted(set(old["files"]) - set(names))))


def send(api: HfApi, release: Release, repository: str, held: HubState, *, private: bool) -> str:
    """Commit the files that the hub lacks, check that they arrived, and tag the commit.

    Args:
        api: the hub's client.
        release: opened.
        repository: ``OWNER/NAME``; made if it does not exist.
        held: what the hub has of it.
        private: whether a new repository is private.

    Returns:
        The commit.

    Raises:
        UsageError: another push was faster.
        StorageError: the hub cannot be reached, or refuses; nothing is published, and the next push goes on.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    tag, commit = tag_of(release), held.head
    todo = [n for n in _names(release) if n not in held.same]
    with _hub_errors(repository):
        if not held.exists:
            api.create_repo(repository, repo_type=KIND, private=private or None, exist_ok=True)
            refs = api.list_repo_refs(repository, repo_type=KIND)
            commit = next((b.target_commit for b in refs.branches if b.name == "main"), "")
        if todo or held.stale:
            operations: list[Any] = [CommitOperationDelete(n) for n in held.stale]
            operations += [CommitOperationAdd(n, release.folder / n) for n in todo]
            commit = api.create_commit(
                repository,
                operations,
                repo_type=KIND,
                commit_message=f"{release.name} {release.version}",
                parent_commit=commit or None,
            ).oid
    arrived = _same(api, release, repository, commit)
    odd = [n for n in _names(release) if n not in arrived]
    if odd:
        raise StorageError(
            f"what arrived is not what was sent: {odd[0]}",
            item=f"hf:{repository}",
            cure="push again",
        )
    with _hub_errors(repository):
        api.create_tag(
            repository,
            tag=tag,
            tag_message=f"sha256 {release.sha256}",
            revision=commit,
            repo_type=KIND,
        )
    return commit


def _same(api: HfApi, release: Release, repository: str, revision: str) -> tuple[str, ...]:
    """Files that the hub has, compared by its hashes."""
    from huggingface_hub.hf_api import RepoFile

    with _hub_errors(repository):
        infos = api.get_paths_info(repository, _names(release), repo_type=KIND, revision=revision)
    found = {info.path: info for info in infos if isinstance(info, RepoFile)}

    def equal(name: str) -> bool:
        path, file = release.folder / name, found.get(name)
        if file is None or file.size != path.stat().st_size:
            return False
        return bool(
            file.lfs.sha256 == file_digest(path) if file.lfs else file.blob_id == _blob(path)
        )

    return tuple(n for n in _names(release) if equal(n))


def _blob(path: Path) -> str:
    """The git blob hash of a file."""
    sha = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def _manifest(api: HfApi, repository: str, revision: str) -> dict[str, Any] | None:
    """The manifest of the release in a revision; None without a valid one."""
    with TemporaryDirectory() as folder:
        with _hub_errors(repository):
            path = Path(
                api.hf_hub_download(
                    repository, "manifest.json", repo_type=KIND, revision=revision, local_dir=folder
                )
            )
        try:
            found = read_json(path)
        except DemurError:
            return None
    return found if isinstance(found, dict) and not any(manifest_faults(found)) else None


def _frozen(target: str, release: Release, why: str) -> UsageError:
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


def _token() -> str:
    from huggingface_hub import get_token

    return str(get_token() or "")


def _clean(text: str) -> str:
    """A message of the hub on one line, without tokens and without query strings of signed URLs."""
    if token := _token():
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
        raise _explained(error, repository, reading) from None


def _explained(error: Exception, repository: str, reading: bool) -> DemurError:
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    item, owner = f"hf:{repository}", repository.partition("/")[0]
    again = "run the same command again: " + (
        "what has arrived is not fetched twice"
        if reading
        else "nothing is published yet, and what has arrived is not sent twice"
    )
    elsewhere = "give a release folder" if reading else "push to a folder and copy that"
    status = _status(error)
    text = _clean(str(error)) or type(error).__name__
    if status in (409, 412):
        message = f"somebody else changed it at the same time ({status}: {text})"
        return UsageError(message, item=item, cure="run it again and see")
    if any(isinstance(e, OfflineModeIsEnabled) for e in _chain(error)):
        message, cure = "the hub is switched off (HF_HUB_OFFLINE)", f"unset it, or {elsewhere}"
    elif isinstance(error, LocalEntryNotFoundError) and not status:
        message = f"it is not in the cache, and the hub cannot be reached: {text}"
        cure = f"check the name, the version and the network, or {elsewhere}"
    elif status in (401, 403):
        what = "does not accept the token" if _token() else "needs a token, and there is none"
        message = f"the hub {what} ({status}: {text})"
        cure = f"put a token that may {'read' if reading else 'write to'} {owner} into {TOKEN} (or: hf auth login)"
    elif status == 404:
        message = (
            f"the hub has no such {'dataset or version' if reading else 'repository'} ({text})"
        )
        cure = "check the name, and what the token may see"
    elif status == 429 or status >= 500:
        message, cure = f"the hub failed ({status}: {text})", again
    elif status or not _is_network_error(error):
        message = f"the hub did not take it ({status or type(error).__name__}: {text})"
        cure = f"correct what it names, or {elsewhere}"
    else:
        message, cure = f"the connection to the hub failed: {text}", again
    return StorageError(message, item=item, cure=cure)


def _chain(error: BaseException) -> list[BaseException]:
    """An error and its explicit causes, the outermost first."""
    found = [error]
    while (cause := found[-1].__cause__) is not None:
        found.append(cause)
    return found


def _is_network_error(error: BaseException) -> bool:
    """Whether it is an error of the operating system or of an HTTP library."""
    libraries = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")
    return any(
        isinstance(e, OSError) or type(e).__module__.partition(".")[0] in libraries
        for e in _chain(error)
    )


def _status(error: BaseException) -> int:
    """The HTTP status in an error's chain of causes; 0 without one."""
    for one in _chain(error):
        status = getattr(getattr(one, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
    return 0
