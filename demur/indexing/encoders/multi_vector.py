"""Late interaction: models that give a vector for each token, compared by MaxSim (ColBERT, ColPali, ColQwen).

    multi-vector:lightonai/GTE-ModernColBERT-v1      saved by sentence-transformers or PyLate
    multi-vector:colbert-ir/colbertv2.0              as its authors save it
    multi-vector:vidore/colqwen2-v1.0-hf             pages as images, as transformers saves it
    multi-vector:/path/to/folder

Options are those of `demur.indexing.encoders.sentence_transformers`, but for ``similarity`` and ``truncate_dim``. The
similarity is the sum, over the tokens of the query, of the largest inner product with a token of the document (Khattab
and Zaharia 2020, equation 3); `demur.indexing.maxsim` computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.indexing.encoders import Option, Similarity
from demur.indexing.encoders.sentence_transformers import LOADING, SentenceTransformersEncoder


class MultiVectorEncoder(SentenceTransformersEncoder):
    """A `MultiVectorEncoder` of sentence-transformers; in place of a row each item has (tokens, d) float32."""

    part = "multi-vector"
    kind = "MultiVectorEncoder"
    options = LOADING | {
        "query": Option("text before each query"),
        "passage": Option("text before each passage"),
    }

    def _compared_by(self, declared: str) -> Similarity:
        return "maxsim"

    def _finished(self, rows: Any) -> list[NDArray[np.float32]]:
        return [np.asarray(tokens, np.float32) for tokens in rows]

    def _joined(self, rows: Sequence[NDArray[np.float32]], width: int) -> Any:
        """A list, as `demur.indexing.encoders.Encoder.similarity` says."""
        return list(rows)
