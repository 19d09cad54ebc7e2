"""The moves of Variables that data parallelism is made of: operations, whose gradients go the way back."""

from torchlite import cat
from torchlite.cuda import comm

__all__ = ["Broadcast", "Gather", "Scatter"]


class Broadcast:
    """`Broadcast.apply(devices, *variables)`: each Variable on each device, device by device; gradients are added."""

    @staticmethod
    def apply(target_gpus, *inputs):
        return tuple([v.cuda(d) for d in target_gpus for v in inputs])


class Scatter:
    """`Scatter.apply(devices, chunk_sizes, dim, variable)`: chunks, as `torchlite.cuda.comm.scatter`."""

    @staticmethod
    def apply(target_gpus, chunk_sizes, dim, input):
        return tuple(comm._scattered(input, list(target_gpus), chunk_sizes, dim, None))


class Gather:
    """`Gather.apply(device, dim, *variables)`: Variables joined on a device; -1 is the host."""

    @staticmethod
    def apply(target_device, dim, *inputs):
        return cat([comm._place(v, target_device) for v in inputs], dim)
