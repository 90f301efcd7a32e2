"""How likely a reply declines to answer, by what it means: ``rules?encoder=intfloat/multilingual-e5-small``.

The model of letters in `demur.judge.wording` knows the words of its training sentences; a pretrained encoder also knows
which words mean the same, in any of its languages. A layer of hidden units on the vector of a reply, trained on the
same sentences, gives log odds that are added to those of the wording; the rules weigh on both as they do without it.

Weights: ``data/encoder_head.npz``, made by ``tools/train_encoder_head.py``. They fit this encoder alone, so its vectors
of three sentences are compared with stored ones before it is used.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np
import numpy.typing as npt

from demur.core.errors import UsageError
from demur.core.store import digest
from demur.indexing.encoders.sentence_transformers import SentenceTransformersEncoder
from demur.judge.wording import log_odds, readable

MODEL = "intfloat/multilingual-e5-small"
"""The encoder that the weights fit: Wang et al. (2024), "Multilingual E5 Text Embeddings"; MIT; 384 dimensions."""
PROBES = ("The passages do not say when it opened.", "Es ist 5,73 km lang.", "質問にはお答えできません。")
"""Sentences whose vectors tell the encoder from others."""
ALIKE = 0.9
"""Least cosine of a probe with its stored vector, which weights rounded to four bits made (0.98 to 0.99 with full ones,
says their maker). Other sentences have 0.8 with it, other encoders about 0."""


class SentenceVectors:
    """Log odds of declining, by an encoder's vectors and the wording.

    Args:
        source: `MODEL`, or a folder with it that sentence-transformers loads.

    Raises:
        UsageError: the model cannot be had, or is another one.
        MissingExtra: sentence-transformers is not installed.
    """

    def __init__(self, source: str) -> None:
        self._encoder = SentenceTransformersEncoder(f"{source}?query=query: &similarity=cosine")
        head = _head()
        width = self._encoder.dims["text"]
        if width != head["probes"].shape[1] or (self._vectors(PROBES) * head["probes"]).sum(1).min() < ALIKE:
            raise UsageError(
                f"the weights that read its vectors fit {MODEL} alone", item=f"encoder={source}",
                cure=f"give rules?encoder={MODEL}, or a folder with that model",
            )  # fmt: skip
        weights = b"".join(head[name].tobytes() for name in sorted(head))
        self.version = digest([self._encoder.fingerprint(), digest(weights)], 8)
        """Of encoder and weights; what others decided is not taken for a decision of these."""

    def log_odds(self, text: str) -> float:
        """Log odds that a reply declines, on the scale of `demur.judge.wording.log_odds`."""
        return float(log_odds(text) + by_vectors(self._vectors([text]))[0])

    def _vectors(self, texts: tuple[str, ...] | list[str]) -> npt.NDArray[np.float32]:
        return self._encoder.texts([readable(text) for text in texts], role="query")


def by_vectors(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What vectors of length 1, shape (n, 384), add to the log odds of the wording, shape (n,)."""
    head = _head()
    hidden = np.maximum(vectors @ head["into"] + head["into_bias"], 0)
    odds: npt.NDArray[np.float32] = hidden @ head["out"] + head["out_bias"]
    return odds


@cache
def _head() -> dict[str, npt.NDArray[np.float32]]:
    with as_file(files(__package__) / "data" / "encoder_head.npz") as path, np.load(path, allow_pickle=False) as stored:
        return {name: stored[name].astype(np.float32) for name in ("into", "into_bias", "out", "out_bias", "probes")}
