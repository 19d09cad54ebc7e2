"""What the extension asks of CuPy beyond single calls: allocation, fills, and copies within and between places."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from torchlite.cuda import _library

# Page-locked host memory: address and bytes. Copies from it are queued, unlike those from other memory.
pinned: dict[int, int] = {}
capture = threading.local()  # ``active`` while this thread captures a graph

# Pinned arrays that queued copies read, each behind the event of its copy.
_reads: list[tuple[Any, Any]] = []
_reads_lock = threading.RLock()  # an array's end may run code that copies another one


def hold_until_read(array: Any, stream: Any) -> None:
    """Keeps an array until what ``stream`` holds now is done: memory that is given up is the next one's at once."""
    with _reads_lock:
        _reads[:] = [(event, held) for event, held in _reads if not event.done]
        _reads.append((stream.record(), array))


def forget_reads() -> None:
    with _reads_lock:
        _reads.clear()


def is_pinned(address: int) -> bool:
    return any(start <= address < start + max(size, 1) for start, size in pinned.items())


def empty(shape: tuple[int, ...], dtype: Any, device: int) -> Any:
    """An uninitialised array in the pool of ``device``."""
    cupy = _library.connect()
    with cupy.cuda.Device(device):
        return cupy.empty(shape, dtype)


def fill(array: Any, number: Any) -> None:
    """Sets every element."""
    array.fill(number)


def number(array: Any) -> Any:
    """The only element as a Python number. Waits for the device."""
    return array.item()


def as_described(array: Any, dtype: Any) -> Any:
    """A contiguous copy in ``dtype``."""
    return array.astype(dtype, order="C", copy=True)


def wait(stream: Any, other: Any) -> None:
    """Lets ``stream`` wait for what ``other`` holds now; None is the default stream of the current device.

    Not while a graph is captured: it holds the work of one stream, and its launches are ordered as a whole.
    """
    if getattr(capture, "active", False):
        return
    null = _library.connect().cuda.Stream.null
    (null if stream is None else stream).wait_event((null if other is None else other).record())


def state() -> tuple[int, Any]:
    """The current device and its current stream."""
    cuda = _library.connect().cuda
    return cuda.runtime.getDevice(), cuda.get_current_stream()


def restore(former: tuple[int, Any]) -> None:
    """Makes a :func:`state` current again."""
    device, stream = former
    _library.connect().cuda.runtime.setDevice(device)
    stream.use()


def copy(dst: Any, src: Any, stream: Any = None) -> None:
    """``dst[...] = src``, cast and broadcast; either may be an ndarray, and two arrays may lie on different devices.

    Without ``stream`` the host's memory may be written again when this returns. With one the copy is only queued, for
    which that memory has to be pinned, C-contiguous and of the device's type and size.
    """
    if dst.size == 0 and dst.shape == src.shape:
        return
    if isinstance(dst, np.ndarray):
        _to_host(dst, src, stream)
    elif isinstance(src, np.ndarray):
        _to_device(dst, src, stream)
    elif dst.device.id == src.device.id:
        if dst.dtype == src.dtype and dst.shape == src.shape:
            dst[...] = src
        else:
            cupy = _library.connect()
            cupy.copyto(dst, src, casting="unsafe")
    else:
        _between_devices(dst, src)


def _to_host(dst: np.ndarray, src: Any, stream: Any) -> None:
    if dst.dtype == src.dtype and dst.shape == src.shape and dst.flags.c_contiguous and src.flags.c_contiguous:
        src.get(stream=stream, out=dst, blocking=stream is None)
    else:
        np.copyto(dst, src.get(), casting="unsafe")


def _to_device(dst: Any, src: np.ndarray, stream: Any) -> None:
    if dst.shape != src.shape:
        src = np.broadcast_to(src, dst.shape)
    src = np.array(src, dst.dtype, order="C", copy=None)
    if dst.flags.c_contiguous:
        dst.set(src, stream=stream)
    else:
        cupy = _library.connect()
        staging = cupy.empty(dst.shape, dst.dtype)
        staging.set(src, stream=stream)
        dst[...] = staging
    if stream is None and pinned and is_pinned(src.ctypes.data):
        _library.connect().cuda.get_current_stream().synchronize()


def _between_devices(dst: Any, src: Any) -> None:
    """Casts where the source lies, moves bytes, and broadcasts where the destination lies; no host memory is used."""
    cupy = _library.connect()
    with src.device:
        source = src.astype(dst.dtype, order="C", copy=not src.flags.c_contiguous)
        sent = cupy.cuda.get_current_stream().record()
    with dst.device:
        stream = cupy.cuda.get_current_stream()
        stream.wait_event(sent)
        direct = dst.flags.c_contiguous and dst.shape == source.shape
        target = dst if direct else cupy.empty(source.shape, dst.dtype)
        target.data.copy_from_device_async(source.data, source.nbytes, stream)
        if not direct:
            dst[...] = target
        arrived = stream.record()
    with src.device:
        # The source's memory is not used for anything else before it has been read.
        cupy.cuda.get_current_stream().wait_event(arrived)
