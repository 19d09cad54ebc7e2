"""Methods of tensors that are written in Python. Importing this module adds them and the storages' to all classes.

What has a concept of its own stands in `_printing`, `_copying` and `_numpy_functions`.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from torchlite import _C, _copying, _numpy_functions, _printing, storage  # noqa: F401

from ._arrays import require_tensor
from ._copying import _rebuild_tensor  # noqa: F401  (the name that pickles call)
from ._printing import set_printoptions

__all__ = ["set_printoptions"]


def tolist(self: Any) -> Any:
    """The elements as nested lists of Python numbers; of a 0-d tensor its number."""
    return (self.cpu() if self.is_cuda else self).numpy().tolist()


def apply_(self: Any, function: Any) -> Any:
    """Replaces each element by `function(element)`; returns the tensor."""
    return self.copy_(np.array([function(v) for v in self.numpy().ravel().tolist()], self.dtype).reshape(self.size()))


def map_(self: Any, other: Any, function: Any) -> Any:
    """Replaces each element by `function(element, other's element)`, `other` broadcast; returns the tensor."""
    require_tensor("map_", "other", other)
    others = np.broadcast_to(other.numpy(), self.size())
    values = zip(self.numpy().ravel().tolist(), others.ravel().tolist(), strict=True)
    return self.copy_(np.array([function(a, b) for a, b in values], self.dtype).reshape(self.size()))


def map2_(self: Any, x: Any, y: Any, function: Any) -> Any:
    """Replaces each element by `function(element, x's element, y's element)`, both broadcast; returns the tensor."""
    require_tensor("map2_", "x", x)
    require_tensor("map2_", "y", y)
    others = [np.broadcast_to(t.numpy(), self.size()).ravel().tolist() for t in (x, y)]
    values = zip(self.numpy().ravel().tolist(), *others, strict=True)
    return self.copy_(np.array([function(*v) for v in values], self.dtype).reshape(self.size()))


# ---- devices ---------------------------------------------------------------------------------------------------------


def cuda(self: Any, device: int | None = None, async_: bool = False, **kwargs: Any) -> Any:
    """A copy on a CUDA device (the current one by default); the tensor itself if it lies there.

    With ``async_`` a copy from pinned memory is only queued on the current stream.

    Raises:
        RuntimeError: CuPy, the driver or a device is missing; the message says which.
    """
    from torchlite.cuda import _transfer

    return _transfer.to_device(self, device, _transfer.is_async(async_, kwargs))


def _cuda_array_interface(self: Any) -> dict:
    """The memory as CUDA libraries describe it; AttributeError for a tensor in host memory."""
    if not self.is_cuda:
        raise AttributeError(
            f"__cuda_array_interface__: this {self.type()} lies in host memory; its memory is that of numpy()"
        )
    from torchlite.cuda import _transfer

    return _transfer.array_interface(self)


def cupy(self: Any) -> Any:
    """A cupy.ndarray on the same memory: writes are seen on both sides. TypeError for a tensor on the host."""
    return _C._to_cupy(self)


def pin_memory(self: Any) -> Any:
    """A copy in page-locked host memory, from which ``cuda(async_=True)`` does not wait; itself if it lies there."""
    from torchlite.cuda import _transfer

    return _transfer.pin_memory(self)


def is_pinned(self: Any) -> bool:
    """Whether the memory is page-locked for CUDA; the host allocator's never is."""
    pinned = sys.modules.get("torchlite.cuda._transfer")
    return pinned is not None and pinned.is_pinned(self)


def _sparse_mask(self: Any, mask: Any) -> Any:
    """The elements at the places of the sparse tensor `mask`, as a sparse tensor. RuntimeError if the sizes differ."""
    from .sparse.tensor import sparse_mask

    return sparse_mask(self, mask)


def equal(self: Any, tensor2: Any) -> bool:
    """Whether `tensor2` has the same size and the same elements; see :func:`torchlite.functional.equal`."""
    from . import functional

    return functional.equal(self, tensor2)


def masked_copy(self: Any, mask: Any, source: Any) -> Any:
    """The former name of `masked_scatter`."""
    warnings.warn("masked_copy is deprecated and renamed to masked_scatter", stacklevel=2)
    return self.masked_scatter(mask, source)


def masked_copy_(self: Any, mask: Any, source: Any) -> Any:
    """The former name of `masked_scatter_`."""
    warnings.warn("masked_copy_ is deprecated and renamed to masked_scatter_", stacklevel=2)
    return self.masked_scatter_(mask, source)


def is_shared(self: Any) -> bool:
    """Whether other processes see the memory, see :meth:`share_memory_`."""
    return self.storage().is_shared()


def share_memory_(self: Any) -> Any:
    """Moves the tensor's storage into memory that other processes can see; returns the tensor.

    Processes that are forked afterwards, or are sent the tensor through `torchlite.multiprocessing`, share it.

    Raises:
        RuntimeError: arrays or buffers use the memory, or the storage is a part of another.
    """
    self.storage().share_memory_()
    return self


_C._add_tensor_methods({
    f.__name__: f
    for f in (_printing._format, _printing.__format__, _copying.__reduce_ex__, _copying.__deepcopy__, _copying.__copy__,
              _numpy_functions.__array__, _numpy_functions.__array_ufunc__, _numpy_functions.__array_function__,
              tolist, apply_, map_, map2_, cuda, cupy, pin_memory, is_pinned, is_shared, share_memory_,
              _sparse_mask, equal, masked_copy, masked_copy_)
} | {"copy": _numpy_functions._contiguous_copy, "__cuda_array_interface__": property(_cuda_array_interface)} | {
    # The names that programs which also ran under Python 2 give to division.
    former: getattr(_C._TensorBase, name)
    for former, name in (("__div__", "__truediv__"), ("__rdiv__", "__rtruediv__"), ("__idiv__", "__itruediv__"))
})
