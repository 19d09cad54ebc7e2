"""Methods of storages that are written in Python: conversions, buffers, files, shared memory.

Importing this module adds them to all storage classes.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from torchlite import _C, _printing
from torchlite._arrays import vector

__all__: list[str] = []


# ---- conversions -----------------------------------------------------------------------------------------------------


def _type(self: Any, new_type: Any = None, async_: bool = False, **kwargs: Any) -> Any:
    """The name of the class; or the elements in a storage of another class.

    Args:
        new_type: the other class, or its name such as ``'torch.DoubleStorage'``. The storage itself comes back if it
            has that class.

    Raises:
        TypeError: `new_type` is no class of storages.
    """
    if new_type is None:
        return self._type_name()
    if isinstance(new_type, str):
        from torchlite._utils import _import_dotted_name

        new_type = _import_dotted_name(new_type if "." in new_type else f"{__package__}.{new_type}")
    if not (isinstance(new_type, type) and issubclass(new_type, _C._StorageBase)):
        raise TypeError(f"type: expected a class of storages or its name, but got {new_type!r}")
    return self if type(self) is new_type else new_type(len(self)).copy_(self)


def _conversion(name: str) -> Any:
    def convert(self: Any, async_: bool = False, **kwargs: Any) -> Any:
        return getattr(vector(self), name)().storage()

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The elements as tensor.{name}() converts them: the storage itself, or a copy."
    return convert


def cuda(self: Any, device: int | None = None, async_: bool = False, **kwargs: Any) -> Any:
    """A copy on a CUDA device (the current one by default); the storage itself if it lies there.

    Raises:
        RuntimeError: CuPy or a device is missing.
    """
    return vector(self).cuda(device, async_, **kwargs).storage()


def new(self: Any, *args: Any) -> Any:
    """A storage of this one's class, made as the class would."""
    return type(self)(*args)


def __deepcopy__(self: Any, memo: dict) -> Any:
    return self.clone()


# ---- memory of others ------------------------------------------------------------------------------------------------



def _count(function: str, name: str, value: Any) -> int:
    """`value` as a number of elements or bytes."""
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{function}: {name} must be an int, but got {value!r}")
    n = operator.index(value)
    if n < 0 or n >= 1 << 58:
        raise ValueError(f"{function}: {name} must be at least 0 and less than 2**58, but got {n}")
    return n


_BYTE_ORDERS = {"native": "=", "little": "<", "big": ">"}


def from_buffer(cls: Any, buffer: Any, byte_order: str = "", count: int = -1, offset: int = 0) -> Any:
    """A storage with a copy of the numbers in a bytes-like object.

    Args:
        byte_order: "native", "little" or "big"; may be left out where elements have one byte.
        count: number of elements; all that follow by default.
        offset: the byte to begin at.

    Raises:
        ValueError: another byte order, or bytes that are not there or no whole number of elements.
    """
    dtype = vector(cls()).dtype
    for name, value in (("count", count), ("offset", offset)):
        if not hasattr(type(value), "__index__"):
            raise TypeError(f"from_buffer: {name} must be an int, but got {value!r}")
    count, offset = operator.index(count), operator.index(offset)
    if not isinstance(byte_order, str) or byte_order not in _BYTE_ORDERS and (byte_order or dtype.itemsize > 1):
        raise ValueError(
            f"from_buffer: invalid byte_order {byte_order!r} (expected 'big', 'little', or 'native')"
        )
    view = memoryview(buffer).cast("B")
    if not 0 <= offset <= len(view):
        raise ValueError(
            "from_buffer: offset must be non-negative and no greater than buffer length "
            f"({len(view)}), but got {offset}"
        )
    available, rest = divmod(len(view) - offset, dtype.itemsize)
    if count < 0:
        if rest:
            raise ValueError(
                f"from_buffer: buffer size ({len(view) - offset}) must be a multiple of element size ({dtype.itemsize})"
            )
        count = available
    if count > available:
        raise ValueError(
            f"from_buffer: buffer has only {available} elements after offset {offset}, but specified a size of {count}"
        )
    given = dtype.newbyteorder(_BYTE_ORDERS.get(byte_order, "="))
    return cls._from_bytes(np.frombuffer(view, given, count, offset).astype(dtype))


