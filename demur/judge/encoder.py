"""What a reply means, by a sentence encoder in numpy: whether it declines, and whether what it states is its answer.

The model of letters in `demur.judge.wording` knows the words of its training sentences; a pretrained encoder also knows
which words mean the same, in any of its languages. This is multilingual-e5-small (Wang et al. 2024, "Multilingual E5
Text Embeddings"; MIT): ``data/encoder.npz`` has its layers, rounded to four bits, and that part of its vocabulary which
eighteen languages are written in (``training/trim_encoder.py``). For each of two
questions an adapter, ``data/encoder_*.npz``, has low-rank additions to the upper layers (LoRA: Hu et al. 2021,
arXiv:2106.09685) and a linear layer, trained on labelled replies (``training/encoder_adapter.py``). PyTorch is not
needed; a reply takes about 20 ms of one core for each question.
"""

from __future__ import annotations

import threading
from functools import cache, lru_cache
from importlib.resources import as_file, files
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from demur.judge.wording import readable

WIDTH, LAYERS, HEADS = 384, 12, 12
LONGEST = 512
"""Tokens of a text; what is longer is cut."""
DEFLECTION, COMMITMENT = "encoder_deflection.npz", "encoder_commitment.npz"
"""The adapters."""
MARK = 2
"""Token at the end of a text and between two; the lower ones are marks too."""
BLOCK = 32
"""Neighbouring weights that share one step of their rounding; two weights fill a byte."""
MATRICES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
"""BERT's names of a layer's matrices."""

Floats = npt.NDArray[np.float32]


