"""Tensors between places: to a device, in pinned memory, as other libraries and pickles see them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlite import _C
from torchlite._arrays import vector
from torchlite.cuda import _library, _memory

_CUDA_CLASS = dict(zip((c.__name__ for c in _C._cuda_tensor_classes), _C._cuda_tensor_classes, strict=True))


def is_async(async_: Any, kwargs: dict[str, Any]) -> bool:
    """The era's ``async``, a reserved word now, arrives through a dict; ``non_blocking`` is its later name."""
    unknown = set(kwargs) - {"async", "non_blocking"}
    if unknown:
        raise TypeError(f"cuda() got an unexpected keyword argument {unknown.pop()!r}")
    return bool(async_ or any(kwargs.values()))


def device_index(device: Any) -> int:
    """The device that an int, a ``torchlite.cuda.device`` or CuPy's Device means; None is the current one.

    Raises:
        RuntimeError: there is no such device.
    """
    cupy = _library.connect()
    if device is None:
        return cupy.cuda.runtime.getDevice()
    index = device.idx if hasattr(device, "idx") else device.id if hasattr(device, "id") else device
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"a device is an int or a torchlite.cuda.device, but got {type(device).__name__}")
    count = cupy.cuda.runtime.getDeviceCount()
    if not 0 <= index < count:
        raise RuntimeError(f"there is no CUDA device {index}: {count} can be used, numbered from 0")
    return index


def to_device(tensor: Any, device: Any, queued: bool = False) -> Any:
    """``tensor`` on a device: itself if it lies there, else a copy."""
    index = device_index(device)
    if tensor.is_cuda and tensor.get_device() == index:
        return tensor
    cls = type(tensor)
    name = cls.__name__ if cls.__name__ in _CUDA_CLASS else next(
        base.__name__ for base in cls.__mro__ if base.__name__ in _CUDA_CLASS)
    out = _C._cuda_empty(_CUDA_CLASS[name], tuple(tensor.size()), index)
    if queued and is_pinned(tensor) and tensor.is_contiguous():
        cupy = _library.connect()
        with cupy.cuda.Device(index):
            source, stream = tensor._numpy(), cupy.cuda.get_current_stream()
            _memory.copy(out.cupy(), source, stream)
            _memory.hold_until_read(source, stream)
        return out
    return out.copy_(tensor)


# ---- pinned memory ---------------------------------------------------------------------------------------------------

def pin_memory(tensor: Any) -> Any:
    """A copy of a tensor on the host in page-locked memory; itself if it lies there."""
    if tensor.is_cuda:
        raise TypeError(f"pin_memory: only memory of the host can be pinned, but the tensor is a {tensor.type()}")
    if is_pinned(tensor):
        return tensor
    cupy = _library.connect()
    source = tensor._numpy()
    memory = cupy.cuda.alloc_pinned_memory(max(source.nbytes, 1))
    array: Any = np.frombuffer(memory, source.dtype, source.size).reshape(source.shape)
    array[...] = source
    address = array.ctypes.data
    _memory.pinned[address] = source.nbytes
    weakref.finalize(array.base if isinstance(array.base, np.ndarray) else array, _memory.pinned.pop, address, None)
    return _C.from_numpy(array)


def is_pinned(tensor: Any) -> bool:
    """Whether a tensor lies in memory that :func:`pin_memory` made."""
    return not tensor.is_cuda and _memory.is_pinned(tensor.data_ptr())


# ---- other libraries -------------------------------------------------------------------------------------------------


def array_interface(tensor: Any) -> dict:
    """``__cuda_array_interface__``, version 3. ``stream`` is the one that the tensor's contents are ready on."""
    array = tensor.cupy()
    cupy = _library.connect()
    stream = cupy.cuda.get_current_stream(tensor.get_device())
    return {
        "shape": tuple(tensor.size()),
        "typestr": array.dtype.str,
        "data": (tensor.data_ptr() if tensor.numel() else 0, tensor.readonly),
        "version": 3,
        "strides": None if tensor.is_contiguous() else tuple(array.strides),
        "stream": stream.ptr or 1,  # 0 is not allowed there; 1 is the default stream
    }


def from_cupy(array: Any) -> Any:
    """A tensor on the memory of a cupy.ndarray, or of what has ``__cuda_array_interface__``; nothing is copied."""
    cupy = _library.connect()
    if not isinstance(array, cupy.ndarray):
        if not hasattr(array, "__cuda_array_interface__"):
            raise TypeError(f"from_cupy: expected a cupy.ndarray, but got {type(array).__name__}")
        array = cupy.asarray(array)
    return _C._from_cupy(array)


def dlpack(tensor: Any, **options: Any) -> Any:
    """``__dlpack__``: CuPy's, which makes the consumer's stream wait for the current one."""
    if tensor.readonly:
        raise BufferError("__dlpack__: read-only memory on a CUDA device cannot be exported")
    with _library.connect().cuda.Device(tensor.get_device()):
        return tensor.cupy().__dlpack__(**options)


class _Capsule:
    """A producer around a bare capsule."""

    def __init__(self, capsule: Any, place: tuple[int, int]) -> None:
        self.capsule, self.place = capsule, place

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place


def from_dlpack(source: Any, place: tuple[int, int], device: Any = None, copy: bool | None = None) -> Any:
    """A tensor on the CUDA memory of an object with ``__dlpack__``, or of a capsule; ``place`` says where that lies.

    Raises:
        BufferError: ``device`` asks for another place and ``copy`` forbids to go there.
    """
    cupy = _library.connect()
    producer = source if hasattr(source, "__dlpack__") else _Capsule(source, place)
    with cupy.cuda.Device(place[1]):
        tensor = _C._from_cupy(cupy.from_dlpack(producer))
        if device is not None and device != tuple(place):
            if copy is False:
                raise BufferError(f"from_dlpack: the memory lies on device {place}, not on {device!r}")
            if device in ("cpu", (1, 0)):
                return tensor.cpu()
            return tensor.cuda(device[1] if isinstance(device, tuple) else device)
        return tensor.clone() if copy else tensor


# ---- pickles and copies ----------------------------------------------------------------------------------------------


def _rebuild_storage(host: Any, device: int) -> Any:
    """The storage's contents on its device, or on the current one where there are fewer devices now."""
    try:
        cupy = _library.connect()
    except RuntimeError as e:
        raise RuntimeError(f"{e}. A CUDA tensor is loaded onto the host by load(..., map_location='cpu')") from e
    index = device if device < cupy.cuda.runtime.getDeviceCount() else cupy.cuda.runtime.getDevice()
    return to_device(vector(host), index).storage()


def reduce_storage(storage: Any) -> tuple[Callable, tuple]:
    """How a storage on a device is pickled: as its contents on the host, and the device's number."""
    elements = vector(storage)
    return _rebuild_storage, (elements.cpu().storage(), elements.get_device())


def clone_storage(storage: Any) -> Any:
    """A copy on the same device."""
    return vector(storage).clone().storage()
