"""Encoders through sentence-transformers: Contriever, MiniLM, e5; CLIP and the newer ones that read texts and images.

    sentence-transformers:facebook/contriever                      mean pooling, dot product, no normalisation
    sentence-transformers:sentence-transformers/all-MiniLM-L6-v2   as its own files say
    sentence-transformers:intfloat/e5-base?query=query: &passage=passage: ...
    sentence-transformers:sentence-transformers/clip-ViT-L-14      texts and images in one space
    sentence-transformers:Qwen/Qwen3-VL-Embedding-2B?truncate_dim=1024   a text and an image together, too
    sentence-transformers:/path/to/folder                          saved by sentence-transformers, or plain

Options: ``query`` and ``passage`` (put before each text of that role, blanks and all; else the model's own prompts),
``similarity`` (cosine or dot), ``truncate_dim``, ``dtype``, ``device``, ``revision``, ``trust_remote_code=yes``,
``batch``. Consent to foreign code and the device are left out of the encoder's name.

A plain transformer (a folder or repository without ``modules.json``, as Contriever is) gets mean pooling and the dot
product of unnormalised vectors. Others are compared as they declare, which is by cosine when they say nothing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import DataError, UsageError, importing
from demur.core.store import digest, read_json
from demur.core.vision_ops import ensure_torchvision
from demur.indexing.encoders import Option, Role, Similarity, named, space_of
from demur.indexing.encoders.torch_models import (
    BATCH,
    DEVICE,
    DTYPE,
    PROBE,
    REMOTE_CODE,
    REVISION,
    canonical_name,
    choose_dtype,
    choose_running,
    consents,
    may_be_longer,
    need_sentence_transformers,
    reason_of,
    refuse_random,
    require_torch,
    weights_digest,
)
from demur.indexing.exact import unit

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = "2"
"""Changes whenever this file makes other vectors from the same weights."""
THIN = 100
"""How many times longer one side of an image may be than the other: beyond, the models' own resizing fails."""

LOADING = {
    "dtype": DTYPE,
    "device": DEVICE,
    "revision": REVISION,
    "trust_remote_code": REMOTE_CODE,
    "batch": BATCH,
}
"""Options of every model of the library."""
_OPTIONS = LOADING | {
    "query": Option("text before each query"),
    "passage": Option("text before each passage"),
    "similarity": Option("cosine or dot", ("cosine", "dot")),
    "truncate_dim": Option("dimensions to keep, of a model trained for it", range(1, 65_537)),
}


