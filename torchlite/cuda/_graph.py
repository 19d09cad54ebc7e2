"""Work captured into CUDA graphs, and launched as one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torchlite import _C
from torchlite.cuda import _library, _memory
from torchlite.jit.passes.effects import is_pure, locals_of

__all__ = ["Graphs", "device_of", "why_not"]


def why_not(lam: Any, device: int) -> str | None:
    """Why a lambda cannot be captured: the first operation that the host has to take part in, or None."""
    for let in lam.lets:
        if type(let.rhs) is not _C.CppApply:
            return f"{let.name} is a Python Function"
        # The running statistics of a batch norm lie where they lie, so a launch may write them.
        if not is_pure(let) and let.name != "BatchNorm":
            return f"{let.name} draws random numbers or writes what is not its result"
        if let.op.in_python:
            return f"{let.name} may look at what it computes"
        if let.op.name == "masked_select" or any(
            local.type.dtype == "Byte" for local in locals_of(let.args[1:])
        ) and let.op.name.endswith(("index", "index_backward")):
            return f"the size of what {let.name} gives is in the data"
        if any(r.type.device != device for r in let.results):
            return f"{let.name} leads to another place"
    return None


def device_of(tensors: list) -> int | None:
    """The one device on which all tensors or Variables lie; None if there is none."""
    devices = {t.get_device() if t.is_cuda else -1 for t in tensors}
    return devices.pop() if len(devices) == 1 and devices != {-1} else None


class Graphs:
    """Graphs of one device that share a pool of memory.

    Nobody else draws from the pool, so that a launch may write all that it held while something was captured. Launches
    come one after the other, whatever streams they are on.
    """

    def __init__(self, device: int) -> None:
        cupy = _library.connect()
        self.device, self.pool = device, cupy.cuda.MemoryPool()
        with cupy.cuda.Device(device):
            self.stream = cupy.cuda.Stream(non_blocking=True)  # the default stream cannot be captured
        self.user = self.stream  # of the last launch

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within, work goes to the stream that is captured, behind what the current one holds; the latter waits for it
        at the end. Memory comes from the pool.
        """
        cupy = _library.connect()
        with cupy.cuda.Device(self.device), cupy.cuda.using_allocator(self.pool.malloc):
            current = cupy.cuda.get_current_stream()
            self.stream.wait_event(current.record())
            try:
                with self.stream:
                    yield
            finally:
                current.wait_event(self.stream.record())

    def capture(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        """The graph of what ``work()`` launches, and its results, whose contents are there after a launch.

        To be called :meth:`aside`, after the same work has been done there once: compiling kernels, making handles and
        growing the pool cannot be captured.
        """
        self.stream.begin_capture()
        _memory.capture.active = True
        try:
            results = work()
        except BaseException:
            with contextlib.suppress(Exception):  # CUDA has given the capture up already
                self.stream.end_capture()
            raise
        finally:
            _memory.capture.active = False
        return self.stream.end_capture(), results

    @contextlib.contextmanager
    def launching(self) -> Iterator[Any]:
        """Within, the device is current, and its current stream comes after all former launches: the stream."""
        cupy = _library.connect()
        with cupy.cuda.Device(self.device):
            stream = cupy.cuda.get_current_stream()
            if stream != self.user:
                stream.wait_event(self.user.record())
                self.user = stream
            yield stream
