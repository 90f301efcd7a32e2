"""Pushing to a hub: the real client library, against a hub on this machine that speaks its protocol and can fail."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import curation_world as world
import fake_hub
import pytest
from errors import raises

from demur.api import open_release
from demur.cli import main
from demur.core.errors import DemurError, ReleaseError, StorageError, UsageError
from demur.core.store import digest, file_digest, read_json, write_json
from demur.curation.build.curate import curate
from demur.release import Draft, FunnelStep, Release, freeze, verify
from demur.release.push import hub_state, open_hub, push, send

# the client library's own call of its HTTP library
pytestmark = [
    pytest.mark.integration,  # the real client library against a server
    pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw:DeprecationWarning"),
]
TOKEN = "hf_secretsecretsecret"
REPO = "ann/towns"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    return curate(
        world.recipe(world.folder(root / "towns"), world.GATES), root / "out"
    ).release.folder


@pytest.fixture
def release(folder):
    return Release.open(folder)


def next_version(folder, out, version="1.1.0"):
    """The same release under another number, frozen by the real code."""
    old = Release.open(folder)
    known = ("files", "sha256", "counts", "name", "version", "format", "demur")
    freeze(
        out,
        Draft(
            name=old.name,
            version=version,
            samples=list(old.samples()),
            read_image=old.read_image,
            drops=old.drops(),
            funnel=[FunnelStep.model_validate(s) for s in old.funnel],
            recall=old.recall,
            about={k: v for k, v in old.manifest.items() if k not in known} | {"gates": []},
        ),
    )
    return Release.open(out)


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub import constants
    from huggingface_hub.utils import (
        _http,
        close_session,
        disable_progress_bars,
        enable_progress_bars,
    )

    with fake_hub.serving() as server:
        page = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in (
            ("ENDPOINT", server.url),
            ("HUGGINGFACE_CO_URL_TEMPLATE", page),
            ("HF_HUB_DISABLE_XET", True),
            ("HF_HUB_OFFLINE", False),
        ):
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(
            _http.time, "sleep", lambda seconds: None
        )  # between the client's own tries
        close_session()
        disable_progress_bars()
        yield server
        server.go.set()
        close_session()
        enable_progress_bars()


def back(hub, revision, where):
    """A revision as a folder, by the client library."""
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(REPO, repo_type="dataset", revision=revision, local_dir=where))


def sound(folder):
    return verify(Release.open(folder)) == []


def test_what_is_pushed_comes_back_sound_and_is_not_sent_twice(hub, release, folder, tmp_path):
    planned = push(release, f"hf:{REPO}", dry_run=True)
    assert (len(planned.files), planned.note, hub.repos) == (
        len(release.manifest["files"]) + 1,
        "the repository would be made",
        {},
    )
    sent = push(release, f"hf:{REPO}")
    assert (sent.files, sent.revision) == (planned.files, "v1.0.0")
    read = back(hub, "v1.0.0", tmp_path / "back")
    assert sound(read)  # with the hub's .gitattributes and the client's .cache beside it
    for name in sent.files:
        assert (read / name).read_bytes() == (folder / name).read_bytes()
    assert [title for title, _ in hub.repos[REPO].commits.values()] == [
        "initial commit",
        "towns 1.0.0",
    ]
    before = len(hub.seen)
    again = push(release, f"hf:{REPO}")
    assert (again.files, len(again.there)) == ({}, len(planned.files))
    assert {method for method, *_ in hub.seen[before:]} <= {"GET", "HEAD"}
    assert push(release, f"hf:{REPO}", dry_run=True).files == {}


def test_a_snapshot_of_links_as_the_hubs_cache_keeps_it_is_sound(hub, release, tmp_path):
    from huggingface_hub import snapshot_download

    push(release, f"hf:{REPO}")
    read = Path(snapshot_download(REPO, repo_type="dataset", cache_dir=tmp_path))
    assert (read / "manifest.json").is_symlink()
    assert sound(read)


def test_versions_stand_side_by_side_and_are_frozen(hub, release, folder, tmp_path, monkeypatch):
    push(release, f"hf:{REPO}")
    newer = next_version(folder, tmp_path / "new")
    extra = dict(hub.repos[REPO].files())
    manifest = json.loads(extra["manifest.json"].data)
    manifest["files"]["old.json"] = "0" * 64  # a file that a later format has not got any more
    extra |= {
        "manifest.json": fake_hub.File(json.dumps(manifest).encode(), False),
        "old.json": fake_hub.File(b"{}", False),
    }
    hub.repos[REPO].commit("by hand", extra)
    new = fake_hub.File((newer.folder / "manifest.json").read_bytes(), False)
    hub.repos[REPO].commit("newer", {**extra, "manifest.json": new})
    between = next_version(folder, tmp_path / "between", "1.0.9")
    with raises(UsageError, "1.1.0", "1.0.9", item=f"hf:{REPO}"):
        push(between, f"hf:{REPO}")
    hub.repos[REPO].commit("back", extra)
    sent = push(newer, f"hf:{REPO}")
    assert "data/evidence.parquet" in sent.there  # the same bytes in both versions
    assert "old.json" not in hub.repos[REPO].files()
    assert set(hub.repos[REPO].tags) == {"v1.0.0", "v1.1.0"}
    assert (back(hub, "v1.0.0", tmp_path / "a") / "manifest.json").read_bytes() == (
        folder / "manifest.json"
    ).read_bytes()
    assert Release.open(back(hub, "main", tmp_path / "b")).version == "1.1.0"
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "drops.jsonl").write_text("")
    manifest = read_json(other / "manifest.json")
    manifest["files"]["drops.jsonl"] = file_digest(other / "drops.jsonl")
    write_json(other / "manifest.json", manifest | {"sha256": digest(manifest["files"])})
    with raises(ReleaseError, "drops.jsonl", item=other.name, cure="demur release verify"):
        push(Release.open(other), f"hf:{REPO}")
    monkeypatch.setattr(
        "demur.release.push.verify", lambda release: []
    )  # a sound one would be told likewise
    with raises(UsageError, "towns 1.0.0", release.sha256[:16], item=f"hf:{REPO}"):
        push(Release.open(other), f"hf:{REPO}")
    with raises(UsageError, "towns 1.0.0", item=f"hf:{REPO}"):
        push(Release.open(other), f"hf:{REPO}", dry_run=True)


def test_a_version_on_main_without_its_tag_is_frozen_too(
    hub, release, folder, tmp_path, monkeypatch
):
    push(release, f"hf:{REPO}")
    hub.repos[REPO].tags.clear()
    manifest = read_json(folder / "manifest.json")
    shutil.copytree(folder, tmp_path / "other")
    write_json(tmp_path / "other" / "manifest.json", manifest | {"sha256": "0" * 64})
    monkeypatch.setattr("demur.release.push.verify", lambda release: [])
    with raises(UsageError, "towns 1.0.0", item=f"hf:{REPO}"):
        push(Release.open(tmp_path / "other"), f"hf:{REPO}")
    assert push(release, f"hf:{REPO}").files == {}
    assert set(hub.repos[REPO].tags) == {"v1.0.0"}


def test_what_is_not_ours_is_left_alone(hub, release):
    hub.repos[REPO] = fake_hub.Repo(REPO)
    hub.repos[REPO].commit(
        "theirs", {"README.md": fake_hub.File(b"x", False), "train.csv": fake_hub.File(b"a", False)}
    )
    with raises(UsageError, "(train.csv)", item=f"hf:{REPO}"):
        push(release, f"hf:{REPO}")
    manifest = {**release.manifest, "name": "villages"}
    hub.repos[REPO].commit(
        "another", {"manifest.json": fake_hub.File(json.dumps(manifest).encode(), False)}
    )
    with raises(UsageError, "villages 1.0.0", item=f"hf:{REPO}"):
        push(release, f"hf:{REPO}")
    hub.repos[REPO].commit("half", {"manifest.json": fake_hub.File(b"{", False)})
    with raises(UsageError, "(manifest.json)", item=f"hf:{REPO}"):
        push(release, f"hf:{REPO}")
    assert not hub.uploads()


@pytest.mark.parametrize(
    "name", ["nobody", "a/b/c", "a/b--c", "../x", "a/b.git", "a/" + "x" * 100, "a b/c", "/x", "x/"]
)
def test_a_name_that_the_hub_does_not_know_is_refused_at_once(hub, release, name):
    with raises(UsageError, f"hf:{name}"[:50], cure="hf:OWNER/NAME"):
        push(release, f"hf:{name}")
    assert not hub.seen


def test_no_token_a_wrong_one_and_one_of_somebody_else(hub, release, monkeypatch):
    for token in ("", "hf_wrongwrong"):
        monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nowhere")
        with raises(StorageError, "(401", item=f"hf:{REPO}", cure="HF_TOKEN"):
            push(release, f"hf:{REPO}")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with raises(StorageError, "(403", item="hf:bob/towns", cure="HF_TOKEN"):
        push(release, "hf:bob/towns")
    hub.repos["bob/towns"] = fake_hub.Repo("bob/towns")
    hub.repos["bob/towns"].commit("initial commit", {})
    with raises(StorageError, "(403", item="hf:bob/towns", cure="HF_TOKEN"):
        push(release, "hf:bob/towns")


def test_a_repository_that_is_there_is_used_even_when_it_came_a_moment_ago(hub, release):
    hub.repos[REPO] = fake_hub.Repo(REPO)
    hub.repos[REPO].commit("initial commit", {".gitattributes": fake_hub.File(b"", False)})
    hub.plant("GET", "/refs$", 404, times=1)
    hub.faults[0][2] = 404
    with raises(
        StorageError, "404", item=f"hf:{REPO}"
    ):  # a bare 404 is no statement about the repository
        push(release, f"hf:{REPO}")
    push(release, f"hf:{REPO}")
    assert "v1.0.0" in hub.repos[REPO].tags


def test_a_private_repository(hub, release, tmp_path, monkeypatch):
    push(release, f"hf:{REPO}", private=True)
    assert hub.repos[REPO].private
    assert push(release, f"hf:{REPO}").files == {}
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nowhere")
    assert "needs a token" in push(release, f"hf:{REPO}", dry_run=True).note


STEPS = [
    ("GET", "/refs$"),
    ("POST", "/repos/create$"),
    ("POST", "/preupload/"),
    ("POST", "/batch$"),
    ("PUT", "/lfs/"),
    ("POST", "/lfs/complete/"),
    ("POST", "/commit/"),
    ("POST", "/tag/"),
]
OFTEN = {"/lfs/": 503, "/commit/": "cut", "/tag/": 503}
BREAKS = [
    pytest.param(method, path, what, marks=[] if OFTEN.get(path) == what else pytest.mark.slow)
    for method, path in STEPS
    for what in (503, "cut")
]


@pytest.mark.integration
@pytest.mark.parametrize(("method", "path", "what"), BREAKS)
def test_wherever_it_breaks_the_next_push_completes_it(hub, release, tmp_path, method, path, what):
    hub.plant(method, path, what)
    with raises(StorageError, item=f"hf:{REPO}"):
        push(release, f"hf:{REPO}")
    repo = hub.repos.get(REPO)
    assert not (repo and repo.tags)
    assert not repo or len(repo.commits) == (2 if path == "/tag/" else 1)  # all of it or nothing
    hub.faults.clear()
    push(release, f"hf:{REPO}")
    assert len(hub.repos[REPO].commits) == 2
    assert sound(back(hub, "v1.0.0", tmp_path / "back"))


def test_what_has_arrived_is_not_sent_again(hub, release):
    hub.plant("PUT", "/lfs/part/.*/3$", "cut")  # the larger tables never arrive whole
    with pytest.raises(StorageError, match="connection"):
        push(release, f"hf:{REPO}")
    whole = set(hub.objects)
    assert whole
    hub.faults.clear()
    before = len(hub.seen)
    push(release, f"hf:{REPO}")
    assert not [
        path
        for _, path, _ in hub.seen[before:]
        if path.startswith("/lfs/") and any(sha in path for sha in whole)
    ]
    assert len(hub.repos[REPO].commits) == 2


def test_a_reply_that_is_lost_after_the_work_was_done(hub, release):
    hub.plant("POST", "/commit/", "lost")
    with pytest.raises(StorageError, match="connection"):
        push(release, f"hf:{REPO}")
    hub.faults.clear()
    assert push(release, f"hf:{REPO}").files == {}
    assert len(hub.repos[REPO].commits) == 2
    assert hub.repos[REPO].tags == {"v1.0.0": hub.repos[REPO].main}


def test_somebody_elses_push_at_the_same_time(hub, release):
    for path in ("/commit/", "/tag/"):
        hub.plant("POST", path, 412 if path == "/commit/" else 409, times=1)
        with raises(UsageError, "(4", item=f"hf:{REPO}"):
            push(release, f"hf:{REPO}")
    assert not push(release, f"hf:{REPO}").files


def test_a_commit_between_looking_and_sending_is_not_overwritten(hub, release):
    api = open_hub(REPO)
    push(release, f"hf:{REPO}")
    hub.repos[REPO].tags.clear()
    hub.repos[REPO].commit("emptied", {})
    held = hub_state(api, release, REPO)
    hub.repos[REPO].commit("theirs", {"README.md": fake_hub.File(b"theirs", False)})
    with raises(UsageError, "(412", item=f"hf:{REPO}"):
        send(api, release, REPO, held, private=False)
    assert not hub.repos[REPO].tags


@pytest.mark.parametrize("secret", [TOKEN, "of-a-private-hub-0815"])
def test_the_token_is_never_told(hub, release, caplog, capfd, monkeypatch, secret):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HF_TOKEN", secret)
    hub.tokens[secret] = "ann"
    for method, path in STEPS:
        hub.plant(method, path, "echo", times=1)
        with pytest.raises(DemurError) as raised:
            push(release, f"hf:{REPO}")
        told = "".join(traceback.format_exception(raised.value))
        assert "Bearer ***" in told or path.startswith("/lfs/") or method == "PUT"
        assert secret not in told
    assert secret not in caplog.text
    assert secret not in "".join(capfd.readouterr())
    assert not any(secret in path for _, path, _ in hub.seen)


def test_what_the_hub_says_of_a_card_it_does_not_take(hub, release):
    hub.plant("POST", "/api/validate-yaml", 400)
    with raises(StorageError, "(400", "README.md", item=f"hf:{REPO}"):
        push(release, f"hf:{REPO}")
    assert not hub.uploads()


def test_a_hub_that_is_not_there(hub, release, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with raises(StorageError, "Connection refused", item=f"hf:{REPO}"):
        push(release, f"hf:{REPO}")
    planned = push(release, f"hf:{REPO}", dry_run=True)
    assert (len(planned.files), planned.revision) == (len(release.manifest["files"]) + 1, "v1.0.0")
    assert "the hub was not asked" in planned.note


# --- from the command line, with everything real but the hub ----------------------------------------


def environment(hub, home):
    kept = {
        k: v
        for k, v in os.environ.items()
        if k.upper() not in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    }
    return {
        **kept,
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
        "HF_DATASETS_OFFLINE": "0",
        "HF_HOME": str(home),
        "PYTHONUNBUFFERED": "1",
    }


LOAD = """
import sys
from datasets import load_dataset
samples = load_dataset("ann/towns", "samples", split="test", revision="v1.0.0")
evidence = load_dataset("ann/towns", "evidence", split="test", revision="v1.0.0")
known = {row["id"] for row in evidence}
assert {e["id"] for row in samples for e in (*row["gold"], *row["negatives"])} == known
print(len(samples), sum(image.size == (64, 64) for row in samples for image in row["images"]))
"""


@pytest.mark.slow
@pytest.mark.integration
def test_killed_in_the_middle_then_pushed_again_then_loaded_with_datasets(
    release, folder, tmp_path
):
    with fake_hub.serving() as hub:
        env = environment(hub, tmp_path / "home")
        command = [sys.executable, "-m", "demur", "release", "push", str(folder), f"hf:{REPO}"]
        hub.plant("POST", "/lfs/complete/", "hang", times=1)
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        end = time.monotonic() + 300
        while (
            not any(p.startswith("/lfs/complete/") for _, p, _ in hub.seen)
            and time.monotonic() < end
        ):
            time.sleep(0.05)
        process.kill()
        said = process.communicate()[0]
        hub.go.set()
        assert len(hub.repos[REPO].commits) == 1
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert len(hub.repos[REPO].commits) == 2
        assert TOKEN not in said + done.stdout + done.stderr
        read = tmp_path / "back"
        code = f"from huggingface_hub import snapshot_download as s; s({REPO!r}, repo_type='dataset', local_dir={str(read)!r})"
        subprocess.run(
            [sys.executable, "-c", code], env=env, check=True, capture_output=True, timeout=600
        )
        checked = subprocess.run(
            [*command[:3], "release", "verify", str(read)], env=env, capture_output=True, text=True
        )
        assert (checked.returncode, "is sound" in checked.stdout) == (0, True), checked.stdout
        loaded = subprocess.run(
            [sys.executable, "-c", LOAD], env=env, capture_output=True, text=True, timeout=600
        )
        assert loaded.returncode == 0, loaded.stderr
        samples = release.manifest["counts"]["samples"]
        assert loaded.stdout.split() == [
            str(samples),
            str(sum(len(s.images) for s in release.samples())),
        ]
        env["HF_TOKEN"] = "hf_wrongwrong"
        refused = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "HF_TOKEN" in refused.stderr.splitlines()[-1]
        assert "Traceback" not in refused.stderr


def test_a_release_is_opened_from_the_hub_by_name_and_version(hub, release, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    push(release, f"hf:{REPO}")
    assert open_release(f"hf:{REPO}@v1.0.0").sha256 == release.sha256
    assert main(["release", "verify", f"hf:{REPO}@v1.0.0"]) == 0
    with raises(StorageError, "404", "v9.9.9", item=f"hf:{REPO}"):
        open_release(f"hf:{REPO}@v9.9.9")
    for name in ("towns", "../towns", "a/b/c", "ann/../x"):
        with pytest.raises(UsageError, match="OWNER/NAME"):
            open_release(f"hf:{name}")
    hub.faults.append(["GET", ".*", "echo", 99])  # a hub that repeats the token it was sent
    with raises(StorageError, "403", item=f"hf:{REPO}", cure="HF_TOKEN") as told:
        open_release(f"hf:{REPO}")
    assert TOKEN not in "".join(traceback.format_exception(told.value))
