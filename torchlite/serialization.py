"""Saving to and loading from files.

Two formats. The package's own is a short header and a pickle: it takes any object (state dicts, modules, checkpoints
made of both), keeps sharing of memory, and must only be loaded from files that are trusted, since unpickling runs code.
A path that ends in `.safetensors` stands for that format instead: a dictionary of tensors, safe to load from anywhere
and readable elsewhere; it needs the package safetensors (`pip install safetensors`).
"""

import os
import pickle
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np

from torchlite import _C, _copying
from torchlite._arrays import class_of_tensors
from torchlite.utils.typename import typename

__all__ = ["load", "save"]

_HEADER = b"torchlite\x01"
_PROTOCOL = 5  # arrays are written without a copy, and may be larger than 4 GiB


def save(obj, f, pickle_module=pickle, pickle_protocol=_PROTOCOL):
    """Writes `obj` to `f`, a path or a binary file that is open for writing.

    A path is written as a whole or not at all: a failure leaves a file that was there before as it was. A path that
    ends in `.safetensors` takes a dictionary from names to tensors, Variables or arrays (else TypeError).
    """
    if hasattr(f, "write"):
        _write(obj, f, pickle_module, pickle_protocol)
        return
    path = os.fsdecode(f)
    if _is_safetensors(path):
        data = _safetensors("save").save({name: _array(name, value) for name, value in _items(obj)})
        _replace(path, lambda file: file.write(data))
    else:
        _replace(path, lambda file: _write(obj, file, pickle_module, pickle_protocol))


def load(f, map_location=None, pickle_module=pickle):
    """Reads the object that `save` wrote to `f`, a path or a binary file that is open for reading.

    Unpickling runs code from the file: load only files that you trust, or `.safetensors`, which come back as an
    OrderedDict of tensors.

    Tensors come back where they were, or on the current device where theirs is missing now. `map_location` says
    otherwise: 'cpu', 'cuda' (the current device) or 'cuda:1' for all; a dictionary from such names to others; or a
    function that gets each storage in host memory and the name of the place where it was, and returns a storage, or
    None for the usual place. Storages that are saved without a tensor and were on the host stay there.

    Files that `torch.save` wrote in 2017 are read too, onto the CPU: state dicts, tensors, Variables, modules of
    classes that torchlite has.

    RuntimeError if the file is none of `save`'s, or holds CUDA tensors and there is no device for them;
    NotImplementedError for another `map_location`.
    """
    places = None if map_location is None else _Places(map_location)
    if hasattr(f, "read"):
        return _read(f, getattr(f, "name", f), pickle_module, places)
    path = os.fsdecode(f)
    if _is_safetensors(path):
        arrays = _safetensors("load").load_file(path)
        tensors = OrderedDict((name, _C.from_numpy(array)) for name, array in arrays.items())
        return OrderedDict((name, places.moved(t)) for name, t in tensors.items()) if places else tensors
    with open(path, "rb") as file:
        return _read(file, path, pickle_module, places)


class _Places:
    """Where a `map_location` puts what is loaded; for one load."""

    def __init__(self, map_location):
        if isinstance(map_location, str):
            _device(map_location)
        elif isinstance(map_location, Mapping):
            for name in map_location.values():
                _device(name)
        elif not callable(map_location):
            raise _unknown(map_location)
        self.map_location = map_location
        self.known = {}  # host storages that were mapped before, by id: themselves, and the result
        self.substitutes = {
            ("torchlite.cuda._transfer", "_rebuild_storage"): lambda host, device: self.place(host, f"cuda:{device}"),
            ("torchlite._copying", "_rebuild_tensor"): self._rebuild_tensor,
        }

    def place(self, storage, location):
        """The storage where it shall be; `storage` lies on the host, and what it holds was at `location`."""
        target = self.map_location
        if isinstance(target, str):
            location = target
        elif isinstance(target, Mapping):
            location = target.get(location, location)
        else:
            found = target(storage, location)
            if found is not None:
                return found
        device = _device(location)
        if device == "cpu":
            return storage
        from torchlite.cuda import _transfer

        if device is None:
            return storage.cuda()
        return _transfer._rebuild_storage(storage, device)

    def _rebuild_tensor(self, cls, storage, offset, size, stride):
        if not storage.is_cuda and not cls.is_cuda:
            if id(storage) not in self.known:
                self.known[id(storage)] = storage, self.place(storage, "cpu")
            storage = self.known[id(storage)][1]
        if storage.is_cuda != cls.is_cuda:
            cls = class_of_tensors(storage)
        return _copying._rebuild_tensor(cls, storage, offset, size, stride)

    def moved(self, tensor):
        storage = self.place(tensor.storage(), "cpu")
        cls = class_of_tensors(storage)
        return self._rebuild_tensor(cls, storage, 0, tensor.size(), tensor.stride()) if storage.is_cuda else tensor


def _device(location):
    """'cpu', or the number of the device that a name stands for: None for the current one."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", location) if isinstance(location, str) else None
    if match is None:
        raise _unknown(location)
    return "cpu" if location == "cpu" else None if match[1] is None else int(match[1])


def _unknown(location):
    return NotImplementedError(
        "load: map_location has to be 'cpu', 'cuda', 'cuda:<number>', a dictionary of these, a function or None, "
        f"but is {location!r}"
    )


def _write(obj, file, pickle_module, protocol):
    file.write(_HEADER)
    pickle_module.dump(obj, file, protocol=protocol)


def _read(file, name, pickle_module, places=None):
    from .compat import files

    head = file.read(len(_HEADER))
    if head == _HEADER:
        return files.unpickler(file, pickle_module, substitutes=places and places.substitutes).load()
    if files.MAGIC.startswith(head) and head + file.read(len(files.MAGIC) - len(head)) == files.MAGIC:
        return files.read(file, name, pickle_module)
    raise RuntimeError(f"load: {name!r} is not a file that torchlite.save wrote")


def _replace(path, write):
    """Lets `write(file)` make a new file beside `path`, then puts it in the place of `path` in one step."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe
        with open(path, "wb") as file:
            write(file)
        return
    temporary = f"{path}.{secrets.token_hex(6)}.tmp"
    try:
        with open(temporary, "xb") as file:
            write(file)
        if os.path.exists(path):
            os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


# ---- safetensors ----


def _is_safetensors(path):
    return path.endswith(".safetensors")


def _safetensors(function):
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            f"{function}: a .safetensors file needs the package safetensors: pip install safetensors"
        ) from None
    return safetensors.numpy


def _items(obj):
    if not isinstance(obj, Mapping):
        raise TypeError(f"save: a .safetensors file holds a dictionary of tensors, but got a {typename(obj)}")
    return obj.items()


def _array(name, value):
    if not isinstance(name, str):
        raise TypeError(f"save: names in a .safetensors file are strings, but got the {typename(name)} {name!r}")
    if isinstance(value, _C._VariableBase):
        value = value.data
    if isinstance(value, _C._TensorBase):
        value = value.cpu().numpy()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"save: '{name}' has to be a tensor in a .safetensors file, but is a {typename(value)}")
    return np.ascontiguousarray(value).reshape(value.shape)
