"""Nested arguments and results over several devices."""

from torchlite import _C
from torchlite.nn.parallel._functions import Gather, Scatter

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _like(sequence, items):
    """A tuple or list of the sequence's class, which may be a named tuple."""
    return type(sequence)(*items) if hasattr(sequence, "_fields") else type(sequence)(items)


def scatter(inputs, target_gpus, dim=0):
    """The chunks of all Variables in nested tuples, lists and dictionaries: a list of such structures, one a device.

    Other objects are repeated. A batch smaller than the number of devices uses fewer of them.
    """
    devices = list(target_gpus)

    def spread(obj):
        if isinstance(obj, _C._VariableBase):
            return Scatter.apply(devices, None, dim, obj)
        if isinstance(obj, _C._TensorBase):
            raise TypeError("scatter: tensors are not scattered, only Variables: wrap it in one")
        if isinstance(obj, (tuple, list)) and obj:
            return [_like(obj, parts) for parts in zip(*map(spread, obj), strict=False)]
        if isinstance(obj, dict) and obj:
            return [type(obj)(parts) for parts in zip(*map(spread, obj.items()), strict=False)]
        return [obj] * len(devices)

    return list(spread(inputs))


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """`scatter` of positional and keyword arguments: two tuples of equal length, of tuples and of dictionaries."""
    if not inputs and not kwargs:
        return (), ()
    parts = scatter((tuple(inputs), kwargs or {}), target_gpus, dim)
    return tuple([args for args, _ in parts]), tuple([named for _, named in parts])


def gather(outputs, target_device, dim=0):
    """The Variables of several devices' results (nested alike in tuples, lists, dictionaries) joined along `dim` on one
    device, -1 for the host; None stays None.
    """
    first = outputs[0]
    if isinstance(first, _C._VariableBase):
        return Gather.apply(target_device, dim, *outputs)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([o[key] for o in outputs], target_device, dim)) for key in first)
    if isinstance(first, (tuple, list)):
        return _like(first, [gather(parts, target_device, dim) for parts in zip(*outputs, strict=True)])
    raise TypeError(f"gather: results have to be Variables, nested in tuples, lists or dictionaries, not {first!r}")
