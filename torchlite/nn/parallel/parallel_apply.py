"""Modules called on several devices."""

from torchlite import _C, cuda

__all__ = ["parallel_apply"]


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """The results of `modules[k](*inputs[k], **kwargs_tup[k])`, each called with its device current.

    Without `devices` it is that of the first CUDA Variable among the inputs. The calls are made one after the other on
    this thread: a device works through its queue while the next one's is filled.
    """
    modules, inputs = list(modules), list(inputs)
    kwargs_tup = [{}] * len(modules) if kwargs_tup is None else list(kwargs_tup)
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise ValueError(f"parallel_apply: there are {len(modules)} modules, but {name} has {len(given)} entries")
    results = []
    for k, (module, args) in enumerate(zip(modules, inputs, strict=True)):
        if not isinstance(args, (tuple, list)):
            args = (args,)
        with cuda.device(_device_of((args, kwargs_tup[k])) if devices is None else devices[k]):
            results.append(module(*args, **kwargs_tup[k]))
    return results


def _device_of(obj):
    """The device of the first CUDA Variable in nested arguments, else None."""
    if isinstance(obj, _C._VariableBase):
        return obj.get_device() if obj.data.is_cuda else None
    if isinstance(obj, dict):
        obj = obj.values()
    elif not isinstance(obj, (tuple, list)):
        return None
    return next((d for d in map(_device_of, obj) if d is not None), None)