def stored(name: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file in ``data/``."""
    with (
        as_file(files(__package__) / "data" / name) as path,
        np.load(path, allow_pickle=False) as arrays,
    ):
        return dict(arrays)


def rounded(steps: npt.NDArray[np.float16], pairs: npt.NDArray[np.uint8]) -> Floats:
    """Weights from their rounding.

    Args:
        steps: of each block, shape (..., n / `BLOCK`).
        pairs: shape (..., n / `BLOCK`, `BLOCK` / 2): the first half of a block in the low four bits, the other in the
            high ones; 8 is zero.

    Returns:
        shape (..., n).
    """
    both = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype(np.float32) - 8
    return (both * steps[..., None].astype(np.float32)).reshape(*steps.shape[:-1], -1)


class Base(NamedTuple):
    """The encoder as it was pretrained."""

    tokenizer: Tokenizer
    words: tuple[npt.NDArray[np.float16], npt.NDArray[np.uint8]]
    """Of pieces of words: steps and pairs, as `rounded` takes them."""
    weights: dict[str, Floats]
    """Of the layers, by BERT's names."""
    log_probabilities: npt.NDArray[np.float32]
    """Of the pieces, in the vocabulary."""


@cache
def base() -> Base:
    """The one of this process; its weights take 90 MB."""
    arrays = stored("encoder.npz")
    text_tokenizer, words = (
        tokenizer(arrays),
        (arrays.pop("words.steps"), arrays.pop("words.pairs")),
    )
    weights: dict[str, Floats] = {}
    for name, values in arrays.items():
        if name.endswith(".steps"):
            name = name.removesuffix(".steps")
            weights[name] = rounded(values, arrays[f"{name}.pairs"])
        elif values.dtype == np.float16:
            weights[name] = values.astype(np.float32)
    return Base(text_tokenizer, words, weights, arrays["scores"])


class Encoder:
    """The encoder with an adapter.

    Args:
        adapter: `DEFLECTION` or `COMMITMENT`; "": none.
    """

    def __init__(self, adapter: str = "") -> None:
        self.tokenizer, self._words, weights, _ = base()
        self.weights = dict(weights)
        self._last = (
            {name: values.astype(np.float32) for name, values in stored(adapter).items()}
            if adapter
            else {}
        )
        for name, values in self._last.items():
            if name.endswith(".A"):
                weight = f"encoder.layer.{name.removesuffix('.A')}.weight"
                self.weights[weight] = (
                    self.weights[weight] + self._last[f"{name.removesuffix('A')}B"] @ values
                )
        # Products this small gain little from a second thread, and lose threefold where another process wants the core.
        self._threads, self._one_at_a_time = ThreadpoolController(), threading.Lock()
        self._vector = lru_cache(2048)(lambda parts: self.vector(ids(self.tokenizer, *parts)))

    def log_odds(self, *parts: str) -> float:
        """What the adapter's linear layer makes of a text, or of several that belong together."""
        return self.scores("out", *parts).item()

    def scores(self, layer: str, *parts: str) -> Floats:
        """What one of the adapter's linear layers makes of a text, or of several that belong together."""
        scores: Floats = self._last[layer] @ self._vector(parts) + self._last[f"{layer}_bias"]
        return scores

    def vector(self, ids: list[int]) -> Floats:
        """The mean over a text's tokens, shape (384,), of length 1."""
        with self._one_at_a_time, self._threads.limit(limits=1, user_api="blas"):
            x = self.words(np.array(ids)) + self._of("embeddings.position_embeddings")[: len(ids)]
            x = self._normal("embeddings", x + self._of("embeddings.token_type_embeddings"))
            for layer in range(LAYERS):
                x = self._layer(f"encoder.layer.{layer}", x)
            mean = x.mean(0)
            vector: Floats = mean / np.linalg.norm(mean)
            return vector

    def words(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Vectors of pieces of words, shape (n, 384)."""
        steps, pairs = self._words
        return rounded(steps[ids], pairs[ids])

    def _of(self, name: str, end: str = "weight") -> Floats:
        return self.weights[f"{name}.{end}"]

    def _linear(self, name: str, x: Floats) -> Floats:
        out: Floats = x @ self._of(name).T + self._of(name, "bias")
        return out

    def _normal(self, name: str, x: Floats) -> Floats:
        away = x - x.mean(-1, keepdims=True)
        even = away / np.sqrt((away * away).mean(-1, keepdims=True) + np.float32(1e-12))
        out: Floats = even * self._of(f"{name}.LayerNorm") + self._of(f"{name}.LayerNorm", "bias")
        return out

    def _layer(self, prefix: str, hidden: Floats) -> Floats:
        query, key, value = (
            self._linear(f"{prefix}.attention.self.{name}", hidden)
            .reshape(len(hidden), HEADS, -1)
            .transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        score = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(WIDTH / HEADS))
        share = np.exp(score - score.max(-1, keepdims=True))
        attended = (
            (share / share.sum(-1, keepdims=True) @ value)
            .transpose(1, 0, 2)
            .reshape(len(hidden), WIDTH)
        )
        hidden = self._normal(
            f"{prefix}.attention.output",
            hidden + self._linear(f"{prefix}.attention.output.dense", attended),
        )
        inner = gelu(self._linear(f"{prefix}.intermediate.dense", hidden))
        return self._normal(
            f"{prefix}.output", hidden + self._linear(f"{prefix}.output.dense", inner)
        )


def tokenizer(arrays: dict[str, npt.NDArray[Any]]) -> Tokenizer:
    """The tokenizer of the vocabulary in ``encoder.npz``."""
    pieces = arrays["pieces"].tobytes().decode().split("\0")
    new_tokenizer = Tokenizer(
        models.Unigram(list(zip(pieces, arrays["scores"].tolist(), strict=True)), unk_id=3)
    )
    new_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex("\\s+"), " ")]
    )
    new_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return new_tokenizer


def ids(tokenizer: Tokenizer, *parts: str, longest: int = LONGEST) -> list[int]:
    """Numbers of the tokens of a text, or of several with a mark between them; where they are too many, the last
    text loses its middle.

    >>> ids(base().tokenizer, "How long?", "5 km")[-1], len(ids(base().tokenizer, "a " * 900))
    (2, 512)
    """
    tokens = [
        [i for i in tokenizer.encode(part, add_special_tokens=False).ids if i > MARK]
        for part in (f"query: {parts[0]}", *parts[1:])
    ]  # who writes a mark ("</s>") in a reply begins no new part
    token_ids = [0]
    for part in tokens[:-1]:
        token_ids += [*part[: longest // 4], MARK]
    tokens_left, last_tokens = longest - len(token_ids) - 1, tokens[-1]
    if len(last_tokens) > tokens_left:
        last_tokens = (
            last_tokens[: tokens_left - tokens_left // 2]
            + last_tokens[len(last_tokens) - tokens_left // 2 :]
        )
    return [*token_ids, *last_tokens, MARK]


def gelu(x: Floats) -> Floats:
    """Each x times the normal distribution's share below it; error function: Abramowitz and Stegun 7.1.26."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    powers = (
        (((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736
    ) * t + 0.254829592
    erf = np.sign(x) * (1 - powers * t * np.exp(-z * z))
    out: Floats = x * (1 + erf) / 2
    return out.astype(np.float32)


@cache
def _encoder(adapter: str) -> Encoder:
    return Encoder(adapter)


def declines(text: str, question: str = "") -> float:
    """Log odds that a reply declines to answer a question; "": one that is not known.

    >>> declines("The leaflet keeps silent about ticket prices.") > declines("Tickets cost 12 francs.")
    True
    """
    return _encoder(DEFLECTION).log_odds(*filter(None, [question.strip()]), readable(text))


def kind(text: str) -> int:
    """How a reply declines: which of `demur.judge.deflection.KINDS`, by its number.

    >>> kind("I don't identify people in photos, as a matter of principle."), kind("Which Springfield do you mean?")
    (0, 2)
    """
    return int(_encoder(DEFLECTION).scores("kinds", readable(text)).argmax())


def commits(question: str, form: str, text: str) -> float:
    """Log odds that an accepted form which a reply states is the answer that it gives.

    >>> right, wrong = "Venus is next; the nearest is Mercury.", "Venus; Mercury comes next."
    >>> commits("Which planet is nearest to the Sun?", "Mercury", right) > commits(
    ...     "Which planet is nearest to the Sun?", "Mercury", wrong)
    True
    """
    return _encoder(COMMITMENT).log_odds(question, form, readable(text))
