"""How storages, and the tensors and Variables on them, reach another process: the memory itself is shared.

A storage that is sent is moved into shared memory first, so that sender and receiver see each other's writes. One whose
memory others hold (arrays, buffers), and a part of a storage that is not shared, is sent by value.
"""

from __future__ import annotations

from multiprocessing import reduction
from typing import Any

from torchlite import _C, _shared_memory
from torchlite.storage import _shared

__all__ = ["register"]


def _rebuild_storage(cls: Any, fd: Any, offset: int, nbytes: int) -> Any:
    memory = _shared_memory.attach(fd.detach(), offset + nbytes)
    return cls._on_buffer(memoryview(memory)[offset:])


def _reduce_storage(storage: Any) -> Any:
    if len(storage) == 0:
        return storage.__reduce__()
    if not storage.is_shared():
        try:
            storage.share_memory_()
        except RuntimeError:
            return storage.__reduce__()
    memory = _shared(storage)
    offset = storage.data_ptr() - _C.ByteStorage._on_buffer(memory).data_ptr()
    nbytes = len(storage) * storage.element_size()
    return _rebuild_storage, (type(storage), reduction.DupFd(memory.fd), offset, nbytes)


def register() -> None:
    """Makes `multiprocessing` send storages so, in this process."""
    for cls in _C._storage_classes:
        reduction.ForkingPickler.register(cls, _reduce_storage)