class SentenceTransformersEncoder:
    """A model of sentence-transformers. It serves ``text``, ``look`` and ``joint`` as far as it reads texts and images:
    the spaces are one.
    """

    part = "sentence-transformers"
    kind = "SentenceTransformer"
    """Class of the library that loads it."""
    options: Mapping[str, Option] = _OPTIONS
    similarity: Similarity

    def __init__(self, argument: str, *, allow_random: bool = False) -> None:
        """Load the model.

        Raises:
            UsageError: unknown model, no network, a wrong option, or random weights.
            DataError: the folder cannot be loaded, or brings code that was not allowed.
            MissingExtra: sentence-transformers is not installed.
        """
        source, options = named(self.part, argument, self.options)
        self.name = canonical_name(self.part, source, options)
        require_torch(f"the {self.part} encoder")
        if not source:
            raise UsageError(
                "no model is named", item=self.name, cure=f"e.g. {self.part}:facebook/contriever"
            )
        running = choose_running(options, self.name)
        self._batches = running.batches
        loaded = load_model(self.kind, source, options, running.device, self.name)
        refuse_random(loaded.missing, self.name, allowed=allow_random)
        self._model, self._weights = loaded.model, loaded.weights
        self.runs_code = loaded.runs_code
        """Whether the user let it run code of its own; who opens it elsewhere for them may too."""
        self._set_prompts(options)
        self.similarity = self._compared_by(options.get("similarity") or loaded.similarity)
        self.fuses = self._model.supports(("image", "text"))
        """Whether `together` can be asked."""
        width = self._encode([self._as_input("a")], "passage")[0].shape[-1]
        takes = [kind for kind in ("text", "image") if self._model.supports(kind)]
        spaces = {"text": "text", "look": "image", "joint": "text image"}
        self.dims: Mapping[str, int] = {
            space: width for space, kinds in spaces.items() if set(kinds.split()) <= {*takes}
        }
        self.same_spaces = tuple(sorted(self.dims))
        self.note = f"{self.part} {source}, {loaded.dtype}" + (
            ", RANDOM weights" if loaded.missing else ""
        )

    def _compared_by(self, declared: str) -> Similarity:
        return "dot" if declared == "dot" else "cosine"

    def _set_prompts(self, options: Mapping[str, str]) -> None:
        """What stands before texts: the options, else the model's own prompts.

        The library passes over a prompt that a model has for a ``passage``: its own for a ``document`` is "".
        """
        own = self._model.prompts
        of_document = own.get("document") or own.get("passage") or own.get("corpus") or ""
        own["query"] = options.get("query", own.get("query") or "")
        own["document"] = options.get("passage", of_document)

    @property
    def batch(self) -> int:
        """Items that it likes to be given at once: eight batches, so that texts can be sorted by length."""
        return 8 * self._batches.size

    def fingerprint(self) -> str:
        """Hash of weights as stored, modules, code, tokenizer, image processing, prompts and this file's version."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        model = self._model
        pooling = [str(m.get_config_dict()) for m in model if type(m).__name__ == "Pooling"]
        see = getattr(getattr(model[0], "processor", None), "image_processor", None)
        shape = [
            self._longest("passage"),
            self._longest("query"),
            self.similarity,
            getattr(model, "truncate_dim", None),
            [type(module).__name__ for module in model],
        ]
        return digest(
            [
                self.part,
                VERSION,
                self._weights,
                str(shape),
                pooling,
                _code_of(model),
                str(sorted(see.to_dict().items(), key=str)) if see is not None else "",
                self._tokens([PROBE]),
                [model.prompts["query"], model.prompts["document"]],
            ]
        )

    def texts(
        self, texts: Sequence[str], space: str = "text", *, role: Role = "passage"
    ) -> NDArray[np.float32]:
        """Rows (n, d) float32, of length 1 when similarity is cosine; texts are cut at the model's own length.

        Raises:
            UsageError: a space that holds no texts.
        """
        width = space_of(self, space, "texts")
        # Neighbours of one length waste no padding; the order is undone below.
        order = sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i))
        rows = self._in_batches([self._as_input(texts[i]) for i in order], role)
        row_of_place = dict(zip(order, rows, strict=True))
        return self._joined([row_of_place[i] for i in range(len(texts))], width)

    def images(self, images: Sequence[Image], space: str = "joint") -> NDArray[np.float32]:
        """Rows (n, d) float32, as of `texts`.

        Raises:
            UsageError: a space that holds no images, or a model that reads none.
            DataError: an image is so thin that it cannot be resized.
        """
        return self.images_prepared([self.prepared(image, space) for image in images], space)

    def prepared(self, image: Image, space: str = "joint") -> Any:
        """The image itself, which the model resizes.

        Raises:
            DataError: it is so thin that it cannot be resized.
        """
        if max(image.size) > THIN * min(image.size):
            raise DataError(
                f"one side of the image is more than {THIN} times the other",
                item=self.name,
                cure="crop it first",
            )
        return image

    def images_prepared(self, prepared: Sequence[Any], space: str = "joint") -> NDArray[np.float32]:
        """`images` of what `prepared` gave."""
        width = space_of(self, space, "images")
        inputs = [{"image": image} for image in prepared]
        return self._joined(self._in_batches(inputs, "passage"), width)

    def together(
        self,
        texts: Sequence[str],
        images: Sequence[Image],
        space: str = "joint",
        *,
        role: Role = "query",
    ) -> NDArray[np.float32]:
        """Rows (n, d) float32, each of a text and an image that the model reads as one.

        Raises:
            UsageError: the model embeds a text or an image, not both as one.
            DataError: an image is so thin that it cannot be resized, or a text so long that both do not fit.
        """
        width = space_of(self, space, "images")
        if not self.fuses:
            raise UsageError(
                "it does not embed a text and an image as one",
                item=self.name,
                cure="choose a mode that searches by one of them, or another encoder",
            )
        pairs = [
            {"text": text, "image": self.prepared(image)}
            for text, image in zip(texts, images, strict=True)
        ]
        try:
            return self._joined(self._in_batches(pairs, role), width)
        except (
            ValueError
        ) as error:  # the processors of transformers say so of a text that they would cut
            raise DataError(
                f"a text and its image cannot be read as one: {reason_of(error)}",
                item=self.name,
                cure="shorten the text",
            ) from error

    def cut(self, texts: Sequence[str], space: str = "text", *, role: Role = "passage") -> int:
        """How many texts are longer than the model reads, so that their end is not embedded."""
        longest = self._longest(role)
        prompt = self._model.prompts["query" if role == "query" else "document"]
        long = [prompt + text for text in texts if may_be_longer(prompt + text, longest)]
        return sum(len(ids) > longest for ids in self._tokens(long)) if long else 0

    def _longest(self, role: Role) -> float:
        """Tokens of a text that are read."""
        task = "query" if role == "query" else "document"
        own = getattr(self._model[0], f"{task}_length", None)
        return float(own or self._model.max_seq_length or np.inf)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of whole texts, with those that the model puts around them."""
        tokenizer = self._model.tokenizer
        if not callable(tokenizer):  # of static embeddings
            return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
        ids: list[list[int]] = tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return ids

    def _as_input(self, text: str) -> Any:
        """The text as the model takes it: one that reads more than texts would open a text that is an address."""
        return text if {*self._model.modalities} <= {"text", "message"} else {"text": text}

    def _in_batches(self, inputs: Sequence[Any], role: Role) -> list[NDArray[np.float32]]:
        blocks = self._batches.run(inputs, lambda block: self._encode(block, role))
        return [row for block in blocks for row in block]

    def _encode(self, inputs: Sequence[Any], role: Role) -> Any:
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        rows = encode(
            list(inputs), batch_size=len(inputs), show_progress_bar=False, convert_to_numpy=True
        )
        return self._finished(rows)

    def _finished(self, rows: Any) -> Any:
        """The model's output in single precision, and of length 1 where it is compared by cosine."""
        single: NDArray[np.float32] = np.asarray(rows, np.float32)
        return unit(single) if self.similarity == "cosine" else single

    def _joined(self, rows: Sequence[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
        return np.stack(rows) if rows else np.empty((0, width), np.float32)


# --- loading a model of the library ---------------------------------------------------------------


class Loaded(NamedTuple):
    """A model of sentence-transformers in evaluation mode, on its device."""

    model: Any
    weights: str
    """Hash of its weights as they are stored, in whatever precision it runs."""
    similarity: str
    """How it says to compare its vectors."""
    missing: list[str]
    """Weights that its checkpoint lacks, which are random."""
    dtype: str
    """What it runs in: ``fp32``, ``bf16``, ``fp16``."""
    runs_code: bool
    """Whether the user let it run code of its own."""


def load_model(
    kind: str, source: str, options: Mapping[str, str], device: Any, item: str
) -> Loaded:
    """Load a model of a class of sentence-transformers.

    Args:
        kind: ``SentenceTransformer``, ``MultiVectorEncoder`` or ``CrossEncoder``.
        source: a folder, or a repository on the hub.
        options: as `named` gave them, of `LOADING` and ``truncate_dim``.
        device: a ``torch.device``.
        item: what names it, for messages.

    Raises:
        UsageError: it cannot be had.
        DataError: it cannot be loaded.
        MissingExtra: sentence-transformers is not installed, or is too old.
    """
    ensure_torchvision()
    need_sentence_transformers()
    with importing("the sentence-transformers encoder", extra="clip"):
        import sentence_transformers
        import torch
        from sentence_transformers.util import is_sentence_transformer_model

    path = Path(source).expanduser()
    place = str(path) if path.is_dir() else source
    runs_code = consents(source, options)
    width = {"truncate_dim": int(options["truncate_dim"])} if "truncate_dim" in options else {}
    try:
        with _load_report() as missing:
            model = getattr(sentence_transformers, kind)(
                place,
                device="cpu",  # hashed first, as it is stored
                revision=options.get("revision"),
                trust_remote_code=runs_code,
                model_kwargs={"dtype": "auto"},
                **width,
            )
        plain = not is_sentence_transformer_model(place, revision=options.get("revision"))
        if kind == "MultiVectorEncoder":
            missing += _untrained_projection(model, place, options.get("revision"))
    except (
        Exception
    ) as error:  # the hub's client, transformers and PyTorch each have errors of their own
        reason = reason_of(error)
        if isinstance(error, OSError) and not path.is_dir():
            raise UsageError(
                f"the model cannot be had: {reason}",
                item=item,
                cure="check the name and the network, or give a local folder in its place",
            ) from error
        raise DataError(
            f"the model cannot be loaded: {reason}",
            item=item,
            cure="check that its folder is whole; one that brings code of its own needs "
            "?trust_remote_code=yes&revision=COMMIT, or --trust-code, once you have read it",
        ) from error
    _bound_length(model)
    # The pooler of BERT-like models is not used, and is random where a checkpoint lacks it.
    state = {n: tensor for n, tensor in model.state_dict().items() if not _is_unused(n)}
    weights = weights_digest(state)
    dtype = choose_dtype(options.get("dtype", "auto"), device)
    formats = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    model.to(device=device, dtype=formats[dtype])  # whatever its files have
    declared = _declared(model, plain=plain)
    return Loaded(model.eval(), weights, declared, missing, dtype, runs_code)


def _untrained_projection(model: Any, place: str, revision: str | None) -> list[str]:
    """What the library makes up, with no more than a line in its log, for a model without late interaction."""
    from sentence_transformers.util.file_io import load_file_path

    shapes = getattr(model.config, "architectures", None) or ()
    if any(shape == "HF_ColBERT" or shape.endswith("ForRetrieval") for shape in shapes):
        return []
    path = load_file_path(place, "config_sentence_transformers.json", revision=revision)
    stated = read_json(Path(path)) if path else None
    is_late = isinstance(stated, dict) and stated.get("model_type") in _LATE
    return [] if is_late else ["the projection of its tokens"]


_LATE = ("MultiVectorEncoder", "ColBERT")
"""What sentence-transformers and PyLate call such a model."""


def _declared(model: Any, *, plain: bool) -> str:
    declared = getattr(model, "_similarity_fn_name", None)  # the public one never says nothing
    normalises = any(type(module).__name__ == "Normalize" for module in model)
    if plain and not normalises and declared is None:
        # Image-text models are trained for the cosine, whatever their files say.
        return "cosine" if model.supports("image") else "dot"
    return "cosine" if normalises else str(declared or "cosine")


def _bound_length(model: Any) -> None:
    """A tokenizer that states no length (of CLIP) gets that of the model's positions."""
    config = getattr(model.transformers_model, "config", None)
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) if config else 0
    if positions and (model.max_seq_length or np.inf) > positions:
        model.max_seq_length = positions


def _code_of(model: Any) -> str:
    """Hash of the model's code where it came with the weights, else ""."""
    of_model = type(model.transformers_model)
    is_foreign = of_model.__module__.partition(".")[0] == "transformers_modules"
    return digest(inspect.getsource(of_model).encode()) if is_foreign else ""


def _is_unused(weight: str) -> bool:
    return ".pooler." in f".{weight}"


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
