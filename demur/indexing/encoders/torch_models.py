"""What the encoders that run on PyTorch share: device, precision, batch size, the identity of weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


def require_torch(what: str) -> None:
    """Raise `MissingExtra` when PyTorch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra(what, extra="clip", module="torch") from error


def pick_device(asked: str | None, item: str) -> torch.device:
    """The device asked for, else the best that is there: CUDA, then MPS, then the CPU.

    Raises:
        UsageError: the device is unknown to PyTorch or not there.
    """
    import torch

    if asked is None:
        mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    try:
        device = torch.device(asked)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"device {asked!r} cannot be used: {reason}", item=item, cure="leave it out, or give 'cpu'"
        ) from error
    return device


class Batches:
    """Runs a model over items in batches; when memory runs out the batch is halved, and stays so.

    Args:
        size: the batch to begin with.
        item: the encoder's name, for errors.
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
        made: list[NDArray[np.float32]] = []
        start = 0
        while start < len(items):
            try:
                made.append(forward(items[start : start + self.size]))
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                if self.size == 1:
                    raise UsageError(
                        "a single item does not fit into memory",
                        item=self._item,
                        cure="choose a smaller model or device='cpu'",
                    ) from error
                del error  # it holds the frames, and they the tensors
                _release()
                self.size //= 2
                continue
            start += len(made[-1])
        return made


def _out_of_memory(error: BaseException) -> bool:
    """Whether PyTorch ran out of memory, on whichever device."""
    return isinstance(error, MemoryError) or any(
        sign in str(error).lower() for sign in ("out of memory", "can't allocate memory", "not enough memory")
    )


def _release() -> None:
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


def together(blocks: Iterable[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
    """Blocks of rows as one (n, width) float32 array; also of none."""
    parts = list(blocks)
    return np.concatenate(parts).astype(np.float32, copy=False) if parts else np.empty((0, width), np.float32)