def from_file(cls: Any, filename: Any, shared: bool = False, size: int = 0) -> Any:
    """A storage on the memory of a file that is mapped.

    Args:
        shared: whether writes go into the file, which is made, or made longer, as needed. Without it they are seen by
            this process only.
        size: number of elements; as many as the file holds by default.

    Raises:
        ValueError: the file is too short for `size` and not shared, or `size` is negative.
    """
    import mmap
    import os

    from torchlite import _shared_memory

    item = cls().element_size()
    size = _count("from_file", "size", size)
    fd = os.open(filename, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC if shared else os.O_RDONLY | os.O_CLOEXEC, 0o666)
    try:
        held = os.fstat(fd).st_size
        nbytes = size * item if size else held // item * item
        if nbytes > held:
            if not shared:
                raise ValueError(f"from_file: {filename!r} holds {held // item} elements, but {size} were asked for")
            os.ftruncate(fd, nbytes)
        if nbytes == 0:
            return cls()
        if shared:
            return cls._on_buffer(_shared_memory.attach(os.dup(fd), nbytes))
        return cls._on_buffer(mmap.mmap(fd, nbytes, access=mmap.ACCESS_COPY))
    finally:
        os.close(fd)


# ---- shared memory ---------------------------------------------------------------------------------------------------


def _shared(self: Any) -> Any:
    """The SharedMemory that the storage lies in, or None."""
    known = sys.modules.get("torchlite._shared_memory")
    if known is None:
        return None
    owner = self.owner
    while isinstance(owner, _C._StorageBase):  # a part of another storage
        owner = owner.owner
    memory = owner.obj if isinstance(owner, memoryview) else None
    return memory if isinstance(memory, known.SharedMemory) else None


def is_shared(self: Any) -> bool:
    """Whether other processes can see the memory, see :meth:`share_memory_`."""
    return _shared(self) is not None


def share_memory_(self: Any) -> Any:
    """Moves the elements into memory that other processes can see, where all tensors on the storage then find them.

    Processes that are forked afterwards, or are sent the storage through `torchlite.multiprocessing`, share it. The
    memory is freed when the last of them has dropped it. A shared storage cannot grow.

    Raises:
        RuntimeError: arrays or buffers use the memory, the storage is a part of another, or lies on a CUDA device.
    """
    if self.is_cuda:
        raise RuntimeError(
            f"share_memory_: a {self.type()} lies on a CUDA device, whose memory other processes cannot see; "
            "use cpu() first"
        )
    if not is_shared(self):
        from torchlite import _shared_memory

        self._move_into(_shared_memory.allocate(self._capacity))
    return self


def _new_shared(cls: Any, size: int) -> Any:
    """A storage of `size` elements, zeros, in memory that other processes can see."""
    from torchlite import _shared_memory

    nbytes = _count("_new_shared", "size", size) * cls().element_size()
    return cls._on_buffer(memoryview(_shared_memory.allocate(nbytes))[:nbytes])


def is_pinned(self: Any) -> bool:
    """Whether the memory is page-locked for CUDA."""
    return vector(self).is_pinned()


def pin_memory(self: Any) -> Any:
    """A copy in page-locked memory; the storage itself if it lies there.

    Raises:
        RuntimeError: CuPy or a device is missing.
    """
    return vector(self).pin_memory().storage()


_C._add_storage_methods({
    f.__name__: f for f in (cuda, new, __deepcopy__, is_shared, share_memory_, is_pinned, pin_memory)
} | {
    f.__name__: classmethod(f) for f in (from_buffer, from_file, _new_shared)
} | {
    name: _conversion(name) for name in ("double", "float", "half", "long", "int", "short", "char", "byte", "cpu")
} | {"type": _type, "_format": _printing._format_storage})
