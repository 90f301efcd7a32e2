"""Sentence encoders through sentence-transformers: Contriever, MiniLM, e5 and the like.

    sentence-transformers:facebook/contriever                      mean pooling, dot product, no normalisation
    sentence-transformers:sentence-transformers/all-MiniLM-L6-v2   as its own files say
    sentence-transformers:intfloat/e5-base?query=query: &passage=passage: ...
    sentence-transformers:/path/to/folder                          saved by sentence-transformers, or plain

Options: ``query`` and ``passage`` (put before each text of that role, blanks and all; else the model's own prompts),
``similarity`` (cosine or dot), ``precision``, ``batch``.

A plain transformer (a folder or repository without ``modules.json``, as Contriever is) gets mean pooling and the dot
product of unnormalised vectors. Others are compared as they declare, which is by cosine when they say nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import DataError, UsageError, importing
from demur.core.store import digest
from demur.core.vision_ops import ensure_torchvision
from demur.indexing.encoders import Option, Role, named, space_of
from demur.indexing.encoders.torch_models import (
    BATCH,
    PRECISION,
    PROBE,
    choose_running,
    need_sentence_transformers,
    reason_of,
    refuse_random,
    require_torch,
    stack_blocks,
    weights_digest,
)

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = "1"
"""Changes whenever this file makes other vectors from the same weights."""

_OPTIONS = {
    "query": Option("text before each query"),
    "passage": Option("text before each passage"),
    "similarity": Option("cosine or dot", ("cosine", "dot")),
    "precision": PRECISION,
    "batch": BATCH,
}


class SentenceTransformersEncoder:
    """A model of sentence-transformers; it serves the space ``text`` alone."""

    similarity: Literal["cosine", "dot"]

    def __init__(self, argument: str, *, allow_random: bool = False) -> None:
        """Load the model.

        Raises:
            UsageError: unknown model, no network, a wrong option, or random weights.
            DataError: the folder cannot be loaded.
            MissingExtra: sentence-transformers is not installed.
        """
        self.name = f"sentence-transformers:{argument}"
        source, options = named("sentence-transformers", argument, _OPTIONS)
        require_torch("the sentence-transformers encoder")
        if not source:
            raise UsageError(
                "no model is named",
                item=self.name,
                cure="e.g. sentence-transformers:facebook/contriever",
            )
        chosen_device, precision, self._batches = choose_running(options, self.name)
        self._model, declared, missing = _load(source, str(chosen_device), self.name)
        refuse_random(missing, self.name, allowed=allow_random)
        self._model.half() if precision == "fp16" else self._model.float()  # whatever its files have
        self.similarity = "dot" if options.get("similarity", declared) == "dot" else "cosine"
        model_prompts = dict(self._model.prompts or {})
        self._prompts: dict[Role, str] = {
            "query": options.get("query", model_prompts.get("query") or ""),
            "passage": options.get(
                "passage", model_prompts.get("passage") or model_prompts.get("document") or ""
            ),
        }
        self.note = f"sentence-transformers {source}, {precision}" + (
            ", RANDOM weights" if missing else ""
        )
        self.dims: Mapping[str, int] = {"text": self._encode(["a"], "").shape[1]}

    @property
    def batch(self) -> int:
        """Texts that it likes to be given at once: eight batches, so that they can be sorted by length."""
        return 8 * self._batches.size

    def fingerprint(self) -> str:
        """Hash of weights, modules, tokenizer, prompts and this file's version."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        # The pooler of BERT-like models is not used, and is random where a checkpoint lacks it.
        state = {
            name: tensor
            for name, tensor in self._model.state_dict().items()
            if not _is_unused(name)
        }
        tokens = self._model.tokenizer(PROBE)["input_ids"]
        shape = [
            str(self._model.max_seq_length),
            self.similarity,
            [type(m).__name__ for m in self._model],
        ]
        pooling = [str(m.get_config_dict()) for m in self._model if type(m).__name__ == "Pooling"]
        prompts = [self._prompts["query"], self._prompts["passage"]]
        return digest(
            [
                "sentence-transformers",
                VERSION,
                weights_digest(state),
                shape,
                pooling,
                list(tokens),
                prompts,
            ]
        )

    def texts(
        self, texts: Sequence[str], space: str = "text", *, role: Role = "passage"
    ) -> NDArray[np.float32]:
        """Rows (n, d) float32, of length 1 when similarity is cosine; texts are cut at the model's own length.

        Raises:
            UsageError: a space other than ``text``.
        """
        width = space_of(self, space, "texts")
        # Neighbours of one length waste no padding; the order is undone below.
        order = sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i))
        blocks = self._batches.run(
            [texts[i] for i in order], lambda block: self._encode(block, self._prompts[role])
        )
        rows = np.empty((len(texts), width), np.float32)
        rows[order] = stack_blocks(blocks, width)
        return rows

    def _encode(self, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        rows = self._model.encode(
            list(texts),
            prompt=prompt or None,
            batch_size=len(texts),
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=self.similarity == "cosine",
        )
        single: NDArray[np.float32] = np.asarray(rows, np.float32)
        return single

    def images(self, images: Sequence[Image], space: str = "joint") -> NDArray[np.float32]:
        """Always an error: it embeds sentences.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "it takes no images", item=self.name, cure="use open_clip or offline for images"
        )


def _is_unused(weight: str) -> bool:
    return ".pooler." in f".{weight}"


def _load(source: str, device: str, item: str) -> tuple[Any, str, list[str]]:
    """(model, how it says to compare its vectors, weights that its checkpoint lacks)."""
    ensure_torchvision()
    need_sentence_transformers()
    with importing("the sentence-transformers encoder", extra="clip"):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.util import is_sentence_transformer_model

    path = Path(source).expanduser()
    place = str(path) if path.is_dir() else source
    try:
        with _load_report() as missing:
            model = SentenceTransformer(place, device=device, trust_remote_code=False)
        plain = not is_sentence_transformer_model(place)
    except (
        Exception
    ) as error:  # the hub's client, transformers and PyTorch each have errors of their own
        reason = reason_of(error)
        if isinstance(error, OSError) and not path.is_dir():
            raise UsageError(
                f"the model cannot be had: {reason}",
                item=item,
                cure="check the name and the network, or give a local folder: sentence-transformers:/path",
            ) from error
        raise DataError(
            f"the model cannot be loaded: {reason}",
            item=item,
            cure="check that its folder is whole",
        ) from error
    declared = (
        model._similarity_fn_name
    )  # the public property fills in cosine where nothing was said
    normalises = any(type(module).__name__ == "Normalize" for module in model)
    if plain and not normalises and declared is None:
        return model, "dot", missing
    return model, "cosine" if normalises else str(declared or "cosine"), missing


@contextmanager
def _load_report() -> Iterator[list[str]]:
    """Gathers the names of weights that transformers had to make up: it tells so in its log and goes on."""
    missing: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            for line in record.getMessage().splitlines():
                name, _, status = line.partition("|")
                if status.strip().startswith("MISSING") and not _is_unused(name.strip()):
                    missing.append(name.strip())

    logger, listener = logging.getLogger("transformers.modeling_utils"), Listener()
    level = logger.level
    logger.addHandler(listener)
    if logger.getEffectiveLevel() > logging.WARNING:
        logger.setLevel(logging.WARNING)
    try:
        yield missing
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)
