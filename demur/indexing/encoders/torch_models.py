"""What the encoders that run on PyTorch share: their common options, device, batches, the identity of weights."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import MissingExtra, UsageError, importing
from demur.core.untrusted import trust
from demur.indexing.encoders import Option, Role, Similarity, space_of
from demur.models.local import best_device, out_of_memory

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

T = TypeVar("T")

PRECISION = Option("fp16 (default on CUDA) or fp32 (default elsewhere)", ("fp16", "fp32"))
DTYPE = Option(
    "auto (bf16 on a GPU that computes in it, else fp32: the default), bf16, fp16 or fp32",
    ("auto", "bf16", "fp16", "fp32"),
)
DEVICE = Option("cpu, mps, cuda, or one of several cards: cuda:1 (default: the best there is)")
REVISION = Option("the commit to take, so that weights and code cannot change behind you")
REMOTE_CODE = Option("yes, to run the repository's own Python files", ("yes",))
BATCH = Option("items per batch to begin with; halved when memory runs out", range(1, 1_000_001))
PROBE = "A photo of 3 naïve cafés, 東京; <end> 🙂"
"""Its tokens stand for the tokenizer in a fingerprint."""


def require_torch(needed_by: str) -> None:
    """Raise `MissingExtra` when PyTorch is not installed."""
    with importing(needed_by, extra="clip", module="torch"):
        import torch  # noqa: F401


class Running(NamedTuple):
    """How a model is run."""

    device: torch.device
    precision: str
    batches: Batches


def choose_running(
    options: Mapping[str, str],
    item: str,
    *,
    batch: int = 32,
    batch_on_gpu: int = 256,
) -> Running:
    """Device, precision and batches: what the options ``precision`` and ``batch`` say, else what suits the device.

    Args:
        options: as `named` gave them: their values are ones that they take.
        batch: items per batch to begin with, where the options say nothing.
        batch_on_gpu: the same on CUDA.

    Raises:
        UsageError: there is no such device.
    """
    device = _device_named(options.get("device") or best_device(), item)
    on_gpu = device.type == "cuda"
    size = int(options.get("batch", batch_on_gpu if on_gpu else batch))
    return Running(
        device, options.get("precision", "fp16" if on_gpu else "fp32"), Batches(size, item)
    )


def _device_named(text: str, item: str) -> torch.device:
    import torch

    try:
        device = torch.device(text)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        count = torch.cuda.device_count()
        raise UsageError(
            f"device={text} cannot be used here: {reason_of(error)}",
            item=item,
            cure=f"this machine has {count} CUDA device(s); leave device out to take the best there is",
        ) from error
    return device


def choose_dtype(wanted: str, device: torch.device) -> str:
    """``wanted``, a value of `DTYPE`; for ``auto`` bf16 where the device computes in it, else fp32.

    fp16 is never chosen: several current models overflow in it, and their vectors are then worthless.
    """
    import torch

    if wanted != "auto":
        return wanted
    on_gpu = device.type == "cuda"
    return "bf16" if on_gpu and torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"


def canonical_name(part: str, source: str, options: Mapping[str, str]) -> str:
    """The name of a model without what is the user's alone: consent to its code, and the device it runs on."""
    stated = [f"{k}={v}" for k, v in options.items() if k not in ("trust_remote_code", "device")]
    return f"{part}:{source}" + (f"?{'&'.join(stated)}" if stated else "")


def consents(source: str, options: Mapping[str, str]) -> bool:
    """Whether the user agreed that the repository's own code runs; warns that it will.

    Consent is the option ``trust_remote_code=yes`` of a name that the user wrote, or `demur.core.untrusted.trusting`.
    """
    if options.get("trust_remote_code") != "yes":
        return trust().code
    is_pinned = "revision" in options or Path(source).expanduser().is_dir()
    unpinned = "" if is_pinned else ", which is not pinned to a commit"
    warnings.warn(f"running Python code from {source}{unpinned}", stacklevel=3)
    return True


def refuse_random(missing: Sequence[str], item: str, *, allowed: bool) -> None:
    """Raise `UsageError` for weights that a checkpoint lacks, which are random now, unless that is ``allowed``."""
    if missing and not allowed:
        raise UsageError(
            f"the checkpoint lacks {len(missing)} of the model's weights, which are now random: {missing[0]} ...",
            item=item,
            cure="check that it is a checkpoint of this very model",
        )


def need_sentence_transformers() -> None:
    """Refuse sentence-transformers before 6.0, which runs the code of a model in a local folder unasked.

    Raises:
        MissingExtra: it is older, or not installed.
    """
    needed_by = "the sentence-transformers encoder"
    with importing(needed_by, extra="clip", module="sentence-transformers"):
        release = version("sentence-transformers")
    if int(release.partition(".")[0]) < 6:
        raise MissingExtra(needed_by, extra="clip", module="sentence-transformers 6.0 or later")


