"""Contriever without sentence-transformers, for an environment whose transformers is older than that takes (EVA-CLIP's).

    text_encoder: "examples.contriever:open_contriever"

Mean of the last layer over a text's tokens, compared by dot product; texts are cut at 512 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from demur.indexing.encoders.torch_models import weights_digest


class Contriever:
    """An encoder of passages and questions."""

    note, similarity, batch = "mean pooling by examples/contriever.py", "dot", 64

    name = "examples.contriever:open_contriever"

    def __init__(self, place: str) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._tokenizer = AutoTokenizer.from_pretrained(place)
        self._model = AutoModel.from_pretrained(place).to(device).eval()
        self.dims = {"text": int(self._model.config.hidden_size)}

    def fingerprint(self) -> str:
        """Hash of the weights that are used."""
        used = {k: v for k, v in self._model.state_dict().items() if not k.startswith("pooler.")}
        return weights_digest(used)

    def texts(
        self, texts: Sequence[str], space: str = "text", *, role: str = "passage"
    ) -> NDArray[np.float32]:
        """(n, d) float32 rows."""
        rows = [np.empty((0, self.dims["text"]), np.float32)]
        for start in range(0, len(texts), self.batch):
            block = list(texts[start : start + self.batch])
            tokens = self._tokenizer(
                block, padding=True, truncation=True, max_length=512, return_tensors="pt"
            ).to(self._model.device)
            with torch.inference_mode():
                states = self._model(**tokens).last_hidden_state
                mask = tokens["attention_mask"].unsqueeze(-1)
                rows.append(((states * mask).sum(1) / mask.sum(1)).float().cpu().numpy())
        return np.concatenate(rows)

    def images(self, images: Sequence[object], space: str = "text") -> NDArray[np.float32]:
        """It takes none."""
        raise ValueError("it takes no images")


def open_contriever(argument: str = "", *, allow_random: bool = False) -> Contriever:
    """What `demur` opens."""
    return Contriever("facebook/contriever")
