"""A deterministic encoder for tests: vectors seeded by the text or the pixels."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from typing import Literal

import numpy as np


class StubEncoder:
    """Hash-seeded vectors; the same text or picture gives the same vector everywhere."""

    note = "hash-seeded vectors, for tests"

    def __init__(
        self, name="stub", similarity: Literal["cosine", "dot"] = "cosine", dims=None, seed=0
    ):
        self.name, self.similarity, self.seed = name, similarity, seed
        self.dims = dims or {"joint": 16, "text": 24, "look": 8}
        self.calls = 0

    @property
    def __class__(self):
        """Those made of it, which wait, count or fail, stand for it: they are of the same code."""
        return StubEncoder

    def fingerprint(self):
        return hashlib.sha256(
            f"{self.name}{self.similarity}{self.dims}{self.seed}".encode()
        ).hexdigest()

    def _vectors(self, keys, space):
        self.calls += 1
        rows = []
        for key in keys:
            seed = int.from_bytes(
                hashlib.sha256(f"{space}{self.seed}".encode() + key).digest()[:8], "big"
            )
            rows.append(np.random.default_rng(seed).standard_normal(self.dims[space]))
        vectors = np.array(rows, dtype=np.float32).reshape(len(rows), self.dims[space])
        if self.similarity == "cosine" and len(rows):
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def texts(self, texts, space="joint", *, role="passage"):
        return self._vectors([t.encode() for t in texts], space)

    def images(self, images, space="joint"):
        return self._vectors([i.tobytes() for i in images], space)


def stub(argument="", *, allow_random=False):
    """What ``--encoder stub_encoder:stub`` opens."""
    return StubEncoder(name="stub_encoder:stub")


class SlowEncoder(StubEncoder):
    """A fifth of a second for every batch; the same vectors as `stub`."""

    def fingerprint(self):
        return StubEncoder(name="stub_encoder:stub").fingerprint()

    def texts(self, texts, space="joint", *, role="passage"):
        time.sleep(0.2)
        return super().texts(texts, space, role=role)


def slow_stub(argument="", *, allow_random=False):
    """What ``--encoder stub_encoder:slow_stub`` opens."""
    return SlowEncoder(name="stub_encoder:slow_stub")


class NotedEncoder(SlowEncoder):
    """Waits with its first batch until two processes have opened one: the quicker does not do all the work."""

    def texts(self, texts, space="joint", *, role="passage"):
        end = time.monotonic() + 300
        while len(_noted()) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        return super().texts(texts, space, role=role)


def _noted():
    with open(os.environ["OPENED_BY"]) as handle:
        return handle.read().split()


def noted_stub(argument="", *, allow_random=False):
    """What ``--encoder stub_encoder:noted_stub`` opens: `NotedEncoder`, its process in the file of the variable."""
    with open(os.environ["OPENED_BY"], "a") as handle:
        handle.write(f"{os.getpid()}\n")
    return NotedEncoder(name="stub_encoder:noted_stub")


def _kill_if(key):
    """End this process at once, as a crash would, where the file ``OPENED_BY``.deadly has that line; it is noted."""
    noted = os.environ["OPENED_BY"]
    with open(f"{noted}.deadly") as handle:
        if key not in handle.read().splitlines():
            return
    with open(noted, "a") as handle:
        handle.write(f"{key}\n")
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyEncoder(StubEncoder):
    """As `stub`, but some texts end its process (see `_kill_if`)."""

    batch = 8

    def texts(self, texts, space="joint", *, role="passage"):
        for text in texts:
            _kill_if(text)
        return super().texts(texts, space, role=role)


def deadly_stub(argument="", *, allow_random=False):
    """What ``--encoder stub_encoder:deadly_stub`` opens."""
    return DeadlyEncoder(name="stub_encoder:deadly_stub")


class LateEncoder(DeadlyEncoder):
    """Late interaction: a vector for each word; some texts end its process."""

    def texts(self, texts, space="text", *, role="passage"):
        for text in texts:
            _kill_if(text)
        return [self._vectors([word.encode() for word in text.split()], space) for text in texts]


def late_stub(argument="", *, allow_random=False):
    """What ``--encoder stub_encoder:late_stub`` opens."""
    return LateEncoder("stub_encoder:late_stub", "maxsim", {"text": 8})
