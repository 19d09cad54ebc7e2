"""Saving to and loading from files.

Two formats. The package's own is a short header and a pickle: it takes any object (state dicts, modules, checkpoints
made of both), keeps sharing of memory, and must only be loaded from files that are trusted, since unpickling runs code.
A path that ends in `.safetensors` stands for that format instead: a dictionary of tensors, safe to load from anywhere
and readable elsewhere; it needs the package safetensors (`pip install torchlite[examples]`).
"""

import os
import pickle
import secrets
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np

from torchlite import _C
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
    OrderedDict of tensors. Tensors are loaded onto the CPU, which is what `map_location` may ask for. Files that
    `torch.save` wrote in 2017 are read too: state dicts, tensors, Variables, modules of classes that torchlite has.
    RuntimeError if the file is none of `save`'s.
    """
    if isinstance(map_location, str) and map_location != "cpu":
        raise NotImplementedError(f"load: map_location has to be 'cpu', a function or None, but is {map_location!r}")
    if hasattr(f, "read"):
        return _read(f, getattr(f, "name", f), pickle_module)
    path = os.fsdecode(f)
    if _is_safetensors(path):
        arrays = _safetensors("load").load_file(path)
        return OrderedDict((name, _C.from_numpy(array)) for name, array in arrays.items())
    with open(path, "rb") as file:
        return _read(file, path, pickle_module)


def _write(obj, file, pickle_module, protocol):
    file.write(_HEADER)
    pickle_module.dump(obj, file, protocol=protocol)


def _read(file, name, pickle_module):
    from .compat import files

    head = file.read(len(_HEADER))
    if head == _HEADER:
        return files.unpickler(file, pickle_module).load()
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
            f"{function}: a .safetensors file needs the package safetensors: pip install torchlite[examples]"
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
