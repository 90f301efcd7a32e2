"""Cross-encoders of sentence-transformers: a question and a passage read together, one score.

    cross-encoder/ms-marco-MiniLM-L6-v2
    BAAI/bge-reranker-v2-m3?revision=COMMIT&batch=16
    /path/to/folder

Options: ``dtype``, ``device``, ``revision``, ``batch``. No name gives consent to code that comes with a model: only
``--trust-code`` does (`demur.core.untrusted.trusting`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import UsageError
from demur.core.spec import named
from demur.indexing.encoders.sentence_transformers import LOADING, load_model
from demur.indexing.encoders.torch_models import choose_running, refuse_random, require_torch

_OPTIONS = {name: option for name, option in LOADING.items() if name != "trust_remote_code"}
DECIMALS = 5
"""Of a score: its last bits depend on the batch, and the order of passages must not."""


class CrossEncoder:
    """Scores passages for questions; higher is better, on the model's own scale.

    Args:
        name: a folder, or a repository on the hub, and options.

    Raises:
        UsageError: it cannot be had, is untrained, gives more than one score, or an option is wrong.
        DataError: it cannot be loaded.
        MissingExtra: sentence-transformers is not installed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        source, options = named("cross_encoder", name, _OPTIONS)
        require_torch("a cross-encoder")
        running = choose_running(options, name)
        loaded = load_model("CrossEncoder", source, options, running.device, name)
        refuse_random(loaded.missing, name, allowed=False)
        self._model, self._batches = loaded.model, running.batches
        if (shape := np.shape(self._predict([("a", "b")]))) != (1,):
            raise UsageError(
                f"for a question and a passage it gives scores of shape {shape}, not one",
                item=name,
                cure="choose a cross-encoder with one label",
            )

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The score of each (question, passage), in their order; pairs are read in batches of like length."""
        order = sorted(range(len(pairs)), key=lambda i: (-len(pairs[i][1]), i))
        blocks = self._batches.run([pairs[i] for i in order], self._predict)
        score_of_place = dict(zip(order, (s for block in blocks for s in block), strict=True))
        return [round(float(score_of_place[i]), DECIMALS) for i in range(len(pairs))]

    def _predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        scores = self._model.predict(list(pairs), batch_size=len(pairs), show_progress_bar=False)
        return np.asarray(scores, np.float32)
