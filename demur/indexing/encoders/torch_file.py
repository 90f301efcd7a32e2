"""Read the tensors of a PyTorch checkpoint in the format before 1.6, without PyTorch and without trusting it.

Such a file is five pickles (magic number, protocol, machine facts, the object, the storages' keys) followed by the
raw storages. A pickle can name any function of any module to be called while it is read; this reader knows the few
names that a dictionary of tensors needs and refuses every other, so that nothing but tensors can come out.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import DataError

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_DTYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype[Any]
    length: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _make_tensor(
    storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> _Tensor:
    return _Tensor(storage, offset, shape, strides)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The five names that are known; anything else is refused."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _make_tensor
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not a tensor")

    def persistent_load(self, reference: Any) -> _Storage:
        """A storage by reference; its numbers follow later in the file."""
        kind, dtype, key, _location, count, view = reference
        if kind != "storage" or view is not None or not isinstance(dtype, np.dtype):
            raise pickle.UnpicklingError(f"it refers to {kind!r}, which is not a storage")
        return _Storage(str(key), dtype, int(count))


def read_tensors(data: bytes, item: str = "checkpoint") -> dict[str, NDArray[Any]]:
    """Tensors by name, as contiguous arrays of their own shape (float32 or int64).

    Raises:
        DataError: not such a file, truncated, or holding anything but tensors.
    """
    handle = io.BytesIO(data)

    def next_pickle() -> Any:
        return _Reader(handle).load()

    try:
        if next_pickle() != _MAGIC or next_pickle() != _PROTOCOL:
            raise DataError(
                "not a checkpoint of the old PyTorch format", item=item, cure="fetch it again"
            )
        if not next_pickle().get("little_endian"):
            raise DataError(
                "the checkpoint is big-endian", item=item, cure="save it again on a usual machine"
            )
        entries = next_pickle()
        keys = next_pickle()
        tensors = {str(k): v for k, v in entries.items() if isinstance(v, _Tensor)}
        if len(tensors) != len(entries):
            raise DataError(
                "the checkpoint holds more than tensors",
                item=item,
                cure="save its state dict alone",
            )
        storage_of_key = {t.storage.key: t.storage for t in tensors.values()}
        storages: dict[str, NDArray[Any]] = {}
        for key in keys:
            storage = storage_of_key[key]
            count = int(np.frombuffer(handle.read(8), "<i8")[0])
            raw = handle.read(count * storage.dtype.itemsize)
            if count != storage.length or len(raw) != count * storage.dtype.itemsize:
                raise DataError("the checkpoint is truncated", item=item, cure="fetch it again")
            storages[key] = np.frombuffer(raw, storage.dtype)
        return {
            name: _laid_out(tensor, storages[tensor.storage.key])
            for name, tensor in tensors.items()
        }
    except (
        pickle.UnpicklingError,
        EOFError,
        KeyError,
        IndexError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        raise DataError(
            f"the checkpoint cannot be read: {error}", item=item, cure="fetch it again"
        ) from error


def _laid_out(tensor: _Tensor, storage: NDArray[Any]) -> NDArray[Any]:
    """The tensor with its own strides (saved convolutions are permuted), copied out; bounds are checked first."""
    if (
        len(tensor.shape) != len(tensor.strides)
        or min((tensor.offset, *tensor.shape, *tensor.strides), default=0) < 0
    ):
        raise ValueError(f"a tensor of shape {tensor.shape} has strides {tensor.strides}")
    last = tensor.offset + sum(
        (n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True)
    )
    if 0 not in tensor.shape and last >= storage.size:
        raise ValueError(f"a tensor of shape {tensor.shape} reaches past its storage")
    view = np.lib.stride_tricks.as_strided(
        storage[tensor.offset :],
        tensor.shape,
        [s * storage.itemsize for s in tensor.strides],
        writeable=False,
    )
    return np.array(view, order="C")