def reason_of(error: BaseException) -> str:
    """What a library says went wrong while it loaded a model, on one line of bounded length.

    A pickle that holds more than tensors is refused in our words: PyTorch's advise to load it all the same.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UnpicklingError):
            return "it holds more than tensors; such a file can run code"
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split())[:300] or type(error).__name__


class Batches:
    """Runs a model over items in batches; when memory runs out the batch is halved, and stays so.

    Args:
        size: the batch to begin with.
    """

    def __init__(self, size: int, item: str) -> None:
        self.size = size
        self._item = item

    def run(
        self, items: Sequence[T], forward: Callable[[Sequence[T]], NDArray[np.float32]]
    ) -> list[NDArray[np.float32]]:
        """The rows that ``forward`` gives, block by block, in the order of ``items``.

        Raises:
            UsageError: a single item does not fit.
        """
        blocks: list[NDArray[np.float32]] = []
        start = 0
        while start < len(items):
            try:
                blocks.append(forward(items[start : start + self.size]))
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if self.size == 1:
                    raise UsageError(
                        "a single item does not fit into memory",
                        item=self._item,
                        cure="choose a smaller model, or hide the GPU (CUDA_VISIBLE_DEVICES='')",
                    ) from error
                del error  # it holds the frames, and they the tensors
                _release_memory()
                self.size //= 2
                continue
            start += len(blocks[-1])
        return blocks


def _release_memory() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def weights_digest(state: Mapping[str, Any]) -> str:
    """SHA-256 over names, shapes and values of all weights, in the order of their names.

    Floating-point values are hashed in half precision: a model loaded in half or in single precision is the same model,
    and their vectors, which agree to about three digits, may be compared.

    Args:
        state: a state dict of tensors on any device.
    """
    import torch

    sha = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach()
        values = tensor.to(torch.float16) if tensor.is_floating_point() else tensor
        sha.update(f"{name} {tuple(tensor.shape)}\n".encode())
        sha.update(values.cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()


def may_be_longer(text: str, tokens: float) -> bool:
    """Whether a text can have more tokens at all: each is a byte at least, and there are a few marks around a text."""
    return len(text.encode()) + 8 > tokens


def unit_rows(rows: torch.Tensor) -> NDArray[np.float32]:
    """Rows of a tensor at length 1, in single precision whatever the model's."""
    import torch

    unit_rows: NDArray[np.float32] = (
        torch.nn.functional.normalize(rows.float(), dim=-1).cpu().numpy()
    )
    return unit_rows


def stack_blocks(blocks: Iterable[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
    """Blocks of rows as one (n, width) float32 array; also of none."""
    parts = list(blocks)
    return (
        np.concatenate(parts).astype(np.float32, copy=False)
        if parts
        else np.empty((0, width), np.float32)
    )


class JointModel(ABC):
    """A model that puts texts and images into one space, as unit rows: ``joint``, ``text`` and ``look`` are that one.

    A subclass loads the model, sets what is declared here, and says how it embeds one batch.
    """

    similarity: Similarity = "cosine"
    name: str
    note: str
    dims: Mapping[str, int]
    same_spaces = ("joint", "look", "text")
    _batches: Batches

    @property
    def batch(self) -> int:
        """Items that it likes to be given at once."""
        return self._batches.size

    @cached_property
    @abstractmethod
    def _identity(self) -> str:
        """What `fingerprint` gives."""

    def fingerprint(self) -> str:
        """Hash of weights, preprocessing, tokenizer and the version of the subclass's file; see `Encoder`."""
        return self._identity

    def texts(
        self, texts: Sequence[str], space: str = "joint", *, role: Role = "passage"
    ) -> NDArray[np.float32]:
        """Unit rows, (n, d) float32; ``role`` makes no difference.

        Raises:
            UsageError: no such space.
        """
        width = space_of(self, space, "texts")
        return stack_blocks(self._batches.run(list(texts), self._texts), width)

    def images(self, images: Sequence[Image], space: str = "joint") -> NDArray[np.float32]:
        """Unit rows, (n, d) float32.

        Raises:
            UsageError: no such space.
        """
        return self.images_prepared([self.prepared(image, space) for image in images], space)

    @abstractmethod
    def prepared(self, image: Image, space: str = "joint") -> NDArray[Any]:
        """The image resized and normalised as the model was trained, (3, h, w) float32."""

    def images_prepared(
        self, prepared: Sequence[NDArray[Any]], space: str = "joint"
    ) -> NDArray[np.float32]:
        """`images` of what `prepared` gave."""
        width = space_of(self, space, "images")
        return stack_blocks(self._batches.run(prepared, self._images), width)

    def cut(self, texts: Sequence[str], space: str = "joint", *, role: Role = "passage") -> int:
        """How many texts are longer than the model reads, so that their end is not embedded."""
        long = [text for text in texts if may_be_longer(text, self._context)]
        return self._cut(long) if long else 0

    def _serves(self) -> dict[str, int]:
        """``dims``, by embedding one text."""
        width = self._texts(["a"]).shape[1]
        return {"joint": width, "text": width, "look": width}

    @property
    @abstractmethod
    def _context(self) -> int:
        """Tokens of a text that are read."""

    @abstractmethod
    def _cut(self, texts: Sequence[str]) -> int:
        """How many of these have more tokens."""

    @abstractmethod
    def _texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows of one batch."""

    @abstractmethod
    def _images(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Unit rows of one batch."""
