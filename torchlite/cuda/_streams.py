"""Devices, streams and events: CuPy's, under the era's names."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from torchlite.cuda import _library
from torchlite.cuda._transfer import device_index


def device_count() -> int:
    """How many devices can be used; 0 where CuPy or the driver is missing."""
    try:
        return _library.load().cuda.runtime.getDeviceCount()
    except Exception:
        return 0


def is_available() -> bool:
    """Whether a CUDA device can be used. Never raises."""
    return device_count() > 0


def current_device() -> int:
    """The number of the device that is current on this thread."""
    return _library.connect().cuda.runtime.getDevice()


def set_device(device: Any) -> None:
    """Makes a device current on this thread; a negative number does nothing."""
    if isinstance(device, int) and device < 0:
        return
    index = device_index(device)
    _library.connect().cuda.runtime.setDevice(index)


class device:  # noqa: N801 (the era's name)
    """``with device(1):`` makes a device current. A negative number, or None, does nothing."""

    def __init__(self, idx: int | None) -> None:
        self.idx = -1 if idx is None else idx
        self._former: list[int] = []

    def __enter__(self) -> device:
        if self.idx >= 0:
            former = current_device()
            set_device(self.idx)
            self._former.append(former)
        else:
            self._former.append(-1)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        set_device(self._former.pop())


class device_of(device):  # noqa: N801
    """``with device_of(x):`` makes the device of a tensor, storage or Variable current; nothing for one on the host."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


def synchronize(device: Any = None) -> None:
    """Waits for all work on a device, the current one by default."""
    index = device_index(device)
    _library.connect().cuda.Device(index).synchronize()


class Stream:
    """A queue of work on a device, created there, or CuPy's stream ``cupy_stream`` under this name.

    ``priority`` is CUDA's: lower numbers go first.
    """

    def __init__(self, device: Any = None, priority: int = 0, *, cupy_stream: Any = None) -> None:
        self.device = device_index(device)
        if cupy_stream is None:
            cupy = _library.connect()
            with cupy.cuda.Device(self.device):
                cupy_stream = cupy.cuda.Stream(non_blocking=True, priority=priority or None)
        self.cupy = cupy_stream

    @property
    def cuda_stream(self) -> int:
        """The address that CUDA knows the stream by; 0 for the default one."""
        return self.cupy.ptr

    def wait_event(self, event: Event) -> None:
        """What is queued from now on waits for the event."""
        self.cupy.wait_event(event.cupy)

    def wait_stream(self, stream: Stream) -> None:
        """What is queued from now on waits for what ``stream`` holds now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Puts an event behind what the stream holds now."""
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work is done."""
        return self.cupy.done

    def synchronize(self) -> None:
        """Waits until all work is done."""
        self.cupy.synchronize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.device, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<torchlite.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A point in a stream's work."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        cupy = _library.connect()
        self.cupy = cupy.cuda.Event(block=blocking, disable_timing=not enable_timing, interprocess=interprocess)

    def record(self, stream: Stream | None = None) -> None:
        """Puts the event behind what the stream (by default the current one) holds now."""
        self.cupy.record((stream or current_stream()).cupy)

    def wait(self, stream: Stream | None = None) -> None:
        """Lets the stream's further work wait for the event."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Whether the event has happened."""
        return self.cupy.done

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; both with ``enable_timing``."""
        return _library.connect().cuda.get_elapsed_time(self.cupy, end_event.cupy)

    def synchronize(self) -> None:
        """Waits for the event."""
        self.cupy.synchronize()


def current_stream() -> Stream:
    """The stream that work on the current device goes to."""
    cupy = _library.connect()
    return Stream(cupy_stream=cupy.cuda.get_current_stream())


class stream:  # noqa: N801 (the era's name)
    """``with stream(s):`` makes a stream, and its device, current; nothing for None."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._open: list[tuple[Any, Any]] = []

    def __enter__(self) -> stream:
        if self.stream is not None:
            cupy = _library.connect()
            former = cupy.cuda.runtime.getDevice()
            cupy.cuda.runtime.setDevice(self.stream.device)
            self._open.append((former, cupy.cuda.get_current_stream()))
            self.stream.cupy.use()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.stream is not None:
            former_device, former_stream = self._open.pop()
            cupy = _library.connect()
            cupy.cuda.runtime.setDevice(self.stream.device)
            former_stream.use()
            cupy.cuda.runtime.setDevice(former_device)


def memory_allocated(device: Any = None) -> int:
    """Bytes of the pool of a device that are in use."""
    cupy = _library.connect()
    with cupy.cuda.Device(device_index(device)):
        return cupy.get_default_memory_pool().used_bytes()


def memory_cached(device: Any = None) -> int:
    """Bytes that the pool of a device holds, in use or not."""
    cupy = _library.connect()
    with cupy.cuda.Device(device_index(device)):
        return cupy.get_default_memory_pool().total_bytes()


def empty_cache() -> None:
    """Gives what the pools hold and nobody uses back to the devices."""
    cupy = _library.connect()
    for index in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(index):
            cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()


