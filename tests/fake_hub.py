"""A Hugging Face hub on this machine: the HTTP that the real client library speaks when it makes, fills and reads a
dataset repository. Files live in memory; commits, branches and tags are kept; large files go through Git LFS, in parts
when they are large enough. Faults are planted by method and path.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

PART = 4_000
"""Bytes in one part of a large upload."""
LFS_FROM = 3_000
"""Files of this size and all Parquet files are large."""


@dataclass
class File:
    data: bytes
    lfs: bool

    @property
    def sha256(self):
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self):
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.data)}\n".encode()

    @property
    def blob(self):
        data = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass
class Repo:
    name: str
    private: bool = False
    commits: dict = field(default_factory=dict)
    """oid -> (title, path -> File)"""
    main: str = ""
    tags: dict = field(default_factory=dict)

    def commit(self, title, files):
        oid = hashlib.sha1(
            f"{title}{self.main}{sorted((n, f.blob) for n, f in files.items())}".encode()
        ).hexdigest()
        self.commits[oid] = (title, files)
        self.main = oid
        return oid

    def at(self, revision):
        revision = unquote(revision)
        oid = self.main if revision in ("main", "HEAD", "") else self.tags.get(revision, revision)
        return oid if oid in self.commits else None

    def files(self, revision="main"):
        return self.commits[self.at(revision)][1]


@dataclass
class Hub:
    tokens: dict = field(default_factory=lambda: {"hf_secretsecretsecret": "ann"})
    repos: dict = field(default_factory=dict)
    objects: dict = field(default_factory=dict)
    """SHA-256 -> bytes that were uploaded"""
    parts: dict = field(default_factory=dict)
    faults: list = field(default_factory=list)
    """[method, path pattern, what, times left]; what: a status, or 'cut' (after half the body), or 'echo' (a 403 that
    repeats the token), 'lost' (done, but the reply never leaves), 'hang' (until `go`), 'spoil' (keeps other bytes)"""
    seen: list = field(default_factory=list)
    """(method, path, status)"""
    go: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    storage: str = ""
    """Large files lie on another host, as the real hub's do: a client must not show it the token."""

    def plant(self, method, pattern, what, times=10**6):
        self.faults.append([method, pattern, what, times])

    def uploads(self):
        return [path for method, path, status in self.seen if method == "PUT" and status == 200]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_):
        pass

    def answer(self, status, value=None, headers=(), data=None):
        self.hub.seen.append((self.command, self.path, status))
        body = data if data is not None else json.dumps({} if value is None else value).encode()
        self.send_response(status)
        for key, val in headers:
            self.send_header(key, val)
        if not any(k.lower() == "content-type" for k, _ in headers):
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, message, code=""):
        headers = [("X-Error-Message", message)] + ([("X-Error-Code", code)] if code else [])
        self.answer(status, {"error": message}, headers)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def user(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return self.hub.tokens.get(token), token

    def serve(self):
        split = urlsplit(self.path)
        path, query = split.path, parse_qs(split.query)
        fault = next(
            (
                f
                for f in self.hub.faults
                if f[0] == self.command and f[3] > 0 and re.search(f[1], path)
            ),
            None,
        )
        spoil = None
        if fault is not None:
            fault[3] -= 1
            if fault[2] == "cut":
                self.rfile.read(int(self.headers.get("Content-Length") or 0) // 2)
                self.hub.seen.append((self.command, self.path, 0))
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if fault[2] == "echo":
                self.body()
                self.answer(403, {"error": f"not allowed: {self.headers.get('Authorization')}"})
                return
            if fault[2] == "hang":
                self.hub.seen.append((self.command, self.path, 0))
                self.hub.go.wait(30)
                self.close_connection = True
                return
            spoil = fault[2]
            if spoil not in ("spoil", "lost"):
                self.body()
                self.refuse(fault[2], "planted")
                return
        body = self.body()
        if path.startswith("/lfs/"):
            self.lfs(path, body, spoil)
            return
        if path.startswith("/api/") or self.command == "POST":
            self.api(path, query, body, spoil)
            return
        found = re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if found and (where := self.repo(found[1])):
            self.resolve(where, found[2], unquote(found[3]))
        elif not found:
            self.refuse(404, "no such page")

    do_GET = do_HEAD = do_POST = do_PUT = serve

    def repo(self, name, write=False):
        user, token = self.user()
        repo = self.hub.repos.get(name)
        if token and not user:
            self.refuse(401, "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and user != name.partition("/")[0]):
            self.refuse(404 if user else 401, "Repository not found", "RepoNotFound")
        elif write and user != name.partition("/")[0]:
            self.refuse(403 if user else 401, "You don't have the rights to write here")
        else:
            return repo
        return None

    def lfs(self, path, body, spoil):
        if self.headers.get("Authorization"):
            self.refuse(400, "storage wants no token")
            return
        kind, _, rest = path.removeprefix("/lfs/").partition("/")
        if kind == "object" and self.command in ("GET", "HEAD"):
            self.answer(
                200,
                data=self.hub.objects[rest],
                headers=[("Content-Type", "application/octet-stream")],
            )
        elif kind == "object":
            self.hub.objects[rest] = body
            self.answer(200)
        elif kind == "part":
            sha, number = rest.split("/")
            self.hub.parts[sha, int(number)] = body
            self.answer(
                200, headers=[("ETag", hashlib.md5(body, usedforsecurity=False).hexdigest())]
            )
        else:  # all parts are there
            asked = json.loads(body)
            data = b"".join(self.hub.parts[rest, p["partNumber"]] for p in asked["parts"])
            if hashlib.sha256(data).hexdigest() != asked["oid"]:
                self.refuse(400, "the parts are not the object")
                return
            self.hub.objects[rest] = data
            self.answer(200)

    def resolve(self, repo, revision, name):
        oid = repo.at(revision)
        if oid is None:
            self.refuse(404, "Revision not found", "RevisionNotFound")
            return
        file = repo.commits[oid][1].get(name)
        if file is None:
            self.refuse(404, "Entry not found", "EntryNotFound")
            return
        headers = [("X-Repo-Commit", oid), ("ETag", f'"{file.sha256 if file.lfs else file.blob}"')]
        if file.lfs:
            more = [("X-Linked-Etag", f'"{file.sha256}"'), ("X-Linked-Size", str(len(file.data)))]
            self.answer(
                302,
                headers=[
                    *headers,
                    *more,
                    ("Location", f"{self.hub.storage}/lfs/object/{file.sha256}"),
                ],
            )
        else:
            self.answer(200, data=file.data, headers=[*headers, ("Content-Type", "text/plain")])

    def api(self, path, query, body, spoil):
        hub, user = self.hub, self.user()[0]
        if path == "/api/whoami-v2":
            return (
                self.answer(200, {"name": user})
                if user
                else self.refuse(401, "Invalid username or password.")
            )
        if path == "/api/validate-yaml":
            content = json.loads(body)["content"]
            errors = [] if content.startswith("---\n") else [{"message": "no metadata"}]
            return self.answer(400 if errors else 200, {"errors": errors, "warnings": []})
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization'] or user}/{asked['name']}"
            if not user:
                return self.refuse(401, "Invalid username or password.")
            if user != name.partition("/")[0]:
                return self.refuse(
                    403,
                    f"You don't have the rights to create a dataset under {asked['organization']}",
                )
            url = {"url": f"{hub.url}/datasets/{name}"}
            if name in hub.repos:
                return self.answer(409, {"error": "You already created this dataset repo", **url})
            hub.repos[name] = Repo(
                name, asked.get("visibility") == "private" or bool(asked.get("private"))
            )
            hub.repos[name].commit(
                "initial commit", {".gitattributes": File(b"*.parquet filter=lfs\n", False)}
            )
            return self.answer(200, url)
        found = re.fullmatch(r"/datasets/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path)
        if found:
            return self.batch(found[1], json.loads(body))
        found = re.fullmatch(
            r"/api/datasets/([^/]+/[^/]+?)(?:/([a-z-]+)(?:/([^/]+))?(?:/(.*))?)?", path
        )
        if not found:
            return self.refuse(404, "no such address")
        name, what, revision, rest = found[1], found[2] or "", found[3] or "main", found[4] or ""
        repo = self.repo(name, write=what in ("preupload", "commit", "tag"))
        if repo is None:
            return None
        oid = repo.at(revision)
        if what == "refs":
            tags = [
                {"name": n, "ref": f"refs/tags/{n}", "targetCommit": c}
                for n, c in repo.tags.items()
            ]
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repo.main}
            return self.answer(200, {"branches": [main], "converts": [], "tags": tags})
        if oid is None:
            return self.refuse(404, "Revision not found", "RevisionNotFound")
        files = repo.commits[oid][1]
        if what in ("", "revision"):
            info = {
                "id": name,
                "sha": oid,
                "private": repo.private,
                "tags": [],
                "siblings": [{"rfilename": n} for n in files],
            }
            return self.answer(200, info)
        if what == "paths-info":
            asked = parse_qs(body.decode()) if not body.startswith(b"{") else json.loads(body)
            return self.answer(
                200, [self.entry(n, files[n]) for n in asked.get("paths", []) if n in files]
            )
        if what == "tree":
            inside = [n for n in files if not rest or n.startswith(unquote(rest) + "/")]
            if rest and not inside:
                return self.refuse(404, "Entry not found", "EntryNotFound")
            deep = query.get("recursive", ["false"])[0].lower() == "true"
            start = len(unquote(rest)) + 1 if rest else 0
            here = [self.entry(n, files[n]) for n in inside if deep or "/" not in n[start:]]
            folders = sorted({n[: n.index("/", start)] for n in inside if "/" in n[start:]})
            return self.answer(
                200,
                [{"type": "directory", "path": f, "oid": "0" * 40, "size": 0} for f in folders]
                + here,
            )
        if what == "preupload":
            return self.answer(
                200, {"files": [self.plan(f, files) for f in json.loads(body)["files"]]}
            )
        if what == "commit":
            return self.commit(repo, [json.loads(line) for line in body.splitlines()], spoil)
        if what == "tag":
            asked = json.loads(body)
            if asked["tag"] in repo.tags:
                return self.refuse(409, f"Tag {asked['tag']} exists already")
            repo.tags[asked["tag"]] = oid
            return self.answer(200)
        return self.refuse(404, "no such address")

    def entry(self, name, file):
        more = (
            {"lfs": {"oid": file.sha256, "size": len(file.data), "pointerSize": len(file.pointer)}}
            if file.lfs
            else {}
        )
        return {"type": "file", "path": name, "size": len(file.data), "oid": file.blob, **more}

    def plan(self, asked, files):
        large = asked["path"].endswith(".parquet") or asked["size"] >= LFS_FROM
        there = files.get(asked["path"])
        known = {} if there is None else {"oid": there.sha256 if there.lfs else there.blob}
        return {
            "path": asked["path"],
            "uploadMode": "lfs" if large else "regular",
            "shouldIgnore": False,
            **known,
        }

    def batch(self, name, asked):
        if self.repo(name, write=True) is None:
            return
        objects = []
        for o in asked["objects"]:
            sha, entry = o["oid"], {"oid": o["oid"], "size": o["size"]}
            if sha not in self.hub.objects:
                if o["size"] > PART:
                    count = -(-o["size"] // PART)
                    header = {"chunk_size": str(PART)}
                    header |= {
                        str(i): f"{self.hub.storage}/lfs/part/{sha}/{i}"
                        for i in range(1, count + 1)
                    }
                    upload = {"href": f"{self.hub.storage}/lfs/complete/{sha}", "header": header}
                else:
                    upload = {"href": f"{self.hub.storage}/lfs/object/{sha}"}
                entry["actions"] = {"upload": upload}
            objects.append(entry)
        self.answer(200, {"transfer": "basic", "objects": objects})

    def commit(self, repo, lines, spoil):
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, repo.main):
            self.refuse(412, "A commit has happened since")
            return
        files = dict(repo.files())
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = File(base64.b64decode(value["content"]), False)
            elif line["key"] == "lfsFile":
                data = self.hub.objects.get(value["oid"])
                if data is None or hashlib.sha256(data).hexdigest() != value["oid"]:
                    self.refuse(400, f"the object of {value['path']} was never uploaded whole")
                    return
                files[value["path"]] = File(data, True)
            else:
                files.pop(value["path"])
        if spoil == "spoil":
            files["README.md"] = File(files["README.md"].data + b" ", False)
        oid = repo.commit(header["summary"], files)
        if spoil == "lost":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.answer(
            200,
            {"commitOid": oid, "commitUrl": f"{self.hub.url}/datasets/{repo.name}/commit/{oid}"},
        )


@contextmanager
def serving():
    """A hub, empty, until the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    hub.storage = f"http://localhost:{server.server_port}"
    thread = threading.Thread(
        target=server.serve_forever, args=(0.02,), daemon=True
    )  # the end of it comes soon
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
