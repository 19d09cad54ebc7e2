"""Tensors sent to and collected from several devices.

Work goes to the current stream of each device, and is ordered there. A device is an int; for a destination -1 is the
host and None the current device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torchlite import cat
from torchlite.cuda._transfer import device_index

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "scatter"]


def _devices(function: str, devices: Iterable[int]) -> list[int]:
    found = [device_index(d) for d in devices]
    if not found:
        raise ValueError(f"{function}: there must be at least one device, but devices is empty")
    return found


def _place(tensor: Any, destination: int | None) -> Any:
    return tensor.cpu() if destination == -1 else tensor.cuda(device_index(destination))


def broadcast(tensor: Any, devices: Iterable[int]) -> tuple:
    """The tensor on each of ``devices``: itself where it lies there already, else a copy."""
    return tuple([tensor.cuda(d) for d in _devices("broadcast", devices)])


def broadcast_coalesced(tensors: Iterable[Any], devices: Iterable[int], buffer_size: int = 10 << 20) -> list[tuple]:
    """For each device a tuple of the tensors there, as :func:`broadcast`.

    Small tensors of one type and place travel together, in buffers of at most ``buffer_size`` bytes.
    """
    tensors = list(tensors)
    targets = _devices("broadcast_coalesced", devices)
    return [tuple(_moved_together(tensors, d, buffer_size)) for d in targets]


def _moved_together(tensors: list, device: int, buffer_size: int) -> list:
    out: list = [None] * len(tensors)
    groups: dict[Any, list[list[int]]] = {}
    filled: dict[Any, int] = {}
    for i, t in enumerate(tensors):
        nbytes = t.numel() * t.element_size()
        if t.is_cuda and t.get_device() == device:
            out[i] = t
        elif nbytes > buffer_size or not nbytes:
            out[i] = t.cuda(device)
        else:
            key = t.type(), t.get_device() if t.is_cuda else -1
            if key not in groups or filled[key] + nbytes > buffer_size:
                groups.setdefault(key, []).append([])
                filled[key] = 0
            groups[key][-1].append(i)
            filled[key] += nbytes
    for buffers in groups.values():
        for members in buffers:
            flat = cat([tensors[i].contiguous().view(-1) for i in members]).cuda(device)
            at = 0
            for i in members:
                out[i] = flat.narrow(0, at, tensors[i].numel()).view(*tensors[i].size())
                at += tensors[i].numel()
    return out


def reduce_add(inputs: Sequence[Any], destination: int | None = None) -> Any:
    """The sum of tensors of one type and size that lie on any devices, a new tensor on ``destination``.

    ValueError if there is none or if sizes differ.
    """
    if not inputs:
        raise ValueError("reduce_add: there must be at least one tensor, but inputs is empty")
    for i, t in enumerate(inputs):
        if t.size() != inputs[0].size():
            raise ValueError(
                f"reduce_add: inputs[{i}] has size {tuple(t.size())}, but inputs[0] has {tuple(inputs[0].size())}"
            )
    total = _place(inputs[0], destination)
    if total is inputs[0]:
        total = total.clone()
    for t in inputs[1:]:
        total.add_(_place(t, destination))
    return total


def scatter(
    tensor: Any,
    devices: Iterable[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
) -> tuple:
    """Chunks of a tensor along ``dim``, the k-th on the k-th device.

    ``chunk_sizes`` are the chunks' sizes; by default they are equal but for the last, and there may be fewer of them
    than devices. ``streams``, one for each device or None, are the streams that the copies are queued on.

    ValueError if ``chunk_sizes`` differ from the devices in number or do not add up to the tensor's size.
    """
    targets = _devices("scatter", devices)
    return tuple(_scattered(tensor, targets, chunk_sizes, dim, streams))


def _scattered(
    source: Any, targets: list[int], chunk_sizes: Sequence[int] | None, dim: int, streams: Sequence[Any] | None
) -> list:
    """Of a tensor or a Variable."""
    from torchlite.cuda import stream

    size = source.size(dim)
    if chunk_sizes is None:
        each = -(-size // len(targets)) or 1
        chunk_sizes = [min(each, size - at) for at in range(0, size, each)]
    elif len(chunk_sizes) != len(targets) or sum(chunk_sizes) != size:
        raise ValueError(
            f"scatter: chunk_sizes has to name a size for each of {len(targets)} devices and add up to {size}, but is "
            f"{list(chunk_sizes)}"
        )
    chunks, at = [], 0
    for k, n in enumerate(chunk_sizes):
        with stream(streams[k] if streams else None):
            chunks.append(source.narrow(dim, at, n).cuda(targets[k]))
        at += n
    return chunks


def gather(tensors: Sequence[Any], dim: int = 0, destination: int | None = None) -> Any:
    """Tensors that lie on any devices, joined along ``dim`` on ``destination``. ValueError if there is none."""
    if not tensors:
        raise ValueError("gather: there must be at least one tensor, but tensors is empty")
    return cat([_place(t, destination) for t in tensors], dim)
