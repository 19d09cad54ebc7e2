"""Replays captured into CUDA graphs: all kernels of a program as one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlite import _C
from torchlite.autograd import Variable
from torchlite.cuda import _library
from torchlite.jit.passes.effects import is_pure, locals_of

__all__ = ["Capture", "why_not"]


def why_not(lam: Any) -> str | None:
    """Why a lambda cannot be captured: the first operation that the host has to take part in, or None."""
    for let in lam.lets:
        if type(let.rhs) is not _C.CppApply:
            return f"{let.name} is a Python Function"
        if not is_pure(let):
            return f"{let.name} draws random numbers or writes what is not its result"
        if let.op.in_python:
            return f"{let.name} may look at what it computes"
        if let.op.name == "masked_select" or any(
            local.type.dtype == "Byte" for local in locals_of(let.args[1:])
        ) and let.op.name.endswith(("index", "index_backward")):
            return f"the size of what {let.name} gives is in the data"
    return None


def _tensors(variables: Any) -> list:
    return [v.data for v in variables]


class Capture:
    """One run of a program on a device, captured.

    Its memory comes from a pool of its own, which nobody else draws from, so that a launch may write it at any time.
    The arguments are copied into fixed tensors before a launch, and results out of them after it; parameters are read
    where they lie, and :meth:`fits` says whether they still lie there.
    """

    def __init__(self, run: Callable[..., tuple], inputs: list, n_arguments: int) -> None:
        cupy = _library.connect()
        tensors = _tensors(inputs)
        self.device = tensors[0].get_device()
        self.n_arguments = n_arguments
        self.addresses = [t.data_ptr() for t in tensors[n_arguments:]]
        self.kept = tensors[n_arguments:]
        self.pool = cupy.cuda.MemoryPool()
        with cupy.cuda.Device(self.device), cupy.cuda.using_allocator(self.pool.malloc):
            self.arguments = [t.clone() for t in tensors[:n_arguments]]
            fixed = [Variable(t) for t in [*self.arguments, *self.kept]]
            current, stream = cupy.cuda.get_current_stream(), cupy.cuda.Stream(non_blocking=True)
            stream.wait_event(current.record())
            with stream:
                run(*fixed)  # compiles kernels, makes handles and fills the pool: none of that can be captured
                stream.begin_capture()
                try:
                    self.results = _tensors(run(*fixed))
                finally:
                    self.graph = stream.end_capture()
            current.wait_event(stream.record())

    def fits(self, inputs: list) -> bool:
        """Whether the parameters lie where they lay."""
        return [v.data.data_ptr() for v in inputs[self.n_arguments:]] == self.addresses

    def launch(self, inputs: list) -> tuple:
        """The results for these arguments, new Variables."""
        cupy = _library.connect()
        with cupy.cuda.Device(self.device):
            for fixed, v in zip(self.arguments, inputs, strict=False):
                fixed.copy_(v.data)
            self.graph.launch(cupy.cuda.get_current_stream())
            return tuple(Variable(t.clone()) for t in self.results)


def device_of(inputs: list) -> int | None:
    """The one device on which all inputs lie; None if there is none."""
    devices = {v.get_device() if v.data.is_cuda else -1 for v in inputs}
    return devices.pop() if len(devices) == 1 and devices != {-1} else None
